//! Names of engines' directories, and the removal of those that dead engines left behind.

use std::{
    fs,
    hash::{BuildHasher, Hasher},
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use super::{CgroupError, files, kill::Target};

/// How long reclaiming one dead engine's directory may take.
const RECLAIM_TIMEOUT: Duration = Duration::from_secs(2);

const PREFIX: &str = "skillbox-";

/// Who made a directory: a process number is reused, so its start time belongs to it, and both mean something in one process
/// namespace only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) pid: u32,
    /// Clock ticks after boot.
    pub(super) started: u64,
    /// Inode number of the process namespace.
    pub(super) namespace: u64,
}

impl Owner {
    /// This process.
    pub(super) fn this() -> io::Result<Self> {
        let pid = std::process::id();
        let started = start_time(pid).ok_or_else(|| io::Error::from_raw_os_error(libc::ENOENT))?;
        Ok(Self { pid, started, namespace: namespace()? })
    }

    /// A directory name for it that no other engine uses.
    pub(super) fn directory(self) -> String {
        let random = std::hash::RandomState::new().build_hasher().finish() & 0xffff_ffff;
        format!("{PREFIX}{}-{}-{}-{random:08x}", self.pid, self.started, self.namespace)
    }

    /// Reads a name that [`Owner::directory`] made.
    pub(super) fn parse(name: &str) -> Option<Self> {
        let mut parts = name.strip_prefix(PREFIX)?.split('-');
        let owner = Self {
            pid: parts.next()?.parse().ok()?,
            started: parts.next()?.parse().ok()?,
            namespace: parts.next()?.parse().ok()?,
        };
        let random = parts.next()?;
        (parts.next().is_none() && random.len() == 8).then_some(owner)
    }

    /// Whether it is known to be gone. An owner in another process namespace cannot be judged, and counts as alive.
    fn is_dead(self) -> bool {
        namespace().is_ok_and(|here| here == self.namespace) && start_time(self.pid) != Some(self.started)
    }
}

fn namespace() -> io::Result<u64> {
    Ok(fs::metadata("/proc/self/ns/pid")?.ino())
}

/// Field 22 of /proc/PID/stat; `None` when there is no such process.
fn start_time(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold spaces and parentheses.
    stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(19)?.parse().ok()
}

/// Removes the directories of dead engines in `parent`, ending what runs in them. Returns those removed.
pub(super) fn reclaim(parent: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(parent) else { return Vec::new() };
    entries
        .flatten()
        .filter(|entry| entry.file_name().to_str().and_then(Owner::parse).is_some_and(Owner::is_dead))
        .map(|entry| entry.path())
        // Another engine may be at the same; what fails is tried again at the next start.
        .filter(|path| remove_tree(path, Instant::now() + RECLAIM_TIMEOUT).is_ok())
        .collect()
}

/// Ends every process in `dir` and below, and removes all of it.
pub(super) fn remove_tree(dir: &Path, deadline: Instant) -> Result<(), CgroupError> {
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        other => other.map_err(|source| CgroupError::io("read", dir, source))?,
    };
    let list = || match files::read(&dir.join("cgroup.procs")) {
        Err(error) if matches!(error.errno(), Some(libc::ENOENT | libc::ENODEV)) => Ok(Vec::new()),
        other => Ok(files::parse_pids(&other?)),
    };
    let pids_max = dir.join("pids.max");
    let target = Target {
        list: &list,
        kill_file: Some(dir.join("cgroup.kill")),
        events_file: Some(dir.join("cgroup.events")),
        pids_max: Some(pids_max),
    };
    target.kill(deadline.saturating_duration_since(Instant::now()))?;
    for entry in entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
        remove_tree(&entry.path(), deadline)?;
    }
    loop {
        match files::remove_dir(dir) {
            // The last process was reaped a moment ago, its cgroup not yet.
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) && Instant::now() < deadline => {
                std::thread::yield_now();
            }
            other => return other.map_err(|source| CgroupError::io("remove", dir, source)),
        }
    }
}
