//! Opening sessions, and the whole loop from a new session to its removal.

use std::time::{Duration, Instant};

use skillbox_engine::{Engine, SessionOptions};

use crate::lab::{Lab, argv, bare};
use crate::samples::Samples;

/// A new session with its sandbox against a bare spawn: with sessions kept ready, and without.
pub(crate) async fn open_session(lab: &Lab) {
    for (name, engine) in [("open_session", &lab.engine), ("open_session_cold", &lab.cold)] {
        let mut samples = Samples::default();
        for _ in 0..60 {
            tokio::time::sleep(Duration::from_millis(30)).await;
            samples.base.push(bare("/bin/true", &[], None));
            samples.ours.push(open_and_close(engine).await);
        }
        samples.report(name, Some(4.0), Some(4.0));
    }
}

async fn open_and_close(engine: &Engine) -> Duration {
    let began = Instant::now();
    let session = engine.open_session(SessionOptions::default()).await.unwrap();
    session.open_sandbox().await.unwrap();
    let took = began.elapsed();
    session.close().await.unwrap();
    took
}

/// New session, load a skill of three files, run a script that writes three files, collect them, remove the session.
pub(crate) async fn whole_loop(lab: &Lab) {
    let script = lab.skills.join("three/scripts/write.py");
    let script = script.to_str().unwrap();
    for (name, words, plain, bound) in [
        (
            "whole_loop_python",
            ["/usr/bin/python3", "scripts/write.py"],
            vec!["/usr/bin/python3", script],
            2.5,
        ),
        ("whole_loop_shell", ["/bin/sh", "scripts/write.sh"], vec!["/bin/sh", "-c", "/bin/true"], 5.0),
    ] {
        let mut samples = Samples::default();
        for _ in 0..60 {
            tokio::time::sleep(Duration::from_millis(20)).await;
            samples.base.push(bare(plain[0], &plain[1..], Some(&lab.plain)));
            tokio::time::sleep(Duration::from_millis(20)).await;
            samples.ours.push(loop_once(lab, &words).await);
        }
        samples.report(name, Some(bound), Some(bound));
    }
}

async fn loop_once(lab: &Lab, words: &[&str]) -> Duration {
    let began = Instant::now();
    let session = lab.session().await;
    let loaded = session.load("three").await.unwrap();
    let mut request = argv(words);
    request.skill = Some(loaded.name);
    request.outputs.globs = vec!["out/**".to_owned()];
    let result = session.run(request).await.unwrap();
    session.close().await.unwrap();
    let took = began.elapsed();
    assert_eq!(result.output_files.len(), 3, "{result:?}");
    took
}
