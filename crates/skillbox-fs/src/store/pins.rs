//! Pins and garbage collection.
//!
//! One file lock orders them: a pin takes it shared, looks whether the tree is still there, and creates its file; the
//! collector takes it exclusively, reads the pins, moves the dead trees out of sight and lets go before it removes them.

use std::collections::HashMap;
use std::os::fd::AsFd;
use std::time::{Duration, SystemTime};

use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use skillbox_types::SkillDigest;

use super::{Store, StoreError};
use crate::error::show;
use crate::metadata::FileTime;
use crate::{remove_tree, sys};

/// A stored tree in use by an owner, such as a session.
///
/// The pin is a file: it outlives this value and the process, until [`Pin::release`], [`Store::unpin_owner`], or a
/// collection that is told that the owner is gone. An owner has one pin on a tree, however often it asks.
#[derive(Debug)]
#[must_use = "the tree stays pinned until the pin is released"]
pub struct Pin {
    store: Store,
    name: String,
}

impl Pin {
    /// Ends the owner's use of the tree.
    pub fn release(self) -> Result<(), StoreError> {
        self.store.remove_pin(self.name.as_bytes())
    }
}

/// What a garbage collection did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GcReport {
    /// Trees removed.
    pub removed: u64,
    /// Bytes of their files.
    pub removed_bytes: u64,
    /// Trees kept, for a pin or for their age.
    pub kept: u64,
    /// Pins removed because their owner is gone.
    pub dead_pins: u64,
}

const HEX_LEN: usize = 64;
/// How long what is known of a source is kept without being written anew.
const SOURCE_MEMORY: Duration = Duration::from_hours(90 * 24);

/// Digest and owner of a pin's file name.
fn parse_pin(name: &[u8]) -> Option<(&str, &str)> {
    let text = std::str::from_utf8(name).ok()?;
    let (hex, owner) = text.split_at_checked(HEX_LEN)?;
    Some((hex, owner.strip_prefix('.')?))
}

fn check_owner(owner: &str) -> Result<(), StoreError> {
    let good = (1..=128).contains(&owner.len())
        && !owner.starts_with('.')
        && owner.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b));
    if good { Ok(()) } else { Err(StoreError::InvalidOwner { owner: owner.to_owned() }) }
}

impl Store {
    /// Marks the tree as in use by `owner` (1 to 128 of `[A-Za-z0-9._-]`, not starting with a dot).
    pub fn pin(&self, digest: &SkillDigest, owner: &str) -> Result<Pin, StoreError> {
        check_owner(owner)?;
        let _lock = self.lock(FlockOperation::LockShared)?;
        if !self.is_stored(digest) {
            return Err(StoreError::NotStored { digest: digest.clone() });
        }
        let name = format!("{}.{owner}", digest.hex());
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        rustix::fs::openat(&self.inner.pins, name.as_str(), flags, Mode::from_raw_mode(0o600))
            .map_err(|e| self.failed("pin", name.as_bytes(), e))?;
        Ok(Pin { store: self.clone(), name })
    }

    /// Ends every use by `owner`; answers how many there were.
    pub fn unpin_owner(&self, owner: &str) -> Result<u64, StoreError> {
        check_owner(owner)?;
        let mut count = 0;
        for name in self.pin_names()? {
            if parse_pin(&name).is_some_and(|(_, pinned_by)| pinned_by == owner) {
                self.remove_pin(&name)?;
                count += 1;
            }
        }
        Ok(count)
    }

    /// Owners that use the tree.
    pub fn pinned_by(&self, digest: &SkillDigest) -> Result<Vec<String>, StoreError> {
        let names = self.pin_names()?;
        let owners = names.iter().filter_map(|name| parse_pin(name)).filter(|(hex, _)| *hex == digest.hex());
        let mut owners: Vec<_> = owners.map(|(_, owner)| owner.to_owned()).collect();
        owners.sort();
        Ok(owners)
    }

    fn remove_pin(&self, name: &[u8]) -> Result<(), StoreError> {
        match rustix::fs::unlinkat(&self.inner.pins, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(self.failed("unpin", name, errno)),
        }
    }

    fn pin_names(&self) -> Result<Vec<Vec<u8>>, StoreError> {
        let dir = rustix::fs::openat(&self.inner.pins, c".", sys::DIR_FLAGS, Mode::empty())
            .map_err(|e| self.failed("list", b"pins", e))?;
        let entries = sys::list(dir.as_fd()).map_err(|e| self.failed("list", b"pins", e))?;
        Ok(entries.into_iter().map(|entry| entry.name).collect())
    }

    /// Removes the trees that were not used for `older_than` and that no live owner has pinned.
    ///
    /// `live_owner` is asked about each owner of a pin while pins are held off, so an owner must count as live *before* it
    /// pins. `older_than` protects what was just imported and is not pinned yet: a minute is plenty.
    pub fn collect_garbage(
        &self,
        older_than: Duration,
        live_owner: &dyn Fn(&str) -> bool,
    ) -> Result<GcReport, StoreError> {
        let mut report = GcReport::default();
        let mut dead = Vec::new();
        {
            let _lock = self.lock(FlockOperation::LockExclusive)?;
            let mut live: HashMap<String, bool> = HashMap::new();
            let mut pinned = std::collections::HashSet::new();
            for name in self.pin_names()? {
                let Some((hex, owner)) = parse_pin(&name) else { continue };
                if *live.entry(owner.to_owned()).or_insert_with(|| live_owner(owner)) {
                    pinned.insert(hex.to_owned());
                } else {
                    self.remove_pin(&name)?;
                    report.dead_pins += 1;
                }
            }
            let now = SystemTime::now();
            let trees = rustix::fs::openat(&self.inner.trees, c".", sys::DIR_FLAGS, Mode::empty())
                .and_then(|dir| sys::list(dir.as_fd()))
                .map_err(|e| self.failed("list", b"trees", e))?;
            for entry in trees {
                let used = sys::stat_at(self.inner.trees.as_fd(), &entry.name)
                    .map_or(now, |stat| FileTime::new(&stat.stx_mtime).to_system_time());
                let young = now.duration_since(used).unwrap_or(Duration::ZERO) < older_than;
                if young || std::str::from_utf8(&entry.name).is_ok_and(|hex| pinned.contains(hex)) {
                    report.kept += 1;
                    continue;
                }
                report.removed += 1;
                let digest = format!("sha256:{}", String::from_utf8_lossy(&entry.name));
                if let Ok(tree) =
                    digest.parse().map_err(|_| ()).and_then(|digest| self.tree(&digest).map_err(|_| ()))
                {
                    report.removed_bytes += tree.bytes();
                }
                dead.push(self.hide(&entry.name)?);
            }
        }
        for name in dead {
            remove_tree(self.inner.tmp.as_fd(), name.as_bytes()).map_err(|e| self.wrap(e))?;
        }
        self.forget_old_sources()?;
        Ok(report)
    }

    /// Drops what is known of sources that were last imported long ago; a source that still exists is only read once more.
    fn forget_old_sources(&self) -> Result<(), StoreError> {
        let sources = &self.inner.sources;
        let entries = rustix::fs::openat(sources, c".", sys::DIR_FLAGS, Mode::empty())
            .and_then(|dir| sys::list(dir.as_fd()))
            .map_err(|e| self.failed("list", b"sources", e))?;
        let now = SystemTime::now();
        for entry in entries {
            let written = sys::stat_at(sources.as_fd(), &entry.name)
                .map_or(now, |stat| FileTime::new(&stat.stx_mtime).to_system_time());
            if now.duration_since(written).unwrap_or(Duration::ZERO) > SOURCE_MEMORY {
                match rustix::fs::unlinkat(sources, entry.name.as_slice(), AtFlags::empty()) {
                    Ok(()) | Err(Errno::NOENT) => {}
                    Err(errno) => return Err(self.failed("remove", &entry.name, errno)),
                }
            }
        }
        Ok(())
    }

    /// Removes a tree at once, such as a damaged one; refused where it is pinned.
    pub fn discard(&self, digest: &SkillDigest) -> Result<(), StoreError> {
        let hidden = {
            let _lock = self.lock(FlockOperation::LockExclusive)?;
            if !self.is_stored(digest) {
                return Err(StoreError::NotStored { digest: digest.clone() });
            }
            if let Some(owner) = self.pinned_by(digest)?.into_iter().next() {
                return Err(StoreError::Pinned { digest: digest.clone(), owner });
            }
            self.hide(digest.hex().as_bytes())?
        };
        remove_tree(self.inner.tmp.as_fd(), hidden.as_bytes()).map_err(|e| self.wrap(e))?;
        Ok(())
    }

    /// Moves a tree out of sight, under the exclusive lock.
    fn hide(&self, hex: &[u8]) -> Result<String, StoreError> {
        let hidden = sys::unique_name("dead-");
        crate::confined::rename(
            self.inner.trees.as_fd(),
            hex,
            self.inner.tmp.as_fd(),
            hidden.as_bytes(),
            RenameFlags::empty(),
        )
        .map_err(|e| self.failed("retire", show(hex).as_bytes(), e))?;
        Ok(hidden)
    }
}
