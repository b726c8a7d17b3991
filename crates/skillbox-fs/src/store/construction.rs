//! Trees under construction.

use std::fs::File;
use std::io::Write as _;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{FlockOperation, Mode, RenameFlags};
use rustix::io::Errno;
use skillbox_types::SkillDigest;

use super::{Store, StoreError};
use crate::error::FsError;
use crate::{remove_tree, sys};

/// A tree being built in `tmp/`; removed when dropped unpublished.
pub(super) struct Construction<'s> {
    store: &'s Store,
    name: String,
    /// Locked, which tells others that its maker lives.
    fd: OwnedFd,
    published: bool,
}

impl<'s> Construction<'s> {
    pub(super) fn begin(store: &'s Store) -> Result<Self, StoreError> {
        let name = sys::unique_name("new-");
        let tmp = &store.inner.tmp;
        let make = || {
            rustix::fs::mkdirat(tmp, name.as_str(), sys::OWNER_RWX)?;
            let fd = rustix::fs::openat(tmp, name.as_str(), sys::DIR_FLAGS, Mode::empty())?;
            rustix::fs::flock(&fd, FlockOperation::NonBlockingLockExclusive)?;
            Ok(fd)
        };
        let _lock = store.lock(FlockOperation::LockShared)?;
        let fd = make().map_err(|e| store.failed("create", name.as_bytes(), e))?;
        Ok(Self { store, name, fd, published: false })
    }

    pub(super) fn folder(&self, name: &str) -> Result<OwnedFd, StoreError> {
        make_folder(self.fd.as_fd(), name.as_bytes())
            .map_err(|e| self.store.failed("create", name.as_bytes(), e))
    }

    pub(super) fn write(&self, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
        let fd = rustix::fs::openat(&self.fd, name, sys::CREATE_FLAGS, Mode::from_raw_mode(0o644))
            .map_err(|e| self.store.failed("write", name.as_bytes(), e))?;
        File::from(fd)
            .write_all(bytes)
            .map_err(|e| self.store.wrap(FsError::from_io("write", name.as_bytes(), e)))
    }

    /// Makes the tree visible under its digest, unless it is already.
    pub(super) fn publish(mut self, digest: &SkillDigest) -> Result<(), StoreError> {
        rustix::fs::fchmod(&self.fd, Mode::from_raw_mode(0o755))
            .map_err(|e| self.store.failed("publish", digest.hex().as_bytes(), e))?;
        // A touch and a collection exclude each other, so what is found here stays for the collector's grace period.
        let _lock = self.store.lock(FlockOperation::LockShared)?;
        if self.store.touch(digest) {
            return Ok(());
        }
        let renamed = crate::confined::rename(
            self.store.inner.tmp.as_fd(),
            self.name.as_bytes(),
            self.store.inner.trees.as_fd(),
            digest.hex().as_bytes(),
            RenameFlags::NOREPLACE,
        );
        match renamed {
            Ok(()) => {
                self.published = true;
                Ok(())
            }
            // Another importer of the same tree won; the two are equal.
            Err(Errno::EXIST | Errno::NOTEMPTY) => Ok(()),
            Err(errno) => Err(self.store.failed("publish", digest.hex().as_bytes(), errno)),
        }
    }
}

impl Drop for Construction<'_> {
    fn drop(&mut self) {
        if !self.published {
            // What is left is removed when the store is next opened.
            let _ = remove_tree(self.store.inner.tmp.as_fd(), self.name.as_bytes());
        }
    }
}

pub(super) fn make_folder(dir: BorrowedFd<'_>, name: &[u8]) -> Result<OwnedFd, Errno> {
    rustix::fs::mkdirat(dir, name, sys::OWNER_RWX)?;
    rustix::fs::openat(dir, name, sys::DIR_FLAGS, Mode::empty())
}

impl Store {
    /// Whether the tree is stored; marks it as just used, for the collector's grace period.
    pub(super) fn touch(&self, digest: &SkillDigest) -> bool {
        use rustix::fs::{AtFlags, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT};
        let times = Timestamps {
            last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
            last_modification: Timespec { tv_sec: 0, tv_nsec: UTIME_NOW },
        };
        match rustix::fs::utimensat(&self.inner.trees, digest.hex(), &times, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(()) => true,
            Err(Errno::NOENT) => false,
            // A store that cannot be written to still serves.
            Err(_) => self.is_stored(digest),
        }
    }
}
