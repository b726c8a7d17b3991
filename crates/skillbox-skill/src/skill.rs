//! A skill that was found, loadable or not.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;
use skillbox_types::SkillName;

use crate::diagnostic::{Code, Diagnostic, Note, Severity};
use crate::io::{File, OpenError};
use crate::manifest::{self, Context, Manifest, Outcome, ReadOptions};
use crate::{front_matter, split};

/// The longest SKILL.md that [`Skill::read_body`] reads.
pub const MAX_SKILL_MD_BYTES: usize = 64 * 1024 * 1024;

/// A loadable skill: its manifest, where it lies, and what is to be said about it. Its body is read on demand.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Skill {
    /// What SKILL.md says.
    pub manifest: Manifest,
    /// The index of the root under which it was found.
    pub root: usize,
    /// The label of that root, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// The skill's folder, as reached from its root.
    pub dir: PathBuf,
    #[serde(skip)]
    pub(crate) file_name: &'static str,
    /// Everything that could be said about it; no errors, or it would not have loaded.
    pub diagnostics: Vec<Diagnostic>,
}

impl Skill {
    /// The name under which it is listed, found and materialized.
    pub fn name(&self) -> &SkillName {
        &self.manifest.name
    }

    /// The skill's SKILL.md.
    pub fn file(&self) -> PathBuf {
        self.dir.join(self.file_name)
    }

    /// The whole description.
    pub fn description(&self) -> &str {
        &self.manifest.description
    }

    /// An id that also tells the root: `label:name`, or the name where the root has no label. It has no limit on its
    /// length: the specification's 64 characters are for what the author wrote.
    pub fn id(&self) -> String {
        match &self.label {
            Some(label) => format!("{label}:{}", self.manifest.name),
            None => self.manifest.name.to_string(),
        }
    }

    /// The strict verdict: whether the skill keeps every rule of the Agent Skills specification.
    pub fn is_strict(&self) -> bool {
        !self.diagnostics.iter().any(|diagnostic| diagnostic.strict)
    }

    /// Reads the text after the front matter, as it is in the file now.
    ///
    /// For a skill without front matter (one that was loaded with
    /// [`derive_missing`](ReadOptions::derive_missing)), the whole text.
    pub fn read_body(&self) -> Result<String, BodyError> {
        read_body(&self.file())
    }
}

/// A SKILL.md that cannot be loaded, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Rejected {
    /// The name under which somebody may ask for it: the one in the front matter if it could be read, else the
    /// folder's.
    pub name: String,
    /// The name of its folder.
    pub folder: String,
    /// The index of the root under which it was found.
    pub root: usize,
    /// Its folder.
    pub dir: PathBuf,
    /// At least one error, and what else could be said.
    pub diagnostics: Vec<Diagnostic>,
}

impl Rejected {
    /// The error that kept it from loading.
    pub fn fault(&self) -> Option<&Diagnostic> {
        self.diagnostics.iter().find(|diagnostic| diagnostic.severity == Severity::Error)
    }
}

/// Why the body of a skill could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BodyError {
    /// The file is gone, or is no regular file any more.
    #[error("{} is no longer there or no longer a file; scan the roots again", .0.display())]
    Gone(PathBuf),
    /// The file is a link now that leads out of the skill's folder.
    #[error("{} is a link that leads out of the skill's folder; put the file itself in its place", .0.display())]
    LeadsOut(PathBuf),
    /// The operating system refused.
    #[error("cannot read {}: {source}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file is larger than [`MAX_SKILL_MD_BYTES`].
    #[error("{} is larger than {} MiB; move its contents to files under references/", .0.display(), MAX_SKILL_MD_BYTES / 1024 / 1024)]
    TooLarge(PathBuf),
    /// The text is not UTF-8.
    #[error("{} is not UTF-8 text; save it as UTF-8", .0.display())]
    NotUtf8(PathBuf),
}

fn read_body(path: &Path) -> Result<String, BodyError> {
    let failed = |source| BodyError::Io { path: path.to_path_buf(), source };
    let file = match open(path) {
        Ok(Some(file)) => file,
        Ok(None) | Err(OpenError::NotAFile) => return Err(BodyError::Gone(path.to_path_buf())),
        Err(OpenError::LeadsOut) => return Err(BodyError::LeadsOut(path.to_path_buf())),
        Err(OpenError::Io(error)) => return Err(failed(error)),
        Err(error @ OpenError::NoLinks) => return Err(failed(io::Error::other(error))),
    };
    let mut bytes = file.read_from(0, MAX_SKILL_MD_BYTES + 1).map_err(failed)?;
    if bytes.len() > MAX_SKILL_MD_BYTES {
        return Err(BodyError::TooLarge(path.to_path_buf()));
    }
    let start = match split::split(&bytes, true) {
        split::Split::Found(parts) => parts.body,
        split::Split::NoFence { body, .. } => body,
        _ => 0,
    };
    bytes.drain(..start);
    String::from_utf8(bytes).map_err(|_| BodyError::NotUtf8(path.to_path_buf()))
}

/// Opens a file by its path; `None` when nothing is there.
pub(crate) fn open(path: &Path) -> Result<Option<File>, OpenError> {
    use std::os::unix::ffi::OsStrExt as _;
    let path = std::ffi::CString::new(path.as_os_str().as_bytes()).map_err(io::Error::from)?;
    crate::io::open_file(rustix::fs::CWD, &path)
}

/// Reads and interprets the front matter of an open SKILL.md.
pub(crate) fn read_manifest(
    file: &File,
    folder: &OsStr,
    options: ReadOptions,
    buffer: &mut Vec<u8>,
) -> io::Result<Outcome> {
    let parsed = front_matter::read(buffer, |part| file.read(part))?;
    let mut first_paragraph = |body: usize| {
        /// Far more than any first paragraph.
        const LOOK: usize = 64 * 1024;
        let text = file.read_from(body as u64, LOOK).ok()?;
        paragraph(&String::from_utf8_lossy(&text))
    };
    let mut context = Context { folder, options, first_paragraph: &mut first_paragraph };
    Ok(manifest::interpret(parsed, &mut context))
}

/// The result of [`read_text`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TextReport {
    /// What the text says; absent where it is not loadable.
    pub manifest: Option<Manifest>,
    /// Everything that could be said about it.
    pub diagnostics: Vec<Diagnostic>,
}

/// Reads the text of a SKILL.md that lies in no file, such as one in an archive or in a request.
///
/// `file` is where the text comes from, for messages, and the name of its parent the name of the skill's folder.
///
/// ```
/// use skillbox_skill::{ReadOptions, read_text};
///
/// let text = b"---\nname: hello\ndescription: Greets somebody.\n---\nSay hello.";
/// let report = read_text("hello/SKILL.md".as_ref(), text, ReadOptions::default());
/// assert_eq!(report.manifest.unwrap().description, "Greets somebody.");
/// ```
pub fn read_text(file: &Path, text: &[u8], options: ReadOptions) -> TextReport {
    let mut first_paragraph = |body: usize| paragraph(&String::from_utf8_lossy(&text[body..]));
    let folder = file.parent().and_then(Path::file_name).unwrap_or_default();
    let mut context = Context { folder, options, first_paragraph: &mut first_paragraph };
    let outcome = manifest::interpret(front_matter::parse(text), &mut context);
    let diagnostics = outcome.notes.into_iter().map(|note| note.in_file(file)).collect();
    TextReport { manifest: outcome.manifest, diagnostics }
}

/// The first paragraph of a Markdown text that is no heading, on one line; else its first heading.
fn paragraph(text: &str) -> Option<String> {
    let mut heading = None;
    let mut words: Vec<&str> = Vec::new();
    for line in text.lines().map(str::trim) {
        if let Some(title) = line.strip_prefix('#') {
            if !words.is_empty() {
                break;
            }
            let title = title.trim_start_matches('#').trim();
            if heading.is_none() && !title.is_empty() {
                heading = Some(title);
            }
        } else if line.is_empty() {
            if !words.is_empty() {
                break;
            }
        } else {
            words.extend(line.split_whitespace());
        }
    }
    let text = if words.is_empty() { heading?.to_owned() } else { words.join(" ") };
    Some(text.chars().take(crate::MAX_DESCRIPTION_CHARS).collect())
}

/// What became of a SKILL.md.
#[derive(Debug, Clone)]
pub(crate) enum Item {
    Loaded(std::sync::Arc<Skill>),
    Rejected(std::sync::Arc<Rejected>),
}

/// Where a SKILL.md was found.
pub(crate) struct Place<'a> {
    pub(crate) root: usize,
    pub(crate) label: Option<&'a str>,
    pub(crate) dir: PathBuf,
    pub(crate) file_name: &'static str,
    pub(crate) folder: &'a OsStr,
}

impl Place<'_> {
    pub(crate) fn item(self, outcome: Outcome) -> Item {
        let diagnostics = if outcome.notes.is_empty() {
            Vec::new()
        } else {
            let file = self.dir.join(self.file_name);
            outcome.notes.into_iter().map(|note| note.in_file(&file)).collect()
        };
        match outcome.manifest {
            Some(manifest) => Item::Loaded(std::sync::Arc::new(Skill {
                manifest,
                root: self.root,
                label: self.label.map(str::to_owned),
                dir: self.dir,
                file_name: self.file_name,
                diagnostics,
            })),
            None => self.reject(outcome.claimed_name, diagnostics),
        }
    }

    fn reject(self, claimed_name: Option<String>, diagnostics: Vec<Diagnostic>) -> Item {
        let folder = self.folder.to_string_lossy().into_owned();
        Item::Rejected(std::sync::Arc::new(Rejected {
            name: claimed_name.unwrap_or_else(|| folder.clone()),
            folder,
            root: self.root,
            dir: self.dir,
            diagnostics,
        }))
    }

    pub(crate) fn refuse(self, error: &OpenError) -> Item {
        let file = self.dir.join(self.file_name);
        self.reject(None, vec![refusal(error).in_file(&file)])
    }
}

/// What is said of a SKILL.md that was not read.
pub(crate) fn refusal(error: &OpenError) -> Note {
    let code = match error {
        OpenError::NotAFile => Code::NotAFile,
        OpenError::LeadsOut => Code::LinkLeadsOut,
        OpenError::NoLinks | OpenError::Io(_) => Code::Unreadable,
    };
    Note::error(code, error.to_string())
}

#[cfg(test)]
mod tests {
    use super::paragraph;

    #[test]
    fn f014_the_first_paragraph_is_no_heading() {
        assert_eq!(paragraph("# T\n\none\ntwo\n\nthree").as_deref(), Some("one two"));
        assert_eq!(paragraph("## Only a title\n").as_deref(), Some("Only a title"));
        assert_eq!(paragraph("text\n# H").as_deref(), Some("text"));
        assert_eq!(paragraph("\n \n"), None);
    }
}
