//! What is said after a command, on stderr.

use std::os::unix::ffi::OsStrExt as _;

use skillbox_types::{Change, End, ExecResult, Limit, OutputFile};

use crate::args::RunArgs;
use crate::output::{Columns, Talk, human_size, plain_table, printable};

/// Says how the command ended where that is not plain from its output, what is to be warned of, and what was collected.
pub(super) fn report(result: &ExecResult, args: &RunArgs, talk: &Talk) {
    for warning in &result.warnings {
        // A file that is missing where it was to be is nothing to be quiet about.
        if !args.quiet || warning.code == super::NOT_SAVED {
            talk.warning(&warning.message);
        }
    }
    if !args.quiet && !result.output_files.is_empty() {
        talk.line(&plain_table(
            &["FILE", "TYPE", "SIZE", ""],
            result.output_files.iter().map(row),
            Columns::Free,
        ));
        if let Some(dir) = &args.save_to
            && result.output_files.iter().any(|file| file.saved_to.is_some())
        {
            talk.line(&format!("saved to {}", printable(dir.as_os_str().as_bytes())));
        }
    }
    if let Some((message, hint)) = explain(&result.end, result) {
        talk.error(&message);
        if let Some(hint) = hint {
            talk.hint(hint);
        }
    }
}

fn row(file: &OutputFile) -> Vec<String> {
    let change = match file.change {
        Change::New => "new",
        Change::Modified => "modified",
        Change::Unchanged => "unchanged",
    };
    vec![
        printable(file.file_name().as_bytes()),
        crate::output::clean(&file.mime_type),
        human_size(file.size_bytes),
        change.to_owned(),
    ]
}

/// An end that the program did not choose: what happened, and what can be done.
fn explain(end: &End, result: &ExecResult) -> Option<(String, Option<&'static str>)> {
    let (message, hint) = match end {
        End::Exited { .. } => return None,
        End::Signaled { signal, signal_name } => {
            (format!("the program was ended by signal {signal} ({signal_name})"), None)
        }
        End::TimedOut { limit_ms } => (
            format!("the command was ended after {}, its time limit", time(*limit_ms)),
            Some("--timeout 5m allows it more, --timeout none as much as it takes"),
        ),
        End::OomKilled => (
            format!(
                "the kernel ended the program: it needed more memory than {}",
                human_size(result.limits.memory_bytes)
            ),
            Some("--limit memory=2GiB allows it more"),
        ),
        End::LimitExceeded { limit: Limit::CpuTime } => (
            format!(
                "the program was ended: it used more CPU time than {}",
                time(
                    result
                        .limits
                        .cpu_time
                        .map_or(0, |limit| u64::try_from(limit.as_millis()).unwrap_or(u64::MAX))
                )
            ),
            Some("--limit cpu_time=5m allows it more"),
        ),
        End::LimitExceeded { limit: Limit::FileSize } => (
            format!(
                "the program was ended: it wrote a file larger than {}",
                human_size(result.limits.file_size_bytes)
            ),
            Some("--limit file_size=1GiB allows it more"),
        ),
        End::LimitExceeded { .. } => (
            "the command was ended: it wrote more to stdout and stderr than --limit output_kill allows"
                .to_owned(),
            None,
        ),
        End::Cancelled => ("the command was cancelled".to_owned(), None),
        End::SpawnFailed { message, .. } => (message.clone(), None),
        End::SandboxLost { message } => {
            (format!("the sandbox was lost while the command ran: {message}"), None)
        }
        other => (format!("the command ended: {other:?}"), None),
    };
    Some((message, hint))
}

fn time(ms: u64) -> String {
    if ms.is_multiple_of(1000) { format!("{} s", ms / 1000) } else { format!("{ms} ms") }
}
