//! Files of the user's: those that were named on the command line, outside every workspace.

#![allow(
    clippy::disallowed_methods,
    reason = "the user named these paths, and links in them are the user's own"
)]

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use crate::failure::Failure;

pub(crate) fn is_dir(path: &Path) -> bool {
    path.is_dir()
}

/// Whether there is a skill's folder, or a SKILL.md, at the path.
pub(crate) fn is_skill(path: &Path) -> bool {
    path.join("SKILL.md").is_file()
        || path.join("skill.md").is_file()
        || (is_skill_md(path) && path.is_file())
}

/// Whether the path is named like a SKILL.md.
pub(crate) fn is_skill_md(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.eq_ignore_ascii_case("skill.md"))
}

pub(crate) fn exists(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

/// The same place without `.`, `..` and links, where that can be found out.
pub(crate) fn resolve(path: PathBuf) -> PathBuf {
    fs::canonicalize(&path).unwrap_or(path)
}

/// A regular file's content, and whether it is executable.
pub(crate) fn read(path: &Path) -> Result<(Vec<u8>, bool), Failure> {
    let failed = |error| Failure::file("read", path, &error);
    let metadata = fs::metadata(path).map_err(failed)?;
    if !metadata.is_file() {
        return Err(Failure::new(format!(
            "{} is not a regular file; only files can be staged",
            path.display()
        )));
    }
    let content = fs::read(path).map_err(failed)?;
    Ok((content, metadata.permissions().mode() & 0o111 != 0))
}

/// Makes a folder and those above it.
pub(crate) fn make_dir(path: &Path) -> Result<(), Failure> {
    fs::create_dir_all(path).map_err(|error| Failure::file("make the folder", path, &error))
}

/// Makes a folder to save files to, and those above it, and finds out whether files can be made in it.
pub(crate) fn make_writable_dir(path: &Path) -> Result<(), Failure> {
    make_dir(path)?;
    tempfile::tempfile_in(path).map_err(|error| Failure::file("save files to", path, &error))?;
    Ok(())
}

/// A file to be made.
#[derive(Debug)]
pub(crate) struct NewFile<'a> {
    pub(crate) path: &'a str,
    pub(crate) content: &'a str,
    pub(crate) executable: bool,
}

/// Makes a folder that must not exist, with these files; leaves nothing half-made.
pub(crate) fn make_tree(root: &Path, files: &[NewFile<'_>]) -> Result<(), Failure> {
    if let Some(parent) = root.parent() {
        make_dir(parent)?;
    }
    fs::create_dir(root).map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => Failure::with_hint(
            format!("{} exists already, and is left as it is", root.display()),
            "choose another name or --dir",
        ),
        _ => Failure::file("make the folder", root, &error),
    })?;
    let written = files.iter().try_for_each(|file| write_new(&root.join(file.path), file));
    if written.is_err() {
        let _ = fs::remove_dir_all(root);
    }
    written
}

fn write_new(path: &Path, file: &NewFile<'_>) -> Result<(), Failure> {
    if let Some(parent) = path.parent() {
        make_dir(parent)?;
    }
    let mode = if file.executable { 0o777 } else { 0o666 };
    let made = fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(path);
    made.and_then(|mut made| made.write_all(file.content.as_bytes()))
        .map_err(|error| Failure::file("write", path, &error))
}
