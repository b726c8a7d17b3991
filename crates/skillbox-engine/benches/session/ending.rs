//! Ending a command with all its processes.

use std::time::{Duration, Instant};

use skillbox_engine::{Session, SessionOptions};
use skillbox_types::{End, LimitsPatch, TimeLimit};

use crate::lab::{Lab, shell};
use crate::samples::print;

const PROCESSES: usize = 64;
const DEADLINE: Duration = Duration::from_secs(3);
/// The one absolute bound, since it is a promise to users.
const BOUND_MS: f64 = 100.0;

/// From the deadline until nothing is left of 64 busy processes: those that end when asked to, and those that refuse.
pub(crate) async fn kill_64(lab: &Lab) {
    let options = SessionOptions {
        limits: LimitsPatch { pids: Some(2 * PROCESSES as u64), ..LimitsPatch::default() },
        ..SessionOptions::default()
    };
    let session = lab.engine.open_session(options).await.unwrap();
    for (name, trap) in [("kill_64", ""), ("kill_64_refusing", "trap '' TERM; ")] {
        let mut took = Vec::new();
        for round in 0..5 {
            took.push(kill_once(&session, trap, round).await);
        }
        took.sort();
        let (middle, worst) = (took[took.len() / 2], took[took.len() - 1]);
        let details = format!("ms, the worst of {}; median {:.0} ms", took.len(), middle.as_secs_f64() * 1e3);
        print(&format!("{name}_ms"), worst.as_secs_f64() * 1e3, Some(BOUND_MS), &details);
    }
    session.close().await.unwrap();
}

async fn kill_once(session: &Session, trap: &str, round: usize) -> Duration {
    // The name that the processes are known by outside: that of the link which they are started through.
    let name = format!("busy{round}p{}", std::process::id() % 100_000);
    let script = format!(
        "{trap}ln -sf /bin/sh work/{name}; i=0; while [ $i -lt {PROCESSES} ]; do \
         work/{name} -c 'while :; do :; done' & i=$((i+1)); done; wait"
    );
    let mut request = shell(&script);
    request.timeout = TimeLimit::Ms(u64::try_from(DEADLINE.as_millis()).unwrap());
    let began = Instant::now();
    let deadline = began + DEADLINE;
    let (session, run) = (session.clone(), request);
    let running = tokio::spawn(async move { session.run(run).await });
    while count_named(&name) < PROCESSES {
        assert!(Instant::now() < deadline, "not all processes were there before the deadline");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let result = running.await.unwrap().unwrap();
    let mut ended = Instant::now();
    assert!(matches!(result.end, End::TimedOut { .. }), "{result:?}");
    if count_named(&name) > 0 {
        while count_named(&name) > 0 {}
        ended = Instant::now();
    }
    ended.saturating_duration_since(deadline)
}

/// Processes of this name, as the host sees them; those that are dead and not yet reaped count.
fn count_named(name: &str) -> usize {
    let named = |entry: &std::fs::DirEntry| {
        std::fs::read_to_string(entry.path().join("comm")).is_ok_and(|comm| comm.trim_end() == name)
    };
    std::fs::read_dir("/proc").unwrap().filter_map(Result::ok).filter(named).count()
}
