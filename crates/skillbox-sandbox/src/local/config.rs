//! What the local executor is configured with.

use std::path::{Component, Path, PathBuf};

use skillbox_executor::ExecutorError;
use skillbox_types::IsolationLevel;

use crate::LauncherProgram;

/// Configuration of a [`LocalExecutor`](crate::LocalExecutor).
#[derive(Debug, Clone)]
pub struct LocalConfig {
    /// The engine's own folder, closed to everyone else; lock files of uids are kept in it.
    pub state_dir: PathBuf,
    /// The folder of the skill store: lower layers of overlays are below it.
    pub store_dir: PathBuf,
    /// Directories of the host that sandboxes see read-only beside the system's own (`/usr` and its links): interpreters and libraries
    /// installed elsewhere, such as `/opt/python`.
    pub runtime_dirs: Vec<PathBuf>,
    /// The weakest isolation that is accepted.
    pub minimum: IsolationLevel,
    /// Whether cgroups are used where they can be.
    pub use_cgroups: bool,
    /// The first of the host's uids that sandboxes run as, where the engine is root. The range must not belong to anybody.
    pub uid_base: u32,
    /// The executable that becomes the launcher.
    pub launcher: LauncherProgram,
}

/// Uids above those of accounts, services and other container engines: systemd's ranges end at 1 879 048 191
/// (systemd's "Users, Groups, UIDs and GIDs" page), and 2^31 is where some programs begin to err.
const UID_BASE: u32 = 1_900_000_000;

impl LocalConfig {
    /// The defaults, for an engine whose folder is `state_dir` and whose store is `store_dir`.
    pub fn new(state_dir: impl Into<PathBuf>, store_dir: impl Into<PathBuf>) -> Self {
        Self {
            state_dir: state_dir.into(),
            store_dir: store_dir.into(),
            runtime_dirs: Vec::new(),
            minimum: IsolationLevel::Namespaces,
            use_cgroups: true,
            uid_base: UID_BASE,
            launcher: LauncherProgram::default(),
        }
    }

    pub(crate) fn check(&self) -> Result<(), ExecutorError> {
        if self.uid_base == 0 {
            return Err(ExecutorError::Config(
                "uid_base is 0: a sandbox must never run as the host's root".to_owned(),
            ));
        }
        if self.minimum < IsolationLevel::Namespaces {
            return Err(ExecutorError::Unsupported {
                executor: super::executor::NAME,
                what: "an isolation level below \"namespaces\"".to_owned(),
            });
        }
        self.runtime_dirs.iter().try_for_each(|dir| self.check_runtime_dir(dir))
    }

    fn check_runtime_dir(&self, dir: &Path) -> Result<(), ExecutorError> {
        let refuse =
            |why: &str| Err(ExecutorError::Config(format!("the runtime directory {} {why}", dir.display())));
        let plain = dir.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
        if !dir.is_absolute() || !plain {
            return refuse("is not an absolute path without \"..\"");
        }
        match std::fs::canonicalize(dir) {
            Ok(real) if real != dir => {
                return refuse(&format!("passes a link; give the folder itself, {}", real.display()));
            }
            Ok(_) if dir.is_dir() => {}
            Ok(_) => return refuse("is not a directory"),
            Err(error) => return refuse(&format!("cannot be used: {error}; create it or leave it out")),
        }
        for private in ["/proc", "/sys", "/dev", "/tmp", "/var/tmp", "/workspace"] {
            if dir.starts_with(private) {
                return refuse(&format!(
                    "lies below {private}, where every sandbox has something of its own; install it elsewhere"
                ));
            }
        }
        for broad in ["/", "/etc", "/run", "/var", "/home", "/root"] {
            if dir == Path::new(broad) {
                return refuse(
                    "holds more than interpreters and libraries; name the folder inside it that does",
                );
            }
        }
        if self.state_dir.starts_with(dir) || self.store_dir.starts_with(dir) {
            return refuse("contains the engine's own folder, which no script may see");
        }
        Ok(())
    }
}
