//! Messages for people, on stderr; results, on stdout.

use std::io::{self, IsTerminal as _, Write as _};

use serde::Serialize;

/// Says things on stderr.
#[derive(Debug)]
pub(crate) struct Talk {
    stderr: io::Stderr,
    colour: bool,
}

impl Talk {
    pub(crate) fn new(no_color: bool) -> Self {
        let stderr = io::stderr();
        let colour = !no_color && stderr.is_terminal();
        Self { stderr, colour }
    }

    pub(crate) fn error(&self, message: &str) {
        self.say("1;31", "error", message);
    }

    pub(crate) fn warning(&self, message: &str) {
        self.say("1;33", "warning", message);
    }

    pub(crate) fn hint(&self, message: &str) {
        self.say("1;36", "hint", message);
    }

    /// Text as it is; whoever calls has cleaned it.
    pub(crate) fn line(&self, text: &str) {
        // Where stderr is gone nobody is left to tell.
        let _ = writeln!(self.stderr.lock(), "{text}");
    }

    fn say(&self, colour: &str, label: &str, message: &str) {
        let message = clean(message);
        if self.colour {
            self.line(&format!("\x1b[{colour}m{label}:\x1b[0m {message}"));
        } else {
            self.line(&format!("{label}: {message}"));
        }
    }
}

/// Writes a line to stdout.
pub(crate) fn print_line(text: &str) -> io::Result<()> {
    writeln!(io::stdout().lock(), "{text}")
}

/// Writes a value as indented JSON to stdout. What could act on a terminal is escaped, also where JSON would allow it.
pub(crate) fn print_json(value: &impl Serialize) -> Result<(), serde_json::Error> {
    let json = serde_json::to_string_pretty(value)?;
    let mut out = io::BufWriter::new(io::stdout().lock());
    let mut rest = json.as_str();
    // Such characters occur in strings alone, where an escape means the same.
    while let Some((at, c)) = rest.char_indices().find(|(_, c)| *c != '\n' && acts(*c)) {
        write!(out, "{}\\u{:04x}", &rest[..at], u32::from(c)).map_err(serde_json::Error::io)?;
        rest = &rest[at + c.len_utf8()..];
    }
    writeln!(out, "{rest}").and_then(|()| out.flush()).map_err(serde_json::Error::io)
}

/// Text with the characters escaped that could act on a terminal or change the order of others; lines stay lines.
pub(crate) fn clean(text: &str) -> String {
    let mut cleaned = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\t' => cleaned.push(c),
            c if acts(c) => cleaned.extend(c.escape_default()),
            c => cleaned.push(c),
        }
    }
    cleaned
}

/// Whether a character is a control (C0, C1, delete) or overrides the direction of writing (Unicode TR 9).
pub(crate) fn acts(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{061c}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::clean;

    #[test]
    fn nothing_that_acts_stays() {
        assert_eq!(clean("a\x1b]0;x\x07b"), "a\\u{1b}]0;x\\u{7}b");
        assert_eq!(clean("x\u{202e}y\u{9b}z"), "x\\u{202e}y\\u{9b}z");
        assert_eq!(clean("plain ä 数\n"), "plain ä 数\n");
    }
}
