//! `skillbox run` where all goes well.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::process::Stdio;

use crate::lab::{Lab, examples};

#[test]
fn the_main_job_needs_python() {
    let lab = Lab::new();
    let answer = lab
        .skillbox(["run", "--skills", &examples(), "hello", "--", "python3", "scripts/hello.py", "Ada"])
        .expect(0);
    assert_eq!(answer.stdout, "Hello, Ada! Wrote 3 files.\n");
    let table: Vec<Vec<&str>> = answer.stderr.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(
        table,
        [
            vec!["FILE", "TYPE", "SIZE"],
            vec!["out/greeting.csv", "text/csv", "34", "B", "new"],
            vec!["out/greeting.json", "application/json", "43", "B", "new"],
            vec!["out/greeting.txt", "text/plain", "12", "B", "new"],
        ]
    );
    lab.assert_nothing_left();
}

#[test]
fn an_input_becomes_a_report_that_is_saved_needs_python() {
    let lab = Lab::new();
    let sample = format!("{}/sales-report/assets/sales.csv", examples());
    fs::copy(sample, lab.path("mine.csv")).unwrap();
    let args = ["--input", "mine.csv:sales.csv", "--save-to", "a/b", "--quiet", "sales-report", "--"];
    let command = ["python3", "scripts/report.py", "inputs/sales.csv", "--by", "month"];
    let skills = examples();
    let answer = lab.skillbox(["run", "--skills", &skills].into_iter().chain(args).chain(command)).expect(0);
    assert_eq!(answer.stderr, "");
    for file in ["summary.csv", "summary.json", "chart.svg"] {
        assert!(lab.path("a/b/out").join(file).metadata().unwrap().len() > 0, "{file}");
    }
    lab.assert_nothing_left();
}

#[test]
fn stdout_and_stderr_stay_apart_and_are_bytes() {
    let lab = Lab::new();
    let mut command = lab.command(["run", "-q", "--skills", &examples(), "--shell", "hello", "--"]);
    let output = command.arg(r"printf '\377\000out'; printf '\033[2Jerr' >&2").output().unwrap();
    assert_eq!(output.stdout, b"\xff\0out");
    assert_eq!(output.stderr, b"\x1b[2Jerr", "no terminal, no filter");
}

#[test]
fn output_is_live() {
    let lab = Lab::new();
    // The command waits for somebody to open its pipe, which happens only after its output was seen here.
    let script = "mkfifo out/gate; echo ready; echo also >&2; read line < out/gate; echo \"$line\"";
    let mut child = lab
        .command(["run", "--skills", &examples(), "--shell", "hello", "--", script])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    stderr.read_line(&mut line).unwrap();
    assert_eq!(line, "ready\nalso\n");
    let session = fs::read_dir(lab.sessions()).unwrap().next().unwrap().unwrap().path();
    let mut gate = fs::OpenOptions::new().write(true).open(session.join("ws/out/gate")).unwrap();
    gate.write_all(b"opened\n").unwrap();
    drop(gate);
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "opened\n");
    assert!(child.wait().unwrap().success());
}

#[test]
fn stdin_is_passed_where_asked() {
    let lab = Lab::new();
    for bytes in ["für\nmich".as_bytes(), b"\xff\0\x80", b""] {
        let mut child = lab
            .command(["run", "--stdin", "--skills", &examples(), "hello", "--", "cat"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(bytes).unwrap();
        assert_eq!(child.wait_with_output().unwrap().stdout, bytes);
    }
}

#[test]
fn f044_paths_of_the_skill_work_from_its_folder() {
    let lab = Lab::new();
    let own =
        lab.shell("pwd; test -f scripts/hello.sh && test -d inputs && test -d out && echo there").expect(0);
    assert_eq!(own.stdout, "/workspace/skills/hello\nthere\n");
    let run = ["run", "--skills", &examples(), "--cwd", "$WORKSPACE_DIR", "hello", "--", "sh"];
    let answer = lab.skillbox(run.into_iter().chain(["skills/hello/scripts/hello.sh"])).expect(0);
    assert!(answer.stdout.starts_with("Hello"), "{answer:?}");
}

#[test]
fn f046_a_sibling_module_is_found_and_arguments_are_kept_needs_python() {
    let lab = Lab::new();
    lab.skill("mod", "scripts/helper.py", "NAME = 'helper'\n", 0o644);
    let main = "#!/usr/bin/python3\nimport sys, helper\nprint(helper.NAME, sys.argv)\n";
    lab.write("skills/mod/scripts/main.py", main, 0o755);
    let answer = lab.skillbox(["run", "mod", "--", "scripts/main.py", "two words", "$HOME", ""]).expect(0);
    assert_eq!(answer.stdout, "helper ['scripts/main.py', 'two words', '$HOME', '']\n");
}

#[test]
fn variables_and_folders_reach_the_command() {
    let lab = Lab::new();
    let script = "echo \"$GREETING $SKILL_NAME $OUTPUT_DIR\"; pwd";
    let args = [
        "run",
        "-e",
        "GREETING=a=b c",
        "--cwd",
        "scripts",
        "--skills",
        &examples(),
        "--shell",
        "hello",
        "--",
        script,
    ];
    assert_eq!(
        lab.skillbox(args).expect(0).stdout,
        "a=b c hello /workspace/out\n/workspace/skills/hello/scripts\n"
    );
}

#[test]
fn a_path_means_exactly_that_skill() {
    let lab = Lab::new();
    lab.skill("twin", "run.sh", "#!/bin/sh\necho the one in the root\n", 0o755);
    let manifest = "---\nname: twin\ndescription: The other one.\n---\n";
    lab.write("elsewhere/twin/SKILL.md", manifest, 0o644);
    lab.write("elsewhere/twin/run.sh", "#!/bin/sh\necho the other one\n", 0o755);
    assert_eq!(lab.skillbox(["run", "twin", "--", "./run.sh"]).expect(0).stdout, "the one in the root\n");
    for path in
        ["elsewhere/twin", "./elsewhere/twin/", "elsewhere/twin/SKILL.md", "elsewhere/../elsewhere/twin"]
    {
        let answer = lab.skillbox(["run", path, "--", "./run.sh"]).expect(0);
        assert_eq!(answer.stdout, "the other one\n", "{path}");
    }
    let mut inside = lab.command(["run", ".", "--", "./run.sh"]);
    let output = inside.current_dir(lab.path("elsewhere/twin")).output().unwrap();
    assert_eq!(output.stdout, b"the other one\n");
}

#[test]
fn roots_come_from_the_option_then_the_variable_then_the_conventions() {
    let lab = Lab::new();
    for place in ["skills", "one", "two", "home/.claude/skills"] {
        let name = if place == "two" { "only-two" } else { "where" };
        let manifest = format!("---\nname: {name}\ndescription: In {place}.\n---\n");
        lab.write(&format!("{place}/{name}/SKILL.md"), manifest, 0o644);
        lab.write(&format!("{place}/{name}/run.sh"), format!("#!/bin/sh\necho {place}\n"), 0o755);
    }
    assert_eq!(lab.skillbox(["run", "where", "--", "./run.sh"]).expect(0).stdout, "skills\n");
    let mut by_variable = lab.command(["run", "only-two", "--", "./run.sh"]);
    let output = by_variable.env("SKILLS_ROOT", "one::two").output().unwrap();
    assert_eq!(output.stdout, b"two\n");
    let mut by_option = lab.command(["run", "--skills", "two", "--skills", "one", "where", "--", "./run.sh"]);
    assert_eq!(by_option.env("SKILLS_ROOT", "skills").output().unwrap().stdout, b"one\n");
    fs::remove_dir_all(lab.path("skills")).unwrap();
    assert_eq!(lab.skillbox(["run", "where", "--", "./run.sh"]).expect(0).stdout, "home/.claude/skills\n");
}

#[test]
fn names_that_hide_characters_are_shown_with_them() {
    let lab = Lab::new();
    // Tag characters, a zero-width space, a line separator, a soft hyphen: in UTF-8, octal.
    let script = r#"touch out/report.csv; for hidden in '\363\240\201\201' '\342\200\213' '\342\200\250' '\302\255'; do
        touch "out/report$(printf "$hidden").csv"; done"#;
    let args = ["run", "--skills", &examples(), "--shell", "hello", "--", script];
    let answer = lab.skillbox(args).expect(0);
    for hidden in ["", "\\u{e0041}", "\\u{200b}", "\\u{2028}", "\\u{ad}"] {
        assert!(answer.stderr.contains(&format!("out/report{hidden}.csv ")), "{hidden}: {answer:#?}");
    }
    let json = lab.skillbox(["run", "--json"].into_iter().chain(args[1..].iter().copied())).expect(0);
    assert!(json.stdout.is_ascii(), "{json:#?}");
    let names: Vec<_> = json.json()["output_files"]
        .as_array()
        .unwrap()
        .iter()
        .map(|file| file["name"].as_str().unwrap().to_owned())
        .collect();
    assert!(names.contains(&"out/report\u{e0041}.csv".to_owned()), "{names:?}");
}

#[test]
fn odd_names_are_shown_harmlessly_and_saved_exactly() {
    let lab = Lab::new();
    let script = r#"cd out; : > "$(printf 'a\033[2Jb')"; : > "$(printf 'new\nline')"; printf x > "$(printf '\377.bin')"; mkdir -- -d; : > "-d/ sp ace""#;
    let args = ["run", "--skills", &examples(), "--save-to", "saved", "--shell", "hello", "--", script];
    let answer = lab.skillbox(args).expect(0);
    for shown in ["out/a\\u{1b}[2Jb", "out/new\\nline", "out/\\xff.bin", "out/-d/ sp ace", "saved to saved"] {
        assert!(answer.stderr.contains(shown), "{shown}: {answer:#?}");
    }
    for name in [b"a\x1b[2Jb".as_slice(), b"new\nline", b"\xff.bin", b"-d/ sp ace"] {
        let path = lab.path("saved/out").join(OsStr::from_bytes(name));
        assert!(path.is_file(), "{path:?}");
    }
    assert_eq!(fs::read(lab.path("saved/out").join(OsStr::from_bytes(b"\xff.bin"))).unwrap(), b"x");
}

#[test]
fn many_at_once_share_a_state_folder() {
    let lab = Lab::new();
    let skills = examples();
    let start = |number: usize| {
        let script = format!("echo {number} > out/n; cat out/n; ls /workspace/out");
        let mut command = lab.command(["run", "-q", "--skills", &skills, "--shell", "hello", "--", &script]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let running: Vec<_> = (0..8).map(start).collect();
    for (number, child) in running.into_iter().enumerate() {
        let output = child.wait_with_output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), format!("{number}\nn\n"), "{output:?}");
    }
    lab.assert_nothing_left();
}

#[test]
fn a_session_that_is_open_is_not_opened_twice() {
    let lab = Lab::new();
    let skills = examples();
    let args = |script: &str| {
        ["run", "--session", "one", "--skills", &skills, "--shell", "hello", "--", script].map(str::to_owned)
    };
    let script = "echo ready; read line < out/gate";
    lab.skillbox(args("mkfifo out/gate")).expect(0);
    let mut first = lab.command(args(script)).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(first.stdout.take().unwrap()).read_line(&mut line).unwrap();
    lab.skillbox(args("true")).refused(125, &["session one is open already", "hint: "]);
    let mut gate = fs::OpenOptions::new().write(true).open(lab.sessions().join("one/ws/out/gate")).unwrap();
    gate.write_all(b"go\n").unwrap();
    assert!(first.wait().unwrap().success());
}

#[test]
fn a_named_session_is_kept() {
    let lab = Lab::new();
    let run = |script: &str| {
        let args = ["run", "--session", "mine", "--skills", &examples(), "--shell", "hello", "--", script];
        lab.skillbox(args).expect(0)
    };
    run("echo 1 > work/note; echo a > out/a");
    let again = run("cat work/note; echo b > out/b");
    assert_eq!(again.stdout, "1\n");
    let changes: Vec<_> =
        again.stderr.lines().skip(1).map(|line| line.split_whitespace().last().unwrap()).collect();
    assert_eq!(changes, ["unchanged", "new"], "{again:#?}");
    assert!(lab.sessions().join("mine").is_dir());
    assert_eq!(lab.skillbox(["sessions"]).stdout, "mine\n");
    lab.skillbox(["sessions", "remove", "other"]).refused(1, &["no session named other"]);
    assert_eq!(lab.skillbox(["sessions", "remove", "mine"]).code, 0);
    assert_eq!(lab.skillbox(["sessions", "--json"]).stdout.trim(), "[]");
    lab.assert_nothing_left();
}

#[test]
fn only_what_was_asked_for_is_collected() {
    let lab = Lab::new();
    let script = "echo 1 > out/a.txt; echo 2 > out/b.csv; echo 3 > work/c.txt";
    let args = [
        "--output",
        "work/*.txt",
        "--output",
        "out/*.csv",
        "--skills",
        &examples(),
        "--shell",
        "hello",
        "--",
        script,
    ];
    let answer = lab.skillbox(["run"].into_iter().chain(args)).expect(0);
    assert!(answer.stderr.contains("work/c.txt") && answer.stderr.contains("out/b.csv"), "{answer:?}");
    assert!(!answer.stderr.contains("a.txt"), "{answer:?}");
}

#[test]
fn a_reader_that_leaves_ends_the_command_as_a_broken_pipe_would() {
    let lab = Lab::new();
    let mut child = lab
        .command(["run", "--skills", &examples(), "hello", "--", "yes"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut reader = child.stdout.take().unwrap();
    reader.read_exact(&mut [0; 4]).unwrap();
    drop(reader);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(141), "{output:?}");
    lab.assert_nothing_left();
}
