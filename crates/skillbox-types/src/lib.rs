//! The words of skillbox: ids, paths, requests, results, limits and events.
//!
//! Plain data with serde and JSON Schema, without any I/O. Every other crate speaks in these types, and so does
//! the JSON of the command line: what [`ExecResult`] serializes to is what `skillbox run --json` prints.
//!
//! Conventions on the wire: byte counts end in `_bytes`, times in `_ms`; digests are written
//! `sha256:<64 hexadecimal digits>`; paths are relative to the workspace, with forward slashes.

mod command;
mod end;
mod ids;
mod isolation;
mod limits;
mod output;
mod path;
mod result;
mod warning;

pub use command::{CommandLine, ExecRequest, Input, Stdin, TimeLimit};
pub use end::{End, Limit};
pub use ids::{ExecId, IdError, SessionId, SkillDigest, SkillName};
pub use isolation::{Isolation, IsolationLevel, Mechanism, MechanismState, NetworkPolicy};
pub use limits::{LimitError, Limits, LimitsPatch};
pub use output::{Change, FileName, OutputFile, OutputSpec};
pub use path::{WorkspacePath, WorkspacePathError};
pub use result::{Captured, ExecResult, MaterializeMethod, SkillUse, Timing, Usage};
pub use warning::Warning;
