//! Thin wrappers over the system calls that several modules share.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir, ResolveFlags, Statx, StatxFlags};
use rustix::io::Errno;

/// Flags of every resolution inside a confined directory.
pub(crate) const CONFINED: ResolveFlags =
    ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS).union(ResolveFlags::NO_MAGICLINKS);

/// Flags to open a folder for listing.
pub(crate) const DIR_FLAGS: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::CLOEXEC)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK);

/// Flags to open a file for reading without ever blocking or following.
pub(crate) const READ_FLAGS: OFlags = OFlags::RDONLY
    .union(OFlags::CLOEXEC)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY);

/// Flags to create a file that does not exist.
pub(crate) const CREATE_FLAGS: OFlags =
    OFlags::WRONLY.union(OFlags::CREATE).union(OFlags::EXCL).union(OFlags::CLOEXEC).union(OFlags::NOFOLLOW);

/// A folder's own permission to list, enter and change it.
pub(crate) const OWNER_RWX: Mode = Mode::RWXU;

/// Opens a folder of the host by its path; links in it are the operator's and are followed.
pub(crate) fn open_host_dir(path: &Path) -> Result<OwnedFd, Errno> {
    rustix::fs::open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

/// Opens `path` beneath `dir` without following any link; an empty path is the directory itself.
///
/// Where `openat2` is missing (Linux before 5.6), forbidden (old container filters answer EPERM), or the path is longer
/// than the kernel takes at once, the path is walked component by component with `O_NOFOLLOW`, to the same effect.
pub(crate) fn open_beneath(
    dir: BorrowedFd<'_>,
    path: &[u8],
    flags: OFlags,
    mode: Mode,
    extra: ResolveFlags,
) -> Result<OwnedFd, Errno> {
    let text: &[u8] = if path.is_empty() { b"." } else { path };
    // A rename or mount elsewhere makes the kernel give up a confined resolution with EAGAIN; it asks to try again.
    for _ in 0..64 {
        match rustix::fs::openat2(dir, text, flags, mode, CONFINED | extra) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(Errno::NOSYS | Errno::NAMETOOLONG) => return open_by_component(dir, text, flags, mode),
            Err(Errno::PERM) if openat2_is_forbidden(dir) => {
                return open_by_component(dir, text, flags, mode);
            }
            answer => return answer,
        }
    }
    open_by_component(dir, text, flags, mode)
}

/// A harmless `openat2` that succeeds wherever the call is allowed at all.
fn openat2_is_forbidden(dir: BorrowedFd<'_>) -> bool {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    matches!(rustix::fs::openat2(dir, c".", flags, Mode::empty(), CONFINED), Err(Errno::PERM))
}

fn open_by_component(dir: BorrowedFd<'_>, path: &[u8], flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
    let (parents, last) = match path.iter().rposition(|b| *b == b'/') {
        Some(slash) => (&path[..slash], &path[slash + 1..]),
        None => (&path[..0], path),
    };
    let step = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let mut current: Option<OwnedFd> = None;
    for part in parents.split(|b| *b == b'/').filter(|part| !part.is_empty()) {
        let at = current.as_ref().map_or(dir, |fd| fd.as_fd());
        current = Some(rustix::fs::openat(at, part, step, Mode::empty())?);
    }
    let at = current.as_ref().map_or(dir, |fd| fd.as_fd());
    rustix::fs::openat(at, last, flags | OFlags::NOFOLLOW, mode)
}

/// What the walkers and the fingerprints need to know of a file.
pub(crate) const STAT_MASK: StatxFlags = StatxFlags::BASIC_STATS.union(StatxFlags::BTIME);

/// `statx` of `name` in `dir`, never following a final link.
pub(crate) fn stat_at(dir: BorrowedFd<'_>, name: &[u8]) -> Result<Statx, Errno> {
    rustix::fs::statx(dir, name, AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT, STAT_MASK)
}

/// `statx` of an open file.
pub(crate) fn stat_fd(fd: BorrowedFd<'_>) -> Result<Statx, Errno> {
    rustix::fs::statx(fd, c"", AtFlags::EMPTY_PATH, STAT_MASK)
}

/// The kind of file that `stat` describes.
pub(crate) fn file_type(stat: &Statx) -> FileType {
    FileType::from_raw_mode(stat.stx_mode.into())
}

/// The kind as a word for messages.
pub(crate) fn kind_name(kind: FileType) -> &'static str {
    match kind {
        FileType::RegularFile => "regular file",
        FileType::Directory => "folder",
        FileType::Symlink => "symbolic link",
        FileType::Fifo => "FIFO",
        FileType::Socket => "socket",
        FileType::CharacterDevice | FileType::BlockDevice => "device",
        FileType::Unknown => "file of unknown kind",
    }
}

/// An entry of a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DirEntry {
    pub(crate) name: Vec<u8>,
    /// `Unknown` where the file system does not say.
    pub(crate) kind: FileType,
}

/// Calls `visit` for every entry of `dir` except `.` and `..`, in the kernel's order, until it answers `false`.
pub(crate) fn for_each_entry(
    dir: BorrowedFd<'_>,
    mut visit: impl FnMut(&[u8], FileType) -> bool,
) -> Result<(), Errno> {
    // Small enough for the stack; one call reads about 200 entries.
    let mut buffer = [MaybeUninit::<u8>::uninit(); 8192];
    let mut entries = RawDir::new(dir, &mut buffer);
    while let Some(entry) = entries.next() {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." && !visit(name, entry.file_type()) {
            break;
        }
    }
    Ok(())
}

/// The entries of `dir`, unsorted; kinds that the file system leaves open are asked for.
pub(crate) fn list(dir: BorrowedFd<'_>) -> Result<Vec<DirEntry>, Errno> {
    let mut entries = Vec::new();
    for_each_entry(dir, |name, kind| {
        entries.push(DirEntry { name: name.to_vec(), kind });
        true
    })?;
    for entry in &mut entries {
        if entry.kind == FileType::Unknown
            && let Ok(stat) = stat_at(dir, &entry.name)
        {
            entry.kind = file_type(&stat);
        }
    }
    Ok(entries)
}

/// A name that no other thread or process uses at the same time.
pub(crate) fn unique_name(prefix: &str) -> String {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    let count = COUNTER.fetch_add(1, Ordering::Relaxed);
    // The clock tells apart processes that share a number in different namespaces.
    let nanos = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |elapsed| elapsed.as_nanos() & 0xffff_ffff_ffff);
    format!("{prefix}{:x}-{count:x}-{nanos:x}", std::process::id())
}

/// The bytes of a host path.
pub(crate) fn path_bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_bytes()
}
