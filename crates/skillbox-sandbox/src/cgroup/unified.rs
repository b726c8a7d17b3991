//! Enabling controllers below the engine's own cgroup on v2.

use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use super::files;

/// A directory whose children have the wanted controllers.
#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) dir: PathBuf,
    /// The leaf that the engine was moved into, to make room.
    pub(super) moved_to: Option<PathBuf>,
}

/// The names listed in `dir/file`.
pub(super) fn listed(dir: &Path, file: &str) -> Vec<String> {
    fs::read_to_string(dir.join(file))
        .map(|text| text.split_ascii_whitespace().map(str::to_owned).collect())
        .unwrap_or_default()
}

/// Finds or makes a directory, `own` or its delegated parent, whose children have the controllers `wanted`.
///
/// `room` is a leaf's name and the process (the engine) that may be moved there when it is alone in `own`: v2 allows controllers for children only in a cgroup without processes (the
/// "no internal processes" rule of Documentation/admin-guide/cgroup-v2.rst), the hierarchy's root excepted.
pub(super) fn prepare(
    own: &Path,
    mount: &Path,
    wanted: &[&str],
    room: Option<(&str, u32)>,
) -> io::Result<Prepared> {
    let refused = match enable(own, wanted) {
        Ok(()) => return Ok(Prepared { dir: own.to_owned(), moved_to: None }),
        Err(error) => error,
    };
    // systemd's DelegateSubgroup= puts the engine into a leaf of the delegated cgroup.
    if let Some(parent) = own.parent().filter(|parent| parent.starts_with(mount) && delegated(parent))
        && enable(parent, wanted).is_ok()
    {
        return Ok(Prepared { dir: parent.to_owned(), moved_to: None });
    }
    match room {
        Some((leaf, engine)) if refused.raw_os_error() == Some(libc::EBUSY) && alone(own, engine) => {
            let leaf = own.join(leaf);
            files::make_dir(&leaf)?;
            let moved = files::try_write(&leaf.join("cgroup.procs"), &engine.to_string())
                .and_then(|()| enable(own, wanted));
            match moved {
                Ok(()) => Ok(Prepared { dir: own.to_owned(), moved_to: Some(leaf) }),
                Err(error) => {
                    move_back(own, &leaf, engine, &[]);
                    Err(error)
                }
            }
        }
        _ => Err(refused),
    }
}

/// Enables `wanted` for the children of `dir`.
pub(super) fn enable(dir: &Path, wanted: &[&str]) -> io::Result<()> {
    let enabled = listed(dir, "cgroup.subtree_control");
    let missing: Vec<_> = wanted.iter().filter(|name| !enabled.iter().any(|have| have == *name)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let text: Vec<_> = missing.iter().map(|name| format!("+{name}")).collect();
    files::try_write(&dir.join("cgroup.subtree_control"), &text.join(" "))
}

/// Undoes the move of [`prepare`].
pub(super) fn move_back(own: &Path, leaf: &Path, engine: u32, enabled: &[&str]) {
    let text: Vec<_> = enabled.iter().map(|name| format!("-{name}")).collect();
    // Others may use the controllers by now: then the engine stays in its leaf.
    if !enabled.is_empty() && files::try_write(&own.join("cgroup.subtree_control"), &text.join(" ")).is_err()
    {
        return;
    }
    let _ = files::try_write(&own.join("cgroup.procs"), &engine.to_string());
    let _ = files::remove_dir(leaf);
}

/// Whether `engine` is the only process in `own`, so that nobody else has to be moved.
fn alone(own: &Path, engine: u32) -> bool {
    files::read(&own.join("cgroup.procs"))
        .is_ok_and(|text| files::parse_pids(&text).iter().all(|pid| u32::try_from(*pid) == Ok(engine)))
}

/// Whether `dir` was handed to this user: it owns it, or systemd marked it.
fn delegated(dir: &Path) -> bool {
    let marked = ["user.delegate", "trusted.delegate"].iter().any(|name| {
        let mut value = [0_u8; 8];
        matches!(rustix::fs::getxattr(dir, *name, &mut value[..]), Ok(read) if value.get(..read) == Some(b"1"))
    });
    let user = rustix::process::geteuid().as_raw();
    marked || (user != 0 && fs::metadata(dir).is_ok_and(|metadata| metadata.uid() == user))
}
