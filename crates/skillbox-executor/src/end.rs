//! From what the kernel says to an [`End`].

use std::time::Duration;

use nix::sys::signal::Signal;
use skillbox_init::protocol::ExitStatus;
use skillbox_types::{End, Limit, Limits};

use crate::TreeUsage;

/// Why the engine ended a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    TimedOut(Duration),
    Cancelled,
    TooMuchOutput,
}

impl Verdict {
    pub(crate) fn end(self) -> End {
        match self {
            Self::TimedOut(limit) => {
                End::TimedOut { limit_ms: u64::try_from(limit.as_millis()).unwrap_or(u64::MAX) }
            }
            Self::Cancelled => End::Cancelled,
            Self::TooMuchOutput => End::LimitExceeded { limit: Limit::Output },
        }
    }
}

/// The end of a program that the engine did not end.
pub(crate) fn end_of(status: ExitStatus, cpu: Duration, tree: &TreeUsage, limits: &Limits) -> End {
    let signal = match status {
        ExitStatus::Code(exit_code) => return End::Exited { exit_code },
        ExitStatus::Signal(signal) => signal,
    };
    // The kernel charges whole ticks against the limit, so SIGXCPU comes before the measured time is up; the hard limit, a second
    // later, kills.
    let used = |halves: u32| limits.cpu_time.is_some_and(|limit| cpu * 2 >= limit * halves);
    match Signal::try_from(signal) {
        Ok(Signal::SIGXCPU) if used(1) => End::LimitExceeded { limit: Limit::CpuTime },
        Ok(Signal::SIGKILL) if used(2) => End::LimitExceeded { limit: Limit::CpuTime },
        // The kernel counts what it kills for memory; a bare SIGKILL proves nothing.
        Ok(Signal::SIGKILL) if tree.oom_kills > 0 => End::OomKilled,
        Ok(Signal::SIGXFSZ) => End::LimitExceeded { limit: Limit::FileSize },
        Ok(known) => End::Signaled { signal, signal_name: known.as_str().to_owned() },
        Err(_) => End::Signaled { signal, signal_name: format!("SIGRTMIN+{}", signal - 34) },
    }
}
