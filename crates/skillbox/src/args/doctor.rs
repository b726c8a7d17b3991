//! `skillbox doctor`.

use clap::Args;

use super::HostArgs;

/// The arguments of `doctor`.
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,

    /// About this machine.
    #[command(flatten)]
    pub(crate) host: HostArgs,
}
