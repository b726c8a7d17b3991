//! `skillbox completions`.

use std::io::Write as _;

use clap::CommandFactory as _;

use crate::args::Cli;
use crate::failure::Failure;

pub(super) fn completions(shell: clap_complete::Shell) -> Result<u8, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "skillbox", &mut script);
    std::io::stdout().lock().write_all(&script)?;
    Ok(0)
}
