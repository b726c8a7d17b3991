//! Ctrl-C and its like.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Cancels at the first SIGINT, SIGTERM or SIGHUP; a second one ends this program at once, and with it every sandbox.
///
/// Signals that are ignored stay so: whoever started this program with nohup(1), or in the background of a script, wants that.
pub(crate) fn watch(cancel: CancellationToken) -> io::Result<()> {
    let ignored = ignored();
    let listen = |kind: SignalKind| {
        let is_ignored = ignored & (1 << (kind.as_raw_value() - 1)) != 0;
        if is_ignored { Ok(None) } else { signal(kind).map(Some) }
    };
    let mut interrupt = listen(SignalKind::interrupt())?;
    let mut terminate = listen(SignalKind::terminate())?;
    let mut hang_up = listen(SignalKind::hangup())?;
    tokio::spawn(async move {
        loop {
            tokio::select! {
                () = next(&mut interrupt) => {}
                () = next(&mut terminate) => {}
                () = next(&mut hang_up) => {}
            }
            if cancel.is_cancelled() {
                abort();
            }
            cancel.cancel();
        }
    });
    Ok(())
}

async fn next(signal: &mut Option<Signal>) {
    match signal {
        Some(signal) => {
            signal.recv().await;
        }
        None => std::future::pending().await,
    }
}

/// The signals that this process ignores, as proc_pid_status(5) gives them: bit n-1 stands for signal n.
#[allow(clippy::disallowed_methods, reason = "a file of /proc")]
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

/// The kernel ends the launcher, and all sandboxes, with this process; files of an unnamed session go at the next start.
#[allow(clippy::disallowed_methods, clippy::exit, reason = "the user asked twice, and does not want to wait")]
fn abort() -> ! {
    std::process::exit(130)
}
