//! cgroups of the real kernel. Needs a writable place: root, or a delegated subtree.

mod ending;
mod limits;

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use skillbox_sandbox::cgroup::{
    CgroupConfig, CgroupError, CgroupLimits, CgroupTree, ExecCgroup, Provider, SessionCgroup, Signal, Step,
};

const LONG: Duration = Duration::from_secs(10);

/// The tests measure times and count what is left: one at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A tree, and a check that nothing is left of it.
struct Place {
    tree: Option<CgroupTree>,
    dirs: Vec<PathBuf>,
    _alone: MutexGuard<'static, ()>,
}

impl Place {
    fn find(use_unified: bool) -> Option<Self> {
        let guard = alone();
        let config = CgroupConfig { use_unified, ..CgroupConfig::default() };
        match CgroupTree::probe(&config) {
            Ok(tree) => {
                Some(Self { dirs: tree.dirs().map(PathBuf::from).collect(), tree: Some(tree), _alone: guard })
            }
            Err(error) => {
                println!("left out: {error}");
                None
            }
        }
    }

    fn tree(&self) -> &CgroupTree {
        self.tree.as_ref().unwrap()
    }

    fn session(&self, limits: CgroupLimits) -> SessionCgroup {
        self.tree().session(&limits).unwrap()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        drop(self.tree.take());
        if !std::thread::panicking() {
            assert!(self.dirs.iter().all(|dir| !dir.exists()), "a cgroup is left behind");
        }
    }
}

/// A shell that is in the cgroup before it does anything.
struct Parked(Child);

impl Parked {
    fn start(exec: &ExecCgroup, script: &str) -> Self {
        let child = Command::new("sh")
            .args(["-c", &format!("read go; {script}")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        exec.attach(i32::try_from(child.id()).unwrap()).unwrap();
        let mut parked = Self(child);
        parked.0.stdin.take().unwrap().write_all(b"go\n").unwrap();
        parked
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        BufReader::new(self.0.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        line.trim().to_owned()
    }

    fn signal(&mut self) -> Option<i32> {
        use std::os::unix::process::ExitStatusExt;
        self.0.wait().unwrap().signal()
    }
}

impl Drop for Parked {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + LONG;
    while !holds() {
        assert!(Instant::now() < deadline, "{what} did not come about");
        std::thread::yield_now();
    }
}
