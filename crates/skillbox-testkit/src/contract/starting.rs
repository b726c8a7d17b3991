//! From the request to the program's first instruction.

use std::collections::BTreeSet;
use std::os::unix::fs::symlink;
use std::time::Duration;

use skillbox_types::{End, WorkspacePath};

use super::Harness;

const ENOENT: Option<i32> = Some(2);
const E2BIG: Option<i32> = Some(7);
const ENOEXEC: Option<i32> = Some(8);
const EACCES: Option<i32> = Some(13);

pub async fn every_exit_code(h: &Harness) {
    for exit_code in 0..=255 {
        let ran = h.sh(&format!("exit {exit_code}")).await;
        assert_eq!(*ran.end(), End::Exited { exit_code });
        assert_eq!(ran.end().exit_code(), exit_code);
    }
}

pub async fn f072_signals_are_named(h: &Harness) {
    let signals =
        [("SIGKILL", 9), ("SIGSEGV", 11), ("SIGTERM", 15), ("SIGABRT", 6), ("SIGUSR1", 10), ("SIGPIPE", 13)];
    for (name, number) in signals {
        let ran = h.sh(&format!("kill -{number} $$")).await;
        assert_eq!(*ran.end(), End::Signaled { signal: number, signal_name: name.to_owned() });
        assert_eq!(ran.end().exit_code(), 128 + number);
        assert!(!ran.end().success());
    }
    let ran = h.sh("kill -40 $$").await;
    assert_eq!(*ran.end(), End::Signaled { signal: 40, signal_name: "SIGRTMIN+6".to_owned() });
}

pub async fn f141_an_unknown_program_is_not_started(h: &Harness) {
    for program in ["no-such-program", "./no-such-program", "/usr/bin/no-such-program"] {
        let ran = h.run(h.plan([program])).await;
        let (message, errno) = ran.spawn_failure();
        assert_eq!(errno, ENOENT, "{message}");
        assert!(message.contains("no-such-program"), "{message}");
        assert_eq!(ran.end().exit_code(), 127);
        assert_eq!((ran.stdout(), ran.stderr(), ran.outcome.slot), (String::new(), String::new(), None));
    }
    h.assert_usable().await;
}

pub async fn a_file_without_execute_bit_is_not_started(h: &Harness) {
    h.put("plain.sh", "#!/bin/sh\necho ran\n").await;
    let ran = h.run(h.plan(["./plain.sh"])).await;
    let (message, errno) = ran.spawn_failure();
    assert_eq!((errno, ran.end().exit_code()), (EACCES, 126));
    assert!(message.contains("plain.sh") && message.contains("chmod +x"), "{message}");
}

pub async fn a_folder_is_not_a_program(h: &Harness) {
    h.sh("mkdir folder").await.ok();
    let ran = h.run(h.plan(["./folder"])).await;
    let (message, errno) = ran.spawn_failure();
    assert_eq!(errno, EACCES);
    assert!(message.contains("folder") && message.contains("directory"), "{message}");
}

pub async fn f039_windows_line_ends_are_named(h: &Harness) {
    h.put_script("crlf.sh", "#!/bin/sh\r\necho hi\r\n").await;
    let ran = h.run(h.plan(["./crlf.sh"])).await;
    let (message, errno) = ran.spawn_failure();
    assert_eq!(errno, ENOENT);
    assert!(message.contains("crlf.sh") && message.contains("Windows line ends"), "{message}");
}

pub async fn a_missing_interpreter_is_named(h: &Harness) {
    for (line, named) in
        [("#!/opt/none/python3", "/opt/none/python3"), ("#! /opt/none/sh -e", "/opt/none/sh")]
    {
        h.put_script("script", format!("{line}\necho hi\n")).await;
        let ran = h.run(h.plan(["./script"])).await;
        let (message, errno) = ran.spawn_failure();
        assert_eq!(errno, ENOENT);
        assert!(message.contains(named) && message.contains("interpreter"), "{message}");
    }
}

pub async fn a_file_that_is_no_program_is_named(h: &Harness) {
    h.put_script("garbage", b"\x00\x01\x02 neither ELF nor a script\n".to_vec()).await;
    h.put_script("no-line", "echo hi\n").await;
    for program in ["./garbage", "./no-line"] {
        let ran = h.run(h.plan([program])).await;
        let (message, errno) = ran.spawn_failure();
        assert_eq!((errno, ran.end().exit_code()), (ENOEXEC, 126), "{message}");
        assert!(message.contains("#!"), "{message}");
    }
}

pub async fn a_working_directory_must_exist(h: &Harness) {
    h.put("file", "").await;
    for (cwd, says) in [("none/below", "does not exist"), ("file", "is not a directory")] {
        let mut plan = h.sh_plan("echo ran");
        plan.cwd = WorkspacePath::new(cwd).unwrap();
        let ran = h.run(plan).await;
        let (message, _) = ran.spawn_failure();
        assert!(message.contains(cwd) && message.contains(says), "{message}");
        assert_eq!(ran.stdout(), "");
    }
}

pub async fn f049_a_working_directory_stays_in_the_workspace(h: &Harness) {
    h.sh("mkdir -p inner/deep; ln -s inner/deep good; ln -s / root; ln -s ../../.. up; ln -s /proc/self/root magic; \
          ln -s loop loop; ln -s /workspace/inner absolute")
        .await
        .ok();
    let in_dir = |cwd: &str| {
        let mut plan = h.sh_plan("pwd -P");
        plan.cwd = WorkspacePath::new(cwd).unwrap();
        plan
    };
    assert_eq!(h.run(in_dir("good")).await.ok(), "/workspace/inner/deep\n");
    for cwd in ["root", "root/etc", "up", "magic", "loop"] {
        let ran = h.run(in_dir(cwd)).await;
        let (message, _) = ran.spawn_failure();
        assert!(message.contains(cwd), "{message}");
    }
}

pub async fn renames_elsewhere_do_not_hinder_a_working_directory(h: &Harness) {
    h.sh("mkdir -p skill out; ln -s ../out skill/out").await.ok();
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let renamer = {
        let (stop, dir) = (stop.clone(), h.outside().to_owned());
        std::thread::spawn(move || {
            let (one, two) = (dir.join("one"), dir.join("two"));
            std::fs::write(&one, "").unwrap();
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                std::fs::rename(&one, &two).unwrap();
                std::fs::rename(&two, &one).unwrap();
            }
        })
    };
    let mut ends = Vec::new();
    for _ in 0..200 {
        let mut plan = h.sh_plan(":");
        plan.cwd = WorkspacePath::new("skill/out").unwrap();
        ends.push(h.run(plan).await.outcome.end);
    }
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    renamer.join().unwrap();
    assert!(ends.iter().all(End::success), "{:?}", ends.iter().find(|end| !end.success()));
}

pub async fn arguments_arrive_as_they_are(h: &Harness) {
    let args = ["", "two words", "a\nb", "ä 報告 🎈", "-rf", "'\"`$(id)*?\\", "\u{1b}[31m", " "];
    let argv = ["/bin/sh", "-c", "printf '%s\\0' \"$@\"", "sh"].into_iter().chain(args);
    let ran = h.run(h.plan(argv)).await.expect_code(0);
    let expected: Vec<u8> = args.iter().flat_map(|arg| [arg.as_bytes(), b"\0"].concat()).collect();
    assert_eq!(ran.stdout_bytes(), expected);
}

pub async fn arguments_that_are_too_long_are_refused(h: &Harness) {
    let long = "x".repeat(200_000);
    let ran = h.run(h.plan(["/bin/echo", long.as_str()])).await;
    assert_eq!(ran.spawn_failure().1, E2BIG);
    h.assert_usable().await;
}

pub async fn f114_the_environment_is_exactly_what_was_given(h: &Harness) {
    let mut plan = h.plan(["/usr/bin/env", "-0"]);
    plan.env = [("A", "1"), ("EMPTY", ""), ("MULTI", "x y\nz=w"), ("Ü", "ä")]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .to_vec();
    let ran = h.run(plan).await.expect_code(0);
    let output = ran.stdout();
    let mut seen: BTreeSet<&str> = output.split_terminator('\0').collect();
    let run_dir = seen.iter().copied().find(|pair| pair.starts_with("RUN_DIR=/workspace/runs/"));
    seen.remove(run_dir.expect("RUN_DIR is set"));
    assert_eq!(seen, BTreeSet::from(["A=1", "EMPTY=", "MULTI=x y\nz=w", "Ü=ä"]));
}

pub async fn each_command_has_a_folder_of_its_own(h: &Harness) {
    let mut seen = BTreeSet::new();
    for _ in 0..5 {
        let run_dir = h
            .sh("test -d \"$RUN_DIR\" && : > \"$RUN_DIR/mine\" && ls \"$RUN_DIR\" && echo \"$RUN_DIR\"")
            .await
            .ok();
        assert!(run_dir.starts_with("mine\n"), "{run_dir}");
        assert!(seen.insert(run_dir.clone()), "{run_dir} was used twice");
    }
    // The folder of a command to come may appear meanwhile.
    h.sh("until rm -rf runs 2>/dev/null; do :; done").await.ok();
    h.assert_usable().await;
    // What a script put in the place of that folder leads nowhere, and is named.
    let ran = h.sh("until rm -rf runs 2>/dev/null && ln -sT /tmp runs; do :; done").await.expect_code(0);
    assert!(ran.outcome.warnings.is_empty());
    let next = h.sh("ls -A /tmp").await;
    match next.end() {
        End::Exited { exit_code: 0 } => assert_eq!(next.stdout(), ""),
        End::SpawnFailed { message, .. } => assert!(message.contains("runs"), "{message}"),
        other => panic!("{other:?}"),
    }
    assert!(!h.sandbox().is_lost());
}

pub async fn f084_stdin_is_dev_null_where_none_is_given(h: &Harness) {
    let ran = h.sh("readlink /proc/self/fd/0; cat; read x; echo $?").await.ok();
    assert_eq!(ran, "/dev/null\n1\n");
    assert_eq!(h.run(h.plan([crate::misbehave::PYTHON])).await.ok(), "");
}

pub async fn stdin_arrives_whole(h: &Harness) {
    for size in [0, 1, 4096, 65_536, 3_000_001] {
        let bytes: Vec<u8> = (0..size).map(|i: u32| u8::try_from(i % 251).unwrap()).collect();
        let mut plan = h.plan(["/bin/cat"]);
        plan.stdin = Some(bytes.clone());
        plan.limits.output_bytes = 8 << 20;
        let ran = h.run(plan).await.expect_code(0);
        assert!(ran.stdout_bytes() == bytes, "{size} bytes came back changed");
    }
}

pub async fn stdin_that_is_not_read_hinders_nothing(h: &Harness) {
    for (script, expected) in [
        ("exit 3", ""),
        ("exec 0<&-; exit 3", ""),
        ("head -c 5; exit 3", "aaaaa"),
        ("/bin/sleep 0.1; exit 3", ""),
    ] {
        let mut plan = h.sh_plan(script);
        plan.stdin = Some(vec![b'a'; 10_000_000]);
        let ran = h.run(plan).await.expect_code(3);
        assert_eq!(ran.stdout(), expected);
        assert!(ran.took < Duration::from_secs(5), "{:?}", ran.took);
    }
    h.assert_usable().await;
}

pub async fn f086_no_descriptor_is_inherited(h: &Harness) {
    let script = "import os; print(sorted(int(fd) for fd in os.listdir('/proc/self/fd')))";
    // The fourth is the listing's own.
    assert_eq!(h.python(script).await.ok(), "[0, 1, 2, 3]\n");
    let kinds = h.sh("for fd in 1 2; do readlink /proc/self/fd/$fd; done").await.ok();
    assert!(kinds.lines().all(|line| line.starts_with("pipe:")), "{kinds}");
}

pub async fn f085_there_is_no_terminal(h: &Harness) {
    let ran = h.sh("(exec 3<>/dev/tty) 2>/dev/null && echo opened; test -t 0 && echo tty; exit 0").await;
    assert_eq!(ran.ok(), "");
}

pub async fn a_program_starts_with_defaults(h: &Harness) {
    // No signal ignored or blocked, a session of its own, the usual umask.
    let script = "umask; grep -E '^Sig(Blk|Ign):' /proc/self/status | cut -f2; \
                  read -r a b c d pgrp session rest < /proc/$$/stat; [ $session = $$ ] && echo leader";
    let zero = "0".repeat(16);
    assert_eq!(h.sh(script).await.ok(), format!("0022\n{zero}\n{zero}\nleader\n"));
}

pub async fn f046_a_script_is_run_by_its_interpreter_alone(h: &Harness) {
    h.put("scripts/helper.py", "NAME = 'sibling'\n").await;
    h.put_script(
        "scripts/main.py",
        "#!/usr/bin/python3\nimport sys\nfrom helper import NAME\nprint(NAME, sys.argv, __file__)\n",
    )
    .await;
    let ran = h.run(h.plan(["scripts/main.py", "two words"])).await;
    assert_eq!(ran.ok(), "sibling ['scripts/main.py', 'two words'] /workspace/scripts/main.py\n");
    let ran = h.run(h.plan(["python3", "scripts/main.py", "x"])).await;
    assert_eq!(ran.ok(), "sibling ['scripts/main.py', 'x'] /workspace/scripts/main.py\n");
}

pub async fn f111_the_workspace_is_there_wherever_the_host_keeps_it(h: &Harness) {
    // The host's own folder is below /tmp as a rule, and /tmp inside is another one.
    h.put("a.txt", "here\n").await;
    assert_eq!(h.sh("cat /workspace/a.txt; pwd; ls -A /tmp").await.ok(), "here\n/workspace\n");
}

pub async fn f109_setting_up_leaves_nothing_in_the_workspace(h: &Harness) {
    h.sh(":").await.ok();
    let entries = || {
        let entries = std::fs::read_dir(h.workspace()).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(entries(), ["runs"]);
}

pub async fn a_workspace_full_of_links_can_be_opened(h: &Harness) {
    // What is handed over to the sandbox's user is never what a link points to.
    let other = h.outside().join("other");
    std::fs::create_dir_all(other.join("ws")).unwrap();
    let secret = h.outside().join("secret");
    std::fs::write(&secret, "secret").unwrap();
    let before = std::os::unix::fs::MetadataExt::uid(&std::fs::metadata(&secret).unwrap());
    symlink(&secret, other.join("ws/link")).unwrap();
    symlink("/", other.join("ws/root")).unwrap();
    let second = h.another_in(&other).await;
    assert_ne!(second.sh("cat link root/etc/shadow").await.end().exit_code(), 0);
    assert_eq!(std::os::unix::fs::MetadataExt::uid(&std::fs::metadata(&secret).unwrap()), before);
    second.sandbox().close().await.unwrap();
}
