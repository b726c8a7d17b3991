//! The host's side: one client for each sandbox.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_bytes::ByteBuf;
use tokio::sync::{mpsc, oneshot, watch};

use crate::connection::{ConnectionError, HostConnection, ReadState};
use crate::protocol::{
    CollectOp, CollectSummary, ExecSpec, ExitStatus, FileOp, FileReply, FoundFile, FromInit, ToInit, VERSION,
};
use crate::spawn_error::SpawnFailure;

/// A child that waits for its command, and the host's ends of its pipes.
#[derive(Debug)]
pub struct ParkedChild {
    /// Its slot.
    pub slot: u64,
    /// A handle on the process that no other process can take over.
    pub pidfd: OwnedFd,
    /// Writing end of its stdin.
    pub stdin: OwnedFd,
    /// Reading end of its stdout.
    pub stdout: OwnedFd,
    /// Reading end of its stderr.
    pub stderr: OwnedFd,
}

/// What happened to a slot's command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SlotEvent {
    /// It did not start.
    SpawnFailed(SpawnFailure),
    /// The program ended.
    Exited {
        /// How.
        status: ExitStatus,
        /// CPU time in microseconds, of what was waited for.
        cpu_us: u64,
        /// Peak resident memory in bytes, of the largest process.
        max_rss_bytes: u64,
        /// Descendants that still run, where the supervisor tracks them.
        leftovers: u32,
    },
    /// Nothing of it runs any more.
    TreeGone {
        /// How many processes were ended for that.
        killed: u32,
    },
}

/// The events of one slot. Ends when the sandbox is lost.
#[derive(Debug)]
pub struct SlotEvents {
    receiver: mpsc::UnboundedReceiver<SlotEvent>,
}

impl SlotEvents {
    /// The next event; `None` when the sandbox is lost.
    pub async fn next(&mut self) -> Option<SlotEvent> {
        self.receiver.recv().await
    }
}

/// Why file work failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FilesError {
    /// The sandbox is lost.
    #[error(transparent)]
    Connection(#[from] ConnectionError),
    /// The supervisor could not do it.
    #[error("{message}")]
    Refused {
        /// The kernel's error number, or 0.
        errno: i32,
        /// What was being done, and why it failed.
        message: String,
    },
}

/// Answers to a file request that may wait for their reader; then the connection waits.
const WAITING_REPLIES: usize = 16;

#[derive(Debug)]
struct SlotEntry {
    events: mpsc::UnboundedSender<SlotEvent>,
    /// Whether its end was told; a second one is not believed, so that the queue stays short.
    ended: bool,
}

#[derive(Debug, Default)]
struct State {
    parks: HashMap<u64, oneshot::Sender<Result<ParkedChild, i32>>>,
    slots: HashMap<u64, SlotEntry>,
    files: HashMap<u64, mpsc::Sender<FileReply>>,
    lost: bool,
}

#[derive(Debug)]
struct Shared {
    connection: HostConnection,
    state: Mutex<State>,
    requests: AtomicU64,
    lost: watch::Sender<bool>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        // No code panics while holding the lock; a poisoned one still holds consistent maps.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The connection to the supervisor of one sandbox. Dropping it ends the connection, and with it the sandbox.
#[derive(Debug)]
pub struct InitClient {
    shared: Arc<Shared>,
    reader: tokio::task::JoinHandle<()>,
    writer: tokio::task::JoinHandle<()>,
}

impl Drop for InitClient {
    fn drop(&mut self) {
        self.reader.abort();
        self.writer.abort();
    }
}

impl InitClient {
    /// Takes one end of the connection and waits until the supervisor is ready.
    pub async fn connect(socket: OwnedFd) -> Result<Self, ConnectionError> {
        let connection = HostConnection::new(socket)?;
        let mut reading = ReadState::default();
        match connection.receive(&mut reading).await? {
            FromInit::Ready { version: VERSION } => {}
            FromInit::Ready { version } => {
                return Err(ConnectionError::Protocol(format!(
                    "the supervisor speaks version {version}, this engine {VERSION}; update the older of the two"
                )));
            }
            other => return Err(ConnectionError::Protocol(format!("{other:?} came first"))),
        }
        let shared = Arc::new(Shared {
            connection,
            state: Mutex::default(),
            requests: AtomicU64::new(1),
            lost: watch::Sender::new(false),
        });
        let reader = tokio::spawn(read_loop(shared.clone(), reading));
        let writing = shared.clone();
        let writer = tokio::spawn(async move { drop(writing.connection.flush().await) });
        Ok(Self { shared, reader, writer })
    }

    /// Asks for a parked child. The answer is awaited apart from the asking, so that parking can run ahead.
    pub fn park(&self, slot: u64, run_dir: &[u8]) -> Result<Parking, ConnectionError> {
        let parking = self.expect_parked(slot)?;
        self.shared.connection.send(&ToInit::Park { slot, run_dir: ByteBuf::from(run_dir) })?;
        Ok(parking)
    }

    fn expect_parked(&self, slot: u64) -> Result<Parking, ConnectionError> {
        let (sender, receiver) = oneshot::channel();
        let mut state = self.shared.state();
        if state.lost {
            return Err(ConnectionError::Closed);
        }
        state.parks.insert(slot, sender);
        Ok(Parking { receiver })
    }

    /// Executes a command in a parked slot, and asks for the next parked child in the same breath.
    pub fn exec(
        &self,
        slot: u64,
        spec: ExecSpec,
        park_next: Option<(u64, Vec<u8>)>,
    ) -> Result<(SlotEvents, Option<Parking>), ConnectionError> {
        let parking = park_next.as_ref().map(|(next, _)| self.expect_parked(*next)).transpose()?;
        let (sender, receiver) = mpsc::unbounded_channel();
        {
            let mut state = self.shared.state();
            if state.lost {
                return Err(ConnectionError::Closed);
            }
            state.slots.insert(slot, SlotEntry { events: sender, ended: false });
        }
        let park_next = park_next.map(|(next, run_dir)| (next, ByteBuf::from(run_dir)));
        self.shared.connection.send(&ToInit::Exec { slot, spec, park_next })?;
        Ok((SlotEvents { receiver }, parking))
    }

    /// Sends a signal to a slot's program, or to its whole tree.
    pub fn signal(&self, slot: u64, signal: i32, whole_tree: bool) -> Result<(), ConnectionError> {
        self.shared.connection.send(&ToInit::Signal { slot, signal, whole_tree })
    }

    /// Ends what is left of a slot's tree; [`SlotEvent::TreeGone`] answers.
    pub fn end_tree(&self, slot: u64) -> Result<(), ConnectionError> {
        self.shared.connection.send(&ToInit::EndTree { slot })
    }

    /// Forgets a slot whose last event was heard.
    pub fn forget(&self, slot: u64) {
        self.shared.state().slots.remove(&slot);
    }

    /// Whether the sandbox is lost.
    pub fn is_lost(&self) -> bool {
        self.shared.state().lost
    }

    /// Returns once the sandbox is lost.
    pub async fn lost(&self) {
        let mut lost = self.shared.lost.subscribe();
        let _ = lost.wait_for(|lost| *lost).await;
    }

    /// Writes a whole file into the workspace.
    pub async fn put(&self, path: &[u8], content: Vec<u8>, executable: bool) -> Result<(), FilesError> {
        let op = FileOp::Put { path: ByteBuf::from(path), content: ByteBuf::from(content), executable };
        let mut replies = self.file_request(op)?;
        match replies.next().await? {
            FileReply::Done => Ok(()),
            other => Err(unexpected(&other)),
        }
    }

    /// Finds files; each batch is handed to `visit` as it comes.
    pub async fn collect(
        &self,
        op: CollectOp,
        mut visit: impl FnMut(Vec<FoundFile>) + Send,
    ) -> Result<CollectSummary, FilesError> {
        let mut replies = self.file_request(FileOp::Collect(op))?;
        loop {
            match replies.next().await? {
                FileReply::Files(files) => visit(files),
                FileReply::CollectEnd(summary) => return Ok(summary),
                other => return Err(unexpected(&other)),
            }
        }
    }

    /// Reads a regular file of the workspace in pieces, at most `max_bytes` of it; answers the bytes that came.
    pub async fn read(
        &self,
        path: &[u8],
        max_bytes: u64,
        mut visit: impl FnMut(&[u8]) -> std::io::Result<()> + Send,
    ) -> Result<u64, FilesError> {
        let mut replies = self.file_request(FileOp::Read { path: ByteBuf::from(path), max_bytes })?;
        let mut total = 0;
        loop {
            match replies.next().await? {
                FileReply::Data(bytes) => {
                    total += bytes.len() as u64;
                    if total > max_bytes {
                        return Err(
                            ConnectionError::Protocol("more was sent than asked for".to_owned()).into()
                        );
                    }
                    visit(&bytes).map_err(|e| FilesError::Refused {
                        errno: e.raw_os_error().unwrap_or(0),
                        message: format!("writing a copy failed: {e}"),
                    })?;
                }
                FileReply::Done => return Ok(total),
                other => return Err(unexpected(&other)),
            }
        }
    }

    fn file_request(&self, op: FileOp) -> Result<Replies<'_>, FilesError> {
        let request = self.shared.requests.fetch_add(1, Ordering::Relaxed);
        let (sender, receiver) = mpsc::channel(WAITING_REPLIES);
        {
            let mut state = self.shared.state();
            if state.lost {
                return Err(ConnectionError::Closed.into());
            }
            state.files.insert(request, sender);
        }
        let replies = Replies { shared: &self.shared, request, receiver };
        self.shared.connection.send(&ToInit::File { request, op })?;
        Ok(replies)
    }
}

fn unexpected(reply: &FileReply) -> FilesError {
    let kind = match reply {
        FileReply::Files(_) => "files",
        FileReply::CollectEnd(_) => "the end of a collection",
        FileReply::Data(_) => "data",
        FileReply::Done => "done",
        FileReply::Failed { .. } => "a failure",
    };
    ConnectionError::Protocol(format!("{kind} came out of turn")).into()
}

/// The answers to one file request; forgotten when dropped.
struct Replies<'a> {
    shared: &'a Shared,
    request: u64,
    receiver: mpsc::Receiver<FileReply>,
}

impl Replies<'_> {
    async fn next(&mut self) -> Result<FileReply, FilesError> {
        match self.receiver.recv().await {
            Some(FileReply::Failed { errno, message }) => Err(FilesError::Refused { errno, message }),
            Some(reply) => Ok(reply),
            None => Err(ConnectionError::Closed.into()),
        }
    }
}

impl Drop for Replies<'_> {
    fn drop(&mut self) {
        self.shared.state().files.remove(&self.request);
    }
}

/// A child that is being parked.
#[derive(Debug)]
pub struct Parking {
    receiver: oneshot::Receiver<Result<ParkedChild, i32>>,
}

impl Parking {
    /// Waits for the child.
    pub async fn wait(self) -> Result<ParkedChild, FilesError> {
        match self.receiver.await {
            Ok(Ok(child)) => Ok(child),
            Ok(Err(errno)) => Err(FilesError::Refused {
                errno,
                message: "no process could be made in the sandbox; its process limit may be used up"
                    .to_owned(),
            }),
            Err(_) => Err(ConnectionError::Closed.into()),
        }
    }
}

async fn read_loop(shared: Arc<Shared>, mut reading: ReadState) {
    while let Ok(message) = shared.connection.receive(&mut reading).await {
        let FromInit::File { request, reply } = message else {
            if dispatch(&shared, &mut reading, message).is_err() {
                break;
            }
            continue;
        };
        let replies = shared.state().files.get(&request).cloned();
        if let Some(replies) = replies {
            // A reader that is slow slows the supervisor down, and costs no memory; one that is gone lets it go on.
            let _ = replies.send(reply).await;
        }
    }
    let mut state = shared.state();
    *state = State { lost: true, ..State::default() };
    drop(state);
    shared.lost.send_replace(true);
}

fn dispatch(shared: &Shared, reading: &mut ReadState, message: FromInit) -> Result<(), ConnectionError> {
    let mut state = shared.state();
    match message {
        FromInit::Ready { .. } => return Err(ConnectionError::Protocol("ready came twice".to_owned())),
        FromInit::Parked { slot } => {
            let [pidfd, stdin, stdout, stderr] = reading.take_fds()?;
            let child = ParkedChild { slot, pidfd, stdin, stdout, stderr };
            let taken = state.parks.remove(&slot).is_some_and(|waiting| waiting.send(Ok(child)).is_ok());
            if !taken {
                // Nobody waits for it any more.
                shared.connection.send(&ToInit::EndTree { slot })?;
            }
        }
        FromInit::ParkFailed { slot, errno } => {
            if let Some(waiting) = state.parks.remove(&slot) {
                let _ = waiting.send(Err(errno));
            }
        }
        FromInit::SpawnFailed { slot, failure } => {
            if let Some(events) = state.slots.remove(&slot) {
                let _ = events.events.send(SlotEvent::SpawnFailed(failure));
            }
        }
        FromInit::Exited { slot, status, cpu_us, max_rss_bytes, leftovers } => {
            if let Some(entry) = state.slots.get_mut(&slot).filter(|entry| !entry.ended) {
                entry.ended = true;
                let _ = entry.events.send(SlotEvent::Exited { status, cpu_us, max_rss_bytes, leftovers });
            }
        }
        FromInit::TreeGone { slot, killed } => {
            if let Some(events) = state.slots.remove(&slot) {
                let _ = events.events.send(SlotEvent::TreeGone { killed });
            }
        }
        FromInit::File { .. } => {}
    }
    Ok(())
}
