//! How a command ended.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The end of a command, each cause its own variant.
///
/// ```
/// use skillbox_types::End;
/// let json = r#"{"reason":"exited","exit_code":0}"#;
/// assert!(matches!(serde_json::from_str(json)?, End::Exited { exit_code: 0 }));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "reason", rename_all = "snake_case")]
#[non_exhaustive]
pub enum End {
    /// The program ended by itself.
    Exited {
        /// Its exit code, 0 to 255.
        exit_code: i32,
    },
    /// A signal that the engine did not send ended the program.
    Signaled {
        /// The signal's number.
        signal: i32,
        /// Its name, such as `SIGSEGV`.
        signal_name: String,
    },
    /// The time limit passed; the whole tree was ended.
    TimedOut {
        /// The limit that was in force, in milliseconds.
        limit_ms: u64,
    },
    /// The kernel killed the program because its memory limit was reached, by the kernel's own count of kills.
    OomKilled,
    /// A limit other than time and memory ended the program.
    LimitExceeded {
        /// Which one.
        limit: Limit,
    },
    /// The caller cancelled the execution; the whole tree was ended.
    Cancelled,
    /// No program was started.
    SpawnFailed {
        /// What was wrong and what to do about it.
        message: String,
        /// The kernel's error number, where there is one.
        errno: Option<i32>,
    },
    /// The sandbox ended while the command ran; whether it had finished is not known.
    SandboxLost {
        /// What is known of the cause.
        message: String,
    },
}

/// A limit that can end a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Limit {
    /// CPU time of one process ([`Limits::cpu_time`](crate::Limits)).
    CpuTime,
    /// Size of one file ([`Limits::file_size_bytes`](crate::Limits)).
    FileSize,
    /// Bytes written to stdout and stderr, where the caller asked that passing it ends the command.
    Output,
}

impl End {
    /// Whether the program ended by itself with exit code 0.
    pub fn success(&self) -> bool {
        matches!(self, Self::Exited { exit_code: 0 })
    }

    /// The exit code that a command line reports: the program's own, 128 + n for a signal, 124 for a timeout,
    /// 125 where the engine failed (the convention of `timeout(1)` and of shells).
    pub fn exit_code(&self) -> i32 {
        match self {
            Self::Exited { exit_code } => *exit_code,
            Self::Signaled { signal, .. } => 128 + signal,
            Self::TimedOut { .. } => 124,
            // As after SIGKILL, which is what ended it.
            Self::OomKilled | Self::LimitExceeded { limit: Limit::Output } => 137,
            Self::LimitExceeded { limit: Limit::CpuTime } => 128 + 24,
            Self::LimitExceeded { limit: Limit::FileSize } => 128 + 25,
            Self::Cancelled => 130,
            Self::SpawnFailed { errno: Some(2), .. } => 127,
            Self::SpawnFailed { errno: Some(_), .. } => 126,
            Self::SpawnFailed { errno: None, .. } | Self::SandboxLost { .. } => 125,
        }
    }
}
