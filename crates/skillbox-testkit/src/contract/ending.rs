//! How commands end, and what is left of them.

use std::time::{Duration, Instant};

use skillbox_executor::ExecutorError;
use skillbox_types::End;
use tokio_util::sync::CancellationToken;

use super::Harness;
use crate::misbehave;

/// What a busy machine may add to an end that comes at once.
const SLACK: Duration = Duration::from_secs(2);
const SHORT: Duration = Duration::from_millis(400);

pub async fn f074_the_time_limit_is_kept(h: &Harness) {
    let ran = h.sh_for("exec /bin/sleep 60", SHORT).await;
    assert_eq!(*ran.end(), End::TimedOut { limit_ms: 400 });
    assert_eq!(ran.end().exit_code(), 124);
    assert!(ran.took >= SHORT && ran.took < SHORT + SLACK, "{:?}", ran.took);
    assert!(ran.outcome.usage.wall_ms >= 390, "{:?}", ran.outcome.usage);
}

pub async fn f072_output_before_a_timeout_is_kept(h: &Harness) {
    let ran = h.sh_for("echo a; echo b >&2; exec /bin/sleep 60", SHORT).await.expect_timeout();
    assert_eq!((ran.stdout(), ran.stderr()), ("a\n".to_owned(), "b\n".to_owned()));
}

pub async fn f063_a_timeout_ends_the_whole_tree(h: &Harness) {
    let script = "mkfifo fifo; (echo $BASHPID > /dev/null; while :; do echo x; done > fifo) & echo $! > pid; cat fifo > /dev/null";
    let ran = h.sh_for(script, SHORT).await.expect_timeout();
    assert!(ran.took < SHORT + SLACK, "{:?}", ran.took);
    assert!(!h.is_alive("pid").await);
}

pub async fn f063_a_timeout_ends_what_moved_to_its_own_session(h: &Harness) {
    for daemon in [misbehave::DAEMON, misbehave::CLINGING_DAEMON] {
        h.sh("rm -f pid").await.ok();
        let script = format!("{daemon}\nexec /bin/sleep 60");
        let ran = h.sh_for(&script, Duration::from_secs(1)).await.expect_timeout();
        assert_eq!(ran.stdout(), "done\n");
        assert!(ran.took < Duration::from_secs(1) + SLACK, "{:?}", ran.took);
        assert!(!h.is_alive("pid").await);
    }
}

pub async fn a_program_may_end_itself_within_the_grace(h: &Harness) {
    let mut plan = h.sh_plan(misbehave::POLITE);
    plan.timeout = Some(SHORT);
    plan.grace = Duration::from_secs(10);
    let ran = h.run(plan).await.expect_timeout();
    assert!(ran.took < Duration::from_secs(8), "the grace was waited out: {:?}", ran.took);
    assert_eq!(h.sh("cat goodbye").await.ok(), "bye\n");
    assert!(!h.is_alive("pid").await);
}

pub async fn a_program_that_ignores_signals_is_killed_after_the_grace(h: &Harness) {
    let mut plan = h.sh_plan(misbehave::DEAF);
    plan.timeout = Some(SHORT);
    plan.grace = Duration::from_millis(300);
    let ran = h.run(plan).await.expect_timeout();
    assert!(ran.took >= Duration::from_millis(700), "the grace was not given: {:?}", ran.took);
    assert!(ran.took < Duration::from_millis(700) + SLACK, "{:?}", ran.took);
    assert!(!h.is_alive("pid").await);
}

pub async fn a_program_that_stopped_itself_is_ended(h: &Harness) {
    let ran = h.sh_for(misbehave::STOPS_ITSELF, SHORT).await.expect_timeout();
    assert!(ran.took < SHORT + SLACK, "{:?}", ran.took);
    assert!(!h.is_alive("pid").await);
}

pub async fn a_script_cannot_stop_what_ends_it(h: &Harness) {
    for script in [
        "kill -STOP $PPID; exec /bin/sleep 60",
        "while :; do kill -STOP $PPID; done",
        "kill -STOP -1; exec /bin/sleep 60",
    ] {
        let ran = h.sh_for(script, SHORT).await.expect_timeout();
        assert!(ran.took < SHORT + SLACK + Duration::from_secs(2), "{script}: {:?}", ran.took);
        assert_eq!(h.sh("echo on").await.ok(), "on\n", "{script}");
    }
}

pub async fn a_program_that_closed_its_output_is_awaited(h: &Harness) {
    let ran = h.sh_for(misbehave::CLOSES_ITS_OUTPUT, SHORT).await.expect_timeout();
    assert!(ran.took >= SHORT);
    assert!(!h.is_alive("pid").await);
    h.sh("exec >&- 2>&-; /bin/sleep 0.2; exit 5").await.expect_code(5);
}

pub async fn many_busy_processes_die_together(h: &Harness) {
    let mut plan = h.python_plan(&misbehave::busy(50));
    plan.timeout = Some(Duration::from_secs(3));
    plan.grace = Duration::ZERO;
    let ran = h.run(plan).await.expect_timeout();
    assert_eq!(ran.stdout(), "busy\n");
    assert!(ran.took < Duration::from_secs(3) + SLACK, "{:?}", ran.took);
    assert_eq!(count_of_sleepers(h, "python3").await, 0);
}

pub async fn a_fork_bomb_is_ended(h: &Harness) {
    let mut plan = h.python_plan(&misbehave::fork_bomb(100_000));
    plan.timeout = Some(Duration::from_secs(1));
    let ran = h.run(plan).await.expect_timeout();
    assert!(ran.took < Duration::from_secs(1) + 2 * SLACK, "{:?}", ran.took);
    assert_eq!(count_of_sleepers(h, "python3").await, 0);
}

/// Processes of this name that run in the sandbox.
async fn count_of_sleepers(h: &Harness, name: &str) -> usize {
    let script = "for dir in /proc/[0-9]*; do read -r stat < $dir/stat || continue; case $stat in *\"($1)\"' Z'*) ;; *\"($1)\"*) echo $stat;; esac; done 2>/dev/null";
    let ran = h.run(h.plan(["/bin/sh", "-c", script, "sh", name])).await;
    ran.stdout().lines().count()
}

pub async fn f065_a_silent_background_process_does_not_delay_the_end(h: &Harness) {
    for redirected in ["", "> /dev/null", "> /dev/null 2>&1"] {
        let ran =
            h.sh(&format!("/bin/sleep 30 {redirected} & echo $! > pid; echo done")).await.expect_code(0);
        assert_eq!(ran.stdout(), "done\n");
        assert!(ran.took < Duration::from_secs(1) + SLACK / 2, "{:?}", ran.took);
        assert!(ran.has_warning("leftovers_killed"), "{:?}", ran.outcome.warnings);
        assert!(!h.is_alive("pid").await);
    }
}

pub async fn f064_a_process_substitution_does_not_delay_the_end(h: &Harness) {
    let script = "exec > >(tee log) 2>&1; echo shown; true";
    let ran = h.run(h.plan(["/bin/bash", "-c", script])).await.expect_code(0);
    assert_eq!(ran.stdout(), "shown\n");
    assert!(ran.took < SLACK, "{:?}", ran.took);
    // What is fed by something that never ends is ended.
    let script = "exec > >(cat; exec /bin/sleep 60); echo shown";
    let ran = h.run(h.plan(["/bin/bash", "-c", script])).await.expect_code(0);
    assert_eq!(ran.stdout(), "shown\n");
    assert!(ran.took < SLACK, "{:?}", ran.took);
    assert!(ran.has_warning("leftovers_killed"), "{:?}", ran.outcome.warnings);
}

pub async fn f067_a_child_in_its_own_session_is_found_and_ended(h: &Harness) {
    let ran = h.sh("/usr/bin/setsid /bin/sleep 60 & echo $! > pid; echo ok").await.expect_code(0);
    assert_eq!(ran.stdout(), "ok\n");
    assert!(ran.took < SLACK, "{:?}", ran.took);
    assert!(!h.is_alive("pid").await);
    for daemon in [misbehave::DAEMON, misbehave::CLINGING_DAEMON, misbehave::LEAVES_A_CHILD] {
        h.sh("rm -f pid").await.ok();
        let ran = h.sh(daemon).await.expect_code(0);
        assert_eq!(ran.stdout(), "done\n");
        assert!(ran.took < SLACK, "{:?}", ran.took);
        assert!(ran.has_warning("leftovers_killed"), "{:?}", ran.outcome.warnings);
        assert!(!h.is_alive("pid").await);
    }
}

pub async fn a_real_time_signal_hides_nothing(h: &Harness) {
    // An end that signal tables do not list must not end the search for what else is left.
    let dying = "i=0; while [ $i -lt 20 ]; do /usr/bin/setsid /bin/sh -c 'kill -4'$((i % 10))' $$; exec /bin/sleep 60' & i=$((i+1)); done;";
    let ran = h.sh(&format!("{dying} {}", misbehave::CLINGING_DAEMON)).await.expect_code(0);
    assert!(ran.took < SLACK, "{:?}", ran.took);
    assert!(!h.is_alive("pid").await);
    h.sh("rm pid").await.ok();
    let ran = h
        .sh_for(&format!("{dying} {}\n{dying} exec /bin/sleep 60", misbehave::CLINGING_DAEMON), SHORT)
        .await
        .expect_timeout();
    assert!(ran.took < SHORT + SLACK, "{:?}", ran.took);
    assert!(!h.is_alive("pid").await);
    assert_eq!(count_of_sleepers(h, "sleep").await, 0);
}

pub async fn no_warning_where_nothing_was_left(h: &Harness) {
    for script in [":", "echo x | cat", "/bin/true & wait", "(/bin/true &)"] {
        for _ in 0..10 {
            let ran = h.sh(script).await.expect_code(0);
            // An orphan may still be on its way out; then the warning is right.
            assert!(
                ran.outcome.warnings.is_empty() || script.starts_with('('),
                "{script}: {:?}",
                ran.outcome.warnings
            );
        }
    }
}

pub async fn cancelled_before_it_started(h: &Harness) {
    let cancel = CancellationToken::new();
    cancel.cancel();
    let outcome = h.spawn(h.sh_plan("echo ran > ran"), cancel).await.unwrap();
    assert_eq!((outcome.end, outcome.slot), (End::Cancelled, None));
    assert!(h.read("ran", 9).await.is_err());
}

pub async fn f162_cancelling_ends_the_whole_tree(h: &Harness) {
    let cancel = CancellationToken::new();
    let running =
        h.spawn(h.sh_plan(&format!("{}\nexec /bin/sleep 300", misbehave::CLINGING_DAEMON)), cancel.clone());
    h.until_written("pid").await;
    assert!(h.is_alive("pid").await);
    let began = Instant::now();
    cancel.cancel();
    let outcome = running.await.unwrap();
    assert_eq!(outcome.end, End::Cancelled);
    assert_eq!(outcome.end.exit_code(), 130);
    assert!(began.elapsed() < SLACK, "{:?}", began.elapsed());
    assert!(!h.is_alive("pid").await);
    h.assert_usable().await;
}

pub async fn dropping_the_future_ends_the_command(h: &Harness) {
    for script in [misbehave::DEAF, misbehave::CLINGING_DAEMON] {
        h.sh("rm -f pid").await.ok();
        let running = h.spawn(h.sh_plan(&format!("{script}\nexec /bin/sleep 300")), CancellationToken::new());
        h.until_written("pid").await;
        running.abort();
        crate::until("the command ends with its future", async || !h.is_alive("pid").await).await;
    }
    // Many at once, so that they wait for each other.
    for _ in 0..10 {
        let running: Vec<_> =
            (0..12).map(|_| h.spawn(h.sh_plan("exec /bin/sleep 300"), CancellationToken::new())).collect();
        tokio::task::yield_now().await;
        for task in running {
            task.abort();
            assert!(task.await.is_err_and(|error| error.is_cancelled()));
        }
    }
    // At any moment: none of these leaves anything behind or hurts what comes after.
    for micros in (0..3000).step_by(100) {
        let running = h.spawn(h.sh_plan("exec /bin/sleep 300"), CancellationToken::new());
        let _ = tokio::time::timeout(Duration::from_micros(micros), std::future::pending::<()>()).await;
        running.abort();
        assert!(running.await.is_err_and(|error| error.is_cancelled()));
    }
    h.assert_usable().await;
    crate::until("every sleeper is gone", async || count_of_sleepers(h, "sleep").await == 0).await;
    // Children that were parked for those commands are not left to pile up either.
    crate::until("every parked child is gone", async || {
        let count = h.sh("set -- /proc/[0-9]*; echo $#").await.ok();
        count.trim().parse::<u32>().unwrap() <= 8
    })
    .await;
}

pub async fn a_closed_sandbox_is_lost(h: &Harness) {
    let running = h.spawn(h.sh_plan(misbehave::DEAF), CancellationToken::new());
    h.until_written("pid").await;
    assert!(!h.sandbox().is_lost());
    h.sandbox().close().await.unwrap();
    let outcome = running.await.unwrap();
    assert!(matches!(outcome.end, End::SandboxLost { .. }), "{:?}", outcome.end);
    assert_eq!(outcome.end.exit_code(), 125);
    h.sandbox().lost().await;
    assert!(h.sandbox().is_lost());
    let after = h.sandbox().exec(h.sh_plan(":"), None, CancellationToken::new()).await;
    assert!(matches!(after, Err(ExecutorError::SandboxLost(_))), "{after:?}");
    assert!(h.sandbox().put(b"x", Vec::new(), false).await.is_err());
    h.sandbox().close().await.unwrap();
    // The workspace is the host's, and outlives it.
    assert!(h.workspace().join("pid").is_file());
}

pub async fn an_executor_that_is_shut_down_loses_its_sandboxes(h: &Harness) {
    let running = h.spawn(h.sh_plan(misbehave::DEAF), CancellationToken::new());
    h.until_written("pid").await;
    h.executor().shut_down().await;
    let outcome = running.await.unwrap();
    assert!(matches!(outcome.end, End::SandboxLost { .. }), "{:?}", outcome.end);
    h.sandbox().lost().await;
    // A new sandbox of the same executor is a new start.
    let another = h.another().await;
    another.assert_usable().await;
    another.sandbox().close().await.unwrap();
}

pub async fn opening_while_the_executor_is_shut_down_ends(h: &Harness) {
    for _ in 0..10 {
        let mut opening = tokio::task::JoinSet::new();
        for _ in 0..6 {
            let (executor, spec) = (h.executor().clone(), h.spec_of_another());
            opening.spawn(async move {
                // Whether it succeeds is a matter of luck; that it ends is not.
                let (spec, _dir) = spec;
                drop(executor.open(spec).await);
            });
        }
        tokio::time::sleep(Duration::from_millis(3)).await;
        h.executor().shut_down().await;
        let all = async { while opening.join_next().await.is_some() {} };
        tokio::time::timeout(Duration::from_secs(10), all)
            .await
            .expect("opening a sandbox hangs when the executor is shut down");
    }
}
