//! From what went wrong to a message, a hint and an exit code; the one place for it.

use std::io;
use std::process::ExitCode;

use skillbox_engine::EngineError;
use skillbox_executor::ExecutorError;
use skillbox_skill::LookupError;

use crate::output::Talk;

/// Why a command of ours could not be done.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Something to say, and perhaps something to do about it.
    Said {
        /// A sentence in lower case.
        message: String,
        /// What to do.
        hint: Option<String>,
    },
    /// The user cancelled it.
    Cancelled,
    /// Nobody reads what we print any more: not our failure.
    BrokenPipe,
}

impl Failure {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self::Said { message: message.into(), hint: None }
    }

    pub(crate) fn with_hint(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Said { message: message.into(), hint: Some(hint.into()) }
    }

    /// Work on a file of the user's that failed.
    pub(crate) fn file(what: &str, path: &std::path::Path, error: &io::Error) -> Self {
        Self::new(format!("cannot {what} {}: {error}", path.display()))
    }

    /// Says it, and gives the exit code; `failing` is that of the command.
    pub(crate) fn report(self, talk: &Talk, failing: u8) -> ExitCode {
        match self {
            Self::Said { message, hint } => {
                talk.error(&message);
                if let Some(hint) = hint {
                    talk.hint(&hint);
                }
                ExitCode::from(failing)
            }
            Self::Cancelled => {
                talk.error("cancelled");
                ExitCode::from(130)
            }
            Self::BrokenPipe => ExitCode::SUCCESS,
        }
    }
}

impl From<EngineError> for Failure {
    fn from(error: EngineError) -> Self {
        let hint = match &error {
            EngineError::Executor(_) => {
                let EngineError::Executor(error) = error else { return Self::new(error.to_string()) };
                return error.into();
            }
            EngineError::Skill(LookupError::Rejected { rejected, .. }) => Some(format!(
                "`skillbox validate '{}'` lists everything that is wrong",
                rejected.dir.display()
            )),
            EngineError::Skill(_) => {
                Some("`skillbox list` shows the skills that are found, and where".to_owned())
            }
            EngineError::SkillConflict { .. } => {
                Some("give --on-conflict keep or --on-conflict discard".to_owned())
            }
            EngineError::Glob(_) => Some(
                "patterns are relative to the workspace, such as out/** or 'out/*.{csv,json}'".to_owned(),
            ),
            EngineError::SessionInUse(_) => {
                Some("wait for the other command, or choose another --session".to_owned())
            }
            _ => None,
        };
        Self::Said { message: error.to_string(), hint }
    }
}

impl From<ExecutorError> for Failure {
    fn from(error: ExecutorError) -> Self {
        let message = error.to_string();
        match error {
            ExecutorError::SandboxUnavailable { remedy, .. } => {
                // The error's text ends in the remedy, which is the hint here.
                let short = message.strip_suffix(&remedy).map_or(message.as_str(), str::trim_end);
                Self::Said { message: short.to_owned(), hint: Some(remedy).filter(|text| !text.is_empty()) }
            }
            _ => Self::new(message),
        }
    }
}

impl From<io::Error> for Failure {
    /// From writing to our own stdout.
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self::BrokenPipe;
        }
        Self::new(format!("cannot write to stdout: {error}"))
    }
}

impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Self {
        match error.io_error_kind() {
            Some(io::ErrorKind::BrokenPipe) => Self::BrokenPipe,
            _ => Self::new(format!("cannot write JSON: {error}")),
        }
    }
}
