//! The local executor: Linux namespaces on this machine.

mod client;
mod config;
mod executor;
mod ownership;
mod placement;
mod remedy;
mod report;
mod uids;

pub use client::LauncherProgram;
pub use config::LocalConfig;
pub use executor::LocalExecutor;
