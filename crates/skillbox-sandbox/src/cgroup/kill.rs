//! Ending everything in a cgroup.

use std::{
    collections::HashSet,
    fs::File,
    io,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal},
};

use super::{CgroupError, files};

/// What ending a cgroup's processes came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Killed {
    /// Processes that were sent the signal.
    pub signalled: usize,
    /// Processes that were still there at the deadline. Always empty after `SIGKILL`, unless something hangs in the kernel.
    pub survivors: Vec<i32>,
}

/// What is known about the cgroup to be emptied.
pub(super) struct Target<'a> {
    /// Lists the processes, freshly.
    pub(super) list: &'a dyn Fn() -> Result<Vec<i32>, CgroupError>,
    /// v2: `cgroup.kill`, where the kernel has it (5.14).
    pub(super) kill_file: Option<PathBuf>,
    /// v2: `cgroup.events`.
    pub(super) events_file: Option<PathBuf>,
    /// `pids.max` of a leaf.
    pub(super) pids_max: Option<PathBuf>,
}

/// Process descriptors that are open at one time.
const BATCH: usize = 128;

impl Target<'_> {
    /// Sends `SIGKILL` until nothing is left or `timeout` has passed.
    pub(super) fn kill(&self, timeout: Duration) -> Result<Killed, CgroupError> {
        let deadline = Instant::now() + timeout;
        if let (Some(kill), Some(events)) = (&self.kill_file, &self.events_file) {
            let signalled = (self.list)()?.len();
            if signalled == 0 {
                return Ok(Killed::default());
            }
            if files::try_write(kill, "1").is_ok() {
                let survivors = if wait_unpopulated(events, deadline)? { Vec::new() } else { (self.list)()? };
                return Ok(Killed { signalled, survivors });
            }
        }
        // An inner node, or nobody left: its own limit of processes stays as it is.
        if (self.list)()?.is_empty() {
            return Ok(Killed::default());
        }
        // Nothing may be born while the list is worked off. That the controller is missing only means more rounds.
        let _fork_ban = self.pids_max.as_deref().and_then(ForkBan::impose);
        let mut killed = HashSet::new();
        let mut first = true; // even without time to wait, everybody is sent the signal once
        loop {
            let pids = (self.list)()?;
            if pids.is_empty() || (!first && Instant::now() >= deadline) {
                return Ok(Killed { signalled: killed.len(), survivors: pids });
            }
            first = false;
            for batch in pids.chunks(BATCH) {
                // A process that has ended may be listed for a moment longer.
                std::thread::yield_now();
                let hit = self.signal_batch(batch, Signal::KILL)?;
                killed.extend(hit.iter().map(|(pid, _)| *pid));
                wait_exits(&hit, deadline)?;
            }
        }
    }

    /// Sends `signal` once to each process; waits for none.
    pub(super) fn signal(&self, signal: Signal) -> Result<Killed, CgroupError> {
        let mut signalled = 0;
        let pids = (self.list)()?;
        for batch in pids.chunks(BATCH) {
            signalled += self.signal_batch(batch, signal)?.len();
        }
        Ok(Killed { signalled, survivors: Vec::new() })
    }

    /// Signals those of `pids` that are verified to be in the cgroup, and returns them.
    ///
    /// A descriptor holds whoever had the number when it was opened. Only when the number is listed again *after* that is its holder
    /// known to be a member: had the member died in between and the number gone to a stranger, it would not be listed, and had it gone
    /// to another member, the descriptor would name a dead process.
    fn signal_batch(&self, pids: &[i32], signal: Signal) -> Result<Vec<(i32, OwnedFd)>, CgroupError> {
        let opened: Vec<_> = pids
            .iter()
            .filter_map(|number| {
                let pid = Pid::from_raw(*number)?;
                pidfd_open(pid, PidfdFlags::empty()).ok().map(|descriptor| (*number, descriptor))
            })
            .collect();
        let members: HashSet<i32> = (self.list)()?.into_iter().collect();
        Ok(opened
            .into_iter()
            .filter(|(pid, descriptor)| {
                members.contains(pid) && pidfd_send_signal(descriptor, signal).is_ok()
            })
            .collect())
    }
}

/// `pids.max` at 0, until dropped; a leaf has no limit of its own otherwise.
struct ForkBan<'a>(&'a Path);

impl<'a> ForkBan<'a> {
    fn impose(file: &'a Path) -> Option<Self> {
        files::try_write(file, "0").ok().map(|()| Self(file))
    }
}

impl Drop for ForkBan<'_> {
    fn drop(&mut self) {
        // Fails only when the cgroup is gone.
        let _ = files::try_write(self.0, "max");
    }
}

fn left(deadline: Instant) -> Timespec {
    let left = deadline.saturating_duration_since(Instant::now());
    Timespec::try_from(left).unwrap_or(Timespec { tv_sec: 1, tv_nsec: 0 })
}

/// Waits until each of `processes` has ended, or the deadline.
fn wait_exits(processes: &[(i32, OwnedFd)], deadline: Instant) -> Result<(), CgroupError> {
    let mut waiting: Vec<&OwnedFd> = processes.iter().map(|(_, descriptor)| descriptor).collect();
    while !waiting.is_empty() && Instant::now() < deadline {
        let mut polled: Vec<_> = waiting.iter().map(|fd| PollFd::new(*fd, PollFlags::IN)).collect();
        match poll(&mut polled, Some(&left(deadline))) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => {
                return Err(CgroupError::io("wait for processes of", "pidfd".as_ref(), error.into()));
            }
        }
        let running: Vec<bool> = polled.iter().map(|fd| fd.revents().is_empty()).collect();
        let mut keep = running.iter();
        waiting.retain(|_| *keep.next().unwrap_or(&false));
    }
    Ok(())
}

/// Waits until `cgroup.events` says that no process is left; false when the deadline came first.
fn wait_unpopulated(events: &Path, deadline: Instant) -> Result<bool, CgroupError> {
    let failed = |source: io::Error| CgroupError::io("read", events, source);
    // A descriptor of its own: the kernel notes for each what it has been told.
    let file = File::open(events).map_err(failed)?;
    loop {
        if files::field(&files::reread(&file).map_err(failed)?, "populated") == Some(0) {
            return Ok(true);
        }
        if Instant::now() >= deadline {
            return Ok(false);
        }
        match poll(&mut [PollFd::new(&file, PollFlags::PRI)], Some(&left(deadline))) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(failed(error.into())),
        }
    }
}
