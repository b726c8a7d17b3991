//! Why a pattern was refused.

/// A pattern that cannot be used; keeps it, and says how to mend it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("pattern {pattern:?} {what}; {hint}", what = kind.what(), hint = kind.hint())]
pub struct GlobError {
    pattern: String,
    kind: GlobErrorKind,
}

/// What is wrong with a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum GlobErrorKind {
    /// Nothing but white space.
    Empty,
    /// A `..` component.
    Parent,
    /// An absolute path outside `/workspace`.
    Absolute,
    /// A `[` without its `]` in the same component.
    UnclosedClass,
    /// A range such as `[z-a]`.
    ReversedRange,
    /// A `{` without its `}`.
    UnclosedBrace,
    /// A backslash with nothing to escape.
    TrailingBackslash,
    /// A NUL byte.
    Nul,
    /// More than 4096 bytes.
    TooLong,
    /// Braces that nest deeper than 16.
    TooNested,
    /// A set with a character that is not ASCII.
    NonAsciiSet,
    /// More than 256 patterns, or more than 64 KiB of them.
    TooManyPatterns,
    /// More than 1024 of `*`, `?`, `[` and `{` in a pattern, or in all patterns together.
    TooComplex,
}

impl GlobErrorKind {
    /// The kind as a word, as in `docs/globs.md`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::Parent => "parent",
            Self::Absolute => "absolute",
            Self::UnclosedClass => "unclosed_class",
            Self::ReversedRange => "reversed_range",
            Self::UnclosedBrace => "unclosed_brace",
            Self::TrailingBackslash => "trailing_backslash",
            Self::Nul => "nul",
            Self::TooLong => "too_long",
            Self::TooNested => "too_nested",
            Self::NonAsciiSet => "non_ascii_set",
            Self::TooManyPatterns => "too_many_patterns",
            Self::TooComplex => "too_complex",
        }
    }

    fn what(self) -> &'static str {
        match self {
            Self::Empty => "is empty",
            Self::Parent => "has a '..' component",
            Self::Absolute => "is absolute and not below /workspace",
            Self::UnclosedClass => "has a '[' without its ']' in the same component",
            Self::ReversedRange => "has a range that ends before it begins",
            Self::UnclosedBrace => "has a '{' without its '}'",
            Self::TrailingBackslash => "has a backslash with nothing after it",
            Self::Nul => "contains a NUL byte",
            Self::TooLong => "is longer than 4096 bytes",
            Self::TooNested => "has braces that nest deeper than 16",
            Self::NonAsciiSet => "has a character that is not ASCII within '[' and ']'",
            Self::TooManyPatterns => "is one too many: there may be 256, of 65536 bytes in all",
            Self::TooComplex => "makes more than 1024 of '*', '?', '[' and '{' with those before it",
        }
    }

    fn hint(self) -> &'static str {
        match self {
            Self::Empty => "give one such as \"out/*.csv\", or \"**\" for everything",
            Self::Parent | Self::Absolute => {
                "give it relative to the workspace, such as \"out/*.csv\" or \"$OUTPUT_DIR/*.csv\""
            }
            Self::UnclosedClass => "close it, or write \\[ for the character itself",
            Self::ReversedRange => "swap its ends",
            Self::UnclosedBrace => "close it, or write \\{ for the character itself",
            Self::TrailingBackslash => "write \\\\ for the character itself; folders are separated by '/'",
            Self::Nul => "no file name can hold one",
            Self::TooLong | Self::TooNested => "use several shorter patterns",
            Self::NonAsciiSet => "list such characters in braces, as in {é,à}",
            Self::TooManyPatterns | Self::TooComplex => "use fewer or shorter ones, such as \"out/**\"",
        }
    }
}

impl GlobError {
    pub(super) fn new(pattern: &str, kind: GlobErrorKind) -> Self {
        Self { pattern: pattern.to_owned(), kind }
    }

    /// The offending pattern.
    pub fn pattern(&self) -> &str {
        &self.pattern
    }

    /// What is wrong with it.
    pub fn kind(&self) -> GlobErrorKind {
        self.kind
    }

    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        self.kind.hint()
    }
}
