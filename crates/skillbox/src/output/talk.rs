//! Messages for people, on stderr; results, on stdout.

use std::io::{self, IsTerminal as _, Write as _};

use serde::Serialize;

use super::harmless::{self, clean, is_unseen};

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
        self.say("1;31", "error", &clean(message));
    }

    pub(crate) fn warning(&self, message: &str) {
        self.say("1;33", "warning", &harmless::warning(message));
    }

    /// What is no reason to do anything.
    pub(crate) fn note(&self, message: &str) {
        self.line(&format!("note: {}", harmless::warning(message)));
    }

    pub(crate) fn hint(&self, message: &str) {
        self.say("1;36", "hint", &clean(message));
    }

    /// Text as it is; whoever calls has cleaned it.
    pub(crate) fn line(&self, text: &str) {
        // Where stderr is gone nobody is left to tell.
        let _ = writeln!(self.stderr.lock(), "{text}");
    }

    fn say(&self, colour: &str, label: &str, message: &str) {
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

/// Writes a value as indented JSON to stdout. What could act on a terminal or cannot be seen is escaped, also where JSON would allow it.
pub(crate) fn print_json(value: &impl Serialize) -> Result<(), serde_json::Error> {
    let json = serde_json::to_string_pretty(value)?;
    let mut out = io::BufWriter::new(io::stdout().lock());
    let mut rest = json.as_str();
    // Such characters occur in strings alone, where an escape means the same.
    while let Some((at, c)) = rest.char_indices().find(|(_, c)| *c != '\n' && is_unseen(*c)) {
        out.write_all(&rest.as_bytes()[..at]).map_err(serde_json::Error::io)?;
        for unit in c.encode_utf16(&mut [0; 2]) {
            write!(out, "\\u{unit:04x}").map_err(serde_json::Error::io)?;
        }
        rest = &rest[at + c.len_utf8()..];
    }
    writeln!(out, "{rest}").and_then(|()| out.flush()).map_err(serde_json::Error::io)
}
