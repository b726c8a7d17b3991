//! Matching of paths, component by component, in time proportional to pattern × path at worst.

/// A component of a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Component {
    /// `**`: any number of folders.
    AnyDepth,
    /// A name without anything special in it.
    Literal(Vec<u8>),
    /// Anything else.
    Tokens(Vec<Token>),
}

/// A part of a component.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Token {
    Literal(Vec<u8>),
    /// `?`
    AnyChar,
    /// `*`
    Star,
    Class {
        negated: bool,
        ranges: Vec<(char, char)>,
    },
}

impl Component {
    pub(super) fn matches(&self, name: &[u8]) -> bool {
        match self {
            Self::AnyDepth => true,
            Self::Literal(literal) => literal == name,
            Self::Tokens(tokens) => tokens_match(tokens, name),
        }
    }
}

/// Whether `path` matches; each `**` first takes nothing, and only the last one seen is ever extended, which suffices.
pub(super) fn path_matches(components: &[Component], path: &[u8]) -> bool {
    let names: Vec<&[u8]> = path.split(|b| *b == b'/').collect();
    let (mut at, mut name) = (0, 0);
    let mut last: Option<(usize, usize)> = None;
    while name < names.len() {
        match components.get(at) {
            // At the end it stands for what is below a folder: at least one name.
            Some(Component::AnyDepth) if at + 1 == components.len() => return true,
            Some(Component::AnyDepth) => {
                last = Some((at + 1, name));
                at += 1;
                continue;
            }
            Some(component) if component.matches(names[name]) => {
                at += 1;
                name += 1;
                continue;
            }
            _ => {}
        }
        let Some((resume, start)) = last else { return false };
        at = resume;
        name = start + 1;
        last = Some((resume, start + 1));
    }
    at == components.len()
}

/// Whether something below the folder `dir` could match.
pub(super) fn could_match_below(components: &[Component], dir: &[u8]) -> bool {
    if dir.is_empty() {
        return true;
    }
    let mut components = components.iter();
    for name in dir.split(|b| *b == b'/') {
        match components.next() {
            Some(Component::AnyDepth) => return true,
            Some(component) if component.matches(name) => {}
            _ => return false,
        }
    }
    components.next().is_some()
}

fn tokens_match(tokens: &[Token], name: &[u8]) -> bool {
    let (mut token, mut at) = (0, 0);
    let mut last: Option<(usize, usize)> = None;
    loop {
        let step = match tokens.get(token) {
            Some(Token::Star) => {
                if token + 1 == tokens.len() {
                    return true;
                }
                last = Some((token + 1, at));
                Some(0)
            }
            Some(Token::Literal(literal)) => name[at..].starts_with(literal).then_some(literal.len()),
            Some(Token::AnyChar) => next_char(&name[at..]).map(|(_, length)| length),
            Some(Token::Class { negated, ranges }) => next_char(&name[at..]).and_then(|(char, length)| {
                let member =
                    char.is_some_and(|c| ranges.iter().any(|(low, high)| (*low..=*high).contains(&c)));
                (member != *negated).then_some(length)
            }),
            None if at == name.len() => return true,
            None => None,
        };
        if let Some(length) = step {
            token += 1;
            at += length;
            continue;
        }
        // The last star takes one character more.
        let Some((resume, start)) = last else { return false };
        let Some((_, length)) = next_char(&name[start..]) else { return false };
        token = resume;
        at = start + length;
        last = Some((resume, at));
    }
}

/// The first character and its length; a byte that is not UTF-8 is no character, of length 1.
fn next_char(bytes: &[u8]) -> Option<(Option<char>, usize)> {
    let first = *bytes.first()?;
    if first < 0x80 {
        return Some((Some(char::from(first)), 1));
    }
    let length = match first {
        0xC2..=0xDF => 2,
        0xE0..=0xEF => 3,
        0xF0..=0xF4 => 4,
        _ => return Some((None, 1)),
    };
    let char = bytes
        .get(..length)
        .and_then(|bytes| std::str::from_utf8(bytes).ok())
        .and_then(|text| text.chars().next());
    Some(char.map_or((None, 1), |char| (Some(char), char.len_utf8())))
}
