//! The dialect of patterns for output files, written down and tested in `docs/globs.md`.
//!
//! [`globset`] does the matching, in one pass for all patterns of a set. What it has no notion of is here: the places that a
//! pattern may begin with, names taken literally, folders that stand for what is below them, and which folders need not be
//! entered.

mod error;
mod parse;

pub use error::{GlobError, GlobErrorKind};

use std::sync::OnceLock;

use globset::{Candidate, Glob, GlobSet};

/// The folder of staged inputs: its files are collected only by a pattern that names it.
pub const STAGED_INPUTS: &[u8] = b"work/inputs";
/// The folder of skills: its unchanged files are collected only by a pattern that names it.
pub const SKILLS: &[u8] = b"skills";

/// Which rule leaves `path` out of what patterns such as `**` answer (see [`Pattern::names_folder`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DefaultExclusion {
    /// It is a staged input.
    StagedInput,
    /// It belongs to a skill; left out unless it changed.
    UnchangedSkillFile,
}

/// The default rule for a path relative to the workspace.
///
/// ```
/// use skillbox_fs::glob::{DefaultExclusion, excluded_by_default};
/// assert_eq!(excluded_by_default(b"work/inputs/a.csv"), Some(DefaultExclusion::StagedInput));
/// assert_eq!(excluded_by_default(b"out/a.csv"), None);
/// ```
pub fn excluded_by_default(path: &[u8]) -> Option<DefaultExclusion> {
    if is_below(path, STAGED_INPUTS) {
        Some(DefaultExclusion::StagedInput)
    } else if is_below(path, SKILLS) {
        Some(DefaultExclusion::UnchangedSkillFile)
    } else {
        None
    }
}

fn is_below(path: &[u8], folder: &[u8]) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.first() == Some(&b'/'))
}

/// The most patterns of a set.
const MAX_PATTERNS: usize = 256;
/// The most bytes of a set's patterns.
const MAX_SET_BYTES: usize = 64 << 10;
/// The most special characters of a set's patterns: compiling costs time in proportion to them, and matching, where a
/// pattern defeats the automaton's cache, to them × the path.
const MAX_SPECIAL: usize = 1024;

/// A parsed pattern.
///
/// ```
/// use skillbox_fs::glob::Pattern;
/// let pattern = Pattern::parse("$OUTPUT_DIR/**/*.{csv,json}")?;
/// assert!(pattern.is_match(b"out/a.csv"));
/// assert!(pattern.is_match(b"out/2026/11/b.json"));
/// assert!(!pattern.is_match(b"work/a.csv"));
/// assert!(!pattern.could_match_below(b"work"));
/// # Ok::<(), skillbox_fs::glob::GlobError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Pattern {
    text: String,
    literal: String,
    globs: Vec<Glob>,
    special: usize,
    last: Option<String>,
    folder: Vec<String>,
    depth: Option<usize>,
    /// Compiled when the pattern is first matched by itself.
    alone: OnceLock<GlobSet>,
}

impl Pattern {
    /// Parses a pattern.
    pub fn parse(text: &str) -> Result<Self, GlobError> {
        Self::parse_with(text, &[])
    }

    /// As [`Pattern::parse`], with further variables: names, such as `SKILL_DIR`, and the folders of the workspace that
    /// they stand for, taken literally.
    pub fn parse_with(text: &str, variables: &[(&str, &str)]) -> Result<Self, GlobError> {
        let parsed = parse::parse(text, variables).map_err(|kind| GlobError::new(text, kind))?;
        Ok(Self {
            text: text.to_owned(),
            literal: parsed.literal,
            globs: parsed.globs,
            special: parsed.special,
            last: parsed.last,
            folder: parsed.folder,
            depth: parsed.depth,
            alone: OnceLock::new(),
        })
    }

    /// The pattern as it was given.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The path that the pattern names character by character, relative to the workspace; matches by itself.
    pub fn literal(&self) -> &[u8] {
        self.literal.as_bytes()
    }

    /// Whether the file at `path` (relative to the workspace, no `.` or `..`, any bytes) matches.
    ///
    /// The first call compiles the pattern; where there are several, a [`PatternSet`] matches them at once.
    pub fn is_match(&self, path: &[u8]) -> bool {
        // What the limits of one pattern allow is far below what globset refuses to compile.
        let set = self.alone.get_or_init(|| GlobSet::new(&self.globs).unwrap_or_default());
        set.is_match_candidate(&Candidate::from_bytes(path))
    }

    /// Whether something below the folder `dir` could match; the empty path is the workspace. It may say yes where
    /// nothing does: only plain names at the start of the pattern, and the number of its components, are looked at.
    pub fn could_match_below(&self, dir: &[u8]) -> bool {
        if dir.is_empty() {
            return true;
        }
        let literal = self.literal();
        if literal == dir || is_below(literal, dir) || is_below(dir, literal) {
            return true;
        }
        let names = || dir.split(|b| *b == b'/');
        names().zip(&self.folder).all(|(name, plain)| name == plain.as_bytes())
            && self.depth.is_none_or(|depth| names().count() < depth)
    }

    /// What the end of the pattern says of a file's name, in whatever folder.
    pub(crate) fn name_matcher(&self) -> GlobSet {
        let last = self.last.as_deref().and_then(|last| parse::build(last).ok());
        GlobSet::new(last).unwrap_or_default()
    }

    /// Whether the pattern names `folder` or something below it by plain components, rather than reaching it through `*`
    /// or `**`.
    pub fn names_folder(&self, folder: &[u8]) -> bool {
        let mut plain = self.folder.iter();
        folder.split(|b| *b == b'/').all(|name| plain.next().is_some_and(|plain| plain.as_bytes() == name))
    }
}

/// Several patterns, compiled into one matcher.
#[derive(Debug, Clone, Default)]
pub struct PatternSet {
    patterns: Vec<Pattern>,
    set: GlobSet,
    /// For each glob of `set`, the index of its pattern; ascending.
    owners: Vec<usize>,
}

impl PatternSet {
    /// A set of at most 256 patterns, of 64 KiB and 1024 special characters in all.
    pub fn new(patterns: Vec<Pattern>) -> Result<Self, GlobError> {
        let (mut bytes, mut special) = (0, 0);
        for (index, pattern) in patterns.iter().enumerate() {
            bytes += pattern.text.len();
            special += pattern.special;
            if index == MAX_PATTERNS || bytes > MAX_SET_BYTES {
                return Err(GlobError::new(&pattern.text, GlobErrorKind::TooManyPatterns));
            }
            if special > MAX_SPECIAL {
                return Err(GlobError::new(&pattern.text, GlobErrorKind::TooComplex));
            }
        }
        let set = GlobSet::new(patterns.iter().flat_map(|pattern| &pattern.globs)).map_err(|error| {
            let last = patterns.last().map(Pattern::text).unwrap_or_default();
            GlobError::new(last, parse::kind(error.kind()))
        })?;
        let owners = patterns.iter().enumerate();
        let owners = owners.flat_map(|(index, pattern)| pattern.globs.iter().map(move |_| index)).collect();
        Ok(Self { patterns, set, owners })
    }

    /// Parses each text; the first faulty one is the error.
    pub fn parse<T: AsRef<str>>(texts: impl IntoIterator<Item = T>) -> Result<Self, GlobError> {
        // One more than allowed tells that there are too many.
        let texts = texts.into_iter().take(MAX_PATTERNS + 1);
        let patterns = texts.map(|text| Pattern::parse(text.as_ref())).collect::<Result<_, _>>()?;
        Self::new(patterns)
    }

    /// The patterns, in the order given.
    pub fn patterns(&self) -> &[Pattern] {
        &self.patterns
    }

    /// Whether there is no pattern.
    pub fn is_empty(&self) -> bool {
        self.patterns.is_empty()
    }

    /// Whether any pattern matches.
    pub fn is_match(&self, path: &[u8]) -> bool {
        self.set.is_match_candidate(&Candidate::from_bytes(path))
    }

    /// Puts the indices of the patterns that match, ascending, into `indices`, after clearing it.
    pub fn matching(&self, path: &[u8], indices: &mut Vec<usize>) {
        self.set.matches_candidate_into(&Candidate::from_bytes(path), indices);
        for index in indices.iter_mut() {
            *index = self.owners[*index];
        }
        indices.dedup();
    }

    /// Whether something below the folder `dir` could match any pattern.
    pub fn could_match_below(&self, dir: &[u8]) -> bool {
        self.patterns.iter().any(|pattern| pattern.could_match_below(dir))
    }
}
