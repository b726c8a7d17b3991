//! Building an engine.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use skillbox_executor::Executor;
use skillbox_fs::{ImportOptions, Store};
use skillbox_skill::{Repository, Root, ScanOptions};
use skillbox_types::Limits;

use crate::engine::EngineInner;
use crate::{Engine, EngineError, files, workspace};

/// From the polite signal to the one that cannot be refused.
const GRACE: Duration = Duration::from_millis(50);
/// Trees that nobody used for this long may be removed from the store.
const UNUSED: Duration = Duration::from_hours(168);

/// Collects what an [`Engine`] is made of.
#[derive(Debug)]
pub struct EngineBuilder {
    state_dir: PathBuf,
    executor: Arc<dyn Executor>,
    roots: Vec<Root>,
    scan: ScanOptions,
    limits: Limits,
    grace: Duration,
    path_dirs: Vec<String>,
    warm: usize,
    import: ImportOptions,
}

impl EngineBuilder {
    pub(crate) fn new(state_dir: PathBuf, executor: Arc<dyn Executor>) -> Self {
        Self {
            state_dir,
            executor,
            roots: Vec::new(),
            scan: ScanOptions::default(),
            limits: Limits::default(),
            grace: GRACE,
            path_dirs: Vec::new(),
            warm: 0,
            import: ImportOptions::default(),
        }
    }

    /// Adds roots of skills, in the order of their precedence.
    #[must_use]
    pub fn skills<R: Into<Root>>(mut self, roots: impl IntoIterator<Item = R>) -> Self {
        self.roots.extend(roots.into_iter().map(Into::into));
        self
    }

    /// How roots are searched.
    #[must_use]
    pub fn scan_options(mut self, options: ScanOptions) -> Self {
        self.scan = options;
        self
    }

    /// The limits of sessions that ask for none.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// How long a command that has to end may take to do so by itself. 50 ms by default.
    #[must_use]
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Folders that come first in every command's `PATH`, as the sandbox sees them: those of runtime directories.
    #[must_use]
    pub fn path_dirs(mut self, dirs: impl IntoIterator<Item = String>) -> Self {
        self.path_dirs.extend(dirs);
        self
    }

    /// Sessions that are kept ready before somebody asks for one, so that opening one costs next to nothing. None by default;
    /// each takes a few MiB.
    #[must_use]
    pub fn warm_sessions(mut self, count: usize) -> Self {
        self.warm = count;
        self
    }

    /// How long a skill's source that was looked at counts as unchanged. Zero by default: each loading looks at every file of the source, which takes about a
    /// microsecond for each. With a longer time an edit may be noticed that much later, and loading costs the same whatever the skill's size.
    #[must_use]
    pub fn trust_sources_for(mut self, time: Duration) -> Self {
        self.import.trust_for = time;
        self
    }

    /// Opens the store, scans the roots, and clears away what dead engines left. Sandboxes are not touched yet.
    pub async fn build(self) -> Result<Engine, EngineError> {
        let engine = tokio::task::spawn_blocking(move || self.build_blocking()).await??;
        engine.inner.refill();
        Ok(engine)
    }

    fn build_blocking(self) -> Result<Engine, EngineError> {
        files::make_state_dir(&self.state_dir)
            .map_err(|source| EngineError::StateDir { path: self.state_dir.display().to_string(), source })?;
        let store = Store::open(&Engine::store_dir(&self.state_dir))?;
        let alive = files::engine_lock(&self.state_dir)?;
        workspace::reclaim(&self.state_dir, alive.is_alone)?;
        if alive.is_alone {
            // No engine is at work, so only sessions that were kept use anything: those have pins.
            let sessions = self.state_dir.join("sessions");
            store.collect_garbage(UNUSED, &|owner| files::exists(&sessions.join(owner)))?;
        }
        let repository = Repository::scan(&self.roots, &self.scan);
        Ok(Engine::new(EngineInner {
            state_dir: self.state_dir,
            executor: self.executor,
            store,
            repository: std::sync::RwLock::new(repository),
            limits: self.limits,
            grace: self.grace,
            path_dirs: self.path_dirs,
            warm: self.warm,
            import: self.import,
            background: std::sync::Mutex::default(),
            _alive: alive.share()?,
        }))
    }
}
