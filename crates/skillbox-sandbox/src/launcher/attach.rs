//! Mounts into a running sandbox, from outside.
//!
//! A mount is prepared in the launcher's view of the host, where the workspace and the store are, and moved into the sandbox's
//! mount namespace. A place inside a workspace is opened without following any link: a script may have put one there.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};

use crate::mount::{Attr, attach, attach_at, clone_tree, new_filesystem};

use super::build::Built;
use super::message::{LauncherError, Step as _};
use super::namespaces::{Privilege, within};
use super::serve::Launcher;
use super::template::{HOME, WORKSPACE};

/// Mounts the workspace and the home folder of a session.
pub(crate) fn workspace(
    launcher: &Launcher,
    built: &Built,
    workspace: &Path,
    home: &Path,
) -> Result<(), LauncherError> {
    let workspace = clone_tree(workspace, Attr::Data).step("open the workspace")?;
    let home = clone_tree(home, Attr::Data).step("open the home folder")?;
    within(&built.mounts, &launcher.host_view, || {
        attach(&workspace, Path::new(WORKSPACE)).step("mount the workspace")?;
        attach(&home, Path::new(HOME)).step("mount the home folder")
    })
}

/// The layers of a skill's overlay.
#[derive(Debug)]
pub(crate) struct Layers {
    pub(crate) lower: PathBuf,
    pub(crate) upper: PathBuf,
    pub(crate) work: PathBuf,
}

/// Mounts a writable overlay at `skills/<name>` of the workspace.
pub(crate) fn skill(
    launcher: &mut Launcher,
    built_id: u64,
    host_uid: u32,
    name: &str,
    layers: &Layers,
) -> Result<(), LauncherError> {
    let lower = match launcher.privilege {
        // The store belongs to root; the mapped view of it belongs to the sandbox's user.
        Privilege::Root => launcher.mapped_store(host_uid)?.join(
            layers
                .lower
                .strip_prefix(&launcher.config.store)
                .map_err(|_| LauncherError::new("find the skill in the store", nix::Error::EINVAL))?,
        ),
        Privilege::User { .. } => layers.lower.clone(),
    };
    let overlay =
        overlay(launcher.privilege, &lower, &layers.upper, &layers.work).step("make the overlay")?;
    let built = launcher.sandbox(built_id)?;
    let target = Path::new(WORKSPACE).join("skills").join(name);
    within(&built.mounts, &launcher.host_view, || {
        let place = open_place(&target).step("open the skill's folder in the workspace")?;
        attach_at(&overlay, &place).step("mount the overlay")
    })
}

fn open_place(path: &Path) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS)
}

fn overlay(privilege: Privilege, lower: &Path, upper: &Path, work: &Path) -> std::io::Result<OwnedFd> {
    let text = |path: &Path| path.to_str().map(escape).ok_or(std::io::ErrorKind::InvalidFilename);
    let (lower, upper, work) = (text(lower)?, text(upper)?, text(work)?);
    let mut options = vec![
        ("source", Some("skill")),
        ("lowerdir", Some(lower.as_str())),
        ("upperdir", Some(upper.as_str())),
        ("workdir", Some(work.as_str())),
        // No sync of the upper filesystem when the overlay goes: the session's files are worth what the host's page cache is.
        ("volatile", None),
    ];
    if privilege != Privilege::Root {
        options.push(("userxattr", None));
    }
    new_filesystem("overlay", &options, Attr::Data)
}

/// `lowerdir` is a list: colons and backslashes of a path are escaped (Documentation/filesystems/overlayfs.rst).
fn escape(path: &str) -> String {
    path.replace('\\', "\\\\").replace(':', "\\:")
}
