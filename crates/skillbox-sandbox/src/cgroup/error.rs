//! What can go wrong, and what to do about it.

use std::{
    io,
    path::{Path, PathBuf},
};

/// The step of finding a usable place at which the kernel refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Step {
    /// Reading which hierarchies are mounted and where the engine is in them.
    FindHierarchies,
    /// Finding a hierarchy with the memory or the pids controller.
    FindControllers,
    /// Making a directory.
    MakeDirectory,
    /// Enabling controllers for a subtree (v2).
    EnableControllers,
    /// Writing a limit.
    WriteLimit,
}

impl Step {
    /// What was tried, as part of a sentence.
    pub fn describe(self) -> &'static str {
        match self {
            Self::FindHierarchies => "finding the mounted hierarchies",
            Self::FindControllers => "finding the memory and pids controllers",
            Self::MakeDirectory => "making a directory in the engine's own cgroup",
            Self::EnableControllers => "enabling controllers for a subtree",
            Self::WriteLimit => "writing a limit",
        }
    }
}

/// No cgroup of this host can be used.
#[derive(Debug, thiserror::Error)]
#[error("no cgroup can be used: {} failed at {}: {source}; {remedy}", .step.describe(), .path.display())]
pub struct CgroupUnavailable {
    /// The step that failed.
    pub step: Step,
    /// Where.
    pub path: PathBuf,
    /// The kernel's answer.
    pub source: io::Error,
    /// How to get a usable one on this host.
    pub remedy: String,
}

impl CgroupUnavailable {
    pub(super) fn new(step: Step, path: &Path, source: io::Error) -> Self {
        let remedy = remedy(step, &source).to_owned();
        Self { step, path: path.to_owned(), source, remedy }
    }

    /// The kernel's error number, where it was the kernel that refused.
    pub fn errno(&self) -> Option<i32> {
        self.source.raw_os_error()
    }
}

fn remedy(step: Step, source: &io::Error) -> &'static str {
    match (step, source.raw_os_error()) {
        (_, Some(libc::EROFS)) => {
            "the cgroup filesystem is mounted read-only, as container engines do: start the container with a cgroup namespace of its own and the \
             filesystem writable (Docker: --cgroupns=private -v /sys/fs/cgroup:/sys/fs/cgroup:rw), or run the engine outside"
        }
        (_, Some(libc::EACCES | libc::EPERM)) => {
            "this user may not write there: have a subtree delegated (in the systemd unit: Delegate=memory pids cpu and DelegateSubgroup=engine; \
             by hand: systemd-run --user --scope -p 'Delegate=memory pids cpu' COMMAND), or run the engine as root"
        }
        (_, Some(libc::ENOSPC | libc::EAGAIN)) => {
            "there are too many cgroups: remove unused ones, or raise cgroup.max.descendants and cgroup.max.depth of the parents"
        }
        (_, Some(libc::EBUSY)) => {
            "processes are in the cgroup whose subtree is to be used: start the engine in a leaf of its own (systemd: DelegateSubgroup=engine), alone"
        }
        (Step::FindHierarchies | Step::FindControllers | Step::EnableControllers, _)
        | (_, Some(libc::ENOENT)) => {
            "the memory and pids controllers are not there: mount a cgroup filesystem at /sys/fs/cgroup, boot with cgroup_enable=memory where the memory \
             controller is disabled, and on v2 have the parents enable both in cgroup.subtree_control (systemd: Delegate=memory pids cpu)"
        }
        _ => "run the engine with a writable cgroup of its own that has the memory and pids controllers",
    }
}

/// An operation on a cgroup failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CgroupError {
    /// The kernel refused to read or write a file, or to make or remove a directory.
    #[error("cannot {action} {}: {source}", .path.display())]
    Io {
        /// What was tried: `read`, `write "max" to`, `make`, `remove`, …
        action: String,
        /// The file or directory.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
    /// A process could not be put into the cgroup. It may be in some hierarchies and not in others: end it.
    #[error("cannot put process {pid} into {}: {source}", .path.display())]
    Attach {
        /// The process.
        pid: i32,
        /// The directory.
        path: PathBuf,
        /// The kernel's answer; `ESRCH` when the process is gone.
        source: io::Error,
    },
    /// Memory that is in use cannot be reclaimed under a new, lower limit.
    #[error(
        "cannot lower the memory limit to {limit} bytes: more is in use and cannot be reclaimed; end commands first"
    )]
    LimitBelowUsage {
        /// The limit asked for.
        limit: u64,
    },
}

impl CgroupError {
    pub(super) fn io(action: impl Into<String>, path: &Path, source: io::Error) -> Self {
        Self::Io { action: action.into(), path: path.to_owned(), source }
    }

    /// The kernel's error number.
    pub fn errno(&self) -> Option<i32> {
        match self {
            Self::Io { source, .. } | Self::Attach { source, .. } => source.raw_os_error(),
            Self::LimitBelowUsage { .. } => Some(libc::EBUSY),
        }
    }
}
