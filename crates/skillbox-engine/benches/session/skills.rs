//! Putting skills into workspaces.

use std::path::Path;
use std::time::{Duration, Instant};

use skillbox_engine::{Engine, SessionOptions};
use skillbox_fs::{ImportOptions, Store};
use skillbox_types::MaterializeMethod;

use crate::lab::{Lab, bare};
use crate::samples::Samples;

/// Loading a skill of 2,000 files and 200 MB into a new session, against one of three files, and against `cp -r`.
///
/// By default each loading looks at every file of the source, to see an edit at once; that is measured, too. What is promised is the cost of placing a skill that
/// is stored: of an engine that was told to trust what it looked at.
pub(crate) async fn materialize(lab: &Lab) {
    let big = lab.make_big_skill().await;
    let trusting = lab.trusting_engine().await;
    for engine in [&lab.engine, &trusting] {
        load(engine, "three").await;
        load(engine, "big").await;
    }
    // Past the two seconds within which a file counts as still changing.
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    load(&lab.engine, "big").await;
    load(&trusting, "big").await;

    for (engine, name, bound) in [
        (&trusting, "materialize_overlay_to_small", Some(1.2)),
        (&lab.engine, "materialize_looking_to_small", None),
    ] {
        let mut to_small = Samples::default();
        for _ in 0..60 {
            tokio::time::sleep(Duration::from_millis(20)).await;
            to_small.base.push(load(engine, "three").await);
            tokio::time::sleep(Duration::from_millis(20)).await;
            to_small.ours.push(load(engine, "big").await);
        }
        to_small.report(name, bound, bound);
    }
    let mut to_copy = Samples::default();
    for _ in 0..7 {
        to_copy.base.push(copy(&big, &lab.plain.join("copy")));
        tokio::time::sleep(Duration::from_millis(100)).await;
        to_copy.ours.push(load(&lab.engine, "big").await);
    }
    to_copy.report("materialize_overlay_to_copy", Some(0.02), Some(0.02));
    trusting.shut_down().await;
    parts(lab, &big);
}

/// How long [`Session::load`](skillbox_engine::Session::load) takes in a session that is otherwise ready.
async fn load(engine: &Engine, name: &str) -> Duration {
    let session = engine.open_session(SessionOptions::default()).await.unwrap();
    session.open_sandbox().await.unwrap();
    let began = Instant::now();
    let loaded = session.load(name).await.unwrap();
    let took = began.elapsed();
    assert_eq!(loaded.method, MaterializeMethod::Overlay);
    session.close().await.unwrap();
    took
}

fn copy(from: &Path, to: &Path) -> Duration {
    let took = bare("/bin/cp", &["-r", from.to_str().unwrap(), to.to_str().unwrap()], None);
    std::fs::remove_dir_all(to).unwrap();
    took
}

/// What of it is the look at the source: with one at each time, and with none for as long as the source is trusted.
fn parts(lab: &Lab, big: &Path) {
    let store = Store::open(&Engine::store_dir(&lab.state)).unwrap();
    let look = ImportOptions::default();
    let trust = ImportOptions { trust_for: Duration::from_mins(1), ..ImportOptions::default() };
    let (mut looked, mut trusted) = (Samples::default(), Samples::default());
    for _ in 0..40 {
        for (options, samples) in [(&look, &mut looked), (&trust, &mut trusted)] {
            samples.base.push(import(&store, &lab.skills.join("three"), options));
            samples.ours.push(import(&store, big, options));
        }
    }
    looked.report("materialize_part_import", None, None);
    trusted.report("materialize_part_import_trusted", None, None);
}

fn import(store: &Store, dir: &Path, options: &ImportOptions) -> Duration {
    let began = Instant::now();
    let imported = store.import(dir, options).unwrap();
    store.tree(&imported.digest).unwrap();
    began.elapsed()
}
