//! Hands a workspace over to the sandbox's user.

use std::ffi::CString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Gid, Mode, OFlags, Uid, chownat, fchown, fstat, openat};

const FLAGS: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// A folder on the way down, by which the way up is checked, and what is still to be entered in it.
struct Level {
    inode: (u64, u64),
    pending: Vec<CString>,
}

/// Makes `uid` the owner of everything below `dir`, and then of `dir` itself, so that a second attempt follows one that was cut off.
///
/// Links are not followed, and change their own owner. One descriptor is open at a time, however deep the tree.
pub(crate) fn give(dir: &Path, uid: u32) -> io::Result<()> {
    let (owner, group) = (Uid::from_raw(uid), Gid::from_raw(uid));
    let root = openat(CWD, dir, FLAGS, Mode::empty())?;
    let mut current = root.try_clone()?;
    let mut levels = vec![enter(&current, owner, group)?];
    while let Some(level) = levels.last_mut() {
        if let Some(name) = level.pending.pop() {
            current = openat(&current, &name, FLAGS, Mode::empty())?;
            levels.push(enter(&current, owner, group)?);
            continue;
        }
        levels.pop();
        let Some(above) = levels.last() else { break };
        current = openat(&current, c"..", FLAGS, Mode::empty())?;
        if inode(&current)? != above.inode {
            return Err(io::Error::other("the workspace was changed while it was handed over"));
        }
    }
    Ok(fchown(&root, Some(owner), Some(group))?)
}

/// Gives the entries of a folder away, and notes the folders among them.
fn enter(dir: &OwnedFd, owner: Uid, group: Gid) -> io::Result<Level> {
    let mut pending = Vec::new();
    for entry in Dir::read_from(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        chownat(dir, name, Some(owner), Some(group), AtFlags::SYMLINK_NOFOLLOW)?;
        if entry.file_type() == FileType::Directory {
            pending.push(name.to_owned());
        }
    }
    Ok(Level { inode: inode(dir)?, pending })
}

fn inode(dir: &OwnedFd) -> io::Result<(u64, u64)> {
    let stat = fstat(dir)?;
    Ok((stat.st_dev, stat.st_ino))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::print_stdout, reason = "tests")]
    use super::*;

    #[test]
    fn a_tree_of_any_depth_is_handed_over() {
        if !rustix::process::geteuid().is_root() {
            println!("left out: only root gives files away");
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let mut current = openat(CWD, dir.path(), FLAGS, Mode::empty()).unwrap();
        for _ in 0..2000 {
            rustix::fs::mkdirat(&current, c"d", Mode::RWXU).unwrap();
            rustix::fs::symlinkat(c"/etc/passwd", &current, c"link").unwrap();
            current = openat(&current, c"d", FLAGS, Mode::empty()).unwrap();
        }
        give(dir.path(), 64_990).unwrap();
        assert_eq!(fstat(&current).unwrap().st_uid, 64_990);
        let parent = openat(CWD, dir.path().parent().unwrap(), FLAGS, Mode::empty()).unwrap();
        let name = dir.path().file_name().unwrap().as_encoded_bytes();
        skillbox_fs::remove_tree(std::os::fd::AsFd::as_fd(&parent), name).unwrap();
    }
}
