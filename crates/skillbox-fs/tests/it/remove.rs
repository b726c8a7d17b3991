//! Removal of whatever a script made.

use std::fs::{self, Permissions};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::{PermissionsExt as _, symlink};

use rustix::fs::{Mode, OFlags};
use skillbox_fs::{ConfinedDir, remove_tree};

use crate::child;

/// A chain of folders far beyond the longest path, and at its end a file.
fn deep_tree(parent: &ConfinedDir, depth: u64) {
    let name = "d".repeat(200);
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut at: OwnedFd = parent.create_dir("deep", 0o755, None).unwrap().into();
    for _ in 1..depth {
        rustix::fs::mkdirat(&at, name.as_str(), Mode::RWXU).unwrap();
        at = rustix::fs::openat(&at, name.as_str(), flags, Mode::empty()).unwrap();
    }
    rustix::fs::openat(&at, "file", OFlags::CREATE | OFlags::WRONLY, Mode::RUSR).unwrap();
}

#[test]
fn child_with_few_descriptors() {
    let Some(folder) = child::folder() else { return };
    let limit = rustix::process::Rlimit { current: Some(16), maximum: Some(16) };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, limit).unwrap();
    let dir = ConfinedDir::open(&folder).unwrap();
    deep_tree(&dir, 3000);
    let report = remove_tree(dir.as_fd(), b"deep").unwrap();
    assert_eq!((report.folders, report.files), (3000, 1));
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
}

#[test]
fn a_tree_of_3000_levels_goes_with_16_descriptors() {
    let folder = tempfile::tempdir().unwrap();
    child::run(child::command("remove::child_with_few_descriptors", folder.path()));
}

#[test]
fn child_with_closed_folders() {
    let Some(folder) = child::folder() else { return };
    assert!(!rustix::process::geteuid().is_root());
    let top = folder.join("t");
    for (path, mode) in
        [("a/closed", 0o000), ("a/readable", 0o500), ("a/writable", 0o200), ("b/x/y", 0o100), ("b", 0o000)]
    {
        let path = top.join(path);
        fs::create_dir_all(path.join("in")).unwrap();
        fs::write(path.join("in/f"), "x").unwrap();
        fs::set_permissions(path.join("in/f"), Permissions::from_mode(0o000)).unwrap();
        fs::set_permissions(path.join("in"), Permissions::from_mode(0o000)).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
    }
    fs::set_permissions(&top, Permissions::from_mode(0o000)).unwrap();
    let dir = ConfinedDir::open(&folder).unwrap();
    remove_tree(dir.as_fd(), b"t").unwrap();
    assert!(!top.exists());
}

#[test]
fn f053_read_only_and_closed_folders_are_removed_by_their_owner() {
    let folder = tempfile::tempdir().unwrap();
    // Reachable for the other user.
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    assert!(child::run_as_ordinary_user("remove::child_with_closed_folders", folder.path()));
}

#[test]
fn links_are_removed_and_not_followed() {
    let folder = tempfile::tempdir().unwrap();
    let outside = folder.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("keep"), "x").unwrap();
    fs::create_dir(folder.path().join("t")).unwrap();
    symlink(&outside, folder.path().join("t/link")).unwrap();
    symlink(&outside, folder.path().join("top")).unwrap();
    let dir = ConfinedDir::open(folder.path()).unwrap();
    remove_tree(dir.as_fd(), b"t").unwrap();
    assert_eq!(remove_tree(dir.as_fd(), b"top").unwrap().files, 1);
    assert!(outside.join("keep").exists());
    // Nothing there is fine; a path is not a name.
    assert_eq!(remove_tree(dir.as_fd(), b"nothing").unwrap(), skillbox_fs::RemoveReport::default());
    for bad in [&b""[..], b".", b"..", b"a/b", b"/"] {
        assert!(remove_tree(dir.as_fd(), bad).is_err());
    }
}

#[test]
fn wide_folders_are_removed_in_batches() {
    let folder = tempfile::tempdir().unwrap();
    for index in 0..9000 {
        fs::create_dir_all(folder.path().join(format!("t/{index}"))).unwrap();
    }
    let dir = ConfinedDir::open(folder.path()).unwrap();
    assert_eq!(remove_tree(dir.as_fd(), b"t").unwrap().folders, 9001);
}

#[test]
fn a_tree_that_is_still_written_to_ends_one_way_or_the_other() {
    use std::sync::atomic::{AtomicBool, Ordering};
    let folder = tempfile::tempdir().unwrap();
    let top = folder.path().join("t");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for index in 0_u64.. {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                let path = top.join(format!("{}/{}", index % 3, index % 7));
                let _ = fs::create_dir_all(&path);
                let _ = fs::write(path.join("f"), "x");
            }
        });
        let dir = ConfinedDir::open(folder.path()).unwrap();
        for _ in 0..200 {
            // Either it is gone for a moment or the error says why not; it always comes to an end.
            let _ = remove_tree(dir.as_fd(), b"t");
        }
        stop.store(true, Ordering::Relaxed);
    });
    let dir = ConfinedDir::open(folder.path()).unwrap();
    remove_tree(dir.as_fd(), b"t").unwrap();
    assert!(!top.exists());
}
