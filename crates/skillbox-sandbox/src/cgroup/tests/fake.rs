//! Directories that look like cgroup v2 with memory, pids and cpu, for what the kernel at hand lacks.
//!
//! Plain files hold what is written to them, from their beginning; nothing is enforced.

use std::{cell::Cell, fs, path::Path};

use crate::cgroup::CgroupConfig;

thread_local! {
    static ON: Cell<bool> = const { Cell::new(false) };
}

const FILES: &[(&str, &str)] = &[
    ("cgroup.controllers", "cpu memory pids\n"),
    ("cgroup.subtree_control", ""),
    ("cgroup.procs", ""),
    ("cgroup.events", "populated 0\nfrozen 0\n"),
    ("cgroup.kill", ""),
    ("cpu.stat", "usage_usec 0\nuser_usec 0\nsystem_usec 0\n"),
    ("cpu.max", "max 100000\n"),
    ("memory.max", "max\n"),
    ("memory.swap.max", "max\n"),
    ("memory.current", "4096\n"),
    ("memory.peak", "8192\n"),
    ("memory.events", "low 0\nhigh 0\nmax 0\noom 0\noom_kill 0\noom_group_kill 0\n"),
    ("pids.max", "max\n"),
    ("pids.current", "0\n"),
];

/// What the kernel does when a directory is made.
pub(in crate::cgroup) fn populate(dir: &Path) {
    if ON.get() {
        for (name, content) in FILES {
            fs::write(dir.join(name), content).unwrap();
        }
    }
}

/// What it does when one is removed.
pub(in crate::cgroup) fn empty(dir: &Path) {
    if ON.get() {
        for (name, _) in FILES {
            let _ = fs::remove_file(dir.join(name));
        }
    }
}

/// A host with cgroup v2 alone, mounted in `root`, the engine in `/unit`; for this thread.
pub(super) fn host(root: &Path) -> CgroupConfig {
    ON.set(true);
    let own = root.join("mount/unit");
    fs::create_dir_all(&own).unwrap();
    populate(&root.join("mount"));
    populate(&own);
    fs::write(root.join("cgroup"), "0::/unit\n").unwrap();
    let mountinfo =
        format!("31 23 0:28 / {} rw,relatime - cgroup2 cgroup2 rw\n", root.join("mount").display());
    fs::write(root.join("mountinfo"), mountinfo).unwrap();
    CgroupConfig {
        cgroup_file: root.join("cgroup"),
        mountinfo_file: root.join("mountinfo"),
        ..CgroupConfig::default()
    }
}
