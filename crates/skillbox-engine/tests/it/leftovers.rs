//! What is left when a session, an engine or its process ends: nothing.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use skillbox_engine::SessionOptions;
use skillbox_testkit::until_blocking;

use crate::lab::{Lab, end, greeter, in_skill, named, ok, sh};

/// Set in the process that is killed: where its engine keeps its state.
const VICTIM: &str = "SKILLBOX_TEST_VICTIM";

/// Processes whose command line holds `text`.
fn processes_with(text: &str) -> Vec<String> {
    let entries = fs::read_dir("/proc").unwrap();
    let lines = entries.filter_map(|entry| fs::read(entry.ok()?.path().join("cmdline")).ok());
    lines.map(|line| String::from_utf8_lossy(&line).into_owned()).filter(|line| line.contains(text)).collect()
}

/// The cgroups that an engine of this process number made.
fn cgroups_of(pid: u32) -> Vec<PathBuf> {
    let prefix = format!("skillbox-{pid}-");
    let mut found = Vec::new();
    let mut waiting = vec![PathBuf::from("/sys/fs/cgroup")];
    while let Some(dir) = waiting.pop() {
        let Ok(entries) = fs::read_dir(&dir) else { continue };
        for entry in entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
            if entry.file_name().to_string_lossy().starts_with(&prefix) {
                found.push(entry.path());
            } else {
                waiting.push(entry.path());
            }
        }
    }
    found
}

fn mounts_below(path: &Path) -> Vec<String> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    mounts.lines().filter(|line| line.contains(path.to_str().unwrap())).map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_closed_session_leaves_nothing() {
    let lab = Lab::new();
    let (engine, session) = lab.greeted().await;
    // Something that is found on the host by its command line.
    let mark = format!("54321.{}", std::process::id());
    let running = {
        let (session, mark) = (session.clone(), mark.clone());
        tokio::spawn(async move { session.run(sh(&format!("echo x > started; exec sleep {mark}"))).await })
    };
    skillbox_testkit::until("the command runs", async || !processes_with(&mark).is_empty()).await;
    ok(&session, in_skill("greeter", "echo x > new")).await;
    session.close().await.unwrap();
    assert_eq!(processes_with(&mark), Vec::<String>::new());
    assert_eq!(lab.entries("sessions"), Vec::<String>::new());
    assert_eq!(mounts_below(lab.state()), Vec::<String>::new());
    let _ = running.await.unwrap();
    end(engine).await;
    assert_eq!(lab.entries("trash"), Vec::<String>::new());
    let left: Vec<_> = fs::read_dir(lab.state()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().starts_with("probe-")), "{left:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_engine_that_was_shut_down_leaves_nothing_in_its_process() {
    skillbox_testkit::alone(async || {
        let descriptors = || fs::read_dir("/proc/self/fd").unwrap().count();
        let before = descriptors();
        let lab = Lab::new();
        for _ in 0..3 {
            let (engine, session) = lab.greeted().await;
            ok(&session, in_skill("greeter", "echo x > new; setsid sleep 60 & true")).await;
            let unclosed = engine.open_session(SessionOptions::default()).await.unwrap();
            ok(&unclosed, sh("true")).await;
            if cgroups_of(std::process::id()).is_empty() {
                println!("left out: cgroups of an engine: there are none here");
            }
            session.close().await.unwrap();
            end(engine).await;
        }
        skillbox_testkit::until("its cgroups are gone", async || cgroups_of(std::process::id()).is_empty())
            .await;
        skillbox_testkit::until("its descriptors are closed", async || descriptors() <= before + 6).await;
        skillbox_testkit::until("its processes are gone", async || children().is_empty()).await;
        assert_eq!(mounts_below(lab.state()), Vec::<String>::new());
        // The session that nobody closed waits for the next engine.
        end(lab.engine().await).await;
        assert_eq!((lab.entries("sessions"), lab.entries("trash")), (Vec::new(), Vec::new()));
    })
    .await;
}

/// The processes that this one has started.
fn children() -> Vec<String> {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    let lists = tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("children")).ok());
    lists.flat_map(|list| list.split_whitespace().map(str::to_owned).collect::<Vec<_>>()).collect()
}

/// Not a test of its own: the process that the next test kills.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn victim() {
    let Some(dir) = std::env::var_os(VICTIM) else { return };
    skillbox_testkit::init();
    let dir = PathBuf::from(dir);
    let (state, skills) = (dir.join("state"), dir.join("skills"));
    let config = skillbox_sandbox::LocalConfig::new(&state, skillbox_engine::Engine::store_dir(&state));
    let executor = std::sync::Arc::new(skillbox_sandbox::LocalExecutor::new(config).unwrap());
    let engine = skillbox_engine::Engine::builder(&state, executor).skills([skills]).build().await.unwrap();
    let unnamed = engine.open_session(SessionOptions::default()).await.unwrap();
    unnamed.load("greeter").await.unwrap();
    let kept = engine.open_session(named("kept")).await.unwrap();
    kept.load("greeter").await.unwrap();
    ok(&kept, in_skill("greeter", "echo mine > data.csv")).await;
    let mark = std::process::id();
    let (one, two) =
        (format!("echo x; exec sleep 7654.{mark}"), format!("setsid sleep 7655.{mark} & echo x; wait"));
    let mut executions = [unnamed.exec(sh(&one)), kept.exec(sh(&two))];
    for execution in &mut executions {
        while !matches!(execution.next_event().await, Some(skillbox_engine::ExecEvent::Output { .. })) {}
    }
    println!("victim is ready");
    std::future::pending::<()>().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f069_nothing_survives_an_engine_that_was_killed() {
    let lab = Lab::new();
    lab.write(&greeter());
    let mut victim = Command::new(std::env::current_exe().unwrap())
        .args(["leftovers::victim", "--exact", "--nocapture"])
        .env(VICTIM, lab.path(""))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let pid = victim.id();
    let mut lines = BufReader::new(victim.stdout.take().unwrap()).lines();
    assert!(
        lines.any(|line| line.unwrap().contains("victim is ready")),
        "the victim ended before it was ready"
    );
    let marks = [format!("7654.{pid}"), format!("7655.{pid}")];
    for mark in &marks {
        until_blocking("the victim's commands run", || !processes_with(mark).is_empty());
    }
    let had_cgroups = !cgroups_of(pid).is_empty();
    victim.kill().unwrap();
    victim.wait().unwrap();
    for mark in &marks {
        until_blocking("the victim's commands are gone", || processes_with(mark).is_empty());
    }
    assert_eq!(lab.entries("sessions").len(), 2);
    let engine = lab.engine().await;
    assert_eq!((lab.entries("sessions"), lab.entries("trash")), (vec!["kept".to_owned()], Vec::new()));
    let session = engine.open_session(named("kept")).await.unwrap();
    session.load("greeter").await.unwrap();
    assert_eq!(
        ok(&session, in_skill("greeter", "cat data.csv; scripts/hello.sh x")).await,
        "mine\nhello x\n"
    );
    if had_cgroups {
        until_blocking("the victim's cgroups are gone", || cgroups_of(pid).is_empty());
    } else {
        println!("left out: cgroups of a killed engine: there are none here");
    }
    end(engine).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_of_a_living_engine_are_left_alone() {
    let lab = Lab::new();
    let (engine, session) = lab.greeted().await;
    ok(&session, sh("echo x > file")).await;
    let other = lab.engine().await;
    assert_eq!(ok(&session, sh("cat file")).await, "x\n");
    assert_eq!(lab.entries("sessions").len(), 1);
    end(other).await;
    assert_eq!(ok(&session, in_skill("greeter", "cat ../../file; scripts/hello.sh x")).await, "x\nhello x\n");
    end(engine).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_state_folder_is_closed_to_others() {
    use std::os::unix::fs::PermissionsExt as _;
    let lab = Lab::new();
    let (engine, session) = lab.greeted().await;
    ok(&session, sh("chmod 777 . ; umask 0; echo x > open")).await;
    assert_eq!(fs::metadata(lab.state()).unwrap().permissions().mode() & 0o777, 0o700);
    let sessions = fs::read_dir(lab.state().join("sessions")).unwrap();
    for session in sessions {
        assert_eq!(session.unwrap().metadata().unwrap().permissions().mode() & 0o777, 0o700);
    }
    end(engine).await;
}
