//! `skillbox sessions`.

use clap::{Args, Subcommand};

use super::HostArgs;

/// The arguments of `sessions`.
#[derive(Debug, Args)]
pub(crate) struct SessionsArgs {
    /// What to do; without it they are listed
    #[command(subcommand)]
    pub(crate) action: Option<SessionsAction>,

    /// Print a JSON array of names
    #[arg(long)]
    pub(crate) json: bool,

    /// About this machine.
    #[command(flatten)]
    pub(crate) host: HostArgs,
}

/// What can be done with kept sessions.
#[derive(Debug, Subcommand)]
pub(crate) enum SessionsAction {
    /// Remove sessions with all their files
    Remove {
        /// Their names
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
    },
}
