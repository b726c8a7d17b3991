//! The launcher: the one small process that has the privilege to build sandboxes.
//!
//! A process with much memory pays dearly for `fork` (20 ms for 256 MiB), so the engine never forks. It starts the
//! launcher once, by `posix_spawn`, as a second life of its own executable, and asks it over a socket. The launcher has
//! one thread, holds no data of any tenant, and lives in a pid namespace of its own: when it ends, for whatever reason, the
//! kernel ends every process in every sandbox with it.
//!
//! ```text
//! engine ── socket ──▶ launcher (stage 1: waits)
//!                        └─ stage 2: process 1 of a pid namespace, in two mount namespaces by turns
//!                             · the host's view, private: opens workspaces and stored skills, makes overlays
//!                             · the template: a read-only root with nothing but the runtime directories
//!                             └─ init of each sandbox, cloned from the template
//! ```
//!
//! Building from a template means that a sandbox never sees the host's mounts, not even for a moment, and that no old root
//! has to be unmounted for each (which can take milliseconds).

mod attach;
mod build;
mod idmap;
mod loopback;
mod message;
mod namespaces;
mod serve;
mod template;

pub(crate) use message::{
    BuildSpec, FromLauncher, LauncherConfig, LauncherError, Request, SetupReport, ToLauncher, UNANSWERED,
    receive_blocking, send_blocking,
};

use std::sync::atomic::{AtomicBool, Ordering};

/// The name that the launcher's process goes by.
pub(crate) const LAUNCHER_NAME: &str = "skillbox-launcher";

static HOOKED: AtomicBool = AtomicBool::new(false);

/// Serves as the launcher, and never returns, where this process was started as one; returns at once otherwise.
///
/// A program that uses the local executor calls this first thing in `main`, before it starts threads: the launcher is a
/// second life of the program's own executable. Without the call, building the executor answers an error that says so.
///
/// ```no_run
/// skillbox_sandbox::run_launcher_if_asked();
/// // … the program itself …
/// ```
pub fn run_launcher_if_asked() {
    HOOKED.store(true, Ordering::Relaxed);
    if std::env::args_os().next().is_some_and(|name| name == LAUNCHER_NAME) {
        serve::main();
    }
}

pub(crate) fn is_hooked() -> bool {
    HOOKED.load(Ordering::Relaxed)
}
