//! The host's uids that sandboxes run as, where the engine is root.
//!
//! Two sandboxes that live at the same time never share one, not even those of two engines with the same state folder: an
//! engine takes a block of uids by locking a file for as long as it lives.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

const BLOCK: u32 = 256;
const BLOCKS: u32 = 1024;

#[derive(Debug)]
pub(crate) struct Uids {
    free: Mutex<BTreeSet<u32>>,
    _lock: File,
}

/// A uid that nobody else has while this lives.
#[derive(Debug)]
pub(crate) struct UidLease {
    uid: u32,
    uids: Arc<Uids>,
}

impl Uids {
    /// Takes a block of uids.
    pub(crate) fn lock(state_dir: &Path, base: u32) -> io::Result<Arc<Self>> {
        let dir = state_dir.join("uids");
        std::fs::create_dir_all(&dir)?;
        for block in 0..BLOCKS {
            let file = OpenOptions::new()
                .create(true)
                .truncate(false)
                .write(true)
                .open(dir.join(block.to_string()))?;
            if file.try_lock().is_err() {
                continue;
            }
            let first = base.checked_add(block * BLOCK);
            let Some(last) = first.and_then(|first| first.checked_add(BLOCK)) else { break };
            let free = Mutex::new((last - BLOCK..last).collect());
            return Ok(Arc::new(Self { free, _lock: file }));
        }
        Err(io::Error::other("every block of uids is in use by another engine with this state folder"))
    }

    /// Takes `wanted` if it is free, else any; `None` when all are in use.
    pub(crate) fn lease(self: &Arc<Self>, wanted: Option<u32>) -> Option<UidLease> {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let uid = wanted.filter(|uid| free.contains(uid)).or_else(|| free.first().copied())?;
        free.remove(&uid);
        Some(UidLease { uid, uids: self.clone() })
    }
}

impl UidLease {
    pub(crate) fn uid(&self) -> u32 {
        self.uid
    }
}

impl Drop for UidLease {
    fn drop(&mut self) {
        self.uids.free.lock().unwrap_or_else(PoisonError::into_inner).insert(self.uid);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn two_engines_never_share_a_uid() {
        let dir = tempfile::tempdir().unwrap();
        let (one, two) = (Uids::lock(dir.path(), 1000).unwrap(), Uids::lock(dir.path(), 1000).unwrap());
        let (a, b) = (one.lease(None).unwrap(), one.lease(None).unwrap());
        let c = two.lease(Some(a.uid())).unwrap();
        assert_eq!(BTreeSet::from([a.uid(), b.uid(), c.uid()]).len(), 3);
        let freed = a.uid();
        drop(a);
        assert_eq!(one.lease(Some(freed)).unwrap().uid(), freed);
    }
}
