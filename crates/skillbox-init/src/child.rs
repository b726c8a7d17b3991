//! The child side: from a parked process to the caller's program.

use std::ffi::{CString, OsStr};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction, sigprocmask};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2};
use rustix::io::Errno as RustixErrno;

use crate::protocol::{ExecSpec, Rlimits};
use crate::spawn_error::{SpawnFailure, SpawnStep};
use crate::sys::read_head;

/// How often a lookup is tried that a rename elsewhere came in the way of.
const MAX_RETRIES: u32 = 1000;

/// Becomes the program of `spec`; returns only on failure.
pub(crate) fn become_program(spec: &ExecSpec, workspace: &Path) -> SpawnFailure {
    match try_become(spec, workspace) {
        Ok(never) => match never {},
        Err(failure) => failure,
    }
}

fn try_become(spec: &ExecSpec, workspace: &Path) -> Result<std::convert::Infallible, SpawnFailure> {
    let fail = SpawnFailure::new;
    let raw = RustixErrno::raw_os_error;

    let root = openat(CWD, workspace, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
        .map_err(|e| fail(SpawnStep::Cwd, raw(e), workspace.as_os_str().as_bytes()))?;
    if let Some(folder) = &spec.make_dir {
        make_dir(&root, folder).map_err(|e| fail(SpawnStep::MakeDir, raw(e), folder))?;
    }
    let cwd = open_beneath(&root, &spec.cwd).map_err(|e| fail(SpawnStep::Cwd, raw(e), &spec.cwd))?;
    rustix::process::fchdir(&cwd).map_err(|e| fail(SpawnStep::Cwd, raw(e), &spec.cwd))?;
    drop((root, cwd));

    if !spec.stdin_pipe {
        null_stdin().map_err(|e| fail(SpawnStep::Stdin, e as i32, b"/dev/null"))?;
    }
    set_rlimits(&spec.rlimits).map_err(|e| fail(SpawnStep::Rlimit, e as i32, b"limits"))?;

    let c_strings = |items: &[serde_bytes::ByteBuf]| -> Result<Vec<CString>, SpawnFailure> {
        items
            .iter()
            .map(|item| {
                CString::new(item.as_slice()).map_err(|_| fail(SpawnStep::Request, libc::EINVAL, item))
            })
            .collect()
    };
    let args = c_strings(&spec.args)?;
    let env = c_strings(&spec.env)?;
    let program = find_program(spec).map_err(|e| fail(SpawnStep::Lookup, e as i32, &spec.program))?;

    let errno = match nix::unistd::execve(&program, &args, &env) {
        Ok(never) => match never {},
        Err(errno) => errno,
    };
    let mut failure = fail(SpawnStep::Exec, errno as i32, program.as_bytes());
    // The kernel's answer to a directory is EACCES, which would send its owner after the wrong cause.
    failure.is_directory = rustix::fs::stat(&program)
        .is_ok_and(|stat| rustix::fs::FileType::from_raw_mode(stat.st_mode).is_dir());
    failure.interpreter = interpreter_of(program.as_bytes());
    Err(failure)
}

/// Opens a folder of the workspace; links are followed while they stay beneath it.
fn open_beneath(root: &OwnedFd, path: &[u8]) -> rustix::io::Result<OwnedFd> {
    let path = if path.is_empty() { b"." } else { path };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    // A rename or mount anywhere on the machine makes the kernel unsure about `..`, and it says so: EAGAIN, openat2(2).
    for _ in 0..MAX_RETRIES {
        match openat2(root, OsStr::from_bytes(path), flags, Mode::empty(), resolve) {
            Err(RustixErrno::AGAIN) => {}
            other => return other,
        }
    }
    Err(RustixErrno::AGAIN)
}

/// Makes the folder of a command, with the folders above it.
pub(crate) fn make_run_dir(workspace: &Path, path: &[u8]) -> rustix::io::Result<()> {
    let root = openat(CWD, workspace, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    make_dir(&root, path)
}

fn make_dir(root: &OwnedFd, path: &[u8]) -> rustix::io::Result<()> {
    let (parent, name) = match path.iter().rposition(|b| *b == b'/') {
        Some(at) => (&path[..at], &path[at + 1..]),
        None => (&b""[..], path),
    };
    let parent = match open_beneath(root, parent) {
        Err(RustixErrno::NOENT) if !parent.is_empty() => {
            make_dir(root, parent)?;
            open_beneath(root, parent)?
        }
        other => other?,
    };
    match rustix::fs::mkdirat(parent, OsStr::from_bytes(name), Mode::from_raw_mode(0o755)) {
        Err(RustixErrno::EXIST) | Ok(()) => Ok(()),
        Err(errno) => Err(errno),
    }
}

fn null_stdin() -> nix::Result<()> {
    let null = nix::fcntl::open("/dev/null", nix::fcntl::OFlag::O_RDONLY, nix::sys::stat::Mode::empty())?;
    if null.as_raw_fd() == 0 {
        std::mem::forget(null);
        return Ok(());
    }
    nix::unistd::dup2_stdin(null.as_fd())
}

fn set_rlimits(limits: &Rlimits) -> nix::Result<()> {
    // A hard limit that the sandbox was started with may be lower, and stays.
    let set = |resource, value: Option<u64>| match value {
        Some(value) => {
            let value = value.min(getrlimit(resource)?.1);
            setrlimit(resource, value, value)
        }
        None => Ok(()),
    };
    // One second between the soft limit's SIGXCPU and the hard limit's SIGKILL tells the cause apart from other kills.
    if let Some(seconds) = limits.cpu_seconds {
        let hard = seconds.saturating_add(1).min(getrlimit(Resource::RLIMIT_CPU)?.1);
        setrlimit(Resource::RLIMIT_CPU, seconds.min(hard), hard)?;
    }
    set(Resource::RLIMIT_FSIZE, limits.file_size_bytes)?;
    set(Resource::RLIMIT_NOFILE, limits.open_files)?;
    set(Resource::RLIMIT_NPROC, limits.processes)?;
    set(Resource::RLIMIT_DATA, limits.data_bytes)?;
    setrlimit(Resource::RLIMIT_CORE, 0, 0)
}

fn find_program(spec: &ExecSpec) -> nix::Result<CString> {
    let program = spec.program.as_slice();
    let c_string = |bytes: Vec<u8>| CString::new(bytes).map_err(|_| Errno::EINVAL);
    if program.is_empty() {
        return Err(Errno::ENOENT);
    }
    if program.contains(&b'/') {
        return c_string(program.to_vec());
    }
    let path = spec.env.iter().find_map(|pair| pair.strip_prefix(b"PATH=")).unwrap_or(b"/usr/bin:/bin");
    let mut error = Errno::ENOENT;
    for folder in path.split(|b| *b == b':') {
        let folder = if folder.is_empty() { b"." } else { folder };
        let candidate = c_string([folder, b"/", program].concat())?;
        match rustix::fs::accessat(CWD, &candidate, rustix::fs::Access::EXEC_OK, rustix::fs::AtFlags::empty())
        {
            Ok(()) if is_regular(&candidate) => return Ok(candidate),
            Err(RustixErrno::ACCESS) => error = Errno::EACCES,
            _ => {}
        }
    }
    Err(error)
}

fn is_regular(path: &CString) -> bool {
    rustix::fs::stat(path).is_ok_and(|stat| rustix::fs::FileType::from_raw_mode(stat.st_mode).is_file())
}

/// The interpreter of a `#!` line, for the error message alone.
fn interpreter_of(program: &[u8]) -> Option<String> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = openat(CWD, OsStr::from_bytes(program), flags, Mode::empty()).ok()?;
    let head = read_head(file, 256).ok()?;
    let line = head.strip_prefix(b"#!")?.split(|b| *b == b'\n').next()?;
    let line = String::from_utf8_lossy(line);
    let line = line.trim_start_matches([' ', '\t']);
    Some(line.split([' ', '\t']).next().unwrap_or_default().to_owned())
}

/// Makes a fresh child independent of the supervisor: own session, default signals, `stdio` as 0, 1 and 2, and every other
/// descriptor but `keep` closed.
pub(crate) fn detach(stdio: [OwnedFd; 3], keep: OwnedFd) -> io::Result<OwnedFd> {
    nix::unistd::setsid()?;
    default_signals()?;
    let [stdin, stdout, stderr] = stdio;
    let keep = move_above_stdio(keep)?;
    let stdio = [move_above_stdio(stdin)?, move_above_stdio(stdout)?, move_above_stdio(stderr)?];
    nix::unistd::dup2_stdin(stdio[0].as_fd())?;
    nix::unistd::dup2_stdout(stdio[1].as_fd())?;
    nix::unistd::dup2_stderr(stdio[2].as_fd())?;
    drop(stdio);
    let kept = keep.as_raw_fd();
    if kept > 3 {
        close_range(3, kept - 1)?;
    }
    close_range(kept + 1, RawFd::MAX)?;
    nix::sys::stat::umask(nix::sys::stat::Mode::from_bits_truncate(0o022));
    Ok(keep)
}

fn move_above_stdio(fd: OwnedFd) -> io::Result<OwnedFd> {
    if fd.as_raw_fd() > 2 {
        return Ok(fd);
    }
    Ok(rustix::io::fcntl_dupfd_cloexec(&fd, 3)?)
}

/// Closes all descriptors from `first` to `last`.
pub(crate) fn close_range(first: RawFd, last: RawFd) -> io::Result<()> {
    // SAFETY: the caller is a fresh child (or the supervisor at its start) that owns no Rust value for these descriptors which
    // is used again; values of the process it was forked from are never dropped in it, since it leaves by execve or _exit.
    let result = unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn default_signals() -> nix::Result<()> {
    let default = SigAction::new(SigHandler::SigDfl, SaFlags::empty(), SigSet::empty());
    for signal in Signal::iterator() {
        if !matches!(signal, Signal::SIGKILL | Signal::SIGSTOP) {
            // SAFETY: SIG_DFL runs no code of ours.
            unsafe { sigaction(signal, &default) }?;
        }
    }
    default_realtime_signals();
    sigprocmask(nix::sys::signal::SigmaskHow::SIG_SETMASK, Some(&SigSet::empty()), None)
}

/// The C library keeps the first of these to itself and refuses them, so the kernel is asked directly (rt_sigaction(2)).
fn default_realtime_signals() {
    const LAST: i32 = 64;
    /// A zeroed `struct sigaction` of the kernel is SIG_DFL on every architecture.
    const DEFAULT: [u64; 4] = [0; 4];
    const SIGSET_BYTES: usize = 8;
    for signal in 32..=LAST {
        // SAFETY: the kernel reads one structure, which is no longer than this one; SIG_DFL runs no code of ours.
        unsafe {
            libc::syscall(
                libc::SYS_rt_sigaction,
                signal,
                DEFAULT.as_ptr(),
                std::ptr::null::<u64>(),
                SIGSET_BYTES,
            )
        };
    }
}
