//! Thin wrappers over the system calls that the supervisor needs.

use std::io::{self, IoSlice, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use nix::sys::socket::{AddressFamily, ControlMessage, MsgFlags, SockFlag, SockType, sendmsg, socketpair};
use nix::unistd::{ForkResult, Pid, fork};
use rustix::time::Timespec;
use serde::{Serialize, de::DeserializeOwned};

use crate::wire::{FrameBuffer, encode};

/// Forks; runs `child` in the child, which ends after it, and answers its pid in the parent.
pub(crate) fn fork_child(child: impl FnOnce()) -> nix::Result<Pid> {
    // SAFETY: the supervisor has one thread only, so the child may use the heap and every lock is free.
    match unsafe { fork() }? {
        ForkResult::Parent { child } => Ok(child),
        ForkResult::Child => {
            child();
            leave(0)
        }
    }
}

/// Leaves the process at once: no destructors, no exit handlers of the process it was forked from.
pub(crate) fn leave(code: i32) -> ! {
    // SAFETY: _exit(2) takes any status and never returns.
    unsafe { libc::_exit(code) }
}

/// A connected pair of close-on-exec stream sockets.
pub(crate) fn stream_pair() -> nix::Result<(OwnedFd, OwnedFd)> {
    socketpair(AddressFamily::Unix, SockType::Stream, None, SockFlag::SOCK_CLOEXEC)
}

/// A pipe, close-on-exec; reading end first.
pub(crate) fn pipe() -> nix::Result<(OwnedFd, OwnedFd)> {
    nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC)
}

/// A blocking socket that carries frames.
#[derive(Debug)]
pub(crate) struct FrameSocket {
    fd: OwnedFd,
    buffer: FrameBuffer,
    closed: bool,
}

impl FrameSocket {
    pub(crate) fn new(fd: OwnedFd) -> Self {
        Self { fd, buffer: FrameBuffer::default(), closed: false }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Sends a message and descriptors with its first byte; blocks until all of it is on its way.
    pub(crate) fn send<T: Serialize>(&self, message: &T, fds: &[RawFd]) -> io::Result<()> {
        let frame = encode(message).map_err(io::Error::other)?;
        let mut sent = 0;
        while sent < frame.len() {
            let rights = [ControlMessage::ScmRights(fds)];
            let control: &[ControlMessage<'_>] = if sent == 0 && !fds.is_empty() { &rights } else { &[] };
            let piece = [IoSlice::new(&frame[sent..])];
            match sendmsg::<()>(self.fd.as_raw_fd(), &piece, control, MsgFlags::MSG_NOSIGNAL, None) {
                Ok(n) => sent += n,
                Err(nix::Error::EINTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }

    /// Reads once; blocks while nothing is there. An end of file marks the socket closed.
    pub(crate) fn fill(&mut self) -> io::Result<()> {
        let mut bytes = vec![0; 64 << 10];
        match nix::unistd::read(&self.fd, &mut bytes) {
            Ok(0) | Err(nix::Error::ECONNRESET) => self.closed = true,
            Ok(n) => self.buffer.push(&bytes[..n]),
            Err(nix::Error::EINTR | nix::Error::EAGAIN) => {}
            Err(errno) => return Err(errno.into()),
        }
        Ok(())
    }

    /// The next whole message.
    pub(crate) fn next<T: DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        self.buffer.next().map_err(io::Error::other)
    }

    /// Waits for a message; `None` at the end of the connection.
    pub(crate) fn receive<T: DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        loop {
            if let Some(message) = self.next()? {
                return Ok(Some(message));
            }
            if self.closed {
                return Ok(None);
            }
            self.fill()?;
        }
    }

    /// What is there without waiting.
    pub(crate) fn try_receive<T: DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        if let Some(message) = self.next()? {
            return Ok(Some(message));
        }
        let mut poll = [nix::poll::PollFd::new(self.fd.as_fd(), nix::poll::PollFlags::POLLIN)];
        if nix::poll::poll(&mut poll, nix::poll::PollTimeout::ZERO)? == 0 {
            return Ok(None);
        }
        self.fill()?;
        self.next()
    }
}

impl AsFd for FrameSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Reads at most `limit` bytes from the beginning of a file.
pub(crate) fn read_head(file: OwnedFd, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    io::Read::take(std::fs::File::from(file), limit).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The clock that files are stamped with.
///
/// A file's change time is compared with the moment at which a command began. Kernels stamp files with a clock that
/// advances in steps of some milliseconds, so a moment is only useful if everything before it is stamped earlier and
/// everything after it is not. Since Linux 6.13 a stamp that somebody looked at is followed by a finer one (multigrain
/// timestamps, Documentation/filesystems/multigrain-ts.rst), and looking at a file of our own gives such a moment at once. On older
/// kernels the clock's next step is awaited, if anything was written since its last one.
#[derive(Debug)]
pub(crate) struct FileClock {
    marker: Option<OwnedFd>,
    last_activity: Timespec,
}

impl FileClock {
    pub(crate) fn new() -> Self {
        let marker = rustix::fs::memfd_create("clock", rustix::fs::MemfdFlags::CLOEXEC).ok();
        Self { marker, last_activity: Timespec { tv_sec: 0, tv_nsec: 0 } }
    }

    fn stamp(&self) -> Timespec {
        let stamped = self.marker.as_ref().and_then(|marker| {
            rustix::io::pwrite(marker, b"x", 0).ok()?;
            let stat = rustix::fs::fstat(marker).ok()?;
            Some(Timespec { tv_sec: stat.st_ctime, tv_nsec: stat.st_ctime_nsec.try_into().unwrap_or(0) })
        });
        stamped.unwrap_or_else(|| rustix::time::clock_gettime(rustix::time::ClockId::RealtimeCoarse))
    }

    /// Notes that the workspace was, or may have been, written until now.
    pub(crate) fn note_activity(&mut self) {
        self.last_activity = self.stamp();
    }

    /// A moment that is later than every stamp so far, and not later than any stamp to come.
    pub(crate) fn begin(&mut self) -> Timespec {
        let mut now = self.stamp();
        // A second look makes the difference where stamps are fine; see above.
        if now <= self.last_activity {
            now = self.stamp();
        }
        while now <= self.last_activity {
            let pause = Timespec { tv_sec: 0, tv_nsec: 200_000 };
            let _ = rustix::thread::nanosleep(&pause);
            now = self.stamp();
        }
        now
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests")]
    use super::*;

    #[test]
    fn a_rewrite_within_the_clock_s_grain_is_told_from_one_before() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let mut clock = FileClock::new();
        let ctime = |path: &std::path::Path| {
            let stat = rustix::fs::stat(path).unwrap();
            Timespec { tv_sec: stat.st_ctime, tv_nsec: i64::try_from(stat.st_ctime_nsec).unwrap() }
        };
        for _ in 0..200 {
            std::fs::write(&path, b"before").unwrap();
            clock.note_activity();
            let began = clock.begin();
            assert!(ctime(&path) < began, "written before the command");
            std::fs::write(&path, b"after!").unwrap();
            assert!(ctime(&path) >= began, "written by the command");
        }
    }
}
