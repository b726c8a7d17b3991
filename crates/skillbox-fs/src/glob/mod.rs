//! The dialect of patterns for output files, written down and tested in `docs/globs.md`.
//!
//! It is matched by hand rather than compiled to a regular expression: a pattern is used for a handful of files as often as
//! for ten thousand, `?` must mean a character in a name that need not be UTF-8, and whole folders must be ruled out
//! before they are entered. Matching takes time in proportion to pattern × path at worst, whatever the pattern.

mod error;
mod matcher;
mod parse;

pub use error::{GlobError, GlobErrorKind};

use matcher::Component;

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
    literal: Vec<u8>,
    alternatives: Vec<Vec<Component>>,
    only_below: bool,
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
            alternatives: parsed.alternatives,
            only_below: parsed.only_below,
        })
    }

    /// The pattern as it was given.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The path that the pattern names character by character, relative to the workspace; matches by itself.
    pub fn literal(&self) -> &[u8] {
        &self.literal
    }

    /// Whether the file at `path` (relative to the workspace, no `.` or `..`, any bytes) matches.
    pub fn is_match(&self, path: &[u8]) -> bool {
        (!self.only_below && path == self.literal)
            || is_below(path, &self.literal)
            || self.alternatives.iter().any(|components| matcher::path_matches(components, path))
    }

    /// Whether something below the folder `dir` could match; the empty path is the workspace.
    pub fn could_match_below(&self, dir: &[u8]) -> bool {
        is_below(&self.literal, dir)
            || self.literal == dir
            || is_below(dir, &self.literal)
            || self.alternatives.iter().any(|components| matcher::could_match_below(components, dir))
    }

    /// Whether a file called `name`, in whatever folder, is what the end of the pattern describes.
    pub(crate) fn matches_name(&self, name: &[u8]) -> bool {
        self.alternatives.iter().any(|components| match components.last() {
            None | Some(Component::AnyDepth) => false,
            Some(component) => component.matches(name),
        })
    }

    /// Whether the pattern names `folder` or something below it by plain components, rather than reaching it through `*`
    /// or `**`.
    pub fn names_folder(&self, folder: &[u8]) -> bool {
        self.alternatives.iter().any(|components| {
            let mut components = components.iter();
            folder
                .split(|b| *b == b'/')
                .all(|name| matches!(components.next(), Some(Component::Literal(literal)) if literal == name))
        })
    }
}

/// Several patterns.
#[derive(Debug, Clone, Default)]
pub struct PatternSet {
    patterns: Vec<Pattern>,
}

impl PatternSet {
    /// A set of parsed patterns.
    pub fn new(patterns: Vec<Pattern>) -> Self {
        Self { patterns }
    }

    /// Parses each text; the first faulty one is the error.
    pub fn parse<T: AsRef<str>>(texts: impl IntoIterator<Item = T>) -> Result<Self, GlobError> {
        texts.into_iter().map(|text| Pattern::parse(text.as_ref())).collect::<Result<_, _>>().map(Self::new)
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
        self.patterns.iter().any(|pattern| pattern.is_match(path))
    }

    /// Puts the indices of the patterns that match into `indices`, after clearing it.
    pub fn matching(&self, path: &[u8], indices: &mut Vec<usize>) {
        indices.clear();
        indices.extend((0..self.patterns.len()).filter(|index| self.patterns[*index].is_match(path)));
    }

    /// Whether something below the folder `dir` could match any pattern.
    pub fn could_match_below(&self, dir: &[u8]) -> bool {
        self.patterns.iter().any(|pattern| pattern.could_match_below(dir))
    }
}
