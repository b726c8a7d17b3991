//! The one parser of SKILL.md behind every entry point: fences, then YAML, then at most one recovery.

use std::borrow::Cow;

use serde_json::{Map, Value};

use crate::diagnostic::{Code, Note, Position};
use crate::split::{MAX_FRONT_MATTER_BYTES, Parts, Split, split};
use crate::{recover, simple, yaml};

/// A front matter as it was written: its fields in the order of the text.
///
/// Kept as text and parsed when asked, since listings need none of it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FrontMatter {
    source: Box<str>,
}

impl FrontMatter {
    /// The YAML between the fences; where values had to be quoted to make it YAML, with those quotes.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The value of `key` as JSON.
    ///
    /// Plain scalars become null, booleans and numbers as in YAML 1.2's core schema, but a number only where JSON
    /// writes it with the same characters: `1.0` is a number, `1.10`, `007` and `1e3` stay texts.
    pub fn get(&self, key: &str) -> Option<Value> {
        find(&self.fields(), key).map(|field| field.value.to_json())
    }

    /// All fields as a JSON object in the order of the text; values as in [`get`](Self::get).
    pub fn to_json(&self) -> Map<String, Value> {
        yaml::fields_to_json(&self.fields())
    }

    /// The fields; the text was parsed before, so it parses again.
    pub(crate) fn fields(&self) -> Vec<yaml::Field<'_>> {
        if let Some(fields) = simple::parse(&self.source) {
            return fields;
        }
        match yaml::parse(&self.source) {
            Ok(yaml::Document { root: yaml::Node::Mapping(fields), .. }) => fields,
            _ => Vec::new(),
        }
    }
}

/// The field of a key.
pub(crate) fn find<'f, 'a>(fields: &'f [yaml::Field<'a>], key: &str) -> Option<&'f yaml::Field<'a>> {
    fields.iter().find(|field| field.key == key)
}

/// The result of [`parse`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Parsed<'a> {
    pub(crate) fields: Vec<yaml::Field<'a>>,
    pub(crate) source: Cow<'a, str>,
    pub(crate) notes: Vec<Note>,
    /// Where the body begins, in bytes from the start of the file.
    pub(crate) body: usize,
}

impl Parsed<'_> {
    pub(crate) fn front_matter(&self) -> FrontMatter {
        FrontMatter { source: self.source.as_ref().into() }
    }
}

/// Why a text has no usable front matter, with the warnings that came before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) error: Note,
    pub(crate) notes: Vec<Note>,
    /// Where the text begins when it has no front matter at all.
    pub(crate) body: Option<usize>,
}

/// Reads from `read` until the closing fence and parses the front matter; `buffer` keeps what was read.
///
/// Reading stops at the fence, give or take one block, and in any case at [`MAX_FRONT_MATTER_BYTES`]. `read` works as
/// `read(2)`: it fills the slice from its start and returns 0 at the end of the file.
pub(crate) fn read<E>(
    buffer: &mut Vec<u8>,
    mut read: impl FnMut(&mut [u8]) -> Result<usize, E>,
) -> Result<Result<Parsed<'_>, Fault>, E> {
    /// Nearly every front matter fits.
    const FIRST_READ: usize = 2048;
    let mut filled = 0;
    let mut wanted = FIRST_READ;
    let mut complete = false;
    loop {
        if buffer.len() < wanted {
            buffer.resize(wanted, 0);
        }
        let count = read(&mut buffer[filled..wanted])?;
        complete |= count == 0;
        filled += count.min(wanted - filled);
        match split(&buffer[..filled], complete) {
            Split::NeedMore if filled >= MAX_FRONT_MATTER_BYTES => {
                return Ok(Err(too_large()));
            }
            Split::NeedMore => {
                if filled >= wanted {
                    wanted = (wanted * 4).min(MAX_FRONT_MATTER_BYTES);
                }
            }
            outcome => return Ok(interpret(&buffer[..filled], outcome)),
        }
    }
}

/// Parses the front matter of a whole text.
pub(crate) fn parse(text: &[u8]) -> Result<Parsed<'_>, Fault> {
    let head = &text[..text.len().min(MAX_FRONT_MATTER_BYTES)];
    match split(head, head.len() == text.len()) {
        Split::NeedMore => Err(too_large()),
        outcome => interpret(head, outcome),
    }
}

fn too_large() -> Fault {
    let message = format!(
        "SKILL.md frontmatter not properly closed with --- within its first {} KiB",
        MAX_FRONT_MATTER_BYTES / 1024
    );
    Fault { error: Note::error(Code::FrontMatterTooLarge, message), notes: Vec::new(), body: None }
}

fn interpret(text: &[u8], outcome: Split) -> Result<Parsed<'_>, Fault> {
    match outcome {
        Split::Found(parts) => parse_parts(text, &parts),
        Split::NoFence { bom, body } => {
            // A text in another encoding has no fence either: say what helps.
            let error = if is_not_utf8(text) {
                Note::error(Code::NotUtf8, "SKILL.md is not UTF-8 text; save it as UTF-8")
            } else {
                Note::error(Code::NoFrontMatter, "SKILL.md must start with YAML frontmatter (---)")
            };
            let notes = if bom { vec![bom_note()] } else { Vec::new() };
            Err(Fault { error, notes, body: Some(body) })
        }
        Split::Unterminated { line } => {
            let error = Note::error(
                Code::UnterminatedFrontMatter,
                "SKILL.md frontmatter not properly closed with ---",
            )
            .at(Position { line, column: 1 });
            Err(Fault { error, notes: Vec::new(), body: None })
        }
        Split::NeedMore => Err(too_large()),
    }
}

fn bom_note() -> Note {
    Note::warning(Code::ByteOrderMark, "the file begins with a byte-order mark; save it without one")
        .at(Position { line: 1, column: 1 })
}

fn parse_parts<'a>(text: &'a [u8], parts: &Parts) -> Result<Parsed<'a>, Fault> {
    let mut notes = Vec::new();
    if parts.bom {
        notes.push(bom_note());
    }
    if parts.blank_lines > 0 {
        let message = "blank lines before the opening ---; it should be the first line";
        notes.push(Note::warning(Code::LeadingBlankLines, message).at(Position { line: 1, column: 1 }));
    }
    let bytes = &text[parts.yaml.clone()];
    let source = match std::str::from_utf8(bytes) {
        Ok(source) => source,
        Err(error) => {
            let error =
                Note::error(Code::NotUtf8, "the front matter is not UTF-8 text; save SKILL.md as UTF-8")
                    .at(byte_position(bytes, error.valid_up_to()));
            return Err(Fault { error: moved(error, parts), notes, body: None });
        }
    };
    if let Some(mut fields) = simple::parse(source) {
        move_fields(&mut fields, parts);
        return Ok(Parsed { fields, source: source.into(), notes, body: parts.body });
    }
    let (document, source) = match yaml::parse(source) {
        Ok(document) => (document, Cow::Borrowed(source)),
        Err(error) => {
            let Some((document, quoted, warnings)) = recover(source, &error) else {
                let mut error = moved(error, parts);
                error.message = format!("Invalid YAML in frontmatter: {}", error.message);
                return Err(Fault { error, notes, body: None });
            };
            notes.extend(warnings.into_iter().map(|note| moved(note, parts)));
            (document, Cow::Owned(quoted))
        }
    };
    notes.extend(document.notes.into_iter().map(|note| moved(note, parts)));
    let yaml::Node::Mapping(mut fields) = document.root else {
        let error = Note::error(Code::NotAMapping, "SKILL.md frontmatter must be a YAML mapping")
            .at(Position { line: parts.yaml_line, column: 1 });
        return Err(Fault { error, notes, body: None });
    };
    move_fields(&mut fields, parts);
    Ok(Parsed { fields, source, notes, body: parts.body })
}

/// The one recovery, and the warnings that go with it.
fn recover(source: &str, error: &Note) -> Option<(yaml::Document<'static>, String, Vec<Note>)> {
    if error.code != Code::YamlSyntax {
        return None;
    }
    let recovered = recover::quote_colons(source)?;
    let document = yaml::parse(&recovered.text).ok()?;
    let document = yaml::Document { root: document.root.into_owned(), notes: document.notes };
    let warnings = recovered
        .quoted
        .into_iter()
        .map(|(key, at)| {
            let message = format!(
                "the value of '{key}' holds an unquoted ': ', which YAML does not allow; it was read as one text. \
                 Put the whole value in quotes"
            );
            Note::warning(Code::UnquotedColon, message).at(at)
        })
        .collect();
    Some((document, recovered.text, warnings))
}

/// Moves a place in the YAML to the place in the file.
fn moved(mut note: Note, parts: &Parts) -> Note {
    if let Some(at) = &mut note.at {
        at.line = at.line.saturating_add(parts.yaml_line - 1);
    }
    note
}

/// The same for the places of keys.
fn move_fields(fields: &mut [yaml::Field<'_>], parts: &Parts) {
    for field in fields {
        field.at.line = field.at.line.saturating_add(parts.yaml_line - 1);
        if let yaml::Node::Mapping(inner) = &mut field.value {
            move_fields(inner, parts);
        }
    }
}

/// Whether the text begins with something that is not UTF-8, other than a character that is cut off.
fn is_not_utf8(text: &[u8]) -> bool {
    const LOOK: usize = 1024;
    std::str::from_utf8(&text[..text.len().min(LOOK)]).is_err_and(|error| error.error_len().is_some())
}

fn byte_position(bytes: &[u8], at: usize) -> Position {
    let before = String::from_utf8_lossy(&bytes[..at]).replace("\r\n", "\n").replace('\r', "\n");
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    Position {
        line: u32::try_from(line).unwrap_or(u32::MAX),
        column: u32::try_from(column).unwrap_or(u32::MAX),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use proptest::prelude::*;

    use super::*;

    /// Reads `text` in reads of `size` bytes at most.
    fn read_in_parts(text: &[u8], size: usize) -> (Result<Vec<yaml::Field<'static>>, Fault>, usize) {
        let mut at = 0;
        let mut buffer = Vec::new();
        let parsed = read(&mut buffer, |part| -> Result<usize, ()> {
            let count = part.len().min(size).min(text.len() - at);
            part[..count].copy_from_slice(&text[at..at + count]);
            at += count;
            Ok(count)
        });
        let fields =
            parsed.unwrap().map(|parsed| parsed.fields.into_iter().map(yaml::Field::into_owned).collect());
        (fields, at)
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            let _ = parse(&bytes);
            let _ = parse(&[b"---\n", bytes.as_slice(), b"\n---\n"].concat());
        }

        #[test]
        fn no_text_makes_it_panic(text in "(---|\n|: |[a-c]|\"|'|\\[|\\{|- |#|\t|\u{feff}|&a|\\*a|!|\\||>|\\PC){0,40}") {
            let _ = parse(format!("---\n{text}\n---\n").as_bytes());
        }

        #[test]
        fn reading_in_parts_gives_the_same(text in "(---|\r|\n|: |[a-c]|name: x|\n---\n){0,12}", size in 1usize..9) {
            let whole = parse(text.as_bytes()).map(|parsed| parsed.fields.into_iter().map(yaml::Field::into_owned).collect());
            prop_assert_eq!(read_in_parts(text.as_bytes(), size).0, whole);
        }
    }

    #[test]
    fn f022_reading_stops_soon_after_the_fence() {
        let text = [b"---\nname: s\n---\n".as_slice(), &vec![b'x'; 1_000_000]].concat();
        let (fields, read) = read_in_parts(&text, usize::MAX);
        assert_eq!(fields.unwrap().len(), 1);
        assert!(read <= 4096);
        let text = [b"---\n".as_slice(), &b"# comment\n".repeat(100_000)].concat();
        let (fields, read) = read_in_parts(&text, usize::MAX);
        assert_eq!(fields.unwrap_err().error.code, Code::FrontMatterTooLarge);
        assert!(read <= MAX_FRONT_MATTER_BYTES);
    }

    #[test]
    fn the_source_parses_again_to_the_same_fields() {
        for yaml in ["name: a\nb: c\n", "name: [a, 'b']\nx: \"\\u00e9\"\n", "a: b: c\nd: e\n"] {
            let text = format!("---\n{yaml}---\n");
            let parsed = parse(text.as_bytes()).unwrap();
            let values = |fields: &[yaml::Field<'_>]| yaml::fields_to_json(fields);
            assert_eq!(values(&parsed.fields), parsed.front_matter().to_json());
        }
    }
}
