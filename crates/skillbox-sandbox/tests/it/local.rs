//! What the local executor does beyond the contract.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use skillbox_executor::ExecutorError;
use skillbox_sandbox::{LocalConfig, LocalExecutor};
use skillbox_testkit::contract::{Harness, run, run_alone};
use skillbox_types::{IsolationLevel, Limits, MechanismState};

use crate::contract::{local, setup};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_probe_tells_of_every_mechanism() {
    let setup = local().await;
    let isolation = setup.executor.probe().await.unwrap();
    assert_eq!((isolation.executor.as_str(), setup.executor.name()), ("local", "local"));
    assert!(isolation.level >= IsolationLevel::Namespaces);
    let mut names: Vec<_> = isolation.mechanisms.iter().map(|mechanism| mechanism.name.as_str()).collect();
    for needed in [
        "user_namespace",
        "mount_namespace",
        "pid_namespace",
        "network_namespace",
        "seccomp",
        "no_new_privs",
        "capabilities",
    ] {
        assert!(names.contains(&needed), "{names:?}");
    }
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), isolation.mechanisms.len());
    for mechanism in &isolation.mechanisms {
        if let MechanismState::Missing { reason, remedy } = &mechanism.state {
            println!("left out: {}: {reason}", mechanism.name);
            assert!(
                !reason.is_empty() && remedy.as_ref().is_some_and(|text| !text.is_empty()),
                "{mechanism:?}"
            );
        }
    }
    // A sandbox says the same.
    let harness = Harness::open(setup, Limits::default()).await;
    assert_eq!(**harness.sandbox().isolation(), isolation);
    harness.sandbox().close().await.unwrap();
    harness.executor().shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f105_less_than_the_minimum_is_refused_with_a_remedy() {
    let setup = setup(|config| {
        config.use_cgroups = false;
        config.minimum = IsolationLevel::Full;
    });
    for _ in 0..2 {
        let error = setup.executor.probe().await.unwrap_err();
        let ExecutorError::SandboxUnavailable { minimum, found, failed, remedy } = &error else {
            panic!("{error:?}")
        };
        assert_eq!((*minimum, *found), (IsolationLevel::Full, Some(IsolationLevel::Namespaces)));
        assert!(failed.contains("cgroup") && !remedy.is_empty(), "{error}");
    }
}

#[test]
fn configurations_that_cannot_be_right_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    let config = || LocalConfig::new(dir.path().join("state"), dir.path().join("store"));
    let refused = |config: LocalConfig| LocalExecutor::new(config).unwrap_err().to_string();
    assert!(refused(LocalConfig { uid_base: 0, ..config() }).contains("uid_base"));
    let dirs = [
        "relative",
        "/no/such/dir",
        file.to_str().unwrap(),
        "/",
        "/etc",
        "/proc",
        "/home",
        dir.path().to_str().unwrap(),
        "/usr/../etc",
        "/etc/.",
    ];
    for bad in dirs {
        assert!(refused(LocalConfig { runtime_dirs: vec![bad.into()], ..config() }).contains(bad), "{bad}");
    }
    for weak in [IsolationLevel::Unsandboxed, IsolationLevel::Landlock] {
        assert!(LocalExecutor::new(LocalConfig { minimum: weak, ..config() }).is_err());
    }
    assert!(!dir.path().join("state").exists(), "nothing is made before the first need");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runtime_directories_are_visible_and_read_only() {
    let made = tempfile::tempdir().unwrap();
    // Below /tmp, as a rule: which is another one inside.
    let below_tmp = made.path().join("runtime");
    let candidates = [below_tmp.clone(), PathBuf::from("/opt")];
    fs::create_dir_all(below_tmp.join("bin")).unwrap();
    fs::copy("/bin/true", below_tmp.join("bin/mine")).unwrap();
    for dir in candidates.into_iter().filter(|dir| dir.is_dir()) {
        let mut config = LocalConfig::new(made.path().join("state"), made.path().join("store"));
        fs::create_dir_all(&config.store_dir).unwrap();
        config.runtime_dirs = vec![dir.clone()];
        // To say that it cannot be done is right as well; to leave it out is not.
        let Ok(executor) = LocalExecutor::new(config) else { continue };
        let setup = skillbox_testkit::contract::Setup { executor: Arc::new(executor), keep: Box::new(()) };
        let script = format!(
            "d={}; test -d $d || exit 3; (: > $d/x) 2>/dev/null && exit 4; test ! -d $d/bin || test ! -e $d/bin/mine || $d/bin/mine",
            dir.display()
        );
        run(async || setup, async |h: &Harness| drop(h.sh(&script).await.expect_code(0))).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_workspace_that_cannot_be_used_leaves_nothing_half_made() {
    run(local, async |h: &Harness| {
        let (good, dir) = h.spec_of_another();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&good.workspace, &link).unwrap();
        for workspace in [dir.path().join("none"), dir.path().join("none/below"), "/dev/null".into()] {
            let mut spec = good.clone();
            spec.owned = vec![workspace.clone(), spec.home.clone()];
            spec.workspace = workspace;
            assert!(h.executor().open(spec).await.is_err());
        }
        for _ in 0..20 {
            h.executor().open(good.clone()).await.unwrap().close().await.unwrap();
        }
        h.assert_usable().await;
    })
    .await;
}

/// The processes that this one has started.
fn children() -> Vec<i32> {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    let lists = tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("children")).ok());
    lists
        .flat_map(|list| list.split_whitespace().map(|pid| pid.parse().unwrap()).collect::<Vec<_>>())
        .collect()
}

fn runs(mark: &str) -> bool {
    let lines =
        fs::read_dir("/proc").unwrap().filter_map(|entry| fs::read(entry.ok()?.path().join("cmdline")).ok());
    lines.into_iter().any(|line| String::from_utf8_lossy(&line).contains(mark))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_survives_a_launcher_that_was_killed() {
    run_alone(local, async |h: &Harness| {
        let mark = format!("4321.{}", std::process::id());
        let running = h.spawn(
            h.sh_plan(&format!("setsid sleep {mark} & echo x > started; wait")),
            tokio_util::sync::CancellationToken::new(),
        );
        h.until_written("started").await;
        skillbox_testkit::until("the command runs", async || runs(&mark)).await;
        for pid in children() {
            let _ =
                nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGKILL);
        }
        let outcome = running.await.unwrap();
        assert!(matches!(outcome.end, skillbox_types::End::SandboxLost { .. }), "{:?}", outcome.end);
        h.sandbox().lost().await;
        skillbox_testkit::until("its processes are gone", async || !runs(&mark)).await;
        // The executor starts another launcher.
        let another = h.another().await;
        another.assert_usable().await;
        another.sandbox().close().await.unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sandboxes_that_are_dropped_leave_nothing() {
    run_alone(local, async |h: &Harness| {
        let descriptors = || fs::read_dir("/proc/self/fd").unwrap().count();
        let mark = format!("4322.{}", std::process::id());
        for round in 0..30 {
            let another = h.another().await;
            let cancel = tokio_util::sync::CancellationToken::new();
            let running =
                another.spawn(another.sh_plan(&format!("echo x > started; exec sleep {mark}")), cancel);
            another.until_written("started").await;
            if round % 2 == 0 {
                another.sandbox().close().await.unwrap();
            }
            running.abort();
            let _ = running.await;
        }
        skillbox_testkit::until("their processes are gone", async || !runs(&mark)).await;
        h.assert_usable().await;
        skillbox_testkit::until("their descriptors are closed", async || descriptors() < 40).await;
    })
    .await;
}
