//! Copies of stored trees.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, RenameFlags};
use rustix::io::Errno;
use skillbox_types::MaterializeMethod;

use crate::confined::{ConfinedDir, Owner, make_link, rename, rename_error, validate};
use crate::error::{FsError, show};
use crate::store::{EntryKind, StoreError, Tree};
use crate::{remove_tree, sys};

/// What [`copy_tree`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopyReport {
    /// [`MaterializeMethod::Reflink`] where every file shares its blocks with the store, else [`MaterializeMethod::Copy`].
    pub method: MaterializeMethod,
    /// Regular files.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Copies a stored tree to the new folder `name` of `parent`, everything writable by its owner.
///
/// The copy is built in `staging`, which must be on the same file system and out of reach of scripts, and appears by one
/// rename; on an error nothing is left. Files share their blocks with the store where the file system can (`FICLONE`),
/// else they are copied within the kernel. Modes are 0644 and 0755 whatever the umask. A `name` that exists is an error.
pub fn copy_tree(
    tree: &Tree,
    staging: &ConfinedDir,
    parent: &ConfinedDir,
    name: &str,
    owner: Option<Owner>,
) -> Result<CopyReport, StoreError> {
    let failed = |error: FsError| StoreError::Copy { digest: tree.digest().clone(), source: error };
    if name.is_empty() || validate(name.as_bytes()).map_err(failed)?.contains(&b'/') {
        let reason = "it is not a single folder name";
        return Err(failed(FsError::InvalidPath { path: name.to_owned(), reason }));
    }
    let entries = tree.entries()?;
    let from = tree.open_root().map_err(failed)?;
    let temporary = sys::unique_name("copy-");
    let copy = || {
        rustix::fs::mkdirat(staging, temporary.as_str(), sys::OWNER_RWX)
            .map_err(|e| FsError::new("create", name.as_bytes(), e))?;
        let to = rustix::fs::openat(staging, temporary.as_str(), sys::DIR_FLAGS, Mode::empty())
            .map_err(|e| FsError::new("open", name.as_bytes(), e))?;
        let mut copier = Copier { from: &from, to: &to, owner, reflink: None, files: 0, bytes: 0 };
        for entry in &entries {
            copier.entry(&entry.path, &entry.kind)?;
        }
        finish(to.as_fd(), 0o755, owner).map_err(|e| FsError::new("set the mode of", name.as_bytes(), e))?;
        rename(
            staging.as_fd(),
            temporary.as_bytes(),
            parent.as_fd(),
            name.as_bytes(),
            RenameFlags::NOREPLACE,
        )
        .map_err(|e| rename_error("create", name.as_bytes(), e))?;
        Ok(copier.report())
    };
    copy().map_err(|error| {
        // The first error is the one to report.
        let _ = remove_tree(staging.as_fd(), temporary.as_bytes());
        failed(error)
    })
}

struct Copier<'a> {
    from: &'a OwnedFd,
    to: &'a OwnedFd,
    owner: Option<Owner>,
    /// Whether the file system can clone, once known.
    reflink: Option<bool>,
    files: u64,
    bytes: u64,
}

impl Copier<'_> {
    fn report(&self) -> CopyReport {
        let method =
            if self.reflink == Some(true) { MaterializeMethod::Reflink } else { MaterializeMethod::Copy };
        CopyReport { method, files: self.files, bytes: self.bytes }
    }

    /// Entries come sorted, so a folder before what is in it. Both sides are private to the engine, and the store holds
    /// no link on the way to an entry, so plain relative paths are safe.
    fn entry(&mut self, path: &[u8], kind: &EntryKind) -> Result<(), FsError> {
        match kind {
            EntryKind::Directory => {
                let make = || {
                    rustix::fs::mkdirat(self.to, path, sys::OWNER_RWX)?;
                    let fd = rustix::fs::openat(self.to, path, sys::DIR_FLAGS, Mode::empty())?;
                    finish(fd.as_fd(), 0o755, self.owner)
                };
                make().map_err(|e| FsError::new("create folder", path, e))
            }
            EntryKind::Symlink { target } => make_link(self.to.as_fd(), path, target, self.owner)
                .map_err(|e| FsError::new("create link", path, e)),
            EntryKind::File { size, executable, .. } => {
                let from = rustix::fs::openat(self.from, path, sys::READ_FLAGS, Mode::empty())
                    .map_err(|e| FsError::new("read the stored", path, e))?;
                let mode = if *executable { 0o755 } else { 0o644 };
                let to = rustix::fs::openat(self.to, path, sys::CREATE_FLAGS, Mode::from_raw_mode(mode))
                    .map_err(|e| FsError::new("create", path, e))?;
                if *size > 0 {
                    self.content(path, &from, &to, *size)?;
                }
                finish(to.as_fd(), mode, self.owner).map_err(|e| FsError::new("set the mode of", path, e))?;
                self.files += 1;
                self.bytes += size;
                Ok(())
            }
        }
    }

    fn content(&mut self, path: &[u8], from: &OwnedFd, to: &OwnedFd, size: u64) -> Result<(), FsError> {
        if self.reflink != Some(false) {
            match rustix::fs::ioctl_ficlone(to, from) {
                Ok(()) => {
                    self.reflink.get_or_insert(true);
                    return Ok(());
                }
                Err(errno @ (Errno::NOSPC | Errno::DQUOT)) => return Err(FsError::new("write", path, errno)),
                // Not this file system, or not these two: from now on copy.
                Err(_) => self.reflink = Some(false),
            }
        }
        let copied = copy_range(from, to, size).map_err(|e| FsError::from_io("write", path, e))?;
        if copied == size {
            return Ok(());
        }
        let source =
            std::io::Error::other(format!("it has {copied} bytes instead of {size}; verify the store"));
        Err(FsError::Io { operation: "copy the stored", path: show(path), source })
    }
}

fn copy_range(from: &OwnedFd, to: &OwnedFd, size: u64) -> std::io::Result<u64> {
    let mut copied = 0_u64;
    while copied < size {
        let wanted = usize::try_from(size - copied).unwrap_or(usize::MAX).min(1 << 30);
        match rustix::fs::copy_file_range(from, None, to, None, wanted) {
            Ok(0) => break,
            Ok(count) => copied += count as u64,
            Err(Errno::INTR) => {}
            Err(Errno::XDEV | Errno::NOSYS | Errno::INVAL | Errno::OPNOTSUPP | Errno::PERM) => {
                // Both files stand at the same offset; the rest goes through memory.
                let (mut from, mut to) = (File::from(from.try_clone()?), File::from(to.try_clone()?));
                return Ok(copied + std::io::copy(&mut from, &mut to)?);
            }
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(copied)
}

/// The owner first: changing it clears mode bits.
fn finish(fd: BorrowedFd<'_>, mode: u32, owner: Option<Owner>) -> Result<(), Errno> {
    if let Some(owner) = owner {
        owner.give(fd)?;
    }
    rustix::fs::fchmod(fd, Mode::from_raw_mode(mode))
}
