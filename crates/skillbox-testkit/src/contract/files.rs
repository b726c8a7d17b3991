//! Files in and out.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::time::Duration;

use super::harness::collect_op;
use super::{Harness, Ran};

pub async fn put_makes_folders_and_modes(h: &Harness) {
    h.put("a/b/c.txt", "content").await;
    h.put_script("a/run.sh", "#!/bin/sh\necho ran\n").await;
    assert_eq!(
        h.sh("cat a/b/c.txt; stat -c ' %a' a/b/c.txt a/run.sh a/b; a/run.sh").await.ok(),
        "content 644\n 755\n 755\nran\n"
    );
    h.put("a/b/c.txt", "other").await;
    assert_eq!(h.sh("cat a/b/c.txt; echo more >> a/b/c.txt; cat a/b/c.txt").await.ok(), "otherothermore\n");
    h.put("empty", "").await;
    let large: Vec<u8> = (0..5_000_000_u32).map(|i| u8::try_from(i % 253).unwrap()).collect();
    h.put("large", large.clone()).await;
    assert!(h.read("large", u64::MAX).await.unwrap() == large);
    assert_eq!(h.read("empty", 10).await.unwrap(), b"");
}

pub async fn put_follows_no_link(h: &Harness) {
    let secret = h.outside().join("secret");
    std::fs::write(&secret, "untouched").unwrap();
    let script = format!(
        "ln -s {} out; ln -s ../../../../../../etc up; ln -s {} file; ln -s inner good; mkdir inner; ln -s /tmp tmp; : > plain",
        h.outside().display(),
        secret.display()
    );
    h.sh(&script).await.ok();
    for path in ["out/new", "up/new", "good/new", "tmp/new", "plain/new", "file/new"] {
        let put = h.sandbox().put(path.as_bytes(), b"x".to_vec(), false).await;
        assert!(put.is_err(), "{path} was written");
    }
    // A link in the file's own place gives way or stands, and is not followed.
    let _ = h.sandbox().put(b"file", b"x".to_vec(), false).await;
    assert_eq!(std::fs::read_to_string(&secret).unwrap(), "untouched");
    assert_eq!(h.sh("ls -A /tmp inner").await.ok(), "/tmp:\n\ninner:\n");
    for path in ["../x", "/etc/x", "a/../../x", "", "."] {
        assert!(
            h.sandbox().put(path.as_bytes(), b"x".to_vec(), false).await.is_err(),
            "{path:?} was written"
        );
    }
    h.assert_usable().await;
}

pub async fn read_reads_regular_files_alone(h: &Harness) {
    h.sh("echo content > file; ln -s file link; ln -s /etc/passwd outside; mkfifo fifo; mkdir dir; ln -s dir via; echo x > dir/x").await.ok();
    assert_eq!(h.read("file", 100).await.unwrap(), b"content\n");
    assert_eq!(h.read("file", 3).await.unwrap(), b"con");
    assert_eq!(h.read("dir/x", 100).await.unwrap(), b"x\n");
    assert_eq!(h.read("none", 100).await.unwrap_err(), 2);
    for path in ["link", "outside", "fifo", "dir", "via/x", "../secret", "/etc/passwd", "dir/../file", ""] {
        let read = tokio::time::timeout(Duration::from_secs(5), h.read(path, 100)).await;
        assert!(read.unwrap_or_else(|_| panic!("{path} blocks")).is_err(), "{path} was read");
    }
}

pub async fn files_are_new_modified_or_untouched(h: &Harness) {
    h.sh("mkdir out; cd out; for f in kept rewritten appended chmodded replaced removed; do echo $f > $f; done; echo old > moved-away").await.ok();
    let ran = h
        .sh("cd out; echo x > new; echo REWRITTEN > rewritten; echo more >> appended; chmod 600 chmodded; \
             echo replaced > .tmp; mv .tmp replaced; rm removed; mv moved-away moved; cat kept > /dev/null; : > empty")
        .await
        .expect_code(0);
    let found = h.collect(&["out/**"], Some(&ran)).await;
    let flags = |path: &str| {
        let file = found.file(path);
        (file.created, file.touched)
    };
    assert_eq!(flags("out/new"), (true, true));
    assert_eq!(flags("out/empty"), (true, true));
    assert_eq!(flags("out/rewritten"), (false, true));
    assert_eq!(flags("out/appended"), (false, true));
    assert_eq!(flags("out/chmodded"), (false, true));
    assert!(flags("out/replaced").1);
    // Its name is new, and it is reported, though its content is older than the command.
    assert!(flags("out/moved").1);
    assert_eq!(flags("out/kept"), (false, false));
    assert_eq!(found.file("out/new").content.as_slice(), b"x\n");
    assert_eq!(found.file("out/chmodded").mode & 0o777, 0o600);
    assert_eq!(found.files.len(), 8, "{:?}", found.paths());
    let mut op = collect_op(&["out/**"], Some(&ran));
    op.changed_only = true;
    let changed = h.collect_op(op).await;
    assert_eq!(changed.files.len(), 7, "{:?}", changed.paths());
    // Judged against nothing, nothing is new.
    assert!(h.collect(&["out/**"], None).await.files.iter().all(|file| !file.created && !file.touched));
}

pub async fn a_rewrite_of_the_same_size_is_seen_within_the_clock_s_grain(h: &Harness) {
    h.put("out/a", "00").await;
    h.put("out/b", "00").await;
    for round in 10..110 {
        let ran: Ran = h.sh(&format!("printf {round} > out/a")).await.expect_code(0);
        let found = h.collect(&["out/*"], Some(&ran)).await;
        assert_eq!(found.file("out/a").content.as_slice(), round.to_string().as_bytes());
        assert!(found.file("out/a").touched, "round {round}: the rewrite was not seen");
        assert!(!found.file("out/b").touched, "round {round}: the other file was not written");
        // A command that follows at once did not write it.
        let ran = h.sh(":").await.expect_code(0);
        assert!(
            !h.collect(&["out/a"], Some(&ran)).await.file("out/a").touched,
            "round {round}: not written again"
        );
        // Nor did the engine's own writing happen during a command.
        h.put("out/b", round.to_string()).await;
        let ran = h.sh(":").await.expect_code(0);
        assert!(
            !h.collect(&["out/b"], Some(&ran)).await.file("out/b").touched,
            "round {round}: put before it began"
        );
    }
}

pub async fn f120_only_regular_files_are_collected(h: &Harness) {
    let script = "mkdir out; cd out; echo x > file; ln -s file inside; ln -s /etc/passwd outside; ln -s gone dead; mkfifo fifo; ln file hard; \
                  /usr/bin/python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"sock\")'; mkdir dir";
    let ran = h.sh(script).await.expect_code(0);
    let found = tokio::time::timeout(Duration::from_secs(5), h.collect(&["out/*"], Some(&ran)))
        .await
        .expect("nothing blocks");
    assert_eq!(found.paths(), ["out/file", "out/hard"]);
    let skipped: Vec<_> = found
        .summary
        .skipped
        .iter()
        .map(|(path, kind)| (String::from_utf8_lossy(path).into_owned(), kind.as_str()))
        .collect();
    for (path, kind) in [
        ("out/dead", "a symbolic link"),
        ("out/fifo", "a pipe, socket or device"),
        ("out/inside", "a symbolic link"),
        ("out/outside", "a symbolic link"),
        ("out/sock", "a pipe, socket or device"),
    ] {
        assert!(skipped.contains(&(path.to_owned(), kind)), "{path}: {skipped:?}");
    }
}

pub async fn f119_no_link_on_the_way_is_followed(h: &Harness) {
    h.sh("mkdir out; ln -s /proc/self out/hop; ln -s ../../.. out/a; ln -s /etc out/etc; ln -s /workspace/real out/real; mkdir real; echo x > real/x").await.ok();
    for pattern in
        ["out/hop/environ", "out/a/etc/passwd", "out/etc/*", "out/**/passwd", "out/real/x", "out/*/x"]
    {
        let found = h.collect(&[pattern], None).await;
        assert!(found.files.is_empty(), "{pattern}: {:?}", found.paths());
    }
    for pattern in ["../*", "/etc/*", "out/../../*"] {
        let mut any = Vec::new();
        let collected = h.sandbox().collect(collect_op(&[pattern], None), |batch| any.extend(batch)).await;
        assert!(collected.is_err() || any.is_empty(), "{pattern}: {any:?}");
    }
}

pub async fn f119_a_link_that_is_swapped_in_is_never_followed(h: &Harness) {
    std::fs::write(h.outside().join("secret"), "the-secret").unwrap();
    h.put("real/environ", "ours").await;
    let script = "mkdir -p out; while :; do ln -sfn /proc/self out/hop 2>/dev/null; rm out/hop; mkdir out/hop; echo ours > out/hop/environ; \
                  rm -r out/hop; done";
    let cancel = tokio_util::sync::CancellationToken::new();
    let running = h.spawn(h.sh_plan(script), cancel.clone());
    for _ in 0..200 {
        for file in h.collect(&["out/hop/environ", "out/**"], None).await.files {
            assert!(b"ours\n".starts_with(file.content.as_slice()), "{file:?}");
        }
        if let Ok(content) = h.read("out/hop/environ", 1000).await {
            assert!(b"ours\n".starts_with(content.as_slice()), "{content:?}");
        }
    }
    cancel.cancel();
    running.await.unwrap();
}

pub async fn f134_any_bytes_are_a_name(h: &Harness) {
    let long = "n".repeat(255);
    let names: [&[u8]; 7] = [
        "報告 1.txt".as_bytes(),
        b"a\nb.txt",
        b"-rf",
        b"\"q\".txt",
        b"\xff\xfe.bin",
        b"{rule} *?[a].md",
        long.as_bytes(),
    ];
    let mut plan = h.python_plan(
        "import os\nos.mkdir('out')\nfor name in ['報告 1.txt'.encode(), b'a\\nb.txt', b'-rf', b'\"q\".txt', b'\\xff\\xfe.bin', b'{rule} *?[a].md', b'n' * 255]:\n    open(b'out/' + name, 'wb').write(name)\n",
    );
    plan.env.push(("PYTHONUTF8".to_owned(), "1".to_owned()));
    let ran = h.run(plan).await.expect_code(0);
    let found = h.collect(&["out/*"], Some(&ran)).await;
    assert_eq!(found.files.len(), names.len(), "{:?}", found.paths());
    for name in names {
        let path = [b"out/", name].concat();
        let file = found.files.iter().find(|file| file.path.as_slice() == path).unwrap();
        assert_eq!(file.content.as_slice(), name);
        let mut read = Vec::new();
        let all = |piece: &[u8]| {
            read.extend_from_slice(piece);
            Ok(())
        };
        h.sandbox().read(&path, 1000, all).await.unwrap();
        assert_eq!(read, name);
        assert!(h.workspace().join("out").join(OsStr::from_bytes(name)).is_file());
    }
    let mut sorted = found.paths();
    sorted.sort_unstable();
    assert_eq!(found.paths().len(), sorted.len());
}

pub async fn f126_limits_of_a_collection(h: &Harness) {
    let script = "mkdir out; i=0; while [ $i -lt 500 ]; do echo $i > out/$(printf %03d $i); i=$((i+1)); done; \
                  seq 1 2000 > out/long.txt; head -c 3000000 /dev/urandom > out/zz.pdf";
    let ran = h.sh(script).await.expect_code(0);
    let mut op = collect_op(&["out/*"], Some(&ran));
    op.max_files = 100;
    let found = h.collect_op(op.clone()).await;
    let expected: Vec<_> = (0..100).map(|i| format!("out/{i:03}")).collect();
    assert_eq!(found.paths(), expected);
    assert_eq!((found.summary.more, found.summary.matches.as_slice()), (402, &[502][..]));
    op.max_files = 1000;
    op.max_file_bytes = 1000;
    op.inline_binary = false;
    let found = h.collect_op(op.clone()).await;
    let long = found.file("out/long.txt");
    assert_eq!((long.size, long.sha256.is_some()), (8893, true));
    let binary = found.file("out/zz.pdf");
    assert_eq!((binary.size, binary.sha256.is_some()), (3_000_000, true));
    assert!(binary.content.len() <= 4096, "{}", binary.content.len());
    op.max_files = 0;
    let none = h.collect_op(op).await;
    assert_eq!((none.files.len(), none.summary.more), (0, 502));
}

pub async fn f123_patterns_that_match_nothing_are_told(h: &Harness) {
    h.put("out/report.csv", "x").await;
    h.put("out/{rule} a.md", "x").await;
    let found = h
        .collect(&["out/reprot.csv", "out/report.csv", r"out/\{rule\}*.md", "out/* a*", "none/**"], None)
        .await;
    assert_eq!(found.summary.matches, [0, 1, 1, 1, 0]);
    assert_eq!(found.files.len(), 2);
    let near = found.summary.near.iter().find(|(pattern, _)| pattern == "out/reprot.csv");
    assert!(
        near.is_some_and(|(_, names)| names.contains(&"out/report.csv".to_owned())),
        "{:?}",
        found.summary.near
    );
    let wrong = h.sandbox().collect(collect_op(&["out/[a"], None), |_| ()).await;
    assert!(wrong.is_err_and(|error| error.to_string().contains("out/[a")));
}

pub async fn a_terabyte_of_nothing_is_collected_at_once(h: &Harness) {
    let mut plan = h.sh_plan("mkdir out; truncate -s 1T out/big || exit 9; echo x > out/small");
    plan.limits.file_size_bytes = 2 << 40;
    let ran = h.run(plan).await.expect_code(0);
    let found = tokio::time::timeout(Duration::from_secs(10), h.collect(&["out/*"], Some(&ran)))
        .await
        .expect("it is not read");
    assert_eq!((found.file("out/big").size, found.file("out/big").sha256), (1 << 40, None));
    assert!(found.file("out/small").sha256.is_some());
}

pub async fn a_deep_tree_is_collected_or_told(h: &Harness) {
    let script = "import os\nos.mkdir('out')\nopen('out/x', 'w').write('x')\nos.chdir('out')\nfor i in range(1500):\n    os.mkdir('d' * 200)\n    os.chdir('d' * 200)\nopen('bottom', 'w').write('x')\n";
    let ran = h.python(script).await.expect_code(0);
    let found = tokio::time::timeout(Duration::from_secs(20), h.collect(&["out/**"], Some(&ran)))
        .await
        .expect("it ends");
    assert!(found.paths().contains(&"out/x".to_owned()), "{} files", found.files.len());
    h.assert_usable().await;
    // Too deep for a path: with the workspace's own means.
    h.sh("rm -rf out").await.ok();
}

pub async fn f056_scripts_and_files_share_one_root(h: &Harness) {
    let ran = h.sh("echo x > report.txt; mkdir sub; cd sub; echo y > ./inner.txt").await.expect_code(0);
    let found = h.collect(&["**"], Some(&ran)).await;
    assert_eq!(found.paths(), ["report.txt", "sub/inner.txt"]);
    assert_eq!(std::fs::read_to_string(h.workspace().join("sub/inner.txt")).unwrap(), "y\n");
}

pub async fn file_work_goes_on_while_commands_run(h: &Harness) {
    let cancel = tokio_util::sync::CancellationToken::new();
    let running = h.spawn(h.sh_plan("while :; do echo x > out.txt; rm out.txt; done"), cancel.clone());
    for round in 0..100 {
        let path = format!("in/{round}");
        h.put(&path, path.as_str()).await;
        assert_eq!(h.read(&path, 100).await.unwrap(), path.as_bytes());
        assert_eq!(h.collect(&[path.as_str()], None).await.files.len(), 1);
    }
    assert!(!running.is_finished());
    cancel.cancel();
    running.await.unwrap();
}
