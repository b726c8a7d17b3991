//! Requests and their results.

use std::time::Duration;

use skillbox_engine::{EngineError, ErrorKind, ExecEvent, SessionOptions};
use skillbox_types::{CommandLine, End, ExecRequest, Input, IsolationLevel, Stdin, TimeLimit, WorkspacePath};

use crate::lab::{Lab, end, in_skill, ok, sh};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_result_says_everything() {
    let lab = Lab::new();
    let (engine, session) = lab.greeted().await;
    let result = session.run(in_skill("greeter", "scripts/hello.sh x; echo oops >&2; exit 3")).await.unwrap();
    assert_eq!(result.end, End::Exited { exit_code: 3 });
    assert_eq!((result.stdout.text.as_str(), result.stderr.text.as_str()), ("hello x\n", "oops\n"));
    assert_eq!((result.stdout.total_bytes, result.stdout.truncated, result.stdout.lossy), (8, false, false));
    let skill = result.skill.unwrap();
    assert_eq!(skill.name.as_str(), "greeter");
    assert!(result.isolation.level >= IsolationLevel::Namespaces);
    assert_eq!(&result.limits, session.limits());
    assert!(result.timing_ms.total >= result.timing_ms.execute);
    assert!(result.output_files.is_empty() && result.warnings.is_empty(), "{:?}", result.warnings);
    end(engine).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f048_working_directories() {
    let lab = Lab::new();
    let (engine, session) = lab.greeted().await;
    ok(&session, sh("mkdir out/a; ln -s missing out/dead; ln -s / skills/greeter/link-to-root")).await;
    for (cwd, expected) in [
        ("$WORK_DIR", "/workspace/work"),
        ("${OUTPUT_DIR}/a", "/workspace/out/a"),
        ("", "/workspace/skills/greeter"),
        (".", "/workspace/skills/greeter"),
        ("scripts", "/workspace/skills/greeter/scripts"),
        ("$SKILL_DIR/scripts", "/workspace/skills/greeter/scripts"),
        ("/workspace/out", "/workspace/out"),
        // The link of every skill's folder, which stays inside.
        ("out", "/workspace/out"),
        ("inputs", "/workspace/work/inputs"),
    ] {
        let mut request = in_skill("greeter", "pwd -P");
        request.cwd = Some(cwd.to_owned());
        assert_eq!(ok(&session, request).await.trim(), expected, "{cwd:?}");
    }
    for cwd in ["/home/u/x", "../../..", "$WORK_DIR/../../x", "$HOME", "/etc"] {
        let mut request = in_skill("greeter", "echo ran");
        request.cwd = Some(cwd.to_owned());
        let error = session.run(request).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidRequest, "{cwd}");
        assert!(error.to_string().contains(cwd), "{error}");
    }
    for cwd in ["link-to-root", "link-to-root/etc", "none"] {
        let mut request = in_skill("greeter", "echo ran");
        request.cwd = Some(cwd.to_owned());
        let result = session.run(request).await.unwrap();
        assert!(
            matches!(&result.end, End::SpawnFailed { message, .. } if message.contains(cwd)),
            "f049: {:?}",
            result.end
        );
        assert_eq!(result.stdout.text, "");
    }
    end(engine).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f114_the_environment_is_the_engine_s_and_the_request_s() {
    let lab = Lab::new();
    let (engine, session) = lab.greeted().await;
    let mut request = in_skill("greeter", "env");
    request.env.insert("GREETING".to_owned(), "hi there".to_owned());
    let env = ok(&session, request).await;
    let mut names: Vec<&str> =
        env.lines().filter_map(|line| line.split_once('=')).map(|(name, _)| name).collect();
    names.sort_unstable();
    assert_eq!(
        names,
        [
            "CLAUDE_SKILL_DIR",
            "GREETING",
            "HOME",
            "LANG",
            "LOGNAME",
            "OUTPUT_DIR",
            "PATH",
            "PWD",
            "PYTHONDONTWRITEBYTECODE",
            "RUN_DIR",
            "SHELL",
            "SKILLS_DIR",
            "SKILL_DIR",
            "SKILL_NAME",
            "TEMP",
            "TMP",
            "TMPDIR",
            "TZ",
            "USER",
            "WORKSPACE_DIR",
            "WORK_DIR",
            "XDG_CACHE_HOME",
            "XDG_CONFIG_HOME",
            "XDG_DATA_HOME"
        ]
    );
    let script = "for d in \"$HOME\" \"$OUTPUT_DIR\" \"$WORK_DIR\" \"$SKILLS_DIR\" \"$TMPDIR\" \"$RUN_DIR\" \"$SKILL_DIR\"; do test -w \"$d\" || echo \"$d\"; done; \
                  mkdir -p $XDG_CACHE_HOME && mktemp -d > /dev/null && touch ~/x && test \"$(id -un)\" = \"$USER\" || echo no; date +%Z";
    assert_eq!(ok(&session, in_skill("greeter", script)).await, "UTC\n", "f107");
    for (name, value) in [("", "x"), ("A=B", "x"), ("A", "x\0y")] {
        let mut request = sh(":");
        request.env.insert(name.to_owned(), value.to_owned());
        assert_eq!(session.run(request).await.unwrap_err().kind(), ErrorKind::InvalidRequest, "{name:?}");
    }
    end(engine).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inputs_are_staged_before_the_command() {
    let lab = Lab::new();
    let (engine, session) = lab.greeted().await;
    let input = |path: &str, content: &str, executable| Input {
        path: WorkspacePath::new(path).unwrap(),
        content: content.as_bytes().to_vec(),
        executable,
    };
    let mut request =
        in_skill("greeter", "cat inputs/a.csv 'inputs/報告 1.txt'; inputs/run.sh; cat /workspace/deep/er/x");
    request.inputs = vec![
        input("work/inputs/a.csv", "a,b\n", false),
        input("work/inputs/報告 1.txt", "report\n", false),
        input("work/inputs/run.sh", "#!/bin/sh\necho staged\n", true),
        input("deep/er/x", "deep\n", false),
    ];
    request.stdin = Stdin::Text("typed".to_owned());
    assert_eq!(ok(&session, request).await, "a,b\nreport\nstaged\ndeep\n");
    let mut request = sh("cat");
    request.stdin = Stdin::Text("typed ä\n".to_owned());
    assert_eq!(ok(&session, request).await, "typed ä\n");
    // A link in the way is not followed, and the command does not run.
    ok(&session, sh("ln -s /tmp hop")).await;
    let mut request = sh("echo ran > ran");
    request.inputs = vec![input("hop/x", "x", false)];
    assert!(session.run(request).await.is_err());
    assert_eq!(ok(&session, sh("ls -A /tmp; ls ran 2>/dev/null; true")).await, "");
    end(engine).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_that_cannot_be_right_are_refused_before_anything_happens() {
    let lab = Lab::new();
    let engine = lab.engine().await;
    let session = engine.open_session(SessionOptions::default()).await.unwrap();
    let refused = [
        ExecRequest::new(CommandLine::Argv(Vec::new())),
        ExecRequest::new(CommandLine::Argv(vec![String::new()])),
        ExecRequest::new(CommandLine::Argv(vec!["a\0b".to_owned()])),
        crate::lab::collecting(sh("echo ran > ran"), &["out/[a"]),
        crate::lab::collecting(sh("echo ran > ran"), &["../*"]),
    ];
    for request in refused {
        let error = session.run(request.clone()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidRequest, "{request:?}: {error}");
    }
    let mut request = sh("echo ran > ran");
    request.limits.memory_bytes = Some(1 << 30);
    assert_eq!(session.run(request).await.unwrap_err().kind(), ErrorKind::InvalidRequest);
    assert_eq!(ok(&session, sh("ls")).await, "out\nruns\nskills\nwork\n");
    end(engine).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f141_f039_what_cannot_be_started_is_a_result() {
    let lab = Lab::new();
    let (engine, session) = lab.greeted().await;
    ok(
        &session,
        in_skill("greeter", "chmod -x scripts/hello.sh; printf '#!/bin/sh\\r\\n' > crlf; chmod +x crlf"),
    )
    .await;
    for (program, code, says) in [
        ("no-such-program", 127, "not found"),
        ("scripts/hello.sh", 126, "chmod +x"),
        ("./crlf", 127, "Windows"),
    ] {
        let mut request = in_skill("greeter", "");
        request.command = CommandLine::Argv(vec![program.to_owned()]);
        let result = crate::lab::collecting(request, &["**"]);
        let result = session.run(result).await.unwrap();
        let End::SpawnFailed { message, .. } = &result.end else { panic!("{program}: {:?}", result.end) };
        assert!(message.contains(says), "{message}");
        assert_eq!(result.end.exit_code(), code);
        assert_eq!(result.stdout.text, "");
    }
    end(engine).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f077_opening_the_sandbox_does_not_count_against_the_command() {
    let lab = Lab::new();
    let engine = lab.engine().await;
    let session = engine.open_session(SessionOptions::default()).await.unwrap();
    let result = session.run(sh("exec sleep 0.05")).await.unwrap();
    assert!(result.end.success());
    assert!(result.usage.wall_ms >= 50, "{:?}", result.usage);
    assert!(
        result.timing_ms.total >= result.timing_ms.open + result.timing_ms.execute,
        "{:?}",
        result.timing_ms
    );
    end(engine).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_can_be_followed_and_cancelled() {
    let lab = Lab::new();
    let engine = lab.engine().await;
    let session = engine.open_session(SessionOptions::default()).await.unwrap();
    let mut execution = session.exec(sh("echo $$ > pid; echo first; exec sleep 300"));
    assert_eq!(execution.next_event().await, Some(ExecEvent::Started));
    assert!(
        matches!(execution.next_event().await, Some(ExecEvent::Output { bytes, .. }) if &bytes[..] == b"first\n")
    );
    execution.cancel();
    let result = execution.result().await.unwrap();
    assert_eq!((result.end, result.stdout.text.as_str()), (End::Cancelled, "first\n"));
    // Dropped: cancelled.
    let mut execution = session.exec(sh("echo $$ > pid; echo again; exec sleep 300"));
    while !matches!(execution.next_event().await, Some(ExecEvent::Output { .. })) {}
    drop(execution);
    let gone = "read pid < pid; test ! -e /proc/$pid || grep -q '^State:.Z' /proc/$pid/status";
    skillbox_testkit::until("the command ends", async || session.run(sh(gone)).await.unwrap().end.success())
        .await;
    // Not followed at all: nothing hangs.
    let result = session.exec(sh("seq 1 200000; exit 4")).result().await.unwrap();
    assert_eq!((result.end, result.stdout.total_bytes), (End::Exited { exit_code: 4 }, 1_288_895));
    end(engine).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f092_long_output_is_cut_once_and_told() {
    let lab = Lab::new();
    let engine = lab.engine().await;
    let session = engine.open_session(SessionOptions::default()).await.unwrap();
    let mut request = sh("seq 1 200000");
    request.limits.output_bytes = Some(1000);
    let result = session.run(request).await.unwrap();
    assert!(result.end.success());
    assert!(result.stdout.truncated && !result.stderr.truncated);
    assert_eq!(result.stdout.total_bytes, 1_288_895);
    assert!(result.stdout.text.starts_with("1\n2\n") && result.stdout.text.ends_with("\n200000\n"));
    assert!(result.stdout.text.contains("[... 1287895 bytes left out ...]"), "{}", result.stdout.text);
    end(engine).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f074_a_timeout_answers_in_time_with_what_there_is() {
    let lab = Lab::new();
    let engine = lab.engine().await;
    let session = engine.open_session(SessionOptions::default()).await.unwrap();
    let mut request = crate::lab::collecting(sh("echo part > out/part.txt; echo said; sleep 60"), &["out/*"]);
    request.timeout = TimeLimit::Ms(400);
    let began = std::time::Instant::now();
    let result = session.run(request).await.unwrap();
    assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
    assert_eq!(result.end, End::TimedOut { limit_ms: 400 });
    assert_eq!(result.stdout.text, "said\n");
    assert_eq!(crate::lab::names(&result), ["out/part.txt"]);
    end(engine).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_of_a_session_run_at_the_same_time() {
    let lab = Lab::new();
    let engine = lab.engine().await;
    let session = engine.open_session(SessionOptions::default()).await.unwrap();
    ok(&session, sh("mkfifo a b")).await;
    let (one, two) = tokio::join!(
        session.run(sh("echo from-one > a; cat b")),
        session.run(sh("cat a; echo from-two > b")),
    );
    assert_eq!(
        (one.unwrap().stdout.text.as_str(), two.unwrap().stdout.text.as_str()),
        ("from-two\n", "from-one\n")
    );
    end(engine).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_executor_is_asked_for_what_it_can_do() {
    let lab = Lab::new();
    let engine = lab.engine().await;
    let isolation = engine.probe().await.unwrap();
    assert!(isolation.level >= IsolationLevel::Namespaces);
    assert_eq!(isolation.executor, "local");
    let error = EngineError::InvalidRequest("x".to_owned());
    assert_eq!(error.kind(), ErrorKind::InvalidRequest);
    end(engine).await;
}
