//! Ctrl-C and its like.

use std::io;

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Cancels at the first SIGINT, SIGTERM or SIGHUP; a second one ends this program at once, and with it every sandbox.
pub(crate) fn watch(cancel: CancellationToken) -> io::Result<()> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hang_up = signal(SignalKind::hangup())?;
    tokio::spawn(async move {
        loop {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
                _ = hang_up.recv() => {}
            }
            if cancel.is_cancelled() {
                abort();
            }
            cancel.cancel();
        }
    });
    Ok(())
}

/// The kernel ends the launcher, and all sandboxes, with this process; files of an unnamed session go at the next start.
#[allow(clippy::disallowed_methods, clippy::exit, reason = "the user asked twice, and does not want to wait")]
fn abort() -> ! {
    std::process::exit(130)
}
