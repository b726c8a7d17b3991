//! Entering the launcher's own namespaces.

use std::io;
use std::os::fd::OwnedFd;

use nix::sched::{CloneFlags, setns, unshare};
use rustix::fs::{CWD, Mode, OFlags, openat};

use super::message::{LauncherError, Step as _};

/// With whose rights the launcher builds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Privilege {
    /// The host's root: each sandbox gets a uid of its own.
    Root,
    /// An ordinary user: every sandbox maps to that user.
    User {
        /// The user's id on the host.
        uid: u32,
        /// Its group's.
        gid: u32,
    },
}

impl Privilege {
    /// Of this process.
    pub(crate) fn current() -> Self {
        let uid = nix::unistd::geteuid().as_raw();
        if uid == 0 { Self::Root } else { Self::User { uid, gid: nix::unistd::getegid().as_raw() } }
    }
}

/// Leaves the host's mount namespace, and as an ordinary user its user namespace; the next child is process 1 of a new pid
/// namespace.
pub(crate) fn enter(privilege: Privilege) -> Result<(), LauncherError> {
    let namespaces = CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWPID;
    match privilege {
        Privilege::Root => unshare(namespaces).step("unshare the mount and pid namespaces")?,
        Privilege::User { uid, gid } => {
            unshare(CloneFlags::CLONE_NEWUSER | namespaces).step("unshare the user namespace")?;
            write_proc("/proc/self/setgroups", "deny").step("deny setgroups")?;
            write_proc("/proc/self/uid_map", &format!("{uid} {uid} 1")).step("write uid_map")?;
            write_proc("/proc/self/gid_map", &format!("{gid} {gid} 1")).step("write gid_map")?;
        }
    }
    Ok(())
}

/// Writes a file of `/proc` in one call, as these files ask for.
pub(crate) fn write_proc(path: &str, text: &str) -> io::Result<()> {
    let file = openat(CWD, path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
    rustix::io::write(&file, text.as_bytes())?;
    Ok(())
}

/// A handle on the mount namespace of `process` (a pid, or `self`).
pub(crate) fn mount_namespace(process: &str) -> rustix::io::Result<OwnedFd> {
    openat(CWD, format!("/proc/{process}/ns/mnt"), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
}

/// Switches to a mount namespace, runs `work`, and switches back.
pub(crate) fn within<T>(
    namespace: &OwnedFd,
    back: &OwnedFd,
    work: impl FnOnce() -> Result<T, LauncherError>,
) -> Result<T, LauncherError> {
    setns(namespace, CloneFlags::CLONE_NEWNS).step("enter the sandbox's mount namespace")?;
    let result = work();
    // Without the way back the launcher is useless, and must not go on in the wrong place.
    if setns(back, CloneFlags::CLONE_NEWNS).is_err() {
        std::process::abort();
    }
    result
}
