//! The same tests once more, as somebody who is not root.

use std::fs;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

/// A user that no account has, in the gap that Debian's policy leaves (64 990 to 65 533 are reserved).
const UID: u32 = 64_990;

/// Where tests run as root, runs those of this test binary whose names hold one of `filters` again as an ordinary user, with an
/// empty home; elsewhere it does nothing, since they run as one anyway.
///
/// `copies` are folders that the user may not be able to read: each is copied, and its copy named in an environment variable.
///
/// # Panics
///
/// When a test fails, with the names and the reasons.
pub fn again_as_an_ordinary_user(filters: &[&str], copies: &[(&str, &Path)]) {
    if !rustix::process::geteuid().is_root() {
        println!("left out: the tests run as an ordinary user already");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let exe = dir.path().join("tests");
    // The build's own folder may be closed to others.
    fs::copy(std::env::current_exe().unwrap(), &exe).unwrap();
    for folder in ["home", "tmp"] {
        fs::create_dir(dir.path().join(folder)).unwrap();
        chown(dir.path().join(folder), Some(UID), Some(UID)).unwrap();
    }
    chown(dir.path(), Some(UID), Some(UID)).unwrap();
    let mut command = Command::new(exe);
    command
        .args(filters)
        .args(["--test-threads=2", "--show-output"])
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("HOME", dir.path().join("home"))
        .env("TMPDIR", dir.path().join("tmp"))
        .current_dir(dir.path())
        .uid(UID)
        .gid(UID);
    for (name, folder) in copies {
        let copy = dir.path().join(name);
        let copied = Command::new("cp").args(["-r", "--"]).arg(folder).arg(&copy).status().unwrap();
        assert!(copied.success());
        let opened = Command::new("chmod").args(["-R", "a+rX", "--"]).arg(&copy).status().unwrap();
        assert!(opened.success());
        command.env(name, copy);
    }
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    let summary = text.lines().filter(|line| line.contains("left out:") || line.starts_with("test result"));
    summary.for_each(|line| println!("as an ordinary user: {line}"));
    assert!(output.status.success(), "as an ordinary user: {text}");
}
