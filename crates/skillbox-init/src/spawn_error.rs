//! Why a command did not start.

use serde::{Deserialize, Serialize};

/// The step of starting a command that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum SpawnStep {
    /// Making the run's folder.
    MakeDir,
    /// Entering the working directory.
    Cwd,
    /// Setting up stdin.
    Stdin,
    /// Setting resource limits.
    Rlimit,
    /// Finding the program.
    Lookup,
    /// `execve(2)`.
    Exec,
    /// Reading the request.
    Request,
}

/// What was wrong, with what the sandbox could find out about the cause.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpawnFailure {
    /// The step.
    pub step: SpawnStep,
    /// The kernel's error number.
    pub errno: i32,
    /// The path it was about.
    pub path: String,
    /// The interpreter of the program's `#!` line, where it has one.
    pub interpreter: Option<String>,
    /// Whether `path` is a directory.
    pub is_directory: bool,
}

impl SpawnFailure {
    /// A failure of `step`, about which no more is known than the kernel's answer.
    pub(crate) fn new(step: SpawnStep, errno: i32, path: &[u8]) -> Self {
        let path = String::from_utf8_lossy(path).into_owned();
        Self { step, errno, path, interpreter: None, is_directory: false }
    }
}

impl SpawnFailure {
    /// A sentence that says what was wrong and what to do.
    pub fn message(&self) -> String {
        let path = &self.path;
        let cause = nix::errno::Errno::from_raw(self.errno).desc();
        match (self.step, self.errno) {
            (SpawnStep::MakeDir, libc::EXDEV | libc::ELOOP | libc::ENOTDIR | libc::EACCES) => format!(
                "the command's own folder {path:?} cannot be made: a command of this session replaced the folder above it, or \
                 closed it; put a writable folder back in its place"
            ),
            (SpawnStep::Cwd, libc::ENOENT) => format!("the working directory {path:?} does not exist"),
            (SpawnStep::Cwd, libc::EXDEV | libc::ELOOP) => {
                format!("the working directory {path:?} leads out of the workspace")
            }
            (SpawnStep::Cwd, libc::ENOTDIR) => format!("the working directory {path:?} is not a directory"),
            (SpawnStep::Lookup, _) => format!(
                "program {path:?} was not found in PATH inside the sandbox; give a path such as scripts/run.py, \
                 or make its folder visible with a runtime directory"
            ),
            (SpawnStep::Exec, libc::ENOENT) => match &self.interpreter {
                Some(interpreter) if interpreter.ends_with('\r') => format!(
                    "{path:?} has Windows line ends: its first line asks for the interpreter {interpreter:?}; \
                     save it with LF line ends (sed -i 's/\\r$//' FILE)"
                ),
                Some(interpreter) => format!(
                    "the interpreter {interpreter:?} of {path:?} does not exist inside the sandbox; correct the first line, \
                     or make the interpreter's folder visible with a runtime directory"
                ),
                None => format!("program {path:?} does not exist"),
            },
            (SpawnStep::Exec, _) if self.is_directory => {
                format!("{path:?} is a directory; name a program or a script in it")
            }
            (SpawnStep::Exec, libc::EACCES) => format!(
                "{path:?} is not executable; set its execute bit (chmod +x), or name its interpreter: python3 {path}"
            ),
            (SpawnStep::Exec, libc::ENOEXEC) => format!(
                "{path:?} is neither a program for this machine nor a script with a #! line; name its interpreter: sh {path}"
            ),
            (SpawnStep::Exec, libc::E2BIG) => "the arguments and the environment are too long".to_owned(),
            (step, _) => format!("starting {path:?} failed at step {step:?}: {cause}"),
        }
    }
}
