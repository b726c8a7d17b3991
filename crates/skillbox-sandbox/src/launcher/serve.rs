//! The launcher's life.

use std::collections::HashMap;
use std::os::fd::{FromRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use nix::mount::MsFlags;
use nix::sched::{CloneFlags, unshare};
use nix::sys::prctl;
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid};

use super::attach::{self, Layers};
use super::build::{Built, build};
use super::message::{
    FromLauncher, LauncherConfig, LauncherError, Request, SetupReport, Step as _, ToLauncher, UNANSWERED,
    receive_blocking, send_blocking,
};
use super::namespaces::{Privilege, enter, mount_namespace};
use super::{idmap, template};
use crate::mount::{Attr, attach as attach_mount, new_filesystem};
use crate::seccomp::{Arch, FilterOptions, Policy, Program};

/// What the launcher keeps.
#[derive(Debug)]
pub(crate) struct Launcher {
    pub(crate) config: LauncherConfig,
    pub(crate) privilege: Privilege,
    pub(crate) report: SetupReport,
    /// The system-call filter of every sandbox.
    pub(crate) filter: Program,
    /// The mount namespace with a private view of the host.
    pub(crate) host_view: OwnedFd,
    /// The mount namespace that sandboxes are cloned from.
    pub(crate) template: OwnedFd,
    sandboxes: HashMap<u64, (Built, u32)>,
    /// Views of the store, by the uid that they show as owner.
    views: HashMap<u32, PathBuf>,
}

impl Launcher {
    pub(crate) fn sandbox(&self, id: u64) -> Result<&Built, LauncherError> {
        self.sandboxes
            .get(&id)
            .map(|(built, _)| built)
            .ok_or_else(|| LauncherError::new("find the sandbox", nix::Error::ESRCH))
    }

    pub(crate) fn mapped_store(&mut self, host_uid: u32) -> Result<PathBuf, LauncherError> {
        if let Some(view) = self.views.get(&host_uid) {
            return Ok(view.clone());
        }
        let view = idmap::mount_view(&self.config.store, host_uid)?;
        self.views.insert(host_uid, view.clone());
        Ok(view)
    }
}

/// Serves the engine on descriptor 0 until it is gone.
pub(crate) fn main() -> ! {
    // SAFETY: the engine starts this process with the socket as descriptor 0, and nothing else here knows it.
    let socket = unsafe { OwnedFd::from_raw_fd(0) };
    let code = i32::from(stage_one(socket).is_err());
    // SAFETY: _exit(2) takes any status and never returns; exit handlers of the host program must not run here.
    unsafe { libc::_exit(code) }
}

fn stage_one(socket: OwnedFd) -> std::io::Result<()> {
    let _ = prctl::set_name(c"skillbox-launch");
    // It leads its own process group already and cannot leave the session; a terminal that goes away must not end it either.
    ignore_terminal_signals()?;
    let Some((Request { what: ToLauncher::Setup(config), .. }, _)) = receive_blocking(&socket)? else {
        return Ok(());
    };
    let privilege = Privilege::current();
    if let Err(error) = enter(privilege) {
        return send_blocking(&socket, &FromLauncher::Failed { number: UNANSWERED, error }, &[]);
    }
    // SAFETY: this process has one thread.
    match unsafe { nix::unistd::fork() }? {
        ForkResult::Child => {
            let _ = prctl::set_pdeathsig(Signal::SIGKILL);
            let result = stage_two(&socket, config, privilege);
            // SAFETY: as in `main`.
            unsafe { libc::_exit(i32::from(result.is_err())) }
        }
        ForkResult::Parent { child } => {
            drop(socket);
            waitpid(child, None)?;
            Ok(())
        }
    }
}

fn ignore_terminal_signals() -> nix::Result<()> {
    for signal in [Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT, Signal::SIGTERM, Signal::SIGPIPE] {
        // SAFETY: SIG_IGN runs no code of ours; commands get the defaults back before they start.
        unsafe { nix::sys::signal::signal(signal, nix::sys::signal::SigHandler::SigIgn) }?;
    }
    Ok(())
}

fn stage_two(socket: &OwnedFd, config: LauncherConfig, privilege: Privilege) -> std::io::Result<()> {
    let mut launcher = match set_up(config, privilege) {
        Ok(launcher) => launcher,
        Err(error) => return send_blocking(socket, &FromLauncher::Failed { number: UNANSWERED, error }, &[]),
    };
    send_blocking(socket, &FromLauncher::Ready { report: launcher.report.clone() }, &[])?;
    while let Some((request, fds)) = receive_blocking::<Request>(socket)? {
        launcher.handle(socket, request, fds)?;
        reap();
    }
    Ok(())
}

/// Sandboxes whose init ended by itself are reaped between requests; the engine learns of it from their connection.
fn reap() {
    while let Ok(status) = waitpid(Pid::from_raw(-1), Some(WaitPidFlag::WNOHANG)) {
        if status == WaitStatus::StillAlive {
            break;
        }
    }
}

fn set_up(config: LauncherConfig, privilege: Privilege) -> Result<Launcher, LauncherError> {
    nix::mount::mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>)
        .step("make the mounts private")?;
    // Pids in requests to /proc are those of the launcher's own pid namespace.
    let proc = new_filesystem("proc", &[], Attr::Data).step("mount the launcher's /proc")?;
    attach_mount(&proc, Path::new("/proc")).step("mount the launcher's /proc")?;
    if privilege == Privilege::Root {
        idmap::prepare()?;
    }
    let host_view = mount_namespace("self").step("open the mount namespace")?;
    unshare(CloneFlags::CLONE_NEWNS).step("unshare the template's mount namespace")?;
    let mut report = SetupReport { privileged: privilege == Privilege::Root, ..SetupReport::default() };
    template::build(&config, &mut report)?;
    let template = mount_namespace("self").step("open the template's mount namespace")?;
    nix::sched::setns(&host_view, CloneFlags::CLONE_NEWNS).step("return to the host's view")?;
    Ok(Launcher {
        config,
        privilege,
        report,
        filter: Policy::new(FilterOptions::default()).compile(Arch::native()),
        host_view,
        template,
        sandboxes: HashMap::new(),
        views: HashMap::new(),
    })
}

impl Launcher {
    fn handle(&mut self, socket: &OwnedFd, request: Request, fds: Vec<OwnedFd>) -> std::io::Result<()> {
        let number = request.number;
        let result = match request.what {
            ToLauncher::Setup(_) => return Ok(()),
            ToLauncher::Build { id, spec } => {
                let built = match <[OwnedFd; 1]>::try_from(fds) {
                    Ok([connection]) => build(self, spec, connection),
                    Err(_) => Err(LauncherError::new("take the connection", nix::Error::EBADF)),
                };
                built.and_then(|built| self.keep(id, built, spec.host_uid))
            }
            ToLauncher::AttachWorkspace { id, workspace, home } => {
                let done =
                    self.sandbox(id).and_then(|built| attach::workspace(self, built, &workspace, &home));
                done.map(|()| None)
            }
            ToLauncher::AttachSkill { id, name, lower, upper, work } => {
                let uid = self.sandboxes.get(&id).map_or(0, |(_, uid)| *uid);
                let layers = Layers { lower, upper, work };
                attach::skill(self, id, uid, &name, &layers).map(|()| None)
            }
            ToLauncher::Close { id } => {
                let closed = self.sandboxes.remove(&id);
                if let Some((built, _)) = &closed {
                    built.end();
                }
                send_blocking(socket, &FromLauncher::Done { number }, &[])?;
                // Only now, off the engine's way: the last handle on a mount namespace takes its mounts along.
                drop(closed);
                return Ok(());
            }
        };
        match result {
            Ok(fd) => {
                send_blocking(socket, &FromLauncher::Done { number }, &fd.into_iter().collect::<Vec<_>>())
            }
            Err(error) => send_blocking(socket, &FromLauncher::Failed { number, error }, &[]),
        }
    }

    fn keep(&mut self, id: u64, built: Built, host_uid: u32) -> Result<Option<OwnedFd>, LauncherError> {
        let handle = built.init.try_clone().step("duplicate a handle")?;
        self.sandboxes.insert(id, (built, host_uid));
        Ok(Some(handle))
    }
}
