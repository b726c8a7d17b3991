//! What an executor can fail with.

use skillbox_init::{ConnectionError, FilesError};
use skillbox_types::IsolationLevel;

/// Why an executor could not do what was asked. The end of a command is not among these; see [`skillbox_types::End`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExecutorError {
    /// No sandbox of the demanded strength can be had here.
    #[error(
        "no sandbox of level \"{minimum}\" can be had here (found: {found}): {failed}\n{remedy}",
        minimum = level_name(*minimum), found = found.map_or("none", level_name)
    )]
    SandboxUnavailable {
        /// The level that was demanded.
        minimum: IsolationLevel,
        /// The level that could be had.
        found: Option<IsolationLevel>,
        /// The step that failed, and the kernel's answer.
        failed: String,
        /// What to do on this host.
        remedy: String,
    },
    /// This executor cannot do that.
    #[error("the {executor} executor does not support {what}")]
    Unsupported {
        /// Its name.
        executor: &'static str,
        /// What was asked.
        what: String,
    },
    /// The configuration cannot work.
    #[error("{0}")]
    Config(String),
    /// Setting a sandbox up failed at a step that worked when it was probed.
    #[error("setting the sandbox up failed: {step}: {cause}")]
    Setup {
        /// The step.
        step: String,
        /// The kernel's answer.
        cause: String,
        /// Its error number.
        errno: i32,
    },
    /// The sandbox ended before or while it was needed.
    #[error("the sandbox is lost: {0}")]
    SandboxLost(String),
    /// File work in the workspace failed.
    #[error("{message}")]
    Files {
        /// What was being done, and why it failed.
        message: String,
        /// The kernel's error number, or 0.
        errno: i32,
    },
    /// The kernel refused a call of the engine's own.
    #[error("{what}: {source}")]
    Io {
        /// What was being done.
        what: String,
        /// The kernel's answer.
        source: std::io::Error,
    },
}

impl From<ConnectionError> for ExecutorError {
    fn from(error: ConnectionError) -> Self {
        Self::SandboxLost(error.to_string())
    }
}

impl From<FilesError> for ExecutorError {
    fn from(error: FilesError) -> Self {
        match error {
            FilesError::Refused { errno, message } => Self::Files { message, errno },
            other => Self::SandboxLost(other.to_string()),
        }
    }
}

impl ExecutorError {
    /// Names what was being done when the kernel refused it.
    pub fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }
}

/// The level's name as configuration spells it.
pub(crate) fn level_name(level: IsolationLevel) -> &'static str {
    match level {
        IsolationLevel::Unsandboxed => "unsandboxed",
        IsolationLevel::Landlock => "landlock",
        IsolationLevel::UidDrop => "uid-drop",
        IsolationLevel::Namespaces => "namespaces",
        IsolationLevel::Full => "full",
        _ => "unknown",
    }
}
