//! What the engine can fail with.

use skillbox_executor::ExecutorError;
use skillbox_fs::{FsError, StoreError, glob::GlobError};
use skillbox_skill::LookupError;
use skillbox_types::{SessionId, SkillName, WorkspacePathError};

/// The kind of an [`EngineError`], for exit codes and HTTP statuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The request cannot be right as it is.
    InvalidRequest,
    /// Something that was named does not exist.
    NotFound,
    /// The state of things contradicts the request.
    Conflict,
    /// The executor cannot do that.
    Unsupported,
    /// What is needed is not there now: no sandbox, no space.
    Unavailable,
    /// A fault of the engine or of the host.
    Internal,
}

/// Why the engine could not do what was asked. How a command ended is not among these.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// No such skill, or one that cannot be loaded.
    #[error(transparent)]
    Skill(#[from] LookupError),
    /// The skill is not loaded in this session.
    #[error("skill {0} is not loaded in this session; load it first")]
    NotLoaded(SkillName),
    /// The skill changed at its source, and its copy was changed in the session.
    #[error(
        "skill {name} changed at its source, and its working copy has changes of its own ({changed}); \
         keep the copy (keep) or replace it and lose these changes (discard)"
    )]
    SkillConflict {
        /// The skill.
        name: SkillName,
        /// Some of the changed files.
        changed: String,
    },
    /// A path is not inside the workspace.
    #[error(transparent)]
    Path(#[from] WorkspacePathError),
    /// The working directory cannot be used.
    #[error("the working directory {cwd:?} cannot be used: {reason}")]
    Cwd {
        /// As it was given.
        cwd: String,
        /// Why not, and what would be right.
        reason: String,
    },
    /// A glob pattern is wrong.
    #[error(transparent)]
    Glob(#[from] GlobError),
    /// Something else in the request is wrong.
    #[error("{0}")]
    InvalidRequest(String),
    /// A session of this name is open already.
    #[error("session {0} is open already, here or in another engine")]
    SessionInUse(SessionId),
    /// No session of this name was kept.
    #[error("there is no session named {0}")]
    NoSession(SessionId),
    /// The session was closed.
    #[error("session {0} is closed")]
    SessionClosed(SessionId),
    /// The executor failed.
    #[error(transparent)]
    Executor(#[from] ExecutorError),
    /// The skill store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Work on the engine's own files failed.
    #[error(transparent)]
    Files(#[from] FsError),
    /// The engine's own folder cannot be used.
    #[error("the state directory {path} cannot be used: {source}")]
    StateDir {
        /// The folder, or the file in it.
        path: String,
        /// The kernel's answer.
        source: std::io::Error,
    },
    /// A task of the engine ended unexpectedly.
    #[error("a task of the engine ended unexpectedly: {0}")]
    Task(String),
}

impl EngineError {
    /// What kind of error it is.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Skill(LookupError::Rejected { .. })
            | Self::Path(_)
            | Self::Cwd { .. }
            | Self::Glob(_)
            | Self::InvalidRequest(_) => ErrorKind::InvalidRequest,
            Self::Skill(_) | Self::NotLoaded(_) | Self::NoSession(_) | Self::SessionClosed(_) => {
                ErrorKind::NotFound
            }
            Self::SkillConflict { .. } | Self::SessionInUse(_) => ErrorKind::Conflict,
            Self::Executor(error) => match error {
                ExecutorError::Unsupported { .. } => ErrorKind::Unsupported,
                ExecutorError::Config(_) => ErrorKind::InvalidRequest,
                ExecutorError::SandboxUnavailable { .. } => ErrorKind::Unavailable,
                _ => ErrorKind::Internal,
            },
            Self::Files(FsError::NoSpace { .. }) | Self::StateDir { .. } => ErrorKind::Unavailable,
            Self::Store(_) | Self::Files(_) | Self::Task(_) => ErrorKind::Internal,
        }
    }
}

impl From<tokio::task::JoinError> for EngineError {
    fn from(error: tokio::task::JoinError) -> Self {
        Self::Task(error.to_string())
    }
}
