//! Hands a workspace over to the sandbox's user.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Gid, Mode, OFlags, Uid, chownat, openat};

/// Deeper trees are refused: they are nothing that a session's own files need.
const MAX_DEPTH: usize = 400;

/// Makes `uid` the owner of `dir` and of everything below it. Links are not followed, and change their own owner.
pub(crate) fn give(dir: &Path, uid: u32) -> io::Result<()> {
    let opened = openat(
        CWD,
        dir,
        OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    let (owner, group) = (Uid::from_raw(uid), Gid::from_raw(uid));
    rustix::fs::fchown(&opened, Some(owner), Some(group))?;
    give_below(&opened, uid, 0)
}

fn give_below(dir: &OwnedFd, uid: u32, depth: usize) -> io::Result<()> {
    if depth > MAX_DEPTH {
        return Err(io::Error::other("the workspace is nested too deeply to change its owner"));
    }
    let (owner, group) = (Uid::from_raw(uid), Gid::from_raw(uid));
    for entry in Dir::read_from(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        chownat(dir, name, Some(owner), Some(group), AtFlags::SYMLINK_NOFOLLOW)?;
        if entry.file_type() == FileType::Directory {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            give_below(&openat(dir, name, flags, Mode::empty())?, uid, depth + 1)?;
        }
    }
    Ok(())
}
