//! Text that is what it looks like: what acts on a terminal, or cannot be seen, is escaped.

use std::fmt::Write as _;
use std::ops::RangeInclusive;

/// Characters that are not what they look like, or look like nothing. Unicode 16, from `UnicodeData.txt` the general categories Cf
/// (format), Zl, Zp and Zs (separators, but the space), Co (private use); from `PropList.txt` the noncharacters of plane 0; from
/// `DerivedCoreProperties.txt` the default-ignorable code points. Cc is [`char::is_control`]. Sorted.
const UNSEEN: &[RangeInclusive<char>] = &[
    '\u{a0}'..='\u{a0}',
    '\u{ad}'..='\u{ad}',
    '\u{34f}'..='\u{34f}',
    '\u{600}'..='\u{605}',
    '\u{61c}'..='\u{61c}',
    '\u{6dd}'..='\u{6dd}',
    '\u{70f}'..='\u{70f}',
    '\u{890}'..='\u{891}',
    '\u{8e2}'..='\u{8e2}',
    '\u{115f}'..='\u{1160}',
    '\u{1680}'..='\u{1680}',
    '\u{17b4}'..='\u{17b5}',
    '\u{180b}'..='\u{180f}',
    '\u{2000}'..='\u{200f}',
    '\u{2028}'..='\u{202f}',
    '\u{205f}'..='\u{206f}',
    // A symbol by its category, and blank all the same.
    '\u{2800}'..='\u{2800}',
    '\u{3000}'..='\u{3000}',
    '\u{3164}'..='\u{3164}',
    '\u{e000}'..='\u{f8ff}',
    '\u{fdd0}'..='\u{fdef}',
    '\u{fe00}'..='\u{fe0f}',
    '\u{feff}'..='\u{feff}',
    '\u{ffa0}'..='\u{ffa0}',
    '\u{fff0}'..='\u{fffb}',
    '\u{110bd}'..='\u{110bd}',
    '\u{110cd}'..='\u{110cd}',
    '\u{13430}'..='\u{1343f}',
    '\u{1bca0}'..='\u{1bca3}',
    '\u{1d173}'..='\u{1d17a}',
    '\u{e0000}'..='\u{e0fff}',
    '\u{f0000}'..='\u{10ffff}',
];

/// The longest path or word in a warning, in characters.
const LONGEST: usize = 200;

/// Whether a character is a control (C0, C1, delete) or overrides the direction of writing (Unicode TR 9).
pub(crate) fn acts(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{061c}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Whether a name with this character may not be what it looks like.
pub(crate) fn is_unseen(c: char) -> bool {
    // The last two code points of each plane are noncharacters.
    let unseen =
        |c: char| u32::from(c) & 0xfffe == 0xfffe || UNSEEN.binary_search_by(|range| order(range, c)).is_ok();
    c.is_control() || (!c.is_ascii() && unseen(c))
}

fn order(range: &RangeInclusive<char>, c: char) -> std::cmp::Ordering {
    if *range.end() < c {
        std::cmp::Ordering::Less
    } else if *range.start() > c {
        std::cmp::Ordering::Greater
    } else {
        std::cmp::Ordering::Equal
    }
}

/// Whether running text needs the character for its spelling: other spaces, the joiners, the variation selectors.
fn is_of_prose(c: char) -> bool {
    c.is_whitespace() && !matches!(c, '\u{2028}' | '\u{2029}') && !c.is_control()
        || matches!(c, '\u{200c}' | '\u{200d}' | '\u{fe00}'..='\u{fe0f}')
}

/// A message with everything escaped that acts or cannot be seen; lines stay lines.
pub(crate) fn clean(text: &str) -> String {
    escape(text, |c| is_unseen(c) && !matches!(c, '\n' | '\t'))
}

/// Running text of an author, such as a description: like [`clean`], but with the characters that languages need.
pub(crate) fn clean_prose(text: &str) -> String {
    escape(text, |c| is_unseen(c) && !matches!(c, '\n' | '\t') && !is_of_prose(c))
}

fn escape(text: &str, bad: impl Fn(char) -> bool) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        if bad(c) {
            escaped.extend(c.escape_default());
        } else {
            escaped.push(c);
        }
    }
    escaped
}

/// A name or path in one line that says exactly what it is: also backslashes, and bytes that are no text, are escaped.
pub(crate) fn printable(name: &[u8]) -> String {
    let mut shown = String::new();
    for chunk in name.utf8_chunks() {
        shown.push_str(&escape(chunk.valid(), |c| is_unseen(c) || c == '\\'));
        for byte in chunk.invalid() {
            // Writing to a String cannot fail.
            let _ = write!(shown, "\\x{byte:02x}");
        }
    }
    shown
}

/// A warning's text, [`clean`], in which overlong paths are cut in their middle: those in double quotes, and those without spaces.
pub(crate) fn warning(message: &str) -> String {
    let text = clean(message);
    let mut short = String::with_capacity(text.len());
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let word = match quoted(rest) {
            Some(length) => length,
            None => rest.find(char::is_whitespace).unwrap_or(rest.len()),
        };
        push_short(&mut short, &rest[..word]);
        rest = &rest[word..];
        let blank = rest.find(|c: char| !c.is_whitespace()).unwrap_or(rest.len());
        short.push_str(&rest[..blank]);
        rest = &rest[blank..];
    }
    short
}

/// The length of the string in double quotes at the beginning, as [`std::fmt::Debug`] writes it.
fn quoted(text: &str) -> Option<usize> {
    let mut escaped = false;
    for (at, byte) in text.strip_prefix('"')?.bytes().enumerate() {
        match byte {
            b'"' if !escaped => return Some(at + 2),
            _ => escaped = byte == b'\\' && !escaped,
        }
    }
    None
}

fn push_short(short: &mut String, word: &str) {
    const TAIL: usize = 80;
    let length = word.chars().count();
    if length <= LONGEST {
        short.push_str(word);
    } else {
        short.extend(word.chars().take(LONGEST - TAIL - 1));
        short.push('…');
        short.extend(word.chars().skip(length - TAIL));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_acts_stays() {
        assert_eq!(clean("a\x1b]0;x\x07b"), "a\\u{1b}]0;x\\u{7}b");
        assert_eq!(clean("x\u{202e}y\u{9b}z"), "x\\u{202e}y\\u{9b}z");
        assert_eq!(clean("plain ä 数\n"), "plain ä 数\n");
    }

    #[test]
    fn any_name_is_one_harmless_line() {
        let name = b"out/\x1b[2J\n\xff\\\xe6\x95\xb0 \t\xe2";
        assert_eq!(printable(name), "out/\\u{1b}[2J\\n\\xff\\\\\u{6570} \\t\\xe2");
    }

    #[test]
    fn names_with_characters_that_cannot_be_seen_do_not_look_like_others() {
        let unseen = [
            '\u{ad}',
            '\u{a0}',
            '\u{34f}',
            '\u{600}',
            '\u{115f}',
            '\u{180e}',
            '\u{200b}',
            '\u{200d}',
            '\u{2009}',
            '\u{2028}',
            '\u{2029}',
            '\u{202e}',
            '\u{2060}',
            '\u{2065}',
            '\u{206f}',
            '\u{2800}',
            '\u{3000}',
            '\u{3164}',
            '\u{e000}',
            '\u{fdd0}',
            '\u{fe0f}',
            '\u{feff}',
            '\u{ffa0}',
            '\u{fff9}',
            '\u{ffff}',
            '\u{1fffe}',
            '\u{e0001}',
            '\u{e0041}',
            '\u{e007f}',
            '\u{e0100}',
            '\u{f0000}',
            '\u{10ffff}',
            '\u{85}',
            '\u{7f}',
        ];
        for c in unseen {
            let escaped = format!("\\u{{{:x}}}", u32::from(c));
            assert_eq!(printable(format!("a{c}.csv").as_bytes()), format!("a{escaped}.csv"));
            assert_eq!(clean(&c.to_string()), escaped);
        }
        for seen in ["a b", "Ünï", "数", "😀", "क्षि", "한글", "العربية", "e\u{301}", "\u{fffd}"]
        {
            assert_eq!((printable(seen.as_bytes()), clean(seen)), (seen.to_owned(), seen.to_owned()));
        }
    }

    #[test]
    fn every_control_space_and_separator_is_covered() {
        let spaces = (0..=0x0010_ffff).filter_map(char::from_u32);
        for c in spaces.filter(|c| *c != ' ' && (c.is_whitespace() || c.is_control() || acts(*c))) {
            assert!(is_unseen(c), "{c:?}");
        }
        assert!(UNSEEN.windows(2).all(|pair| pair[0].end() < pair[1].start()), "sorted");
    }

    #[test]
    fn prose_keeps_what_languages_need_and_loses_what_hides() {
        let text = "می\u{200c}خواهم ❤\u{fe0f} 5\u{a0}% 数\u{3000}数";
        assert_eq!(clean_prose(text), text);
        assert_eq!(clean_prose("a\u{e0041}\u{2028}\u{ad}\u{202e}"), "a\\u{e0041}\\u{2028}\\u{ad}\\u{202e}");
    }

    #[test]
    fn overlong_paths_in_warnings_are_cut_in_their_middle() {
        let path = format!("/start/{}/end.txt", "x".repeat(4000));
        let spaced = format!("{:?}", format!("/start/{}\"\\/end.txt", "x y".repeat(1000)));
        for path in [path, spaced] {
            let text = warning(&format!("the file {path} was  not\nsaved"));
            assert!(text.starts_with("the file ") && text.ends_with(" was  not\nsaved"), "{text}");
            assert!(text.contains("/start/") && text.contains('…') && text.contains("/end.txt"), "{text}");
            assert!(text.chars().count() < 250, "{text}");
        }
        let short = "\"a b\": \"open and c";
        assert_eq!(warning(short), short);
    }
}
