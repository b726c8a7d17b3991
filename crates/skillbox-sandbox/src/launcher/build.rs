//! Builds one sandbox: its namespaces, its private mounts, and its init.

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::path::Path;

use nix::sched::CloneFlags;
use nix::sys::prctl;
use nix::sys::signal::Signal;
use nix::unistd::{Gid, Pid, Uid};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{
    PidfdFlags, Signal as KillSignal, WaitId, WaitIdOptions, pidfd_open, pidfd_send_signal, waitid,
};
use skillbox_init::{SupervisorConfig, run_supervisor};

use crate::mount::{Attr, attach, clone_tree, new_filesystem};
use crate::seccomp::Program;

use super::loopback;
use super::message::{BuildSpec, LauncherError, Step as _};
use super::namespaces::{Privilege, mount_namespace, within, write_proc};
use super::serve::Launcher;
use super::template::{INNER_ID, WORKSPACE};

/// A sandbox as the launcher keeps it.
#[derive(Debug)]
pub(crate) struct Built {
    /// A handle on its init, by which alone it is ended: numbers are reused.
    pub(crate) init: OwnedFd,
    pub(crate) mounts: OwnedFd,
}

impl Built {
    /// Ends the sandbox, and returns when nothing of it is left: the kernel kills everything in a pid namespace with its process
    /// 1, whose own end comes last (pid_namespaces(7)).
    pub(crate) fn end(&self) {
        let _ = pidfd_send_signal(&self.init, KillSignal::KILL);
        let _ = waitid(WaitId::PidFd(self.init.as_fd()), WaitIdOptions::EXITED);
    }
}

const NAMESPACES: CloneFlags = CloneFlags::CLONE_NEWUSER
    .union(CloneFlags::CLONE_NEWNS)
    .union(CloneFlags::CLONE_NEWPID)
    .union(CloneFlags::CLONE_NEWIPC)
    .union(CloneFlags::CLONE_NEWUTS)
    .union(CloneFlags::CLONE_NEWCGROUP)
    .union(CloneFlags::CLONE_NEWNET);

/// Files of /proc that tell of the host's kernel; masked although their owners are not mapped, as a second wall.
const MASKED: [&str; 5] = ["kcore", "keys", "kallsyms", "timer_list", "sysrq-trigger"];

/// Builds a sandbox whose init serves `connection`.
pub(crate) fn build(
    launcher: &Launcher,
    spec: BuildSpec,
    connection: OwnedFd,
) -> Result<Built, LauncherError> {
    if spec.host_uid == 0 {
        return Err(LauncherError::new("map the sandbox to uid 0 of the host", nix::Error::EPERM));
    }
    let pipes = || pipe_with(PipeFlags::CLOEXEC);
    let (go_read, go_write) = pipes().step("make a pipe")?;
    let (status_read, status_write) = pipes().step("make a pipe")?;
    let pid = within(&launcher.template, &launcher.host_view, || {
        clone_child(|| {
            let error = match wait_for_go(&go_read).and_then(|()| set_up(launcher, spec)) {
                Ok(()) => {
                    close_all_but(&[connection.as_raw_fd()], &status_write);
                    let config = SupervisorConfig {
                        tracking: launcher.config.tracking(),
                        workspace: Path::new(WORKSPACE).to_owned(),
                    };
                    run_supervisor(connection, config);
                }
                Err(error) => error,
            };
            if let Ok(bytes) = postcard::to_stdvec(&error) {
                let _ = rustix::io::write(&status_write, &bytes);
            }
        })
        .step("clone the sandbox's init")
    })?;
    let built = finish(launcher.privilege, spec, pid, go_write, &status_read, status_write);
    if built.is_err() {
        let _ = nix::sys::signal::kill(pid, Signal::SIGKILL);
        let _ = nix::sys::wait::waitpid(pid, None);
    }
    built
}

fn finish(
    privilege: Privilege,
    spec: BuildSpec,
    pid: Pid,
    go: OwnedFd,
    status: &OwnedFd,
    childs_end: OwnedFd,
) -> Result<Built, LauncherError> {
    drop(childs_end);
    let (uid, gid) = match privilege {
        Privilege::Root => (spec.host_uid, spec.host_uid),
        Privilege::User { uid, gid } => (uid, gid),
    };
    if matches!(privilege, Privilege::User { .. }) {
        write_proc(&format!("/proc/{pid}/setgroups"), "deny").step("deny setgroups")?;
    }
    write_proc(&format!("/proc/{pid}/uid_map"), &format!("{INNER_ID} {uid} 1"))
        .step("write the sandbox's uid_map")?;
    write_proc(&format!("/proc/{pid}/gid_map"), &format!("{INNER_ID} {gid} 1"))
        .step("write the sandbox's gid_map")?;
    let mounts = mount_namespace(&pid.to_string()).step("open the sandbox's mount namespace")?;
    rustix::io::write(&go, b"g").step("release the sandbox's init")?;
    drop(go);
    let mut bytes = [0; 512];
    let count = rustix::io::read(status, &mut bytes).step("hear from the sandbox's init")?;
    if count > 0 {
        let error = postcard::from_bytes(&bytes[..count]).unwrap_or_else(|_| {
            LauncherError::new("read the status of the sandbox's init", nix::Error::EBADMSG)
        });
        return Err(error);
    }
    let init = rustix::process::Pid::from_raw(pid.as_raw())
        .ok_or(rustix::io::Errno::SRCH)
        .and_then(|pid| pidfd_open(pid, PidfdFlags::empty()))
        .step("open a handle on the sandbox's init")?;
    Ok(Built { init, mounts })
}

/// `clone(2)` with a copy of this process: like `fork`, into new namespaces.
fn clone_child(child: impl FnOnce()) -> nix::Result<Pid> {
    let flags = i64::from(NAMESPACES.bits()) | i64::from(libc::SIGCHLD);
    // SAFETY: without a stack and CLONE_VM this is fork(2); the launcher has one thread, so the child may use the heap. The
    // arguments after the stack are unused with these flags, on every architecture.
    let pid = unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) };
    match nix::errno::Errno::result(pid)? {
        0 => {
            child();
            // SAFETY: _exit(2) takes any status and never returns.
            unsafe { libc::_exit(1) }
        }
        pid => Ok(Pid::from_raw(i32::try_from(pid).unwrap_or(-1))),
    }
}

fn wait_for_go(go: &OwnedFd) -> Result<(), LauncherError> {
    let mut byte = [0];
    match rustix::io::read(go, &mut byte).step("wait for the launcher")? {
        1 => Ok(()),
        _ => Err(LauncherError::new("wait for the launcher", nix::Error::ECANCELED)),
    }
}

fn set_up(launcher: &Launcher, spec: BuildSpec) -> Result<(), LauncherError> {
    if launcher.privilege == Privilege::Root {
        nix::unistd::setgroups(&[]).step("drop supplementary groups")?;
        let (uid, gid) = (Uid::from_raw(INNER_ID), Gid::from_raw(INNER_ID));
        nix::unistd::setresgid(gid, gid, gid).step("become the sandbox's group")?;
        nix::unistd::setresuid(uid, uid, uid).step("become the sandbox's user")?;
    }
    prctl::set_pdeathsig(Signal::SIGKILL).step("bind the sandbox's life to the launcher's")?;
    nix::unistd::sethostname("skillbox").step("set the host name")?;
    loopback::up().step("bring the loopback interface up")?;
    mounts(launcher, spec)?;
    std::env::set_current_dir(WORKSPACE).step("enter the workspace")?;
    drop_privileges(&launcher.filter)
}

fn mounts(launcher: &Launcher, spec: BuildSpec) -> Result<(), LauncherError> {
    let memory = |path: &str, bytes: u64, inodes: &str, mode: &str| {
        let size = bytes.to_string();
        let options = [("size", Some(size.as_str())), ("nr_inodes", Some(inodes)), ("mode", Some(mode))];
        let what = format!("mount {path}");
        let mount = new_filesystem("tmpfs", &options, Attr::Data).step(&what)?;
        attach(&mount, Path::new(path)).step(&what)
    };
    memory("/tmp", spec.tmp_bytes, "16384", "1777")?;
    memory("/dev/shm", spec.shm_bytes, "4096", "1777")?;
    if launcher.report.no_proc.is_some() {
        return Ok(());
    }
    let proc = new_filesystem("proc", &[], Attr::Data).step("mount /proc")?;
    attach(&proc, Path::new("/proc")).step("mount /proc")?;
    for name in MASKED {
        let path = Path::new("/proc").join(name);
        if path.exists() {
            let null = clone_tree(Path::new("/dev/null"), Attr::Device).step("mask /proc")?;
            attach(&null, &path).step("mask /proc")?;
        }
    }
    let sys = clone_tree(Path::new("/proc/sys"), Attr::ReadOnly).step("make /proc/sys read-only")?;
    attach(&sys, Path::new("/proc/sys")).step("make /proc/sys read-only")
}

fn drop_privileges(filter: &Program) -> Result<(), LauncherError> {
    const LAST_CAPABILITY: i32 = 63;
    for capability in 0..=LAST_CAPABILITY {
        // SAFETY: PR_CAPBSET_DROP takes one number; numbers that the kernel does not know answer EINVAL.
        if unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) } != 0 {
            match nix::errno::Errno::last() {
                nix::Error::EINVAL => break,
                errno => return Err(LauncherError::new("drop the capability bounding set", errno)),
            }
        }
    }
    capset_none().step("drop capabilities")?;
    prctl::set_no_new_privs().step("set no_new_privs")?;
    // Init must not be traced or read by what runs beside it with the same uid.
    prctl::set_dumpable(false).step("clear the dumpable flag")?;
    filter.install().step("install the system-call filter")
}

/// Clears the permitted, effective and inheritable sets (capabilities(7)).
fn capset_none() -> io::Result<()> {
    #[repr(C)]
    struct Header {
        version: u32,
        pid: i32,
    }
    const VERSION_3: u32 = 0x2008_0522;
    let header = Header { version: VERSION_3, pid: 0 };
    let data = [0_u32; 6];
    // SAFETY: version 3 reads one header and two triples of 32-bit sets.
    let result = unsafe { libc::syscall(libc::SYS_capset, &raw const header, data.as_ptr()) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Closes every descriptor but those that init keeps; `status` closes last, and its end tells the launcher of success.
fn close_all_but(keep: &[i32], status: &OwnedFd) {
    let mut keep = keep.to_vec();
    keep.push(status.as_raw_fd());
    keep.sort_unstable();
    let mut first = 3;
    for fd in keep.iter().copied().chain([i32::MAX]) {
        if fd > first {
            // SAFETY: this process keeps no Rust value for these descriptors that it uses again; it leaves by _exit.
            unsafe { libc::syscall(libc::SYS_close_range, first, fd - 1, 0) };
        }
        first = fd.saturating_add(1);
    }
    // SAFETY: as above; the descriptor's owner is never dropped.
    unsafe { libc::close(status.as_raw_fd()) };
}
