//! A session: a workspace that outlives its sandboxes.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use skillbox_executor::{Sandbox, SandboxSpec};
use skillbox_types::{
    Limits, LimitsPatch, NetworkPolicy, SessionId, SkillName, TimeLimit, Warning, WorkspacePath,
};
use tokio::sync::Mutex;

use crate::load::LoadedSkill;
use crate::warm::Warm;
use crate::workspace::{EPHEMERAL, SessionDirs};
use crate::{Engine, EngineError, record};

/// How a session is opened.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionOptions {
    /// Its name. A session without one is removed when it is closed, or when its engine is gone.
    pub id: Option<SessionId>,
    /// Limits that differ from the engine's.
    pub limits: LimitsPatch,
    /// The time limit of commands that ask for none.
    pub timeout: TimeLimit,
    /// Whom it may talk to.
    pub network: NetworkPolicy,
}

/// An open session. Several commands may run in it at a time; they share the workspace, the loopback and the limits.
///
/// Dropping it ends its sandbox; an unnamed session's files are then removed at the next start of an engine. [`Session::close`] does
/// all of it at once.
#[derive(Debug, Clone)]
pub struct Session {
    pub(crate) inner: Arc<SessionInner>,
}

#[derive(Debug)]
pub(crate) struct SessionInner {
    pub(crate) engine: Engine,
    pub(crate) id: SessionId,
    pub(crate) limits: Limits,
    pub(crate) network: NetworkPolicy,
    pub(crate) dirs: std::sync::Mutex<Option<Arc<SessionDirs>>>,
    pub(crate) state: Mutex<SessionState>,
}

#[derive(Debug, Default)]
pub(crate) struct SessionState {
    pub(crate) sandbox: Option<Arc<Sandbox>>,
    /// The uid that owned the workspace last.
    pub(crate) owner: Option<u32>,
    pub(crate) loaded: BTreeMap<SkillName, LoadedSkill>,
    /// Paths that were there before a command: staged, or collected earlier, then with their digest.
    pub(crate) known: HashMap<Vec<u8>, Option<[u8; 32]>>,
    /// Time spent since the last command, for its report.
    pub(crate) opening: Duration,
    pub(crate) materializing: Duration,
    /// What to tell with the next result.
    pub(crate) warnings: Vec<Warning>,
}

impl Session {
    pub(crate) async fn open(engine: Engine, options: SessionOptions) -> Result<Self, EngineError> {
        let began = Instant::now();
        let id = match options.id {
            Some(id) if id.as_str().starts_with(EPHEMERAL) => {
                let why = format!(
                    "session names that start with {EPHEMERAL:?} are the engine's own; choose another"
                );
                return Err(EngineError::InvalidRequest(why));
            }
            Some(id) => id,
            None => new_id()?,
        };
        let mut limits = options.limits.apply(&engine.inner.limits);
        limits.wall_time = options.timeout.resolve(limits.wall_time);
        check(&limits)?;
        let kept = find(&engine, &id).await?;
        let (dirs, sandbox) = match kept {
            Some(dirs) => (dirs, None),
            None => match engine.inner.take_warm(&limits, options.network).await {
                Some(Warm { mut dirs, sandbox }) => {
                    if !id.as_str().starts_with(EPHEMERAL) {
                        dirs.rename(&id)?;
                    }
                    sandbox.set_limits(&limits).await?;
                    (dirs, Some(sandbox))
                }
                None => (create(&engine, &id).await?, None),
            },
        };
        let id = if id.as_str().starts_with(EPHEMERAL) { dirs.id()? } else { id };
        let owner = crate::run::owner_of(&dirs.workspace());
        let (loaded, warnings) = remembered(&engine, &dirs)?;
        let opening = began.elapsed();
        let state = SessionState { sandbox, owner, loaded, opening, warnings, ..SessionState::default() };
        Ok(Self {
            inner: Arc::new(SessionInner {
                engine,
                id,
                limits,
                network: options.network,
                dirs: std::sync::Mutex::new(Some(Arc::new(dirs))),
                state: Mutex::new(state),
            }),
        })
    }

    /// Its name.
    pub fn id(&self) -> &SessionId {
        &self.inner.id
    }

    /// Its limits.
    pub fn limits(&self) -> &Limits {
        &self.inner.limits
    }

    /// Opens the sandbox now rather than at the first need.
    pub async fn open_sandbox(&self) -> Result<(), EngineError> {
        let mut state = self.inner.state.lock().await;
        self.inner.sandbox(&mut state).await.map(|_| ())
    }

    /// Ends the sandbox, and removes the files of an unnamed session; those of a named one are kept.
    pub async fn close(&self) -> Result<(), EngineError> {
        let mut state = self.inner.state.lock().await;
        let closed = match state.sandbox.take() {
            Some(sandbox) => sandbox.close().await,
            None => Ok(()),
        };
        let dirs = self.inner.lock_dirs().take();
        if let Some(dirs) = dirs.filter(|_| self.inner.id.as_str().starts_with(EPHEMERAL))
            && let Ok(dirs) = Arc::try_unwrap(dirs)
        {
            self.inner.engine.inner.remove_in_background(dirs)?;
        }
        Ok(closed?)
    }
}

impl SessionInner {
    pub(crate) fn lock_dirs(&self) -> std::sync::MutexGuard<'_, Option<Arc<SessionDirs>>> {
        self.dirs.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    pub(crate) fn dirs(&self) -> Result<Arc<SessionDirs>, EngineError> {
        self.lock_dirs().clone().ok_or_else(|| EngineError::SessionClosed(self.id.clone()))
    }

    /// The session's sandbox: the open one, or a new one on the same workspace with the same skills.
    pub(crate) async fn sandbox(&self, state: &mut SessionState) -> Result<Arc<Sandbox>, EngineError> {
        if let Some(sandbox) = state.sandbox.clone() {
            if !sandbox.is_lost() {
                return Ok(sandbox);
            }
            let _ = sandbox.close().await;
            state.sandbox = None;
            state.warnings.push(Warning::new(
                "sandbox_recreated",
                "the session's sandbox was lost; a new one was opened on the same workspace",
            ));
        }
        let began = Instant::now();
        let dirs = self.dirs()?;
        let spec = spec(&dirs, &self.limits, self.network, state.owner);
        let sandbox = Arc::new(self.engine.inner.executor.open(spec).await?);
        state.owner = sandbox.owner();
        state.opening += began.elapsed();
        self.remount(state, &sandbox, &dirs).await?;
        state.sandbox = Some(sandbox.clone());
        Ok(sandbox)
    }
}

/// What a sandbox on these folders is opened with.
pub(crate) fn spec(
    dirs: &SessionDirs,
    limits: &Limits,
    network: NetworkPolicy,
    owner: Option<u32>,
) -> SandboxSpec {
    SandboxSpec {
        workspace: dirs.workspace(),
        home: dirs.home(),
        owned: dirs.owned(),
        first_run: dirs.next_run(),
        runs: WorkspacePath::new("runs").unwrap_or_else(|_| WorkspacePath::root()),
        limits: limits.clone(),
        network,
        owner,
    }
}

/// Below this not even a shell starts.
const LEAST_MEMORY: u64 = 4 << 20;

/// Refuses what the kernel would answer with an error that says nothing.
fn check(limits: &Limits) -> Result<(), EngineError> {
    if limits.memory_bytes < LEAST_MEMORY {
        return Err(EngineError::InvalidRequest(format!(
            "the memory limit of {} bytes is too small for any program; give at least {LEAST_MEMORY} bytes (4MiB)",
            limits.memory_bytes
        )));
    }
    Ok(())
}

async fn find(engine: &Engine, id: &SessionId) -> Result<Option<SessionDirs>, EngineError> {
    if id.as_str().starts_with(EPHEMERAL) {
        return Ok(None);
    }
    let (state_dir, id) = (engine.inner.state_dir.clone(), id.clone());
    tokio::task::spawn_blocking(move || SessionDirs::find(&state_dir, &id)).await?
}

async fn create(engine: &Engine, id: &SessionId) -> Result<SessionDirs, EngineError> {
    let (state_dir, id) = (engine.inner.state_dir.clone(), id.clone());
    tokio::task::spawn_blocking(move || SessionDirs::create(&state_dir, &id)).await?
}

/// The skills that an earlier engine put into the workspace of a session that was kept.
fn remembered(
    engine: &Engine,
    dirs: &SessionDirs,
) -> Result<(BTreeMap<SkillName, LoadedSkill>, Vec<Warning>), EngineError> {
    let mut loaded = BTreeMap::new();
    let mut warnings = Vec::new();
    for (name, usage) in record::read(&dirs.dir)? {
        match engine.inner.store.tree(&usage.digest) {
            Ok(tree) => {
                loaded.insert(name, LoadedSkill::remembered(usage, tree));
            }
            Err(error) => warnings.push(Warning::new(
                "skill_forgotten",
                format!("skill {name} has to be loaded again, since what it was made of is gone: {error}"),
            )),
        }
    }
    Ok((loaded, warnings))
}

/// A name for a session that nobody named.
pub(crate) fn new_id() -> Result<SessionId, EngineError> {
    use std::fmt::Write as _;
    let mut bytes = [0_u8; 10];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())
        .map_err(|e| EngineError::Task(format!("no random numbers: {e}")))?;
    let mut name = EPHEMERAL.to_owned();
    for byte in bytes {
        let _ = write!(name, "{byte:02x}");
    }
    SessionId::new(name).map_err(|e| EngineError::Task(e.to_string()))
}
