//! What the engine and the launcher say to each other: one packet for each message, over `SOCK_SEQPACKET`.

use std::fmt;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, FromRawFd as _, OwnedFd};
use std::path::PathBuf;

use nix::errno::Errno;
use nix::sys::socket::{ControlMessage, ControlMessageOwned, MsgFlags, recvmsg, sendmsg};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use skillbox_init::TreeTracking;

/// The longest packet. Paths and configuration only; far below the socket's buffer.
const MAX_PACKET: usize = 64 << 10;

/// What the launcher is told once.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct LauncherConfig {
    /// Further directories of the host that sandboxes see, read-only.
    pub(crate) runtime_dirs: Vec<PathBuf>,
    /// The store's folder, lower layer of every overlay.
    pub(crate) store: PathBuf,
    /// How commands are tracked.
    pub(crate) track_by_cgroup: bool,
}

impl LauncherConfig {
    pub(crate) fn tracking(&self) -> TreeTracking {
        if self.track_by_cgroup { TreeTracking::Cgroup } else { TreeTracking::Subreaper }
    }
}

/// Sizes of a sandbox's memory filesystems, and whom it runs as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BuildSpec {
    /// The host's uid and gid of the sandbox's only user; never 0.
    pub(crate) host_uid: u32,
    pub(crate) tmp_bytes: u64,
    pub(crate) shm_bytes: u64,
}

/// The number of a request that nobody waits for, and of the set-up.
pub(crate) const UNANSWERED: u64 = 0;

/// From the engine. Requests are done one after the other.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Request {
    pub(crate) number: u64,
    pub(crate) what: ToLauncher,
}

/// What is asked.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum ToLauncher {
    /// The first message.
    Setup(LauncherConfig),
    /// Builds a sandbox. Carries init's end of its connection.
    Build { id: u64, spec: BuildSpec },
    /// Mounts the workspace and the home folder.
    AttachWorkspace { id: u64, workspace: PathBuf, home: PathBuf },
    /// Mounts an overlay at `skills/<name>`.
    AttachSkill { id: u64, name: String, lower: PathBuf, upper: PathBuf, work: PathBuf },
    /// Ends a sandbox.
    Close { id: u64 },
}

/// To the engine.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum FromLauncher {
    /// The template stands.
    Ready { report: SetupReport },
    /// The request was done. After `Build` it carries a pidfd of the sandbox's init.
    Done { number: u64 },
    /// The request failed.
    Failed { number: u64, error: LauncherError },
}

/// What the set-up found out.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct SetupReport {
    /// Whether the launcher acts with the host's root, and gives each sandbox a uid of its own.
    pub(crate) privileged: bool,
    /// Why the template has no fresh /proc, if so.
    pub(crate) no_proc: Option<LauncherError>,
    /// Runtime directories that the host does not have and that were not asked for by the operator.
    pub(crate) left_out: Vec<String>,
}

/// A step that failed, and the kernel's answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub(crate) struct LauncherError {
    /// What was being done, such as `mount /proc`.
    pub(crate) step: String,
    pub(crate) errno: i32,
}

impl fmt::Display for LauncherError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.step, Errno::from_raw(self.errno).desc())
    }
}

impl LauncherError {
    pub(crate) fn new(step: impl Into<String>, errno: impl Into<ErrnoLike>) -> Self {
        Self { step: step.into(), errno: errno.into().0 }
    }
}

/// An error number, from whichever library it comes.
pub(crate) struct ErrnoLike(i32);

impl From<Errno> for ErrnoLike {
    fn from(errno: Errno) -> Self {
        Self(errno as i32)
    }
}

impl From<rustix::io::Errno> for ErrnoLike {
    fn from(errno: rustix::io::Errno) -> Self {
        Self(errno.raw_os_error())
    }
}

impl From<io::Error> for ErrnoLike {
    fn from(error: io::Error) -> Self {
        Self(error.raw_os_error().unwrap_or(0))
    }
}

/// Names the step that a result belongs to.
pub(crate) trait Step<T> {
    fn step(self, step: &str) -> Result<T, LauncherError>;
}

impl<T, E: Into<ErrnoLike>> Step<T> for Result<T, E> {
    fn step(self, step: &str) -> Result<T, LauncherError> {
        self.map_err(|errno| LauncherError::new(step, errno))
    }
}

/// Sends one message.
pub(crate) fn send_blocking<T: Serialize>(
    socket: &impl AsRawFd,
    message: &T,
    fds: &[OwnedFd],
) -> io::Result<()> {
    let packet = postcard::to_stdvec(message).map_err(io::Error::other)?;
    if packet.len() > MAX_PACKET {
        return Err(io::Error::other("a message to the launcher is too long"));
    }
    let raw: Vec<_> = fds.iter().map(AsRawFd::as_raw_fd).collect();
    let rights = [ControlMessage::ScmRights(&raw)];
    let control: &[ControlMessage<'_>] = if raw.is_empty() { &[] } else { &rights };
    loop {
        match sendmsg::<()>(
            socket.as_raw_fd(),
            &[IoSlice::new(&packet)],
            control,
            MsgFlags::MSG_NOSIGNAL,
            None,
        ) {
            Ok(_) => return Ok(()),
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// Receives one message; `None` at the end of the connection.
pub(crate) fn receive_blocking<T: DeserializeOwned>(
    socket: &impl AsRawFd,
) -> io::Result<Option<(T, Vec<OwnedFd>)>> {
    let mut packet = vec![0; MAX_PACKET];
    let mut control = nix::cmsg_space!([std::os::fd::RawFd; 4]);
    let mut pieces = [IoSliceMut::new(&mut packet)];
    let received = loop {
        match recvmsg::<()>(socket.as_raw_fd(), &mut pieces, Some(&mut control), MsgFlags::MSG_CMSG_CLOEXEC) {
            Err(Errno::EINTR) => {}
            other => break other?,
        }
    };
    let mut fds = Vec::new();
    for message in received.cmsgs()? {
        if let ControlMessageOwned::ScmRights(raw) = message {
            // SAFETY: the kernel just installed these descriptors for this process, and nobody else knows them.
            fds.extend(raw.into_iter().map(|fd| unsafe { OwnedFd::from_raw_fd(fd) }));
        }
    }
    let count = received.bytes;
    if count == 0 {
        return Ok(None);
    }
    let message = postcard::from_bytes(&packet[..count]).map_err(io::Error::other)?;
    Ok(Some((message, fds)))
}
