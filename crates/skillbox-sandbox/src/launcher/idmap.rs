//! The store as a sandbox's user owns it.

use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use nix::sched::CloneFlags;
use nix::sys::signal::Signal;
use nix::sys::wait::waitpid;
use nix::unistd::ForkResult;
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::pipe::{PipeFlags, pipe_with};

use crate::mount::{Attr, attach, clone_idmapped, new_filesystem};

use super::message::{LauncherError, Step as _};
use super::namespaces::write_proc;

/// Where the mapped views are mounted in the launcher's own view of the host; nothing else uses /sys there.
const VIEWS: &str = "/sys";

/// Makes the folder that the views are mounted in.
pub(crate) fn prepare() -> Result<(), LauncherError> {
    let views = new_filesystem("tmpfs", &[("size", Some("1m"))], Attr::Data)
        .step("make a place for views of the store")?;
    attach(&views, Path::new(VIEWS)).step("make a place for views of the store")
}

/// Mounts `store` with root's files shown as those of `host_uid`, read-only, and answers where.
pub(crate) fn mount_view(store: &Path, host_uid: u32) -> Result<PathBuf, LauncherError> {
    let place = Path::new(VIEWS).join(host_uid.to_string());
    std::fs::create_dir(&place).step("make a view of the store")?;
    let map = user_namespace(host_uid)?;
    let view = clone_idmapped(store, map.as_fd()).step("map the store to the sandbox's user")?;
    attach(&view, &place).step("mount the view of the store")?;
    Ok(place)
}

/// A user namespace that maps uid 0 to `host_uid`, kept alive by its descriptor alone.
fn user_namespace(host_uid: u32) -> Result<OwnedFd, LauncherError> {
    let (ready_read, ready_write) = pipe_with(PipeFlags::CLOEXEC).step("make a pipe")?;
    // SAFETY: the launcher has one thread; the child calls unshare, write and pause only.
    match unsafe { nix::unistd::fork() }.step("fork for a user namespace")? {
        ForkResult::Child => {
            let made = nix::sched::unshare(CloneFlags::CLONE_NEWUSER).is_ok();
            let _ = rustix::io::write(&ready_write, &[u8::from(made)]);
            loop {
                nix::unistd::pause();
            }
        }
        ForkResult::Parent { child } => {
            drop(ready_write);
            let namespace = (|| {
                let mut made = [0];
                rustix::io::read(&ready_read, &mut made).step("make a user namespace")?;
                if made != [1] {
                    return Err(LauncherError::new("make a user namespace", nix::Error::EPERM));
                }
                let map = format!("0 {host_uid} 1");
                write_proc(&format!("/proc/{child}/uid_map"), &map).step("map a user namespace")?;
                write_proc(&format!("/proc/{child}/gid_map"), &map).step("map a user namespace")?;
                let path = format!("/proc/{child}/ns/user");
                openat(CWD, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
                    .step("open a user namespace")
            })();
            let _ = nix::sys::signal::kill(child, Signal::SIGKILL);
            let _ = waitpid(child, None);
            namespace
        }
    }
}
