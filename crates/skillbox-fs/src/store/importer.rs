//! The walk of an import: copies, hashes and judges each entry of the source.

use std::fs::File;
use std::io::{Read, Write as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags, Statx};
use rustix::io::Errno;
use skillbox_types::Warning;

use super::construction::make_folder;
use super::fingerprint::{Role, Stamp};
use super::ignore_file::IgnoreFile;
use super::import::{ImportOptions, Modes};
use super::manifest::{Entry, EntryKind};
use super::script::{LineEnds, Shebang, stays_inside};
use super::{MAX_DEPTH, Store, StoreError};
use crate::error::{FsError, show};
use crate::hash::Sha256;
use crate::sys;

/// Warnings kept of one import.
const MAX_WARNINGS: usize = 100;
/// How often a file that changes while it is read is read again.
const ATTEMPTS: u32 = 4;

/// Left out wherever they are: version control, caches, desktop droppings.
pub(super) fn is_junk(name: &[u8]) -> bool {
    matches!(name, b".git" | b"__pycache__" | b".DS_Store") || (name.len() > 4 && name.ends_with(b".pyc"))
}

pub(super) struct Importer<'a> {
    store: &'a Store,
    source: &'a Path,
    options: &'a ImportOptions,
    ignore: IgnoreFile,
    pub(super) entries: Vec<Entry>,
    pub(super) stamps: Vec<Stamp>,
    /// Whether the source was seen to change.
    pub(super) changed: bool,
    bytes: u64,
    warnings: Vec<Warning>,
    omitted: u64,
    any_executable: bool,
    /// Indices into `entries` of files that start with `#!` and are not executable.
    shebangs: Vec<usize>,
    buffer: Vec<u8>,
}

/// What was stored of a file.
struct Copied {
    size: u64,
    sha256: [u8; 32],
    /// Of the source; differs where line ends were normalised.
    read: u64,
    source_sha256: [u8; 32],
    shebang: Shebang,
    /// The source's state while it was read.
    stat: Statx,
}

impl<'a> Importer<'a> {
    pub(super) fn new(
        store: &'a Store,
        source: &'a Path,
        options: &'a ImportOptions,
        root: BorrowedFd<'_>,
    ) -> Result<Self, StoreError> {
        let mut importer = Self {
            store,
            source,
            options,
            ignore: IgnoreFile::none(),
            entries: Vec::new(),
            stamps: Vec::new(),
            changed: false,
            bytes: 0,
            warnings: Vec::new(),
            omitted: 0,
            any_executable: false,
            shebangs: Vec::new(),
            buffer: vec![0; 128 << 10],
        };
        let (ignore, faults) = IgnoreFile::read(root).map_err(|e| importer.source_failed(e))?;
        importer.ignore = ignore;
        for fault in faults {
            importer.warn("skillignore_line_invalid", || fault);
        }
        Ok(importer)
    }

    fn source_failed(&self, error: FsError) -> StoreError {
        StoreError::Source { path: show(sys::path_bytes(self.source)), source: error }
    }

    fn unreadable(&self, path: &[u8], errno: Errno) -> StoreError {
        self.source_failed(FsError::new("read", path, errno))
    }

    fn warn(&mut self, code: &str, message: impl FnOnce() -> String) {
        if self.warnings.len() < MAX_WARNINGS {
            self.warnings.push(Warning::new(code, message()));
        } else {
            self.omitted += 1;
        }
    }

    pub(super) fn warnings(&mut self) -> Vec<Warning> {
        let mut warnings = std::mem::take(&mut self.warnings);
        if self.omitted > 0 {
            warnings.push(Warning::new(
                "warnings_omitted",
                format!("{} more warnings were left out", self.omitted),
            ));
        }
        warnings
    }

    fn add(&mut self, path: &[u8], kind: EntryKind) -> Result<(), StoreError> {
        if self.entries.len() as u64 >= self.options.max_files {
            return Err(StoreError::TooManyFiles {
                path: show(sys::path_bytes(self.source)),
                limit: self.options.max_files,
            });
        }
        self.entries.push(Entry { path: path.to_vec(), kind });
        Ok(())
    }

    fn stamp(&mut self, path: &[u8], role: Role, stat: &Statx) {
        self.stamps.push(Stamp::new(path.to_vec(), role, stat));
    }

    /// Copies the folder `from`, which has the path `path` within the skill, into the folder `to`.
    pub(super) fn folder(
        &mut self,
        from: &OwnedFd,
        to: &OwnedFd,
        path: &mut Vec<u8>,
        depth: usize,
    ) -> Result<(), StoreError> {
        let limit = self.options.max_depth.min(MAX_DEPTH);
        if depth > limit {
            return Err(StoreError::TooDeep { path: show(path), limit });
        }
        // Before the listing: a change after this moment shows in the folder's times.
        let stat = sys::stat_fd(from.as_fd()).map_err(|e| self.unreadable(path, e))?;
        self.stamp(path, Role::Folder, &stat);
        let mut entries = match sys::list(from.as_fd()) {
            Ok(entries) => entries,
            // The kernel's answer for a folder that was removed while it is open.
            Err(Errno::NOENT) => {
                self.changed = true;
                Vec::new()
            }
            Err(errno) => return Err(self.unreadable(path, errno)),
        };
        entries.retain(|entry| !is_junk(&entry.name));
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        let length = path.len();
        for entry in entries {
            if length > 0 {
                path.push(b'/');
            }
            path.extend_from_slice(&entry.name);
            self.entry(from, to, path, &entry.name, depth)?;
            path.truncate(length);
        }
        self.finish(to.as_fd(), 0o755).map_err(|e| self.store.failed("set the mode of", path, e))
    }

    fn finish(&self, fd: BorrowedFd<'_>, mode: u32) -> Result<(), Errno> {
        if let Some(owner) = self.store.inner.owner {
            owner.give(fd)?;
        }
        rustix::fs::fchmod(fd, Mode::from_raw_mode(mode))
    }

    fn entry(
        &mut self,
        from: &OwnedFd,
        to: &OwnedFd,
        path: &mut Vec<u8>,
        name: &[u8],
        depth: usize,
    ) -> Result<(), StoreError> {
        if path.len() > self.options.max_path_bytes {
            return Err(StoreError::PathTooLong { path: show(path), limit: self.options.max_path_bytes });
        }
        let stat = match sys::stat_at(from.as_fd(), name) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => {
                self.changed = true;
                return Ok(());
            }
            Err(errno) => return Err(self.unreadable(path, errno)),
        };
        let kind = sys::file_type(&stat);
        if self.is_excluded(path, kind) {
            self.stamp(path, Role::Ignored, &stat);
            return Ok(());
        }
        match kind {
            FileType::Directory => {
                let below = match rustix::fs::openat(from, name, sys::DIR_FLAGS, Mode::empty()) {
                    Ok(fd) => fd,
                    Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {
                        self.changed = true;
                        return Ok(());
                    }
                    Err(errno) => return Err(self.unreadable(path, errno)),
                };
                self.add(path, EntryKind::Directory)?;
                let target =
                    make_folder(to.as_fd(), name).map_err(|e| self.store.failed("create", path, e))?;
                self.folder(&below, &target, path, depth + 1)
            }
            FileType::RegularFile => self.file(from, to, path, name),
            FileType::Symlink => self.link(from, to, path, name, &stat),
            other => {
                self.stamp(path, Role::Special, &stat);
                self.warn("special_file_skipped", || {
                    format!("{:?} is a {} and was left out", show(path), sys::kind_name(other))
                });
                Ok(())
            }
        }
    }

    fn is_excluded(&mut self, path: &[u8], kind: FileType) -> bool {
        if path == IgnoreFile::NAME.as_bytes() {
            // Its content decides what is imported, so it is stamped as a file of its own (see `file`).
            return false;
        }
        if !self.ignore.excludes(path, kind == FileType::Directory) {
            return false;
        }
        if path.eq_ignore_ascii_case(b"SKILL.md") {
            self.warn("skill_md_kept", || {
                ".skillignore names SKILL.md, which can never be left out".to_owned()
            });
            return false;
        }
        true
    }

    fn link(
        &mut self,
        from: &OwnedFd,
        to: &OwnedFd,
        path: &[u8],
        name: &[u8],
        stat: &Statx,
    ) -> Result<(), StoreError> {
        let target = match rustix::fs::readlinkat(from, name, Vec::new()) {
            Ok(target) => target.into_bytes(),
            Err(Errno::NOENT | Errno::INVAL) => {
                self.changed = true;
                return Ok(());
            }
            Err(errno) => return Err(self.unreadable(path, errno)),
        };
        self.stamp(path, Role::Special, stat);
        if !stays_inside(path, &target) {
            self.warn("link_skipped", || {
                format!(
                    "link {:?} leads to {:?}, out of the skill, and was left out",
                    show(path),
                    show(&target)
                )
            });
            return Ok(());
        }
        crate::confined::make_link(to.as_fd(), name, &target, self.store.inner.owner)
            .map_err(|e| self.store.failed("create link", path, e))?;
        self.add(path, EntryKind::Symlink { target })
    }

    fn file(&mut self, from: &OwnedFd, to: &OwnedFd, path: &[u8], name: &[u8]) -> Result<(), StoreError> {
        let Some(copied) = self.copy_steadily(from, to, path, name)? else {
            // It vanished, perhaps after a first attempt to copy it.
            self.changed = true;
            return match rustix::fs::unlinkat(to, name, rustix::fs::AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => Ok(()),
                Err(errno) => Err(self.store.failed("remove", path, errno)),
            };
        };
        self.stamp(path, Role::File { sha256: copied.source_sha256 }, &copied.stat);
        if path == IgnoreFile::NAME.as_bytes() {
            return rustix::fs::unlinkat(to, name, rustix::fs::AtFlags::empty())
                .map_err(|e| self.store.failed("remove", path, e));
        }
        self.bytes += copied.size;
        let executable = match self.options.modes {
            Modes::Keep => copied.stat.stx_mode & 0o100 != 0,
            Modes::FromShebang => false,
        };
        self.any_executable |= executable;
        if copied.shebang != Shebang::None && !executable {
            self.shebangs.push(self.entries.len());
        }
        if copied.shebang == Shebang::CrLf && self.options.normalise_crlf {
            self.warn("crlf_normalised", || {
                format!("the CR LF line ends of the script {:?} were stored as LF", show(path))
            });
        } else if copied.shebang == Shebang::CrLf {
            self.warn("crlf_shebang", || {
                format!(
                    "the first line of {:?} ends in CR LF, so the kernel will not find its interpreter; \
                     save it with LF line ends",
                    show(path)
                )
            });
        }
        self.add(path, EntryKind::File { size: copied.size, sha256: copied.sha256, executable })?;
        if executable {
            let fd = rustix::fs::openat(
                to,
                name,
                OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW,
                Mode::empty(),
            );
            fd.and_then(|fd| rustix::fs::fchmod(&fd, Mode::from_raw_mode(0o755)))
                .map_err(|e| self.store.failed("set the mode of", path, e))?;
        }
        Ok(())
    }

    /// Copies a file, again if it changed meanwhile; `None` where it vanished.
    fn copy_steadily(
        &mut self,
        from: &OwnedFd,
        to: &OwnedFd,
        path: &[u8],
        name: &[u8],
    ) -> Result<Option<Copied>, StoreError> {
        for attempt in 1..=ATTEMPTS {
            let fd = match rustix::fs::openat(from, name, sys::READ_FLAGS, Mode::empty()) {
                Ok(fd) => fd,
                Err(Errno::NOENT | Errno::LOOP | Errno::NXIO) => return Ok(None),
                Err(errno) => return Err(self.unreadable(path, errno)),
            };
            let before = sys::stat_fd(fd.as_fd()).map_err(|e| self.unreadable(path, e))?;
            if sys::file_type(&before) != FileType::RegularFile {
                return Ok(None);
            }
            let mut source = File::from(fd);
            let copied = self.copy_once(&mut source, to, path, name, before, attempt == 1)?;
            let after = sys::stat_fd(source.as_fd()).map_err(|e| self.unreadable(path, e))?;
            let role = Role::Special;
            if Stamp::new(Vec::new(), role.clone(), &before) == Stamp::new(Vec::new(), role, &after)
                && copied.read == after.stx_size
            {
                return Ok(Some(copied));
            }
            self.changed = true;
        }
        Err(StoreError::SourceChanging { path: show(path) })
    }

    fn copy_once(
        &mut self,
        source: &mut File,
        to: &OwnedFd,
        path: &[u8],
        name: &[u8],
        stat: Statx,
        first: bool,
    ) -> Result<Copied, StoreError> {
        let flags = if first {
            sys::CREATE_FLAGS
        } else {
            OFlags::WRONLY | OFlags::TRUNC | OFlags::CLOEXEC | OFlags::NOFOLLOW
        };
        let target = rustix::fs::openat(to, name, flags, Mode::from_raw_mode(0o600))
            .map_err(|e| self.store.failed("write", path, e))?;
        let mut target = File::from(target);
        let (mut hash, mut stored_hash) = (Sha256::new(), Sha256::new());
        let (mut read, mut size) = (0_u64, 0_u64);
        let mut shebang = Shebang::None;
        let mut line_ends: Option<LineEnds> = None;
        loop {
            let count = match source.read(&mut self.buffer) {
                Ok(count) => count,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(self.source_failed(FsError::from_io("read", path, error))),
            };
            let mut chunk = &self.buffer[..count];
            if read == 0 {
                shebang = Shebang::of(chunk);
                let normalise = shebang == Shebang::CrLf && self.options.normalise_crlf;
                line_ends = normalise.then(LineEnds::default);
            }
            read += count as u64;
            hash.update(chunk);
            if let Some(line_ends) = &mut line_ends {
                chunk = line_ends.normalise(chunk);
                stored_hash.update(chunk);
            }
            size += chunk.len() as u64;
            if self.bytes + size > self.options.max_bytes {
                return Err(StoreError::TooManyBytes {
                    path: show(sys::path_bytes(self.source)),
                    limit: self.options.max_bytes,
                });
            }
            target.write_all(chunk).map_err(|e| self.store.wrap(FsError::from_io("write", path, e)))?;
            if count == 0 {
                break;
            }
        }
        self.finish(target.as_fd(), 0o644).map_err(|e| self.store.failed("set the mode of", path, e))?;
        let source_sha256 = hash.finish();
        let sha256 = if line_ends.is_some() { stored_hash.finish() } else { source_sha256 };
        Ok(Copied { size, sha256, read, source_sha256, shebang, stat })
    }

    /// Makes files that start with `#!` executable where the source has lost its modes or has none.
    pub(super) fn restore_execute_bits(&mut self, tree: &OwnedFd) -> Result<(), StoreError> {
        if self.any_executable || self.shebangs.is_empty() {
            return Ok(());
        }
        let mut names = Vec::new();
        for index in std::mem::take(&mut self.shebangs) {
            let entry = &mut self.entries[index];
            if let EntryKind::File { executable, .. } = &mut entry.kind {
                *executable = true;
            }
            names.push(format!("{:?}", show(&entry.path)));
            rustix::fs::openat(tree, entry.path.as_slice(), sys::READ_FLAGS, Mode::empty())
                .and_then(|fd| rustix::fs::fchmod(&fd, Mode::from_raw_mode(0o755)))
                .map_err(|e| self.store.failed("set the mode of", &self.entries[index].path, e))?;
        }
        let shown = names.iter().take(10).cloned().collect::<Vec<_>>().join(", ");
        let more = if names.len() > 10 { format!(" and {} more", names.len() - 10) } else { String::new() };
        self.warn("execute_bit_restored", || {
            format!(
                "no file of the source is executable; those that start with #! were made so: {shown}{more}"
            )
        });
        Ok(())
    }
}
