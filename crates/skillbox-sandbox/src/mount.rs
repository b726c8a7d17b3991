//! Mounts through the descriptor-based interface (`open_tree(2)`, `fsopen(2)`, `move_mount(2)`, `mount_setattr(2)`).

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, OpenTreeFlags, fsconfig_create,
    fsconfig_set_flag, fsconfig_set_string, fsmount, fsopen, move_mount, open_tree,
};

/// `MOUNT_ATTR_IDMAP` of `linux/mount.h`.
const ATTR_IDMAP: u64 = libc::MOUNT_ATTR_IDMAP;

/// Attributes of a mount.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Attr {
    /// nosuid, nodev.
    Data,
    /// read-only, nosuid, nodev.
    ReadOnly,
    /// read-only, nosuid, with device nodes: for single nodes of /dev.
    Device,
}

impl Attr {
    fn bits(self) -> u64 {
        match self {
            Self::Data => libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV,
            Self::ReadOnly => libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV | libc::MOUNT_ATTR_RDONLY,
            Self::Device => libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NOEXEC,
        }
    }
}

/// A detached copy of the mount at `path`, with `attr` on all of it.
pub(crate) fn clone_tree(path: &Path, attr: Attr) -> io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE
        | OpenTreeFlags::AT_SYMLINK_NOFOLLOW;
    let tree = open_tree(rustix::fs::CWD, path, flags)?;
    set_attr(tree.as_fd(), attr.bits(), None)?;
    Ok(tree)
}

/// A detached copy of the mount at `path` whose owners are mapped by the user namespace `map`, read-only.
pub(crate) fn clone_idmapped(path: &Path, map: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    let tree = open_tree(rustix::fs::CWD, path, flags)?;
    set_attr(tree.as_fd(), Attr::ReadOnly.bits(), Some(map))?;
    Ok(tree)
}

fn set_attr(mount: BorrowedFd<'_>, set: u64, map: Option<BorrowedFd<'_>>) -> io::Result<()> {
    let attr = libc::mount_attr {
        attr_set: set | if map.is_some() { ATTR_IDMAP } else { 0 },
        attr_clr: 0,
        propagation: libc::MS_PRIVATE,
        userns_fd: map.map_or(0, |fd| u64::try_from(fd.as_raw_fd()).unwrap_or(0)),
    };
    let recursive = if map.is_some() { 0 } else { libc::AT_RECURSIVE };
    // SAFETY: the descriptor is open, the path an empty C string, and the structure lives until the call returns.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH | recursive,
            &raw const attr,
            size_of::<libc::mount_attr>(),
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Makes the mount at `path` read-only, without what is mounted below it.
pub(crate) fn make_read_only(path: &Path) -> io::Result<()> {
    let attr =
        libc::mount_attr { attr_set: Attr::ReadOnly.bits(), attr_clr: 0, propagation: 0, userns_fd: 0 };
    let path = CString::new(path.as_os_str().as_encoded_bytes())?;
    // SAFETY: path is a C string and the structure lives until the call returns.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            libc::AT_FDCWD,
            path.as_ptr(),
            0,
            &raw const attr,
            size_of::<libc::mount_attr>(),
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// A new filesystem, detached. Options without a value are flags.
pub(crate) fn new_filesystem(
    kind: &str,
    options: &[(&str, Option<&str>)],
    attr: Attr,
) -> io::Result<OwnedFd> {
    let context = fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)?;
    for (name, value) in options {
        match value {
            Some(value) => fsconfig_set_string(context.as_fd(), *name, *value)?,
            None => fsconfig_set_flag(context.as_fd(), *name)?,
        }
    }
    fsconfig_create(context.as_fd())?;
    let mut flags = MountAttrFlags::MOUNT_ATTR_NOSUID;
    if attr != Attr::Device {
        flags |= MountAttrFlags::MOUNT_ATTR_NODEV;
    }
    if attr == Attr::ReadOnly {
        flags |= MountAttrFlags::MOUNT_ATTR_RDONLY;
    }
    Ok(fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, flags)?)
}

/// Attaches a detached mount at `path`.
pub(crate) fn attach(mount: &OwnedFd, path: &Path) -> io::Result<()> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    Ok(move_mount(mount.as_fd(), "", rustix::fs::CWD, path, flags)?)
}

/// Attaches a detached mount at the place that `target` refers to.
pub(crate) fn attach_at(mount: &OwnedFd, target: &OwnedFd) -> io::Result<()> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    Ok(move_mount(mount.as_fd(), "", target.as_fd(), "", flags)?)
}
