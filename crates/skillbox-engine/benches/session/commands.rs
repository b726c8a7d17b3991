//! Commands in a session that is open.

use std::hint::black_box;
use std::time::{Duration, Instant};

use crate::lab::{Lab, argv, bare, shell, timed};
use crate::samples::Samples;

/// Makes 10,000 files in the workspace.
const FILL: &str = "i=0; while [ $i -lt 100 ]; do mkdir -p work/d$i; cd work/d$i; for j in 0 1 2 3 4 5 6 7 8 9; do \
                    for k in 0 1 2 3 4 5 6 7 8 9; do : > f$j$k; done; done; cd ../..; i=$((i+1)); done";

/// `/bin/true` against a bare spawn of it: output captured, every limit on, 10,000 files in the workspace.
pub(crate) async fn warm_command(lab: &Lab) {
    let session = lab.session().await;
    timed(&session, shell(FILL)).await;
    for (name, pause, rounds) in [("warm_command_after_80ms", 80, 60), ("warm_command_back_to_back", 0, 200)]
    {
        let mut samples = Samples::default();
        for _ in 0..rounds {
            tokio::time::sleep(Duration::from_millis(pause)).await;
            samples.base.push(bare("/bin/true", &[], None));
            tokio::time::sleep(Duration::from_millis(pause)).await;
            samples.ours.push(timed(&session, argv(&["/bin/true"])).await);
        }
        samples.report(name, Some(1.6), Some(2.5));
    }
    session.close().await.unwrap();
}

/// Starting the Python interpreter.
pub(crate) async fn python_pass(lab: &Lab) {
    let session = lab.session().await;
    let mut samples = Samples::default();
    for _ in 0..60 {
        samples.base.push(bare("/usr/bin/python3", &["-c", "pass"], Some(&lab.plain)));
        samples.ours.push(timed(&session, argv(&["/usr/bin/python3", "-c", "pass"])).await);
    }
    samples.report("python_pass", Some(1.15), Some(1.15));
    session.close().await.unwrap();
}

/// The same with 1 GiB in the engine's memory, against without.
pub(crate) async fn python_1gib(lab: &Lab) {
    let session = lab.session().await;
    let mut samples = Samples::default();
    let python = || argv(&["/usr/bin/python3", "-c", "pass"]);
    for _ in 0..6 {
        for _ in 0..10 {
            samples.base.push(timed(&session, python()).await);
        }
        let memory = tokio::task::block_in_place(|| black_box(vec![1_u8; 1 << 30]));
        for _ in 0..10 {
            samples.ours.push(timed(&session, python()).await);
        }
        drop(black_box(memory));
    }
    samples.report("python_1gib", Some(1.2), Some(1.2));
    session.close().await.unwrap();
}

/// Sixteen sessions at once, each running one command after the other, against the same number of bare spawns by two threads.
pub(crate) async fn throughput(lab: &Lab) {
    const SESSIONS: usize = 16;
    const COMMANDS: usize = 20;
    let mut sessions = Vec::new();
    for _ in 0..SESSIONS {
        let session = lab.session().await;
        timed(&session, argv(&["/bin/true"])).await;
        sessions.push(session);
    }
    let mut samples = Samples::default();
    for _ in 0..5 {
        let began = Instant::now();
        let threads = [(); 2].map(|()| {
            std::thread::spawn(|| {
                for _ in 0..SESSIONS * COMMANDS / 2 {
                    assert!(std::process::Command::new("/bin/true").status().unwrap().success());
                }
            })
        });
        for thread in threads {
            thread.join().unwrap();
        }
        samples.base.push(began.elapsed());

        let began = Instant::now();
        let mut tasks = tokio::task::JoinSet::new();
        for session in sessions.clone() {
            tasks.spawn(async move {
                for _ in 0..COMMANDS {
                    timed(&session, argv(&["/bin/true"])).await;
                }
            });
        }
        while let Some(task) = tasks.join_next().await {
            task.unwrap();
        }
        samples.ours.push(began.elapsed());
    }
    samples.report_median("throughput_16_sessions", None);
    for session in sessions {
        session.close().await.unwrap();
    }
}
