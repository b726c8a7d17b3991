//! From the text of a pattern to what is matched.

use super::error::GlobErrorKind;
use super::matcher::{Component, Token};

const MAX_BYTES: usize = 4096;
const MAX_ALTERNATIVES: usize = 1024;
const MAX_NESTING: usize = 16;

/// A parsed pattern: the same as any of its alternatives, or exactly the literal path.
pub(super) struct Parsed {
    pub(super) literal: Vec<u8>,
    pub(super) alternatives: Vec<Vec<Component>>,
    /// Whether the pattern ends in a slash: only what is below a folder.
    pub(super) only_below: bool,
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
    let (prefix, rest) = strip_prefix(text, variables)?;
    let prefix: Vec<&str> = prefix.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    let only_below = text.ends_with('/') && !ends_in_escape(text.trim_end_matches('/'));
    let mut alternatives = Vec::new();
    for alternative in expand(rest, 0)? {
        let mut components: Vec<Component> =
            prefix.iter().map(|part| Component::Literal(part.as_bytes().to_vec())).collect();
        for part in alternative.split('/').filter(|part| !matches!(*part, "" | ".")) {
            let component = component(part)?;
            // `**/**` is `**`.
            if !(component == Component::AnyDepth && components.last() == Some(&Component::AnyDepth)) {
                components.push(component);
            }
        }
        // An empty part of braces names nothing; only a pattern that is the root itself means everything.
        if components.is_empty() && alternative != rest {
            continue;
        }
        let is_below = only_below || alternative.ends_with('/');
        let is_literal = components.iter().all(|c| matches!(c, Component::Literal(_)));
        if components.iter().any(|c| *c == Component::Literal(b"..".to_vec())) {
            return Err(GlobErrorKind::Parent);
        }
        if (is_below || components.is_empty()) && components.last() != Some(&Component::AnyDepth) {
            components.push(Component::AnyDepth);
        } else if is_literal {
            // The name of a file, or of a folder: then everything below it.
            let mut below = components.clone();
            below.push(Component::AnyDepth);
            alternatives.push(below);
        }
        alternatives.push(components);
    }
    let literal = prefix.iter().copied().chain(rest.split('/').filter(|part| !matches!(*part, "" | ".")));
    let literal = literal.collect::<Vec<_>>().join("/").into_bytes();
    Ok(Parsed { literal, alternatives, only_below })
}

/// Whether the text ends in a backslash that is not itself escaped.
fn ends_in_escape(text: &str) -> bool {
    (text.len() - text.trim_end_matches('\\').len()) % 2 == 1
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
    let text = text.strip_prefix("./").unwrap_or(text).trim_start_matches('/');
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

/// All texts that the braces stand for.
fn expand(text: &str, nesting: usize) -> Result<Vec<String>, GlobErrorKind> {
    let Some(brace) = find_brace(text)? else { return Ok(vec![text.to_owned()]) };
    if nesting >= MAX_NESTING {
        return Err(GlobErrorKind::TooManyAlternatives);
    }
    let mut middles = Vec::new();
    for part in &brace.parts {
        middles.extend(expand(part, nesting + 1)?);
        limit(middles.len())?;
    }
    // The rest of the text is no deeper, but recursion on it is bounded by the same number all the same: by looping.
    let mut tails = vec![String::new()];
    let mut rest = brace.after;
    while let Some(next) = find_brace(rest)? {
        let mut parts = Vec::new();
        for part in &next.parts {
            parts.extend(expand(part, nesting + 1)?);
            limit(parts.len() * tails.len())?;
        }
        tails = product(&tails, next.before, &parts);
        rest = next.after;
    }
    for tail in &mut tails {
        tail.push_str(rest);
    }
    limit(middles.len() * tails.len())?;
    let heads = product(&[brace.before.to_owned()], "", &middles);
    Ok(product(&heads, "", &tails))
}

fn product(heads: &[String], between: &str, tails: &[String]) -> Vec<String> {
    heads.iter().flat_map(|head| tails.iter().map(move |tail| format!("{head}{between}{tail}"))).collect()
}

fn limit(count: usize) -> Result<(), GlobErrorKind> {
    if count > MAX_ALTERNATIVES { Err(GlobErrorKind::TooManyAlternatives) } else { Ok(()) }
}

struct Brace<'a> {
    before: &'a str,
    parts: Vec<&'a str>,
    after: &'a str,
}

/// The first braces outside of classes and escapes.
fn find_brace(text: &str) -> Result<Option<Brace<'_>>, GlobErrorKind> {
    let bytes = text.as_bytes();
    let mut at = 0;
    let mut depth = 0_usize;
    let mut open = 0;
    let mut part = 0;
    let mut parts = Vec::new();
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 1,
            b'[' => at = class_end(text, at)?,
            b'{' => {
                if depth == 0 {
                    open = at;
                    part = at + 1;
                }
                depth += 1;
            }
            b',' if depth == 1 => {
                parts.push(&text[part..at]);
                part = at + 1;
            }
            b'}' if depth > 0 => {
                depth -= 1;
                if depth == 0 {
                    parts.push(&text[part..at]);
                    return Ok(Some(Brace { before: &text[..open], parts, after: &text[at + 1..] }));
                }
            }
            _ => {}
        }
        at += 1;
    }
    if depth > 0 { Err(GlobErrorKind::UnclosedBrace) } else { Ok(None) }
}

/// The place of the `]` that closes the class opened at `start`.
fn class_end(text: &str, start: usize) -> Result<usize, GlobErrorKind> {
    let bytes = text.as_bytes();
    let mut at = start + 1;
    if matches!(bytes.get(at), Some(b'!' | b'^')) {
        at += 1;
    }
    let first = at;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b']' if at > first => return Ok(at),
            b'\\' => at += 1,
            b'/' => break,
            _ => {}
        }
        at += 1;
    }
    Err(GlobErrorKind::UnclosedClass)
}

fn component(text: &str) -> Result<Component, GlobErrorKind> {
    if text == "**" {
        return Ok(Component::AnyDepth);
    }
    let mut tokens = Vec::new();
    let mut literal = Vec::new();
    let mut buffer = [0; 4];
    let mut at = 0;
    while let Some(char) = text[at..].chars().next() {
        let special = match char {
            '*' => Token::Star,
            '?' => Token::AnyChar,
            '[' => {
                let end = class_end(text, at)?;
                let class = class(&text[at + 1..end])?;
                at = end;
                class
            }
            '\\' => {
                at += 1;
                let escaped = text[at..].chars().next().ok_or(GlobErrorKind::TrailingBackslash)?;
                literal.extend_from_slice(escaped.encode_utf8(&mut buffer).as_bytes());
                at += escaped.len_utf8();
                continue;
            }
            _ => {
                literal.extend_from_slice(char.encode_utf8(&mut buffer).as_bytes());
                at += char.len_utf8();
                continue;
            }
        };
        at += 1;
        if !literal.is_empty() {
            tokens.push(Token::Literal(std::mem::take(&mut literal)));
        }
        if special != Token::Star || tokens.last() != Some(&Token::Star) {
            tokens.push(special);
        }
    }
    if tokens.is_empty() {
        return Ok(Component::Literal(literal));
    }
    if !literal.is_empty() {
        tokens.push(Token::Literal(literal));
    }
    Ok(Component::Tokens(tokens))
}

/// A class from the text between its brackets.
fn class(text: &str) -> Result<Token, GlobErrorKind> {
    let (negated, text) = match text.strip_prefix(['!', '^']) {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let mut members: Vec<(char, bool)> = Vec::new();
    let mut chars = text.chars();
    while let Some(char) = chars.next() {
        match char {
            '\\' => members.push((chars.next().ok_or(GlobErrorKind::UnclosedClass)?, true)),
            _ => members.push((char, false)),
        }
    }
    let mut ranges = Vec::new();
    let mut rest = members.as_slice();
    loop {
        match rest {
            [] => return Ok(Token::Class { negated, ranges }),
            // A dash at either end, or an escaped one, is itself.
            [(low, _), ('-', false), (high, _), tail @ ..] => {
                if low > high {
                    return Err(GlobErrorKind::ReversedRange);
                }
                ranges.push((*low, *high));
                rest = tail;
            }
            [(char, _), tail @ ..] => {
                ranges.push((*char, *char));
                rest = tail;
            }
        }
    }
}
