//! What an executor has to be.

use std::fmt::Debug;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use skillbox_init::ParkedChild;
use skillbox_types::{Isolation, Limits, NetworkPolicy, SkillName, WorkspacePath};

use crate::{ExecutorError, Sandbox};

/// A place where sandboxes can be opened.
///
/// Anything in a request that an executor cannot enforce is an error, never a silent omission.
#[async_trait]
pub trait Executor: Send + Sync + Debug {
    /// Its name: `local`, `docker`, …
    fn name(&self) -> &'static str;

    /// What a sandbox opened here enforces, found out by opening one and running a command in it.
    async fn probe(&self) -> Result<Isolation, ExecutorError>;

    /// Opens a sandbox on a workspace.
    async fn open(&self, spec: SandboxSpec) -> Result<Sandbox, ExecutorError>;

    /// Ends everything that the executor keeps running; sandboxes that are still open are lost.
    async fn shut_down(&self);
}

/// What a sandbox is opened with.
#[derive(Debug, Clone)]
pub struct SandboxSpec {
    /// The workspace's folder on the host.
    pub workspace: PathBuf,
    /// The home folder on the host.
    pub home: PathBuf,
    /// Folders that are handed over to the sandbox's user, with everything below them; the two above among them.
    pub owned: Vec<PathBuf>,
    /// The folder of the workspace, relative to it, in which each command gets a folder of its own.
    pub runs: WorkspacePath,
    /// The number of the first command, which names its folder.
    pub first_run: u64,
    /// Limits of the sandbox as a whole.
    pub limits: Limits,
    /// Whom it may talk to.
    pub network: NetworkPolicy,
    /// The host's uid that owns the workspace from an earlier sandbox.
    pub owner: Option<u32>,
}

/// A skill to be mounted at `skills/<name>`.
#[derive(Debug, Clone)]
pub struct SkillMount {
    /// Its name.
    pub name: SkillName,
    /// Its stored tree.
    pub tree: PathBuf,
    /// The folder on the host, outside the workspace, that holds the session's own changes in `upper`, which belongs to the
    /// sandbox's user, and an empty `work`.
    pub layers: PathBuf,
}

/// What differs between executors once a sandbox is open.
#[async_trait]
pub trait Placement: Send + Sync + Debug {
    /// Takes a parked child in charge, so that its command is a tree that can be told apart, ended and measured; `None` where the
    /// supervisor inside has to do that.
    async fn adopt(&self, child: &ParkedChild) -> Result<Option<Arc<dyn CommandTree>>, ExecutorError>;

    /// Mounts a skill as an overlay.
    async fn mount_skill(&self, mount: SkillMount) -> Result<(), ExecutorError>;

    /// Puts limits of the sandbox as a whole in force.
    async fn set_limits(&self, limits: &Limits) -> Result<(), ExecutorError>;

    /// The host's uid that owns what the sandbox writes, where it differs from the engine's.
    fn owner(&self) -> Option<u32>;

    /// Ends the sandbox and returns when nothing of it is left.
    async fn close(&self) -> Result<(), ExecutorError>;
}

/// The processes of one command, as the host sees them.
#[async_trait]
pub trait CommandTree: Send + Sync + Debug {
    /// What is limited for the tree as a whole; the rest is limited for each process instead.
    fn counts(&self) -> Counts;

    /// Called right before the command starts: starts its accounts.
    fn begin(&self);

    /// Whether nothing runs any more.
    fn is_empty(&self) -> bool;

    /// Sends a signal to every process.
    fn signal(&self, signal: i32);

    /// Kills every process until none is left, and answers how many were killed.
    async fn end(&self) -> Result<u32, ExecutorError>;

    /// What it used since [`CommandTree::begin`].
    fn usage(&self) -> TreeUsage;
}

/// What is limited for all processes of a sandbox together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Memory.
    pub memory: bool,
    /// The number of processes.
    pub processes: bool,
}

/// What the processes of a command used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TreeUsage {
    /// CPU time.
    pub cpu: Option<Duration>,
    /// The most memory at one time, in bytes.
    pub peak_memory_bytes: Option<u64>,
    /// Processes that the kernel killed for lack of memory.
    pub oom_kills: u64,
}
