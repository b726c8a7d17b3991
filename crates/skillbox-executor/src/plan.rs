//! A command with everything resolved, and what comes of it.

use std::time::Duration;

use bytes::Bytes;
use skillbox_types::{End, Limits, Usage, Warning, WorkspacePath};

use crate::Capture;

/// A command with everything resolved.
#[derive(Debug, Clone)]
pub struct ExecPlan {
    /// The program and its arguments; at least one.
    pub argv: Vec<String>,
    /// The environment, to which `RUN_DIR` is added.
    pub env: Vec<(String, String)>,
    /// The working directory.
    pub cwd: WorkspacePath,
    /// Bytes for its stdin; `/dev/null` otherwise.
    pub stdin: Option<Vec<u8>>,
    /// How long it may run.
    pub timeout: Option<Duration>,
    /// From the polite signal to the one that cannot be refused.
    pub grace: Duration,
    /// Limits of its processes.
    pub limits: Limits,
}

/// One of a program's output streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// Something that happened while a command ran.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExecEvent {
    /// The command was handed to its process.
    Started,
    /// It wrote something.
    Output {
        /// Where to.
        stream: Stream,
        /// What.
        bytes: Bytes,
    },
}

/// What came of a command.
#[derive(Debug, Clone)]
pub struct ExecOutcome {
    /// How it ended.
    pub end: End,
    /// What it wrote to stdout.
    pub stdout: Capture,
    /// What it wrote to stderr.
    pub stderr: Capture,
    /// What it used.
    pub usage: Usage,
    /// What went less than perfectly.
    pub warnings: Vec<Warning>,
    /// The command's number in its sandbox, for judging files against its start; `None` where it never started.
    pub slot: Option<u64>,
}
