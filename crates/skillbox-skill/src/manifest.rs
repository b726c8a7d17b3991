//! What a front matter says, by the rules of the Agent Skills specification, leniently.

use std::ffi::OsStr;

use serde::ser::SerializeStruct as _;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};
use skillbox_types::SkillName;

use crate::diagnostic::{Code, Note};
use crate::front_matter::{Fault, FrontMatter, Parsed, find};
use crate::name;
use crate::yaml::{Field, Node};

/// The longest description in characters, after YAML folding.
pub const MAX_DESCRIPTION_CHARS: usize = 1024;
/// The longest compatibility text in characters.
pub const MAX_COMPATIBILITY_CHARS: usize = 500;

/// The fields of the specification, sorted.
const KNOWN_FIELDS: [&str; 6] =
    ["allowed-tools", "compatibility", "description", "license", "metadata", "name"];

/// Fields outside the specification that a client is known to read.
const KNOWN_EXTENSIONS: [(&str, &str); 11] = [
    ("agent", "Claude Code"),
    ("argument-hint", "Claude Code"),
    ("context", "Claude Code"),
    ("disable-model-invocation", "Claude Code"),
    ("entry_point", "SkillLite"),
    ("homepage", "OpenClaw"),
    ("hooks", "Claude Code"),
    ("model", "Claude Code"),
    ("paths", "Claude Code"),
    ("user-invocable", "Claude Code"),
    ("version", "SkillLite"),
];

/// How leniently a skill is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReadOptions {
    /// Take a missing name from the folder and a missing description from the first paragraph of the text, also
    /// where there is no front matter at all. Such a skill is marked as [`derived`](Manifest::derived).
    pub derive_missing: bool,
}

/// What a SKILL.md says about its skill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    /// The name under which the skill is listed, found and materialized: the author's in Unicode form NFKC, else the
    /// folder's.
    pub name: SkillName,
    /// The author's own spelling where it differs from `name`.
    pub display_name: Option<String>,
    /// The description at its full length; see [`listing_description`](Self::listing_description).
    pub description: String,
    /// `license`.
    pub license: Option<String>,
    /// `compatibility`.
    pub compatibility: Option<String>,
    /// `allowed-tools`; a list is joined with spaces.
    pub allowed_tools: Option<String>,
    /// Whether name or description do not come from the front matter.
    pub derived: bool,
    /// The front matter as it was written.
    pub raw: FrontMatter,
}

impl Manifest {
    /// `metadata`: scalars as the text that the author wrote (`1.0` stays `"1.0"`), anything deeper as JSON.
    pub fn metadata(&self) -> Map<String, Value> {
        metadata(&self.raw.fields())
    }

    /// The fields that the specification does not know, in the order of the text; values as in
    /// [`FrontMatter::get`].
    pub fn extra(&self) -> Map<String, Value> {
        self.raw
            .fields()
            .iter()
            .filter(|field| !is_known(&field.key))
            .map(|field| (field.key.to_string(), field.value.to_json()))
            .collect()
    }

    /// The author's spelling of the name.
    pub fn display_name(&self) -> &str {
        self.display_name.as_deref().unwrap_or(self.name.as_str())
    }

    /// The description as listings show it: cut to [`MAX_DESCRIPTION_CHARS`] characters, the last of them `…`.
    pub fn listing_description(&self) -> std::borrow::Cow<'_, str> {
        if self.description.len() <= MAX_DESCRIPTION_CHARS
            || self.description.chars().nth(MAX_DESCRIPTION_CHARS).is_none()
        {
            return self.description.as_str().into();
        }
        self.description.chars().take(MAX_DESCRIPTION_CHARS - 1).chain(['…']).collect::<String>().into()
    }
}

impl Serialize for Manifest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_struct("Manifest", 8)?;
        object.serialize_field("name", &self.name)?;
        object.serialize_field("display_name", self.display_name())?;
        object.serialize_field("description", &self.description)?;
        object.serialize_field("license", &self.license)?;
        object.serialize_field("compatibility", &self.compatibility)?;
        object.serialize_field("allowed_tools", &self.allowed_tools)?;
        object.serialize_field("metadata", &self.metadata())?;
        object.serialize_field("derived", &self.derived)?;
        object.serialize_field("extra", &self.extra())?;
        object.end()
    }
}

pub(crate) fn metadata(fields: &[Field<'_>]) -> Map<String, Value> {
    let Some(Field { value: Node::Mapping(fields), .. }) = find(fields, "metadata") else {
        return Map::new();
    };
    fields
        .iter()
        .map(|field| {
            let value = match &field.value {
                Node::Scalar { text, .. } => Value::String(text.to_string()),
                deeper => deeper.to_json(),
            };
            (field.key.to_string(), value)
        })
        .collect()
}

/// `allowed-tools` as one string.
pub(crate) fn allowed_tools(fields: &[Field<'_>]) -> Option<String> {
    match &find(fields, "allowed-tools")?.value {
        Node::Sequence(items) => Some(items.iter().filter_map(Node::text).collect::<Vec<_>>().join(" ")),
        scalar => scalar.text().map(str::to_owned),
    }
}

fn is_known(key: &str) -> bool {
    KNOWN_FIELDS.contains(&key)
}

/// What is known about a skill beside its front matter.
pub(crate) struct Context<'a> {
    /// The name of the folder.
    pub(crate) folder: &'a OsStr,
    pub(crate) options: ReadOptions,
    /// The first paragraph of the text, asked only where the description must be derived.
    pub(crate) first_paragraph: &'a mut dyn FnMut(usize) -> Option<String>,
}

/// The outcome of reading a SKILL.md: loadable when there is a manifest.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) manifest: Option<Manifest>,
    /// A name that the front matter gives, for skills that cannot be loaded.
    pub(crate) claimed_name: Option<String>,
    pub(crate) notes: Vec<Note>,
}

/// Applies the specification to what [`crate::front_matter`] found; lenient, with every deviation noted.
pub(crate) fn interpret(parsed: Result<Parsed<'_>, Fault>, context: &mut Context<'_>) -> Outcome {
    let mut parsed = match parsed {
        Ok(parsed) => parsed,
        Err(fault) => {
            let mut notes = fault.notes;
            match fault.body {
                Some(body) if context.options.derive_missing && fault.error.code == Code::NoFrontMatter => {
                    notes.push(Note { severity: crate::Severity::Warning, ..fault.error });
                    Parsed { fields: Vec::new(), source: "".into(), notes, body }
                }
                _ => {
                    notes.push(fault.error);
                    return Outcome { manifest: None, claimed_name: None, notes };
                }
            }
        }
    };
    let mut notes = std::mem::take(&mut parsed.notes);
    let (fields, body) = (parsed.fields.as_slice(), parsed.body);
    unknown_fields(fields, &mut notes);
    let has_front_matter = !fields.is_empty();
    let (name, display_name, name_derived) = read_name(fields, context.folder, has_front_matter, &mut notes);
    let (description, description_derived) = read_description(fields, body, context, &mut notes);
    let license = text_field(fields, "license", &mut notes);
    let compatibility = read_compatibility(fields, &mut notes);
    let allowed_tools = read_allowed_tools(fields, &mut notes);
    check_metadata(fields, &mut notes);
    if context.options.derive_missing && (name_derived || description_derived) {
        let what = match (name_derived, description_derived) {
            (true, true) => "name and description were taken from the folder and the first paragraph",
            (true, false) => "the name was taken from the folder",
            _ => "the description was taken from the first paragraph",
        };
        notes.push(Note { strict: false, ..Note::warning(Code::Derived, what) });
    }
    let (Some(name), Some(description)) = (name, description) else {
        let claimed = find(fields, "name").and_then(|field| field.value.text());
        let claimed_name = claimed.map(|name| name.trim().to_owned());
        return Outcome { manifest: None, claimed_name, notes };
    };
    let manifest = Manifest {
        name,
        display_name,
        description,
        license,
        compatibility,
        allowed_tools,
        derived: name_derived || description_derived,
        raw: parsed.front_matter(),
    };
    Outcome { manifest: Some(manifest), claimed_name: None, notes }
}

fn unknown_fields(fields: &[Field<'_>], notes: &mut Vec<Note>) {
    let mut unknown: Vec<&Field<'_>> = fields.iter().filter(|field| !is_known(&field.key)).collect();
    let Some(first) = unknown.first() else { return };
    let at = first.at;
    unknown.sort_by(|a, b| a.key.cmp(&b.key));
    let names: Vec<&str> = unknown.iter().map(|field| &*field.key).collect();
    let message = format!(
        "Unexpected fields in frontmatter: {}. Only ['{}'] are allowed.",
        names.join(", "),
        KNOWN_FIELDS.join("', '")
    );
    notes.push(Note { strict: true, ..Note::lint(Code::UnknownField, message) }.at(at));
    for field in unknown {
        if let Some((key, client)) = KNOWN_EXTENSIONS.iter().find(|(key, _)| *key == field.key) {
            let message = format!(
                "the field '{key}' is an extension of {client}; it is kept for callers, but no part of the specification"
            );
            notes.push(Note::lint(Code::KnownExtension, message).at(field.at));
        }
    }
}

type NameParts = (Option<SkillName>, Option<String>, bool);

fn read_name(
    fields: &[Field<'_>],
    folder: &OsStr,
    has_front_matter: bool,
    notes: &mut Vec<Note>,
) -> NameParts {
    let folder = folder.to_str();
    let field = find(fields, "name");
    let from_folder = |notes: &mut Vec<Note>| {
        let name = folder.and_then(|folder| SkillName::new(name::nfkc(folder)).ok());
        if name.is_none() {
            let message = "the skill has no usable name: neither the field 'name' nor its folder can name a folder \
                           in a workspace; set 'name' to lower-case letters, digits and hyphens";
            notes.push(Note::error(Code::NameUnusable, message));
        }
        name
    };
    let Some(field) = field else {
        if has_front_matter {
            notes.push(Note::warning(Code::MissingName, "Missing required field in frontmatter: name"));
        }
        return (from_folder(notes), None, true);
    };
    let spelling = field.value.text().map(str::trim).unwrap_or_default();
    if spelling.is_empty() {
        let code = if matches!(field.value, Node::Scalar { .. }) { Code::NameEmpty } else { Code::WrongType };
        notes.push(Note::warning(code, "Field 'name' must be a non-empty string").at(field.at));
        return (from_folder(notes), None, true);
    }
    let start = notes.len();
    let normal = name::nfkc(spelling);
    name::check(&normal, notes);
    if folder.map(name::nfkc).as_deref() != Some(&*normal) {
        let message = format!(
            "Directory name '{}' must match skill name '{normal}'",
            folder.map_or_else(|| "(not UTF-8)".into(), str::to_owned)
        );
        notes.push(Note::warning(Code::DirectoryMismatch, message));
    }
    if name::is_not_portable(spelling) {
        let message = format!(
            "the name '{spelling}' is valid here, but some hosts accept only a-z, 0-9 and hyphens, with a letter"
        );
        notes.push(Note::lint(Code::NameNotPortable, message));
    }
    for note in &mut notes[start..] {
        note.at = Some(field.at);
    }
    let name = SkillName::new(&*normal).ok();
    let display_name =
        (name.as_ref().is_none_or(|name| name.as_str() != spelling)).then(|| spelling.to_owned());
    match name {
        Some(name) => (Some(name), display_name, false),
        None => (from_folder(notes), display_name, false),
    }
}

fn read_description(
    fields: &[Field<'_>],
    body: usize,
    context: &mut Context<'_>,
    notes: &mut Vec<Note>,
) -> (Option<String>, bool) {
    let field = find(fields, "description");
    let text = field.and_then(|field| field.value.text()).map(str::trim).unwrap_or_default();
    if text.is_empty() {
        let note = match field {
            None => {
                Note::error(Code::MissingDescription, "Missing required field in frontmatter: description")
            }
            Some(field) => {
                let code = match field.value {
                    Node::Scalar { .. } => Code::DescriptionEmpty,
                    _ => Code::WrongType,
                };
                Note::error(code, "Field 'description' must be a non-empty string").at(field.at)
            }
        };
        if context.options.derive_missing
            && let Some(paragraph) = (context.first_paragraph)(body)
        {
            if !fields.is_empty() {
                notes.push(Note { severity: crate::Severity::Warning, ..note });
            }
            return (Some(paragraph), true);
        }
        notes.push(note);
        return (None, false);
    }
    // The reference counts before it strips.
    let counted = field.and_then(|field| field.value.text()).unwrap_or_default();
    let at = field.map(|field| field.at);
    let count = if counted.len() > MAX_DESCRIPTION_CHARS { counted.chars().count() } else { 0 };
    if count > MAX_DESCRIPTION_CHARS {
        let message = format!("Description exceeds {MAX_DESCRIPTION_CHARS} character limit ({count} chars)");
        notes.push(Note::warning(Code::DescriptionTooLong, message).at(at));
    }
    if text.contains(['<', '>']) {
        let message = "the description holds '<' or '>', which some hosts refuse; say it in words";
        notes.push(Note::lint(Code::DescriptionMarkup, message).at(at));
    }
    (Some(text.to_owned()), false)
}

fn wrong_type(field: &Field<'_>, wanted: &str) -> Note {
    let message =
        format!("Field '{}' must be {wanted}, not {}; it is ignored", field.key, field.value.kind());
    Note::warning(Code::WrongType, message).at(field.at)
}

fn text_field(fields: &[Field<'_>], key: &str, notes: &mut Vec<Note>) -> Option<String> {
    let field = find(fields, key)?;
    let text = field.value.text().map(str::to_owned);
    if text.is_none() && !field.value.is_null() {
        notes.push(wrong_type(field, "a string"));
    }
    text
}

fn read_compatibility(fields: &[Field<'_>], notes: &mut Vec<Note>) -> Option<String> {
    let field = find(fields, "compatibility")?;
    let Some(text) = field.value.text() else {
        notes.push(Note::warning(Code::WrongType, "Field 'compatibility' must be a string").at(field.at));
        return None;
    };
    let count = text.chars().count();
    if count > MAX_COMPATIBILITY_CHARS {
        let message =
            format!("Compatibility exceeds {MAX_COMPATIBILITY_CHARS} character limit ({count} chars)");
        notes.push(Note::warning(Code::CompatibilityTooLong, message).at(field.at));
    }
    if text.trim().is_empty() {
        let message = "Field 'compatibility' must not be empty; leave it out";
        notes.push(Note::warning(Code::CompatibilityEmpty, message).at(field.at));
    }
    Some(text.to_owned())
}

fn read_allowed_tools(fields: &[Field<'_>], notes: &mut Vec<Note>) -> Option<String> {
    let field = find(fields, "allowed-tools")?;
    match &field.value {
        Node::Sequence(_) => {
            let message =
                "'allowed-tools' is a list; the specification asks for one string with spaces between";
            notes.push(Note::lint(Code::AllowedToolsList, message).at(field.at));
        }
        Node::Scalar { .. } => {}
        Node::Mapping(_) => notes.push(wrong_type(field, "a string of tool names with spaces between")),
    }
    allowed_tools(fields)
}

fn check_metadata(fields: &[Field<'_>], notes: &mut Vec<Note>) {
    let Some(field) = find(fields, "metadata") else { return };
    let Node::Mapping(fields) = &field.value else {
        if !field.value.is_null() {
            notes.push(wrong_type(field, "a mapping from strings to strings"));
        }
        return;
    };
    if let Some(nested) = fields.iter().find(|inner| !matches!(inner.value, Node::Scalar { .. })) {
        let message = format!(
            "metadata '{}' is {}; the specification knows only strings there, so other hosts may not read it",
            nested.key,
            nested.value.kind()
        );
        notes.push(Note::lint(Code::MetadataNested, message).at(nested.at));
    }
}
