//! An open sandbox.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use skillbox_init::{InitClient, ParkedChild, Parking};
use skillbox_types::{Isolation, Limits, WorkspacePath};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::command::run_command;
use crate::{
    CollectOp, CollectSummary, CommandTree, ExecEvent, ExecOutcome, ExecPlan, ExecutorError, FoundFile,
    Placement, SkillMount,
};

/// A parked child that is ready to become a command; ended when nobody wants it.
#[derive(Debug)]
pub(crate) struct Ready {
    child: Option<ParkedChild>,
    tree: Option<Arc<dyn CommandTree>>,
    client: Arc<InitClient>,
}

impl Ready {
    /// Takes the child out, for its command.
    pub(crate) fn take(mut self) -> Option<(ParkedChild, Option<Arc<dyn CommandTree>>)> {
        Some((self.child.take()?, self.tree.take()))
    }
}

impl Drop for Ready {
    fn drop(&mut self) {
        if let Some(child) = &self.child {
            let _ = self.client.end_tree(child.slot);
        }
    }
}

type ReadyTask = JoinHandle<Result<Ready, ExecutorError>>;

/// An open sandbox: a connection to its supervisor and what its executor adds.
///
/// Dropping it ends it; [`Sandbox::close`] also waits until nothing of it is left.
#[derive(Debug)]
pub struct Sandbox {
    pub(crate) client: Arc<InitClient>,
    placement: Arc<dyn Placement>,
    isolation: Arc<Isolation>,
    runs: WorkspacePath,
    slots: AtomicU64,
    next: Mutex<Option<ReadyTask>>,
}

impl Sandbox {
    /// Puts a sandbox together whose workspace is in place, and has its first child parked; `runs` is the folder in which each
    /// command gets a folder of its own, numbered from `first_run` on.
    pub fn new(
        client: InitClient,
        placement: Arc<dyn Placement>,
        isolation: Arc<Isolation>,
        runs: WorkspacePath,
        first_run: u64,
    ) -> Result<Self, ExecutorError> {
        let sandbox = Self {
            client: Arc::new(client),
            placement,
            isolation,
            runs,
            slots: AtomicU64::new(first_run),
            next: Mutex::default(),
        };
        let slot = sandbox.new_slot();
        let parking = sandbox.client.park(slot, sandbox.run_dir(slot).as_str().as_bytes())?;
        sandbox.prepare(parking);
        Ok(sandbox)
    }

    /// Waits until a command could start at once; for sandboxes that are built ahead.
    pub async fn settle(&self) -> Result<(), ExecutorError> {
        let task = self.take_next();
        if let Some(task) = task {
            let ready = joined(task.await)?;
            *self.lock_next() = Some(tokio::spawn(std::future::ready(Ok(ready))));
        }
        Ok(())
    }

    /// What it enforces.
    pub fn isolation(&self) -> &Arc<Isolation> {
        &self.isolation
    }

    /// See [`Placement::owner`].
    pub fn owner(&self) -> Option<u32> {
        self.placement.owner()
    }

    /// Puts limits of the sandbox as a whole in force.
    pub async fn set_limits(&self, limits: &Limits) -> Result<(), ExecutorError> {
        self.placement.set_limits(limits).await
    }

    /// Runs a command to its end. Events go to `events` while it runs; `cancel` ends it with its whole tree.
    ///
    /// Dropping the future ends the command as well.
    pub async fn exec(
        &self,
        plan: ExecPlan,
        events: Option<mpsc::Sender<ExecEvent>>,
        cancel: CancellationToken,
    ) -> Result<ExecOutcome, ExecutorError> {
        run_command(self, &plan, events, cancel).await
    }

    /// Mounts a skill as an overlay at `skills/<name>`, which must be an empty folder.
    pub async fn mount_skill(&self, mount: SkillMount) -> Result<(), ExecutorError> {
        self.placement.mount_skill(mount).await
    }

    /// Writes a file into the workspace, its folders made as needed, no link followed.
    pub async fn put(&self, path: &[u8], content: Vec<u8>, executable: bool) -> Result<(), ExecutorError> {
        Ok(self.client.put(path, content, executable).await?)
    }

    /// Finds files of the workspace; each batch is handed to `visit` as it comes.
    pub async fn collect(
        &self,
        op: CollectOp,
        visit: impl FnMut(Vec<FoundFile>) + Send,
    ) -> Result<CollectSummary, ExecutorError> {
        Ok(self.client.collect(op, visit).await?)
    }

    /// Reads a regular file of the workspace in pieces.
    pub async fn read(
        &self,
        path: &[u8],
        max_bytes: u64,
        visit: impl FnMut(&[u8]) -> std::io::Result<()> + Send,
    ) -> Result<u64, ExecutorError> {
        Ok(self.client.read(path, max_bytes, visit).await?)
    }

    /// Whether its supervisor is gone.
    pub fn is_lost(&self) -> bool {
        self.client.is_lost()
    }

    /// Returns once the sandbox is lost.
    pub async fn lost(&self) {
        self.client.lost().await;
    }

    /// Ends the sandbox, and returns when nothing of it is left.
    pub async fn close(&self) -> Result<(), ExecutorError> {
        let closed = self.placement.close().await;
        // A child that was parked ahead is dead by now; to let go of it earlier would mean to wait for its death alone.
        if let Some(task) = self.take_next() {
            task.abort();
        }
        closed
    }

    pub(crate) fn new_slot(&self) -> u64 {
        self.slots.fetch_add(1, Ordering::Relaxed)
    }

    /// The folder of one command, relative to the workspace.
    pub(crate) fn run_dir(&self, slot: u64) -> WorkspacePath {
        self.runs.join(&format!("{slot:04}")).unwrap_or_else(|_| self.runs.clone())
    }

    /// A child that is ready: the one parked ahead, or a new one.
    pub(crate) async fn ready(&self) -> Result<Ready, ExecutorError> {
        if let Some(task) = self.take_next()
            && let Ok(ready) = joined(task.await)
        {
            return Ok(ready);
        }
        // What was parked ahead is gone, for example killed by a script; a fresh one says whether that is all.
        let slot = self.new_slot();
        let parking = self.client.park(slot, self.run_dir(slot).as_str().as_bytes())?;
        make_ready(parking, self.placement.clone(), self.client.clone()).await
    }

    /// Gets the next child ready in the background.
    pub(crate) fn prepare(&self, parking: Parking) {
        let task = tokio::spawn(make_ready(parking, self.placement.clone(), self.client.clone()));
        if let Some(older) = self.lock_next().replace(task) {
            older.abort();
        }
    }

    /// Whether a child is being parked already.
    pub(crate) fn is_prepared(&self) -> bool {
        self.lock_next().is_some()
    }

    fn lock_next(&self) -> std::sync::MutexGuard<'_, Option<ReadyTask>> {
        self.next.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take_next(&self) -> Option<ReadyTask> {
        self.lock_next().take()
    }
}

async fn make_ready(
    parking: Parking,
    placement: Arc<dyn Placement>,
    client: Arc<InitClient>,
) -> Result<Ready, ExecutorError> {
    let mut ready = Ready { child: Some(parking.wait().await?), tree: None, client };
    if let Some(child) = &ready.child {
        ready.tree = placement.adopt(child).await?;
    }
    Ok(ready)
}

fn joined(
    result: Result<Result<Ready, ExecutorError>, tokio::task::JoinError>,
) -> Result<Ready, ExecutorError> {
    result.unwrap_or_else(|error| Err(ExecutorError::SandboxLost(error.to_string())))
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        if let Some(task) = self.take_next() {
            task.abort();
        }
    }
}
