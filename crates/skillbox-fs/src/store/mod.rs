//! The content-addressed store of skill trees.
//!
//! ```text
//! <root>/                    mode 0700
//!   v1/lock                  file lock: shared for pins and imports, exclusive for removals
//!   v1/trees/<hex>/tree/     the files, modes 0644 and 0755
//!   v1/trees/<hex>/manifest  the canonical list whose SHA-256 is <hex>
//!   v1/pins/<hex>.<owner>    the tree is in use
//!   v1/sources/<hex>         what is known of a source folder, so that an unchanged one is not read again
//!   v1/tmp/                  trees under construction, each locked by its maker
//! ```
//!
//! A tree is built in `tmp/` and appears in `trees/` by one rename, so it is complete or absent whenever a process is
//! killed, and of concurrent importers of the same tree one wins. The rest of a killed importer is removed when the store
//! is next opened. Nothing is synced to the disk: after a *power loss* (not a mere kill) a tree imported shortly before
//! can be visible and damaged. [`Store::verify`] finds out, [`Store::discard`] and a new import mend it.

mod construction;
mod error;
mod fingerprint;
mod ignore_file;
mod import;
mod importer;
mod manifest;
mod pins;
mod script;
mod tree;

use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use skillbox_types::SkillDigest;

pub use error::StoreError;
pub use import::{ImportOptions, Imported, Modes};
pub use manifest::{Entry, EntryKind};
pub use pins::{GcReport, Pin};
pub use tree::Tree;

pub(crate) use tree::hash_file;

use crate::confined::{ConfinedDir, Owner};
use crate::error::{FsError, show};
use crate::{remove_tree, sys};

const VERSION: &str = "v1";
const TREE: &str = "tree";
const MANIFEST: &str = "manifest";
/// Deepest nesting that any option allows; imports recurse once and hold two descriptors per level.
const MAX_DEPTH: usize = 128;

/// A store of immutable skill trees, each under the digest of its names, modes, links and contents.
///
/// Cheap to clone; clones share what is remembered of sources. Any number of processes may use one store.
///
/// ```
/// use skillbox_fs::{ImportOptions, Store};
/// let temporary = tempfile::tempdir()?;
/// let source = temporary.path().join("hello");
/// std::fs::create_dir(&source)?;
/// std::fs::write(source.join("SKILL.md"), "---\nname: hello\ndescription: Greets.\n---\n")?;
///
/// let store = Store::open(&temporary.path().join("store"))?;
/// let imported = store.import(&source, &ImportOptions::default())?;
/// let pin = store.pin(&imported.digest, "session-1")?;
/// let tree = store.tree(&imported.digest)?;
/// assert_eq!(tree.files(), 1);
/// assert!(tree.path().join("SKILL.md").exists());
/// pin.release()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    root: PathBuf,
    base: OwnedFd,
    trees: OwnedFd,
    tmp: OwnedFd,
    pins: OwnedFd,
    sources: OwnedFd,
    owner: Option<Owner>,
    known: Mutex<HashMap<fingerprint::Key, fingerprint::Remembered>>,
}

/// Holds the store's file lock until dropped.
struct LockGuard {
    _file: OwnedFd,
}

impl Store {
    /// Opens the store at `root`, creating it (mode 0700, and the folders above it) where it does not exist, and removes
    /// what killed importers left.
    pub fn open(root: &Path) -> Result<Self, StoreError> {
        Self::open_with_owner(root, None)
    }

    /// As [`Store::open`]; files of trees imported from now on are given to `owner`, so that nothing a script sees
    /// belongs to the engine's user.
    pub fn open_with_owner(root: &Path, owner: Option<Owner>) -> Result<Self, StoreError> {
        let failed = |error: FsError| StoreError::Store { store: show(sys::path_bytes(root)), source: error };
        let host = match ConfinedDir::open(root) {
            Err(FsError::NotFound { .. }) => {
                create_host_dirs(root).map_err(failed)?;
                ConfinedDir::open(root).map_err(failed)?
            }
            answer => answer.map_err(failed)?,
        };
        let folder = |path: &str| host.create_dir_all(path, 0o700, None).map_err(failed);
        let base = folder(VERSION)?;
        let inner = Inner {
            root: root.to_owned(),
            trees: folder("v1/trees")?.into(),
            tmp: folder("v1/tmp")?.into(),
            pins: folder("v1/pins")?.into(),
            sources: folder("v1/sources")?.into(),
            base: base.into(),
            owner,
            known: Mutex::default(),
        };
        let store = Self { inner: Arc::new(inner) };
        store.sweep()?;
        Ok(store)
    }

    /// Where the store is.
    pub fn root(&self) -> &Path {
        &self.inner.root
    }

    /// The tree with this digest. Only a pin keeps it from being removed (see [`Store::pin`]).
    pub fn tree(&self, digest: &SkillDigest) -> Result<Tree, StoreError> {
        Tree::open(self.object_path(digest), digest)
    }

    /// Whether the tree is stored.
    pub fn is_stored(&self, digest: &SkillDigest) -> bool {
        rustix::fs::accessat(&self.inner.trees, digest.hex(), rustix::fs::Access::EXISTS, AtFlags::empty())
            .is_ok()
    }

    /// Compares every file of the tree with its digest.
    pub fn verify(&self, digest: &SkillDigest) -> Result<(), StoreError> {
        self.tree(digest)?.verify()
    }

    /// The digests of all stored trees, sorted.
    pub fn digests(&self) -> Result<Vec<SkillDigest>, StoreError> {
        let entries = rustix::fs::openat(&self.inner.trees, c".", sys::DIR_FLAGS, Mode::empty())
            .and_then(|dir| sys::list(dir.as_fd()))
            .map_err(|e| self.failed("list", b"trees", e))?;
        let mut digests: Vec<SkillDigest> = entries
            .iter()
            .filter_map(|entry| format!("sha256:{}", String::from_utf8_lossy(&entry.name)).parse().ok())
            .collect();
        digests.sort();
        Ok(digests)
    }

    fn object_path(&self, digest: &SkillDigest) -> PathBuf {
        let mut path = self.inner.root.join(VERSION);
        path.push("trees");
        path.push(digest.hex());
        path
    }

    /// Removes trees under construction whose maker is dead: nobody holds their lock.
    fn sweep(&self) -> Result<(), StoreError> {
        let tmp = &self.inner.tmp;
        let names = rustix::fs::openat(tmp, c".", sys::DIR_FLAGS, Mode::empty())
            .and_then(|dir| sys::list(dir.as_fd()))
            .map_err(|e| self.failed("list", b"tmp", e))?;
        if names.is_empty() {
            return Ok(());
        }
        // Under the exclusive lock nobody is between making a folder and locking it.
        let Ok(lock) = self.lock(FlockOperation::NonBlockingLockExclusive) else {
            // Somebody works; the next opening will do.
            return Ok(());
        };
        let mut dead = Vec::new();
        for entry in names {
            let opened = rustix::fs::openat(tmp, entry.name.as_slice(), sys::DIR_FLAGS, Mode::empty());
            let alive = opened.is_ok_and(|fd| {
                rustix::fs::flock(&fd, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK)
            });
            if !alive {
                dead.push(entry.name);
            }
        }
        drop(lock);
        for name in dead {
            // What cannot be removed now is tried again at the next opening; it harms nobody.
            let _ = remove_tree(tmp.as_fd(), &name);
        }
        Ok(())
    }

    /// A lock of its own for each call: locks of one open file do not exclude the threads that share it.
    fn lock(&self, operation: FlockOperation) -> Result<LockGuard, StoreError> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let file = rustix::fs::openat(&self.inner.base, c"lock", flags, Mode::from_raw_mode(0o600))
            .map_err(|e| self.failed("open", b"lock", e))?;
        loop {
            match rustix::fs::flock(&file, operation) {
                Ok(()) => return Ok(LockGuard { _file: file }),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(self.failed("lock", b"lock", errno)),
            }
        }
    }

    fn failed(&self, operation: &'static str, path: &[u8], errno: Errno) -> StoreError {
        self.wrap(FsError::new(operation, path, errno))
    }

    fn wrap(&self, source: FsError) -> StoreError {
        StoreError::Store { store: show(sys::path_bytes(&self.inner.root)), source }
    }
}

/// Creates a folder of the host and those above it, with mode 0700.
fn create_host_dirs(path: &Path) -> Result<(), FsError> {
    let missing = |path: &Path| matches!(rustix::fs::stat(path), Err(Errno::NOENT));
    let above: Vec<&Path> =
        path.ancestors().take_while(|path| !path.as_os_str().is_empty() && missing(path)).collect();
    for path in above.into_iter().rev() {
        match rustix::fs::mkdir(path, sys::OWNER_RWX) {
            // Another process may open the same store for the first time.
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(FsError::new("create", sys::path_bytes(path), errno)),
        }
    }
    Ok(())
}
