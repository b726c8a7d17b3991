//! Builds one sandbox: its namespaces, its private mounts, and its init.

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::path::Path;

use nix::sched::{CloneFlags, setns};
use nix::sys::prctl;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::Signal;
use nix::unistd::{Gid, Pid, Uid};
use rustix::fs::{Mode, OFlags};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{
    PidfdFlags, Signal as KillSignal, WaitId, WaitIdOptions, pidfd_open, pidfd_send_signal, waitid,
};
use rustix::thread::{CapabilitySets, capabilities, set_capabilities};
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

/// Hard limits of everything in a sandbox, init included, which itself queues no signals and locks no memory.
const RLIMITS: [(Resource, u64); 3] = [
    (Resource::RLIMIT_SIGPENDING, 512),
    (Resource::RLIMIT_MSGQUEUE, 0),
    (Resource::RLIMIT_MEMLOCK, 64 << 10),
];

/// Limits of a sandbox's user namespace, in /proc/sys/user (namespaces(7), inotify(7)).
const USER_LIMITS: [(&str, &str); 3] =
    [("max_inotify_instances", "16"), ("max_inotify_watches", "8192"), ("max_fanotify_groups", "0")];

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
        let owner = match launcher.privilege {
            Privilege::Root => Some(spec.host_uid),
            Privilege::User { .. } => None,
        };
        clone_child(owner, || {
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
    if privilege == Privilege::Root {
        limit_ipc(pid, spec.shm_bytes)?;
    }
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

/// `clone(2)` with a copy of this process: like `fork`, into new namespaces that belong to `owner`, if given.
///
/// What the kernel counts for each user (inotify instances, pending signals, locked memory, namespaces: `struct ucounts`) it counts again in
/// the parent user namespace, on whoever made the child. Made by the host's root, all sandboxes together could use up what root's own
/// programs are allowed.
fn clone_child(owner: Option<u32>, child: impl FnOnce()) -> nix::Result<Pid> {
    let Some(owner) = owner else { return clone_namespaces(child) };
    // The kernel forgets it with a change of user, prctl(2).
    let death_signal = prctl::get_pdeathsig()?;
    nix::unistd::seteuid(Uid::from_raw(owner))?;
    // The change of user took the effective capabilities away, and some hosts let only those who have them make user namespaces.
    let pid = raise_capabilities().and_then(|()| clone_namespaces(child));
    // Without its rights the launcher is useless.
    if nix::unistd::seteuid(Uid::from_raw(0)).and_then(|()| prctl::set_pdeathsig(death_signal)).is_err() {
        std::process::abort();
    }
    pid
}

/// Makes every permitted capability effective.
fn raise_capabilities() -> nix::Result<()> {
    let raised = capabilities(None)
        .and_then(|sets| set_capabilities(None, CapabilitySets { effective: sets.permitted, ..sets }));
    raised.map_err(|errno| nix::Error::from_raw(errno.raw_os_error()))
}

fn clone_namespaces(child: impl FnOnce()) -> nix::Result<Pid> {
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

/// Limits the SysV shared memory of the sandbox's IPC namespace. Only the host's root may write these files: the sandbox has no root
/// of its own.
fn limit_ipc(pid: Pid, bytes: u64) -> Result<(), LauncherError> {
    let namespace = |process: &str| {
        let path = format!("/proc/{process}/ns/ipc");
        rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).step("open an IPC namespace")
    };
    let (own, sandbox) = (namespace("self")?, namespace(&pid.to_string())?);
    setns(&sandbox, CloneFlags::CLONE_NEWIPC).step("enter the sandbox's IPC namespace")?;
    // SAFETY: sysconf(3) takes any number.
    let page = u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096);
    // Best effort: what is used of it counts towards the session's memory as well.
    let _ = write_proc("/proc/sys/kernel/shmmax", &bytes.to_string());
    let _ = write_proc("/proc/sys/kernel/shmall", &(bytes / page).to_string());
    if setns(&own, CloneFlags::CLONE_NEWIPC).is_err() {
        std::process::abort();
    }
    Ok(())
}

/// Limits what the kernel counts for a user rather than for a cgroup; init and everything that it starts inherit them.
fn limit_resources() -> Result<(), LauncherError> {
    for (resource, value) in RLIMITS {
        // Where the engine's own limit is lower it stays.
        let hard = getrlimit(resource).step("read the resource limits")?.1.min(value);
        setrlimit(resource, hard, hard).step("set the resource limits")?;
    }
    Ok(())
}

/// Limits the sandbox's own user namespace, where it has the right to while it still has its capabilities. Best effort: older kernels lack
/// some of these files.
fn limit_user_namespace() {
    for (name, value) in USER_LIMITS {
        let _ = write_proc(&format!("/proc/sys/user/{name}"), value);
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
    limit_resources()?;
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
    limit_user_namespace();
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
