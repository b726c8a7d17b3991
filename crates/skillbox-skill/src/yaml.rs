//! YAML, as far as a front matter needs it: a tree that keeps the text of every scalar.
//!
//! The only module that knows the YAML parser. Its limits are tight, since the text is hostile: no aliases at all (so
//! nothing can grow), 4,096 nodes, 16 levels.

use std::borrow::Cow;

use granit_parser::{Event, Parser, ScalarStyle, Span, StructureStyle};
use serde_json::{Map, Number, Value};

use crate::diagnostic::{Code, Note, Position};

const MAX_NODES: usize = 4096;
const MAX_DEPTH: usize = 16;

/// A YAML node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Node<'a> {
    /// A scalar: its text after folding and unescaping, and whether it was plain (so subject to typing).
    Scalar {
        text: Cow<'a, str>,
        plain: bool,
    },
    Sequence(Vec<Self>),
    /// In the order of the text; a repeated key keeps its first place and its last value.
    Mapping(Vec<Field<'a>>),
}

/// A key and its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Field<'a> {
    pub(crate) key: Cow<'a, str>,
    pub(crate) value: Node<'a>,
    pub(crate) at: Position,
}

impl Node<'_> {
    /// The text of a scalar that is not null.
    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Self::Scalar { text, plain } if !(*plain && is_null(text)) => Some(text),
            _ => None,
        }
    }

    /// The text of any scalar, as written even where it means null.
    pub(crate) fn written(&self) -> Option<&str> {
        match self {
            Self::Scalar { text, .. } => Some(text),
            _ => None,
        }
    }

    pub(crate) fn is_null(&self) -> bool {
        matches!(self, Self::Scalar { text, plain: true } if is_null(text))
    }

    pub(crate) fn into_owned(self) -> Node<'static> {
        match self {
            Self::Scalar { text, plain } => Node::Scalar { text: Cow::Owned(text.into_owned()), plain },
            Self::Sequence(items) => Node::Sequence(items.into_iter().map(Node::into_owned).collect()),
            Self::Mapping(fields) => Node::Mapping(fields.into_iter().map(Field::into_owned).collect()),
        }
    }

    /// What kind of thing it is, for messages.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Scalar { .. } if self.is_null() => "null",
            Self::Scalar { .. } => "a scalar",
            Self::Sequence(_) => "a list",
            Self::Mapping(_) => "a mapping",
        }
    }

    /// The value as JSON. Plain scalars become null, booleans and numbers as in YAML 1.2's core schema, but a number
    /// only when JSON writes it with the same characters: `1.10` stays the text `"1.10"`.
    pub(crate) fn to_json(&self) -> Value {
        match self {
            Self::Scalar { text, plain: true } => plain_to_json(text),
            Self::Scalar { text, plain: false } => Value::String(text.to_string()),
            Self::Sequence(items) => Value::Array(items.iter().map(Node::to_json).collect()),
            Self::Mapping(fields) => Value::Object(fields_to_json(fields)),
        }
    }
}

impl Field<'_> {
    /// The same, free of the text that it was read from.
    pub(crate) fn into_owned(self) -> Field<'static> {
        Field { key: Cow::Owned(self.key.into_owned()), value: self.value.into_owned(), at: self.at }
    }
}

pub(crate) fn fields_to_json(fields: &[Field<'_>]) -> Map<String, Value> {
    fields.iter().map(|field| (field.key.to_string(), field.value.to_json())).collect()
}

fn is_null(text: &str) -> bool {
    matches!(text, "" | "~" | "null" | "Null" | "NULL")
}

fn plain_to_json(text: &str) -> Value {
    match text {
        "true" | "True" | "TRUE" => return Value::Bool(true),
        "false" | "False" | "FALSE" => return Value::Bool(false),
        _ if is_null(text) => return Value::Null,
        _ => {}
    }
    number(text).map_or_else(|| Value::String(text.to_owned()), Value::Number)
}

fn number(text: &str) -> Option<Number> {
    if !text.starts_with(|c: char| c.is_ascii_digit() || c == '-') {
        return None;
    }
    let number = match text.parse::<i64>() {
        Ok(integer) => Number::from(integer),
        Err(_) => Number::from_f64(text.parse().ok()?)?,
    };
    (number.to_string() == text).then_some(number)
}

/// A parsed document, whatever its root is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Document<'a> {
    pub(crate) root: Node<'a>,
    pub(crate) notes: Vec<Note>,
}

/// Parses one YAML document. Positions are those in `text`; the caller moves them to where the text stands.
pub(crate) fn parse(text: &str) -> Result<Document<'_>, Note> {
    let options = granit_parser::options! { emit_comments: false, disallow_directives: true };
    let mut builder = Builder::default();
    for step in Parser::new_from_str_with_options(text, options) {
        let (event, span) =
            step.map_err(|error| Note::error(Code::YamlSyntax, error.info()).at(position(error.marker())))?;
        builder.event(event, span)?;
    }
    let root = builder.root.unwrap_or(Node::Scalar { text: Cow::Borrowed(""), plain: true });
    Ok(Document { root, notes: builder.notes })
}

fn position(marker: &granit_parser::Marker) -> Position {
    Position { line: small(marker.line()), column: small(marker.col()).saturating_add(1) }
}

fn small(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

enum Frame<'a> {
    Sequence(Vec<Node<'a>>),
    Mapping { fields: Vec<Field<'a>>, key: Option<(Cow<'a, str>, Position)> },
}

#[derive(Default)]
struct Builder<'a> {
    root: Option<Node<'a>>,
    stack: Vec<Frame<'a>>,
    nodes: usize,
    documents: usize,
    notes: Vec<Note>,
    lints_said: u8,
}

impl<'a> Builder<'a> {
    fn event(&mut self, event: Event<'a>, span: Span) -> Result<(), Note> {
        let at = position(&span.start);
        match event {
            Event::DocumentStart(..) => {
                self.documents += 1;
                if self.documents > 1 {
                    return Err(Note::error(Code::YamlSyntax, "a second YAML document begins here").at(at));
                }
            }
            Event::Alias(_) | Event::UnresolvedAlias(_) => {
                let message = "YAML aliases (*name) are not accepted in a front matter; write the value out";
                return Err(Note::error(Code::YamlAlias, message).at(at));
            }
            Event::Scalar(text, style, anchor, tag) => {
                self.count(at)?;
                let mut plain = style == ScalarStyle::Plain;
                if let Some(tag) = tag {
                    if tag.suffix() == "str" || tag.suffix().is_empty() {
                        plain = false;
                    }
                    self.lint(2, "tag (!tag)", at);
                }
                self.anchor(anchor, at);
                let starts_a_value = text.is_empty() && plain;
                // An empty plain scalar has no place of its own that would help.
                self.push(Node::Scalar { text, plain }, if starts_a_value { None } else { Some(at) })?;
            }
            Event::SequenceStart(style, anchor, tag) => {
                self.open(style, anchor, tag.is_some(), at)?;
                self.stack.push(Frame::Sequence(Vec::new()));
            }
            Event::MappingStart(style, anchor, tag) => {
                self.open(style, anchor, tag.is_some(), at)?;
                self.stack.push(Frame::Mapping { fields: Vec::new(), key: None });
            }
            Event::SequenceEnd | Event::MappingEnd => match self.stack.pop() {
                Some(Frame::Sequence(items)) => self.push(Node::Sequence(items), Some(at))?,
                Some(Frame::Mapping { fields, .. }) => self.push(Node::Mapping(fields), Some(at))?,
                None => {}
            },
            _ => {}
        }
        Ok(())
    }

    fn count(&mut self, at: Position) -> Result<(), Note> {
        self.nodes += 1;
        if self.nodes > MAX_NODES {
            let message = format!("the front matter has more than {MAX_NODES} values");
            return Err(Note::error(Code::YamlLimit, message).at(at));
        }
        Ok(())
    }

    fn open(&mut self, style: StructureStyle, anchor: usize, tagged: bool, at: Position) -> Result<(), Note> {
        self.count(at)?;
        if self.stack.len() >= MAX_DEPTH {
            let message = format!("the front matter is nested more than {MAX_DEPTH} levels deep");
            return Err(Note::error(Code::YamlLimit, message).at(at));
        }
        if matches!(self.stack.last(), Some(Frame::Mapping { key: None, .. })) {
            return Err(Note::error(Code::YamlSyntax, "a list or a mapping cannot be a key").at(at));
        }
        if style == StructureStyle::Flow {
            self.lint(1, "flow collection ([a, b] or {a: b})", at);
        }
        if tagged {
            self.lint(2, "tag (!tag)", at);
        }
        self.anchor(anchor, at);
        Ok(())
    }

    fn anchor(&mut self, anchor: usize, at: Position) {
        if anchor != 0 {
            self.lint(4, "anchor (&name)", at);
        }
    }

    /// Says each kind of unportable YAML once.
    fn lint(&mut self, bit: u8, what: &str, at: Position) {
        if self.lints_said & bit == 0 {
            self.lints_said |= bit;
            let message =
                format!("a YAML {what} is not read by every host of skills; write it in block style");
            self.notes.push(Note::lint(Code::YamlNotPortable, message).at(at));
        }
    }

    fn push(&mut self, node: Node<'a>, at: Option<Position>) -> Result<(), Note> {
        match self.stack.last_mut() {
            None => self.root = Some(node),
            Some(Frame::Sequence(items)) => items.push(node),
            Some(Frame::Mapping { fields, key }) => {
                let Some((name, key_at)) = key.take() else {
                    let Node::Scalar { text, .. } = node else {
                        return Err(
                            Note::error(Code::YamlSyntax, "a list or a mapping cannot be a key").at(at)
                        );
                    };
                    *key = Some((text, at.unwrap_or_default()));
                    return Ok(());
                };
                if let Some(earlier) = fields.iter_mut().find(|field| field.key == name) {
                    earlier.value = node;
                    let message = format!("the key '{name}' stands twice; the last value is used");
                    self.notes.push(Note::warning(Code::DuplicateKey, message).at(key_at));
                } else {
                    fields.push(Field { key: name, value: node, at: key_at });
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use serde_json::json;

    use super::*;

    #[test]
    fn f021_only_numbers_that_json_writes_alike_are_numbers() {
        for (text, value) in [
            ("1", json!(1)),
            ("-7", json!(-7)),
            ("1.0", json!(1.0)),
            ("0.25", json!(0.25)),
            ("1.10", json!("1.10")),
            ("007", json!("007")),
            ("0x10", json!("0x10")),
            ("1e3", json!("1e3")),
            ("1_000", json!("1_000")),
            (".inf", json!(".inf")),
            ("99999999999999999999", json!("99999999999999999999")),
            ("yes", json!("yes")),
            ("no", json!("no")),
            ("true", json!(true)),
            ("False", json!(false)),
            ("~", json!(null)),
            ("2026-11-30", json!("2026-11-30")),
            ("'1'", json!("1")),
        ] {
            let text = format!("a: {text}\n");
            assert_eq!(parse(&text).unwrap().root.to_json(), json!({ "a": value }), "{text}");
        }
    }

    #[test]
    fn keys_that_are_no_scalars_and_second_documents_are_refused() {
        for text in ["? [a]\n: b\n", "{a: b}: c\n", "a: b\n--- c\n", "a: b\n...\n---\nc: d\n"] {
            assert_eq!(parse(text).map_err(|note| note.code).unwrap_err(), Code::YamlSyntax, "{text:?}");
        }
    }
}
