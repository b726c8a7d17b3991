//! The table of exit codes in `run --help`.

use crate::lab::{Lab, examples};

#[test]
fn the_program_s_own() {
    let lab = Lab::new();
    for code in [0, 1, 3, 42, 255] {
        lab.shell(&format!("exit {code}")).expect(code);
    }
    lab.assert_nothing_left();
}

#[test]
fn a_time_limit_is_124() {
    let lab = Lab::new();
    let args = ["run", "--timeout", "300ms", "--skills", &examples(), "--shell", "hello", "--"];
    let script = "trap '' TERM INT; echo begun; echo kept > out/kept; sleep 3600";
    let answer = lab.skillbox(args.into_iter().chain([script]));
    let answer = answer.refused(124, &["ended after 300 ms, its time limit", "hint: --timeout"]);
    assert_eq!(answer.stdout, "begun\n");
    assert!(answer.stderr.contains("out/kept"), "what was made until then is collected: {answer:#?}");
    lab.assert_nothing_left();
}

#[test]
fn a_signal_is_128_and_its_number() {
    let lab = Lab::new();
    lab.shell("kill -SEGV $$").refused(139, &["signal 11 (SIGSEGV)"]);
    lab.shell("kill -TERM $$").refused(143, &["signal 15 (SIGTERM)"]);
}

#[test]
fn what_does_not_start_is_126_or_127() {
    let lab = Lab::new();
    let run = |program: &str| lab.skillbox(["run", "--skills", &examples(), "hello", "--", program]);
    run("no-such-program").refused(127, &["no-such-program", "not found"]);
    run("scripts/missing.sh").refused(127, &["scripts/missing.sh"]);
    run("./SKILL.md").refused(126, &["SKILL.md", "execute"]);
    run("./scripts").refused(126, &["scripts"]);
    lab.assert_nothing_left();
}

#[test]
fn a_limit_that_ends_the_command_says_which() {
    let lab = Lab::new();
    let args = ["run", "--limit", "file_size=1MiB", "--skills", &examples(), "hello", "--"];
    let command = ["dd", "if=/dev/zero", "of=out/big", "bs=1M", "count=4"];
    lab.skillbox(args.into_iter().chain(command)).refused(153, &["1.0 MiB", "--limit file_size"]);
    let args = ["run", "--limit", "output_kill=64KiB", "--skills", &examples(), "hello", "--", "yes"];
    let mut command = lab.command(args);
    let output = command.stdout(std::process::Stdio::piped()).output().unwrap();
    assert_eq!(output.status.code(), Some(137));
}

#[test]
fn failures_of_ours_are_125_and_wrong_arguments_2() {
    let lab = Lab::new();
    lab.skillbox(["run", "missing", "--", "true"]).refused(125, &["missing"]);
    for wrong in [
        vec!["run"],
        vec!["run", "hello"],
        vec!["nonsense"],
        vec!["run", "--nonsense", "hello", "--", "true"],
    ] {
        lab.skillbox(wrong).expect(2);
    }
    lab.skillbox(["--version"]).expect(0);
    lab.skillbox(["run", "--help"]).expect(0);
}
