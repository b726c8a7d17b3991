//! `skillbox run`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use skillbox_types::{LimitsPatch, SessionId, TimeLimit};

use super::{HostArgs, RootArgs};

const AFTER_HELP: &str = "\
The command runs in the skill's folder, in a sandbox without network.
  out/      is for results, which are collected
  inputs/   holds what --input stages
  work/     is for everything else
Its output goes to stdout and stderr as it comes; after it a table of the
collected files goes to stderr.

Exit code: the program's own, or
  2      the arguments are wrong
  124    the time limit ended it
  125    skillbox could not run it
  126    the program cannot be executed
  127    the program was not found
  128+n  signal n ended it
  130    it was cancelled (Ctrl-C)
  141    nobody read its output any more, so it was ended

Examples:
  skillbox run hello -- python3 scripts/hello.py Ada
  skillbox run --input essay.txt text-stats -- sh scripts/stats.sh inputs/essay.txt
  skillbox run --save-to results sales-report -- python3 scripts/report.py
  skillbox run --timeout 2m --limit memory=1GiB ./my-skill -- scripts/main.py
  skillbox run --json --shell hello -- 'sh scripts/hello.sh > out/log.txt'";

/// The arguments of `run`.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
#[allow(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
pub(crate) struct RunArgs {
    /// The skill's name, or the path of its folder
    pub(crate) skill: String,

    /// The program and its arguments
    #[arg(last = true, required = true)]
    pub(crate) command: Vec<String>,

    /// Where skills are searched.
    #[command(flatten)]
    pub(crate) roots: RootArgs,

    /// Treat COMMAND as a script for /bin/sh -c
    #[arg(long)]
    pub(crate) shell: bool,

    /// A file for the command, as inputs/NAME; its own name unless NAME is given
    #[arg(long = "input", value_name = "FILE[:NAME]")]
    pub(crate) inputs: Vec<String>,

    /// A variable for the command
    #[arg(long = "env", short = 'e', value_name = "NAME=VALUE", value_parser = env_pair)]
    pub(crate) env: Vec<EnvPair>,

    /// Where to run: relative to the skill's folder, or below $WORKSPACE_DIR, $WORK_DIR, $OUTPUT_DIR or $SKILLS_DIR
    #[arg(long, value_name = "DIR")]
    pub(crate) cwd: Option<String>,

    /// Pass what comes on stdin to the command, which otherwise reads /dev/null
    #[arg(long)]
    pub(crate) stdin: bool,

    /// How long the command may run: 500ms, 30s, 2m, 1h or none [default: 30s]
    #[arg(long, value_name = "TIME", value_parser = time_limit, allow_hyphen_values = true)]
    pub(crate) timeout: Option<TimeLimit>,

    /// A limit: cpu_time, memory, pids, file_size, open_files, tmp, shm, output or output_kill
    #[arg(long = "limit", value_name = "NAME=VALUE", value_parser = limit)]
    pub(crate) limits: Vec<String>,

    /// Which files to collect, as a glob relative to the workspace; give it again for more [default: out/**]
    #[arg(long = "output", value_name = "GLOB", help_heading = "Results")]
    pub(crate) outputs: Vec<String>,

    /// Collect only files that the command made or changed
    #[arg(long, help_heading = "Results")]
    pub(crate) changed_only: bool,

    /// The most files that are collected; what is beyond is counted
    #[arg(long, value_name = "N", default_value_t = 100, help_heading = "Results")]
    pub(crate) max_files: u64,

    /// Copy the collected files into this folder, made where it is missing
    #[arg(long, value_name = "DIR", help_heading = "Results")]
    pub(crate) save_to: Option<PathBuf>,

    /// Print one JSON object with everything, the program's output included, and nothing else
    #[arg(long, help_heading = "Results")]
    pub(crate) json: bool,

    /// With --json: also the exact bytes of output and of files that are not text, in base64
    #[arg(long, requires = "json", help_heading = "Results")]
    pub(crate) base64: bool,

    /// Say nothing but errors, and which files could not be saved
    #[arg(long, short = 'q', help_heading = "Results")]
    pub(crate) quiet: bool,

    /// Pass the program's output to a terminal as it is, control sequences included
    #[arg(long, help_heading = "Results")]
    pub(crate) raw: bool,

    /// Keep the workspace under this name, and find it again the next time
    #[arg(long, value_name = "NAME", help_heading = "Session")]
    pub(crate) session: Option<SessionId>,

    /// In a kept session: what to do when the skill changed at its source and its copy was changed in the session
    #[arg(long, value_name = "WHAT", default_value = "fail", help_heading = "Session")]
    pub(crate) on_conflict: Conflict,

    /// About this machine.
    #[command(flatten)]
    pub(crate) host: HostArgs,
}

/// A variable.
pub(crate) type EnvPair = (String, String);

/// What to do about a changed skill whose copy was changed as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Conflict {
    /// Say so and run nothing
    Fail,
    /// Keep the session's copy
    Keep,
    /// Replace it, and lose its changes
    Discard,
}

fn env_pair(text: &str) -> Result<EnvPair, String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("it is not of the form NAME=VALUE, such as LANG=C".to_owned()),
    }
}

fn time_limit(text: &str) -> Result<TimeLimit, String> {
    TimeLimit::parse(text).ok_or_else(|| {
        "give a time above zero, a whole number of ms, s, m or h such as 500ms, 30s or 2m (seconds without a unit), or \"none\" for no limit".to_owned()
    })
}

/// Checks a limit; the texts are put together later.
fn limit(text: &str) -> Result<String, String> {
    LimitsPatch::default().set(text).map_err(|error| error.to_string())?;
    Ok(text.to_owned())
}
