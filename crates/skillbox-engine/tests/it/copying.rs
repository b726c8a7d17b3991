//! Skills as copies, where no overlay can be had.
//!
//! The kernel takes at most 255 bytes for each part of an overlay (`fsconfig(2)`): a longer path makes every overlay fail.

use std::fs;

use skillbox_engine::{EngineError, OnConflict, SessionOptions};
use skillbox_types::MaterializeMethod;

use crate::lab::{Lab, codes, end, greeter, in_skill, named, ok, picture};

fn lab() -> Lab {
    Lab::with_state(&format!("{0}/{0}/state", "long".repeat(40)))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_is_as_good_as_an_overlay() {
    let lab = lab();
    lab.write(&greeter());
    let before = picture(&lab.skills());
    let engine = lab.engine().await;
    let session = engine.open_session(SessionOptions::default()).await.unwrap();
    let loaded = session.load("greeter").await.unwrap();
    assert_ne!(loaded.method, MaterializeMethod::Overlay, "the premise of these tests is gone");
    assert_eq!(codes(&loaded.warnings), ["overlay_unavailable"]);
    let script = "scripts/hello.sh x; readlink out; echo mine > data.csv; echo x > new; stat -c %a scripts/hello.sh data.csv; id -u; stat -c %u data.csv SKILL.md . scripts out";
    let output = ok(&session, in_skill("greeter", script)).await;
    let (first, ids) = output.split_at("hello x\n../../out\n755\n644\n".len());
    assert_eq!(first, "hello x\n../../out\n755\n644\n");
    assert!(ids.lines().all(|id| Some(id) == ids.lines().next()), "{ids}");
    // Another session has its own.
    let other = engine.open_session(SessionOptions::default()).await.unwrap();
    other.load("greeter").await.unwrap();
    assert_eq!(ok(&other, in_skill("greeter", "cat data.csv; ls new 2>/dev/null; true")).await, "a,b\n1,2\n");
    assert!(!session.load("greeter").await.unwrap().changed);
    assert_eq!(ok(&session, in_skill("greeter", "cat data.csv")).await, "mine\n");
    assert_eq!(picture(&lab.skills()), before);
    session.close().await.unwrap();
    other.close().await.unwrap();
    end(engine).await;
    assert_eq!((lab.entries("sessions"), lab.entries("trash")), (Vec::new(), Vec::new()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f029_conflicts_of_copies() {
    let lab = lab();
    let (engine, session) = lab.greeted().await;
    lab.write(&greeter().file("added.txt", "added\n"));
    assert!(session.load("greeter").await.unwrap().changed);
    assert_eq!(ok(&session, in_skill("greeter", "cat added.txt; readlink out")).await, "added\n../../out\n");
    ok(&session, in_skill("greeter", "echo mine > references/a.md")).await;
    lab.write(&greeter().file("added.txt", "again\n"));
    let error = session.load("greeter").await.unwrap_err();
    assert!(
        matches!(&error, EngineError::SkillConflict { changed, .. } if changed.contains("references/a.md")),
        "{error:?}"
    );
    assert!(!session.load_with("greeter", OnConflict::Keep).await.unwrap().changed);
    assert!(session.load_with("greeter", OnConflict::Discard).await.unwrap().changed);
    assert_eq!(
        ok(&session, in_skill("greeter", "cat added.txt references/a.md")).await,
        "again\na reference\n"
    );
    // A file that the session made below a folder of the skill is a change as well.
    ok(&session, in_skill("greeter", "echo x > references/mine.md")).await;
    lab.write(&greeter().file("added.txt", "third\n"));
    let error = session.load("greeter").await;
    assert!(matches!(error, Err(EngineError::SkillConflict { .. })), "{error:?}");
    // So are execute bits.
    session.load_with("greeter", OnConflict::Discard).await.unwrap();
    ok(&session, in_skill("greeter", "chmod +x data.csv")).await;
    lab.write(&greeter().file("added.txt", "fourth\n"));
    let error = session.load("greeter").await;
    assert!(matches!(error, Err(EngineError::SkillConflict { .. })), "{error:?}");
    end(engine).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kept_copy_survives_a_restart_with_its_changes() {
    let lab = lab();
    lab.write(&greeter());
    let engine = lab.engine().await;
    let session = engine.open_session(named("kept")).await.unwrap();
    session.load("greeter").await.unwrap();
    ok(&session, in_skill("greeter", "echo mine > data.csv; echo x > new")).await;
    session.close().await.unwrap();
    end(engine).await;
    drop(session);
    let engine = lab.engine().await;
    let session = engine.open_session(named("kept")).await.unwrap();
    session.load("greeter").await.unwrap();
    assert_eq!(ok(&session, in_skill("greeter", "cat data.csv new")).await, "mine\nx\n");
    end(engine).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_replaces_a_hostile_folder_without_following_it() {
    let lab = lab();
    let (engine, session) = lab.greeted().await;
    let outside = lab.path("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("x"), "x").unwrap();
    let before = picture(&outside);
    let script = format!("cd ..; rm -rf greeter; ln -s {} greeter", outside.display());
    ok(&session, in_skill("greeter", &script)).await;
    lab.write(&greeter().file("added.txt", "added\n"));
    let _ = session.load_with("greeter", OnConflict::Discard).await;
    assert_eq!(picture(&outside), before);
    end(engine).await;
}
