//! The name rules of the Agent Skills specification, as the reference validator applies them.

use std::borrow::Cow;

use unicode_normalization::UnicodeNormalization as _;

use crate::diagnostic::{Code, Note};

/// The longest name in characters, after NFKC.
pub const MAX_NAME_CHARS: usize = 64;

/// Unicode normalisation form KC, in which names are compared.
pub(crate) fn nfkc(text: &str) -> Cow<'_, str> {
    if text.is_ascii() { Cow::Borrowed(text) } else { Cow::Owned(text.nfkc().collect()) }
}

/// The key under which a name is found when its spelling differs: NFKC, lower case, `_` as `-`.
pub(crate) fn lookup_key(name: &str) -> String {
    if name.is_ascii() {
        let mut key = name.to_ascii_lowercase();
        if key.contains('_') {
            key = key.replace('_', "-");
        }
        return key;
    }
    nfkc(name).to_lowercase().replace('_', "-")
}

/// Checks `name` (already NFKC) against the specification, but for the directory.
pub(crate) fn check(name: &str, notes: &mut Vec<Note>) {
    // The common case at one pass.
    let plain = name.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-'));
    let count = name.chars().count();
    if count > MAX_NAME_CHARS {
        let message = format!("Skill name '{name}' exceeds {MAX_NAME_CHARS} character limit ({count} chars)");
        notes.push(Note::warning(Code::NameTooLong, message));
    }
    if !plain && name.to_lowercase() != name {
        notes.push(Note::warning(Code::NameNotLowercase, format!("Skill name '{name}' must be lowercase")));
    }
    if name.starts_with('-') || name.ends_with('-') {
        notes.push(Note::warning(Code::NameHyphenEdge, "Skill name cannot start or end with a hyphen"));
    }
    if name.contains("--") {
        notes.push(Note::warning(Code::NameDoubleHyphen, "Skill name cannot contain consecutive hyphens"));
    }
    if !plain && !name.chars().all(|c| c == '-' || is_alphanumeric(c)) {
        let message = format!(
            "Skill name '{name}' contains invalid characters. Only letters, digits, and hyphens are allowed."
        );
        notes.push(Note::warning(Code::NameInvalidCharacter, message));
    }
}

/// Whether only some hosts accept the name: not ASCII, or without any letter (YAML readers make a number of it).
pub(crate) fn is_not_portable(name: &str) -> bool {
    !name.is_ascii() || !name.bytes().any(|byte| byte.is_ascii_alphabetic())
}

/// Letters and numbers by general category (L*, N*), as the reference's language defines "alphanumeric".
///
/// Rust's own notion adds the combining marks and enclosed symbols with the property Other_Alphabetic.
fn is_alphanumeric(c: char) -> bool {
    c.is_alphanumeric()
        && !unicode_normalization::char::is_combining_mark(c)
        && !matches!(c, '\u{24B6}'..='\u{24E9}' | '\u{1F130}'..='\u{1F189}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_ignore_case_and_the_kind_of_hyphen() {
        assert_eq!(lookup_key("My_Skill"), "my-skill");
        assert_eq!(lookup_key("CAF\u{C9}"), lookup_key("cafe\u{301}"));
    }

    #[test]
    fn letters_are_those_of_the_reference() {
        for name in ["数据分析", "мой-навык", "straße", "a٣", "Ⅷ"] {
            assert!(name.chars().all(|c| c == '-' || is_alphanumeric(c)), "{name}");
        }
        for name in ["हिन्दी", "🚀", "a_b", "a.b", "Ⓐ", "🅰"] {
            assert!(!name.chars().all(is_alphanumeric), "{name}");
        }
    }
}
