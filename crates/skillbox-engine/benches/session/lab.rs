//! An engine with skills of its own in a temporary folder, and the plain ways to do what it does.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use skillbox_engine::{Engine, EngineBuilder, Session, SessionOptions};
use skillbox_sandbox::{LocalConfig, LocalExecutor};
use skillbox_types::{CommandLine, ExecRequest, TimeLimit};

/// Files of the skill `big`, and the bytes of each: 200 MB in all.
const BIG_FILES: usize = 2_000;
const BIG_FILE_BYTES: usize = 100_000;

/// What the measurements share.
pub(crate) struct Lab {
    /// Keeps two sessions ready.
    pub(crate) engine: Engine,
    /// Keeps none ready.
    pub(crate) cold: Engine,
    /// The engine's folder.
    pub(crate) state: PathBuf,
    /// Where the skills `three` and, once it is asked for, `big` are.
    pub(crate) skills: PathBuf,
    /// A plain folder with `out/` in it, for baselines.
    pub(crate) plain: PathBuf,
}

impl Lab {
    pub(crate) async fn new(dir: &Path) -> Self {
        let skills = dir.join("skills");
        make_small_skill(&skills.join("three"));
        let state = dir.join("state");
        let engine = engine(&state, &skills, 2).await;
        let cold = engine_without_warm_sessions(dir, &skills).await;
        println!("level {:?}", engine.probe().await.unwrap().level);
        let plain = dir.join("plain");
        std::fs::create_dir_all(plain.join("out")).unwrap();
        Self { engine, cold, state, skills, plain }
    }

    /// A new session, as it comes.
    pub(crate) async fn session(&self) -> Session {
        self.engine.open_session(SessionOptions::default()).await.unwrap()
    }

    /// Makes the skill `big` and has the engine find it.
    pub(crate) async fn make_big_skill(&self) -> PathBuf {
        let dir = self.skills.join("big");
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(dir.join("SKILL.md"), "---\nname: big\ndescription: Holds much.\n---\n").unwrap();
        for number in 0..BIG_FILES {
            let folder = dir.join(format!("assets/{:02}", number % 40));
            std::fs::create_dir_all(&folder).unwrap();
            // No two files are the same.
            let text = format!("{number:08} is the number of this file.\n");
            let content = text.repeat(BIG_FILE_BYTES / text.len());
            std::fs::write(folder.join(format!("{number:04}.txt")), content).unwrap();
        }
        self.engine.rescan().await.unwrap();
        dir
    }

    /// An engine that takes a source which it looked at for unchanged.
    pub(crate) async fn trusting_engine(&self) -> Engine {
        let state = self.state.with_file_name("trusting");
        let builder = builder(&state, &self.skills).warm_sessions(2);
        builder.trust_sources_for(Duration::from_hours(1)).build().await.unwrap()
    }

    pub(crate) async fn shut_down(&self) {
        self.engine.shut_down().await;
        self.cold.shut_down().await;
    }
}

async fn engine_without_warm_sessions(dir: &Path, skills: &Path) -> Engine {
    engine(&dir.join("cold"), skills, 0).await
}

async fn engine(state: &Path, skills: &Path, warm: usize) -> Engine {
    builder(state, skills).warm_sessions(warm).build().await.unwrap()
}

fn builder(state: &Path, skills: &Path) -> EngineBuilder {
    let executor = Arc::new(LocalExecutor::new(LocalConfig::new(state, Engine::store_dir(state))).unwrap());
    Engine::builder(state, executor).skills([skills])
}

/// A skill of three files, whose scripts write three files each.
fn make_small_skill(dir: &Path) {
    std::fs::create_dir_all(dir.join("scripts")).unwrap();
    std::fs::write(dir.join("SKILL.md"), "---\nname: three\ndescription: Writes three files.\n---\n")
        .unwrap();
    let python = "import json\nopen('out/a.txt', 'w').write('a\\n')\nopen('out/b.csv', 'w').write('1,2\\n')\n\
                  json.dump({}, open('out/c.json', 'w'))\n";
    std::fs::write(dir.join("scripts/write.py"), python).unwrap();
    let shell = "echo a > out/a.txt; echo 1,2 > out/b.csv; echo '{}' > out/c.json\n";
    std::fs::write(dir.join("scripts/write.sh"), shell).unwrap();
}

/// A request for a program with its arguments.
pub(crate) fn argv(words: &[&str]) -> ExecRequest {
    ExecRequest::new(CommandLine::Argv(words.iter().map(|word| (*word).to_owned()).collect()))
}

/// A request for a shell script that may take long.
pub(crate) fn shell(script: &str) -> ExecRequest {
    let mut request = ExecRequest::new(CommandLine::Shell(script.to_owned()));
    request.timeout = TimeLimit::Ms(120_000);
    request
}

/// Runs a command that must succeed, and says how long that took.
pub(crate) async fn timed(session: &Session, request: ExecRequest) -> Duration {
    let began = Instant::now();
    let result = session.run(request).await.unwrap();
    let took = began.elapsed();
    assert!(result.end.success(), "{result:?}");
    took
}

/// Runs a program the plainest way there is; it must succeed.
pub(crate) fn bare(program: &str, args: &[&str], dir: Option<&Path>) -> Duration {
    tokio::task::block_in_place(|| {
        let mut command = Command::new(program);
        command.args(args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        if let Some(dir) = dir {
            command.current_dir(dir);
        }
        let began = Instant::now();
        // The standard library uses posix_spawn here.
        let status = command.status().unwrap();
        let took = began.elapsed();
        assert!(status.success());
        took
    })
}
