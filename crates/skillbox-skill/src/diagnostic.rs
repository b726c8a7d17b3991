//! What is said about a skill: a code for programs, a sentence and a place for people.

use std::fmt;
use std::path::PathBuf;

use serde::{Serialize, Serializer};

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident => $text:literal,)*) => {
        /// The machine-readable code of a [`Diagnostic`]; on the wire its [`as_str`](Code::as_str).
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum Code {
            $($(#[$doc])* $name,)*
        }

        impl Code {
            /// Every code.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// The code as it is written in JSON: lower snake case, stable.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }
        }
    };
}

codes! {
    /// The file does not begin with a `---` line.
    NoFrontMatter => "no_front_matter",
    /// The opening `---` line has no closing one.
    UnterminatedFrontMatter => "unterminated_front_matter",
    /// No closing `---` line within the cap.
    FrontMatterTooLarge => "front_matter_too_large",
    /// The text is not UTF-8.
    NotUtf8 => "not_utf8",
    /// The front matter is not YAML.
    YamlSyntax => "yaml_syntax",
    /// The front matter uses a YAML alias (`*name`).
    YamlAlias => "yaml_alias",
    /// The front matter has too many nodes or is nested too deeply.
    YamlLimit => "yaml_limit",
    /// The front matter is a list or a scalar.
    NotAMapping => "not_a_mapping",
    /// A key stands twice in one mapping.
    DuplicateKey => "duplicate_key",
    /// The file begins with a byte-order mark.
    ByteOrderMark => "byte_order_mark",
    /// Blank lines before the opening `---`.
    LeadingBlankLines => "leading_blank_lines",
    /// A value with an unquoted `: ` was read as if it were quoted.
    UnquotedColon => "unquoted_colon",
    /// Valid YAML that some readers of skills refuse: flow collections, anchors, tags.
    YamlNotPortable => "yaml_not_portable",
    /// No `name` field.
    MissingName => "missing_name",
    /// No `description` field.
    MissingDescription => "missing_description",
    /// A known field has a value of the wrong type.
    WrongType => "wrong_type",
    /// `name` is empty.
    NameEmpty => "name_empty",
    /// `name` has more than 64 characters.
    NameTooLong => "name_too_long",
    /// `name` has upper-case letters.
    NameNotLowercase => "name_not_lowercase",
    /// `name` starts or ends with a hyphen.
    NameHyphenEdge => "name_hyphen_edge",
    /// `name` has two hyphens in a row.
    NameDoubleHyphen => "name_double_hyphen",
    /// `name` has something else than letters, digits and hyphens.
    NameInvalidCharacter => "name_invalid_character",
    /// Neither `name` nor the folder's name can be the name of a folder in a workspace.
    NameUnusable => "name_unusable",
    /// `name` is allowed here, but some hosts accept only `a-z`, `0-9` and `-` with a letter in it.
    NameNotPortable => "name_not_portable",
    /// `name` differs from the name of the folder.
    DirectoryMismatch => "directory_mismatch",
    /// `description` is empty.
    DescriptionEmpty => "description_empty",
    /// `description` has more than 1024 characters.
    DescriptionTooLong => "description_too_long",
    /// `description` holds `<` or `>`, which some hosts refuse.
    DescriptionMarkup => "description_markup",
    /// Name or description were derived from the folder and the text.
    Derived => "derived",
    /// `compatibility` is empty.
    CompatibilityEmpty => "compatibility_empty",
    /// `compatibility` has more than 500 characters.
    CompatibilityTooLong => "compatibility_too_long",
    /// `allowed-tools` is a list instead of a space-separated string.
    AllowedToolsList => "allowed_tools_list",
    /// A value in `metadata` is not a scalar.
    MetadataNested => "metadata_nested",
    /// Fields that the specification does not know.
    UnknownField => "unknown_field",
    /// A field that the specification does not know, but a known client does.
    KnownExtension => "known_extension",
    /// The path does not exist.
    PathNotFound => "path_not_found",
    /// The path is neither a folder nor a SKILL.md.
    NotADirectory => "not_a_directory",
    /// The folder has no SKILL.md.
    MissingSkillMd => "missing_skill_md",
    /// The file is named `skill.md` instead of `SKILL.md`.
    LowerCaseFileName => "lower_case_file_name",
    /// SKILL.md is not a regular file.
    NotAFile => "not_a_file",
    /// SKILL.md is a link that leads out of the skill's folder.
    LinkLeadsOut => "link_leads_out",
    /// The operating system refused to open or read something.
    Unreadable => "unreadable",
    /// A symbolic link that leads nowhere.
    DanglingLink => "dangling_link",
    /// A symbolic link, among the skills, to something that is not a folder.
    LinkToFile => "link_to_file",
    /// A folder that was already reached on another way.
    AlreadyScanned => "already_scanned",
    /// The scan stopped at its limit on depth or on folders.
    ScanLimit => "scan_limit",
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Code {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// What a [`Diagnostic`] means for loading the skill.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// The skill cannot be loaded.
    Error,
    /// The skill is loaded; its author should mend this.
    Warning,
    /// The skill is loaded; other hosts may treat it differently.
    Lint,
}

/// One thing said about a skill.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Diagnostic {
    /// For programs.
    pub code: Code,
    /// What it means for loading.
    pub severity: Severity,
    /// Whether it breaks the Agent Skills specification: what decides the strict verdict.
    pub strict: bool,
    /// For people. Where the reference tool `skills-ref` has a text for the fault, that text.
    pub message: String,
    /// The file or folder that it is about.
    pub file: PathBuf,
    /// Line in the file, from 1 on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// Column in the line, in characters, from 1 on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub column: Option<u32>,
}

impl fmt::Display for Diagnostic {
    /// `path:line:column: message [code]`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
            if let Some(column) = self.column {
                write!(f, ":{column}")?;
            }
        }
        write!(f, ": {} [{}]", self.message, self.code)
    }
}

/// A diagnostic before it is known which file it is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Note {
    pub(crate) code: Code,
    pub(crate) severity: Severity,
    pub(crate) strict: bool,
    pub(crate) message: String,
    pub(crate) at: Option<Position>,
}

/// A place in a text: line and column from 1 on; column 0 for "the line".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Position {
    pub(crate) line: u32,
    pub(crate) column: u32,
}

impl Note {
    /// The skill cannot be loaded.
    pub(crate) fn error(code: Code, message: impl Into<String>) -> Self {
        Self { code, severity: Severity::Error, strict: true, message: message.into(), at: None }
    }

    /// Loaded, but it breaks the specification.
    pub(crate) fn warning(code: Code, message: impl Into<String>) -> Self {
        Self { code, severity: Severity::Warning, strict: true, message: message.into(), at: None }
    }

    /// Loaded, and it keeps to the specification.
    pub(crate) fn lint(code: Code, message: impl Into<String>) -> Self {
        Self { code, severity: Severity::Lint, strict: false, message: message.into(), at: None }
    }

    pub(crate) fn at(mut self, at: impl Into<Option<Position>>) -> Self {
        self.at = at.into();
        self
    }

    pub(crate) fn in_file(self, file: &std::path::Path) -> Diagnostic {
        Diagnostic {
            code: self.code,
            severity: self.severity,
            strict: self.strict,
            message: self.message,
            file: file.to_path_buf(),
            line: self.at.map(|at| at.line),
            column: self.at.map(|at| at.column).filter(|column| *column > 0),
        }
    }
}
