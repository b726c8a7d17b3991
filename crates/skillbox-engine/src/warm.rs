//! Sessions that are ready before somebody asks for one.
//!
//! A warm session is a workspace without a tenant and an open sandbox on it, with a child parked for its first command. It holds nobody's
//! data and is used once.

use std::sync::{Arc, PoisonError};

use skillbox_executor::Sandbox;
use skillbox_types::{Limits, NetworkPolicy};
use tokio::task::JoinHandle;

use crate::EngineError;
use crate::engine::EngineInner;
use crate::session::{new_id, spec};
use crate::workspace::SessionDirs;

/// A session that is ready.
#[derive(Debug)]
pub(crate) struct Warm {
    pub(crate) dirs: SessionDirs,
    pub(crate) sandbox: Arc<Sandbox>,
}

/// What happens in the background.
#[derive(Debug, Default)]
pub(crate) struct Background {
    warm: Vec<JoinHandle<Result<Warm, EngineError>>>,
    removals: Vec<JoinHandle<()>>,
    shut_down: bool,
}

impl EngineInner {
    /// A warm session, if one fits; has the next one made.
    pub(crate) async fn take_warm(self: &Arc<Self>, limits: &Limits, network: NetworkPolicy) -> Option<Warm> {
        let fits = network == NetworkPolicy::None
            && limits.tmp_bytes == self.limits.tmp_bytes
            && limits.shm_bytes == self.limits.shm_bytes;
        if !fits {
            return None;
        }
        let task = self.background().warm.pop();
        self.refill();
        // What could not be made ahead is tried once more, and its error told, on the caller's own way.
        let warm = task?.await.ok()?.ok()?;
        (!warm.sandbox.is_lost()).then_some(warm)
    }

    /// Has warm sessions made until there are as many as wanted.
    pub(crate) fn refill(self: &Arc<Self>) {
        let mut background = self.background();
        while background.warm.len() < self.warm && !background.shut_down {
            let engine = Arc::downgrade(self);
            background.warm.insert(
                0,
                tokio::spawn(async move {
                    let gone = || EngineError::Task("the engine is gone".to_owned());
                    let engine = engine.upgrade().ok_or_else(gone)?;
                    engine.make_warm().await
                }),
            );
        }
    }

    async fn make_warm(&self) -> Result<Warm, EngineError> {
        let (state_dir, id) = (self.state_dir.clone(), new_id()?);
        let dirs = tokio::task::spawn_blocking(move || {
            let dirs = SessionDirs::create(&state_dir, &id)?;
            dirs.make_spare()?;
            Ok::<_, EngineError>(dirs)
        })
        .await??;
        let spec = spec(&dirs, &self.limits, NetworkPolicy::None, None);
        let sandbox = Arc::new(self.executor.open(spec).await?);
        sandbox.settle().await?;
        Ok(Warm { dirs, sandbox })
    }

    /// Puts a session's files out of reach, and removes them while others go on.
    pub(crate) fn remove_in_background(&self, dirs: SessionDirs) -> Result<(), EngineError> {
        let remove = dirs.discard()?;
        let mut background = self.background();
        background.removals.retain(|task| !task.is_finished());
        // What is left by a failure is tried again by the next engine that starts.
        background.removals.push(tokio::task::spawn_blocking(|| drop(remove())));
        Ok(())
    }

    /// Ends what is in the background: warm sessions are closed, removals awaited.
    pub(crate) async fn stop_background(&self) {
        let warm = {
            let mut background = self.background();
            background.shut_down = true;
            std::mem::take(&mut background.warm)
        };
        for task in warm {
            if let Ok(Ok(Warm { dirs, sandbox })) = task.await {
                let _ = sandbox.close().await;
                let _ = self.remove_in_background(dirs);
            }
        }
        let removals = std::mem::take(&mut self.background().removals);
        for task in removals {
            let _ = task.await;
        }
    }

    fn background(&self) -> std::sync::MutexGuard<'_, Background> {
        self.background.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
