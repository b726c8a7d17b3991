//! The error shared by the modules that touch the file system.

use std::io;

use rustix::io::Errno;

/// Why work on a file failed; keeps the path that it was about.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FsError {
    /// The file system, or the owner's quota on it, is full.
    #[error(
        "no space left for {path:?}; free some space on its file system, or move the data directory to a larger one"
    )]
    NoSpace {
        /// What was being written.
        path: String,
    },
    /// The text is not a relative path without `..`.
    #[error(
        "path {path:?} is not valid here: {reason}; give it relative to the directory, such as \"out/report.csv\""
    )]
    InvalidPath {
        /// The offending path.
        path: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// There is nothing at this path.
    #[error("{path:?} does not exist")]
    NotFound {
        /// The path.
        path: String,
    },
    /// Something is there already.
    #[error("{path:?} exists already; remove it first, or choose another name")]
    Exists {
        /// The path.
        path: String,
    },
    /// A component of the path is a symbolic link, or leads out of the directory.
    #[error("{path:?} passes a symbolic link or leaves its directory; links are not followed here")]
    Link {
        /// The path.
        path: String,
    },
    /// A component of the path that should be a folder is something else.
    #[error("{path:?} is not a folder, or passes something that is not a folder")]
    NotADirectory {
        /// The path.
        path: String,
    },
    /// Only regular files are opened; a FIFO could block, a device could do anything.
    #[error("{path:?} is a {kind}, not a regular file")]
    NotRegular {
        /// The path.
        path: String,
        /// What it is instead.
        kind: &'static str,
    },
    /// The file is longer than the caller allows.
    #[error("{path:?} is longer than the allowed {limit} bytes")]
    TooLarge {
        /// The path.
        path: String,
        /// The limit in bytes.
        limit: u64,
    },
    /// The process may not do this.
    #[error(
        "permission denied: cannot {operation} {path:?}; check the owner and mode of it and of the folders above"
    )]
    Permission {
        /// What was tried.
        operation: &'static str,
        /// The path.
        path: String,
    },
    /// Two directories that must lie on one file system do not.
    #[error(
        "{path:?} and its staging directory are on different file systems; put the staging directory beside the target"
    )]
    CrossDevice {
        /// The target.
        path: String,
    },
    /// Anything else that the kernel answers.
    #[error("cannot {operation} {path:?}: {source}")]
    Io {
        /// What was tried.
        operation: &'static str,
        /// The path.
        path: String,
        /// The kernel's answer.
        source: io::Error,
    },
}

impl FsError {
    /// The error for the kernel's answer `errno` to `operation` on `path`.
    pub(crate) fn new(operation: &'static str, path: &[u8], errno: Errno) -> Self {
        let path = show(path);
        match errno {
            Errno::NOSPC | Errno::DQUOT => Self::NoSpace { path },
            Errno::NOENT => Self::NotFound { path },
            Errno::EXIST => Self::Exists { path },
            Errno::LOOP | Errno::XDEV => Self::Link { path },
            Errno::NOTDIR => Self::NotADirectory { path },
            Errno::ACCESS | Errno::PERM => Self::Permission { operation, path },
            other => Self::Io { operation, path, source: other.into() },
        }
    }

    /// As [`FsError::new`], for the standard library's error.
    pub(crate) fn from_io(operation: &'static str, path: &[u8], error: io::Error) -> Self {
        match Errno::from_io_error(&error) {
            Some(errno) => Self::new(operation, path, errno),
            None => Self::Io { operation, path: show(path), source: error },
        }
    }

    /// Whether there is nothing at the path.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound { .. })
    }
}

/// Names are arbitrary bytes; messages show them as text.
pub(crate) fn show(path: &[u8]) -> String {
    if path.is_empty() { ".".to_owned() } else { String::from_utf8_lossy(path).into_owned() }
}
