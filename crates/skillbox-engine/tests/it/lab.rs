//! A place of its own for each test: skills, a state folder, and engines on them.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use skillbox_engine::{Engine, Session, SessionOptions};
use skillbox_executor::Executor as _;
use skillbox_sandbox::{LocalConfig, LocalExecutor};
use skillbox_testkit::SkillBuilder;
use skillbox_types::{CommandLine, End, ExecRequest, ExecResult, SessionId, SkillName};

/// A folder with all that one test needs.
#[derive(Debug)]
pub(crate) struct Lab {
    dir: tempfile::TempDir,
    state: PathBuf,
}

/// A skill with a script, a reference and a data file.
pub(crate) fn greeter() -> SkillBuilder {
    SkillBuilder::new("greeter")
        .script("scripts/hello.sh", "#!/bin/sh\necho \"hello $1\"\n")
        .file("references/a.md", "a reference\n")
        .file("data.csv", "a,b\n1,2\n")
}

impl Lab {
    pub(crate) fn new() -> Self {
        Self::with_state("state")
    }

    /// A lab whose state folder has this path.
    pub(crate) fn with_state(state: &str) -> Self {
        skillbox_testkit::init();
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("skills")).unwrap();
        let state = dir.path().join(state);
        Self { dir, state }
    }

    pub(crate) fn skills(&self) -> PathBuf {
        self.dir.path().join("skills")
    }

    pub(crate) fn state(&self) -> &Path {
        &self.state
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn write(&self, skill: &SkillBuilder) -> PathBuf {
        skill.write(&self.skills())
    }

    pub(crate) fn executor(&self) -> Arc<LocalExecutor> {
        let config = LocalConfig::new(self.state(), Engine::store_dir(self.state()));
        Arc::new(LocalExecutor::new(config).unwrap())
    }

    pub(crate) async fn engine(&self) -> Engine {
        self.engine_of(self.executor()).await
    }

    pub(crate) async fn engine_of(&self, executor: Arc<LocalExecutor>) -> Engine {
        Engine::builder(self.state(), executor).skills([self.skills()]).build().await.unwrap()
    }

    /// An engine whose only skill is [`greeter`], and an open session that has loaded it.
    pub(crate) async fn greeted(&self) -> (Engine, Session) {
        self.write(&greeter());
        let engine = self.engine().await;
        let session = engine.open_session(SessionOptions::default()).await.unwrap();
        session.load("greeter").await.unwrap();
        (engine, session)
    }

    /// Entries of a folder of the state.
    pub(crate) fn entries(&self, folder: &str) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(self.state().join(folder))
            .map(|entries| entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect())
            .unwrap_or_default();
        names.sort_unstable();
        names
    }
}

pub(crate) fn named(id: &str) -> SessionOptions {
    SessionOptions { id: Some(SessionId::new(id).unwrap()), ..SessionOptions::default() }
}

/// A script in the workspace.
pub(crate) fn sh(script: &str) -> ExecRequest {
    ExecRequest::new(CommandLine::Shell(script.to_owned()))
}

/// A script in the folder of a loaded skill.
pub(crate) fn in_skill(name: &str, script: &str) -> ExecRequest {
    let mut request = sh(script);
    request.skill = Some(SkillName::new(name).unwrap());
    request
}

/// A request that collects these patterns.
pub(crate) fn collecting(mut request: ExecRequest, globs: &[&str]) -> ExecRequest {
    request.outputs.globs = globs.iter().map(|&glob| glob.to_owned()).collect();
    request
}

/// The stdout of a command that has to succeed.
pub(crate) async fn ok(session: &Session, request: ExecRequest) -> String {
    let result = session.run(request).await.unwrap();
    assert_eq!(result.end, End::Exited { exit_code: 0 }, "{}{}", result.stdout.text, result.stderr.text);
    result.stdout.text
}

pub(crate) fn names(result: &ExecResult) -> Vec<&str> {
    result.output_files.iter().map(|file| file.name.as_str()).collect()
}

pub(crate) fn codes(warnings: &[skillbox_types::Warning]) -> Vec<&str> {
    warnings.iter().map(|warning| warning.code.as_str()).collect()
}

/// Everything that can be seen of a tree: modes, owners, times, contents.
pub(crate) fn picture(dir: &Path) -> BTreeMap<PathBuf, String> {
    let mut all = BTreeMap::new();
    let mut waiting = vec![dir.to_owned()];
    while let Some(path) = waiting.pop() {
        let metadata = fs::symlink_metadata(&path).unwrap();
        let content = if metadata.is_dir() {
            waiting.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            Vec::new()
        } else {
            fs::read(&path).unwrap_or_default()
        };
        let (mode, owner) = (metadata.permissions().mode(), metadata.uid());
        let times = (metadata.mtime(), metadata.mtime_nsec(), metadata.ctime(), metadata.ctime_nsec());
        all.insert(path, format!("{mode:o} {owner} {times:?} {content:?}"));
    }
    all
}

/// Ends the engine and its executor.
pub(crate) async fn end(engine: Engine) {
    engine.shut_down().await;
}

/// An executor that lost everything that it had open.
pub(crate) async fn lose_all(executor: &LocalExecutor) {
    executor.shut_down().await;
}
