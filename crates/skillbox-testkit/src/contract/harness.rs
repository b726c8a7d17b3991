//! A sandbox for one case, and what a case asks of it.

use std::any::Any;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use skillbox_executor::{Capture, CollectOp, CollectSummary, ExecOutcome, ExecPlan, Executor, FoundFile};
use skillbox_executor::{Sandbox, SandboxSpec};
use skillbox_types::{End, IsolationLevel, Limits, MechanismState, NetworkPolicy, WorkspacePath};
use tokio_util::sync::CancellationToken;

use crate::misbehave::PYTHON;

/// An executor for one case.
#[derive(Debug)]
pub struct Setup {
    /// The executor.
    pub executor: Arc<dyn Executor>,
    /// What must live as long as the executor, such as its state folder.
    pub keep: Box<dyn Keep>,
}

/// Anything that is kept alive.
pub trait Keep: Any + Send + Sync + std::fmt::Debug {}
impl<T: Any + Send + Sync + std::fmt::Debug> Keep for T {}

/// An open sandbox with a workspace of its own.
#[derive(Debug)]
pub struct Harness {
    executor: Arc<dyn Executor>,
    sandbox: Arc<Sandbox>,
    dir: PathBuf,
    limits: Limits,
    _keep: Box<dyn Keep>,
}

/// A command that ran.
#[derive(Debug)]
pub struct Ran {
    /// Its outcome.
    pub outcome: ExecOutcome,
    /// From the call to its answer.
    pub took: Duration,
}

impl Ran {
    /// How it ended.
    pub fn end(&self) -> &End {
        &self.outcome.end
    }

    /// What was kept of stdout, exactly.
    pub fn stdout_bytes(&self) -> Vec<u8> {
        bytes(&self.outcome.stdout)
    }

    /// What was kept of stderr, exactly.
    pub fn stderr_bytes(&self) -> Vec<u8> {
        bytes(&self.outcome.stderr)
    }

    /// Stdout as text.
    pub fn stdout(&self) -> String {
        String::from_utf8_lossy(&self.stdout_bytes()).into_owned()
    }

    /// Stderr as text.
    pub fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.stderr_bytes()).into_owned()
    }

    /// Whether there is a warning of this code.
    pub fn has_warning(&self, code: &str) -> bool {
        self.outcome.warnings.iter().any(|warning| warning.code == code)
    }

    /// Fails unless it exited with this code.
    #[track_caller]
    pub fn expect_code(self, exit_code: i32) -> Self {
        assert_eq!(*self.end(), End::Exited { exit_code }, "{}{}", self.stdout(), self.stderr());
        self
    }

    /// Fails unless it exited with 0; answers its stdout.
    #[track_caller]
    pub fn ok(self) -> String {
        self.expect_code(0).stdout()
    }

    /// Fails unless it was ended at its time limit; answers itself.
    #[track_caller]
    pub fn expect_timeout(self) -> Self {
        assert!(matches!(self.end(), End::TimedOut { .. }), "{:?} {}", self.end(), self.stderr());
        self
    }

    /// The message and the error number of a command that was not started.
    #[track_caller]
    pub fn spawn_failure(&self) -> (&str, Option<i32>) {
        match self.end() {
            End::SpawnFailed { message, errno } => (message, *errno),
            other => panic!("it started: {other:?} {}{}", self.stdout(), self.stderr()),
        }
    }
}

fn bytes(capture: &Capture) -> Vec<u8> {
    [capture.head(), &capture.tail()].concat()
}

/// What a collection found.
#[derive(Debug)]
pub struct Collection {
    /// The files.
    pub files: Vec<FoundFile>,
    /// The summary.
    pub summary: CollectSummary,
}

impl Collection {
    /// Their paths, as text.
    pub fn paths(&self) -> Vec<String> {
        self.files.iter().map(|file| String::from_utf8_lossy(&file.path).into_owned()).collect()
    }

    /// The file of this path.
    #[track_caller]
    pub fn file(&self, path: &str) -> &FoundFile {
        let found = self.files.iter().find(|file| file.path.as_slice() == path.as_bytes());
        found.unwrap_or_else(|| panic!("{path} was not collected: {:?}", self.paths()))
    }
}

impl Harness {
    /// Opens a sandbox with these limits.
    pub async fn open(setup: Setup, limits: Limits) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let sandbox = Self::sandbox_in(&setup.executor, dir.path(), &limits).await;
        let Setup { executor, keep } = setup;
        let keep = Box::new((keep, dir.path().to_owned(), dir));
        Self { executor, sandbox: Arc::new(sandbox), dir: keep.1.clone(), limits, _keep: keep }
    }

    async fn sandbox_in(executor: &Arc<dyn Executor>, dir: &Path, limits: &Limits) -> Sandbox {
        executor.open(spec_in(dir, limits)).await.unwrap()
    }

    /// What a second sandbox would be opened with, and the folder that it is in.
    pub fn spec_of_another(&self) -> (SandboxSpec, tempfile::TempDir) {
        let dir = tempfile::tempdir().unwrap();
        (spec_in(dir.path(), &self.limits), dir)
    }

    /// A second sandbox of the same executor, on a workspace of its own.
    pub async fn another(&self) -> Self {
        let setup = Setup { executor: self.executor.clone(), keep: Box::new(()) };
        Self::open(setup, self.limits.clone()).await
    }

    /// A second sandbox, on the workspace `ws` and the home `home` in `dir`.
    pub async fn another_in(&self, dir: &Path) -> Self {
        let sandbox = Arc::new(Self::sandbox_in(&self.executor, dir, &self.limits).await);
        let (executor, limits) = (self.executor.clone(), self.limits.clone());
        Self { executor, sandbox, dir: dir.to_owned(), limits, _keep: Box::new(()) }
    }

    /// The executor.
    pub fn executor(&self) -> &Arc<dyn Executor> {
        &self.executor
    }

    /// The sandbox.
    pub fn sandbox(&self) -> &Arc<Sandbox> {
        &self.sandbox
    }

    /// The workspace as the host sees it.
    pub fn workspace(&self) -> PathBuf {
        self.dir.join("ws")
    }

    /// The folder on the host that the workspace is in, closed to the sandbox.
    pub fn outside(&self) -> &Path {
        &self.dir
    }

    /// The limits that the sandbox was opened with.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Whether memory and processes of the sandbox as a whole are limited and counted.
    pub fn is_full(&self) -> bool {
        self.sandbox.isolation().level >= IsolationLevel::Full
    }

    /// As [`Harness::is_full`], saying that a case is left out where it is not so.
    pub fn is_full_or_say(&self, what: &str) -> bool {
        if !self.is_full() {
            println!("left out: {what}: the level here is {:?}", self.sandbox.isolation().level);
        }
        self.is_full()
    }

    /// Whether a mechanism is in force, by the sandbox's own report.
    pub fn has(&self, mechanism: &str) -> bool {
        let mechanisms = &self.sandbox.isolation().mechanisms;
        mechanisms.iter().any(|m| m.name == mechanism && m.state == MechanismState::Active)
    }

    /// A command with the usual environment, which a case may change.
    pub fn plan<S: Into<String>>(&self, argv: impl IntoIterator<Item = S>) -> ExecPlan {
        let env = [
            ("PATH", "/usr/local/bin:/usr/bin:/bin"),
            ("HOME", "/home/skillbox"),
            ("TMPDIR", "/tmp"),
            ("LANG", "C.UTF-8"),
        ];
        ExecPlan {
            argv: argv.into_iter().map(Into::into).collect(),
            env: env.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec(),
            cwd: WorkspacePath::root(),
            stdin: None,
            timeout: Some(Duration::from_secs(20)),
            grace: Duration::from_millis(100),
            limits: self.limits.clone(),
        }
    }

    /// A script for the shell.
    pub fn sh_plan(&self, script: &str) -> ExecPlan {
        self.plan(["/bin/sh", "-c", script])
    }

    /// A script for Python.
    pub fn python_plan(&self, script: &str) -> ExecPlan {
        self.plan([PYTHON, "-c", script])
    }

    /// Runs a command.
    pub async fn run(&self, plan: ExecPlan) -> Ran {
        let began = Instant::now();
        let outcome = self.sandbox.exec(plan, None, CancellationToken::new()).await.unwrap();
        Ran { outcome, took: began.elapsed() }
    }

    /// Runs a script with the shell.
    pub async fn sh(&self, script: &str) -> Ran {
        self.run(self.sh_plan(script)).await
    }

    /// Runs a script with Python.
    pub async fn python(&self, script: &str) -> Ran {
        self.run(self.python_plan(script)).await
    }

    /// Runs a script that has this long.
    pub async fn sh_for(&self, script: &str, timeout: Duration) -> Ran {
        let mut plan = self.sh_plan(script);
        plan.timeout = Some(timeout);
        self.run(plan).await
    }

    /// Starts a command on a task of its own.
    pub fn spawn(&self, plan: ExecPlan, cancel: CancellationToken) -> tokio::task::JoinHandle<ExecOutcome> {
        let sandbox = self.sandbox.clone();
        tokio::spawn(async move { sandbox.exec(plan, None, cancel).await.unwrap() })
    }

    /// Writes a file into the workspace.
    pub async fn put(&self, path: &str, content: impl Into<Vec<u8>>) {
        self.sandbox.put(path.as_bytes(), content.into(), false).await.unwrap();
    }

    /// Writes an executable file into the workspace.
    pub async fn put_script(&self, path: &str, content: impl Into<Vec<u8>>) {
        self.sandbox.put(path.as_bytes(), content.into(), true).await.unwrap();
    }

    /// Whether the process whose number is in a file of the workspace runs, as another command in the sandbox sees it.
    pub async fn is_alive(&self, pid_file: &str) -> bool {
        let script = "read pid < \"$1\" || exit 9; read stat < /proc/$pid/stat || exit 1; \
                      case ${stat##*)} in ' Z'*|' X'*) exit 1;; esac; exit 0";
        let ran = self.run(self.plan(["/bin/sh", "-c", script, "sh", pid_file])).await;
        match ran.end() {
            End::Exited { exit_code: 0 } => true,
            End::Exited { exit_code: 1 | 2 } => false,
            other => panic!("{pid_file}: {other:?} {}", ran.stderr()),
        }
    }

    /// Waits until a script has written a file of the workspace.
    pub async fn until_written(&self, path: &str) {
        crate::until(&format!("{path} is written"), async || {
            let mut size = 0;
            let read = self.sandbox.read(path.as_bytes(), 64, |piece| {
                size += piece.len();
                Ok(())
            });
            read.await.is_ok() && size > 0
        })
        .await;
    }

    /// Collects files, judged against a command where there is one.
    pub async fn collect(&self, patterns: &[&str], since: Option<&Ran>) -> Collection {
        self.collect_op(collect_op(patterns, since)).await
    }

    /// Collects as an operation says.
    pub async fn collect_op(&self, op: CollectOp) -> Collection {
        let mut files = Vec::new();
        let summary = self.sandbox.collect(op, |batch| files.extend(batch)).await.unwrap();
        Collection { files, summary }
    }

    /// Reads a file of the workspace, or answers the error number.
    pub async fn read(&self, path: &str, max_bytes: u64) -> Result<Vec<u8>, i32> {
        let mut content = Vec::new();
        let read = self.sandbox.read(path.as_bytes(), max_bytes, |piece| {
            content.extend_from_slice(piece);
            Ok(())
        });
        match read.await {
            Ok(_) => Ok(content),
            Err(skillbox_executor::ExecutorError::Files { errno, .. }) => Err(errno),
            Err(other) => panic!("{path}: {other}"),
        }
    }

    /// The sandbox is as good as new.
    #[track_caller]
    pub fn assert_usable(&self) -> impl Future<Output = ()> + '_ {
        let caller = std::panic::Location::caller();
        async move {
            let ran = self.sh("echo usable").await;
            assert_eq!(ran.stdout(), "usable\n", "{caller}: {:?} {}", ran.end(), ran.stderr());
        }
    }
}

fn spec_in(dir: &Path, limits: &Limits) -> SandboxSpec {
    let (workspace, home) = (dir.join("ws"), dir.join("home"));
    for folder in [&workspace, &home] {
        fs::create_dir_all(folder).unwrap();
    }
    SandboxSpec {
        first_run: 1,
        owned: vec![workspace.clone(), home.clone()],
        workspace,
        home,
        runs: WorkspacePath::new("runs").unwrap(),
        limits: limits.clone(),
        network: NetworkPolicy::None,
        owner: None,
    }
}

/// An operation with generous limits.
pub fn collect_op(patterns: &[&str], since: Option<&Ran>) -> CollectOp {
    CollectOp {
        patterns: patterns.iter().map(|&pattern| pattern.to_owned()).collect(),
        since_slot: since.and_then(|ran| ran.outcome.slot),
        max_files: 1000,
        max_file_bytes: 1 << 20,
        max_total_bytes: 8 << 20,
        changed_only: false,
        inline_binary: true,
    }
}
