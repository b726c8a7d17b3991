//! A program's output on its way to a terminal.
//!
//! A terminal obeys what is written to it: it changes its title, answers questions as if the user had typed, moves the cursor over
//! what stands there. From a script that nobody trusts, only text, line ends, tabs and colours get through.

use super::harmless::acts;

/// The longest colour sequence that is passed on.
const LONGEST: usize = 64;

/// Makes a stream of bytes harmless, whatever pieces it comes in.
#[derive(Debug, Default)]
pub(crate) struct TerminalFilter {
    /// The beginning of a character or of a sequence whose rest has not come.
    pending: Vec<u8>,
    coloured: bool,
}

impl TerminalFilter {
    /// The harmless form of the next bytes.
    pub(crate) fn pass(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut input = std::mem::take(&mut self.pending);
        input.extend_from_slice(bytes);
        let mut out = Vec::with_capacity(input.len());
        let mut rest = input.as_slice();
        while let Some(&first) = rest.first() {
            let taken = match first {
                b'\n' | b'\t' | b'\r' | b' '..=b'~' => {
                    out.push(first);
                    1
                }
                0x1b => match colour_sequence(rest) {
                    Sequence::Whole(length) => {
                        out.extend_from_slice(&rest[..length]);
                        self.coloured = true;
                        length
                    }
                    Sequence::Unfinished => break,
                    Sequence::Other => {
                        out.extend_from_slice(b"^[");
                        1
                    }
                },
                0..0x20 => {
                    out.extend_from_slice(&[b'^', first + 0x40]);
                    1
                }
                0x7f => {
                    out.extend_from_slice(b"^?");
                    1
                }
                _ => match character(rest) {
                    Some((Some(c), length)) => {
                        if acts(c) {
                            out.extend_from_slice(c.escape_unicode().to_string().as_bytes());
                        } else {
                            out.extend_from_slice(&rest[..length]);
                        }
                        length
                    }
                    Some((None, length)) => {
                        out.extend_from_slice("\u{fffd}".as_bytes());
                        length
                    }
                    None => break,
                },
            };
            rest = &rest[taken..];
        }
        self.pending = rest.to_vec();
        out
    }

    /// What is left when no more bytes come; also ends colours.
    pub(crate) fn finish(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        for byte in std::mem::take(&mut self.pending) {
            match byte {
                0x1b => out.extend_from_slice(b"^["),
                b' '..=b'~' => out.push(byte),
                _ => out.extend_from_slice("\u{fffd}".as_bytes()),
            }
        }
        if std::mem::take(&mut self.coloured) {
            out.extend_from_slice(b"\x1b[0m");
        }
        out
    }
}

enum Sequence {
    Whole(usize),
    Unfinished,
    Other,
}

/// "Select graphic rendition" (ECMA-48, 8.3.117): `ESC [`, digits, semicolons and colons, `m`.
fn colour_sequence(bytes: &[u8]) -> Sequence {
    match bytes.get(1) {
        None => return Sequence::Unfinished,
        Some(b'[') => {}
        Some(_) => return Sequence::Other,
    }
    for (at, byte) in bytes.iter().enumerate().skip(2).take(LONGEST) {
        match byte {
            b'0'..=b'9' | b';' | b':' => {}
            b'm' => return Sequence::Whole(at + 1),
            _ => return Sequence::Other,
        }
    }
    if bytes.len() < LONGEST { Sequence::Unfinished } else { Sequence::Other }
}

/// The character at the beginning and its length, or how many bytes are none; `None` where its end has not come.
fn character(bytes: &[u8]) -> Option<(Option<char>, usize)> {
    let window = &bytes[..bytes.len().min(4)];
    let text = match std::str::from_utf8(window) {
        Ok(text) => text,
        Err(error) if error.valid_up_to() > 0 => {
            std::str::from_utf8(&window[..error.valid_up_to()]).unwrap_or_default()
        }
        Err(error) => return error.error_len().map(|length| (None, length)),
    };
    text.chars().next().map(|c| (Some(c), c.len_utf8()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::TerminalFilter;

    fn whole(bytes: &[u8]) -> String {
        let mut filter = TerminalFilter::default();
        let mut out = filter.pass(bytes);
        out.extend(filter.finish());
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn text_and_colours_pass_and_colours_end() {
        assert_eq!(whole("ä 数\tx\r\n".as_bytes()), "ä 数\tx\r\n");
        assert_eq!(whole(b"\x1b[1;31mred"), "\x1b[1;31mred\x1b[0m");
    }

    #[test]
    fn what_acts_on_a_terminal_is_shown_instead() {
        assert_eq!(whole(b"\x1b]0;title\x07"), "^[]0;title^G");
        assert_eq!(whole(b"\x1b[2J\x1b[6n\x1bc"), "^[[2J^[[6n^[c");
        assert_eq!(whole("\u{9b}6n\u{202e}".as_bytes()), "\\u{9b}6n\\u{202e}");
        assert_eq!(whole(b"a\x9bb\xff\x08\x7f"), "a\u{fffd}b\u{fffd}^H^?");
        assert_eq!(whole(b"\x1b["), "^[[");
        assert_eq!(whole(b"\xe6\x95"), "\u{fffd}\u{fffd}");
    }

    #[test]
    fn pieces_make_no_difference() {
        let text = b"a\x1b[31mb\x1b]2;x\x07\xe6\x95\xb0\xc2\x9b\x1b[0m.\xff\x1b".as_slice();
        for size in 1..text.len() {
            let mut filter = TerminalFilter::default();
            let mut out: Vec<u8> = text.chunks(size).flat_map(|piece| filter.pass(piece)).collect();
            out.extend(filter.finish());
            assert_eq!(String::from_utf8(out).unwrap(), whole(text), "{size}");
        }
    }

    #[test]
    fn a_sequence_without_end_is_not_kept_forever() {
        let mut filter = TerminalFilter::default();
        let mut text = b"\x1b[".to_vec();
        text.extend([b'1'; 1000]);
        assert!(filter.pass(&text).len() > 900);
    }
}
