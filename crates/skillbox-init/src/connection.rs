//! The host's end of the connection: frames and descriptors over a non-blocking socket.

use std::collections::VecDeque;
use std::io::{self, IoSliceMut};
use std::os::fd::{AsRawFd, FromRawFd as _, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::sync::Notify;

use crate::wire::{FrameBuffer, WireError, encode};

/// Why the connection cannot be used any more.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectionError {
    /// The other side is gone.
    #[error("the sandbox's supervisor is gone")]
    Closed,
    /// The kernel refused a call.
    #[error("the connection to the sandbox's supervisor failed: {0}")]
    Io(#[from] io::Error),
    /// What came is not the protocol. The sandbox is not to be trusted any further.
    #[error("the sandbox's supervisor broke the protocol: {0}")]
    Protocol(String),
}

impl From<WireError> for ConnectionError {
    fn from(error: WireError) -> Self {
        Self::Protocol(error.to_string())
    }
}

/// Descriptors that may wait for the message that they belong to.
const MAX_WAITING_FDS: usize = 64;
/// Descriptors that one `recvmsg(2)` takes; the kernel discards more.
const FDS_PER_READ: usize = 16;

/// The socket.
///
/// Sending never waits: what the socket does not take at once goes out from [`HostConnection::flush`]. So nobody who stops waiting can leave
/// half a frame behind.
#[derive(Debug)]
pub(crate) struct HostConnection {
    socket: UnixStream,
    outbox: Mutex<VecDeque<u8>>,
    filled: Notify,
}

/// The reading half's state.
#[derive(Debug, Default)]
pub(crate) struct ReadState {
    buffer: FrameBuffer,
    fds: VecDeque<OwnedFd>,
    piece: Vec<u8>,
}

impl ReadState {
    /// Takes the descriptors that belong to a message.
    pub(crate) fn take_fds<const N: usize>(&mut self) -> Result<[OwnedFd; N], ConnectionError> {
        let found: Vec<OwnedFd> = self.fds.drain(..N.min(self.fds.len())).collect();
        <[OwnedFd; N]>::try_from(found)
            .map_err(|found| ConnectionError::Protocol(format!("{} of {N} descriptors came", found.len())))
    }
}

impl HostConnection {
    /// Wraps one end of a stream socket pair. Must be called within a tokio runtime.
    pub(crate) fn new(socket: OwnedFd) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&socket, true)?;
        let socket = UnixStream::from_std(socket.into())?;
        Ok(Self { socket, outbox: Mutex::default(), filled: Notify::new() })
    }

    /// Sends a message, or puts it behind those that wait.
    pub(crate) fn send<T: Serialize>(&self, message: &T) -> Result<(), ConnectionError> {
        let frame = encode(message)?;
        let mut outbox = self.outbox();
        let sent = if outbox.is_empty() { self.write(&frame)? } else { 0 };
        if sent < frame.len() {
            outbox.extend(&frame[sent..]);
            self.filled.notify_one();
        }
        Ok(())
    }

    /// Sends what waits, for as long as the connection lasts.
    pub(crate) async fn flush(&self) -> Result<(), ConnectionError> {
        loop {
            self.filled.notified().await;
            while !self.outbox().is_empty() {
                self.socket.writable().await.map_err(closed)?;
                let mut outbox = self.outbox();
                let sent = self.write(outbox.as_slices().0)?;
                outbox.drain(..sent);
            }
        }
    }

    /// Writes as much as the socket takes now.
    fn write(&self, bytes: &[u8]) -> Result<usize, ConnectionError> {
        let mut sent = 0;
        while sent < bytes.len() {
            let write = || {
                rustix::net::send(&self.socket, &bytes[sent..], rustix::net::SendFlags::NOSIGNAL)
                    .map_err(io::Error::from)
            };
            match self.socket.try_io(Interest::WRITABLE, write) {
                Ok(count) => sent += count,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(closed(e)),
            }
        }
        Ok(sent)
    }

    fn outbox(&self) -> MutexGuard<'_, VecDeque<u8>> {
        self.outbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next message.
    pub(crate) async fn receive<T: DeserializeOwned>(
        &self,
        state: &mut ReadState,
    ) -> Result<T, ConnectionError> {
        loop {
            if let Some(message) = state.buffer.next()? {
                return Ok(message);
            }
            state.piece.resize(64 << 10, 0);
            let bytes = &mut state.piece;
            let (count, fds) = self
                .socket
                .async_io(Interest::READABLE, || read_with_fds(&self.socket, bytes))
                .await
                .map_err(closed)?;
            state.fds.extend(fds);
            if state.fds.len() > MAX_WAITING_FDS {
                return Err(ConnectionError::Protocol("too many descriptors".to_owned()));
            }
            if count == 0 {
                return Err(ConnectionError::Closed);
            }
            state.buffer.push(&state.piece[..count]);
        }
    }
}

fn closed(error: io::Error) -> ConnectionError {
    match error.kind() {
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset | io::ErrorKind::NotConnected => {
            ConnectionError::Closed
        }
        _ => ConnectionError::Io(error),
    }
}

fn read_with_fds(socket: &UnixStream, bytes: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut control = nix::cmsg_space!([std::os::fd::RawFd; FDS_PER_READ]);
    let mut pieces = [IoSliceMut::new(bytes)];
    let received =
        recvmsg::<()>(socket.as_raw_fd(), &mut pieces, Some(&mut control), MsgFlags::MSG_CMSG_CLOEXEC)?;
    let mut fds = Vec::new();
    for message in received.cmsgs()? {
        if let ControlMessageOwned::ScmRights(raw) = message {
            // SAFETY: the kernel just installed these descriptors for this process, and nobody else knows them.
            fds.extend(raw.into_iter().map(|fd| unsafe { OwnedFd::from_raw_fd(fd) }));
        }
    }
    Ok((received.bytes, fds))
}
