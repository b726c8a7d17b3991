//! Directory handles that nothing leads out of.
//!
//! A script can replace any folder of its workspace by a link at any moment, so checking a path and then opening it is
//! worthless. A [`ConfinedDir`] resolves each path at the moment of the operation, by `openat2(2)` with
//! `RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS`: no `..`, no absolute path, and no link at all, not even
//! one that stays inside.

use std::fs::File;
use std::io::{Read, Write as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, RenameFlags, ResolveFlags, Uid};
use rustix::io::Errno;
use skillbox_types::{FileName, WorkspacePath};

use crate::error::{FsError, show};
use crate::metadata::Metadata;
use crate::sys;

/// Numeric user and group that new files are given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Owner {
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
}

impl Owner {
    pub(crate) fn give(self, fd: BorrowedFd<'_>) -> Result<(), Errno> {
        rustix::fs::fchown(fd, Some(Uid::from_raw(self.uid)), Some(Gid::from_raw(self.gid)))
    }
}

/// A path relative to a [`ConfinedDir`]: text or any bytes. It is validated at each use.
pub trait RelativePath {
    /// The bytes of the path; empty for the directory itself.
    fn relative_bytes(&self) -> &[u8];
}

impl RelativePath for WorkspacePath {
    fn relative_bytes(&self) -> &[u8] {
        self.as_str().as_bytes()
    }
}

impl RelativePath for FileName {
    fn relative_bytes(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl RelativePath for str {
    fn relative_bytes(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl RelativePath for [u8] {
    fn relative_bytes(&self) -> &[u8] {
        self
    }
}

impl<const N: usize> RelativePath for [u8; N] {
    fn relative_bytes(&self) -> &[u8] {
        self
    }
}

impl RelativePath for Vec<u8> {
    fn relative_bytes(&self) -> &[u8] {
        self
    }
}

/// Refuses what could lead out; empty components and `.` are refused too, since nothing that is normalised has them.
pub(crate) fn validate(path: &[u8]) -> Result<&[u8], FsError> {
    let invalid = |reason| FsError::InvalidPath { path: show(path), reason };
    if path.contains(&0) {
        return Err(invalid("it contains a NUL byte"));
    }
    if path.first() == Some(&b'/') {
        return Err(invalid("it is absolute"));
    }
    if path.is_empty() {
        return Ok(path);
    }
    for part in path.split(|b| *b == b'/') {
        match part {
            b"" => return Err(invalid("it has an empty component")),
            b"." => return Err(invalid("it has a '.' component")),
            b".." => return Err(invalid("it has a '..' component")),
            _ => {}
        }
    }
    Ok(path)
}

fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|b| *b == b'/') {
        Some(slash) => (&path[..slash], &path[slash + 1..]),
        None => (&path[..0], path),
    }
}

/// How [`ConfinedDir::write_file`] writes.
#[derive(Debug, Clone, Copy)]
pub struct WriteOptions<'a> {
    /// The permission bits, set explicitly: the process's umask has no say. 0644 by default.
    pub mode: u32,
    /// Who owns the file; the process's own user where absent.
    pub owner: Option<Owner>,
    /// Where the file is written before it is renamed to its place. It must be on the same file system, and out of
    /// reach of scripts. The target's own folder where absent.
    pub staging: Option<&'a ConfinedDir>,
    /// The most bytes that are taken from the reader.
    pub max_bytes: u64,
    /// Whether a file that exists is replaced; an error otherwise.
    pub replace: bool,
}

impl Default for WriteOptions<'_> {
    fn default() -> Self {
        Self { mode: 0o644, owner: None, staging: None, max_bytes: u64::MAX, replace: true }
    }
}

/// A handle on a directory; every path is resolved beneath it, without following links.
///
/// ```
/// use skillbox_fs::{ConfinedDir, WriteOptions};
/// let temporary = tempfile::tempdir()?;
/// let dir = ConfinedDir::open(temporary.path())?;
/// dir.create_dir_all("work/inputs", 0o755, None)?;
/// dir.write_file("work/inputs/a.txt", &mut &b"hello"[..], &WriteOptions::default())?;
/// assert_eq!(dir.read("work/inputs/a.txt", 1024)?, b"hello");
/// assert!(dir.read("../etc/passwd", 1024).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct ConfinedDir {
    fd: OwnedFd,
}

impl AsFd for ConfinedDir {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl From<OwnedFd> for ConfinedDir {
    /// Takes a descriptor that was opened on a folder.
    fn from(fd: OwnedFd) -> Self {
        Self { fd }
    }
}

impl From<ConfinedDir> for OwnedFd {
    fn from(dir: ConfinedDir) -> Self {
        dir.fd
    }
}

impl ConfinedDir {
    /// Opens a folder of the host. Links in `path` itself are followed: it comes from the operator.
    pub fn open(path: &Path) -> Result<Self, FsError> {
        let fd = sys::open_host_dir(path).map_err(|e| FsError::new("open", sys::path_bytes(path), e))?;
        Ok(Self { fd })
    }

    /// A second handle on the same folder.
    pub fn try_clone(&self) -> Result<Self, FsError> {
        let fd = self.fd.try_clone().map_err(|e| FsError::from_io("duplicate the handle of", b".", e))?;
        Ok(Self { fd })
    }

    /// Opens the folder at `path`.
    pub fn open_dir<P: RelativePath + ?Sized>(&self, path: &P) -> Result<Self, FsError> {
        let path = validate(path.relative_bytes())?;
        self.open_at(path, sys::DIR_FLAGS, Mode::empty())
            .map(|fd| Self { fd })
            .map_err(|e| FsError::new("open", path, e))
    }

    fn open_at(&self, path: &[u8], flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
        sys::open_beneath(self.fd.as_fd(), path, flags, mode, ResolveFlags::empty())
    }

    /// Creates the folder at `path` and those above it; existing ones are left as they are. New ones get exactly `mode`,
    /// whatever the umask, and `owner`. Answers a handle on the last one.
    pub fn create_dir_all<P: RelativePath + ?Sized>(
        &self,
        path: &P,
        mode: u32,
        owner: Option<Owner>,
    ) -> Result<Self, FsError> {
        let path = validate(path.relative_bytes())?;
        match self.open_at(path, sys::DIR_FLAGS, Mode::empty()) {
            Ok(fd) => return Ok(Self { fd }),
            Err(Errno::NOENT) => {}
            Err(errno) => return Err(FsError::new("create folder", path, errno)),
        }
        let mut current = self.try_clone()?;
        for part in path.split(|b| *b == b'/') {
            current =
                current.make_dir(part, mode, owner).map_err(|e| FsError::new("create folder", path, e))?;
        }
        Ok(current)
    }

    fn make_dir(&self, name: &[u8], mode: u32, owner: Option<Owner>) -> Result<Self, Errno> {
        let created = match rustix::fs::mkdirat(&self.fd, name, sys::OWNER_RWX) {
            Ok(()) => true,
            Err(Errno::EXIST) => false,
            Err(errno) => return Err(errno),
        };
        let fd = rustix::fs::openat(&self.fd, name, sys::DIR_FLAGS, Mode::empty())?;
        if created {
            if let Some(owner) = owner {
                owner.give(fd.as_fd())?;
            }
            rustix::fs::fchmod(&fd, Mode::from_raw_mode(mode & 0o7777))?;
        }
        Ok(Self { fd })
    }

    /// Creates the single folder at `path`, which must not exist, with exactly `mode` and `owner`.
    pub fn create_dir<P: RelativePath + ?Sized>(
        &self,
        path: &P,
        mode: u32,
        owner: Option<Owner>,
    ) -> Result<Self, FsError> {
        let path = validate(path.relative_bytes())?;
        let (parent, name) = self.parent_of(path)?;
        rustix::fs::mkdirat(&parent, name, sys::OWNER_RWX)
            .map_err(|e| FsError::new("create folder", path, e))?;
        let finish = || {
            let fd = rustix::fs::openat(&parent, name, sys::DIR_FLAGS, Mode::empty())?;
            if let Some(owner) = owner {
                owner.give(fd.as_fd())?;
            }
            rustix::fs::fchmod(&fd, Mode::from_raw_mode(mode & 0o7777))?;
            Ok(Self { fd })
        };
        finish().map_err(|e| FsError::new("create folder", path, e))
    }

    fn parent_of<'p>(&self, path: &'p [u8]) -> Result<(OwnedFd, &'p [u8]), FsError> {
        let (parent, name) = split(path);
        if name.is_empty() {
            return Err(FsError::InvalidPath { path: show(path), reason: "it is empty" });
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let fd = self
            .open_at(parent, flags, Mode::empty())
            .map_err(|e| FsError::new("open the folder of", path, e))?;
        Ok((fd, name))
    }

    /// Writes the bytes of `content` to the file at `path`, whose folder must exist, and answers how many they were.
    ///
    /// The file appears complete or not at all: it is written under a temporary name and renamed. What was at `path`
    /// before, even a link, is replaced, never written through; a folder is an error.
    pub fn write_file<P: RelativePath + ?Sized>(
        &self,
        path: &P,
        content: &mut dyn Read,
        options: &WriteOptions<'_>,
    ) -> Result<u64, FsError> {
        let path = validate(path.relative_bytes())?;
        let (parent, name) = self.parent_of(path)?;
        let staging = options.staging.map_or(parent.as_fd(), |dir| dir.as_fd());
        let temporary = sys::unique_name(".skillbox-");
        let fd =
            rustix::fs::openat(staging, temporary.as_str(), sys::CREATE_FLAGS, Mode::from_raw_mode(0o600))
                .map_err(|e| FsError::new("write", path, e))?;
        let written = fill(File::from(fd), path, content, options).and_then(|bytes| {
            let flags = if options.replace { RenameFlags::empty() } else { RenameFlags::NOREPLACE };
            rename(staging, temporary.as_bytes(), parent.as_fd(), name, flags)
                .map_err(|e| rename_error("write", path, e))?;
            Ok(bytes)
        });
        if written.is_err() {
            // The first error is the one to report.
            let _ = rustix::fs::unlinkat(staging, temporary.as_str(), AtFlags::empty());
        }
        written
    }

    /// Opens the regular file at `path` for reading. Links, FIFOs, sockets and devices are errors and are never opened
    /// in a way that blocks or has effects.
    pub fn open_regular<P: RelativePath + ?Sized>(&self, path: &P) -> Result<(File, Metadata), FsError> {
        let path = validate(path.relative_bytes())?;
        let fd = self.open_at(path, sys::READ_FLAGS, Mode::empty()).map_err(|e| match e {
            // The kernel's answer for a socket, and for a FIFO or device without its other end.
            Errno::NXIO => FsError::NotRegular { path: show(path), kind: "socket or device" },
            other => FsError::new("open", path, other),
        })?;
        regular(fd, path)
    }

    /// The content of the regular file at `path`, which may have at most `max_bytes`.
    pub fn read<P: RelativePath + ?Sized>(&self, path: &P, max_bytes: u64) -> Result<Vec<u8>, FsError> {
        let (file, metadata) = self.open_regular(path)?;
        let path = path.relative_bytes();
        let too_large = || FsError::TooLarge { path: show(path), limit: max_bytes };
        if metadata.size > max_bytes {
            return Err(too_large());
        }
        let mut content = Vec::with_capacity(usize::try_from(metadata.size).unwrap_or(0));
        file.take(max_bytes.saturating_add(1))
            .read_to_end(&mut content)
            .map_err(|e| FsError::from_io("read", path, e))?;
        if content.len() as u64 > max_bytes { Err(too_large()) } else { Ok(content) }
    }

    /// What is at `path`; a link is described itself, not what it leads to.
    pub fn metadata<P: RelativePath + ?Sized>(&self, path: &P) -> Result<Metadata, FsError> {
        let path = validate(path.relative_bytes())?;
        let stat = if path.is_empty() {
            sys::stat_fd(self.fd.as_fd())
        } else {
            let (parent, name) = self.parent_of(path)?;
            sys::stat_at(parent.as_fd(), name)
        };
        stat.map(|stat| Metadata::new(&stat)).map_err(|e| FsError::new("look at", path, e))
    }

    /// Creates a symbolic link at `path` with the text `target`, which is not looked at, and gives it to `owner`.
    pub fn symlink<P: RelativePath + ?Sized>(
        &self,
        target: &[u8],
        path: &P,
        owner: Option<Owner>,
    ) -> Result<(), FsError> {
        let path = validate(path.relative_bytes())?;
        let (parent, name) = self.parent_of(path)?;
        make_link(parent.as_fd(), name, target, owner).map_err(|e| FsError::new("create link", path, e))
    }

    /// The text of the link at `path`.
    pub fn read_link<P: RelativePath + ?Sized>(&self, path: &P) -> Result<Vec<u8>, FsError> {
        let path = validate(path.relative_bytes())?;
        let (parent, name) = self.parent_of(path)?;
        rustix::fs::readlinkat(&parent, name, Vec::new())
            .map(std::ffi::CString::into_bytes)
            .map_err(|e| FsError::new("read link", path, e))
    }

    /// The names in the folder at `path`, sorted by bytes.
    pub fn list<P: RelativePath + ?Sized>(&self, path: &P) -> Result<Vec<FileName>, FsError> {
        let dir = self.open_dir(path)?;
        let entries = sys::list(dir.as_fd()).map_err(|e| FsError::new("list", path.relative_bytes(), e))?;
        let mut names: Vec<_> = entries.into_iter().map(|entry| FileName::from_bytes(entry.name)).collect();
        names.sort();
        Ok(names)
    }

    /// Removes the file or link at `path`; a folder is an error (see [`remove_tree`](crate::remove_tree)).
    pub fn remove_file<P: RelativePath + ?Sized>(&self, path: &P) -> Result<(), FsError> {
        let path = validate(path.relative_bytes())?;
        let (parent, name) = self.parent_of(path)?;
        rustix::fs::unlinkat(&parent, name, AtFlags::empty()).map_err(|e| FsError::new("remove", path, e))
    }

    /// Renames `from` to `to` in `target`, on the same file system; what is at `to` is an error.
    pub fn rename<P, Q>(&self, from: &P, target: &Self, to: &Q) -> Result<(), FsError>
    where
        P: RelativePath + ?Sized,
        Q: RelativePath + ?Sized,
    {
        let (from, to) = (validate(from.relative_bytes())?, validate(to.relative_bytes())?);
        let (from_parent, from_name) = self.parent_of(from)?;
        let (to_parent, to_name) = target.parent_of(to)?;
        rename(from_parent.as_fd(), from_name, to_parent.as_fd(), to_name, RenameFlags::NOREPLACE)
            .map_err(|e| rename_error("rename to", to, e))
    }

    /// Sets the permission bits and the owner of this folder itself.
    pub fn set_mode_and_owner(&self, mode: u32, owner: Option<Owner>) -> Result<(), FsError> {
        owner
            .map_or(Ok(()), |owner| owner.give(self.fd.as_fd()))
            .and_then(|()| rustix::fs::fchmod(&self.fd, Mode::from_raw_mode(mode & 0o7777)))
            .map_err(|e| FsError::new("change the mode or owner of", b".", e))
    }
}

/// Renames, where the file system knows `flags` or not.
pub(crate) fn rename(
    from_dir: BorrowedFd<'_>,
    from: &[u8],
    to_dir: BorrowedFd<'_>,
    to: &[u8],
    flags: RenameFlags,
) -> Result<(), Errno> {
    match rustix::fs::renameat_with(from_dir, from, to_dir, to, flags) {
        // The file system does not know the flag: check first. A race can then only replace an empty folder or a file.
        Err(Errno::INVAL | Errno::NOSYS) if flags == RenameFlags::NOREPLACE => match sys::stat_at(to_dir, to)
        {
            Ok(_) => Err(Errno::EXIST),
            Err(Errno::NOENT) => rustix::fs::renameat(from_dir, from, to_dir, to),
            Err(errno) => Err(errno),
        },
        answer => answer,
    }
}

pub(crate) fn rename_error(operation: &'static str, path: &[u8], errno: Errno) -> FsError {
    match errno {
        Errno::XDEV => FsError::CrossDevice { path: show(path) },
        Errno::ISDIR | Errno::NOTEMPTY => FsError::Exists { path: show(path) },
        other => FsError::new(operation, path, other),
    }
}

pub(crate) fn make_link(
    dir: BorrowedFd<'_>,
    name: &[u8],
    target: &[u8],
    owner: Option<Owner>,
) -> Result<(), Errno> {
    rustix::fs::symlinkat(target, dir, name)?;
    let Some(owner) = owner else { return Ok(()) };
    let (uid, gid) = (Uid::from_raw(owner.uid), Gid::from_raw(owner.gid));
    rustix::fs::chownat(dir, name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)
}

/// An open descriptor as a file, if it is a regular one.
pub(crate) fn regular(fd: OwnedFd, path: &[u8]) -> Result<(File, Metadata), FsError> {
    let stat = sys::stat_fd(fd.as_fd()).map_err(|e| FsError::new("look at", path, e))?;
    match sys::file_type(&stat) {
        FileType::RegularFile => Ok((File::from(fd), Metadata::new(&stat))),
        kind => Err(FsError::NotRegular { path: show(path), kind: sys::kind_name(kind) }),
    }
}

fn fill(
    mut file: File,
    path: &[u8],
    content: &mut dyn Read,
    options: &WriteOptions<'_>,
) -> Result<u64, FsError> {
    let mut buffer = vec![0_u8; 64 << 10];
    let mut total = 0_u64;
    loop {
        let count = match content.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(error) => {
                return Err(FsError::Io {
                    operation: "read the content of",
                    path: show(path),
                    source: error,
                });
            }
        };
        total += count as u64;
        if total > options.max_bytes {
            return Err(FsError::TooLarge { path: show(path), limit: options.max_bytes });
        }
        file.write_all(&buffer[..count]).map_err(|e| FsError::from_io("write", path, e))?;
    }
    // The owner first: changing it clears the special mode bits.
    options
        .owner
        .map_or(Ok(()), |owner| owner.give(file.as_fd()))
        .and_then(|()| rustix::fs::fchmod(&file, Mode::from_raw_mode(options.mode & 0o7777)))
        .map_err(|e| FsError::new("set the mode of", path, e))?;
    Ok(total)
}
