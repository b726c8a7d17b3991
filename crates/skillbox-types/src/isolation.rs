//! What is really enforced.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How strong a sandbox is, weakest first, so that levels compare with `<`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum IsolationLevel {
    /// No isolation: only the executor of that name reaches it, and nothing falls back to it.
    Unsandboxed,
    /// Landlock and the system-call filter, as the engine's own user.
    Landlock,
    /// A user of its own, Landlock and the system-call filter.
    UidDrop,
    /// All namespaces and the filter; no cgroup.
    Namespaces,
    /// All namespaces, the filter and cgroup limits.
    Full,
}

/// The state of one mechanism.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum MechanismState {
    /// In force.
    Active,
    /// In force with a gap.
    Degraded {
        /// What is missing.
        reason: String,
    },
    /// Not in force.
    Missing {
        /// Why: the step that failed and the kernel's answer.
        reason: String,
        /// How to get it on this host.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        remedy: Option<String>,
    },
}

/// One mechanism and its state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Mechanism {
    /// Stable name: `user_namespace`, `mount_namespace`, `pid_namespace`, `network_namespace`, `seccomp`, …
    pub name: String,
    /// Its state.
    #[serde(flatten)]
    pub state: MechanismState,
    /// Detail for people: which version, which controller, which mapping.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub detail: String,
}

/// Whom a session may talk to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum NetworkPolicy {
    /// Only itself, over its own loopback.
    #[default]
    None,
}

/// What a sandbox enforces, found out by doing it, never assumed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Isolation {
    /// The executor's name.
    pub executor: String,
    /// The level reached.
    pub level: IsolationLevel,
    /// The network policy in force.
    pub network: NetworkPolicy,
    /// Every mechanism.
    pub mechanisms: Vec<Mechanism>,
}
