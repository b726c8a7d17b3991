//! Things that went less than perfectly without failing the request.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A warning: a stable code for programs and a sentence for people.
///
/// ```
/// use skillbox_types::Warning;
/// let warning = Warning::new("leftovers_killed", "2 processes were still running and were ended");
/// assert_eq!(warning.code, "leftovers_killed");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Warning {
    /// Stable, lower snake case.
    pub code: String,
    /// What happened and, where something can be done, what.
    pub message: String,
}

impl Warning {
    /// A warning of `code` saying `message`.
    pub fn new(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self { code: code.into(), message: message.into() }
    }
}
