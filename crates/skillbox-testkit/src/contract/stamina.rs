//! Many commands: one after another, and at once.

use std::sync::Arc;

use skillbox_types::End;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::Harness;

pub async fn f139_five_hundred_exit_codes(h: &Harness) {
    let mut state = 12_345_u32;
    for _ in 0..500 {
        state = state.wrapping_mul(1_103_515_245).wrapping_add(12_345);
        let exit_code = i32::try_from((state >> 16) % 256).unwrap();
        assert_eq!(*h.sh(&format!("exit {exit_code}")).await.end(), End::Exited { exit_code });
    }
}

pub async fn f153_sixteen_at_once_are_not_mixed_up(h: &Harness) {
    let mut running = JoinSet::new();
    for index in 0..16 {
        let script = format!(
            "i=0; while [ $i -lt 500 ]; do echo {index}; echo e{index} >&2; i=$((i+1)); done; cat; exit {index}"
        );
        let mut plan = h.sh_plan(&script);
        plan.stdin = Some(format!("in{index}").into_bytes());
        let sandbox = h.sandbox().clone();
        running
            .spawn(async move { (index, sandbox.exec(plan, None, CancellationToken::new()).await.unwrap()) });
    }
    let mut slots = std::collections::BTreeSet::new();
    while let Some(done) = running.join_next().await {
        let (index, outcome) = done.unwrap();
        assert_eq!(outcome.end, End::Exited { exit_code: index });
        let expected = format!("{}in{index}", format!("{index}\n").repeat(500));
        assert_eq!(outcome.stdout.to_captured(false).text, expected);
        assert_eq!(outcome.stderr.to_captured(false).text, format!("e{index}\n").repeat(500));
        assert!(outcome.warnings.is_empty(), "{:?}", outcome.warnings);
        assert!(slots.insert(outcome.slot));
    }
}

pub async fn f153_sandboxes_are_not_mixed_up(h: &Harness) {
    let mut sandboxes = Vec::new();
    for index in 0..8 {
        let another = h.another().await;
        another.put("marker", index.to_string()).await;
        sandboxes.push(Arc::new(another));
    }
    let mut running = JoinSet::new();
    for round in 0..5 {
        for (index, sandbox) in sandboxes.iter().enumerate() {
            let sandbox = sandbox.clone();
            running
                .spawn(async move { (round, index, sandbox.sh("cat marker; /bin/sleep 0.01").await.ok()) });
        }
    }
    while let Some(done) = running.join_next().await {
        let (_, index, output) = done.unwrap();
        assert_eq!(output, index.to_string());
    }
    for sandbox in sandboxes {
        sandbox.sandbox().close().await.unwrap();
    }
}

pub async fn f088_orphans_are_reaped(h: &Harness) {
    let mut plan = h.python_plan(
        "import os, time\n\
         def fork():\n    while True:\n        try: return os.fork()\n        except BlockingIOError: time.sleep(0.001)\n\
         for _ in range(2000):\n    pid = fork()\n    if pid == 0:\n        fork()\n        os._exit(0)\n    os.waitpid(pid, 0)\n\
         def zombies():\n    count = 0\n    for entry in os.listdir('/proc'):\n        if entry.isdigit():\n            try: count += open(f'/proc/{entry}/stat').read().rsplit(')', 1)[1].split()[0] == 'Z'\n            except OSError: pass\n    return count\n\
         end = time.monotonic() + 10\n\
         while zombies() > 2 and time.monotonic() < end: time.sleep(0.01)\n\
         print(zombies())\n",
    );
    plan.timeout = Some(std::time::Duration::from_mins(1));
    let left: u32 = h.run(plan).await.ok().trim().parse().unwrap();
    assert!(left <= 2, "{left} zombies");
}

/// Runs in a process of its own, since the other cases of this one open files, too.
pub async fn f144_descriptors_do_not_grow_in_a_thousand_commands(h: &Harness) {
    let count = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    for _ in 0..20 {
        h.sh("echo x").await.ok();
    }
    crate::until("the first commands' files are closed", async || count() < 64).await;
    let before = count();
    for round in 0..1000 {
        // Another field report: now and then a command's output was empty.
        assert_eq!(h.sh("echo x").await.ok(), "x\n", "round {round}");
    }
    crate::until("the descriptors are as few as before", async || count() <= before + 2).await;
}
