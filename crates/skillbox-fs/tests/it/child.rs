//! Running one test of this binary in a process of its own: with another umask, limit or user, or to be killed.

use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Names the folder that a child test works in; without it, child tests do nothing.
const FOLDER: &str = "SKILLBOX_FS_TEST_CHILD";

/// The folder, within a child.
pub(crate) fn folder() -> Option<PathBuf> {
    std::env::var_os(FOLDER).map(PathBuf::from)
}

/// A command that runs the child test `name` on `folder`.
pub(crate) fn command(name: &str, folder: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", name, "--nocapture", "--test-threads=1"]).env(FOLDER, folder);
    command
}

/// Runs the child test as an ordinary user who owns `folder`; `false` where this process cannot become one.
pub(crate) fn run_as_ordinary_user(name: &str, folder: &Path) -> bool {
    if !rustix::process::geteuid().is_root() {
        run(command(name, folder));
        return true;
    }
    let (uid, gid) = (54_321, 54_321);
    std::os::unix::fs::chown(folder, Some(uid), Some(gid)).unwrap();
    // The build folder may be closed to others.
    let holder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(holder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let program = holder.path().join("tests");
    std::fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = Command::new(&program);
    command.args(["--exact", name, "--nocapture", "--test-threads=1"]).env(FOLDER, folder);
    command.uid(uid).gid(gid).current_dir("/");
    run(command);
    true
}

/// Runs a child to its successful end.
pub(crate) fn run(mut command: Command) {
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "child: {text}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
}
