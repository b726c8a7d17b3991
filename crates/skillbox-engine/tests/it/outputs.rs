//! Output files.

use skillbox_engine::SessionOptions;
use skillbox_types::{Change, ExecResult, Input, OutputFile, WorkspacePath};

use crate::lab::{Lab, codes, collecting, end, in_skill, names, ok, sh};

#[track_caller]
fn file<'a>(result: &'a ExecResult, name: &str) -> &'a OutputFile {
    let found = result.output_files.iter().find(|file| file.name == name);
    found.unwrap_or_else(|| panic!("{name} was not collected: {:?}", names(result)))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_are_new_modified_or_unchanged() {
    let lab = Lab::new();
    let (engine, session) = lab.greeted().await;
    ok(&session, sh("cd out; echo a > kept; echo a > rewritten; echo a > replaced; echo a > removed")).await;
    let mut request = in_skill(
        "greeter",
        "echo more >> data.csv; echo x > own.txt; sed -i s/hello/hi/ scripts/hello.sh; cd out; echo b > rewritten; echo n > .t; mv .t replaced; \
         rm removed; echo new > new; cat kept > /dev/null; echo over > ../work/inputs/in.csv",
    );
    request.inputs = vec![
        Input {
            path: WorkspacePath::new("work/inputs/in.csv").unwrap(),
            content: b"x".to_vec(),
            executable: false,
        },
        Input {
            path: WorkspacePath::new("work/inputs/untouched.csv").unwrap(),
            content: b"x".to_vec(),
            executable: false,
        },
    ];
    let request = collecting(request, &["out/*", "skills/**", "work/inputs/**"]);
    let result = session.run(request.clone()).await.unwrap();
    let change = |name: &str| file(&result, name).change;
    assert_eq!(change("out/kept"), Change::Unchanged);
    assert_eq!(change("out/rewritten"), Change::Modified);
    assert_eq!(change("out/new"), Change::New);
    assert_eq!(change("skills/greeter/data.csv"), Change::Modified);
    // Replaced by rename: a file that is younger than the command, in the place of an older one.
    assert_eq!(change("skills/greeter/scripts/hello.sh"), Change::Modified);
    assert_eq!(change("skills/greeter/own.txt"), Change::New);
    assert_eq!(change("skills/greeter/SKILL.md"), Change::Unchanged);
    assert_eq!(change("work/inputs/in.csv"), Change::Modified);
    assert_eq!(change("work/inputs/untouched.csv"), Change::Unchanged);
    // That a file of this name was there is known only once it was collected; the workspace is not walked before each command.
    assert_ne!(change("out/replaced"), Change::Unchanged);
    let mut sorted = names(&result);
    sorted.sort_unstable();
    assert_eq!(names(&result), sorted);
    let next = session.run(collecting(sh(":"), &["out/*"])).await.unwrap();
    assert!(next.output_files.iter().all(|file| file.change == Change::Unchanged), "{:?}", next.output_files);
    let replaced =
        session.run(collecting(sh("cd out; echo n > .t; mv .t replaced"), &["out/*"])).await.unwrap();
    assert_eq!(file(&replaced, "out/replaced").change, Change::Modified);
    let again = session.run(collecting(sh("echo new > out/new"), &["out/*"])).await.unwrap();
    assert_eq!(file(&again, "out/new").change, Change::Modified, "the same content, written again");
    let mut request = collecting(sh("echo x > out/more; echo x > top"), &["**"]);
    request.outputs.changed_only = true;
    assert_eq!(names(&session.run(request).await.unwrap()), ["out/more", "top"]);
    end(engine).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f132_everything_means_what_the_command_made() {
    let lab = Lab::new();
    let (engine, session) = lab.greeted().await;
    let mut request = in_skill("greeter", "echo x > out/a; echo y > here.txt; echo z > ../../top");
    request.inputs = vec![Input {
        path: WorkspacePath::new("work/inputs/in.csv").unwrap(),
        content: b"x".to_vec(),
        executable: false,
    }];
    for pattern in ["**", ".", "./**"] {
        let result = session.run(collecting(request.clone(), &[pattern])).await.unwrap();
        assert_eq!(names(&result), ["out/a", "skills/greeter/here.txt", "top"], "{pattern}");
    }
    // Named, they are there.
    let result =
        session.run(collecting(request, &["work/inputs/*", "skills/greeter/SKILL.md"])).await.unwrap();
    assert_eq!(names(&result), ["skills/greeter/SKILL.md", "work/inputs/in.csv"]);
    end(engine).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f127_f128_f130_types_and_text() {
    let lab = Lab::new();
    let engine = lab.engine().await;
    let session = engine.open_session(SessionOptions::default()).await.unwrap();
    let script = r"cd out; echo '# a' > a.md; echo 'a,<svg></svg>' > t.csv; echo '{}' > A.JSON; echo '<svg/>' > c.svg; printf '\211PNG\r\n\032\n' > picture; \
                   printf '%s' '%PDF-1.4' > doc; cp /bin/true elf; : > empty; echo plain > note; printf 'a\377b' > broken.txt";
    let result = session.run(collecting(sh(script), &["out/*"])).await.unwrap();
    for (name, mime, is_text) in [
        ("a.md", "text/markdown", true),
        ("t.csv", "text/csv", true),
        ("A.JSON", "application/json", true),
        ("c.svg", "image/svg+xml", true),
        ("picture", "image/png", false),
        ("doc", "application/pdf", false),
        ("note", "text/plain", true),
    ] {
        let file = file(&result, &format!("out/{name}"));
        assert_eq!((file.mime_type.as_str(), file.is_text), (mime, is_text), "{name}");
    }
    assert!(!file(&result, "out/elf").is_text);
    assert_eq!(file(&result, "out/t.csv").content, "a,<svg></svg>\n");
    let picture = file(&result, "out/picture");
    assert_eq!(
        (picture.content.as_str(), picture.content_base64.as_deref(), picture.truncated),
        ("", None, true)
    );
    let mut request = collecting(sh(":"), &["out/picture"]);
    request.outputs.inline_binary = true;
    let result = session.run(request).await.unwrap();
    assert_eq!(file(&result, "out/picture").content_base64.as_deref(), Some("iVBORw0KGgo="));
    end(engine).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f126_limits_are_kept_and_told() {
    let lab = Lab::new();
    let engine = lab.engine().await;
    let session = engine.open_session(SessionOptions::default()).await.unwrap();
    let script = "cd out; i=0; while [ $i -lt 500 ]; do echo $i > $(printf %03d $i).txt; i=$((i+1)); done; seq 1 30000 > zz.txt; head -c 3000000 /dev/urandom > zz.pdf";
    let result = session.run(collecting(sh(script), &["out/*"])).await.unwrap();
    let expected: Vec<String> = (0..100).map(|i| format!("out/{i:03}.txt")).collect();
    assert_eq!(names(&result), expected);
    let more = result.warnings.iter().find(|warning| warning.code == "more_files").unwrap();
    assert!(more.message.contains("402") && more.message.contains("100"), "{}", more.message);
    let result = session.run(collecting(sh(":"), &["out/zz.*"])).await.unwrap();
    let text = file(&result, "out/zz.txt");
    assert_eq!((text.size_bytes, text.truncated, text.content.len()), (168_894, true, 64 << 10));
    assert!(text.sha256.is_some());
    let pdf = file(&result, "out/zz.pdf");
    assert_eq!((pdf.size_bytes, pdf.truncated, pdf.content.as_str()), (3_000_000, true, ""));
    let mut request = collecting(sh(":"), &["out/00*"]);
    request.outputs.max_total_bytes = 5;
    let result = session.run(request).await.unwrap();
    assert_eq!(result.output_files.iter().map(|file| file.content.len()).sum::<usize>(), 5);
    assert_eq!(result.output_files.len(), 10);
    assert!(file(&result, "out/009.txt").truncated && !file(&result, "out/000.txt").truncated);
    end(engine).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f120_f123_what_is_not_collected_is_told() {
    let lab = Lab::new();
    let engine = lab.engine().await;
    let session = engine.open_session(SessionOptions::default()).await.unwrap();
    let script = "cd out; ln -s /etc/passwd link; ln -s missing dead; mkfifo pipe; echo x > report.csv; ln -s /etc hop";
    let result =
        session.run(collecting(sh(script), &["out/*", "out/reprot.csv", "out/hop/passwd"])).await.unwrap();
    assert!(result.end.success());
    assert_eq!(names(&result), ["out/report.csv"]);
    let told =
        |code: &str, text: &str| result.warnings.iter().any(|w| w.code == code && w.message.contains(text));
    for (code, text) in [
        ("not_collected", "out/link"),
        ("not_collected", "out/dead"),
        ("not_collected", "out/pipe"),
        ("no_match", "out/report.csv"),
        ("no_match", "out/hop/passwd"),
    ] {
        assert!(told(code, text), "{code} {text}: {:#?}", result.warnings);
    }
    end(engine).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f134_names_are_exact_and_files_are_saved_under_them() {
    let lab = Lab::new();
    let engine = lab.engine().await;
    let session = engine.open_session(SessionOptions::default()).await.unwrap();
    let script = "mkdir out/sub; cd out; echo 1 > '報告 1.txt'; echo 2 > \"$(printf 'a\\nb.txt')\"; echo 3 > ./-rf; echo 4 > \"$(printf '\\377\\376.bin')\"; \
                  echo 5 > ..x; head -c 9000000 /dev/zero > sub/large";
    let mut result = session.run(collecting(sh(script), &["out/**"])).await.unwrap();
    assert_eq!(
        names(&result),
        ["out/-rf", "out/..x", "out/a\nb.txt", "out/sub/large", "out/報告 1.txt", "out/\u{fffd}\u{fffd}.bin"]
    );
    let odd = result.output_files.last().unwrap();
    assert_eq!(odd.file_name().as_bytes(), b"out/\xff\xfe.bin");
    assert!(odd.name_base64.is_some());
    let target = lab.path("saved");
    std::fs::create_dir(&target).unwrap();
    session.save(&mut result.output_files, &target).await.unwrap();
    let read = |path: &[u8]| {
        std::fs::read(target.join(<std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(path)))
            .unwrap()
    };
    assert_eq!(read(b"out/\xff\xfe.bin"), b"4\n");
    assert_eq!(read(b"out/a\nb.txt"), b"2\n");
    assert_eq!(read(b"out/sub/large").len(), 9_000_000);
    assert!(result.output_files.iter().all(|file| file.saved_to.is_some()));
    end(engine).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f121_saving_stays_in_its_folder() {
    let lab = Lab::new();
    let engine = lab.engine().await;
    let session = engine.open_session(SessionOptions::default()).await.unwrap();
    let result = session.run(collecting(sh("echo x > out/a; echo y > ..x"), &["**"])).await.unwrap();
    let mut files = result.output_files.clone();
    let target = lab.path("saved");
    std::fs::create_dir(&target).unwrap();
    session.save(&mut files, &target).await.unwrap();
    assert!(target.join("..x").is_file() && target.join("out/a").is_file());
    // A result that somebody altered.
    for name in ["../evil", "/evil", "out/../../evil", ".."] {
        let mut altered = vec![OutputFile { name: name.to_owned(), ..files[0].clone() }];
        assert_eq!(codes(&session.save(&mut altered, &target).await.unwrap()), ["not_saved"], "{name}");
    }
    assert!(!lab.path("evil").exists());
    // A link in the target's place.
    std::fs::remove_dir_all(target.join("out")).unwrap();
    std::os::unix::fs::symlink(lab.path("elsewhere"), target.join("out")).unwrap();
    std::fs::create_dir(lab.path("elsewhere")).unwrap();
    let _ = session.save(&mut files, &target).await;
    assert_eq!(std::fs::read_dir(lab.path("elsewhere")).unwrap().count(), 0);
    end(engine).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_can_be_collected_between_commands() {
    let lab = Lab::new();
    let engine = lab.engine().await;
    let session = engine.open_session(SessionOptions::default()).await.unwrap();
    ok(&session, sh("echo x > out/a")).await;
    let spec = skillbox_types::OutputSpec {
        globs: vec!["out/*".to_owned(), "none".to_owned()],
        ..Default::default()
    };
    let collected = session.collect(&spec).await.unwrap();
    assert_eq!(
        collected.files.iter().map(|file| (file.name.as_str(), file.change)).collect::<Vec<_>>(),
        [("out/a", Change::Unchanged)]
    );
    assert_eq!(codes(&collected.warnings), ["no_match"]);
    end(engine).await;
}
