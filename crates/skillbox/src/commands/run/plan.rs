//! From what was written on the command line to what will be done; nothing is made or started here.

use std::collections::BTreeSet;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use skillbox_engine::{EngineBuilder, OnConflict, SessionOptions};
use skillbox_types::{
    CommandLine, ExecRequest, Input, LimitsPatch, OutputSpec, SkillName, Stdin, WorkspacePath,
};

use crate::args::{Conflict, RunArgs};
use crate::environment::Environment;
use crate::failure::Failure;
use crate::selection::Selection;
use crate::{host, host_files, selection};

/// Where inputs are put, and what they are called in the skill's folder.
const INPUTS: &str = "work/inputs";
/// What is collected unless something else is asked for.
const RESULTS: &str = "out/**";

/// A run with everything resolved.
#[derive(Debug)]
pub(super) struct RunPlan {
    pub(super) skill: String,
    pub(super) on_conflict: OnConflict,
    pub(super) session: SessionOptions,
    /// Without the skill's name, which the loaded skill gives.
    pub(super) request: ExecRequest,
    pub(super) save_to: Option<PathBuf>,
}

impl RunPlan {
    /// The plan, and the engine to be built for it.
    pub(super) fn new(args: &RunArgs, environment: &Environment) -> Result<(EngineBuilder, Self), Failure> {
        let Selection { roots, name } = selection::select(&args.skill, &args.roots, environment)?;
        let mut limits = LimitsPatch::default();
        for limit in &args.limits {
            limits.set(limit).map_err(|error| Failure::new(error.to_string()))?;
        }
        let timeout = args.timeout.unwrap_or_default();
        let inputs = inputs(&args.inputs, environment)?;
        let engine = host::engine(&args.host, environment)?.skills(roots);
        let plan = Self {
            skill: name,
            on_conflict: match args.on_conflict {
                Conflict::Fail => OnConflict::Fail,
                Conflict::Keep => OnConflict::Keep,
                Conflict::Discard => OnConflict::Discard,
            },
            // All limits go to the session: there is but one command in it.
            session: SessionOptions {
                id: args.session.clone(),
                limits,
                timeout,
                ..SessionOptions::default()
            },
            request: ExecRequest {
                cwd: args.cwd.clone(),
                env: args.env.iter().cloned().collect(),
                stdin: if args.stdin { own_stdin()? } else { Stdin::Null },
                timeout,
                inputs,
                outputs: OutputSpec {
                    globs: globs(args),
                    changed_only: args.changed_only,
                    max_files: args.max_files,
                    inline_binary: args.base64,
                    ..OutputSpec::default()
                },
                base64_output: args.base64,
                ..ExecRequest::new(command(args))
            },
            save_to: args.save_to.as_ref().map(|dir| environment.absolute(dir)),
        };
        Ok((engine, plan))
    }

    /// The request on behalf of a loaded skill.
    pub(super) fn request_for(&self, skill: SkillName) -> ExecRequest {
        ExecRequest { skill: Some(skill), ..self.request.clone() }
    }
}

fn globs(args: &RunArgs) -> Vec<String> {
    if args.outputs.is_empty() { vec![RESULTS.to_owned()] } else { args.outputs.clone() }
}

fn command(args: &RunArgs) -> CommandLine {
    if args.shell {
        CommandLine::Shell(args.command.join(" "))
    } else {
        CommandLine::Argv(args.command.clone())
    }
}

fn own_stdin() -> Result<Stdin, Failure> {
    let mut bytes = Vec::new();
    std::io::stdin()
        .lock()
        .read_to_end(&mut bytes)
        .map_err(|error| Failure::new(format!("cannot read stdin: {error}")))?;
    Ok(match String::from_utf8(bytes) {
        Ok(text) => Stdin::Text(text),
        Err(error) => Stdin::Base64(error.into_bytes()),
    })
}

fn inputs(given: &[String], environment: &Environment) -> Result<Vec<Input>, Failure> {
    let mut taken = BTreeSet::new();
    given
        .iter()
        .map(|text| {
            let (file, name) = file_and_name(text, environment)?;
            let name = WorkspacePath::new(&name)
                .map_err(|error| Failure::new(format!("--input {text:?}: {error}")))?;
            if name.is_root() {
                return Err(Failure::new(format!("--input {text:?}: NAME is empty")));
            }
            if !taken.insert(name.clone()) {
                return Err(Failure::with_hint(
                    format!("two inputs would be called inputs/{name}"),
                    "give one of them another name: --input FILE:NAME",
                ));
            }
            let (content, executable) = host_files::read(&file)?;
            let path = WorkspacePath::new(INPUTS).and_then(|inputs| inputs.join(name.as_str()));
            let path = path.map_err(|error| Failure::new(format!("--input {text:?}: {error}")))?;
            Ok(Input { path, content, executable })
        })
        .collect()
}

/// Splits `FILE:NAME`; a file whose own name has a colon is taken as it is.
fn file_and_name(text: &str, environment: &Environment) -> Result<(PathBuf, String), Failure> {
    let whole = environment.absolute(Path::new(text));
    if !host_files::exists(&whole)
        && let Some((file, name)) = text.rsplit_once(':')
    {
        return Ok((environment.absolute(Path::new(file)), name.to_owned()));
    }
    let name = whole.file_name().and_then(|name| name.to_str()).map(str::to_owned);
    let name = name.ok_or_else(|| {
        Failure::with_hint(
            format!("--input {text:?} does not end in the name of a file"),
            "give one: --input FILE:NAME",
        )
    })?;
    Ok((whole, name))
}
