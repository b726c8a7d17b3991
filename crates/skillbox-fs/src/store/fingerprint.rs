//! What is known of a source folder, so that an unchanged one costs one `statx` per entry and no reading.
//!
//! A file counts as unchanged while inode, size, mode, mtime and ctime are the same: only the kernel sets the ctime. A
//! folder's times cover the names in it. A change within the clock's grain of the moment when the fingerprint was taken
//! would not show, so entries that had changed shortly before that are *racy* (the problem that git has with its index):
//! racy files are read again, racy folders listed again. Writes through a shared memory map show only once the kernel
//! writes them back.

use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::fs::{FileType, Mode, ResolveFlags, Statx};
use serde::{Deserialize, Serialize};
use skillbox_types::Warning;

use super::import::ImportOptions;
use super::importer::is_junk;
use super::{Store, hash_file};
use crate::confined::{ConfinedDir, WriteOptions};
use crate::hash::{Sha256, hex};
use crate::metadata::FileTime;
use crate::sys;

/// The coarsest clock of a file system in use (FAT has 2 s).
const RACY_NANOS: i128 = 2_000_000_000;
/// Sources remembered in memory.
const MAX_KNOWN: usize = 4096;
/// Largest fingerprint that is read from disk.
const MAX_FILE: u64 = 256 << 20;

/// What this process knows of a source, and when that was last proved.
#[derive(Debug, Clone)]
pub(super) struct Remembered {
    pub(super) known: Arc<Known>,
    pub(super) proved: Option<Instant>,
}

/// SHA-256 over the source's path and everything in the options that changes the result.
pub(super) type Key = [u8; 32];

pub(super) fn key(source: &Path, options: &ImportOptions) -> Key {
    let mut hash = Sha256::new();
    hash.update(b"skillbox source 1\0");
    hash.update(sys::path_bytes(source));
    hash.update(&[0]);
    let result = ImportOptions { trust_for: Duration::ZERO, ..*options };
    hash.update(format!("{result:?}").as_bytes());
    hash.finish()
}

/// What the import did with an entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Role {
    Folder,
    File {
        sha256: [u8; 32],
    },
    /// A link, FIFO or the like.
    Special,
    /// Excluded by the ignore file: only its kind matters.
    Ignored,
}

/// The identity of an entry of the source at the time of the import.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Stamp {
    pub(super) path: Vec<u8>,
    pub(super) role: Role,
    device: (u32, u32),
    inode: u64,
    size: u64,
    mode: u16,
    modified: i128,
    changed: i128,
}

impl Stamp {
    pub(super) fn new(path: Vec<u8>, role: Role, stat: &Statx) -> Self {
        Self {
            path,
            role,
            device: (stat.stx_dev_major, stat.stx_dev_minor),
            inode: stat.stx_ino,
            size: stat.stx_size,
            mode: stat.stx_mode,
            modified: FileTime::new(&stat.stx_mtime).unix_nanos,
            changed: FileTime::new(&stat.stx_ctime).unix_nanos,
        }
    }

    fn matches(&self, stat: &Statx) -> bool {
        if self.role == Role::Ignored {
            return FileType::from_raw_mode(self.mode.into()) == sys::file_type(stat);
        }
        self.inode == stat.stx_ino
            && self.changed == FileTime::new(&stat.stx_ctime).unix_nanos
            && self.modified == FileTime::new(&stat.stx_mtime).unix_nanos
            && self.size == stat.stx_size
            && self.mode == stat.stx_mode
            && self.device == (stat.stx_dev_major, stat.stx_dev_minor)
    }
}

/// The result of an import and what it was taken from.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Known {
    /// Nanoseconds since 1970 at which the walk began.
    pub(super) taken: i128,
    pub(super) stamps: Vec<Stamp>,
    pub(super) digest: String,
    pub(super) files: u64,
    pub(super) bytes: u64,
    pub(super) warnings: Vec<Warning>,
}

pub(super) fn now() -> i128 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |elapsed| i128::try_from(elapsed.as_nanos()).unwrap_or(i128::MAX))
}

/// What a check of a source found.
pub(super) enum Freshness {
    Same,
    /// The same, but some entries had to be read to be sure; the check began at this moment.
    SameSince(i128),
    Changed,
}

impl Known {
    fn is_racy(&self, stamp: &Stamp) -> bool {
        stamp.changed >= self.taken - RACY_NANOS && stamp.role != Role::Ignored
    }

    fn has_racy(&self) -> bool {
        self.stamps.iter().any(|stamp| self.is_racy(stamp))
    }

    /// Compares the source with what is known of it.
    pub(super) fn check(&self, source: BorrowedFd<'_>) -> Freshness {
        let began = now();
        let mut racy = Vec::new();
        for stamp in &self.stamps {
            let stat =
                if stamp.path.is_empty() { sys::stat_fd(source) } else { sys::stat_at(source, &stamp.path) };
            match stat {
                Ok(stat) if stamp.matches(&stat) => {
                    if self.is_racy(stamp) {
                        racy.push(stamp);
                    }
                }
                _ => return Freshness::Changed,
            }
        }
        if racy.is_empty() {
            return Freshness::Same;
        }
        let mut children: Option<HashMap<&[u8], Vec<&[u8]>>> = None;
        for stamp in racy {
            let same = match &stamp.role {
                Role::File { sha256 } => same_content(source, &stamp.path, sha256),
                Role::Folder => {
                    let children = children.get_or_insert_with(|| self.children());
                    same_names(
                        source,
                        &stamp.path,
                        children.get(stamp.path.as_slice()).map_or(&[], Vec::as_slice),
                    )
                }
                // A link cannot be rewritten, only replaced: a new inode.
                Role::Special | Role::Ignored => true,
            };
            if !same {
                return Freshness::Changed;
            }
        }
        Freshness::SameSince(began)
    }

    /// Names by folder.
    fn children(&self) -> HashMap<&[u8], Vec<&[u8]>> {
        let mut children: HashMap<&[u8], Vec<&[u8]>> = HashMap::new();
        for stamp in self.stamps.iter().filter(|stamp| !stamp.path.is_empty()) {
            let (parent, name) = match stamp.path.iter().rposition(|b| *b == b'/') {
                Some(slash) => (&stamp.path[..slash], &stamp.path[slash + 1..]),
                None => (&b""[..], stamp.path.as_slice()),
            };
            children.entry(parent).or_default().push(name);
        }
        children
    }
}

fn same_content(source: BorrowedFd<'_>, path: &[u8], sha256: &[u8; 32]) -> bool {
    sys::open_beneath(source, path, sys::READ_FLAGS, Mode::empty(), ResolveFlags::empty())
        .ok()
        .and_then(|fd| hash_file(std::fs::File::from(fd)).ok())
        .is_some_and(|(_, found)| found == *sha256)
}

fn same_names(source: BorrowedFd<'_>, path: &[u8], expected: &[&[u8]]) -> bool {
    let Ok(fd) = sys::open_beneath(source, path, sys::DIR_FLAGS, Mode::empty(), ResolveFlags::empty()) else {
        return false;
    };
    let Ok(entries) = sys::list(fd.as_fd()) else { return false };
    let mut found: Vec<&[u8]> =
        entries.iter().map(|entry| entry.name.as_slice()).filter(|name| !is_junk(name)).collect();
    let mut expected = expected.to_vec();
    found.sort_unstable();
    expected.sort_unstable();
    found == expected
}

impl Store {
    /// What is known of a source, from memory or else from disk.
    pub(super) fn recall(&self, key: &Key) -> Option<Remembered> {
        let memory = self.inner.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(remembered) = memory.get(key) {
            return Some(remembered.clone());
        }
        drop(memory);
        let dir = ConfinedDir::from(self.inner.sources.try_clone().ok()?);
        let bytes = dir.read(hex(key).as_str(), MAX_FILE).ok()?;
        // Another version's file is as good as none.
        let known = Arc::new(postcard::from_bytes::<Known>(&bytes).ok()?);
        Some(Remembered { known, proved: None })
    }

    /// Keeps in memory what was proved by a look at the source that began at `proved`.
    pub(super) fn remember(&self, key: Key, known: Arc<Known>, proved: Instant) {
        let mut memory = self.inner.known.lock().unwrap_or_else(PoisonError::into_inner);
        if memory.len() >= MAX_KNOWN {
            memory.clear();
        }
        memory.insert(key, Remembered { known, proved: Some(proved) });
    }

    /// The known state again, proved by reading what was racy in a check that began at `taken`. Written to disk once it
    /// needs no reading any more.
    pub(super) fn refresh(&self, key: Key, known: &Known, taken: i128, proved: Instant) {
        let known = Arc::new(Known { taken, ..known.clone() });
        if !known.has_racy() {
            self.persist(&key, &known);
        }
        self.remember(key, known, proved);
    }

    /// Writes what is known to disk. A failure costs only time later, so it is not reported.
    pub(super) fn persist(&self, key: &Key, known: &Known) {
        if let (Ok(bytes), Ok(fd)) = (postcard::to_stdvec(known), self.inner.sources.try_clone()) {
            let options = WriteOptions { mode: 0o600, ..WriteOptions::default() };
            let _ = ConfinedDir::from(fd).write_file(hex(key).as_str(), &mut bytes.as_slice(), &options);
        }
    }
}
