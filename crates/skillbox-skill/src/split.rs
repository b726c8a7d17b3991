//! Where the front matter of a SKILL.md begins and ends. Bytes only: no YAML, no UTF-8.

use std::ops::Range;

/// The most bytes that are searched for the closing fence.
pub const MAX_FRONT_MATTER_BYTES: usize = 256 * 1024;

/// The parts of a text that has a front matter, as ranges of its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Parts {
    /// Whether one byte-order mark stands at the start.
    pub(crate) bom: bool,
    /// Blank lines before the opening fence.
    pub(crate) blank_lines: u32,
    /// The lines between the fences.
    pub(crate) yaml: Range<usize>,
    /// The line (from 1) on which `yaml` begins.
    pub(crate) yaml_line: u32,
    /// Where the body begins.
    pub(crate) body: usize,
}

/// The outcome of looking at the first bytes of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Split {
    /// Both fences were found.
    Found(Parts),
    /// The first line that is not blank is no fence. `body` is where the text begins, after a byte-order mark.
    NoFence { bom: bool, body: usize },
    /// The text ends before the closing fence; the opening one is on `line`.
    Unterminated { line: u32 },
    /// These bytes do not decide it and there are more.
    NeedMore,
}

const BOM: &[u8] = b"\xEF\xBB\xBF";

/// Splits `text`; `complete` says whether it is the whole file or only its beginning.
///
/// A fence is a line that is exactly `---`, with nothing but blanks after it: the `---` of skills-ref, which splits
/// on any three hyphens, would cut a description that holds them.
pub(crate) fn split(text: &[u8], complete: bool) -> Split {
    if !complete && text.len() < BOM.len() {
        return Split::NeedMore;
    }
    let bom = text.starts_with(BOM);
    let start = if bom { BOM.len() } else { 0 };
    let mut lines = Lines { text, at: start, complete };
    let mut line_number = 0;
    let opening = loop {
        line_number += 1;
        match lines.next() {
            Line::Whole { content, .. } if is_blank(&text[content.clone()]) => {
                if content.end == text.len() {
                    return Split::NoFence { bom, body: start };
                }
            }
            Line::Whole { content, .. } if is_fence(&text[content.clone()]) => break line_number,
            Line::Partial { content } => {
                // A long first line need not be read to its end.
                let partial = text[content].trim_ascii_start();
                let hopeless =
                    !partial.is_empty() && !partial.starts_with(b"---") && !b"---".starts_with(partial);
                return if hopeless { Split::NoFence { bom, body: start } } else { Split::NeedMore };
            }
            Line::End if !complete => return Split::NeedMore,
            Line::Whole { .. } | Line::End => return Split::NoFence { bom, body: start },
        }
    };
    let yaml_start = lines.at;
    loop {
        match lines.next() {
            Line::Whole { content, next } if is_fence(&text[content.clone()]) => {
                return Split::Found(Parts {
                    bom,
                    blank_lines: opening - 1,
                    yaml: yaml_start..content.start,
                    yaml_line: opening + 1,
                    body: next,
                });
            }
            Line::Whole { .. } => {}
            Line::End if complete => return Split::Unterminated { line: opening },
            Line::Partial { .. } | Line::End => return Split::NeedMore,
        }
    }
}

fn is_blank(line: &[u8]) -> bool {
    line.iter().all(|byte| matches!(byte, b' ' | b'\t'))
}

fn is_fence(line: &[u8]) -> bool {
    line.strip_prefix(b"---").is_some_and(is_blank)
}

enum Line {
    /// A line without its terminator, and where the next one begins.
    Whole {
        content: Range<usize>,
        next: usize,
    },
    /// The bytes end within this line, and they are not the whole text.
    Partial {
        content: Range<usize>,
    },
    End,
}

struct Lines<'a> {
    text: &'a [u8],
    at: usize,
    complete: bool,
}

impl Lines<'_> {
    fn next(&mut self) -> Line {
        let start = self.at;
        if start >= self.text.len() {
            return Line::End;
        }
        let rest = &self.text[start..];
        let Some(length) = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r')) else {
            let content = start..self.text.len();
            if !self.complete {
                return Line::Partial { content };
            }
            self.at = self.text.len();
            return Line::Whole { content, next: self.at };
        };
        let end = start + length;
        let next = match (rest[length], rest.get(length + 1)) {
            (b'\r', Some(b'\n')) => end + 2,
            // It may be half of a CRLF.
            (b'\r', None) if !self.complete => return Line::Partial { content: start..end },
            _ => end + 1,
        };
        self.at = next;
        Line::Whole { content: start..end, next }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The parts as texts with LF line endings, and where they begin.
    fn parts(text: &str) -> Option<(String, String, u32, u32)> {
        match split(text.as_bytes(), true) {
            Split::Found(parts) => {
                let lf = |text: &str| text.replace("\r\n", "\n").replace('\r', "\n");
                Some((lf(&text[parts.yaml]), lf(&text[parts.body..]), parts.yaml_line, parts.blank_lines))
            }
            _ => None,
        }
    }

    fn fence_lines() -> impl Strategy<Value = String> {
        let line = prop_oneof![
            3 => Just("---".to_owned()),
            1 => Just("--- ".to_owned()),
            1 => Just("----".to_owned()),
            1 => Just(" ---".to_owned()),
            2 => Just(String::new()),
            3 => "[a-z:\\- \u{fe}]{0,6}",
        ];
        (prop::collection::vec(line, 0..12), any::<bool>(), any::<bool>()).prop_map(|(lines, end, bom)| {
            let bom = if bom { "\u{feff}" } else { "" };
            format!("{bom}{}{}", lines.join("\n"), if end { "\n" } else { "" })
        })
    }

    proptest! {
        #[test]
        fn line_endings_change_nothing(text in fence_lines()) {
            let expected = parts(&text);
            for ending in ["\r\n", "\r"] {
                prop_assert_eq!(&parts(&text.replace('\n', ending)), &expected);
            }
        }

        #[test]
        fn a_beginning_never_contradicts_the_whole(text in fence_lines(), ending in prop_oneof![Just("\n"), Just("\r\n"), Just("\r")]) {
            let text = text.replace('\n', ending);
            let whole = split(text.as_bytes(), true);
            for length in 0..=text.len() {
                let part = split(&text.as_bytes()[..length], false);
                prop_assert!(part == Split::NeedMore || part == whole, "{} bytes: {:?} and {:?}", length, part, whole);
            }
        }

        #[test]
        fn any_bytes_split_within_their_bounds(bytes in prop::collection::vec(any::<u8>(), 0..300), complete: bool) {
            if let Split::Found(parts) = split(&bytes, complete) {
                prop_assert!(parts.yaml.start <= parts.yaml.end && parts.yaml.end <= parts.body);
                prop_assert!(parts.body <= bytes.len());
            }
        }
    }
}
