//! From the text of a pattern to globs as globset reads them, and to what is known before anything is matched.

use globset::{ErrorKind, Glob, GlobBuilder};

use super::MAX_SPECIAL;
use super::error::GlobErrorKind;

const MAX_BYTES: usize = 4096;
/// Less than globset takes (100): from 83 on the regular expression that it makes may be refused.
const MAX_NESTING: usize = 16;

/// A parsed pattern.
pub(super) struct Parsed {
    /// The path that the text names character by character.
    pub(super) literal: String,
    /// What matches: any of these.
    pub(super) globs: Vec<Glob>,
    /// The number of its special characters.
    pub(super) special: usize,
    /// The glob of the last name, unless the pattern ends in any number of names.
    pub(super) last: Option<String>,
    /// The plain names that the pattern begins with.
    pub(super) folder: Vec<String>,
    /// The number of names in a path that matches, unless there is no bound.
    pub(super) depth: Option<usize>,
}

/// Variables that may begin a pattern, and what they mean.
const VARIABLES: [(&str, &str); 4] =
    [("OUTPUT_DIR", "out"), ("WORK_DIR", "work"), ("SKILLS_DIR", "skills"), ("WORKSPACE_DIR", "")];

pub(super) fn parse(text: &str, variables: &[(&str, &str)]) -> Result<Parsed, GlobErrorKind> {
    if text.trim().is_empty() {
        return Err(GlobErrorKind::Empty);
    }
    if text.len() > MAX_BYTES {
        return Err(GlobErrorKind::TooLong);
    }
    if text.contains('\0') {
        return Err(GlobErrorKind::Nul);
    }
    let special = text.bytes().filter(|byte| matches!(byte, b'*' | b'?' | b'[' | b'{')).count();
    if special > MAX_SPECIAL {
        return Err(GlobErrorKind::TooComplex);
    }
    let (prefix, rest) = strip_prefix(text, variables)?;
    let mut components: Vec<Component> = names(prefix).map(Component::plain).collect();
    components.extend(split(rest)?);
    if components.iter().any(Component::is_parent) {
        return Err(GlobErrorKind::Parent);
    }
    let literal = names(prefix).chain(names(rest)).collect::<Vec<_>>().join("/");
    let only_below = text.ends_with('/');
    let is_wild = components.iter().any(|component| component.wild);
    let below = only_below || !is_wild;
    Ok(Parsed {
        globs: globs(&escape(&literal), &join(&components), only_below, below)?,
        special,
        literal,
        last: components.last().filter(|last| !only_below && last.glob != "**").map(|last| last.glob.clone()),
        depth: (!below && !components.iter().any(Component::is_deep)).then_some(components.len()),
        folder: components.into_iter().map_while(|c| (!c.wild && !c.braces).then_some(c.name)).collect(),
    })
}

/// The literal path and what is below it, then the pattern itself, with what is below it where it may name a folder.
fn globs(literal: &str, glob: &str, only_below: bool, below: bool) -> Result<Vec<Glob>, GlobErrorKind> {
    if glob.is_empty() {
        return Ok(vec![build("**")?]);
    }
    let mut globs = Vec::with_capacity(4);
    let wanted = [(literal, true), (glob, below)];
    for (text, below) in &wanted[usize::from(literal == glob)..] {
        if !only_below {
            globs.push(build(text)?);
        }
        if *below {
            globs.push(build(&format!("{text}/**"))?);
        }
    }
    Ok(globs)
}

/// A glob with the options of the dialect.
#[allow(clippy::disallowed_methods, reason = "the one place that sets every option that the dialect needs")]
pub(super) fn build(text: &str) -> Result<Glob, GlobErrorKind> {
    let built =
        GlobBuilder::new(text).literal_separator(true).empty_alternates(true).backslash_escape(true).build();
    built.map_err(|error| kind(error.kind()))
}

/// What an error of globset is called here.
pub(super) fn kind(kind: &ErrorKind) -> GlobErrorKind {
    match kind {
        ErrorKind::UnclosedClass => GlobErrorKind::UnclosedClass,
        ErrorKind::InvalidRange(..) => GlobErrorKind::ReversedRange,
        ErrorKind::UnclosedAlternates => GlobErrorKind::UnclosedBrace,
        ErrorKind::DanglingEscape => GlobErrorKind::TrailingBackslash,
        ErrorKind::TooManyNestedAlternates => GlobErrorKind::TooNested,
        _ => GlobErrorKind::TooComplex,
    }
}

/// The components that count: an empty one and `.` are the folder itself.
fn names(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter(|name| !matches!(*name, "" | "."))
}

fn escape(path: &str) -> String {
    let special = |c| matches!(c, '\\' | '*' | '?' | '[' | '{' | '}');
    path.chars().flat_map(|c| special(c).then_some('\\').into_iter().chain([c])).collect()
}

/// Takes off what stands for a place of the workspace: answers that place, and the rest of the pattern.
fn strip_prefix<'a>(
    text: &'a str,
    variables: &[(&str, &'a str)],
) -> Result<(&'a str, &'a str), GlobErrorKind> {
    if let Some(rest) = text.strip_prefix("/workspace")
        && (rest.is_empty() || rest.starts_with('/'))
    {
        return Ok(("", rest));
    }
    if text.starts_with('/') {
        return Err(GlobErrorKind::Absolute);
    }
    let mut text = text;
    while let Some(rest) = text.strip_prefix("./").or_else(|| text.strip_prefix('/')) {
        text = rest;
    }
    let Some(after) = text.strip_prefix('$') else { return Ok(("", text)) };
    let known = VARIABLES.iter().chain(variables);
    for (name, place) in known {
        let plain = after.strip_prefix(name);
        let braced =
            after.strip_prefix('{').and_then(|t| t.strip_prefix(name)).and_then(|t| t.strip_prefix('}'));
        // A longer name, or a file that begins with the variable's text, is not the variable.
        if let Some(rest) = plain.or(braced).filter(|rest| rest.is_empty() || rest.starts_with('/')) {
            return Ok((place, rest));
        }
    }
    Ok(("", text))
}

/// What is between two slashes that are not within braces.
#[derive(Debug, Default)]
struct Component {
    glob: String,
    /// The text without escapes: the name, where nothing else is special.
    name: String,
    /// Whether there is a `*`, a `?` or a set.
    wild: bool,
    braces: bool,
}

impl Component {
    fn plain(name: &str) -> Self {
        Self { glob: escape(name), name: name.to_owned(), ..Self::default() }
    }

    /// Whether it, or a whole part of its braces, is `..`.
    fn is_parent(&self) -> bool {
        let whole = |at: usize| {
            let before = self.glob[..at].chars().next_back();
            let after = self.glob[at + 2..].chars().next();
            before.is_none_or(|c| "{,/".contains(c)) && after.is_none_or(|c| "},/".contains(c))
        };
        self.glob.match_indices("..").any(|(at, _)| whole(at))
            || (!self.wild && !self.braces && self.name == "..")
    }

    /// Whether it may stand for several names.
    fn is_deep(&self) -> bool {
        self.glob == "**" || self.braces && (self.glob.contains("**") || self.glob.contains('/'))
    }
}

fn join(components: &[Component]) -> String {
    components.iter().map(|component| component.glob.as_str()).collect::<Vec<_>>().join("/")
}

/// The components that count, each as globset reads it.
fn split(text: &str) -> Result<Vec<Component>, GlobErrorKind> {
    let mut done = Vec::new();
    let mut component = Component::default();
    let mut nesting = 0_usize;
    let mut part_begins = false;
    let mut rest = text.chars();
    while let Some(char) = rest.next() {
        let begins = std::mem::replace(&mut part_begins, false);
        match char {
            '/' if nesting == 0 => {
                done.push(std::mem::take(&mut component));
                continue;
            }
            '\\' => {
                let escaped = rest.next().filter(|c| *c != '/').ok_or(GlobErrorKind::TrailingBackslash)?;
                component.glob.extend(['\\', escaped]);
                component.name.push(escaped);
                continue;
            }
            '[' => {
                component.wild = true;
                let (set, after) = rest.as_str().split_at(set_length(rest.as_str())?);
                component.glob.push('[');
                component.glob.push_str(set);
                rest = after.chars();
                continue;
            }
            '*' | '?' => {
                component.wild = true;
                let whole = rest.as_str().starts_with("*,") || rest.as_str().starts_with("*}");
                if char == '*' && begins && whole {
                    // globset would take a part that is `**` for `*`.
                    component.glob.push_str("**/");
                    rest.next();
                }
            }
            '{' => {
                nesting += 1;
                if nesting > MAX_NESTING {
                    return Err(GlobErrorKind::TooNested);
                }
                component.braces = true;
                part_begins = true;
            }
            ',' => part_begins = nesting > 0,
            // Without its `{` it is itself.
            '}' if nesting == 0 => component.glob.push('\\'),
            '}' => nesting -= 1,
            _ => {}
        }
        component.glob.push(char);
        component.name.push(char);
    }
    done.push(component);
    done.retain(|component| !matches!(component.glob.as_str(), "" | "."));
    Ok(done)
}

/// The bytes of a set that follow its `[`, with its `]`.
fn set_length(text: &str) -> Result<usize, GlobErrorKind> {
    let bytes = text.as_bytes();
    let mut at = usize::from(matches!(bytes.first(), Some(b'!' | b'^')));
    let first = at;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b']' if at > first => return Ok(at + 1),
            b'/' => break,
            // A named set, `[:digit:]`.
            b'[' if bytes.get(at + 1) == Some(&b':') => {
                let name = bytes[at + 2..].iter().take_while(|b| b.is_ascii_lowercase()).count();
                if bytes[at + 2 + name..].starts_with(b":]") {
                    at += name + 3;
                }
            }
            // globset would take it for any of its bytes.
            0x80.. => return Err(GlobErrorKind::NonAsciiSet),
            _ => {}
        }
        at += 1;
    }
    Err(GlobErrorKind::UnclosedClass)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "test")]

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn errors_of_globset_keep_their_meaning() {
        for (text, kind) in [
            ("[a", GlobErrorKind::UnclosedClass),
            ("[z-a]", GlobErrorKind::ReversedRange),
            ("{a", GlobErrorKind::UnclosedBrace),
            ("a\\", GlobErrorKind::TrailingBackslash),
            (&"{".repeat(101), GlobErrorKind::TooNested),
        ] {
            assert_eq!(build(text).unwrap_err(), kind, "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_normal_stays_as_it_is(text in "[ab*?{},\\[\\]!^\\\\/.$é-]{0,24}") {
            if let Ok(components) = split(&text) {
                let once = join(&components);
                let twice = join(&split(&once).unwrap());
                prop_assert_eq!(once, twice);
            }
        }

        #[test]
        fn an_escaped_name_is_plain(name in "[ab*?{},\\[\\]!^\\\\.é-]{1,12}") {
            prop_assume!(name != ".");
            let components = split(&escape(&name)).unwrap();
            prop_assert_eq!(components.len(), 1);
            prop_assert!(!components[0].wild && !components[0].braces);
            prop_assert_eq!(&components[0].name, &name);
        }
    }
}
