//! The command line: runs the scripts of Agent Skills in a sandbox, and collects what they made.
//!
//! It is thin. What it does is in `skillbox-engine` and `skillbox-skill`; here are arguments ([`args`]), one file for each
//! command ([`commands`]), the environment ([`environment`], read once) and what is said and how ([`output`], [`failure`]).

mod args;
mod commands;
mod environment;
mod failure;
mod host;
mod host_files;
mod output;
mod selection;
mod signals;

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    // The launcher is a second life of this program; nothing may come before, threads least of all.
    skillbox_sandbox::run_launcher_if_asked();
    let cli = args::Cli::parse();
    let environment = environment::Environment::read();
    let talk = output::Talk::new(environment.no_color);
    let failing = cli.command.exit_code_of_failures();
    match commands::dispatch(cli.command, &environment, &talk) {
        Ok(code) => ExitCode::from(code),
        Err(failure) => failure.report(&talk, failing),
    }
}
