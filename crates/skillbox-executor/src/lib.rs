//! The [`Executor`] trait and the life of a command, the same on every executor.
//!
//! An executor only has to start the supervisor of `skillbox-init` somewhere and to connect to it; what differs beyond that
//! is behind [`Placement`]. Parking, executing, capturing, time limits, the end of a command and of its tree are here, once.
//!
//! ```text
//! Executor::open(SandboxSpec) ──▶ Sandbox { connection, Placement, Isolation }
//! Sandbox::exec(ExecPlan)     ──▶ ExecEvent …, then ExecOutcome
//! ```
//!
//! A new executor passes the contract suite of `skillbox-testkit`, or is not one.

mod capture;
mod command;
mod end;
mod error;
mod executor;
mod guard;
mod plan;
mod sandbox;
mod spec;
mod stream;

pub use capture::Capture;
pub use error::ExecutorError;
pub use executor::{CommandTree, Counts, Executor, Placement, SandboxSpec, SkillMount, TreeUsage};
pub use plan::{ExecEvent, ExecOutcome, ExecPlan, Stream};
pub use sandbox::Sandbox;
pub use skillbox_init::protocol::{CollectOp, CollectSummary, FoundFile};
