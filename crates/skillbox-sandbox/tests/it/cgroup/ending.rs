//! Ending processes and removing cgroups.

use std::os::fd::AsFd;

use super::*;

const SPIN: &str =
    "i=0; while [ $i -lt 63 ]; do (while :; do :; done) & i=$((i+1)); done; echo ready; while :; do :; done";

fn kill_64_busy_processes(use_unified: bool) {
    let Some(place) = Place::find(use_unified) else { return };
    // Zombies count until process 1 reaps them, and it is not ours here: room for all rounds.
    let session = place.session(CgroupLimits { pids: Some(1000), ..CgroupLimits::default() });
    let mut times = Vec::new();
    for _ in 0..5 {
        let exec = session.exec_slot().unwrap();
        let mut shell = Parked::start(&exec, SPIN);
        assert_eq!(shell.line(), "ready");
        assert_eq!(exec.pids().unwrap().len(), 64);
        let begin = Instant::now();
        let killed = exec.kill_all(Signal::KILL, LONG).unwrap();
        times.push(begin.elapsed());
        assert_eq!((killed.signalled, killed.survivors), (64, Vec::new()));
        assert!(exec.is_empty().unwrap());
        assert_eq!(shell.signal(), Some(libc::SIGKILL));
        // What is forbidden while killing is allowed again.
        let mut next = Parked::start(&exec, "true & wait; echo ok");
        assert_eq!(next.line(), "ok");
    }
    times.sort_unstable();
    println!("64 busy processes dead after {times:?} (cgroup.kill: {})", place.tree().controllers().kill);
    assert!(times[2] < Duration::from_millis(100), "{times:?}");
}

#[test]
fn busy_processes_are_dead_within_100_ms_by_cgroup_kill() {
    kill_64_busy_processes(true);
}

#[test]
fn busy_processes_are_dead_within_100_ms_one_by_one() {
    kill_64_busy_processes(false);
}

/// Forks whenever it may, and gives up never.
const BOMB: &str = "exec python3 -c 'import os, signal\nfor s in (1, 2, 15): signal.signal(s, signal.SIG_IGN)\n\
                    while True:\n  try: os.fork()\n  except OSError: pass'";

#[test]
fn fork_bomb_is_ended() {
    for use_unified in [true, false] {
        let Some(place) = Place::find(use_unified) else { return };
        let session = place.session(CgroupLimits { pids: Some(200), ..CgroupLimits::default() });
        let exec = session.exec_slot().unwrap();
        let _bomb = Parked::start(&exec, BOMB);
        until("a crowd", || exec.pids().unwrap().len() > 50);
        let begin = Instant::now();
        let killed = exec.kill_all(Signal::KILL, LONG).unwrap();
        println!("fork bomb: {} processes ended in {:?}", killed.signalled, begin.elapsed());
        assert_eq!(killed.survivors, Vec::<i32>::new());
        assert!(exec.is_empty().unwrap());
    }
}

#[test]
fn stopped_and_throttled_processes_die() {
    for use_unified in [true, false] {
        let Some(place) = Place::find(use_unified) else { return };
        let session = place.session(CgroupLimits { cpu_millis: Some(20), ..CgroupLimits::default() });
        let exec = session.exec_slot().unwrap();
        let mut stopped = Parked::start(&exec, "kill -STOP $$");
        let mut busy =
            Parked::start(&exec, "(while :; do :; done) & (while :; do :; done) & while :; do :; done");
        until("three loops", || exec.pids().unwrap().len() == 4);
        let begin = Instant::now();
        let killed = exec.kill_all(Signal::KILL, LONG).unwrap();
        println!("throttled to 2 %: dead in {:?}", begin.elapsed());
        assert!(killed.survivors.is_empty() && begin.elapsed() < Duration::from_secs(1));
        assert_eq!((stopped.signal(), busy.signal()), (Some(libc::SIGKILL), Some(libc::SIGKILL)));
        if place.tree().controllers().cpu == Some(Provider::V1) {
            let dirs = session.dirs();
            let quota =
                dirs.iter().find_map(|dir| fs::read_to_string(dir.join("cpu.cfs_quota_us")).ok()).unwrap();
            assert_eq!(quota.trim(), "2000", "the quota is in force again");
        }
    }
}

#[test]
fn term_is_sent_once_to_all() {
    let Some(place) = Place::find(true) else { return };
    let session = place.session(CgroupLimits::default());
    let exec = session.exec_slot().unwrap();
    let mut polite =
        Parked::start(&exec, "trap 'echo bye; exit 0' TERM; echo ready; while :; do sleep 0.01; done");
    assert_eq!(polite.line(), "ready");
    let mut deaf = Parked::start(&exec, "trap '' TERM; echo ready; while :; do :; done");
    assert_eq!(deaf.line(), "ready");
    let killed = exec.kill_all(Signal::TERM, Duration::ZERO).unwrap();
    assert!(killed.signalled >= 2 && killed.survivors.is_empty());
    assert_eq!(polite.line(), "bye");
    let deaf_pid = i32::try_from(deaf.0.id()).unwrap();
    until("the polite one's end", || exec.pids().unwrap() == [deaf_pid]);
    exec.kill_all(Signal::KILL, LONG).unwrap();
}

#[test]
fn emptied_slot_is_used_again_and_a_dropped_one_is_emptied() {
    let Some(place) = Place::find(true) else { return };
    let session = place.session(CgroupLimits::default());
    let first = session.exec_slot().unwrap();
    let dir = first.dirs().next().unwrap().to_owned();
    let mut left = Parked::start(&first, "echo ready; while :; do :; done");
    assert_eq!(left.line(), "ready");
    drop(first);
    assert_eq!(left.signal(), Some(libc::SIGKILL));
    let second = session.exec_slot().unwrap();
    assert_eq!(second.dirs().next().unwrap(), dir);
    let third = session.exec_slot().unwrap();
    assert_ne!(third.dirs().next().unwrap(), dir);
    let mut gone = Parked::start(&third, "true");
    gone.0.wait().unwrap();
    let error = third.attach(i32::try_from(gone.0.id()).unwrap()).unwrap_err();
    assert_eq!(error.errno(), Some(libc::ESRCH), "{error}");
}

#[test]
fn removing_a_session_with_a_fork_bomb_leaves_nothing() {
    for use_unified in [true, false] {
        let Some(place) = Place::find(use_unified) else { return };
        let session = place.session(CgroupLimits { pids: Some(200), ..CgroupLimits::default() });
        let exec = session.exec_slot().unwrap();
        let _bomb = Parked::start(&exec, BOMB);
        until("a crowd", || exec.pids().unwrap().len() > 50);
        session.remove().unwrap();
        assert!(exec.is_empty().unwrap());
    }
}

#[test]
fn removing_a_session_ends_everything_in_it() {
    let Some(place) = Place::find(true) else { return };
    let session = place.session(CgroupLimits::default());
    let (init, exec) = (session.init_slot().unwrap(), session.exec_slot().unwrap());
    let mut processes =
        [Parked::start(&init, "while :; do :; done"), Parked::start(&exec, "while :; do :; done")];
    let dirs = session.dirs();
    session.remove().unwrap();
    assert!(dirs.iter().all(|dir| !dir.exists()));
    assert!(processes.iter_mut().all(|process| process.signal() == Some(libc::SIGKILL)));
    // What is still held is harmless.
    assert!(exec.is_empty().unwrap() && exec.pids().unwrap().is_empty());
    assert!(exec.kill_all(Signal::KILL, LONG).unwrap().survivors.is_empty());
}

#[test]
fn dead_engines_are_reclaimed_and_living_ones_left_alone() {
    let Some(mut place) = Place::find(true) else { return };
    let living = place.dirs.clone();
    // As an engine that was killed leaves it: its own name, another number, a process still in it.
    let name = living[0].file_name().unwrap().to_str().unwrap().to_owned();
    let parts: Vec<_> = name.split('-').collect();
    let foreign = format!("skillbox-{}-{}-1-{}", parts[1], 7, parts[4]);
    let dead = format!("skillbox-{}-{}-{}-{}", parts[1], 7, parts[3], parts[4]);
    let dirs: Vec<_> = living.iter().map(|dir| dir.parent().unwrap().join(&dead)).collect();
    let foreign: Vec<_> = living.iter().map(|dir| dir.parent().unwrap().join(&foreign)).collect();
    let mut orphan = Command::new("sleep").arg("600").spawn().unwrap();
    for (dead, foreign) in dirs.iter().zip(&foreign) {
        fs::create_dir_all(dead.join("s1/e1")).unwrap();
        fs::create_dir(foreign).unwrap();
        fs::write(dead.join("s1/e1/cgroup.procs"), orphan.id().to_string()).unwrap();
    }
    let second = CgroupTree::probe(&CgroupConfig::default()).unwrap();
    assert_eq!(second.reclaimed().len(), dirs.len());
    assert!(dirs.iter().all(|dir| !dir.exists()));
    assert!(living.iter().chain(&foreign).all(|dir| dir.exists()));
    assert!(!orphan.wait().unwrap().success());
    place.dirs.extend(second.dirs().map(PathBuf::from));
    drop(second);
    for dir in foreign {
        fs::remove_dir(dir).unwrap();
    }
}

#[test]
fn without_time_to_wait_everybody_is_sent_the_signal() {
    for use_unified in [true, false] {
        let Some(place) = Place::find(use_unified) else { return };
        let session = place.session(CgroupLimits::default());
        let exec = session.exec_slot().unwrap();
        let mut busy = Parked::start(&exec, "while :; do :; done");
        assert_eq!(exec.kill_all(Signal::KILL, Duration::ZERO).unwrap().signalled, 1);
        assert_eq!(busy.signal(), Some(libc::SIGKILL));
    }
}

#[test]
fn handle_of_a_reaped_process_attaches_nobody() {
    let Some(place) = Place::find(true) else { return };
    let session = place.session(CgroupLimits::default());
    let exec = session.exec_slot().unwrap();
    let mut child = Command::new("sleep").arg("600").spawn().unwrap();
    let pid = rustix::process::Pid::from_child(&child);
    let handle = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).unwrap();
    exec.attach_handle(handle.as_fd()).unwrap();
    assert_eq!(exec.pids().unwrap(), [pid.as_raw_nonzero().get()]);
    child.kill().unwrap();
    child.wait().unwrap();
    let error = exec.attach_handle(handle.as_fd()).unwrap_err();
    assert_eq!(error.errno(), Some(libc::ESRCH));
    assert!(exec.is_empty().unwrap());
}
