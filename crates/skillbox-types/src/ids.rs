//! Validated names and ids.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Why a name or an id was refused; keeps the offending input.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} {input:?} is not valid: {reason}")]
pub struct IdError {
    what: &'static str,
    input: String,
    reason: &'static str,
}

impl IdError {
    /// The text that was refused.
    pub fn input(&self) -> &str {
        &self.input
    }
}

macro_rules! string_newtype {
    ($name:ident, $what:literal, $check:path) => {
        impl $name {
            /// Validates `text`.
            pub fn new(text: impl Into<String>) -> Result<Self, IdError> {
                let text = text.into();
                match $check(&text) {
                    Ok(()) => Ok(Self(text)),
                    Err(reason) => Err(IdError { what: $what, input: text, reason }),
                }
            }

            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = IdError;
            fn from_str(text: &str) -> Result<Self, IdError> {
                Self::new(text)
            }
        }

        impl TryFrom<String> for $name {
            type Error = IdError;
            fn try_from(text: String) -> Result<Self, IdError> {
                Self::new(text)
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> String {
                name.0
            }
        }
    };
}

/// A skill's name as its author wrote it, safe to be one component of a path.
///
/// This is the *loadable* rule: anything that can be a single folder name without surprises. What the Agent Skills
/// specification asks beyond it (lower case, length, hyphens) is the strict verdict of `skillbox-skill`.
///
/// ```
/// use skillbox_types::SkillName;
/// assert!(SkillName::new("数据分析").is_ok());
/// assert!(SkillName::new("../etc").is_err());
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct SkillName(String);

string_newtype!(SkillName, "skill name", check_component);

/// The name of a session: 1 to 128 characters of `[A-Za-z0-9._-]`, not starting with a dot.
///
/// ```
/// use skillbox_types::SessionId;
/// assert!(SessionId::new("chat-42").is_ok());
/// assert!(SessionId::new("a/b").is_err());
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct SessionId(String);

string_newtype!(SessionId, "session id", check_session_id);

/// The content digest of a skill's tree: `sha256:` and 64 lower-case hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct SkillDigest(String);

string_newtype!(SkillDigest, "skill digest", check_digest);

impl SkillDigest {
    /// The digest of a finished SHA-256.
    pub fn from_sha256(bytes: &[u8; 32]) -> Self {
        use std::fmt::Write as _;
        let mut text = String::with_capacity(71);
        text.push_str("sha256:");
        for byte in bytes {
            // Writing to a String cannot fail.
            let _ = write!(text, "{byte:02x}");
        }
        Self(text)
    }

    /// The 64 hexadecimal digits alone, as used for folder names.
    pub fn hex(&self) -> &str {
        &self.0["sha256:".len()..]
    }
}

/// The number of an execution within its session, from 1 on.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema, Default,
)]
#[serde(transparent)]
pub struct ExecId(pub u64);

impl fmt::Display for ExecId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

fn check_component(text: &str) -> Result<(), &'static str> {
    if text.is_empty() {
        return Err("it is empty");
    }
    if text.len() > 255 {
        return Err("it is longer than 255 bytes, the longest file name");
    }
    if text.starts_with('.') {
        return Err("it starts with a dot");
    }
    if text.trim() != text {
        return Err("it starts or ends with white space");
    }
    if text.contains(['/', '\\']) {
        return Err("it contains a path separator");
    }
    if text.chars().any(char::is_control) {
        return Err("it contains a control character");
    }
    Ok(())
}

fn check_session_id(text: &str) -> Result<(), &'static str> {
    if text.is_empty() || text.len() > 128 {
        return Err("it must have 1 to 128 characters");
    }
    if text.starts_with('.') {
        return Err("it starts with a dot");
    }
    if !text.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b)) {
        return Err("only letters, digits, '.', '_' and '-' are allowed");
    }
    Ok(())
}

fn check_digest(text: &str) -> Result<(), &'static str> {
    let Some(hex) = text.strip_prefix("sha256:") else {
        return Err("it must start with \"sha256:\"");
    };
    if hex.len() != 64 || !hex.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b)) {
        return Err("it must have 64 lower-case hexadecimal digits");
    }
    Ok(())
}
