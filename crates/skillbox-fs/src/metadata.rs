//! What the kernel says about a file.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::{FileType, Statx, StatxFlags, StatxTimestamp};

use crate::sys;

/// The kind of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FileKind {
    /// A regular file.
    Regular,
    /// A folder.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A FIFO, socket, device, or anything else.
    Other,
}

/// A moment as the file system records it: nanoseconds since 1970, negative before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileTime {
    /// Nanoseconds since 1970-01-01 00:00 UTC.
    pub unix_nanos: i128,
}

impl FileTime {
    pub(crate) fn new(time: &StatxTimestamp) -> Self {
        Self { unix_nanos: i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec) }
    }

    /// As the standard library's time; moments before 1970 become 1970.
    pub fn to_system_time(self) -> SystemTime {
        UNIX_EPOCH + Duration::from_nanos(u64::try_from(self.unix_nanos).unwrap_or(0))
    }
}

/// What `statx(2)` says about a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metadata {
    /// The kind.
    pub kind: FileKind,
    /// Permission bits, including set-user-id and the like.
    pub mode: u32,
    /// Bytes.
    pub size: u64,
    /// 512-byte blocks in use; less than `size` for a sparse file.
    pub blocks: u64,
    /// Number of names (hard links).
    pub links: u32,
    /// Inode number.
    pub inode: u64,
    /// Major and minor number of the device.
    pub device: (u32, u32),
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// When the content was last written; scripts can set it to anything.
    pub modified: FileTime,
    /// When the content or an attribute last changed; only the kernel sets it.
    pub changed: FileTime,
    /// When the file was made, where the file system records it.
    pub born: Option<FileTime>,
}

impl Metadata {
    pub(crate) fn new(stat: &Statx) -> Self {
        let born = (stat.stx_mask & StatxFlags::BTIME.bits() != 0).then(|| FileTime::new(&stat.stx_btime));
        Self {
            kind: match sys::file_type(stat) {
                FileType::RegularFile => FileKind::Regular,
                FileType::Directory => FileKind::Directory,
                FileType::Symlink => FileKind::Symlink,
                _ => FileKind::Other,
            },
            mode: u32::from(stat.stx_mode) & 0o7777,
            size: stat.stx_size,
            blocks: stat.stx_blocks,
            links: stat.stx_nlink,
            inode: stat.stx_ino,
            device: (stat.stx_dev_major, stat.stx_dev_minor),
            uid: stat.stx_uid,
            gid: stat.stx_gid,
            modified: FileTime::new(&stat.stx_mtime),
            changed: FileTime::new(&stat.stx_ctime),
            born,
        }
    }
}
