//! The supervisor inside every sandbox, its protocol, and the host's side of the connection.
//!
//! `skillbox-init` is process 1 of a sandbox, whatever placed it there: locally a fork of the launcher, in a container a
//! small static program. It starts commands, signals and reaps them, and does the file work on the workspace, so that
//! paths and links resolve *inside* the sandbox and never on the host.
//!
//! # The way of a command
//!
//! ```text
//! host                                   init                                parked child
//!  │ Park{slot} ────────────────────────▶ │ fork ────────────────────────────▶ │ waits, its stdio in place
//!  │ ◀──── Parked{slot} + pidfd + pipes   │                                     │
//!  │ (moves the pid into its cgroup,      │                                     │
//!  │  off the hot path)                   │                                     │
//!  │ Exec{slot, spec} ──────────────────▶ │ ──── spec ────────────────────────▶ │ cwd, limits, execve
//!  │ ◀═════════════ stdout, stderr straight from the pipes ════════════════════ │
//!  │ ◀──── Exited{slot, status, usage}    │ ◀──── wait ──────────────────────── ┘
//! ```
//!
//! [`protocol`] documents each message. The supervisor trusts the host; the host treats every byte that comes from a
//! sandbox as hostile: frames are bounded, descriptors counted, unknown slots ignored.
//!
//! Unsafe code is allowed in this crate for the few system calls that have no safe wrapper; each block says why it is sound.

#![allow(unsafe_code, reason = "fork, wait4 and descriptor passing have no safe wrapper")]
#![allow(
    clippy::disallowed_methods,
    reason = "the supervisor reads /proc and the sandbox's own files, never the host's"
)]

pub mod protocol;

mod child;
mod connection;
mod files;
mod host;
mod reaper;
mod spawn_error;
mod supervisor;
mod sys;
mod wire;

pub use connection::ConnectionError;
pub use host::{FilesError, InitClient, ParkedChild, Parking, SlotEvent, SlotEvents};
pub use spawn_error::{SpawnFailure, SpawnStep};
pub use supervisor::{SupervisorConfig, TreeTracking, run as run_supervisor};
