//! A program's output as it comes.
//!
//! A thread of its own writes it: where the reader of our stdout is slow, the write waits, the program's pipe fills and the program
//! waits as well, and signals are still answered meanwhile.

use std::io::{self, IsTerminal as _, Write};
use std::thread::JoinHandle;

use skillbox_engine::{ExecEvent, Stream};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::TerminalFilter;

/// Events that may wait for a slow reader.
const BUFFER: usize = 64;

/// How output is passed on.
#[derive(Debug, Clone)]
pub(crate) struct LiveOptions {
    /// Whether a terminal gets it as it is.
    pub(crate) raw: bool,
    /// Cancelled when nobody reads our output any more.
    pub(crate) unread: CancellationToken,
}

/// The writing thread.
#[derive(Debug)]
pub(crate) struct Live {
    thread: JoinHandle<()>,
}

impl Live {
    /// Starts it; it ends when all senders are gone and everything is written.
    pub(crate) fn start(options: LiveOptions) -> (mpsc::Sender<ExecEvent>, Self) {
        let (sender, events) = mpsc::channel(BUFFER);
        (sender, Self { thread: std::thread::spawn(move || write_all(events, &options)) })
    }

    /// Waits until everything is written.
    pub(crate) async fn finish(self) {
        let _ = tokio::task::spawn_blocking(move || self.thread.join()).await;
    }
}

fn write_all(mut events: mpsc::Receiver<ExecEvent>, options: &LiveOptions) {
    let (stdout, stderr) = (io::stdout(), io::stderr());
    let both_terminals = stdout.is_terminal() && stderr.is_terminal();
    let mut out = Sink::new(stdout.is_terminal() && !options.raw, stdout);
    let mut err = Sink::new(stderr.is_terminal() && !options.raw, stderr);
    let mut last = b'\n';
    while let Some(event) = events.blocking_recv() {
        let ExecEvent::Output { stream, bytes } = event else { continue };
        last = bytes.last().copied().unwrap_or(last);
        let written = match stream {
            Stream::Stdout => out.write(&bytes),
            Stream::Stderr => err.write(&bytes),
        };
        if let Err(error) = written
            && error.kind() == io::ErrorKind::BrokenPipe
            && stream == Stream::Stdout
        {
            options.unread.cancel();
        }
    }
    let _ = out.finish();
    let _ = err.finish();
    if both_terminals && last != b'\n' {
        let _ = writeln!(io::stderr());
    }
}

/// One of our streams; takes no more once it is broken.
struct Sink<W> {
    writer: Option<W>,
    filter: Option<TerminalFilter>,
}

impl<W: Write> Sink<W> {
    fn new(filtered: bool, writer: W) -> Self {
        Self { writer: Some(writer), filter: filtered.then(TerminalFilter::default) }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let filtered = self.filter.as_mut().map(|filter| filter.pass(bytes));
        self.put(filtered.as_deref().unwrap_or(bytes))
    }

    fn finish(&mut self) -> io::Result<()> {
        let rest = self.filter.as_mut().map(TerminalFilter::finish).unwrap_or_default();
        self.put(&rest)
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Some(writer) = &mut self.writer else { return Ok(()) };
        let written = writer.write_all(bytes).and_then(|()| writer.flush());
        if written.is_err() {
            self.writer = None;
        }
        written
    }
}
