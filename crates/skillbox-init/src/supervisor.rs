//! Process 1 of a sandbox.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill};
use nix::sys::signalfd::SignalFd;
use nix::unistd::Pid;
use rustix::time::Timespec;

use crate::child::{become_program, detach, make_run_dir};
use crate::files::serve_file_op;
use crate::protocol::{ExecSpec, ExitStatus, FromInit, ToInit, VERSION};
use crate::reaper::{self, FromChild, Reaped, ToChild, child_events, reap};
use crate::spawn_error::{SpawnFailure, SpawnStep};
use crate::sys::{FileClock, FrameSocket, fork_child, leave, pipe, stream_pair};

/// Who knows which processes belong to a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TreeTracking {
    /// A cgroup of its own that the host keeps; the parked child becomes the program.
    Cgroup,
    /// A subreaper of its own: the parked child stays above the program.
    Subreaper,
}

/// What the supervisor needs to know.
#[derive(Debug, Clone)]
pub struct SupervisorConfig {
    /// How commands are tracked.
    pub tracking: TreeTracking,
    /// The workspace as the sandbox sees it, absolute.
    pub workspace: PathBuf,
}

#[derive(Debug)]
struct Slot {
    pid: Pid,
    control: FrameSocket,
    state: SlotState,
    /// Until when its reaper has to have ended the tree.
    ends_by: Option<Instant>,
}

/// How long a reaper may take to end a tree. One that takes longer was stopped by something in the sandbox.
const REAPER_PATIENCE: Duration = Duration::from_secs(2);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SlotState {
    Parked,
    /// The command was sent.
    Sent,
    /// The command was received.
    Running,
    /// The program ended; its reaper is still there.
    Ended,
}

/// How many starts of commands are remembered for [`FileOp::Collect`](crate::protocol::FileOp::Collect).
const REMEMBERED_STARTS: usize = 256;

struct Supervisor {
    config: SupervisorConfig,
    host: FrameSocket,
    children: SignalFd,
    slots: BTreeMap<u64, Slot>,
    clock: FileClock,
    starts: VecDeque<(u64, Timespec)>,
}

/// Serves the host on `connection` until it closes. The process ends then, and with it, as process 1 of its pid namespace,
/// everything in the sandbox.
pub fn run(connection: OwnedFd, config: SupervisorConfig) -> ! {
    let result = Supervisor::new(connection, config).and_then(|mut supervisor| supervisor.serve());
    leave(i32::from(result.is_err()))
}

impl Supervisor {
    fn new(connection: OwnedFd, config: SupervisorConfig) -> io::Result<Self> {
        let host = FrameSocket::new(connection);
        let children = child_events()?;
        host.send(&FromInit::Ready { version: VERSION }, &[])?;
        let clock = FileClock::new();
        Ok(Self { config, host, children, slots: BTreeMap::new(), clock, starts: VecDeque::new() })
    }

    fn serve(&mut self) -> io::Result<()> {
        while !self.host.is_closed() {
            while let Some(message) = self.host.next()? {
                self.handle(message)?;
            }
            self.wait()?;
        }
        Ok(())
    }

    fn wait(&mut self) -> io::Result<()> {
        let tracked = self.config.tracking == TreeTracking::Subreaper;
        let mut waiting = vec![
            PollFd::new(self.host.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.children.as_fd(), PollFlags::POLLIN),
        ];
        let mut ids = Vec::new();
        if tracked {
            for (id, slot) in self.slots.iter().filter(|(_, slot)| slot.state != SlotState::Parked) {
                waiting.push(PollFd::new(slot.control.as_fd(), PollFlags::POLLIN));
                ids.push(*id);
            }
        }
        let deadline = self.slots.values().filter_map(|slot| slot.ends_by).min();
        let timeout = deadline.map_or(PollTimeout::NONE, |deadline| {
            let left = deadline.saturating_duration_since(Instant::now()) + Duration::from_millis(1);
            PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX)
        });
        match poll(&mut waiting, timeout) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let ready = |fd: &PollFd<'_>| fd.revents().is_some_and(|events| !events.is_empty());
        let host_ready = ready(&waiting[0]);
        let children_ready = ready(&waiting[1]);
        let controls: Vec<u64> =
            waiting[2..].iter().zip(ids).filter(|(fd, _)| ready(fd)).map(|(_, id)| id).collect();
        drop(waiting);
        for id in controls {
            self.hear_child(id)?;
        }
        if children_ready {
            self.reap_all()?;
        }
        if host_ready {
            self.host.fill()?;
        }
        self.end_silent_reapers();
        Ok(())
    }

    /// A reaper that does not do its duty dies, and with it everything; see [`Self::child_ended`].
    fn end_silent_reapers(&mut self) {
        let now = Instant::now();
        for slot in self.slots.values_mut().filter(|slot| slot.ends_by.is_some_and(|by| by <= now)) {
            slot.ends_by = None;
            let _ = kill(slot.pid, Signal::SIGKILL);
        }
    }

    fn handle(&mut self, message: ToInit) -> io::Result<()> {
        match message {
            ToInit::Park { slot, run_dir } => self.park(slot, &run_dir),
            ToInit::Exec { slot, spec, park_next } => {
                self.exec(slot, spec)?;
                match park_next {
                    Some((next, run_dir)) => self.park(next, &run_dir),
                    None => Ok(()),
                }
            }
            ToInit::Signal { slot, signal, whole_tree } => {
                self.signal(slot, signal, whole_tree);
                Ok(())
            }
            ToInit::EndTree { slot } => self.end_tree(slot),
            ToInit::File { request, op } => {
                let starts = &self.starts;
                let start_of = |slot: u64| starts.iter().find(|(id, _)| *id == slot).map(|(_, at)| *at);
                serve_file_op(&self.host, &self.config.workspace, request, op, &start_of)?;
                self.clock.note_activity();
                Ok(())
            }
        }
    }

    fn park(&mut self, slot: u64, run_dir: &[u8]) -> io::Result<()> {
        // Where it cannot be made now, the command's own attempt says why.
        let _ = make_run_dir(&self.config.workspace, run_dir);
        match self.try_park(slot) {
            Ok(()) => Ok(()),
            Err(errno) => self.host.send(&FromInit::ParkFailed { slot, errno: errno as i32 }, &[]),
        }
    }

    fn try_park(&mut self, id: u64) -> nix::Result<()> {
        let (ours, theirs) = stream_pair()?;
        let (stdin_read, stdin_write) = pipe()?;
        let (stdout_read, stdout_write) = pipe()?;
        let (stderr_read, stderr_write) = pipe()?;
        let tracking = self.config.tracking;
        let workspace = self.config.workspace.clone();
        let pid = fork_child(move || match detach([stdin_read, stdout_write, stderr_write], theirs) {
            Ok(control) => parked(FrameSocket::new(control), tracking, &workspace),
            Err(_) => leave(126),
        })?;
        let raw = rustix::process::Pid::from_raw(pid.as_raw()).ok_or(Errno::ESRCH)?;
        let pidfd = rustix::process::pidfd_open(raw, rustix::process::PidfdFlags::empty())
            .map_err(|e| Errno::from_raw(e.raw_os_error()))?;
        let fds = [&pidfd, &stdin_write, &stdout_read, &stderr_read].map(AsRawFd::as_raw_fd);
        self.slots.insert(
            id,
            Slot { pid, control: FrameSocket::new(ours), state: SlotState::Parked, ends_by: None },
        );
        self.host.send(&FromInit::Parked { slot: id }, &fds).map_err(|_| Errno::EPIPE)
    }

    fn exec(&mut self, id: u64, spec: ExecSpec) -> io::Result<()> {
        let started = self.clock.begin();
        let sent = match self.slots.get_mut(&id) {
            Some(slot) if slot.state == SlotState::Parked => {
                slot.state = SlotState::Sent;
                // An earlier command may have stopped it.
                let _ = kill(slot.pid, Signal::SIGCONT);
                slot.control.send(&ToChild::Exec(Box::new(spec)), &[]).is_ok()
            }
            _ => false,
        };
        if !sent {
            // A parked child that is gone is reported once: here, or where it is reaped.
            if let Some(slot) = self.slots.remove(&id) {
                let _ = kill(slot.pid, Signal::SIGKILL);
            }
            return self.host.send(&never_received(id), &[]);
        }
        if self.starts.len() == REMEMBERED_STARTS {
            self.starts.pop_front();
        }
        self.starts.push_back((id, started));
        Ok(())
    }

    fn signal(&mut self, id: u64, signal: i32, whole_tree: bool) {
        let Some(slot) = self.slots.get_mut(&id) else { return };
        match (self.config.tracking, slot.state) {
            (TreeTracking::Subreaper, SlotState::Sent | SlotState::Running | SlotState::Ended) => {
                // A script may have stopped its reaper.
                let _ = kill(slot.pid, Signal::SIGCONT);
                let _ = slot.control.send(&ToChild::Signal { signal, whole_tree }, &[]);
            }
            (_, SlotState::Sent | SlotState::Running) => {
                let target = if whole_tree { Pid::from_raw(-slot.pid.as_raw()) } else { slot.pid };
                if let Ok(signal) = Signal::try_from(signal) {
                    let _ = kill(target, signal);
                }
            }
            _ => {}
        }
    }

    fn end_tree(&mut self, id: u64) -> io::Result<()> {
        let Some(slot) = self.slots.get_mut(&id) else {
            return self.host.send(&FromInit::TreeGone { slot: id, killed: 0 }, &[]);
        };
        if self.config.tracking == TreeTracking::Subreaper && slot.state != SlotState::Parked {
            // Answered by the reaper; if it is dead already, by whoever reaps it.
            let _ = kill(slot.pid, Signal::SIGCONT);
            slot.ends_by.get_or_insert_with(|| Instant::now() + REAPER_PATIENCE);
            let _ = slot.control.send(&ToChild::EndTree, &[]);
            return Ok(());
        }
        let _ = kill(slot.pid, Signal::SIGKILL);
        Ok(())
    }

    fn hear_child(&mut self, id: u64) -> io::Result<()> {
        loop {
            let Some(slot) = self.slots.get_mut(&id) else { return Ok(()) };
            let Ok(Some(message)) = slot.control.try_receive::<FromChild>() else { return Ok(()) };
            let answer = match message {
                FromChild::Executing => {
                    slot.state = SlotState::Running;
                    continue;
                }
                FromChild::SpawnFailed(failure) => {
                    self.slots.remove(&id);
                    FromInit::SpawnFailed { slot: id, failure }
                }
                FromChild::Exited { status, cpu_us, max_rss_bytes, leftovers } => {
                    slot.state = SlotState::Ended;
                    self.clock.note_activity();
                    FromInit::Exited { slot: id, status, cpu_us, max_rss_bytes, leftovers }
                }
                FromChild::TreeGone { killed } => {
                    self.slots.remove(&id);
                    self.clock.note_activity();
                    FromInit::TreeGone { slot: id, killed }
                }
            };
            self.host.send(&answer, &[])?;
        }
    }

    fn reap_all(&mut self) -> io::Result<()> {
        while let Ok(Some(_)) = self.children.read_signal() {}
        while let Ok(Some(reaped)) = reap() {
            let Some(id) = self.slots.iter().find(|(_, slot)| slot.pid == reaped.pid).map(|(id, _)| *id)
            else {
                continue;
            };
            self.hear_child(id)?;
            if let Some(slot) = self.slots.remove(&id) {
                self.child_ended(id, &slot, &reaped)?;
            }
        }
        Ok(())
    }

    fn child_ended(&mut self, id: u64, slot: &Slot, reaped: &Reaped) -> io::Result<()> {
        let Reaped { status, cpu_us, max_rss_bytes, .. } = *reaped;
        let exited = |slot| FromInit::Exited { slot, status, cpu_us, max_rss_bytes, leftovers: 0 };
        match (slot.state, self.config.tracking) {
            (SlotState::Parked, _) => self.host.send(&FromInit::ParkFailed { slot: id, errno: 0 }, &[]),
            (SlotState::Sent, _) => self.host.send(&never_received(id), &[]),
            (_, TreeTracking::Cgroup) => {
                self.clock.note_activity();
                self.host.send(&exited(id), &[])
            }
            (state, TreeTracking::Subreaper) => {
                // Only something in the sandbox can have killed a reaper, and what it watched may be anywhere now. Nothing
                // of the session is worth more than the certainty that it ended.
                self.end_everything()?;
                if state == SlotState::Running {
                    self.host.send(&exited(id), &[])?;
                }
                self.host.send(&FromInit::TreeGone { slot: id, killed: 0 }, &[])
            }
        }
    }

    /// Kills every process of the sandbox but this one, and reports all of them.
    fn end_everything(&mut self) -> io::Result<()> {
        loop {
            let _ = kill(Pid::from_raw(-1), Signal::SIGKILL);
            match waitid_any() {
                Err(Errno::ECHILD) => break,
                Err(errno) if errno != Errno::EINTR => return Err(errno.into()),
                _ => {}
            }
        }
        self.clock.note_activity();
        for (id, slot) in std::mem::take(&mut self.slots) {
            match slot.state {
                SlotState::Parked => self.host.send(&FromInit::ParkFailed { slot: id, errno: 0 }, &[])?,
                SlotState::Sent => self.host.send(&never_received(id), &[])?,
                SlotState::Running | SlotState::Ended => {
                    if slot.state == SlotState::Running {
                        let status = ExitStatus::Signal(libc::SIGKILL);
                        let exited =
                            FromInit::Exited { slot: id, status, cpu_us: 0, max_rss_bytes: 0, leftovers: 0 };
                        self.host.send(&exited, &[])?;
                    }
                    self.host.send(&FromInit::TreeGone { slot: id, killed: 0 }, &[])?;
                }
            }
        }
        Ok(())
    }
}

fn waitid_any() -> nix::Result<()> {
    nix::sys::wait::waitpid(Pid::from_raw(-1), None).map(|_| ())
}

/// The command never reached its child: nothing ran, and it may be tried again.
fn never_received(slot: u64) -> FromInit {
    FromInit::SpawnFailed { slot, failure: SpawnFailure::new(SpawnStep::Request, libc::ESRCH, b"") }
}

/// The life of a parked child.
fn parked(mut control: FrameSocket, tracking: TreeTracking, workspace: &Path) -> ! {
    if tracking == TreeTracking::Subreaper {
        reaper::run(control, workspace)
    }
    if let Ok(Some(ToChild::Exec(spec))) = control.receive() {
        let _ = control.send(&FromChild::Executing, &[]);
        let failure = become_program(&spec, workspace);
        let _ = control.send(&FromChild::SpawnFailed(failure), &[]);
    }
    leave(127)
}
