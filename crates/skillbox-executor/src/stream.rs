//! Reads one of a program's pipes.

use std::io;
use std::os::fd::OwnedFd;

use bytes::Bytes;
use tokio::net::unix::pipe;
use tokio::sync::mpsc;

use crate::{Capture, ExecEvent, Stream};

/// Bytes read at once. Small at first: most commands write little, and the buffer is touched only as far as it is filled.
const SMALL: usize = 16 << 10;
/// Bytes read at once from a program that writes much, and the size of its pipe.
const LARGE: usize = 1 << 20;
/// Bytes read at once where somebody listens: as many events as fit into the listener's channel may wait with so many bytes each.
const LISTENED: usize = 64 << 10;

/// A pipe being read, and what was kept of it.
#[derive(Debug)]
pub(crate) struct StreamReader {
    pipe: Option<pipe::Receiver>,
    buffer: Vec<u8>,
    stream: Stream,
    pub(crate) capture: Capture,
}

impl StreamReader {
    pub(crate) fn new(fd: OwnedFd, stream: Stream, keep: u64) -> io::Result<Self> {
        let pipe = pipe::Receiver::from_owned_fd(fd)?;
        Ok(Self { pipe: Some(pipe), buffer: Vec::new(), stream, capture: Capture::new(keep) })
    }

    pub(crate) fn is_open(&self) -> bool {
        self.pipe.is_some()
    }

    pub(crate) fn close(&mut self) {
        self.pipe = None;
    }

    /// Reads once and keeps what is to be kept. Loses nothing when it is dropped while it waits.
    pub(crate) async fn advance(&mut self, events: Option<&mpsc::Sender<ExecEvent>>) {
        let Some(pipe) = &self.pipe else { return std::future::pending().await };
        // Room for the event comes first: a slow listener slows the program down, as a pipe would, and costs no memory.
        let permit = match events {
            Some(events) => events.reserve().await.ok(),
            None => None,
        };
        if self.buffer.is_empty() {
            self.buffer.resize(SMALL, 0);
        }
        loop {
            if pipe.readable().await.is_err() {
                self.pipe = None;
                return;
            }
            match pipe.try_read(&mut self.buffer) {
                Ok(0) => self.pipe = None,
                Ok(count) => {
                    let bytes = &self.buffer[..count];
                    self.capture.push(bytes);
                    if let Some(permit) = permit {
                        permit.send(ExecEvent::Output {
                            stream: self.stream,
                            bytes: Bytes::copy_from_slice(bytes),
                        });
                    }
                    let largest = if events.is_some() { LISTENED } else { LARGE };
                    if count == self.buffer.len() && count < largest {
                        // Larger pipes need no more system calls for more bytes; where the kernel says no, it stays as it is.
                        let _ = rustix::pipe::fcntl_setpipe_size(pipe, largest);
                        self.buffer.resize(largest, 0);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                Err(_) => self.pipe = None,
            }
            return;
        }
    }
}
