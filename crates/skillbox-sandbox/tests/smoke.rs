//! The local executor, end to end.
#![allow(missing_docs, clippy::unwrap_used, clippy::disallowed_methods, reason = "tests")]

use skillbox_executor::{ExecPlan, Executor as _, SandboxSpec};
use skillbox_sandbox::{LocalConfig, LocalExecutor};
use skillbox_types::{Limits, NetworkPolicy, WorkspacePath};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

fn plan(script: &str) -> ExecPlan {
    ExecPlan {
        argv: ["/bin/sh", "-c", script].map(str::to_owned).to_vec(),
        env: vec![("PATH".into(), "/usr/bin:/bin".into())],
        cwd: WorkspacePath::root(),
        stdin: None,
        timeout: Some(Duration::from_secs(5)),
        grace: Duration::from_millis(50),
        limits: Limits::default(),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runs() {
    skillbox_testkit::init();
    let dir = tempfile::tempdir().unwrap();
    let mk = |n: &str| {
        let p = dir.path().join(n);
        std::fs::create_dir_all(&p).unwrap();
        p
    };
    let executor = LocalExecutor::new(LocalConfig::new(mk("state"), mk("store"))).unwrap();
    let report = executor.probe().await.unwrap();
    println!("{report:#?}");
    let sandbox = executor
        .open(SandboxSpec {
            workspace: mk("ws"),
            home: mk("home"),
            owned: vec![mk("ws"), mk("home")],
            runs: WorkspacePath::new("runs").unwrap(),
            limits: Limits::default(),
            network: NetworkPolicy::None,
            owner: None,
        })
        .await
        .unwrap();
    for script in [
        "id; ls -la / /dev /proc/self/fd; echo hi > f; ls -la; cat /proc/self/cgroup /proc/self/status | grep -iE 'cap|seccomp|nonew|:'; ps aux; mount",
        "sleep 10",
        "sleep 100 & setsid sleep 100 & echo x",
        "kill -9 $$",
        "exit 3",
        "kill -9 -1",
        "echo again",
    ] {
        let t = std::time::Instant::now();
        let mut p = plan(script);
        p.timeout = Some(Duration::from_millis(800));
        let outcome = sandbox.exec(p, None, CancellationToken::new()).await.unwrap();
        println!(
            "--- {script}\n{}\n{}\n{:?} {:?} {:?} in {:?}",
            outcome.stdout.to_captured(false).text,
            outcome.stderr.to_captured(false).text,
            outcome.end,
            outcome.usage,
            outcome.warnings,
            t.elapsed()
        );
    }
    sandbox.close().await.unwrap();
    executor.shut_down().await;
}
