//! One sandbox of the local executor.

use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use skillbox_executor::{CommandTree, Counts, ExecutorError, Placement, SkillMount, TreeUsage};
use skillbox_init::ParkedChild;
use skillbox_types::Limits;

use super::client::LauncherClient;
use super::uids::UidLease;
use crate::cgroup::{CgroupError, CgroupLimits, Counters, ExecCgroup, SessionCgroup, Signal};

/// Processes of the supervisor's own in the session's cgroup: the child that is parked ahead.
const PARKED: u64 = 1;
/// The kernel takes no larger number (`PID_MAX_LIMIT`, include/linux/threads.h), and can have no more processes.
const MOST_PIDS: u64 = 4_194_304;
/// How long a tree may take to die before that is reported as a failure.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(crate) struct LocalPlacement {
    pub(crate) launcher: Arc<LauncherClient>,
    pub(crate) id: u64,
    pub(crate) uid: Option<UidLease>,
    pub(crate) cgroup: Mutex<Option<SessionCgroup>>,
    pub(crate) counts: Counts,
    pub(crate) closed: AtomicBool,
}

/// The session's limits as its cgroup enforces them.
pub(crate) fn cgroup_limits(limits: &Limits) -> CgroupLimits {
    let mut cgroup = CgroupLimits::from(limits);
    cgroup.pids = Some(limits.pids.saturating_add(PARKED).min(MOST_PIDS));
    cgroup
}

pub(crate) fn cgroup_error(error: &CgroupError) -> ExecutorError {
    ExecutorError::Setup {
        step: "use the session's cgroup".to_owned(),
        cause: error.to_string(),
        errno: error.errno().unwrap_or(0),
    }
}

impl LocalPlacement {
    fn exec_slot(&self) -> Result<Option<ExecCgroup>, ExecutorError> {
        let cgroup = self.cgroup.lock().unwrap_or_else(PoisonError::into_inner);
        cgroup.as_ref().map(SessionCgroup::exec_slot).transpose().map_err(|e| cgroup_error(&e))
    }
}

#[async_trait]
impl Placement for LocalPlacement {
    async fn adopt(&self, child: &ParkedChild) -> Result<Option<Arc<dyn CommandTree>>, ExecutorError> {
        let Some(exec) = self.exec_slot()? else { return Ok(None) };
        let pidfd =
            child.pidfd.try_clone().map_err(ExecutorError::io("keep a handle on a parked process"))?;
        // Moving a process waits for the kernel's other processors; it is not on any command's way here.
        let attached =
            tokio::task::spawn_blocking(move || exec.attach_handle(pidfd.as_fd()).map(|()| exec)).await;
        let exec =
            attached.map_err(|e| ExecutorError::SandboxLost(e.to_string()))?.map_err(|e| cgroup_error(&e))?;
        Ok(Some(Arc::new(LocalTree { exec: Arc::new(exec), begin: Mutex::default(), counts: self.counts })))
    }

    async fn mount_skill(&self, mount: SkillMount) -> Result<(), ExecutorError> {
        self.launcher.attach_skill(self.id, mount.name.as_str().to_owned(), mount.tree, &mount.layers).await
    }

    async fn set_limits(&self, limits: &Limits) -> Result<(), ExecutorError> {
        let cgroup = self.cgroup.lock().unwrap_or_else(PoisonError::into_inner);
        match &*cgroup {
            Some(cgroup) if cgroup.limits() != cgroup_limits(limits) => {
                cgroup.set_limits(&cgroup_limits(limits)).map_err(|e| cgroup_error(&e))
            }
            _ => Ok(()),
        }
    }

    fn owner(&self) -> Option<u32> {
        self.uid.as_ref().map(UidLease::uid)
    }

    async fn close(&self) -> Result<(), ExecutorError> {
        if self.closed.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        let closed = match self.launcher.close(self.id).await {
            // With the launcher everything in its sandboxes ended.
            Err(_) if self.launcher.is_lost() => Ok(()),
            closed => closed,
        };
        let cgroup = self.cgroup.lock().unwrap_or_else(PoisonError::into_inner).take();
        // Nothing runs in it any more; its directories go while others go on.
        tokio::task::spawn_blocking(move || cgroup.map(SessionCgroup::remove));
        closed
    }
}

impl Drop for LocalPlacement {
    fn drop(&mut self) {
        if !self.closed.swap(true, Ordering::Relaxed) {
            self.launcher.close_in_background(self.id);
        }
    }
}

/// The processes of one command, in their cgroup.
#[derive(Debug)]
struct LocalTree {
    exec: Arc<ExecCgroup>,
    begin: Mutex<Counters>,
    counts: Counts,
}

#[async_trait]
impl CommandTree for LocalTree {
    fn counts(&self) -> Counts {
        self.counts
    }

    fn begin(&self) {
        *self.begin.lock().unwrap_or_else(PoisonError::into_inner) = self.exec.begin();
    }

    fn is_empty(&self) -> bool {
        self.exec.is_empty().unwrap_or(false)
    }

    fn signal(&self, signal: i32) {
        if let Some(signal) = Signal::from_named_raw(signal) {
            let _ = self.exec.kill_all(signal, Duration::ZERO);
        }
    }

    async fn end(&self) -> Result<u32, ExecutorError> {
        let exec = self.exec.clone();
        let killed = tokio::task::spawn_blocking(move || exec.kill_all(Signal::KILL, KILL_TIMEOUT)).await;
        let killed =
            killed.map_err(|e| ExecutorError::SandboxLost(e.to_string()))?.map_err(|e| cgroup_error(&e))?;
        if !killed.survivors.is_empty() {
            return Err(ExecutorError::Setup {
                step: "end the command's processes".to_owned(),
                cause: format!("processes {:?} did not end", killed.survivors),
                errno: libc::EBUSY,
            });
        }
        Ok(u32::try_from(killed.signalled).unwrap_or(u32::MAX))
    }

    fn usage(&self) -> TreeUsage {
        let begin = *self.begin.lock().unwrap_or_else(PoisonError::into_inner);
        let used = self.exec.end(&begin);
        TreeUsage {
            cpu: used.cpu,
            peak_memory_bytes: used.peak_memory,
            oom_kills: used.oom_kills.unwrap_or(0),
        }
    }
}
