//! The three commands of the reference tool `skills-ref`: validate, read-properties, to-prompt.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::{Map, Value};

use crate::diagnostic::{Code, Diagnostic, Note, Severity};
use crate::front_matter::{self, find};
use crate::io::{self, File, OpenError, PathKind};
use crate::manifest::{self, Manifest, ReadOptions};
use crate::skill::{self, Place, Skill};
use crate::yaml::Field;

/// The two verdicts on a skill.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Whether it keeps every rule of the specification.
    Strict,
    /// Whether skillbox can load it.
    Loadable,
}

/// Both verdicts on one skill.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Validation {
    /// The path that was checked.
    pub path: PathBuf,
    /// Which verdict was asked for.
    pub verdict: Verdict,
    /// Whether that verdict is good.
    pub valid: bool,
    /// Whether the skill keeps every rule of the specification.
    pub strict: bool,
    /// Whether it can be loaded.
    pub loadable: bool,
    /// Everything that could be said.
    pub diagnostics: Vec<Diagnostic>,
}

impl Validation {
    /// The faults that decide the verdict that was asked for; none when it is good.
    pub fn errors(&self) -> impl Iterator<Item = &Diagnostic> {
        self.diagnostics.iter().filter(|diagnostic| {
            diagnostic.severity == Severity::Error || (self.verdict == Verdict::Strict && diagnostic.strict)
        })
    }
}

/// Checks the skill at `path`, a folder or its SKILL.md.
///
/// With `strict` the verdict follows the specification, as the reference tool does (and it also reports what that
/// tool misses); without, it is whether skillbox loads the skill.
pub fn validate(path: &Path, strict: bool) -> Validation {
    let diagnostics = match locate(path) {
        Err(fault) => vec![fault],
        Ok(located) => match located.check() {
            skill::Item::Loaded(skill) => skill.diagnostics.clone(),
            skill::Item::Rejected(rejected) => rejected.diagnostics.clone(),
        },
    };
    let is_strict = !diagnostics.iter().any(|diagnostic| diagnostic.strict);
    let loadable = !diagnostics.iter().any(|diagnostic| diagnostic.severity == Severity::Error);
    let verdict = if strict { Verdict::Strict } else { Verdict::Loadable };
    let valid = if strict { is_strict } else { loadable };
    Validation { verdict, path: path.to_path_buf(), valid, strict: is_strict, loadable, diagnostics }
}

/// Reads the skill at `path` (a folder or its SKILL.md) without any root around it.
///
/// The error holds everything that was said, the fault among it.
pub fn read_skill(path: &Path, options: ReadOptions) -> Result<Skill, Vec<Diagnostic>> {
    let located = locate(path).map_err(|fault| vec![fault])?;
    match located.read(options) {
        skill::Item::Loaded(skill) => Ok(std::sync::Arc::unwrap_or_clone(skill)),
        skill::Item::Rejected(rejected) => Err(rejected.diagnostics.clone()),
    }
}

/// Why the properties of a skill could not be read; displays as the reference tool's message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.message)]
pub struct PropertiesError(pub Box<Diagnostic>);

/// The fields of the specification as JSON, in the order and spelling of the reference tool. Names and values are
/// not validated, but a name and a description must be there.
pub fn read_properties(path: &Path) -> Result<Value, PropertiesError> {
    let located = locate(path).map_err(|fault| {
        if fault.code == Code::MissingSkillMd {
            let message = format!("SKILL.md not found in {}", path.display());
            return PropertiesError(Box::new(Diagnostic { message, ..fault }));
        }
        PropertiesError(Box::new(fault))
    })?;
    located.properties()
}

/// Formats JSON as the reference tool prints it: two spaces of indentation, everything beyond ASCII escaped.
pub fn format_properties(properties: &Value) -> String {
    let mut text = String::new();
    for c in format!("{properties:#}").chars() {
        if c.is_ascii() {
            text.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            // Writing to a String cannot fail.
            let _ = write!(text, "\\u{unit:04x}");
        }
    }
    text
}

/// The `<available_skills>` block of the skills at `paths` (folders or SKILL.md files), in the reference's layout.
pub fn to_prompt<P: AsRef<Path>>(paths: impl IntoIterator<Item = P>) -> Result<String, PropertiesError> {
    let mut entries = Vec::new();
    for path in paths {
        let path = path.as_ref();
        let located = locate(path).map_err(|fault| PropertiesError(Box::new(fault)))?;
        let properties = located.properties()?;
        let text = |key: &str| properties.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let location = io::resolve(&located.dir).join(located.file_name);
        entries.push((text("name"), text("description"), location));
    }
    Ok(prompt(entries.iter().map(|(name, description, location)| PromptEntry {
        name: name.into(),
        description: description.into(),
        location: location.to_string_lossy(),
    })))
}

/// The same block for skills that were found already.
pub fn skills_to_prompt<'a>(skills: impl IntoIterator<Item = &'a Skill>) -> String {
    prompt(skills.into_iter().map(|skill| PromptEntry {
        name: skill.manifest.display_name().into(),
        description: skill.manifest.listing_description(),
        location: skill.file().to_string_lossy().into_owned().into(),
    }))
}

struct PromptEntry<'a> {
    name: Cow<'a, str>,
    description: Cow<'a, str>,
    location: Cow<'a, str>,
}

fn prompt<'a>(entries: impl Iterator<Item = PromptEntry<'a>>) -> String {
    let mut text = String::from("<available_skills>\n");
    for entry in entries {
        text.push_str("<skill>\n<name>\n");
        escape(&entry.name, &mut text);
        text.push_str("\n</name>\n<description>\n");
        escape(&entry.description, &mut text);
        text.push_str("\n</description>\n<location>\n");
        text.push_str(&entry.location);
        text.push_str("\n</location>\n</skill>\n");
    }
    text.push_str("</available_skills>");
    text
}

/// The reference's escapes: the five characters that mean something in XML or HTML.
fn escape(from: &str, to: &mut String) {
    for c in from.chars() {
        match c {
            '&' => to.push_str("&amp;"),
            '<' => to.push_str("&lt;"),
            '>' => to.push_str("&gt;"),
            '"' => to.push_str("&quot;"),
            '\'' => to.push_str("&#x27;"),
            other => to.push(other),
        }
    }
}

/// The SKILL.md that a path means.
struct Located {
    dir: PathBuf,
    folder: OsString,
    file_name: &'static str,
    file: Result<File, OpenError>,
}

/// Finds the SKILL.md of a folder (`skill.md` where there is no `SKILL.md`), or of the path of such a file.
fn locate(path: &Path) -> Result<Located, Diagnostic> {
    let fault = |code, message: String| Note::error(code, message).in_file(path);
    let shown = path.display();
    let kind = match io::path_kind(path) {
        // The verdict on a link that leads out must not tell whether there is something at its target.
        PathKind::Absent if is_skill_md(path.file_name()) && io::is_link(path) => PathKind::File,
        kind => kind,
    };
    let dir = match kind {
        PathKind::Dir => path.to_path_buf(),
        PathKind::File if is_skill_md(path.file_name()) => match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent.to_path_buf(),
            _ => PathBuf::from("."),
        },
        PathKind::File => return Err(fault(Code::NotADirectory, format!("Not a directory: {shown}"))),
        PathKind::Absent => return Err(fault(Code::PathNotFound, format!("Path does not exist: {shown}"))),
    };
    // "." and ".." have no name of their own.
    let folder = match dir.file_name() {
        Some(name) => name.to_owned(),
        None => io::resolve(&dir).file_name().unwrap_or_default().to_owned(),
    };
    for file_name in ["SKILL.md", "skill.md"] {
        if let Some(file) = skill::open(&dir.join(file_name)).transpose() {
            return Ok(Located { dir, folder, file_name, file });
        }
    }
    Err(fault(Code::MissingSkillMd, "Missing required file: SKILL.md".to_owned()))
}

fn is_skill_md(name: Option<&OsStr>) -> bool {
    name.is_some_and(|name| name.eq_ignore_ascii_case("skill.md"))
}

impl Located {
    fn check(self) -> skill::Item {
        self.read(ReadOptions::default())
    }

    fn read(self, options: ReadOptions) -> skill::Item {
        let place =
            Place { root: 0, label: None, dir: self.dir, file_name: self.file_name, folder: &self.folder };
        match self.file {
            Err(error) => place.refuse(&error),
            Ok(file) => match skill::read_manifest(&file, &self.folder, options, &mut Vec::new()) {
                Err(error) => place.refuse(&error.into()),
                Ok(mut outcome) => {
                    if self.file_name != "SKILL.md" {
                        let message = "the file is named skill.md; searches recognise only SKILL.md";
                        outcome.notes.push(Note::lint(Code::LowerCaseFileName, message));
                    }
                    place.item(outcome)
                }
            },
        }
    }

    fn properties(&self) -> Result<Value, PropertiesError> {
        let path = self.dir.join(self.file_name);
        let fail = |note: Note| PropertiesError(Box::new(note.in_file(&path)));
        let file = self.file.as_ref().map_err(|error| fail(skill::refusal(error)))?;
        let mut buffer = Vec::new();
        let parsed = front_matter::read(&mut buffer, |part| file.read(part))
            .map_err(|error| fail(skill::refusal(&error.into())))?
            .map_err(|fault| fail(fault.error))?;
        properties(&parsed.fields).map_err(fail)
    }
}

fn properties(fields: &[Field<'_>]) -> Result<Value, Note> {
    let required = |key: &str, missing: Code, empty: Code| {
        let Some(field) = find(fields, key) else {
            return Err(Note::error(missing, format!("Missing required field in frontmatter: {key}")));
        };
        let text = field.value.text().map(str::trim).unwrap_or_default();
        if text.is_empty() {
            return Err(Note::error(empty, format!("Field '{key}' must be a non-empty string")).at(field.at));
        }
        Ok(text.to_owned())
    };
    // Presence of both comes before the contents of either.
    for (key, missing) in [("name", Code::MissingName), ("description", Code::MissingDescription)] {
        if find(fields, key).is_none() {
            return Err(Note::error(missing, format!("Missing required field in frontmatter: {key}")));
        }
    }
    let mut object = Map::new();
    let mut put = |key: &str, value: Option<String>| {
        if let Some(value) = value {
            object.insert(key.to_owned(), Value::String(value));
        }
    };
    let text = |key: &str| find(fields, key).and_then(|field| field.value.written()).map(str::to_owned);
    put("name", Some(required("name", Code::MissingName, Code::NameEmpty)?));
    put("description", Some(required("description", Code::MissingDescription, Code::DescriptionEmpty)?));
    put("license", text("license"));
    put("compatibility", text("compatibility"));
    put("allowed-tools", manifest::allowed_tools(fields));
    let metadata = manifest::metadata(fields);
    if !metadata.is_empty() {
        object.insert("metadata".to_owned(), Value::Object(metadata));
    }
    Ok(Value::Object(object))
}

impl Manifest {
    /// The fields of the specification as [`read_properties`] gives them.
    pub fn properties(&self) -> Option<Value> {
        properties(&self.raw.fields()).ok()
    }
}
