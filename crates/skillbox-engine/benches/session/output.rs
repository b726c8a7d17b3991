//! Much output through a command.

use std::io::Read;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use skillbox_engine::{ExecEvent, Session};

use crate::lab::{Lab, argv, timed};
use crate::samples::{Samples, print};

/// One GB, in the words of `head`.
const AMOUNT: &str = "1000000000";
const BYTES: u64 = 1_000_000_000;
/// How much the engine's memory may grow meanwhile.
const GROWTH_MIB: f64 = 16.0;

/// 1 GB of output against reading the same pipe and throwing it away: time, and growth of the engine's memory.
pub(crate) async fn output_1gb(lab: &Lab) {
    let session = lab.session().await;
    timed(&session, argv(&["/bin/true"])).await;
    let (mut kept, mut streamed) = (Samples::default(), Samples::default());
    let mut growth = [0.0_f64; 2];
    for _ in 0..7 {
        let base = tokio::task::block_in_place(read_and_throw_away);
        kept.base.push(base);
        streamed.base.push(base);
        let before = start_of_memory();
        let began = Instant::now();
        let result = session.run(argv(&["/usr/bin/head", "-c", AMOUNT, "/dev/zero"])).await.unwrap();
        kept.ours.push(began.elapsed());
        growth[0] = growth[0].max(grown_since(before));
        assert_eq!(result.stdout.total_bytes, BYTES);
        drop(result);

        let before = start_of_memory();
        streamed.ours.push(stream(&session).await);
        growth[1] = growth[1].max(grown_since(before));
    }
    // At least 60 % of the speed.
    kept.report_median("output_1gb", Some(1.67));
    print("output_1gb_memory_mib", growth[0], Some(GROWTH_MIB), "MiB, the highest of the runs");
    streamed.report_median("output_1gb_streamed", None);
    print("output_1gb_streamed_memory_mib", growth[1], Some(GROWTH_MIB), "MiB, the highest of the runs");
    session.close().await.unwrap();
}

fn read_and_throw_away() -> Duration {
    let began = Instant::now();
    let mut child = Command::new("/usr/bin/head")
        .args(["-c", AMOUNT, "/dev/zero"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut pipe = child.stdout.take().unwrap();
    let mut buffer = vec![0_u8; 64 << 10];
    let mut total = 0;
    loop {
        match pipe.read(&mut buffer).unwrap() {
            0 => break,
            count => total += count as u64,
        }
    }
    assert!(child.wait().unwrap().success());
    assert_eq!(total, BYTES);
    began.elapsed()
}

/// The same with somebody who listens.
async fn stream(session: &Session) -> Duration {
    let began = Instant::now();
    let mut execution = session.exec(argv(&["/usr/bin/head", "-c", AMOUNT, "/dev/zero"]));
    let mut total = 0;
    while let Some(event) = execution.next_event().await {
        if let ExecEvent::Output { bytes, .. } = event {
            total += bytes.len() as u64;
        }
    }
    execution.result().await.unwrap();
    assert_eq!(total, BYTES);
    began.elapsed()
}

/// The process's memory now; its highest is counted anew from here on (proc_pid_clear_refs(5)).
fn start_of_memory() -> f64 {
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
    status_mib("VmRSS:")
}

fn grown_since(before: f64) -> f64 {
    status_mib("VmHWM:") - before
}

fn status_mib(field: &str) -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(field)).unwrap();
    let kib: f64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kib / 1024.0
}
