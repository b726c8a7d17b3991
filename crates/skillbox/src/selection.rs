//! Which skill is meant: by its name in some roots, or by the path of its folder.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use skillbox_engine::EngineError;
use skillbox_skill::{LookupError, ReadOptions, Repository, Skill, conventional_roots, read_skill};

use crate::args::RootArgs;
use crate::environment::Environment;
use crate::failure::Failure;
use crate::host_files;
use crate::output::Talk;

/// A skill, and the roots in which its name leads to it.
#[derive(Debug)]
pub(crate) struct Selection {
    pub(crate) roots: Vec<PathBuf>,
    pub(crate) name: String,
}

/// The roots to search: given ones, else `SKILLS_ROOT`, else the conventional places.
pub(crate) fn roots(args: &RootArgs, environment: &Environment) -> Vec<PathBuf> {
    if !args.skills.is_empty() {
        return args.skills.iter().map(|root| environment.absolute(root)).collect();
    }
    if !environment.skills_root.is_empty() {
        return environment.skills_root.iter().map(|root| environment.absolute(root)).collect();
    }
    conventional_roots(&environment.cwd, environment.home.as_deref())
}

/// Finds out what `skill` means: a path where it has a slash or is a skill's folder, else a name.
pub(crate) fn select(skill: &str, args: &RootArgs, environment: &Environment) -> Result<Selection, Failure> {
    let path = environment.absolute(Path::new(skill));
    if !skill.contains('/') && !host_files::is_skill(&path) {
        return Ok(Selection { roots: roots(args, environment), name: skill.to_owned() });
    }
    let dir = if host_files::is_skill_md(&path) && !host_files::is_dir(&path) {
        path.parent().map_or_else(|| path.clone(), Path::to_path_buf)
    } else {
        path.clone()
    };
    // "." and ".." have no name of their own.
    let dir =
        if dir.components().next_back().is_some_and(|last| matches!(last, std::path::Component::Normal(_))) {
            dir.components().collect()
        } else {
            host_files::resolve(dir)
        };
    match read_skill(&dir, ReadOptions::default()) {
        // The folder is the only root: no other skill of that name can be meant.
        Ok(found) => Ok(Selection { name: found.name().to_string(), roots: vec![dir] }),
        Err(diagnostics) => {
            let fault = diagnostics.iter().find(|d| d.severity == skillbox_skill::Severity::Error);
            let reason = fault.map_or_else(|| dir.display().to_string(), ToString::to_string);
            Err(Failure::with_hint(
                format!("the skill at '{skill}' cannot be loaded: {reason}"),
                "give the path of a folder with a SKILL.md, or the name of a skill that `skillbox list` shows",
            ))
        }
    }
}

/// The skill of that name; where there is none, the failure says where it was looked for.
pub(crate) fn lookup<'a>(repository: &'a Repository, name: &str) -> Result<&'a Arc<Skill>, Failure> {
    repository.lookup(name).map_err(|error| match &error {
        LookupError::Unknown { .. } => Failure::with_hint(error.to_string(), searched(repository)),
        _ => EngineError::from(error).into(),
    })
}

/// Says where a name that was not found was looked for.
pub(crate) fn searched(repository: &Repository) -> String {
    let there: Vec<String> = repository
        .roots()
        .iter()
        .filter(|root| root.exists)
        .map(|root| format!("{} ({} skills)", root.path.display(), root.loaded))
        .collect();
    if there.is_empty() {
        return "none of the places for skills exists; give --skills ROOT, or set SKILLS_ROOT".to_owned();
    }
    format!("searched {}; `skillbox list` shows what is there", there.join(", "))
}

/// Warns about roots that were named and cannot be searched.
pub(crate) fn warn_about_roots(
    repository: &Repository,
    args: &RootArgs,
    environment: &Environment,
    talk: &Talk,
) {
    let named = !args.skills.is_empty() || !environment.skills_root.is_empty();
    for root in repository.roots() {
        if let Some(error) = &root.error {
            talk.warning(&format!("{} cannot be searched: {error}", root.path.display()));
        } else if named && !root.exists {
            talk.warning(&format!("the folder {} of skills does not exist", root.path.display()));
        }
        if root.truncated {
            talk.warning(&format!(
                "{} is too deep or too large; not all of it was searched",
                root.path.display()
            ));
        }
    }
}
