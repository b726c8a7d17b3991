//! Limits, counters and costs.

use super::*;

#[test]
fn memory_limit_ends_a_process_and_is_told() {
    for use_unified in [true, false] {
        let Some(place) = Place::find(use_unified) else { return };
        assert!(place.tree().controllers().memory.is_some());
        let limit = 48 << 20;
        let session = place.session(CgroupLimits { memory_bytes: Some(limit), ..CgroupLimits::default() });
        let (hungry, honest) = (session.exec_slot().unwrap(), session.exec_slot().unwrap());
        let (before, beside) = (hungry.begin(), honest.begin());
        let mut quiet = Parked::start(&honest, "echo ready; read wait");
        assert_eq!(quiet.line(), "ready");
        // 400 MiB in the shell's own memory.
        let script = "exec python3 -c 'x = bytearray(400 << 20)'";
        let mut eater = Parked::start(&hungry, script);
        assert_eq!(eater.signal(), Some(libc::SIGKILL));
        let usage = hungry.end(&before);
        assert_eq!(usage.oom_kills, Some(1));
        let peak = usage.peak_memory.unwrap();
        assert!(peak > limit / 2 && peak <= limit, "{peak}");
        assert_eq!(honest.end(&beside).oom_kills, Some(0), "it is told who was ended");

        // The next command in the same cgroup starts from nothing.
        let again = hungry.begin();
        let mut small = Parked::start(&hungry, "echo ok");
        assert_eq!(small.line(), "ok");
        let usage = hungry.end(&again);
        assert_eq!(usage.oom_kills, Some(0));
        assert!(usage.peak_memory.unwrap() < 24 << 20, "{usage:?}");
    }
}

#[test]
fn memory_limit_includes_swap_and_changes_both_ways() {
    let Some(place) = Place::find(true) else { return };
    let limits = |memory| CgroupLimits { memory_bytes: memory, ..CgroupLimits::default() };
    let session = place.session(limits(Some(64 << 20)));
    let value = |file: &str| -> Option<u64> {
        session.dirs().iter().find_map(|dir| fs::read_to_string(dir.join(file)).ok())?.trim().parse().ok()
    };
    if place.tree().controllers().memory != Some(Provider::V1) {
        println!("left out: memory is not on v1 here");
        return;
    }
    for megabytes in [64, 256, 32, 33, 512] {
        session.set_limits(&limits(Some(megabytes << 20))).unwrap();
        assert_eq!(value("memory.limit_in_bytes"), Some(megabytes << 20));
        if place.tree().controllers().swap {
            assert_eq!(value("memory.memsw.limit_in_bytes"), Some(megabytes << 20));
        }
    }
    session.set_limits(&limits(None)).unwrap();
    assert!(value("memory.limit_in_bytes").unwrap() > 1 << 60);

    // A limit below what is in use, and cannot be taken away, is refused.
    let exec = session.exec_slot().unwrap();
    let mut big = Parked::start(
        &exec,
        "exec python3 -c 'x = bytearray(b\"1\") * (40 << 20); import time; print(\"ready\", flush=True); time.sleep(600)'",
    );
    assert_eq!(big.line(), "ready");
    let refused = session.set_limits(&limits(Some(1 << 20)));
    println!("lowering to 1 MiB under 40 MiB in use: {refused:?}");
    assert!(matches!(refused, Err(CgroupError::LimitBelowUsage { limit }) if limit == 1 << 20));
}

#[test]
fn pids_limit_holds_for_the_whole_session() {
    let Some(place) = Place::find(true) else { return };
    let session = place.session(CgroupLimits { pids: Some(6), ..CgroupLimits::default() });
    let (one, two) = (session.exec_slot().unwrap(), session.exec_slot().unwrap());
    let script = "import os, time\nn = 0\ntry:\n  while os.fork(): n += 1\n  else: time.sleep(60)\nexcept BlockingIOError: print(n, flush=True); time.sleep(60)";
    let mut first = Parked::start(&one, &format!("exec python3 -c '{script}'"));
    assert_eq!(first.line(), "5");
    assert_eq!(session.pids_in_use().unwrap(), Some(6));
    one.kill_all(Signal::KILL, LONG).unwrap();
    first.signal();
    until("the zombies' end", || session.pids_in_use().unwrap() == Some(0));
    let mut second = Parked::start(&two, &format!("exec python3 -c '{script}'"));
    assert_eq!(second.line(), "5");
}

#[test]
fn cpu_time_is_counted_for_the_whole_tree() {
    for use_unified in [true, false] {
        let Some(place) = Place::find(use_unified) else { return };
        let session = place.session(CgroupLimits::default());
        let exec = session.exec_slot().unwrap();
        let burn = "exec python3 -c 'import os, time\nif os.fork(): os.wait()\nend = time.process_time() + 0.2\nwhile time.process_time() < end: pass\nprint(\"done\", flush=True)'";
        for _ in 0..2 {
            let begin = exec.begin();
            let mut busy = Parked::start(&exec, burn);
            busy.0.wait().unwrap();
            let cpu = exec.end(&begin).cpu.unwrap();
            assert!(cpu >= Duration::from_millis(390) && cpu < Duration::from_secs(3), "{cpu:?}");
        }
    }
}

#[test]
fn sessions_do_not_disturb_each_other() {
    let Some(place) = Place::find(true) else { return };
    let tree = place.tree();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..5 {
                    let session =
                        tree.session(&CgroupLimits { pids: Some(50), ..CgroupLimits::default() }).unwrap();
                    let exec = session.exec_slot().unwrap();
                    let mut shell = Parked::start(&exec, "sleep 600 & echo ready; wait");
                    assert_eq!(shell.line(), "ready");
                    assert_eq!(exec.pids().unwrap().len(), 2);
                    let killed = exec.kill_all(Signal::KILL, LONG).unwrap();
                    assert_eq!((killed.signalled, killed.survivors), (2, Vec::new()));
                }
            });
        }
    });
}

#[test]
fn ordinary_user_without_delegation_is_told_what_helps() {
    // SAFETY: no arguments, cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        println!("left out: becomes an ordinary user itself, which needs root");
        return;
    }
    let _alone = alone();
    std::thread::spawn(|| {
        // SAFETY: plain numbers; the raw call changes this thread's credentials alone.
        assert_eq!(unsafe { libc::syscall(libc::SYS_setresuid, 65534, 65534, 65534) }, 0);
        let error = CgroupTree::probe(&CgroupConfig::default()).unwrap_err();
        println!("{error}");
        assert!(matches!(error.step, Step::MakeDirectory | Step::EnableControllers), "{error}");
        assert_eq!(error.errno(), Some(libc::EACCES));
        assert!(error.remedy.contains("Delegate="));
    })
    .join()
    .unwrap();
}

#[test]
fn costs() {
    for use_unified in [true, false] {
        let Some(place) = Place::find(use_unified) else { return };
        println!("{:?}", place.tree().controllers());
        let begin = Instant::now();
        let session =
            place.session(CgroupLimits { memory_bytes: Some(64 << 20), pids: Some(80), cpu_millis: None });
        let made = begin.elapsed();
        let begin = Instant::now();
        let exec = session.exec_slot().unwrap();
        println!("session {made:?}, new slot {:?}", begin.elapsed());
        let mut shell = Parked::start(&exec, "for i in 1 2 3 4 5 6 7; do sleep 600 & done; echo ready; wait");
        assert_eq!(shell.line(), "ready");
        let per = |work: &dyn Fn()| {
            let begin = Instant::now();
            (0..1000).for_each(|_| work());
            begin.elapsed() / 1000
        };
        let pids = per(&|| assert_eq!(exec.pids().unwrap().len(), 8));
        let begins = per(&|| {
            std::hint::black_box(exec.begin());
        });
        let counters = exec.begin();
        let ends = per(&|| assert!(exec.end(&counters).cpu.is_some()));
        println!("pids of 8 {pids:?}, begin {begins:?}, end {ends:?}");
        assert!(pids < Duration::from_millis(1));
        exec.kill_all(Signal::KILL, LONG).unwrap();
        let empty = per(&|| assert!(exec.is_empty().unwrap()));
        println!("is_empty {empty:?}");
        let idle = Duration::from_millis(80);
        let mut late = Vec::new();
        for _ in 0..5 {
            let child = Command::new("sleep").arg("600").spawn().map(Parked).unwrap();
            std::thread::sleep(idle); // what is measured is a write after idling
            let begin = Instant::now();
            exec.attach(i32::try_from(child.0.id()).unwrap()).unwrap();
            late.push(begin.elapsed());
        }
        println!("attach after 80 ms of idling {late:?} in {} hierarchies", exec.dirs().count());
        exec.kill_all(Signal::KILL, LONG).unwrap();
    }
    assert!(Path::new("/proc/self").exists());
}
