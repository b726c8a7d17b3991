//! A request from its arrival to its result.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use skillbox_executor::{ExecEvent, Sandbox};
use skillbox_types::{End, ExecRequest, ExecResult, SkillUse, Timing, Warning};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::admit::{Defaults, admit};
use crate::{Collected, EngineError, Session};

/// Events that may wait for a slow listener before the command is slowed down.
const EVENT_BUFFER: usize = 64;

/// A command that runs. Dropping it cancels the command.
#[derive(Debug)]
pub struct Execution {
    events: mpsc::Receiver<ExecEvent>,
    cancel: CancellationToken,
    task: Option<tokio::task::JoinHandle<Result<ExecResult, EngineError>>>,
}

impl Execution {
    /// What happens, as it happens; `None` when the command is over. Events that are not taken slow the command down once
    /// the buffer is full, as a pipe would.
    pub async fn next_event(&mut self) -> Option<ExecEvent> {
        self.events.recv().await
    }

    /// Ends the command with all its processes; its result says `cancelled`.
    pub fn cancel(&self) {
        self.cancel.cancel();
    }

    /// A handle for cancelling from elsewhere.
    pub fn cancel_token(&self) -> CancellationToken {
        self.cancel.clone()
    }

    /// Waits for the result; events that were not taken are thrown away.
    pub async fn result(mut self) -> Result<ExecResult, EngineError> {
        self.events.close();
        match self.task.take() {
            Some(task) => task.await?,
            None => Err(EngineError::Task("the result was taken already".to_owned())),
        }
    }
}

impl Drop for Execution {
    fn drop(&mut self) {
        if self.task.is_some() {
            self.cancel.cancel();
        }
    }
}

impl Session {
    /// Starts a command; its events can be followed while it runs.
    pub fn exec(&self, request: ExecRequest) -> Execution {
        let (sender, events) = mpsc::channel(EVENT_BUFFER);
        let cancel = CancellationToken::new();
        let (session, token) = (self.clone(), cancel.clone());
        let task = tokio::spawn(async move { session.run_with(request, Some(sender), token).await });
        Execution { events, cancel, task: Some(task) }
    }

    /// Runs a command to its end. Dropping the future ends the command.
    pub async fn run(&self, request: ExecRequest) -> Result<ExecResult, EngineError> {
        self.run_with(request, None, CancellationToken::new()).await
    }

    /// Runs a command with a place for its events and a handle for cancelling it.
    pub async fn run_with(
        &self,
        request: ExecRequest,
        events: Option<mpsc::Sender<ExecEvent>>,
        cancel: CancellationToken,
    ) -> Result<ExecResult, EngineError> {
        let engine = &self.inner.engine.inner;
        let (limits, grace, path_dirs) = (&self.inner.limits, engine.grace, engine.path_dirs.as_slice());
        let plan = admit(&request, &Defaults { limits, grace, path_dirs })?;
        let limits = plan.limits.clone();
        let Prepared { sandbox, skill, opening, materializing, mut warnings } =
            self.prepare(&request).await?;

        let executing = Instant::now();
        let outcome = sandbox.exec(plan, events, cancel.clone()).await?;
        let executed = executing.elapsed();

        let collecting = Instant::now();
        let ended_by_caller = outcome.end == End::Cancelled;
        let collected = tokio::select! {
            collected = self.collect_after(&sandbox, &request, outcome.slot) => collected,
            // The first cancelling ended the command, and what it made is still collected.
            () = cancel.cancelled(), if !ended_by_caller => Collected {
                files: Vec::new(),
                warnings: vec![Warning::new("collect_cancelled", "no files were collected: that was cancelled")],
            },
        };
        warnings.extend(outcome.warnings);
        warnings.extend(collected.warnings);
        let collected_in = collecting.elapsed();
        Ok(ExecResult {
            end: outcome.end,
            stdout: outcome.stdout.to_captured(request.base64_output),
            stderr: outcome.stderr.to_captured(request.base64_output),
            output_files: collected.files,
            skill,
            isolation: sandbox.isolation().as_ref().clone(),
            limits,
            usage: outcome.usage,
            timing_ms: Timing {
                open: millis(opening),
                materialize: millis(materializing),
                execute: millis(executed),
                collect: millis(collected_in),
                total: millis(opening + materializing + executed + collected_in),
            },
            warnings,
        })
    }

    /// Finds or opens the sandbox and stages the inputs.
    async fn prepare(&self, request: &ExecRequest) -> Result<Prepared, EngineError> {
        let mut state = self.inner.state.lock().await;
        let skill = match &request.skill {
            Some(name) => match state.loaded.get(name) {
                Some(loaded) => Some(loaded.usage.clone()),
                None => return Err(EngineError::NotLoaded(name.clone())),
            },
            None => None,
        };
        let sandbox = self.inner.sandbox(&mut state).await?;
        let staging = Instant::now();
        for input in &request.inputs {
            sandbox.put(input.path.as_str().as_bytes(), input.content.clone(), input.executable).await?;
            state.known.insert(input.path.as_str().as_bytes().to_vec(), None);
        }
        Ok(Prepared {
            sandbox,
            skill,
            opening: std::mem::take(&mut state.opening),
            materializing: std::mem::take(&mut state.materializing) + staging.elapsed(),
            warnings: std::mem::take(&mut state.warnings),
        })
    }

    /// Collects what was asked for. The command has ended; that its files cannot be had is no reason to lose its result.
    async fn collect_after(&self, sandbox: &Sandbox, request: &ExecRequest, slot: Option<u64>) -> Collected {
        if request.outputs.globs.is_empty() {
            return Collected::default();
        }
        match self.collect_since(sandbox, &request.outputs, slot).await {
            Ok(collected) => collected,
            Err(error) => Collected {
                files: Vec::new(),
                warnings: vec![Warning::new("collect_failed", format!("no files were collected: {error}"))],
            },
        }
    }
}

/// What a command runs in, and what happened in the session since the last one.
struct Prepared {
    sandbox: Arc<Sandbox>,
    skill: Option<SkillUse>,
    opening: Duration,
    materializing: Duration,
    warnings: Vec<Warning>,
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// The uid that owns a workspace from an earlier sandbox; `None` where that is the engine's own.
pub(crate) fn owner_of(workspace: &Path) -> Option<u32> {
    let owner = rustix::fs::stat(workspace).ok()?.st_uid;
    (owner != rustix::process::geteuid().as_raw()).then_some(owner)
}
