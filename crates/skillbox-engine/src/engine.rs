//! The façade.

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use skillbox_executor::Executor;
use skillbox_fs::{ImportOptions, Store};
use skillbox_skill::Repository;
use skillbox_types::{Isolation, Limits, SessionId};

use crate::warm::Background;
use crate::workspace::{self, SessionDirs};
use crate::{EngineBuilder, EngineError, Session, SessionOptions};

/// Runs skills' commands in sandboxes, session by session. Cheap to clone; all clones are the same engine.
#[derive(Debug, Clone)]
pub struct Engine {
    pub(crate) inner: Arc<EngineInner>,
}

#[derive(Debug)]
pub(crate) struct EngineInner {
    pub(crate) state_dir: PathBuf,
    pub(crate) executor: Arc<dyn Executor>,
    pub(crate) store: Store,
    pub(crate) repository: RwLock<Repository>,
    pub(crate) limits: Limits,
    pub(crate) grace: Duration,
    pub(crate) path_dirs: Vec<String>,
    /// How skills are imported.
    pub(crate) import: ImportOptions,
    /// Sessions that are kept ready.
    pub(crate) warm: usize,
    pub(crate) background: std::sync::Mutex<Background>,
    /// Held, shared with other engines, as long as this one lives: trees in the store are removed by whoever holds it alone.
    pub(crate) _alive: std::fs::File,
}

impl Engine {
    /// Starts building an engine that keeps its files in `state_dir` and opens sandboxes with `executor`.
    pub fn builder(state_dir: impl Into<PathBuf>, executor: Arc<dyn Executor>) -> EngineBuilder {
        EngineBuilder::new(state_dir.into(), executor)
    }

    /// Where an engine with this state folder keeps its skill store; executors need to know.
    pub fn store_dir(state_dir: &Path) -> PathBuf {
        state_dir.join("store")
    }

    pub(crate) fn new(inner: EngineInner) -> Self {
        Self { inner: Arc::new(inner) }
    }

    /// The skills as they were scanned last.
    pub fn skills(&self) -> Repository {
        self.inner.repository.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Scans the roots again; what did not change is not read again.
    pub async fn rescan(&self) -> Result<Repository, EngineError> {
        let before = self.skills();
        let after = tokio::task::spawn_blocking(move || before.rescan()).await?;
        *self.inner.repository.write().unwrap_or_else(PoisonError::into_inner) = after.clone();
        Ok(after)
    }

    /// What sandboxes opened here enforce, found out by opening one.
    pub async fn probe(&self) -> Result<Isolation, EngineError> {
        Ok(self.inner.executor.probe().await?)
    }

    /// Opens a session: a new one, or one of this name that was kept.
    pub async fn open_session(&self, options: SessionOptions) -> Result<Session, EngineError> {
        Session::open(self.clone(), options).await
    }

    /// The names of the sessions that were kept, whether open or not, sorted.
    pub async fn kept_sessions(&self) -> Result<Vec<SessionId>, EngineError> {
        let state_dir = self.inner.state_dir.clone();
        tokio::task::spawn_blocking(move || workspace::kept(&state_dir)).await?
    }

    /// Removes a session that was kept, with all its files; one that is open is an error.
    pub async fn remove_session(&self, id: &SessionId) -> Result<(), EngineError> {
        let (inner, id) = (self.inner.clone(), id.clone());
        tokio::task::spawn_blocking(move || {
            let dirs = SessionDirs::find(&inner.state_dir, &id)?
                .ok_or_else(|| EngineError::NoSession(id.clone()))?;
            let remove = dirs.discard()?;
            inner.store.unpin_owner(id.as_str())?;
            Ok(remove()?)
        })
        .await?
    }

    /// Ends the executor, and with it every sandbox that is still open, and waits for files that are being removed.
    pub async fn shut_down(&self) {
        self.inner.stop_background().await;
        self.inner.executor.shut_down().await;
    }
}
