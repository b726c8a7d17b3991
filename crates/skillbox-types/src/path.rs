//! Paths inside a workspace.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A path relative to the root of a workspace: forward slashes, normalised, never leaving it.
///
/// Only the *text* is checked here. What a path leads to is decided where it is opened, inside the sandbox,
/// component by component, since a script can replace any folder by a link at any time.
///
/// ```
/// use skillbox_types::WorkspacePath;
/// let path: WorkspacePath = "./out//report.csv".parse()?;
/// assert_eq!(path.as_str(), "out/report.csv");
/// assert!("out/../../etc".parse::<WorkspacePath>().is_err());
/// # Ok::<(), skillbox_types::WorkspacePathError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct WorkspacePath(String);

/// Why a text is not a path inside the workspace; keeps the offending input.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WorkspacePathError {
    /// It starts with `/` or a drive letter.
    #[error("path {0:?} is absolute; give it relative to the workspace, such as \"out/report.csv\"")]
    Absolute(String),
    /// Its `..` components lead out of the workspace.
    #[error("path {0:?} leaves the workspace; paths may not climb above its root")]
    Escapes(String),
    /// It holds a NUL byte.
    #[error("path {0:?} contains a NUL byte")]
    Nul(String),
}

impl WorkspacePath {
    /// The root of the workspace: the empty path, shown as `.`.
    pub fn root() -> Self {
        Self(String::new())
    }

    /// Parses and normalises: backslashes become slashes, `.` and empty components vanish, `a/..` is resolved.
    pub fn new(text: &str) -> Result<Self, WorkspacePathError> {
        if text.contains('\0') {
            return Err(WorkspacePathError::Nul(text.to_owned()));
        }
        let slashed = text.replace('\\', "/");
        // `C:` and `C:/x` name a drive elsewhere; `a:b` is a file name here.
        let is_drive = matches!(slashed.as_bytes(),
            [letter, b':'] | [letter, b':', b'/', ..] if letter.is_ascii_alphabetic());
        if slashed.starts_with('/') || is_drive {
            return Err(WorkspacePathError::Absolute(text.to_owned()));
        }
        let mut parts: Vec<&str> = Vec::new();
        for part in slashed.split('/') {
            match part {
                "" | "." => {}
                ".." => {
                    if parts.pop().is_none() {
                        return Err(WorkspacePathError::Escapes(text.to_owned()));
                    }
                }
                _ => parts.push(part),
            }
        }
        Ok(Self(parts.join("/")))
    }

    /// The text; empty for the root.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether this is the root of the workspace.
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// Appends a relative path under the same rules; the result still may not leave the workspace.
    pub fn join(&self, text: &str) -> Result<Self, WorkspacePathError> {
        if text.starts_with('/') {
            return Err(WorkspacePathError::Absolute(text.to_owned()));
        }
        Self::new(&format!("{}/{text}", if self.0.is_empty() { "." } else { &self.0 }))
    }
}

impl fmt::Display for WorkspacePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "." } else { &self.0 })
    }
}

impl FromStr for WorkspacePath {
    type Err = WorkspacePathError;
    fn from_str(text: &str) -> Result<Self, WorkspacePathError> {
        Self::new(text)
    }
}

impl TryFrom<String> for WorkspacePath {
    type Error = WorkspacePathError;
    fn try_from(text: String) -> Result<Self, WorkspacePathError> {
        Self::new(&text)
    }
}

impl From<WorkspacePath> for String {
    fn from(path: WorkspacePath) -> Self {
        path.to_string()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn normalises_and_refuses() {
        let ok = |s: &str| WorkspacePath::new(s).map(|p| p.as_str().to_owned());
        assert_eq!(ok("skills\\N\\a.txt").as_deref(), Ok("skills/N/a.txt"), "F062");
        assert_eq!(ok("a/./b//c/").as_deref(), Ok("a/b/c"));
        assert_eq!(ok("a/../b").as_deref(), Ok("b"));
        assert_eq!(ok("a:b").as_deref(), Ok("a:b"));
        assert_eq!(ok("").as_deref(), Ok(""));
        assert!(matches!(ok("a/../../b"), Err(WorkspacePathError::Escapes(_))));
        assert!(matches!(ok("/etc"), Err(WorkspacePathError::Absolute(_))));
        assert!(matches!(ok("C:\\x"), Err(WorkspacePathError::Absolute(_))));
        assert!(matches!(ok("a\0b"), Err(WorkspacePathError::Nul(_))));
    }

    proptest! {
        #[test]
        fn never_climbs_and_is_stable(text in "[a-z./\\\\]{0,40}") {
            if let Ok(path) = WorkspacePath::new(&text) {
                prop_assert!(!path.as_str().starts_with('/'));
                prop_assert!(path.as_str().split('/').all(|part| part != ".."));
                prop_assert_eq!(&WorkspacePath::new(path.as_str()).unwrap(), &path);
            }
        }
    }
}
