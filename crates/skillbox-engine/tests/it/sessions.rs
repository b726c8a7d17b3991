//! The life of sessions.

use skillbox_engine::{Engine, EngineError, ErrorKind, OnConflict, SessionOptions};
use skillbox_types::{End, LimitsPatch, TimeLimit};

use crate::lab::{Lab, codes, end, greeter, in_skill, lose_all, named, ok, sh};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_named_session_survives_a_restart_with_its_changes() {
    let lab = Lab::new();
    lab.write(&greeter());
    let engine = lab.engine().await;
    let session = engine.open_session(named("kept")).await.unwrap();
    session.load("greeter").await.unwrap();
    ok(
        &session,
        in_skill(
            "greeter",
            "echo mine > data.csv; echo made > out/made.txt; echo home > ~/file; rm references/a.md",
        ),
    )
    .await;
    session.close().await.unwrap();
    end(engine).await;
    drop(session);
    let engine = lab.engine().await;
    assert_eq!(lab.entries("sessions"), ["kept"]);
    let session = engine.open_session(named("kept")).await.unwrap();
    assert!(!session.load("greeter").await.unwrap().changed, "a kept session knows its skills");
    assert_eq!(
        ok(
            &session,
            in_skill(
                "greeter",
                "cat data.csv out/made.txt ~/file; ls references; echo more >> data.csv; echo x > new; rm new"
            )
        )
        .await,
        "mine\nmade\nhome\n"
    );
    end(engine).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f029_a_conflict_is_told_after_a_restart_too() {
    let lab = Lab::new();
    lab.write(&greeter());
    let engine = lab.engine().await;
    let session = engine.open_session(named("kept")).await.unwrap();
    session.load("greeter").await.unwrap();
    ok(&session, in_skill("greeter", "echo mine > data.csv")).await;
    session.close().await.unwrap();
    end(engine).await;
    drop(session);
    lab.write(&greeter().file("added.txt", "added\n"));
    let engine = lab.engine().await;
    let session = engine.open_session(named("kept")).await.unwrap();
    let loaded = session.load("greeter").await;
    assert!(
        matches!(loaded, Err(EngineError::SkillConflict { .. })),
        "changes were set aside silently: {loaded:?}"
    );
    session.load_with("greeter", OnConflict::Keep).await.unwrap();
    assert_eq!(ok(&session, in_skill("greeter", "cat data.csv")).await, "mine\n");
    end(engine).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unnamed_session_ends_with_its_close() {
    let lab = Lab::new();
    let (engine, session) = lab.greeted().await;
    ok(&session, sh("echo x > file")).await;
    assert_eq!(lab.entries("sessions").len(), 1);
    session.close().await.unwrap();
    assert_eq!(lab.entries("sessions"), Vec::<String>::new());
    for error in [
        session.run(sh(":")).await.map(drop),
        session.load("greeter").await.map(drop),
        session.open_sandbox().await,
    ] {
        let error = error.unwrap_err();
        assert!(matches!(error, EngineError::SessionClosed(_)), "{error:?}");
        assert_eq!(error.kind(), ErrorKind::NotFound);
    }
    session.close().await.unwrap();
    end(engine).await;
    assert_eq!(lab.entries("trash"), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_session_is_cleared_away_by_the_next_engine() {
    let lab = Lab::new();
    let (engine, session) = lab.greeted().await;
    ok(&session, sh("mkdir -p a/b; chmod 000 a/b")).await;
    drop(session);
    end(engine).await;
    let engine = lab.engine().await;
    assert_eq!((lab.entries("sessions"), lab.entries("trash")), (Vec::new(), Vec::new()));
    end(engine).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_is_open_once() {
    let lab = Lab::new();
    let engine = lab.engine().await;
    let session = engine.open_session(named("one")).await.unwrap();
    let error = engine.open_session(named("one")).await.unwrap_err();
    assert!(matches!(error, EngineError::SessionInUse(_)), "{error:?}");
    // Nor in another engine on the same state folder.
    let other = lab.engine().await;
    assert!(matches!(other.open_session(named("one")).await, Err(EngineError::SessionInUse(_))));
    session.close().await.unwrap();
    drop(session);
    let again = other.open_session(named("one")).await.unwrap();
    ok(&again, sh("true")).await;
    let refused = engine.open_session(named("tmp-mine")).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidRequest);
    end(other).await;
    end(engine).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_closed_named_session_can_be_opened_again_though_somebody_holds_the_old_one() {
    let lab = Lab::new();
    let engine = lab.engine().await;
    let session = engine.open_session(named("one")).await.unwrap();
    ok(&session, sh("echo x > file")).await;
    session.close().await.unwrap();
    let again = engine.open_session(named("one")).await.unwrap();
    assert_eq!(ok(&again, sh("cat file")).await, "x\n");
    assert!(session.run(sh(":")).await.is_err());
    end(engine).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f058_a_lost_sandbox_is_replaced_before_the_next_command() {
    let lab = Lab::new();
    lab.write(&greeter());
    let executor = lab.executor();
    let engine = lab.engine_of(executor.clone()).await;
    let session = engine.open_session(SessionOptions::default()).await.unwrap();
    session.load("greeter").await.unwrap();
    ok(&session, in_skill("greeter", "echo mine > data.csv; echo x > ../../file; echo t > /tmp/t")).await;
    lose_all(&executor).await;
    let result = session
        .run(in_skill("greeter", "cat data.csv ../../file; readlink out; ls /tmp; scripts/hello.sh x"))
        .await
        .unwrap();
    assert_eq!(result.stdout.text, "mine\nx\n../../out\nhello x\n", "{:?}", result.stderr);
    assert_eq!(codes(&result.warnings), ["sandbox_recreated"]);
    assert!(session.run(sh(":")).await.unwrap().warnings.is_empty(), "it is told once");
    // During a command: an answer of its own, and no second run.
    let running = {
        let session = session.clone();
        tokio::spawn(async move { session.run(sh("echo ran >> count; exec sleep 60")).await.unwrap() })
    };
    skillbox_testkit::until("the command runs", async || {
        session.run(sh("test -s count")).await.unwrap().end.success()
    })
    .await;
    lose_all(&executor).await;
    let result = running.await.unwrap();
    assert!(matches!(result.end, End::SandboxLost { .. }), "{:?}", result.end);
    assert_eq!(ok(&session, sh("cat count")).await, "ran\n");
    session.close().await.unwrap();
    end(engine).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closing_a_session_whose_sandbox_is_lost_is_no_failure() {
    let lab = Lab::new();
    let executor = lab.executor();
    let engine = lab.engine_of(executor.clone()).await;
    let session = engine.open_session(SessionOptions::default()).await.unwrap();
    ok(&session, sh("true")).await;
    lose_all(&executor).await;
    session.close().await.unwrap();
    end(engine).await;
    assert_eq!((lab.entries("sessions"), lab.entries("trash")), (Vec::new(), Vec::new()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn warm_sessions_are_like_others() {
    let lab = Lab::new();
    lab.write(&greeter());
    let engine = Engine::builder(lab.state(), lab.executor())
        .skills([lab.skills()])
        .warm_sessions(2)
        .build()
        .await
        .unwrap();
    let mut ids = std::collections::BTreeSet::new();
    for _ in 0..5 {
        let session = engine.open_session(SessionOptions::default()).await.unwrap();
        assert!(ids.insert(session.id().clone()));
        session.load("greeter").await.unwrap();
        assert_eq!(
            ok(
                &session,
                in_skill("greeter", "ls /workspace /tmp ~; scripts/hello.sh x > ~/f; scripts/hello.sh x")
            )
            .await
            .lines()
            .last(),
            Some("hello x")
        );
        session.close().await.unwrap();
    }
    let session = engine.open_session(named("kept")).await.unwrap();
    ok(&session, sh("echo x > file")).await;
    session.close().await.unwrap();
    let limited = SessionOptions {
        limits: LimitsPatch { pids: Some(20), ..LimitsPatch::default() },
        ..SessionOptions::default()
    };
    let session = engine.open_session(limited).await.unwrap();
    assert_eq!(session.run(sh(":")).await.unwrap().limits.pids, 20);
    session.close().await.unwrap();
    end(engine).await;
    assert_eq!((lab.entries("sessions"), lab.entries("trash")), (vec!["kept".to_owned()], Vec::new()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f153_many_sessions_at_once() {
    let lab = Lab::new();
    lab.write(&greeter());
    let engine = lab.engine().await;
    let mut running = tokio::task::JoinSet::new();
    for index in 0..12 {
        let engine = engine.clone();
        running.spawn(async move {
            let session = engine.open_session(SessionOptions::default()).await.unwrap();
            session.load("greeter").await.unwrap();
            for _ in 0..3 {
                ok(&session, in_skill("greeter", &format!("echo {index} > marker"))).await;
                assert_eq!(ok(&session, in_skill("greeter", "cat marker")).await, format!("{index}\n"));
            }
            session.close().await.unwrap();
        });
    }
    while let Some(done) = running.join_next().await {
        done.unwrap();
    }
    end(engine).await;
    assert_eq!((lab.entries("sessions"), lab.entries("trash")), (Vec::new(), Vec::new()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f076_the_session_s_time_limit_is_the_default_of_its_commands() {
    let lab = Lab::new();
    let engine = lab.engine().await;
    let options = SessionOptions { timeout: TimeLimit::Ms(300), ..SessionOptions::default() };
    let session = engine.open_session(options).await.unwrap();
    let result = session.run(sh("exec sleep 60")).await.unwrap();
    assert_eq!(result.end, End::TimedOut { limit_ms: 300 });
    assert_eq!(result.limits.wall_time, Some(std::time::Duration::from_millis(300)));
    let mut request = sh("sleep 0.5; echo done");
    request.timeout = TimeLimit::Unlimited;
    let result = session.run(request).await.unwrap();
    assert_eq!((result.stdout.text.as_str(), result.limits.wall_time), ("done\n", None));
    end(engine).await;
}
