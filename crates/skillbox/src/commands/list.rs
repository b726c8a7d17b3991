//! `skillbox list`.

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use serde::Serialize;
use skillbox_skill::{Diagnostic, Rejected, Repository, Root, RootReport, ScanOptions, Shadowed};

use crate::args::ListArgs;
use crate::environment::Environment;
use crate::failure::Failure;
use crate::output::{
    Columns, Talk, clean, clean_prose, plain_table, print_json, print_line, printable, warning,
};
use crate::selection;

/// What `list --json` prints.
#[derive(Debug, Serialize)]
struct Listing<'a> {
    roots: &'a [RootReport],
    skills: Vec<Listed<'a>>,
    rejected: Vec<&'a Rejected>,
    shadowed: &'a [Shadowed],
    notices: &'a [Diagnostic],
}

#[derive(Debug, Serialize)]
struct Listed<'a> {
    name: &'a str,
    description: &'a str,
    dir: &'a Path,
    /// Index into `roots`.
    root: usize,
    /// Whether it keeps every rule of the specification.
    strict: bool,
    diagnostics: &'a [Diagnostic],
}

pub(super) fn list(args: &ListArgs, environment: &Environment, talk: &Talk) -> Result<u8, Failure> {
    let roots: Vec<Root> = selection::roots(&args.roots, environment).into_iter().map(Root::from).collect();
    let repository = Repository::scan(&roots, &ScanOptions::default());
    if args.json {
        print_json(&listing(&repository))?;
        return Ok(0);
    }
    selection::warn_about_roots(&repository, &args.roots, environment, talk);
    if repository.is_empty() && repository.rejected().is_empty() {
        talk.line("no skills found");
        talk.hint(&selection::searched(&repository));
        return Ok(0);
    }
    let rows = repository.skills().map(|skill| {
        vec![
            clean(skill.name().as_str()),
            clean_prose(&one_line(&skill.manifest.listing_description())),
            shown(&skill.dir, environment),
        ]
    });
    print_line(&plain_table(&["NAME", "DESCRIPTION", "SOURCE"], rows, Columns::Terminal))?;
    if !repository.rejected().is_empty() {
        print_line("\nnot loadable:")?;
        for rejected in repository.rejected() {
            let reason =
                rejected.fault().map_or_else(|| rejected.dir.display().to_string(), ToString::to_string);
            print_line(&warning(&one_line(&format!("{}  {reason}", rejected.name))))?;
        }
    }
    for shadowed in repository.shadowed() {
        talk.warning(&format!(
            "{} is hidden by {}, which has the same name",
            shown(&shadowed.dir, environment),
            shown(&shadowed.winner, environment)
        ));
    }
    Ok(0)
}

fn listing(repository: &Repository) -> Listing<'_> {
    let skills = repository.skills().map(|skill| Listed {
        name: skill.name().as_str(),
        description: skill.description(),
        dir: &skill.dir,
        root: skill.root,
        strict: skill.is_strict(),
        diagnostics: &skill.diagnostics,
    });
    Listing {
        roots: repository.roots(),
        skills: skills.collect(),
        rejected: repository.rejected().iter().map(AsRef::as_ref).collect(),
        shadowed: repository.shadowed(),
        notices: repository.notices(),
    }
}

/// Paths below the working directory are shown from there.
fn shown(path: &Path, environment: &Environment) -> String {
    printable(path.strip_prefix(&environment.cwd).unwrap_or(path).as_os_str().as_bytes())
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
