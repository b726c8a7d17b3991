//! Ctrl-C.

use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::process::CommandExt as _;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::lab::{Lab, examples, processes_with};

/// Starts a command that will not end by itself, sends a signal once it runs, and looks at what is left.
fn cancelled_by(send: impl Fn(Pid), mark: &str) {
    let lab = Lab::new();
    // The number of seconds is the mark by which the processes are found again.
    let script = format!(
        "echo kept > out/kept; trap '' TERM INT; sleep {mark} & setsid sleep {mark} & echo ready; wait; wait; wait"
    );
    let mut child = lab
        .command(["run", "--skills", &examples(), "--timeout", "none", "--shell", "hello", "--", &script])
        .process_group(0)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    send(Pid::from_child(&child));
    let mut stderr = String::new();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{stderr}");
    assert!(stderr.contains("cancelled"), "{stderr}");
    assert!(stderr.contains("out/kept"), "what was made is collected: {stderr}");
    assert_eq!(processes_with(&format!("sleep\0{mark}")), [0_u32; 0]);
    lab.assert_nothing_left();
}

#[test]
fn an_interrupt_ends_the_command_and_leaves_nothing() {
    cancelled_by(|pid| kill_process(pid, Signal::INT).unwrap(), "86399.125");
}

#[test]
fn an_interrupt_of_the_whole_group_does_the_same() {
    // A terminal sends it to every process of the foreground group, helpers of ours among them.
    cancelled_by(|pid| kill_process_group(pid, Signal::INT).unwrap(), "86399.25");
}

#[test]
fn a_request_to_terminate_does_the_same() {
    cancelled_by(|pid| kill_process(pid, Signal::TERM).unwrap(), "86399.5");
}

#[test]
fn a_signal_that_is_ignored_stays_so() {
    let lab = Lab::new();
    let script = "mkfifo out/gate; echo ready; read line < out/gate; echo ended";
    let run = lab.command(["run", "-q", "--skills", &examples(), "--shell", "hello", "--", script]);
    let mut command = std::process::Command::new("sh");
    command.args(["-c", "trap '' HUP; exec \"$0\" \"$@\""]).arg(run.get_program()).args(run.get_args());
    command.env_clear().envs(run.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut shown = String::new();
    stdout.read_line(&mut shown).unwrap();
    kill_process(Pid::from_child(&child), Signal::HUP).unwrap();
    let session = std::fs::read_dir(lab.sessions()).unwrap().next().unwrap().unwrap().path();
    std::fs::write(session.join("ws/out/gate"), "go\n").unwrap();
    stdout.read_to_string(&mut shown).unwrap();
    assert_eq!(shown, "ready\nended\n");
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_second_signal_does_not_wait_for_a_reader_that_does_not_read() {
    let lab = Lab::new();
    let mut child = lab
        .command(["run", "--skills", &examples(), "hello", "--", "yes"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_exact(&mut [0; 4]).unwrap();
    // Two kinds: two of one kind could become one.
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    drop(stdout);
    lab.shell("true").expect(0);
    lab.assert_nothing_left();
}

#[test]
fn a_killed_program_leaves_no_process_and_the_next_start_clears_its_files() {
    let lab = Lab::new();
    let mut child = lab
        .command(["run", "--skills", &examples(), "--shell", "hello", "--", "echo ready; sleep 86399.75"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    stdout.read_line(&mut line).unwrap();
    kill_process(Pid::from_child(&child), Signal::KILL).unwrap();
    child.wait().unwrap();
    // The kernel ends them with the launcher; its own end is all there is to wait for.
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
    while !processes_with("sleep\x0086399.75").is_empty() {
        assert!(std::time::Instant::now() < deadline, "processes were left");
        std::thread::yield_now();
    }
    lab.shell("true").expect(0);
    lab.assert_nothing_left();
}
