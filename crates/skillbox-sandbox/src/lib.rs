//! Linux isolation: launcher, namespaces, mounts, the system-call filter, cgroups and the probe.

#![allow(unsafe_code, reason = "clone, prctl, mount_setattr and seccomp have no safe wrapper")]

#[allow(clippy::disallowed_methods, reason = "cgroup files are not skillbox-fs's")]
pub mod cgroup;
pub mod seccomp;

#[allow(
    clippy::disallowed_methods,
    reason = "the launcher builds the sandbox's root from the host's directories"
)]
mod launcher;
#[allow(clippy::disallowed_methods, reason = "the engine's own state folder and files of /proc")]
mod local;
mod mount;

pub use launcher::run_launcher_if_asked;
pub use local::{LauncherProgram, LocalConfig, LocalExecutor};
