//! Limits of processes and of the sandbox as a whole.

use std::time::Duration;

use skillbox_types::{End, Limit};

use super::Harness;
use crate::misbehave;

pub async fn f098_the_program_runs_out_of_memory(h: &Harness) {
    let ran = h.python(&misbehave::allocate(400)).await;
    if h.is_full() {
        assert_eq!(*ran.end(), End::OomKilled, "{}", ran.stderr());
        assert_eq!(ran.end().exit_code(), 137);
        let peak = ran.outcome.usage.peak_memory_bytes.unwrap();
        assert!((64 << 20..=h.limits().memory_bytes + (8 << 20)).contains(&peak), "{peak}");
    } else {
        // A limit of each process: its allocations fail, and it may say so itself.
        assert_eq!((ran.end(), ran.stdout().as_str()), (&End::Exited { exit_code: 9 }, "refused\n"));
    }
    let after = h.sh("exit 0").await;
    assert!(after.end().success() && after.outcome.warnings.is_empty(), "{:?}", after.outcome);
}

pub async fn f098_a_child_runs_out_of_memory(h: &Harness) {
    if !h.is_full_or_say("memory of a command's children") {
        return;
    }
    let script = format!("{} -c \"{}\"; echo $?", misbehave::PYTHON, misbehave::allocate(400));
    let ran = h.sh(&script).await.expect_code(0);
    assert_eq!(ran.stdout(), "137\n", "{}", ran.stderr());
    assert!(ran.has_warning("oom_in_tree"), "{:?}", ran.outcome.warnings);
}

pub async fn f098_137_alone_is_not_a_lack_of_memory(h: &Harness) {
    let ran = h.sh("exit 137").await.expect_code(137);
    assert!(ran.outcome.warnings.is_empty(), "{:?}", ran.outcome.warnings);
    let ran = h.sh("kill -9 $$").await;
    assert_eq!(*ran.end(), End::Signaled { signal: 9, signal_name: "SIGKILL".to_owned() });
    let ran = h.sh("/bin/sh -c 'kill -9 $$'; exit 3").await.expect_code(3);
    assert!(ran.outcome.warnings.is_empty(), "{:?}", ran.outcome.warnings);
}

pub async fn memory_is_limited_in_all(h: &Harness) {
    if !h.is_full_or_say("memory of several processes together") {
        return;
    }
    // Each is within the limit, all of them are not.
    let script = format!(
        "for i in 1 2 3 4 5 6; do {} -c \"{}; import time; time.sleep(5)\" & done; wait",
        misbehave::PYTHON,
        misbehave::allocate(60).trim_end()
    );
    let ran = h.sh(&script).await;
    assert!(*ran.end() == End::OomKilled || ran.has_warning("oom_in_tree"), "{:?}", ran.outcome);
}

pub async fn processes_are_limited(h: &Harness) {
    let ran = h.python(&misbehave::fork_until_refused(200)).await.expect_code(0);
    let count: u64 = ran.stdout().lines().last().unwrap().parse().unwrap();
    // The supervisor's own count, too: some more must be possible, and many more must not.
    assert!((20..=h.limits().pids + 12).contains(&count), "{count} {}", ran.stdout());
    assert!(ran.stdout().contains("Resource temporarily unavailable"), "{}", ran.stdout());
    h.assert_usable().await;
}

pub async fn f097_processes_outside_do_not_count(h: &Harness) {
    let mut others: Vec<_> =
        (0..100).map(|_| std::process::Command::new("/bin/sleep").arg("60").spawn().unwrap()).collect();
    let ran = h.sh("/bin/true | /bin/true | /bin/true; echo $?").await;
    for other in &mut others {
        other.kill().unwrap();
        other.wait().unwrap();
    }
    assert_eq!(ran.ok(), "0\n");
}

pub async fn the_size_of_a_file_is_limited(h: &Harness) {
    let mut plan = h.sh_plan("exec head -c 3000000 /dev/zero > large");
    plan.limits.file_size_bytes = 1 << 20;
    let ran = h.run(plan).await;
    assert_eq!(*ran.end(), End::LimitExceeded { limit: Limit::FileSize });
    assert_eq!(h.sh("stat -c %s large").await.ok(), "1048576\n");
    // Pipes are no files.
    let mut plan = h.sh_plan("head -c 3000000 /dev/zero | wc -c");
    plan.limits.file_size_bytes = 1 << 20;
    assert_eq!(h.run(plan).await.ok(), "3000000\n");
}

pub async fn open_files_are_limited(h: &Harness) {
    let script = "import os\nfds = []\ntry:\n    while len(fds) < 500: fds.append(os.open('/dev/null', 0))\n\
                  except OSError as error: print(error.strerror)\nprint(len(fds))\n";
    let mut plan = h.python_plan(script);
    plan.limits.open_files = 32;
    let output = h.run(plan).await.ok();
    let (said, count) = output.trim().split_once('\n').unwrap();
    assert_eq!(said, "Too many open files");
    assert!((25..32).contains(&count.parse::<u32>().unwrap()), "{count}");
}

pub async fn cpu_time_is_limited(h: &Harness) {
    for script in ["while :; do :; done", "trap '' XCPU; while :; do :; done"] {
        let mut plan = h.sh_plan(script);
        plan.limits.cpu_time = Some(Duration::from_secs(1));
        let ran = h.run(plan).await;
        assert_eq!(
            *ran.end(),
            End::LimitExceeded { limit: Limit::CpuTime },
            "{script} {:?}",
            ran.outcome.usage
        );
        assert!(ran.outcome.usage.cpu_ms >= 800, "{:?}", ran.outcome.usage);
    }
}

pub async fn limits_cannot_be_raised(h: &Harness) {
    let script = "for limit in n f t; do value=$(ulimit -H -$limit); [ $value = unlimited ] && echo $limit is unlimited; \
                  (ulimit -$limit unlimited) 2>/dev/null && echo $limit was raised; done; ulimit -c; \
                  echo -1000 2>/dev/null > /proc/self/oom_score_adj && echo oom; nice -n -5 true 2>&1 | grep -c . ";
    let ran = h.sh(script).await;
    assert_eq!(ran.stdout(), "0\n1\n", "{}", ran.stderr());
}

pub async fn no_core_is_dumped(h: &Harness) {
    let ran = h.sh("ulimit -c unlimited 2>/dev/null; kill -SEGV $$").await;
    assert_eq!(ran.end().exit_code(), 139);
    assert_eq!(h.sh("ls").await.ok(), "runs\n");
}

pub async fn memory_filesystems_are_limited(h: &Harness) {
    for (dir, limit) in [("/tmp", h.limits().tmp_bytes), ("/dev/shm", h.limits().shm_bytes)] {
        let script = format!(
            "head -c {} /dev/zero > {dir}/fill 2>/dev/null; stat -c %s {dir}/fill; rm {dir}/fill",
            limit + (1 << 20)
        );
        let size: u64 = h.sh(&script).await.ok().trim().parse().unwrap();
        assert!(size <= limit && size + 8192 >= limit, "{dir}: {size} of {limit}");
    }
    let script =
        "i=0; while [ $i -lt 40000 ] && : > /tmp/$i; do i=$((i+1)); done 2>/dev/null; echo $i; rm -rf /tmp/*";
    let made: u32 = h.sh(script).await.stdout().trim().parse().unwrap_or(0);
    assert!(made < 40_000, "{made} files in /tmp");
    h.assert_usable().await;
}

pub async fn usage_is_measured(h: &Harness) {
    let ran = h.python("import time\nheld = b'x' * (40 << 20)\nend = time.process_time() + 0.3\nwhile time.process_time() < end: pass").await;
    let ran = ran.expect_code(0);
    let usage = ran.outcome.usage;
    assert!((300..5000).contains(&usage.wall_ms), "{usage:?}");
    assert!((280..2000).contains(&usage.cpu_ms), "{usage:?}");
    assert!((30 << 20..200 << 20).contains(&usage.peak_memory_bytes.unwrap()), "{usage:?}");
    // Each command has an account of its own.
    let usage = h.sh(":").await.outcome.usage;
    assert!(usage.cpu_ms < 200, "{usage:?}");
    assert!(usage.peak_memory_bytes.unwrap() < 30 << 20, "{usage:?}");
}
