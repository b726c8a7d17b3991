//! A stored tree.

use std::ffi::CString;
use std::io::Read as _;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags};
use skillbox_types::SkillDigest;

use super::manifest::{self, Entry, EntryKind, HEADER_LEN};
use super::{MANIFEST, StoreError, TREE};
use crate::error::{FsError, show};
use crate::hash::Sha256;
use crate::sys;

/// A complete, immutable tree in the store.
///
/// It stays usable only as long as it is pinned (see [`Store::pin`](crate::Store::pin)).
#[derive(Debug, Clone)]
pub struct Tree {
    pub(super) object: PathBuf,
    pub(super) path: PathBuf,
    pub(super) digest: SkillDigest,
    pub(super) files: u64,
    pub(super) bytes: u64,
}

impl Tree {
    pub(super) fn open(object: PathBuf, digest: &SkillDigest) -> Result<Self, StoreError> {
        let path = object.join(MANIFEST);
        let mut header = [0; HEADER_LEN];
        let opened = rustix::fs::open(&path, sys::READ_FLAGS, Mode::empty());
        let mut file = match opened {
            Ok(fd) => std::fs::File::from(fd),
            Err(rustix::io::Errno::NOENT) => return Err(StoreError::NotStored { digest: digest.clone() }),
            Err(errno) => {
                return Err(StoreError::Store {
                    store: show(sys::path_bytes(&object)),
                    source: FsError::new("open", sys::path_bytes(&path), errno),
                });
            }
        };
        let totals = file
            .read_exact(&mut header)
            .ok()
            .and_then(|()| manifest::decode_header(&header))
            .ok_or_else(|| corrupt(digest, "its manifest has no valid header"))?;
        Ok(Self {
            path: object.join(TREE),
            object,
            digest: digest.clone(),
            files: totals.files,
            bytes: totals.bytes,
        })
    }

    /// The folder that holds the tree's files; read-only by contract, fit to be the lower folder of an overlay.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The digest.
    pub fn digest(&self) -> &SkillDigest {
        &self.digest
    }

    /// Number of regular files.
    pub fn files(&self) -> u64 {
        self.files
    }

    /// Bytes of all regular files.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Reads the list of entries, sorted by path bytes.
    pub fn entries(&self) -> Result<Vec<Entry>, StoreError> {
        let bytes = self.manifest_bytes()?;
        manifest::decode(&bytes).ok_or_else(|| corrupt(&self.digest, "its manifest cannot be read"))
    }

    fn manifest_bytes(&self) -> Result<Vec<u8>, StoreError> {
        let path = self.object.join(MANIFEST);
        // A path of the store, which nothing but the engine writes to.
        let read = || {
            let mut file = std::fs::File::from(rustix::fs::open(&path, sys::READ_FLAGS, Mode::empty())?);
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes).map(|_| bytes)
        };
        read().map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => StoreError::NotStored { digest: self.digest.clone() },
            _ => self.failed("read", &path, error),
        })
    }

    fn failed(&self, operation: &'static str, path: &Path, error: std::io::Error) -> StoreError {
        StoreError::Store {
            store: show(sys::path_bytes(&self.object)),
            source: FsError::from_io(operation, sys::path_bytes(path), error),
        }
    }

    pub(crate) fn open_root(&self) -> Result<OwnedFd, FsError> {
        sys::open_host_dir(&self.path).map_err(|e| FsError::new("open", sys::path_bytes(&self.path), e))
    }

    /// Compares the files on disk with the digest, byte by byte.
    pub(super) fn verify(&self) -> Result<(), StoreError> {
        let bad = |what: String| StoreError::Corrupt { digest: self.digest.clone(), what };
        let bytes = self.manifest_bytes()?;
        if SkillDigest::from_sha256(&Sha256::of(&bytes)) != self.digest {
            return Err(bad("its manifest does not match the digest".into()));
        }
        let entries = manifest::decode(&bytes).ok_or_else(|| bad("its manifest cannot be read".into()))?;
        let root = self.open_root().map_err(|_| bad("its folder is missing".into()))?;
        let mut seen = 0_u64;
        count_below(&root, &mut seen, 0);
        if seen != entries.len() as u64 {
            return Err(bad(format!("it has {seen} entries instead of {}", entries.len())));
        }
        for entry in &entries {
            let name = show(&entry.path);
            match &entry.kind {
                EntryKind::Directory => {
                    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                    sys::open_beneath(root.as_fd(), &entry.path, flags, Mode::empty(), ResolveFlags::empty())
                        .map_err(|e| bad(format!("folder {name:?}: {e}")))?;
                }
                EntryKind::Symlink { target } => {
                    let found = rustix::fs::readlinkat(&root, entry.path.as_slice(), Vec::new());
                    if found.as_ref().map(CString::as_bytes) != Ok(target) {
                        return Err(bad(format!("link {name:?} is missing or leads elsewhere")));
                    }
                }
                EntryKind::File { size, sha256, executable } => {
                    let fd = sys::open_beneath(
                        root.as_fd(),
                        &entry.path,
                        sys::READ_FLAGS,
                        Mode::empty(),
                        ResolveFlags::empty(),
                    )
                    .map_err(|e| bad(format!("file {name:?}: {e}")))?;
                    let stat = sys::stat_fd(fd.as_fd()).map_err(|e| bad(format!("file {name:?}: {e}")))?;
                    let mode = if *executable { 0o755 } else { 0o644 };
                    if u32::from(stat.stx_mode) & 0o7777 != mode {
                        return Err(bad(format!("file {name:?} has another mode")));
                    }
                    let (found, hash) =
                        hash_file(std::fs::File::from(fd)).map_err(|e| bad(format!("file {name:?}: {e}")))?;
                    if found != *size || hash != *sha256 {
                        return Err(bad(format!("file {name:?} has another content")));
                    }
                }
            }
        }
        Ok(())
    }
}

fn corrupt(digest: &SkillDigest, what: &str) -> StoreError {
    StoreError::Corrupt { digest: digest.clone(), what: what.to_owned() }
}

/// Size and SHA-256 of what can be read from `file`.
pub(crate) fn hash_file(mut file: std::fs::File) -> std::io::Result<(u64, [u8; 32])> {
    let mut hash = Sha256::new();
    let mut buffer = vec![0_u8; 64 << 10];
    let mut size = 0;
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return Ok((size, hash.finish())),
            Ok(count) => {
                hash.update(&buffer[..count]);
                size += count as u64;
            }
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Counts entries; the depth of a stored tree is limited at its import, and here once more.
fn count_below(dir: &OwnedFd, seen: &mut u64, depth: usize) {
    let Ok(entries) = sys::list(dir.as_fd()) else { return };
    for entry in entries {
        *seen += 1;
        if entry.kind == FileType::Directory
            && depth < super::MAX_DEPTH
            && let Ok(fd) = rustix::fs::openat(dir, entry.name.as_slice(), sys::DIR_FLAGS, Mode::empty())
        {
            count_below(&fd, seen, depth + 1);
        }
    }
}
