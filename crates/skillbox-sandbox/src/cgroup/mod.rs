//! Control groups: the limits of a session as a whole, and the tree of processes of each command.
//!
//! The layout, in every hierarchy that is used (`<own>` is the engine's own cgroup there):
//!
//! ```text
//! <own>/skillbox-<pid>-<start time>-<pid namespace>-<random>/     one per engine; CgroupTree
//!     s<n>/            memory, processes and CPU quota of a session; SessionCgroup
//!         init/        its process 1
//!         e<k>/        one per command in flight, reused when verified empty; ExecCgroup
//! ```
//!
//! Processes are only in leaves, which cgroup v2 asks for. cgroup v1 (controllers on hierarchies of their own), v2, and
//! hybrid hosts (v1 controllers beside a v2 hierarchy without any) are used alike; on a hybrid host commands are in the v2 hierarchy too,
//! for its `cgroup.kill`. Whether a place is writable is found out by making directories and writing limits there, never assumed.
//!
//! Writing a process to `cgroup.procs` waits for an RCU grace period when the kernel was idle: 8-13 ms, once for all hierarchies that are
//! written back to back. So a process is attached while it is parked, ahead of its command; where v2 carries everything,
//! `clone3(CLONE_INTO_CGROUP)` into [`ExecCgroup::unified_dir`] is free. Everything here is synchronous; nothing but `attach` and the kill functions takes longer than
//! some microseconds.
//!
//! A process is never signalled by its number alone: numbers are reused, and the engine may be root.
//!
//! What could not be tried on a real kernel so far, only on made-up files: memory and process limits on cgroup v2 (`memory.max`, `memory.swap.max`,
//! `pids.max`, `cpu.max`, `memory.peak`, `memory.events`) and systemd's delegation. Real are: all of v1; on v2 `cgroup.kill`, `cgroup.events`, `cpu.stat`, and
//! enabling a controller for a subtree, with the rule against processes in inner nodes.

mod error;
mod exec;
mod files;
mod host;
mod kill;
mod session;
mod stale;
#[cfg(test)]
mod tests;
mod tree;
mod unified;

pub use error::{CgroupError, CgroupUnavailable, Step};
pub use exec::{Counters, ExecCgroup, ExecUsage};
pub use kill::Killed;
pub use rustix::process::Signal;
pub use session::{CgroupLimits, SessionCgroup};
pub use tree::{CgroupConfig, CgroupTree, Controllers, Provider};
