//! Removal of whole trees, whatever a script made of them.
//!
//! Iterative, with three descriptors however deep the tree is: going up is opening `..`, checked against the inode that the
//! walk came from. Nothing is renamed or written, so a full disk does not matter. Links are removed, never followed. Mounts
//! are not entered, bind mounts of the same file system included. Folders without permissions get them back first.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use crate::confined::validate;
use crate::error::{FsError, show};
use crate::sys;

/// Subfolders remembered per level before they are handled; bounds the memory for a hostile folder.
const BATCH: usize = 4096;
/// How often a folder that others fill meanwhile is read again.
const RETRIES: u32 = 16;

/// What [`remove_tree`] removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RemoveReport {
    /// Files, links and everything else that is not a folder.
    pub files: u64,
    /// Folders.
    pub folders: u64,
}

struct Level {
    /// Name of this folder in the one above.
    name: Vec<u8>,
    device: (u32, u32),
    inode: u64,
    /// Subfolders still to be removed.
    pending: Vec<Vec<u8>>,
    /// Whether there may be more subfolders than the pending ones.
    truncated: bool,
    /// What was removed before this pass.
    before: RemoveReport,
    retries: u32,
}

/// Removes the file, link or folder `name` of the folder `parent`, with everything below it; nothing there is not an error.
///
/// What cannot be removed (a mount, another user's folder) is left, the rest is removed all the same, and the first such
/// error is returned.
///
/// ```
/// use std::os::fd::AsFd;
/// use skillbox_fs::{ConfinedDir, remove_tree};
/// let temporary = tempfile::tempdir()?;
/// let dir = ConfinedDir::open(temporary.path())?;
/// dir.create_dir_all("a/b/c", 0o500, None)?;
/// assert_eq!(remove_tree(dir.as_fd(), b"a")?.folders, 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn remove_tree(parent: BorrowedFd<'_>, name: &[u8]) -> Result<RemoveReport, FsError> {
    if name.is_empty() || validate(name)?.contains(&b'/') {
        return Err(FsError::InvalidPath { path: show(name), reason: "it is not a single file name" });
    }
    let mut report = RemoveReport::default();
    match rustix::fs::unlinkat(parent, name, AtFlags::empty()) {
        Ok(()) => {
            report.files = 1;
            return Ok(report);
        }
        Err(Errno::NOENT) => return Ok(report),
        // EISDIR on Linux; EPERM by POSIX.
        Err(Errno::ISDIR | Errno::PERM) => {}
        Err(errno) => return Err(FsError::new("remove", name, errno)),
    }
    let mut walk = Walk { parent, levels: Vec::new(), current: None, report, first_error: None };
    walk.enter(name.to_vec(), 0);
    while !walk.levels.is_empty() {
        walk.step()?;
    }
    match walk.first_error {
        Some(error) => Err(error),
        None => Ok(walk.report),
    }
}

struct Walk<'fd> {
    parent: BorrowedFd<'fd>,
    levels: Vec<Level>,
    /// The folder of the last level; the caller's where there is none.
    current: Option<OwnedFd>,
    report: RemoveReport,
    first_error: Option<FsError>,
}

impl Walk<'_> {
    fn here(&self) -> BorrowedFd<'_> {
        self.current.as_ref().map_or(self.parent, |fd| fd.as_fd())
    }

    fn path_to(&self, name: &[u8]) -> Vec<u8> {
        let mut path = Vec::new();
        for level in &self.levels {
            path.extend_from_slice(&level.name);
            path.push(b'/');
            if path.len() > 4096 {
                path.extend_from_slice(b".../");
                break;
            }
        }
        path.extend_from_slice(name);
        path
    }

    fn fail(&mut self, operation: &'static str, name: &[u8], errno: Errno) {
        if self.first_error.is_none() {
            self.first_error = Some(FsError::new(operation, &self.path_to(name), errno));
        }
    }

    /// Opens the subfolder `name`, empties it of files and notes its subfolders.
    fn enter(&mut self, name: Vec<u8>, retries: u32) {
        let opened = open_for_removal(self.here(), &name).and_then(|fd| {
            let stat = sys::stat_fd(fd.as_fd())?;
            Ok((fd, stat))
        });
        match opened {
            Ok((fd, stat)) => {
                self.current = Some(fd);
                self.levels.push(Level {
                    name,
                    device: (stat.stx_dev_major, stat.stx_dev_minor),
                    inode: stat.stx_ino,
                    pending: Vec::new(),
                    truncated: false,
                    before: self.report,
                    retries,
                });
                self.read();
            }
            Err(Errno::NOENT) => {}
            // A mount that is not entered.
            Err(Errno::XDEV) => self.fail("remove the mount point", &name, Errno::BUSY),
            Err(errno) => self.fail("open for removal", &name, errno),
        }
    }

    /// Removes the files of the current folder and collects its subfolders.
    fn read(&mut self) {
        let mut folders = Vec::new();
        let mut files = 0;
        let mut failed = None;
        let dir = self.here();
        let read = sys::for_each_entry(dir, |name, kind| {
            let unlinked = if kind == FileType::Directory {
                Err(Errno::ISDIR)
            } else {
                rustix::fs::unlinkat(dir, name, AtFlags::empty())
            };
            match unlinked {
                Ok(()) => files += 1,
                Err(Errno::NOENT) => {}
                Err(Errno::ISDIR) => folders.push(name.to_vec()),
                Err(errno) => {
                    failed.get_or_insert((name.to_vec(), errno));
                }
            }
            folders.len() < BATCH
        });
        self.report.files += files;
        if let Some((name, errno)) = failed {
            self.fail("remove", &name, errno);
        }
        if let Err(errno) = read {
            self.fail("list", b"", errno);
        }
        if let Some(level) = self.levels.last_mut() {
            level.truncated = folders.len() >= BATCH;
            level.pending = folders;
        }
    }

    /// Descends into the next subfolder, or removes the current folder where none is left.
    fn step(&mut self) -> Result<(), FsError> {
        let Some(level) = self.levels.last_mut() else { return Ok(()) };
        if let Some(next) = level.pending.pop() {
            self.enter(next, 0);
            return Ok(());
        }
        self.leave()
    }

    fn leave(&mut self) -> Result<(), FsError> {
        let Some(level) = self.levels.pop() else { return Ok(()) };
        let above = match self.levels.last() {
            None => None,
            Some(up) => {
                let path = || self.path_to(&level.name);
                let fd = rustix::fs::openat(self.here(), c"..", sys::DIR_FLAGS, Mode::empty())
                    .map_err(|e| FsError::new("go up from", &path(), e))?;
                let stat = sys::stat_fd(fd.as_fd()).map_err(|e| FsError::new("go up from", &path(), e))?;
                if (stat.stx_dev_major, stat.stx_dev_minor) != up.device || stat.stx_ino != up.inode {
                    // Somebody moved the folder during the walk. Going on could remove files elsewhere.
                    return Err(FsError::Io {
                        operation: "remove",
                        path: show(&path()),
                        source: std::io::Error::other(
                            "a folder was moved during the removal; stop its users and try again",
                        ),
                    });
                }
                Some(fd)
            }
        };
        let inside = std::mem::replace(&mut self.current, above);
        match rustix::fs::unlinkat(self.here(), level.name.as_slice(), AtFlags::REMOVEDIR) {
            Ok(()) => self.report.folders += 1,
            Err(Errno::NOENT) => {}
            // More than one batch of subfolders, or somebody still creates files. A pass that removed nothing is the last.
            Err(Errno::NOTEMPTY | Errno::EXIST) if self.report != level.before && level.retries < RETRIES => {
                drop(inside);
                let retries = if level.truncated { level.retries } else { level.retries + 1 };
                self.enter(level.name, retries);
            }
            Err(errno) => self.fail("remove", &level.name, errno),
        }
        Ok(())
    }
}

/// Opens a folder for listing and makes sure that its owner may list and change it.
fn open_for_removal(dir: BorrowedFd<'_>, name: &[u8]) -> Result<OwnedFd, Errno> {
    let open = || sys::open_beneath(dir, name, sys::DIR_FLAGS, Mode::empty(), ResolveFlags::NO_XDEV);
    let fd = match open() {
        Err(Errno::ACCESS) => {
            unlock(dir, name)?;
            open()?
        }
        answer => answer?,
    };
    let stat = sys::stat_fd(fd.as_fd())?;
    if u32::from(stat.stx_mode) & 0o700 != 0o700 {
        // Not the owner's to give: then the removal itself reports it, or root does not need it.
        let _ = rustix::fs::fchmod(&fd, Mode::from_raw_mode(u32::from(stat.stx_mode) & 0o777 | 0o700));
    }
    Ok(fd)
}

/// Gives the owner permissions on a folder that cannot be opened yet. By the magic link of an `O_PATH` descriptor: a
/// `chmod` by name would follow a link that is put in the folder's place.
fn unlock(dir: BorrowedFd<'_>, name: &[u8]) -> Result<(), Errno> {
    use std::os::fd::AsRawFd as _;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let fd = sys::open_beneath(dir, name, flags, Mode::empty(), ResolveFlags::NO_XDEV)?;
    rustix::fs::chmod(format!("/proc/self/fd/{}", fd.as_raw_fd()), sys::OWNER_RWX)
}
