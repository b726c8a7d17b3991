//! Lock files of the engine.

#![allow(clippy::disallowed_methods, reason = "lock files lie in the engine's own folder")]

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::Path;

use crate::EngineError;

fn failed(path: &Path, source: io::Error) -> EngineError {
    EngineError::StateDir { path: path.display().to_string(), source }
}

/// Makes and locks a file; `None` where another process holds the lock.
pub(crate) fn lock(path: &Path) -> Result<Option<File>, EngineError> {
    let file = OpenOptions::new().create(true).truncate(false).write(true).open(path);
    try_lock(file.map_err(|e| failed(path, e))?).map_err(|e| failed(path, e))
}

/// Locks a file that exists; `None` where another process holds the lock.
pub(crate) fn lock_existing(path: &Path) -> Result<Option<File>, EngineError> {
    let file = OpenOptions::new().write(true).open(path).map_err(|e| failed(path, e))?;
    try_lock(file).map_err(|e| failed(path, e))
}

fn try_lock(file: File) -> io::Result<Option<File>> {
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Makes the engine's own folder, closed to everyone else.
pub(crate) fn make_state_dir(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    std::fs::create_dir_all(path.join("sessions"))?;
    std::fs::create_dir_all(path.join("trash"))
}

/// Whether something is there.
pub(crate) fn exists(path: &Path) -> bool {
    path.exists()
}

/// The lock that every living engine of a state folder shares.
#[derive(Debug)]
pub(crate) struct EngineLock {
    file: File,
    path: std::path::PathBuf,
    /// Whether no other engine holds it; true until it is shared.
    pub(crate) is_alone: bool,
}

/// Takes the lock: alone if no other engine lives, else shared.
pub(crate) fn engine_lock(state: &Path) -> Result<EngineLock, EngineError> {
    let path = state.join("engine.lock");
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)
        .map_err(|e| failed(&path, e))?;
    let is_alone = match file.try_lock() {
        Ok(()) => true,
        Err(TryLockError::WouldBlock) => {
            file.lock_shared().map_err(|e| failed(&path, e))?;
            false
        }
        Err(TryLockError::Error(error)) => return Err(failed(&path, error)),
    };
    Ok(EngineLock { file, path, is_alone })
}

impl EngineLock {
    /// Shares the lock from here on.
    pub(crate) fn share(self) -> Result<File, EngineError> {
        self.file.lock_shared().map_err(|e| failed(&self.path, e))?;
        Ok(self.file)
    }
}

/// Whether an open file is the one at `path`.
pub(crate) fn is_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let identity = |metadata: std::fs::Metadata| (metadata.dev(), metadata.ino());
    let (here, there) = (file.metadata().map(identity), path.symlink_metadata().map(identity));
    matches!((here, there), (Ok(here), Ok(there)) if here == there)
}
