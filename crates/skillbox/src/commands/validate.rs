//! `skillbox validate`.

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use skillbox_skill::{Severity, Validation};

use crate::args::ValidateArgs;
use crate::failure::Failure;
use crate::host_files;
use crate::output::{Talk, clean, print_json, print_line, printable};

pub(super) fn validate(args: &ValidateArgs, talk: &Talk) -> Result<u8, Failure> {
    let validations: Vec<Validation> =
        args.paths.iter().map(|path| skillbox_skill::validate(path, args.strict)).collect();
    if args.json {
        print_json(&validations)?;
    } else {
        validations.iter().try_for_each(|validation| say(validation, talk))?;
    }
    Ok(u8::from(validations.iter().any(|validation| !validation.valid)))
}

/// The reference tool's layout: the verdict, and a line for each fault.
fn say(validation: &Validation, talk: &Talk) -> Result<(), Failure> {
    let shown = printable(folder(&validation.path).as_os_str().as_bytes());
    if validation.valid {
        print_line(&format!("Valid skill: {shown}"))?;
    } else {
        talk.line(&format!("Validation failed for {shown}:"));
        for fault in validation.errors() {
            talk.line(&format!("  - {}", clean(&fault.message)));
        }
    }
    let decisive: Vec<_> = validation.errors().collect();
    for other in validation.diagnostics.iter().filter(|diagnostic| !decisive.contains(diagnostic)) {
        match other.severity {
            Severity::Lint => talk.note(&other.to_string()),
            _ => talk.warning(&other.to_string()),
        }
    }
    Ok(())
}

/// A skill is named by its folder, also where its SKILL.md was given.
fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if host_files::is_skill_md(path) && !host_files::is_dir(path) => parent,
        _ => path,
    }
}
