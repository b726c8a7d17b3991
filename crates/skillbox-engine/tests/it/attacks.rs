//! What scripts did to sessions in an attack on them; each a regression.

use std::fs;
use std::os::unix::fs::MetadataExt as _;

use skillbox_engine::{OnConflict, SessionOptions};
use skillbox_types::{Change, End, Input, WorkspacePath};

use crate::lab::{Lab, codes, collecting, end, greeter, in_skill, named, names, ok, sh};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_folder_that_is_moved_brings_new_files() {
    let lab = Lab::new();
    let (engine, session) = lab.greeted().await;
    let mut request = collecting(sh("mv work/inputs/dir out/dir"), &["out/**"]);
    let path = WorkspacePath::new("work/inputs/dir/deep/x.txt").unwrap();
    request.inputs = vec![Input { path, content: b"x".to_vec(), executable: false }];
    request.outputs.changed_only = true;
    let result = session.run(request).await.unwrap();
    assert_eq!(names(&result), ["out/dir/deep/x.txt"]);
    assert_eq!(result.output_files[0].change, Change::New);
    // In the place of a file that was collected before, even where the folder's stamps tell nothing.
    ok(&session, sh("mkdir -p work/d; echo evil > work/d/report; mkdir -p out/d; echo good > out/d/report"))
        .await;
    session.run(collecting(sh(":"), &["out/**"])).await.unwrap();
    let swap = collecting(sh("mv out/d work/old; mv work/d out/d; touch out/d/other"), &["out/d/report"]);
    let swapped = session.run(swap).await.unwrap();
    assert_eq!(swapped.output_files[0].change, Change::Modified, "{:?}", swapped.output_files);
    end(engine).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_file_that_cannot_be_saved_costs_nothing_else() {
    let lab = Lab::new();
    let (engine, session) = lab.greeted().await;
    let request = collecting(sh("echo 1 > out/a; echo 2 > out/b; chmod 000 out/a; exit 3"), &["out/*"]);
    let mut result = session.run(request).await.unwrap();
    assert_eq!(result.end, End::Exited { exit_code: 3 });
    assert_eq!(codes(&result.warnings), ["not_read"]);
    fs::create_dir(lab.path("saved")).unwrap();
    let warnings = session.save(&mut result.output_files, &lab.path("saved")).await.unwrap();
    assert_eq!(codes(&warnings), ["not_saved"]);
    assert_eq!(fs::read(lab.path("saved/out/b")).unwrap(), b"2\n");
    end(engine).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_changes_after_it_was_collected_is_not_saved_as_it() {
    let lab = Lab::new();
    let (engine, session) = lab.greeted().await;
    let mut result = session.run(collecting(sh("echo one > out/a"), &["out/*"])).await.unwrap();
    ok(&session, sh("echo two > out/a")).await;
    fs::create_dir(lab.path("saved")).unwrap();
    let warnings = session.save(&mut result.output_files, &lab.path("saved")).await.unwrap();
    assert!(warnings[0].message.contains("changed since it was collected"), "{warnings:?}");
    assert!(!lab.path("saved/out/a").exists());
    end(engine).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_s_own_folder_is_fresh_in_each_life_of_a_session() {
    let lab = Lab::new();
    let mut seen = Vec::new();
    for _ in 0..3 {
        let engine = lab.engine().await;
        let session = engine.open_session(named("kept")).await.unwrap();
        seen.push(ok(&session, sh("ls -A $RUN_DIR; echo $RUN_DIR; echo secret > $RUN_DIR/f")).await);
        drop(session);
        end(engine).await;
    }
    seen.dedup();
    assert_eq!(seen.len(), 3, "{seen:?}");
    assert!(seen.iter().all(|text| text.lines().count() == 1), "{seen:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_script_did_to_a_session_s_folders_is_put_right() {
    let lab = Lab::new();
    lab.write(&greeter());
    for script in [
        "chmod 000 /workspace",
        "chmod 000 ../../skills",
        "rm -rf ../../runs; ln -s /etc ../../runs",
        "rm -rf ../../out; echo x > ../../out",
        "mv ../../skills ../../s2; ln -s / ../../skills",
        "rm SKILL.md; mkfifo SKILL.md",
        "chmod 000 SKILL.md; chmod 000 .",
        "chmod 000 ~",
    ] {
        let engine = lab.engine().await;
        let session = engine.open_session(named("kept")).await.unwrap();
        session.load("greeter").await.unwrap();
        session.run(in_skill("greeter", script)).await.unwrap();
        drop(session);
        end(engine).await;
        let engine = lab.engine().await;
        let session = engine.open_session(named("kept")).await.unwrap_or_else(|e| panic!("{script}: {e}"));
        session.load("greeter").await.unwrap_or_else(|e| panic!("{script}: {e}"));
        assert_eq!(ok(&session, sh("echo x > out/y; echo $((1+1)) > ~/z; cat ~/z")).await, "2\n", "{script}");
        drop(session);
        end(engine).await;
        let engine = lab.engine().await;
        engine.remove_session(&skillbox_types::SessionId::new("kept").unwrap()).await.unwrap();
        end(engine).await;
        assert_eq!((lab.entries("sessions"), lab.entries("trash")), (Vec::new(), Vec::new()), "{script}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn folders_without_a_lock_are_removed_once_no_engine_lives() {
    let lab = Lab::new();
    let (engine, session) = lab.greeted().await;
    fs::create_dir_all(lab.state().join("sessions/tmp-half/ws")).unwrap();
    let other = lab.engine().await;
    assert!(lab.entries("sessions").contains(&"tmp-half".to_owned()), "it may be in the making");
    session.close().await.unwrap();
    end(other).await;
    end(engine).await;
    drop(session);
    end(lab.engine().await).await;
    assert_eq!((lab.entries("sessions"), lab.entries("trash")), (Vec::new(), Vec::new()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_goes_over_to_another_uid_with_all_that_is_its_own() {
    let lab = Lab::new();
    lab.write(&greeter());
    let engine = lab.engine().await;
    let session = engine.open_session(named("kept")).await.unwrap();
    session.load("greeter").await.unwrap();
    ok(
        &session,
        in_skill(
            "greeter",
            "echo mine > data.csv; d=../../out; for i in $(seq 600); do d=$d/d; done; mkdir -p $d",
        ),
    )
    .await;
    let owner = |path: &str| fs::symlink_metadata(lab.state().join(path)).unwrap().uid();
    let before = owner("sessions/kept/ws");
    drop(session);
    end(engine).await;
    // An engine beside it holds the block of uids that the session's was of.
    let beside = lab.engine().await;
    let holder = beside.open_session(SessionOptions::default()).await.unwrap();
    ok(&holder, sh("true")).await;
    let engine = lab.engine().await;
    let session = engine.open_session(named("kept")).await.unwrap();
    session.load("greeter").await.unwrap();
    let script = "cat data.csv; echo more >> data.csv; echo n > newfile; rm references/a.md; ls ../../out";
    assert_eq!(ok(&session, in_skill("greeter", script)).await, "mine\nd\n");
    if before == rustix::process::geteuid().as_raw() {
        println!("left out: another uid: sandboxes here have the engine's own");
    } else {
        assert_ne!(owner("sessions/kept/ws"), before);
    }
    end(engine).await;
    end(beside).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn discarding_mends_a_copy_whose_source_has_not_changed() {
    let lab = Lab::new();
    lab.write(&greeter());
    for restart in [false, true] {
        let engine = lab.engine().await;
        let mut session = engine.open_session(named("kept")).await.unwrap();
        session.load("greeter").await.unwrap();
        ok(&session, in_skill("greeter", "rm -rf $SKILL_DIR/*")).await;
        let mut other = None;
        if restart {
            drop(session);
            end(engine.clone()).await;
            other = Some(lab.engine().await);
            session = other.as_ref().unwrap().open_session(named("kept")).await.unwrap();
        }
        assert!(!session.load("greeter").await.unwrap().changed, "nobody asked for it");
        assert!(session.load_with("greeter", OnConflict::Discard).await.unwrap().changed);
        let script = "scripts/hello.sh x; echo y > out/y; cat inputs/../../out/y";
        assert_eq!(ok(&session, in_skill("greeter", script)).await, "hello x\ny\n");
        drop(session);
        end(other.unwrap_or(engine)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limit_that_is_too_small_for_any_program_is_named() {
    let lab = Lab::new();
    let engine = lab.engine().await;
    let mut options = SessionOptions::default();
    options.limits.memory_bytes = Some(8192);
    let error = engine.open_session(options).await.unwrap_err();
    assert!(error.to_string().contains("8192 bytes is too small"), "{error}");
    assert_eq!(lab.entries("sessions"), Vec::<String>::new());
    end(engine).await;
}
