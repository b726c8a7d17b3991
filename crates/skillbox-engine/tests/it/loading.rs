//! Skills into the workspace.

use std::fs;

use skillbox_engine::{EngineError, ErrorKind, OnConflict, SessionOptions};
use skillbox_testkit::SkillBuilder;
use skillbox_types::MaterializeMethod;

use crate::lab::{Lab, codes, end, greeter, in_skill, ok, picture, sh};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f055_a_loaded_skill_is_there_before_the_first_command() {
    let lab = Lab::new();
    lab.write(&greeter().link("latest", "references/a.md"));
    let engine = lab.engine().await;
    let session = engine.open_session(SessionOptions::default()).await.unwrap();
    let loaded = session.load("greeter").await.unwrap();
    assert_eq!(loaded.method, MaterializeMethod::Overlay, "{:?}", loaded.warnings);
    assert_eq!((loaded.path.as_str(), loaded.files, loaded.changed), ("skills/greeter", 4, true));
    let manifest = fs::metadata(lab.skills().join("greeter/SKILL.md")).unwrap().len();
    assert_eq!(loaded.bytes, manifest + 26 + 12 + 8);
    assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
    let script = "ls scripts; cat latest; test -r SKILL.md && stat -c '%a %n' scripts/hello.sh data.csv; for l in out work inputs; do readlink $l; done; pwd";
    assert_eq!(
        ok(&session, in_skill("greeter", script)).await,
        "hello.sh\na reference\n755 scripts/hello.sh\n644 data.csv\n../../out\n../../work\n../../work/inputs\n/workspace/skills/greeter\n"
    );
    session.close().await.unwrap();
    end(engine).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f044_scripts_run_by_either_path() {
    let lab = Lab::new();
    let (engine, session) = lab.greeted().await;
    assert_eq!(
        ok(&session, in_skill("greeter", "scripts/hello.sh a; cat references/a.md")).await,
        "hello a\na reference\n"
    );
    assert_eq!(ok(&session, sh("skills/greeter/scripts/hello.sh b")).await, "hello b\n");
    assert_eq!(ok(&session, sh("/skills/greeter/scripts/hello.sh c")).await, "hello c\n");
    let mut request = in_skill("greeter", "./hello.sh $SKILL_NAME; echo $SKILL_DIR");
    request.cwd = Some("scripts".to_owned());
    assert_eq!(ok(&session, request).await, "hello greeter\n/workspace/skills/greeter\n");
    end(engine).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f036_modes_are_normal_whatever_the_source_s_are() {
    let lab = Lab::new();
    lab.write(
        &greeter()
            .file_with_mode("private.txt", "x", 0o600)
            .file_with_mode("private.sh", "#!/bin/sh\necho private\n", 0o700)
            .file_with_mode("odd.sh", "#!/bin/sh\necho odd\n", 0o745),
    );
    let engine = lab.engine().await;
    let session = engine.open_session(SessionOptions::default()).await.unwrap();
    session.load("greeter").await.unwrap();
    let script = "stat -c '%a' private.txt private.sh odd.sh scripts; ./private.sh; ./odd.sh";
    assert_eq!(ok(&session, in_skill("greeter", script)).await, "644\n755\n755\n755\nprivate\nodd\n");
    end(engine).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f039_windows_line_ends_are_told_on_loading() {
    let lab = Lab::new();
    lab.write(&greeter().script("scripts/crlf.sh", "#!/bin/sh\r\necho hi\r\n"));
    let engine = lab.engine().await;
    let session = engine.open_session(SessionOptions::default()).await.unwrap();
    let loaded = session.load("greeter").await.unwrap();
    let told = loaded.warnings.iter().any(|warning| warning.message.contains("scripts/crlf.sh"));
    assert!(told, "{:?}", loaded.warnings);
    let result = session.run(in_skill("greeter", "scripts/crlf.sh")).await.unwrap();
    assert!(!result.end.success());
    end(engine).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f062_caches_are_not_loaded() {
    let lab = Lab::new();
    lab.write(&greeter().file("scripts/__pycache__/a.cpython-311.pyc", "x").file(".git/config", "x"));
    let engine = lab.engine().await;
    let session = engine.open_session(SessionOptions::default()).await.unwrap();
    session.load("greeter").await.unwrap();
    assert_eq!(
        ok(&session, in_skill("greeter", "ls -A scripts; ls -d .git 2>/dev/null; true")).await,
        "hello.sh\n"
    );
    end(engine).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn loading_again_keeps_what_the_session_changed() {
    let lab = Lab::new();
    let (engine, session) = lab.greeted().await;
    ok(&session, in_skill("greeter", "echo mine >> data.csv; echo new > new.txt; rm references/a.md")).await;
    let again = session.load("greeter").await.unwrap();
    assert!(!again.changed);
    assert_eq!(
        ok(&session, in_skill("greeter", "tail -n1 data.csv; cat new.txt; ls references")).await,
        "mine\nnew\n"
    );
    end(engine).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f029_a_changed_source_is_loaded_by_its_content() {
    let lab = Lab::new();
    let (engine, session) = lab.greeted().await;
    let before = session.load("greeter").await.unwrap();
    ok(&session, in_skill("greeter", "scripts/hello.sh x > out/made.txt")).await;
    lab.write(
        &greeter().script("scripts/hello.sh", "#!/bin/sh\necho \"howdy $1\"\n").file("added.txt", "added\n"),
    );
    fs::remove_file(lab.skills().join("greeter/data.csv")).unwrap();
    let after = session.load("greeter").await.unwrap();
    assert!(after.changed);
    assert_ne!(after.digest, before.digest);
    let script = "scripts/hello.sh x; cat added.txt; ls data.csv 2>/dev/null; readlink out; cat out/made.txt";
    assert_eq!(ok(&session, in_skill("greeter", script)).await, "howdy x\nadded\n../../out\nhello x\n");
    let result = session.run(in_skill("greeter", ":")).await.unwrap();
    assert_eq!(result.skill.unwrap().digest, after.digest);
    end(engine).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f029_a_conflict_is_told_and_can_be_decided() {
    let lab = Lab::new();
    let (engine, session) = lab.greeted().await;
    ok(&session, in_skill("greeter", "echo mine > data.csv")).await;
    lab.write(&greeter().script("scripts/hello.sh", "#!/bin/sh\necho \"howdy $1\"\n"));
    let error = session.load("greeter").await.unwrap_err();
    assert!(
        matches!(&error, EngineError::SkillConflict { name, changed } if name.as_str() == "greeter" && changed.contains("data.csv")),
        "{error:?}"
    );
    assert_eq!(error.kind(), ErrorKind::Conflict);
    let state = "cat data.csv | head -n1; scripts/hello.sh x";
    assert_eq!(ok(&session, in_skill("greeter", state)).await, "mine\nhello x\n");
    let kept = session.load_with("greeter", OnConflict::Keep).await.unwrap();
    assert!(!kept.changed);
    assert_eq!(ok(&session, in_skill("greeter", state)).await, "mine\nhello x\n");
    let discarded = session.load_with("greeter", OnConflict::Discard).await.unwrap();
    assert!(discarded.changed);
    assert_eq!(ok(&session, in_skill("greeter", state)).await, "a,b\nhowdy x\n");
    assert!(!session.load("greeter").await.unwrap().changed);
    end(engine).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deleted_file_and_changed_modes_are_changes_too() {
    let lab = Lab::new();
    for change in
        ["rm data.csv", "chmod -x scripts/hello.sh", "mv data.csv moved.csv", "ln -sfn elsewhere out"]
    {
        let (engine, session) = lab.greeted().await;
        ok(&session, in_skill("greeter", change)).await;
        lab.write(&greeter().file("added.txt", change));
        let error = session.load("greeter").await;
        assert!(matches!(error, Err(EngineError::SkillConflict { .. })), "{change}: {error:?}");
        end(engine).await;
        fs::remove_dir_all(lab.skills().join("greeter")).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_never_see_each_other_s_changes_nor_does_the_source() {
    let lab = Lab::new();
    let (engine, one) = lab.greeted().await;
    let two = engine.open_session(SessionOptions::default()).await.unwrap();
    two.load("greeter").await.unwrap();
    let before = picture(&lab.skills());
    let attack = "echo changed > data.csv; chmod 600 SKILL.md; rm -rf references; echo x > new; mkdir dir; mv scripts moved; ls";
    ok(&one, in_skill("greeter", attack)).await;
    assert_eq!(
        ok(&two, in_skill("greeter", "ls; cat data.csv; scripts/hello.sh two")).await,
        "SKILL.md\ndata.csv\ninputs\nout\nreferences\nscripts\nwork\na,b\n1,2\nhello two\n"
    );
    let three = engine.open_session(SessionOptions::default()).await.unwrap();
    let loaded = three.load("greeter").await.unwrap();
    assert_eq!(ok(&three, in_skill("greeter", "cat data.csv; ls new 2>/dev/null; true")).await, "a,b\n1,2\n");
    assert_eq!(loaded.digest, two.load("greeter").await.unwrap().digest);
    assert_eq!(picture(&lab.skills()), before, "the source was written to");
    end(engine).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f053_a_read_only_tree_is_removed_with_its_session() {
    let lab = Lab::new();
    let (engine, session) = lab.greeted().await;
    let script = "mkdir -p assets/deep; echo x > assets/out.txt; chmod -R a-w . assets; mkdir -p ../../odd/a; chmod 000 ../../odd/a ../../odd; chmod 000 ~; true";
    let result = session.run(crate::lab::collecting(in_skill("greeter", script), &["**"])).await.unwrap();
    assert!(crate::lab::names(&result).contains(&"skills/greeter/assets/out.txt"), "{:?}", result.stderr);
    session.close().await.unwrap();
    end(engine).await;
    assert_eq!((lab.entries("sessions"), lab.entries("trash")), (Vec::new(), Vec::new()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_that_the_workspace_needs_give_way() {
    let lab = Lab::new();
    lab.write(&greeter().file("out/shipped.txt", "x").file("work", "a file").link("inputs", "/etc"));
    let engine = lab.engine().await;
    let session = engine.open_session(SessionOptions::default()).await.unwrap();
    let loaded = session.load("greeter").await.unwrap();
    assert!(codes(&loaded.warnings).contains(&"shipped_name_hidden"), "{:?}", loaded.warnings);
    let script = "for l in out work inputs; do readlink $l; done; echo made > out/a; ls /workspace/out";
    assert_eq!(
        ok(&session, in_skill("greeter", script)).await,
        "../../out\n../../work\n../../work/inputs\na\n"
    );
    end(engine).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_script_put_in_the_way_is_not_followed() {
    let lab = Lab::new();
    lab.write(&greeter());
    lab.write(&SkillBuilder::new("other"));
    let outside = lab.path("outside");
    fs::create_dir(&outside).unwrap();
    let before = picture(&outside);
    let engine = lab.engine().await;
    let session = engine.open_session(SessionOptions::default()).await.unwrap();
    ok(&session, sh(&format!("rm -rf skills; ln -s {} skills", outside.display()))).await;
    assert!(session.load("greeter").await.is_err());
    ok(&session, sh("rm -f skills; ln -s /tmp skills")).await;
    assert!(session.load("greeter").await.is_err());
    // What stands in the place of one skill alone is moved aside.
    ok(&session, sh(&format!("rm -f skills; mkdir skills; ln -s {} skills/greeter", outside.display())))
        .await;
    assert!(session.load("greeter").await.unwrap().changed);
    assert_eq!(ok(&session, in_skill("greeter", "scripts/hello.sh x")).await, "hello x\n");
    assert_eq!(picture(&outside), before);
    end(engine).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_loaded_is_told_as_what_it_is() {
    let lab = Lab::new();
    lab.write(&greeter());
    lab.write(&SkillBuilder::new("broken").file("SKILL.md", "no front matter\n"));
    lab.write(&SkillBuilder::new("shrinking"));
    let engine = lab.engine().await;
    let session = engine.open_session(SessionOptions::default()).await.unwrap();
    let kind = async |name: &str| {
        let error = session.load(name).await.unwrap_err();
        (error.kind(), error.to_string())
    };
    let (unknown, said) = kind("greter").await;
    assert_eq!(unknown, ErrorKind::NotFound);
    assert!(said.contains("greeter"), "{said}");
    assert_eq!(kind("broken").await.0, ErrorKind::InvalidRequest);
    for hostile in ["../greeter", "/etc", "", "greeter/.."] {
        assert_eq!(kind(hostile).await.0, ErrorKind::NotFound, "{hostile}");
    }
    // Removed at its source, before and after the engine looks again.
    fs::remove_dir_all(lab.skills().join("shrinking")).unwrap();
    assert!(session.load("shrinking").await.is_err());
    engine.rescan().await.unwrap();
    let (gone, said) = kind("shrinking").await;
    assert_eq!(gone, ErrorKind::NotFound);
    assert!(said.contains("no longer available"), "f030: {said}");
    let error = session.run(in_skill("greeter", ":")).await.unwrap_err();
    assert!(matches!(error, EngineError::NotLoaded(_)), "{error:?}");
    assert!(lab.entries("sessions").len() == 1);
    end(engine).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f032_thirteen_thousand_files_are_loaded() {
    let lab = Lab::new();
    let dir = lab.write(&greeter());
    for folder in 0..130 {
        let folder = dir.join(format!("d{folder}"));
        fs::create_dir(&folder).unwrap();
        for file in 0..100 {
            fs::write(folder.join(file.to_string()), "x").unwrap();
        }
    }
    let engine = lab.engine().await;
    let session = engine.open_session(SessionOptions::default()).await.unwrap();
    let began = std::time::Instant::now();
    let loaded = session.load("greeter").await.unwrap();
    assert_eq!(loaded.files, 13_004);
    assert!(began.elapsed() < std::time::Duration::from_secs(20), "{:?}", began.elapsed());
    assert_eq!(ok(&session, in_skill("greeter", "find . -type f | wc -l")).await, "13004\n");
    assert_eq!(codes(&loaded.warnings), Vec::<&str>::new());
    end(engine).await;
}
