//! The messages between the host and the supervisor.
//!
//! A frame is a length (four bytes, little endian) and that many bytes of [postcard](https://postcard.jamesmunns.com/wire-format).
//! Over a Unix socket, descriptors travel as `SCM_RIGHTS` with the first byte of the frame that names them.
//! A *slot* is the host's number for one command: it is parked, executed once, and gone.
//!
//! What later placements need has its place already: a slot can be in the background (it simply stays), stdin is a pipe
//! of its own, signals go to a program or its tree, and files travel both ways in bounded pieces.

use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;

use crate::spawn_error::SpawnFailure;

/// The version of this protocol; both sides refuse another one.
pub const VERSION: u16 = 1;

/// The longest frame, in bytes. A longer one is a protocol error and ends the connection.
pub const MAX_FRAME: usize = 16 << 20;

/// The most content of one file that is sent with its metadata, in bytes; more is read with [`FileOp::Read`].
pub const MAX_CONTENT: u64 = 8 << 20;

/// The beginning of a file that is always sent with its metadata, for the sake of its media type, in bytes.
pub const MIN_HEAD: u64 = 4 << 10;

/// The largest piece of file content in one frame, in bytes.
pub const CHUNK: usize = 256 << 10;

/// From the host to the supervisor.
#[derive(Debug, Serialize, Deserialize)]
pub enum ToInit {
    /// Forks a child that waits for its command. Answered by [`FromInit::Parked`].
    Park {
        /// The host's number for it.
        slot: u64,
        /// The folder of its command, relative to the workspace, made ahead so that it costs the command nothing.
        run_dir: ByteBuf,
    },
    /// Executes a command in a parked child. Answered by [`FromInit::SpawnFailed`] or, at the end, [`FromInit::Exited`].
    Exec {
        /// A parked slot.
        slot: u64,
        /// What to execute.
        spec: ExecSpec,
        /// A slot to park once the command is on its way, and the folder of its command.
        park_next: Option<(u64, ByteBuf)>,
    },
    /// Sends a signal.
    Signal {
        /// A running slot.
        slot: u64,
        /// The signal's number.
        signal: i32,
        /// To the program alone, or to every process that descends from it.
        whole_tree: bool,
    },
    /// Ends what is left of a slot's tree and forgets the slot. Answered by [`FromInit::TreeGone`].
    EndTree {
        /// The slot.
        slot: u64,
    },
    /// File work on the workspace. Answered by one or more [`FromInit::File`].
    File {
        /// The host's number for the request.
        request: u64,
        /// What to do.
        op: FileOp,
    },
}

/// From the supervisor to the host.
#[derive(Debug, Serialize, Deserialize)]
pub enum FromInit {
    /// The first message.
    Ready {
        /// [`VERSION`].
        version: u16,
    },
    /// A child is parked. Carries four descriptors: its pidfd, the writing end of its stdin, the reading ends of its stdout
    /// and stderr.
    Parked {
        /// Its slot.
        slot: u64,
    },
    /// A parked child died before its command, or could not be forked.
    ParkFailed {
        /// Its slot.
        slot: u64,
        /// The error number of `fork(2)`, or 0.
        errno: i32,
    },
    /// The command did not start; the slot is gone.
    SpawnFailed {
        /// Its slot.
        slot: u64,
        /// What failed.
        failure: SpawnFailure,
    },
    /// The program ended. Its descendants may still run.
    Exited {
        /// Its slot.
        slot: u64,
        /// How it ended.
        status: ExitStatus,
        /// CPU time of the program and the descendants that were waited for, in microseconds.
        cpu_us: u64,
        /// Peak resident memory of the largest of these, in bytes.
        max_rss_bytes: u64,
        /// Descendants that still run, where the supervisor tracks them.
        leftovers: u32,
    },
    /// Nothing of the slot's tree runs any more, and the slot is gone.
    TreeGone {
        /// The slot.
        slot: u64,
        /// How many processes were ended.
        killed: u32,
    },
    /// Part of the answer to a file request.
    File {
        /// The request's number.
        request: u64,
        /// The part.
        reply: FileReply,
    },
}

/// How a program ended, as `wait(2)` tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ExitStatus {
    /// With an exit code.
    Code(i32),
    /// By a signal.
    Signal(i32),
}

/// What to execute, everything resolved.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecSpec {
    /// Program: a path, or a name that is looked up in the `PATH` of `env`.
    pub program: ByteBuf,
    /// Arguments, the first being the program's own name.
    pub args: Vec<ByteBuf>,
    /// `NAME=value` pairs; nothing else is in the environment.
    pub env: Vec<ByteBuf>,
    /// Working directory relative to the workspace; links may be followed only while they stay inside it.
    pub cwd: ByteBuf,
    /// A folder relative to the workspace that is made first if it is not there, for `RUN_DIR`.
    pub make_dir: Option<ByteBuf>,
    /// Whether stdin is the slot's pipe; `/dev/null` otherwise.
    pub stdin_pipe: bool,
    /// Resource limits of each process.
    pub rlimits: Rlimits,
}

/// `setrlimit(2)` values; `None` leaves a limit as it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rlimits {
    /// `RLIMIT_CPU`, in seconds.
    pub cpu_seconds: Option<u64>,
    /// `RLIMIT_FSIZE`, in bytes.
    pub file_size_bytes: Option<u64>,
    /// `RLIMIT_NOFILE`.
    pub open_files: Option<u64>,
    /// `RLIMIT_NPROC`.
    pub processes: Option<u64>,
    /// `RLIMIT_DATA`, in bytes.
    pub data_bytes: Option<u64>,
}

/// File work on the workspace. Paths are relative to it; no link is followed.
#[derive(Debug, Serialize, Deserialize)]
pub enum FileOp {
    /// Writes a whole file, its folders made as needed.
    Put {
        /// Where.
        path: ByteBuf,
        /// Content.
        content: ByteBuf,
        /// Whether it is made executable.
        executable: bool,
    },
    /// Finds regular files by glob and sends their metadata, digest and, within the caps, content.
    Collect(CollectOp),
    /// Reads a regular file to its end in pieces.
    Read {
        /// Which.
        path: ByteBuf,
        /// The most bytes to send.
        max_bytes: u64,
    },
}

/// The request of [`FileOp::Collect`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CollectOp {
    /// Patterns of the glob dialect, as given.
    pub patterns: Vec<String>,
    /// Judge each file against the start of this slot's command.
    pub since_slot: Option<u64>,
    /// The most files that are sent; further matches are counted.
    pub max_files: u64,
    /// The most bytes of content of one file.
    pub max_file_bytes: u64,
    /// The most bytes of content in all.
    pub max_total_bytes: u64,
    /// Leave out files that were not touched since the command began.
    pub changed_only: bool,
    /// Send content that is not text, too.
    pub inline_binary: bool,
}

/// Part of an answer to a [`FileOp`].
#[derive(Debug, Serialize, Deserialize)]
pub enum FileReply {
    /// Files that were found, in the order of their paths.
    Files(Vec<FoundFile>),
    /// The end of [`FileOp::Collect`].
    CollectEnd(CollectSummary),
    /// A piece of a file.
    Data(ByteBuf),
    /// The request is done.
    Done,
    /// The request failed.
    Failed {
        /// The kernel's error number, or 0.
        errno: i32,
        /// What was being done.
        message: String,
    },
}

/// A file that was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundFile {
    /// Path relative to the workspace.
    pub path: ByteBuf,
    /// Size in bytes.
    pub size: u64,
    /// Permission bits.
    pub mode: u32,
    /// SHA-256, where the file could be read to its end.
    pub sha256: Option<[u8; 32]>,
    /// The first bytes of the content: all of it, or as much as the caps allow (at least what a media type needs).
    pub content: ByteBuf,
    /// Whether it was made since the command began.
    pub created: bool,
    /// Whether it was made, written or had its attributes changed since the command began.
    pub touched: bool,
}

/// What a collection met.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CollectSummary {
    /// Matches per pattern, in the order of the request.
    pub matches: Vec<u64>,
    /// Matching files beyond `max_files`.
    pub more: u64,
    /// Links, pipes, sockets and devices that matched and were passed over; the first hundred, each with its kind.
    pub skipped: Vec<(ByteBuf, String)>,
    /// For patterns without a match: names that are close.
    pub near: Vec<(String, Vec<String>)>,
    /// Matching files that were not read to their end: unreadable, too large, or beyond the time that reading may take.
    pub unread: u64,
    /// Whether the walk ended early because the workspace holds too many entries.
    pub walk_limit_hit: bool,
}
