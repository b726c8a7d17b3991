//! On a terminal.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::process::{Command, Stdio};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use crate::lab::{Lab, examples};

/// Runs a script in a skill on a terminal.
fn on_a_terminal(lab: &Lab, options: &[&str], script: &str) -> String {
    let skills = examples();
    let args = ["run", "--skills", &skills].into_iter().chain(options.iter().copied());
    show(lab, args.chain(["--shell", "hello", "--", script]))
}

/// Runs the program with a terminal of 80 columns for everything, which is also the controlling one, and answers what it would
/// show.
fn show<'a>(lab: &Lab, args: impl IntoIterator<Item = &'a str>) -> String {
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&ours).unwrap();
    unlockpt(&ours).unwrap();
    let name = ptsname(&ours, Vec::new()).unwrap();
    let name = std::path::Path::new(std::ffi::OsStr::from_bytes(name.to_bytes())).to_path_buf();
    let open = || Stdio::from(File::options().read(true).write(true).open(&name).unwrap());
    let inner = lab.command(args);
    let mut command = Command::new("setsid");
    command.args(["--ctty", "--wait", "sh", "-c", "stty cols 80; exec \"$0\" \"$@\""]);
    command.arg(inner.get_program()).args(inner.get_args()).env_clear();
    command.envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let mut child = command
        .current_dir(inner.get_current_dir().unwrap())
        .stdin(open())
        .stdout(open())
        .stderr(open())
        .spawn()
        .unwrap();
    drop(command);
    let mut shown = Vec::new();
    let mut terminal = File::from(ours);
    let mut piece = [0; 4096];
    // The last one to close the other end ends this with an error (EIO).
    while let Ok(count @ 1..) = terminal.read(&mut piece) {
        shown.extend_from_slice(&piece[..count]);
    }
    child.wait().unwrap();
    String::from_utf8_lossy(&shown).replace("\r\n", "\n")
}

const HOSTILE: &str = r"printf 'a\033]0;title\007b\033[31mred\033[6n\n'";

#[test]
fn control_sequences_do_not_reach_a_terminal() {
    let lab = Lab::new();
    let shown = on_a_terminal(&lab, &["-q"], HOSTILE);
    assert_eq!(shown, "a^[]0;title^Gb\x1b[31mred^[[6n\n\x1b[0m");
}

#[test]
fn raw_passes_everything() {
    let lab = Lab::new();
    assert_eq!(on_a_terminal(&lab, &["-q", "--raw"], HOSTILE), "a\x1b]0;title\x07b\x1b[31mred\x1b[6n\n");
}

#[test]
fn f085_the_terminal_cannot_be_opened_by_the_command() {
    let lab = Lab::new();
    let shown = on_a_terminal(
        &lab,
        &["-q"],
        "if (: < /dev/tty) 2>/dev/null; then echo opened; else echo refused; fi",
    );
    assert_eq!(shown, "refused\n");
}

#[test]
fn messages_are_coloured_on_a_terminal_alone() {
    let lab = Lab::new();
    let shown = on_a_terminal(&lab, &[], "kill -SEGV $$");
    assert!(shown.contains("\x1b[1;31merror:\x1b[0m "), "{shown:?}");
    let answer = lab.shell("kill -SEGV $$").expect(139);
    assert!(!answer.stderr.contains('\x1b'), "{answer:?}");
}

#[test]
fn the_table_begins_on_a_line_of_its_own() {
    let lab = Lab::new();
    let shown = on_a_terminal(&lab, &[], "echo 1 > out/a; printf unfinished");
    assert!(shown.starts_with("unfinished\n FILE"), "{shown:?}");
}

#[test]
fn a_list_fits_the_terminal_and_names_are_whole() {
    let lab = Lab::new();
    let shown = show(&lab, ["list", "--skills", &examples()]);
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(lines.len(), 1 + std::fs::read_dir(examples()).unwrap().filter(is_folder).count(), "{shown}");
    assert!(lines.iter().all(|line| line.chars().count() <= 80), "{shown}");
    assert!(shown.contains(" failing-on-purpose "), "{shown}");
}

fn is_folder(entry: &std::io::Result<std::fs::DirEntry>) -> bool {
    entry.as_ref().is_ok_and(|entry| entry.path().is_dir())
}
