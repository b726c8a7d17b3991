//! The cgroup of one command.

use std::{
    fs::{File, OpenOptions},
    io,
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
        unix::fs::OpenOptionsExt,
    },
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use super::{
    CgroupError, Killed, Signal, files, host::Controller, kill::Target, session::SessionInner, tree::Place,
};

/// How long dropping an [`ExecCgroup`] that is not empty may take.
const DROP_TIMEOUT: Duration = Duration::from_millis(500);

/// The cgroup of one command: its processes, and what they use.
///
/// Dropping it kills what is left in it, and gives the directory back to the session for reuse.
#[derive(Debug)]
pub struct ExecCgroup {
    leaf: Leaf,
    session: Arc<SessionInner>,
}

/// The counters of an [`ExecCgroup`] when a command began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    cpu: Option<Duration>,
    oom_kills: Option<u64>,
    memory: Option<u64>,
    /// The peak before, where it could not be reset.
    peak: Option<u64>,
}

/// What a command used; a field is `None` where nothing counts it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ExecUsage {
    /// CPU time of all processes of the command, user and system.
    pub cpu: Option<Duration>,
    /// The most memory that the cgroup held at one time during the command, in bytes: anonymous memory, page cache, files in memory filesystems,
    /// and kernel memory. What an earlier command left behind there (page cache, files in `/tmp`) is included, see `memory_at_begin`.
    pub peak_memory: Option<u64>,
    /// What the cgroup held already when the command began, in bytes.
    pub memory_at_begin: Option<u64>,
    /// Processes of this command that the kernel ended for want of memory.
    pub oom_kills: Option<u64>,
}

impl ExecCgroup {
    pub(super) fn new(leaf: Leaf, session: Arc<SessionInner>) -> Self {
        Self { leaf, session }
    }

    /// Puts process `pid` into the cgroup, in every hierarchy.
    ///
    /// May take 8-13 ms: do it ahead of time, to a process that is parked and that the caller has not reaped yet (else the number may be another's).
    /// When it fails the process may be in some hierarchies and not in others: end it.
    pub fn attach(&self, pid: i32) -> Result<(), CgroupError> {
        for dir in self.leaf.dirs.iter().map(|(_, dir)| dir) {
            files::try_write(&dir.join("cgroup.procs"), &pid.to_string())
                .map_err(|source| CgroupError::Attach { pid, path: dir.clone(), source })?;
        }
        Ok(())
    }

    /// [`ExecCgroup::attach`] for a process that somebody else may reap meanwhile, as a supervisor inside a process namespace does.
    ///
    /// A write to `cgroup.procs` takes a number, and a number may get another owner. So the handle is asked again afterwards: while it still names
    /// a process (or an unreaped one) the number was its own; else whoever has it now is put back into the engine's own cgroup, and the answer is `ESRCH`.
    pub fn attach_handle(&self, pidfd: BorrowedFd<'_>) -> Result<(), CgroupError> {
        let gone = |pid| CgroupError::Attach {
            pid,
            path: self.dirs().next().unwrap_or(Path::new("")).to_owned(),
            source: io::Error::from_raw_os_error(libc::ESRCH),
        };
        let pid = holder(pidfd).ok_or_else(|| gone(-1))?;
        self.attach(pid)?;
        if holder(pidfd) == Some(pid) {
            return Ok(());
        }
        for dir in self.dirs() {
            // <own>/engine/session/leaf
            if let Some(own) = dir.ancestors().nth(3) {
                // Fails when nobody has the number, which is the usual case.
                let _ = files::try_write(&own.join("cgroup.procs"), &pid.to_string());
            }
        }
        Err(gone(pid))
    }

    /// The cgroup v2 directory, for `clone3` with `CLONE_INTO_CGROUP`: `Some` where v2 alone carries the limits, so that this
    /// replaces [`ExecCgroup::attach`].
    pub fn unified_dir(&self) -> Option<BorrowedFd<'_>> {
        self.leaf.unified_dir.as_ref().map(AsFd::as_fd)
    }

    /// The directory in each hierarchy, for reports and tests.
    pub fn dirs(&self) -> impl Iterator<Item = &Path> {
        self.leaf.dirs.iter().map(|(_, dir)| dir.as_path())
    }

    /// Notes the counters before a command, and starts measuring its peak of memory.
    pub fn begin(&self) -> Counters {
        let leaf = &self.leaf;
        Counters {
            cpu: leaf.cpu(),
            oom_kills: leaf.oom_kills(),
            peak: if leaf.reset_peak() { None } else { leaf.peak.as_ref().and_then(number) },
            memory: leaf.memory.as_ref().and_then(number),
        }
    }

    /// What was used since `begin`.
    ///
    /// On kernels whose `memory.peak` cannot be reset (v2 before 6.12) the peak is `None` when an earlier command in this cgroup reached a higher one.
    pub fn end(&self, begin: &Counters) -> ExecUsage {
        let leaf = &self.leaf;
        let peak = leaf.peak.as_ref().and_then(number);
        ExecUsage {
            cpu: leaf.cpu().zip(begin.cpu).map(|(end, begin)| end.saturating_sub(begin)),
            peak_memory: peak.filter(|peak| begin.peak.is_none_or(|before| *peak > before)),
            memory_at_begin: begin.memory,
            oom_kills: leaf.oom_kills().zip(begin.oom_kills).map(|(end, begin)| end.saturating_sub(begin)),
        }
    }

    /// The processes in the cgroup, by their numbers in the engine's process namespace. Zombies are not listed.
    pub fn pids(&self) -> Result<Vec<i32>, CgroupError> {
        self.leaf.pids()
    }

    /// Whether no process is left.
    pub fn is_empty(&self) -> Result<bool, CgroupError> {
        self.leaf.is_empty()
    }

    /// Signals every process in the cgroup.
    ///
    /// With [`Signal::KILL`] it goes on until nothing is left or `timeout` has passed: by `cgroup.kill` where there is a v2 hierarchy, else with
    /// forks forbidden meanwhile; a CPU quota of the session is lifted, so that the processes get to die. Any other signal is sent once, and nothing is waited for.
    pub fn kill_all(&self, signal: Signal, timeout: Duration) -> Result<Killed, CgroupError> {
        if signal != Signal::KILL {
            return self.leaf.target(&|| self.pids()).signal(signal);
        }
        let _unthrottled = self.session.lift_quota();
        self.leaf.kill(timeout)
    }
}

impl Drop for ExecCgroup {
    fn drop(&mut self) {
        let leaf = std::mem::take(&mut self.leaf);
        let mut empty = leaf.is_empty();
        if matches!(empty, Ok(false)) {
            let _unthrottled = self.session.lift_quota();
            empty = leaf.kill(DROP_TIMEOUT).map(|killed| killed.survivors.is_empty());
        }
        if matches!(empty, Ok(true)) {
            self.session.give_back(leaf);
        }
        // Else it stays where it is; the session's removal tries again.
    }
}

/// A directory without children in every hierarchy, with its files held open.
#[derive(Debug, Default)]
pub(super) struct Leaf {
    /// Whether the hierarchy is v2, and the directory. The first one is the one whose list of processes counts.
    dirs: Vec<(bool, PathBuf)>,
    unified_dir: Option<OwnedFd>,
    cpu: Option<(bool, File)>,
    oom: Option<File>,
    peak: Option<File>,
    memory: Option<File>,
    /// v2 only: on v1 an open list goes stale.
    procs: Option<File>,
    pids_max: Option<PathBuf>,
}

impl Leaf {
    /// Makes the directory `name` in the session's directory in every one of `places`.
    pub(super) fn create(places: &[Place], session: &str, name: &str) -> Result<Self, CgroupError> {
        let mut leaf = Self::default();
        for place in places {
            let dir = place.dir.join(session).join(name);
            if let Err(source) = files::make_dir(&dir) {
                leaf.remove();
                return Err(CgroupError::io("make", &dir, source));
            }
            leaf.dirs.push((place.unified, dir));
        }
        leaf.open_files(places);
        Ok(leaf)
    }

    fn open_files(&mut self, places: &[Place]) {
        let dir_of = |controller: Controller| {
            let place = places.iter().find(|place| place.controllers.contains(&controller))?;
            self.dirs.iter().find(|(_, dir)| dir.starts_with(&place.dir)).cloned()
        };
        let open = |dir: &Path, file: &str| File::open(dir.join(file)).ok();
        if let Some((unified, dir)) = dir_of(Controller::Memory) {
            let [oom, peak, memory] = if unified {
                ["memory.events", "memory.peak", "memory.current"]
            } else {
                ["memory.oom_control", "memory.max_usage_in_bytes", "memory.usage_in_bytes"]
            };
            self.oom = open(&dir, oom);
            self.memory = open(&dir, memory);
            let both =
                OpenOptions::new().read(true).write(true).custom_flags(libc::O_CLOEXEC).open(dir.join(peak));
            self.peak = both.ok().or_else(|| open(&dir, peak));
        }
        if let Some((_, dir)) = dir_of(Controller::Pids) {
            self.pids_max = Some(dir.join("pids.max"));
        }
        let cpuacct = dir_of(Controller::CpuAccounting);
        if let Some((true, dir)) = self.dirs.first() {
            self.procs = open(dir, "cgroup.procs");
            self.cpu = open(dir, "cpu.stat").map(|file| (true, file));
            self.unified_dir = File::open(dir).ok().filter(|_| self.dirs.len() == 1).map(OwnedFd::from);
        }
        if let (None, Some((_, dir))) = (&self.cpu, cpuacct) {
            self.cpu = open(&dir, "cpuacct.usage").map(|file| (false, file));
        }
    }

    fn cpu(&self) -> Option<Duration> {
        let (unified, file) = self.cpu.as_ref()?;
        if *unified {
            field(file, "usage_usec").map(Duration::from_micros)
        } else {
            number(file).map(Duration::from_nanos)
        }
    }

    fn oom_kills(&self) -> Option<u64> {
        self.oom.as_ref().and_then(|file| field(file, "oom_kill"))
    }

    /// Starts the peak anew; false where the kernel cannot.
    fn reset_peak(&self) -> bool {
        use std::os::unix::fs::FileExt;
        // Any write resets it: on v1 for all, on v2 (6.12) for this open file.
        self.peak.as_ref().is_some_and(|file| file.write_at(b"0", 0).is_ok())
    }

    fn pids(&self) -> Result<Vec<i32>, CgroupError> {
        let Some((_, dir)) = self.dirs.first() else { return Ok(Vec::new()) };
        let path = dir.join("cgroup.procs");
        let text = match &self.procs {
            Some(file) => files::reread(file).map_err(|source| CgroupError::io("read", &path, source)),
            None => files::read(&path),
        };
        match text {
            // Removed together with its session.
            Err(error) if matches!(error.errno(), Some(libc::ENOENT | libc::ENODEV)) => Ok(Vec::new()),
            other => Ok(files::parse_pids(&other?)),
        }
    }

    pub(super) fn is_empty(&self) -> Result<bool, CgroupError> {
        Ok(self.pids()?.is_empty())
    }

    pub(super) fn kill(&self, timeout: Duration) -> Result<Killed, CgroupError> {
        self.target(&|| self.pids()).kill(timeout)
    }

    fn target<'a>(&self, list: &'a dyn Fn() -> Result<Vec<i32>, CgroupError>) -> Target<'a> {
        let unified = self.dirs.first().filter(|(unified, _)| *unified).map(|(_, dir)| dir);
        Target {
            list,
            kill_file: unified.map(|dir| dir.join("cgroup.kill")),
            events_file: unified.map(|dir| dir.join("cgroup.events")),
            pids_max: self.pids_max.clone(),
        }
    }

    /// Whether it is the leaf of a session's process 1, which no command is put into.
    pub(super) fn is_init(&self) -> bool {
        self.dirs.iter().any(|(_, dir)| dir.ends_with("init"))
    }

    /// Removes the directories; what is not empty stays.
    pub(super) fn remove(&self) {
        for (_, dir) in &self.dirs {
            let _ = files::remove_dir(dir);
        }
    }
}

/// The number of the process that `pidfd` names, in the engine's process namespace; `None` when it has been reaped.
fn holder(pidfd: BorrowedFd<'_>) -> Option<i32> {
    let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", pidfd.as_raw_fd())).ok()?;
    info.lines().find_map(|line| line.strip_prefix("Pid:")?.trim().parse().ok()).filter(|pid| *pid > 0)
}

fn number(file: &File) -> Option<u64> {
    files::reread(file).ok()?.trim().parse().ok()
}

fn field(file: &File, key: &str) -> Option<u64> {
    let text: io::Result<String> = files::reread(file);
    files::field(&text.ok()?, key)
}
