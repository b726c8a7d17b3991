//! The environment, read once; everything else gets it from here.

#![allow(clippy::disallowed_methods, reason = "the one place where the program reads its environment")]

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// What the program takes from its surroundings.
#[derive(Debug)]
pub(crate) struct Environment {
    /// `SKILLS_ROOT`, split at colons.
    pub(crate) skills_root: Vec<PathBuf>,
    /// The working directory.
    pub(crate) cwd: PathBuf,
    /// The user's home folder.
    pub(crate) home: Option<PathBuf>,
    /// Whether colours are not wanted (<https://no-color.org>).
    pub(crate) no_color: bool,
    state_dir: Option<PathBuf>,
    state_home: Option<PathBuf>,
}

impl Environment {
    pub(crate) fn read() -> Self {
        let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let path = |name: &str| set(name).map(PathBuf::from);
        Self {
            skills_root: set("SKILLS_ROOT").map(|value| split_paths(&value)).unwrap_or_default(),
            cwd: std::env::current_dir().unwrap_or_else(|_| PathBuf::from(".")),
            home: path("HOME").filter(|home| home.is_absolute()),
            no_color: set("NO_COLOR").is_some() || set("TERM").is_some_and(|term| term == "dumb"),
            state_dir: path("SKILLBOX_STATE_DIR"),
            // The XDG base directory specification: relative paths are invalid and to be ignored.
            state_home: path("XDG_STATE_HOME").filter(|home| home.is_absolute()),
        }
    }

    /// Where the engine keeps its files, unless it is told otherwise; `None` for a user without a home.
    pub(crate) fn state_dir(&self) -> Option<PathBuf> {
        if let Some(dir) = &self.state_dir {
            return Some(self.absolute(dir));
        }
        if rustix::process::geteuid().is_root() {
            return Some(PathBuf::from("/var/lib/skillbox"));
        }
        let base =
            self.state_home.clone().or_else(|| self.home.as_ref().map(|home| home.join(".local/state")));
        base.map(|base| base.join("skillbox"))
    }

    /// A path that the user gave, from the root on.
    pub(crate) fn absolute(&self, path: &Path) -> PathBuf {
        self.cwd.join(path)
    }
}

fn split_paths(value: &OsString) -> Vec<PathBuf> {
    std::env::split_paths(value).filter(|path| !path.as_os_str().is_empty()).collect()
}
