//! The cgroup of a session: its limits, and the leaves of its commands.

use std::{
    path::Path,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use skillbox_types::Limits;

use super::{
    CgroupError, ExecCgroup,
    exec::Leaf,
    files,
    host::Controller,
    stale,
    tree::{Place, TreeInner},
};

/// How long removing a session may wait for its processes to end.
const REMOVE_TIMEOUT: Duration = Duration::from_secs(1);

/// The limits of a session as a whole; `None` is no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CgroupLimits {
    /// Memory in bytes, swap included: anonymous memory, page cache, memory filesystems and kernel memory.
    pub memory_bytes: Option<u64>,
    /// Processes and threads, the supervisor and parked processes included.
    pub pids: Option<u64>,
    /// CPU time in thousandths of a processor: 1500 is one and a half.
    pub cpu_millis: Option<u64>,
}

impl From<&Limits> for CgroupLimits {
    /// Takes over memory and processes. The supervisor's own processes count too: add them to `pids`.
    fn from(limits: &Limits) -> Self {
        Self { memory_bytes: Some(limits.memory_bytes), pids: Some(limits.pids), cpu_millis: None }
    }
}

/// The cgroup of a session. Dropping it, and every [`ExecCgroup`] of it, ends what is in it and removes it.
#[derive(Debug)]
pub struct SessionCgroup {
    inner: Arc<SessionInner>,
}

#[derive(Debug)]
pub(super) struct SessionInner {
    name: String,
    tree: Arc<TreeInner>,
    state: Mutex<State>,
    execs: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    limits: CgroupLimits,
    /// Verified empty, for the next commands.
    idle: Vec<Leaf>,
    /// Kills in progress that want no CPU quota.
    lifted: usize,
}

impl SessionCgroup {
    pub(super) fn create(
        tree: Arc<TreeInner>,
        name: String,
        limits: &CgroupLimits,
    ) -> Result<Self, CgroupError> {
        let inner = SessionInner { name, tree, state: Mutex::default(), execs: AtomicU64::new(1) };
        for place in &inner.tree.places {
            let dir = place.dir.join(&inner.name);
            files::make_dir(&dir).map_err(|source| CgroupError::io("make", &dir, source))?;
            place.enable_for_children(&dir)?;
        }
        let session = Self { inner: Arc::new(inner) };
        session.set_limits(limits)?;
        Ok(session)
    }

    /// Puts `limits` in force, for what runs as well as for what comes. A limit that no controller of this host enforces is passed over:
    /// [`super::CgroupTree::controllers`] says which they are.
    pub fn set_limits(&self, limits: &CgroupLimits) -> Result<(), CgroupError> {
        let mut state = self.inner.state();
        if let Some((place, dir)) = self.inner.place(Controller::Memory) {
            set_memory(place.unified, &dir, limits.memory_bytes)?;
        }
        if let Some((_, dir)) = self.inner.place(Controller::Pids) {
            files::write(
                &dir.join("pids.max"),
                &limits.pids.map_or("max".to_owned(), |pids| pids.to_string()),
            )?;
        }
        // Without a quota before and now there is nothing to write.
        if state.lifted == 0 && (limits.cpu_millis.is_some() || state.limits.cpu_millis.is_some()) {
            self.inner.write_quota(limits.cpu_millis)?;
        }
        state.limits = *limits;
        Ok(())
    }

    /// The limits in force.
    pub fn limits(&self) -> CgroupLimits {
        self.inner.state().limits
    }

    /// The cgroup for the session's process 1.
    pub fn init_slot(&self) -> Result<ExecCgroup, CgroupError> {
        self.leaf("init")
    }

    /// A cgroup for one command: one that is verified to be empty, or a new one.
    pub fn exec_slot(&self) -> Result<ExecCgroup, CgroupError> {
        while let Some(leaf) = self.inner.pop_idle() {
            // Only a parked process that came late could be in it; such a leaf is not used again.
            if leaf.is_empty()? {
                return Ok(ExecCgroup::new(leaf, Arc::clone(&self.inner)));
            }
        }
        self.leaf(&format!("e{}", self.inner.execs.fetch_add(1, Ordering::Relaxed)))
    }

    fn leaf(&self, name: &str) -> Result<ExecCgroup, CgroupError> {
        let leaf = Leaf::create(&self.inner.tree.places, &self.inner.name, name)?;
        if let Some((Place { unified: false, .. }, dir)) = self.inner.place(Controller::Memory)
            && let Err(error) = limit_sockets(&dir.join(name), None)
        {
            leaf.remove();
            return Err(error);
        }
        Ok(ExecCgroup::new(leaf, Arc::clone(&self.inner)))
    }

    /// Memory in use by the session as a whole, in bytes.
    pub fn memory_bytes(&self) -> Result<Option<u64>, CgroupError> {
        let Some((place, dir)) = self.inner.place(Controller::Memory) else { return Ok(None) };
        let file = if place.unified { "memory.current" } else { "memory.usage_in_bytes" };
        Ok(files::read(&dir.join(file))?.trim().parse().ok())
    }

    /// Memory in the buffers of the session's internet sockets, in bytes, where it is not part of [`SessionCgroup::memory_bytes`]: on cgroup v1.
    ///
    /// It may rise above the limit: to a TCP socket whose buffers are empty the kernel grants some memory in any case (`__GFP_NOFAIL` in
    /// `__sk_mem_raise_allocated`), and nothing is ended for it. Who must be sure looks here while commands run.
    pub fn socket_bytes(&self) -> Result<Option<u64>, CgroupError> {
        let Some((Place { unified: false, .. }, dir)) = self.inner.place(Controller::Memory) else {
            return Ok(None);
        };
        match files::read(&dir.join("memory.kmem.tcp.usage_in_bytes")) {
            Err(error) if error.errno() == Some(libc::ENOENT) => Ok(None),
            read => Ok(read?.trim().parse().ok()),
        }
    }

    /// Processes and threads of the session as a whole.
    pub fn pids_in_use(&self) -> Result<Option<u64>, CgroupError> {
        let Some((_, dir)) = self.inner.place(Controller::Pids) else { return Ok(None) };
        Ok(files::read(&dir.join("pids.current"))?.trim().parse().ok())
    }

    /// The directory in each hierarchy, for reports and tests.
    pub fn dirs(&self) -> Vec<std::path::PathBuf> {
        self.inner.tree.places.iter().map(|place| place.dir.join(&self.inner.name)).collect()
    }

    /// Ends every process of the session, leaves of [`ExecCgroup`]s that are still held included, and removes it.
    ///
    /// Dropping does the same without saying what failed.
    pub fn remove(self) -> Result<(), CgroupError> {
        self.inner.remove()
    }
}

impl SessionInner {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pop_idle(&self) -> Option<Leaf> {
        self.state().idle.pop()
    }

    pub(super) fn give_back(&self, leaf: Leaf) {
        if leaf.is_init() {
            return leaf.remove();
        }
        self.state().idle.push(leaf);
    }

    fn place(&self, controller: Controller) -> Option<(&Place, std::path::PathBuf)> {
        let place = self.tree.places.iter().find(|place| place.controllers.contains(&controller))?;
        Some((place, place.dir.join(&self.name)))
    }

    fn write_quota(&self, millis: Option<u64>) -> Result<(), CgroupError> {
        const PERIOD_US: u64 = 100_000;
        let Some((place, dir)) = self.place(Controller::Cpu) else { return Ok(()) };
        // The kernel takes no quota under 1 ms.
        let quota = millis.map(|millis| (millis * PERIOD_US / 1000).max(1000));
        if place.unified {
            let quota = quota.map_or("max".to_owned(), |quota| quota.to_string());
            return files::write(&dir.join("cpu.max"), &format!("{quota} {PERIOD_US}"));
        }
        files::write(&dir.join("cpu.cfs_period_us"), &PERIOD_US.to_string())?;
        files::write(&dir.join("cpu.cfs_quota_us"), &quota.map_or("-1".to_owned(), |quota| quota.to_string()))
    }

    /// Takes the CPU quota away while the result lives.
    pub(super) fn lift_quota(&self) -> Option<Unthrottled<'_>> {
        let mut state = self.state();
        state.limits.cpu_millis?;
        state.lifted += 1;
        if state.lifted == 1 {
            // Failing only makes the end slower.
            let _ = self.write_quota(None);
        }
        Some(Unthrottled(self))
    }

    fn remove(&self) -> Result<(), CgroupError> {
        self.state().idle.clear();
        let deadline = Instant::now() + REMOVE_TIMEOUT;
        let _unthrottled = self.lift_quota();
        let mut outcome = Ok(());
        for place in &self.tree.places {
            let removed = stale::remove_tree(&place.dir.join(&self.name), deadline);
            outcome = outcome.and(removed);
        }
        outcome
    }
}

impl Drop for SessionInner {
    fn drop(&mut self) {
        // Nobody is left to tell; the next engine's start reclaims what stays.
        let _ = self.remove();
    }
}

pub(super) struct Unthrottled<'a>(&'a SessionInner);

impl Drop for Unthrottled<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.lifted -= 1;
        if state.lifted == 0 {
            // Fails only when the session is gone.
            let _ = self.0.write_quota(state.limits.cpu_millis);
        }
    }
}

fn set_memory(unified: bool, dir: &Path, limit: Option<u64>) -> Result<(), CgroupError> {
    let below_usage = |error: CgroupError| match (error.errno(), limit) {
        (Some(libc::EBUSY), Some(limit)) => CgroupError::LimitBelowUsage { limit },
        _ => error,
    };
    if unified {
        files::write(&dir.join("memory.max"), &limit.map_or("max".to_owned(), |limit| limit.to_string()))?;
        return optional(files::write(
            &dir.join("memory.swap.max"),
            if limit.is_some() { "0" } else { "max" },
        ));
    }
    limit_sockets(dir, limit).map_err(below_usage)?;
    let text = v1_limit(limit);
    let memory = dir.join("memory.limit_in_bytes");
    let with_swap = dir.join("memory.memsw.limit_in_bytes");
    // The limit with swap may never be the lower one: which goes first depends on the direction.
    match files::write(&memory, &text) {
        Ok(()) => optional(files::write(&with_swap, &text)).map_err(below_usage),
        Err(error) if error.errno() == Some(libc::EINVAL) => {
            optional(files::write(&with_swap, &text)).map_err(below_usage)?;
            files::write(&memory, &text).map_err(below_usage)
        }
        Err(error) => Err(below_usage(error)),
    }
}

/// Limits the memory of sockets' buffers, which cgroup v1 counts apart from other memory: of TCP and, whatever the file's name says, UDP.
///
/// A socket is counted only where its maker's own cgroup has had a limit written to it, even "none" (`tcpmem_active` in the kernel's
/// mm/memcontrol-v1.c, which children do not inherit). Hence the leaves are written to before a process is in them, with no limit
/// of their own: the session's holds for all of them together.
fn limit_sockets(dir: &Path, limit: Option<u64>) -> Result<(), CgroupError> {
    optional(files::write(&dir.join("memory.kmem.tcp.limit_in_bytes"), &v1_limit(limit)))
}

fn v1_limit(limit: Option<u64>) -> String {
    limit.map_or("-1".to_owned(), |limit| limit.to_string())
}

/// A kernel without swap accounting lacks the file, and one without swap needs it not; likewise for sockets.
fn optional(result: Result<(), CgroupError>) -> Result<(), CgroupError> {
    match result {
        Err(error) if error.errno() == Some(libc::ENOENT) => Ok(()),
        other => other,
    }
}
