//! The life of one command.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use skillbox_init::protocol::ExitStatus;
use skillbox_init::{InitClient, SlotEvent, SlotEvents, SpawnStep};
use skillbox_types::{End, Usage, Warning};
use tokio::io::AsyncWriteExt as _;
use tokio::net::unix::pipe;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::end::{Verdict, end_of};
use crate::guard::Guard;
use crate::spec::spec_of;
use crate::stream::StreamReader;
use crate::{Capture, CommandTree, ExecEvent, ExecOutcome, ExecPlan, ExecutorError, Sandbox, Stream};

/// How long what a finished program left behind may still write before it is ended.
const DRAIN: Duration = Duration::from_millis(100);
/// How long the kernel may take to deliver what it must deliver, before the sandbox counts as lost.
const PATIENCE: Duration = Duration::from_secs(10);

pub(crate) async fn run_command(
    sandbox: &Sandbox,
    plan: &ExecPlan,
    events: Option<mpsc::Sender<ExecEvent>>,
    cancel: CancellationToken,
) -> Result<ExecOutcome, ExecutorError> {
    let mut attempts = 0;
    loop {
        attempts += 1;
        if cancel.is_cancelled() {
            return Ok(never_started(End::Cancelled));
        }
        let Some((child, tree)) = sandbox.ready().await?.take() else { continue };
        let slot = child.slot;
        if let Some(tree) = &tree {
            tree.begin();
        }
        let pipes = Pipes {
            stdout: StreamReader::new(child.stdout, Stream::Stdout, plan.limits.output_bytes)
                .map_err(ExecutorError::io("read the program's stdout"))?,
            stderr: StreamReader::new(child.stderr, Stream::Stderr, plan.limits.output_bytes)
                .map_err(ExecutorError::io("read the program's stderr"))?,
        };
        let stdin = match &plan.stdin {
            Some(bytes) => Some((child.stdin, bytes.clone())),
            None => None,
        };
        let run_dir = sandbox.run_dir(slot);
        let park_next = (!sandbox.is_prepared()).then(|| {
            let slot = sandbox.new_slot();
            (slot, sandbox.run_dir(slot).as_str().as_bytes().to_vec())
        });
        let counts = tree.as_ref().map(|tree| tree.counts()).unwrap_or_default();
        let guard = Guard { client: &sandbox.client, slot, tree: tree.as_ref(), armed: true };
        let started = Instant::now();
        let (slot_events, parking) = sandbox.client.exec(slot, spec_of(plan, &run_dir, counts), park_next)?;
        if let Some(parking) = parking {
            sandbox.prepare(parking);
        }
        let command = Command {
            guard,
            client: &sandbox.client,
            slot,
            tree: tree.as_ref(),
            pipes,
            events: events.as_ref(),
            slot_events,
            started,
            warnings: Vec::new(),
        };
        match command.run(plan, stdin, &cancel).await {
            // The child was gone before it got its command: nothing ran, so it may be tried again.
            Ran::NeverStarted(End::SpawnFailed { errno: Some(libc::ESRCH), .. }) if attempts < 3 => {}
            Ran::NeverStarted(end) => return Ok(never_started(end)),
            Ran::Finished(outcome) => return Ok(*outcome),
            Ran::Lost(outcome) => {
                // Nobody may go on beside what could not be ended.
                if !sandbox.is_lost() {
                    let _ = sandbox.close().await;
                }
                return Ok(*outcome);
            }
        }
    }
}

fn never_started(end: End) -> ExecOutcome {
    ExecOutcome {
        end,
        stdout: Capture::new(0),
        stderr: Capture::new(0),
        usage: Usage::default(),
        warnings: Vec::new(),
        slot: None,
    }
}

struct Pipes {
    stdout: StreamReader,
    stderr: StreamReader,
}

impl Pipes {
    fn total(&self) -> u64 {
        self.stdout.capture.total() + self.stderr.capture.total()
    }

    fn are_open(&self) -> bool {
        self.stdout.is_open() || self.stderr.is_open()
    }

    async fn advance(&mut self, events: Option<&mpsc::Sender<ExecEvent>>) {
        tokio::select! {
            () = self.stdout.advance(events), if self.stdout.is_open() => {}
            () = self.stderr.advance(events), if self.stderr.is_open() => {}
            else => std::future::pending().await,
        }
    }
}

struct Command<'a> {
    guard: Guard<'a>,
    client: &'a Arc<InitClient>,
    slot: u64,
    tree: Option<&'a Arc<dyn CommandTree>>,
    pipes: Pipes,
    events: Option<&'a mpsc::Sender<ExecEvent>>,
    slot_events: SlotEvents,
    started: Instant,
    warnings: Vec<Warning>,
}

/// What is known of a program that ended.
#[derive(Clone, Copy)]
struct Ended {
    status: ExitStatus,
    cpu: Duration,
    max_rss_bytes: u64,
    leftovers: u32,
    at: Instant,
}

impl Ended {
    fn from_event(event: &SlotEvent) -> Option<Self> {
        let SlotEvent::Exited { status, cpu_us, max_rss_bytes, leftovers } = *event else { return None };
        Some(Self {
            status,
            cpu: Duration::from_micros(cpu_us),
            max_rss_bytes,
            leftovers,
            at: Instant::now(),
        })
    }
}

enum Ran {
    NeverStarted(End),
    Finished(Box<ExecOutcome>),
    /// How much of it still runs is not known.
    Lost(Box<ExecOutcome>),
}

/// Why waiting ended.
enum Wake {
    Ended(Ended),
    Never(End),
    Lost,
    Stop(Verdict),
}

impl Command<'_> {
    async fn run(
        mut self,
        plan: &ExecPlan,
        stdin: Option<(std::os::fd::OwnedFd, Vec<u8>)>,
        cancel: &CancellationToken,
    ) -> Ran {
        let feeding = stdin.map(|(fd, bytes)| tokio::spawn(feed(fd, bytes)));
        let wake = self.watch(plan, cancel).await;
        let mut verdict = None;
        let ended = match wake {
            Wake::Never(end) => {
                self.guard.armed = false;
                return Ran::NeverStarted(end);
            }
            Wake::Ended(ended) => Some(ended),
            Wake::Lost => None,
            Wake::Stop(cause) => {
                verdict = Some(cause);
                self.stop(cause, plan.grace).await
            }
        };
        let Some(ended) = ended else {
            if let Some(feeding) = feeding {
                feeding.abort();
            }
            return Ran::Lost(Box::new(self.lost(verdict)));
        };
        self.finish_tree(&ended, verdict.is_some()).await;
        self.drain_to_end(plan, cancel).await;
        if let Some(feeding) = feeding {
            feeding.abort();
        }
        self.guard.armed = false;
        self.client.forget(self.slot);
        Ran::Finished(Box::new(self.outcome(plan, &ended, verdict)))
    }

    /// Reads output until the program ends, or has to be ended.
    async fn watch(&mut self, plan: &ExecPlan, cancel: &CancellationToken) -> Wake {
        let deadline = plan.timeout.map(|timeout| (self.started + timeout, timeout));
        let expired = async {
            match deadline {
                Some((at, timeout)) => {
                    sleep_until(at).await;
                    timeout
                }
                None => std::future::pending().await,
            }
        };
        tokio::pin!(expired);
        let mut told = self.events.is_none();
        loop {
            tokio::select! {
                biased;
                event = self.slot_events.next() => match event {
                    Some(SlotEvent::SpawnFailed(failure)) => {
                        let errno = (failure.step != SpawnStep::Rlimit).then_some(failure.errno);
                        return Wake::Never(End::SpawnFailed { message: failure.message(), errno });
                    }
                    Some(event) => if let Some(ended) = Ended::from_event(&event) {
                        return Wake::Ended(ended);
                    },
                    None => return Wake::Lost,
                },
                () = cancel.cancelled() => return Wake::Stop(Verdict::Cancelled),
                limit = &mut expired => return Wake::Stop(Verdict::TimedOut(limit)),
                () = tell_start(self.events), if !told => told = true,
                () = self.pipes.advance(self.events), if told => {
                    if plan.limits.output_kill_bytes.is_some_and(|limit| self.pipes.total() > limit) {
                        return Wake::Stop(Verdict::TooMuchOutput);
                    }
                }
            }
        }
    }

    /// Ends the program and its tree: politely, then not. Answers how the program ended; `None` when the sandbox is lost.
    async fn stop(&mut self, cause: Verdict, grace: Duration) -> Option<Ended> {
        let mut ended = None;
        if cause != Verdict::TooMuchOutput {
            self.signal_tree(libc::SIGTERM);
            ended = self.await_end(Instant::now() + grace).await?;
        }
        if ended.is_none() || self.tree.is_some_and(|tree| !tree.is_empty()) {
            match self.tree {
                Some(tree) => {
                    if let Err(error) = tree.end().await {
                        self.warnings.push(Warning::new("kill_failed", error.to_string()));
                    }
                }
                None => drop(self.client.end_tree(self.slot)),
            }
        }
        match ended {
            Some(ended) => Some(ended),
            None => self.await_end(Instant::now() + PATIENCE).await?,
        }
    }

    fn signal_tree(&self, signal: i32) {
        match self.tree {
            Some(tree) => tree.signal(signal),
            None => drop(self.client.signal(self.slot, signal, true)),
        }
    }

    /// Waits for the program's end while its pipes are read; `Some(None)` at the deadline, `None` when the sandbox is lost.
    #[allow(clippy::option_option, reason = "lost, not yet and ended are three answers")]
    async fn await_end(&mut self, deadline: Instant) -> Option<Option<Ended>> {
        loop {
            tokio::select! {
                biased;
                event = self.slot_events.next() => match event {
                    Some(event) => if let Some(ended) = Ended::from_event(&event) {
                        return Some(Some(ended));
                    },
                    None => return None,
                },
                () = sleep_until(deadline) => return Some(None),
                () = self.pipes.advance(self.events) => {}
            }
        }
    }

    /// Reads what is still in the pipes, ends what the program left behind, and says so.
    async fn finish_tree(&mut self, ended: &Ended, stopped: bool) {
        let has_leftovers = |command: &Self| match command.tree {
            Some(tree) => !tree.is_empty(),
            None => ended.leftovers > 0,
        };
        // The end of the pipes is not awaited from a survivor: it may never come.
        let deadline = Instant::now() + DRAIN;
        if has_leftovers(self) && !stopped {
            self.drain_until(deadline).await;
        }
        let killed = match self.tree {
            Some(tree) if tree.is_empty() => 0,
            Some(tree) => match tree.end().await {
                Ok(killed) => killed,
                Err(error) => {
                    self.warnings.push(Warning::new("kill_failed", error.to_string()));
                    0
                }
            },
            // Without leftovers the supervisor has forgotten the slot already.
            None if ended.leftovers == 0 => 0,
            None => self.end_tree_inside().await,
        };
        if killed > 0 && !stopped {
            let (what, them) = if killed == 1 { ("process was", "it") } else { ("processes were", "they") };
            self.warnings.push(Warning::new(
                "leftovers_killed",
                format!(
                    "{killed} {what} still running when the command ended, and {them} ended with it; \
                     wait for background work before the command ends"
                ),
            ));
        }
    }

    /// Reads the pipes to their end, which is near: nothing of the tree holds them any more. Whoever else got hold of one is waited for as long as
    /// it writes. A slow listener is waited for until the command's own deadline; then the rest is kept without telling.
    async fn drain_to_end(&mut self, plan: &ExecPlan, cancel: &CancellationToken) {
        let mut events = self.events;
        let deadline = plan.timeout.map(|timeout| self.started + timeout);
        while self.pipes.are_open() {
            if let Some(listener) = events {
                let expired = async {
                    match deadline {
                        Some(deadline) => sleep_until(deadline).await,
                        None => std::future::pending().await,
                    }
                };
                tokio::select! {
                    biased;
                    room = listener.reserve() => drop(room),
                    () = cancel.cancelled() => events = None,
                    () = expired => events = None,
                }
            }
            if tokio::time::timeout(DRAIN, self.pipes.advance(events)).await.is_err() {
                break;
            }
        }
        self.pipes.stdout.close();
        self.pipes.stderr.close();
    }

    async fn drain_until(&mut self, deadline: Instant) {
        while self.pipes.are_open() {
            if timeout_at(deadline, self.pipes.advance(self.events)).await.is_err() {
                return;
            }
        }
    }

    async fn end_tree_inside(&mut self) -> u32 {
        if self.client.end_tree(self.slot).is_err() {
            return 0;
        }
        let deadline = Instant::now() + PATIENCE;
        loop {
            tokio::select! {
                event = self.slot_events.next() => match event {
                    Some(SlotEvent::TreeGone { killed }) => return killed,
                    Some(_) => {}
                    None => return 0,
                },
                () = sleep_until(deadline) => {
                    self.warnings.push(Warning::new("kill_failed", "the command's processes could not be ended"));
                    return 0;
                }
                () = self.pipes.advance(self.events) => {}
            }
        }
    }

    fn outcome(mut self, plan: &ExecPlan, ended: &Ended, verdict: Option<Verdict>) -> ExecOutcome {
        let tree = self.tree.map(|tree| tree.usage()).unwrap_or_default();
        let end = match verdict {
            Some(verdict) => verdict.end(),
            None => end_of(ended.status, ended.cpu, &tree, &plan.limits),
        };
        if tree.oom_kills > 0 && end != End::OomKilled {
            self.warnings.push(Warning::new(
                "oom_in_tree",
                format!(
                    "{} of the command's processes ended because the session's memory limit of {} bytes was reached",
                    tree.oom_kills, plan.limits.memory_bytes
                ),
            ));
        }
        let cpu = tree.cpu.unwrap_or(ended.cpu);
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        ExecOutcome {
            end,
            stdout: self.pipes.stdout.capture,
            stderr: self.pipes.stderr.capture,
            usage: Usage {
                wall_ms: millis(ended.at - self.started),
                cpu_ms: millis(cpu),
                peak_memory_bytes: tree
                    .peak_memory_bytes
                    .or(Some(ended.max_rss_bytes).filter(|bytes| *bytes > 0)),
            },
            warnings: self.warnings,
            slot: Some(self.slot),
        }
    }

    fn lost(mut self, verdict: Option<Verdict>) -> ExecOutcome {
        self.guard.armed = false;
        ExecOutcome {
            end: verdict.map_or_else(
                || End::SandboxLost {
                    message: "the sandbox ended while the command ran; whether it had finished is not known"
                        .to_owned(),
                },
                Verdict::end,
            ),
            stdout: self.pipes.stdout.capture,
            stderr: self.pipes.stderr.capture,
            usage: Usage {
                wall_ms: u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX),
                ..Usage::default()
            },
            warnings: self.warnings,
            slot: Some(self.slot),
        }
    }
}

/// Waits for room, as for any event.
async fn tell_start(events: Option<&mpsc::Sender<ExecEvent>>) {
    if let Some(events) = events {
        let _ = events.send(ExecEvent::Started).await;
    }
}

/// Writes all of stdin, then closes it; a program that does not read it all is no error.
async fn feed(fd: std::os::fd::OwnedFd, bytes: Vec<u8>) -> io::Result<()> {
    let mut pipe = pipe::Sender::from_owned_fd(fd)?;
    pipe.write_all(&bytes).await
}
