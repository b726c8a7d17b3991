//! Reading from the file system: the only module here that does.
#![allow(
    clippy::disallowed_methods,
    reason = "reads skills where they lie, before any store or workspace exists"
)]

use std::ffi::{CStr, OsStr};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir, ResolveFlags, Stat, StatxFlags};
use rustix::io::Errno;

/// What tells whether a file is still the one that was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Identity {
    pub(crate) dev: u64,
    pub(crate) ino: u64,
    size: u64,
    mtime: (i64, u32),
    ctime: (i64, u32),
}

impl Identity {
    /// Whether the file changed so close to `now` (seconds) that the clock's grain could hide a further change.
    pub(crate) fn is_racy(&self, now: i64) -> bool {
        const GRAIN_SECONDS: i64 = 2;
        self.mtime.0.max(self.ctime.0) + GRAIN_SECONDS >= now
    }
}

/// A regular file, opened.
#[derive(Debug)]
pub(crate) struct File {
    fd: OwnedFd,
    pub(crate) identity: Identity,
}

/// Why a file of a skill was not opened or read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OpenError {
    #[error("SKILL.md is not a regular file; put a text file in its place")]
    NotAFile,
    #[error("SKILL.md is a link that leads out of the skill's folder; put the file itself in its place")]
    LeadsOut,
    #[error(
        "SKILL.md is a link, and this system cannot follow links within a folder (openat2); put the file itself in its place"
    )]
    NoLinks,
    #[error("SKILL.md cannot be read: {0}")]
    Io(#[from] io::Error),
}

/// Reading, neither waiting for the other end of a pipe nor being given a terminal.
const READ: OFlags = OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

/// Opens `path` under `dir` for reading when it is a regular file; `None` when there is nothing of that name, or the
/// way there is no folder.
///
/// The folder that holds the file may be reached through links. The file itself may be a link only where that stays in
/// its folder: what the author of a skill made must not show other files to whoever lists it.
pub(crate) fn open_file(dir: impl AsFd, path: &CStr) -> Result<Option<File>, OpenError> {
    // Nearly always a plain file, for which one call is enough.
    let mut opened = rustix::fs::openat(&dir, path, READ | OFlags::NOFOLLOW, Mode::empty());
    if matches!(opened, Err(Errno::LOOP)) {
        opened = open_link(dir, path);
    }
    let fd = match opened {
        Ok(fd) => fd,
        Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
        Err(Errno::XDEV) => return Err(OpenError::LeadsOut),
        Err(Errno::NOSYS) => return Err(OpenError::NoLinks),
        // A socket, or a device without a driver.
        Err(Errno::NXIO) => return Err(OpenError::NotAFile),
        Err(error) => return Err(OpenError::Io(error.into())),
    };
    let stat = rustix::fs::fstat(&fd).map_err(io::Error::from)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(OpenError::NotAFile);
    }
    Ok(Some(File { fd, identity: identity_of_stat(&stat) }))
}

/// Follows the link `path` as long as it stays in the folder where it lies, else `XDEV`; `NOSYS` where that cannot be
/// told: before Linux 5.6, and under filters that forbid the call. See openat2(2).
fn open_link(dir: impl AsFd, path: &CStr) -> Result<OwnedFd, Errno> {
    /// The kernel answers "again" where a rename anywhere made it unsure about a `..`.
    const ATTEMPTS: usize = 64;
    let path = path.to_bytes();
    let (parent, name) = match path.iter().rposition(|byte| *byte == b'/') {
        Some(slash) => (&path[..=slash], &path[slash + 1..]),
        None => (&b"."[..], path),
    };
    let parent =
        rustix::fs::openat(dir, parent, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let confined = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    for _ in 0..ATTEMPTS {
        match rustix::fs::openat2(&parent, name, READ, Mode::empty(), confined) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(Errno::PERM) => return Err(Errno::NOSYS),
            other => return other,
        }
    }
    Err(Errno::AGAIN)
}

impl File {
    pub(crate) fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match rustix::io::read(&self.fd, &mut *buffer) {
                Err(Errno::INTR) => {}
                outcome => return Ok(outcome?),
            }
        }
    }

    pub(crate) fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        loop {
            match rustix::io::pread(&self.fd, &mut *buffer, offset) {
                Err(Errno::INTR) => {}
                outcome => return Ok(outcome?),
            }
        }
    }

    /// Everything from `offset` on, at most `limit` bytes.
    pub(crate) fn read_from(&self, mut offset: u64, limit: usize) -> io::Result<Vec<u8>> {
        let size =
            usize::try_from(self.identity.size.saturating_sub(offset)).unwrap_or(usize::MAX).min(limit);
        let mut bytes = vec![0; size];
        let mut filled = 0;
        while filled < bytes.len() {
            match self.read_at(&mut bytes[filled..], offset)? {
                0 => break,
                count => {
                    filled += count;
                    offset += count as u64;
                }
            }
        }
        bytes.truncate(filled);
        Ok(bytes)
    }
}

#[allow(
    clippy::useless_conversion,
    clippy::cast_sign_loss,
    clippy::cast_possible_truncation,
    clippy::unnecessary_cast,
    reason = "the widths of these fields differ between architectures; nanoseconds and sizes are never negative"
)]
fn identity_of_stat(stat: &Stat) -> Identity {
    Identity {
        dev: stat.st_dev as u64,
        ino: stat.st_ino as u64,
        size: stat.st_size as u64,
        mtime: (stat.st_mtime as i64, stat.st_mtime_nsec as u32),
        ctime: (stat.st_ctime as i64, stat.st_ctime_nsec as u32),
    }
}

/// The identity of the regular file `path` under `dir`; `None` for anything else, also for a link to a file.
pub(crate) fn identity(dir: impl AsFd, path: &CStr) -> Option<Identity> {
    let wanted =
        StatxFlags::TYPE | StatxFlags::INO | StatxFlags::SIZE | StatxFlags::MTIME | StatxFlags::CTIME;
    if let Ok(stat) = rustix::fs::statx(&dir, path, AtFlags::SYMLINK_NOFOLLOW, wanted) {
        let file = FileType::from_raw_mode(stat.stx_mode.into()) == FileType::RegularFile;
        return file.then(|| Identity {
            dev: rustix::fs::makedev(stat.stx_dev_major, stat.stx_dev_minor),
            ino: stat.stx_ino,
            size: stat.stx_size,
            mtime: (stat.stx_mtime.tv_sec, stat.stx_mtime.tv_nsec),
            ctime: (stat.stx_ctime.tv_sec, stat.stx_ctime.tv_nsec),
        });
    }
    let stat = rustix::fs::statat(dir, path, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    let file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    file.then(|| identity_of_stat(&stat))
}

/// Device and inode of an open folder or of a path.
pub(crate) type NodeId = (u64, u64);

/// An open folder.
#[derive(Debug)]
pub(crate) struct Dir {
    pub(crate) fd: OwnedFd,
    pub(crate) id: NodeId,
    pub(crate) identity: Identity,
}

/// Opens a folder; links are followed.
pub(crate) fn open_dir(dir: impl AsFd, path: impl rustix::path::Arg) -> io::Result<Dir> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let fd = rustix::fs::openat(dir, path, flags, Mode::empty())?;
    let stat = rustix::fs::fstat(&fd)?;
    let identity = identity_of_stat(&stat);
    Ok(Dir { fd, id: (identity.dev, identity.ino), identity })
}

/// Opens the folder of a root.
pub(crate) fn open_root(path: &Path) -> io::Result<Dir> {
    open_dir(rustix::fs::CWD, path)
}

/// What an entry of a folder is, without following links.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Dir,
    Link,
    Other,
}

/// An entry of a [`Listing`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry {
    start: usize,
    name_length: usize,
    pub(crate) kind: Kind,
    pub(crate) ino: u64,
}

const SUFFIX: &[u8] = b"/SKILL.md\0";

/// What a search needs to know of a folder.
#[derive(Debug)]
pub(crate) struct Listing {
    /// Its folders and links, sorted by name.
    pub(crate) entries: Vec<Entry>,
    /// For each entry its name, `/SKILL.md` and a NUL: one allocation for all names and paths.
    names: Vec<u8>,
    /// A file that is SKILL.md but for upper and lower case.
    pub(crate) misspelt: Option<Vec<u8>>,
}

impl Listing {
    pub(crate) fn name(&self, entry: &Entry) -> &OsStr {
        OsStr::from_bytes(&self.names[entry.start..entry.start + entry.name_length])
    }

    /// `<name>/SKILL.md`
    pub(crate) fn skill_md(&self, entry: &Entry) -> &CStr {
        let path = &self.names[entry.start..entry.start + entry.name_length + SUFFIX.len()];
        CStr::from_bytes_with_nul(path).unwrap_or(c"")
    }
}

/// Lists `dir`. Plain files are of no interest here, and `.git` and `node_modules` hold no skills.
pub(crate) fn list(dir: &Dir) -> io::Result<Listing> {
    let mut entries = Vec::new();
    let mut names = Vec::new();
    let mut misspelt = None;
    let mut buffer = vec![MaybeUninit::uninit(); 64 * 1024];
    let mut raw = RawDir::new(&dir.fd, &mut buffer);
    while let Some(entry) = raw.next() {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if matches!(name, b"." | b".." | b".git" | b"node_modules") {
            continue;
        }
        let kind = match entry.file_type() {
            FileType::Directory => Kind::Dir,
            FileType::Symlink => Kind::Link,
            FileType::Unknown => kind_of(dir, entry.file_name()),
            _ => Kind::Other,
        };
        if kind != Kind::Other {
            entries.push(Entry { start: names.len(), name_length: name.len(), kind, ino: entry.ino() });
            names.extend_from_slice(name);
            names.extend_from_slice(SUFFIX);
        } else if name.eq_ignore_ascii_case(b"skill.md") && name != b"SKILL.md" {
            misspelt = Some(name.to_vec());
        }
    }
    let mut listing = Listing { entries: Vec::new(), names, misspelt };
    entries.sort_unstable_by(|a, b| listing.name(a).cmp(listing.name(b)));
    listing.entries = entries;
    Ok(listing)
}

fn kind_of(dir: &Dir, name: &CStr) -> Kind {
    match rustix::fs::statat(&dir.fd, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => Kind::Dir,
            FileType::Symlink => Kind::Link,
            _ => Kind::Other,
        },
        Err(_) => Kind::Other,
    }
}

/// Where a link leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    Dir(NodeId),
    NotADir,
    Nowhere,
}

pub(crate) fn link_target(dir: &Dir, name: &OsStr) -> Target {
    match rustix::fs::statat(&dir.fd, name, AtFlags::empty()) {
        Ok(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::Directory => {
            let identity = identity_of_stat(&stat);
            Target::Dir((identity.dev, identity.ino))
        }
        Ok(_) => Target::NotADir,
        Err(_) => Target::Nowhere,
    }
}

/// The kind of a path given by a caller, links followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PathKind {
    Dir,
    File,
    Absent,
}

pub(crate) fn path_kind(path: &Path) -> PathKind {
    match rustix::fs::statat(rustix::fs::CWD, path, AtFlags::empty()) {
        Ok(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::Directory => PathKind::Dir,
        Ok(_) => PathKind::File,
        Err(_) => PathKind::Absent,
    }
}

/// Whether there is a link at the path, wherever it leads.
pub(crate) fn is_link(path: &Path) -> bool {
    rustix::fs::statat(rustix::fs::CWD, path, AtFlags::SYMLINK_NOFOLLOW)
        .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Symlink)
}

/// Whether two paths lead to one folder.
pub(crate) fn same_dir(one: &Path, other: &Path) -> bool {
    let id = |path| open_root(path).map(|dir| dir.id).ok();
    id(one).is_some_and(|one| Some(one) == id(other))
}

/// The absolute path without links; the path itself where that cannot be found out.
pub(crate) fn resolve(path: &Path) -> PathBuf {
    std::fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf())
}

/// Seconds since 1970.
pub(crate) fn now_seconds() -> i64 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |elapsed| i64::try_from(elapsed.as_secs()).unwrap_or(i64::MAX))
}
