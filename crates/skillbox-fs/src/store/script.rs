//! Judgements on what an import meets: first lines, line ends, and where links lead.

/// Turns CR LF into LF, also where a chunk ends between the two.
#[derive(Default)]
pub(super) struct LineEnds {
    held_back: bool,
    out: Vec<u8>,
}

impl LineEnds {
    /// The next chunk; the empty one is the end.
    pub(super) fn normalise(&mut self, chunk: &[u8]) -> &[u8] {
        self.out.clear();
        if chunk.is_empty() && std::mem::take(&mut self.held_back) {
            self.out.push(b'\r');
        }
        for byte in chunk {
            if std::mem::take(&mut self.held_back) && *byte != b'\n' {
                self.out.push(b'\r');
            }
            if *byte == b'\r' {
                self.held_back = true;
            } else {
                self.out.push(*byte);
            }
        }
        &self.out
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Shebang {
    None,
    Lf,
    CrLf,
}

impl Shebang {
    pub(super) fn of(head: &[u8]) -> Self {
        if !head.starts_with(b"#!") {
            return Self::None;
        }
        // The kernel reads at most 256 bytes of the line.
        match head[..head.len().min(256)].split(|b| *b == b'\n').next() {
            Some(line) if line.ends_with(b"\r") => Self::CrLf,
            _ => Self::Lf,
        }
    }
}

/// Whether the link at `path` with the text `target` stays within the skill, whatever else is in the skill.
///
/// `..` is accepted only at the beginning: there it climbs real folders. After a name it could climb out of wherever
/// another link leads.
pub(super) fn stays_inside(path: &[u8], target: &[u8]) -> bool {
    if target.is_empty() || target[0] == b'/' {
        return false;
    }
    let mut depth = path.split(|b| *b == b'/').count() - 1;
    let mut descending = false;
    for part in target.split(|b| *b == b'/') {
        match part {
            b"" | b"." => {}
            b".." if descending || depth == 0 => return false,
            b".." => depth -= 1,
            _ => descending = true,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::LineEnds;

    proptest! {
        #[test]
        fn line_ends_are_the_same_however_the_text_is_cut(text in "[a\r\n]{0,12}", cut in 0..12_usize) {
            let bytes = text.as_bytes();
            let (first, second) = bytes.split_at(cut.min(bytes.len()));
            let mut line_ends = LineEnds::default();
            let mut out = Vec::new();
            for chunk in [first, second].into_iter().filter(|chunk| !chunk.is_empty()).chain([&b""[..]]) {
                out.extend_from_slice(line_ends.normalise(chunk));
            }
            prop_assert_eq!(String::from_utf8_lossy(&out), text.replace("\r\n", "\n"));
        }

        #[test]
        fn links_that_stay_inside_never_climb_above_the_root(
            path in "[ab](/[ab]){0,3}",
            target in "((\\.\\.|\\.|[ab])/?){1,5}",
        ) {
            if super::stays_inside(path.as_bytes(), target.as_bytes()) {
                let mut depth = path.split('/').count() - 1;
                for part in target.split('/') {
                    match part {
                        "" | "." => {}
                        ".." => { prop_assert!(depth > 0); depth -= 1; }
                        _ => depth += 1,
                    }
                }
            }
        }
    }
}
