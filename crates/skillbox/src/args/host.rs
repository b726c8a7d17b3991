//! Options about this machine, shared by the commands that open sandboxes.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// Options about this machine.
#[derive(Debug, Args)]
#[command(next_help_heading = "Sandbox")]
pub(crate) struct HostArgs {
    /// What places the sandbox
    #[arg(long, value_name = "NAME", default_value = "local")]
    pub(crate) executor: ExecutorName,

    /// The weakest isolation that is accepted; below it nothing runs
    #[arg(long, value_name = "LEVEL", default_value = "namespaces")]
    pub(crate) minimum: MinimumLevel,

    /// A directory of this machine that scripts see read-only, for interpreters outside /usr; its bin/ comes first in PATH
    #[arg(long = "runtime-dir", value_name = "DIR")]
    pub(crate) runtime_dirs: Vec<PathBuf>,

    /// Where skillbox keeps sessions and stored skills [default: $SKILLBOX_STATE_DIR, else /var/lib/skillbox for root, else
    /// $XDG_STATE_HOME/skillbox or ~/.local/state/skillbox]
    #[arg(long, value_name = "DIR")]
    pub(crate) state_dir: Option<PathBuf>,
}

/// The executors that there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExecutorName {
    /// Linux namespaces on this machine
    Local,
}

/// The levels that can be demanded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum MinimumLevel {
    /// All namespaces and the system-call filter
    Namespaces,
    /// The same, and cgroup limits
    Full,
}
