//! What programs write.

use std::time::Duration;

use skillbox_executor::{ExecEvent, Stream};
use skillbox_types::{End, Limit};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::Harness;
use crate::misbehave;

pub async fn streams_are_bytes_and_separate(h: &Harness) {
    let script = r"printf 'out \377\376\200\0 end'; printf 'err \303(' >&2; printf ' more'";
    let ran = h.sh(script).await.expect_code(0);
    assert_eq!(ran.stdout_bytes(), b"out \xff\xfe\x80\0 end more");
    assert_eq!(ran.stderr_bytes(), b"err \xc3(");
    assert_eq!((ran.outcome.stdout.total(), ran.outcome.stderr.total()), (17, 6));
}

pub async fn nothing_is_nothing(h: &Harness) {
    let ran = h.sh(":").await.expect_code(0);
    assert_eq!((ran.outcome.stdout.total(), ran.outcome.stderr.total()), (0, 0));
    assert!(ran.outcome.warnings.is_empty(), "{:?}", ran.outcome.warnings);
}

pub async fn f067_stderr_may_fill_before_stdout(h: &Harness) {
    let script = "head -c 1000000 /dev/zero >&2; echo first; head -c 2000000 /dev/zero; echo last >&2";
    let ran = h.sh(script).await.expect_code(0);
    assert_eq!((ran.outcome.stdout.total(), ran.outcome.stderr.total()), (2_000_006, 1_000_005));
    let script = "head -c 3000000 /dev/zero >&2 & head -c 3000000 /dev/zero & wait";
    let ran = h.sh(script).await.expect_code(0);
    assert_eq!((ran.outcome.stdout.total(), ran.outcome.stderr.total()), (3_000_000, 3_000_000));
}

/// What `seq` prints.
fn numbered(range: std::ops::RangeInclusive<u32>) -> String {
    range.fold(String::new(), |text, n| text + &n.to_string() + "\n")
}

pub async fn f092_thirty_megabytes_keep_both_ends(h: &Harness) {
    let numbers = 4_000_000_u32;
    let total: u64 = (1..=numbers).map(|n| u64::from(n.ilog10()) + 2).sum();
    let mut plan = h.plan(["/usr/bin/seq", "1", &numbers.to_string()]);
    plan.limits.output_bytes = 64 << 10;
    let ran = h.run(plan).await.expect_code(0);
    let stdout = &ran.outcome.stdout;
    assert_eq!(stdout.total(), total);
    let head = numbered(1..=8000);
    assert_eq!(stdout.head(), &head.as_bytes()[..32 << 10]);
    let tail = numbered(numbers - 5000..=numbers);
    assert_eq!(stdout.tail(), &tail.as_bytes()[tail.len() - (32 << 10)..]);
    let captured = stdout.to_captured(false);
    assert!(captured.truncated);
    assert!(captured.text.contains(&format!("[... {} bytes left out ...]", total - (64 << 10))));
}

pub async fn f093_too_much_output_ends_a_command_only_on_request(h: &Harness) {
    let mut plan = h.plan(["/usr/bin/seq", "1", "5000"]);
    plan.limits.output_bytes = 1 << 10;
    h.run(plan).await.expect_code(0);
    let mut plan = h.sh_plan(misbehave::FLOODS);
    plan.limits.output_kill_bytes = Some(100_000);
    let ran = h.run(plan).await;
    assert_eq!(*ran.end(), End::LimitExceeded { limit: Limit::Output });
    assert!(ran.took < Duration::from_secs(5), "{:?}", ran.took);
    h.assert_usable().await;
}

pub async fn a_flood_is_ended_at_the_time_limit(h: &Harness) {
    let ran = h.sh_for(misbehave::FLOODS, Duration::from_millis(500)).await.expect_timeout();
    assert!(ran.took < Duration::from_secs(3), "{:?}", ran.took);
    assert!(ran.outcome.stdout.total() > 0 && ran.outcome.stderr.total() > 0);
    assert!(ran.stdout_bytes().len() as u64 <= h.limits().output_bytes);
}

fn output_of(event: &ExecEvent) -> Option<(Stream, String)> {
    match event {
        ExecEvent::Output { stream, bytes } => Some((*stream, String::from_utf8_lossy(bytes).into_owned())),
        _ => None,
    }
}

pub async fn events_arrive_while_the_command_runs(h: &Harness) {
    h.sh("mkfifo go").await.ok();
    let (sender, mut events) = mpsc::channel(64);
    let plan = h.sh_plan("echo one; read x < go; echo two >&2; exit 4");
    let (sandbox, cancel) = (h.sandbox().clone(), CancellationToken::new());
    let running = tokio::spawn(async move { sandbox.exec(plan, Some(sender), cancel).await.unwrap() });
    assert_eq!(events.recv().await, Some(ExecEvent::Started));
    let first = events.recv().await.unwrap();
    assert_eq!(output_of(&first), Some((Stream::Stdout, "one\n".to_owned())));
    assert!(!running.is_finished());
    h.sh("echo > go").await.ok();
    let second = events.recv().await.unwrap();
    assert_eq!(output_of(&second), Some((Stream::Stderr, "two\n".to_owned())));
    assert_eq!(running.await.unwrap().end, End::Exited { exit_code: 4 });
    assert_eq!(events.recv().await, None);
}

pub async fn events_are_the_whole_output(h: &Harness) {
    let (sender, mut events) = mpsc::channel(2);
    let plan = h.sh_plan("seq 1 300000; seq 1 1000 >&2");
    let (sandbox, cancel) = (h.sandbox().clone(), CancellationToken::new());
    let running = tokio::spawn(async move { sandbox.exec(plan, Some(sender), cancel).await.unwrap() });
    let (mut out, mut err) = (String::new(), String::new());
    while let Some(event) = events.recv().await {
        match output_of(&event) {
            Some((Stream::Stdout, text)) => out.push_str(&text),
            Some((_, text)) => err.push_str(&text),
            None => {}
        }
    }
    assert_eq!(running.await.unwrap().end, End::Exited { exit_code: 0 });
    assert!(out == numbered(1..=300_000) && err == numbered(1..=1000), "{} {} bytes", out.len(), err.len());
}

pub async fn a_slow_listener_loses_nothing(h: &Harness) {
    // The program has long ended when the listener begins to take what it wrote.
    let (sender, mut events) = mpsc::channel(1);
    let plan = h.sh_plan("head -c 60000 /dev/zero; : > ended");
    let (sandbox, cancel) = (h.sandbox().clone(), CancellationToken::new());
    let running = tokio::spawn(async move { sandbox.exec(plan, Some(sender), cancel).await.unwrap() });
    crate::until("the program ends", async || h.read("ended", 1).await.is_ok()).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    let mut bytes = 0;
    while let Some(event) = events.recv().await {
        bytes += output_of(&event).map_or(0, |(_, text)| text.len());
    }
    let outcome = running.await.unwrap();
    assert_eq!(outcome.end, End::Exited { exit_code: 0 });
    assert_eq!((outcome.stdout.total(), bytes), (60_000, 60_000));
}

pub async fn the_time_limit_holds_with_a_listener_that_never_listens(h: &Harness) {
    for (taken, script) in
        [(0, misbehave::FLOODS), (0, "exec /bin/sleep 60"), (1, "exec /bin/sleep 60"), (1, misbehave::FLOODS)]
    {
        let (sender, events) = mpsc::channel(1);
        for _ in 0..taken {
            // Somebody else's event is in the way of even the first one.
            sender.try_send(ExecEvent::Started).unwrap();
        }
        let mut plan = h.sh_plan(script);
        plan.timeout = Some(Duration::from_millis(300));
        let running = h.sandbox().exec(plan, Some(sender), CancellationToken::new());
        let outcome = tokio::time::timeout(Duration::from_secs(5), running).await;
        let outcome =
            outcome.unwrap_or_else(|_| panic!("{script:?} with {taken} events in the way runs on")).unwrap();
        assert_eq!(outcome.end, End::TimedOut { limit_ms: 300 });
        drop(events);
    }
    h.assert_usable().await;
}

pub async fn a_listener_that_left_changes_nothing(h: &Harness) {
    let (sender, events) = mpsc::channel(1);
    drop(events);
    let plan = h.sh_plan("seq 1 100000; exit 6");
    let outcome = h.sandbox().exec(plan, Some(sender), CancellationToken::new()).await.unwrap();
    assert_eq!((outcome.end, outcome.stdout.total()), (End::Exited { exit_code: 6 }, 588_895));
}
