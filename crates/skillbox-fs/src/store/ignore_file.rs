//! `.skillignore`: what an author keeps out of the shipped skill, in the gitignore dialect.

use std::ffi::OsStr;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use ignore::gitignore::{Gitignore, GitignoreBuilder};
use rustix::fs::Mode;
use rustix::io::Errno;

use crate::error::FsError;
use crate::sys;

/// Largest ignore file.
const MAX_BYTES: u64 = 1 << 20;

/// The rules of a skill's ignore file.
pub(super) struct IgnoreFile {
    rules: Option<Gitignore>,
}

impl IgnoreFile {
    pub(super) const NAME: &'static str = ".skillignore";

    pub(super) fn none() -> Self {
        Self { rules: None }
    }

    /// Reads the ignore file of a skill's folder; also answers its faulty lines.
    pub(super) fn read(root: BorrowedFd<'_>) -> Result<(Self, Vec<String>), FsError> {
        let name = Self::NAME.as_bytes();
        let fd = match rustix::fs::openat(root, name, sys::READ_FLAGS, Mode::empty()) {
            Ok(fd) => fd,
            // A link is no ignore file; it is reported like any other link.
            Err(Errno::NOENT | Errno::LOOP | Errno::NXIO) => return Ok((Self::none(), Vec::new())),
            Err(errno) => return Err(FsError::new("read", name, errno)),
        };
        let Ok((file, _)) = crate::confined::regular(fd, name) else { return Ok((Self::none(), Vec::new())) };
        let mut content = Vec::new();
        std::io::Read::read_to_end(&mut std::io::Read::take(file, MAX_BYTES + 1), &mut content)
            .map_err(|e| FsError::from_io("read", name, e))?;
        if content.len() as u64 > MAX_BYTES {
            return Err(FsError::TooLarge { path: Self::NAME.to_owned(), limit: MAX_BYTES });
        }
        let mut faults = Vec::new();
        let mut builder = GitignoreBuilder::new("");
        for (index, line) in
            String::from_utf8_lossy(&content).trim_start_matches('\u{feff}').lines().enumerate()
        {
            if let Err(error) = builder.add_line(None, line) {
                faults.push(format!(".skillignore line {}: {error}", index + 1));
            }
        }
        let rules = match builder.build() {
            Ok(rules) => Some(rules),
            Err(error) => {
                faults.push(format!(".skillignore was not used: {error}"));
                None
            }
        };
        Ok((Self { rules }, faults))
    }

    /// Whether the entry at `path` is left out; what lies below a folder that is left out is not asked about.
    pub(super) fn excludes(&self, path: &[u8], is_folder: bool) -> bool {
        let path = Path::new(OsStr::from_bytes(path));
        self.rules.as_ref().is_some_and(|rules| rules.matched(path, is_folder).is_ignore())
    }
}
