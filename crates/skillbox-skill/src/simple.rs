//! The plainest front matter, read without the YAML parser.
//!
//! Most skills hold nothing but `key: value` lines and one level of `metadata`; a general parser needs more time for
//! them than opening and reading their files. This recognises a narrow subset of YAML in which one line has only one
//! meaning, and gives up (`None`) at anything else. A property test holds that whatever it accepts, the YAML parser
//! reads alike.

use std::borrow::Cow;

use crate::diagnostic::Position;
use crate::yaml::{Field, Node};

/// More fields than any plain front matter has; also bounds the search for repeated keys.
const MAX_FIELDS: usize = 64;

/// The fields of `text`, if it is one of the plainest.
pub(crate) fn parse(text: &str) -> Option<Vec<Field<'_>>> {
    let text = text.as_bytes().strip_suffix(b"\n")?;
    let mut fields: Vec<Field<'_>> = Vec::with_capacity(8);
    let mut nested: Option<Nested<'_>> = None;
    for (index, line) in text.split(|byte| *byte == b'\n').enumerate() {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let indent = line.iter().position(|byte| *byte != b' ')?;
        let (key, value) = key_and_value(&line[indent..])?;
        let at = Position { line: u32::try_from(index + 1).ok()?, column: u32::try_from(indent + 1).ok()? };
        if indent == 0 {
            close(&mut fields, nested.take())?;
            match value {
                Some(value) => add(&mut fields, Field { key, value, at })?,
                None => nested = Some(Nested { key, at, indent: 0, fields: Vec::with_capacity(4) }),
            }
        } else {
            let open = nested.as_mut()?;
            if open.indent == 0 {
                open.indent = indent;
            }
            if open.indent != indent {
                return None;
            }
            add(&mut open.fields, Field { key, value: value?, at })?;
        }
    }
    close(&mut fields, nested)?;
    Some(fields)
}

/// A key without a value on its line, and the lines under it.
struct Nested<'a> {
    key: Cow<'a, str>,
    at: Position,
    indent: usize,
    fields: Vec<Field<'a>>,
}

fn close<'a>(fields: &mut Vec<Field<'a>>, nested: Option<Nested<'a>>) -> Option<()> {
    let Some(Nested { key, at, fields: inner, .. }) = nested else { return Some(()) };
    // Without lines under it the value is null, which this leaves to the YAML parser.
    if inner.is_empty() {
        return None;
    }
    add(fields, Field { key, value: Node::Mapping(inner), at })
}

fn add<'a>(fields: &mut Vec<Field<'a>>, field: Field<'a>) -> Option<()> {
    let fits = fields.len() < MAX_FIELDS && fields.iter().all(|other| other.key != field.key);
    fits.then(|| fields.push(field))
}

/// `key:` or `key: value`, with a short key of ASCII letters, digits, `_` and `-`.
fn key_and_value(line: &[u8]) -> Option<(Cow<'_, str>, Option<Node<'_>>)> {
    const MAX_KEY: usize = 64;
    let end = line.iter().position(|byte| !(byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')))?;
    let (key, rest) = line.split_at(end);
    if end == 0 || end > MAX_KEY || key[0] == b'-' {
        return None;
    }
    let key = text(key)?;
    match rest {
        b":" => Some((key, None)),
        [b':', b' ', value @ ..] => Some((key, Some(scalar(trim_spaces(value))?))),
        _ => None,
    }
}

fn scalar(value: &[u8]) -> Option<Node<'_>> {
    let (first, last) = (*value.first()?, *value.last()?);
    if let b'"' | b'\'' = first {
        let inner = value.get(1..value.len() - 1).filter(|_| value.len() > 1 && last == first)?;
        let simple = inner.iter().all(|byte| is_printable(*byte) && *byte != first && *byte != b'\\');
        return if simple { Some(Node::Scalar { text: text(inner)?, plain: false }) } else { None };
    }
    if !first.is_ascii_alphanumeric() || matches!(last, b' ' | b':') {
        return None;
    }
    let mut before = first;
    for byte in &value[1..] {
        // `: ` would begin a value, ` #` a comment.
        if !is_printable(*byte) || matches!((before, *byte), (b':', b' ') | (b' ', b'#')) {
            return None;
        }
        before = *byte;
    }
    Some(Node::Scalar { text: text(value)?, plain: true })
}

fn trim_spaces(value: &[u8]) -> &[u8] {
    let start = value.iter().position(|byte| *byte != b' ').unwrap_or(value.len());
    &value[start..]
}

fn is_printable(byte: u8) -> bool {
    matches!(byte, b' '..=b'~')
}

fn text(bytes: &[u8]) -> Option<Cow<'_, str>> {
    std::str::from_utf8(bytes).ok().map(Cow::Borrowed)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::yaml;

    fn by_the_yaml_parser(text: &str) -> Option<Vec<Field<'_>>> {
        match yaml::parse(text) {
            Ok(yaml::Document { root: Node::Mapping(fields), notes }) if notes.is_empty() => Some(fields),
            _ => None,
        }
    }

    /// Lines that are often simple and often just not.
    fn lines() -> impl Strategy<Value = String> {
        let key = prop_oneof!["name|description|metadata|[a-zA-Z0-9_-]{1,4}", "[ -~]{1,3}"];
        let value = prop_oneof![
            4 => "[ -~]{0,12}",
            2 => "[a-zA-Z0-9 :#'\"-]{0,12}",
            1 => "\"[ -~]{0,6}\"",
            1 => "'[ -~]{0,6}'",
            1 => Just(String::new()),
            1 => "[a-z:\t\u{e9}\u{2028}\u{feff} ]{0,5}",
            1 => Just("true".to_owned()),
            1 => Just("null".to_owned()),
        ];
        let line = (
            prop_oneof![5 => Just(""), 2 => Just("  "), 1 => Just(" ")],
            key,
            prop_oneof![5 => Just(": "), 2 => Just(":"), 1 => Just(":  ")],
            value,
        )
            .prop_map(|(indent, key, colon, value)| format!("{indent}{key}{colon}{value}"));
        let any_line =
            prop_oneof![6 => line, 1 => "[ -~]{0,8}", 1 => Just(String::new()), 1 => Just("- a".to_owned())];
        (
            prop::collection::vec(any_line, 0..6),
            prop_oneof![3 => Just("\n"), 1 => Just("\r\n"), 1 => Just("\r")],
        )
            .prop_map(|(lines, ending)| lines.iter().flat_map(|line| [line.as_str(), ending]).collect())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1000))]

        #[test]
        fn what_it_accepts_the_yaml_parser_reads_alike(text in lines()) {
            if let Some(fields) = parse(&text) {
                prop_assert_eq!(Some(fields), by_the_yaml_parser(&text));
            }
        }
    }

    #[test]
    fn the_usual_front_matter_is_accepted() {
        let text = "name: a-b\ndescription: Use it: (no) it's 1.5x \u{2d}\nmetadata:\n  author: me\n  version: \"1.0\"\nlicense: MIT\n";
        // The colon before a blank is for the YAML parser to refuse.
        assert_eq!(parse(text), None);
        let text = text.replace("Use it: ", "Use it, ");
        assert_eq!(parse(&text), by_the_yaml_parser(&text));
        assert!(parse(&text).is_some());
    }
}
