//! What can be written on the command line; nothing here looks at the machine.

mod doctor;
mod host;
mod run;
mod sessions;
mod skills;

pub(crate) use doctor::DoctorArgs;
pub(crate) use host::{ExecutorName, HostArgs, MinimumLevel};
pub(crate) use run::{Conflict, RunArgs};
pub(crate) use sessions::{SessionsAction, SessionsArgs};
pub(crate) use skills::{ListArgs, NewArgs, PathArgs, PathsArgs, RootArgs, ShowArgs, ValidateArgs};

use clap::{Parser, Subcommand, ValueEnum};

const AFTER_HELP: &str = "\
Skills are searched, and the first of a name wins, in the folders
  of --skills; without it
  of $SKILLS_ROOT, separated by ':'; without that
  ./skills, ./.agents/skills, ./.claude/skills,
  ~/.agents/skills, ~/.claude/skills and ~/.config/skillbox/skills.

Examples:
  skillbox run hello -- python3 scripts/hello.py Ada
  skillbox run --input essay.txt text-stats -- sh scripts/stats.sh inputs/essay.txt
  skillbox list
  skillbox doctor";

/// Runs the scripts of Agent Skills where they can do no harm, and hands back what they made.
#[derive(Debug, Parser)]
#[command(name = "skillbox", version, after_help = AFTER_HELP)]
pub(crate) struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a command of a skill in a sandbox, and collect the files that it made
    Run(Box<RunArgs>),
    /// List the skills that are found
    List(ListArgs),
    /// Show one skill: its manifest, files, digest and what is to be said about it
    Show(ShowArgs),
    /// Check skills: whether they can be loaded, or with --strict whether they keep the Agent Skills specification
    Validate(ValidateArgs),
    /// Print the properties of a skill as JSON, as skills-ref does
    ReadProperties(PathArgs),
    /// Print the <available_skills> block for a prompt, as skills-ref does
    ToPrompt(PathsArgs),
    /// List the sessions that were kept with run --session, or remove some
    Sessions(SessionsArgs),
    /// Find out what sandboxes on this machine enforce, and how to get what is missing
    Doctor(DoctorArgs),
    /// Make a new skill from a template
    New(NewArgs),
    /// Print a completion script for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print the JSON Schema of what `run --json` prints, or of a request
    Schema {
        /// Of what
        #[arg(default_value = "result")]
        of: SchemaOf,
    },
}

/// What `schema` describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SchemaOf {
    /// The result of a command: what `run --json` prints
    Result,
    /// A request to run a command
    Request,
}

impl Command {
    /// The exit code where the command itself could not be done. For `run` it must not be mistaken for the program's own.
    pub(crate) fn exit_code_of_failures(&self) -> u8 {
        match self {
            Self::Run(_) => 125,
            _ => 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    #[test]
    fn the_definition_holds_together() {
        super::Cli::command().debug_assert();
    }
}
