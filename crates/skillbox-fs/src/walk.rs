//! The walk that finds output files.

use std::fs::File;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use globset::Candidate;
use rustix::fs::{FileType, Mode, ResolveFlags};
use rustix::io::Errno;
use skillbox_types::FileName;

use crate::error::FsError;
use crate::glob::{Pattern, PatternSet, excluded_by_default};
use crate::metadata::Metadata;
use crate::{confined, sys};

/// Limits of [`collect_walk`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WalkOptions {
    /// The most entries that are looked at.
    pub max_entries: u64,
    /// The deepest nesting that is entered; the walk holds one descriptor per level. At most 512.
    pub max_depth: usize,
    /// Whether other mounts are left out.
    pub one_file_system: bool,
    /// Whether names similar to patterns without a match are looked for.
    pub near_misses: bool,
}

impl Default for WalkOptions {
    fn default() -> Self {
        Self { max_entries: 1_000_000, max_depth: 128, one_file_system: false, near_misses: true }
    }
}

/// A regular file that matches.
#[derive(Debug)]
pub struct Found<'a> {
    /// Path relative to the root of the walk; any bytes.
    pub path: &'a [u8],
    /// Indices of the patterns that match, ascending.
    pub patterns: &'a [usize],
    /// What the kernel says about it.
    pub metadata: Metadata,
    folder: BorrowedFd<'a>,
    name: &'a [u8],
}

impl Found<'_> {
    /// Opens the file for reading, relative to the folder that was walked: neither a link swapped in for the file nor one
    /// for a folder above leads elsewhere. Also answers the metadata of what was opened.
    pub fn open(&self) -> Result<(File, Metadata), FsError> {
        let fd = rustix::fs::openat(self.folder, self.name, sys::READ_FLAGS, Mode::empty())
            .map_err(|e| FsError::new("open", self.path, e))?;
        confined::regular(fd, self.path)
    }
}

/// Why a matching entry was left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SkipReason {
    /// A symbolic link, wherever it leads.
    Symlink,
    /// A FIFO, socket or device.
    Special,
    /// A folder that may not be listed.
    Unreadable,
    /// A folder below [`WalkOptions::max_depth`].
    TooDeep,
    /// A mount, with [`WalkOptions::one_file_system`].
    Mount,
}

/// An entry that matches, or could hold matches, and was left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    /// Path relative to the root of the walk.
    pub path: FileName,
    /// Why.
    pub reason: SkipReason,
}

/// What a walk found, in figures.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WalkReport {
    /// Entries looked at.
    pub visited: u64,
    /// Files that matched.
    pub matched: u64,
    /// Files that matched, by pattern.
    pub per_pattern: Vec<u64>,
    /// The first 100 entries left out.
    pub skipped: Vec<Skipped>,
    /// Entries left out in all.
    pub skipped_total: u64,
    /// For each pattern without a match, up to 3 similar paths.
    pub near_misses: Vec<Vec<FileName>>,
    /// Whether [`WalkOptions::max_entries`] ended the walk before its end.
    pub limit_reached: bool,
}

const MAX_SKIPPED: usize = 100;
const MAX_NEAR: usize = 3;
/// Entries looked at for near misses.
const NEAR_ENTRIES: u64 = 1000;
/// Similarity (Jaro-Winkler) from which a path is worth mentioning.
const NEAR_SCORE: f64 = 0.85;

/// Calls `visit` for each regular file below `root` that a pattern matches, in byte order of the paths, until it breaks.
///
/// No link is followed. Folders in which nothing can match are not entered. A file or folder that vanishes meanwhile is
/// passed over. Errors are those of listing `root` itself; what cannot be entered below is reported as skipped.
///
/// ```
/// use std::ops::ControlFlow;
/// use std::os::fd::AsFd;
/// use skillbox_fs::{ConfinedDir, WalkOptions, WriteOptions, collect_walk, glob::PatternSet};
/// let temporary = tempfile::tempdir()?;
/// let dir = ConfinedDir::open(temporary.path())?;
/// dir.create_dir_all("out", 0o755, None)?;
/// dir.write_file("out/a.csv", &mut &b"1,2"[..], &WriteOptions::default())?;
/// let patterns = PatternSet::parse(["out/*.csv", "*.cvs"])?;
/// let mut names = Vec::new();
/// let report = collect_walk(dir.as_fd(), &patterns, &WalkOptions::default(), &mut |found| {
///     names.push(found.path.to_vec());
///     ControlFlow::Continue(())
/// })?;
/// assert_eq!(names, [b"out/a.csv"]);
/// assert_eq!(report.per_pattern, [1, 0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn collect_walk(
    root: BorrowedFd<'_>,
    patterns: &PatternSet,
    options: &WalkOptions,
    visit: &mut dyn FnMut(&Found<'_>) -> ControlFlow<()>,
) -> Result<WalkReport, FsError> {
    let count = patterns.patterns().len();
    let mut walk = Walk {
        patterns,
        options,
        report: WalkReport {
            per_pattern: vec![0; count],
            near_misses: vec![Vec::new(); count],
            ..WalkReport::default()
        },
        path: Vec::new(),
        matching: Vec::new(),
    };
    if !patterns.is_empty() {
        walk.run(root, visit)?;
    }
    let mut report = walk.report;
    if options.near_misses && report.per_pattern.contains(&0) {
        let candidates = candidates(root);
        for (index, pattern) in patterns.patterns().iter().enumerate() {
            if report.per_pattern[index] == 0 {
                report.near_misses[index] = near_misses(pattern, &candidates);
            }
        }
    }
    Ok(report)
}

struct Walk<'a> {
    patterns: &'a PatternSet,
    options: &'a WalkOptions,
    report: WalkReport,
    /// Path of the entry being looked at.
    path: Vec<u8>,
    matching: Vec<usize>,
}

/// A folder being walked.
struct Level {
    fd: OwnedFd,
    /// Sorted in reverse: the next one is at the end.
    entries: Vec<sys::DirEntry>,
    /// Length of the folder's path.
    length: usize,
}

impl Walk<'_> {
    fn run(
        &mut self,
        root: BorrowedFd<'_>,
        visit: &mut dyn FnMut(&Found<'_>) -> ControlFlow<()>,
    ) -> Result<(), FsError> {
        let fd = rustix::fs::openat(root, c".", sys::DIR_FLAGS, Mode::empty())
            .map_err(|e| FsError::new("list", b".", e))?;
        let first = self.level(fd).map_err(|e| FsError::new("list", b".", e))?;
        let mut levels = vec![first];
        while let Some(level) = levels.last_mut() {
            self.path.truncate(level.length);
            let Some(entry) = level.entries.pop() else {
                levels.pop();
                continue;
            };
            if self.report.visited >= self.options.max_entries {
                self.report.limit_reached = true;
                return Ok(());
            }
            self.report.visited += 1;
            if level.length > 0 {
                self.path.push(b'/');
            }
            self.path.extend_from_slice(&entry.name);
            match entry.kind {
                FileType::RegularFile => {
                    if self.file(level.fd.as_fd(), &entry.name, visit).is_break() {
                        return Ok(());
                    }
                }
                FileType::Directory => {
                    let depth = levels.len();
                    if let Some(below) =
                        levels.last().and_then(|level| self.enter(level.fd.as_fd(), &entry.name, depth))
                    {
                        levels.push(below);
                    }
                }
                FileType::Symlink => self.skip(SkipReason::Symlink),
                FileType::Unknown => {}
                _ => self.skip(SkipReason::Special),
            }
        }
        Ok(())
    }

    fn level(&self, fd: OwnedFd) -> Result<Level, Errno> {
        let mut entries = sys::list(fd.as_fd())?;
        // Byte order of whole paths: a folder sorts as its name with a slash.
        let key = |entry: &sys::DirEntry| (entry.kind == FileType::Directory).then_some(b'/');
        entries.sort_unstable_by(|a, b| {
            let (a, b) = (a.name.iter().copied().chain(key(a)), b.name.iter().copied().chain(key(b)));
            b.cmp(a)
        });
        Ok(Level { fd, entries, length: self.path.len() })
    }

    fn file(
        &mut self,
        folder: BorrowedFd<'_>,
        name: &[u8],
        visit: &mut dyn FnMut(&Found<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        self.patterns.matching(&self.path, &mut self.matching);
        if self.matching.is_empty() {
            return ControlFlow::Continue(());
        }
        let Ok(stat) = sys::stat_at(folder, name) else { return ControlFlow::Continue(()) };
        match sys::file_type(&stat) {
            FileType::RegularFile => {}
            FileType::Directory => return ControlFlow::Continue(()),
            FileType::Symlink => {
                self.skip(SkipReason::Symlink);
                return ControlFlow::Continue(());
            }
            _ => {
                self.skip(SkipReason::Special);
                return ControlFlow::Continue(());
            }
        }
        self.report.matched += 1;
        for index in &self.matching {
            self.report.per_pattern[*index] += 1;
        }
        let metadata = Metadata::new(&stat);
        visit(&Found { path: &self.path, patterns: &self.matching, metadata, folder, name })
    }

    fn enter(&mut self, folder: BorrowedFd<'_>, name: &[u8], depth: usize) -> Option<Level> {
        if !self.patterns.could_match_below(&self.path) {
            return None;
        }
        if depth > self.options.max_depth.min(512) {
            self.skip(SkipReason::TooDeep);
            return None;
        }
        let extra = if self.options.one_file_system { ResolveFlags::NO_XDEV } else { ResolveFlags::empty() };
        let opened = sys::open_beneath(folder, name, sys::DIR_FLAGS, Mode::empty(), extra);
        match opened.and_then(|fd| self.level(fd)) {
            Ok(level) => Some(level),
            Err(Errno::NOENT | Errno::NOTDIR) => None,
            Err(Errno::LOOP) => {
                self.skip(SkipReason::Symlink);
                None
            }
            Err(Errno::XDEV) => {
                self.skip(SkipReason::Mount);
                None
            }
            Err(_) => {
                self.skip(SkipReason::Unreadable);
                None
            }
        }
    }

    fn skip(&mut self, reason: SkipReason) {
        if !self.patterns.is_match(&self.path) && !self.patterns.could_match_below(&self.path) {
            return;
        }
        self.report.skipped_total += 1;
        if self.report.skipped.len() < MAX_SKIPPED {
            self.report.skipped.push(Skipped { path: FileName::from_bytes(self.path.clone()), reason });
        }
    }
}

/// Paths of files that a mistyped pattern may have meant.
fn candidates(root: BorrowedFd<'_>) -> Vec<Vec<u8>> {
    let Ok(everything) = PatternSet::parse(["**"]) else { return Vec::new() };
    let options = WalkOptions { max_entries: NEAR_ENTRIES, near_misses: false, ..WalkOptions::default() };
    let mut paths = Vec::new();
    let walked = collect_walk(root, &everything, &options, &mut |found| {
        if excluded_by_default(found.path).is_none() {
            paths.push(found.path.to_vec());
        }
        ControlFlow::Continue(())
    });
    // Near misses are a courtesy; without them the report is still right.
    walked.map(|_| paths).unwrap_or_default()
}

fn near_misses(pattern: &Pattern, candidates: &[Vec<u8>]) -> Vec<FileName> {
    let wanted = String::from_utf8_lossy(pattern.literal()).to_lowercase();
    let names = pattern.name_matcher();
    let mut scored: Vec<(f64, &Vec<u8>)> = candidates
        .iter()
        .map(|path| {
            let name = path.rsplit(|b| *b == b'/').next().unwrap_or(path);
            let text = String::from_utf8_lossy(path).to_lowercase();
            let score = if names.is_match_candidate(&Candidate::from_bytes(name)) {
                1.0
            } else {
                strsim::jaro_winkler(&wanted, &text)
            };
            (score, path)
        })
        .filter(|(score, _)| *score >= NEAR_SCORE)
        .collect();
    scored.sort_by(|(a, left), (b, right)| b.total_cmp(a).then_with(|| left.cmp(right)));
    scored.into_iter().take(MAX_NEAR).map(|(_, path)| FileName::from_bytes(path.clone())).collect()
}
