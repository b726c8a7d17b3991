//! Whatever is wrong is named, with what to do, and nothing half-made is left.

use crate::lab::{Lab, examples};

#[test]
fn a_missing_skill_gets_the_nearest_name() {
    let lab = Lab::new();
    let answer = lab.skillbox(["run", "--skills", &examples(), "helo", "--", "true"]);
    answer.refused(125, &["no skill named 'helo'", "did you mean 'hello'?", "hint: searched", &examples()]);
    lab.skillbox(["run", "x", "--", "true"]).refused(125, &["no skill named 'x'", "hint: "]);
    lab.skillbox(["run", "--skills", "/nowhere", "x", "--", "true"])
        .refused(125, &["/nowhere", "SKILLS_ROOT"]);
    lab.skillbox(["run", "./nowhere", "--", "true"]).refused(125, &["./nowhere", "does not exist", "hint: "]);
    lab.assert_nothing_left();
}

#[test]
fn a_broken_skill_gets_its_fault() {
    let lab = Lab::new();
    lab.write("skills/broken/SKILL.md", "---\nname: broken\n---\nNo description.\n", 0o644);
    lab.skillbox(["run", "broken", "--", "true"])
        .refused(125, &["'broken' cannot be loaded", "description", "SKILL.md", "hint: "]);
    lab.skillbox(["run", "skills/broken", "--", "true"]).refused(125, &["description", "SKILL.md"]);
    lab.assert_nothing_left();
}

#[test]
fn a_folder_outside_the_workspace_is_no_place_to_run() {
    let lab = Lab::new();
    for cwd in ["../../..", "/etc", "$WORK_DIR/../../x", "$HOME"] {
        let args = ["run", "--cwd", cwd, "--skills", &examples(), "hello", "--", "true"];
        lab.skillbox(args).refused(125, &["working directory", cwd]);
    }
    lab.assert_nothing_left();
}

#[test]
fn a_bad_glob_is_named() {
    let lab = Lab::new();
    for glob in ["out/[a", "../x/**", "/etc/*"] {
        let args = ["run", "--output", glob, "--skills", &examples(), "hello", "--", "true"];
        lab.skillbox(args).refused(125, &[glob]);
    }
    lab.assert_nothing_left();
}

#[test]
fn an_unknown_interpreter_is_named() {
    let lab = Lab::new();
    lab.skill("odd", "run.x", "#!/opt/nowhere/interpreter -x\n", 0o755);
    lab.skillbox(["run", "odd", "--", "./run.x"]).refused(127, &["/opt/nowhere/interpreter"]);
    lab.assert_nothing_left();
}

#[test]
fn f038_a_script_without_execute_bit_runs_by_its_shebang_or_is_explained() {
    let lab = Lab::new();
    lab.skill("bits", "run.sh", "#!/bin/sh\necho ran\n", 0o644);
    lab.write("skills/bits/data.txt", "just data\n", 0o644);
    assert_eq!(lab.skillbox(["run", "bits", "--", "./run.sh"]).expect(0).stdout, "ran\n");
    lab.skillbox(["run", "bits", "--", "./data.txt"]).refused(126, &["data.txt", "execute bit"]);
}

#[test]
fn f039_a_script_with_crlf_is_explained() {
    let lab = Lab::new();
    lab.skill("crlf", "run.sh", "#!/bin/sh\r\necho hi\r\n", 0o755);
    let answer = lab.skillbox(["run", "crlf", "--", "./run.sh"]);
    assert_ne!(answer.code, 0);
    let said = answer.stderr.to_lowercase();
    assert!(said.contains("crlf") || said.contains("carriage return") || said.contains("\\r"), "{answer:#?}");
    lab.assert_nothing_left();
}

#[test]
fn a_missing_runtime_directory_is_named() {
    let lab = Lab::new();
    for dir in ["/opt/no-such-runtime", "relative/dir", "/etc"] {
        let args = ["run", "--runtime-dir", dir, "--skills", &examples(), "hello", "--", "true"];
        lab.skillbox(args).refused(125, &["runtime directory", dir]);
    }
    lab.assert_nothing_left();
}

#[test]
fn a_runtime_directory_is_seen_read_only_and_its_programs_come_first() {
    let lab = Lab::new();
    let run = |options: &[&str], script: &str| {
        let skills = examples();
        let args = ["run", "--skills", &skills].into_iter().chain(options.iter().copied());
        lab.skillbox(args.chain(["--shell", "hello", "--", script]))
    };
    // A folder that every system has (Filesystem Hierarchy Standard 3.0, 3.17), outside those that are always seen.
    run(&[], "test ! -e /srv").expect(0);
    run(&["--runtime-dir", "/srv"], "test -d /srv && ! touch /srv/x 2>/dev/null").expect(0);
    let answer = run(&["--runtime-dir", "/usr/local"], "echo \"$PATH\"").expect(0);
    assert!(answer.stdout.starts_with("/usr/local/bin:"), "{answer:?}");
}

#[test]
fn unknown_limits_and_bad_values_are_named() {
    let lab = Lab::new();
    let run =
        |limit: &str| lab.skillbox(["run", "--limit", limit, "--skills", &examples(), "hello", "--", "true"]);
    run("memoy=1G").refused(2, &["memoy", "memory"]);
    run("memory").refused(2, &["memory", "NAME=VALUE"]);
    run("memory=much").refused(2, &["much", "64MiB"]);
    run("pids=0").refused(2, &["pids", "at least 1"]);
    run("cpu_time=0s").refused(2, &["cpu_time", "30s"]);
}

#[test]
fn bad_time_limits_are_named() {
    let lab = Lab::new();
    for time in ["0", "0s", "-5s", "-1", "soon", "1d", "", "5 bananas"] {
        let args = ["run", "--timeout", time, "--skills", &examples(), "hello", "--", "true"];
        lab.skillbox(args).refused(2, &["--timeout", "30s", "none"]);
    }
}

#[test]
fn other_options_say_what_is_wrong_with_them() {
    let lab = Lab::new();
    let run = |option: &str, value: &str| {
        lab.skillbox(["run", option, value, "--skills", &examples(), "hello", "--", "true"])
    };
    run("--executor", "docker").refused(2, &["docker", "local"]);
    run("--minimum", "none").refused(2, &["none", "namespaces"]);
    run("--env", "=x").refused(2, &["NAME=VALUE"]);
    run("--session", "a/b").refused(2, &["a/b", "letters"]);
    run("--session", "tmp-mine").refused(125, &["tmp-"]);
    run("--input", "no-such-file").refused(125, &["no-such-file", "No such file"]);
    run("--input", "skills").refused(125, &["skills", "not a regular file"]);
    lab.write("a.txt", "a", 0o644);
    run("--input", "a.txt:../../x").refused(125, &["../../x", "leaves"]);
    run("--input", "a.txt:").refused(125, &["NAME is empty"]);
    let twice = [
        "run",
        "--input",
        "a.txt",
        "--input",
        "skills/../a.txt",
        "--skills",
        &examples(),
        "hello",
        "--",
        "true",
    ];
    lab.skillbox(twice).refused(125, &["two inputs", "inputs/a.txt"]);
    lab.assert_nothing_left();
}

#[test]
fn a_state_folder_that_cannot_be_is_named() {
    let lab = Lab::new();
    lab.write("file", "", 0o644);
    let args = ["run", "--state-dir", "file/state", "--skills", &examples(), "hello", "--", "true"];
    lab.skillbox(args).refused(125, &["file/state"]);
}

#[test]
fn a_folder_that_cannot_be_saved_to_is_named_and_nothing_is_left() {
    let lab = Lab::new();
    lab.write("file", "", 0o644);
    let args =
        ["run", "--save-to", "file/x", "--skills", &examples(), "hello", "--", "sh", "scripts/hello.sh"];
    lab.skillbox(args).refused(125, &["file/x"]);
    lab.assert_nothing_left();
}

#[test]
fn a_folder_that_cannot_be_saved_to_is_refused_before_the_command_runs() {
    let lab = Lab::new();
    lab.write("file", "", 0o644);
    // Nobody, root included, can make files in these.
    for dir in ["file", "/proc", "/proc/self/fdinfo"] {
        let args = ["run", "--save-to", dir, "--skills", &examples(), "--shell", "hello", "--", "echo ran"];
        let answer = lab.skillbox(args).refused(125, &[dir]);
        assert_eq!(answer.stdout, "", "{dir}");
        lab.assert_nothing_left();
    }
}

#[test]
fn a_file_that_cannot_be_saved_costs_neither_the_report_nor_the_exit_code() {
    let lab = Lab::new();
    // A folder that is not empty stands where the file would go.
    lab.write("kept/out/a.txt/mine", "mine", 0o644);
    let script = "echo 1 > out/a.txt; echo 2 > out/b.txt; echo said; exit 3";
    let run = |options: &[&str]| {
        let skills = examples();
        let args =
            ["run", "--save-to", "kept", "--skills", &skills].into_iter().chain(options.iter().copied());
        lab.skillbox(args.chain(["--shell", "hello", "--", script]))
    };
    let answer = run(&[]).expect(3);
    assert_eq!(answer.stdout, "said\n");
    for text in ["warning: ", "was not saved", "out/a.txt", "out/b.txt", "saved to kept"] {
        assert!(answer.stderr.contains(text), "{text}: {answer:#?}");
    }
    assert_eq!(std::fs::read(lab.path("kept/out/b.txt")).unwrap(), b"2\n");
    assert_eq!(std::fs::read(lab.path("kept/out/a.txt/mine")).unwrap(), b"mine");

    let json = run(&["--json"]).expect(3).json();
    assert_eq!(json["end"]["exit_code"].as_u64().or(json["end"]["code"].as_u64()), Some(3), "{json:#}");
    assert_eq!(json["warnings"][0]["code"], "not_saved", "{json:#}");
    assert!(json["output_files"][0]["saved_to"].is_null(), "{json:#}");
    assert!(json["output_files"][1]["saved_to"].as_str().unwrap().ends_with("kept/out/b.txt"));
    assert!(run(&["--quiet"]).expect(3).stderr.contains("was not saved"));
    lab.assert_nothing_left();
}
