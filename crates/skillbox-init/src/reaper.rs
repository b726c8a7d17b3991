//! A command's own reaper, where no cgroup tells which processes belong to it.
//!
//! The parked child does not become the program: it stays as a *subreaper* (`PR_SET_CHILD_SUBREAPER`, prctl(2)), so that every
//! descendant of the program, however often it forked and whatever session it moved to, stays below it and can be found.

use std::collections::{HashMap, HashSet};
use std::io;
use std::os::fd::{AsFd, AsRawFd as _};
use std::path::Path;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

use crate::child::{become_program, close_range};
use crate::protocol::{ExecSpec, ExitStatus};
use crate::spawn_error::{SpawnFailure, SpawnStep};
use crate::sys::{FrameSocket, fork_child, leave};

/// From the supervisor to a parked child.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum ToChild {
    Exec(Box<ExecSpec>),
    Signal { signal: i32, whole_tree: bool },
    EndTree,
}

/// From a parked child to the supervisor.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum FromChild {
    /// The command was received; from here on it may have run.
    Executing,
    SpawnFailed(SpawnFailure),
    Exited {
        status: ExitStatus,
        cpu_us: u64,
        max_rss_bytes: u64,
        leftovers: u32,
    },
    TreeGone {
        killed: u32,
    },
}

/// How a process that was waited for ended.
pub(crate) struct Reaped {
    pub(crate) pid: Pid,
    pub(crate) status: ExitStatus,
    pub(crate) cpu_us: u64,
    pub(crate) max_rss_bytes: u64,
}

impl Reaped {
    fn exited(&self, leftovers: u32) -> FromChild {
        let Self { status, cpu_us, max_rss_bytes, .. } = *self;
        FromChild::Exited { status, cpu_us, max_rss_bytes, leftovers }
    }
}

/// Reaps one ended child, with its resource usage; `None` when none has ended.
pub(crate) fn reap() -> Result<Option<Reaped>, Errno> {
    let mut status = 0;
    // SAFETY: both out-pointers are to live locals of the right types; rusage is plain data, valid when zeroed.
    let (pid, usage) = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        (libc::wait4(-1, &raw mut status, libc::WNOHANG, &raw mut usage), usage)
    };
    if Errno::result(pid)? == 0 {
        return Ok(None);
    }
    let pid = Pid::from_raw(pid);
    // Not by nix, which knows no real-time signals and would take the end by one for an error.
    let status = if libc::WIFEXITED(status) {
        ExitStatus::Code(libc::WEXITSTATUS(status))
    } else if libc::WIFSIGNALED(status) {
        ExitStatus::Signal(libc::WTERMSIG(status))
    } else {
        return Ok(None);
    };
    let micros = |t: libc::timeval| u64::try_from(t.tv_sec * 1_000_000 + t.tv_usec).unwrap_or(0);
    Ok(Some(Reaped {
        pid,
        status,
        cpu_us: micros(usage.ru_utime) + micros(usage.ru_stime),
        max_rss_bytes: u64::try_from(usage.ru_maxrss).unwrap_or(0) * 1024,
    }))
}

/// A descriptor that becomes readable when a child ends; blocks SIGCHLD for the process.
pub(crate) fn child_events() -> nix::Result<SignalFd> {
    let mut mask = SigSet::empty();
    mask.add(Signal::SIGCHLD);
    mask.thread_block()?;
    SignalFd::with_flags(&mask, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)
}

/// The life of a reaper; never returns.
pub(crate) fn run(mut control: FrameSocket, workspace: &Path) -> ! {
    let _ = nix::sys::prctl::set_child_subreaper(true);
    // The program's process is forked ahead, too: nothing is left to do for the command but to hand it over.
    let prepared = prepare(workspace);
    if let Ok(Some(ToChild::Exec(spec))) = control.receive() {
        let _ = control.send(&FromChild::Executing, &[]);
        match prepared.and_then(|(program, handover)| start(&spec, program, handover)) {
            Ok(program) => {
                let _ = supervise(control, program);
            }
            Err(failure) => {
                let _ = control.send(&FromChild::SpawnFailed(failure), &[]);
            }
        }
    }
    end_tree(None);
    leave(0)
}

fn request_failed(errno: Errno) -> SpawnFailure {
    SpawnFailure::new(SpawnStep::Request, errno as i32, b"")
}

/// Forks the process that becomes the program, and lets go of the program's pipes: their end must mean that the tree is done
/// with them.
fn prepare(workspace: &Path) -> Result<(Pid, FrameSocket), SpawnFailure> {
    let (ours, theirs) = crate::sys::stream_pair().map_err(request_failed)?;
    let ours = FrameSocket::new(ours);
    let mut theirs = FrameSocket::new(theirs);
    let raw = ours.as_fd().as_raw_fd();
    let program = fork_child(|| {
        let _ = nix::unistd::setsid();
        // Its own copy of the other end would keep it waiting for ever.
        let _ = close_range(raw, raw);
        if let Ok(Some(spec)) = theirs.receive::<ExecSpec>() {
            let failure = become_program(&spec, workspace);
            let _ = theirs.send(&failure, &[]);
        }
        leave(127)
    })
    .map_err(request_failed)?;
    drop(theirs);
    let null = nix::fcntl::open("/dev/null", nix::fcntl::OFlag::O_RDWR, nix::sys::stat::Mode::empty());
    if let Ok(null) = null {
        let _ = nix::unistd::dup2_stdin(null.as_fd());
        let _ = nix::unistd::dup2_stdout(null.as_fd());
        let _ = nix::unistd::dup2_stderr(null.as_fd());
    }
    Ok((program, ours))
}

/// Hands the command over. That it did not start comes back over the same socket, which closes when it did.
fn start(spec: &ExecSpec, program: Pid, mut handover: FrameSocket) -> Result<Pid, SpawnFailure> {
    handover.send(spec, &[]).map_err(|_| request_failed(Errno::ESRCH))?;
    // An earlier command may have stopped it.
    let _ = kill(program, Signal::SIGCONT);
    match handover.receive::<SpawnFailure>() {
        Ok(None) | Err(_) => Ok(program),
        Ok(Some(failure)) => Err(failure),
    }
}

fn supervise(mut control: FrameSocket, program: Pid) -> io::Result<()> {
    let children = child_events()?;
    let mut running = true;
    loop {
        while let Ok(Some(reaped)) = reap() {
            if reaped.pid == program {
                running = false;
                if !has_children() {
                    control.send(&reaped.exited(0), &[])?;
                    return control.send(&FromChild::TreeGone { killed: 0 }, &[]);
                }
                let leftovers = u32::try_from(descendants().len()).unwrap_or(u32::MAX);
                control.send(&reaped.exited(leftovers.max(1)), &[])?;
            }
        }
        // Before the wait: what came together with the command is in the socket's buffer, and wakes nobody.
        while let Some(message) = control.try_receive()? {
            match message {
                ToChild::Exec(_) => {}
                ToChild::Signal { signal, whole_tree } => {
                    let Ok(signal) = Signal::try_from(signal) else { continue };
                    if running {
                        let _ = kill(program, signal);
                    }
                    if whole_tree {
                        for pid in descendants() {
                            let _ = kill(pid, signal);
                        }
                    }
                }
                ToChild::EndTree => {
                    let (killed, ended) = end_tree(running.then_some(program));
                    if let Some(ended) = ended {
                        control.send(&ended.exited(0), &[])?;
                    }
                    control.send(&FromChild::TreeGone { killed }, &[])?;
                    return Ok(());
                }
            }
        }
        if control.is_closed() {
            return Ok(());
        }
        let mut waiting = [
            PollFd::new(control.as_fd(), PollFlags::POLLIN),
            PollFd::new(children.as_fd(), PollFlags::POLLIN),
        ];
        match poll(&mut waiting, PollTimeout::NONE) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        while let Ok(Some(_)) = children.read_signal() {}
    }
}

/// Whether anything descends from this process: what lost its parent is a child of the subreaper.
fn has_children() -> bool {
    use nix::sys::wait::{Id, WaitPidFlag, waitid};
    let any = waitid(Id::All, WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT);
    any != Err(Errno::ECHILD)
}

/// Kills every descendant until there is none, and answers how many were killed and how `program`, if it was among them,
/// ended.
fn end_tree(program: Option<Pid>) -> (u32, Option<Reaped>) {
    let Ok(children) = child_events() else { return (0, None) };
    let mut killed = HashSet::new();
    let mut ended = None;
    loop {
        // A stopped process cannot fork: stop what is there first, so that a fork bomb cannot outrun the sweep.
        for pid in descendants() {
            let _ = kill(pid, Signal::SIGSTOP);
        }
        for pid in descendants() {
            let _ = kill(pid, Signal::SIGKILL);
            killed.insert(pid);
        }
        loop {
            match reap() {
                Ok(Some(reaped)) => {
                    killed.insert(reaped.pid);
                    if Some(reaped.pid) == program {
                        ended = Some(reaped);
                    }
                }
                Ok(None) => break,
                Err(_) => return (u32::try_from(killed.len()).unwrap_or(u32::MAX), ended),
            }
        }
        let mut waiting = [PollFd::new(children.as_fd(), PollFlags::POLLIN)];
        let _ = poll(&mut waiting, 5u8);
        while let Ok(Some(_)) = children.read_signal() {}
    }
}

/// Every living process below this one, zombies left out.
fn descendants() -> Vec<Pid> {
    let mut parents: HashMap<i32, Vec<i32>> = HashMap::new();
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    for entry in entries.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        let Ok(stat) = std::fs::read(format!("/proc/{pid}/stat")) else { continue };
        if let Some((parent, alive)) = parse_stat(&stat)
            && alive
        {
            parents.entry(parent).or_default().push(pid);
        }
    }
    let mut found = Vec::new();
    let mut queue = vec![nix::unistd::getpid().as_raw()];
    while let Some(parent) = queue.pop() {
        for pid in parents.remove(&parent).unwrap_or_default() {
            found.push(Pid::from_raw(pid));
            queue.push(pid);
        }
    }
    found
}

/// Parent and whether it is alive, from `/proc/PID/stat` (proc(5)); the name in it may hold anything, even `)`.
fn parse_stat(stat: &[u8]) -> Option<(i32, bool)> {
    let after_name = &stat[stat.iter().rposition(|b| *b == b')')? + 1..];
    let text = std::str::from_utf8(after_name).ok()?;
    let mut fields = text.split_ascii_whitespace();
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    Some((parent, !matches!(state, "Z" | "X")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_does_not_confuse_the_parser() {
        assert_eq!(parse_stat(b"7 (a) Z 1 (b)) S 3 7 7 0"), Some((3, true)));
        assert_eq!(parse_stat(b"7 (x) Z 3 7"), Some((3, false)));
        assert_eq!(parse_stat(b"nonsense"), None);
    }
}
