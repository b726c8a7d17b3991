//! Which files to collect, and what was collected.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which files of the workspace to collect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct OutputSpec {
    /// Glob patterns relative to the workspace; empty collects nothing. The dialect is in `docs/globs.md`.
    pub globs: Vec<String>,
    /// The most files that are collected.
    pub max_files: u64,
    /// The most bytes of one file whose content is returned inline.
    pub max_file_bytes: u64,
    /// The most bytes of content that are returned inline in all.
    pub max_total_bytes: u64,
    /// Whether content that is not text is returned inline, as base64; only metadata otherwise.
    pub inline_binary: bool,
    /// Whether files that the command neither made nor changed are left out.
    pub changed_only: bool,
}

impl Default for OutputSpec {
    fn default() -> Self {
        Self {
            globs: Vec::new(),
            max_files: 100,
            max_file_bytes: 64 << 10,
            max_total_bytes: 1 << 20,
            inline_binary: false,
            changed_only: false,
        }
    }
}

/// What a command did to a file, judged against the moment it began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// It did not exist before.
    New,
    /// It existed, and its content or attributes were written.
    Modified,
    /// It was not touched.
    Unchanged,
}

/// A file name or path as bytes, with a display form: any byte string works as a file name on Linux.
///
/// ```
/// use skillbox_types::FileName;
/// let name = FileName::from_bytes(b"out/\xff.bin".to_vec());
/// assert_eq!(name.display(), "out/\u{fffd}.bin");
/// assert_eq!(name.as_bytes(), b"out/\xff.bin");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileName(Vec<u8>);

impl FileName {
    /// Takes the bytes as they are.
    pub fn from_bytes(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    /// The exact bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The name as text; bytes that are not UTF-8 are shown as U+FFFD.
    pub fn display(&self) -> String {
        String::from_utf8_lossy(&self.0).into_owned()
    }

    /// Whether [`FileName::display`] is exact.
    pub fn is_utf8(&self) -> bool {
        std::str::from_utf8(&self.0).is_ok()
    }
}

/// A collected file.
///
/// The first five fields are the reference system's; their meaning is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OutputFile {
    /// Path relative to the workspace, as text.
    pub name: String,
    /// Content as text, where the file is text and within the caps; empty otherwise.
    pub content: String,
    /// Media type, such as `text/csv`.
    pub mime_type: String,
    /// Size of the whole file.
    pub size_bytes: u64,
    /// Whether `content` holds less than the whole file.
    pub truncated: bool,
    /// SHA-256 of the whole file, 64 hexadecimal digits; absent where the file could not be read to its end.
    pub sha256: Option<String>,
    /// What the command did to it.
    pub change: Change,
    /// Whether the content is text.
    pub is_text: bool,
    /// The exact path in base64, present only where `name` is not exact.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub name_base64: Option<String>,
    /// Content in base64, where binary content was asked for inline.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub content_base64: Option<String>,
    /// Where a copy was saved on request.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub saved_to: Option<String>,
}

impl OutputFile {
    /// The exact path, whichever field carries it.
    pub fn file_name(&self) -> FileName {
        let exact = self.name_base64.as_ref().and_then(|text| STANDARD.decode(text).ok());
        FileName(exact.unwrap_or_else(|| self.name.clone().into_bytes()))
    }

    /// `name` and `name_base64` for an exact path.
    pub fn name_fields(path: &FileName) -> (String, Option<String>) {
        (path.display(), (!path.is_utf8()).then(|| STANDARD.encode(path.as_bytes())))
    }
}
