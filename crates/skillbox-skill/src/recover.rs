//! The one recovery of front matter that is not YAML: values with an unquoted `: `.
//!
//! `description: Build reports: weekly` is the commonest malformed skill. The recovery runs only after the YAML
//! parser refused the text, and touches only plain scalars of the top level. Whatever else begins in the value (a
//! quote, a flow collection, a block scalar, an anchor, an alias, a tag, a trailing comment) is left alone.

use crate::diagnostic::Position;

/// A text in which the offending values are quoted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Recovered {
    pub(crate) text: String,
    /// The key and the place (in the original text) of the first offending colon of each value.
    pub(crate) quoted: Vec<(String, Position)>,
}

/// Quotes the top-level plain scalars of `text` that hold `: `; `None` when there is nothing to quote, or when the
/// text has something at its top level whose extent a line-wise look cannot tell.
pub(crate) fn quote_colons(text: &str) -> Option<Recovered> {
    let lines: Vec<&str> = split_lines(text);
    let mut out = String::with_capacity(text.len() + 16);
    let mut quoted = Vec::new();
    let mut index = 0;
    while index < lines.len() {
        let block_end =
            index + 1 + lines[index + 1..].iter().take_while(|line| is_continuation(line)).count();
        let block = &lines[index..block_end];
        match rewrite(block)? {
            Some((key, column, rewritten)) => {
                let line = u32::try_from(index + 1).unwrap_or(u32::MAX);
                quoted.push((key, Position { line, column }));
                out.push_str(&rewritten);
            }
            None => block.iter().for_each(|line| out.push_str(line)),
        }
        index = block_end;
    }
    (!quoted.is_empty()).then_some(Recovered { text: out, quoted })
}

/// Lines with their terminators; LF, CRLF and CR.
fn split_lines(text: &str) -> Vec<&str> {
    let mut lines = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest
            .find(['\n', '\r'])
            .map_or(rest.len(), |at| if rest[at..].starts_with("\r\n") { at + 2 } else { at + 1 });
        let (line, tail) = rest.split_at(end);
        lines.push(line);
        rest = tail;
    }
    lines
}

fn is_continuation(line: &str) -> bool {
    line.starts_with([' ', '\t', '\n', '\r'])
}

/// A line of the top level and the indented ones under it. The outer `None` gives the whole text up.
#[allow(clippy::option_option, reason = "giving up and leaving a block alone are different answers")]
fn rewrite(block: &[&str]) -> Option<Option<(String, u32, String)>> {
    let first = block[0];
    let content = first.trim_end();
    if content.is_empty() || content.starts_with('#') {
        return Some(None);
    }
    if let Some(item) = content.strip_prefix("- ") {
        return (is_closed(item) && block[1..].iter().all(|line| is_closed_line(line))).then_some(None);
    }
    let (key, value) = split_key(content)?;
    let starts_block_scalar = value.starts_with(['|', '>']);
    if starts_block_scalar {
        return Some(None);
    }
    if !is_closed(value) || !block[1..].iter().all(|line| is_closed_line(line)) {
        return None;
    }
    let more = &block[1..];
    let holds_colon = content_holds_colon(value) || more.iter().any(|line| content_holds_colon(line));
    if !holds_colon || !is_plain(value) || !more.iter().all(|line| is_plain_continuation(line)) {
        return Some(None);
    }
    let start = content.len() - value.len();
    let whole: String = block.concat();
    let end = whole.trim_end().len();
    let inner = &whole[start..end];
    let rewritten = format!("{}'{}'{}", &whole[..start], inner.replace('\'', "''"), &whole[end..]);
    let column = content_column(content, start);
    Some(Some((key.to_owned(), column, rewritten)))
}

/// The column of the colon in the value, or of the value where it stands on a later line.
fn content_column(content: &str, start: usize) -> u32 {
    let colon = content[start..].find(": ").map_or(start, |at| start + at);
    u32::try_from(content[..colon].chars().count() + 1).unwrap_or(u32::MAX)
}

/// `key: value` with a key of letters, digits, `_` and `-`; the value may be empty.
fn split_key(content: &str) -> Option<(&str, &str)> {
    let (key, rest) = content.split_once(':')?;
    let simple = !key.is_empty() && key.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '-');
    let separated = rest.is_empty() || rest.starts_with([' ', '\t']);
    (simple && separated).then(|| (key, rest.trim_start()))
}

fn content_holds_colon(text: &str) -> bool {
    text.trim_end().contains(": ")
}

/// Whether a value is a plain scalar without a trailing comment.
fn is_plain(value: &str) -> bool {
    let special = ['"', '\'', '[', ']', '{', '}', '|', '>', '&', '*', '!', '%', '@', '`', '#', ','];
    !value.is_empty()
        && !value.starts_with(special)
        && !value.starts_with("- ")
        && !value.starts_with("? ")
        && !value.starts_with(": ")
        && !has_comment(value)
}

/// Whether an indented line can only be the continuation of a plain scalar, not a nested mapping or list.
fn is_plain_continuation(line: &str) -> bool {
    let content = line.trim();
    content.is_empty()
        || (split_key(content).is_none()
            && !content.starts_with("- ")
            && !content.starts_with('#')
            && !has_comment(content))
}

fn has_comment(text: &str) -> bool {
    text.contains(" #") || text.contains("\t#")
}

fn is_closed_line(line: &str) -> bool {
    let content = line.trim();
    let value = content.strip_prefix("- ").unwrap_or(content);
    is_closed(value) && split_key(value).is_none_or(|(_, value)| is_closed(value))
}

/// Whether what begins with a quote or a bracket also ends on this line.
fn is_closed(value: &str) -> bool {
    let value = value.trim();
    let Some(first) = value.chars().next() else { return true };
    let closing = match first {
        '"' => '"',
        '\'' => '\'',
        '[' => ']',
        '{' => '}',
        _ => return true,
    };
    value.len() > 1 && value.ends_with(closing)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::yaml;

    /// Texts around the edge of what YAML accepts.
    fn texts() -> impl Strategy<Value = String> {
        let piece = prop_oneof![
            Just("a"),
            Just("key"),
            Just(": "),
            Just(":"),
            Just(" "),
            Just("  "),
            Just("- "),
            Just("'"),
            Just("\""),
            Just("["),
            Just("]"),
            Just("{"),
            Just("}"),
            Just("|"),
            Just(">"),
            Just("#"),
            Just(" #"),
            Just("&n "),
            Just("*n"),
            Just("!t "),
            Just("\n"),
            Just("\nb: "),
            Just("\n  c: "),
            Just("\n  "),
            Just("x: y"),
            Just("\r\n"),
            Just(", "),
            Just("? "),
            Just("\t"),
        ];
        prop::collection::vec(piece, 0..14).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1000))]

        /// It runs only on what does not parse; even so, what parses would keep its meaning.
        #[test]
        fn what_parses_keeps_its_meaning(text in texts()) {
            let Ok(before) = yaml::parse(&text) else { return Ok(()) };
            if let Some(recovered) = quote_colons(&text) {
                let after = yaml::parse(&recovered.text);
                prop_assert_eq!(after.map(|document| document.root), Ok(before.root), "{:?}", recovered.text);
            }
        }

        #[test]
        fn only_quotes_are_added(text in texts()) {
            if let Some(recovered) = quote_colons(&text) {
                prop_assert_eq!(recovered.text.replace('\'', ""), text.replace('\'', ""));
            }
        }
    }

    #[test]
    fn f004_what_is_recovered_and_what_is_left_alone() {
        let recovered = |text: &str| quote_colons(text).map(|recovered| recovered.text);
        assert_eq!(recovered("a: b: c").as_deref(), Some("a: 'b: c'"));
        assert_eq!(recovered("a: it's b: c\nd: e\n").as_deref(), Some("a: 'it''s b: c'\nd: e\n"));
        assert_eq!(recovered("a: b: c\r\n  d\r\n").as_deref(), Some("a: 'b: c\r\n  d'\r\n"));
        for text in [
            "a: [x: y]",
            "a: \"x: y\"",
            "a: &n x: y",
            "a: foo: bar # note",
            "a: {x: y}",
            "a: 'x: y'",
            "a: *n x: y",
            "a: !t x: y",
            "a: |\n  x: y",
            "a: >-\n  x: y",
            "a:\n  b: c: d",
            "- a: b: c",
            "a: b: c\n  d: e",
            "# a: b: c",
        ] {
            assert_eq!(recovered(text), None, "{text:?}");
        }
    }
}
