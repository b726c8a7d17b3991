//! What a command must not get from the program that runs it.

use std::io::Write as _;
use std::process::Stdio;

use crate::lab::{Lab, examples};

#[test]
fn the_example_of_the_boundaries_holds_needs_python() {
    let lab = Lab::new();
    lab.skillbox(["run", "--skills", &examples(), "boundaries", "--", "python3", "scripts/boundaries.py"])
        .expect(0);
}

#[test]
fn signals_have_their_defaults() {
    let lab = Lab::new();
    // We ignore SIGPIPE; a program that did so as well would not end when its reader does.
    let answer = lab.shell("yes | head -1; echo done").expect(0);
    assert_eq!((answer.stdout.as_str(), answer.stderr.as_str()), ("y\ndone\n", ""));
}

#[test]
fn f114_nothing_of_the_environment_is_seen() {
    let lab = Lab::new();
    let mut command = lab.command(["run", "--skills", &examples(), "hello", "--", "env"]);
    for name in ["FAKE_API_KEY", "AWS_FAKE", "SSH_AUTH_SOCK", "LD_PRELOAD_FAKE", "SKILLS_ROOT", "PYTHONPATH"]
    {
        command.env(name, "the-secret");
    }
    let output = command.output().unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert!(stdout.contains("WORKSPACE_DIR=/workspace"), "{stdout}");
    for hidden in
        ["the-secret", "FAKE", "SSH_AUTH_SOCK", "SKILLBOX_STATE_DIR", lab.path("").to_str().unwrap()]
    {
        assert!(!stdout.contains(hidden), "{hidden}: {stdout}");
    }
}

#[test]
fn f084_commands_that_read_stdin_get_its_end_at_once_needs_python() {
    let lab = Lab::new();
    for script in ["cat", "python3", "read x; exit 0"] {
        let args = ["run", "--timeout", "20s", "--skills", &examples(), "--shell", "hello", "--", script];
        let mut command = lab.command(args);
        // An open pipe that nobody writes to: inherited, it would never end.
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let open = child.stdin.take();
        assert_eq!(child.wait().unwrap().code(), Some(0), "{script}");
        drop(open);
    }
}

#[test]
fn f086_our_stdin_is_not_the_command_s() {
    let lab = Lab::new();
    let script = "ls -l /proc/self/fd; cat; cat <&0; cat /proc/self/fd/0; for n in 3 4 5 6 7 8 9; do cat <&$n; done 2>/dev/null; true";
    let mut child = lab
        .command(["run", "--skills", &examples(), "--shell", "hello", "--", script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"the-secret").unwrap();
    let output = child.wait_with_output().unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(!stdout.contains("the-secret"), "{stdout}");
    assert!(stdout.contains("0 -> /dev/null"), "{stdout}");
    assert!(!stdout.contains("socket:"), "{stdout}");
}
