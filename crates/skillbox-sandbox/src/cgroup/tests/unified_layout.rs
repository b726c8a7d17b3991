//! What is written where on cgroup v2, on made-up files.

use std::{fs, path::Path, time::Duration};

use super::fake;
use crate::cgroup::{CgroupLimits, CgroupTree, Controllers, Provider, Signal, Step};

fn content(dir: &Path, file: &str) -> String {
    fs::read_to_string(dir.join(file)).unwrap().split('\n').next().unwrap().to_owned()
}

#[test]
fn limits_go_to_the_session_and_processes_to_leaves() {
    let root = tempfile::tempdir().unwrap();
    let tree = CgroupTree::probe(&fake::host(root.path())).unwrap();
    let v2 = Some(Provider::V2);
    assert_eq!(tree.controllers(), Controllers { memory: v2, swap: true, pids: v2, cpu: v2, kill: true });
    let engine = tree.dirs().next().unwrap().to_owned();
    assert!(engine.starts_with(root.path().join("mount/unit")));
    // Controllers are handed down to where limits are, and one step further, to be counted there.
    for dir in [root.path().join("mount/unit"), engine.clone()] {
        assert_eq!(content(&dir, "cgroup.subtree_control"), "+cpu +memory +pids");
    }

    let limits = CgroupLimits { memory_bytes: Some(512 << 20), pids: Some(64), cpu_millis: Some(1500) };
    let session = tree.session(&limits).unwrap();
    let dir = session.dirs().remove(0);
    assert_eq!(content(&dir, "cgroup.subtree_control"), "+cpu +memory +pids");
    assert_eq!(content(&dir, "memory.max"), "536870912");
    assert_eq!(content(&dir, "memory.swap.max").trim_end_matches("ax"), "0");
    assert_eq!(content(&dir, "pids.max").trim_end_matches('x'), "64");
    assert_eq!(content(&dir, "cpu.max"), "150000 100000");

    let exec = session.exec_slot().unwrap();
    let leaf = exec.dirs().next().unwrap().to_owned();
    assert_eq!(leaf, dir.join("e1"));
    assert!(exec.unified_dir().is_some());
    exec.attach(77).unwrap();
    assert_eq!(content(&leaf, "cgroup.procs"), "77");
    // A leaf has no limit and hands nothing down.
    assert_eq!(content(&leaf, "memory.max"), "max");
    assert_eq!(content(&leaf, "cgroup.subtree_control"), "");
    fs::write(leaf.join("cgroup.procs"), "").unwrap();
    let init = session.init_slot().unwrap();
    assert_eq!(init.dirs().next().unwrap(), dir.join("init"));

    drop((exec, init, session, tree));
    assert!(!engine.exists());
}

#[test]
fn usage_is_the_difference_to_the_beginning() {
    let root = tempfile::tempdir().unwrap();
    let tree = CgroupTree::probe(&fake::host(root.path())).unwrap();
    let session = tree.session(&CgroupLimits::default()).unwrap();
    let exec = session.exec_slot().unwrap();
    let leaf = exec.dirs().next().unwrap().to_owned();
    fs::write(leaf.join("cpu.stat"), "usage_usec 1000\n").unwrap();
    fs::write(leaf.join("memory.events"), "oom 3\noom_kill 2\n").unwrap();
    let begin = exec.begin();
    fs::write(leaf.join("cpu.stat"), "usage_usec 251000\nuser_usec 1\n").unwrap();
    fs::write(leaf.join("memory.events"), "oom 9\noom_kill 3\noom_group_kill 0\n").unwrap();
    fs::write(leaf.join("memory.peak"), "99999\n").unwrap();
    let usage = exec.end(&begin);
    assert_eq!(usage.cpu, Some(Duration::from_millis(250)));
    assert_eq!(usage.oom_kills, Some(1));
    assert_eq!(usage.peak_memory, Some(99999));
    assert_eq!(usage.memory_at_begin, Some(4096));
}

#[test]
fn kill_writes_to_cgroup_kill() {
    let root = tempfile::tempdir().unwrap();
    let tree = CgroupTree::probe(&fake::host(root.path())).unwrap();
    let session = tree.session(&CgroupLimits::default()).unwrap();
    let exec = session.exec_slot().unwrap();
    let leaf = exec.dirs().next().unwrap().to_owned();
    // Numbers above the kernel's maximum (2^22), which no process has: nobody may be hit whatever this test does.
    fs::write(leaf.join("cgroup.procs"), "2000000001\n2000000002\n").unwrap();
    let killed = exec.kill_all(Signal::KILL, Duration::from_secs(5)).unwrap();
    assert_eq!(killed.signalled, 2);
    assert_eq!(content(&leaf, "cgroup.kill"), "1");
    let killed = exec.kill_all(Signal::TERM, Duration::ZERO).unwrap();
    assert_eq!(killed.signalled, 0);
    fs::write(leaf.join("cgroup.procs"), "").unwrap();
}

#[test]
fn missing_controllers_are_told() {
    let root = tempfile::tempdir().unwrap();
    let config = fake::host(root.path());
    fs::write(root.path().join("mount/unit/cgroup.controllers"), "hugetlb\n").unwrap();
    let error = CgroupTree::probe(&config).unwrap_err();
    assert_eq!((error.step, error.errno()), (Step::FindControllers, Some(libc::ENOENT)));

    fs::write(root.path().join("mount/unit/cgroup.controllers"), "pids\n").unwrap();
    let tree = CgroupTree::probe(&config).unwrap();
    assert_eq!(tree.controllers().memory, None);
    assert_eq!(tree.controllers().pids, Some(Provider::V2));
    drop(tree);

    fs::write(root.path().join("mountinfo"), "").unwrap();
    let error = CgroupTree::probe(&config).unwrap_err();
    assert_eq!(error.step, Step::FindHierarchies);
    // Nothing half-made is left.
    let left = fs::read_dir(root.path().join("mount/unit")).unwrap().flatten();
    assert_eq!(left.filter(|entry| entry.path().is_dir()).count(), 0);
}
