//! What sessions and commands cost, as ratios to a baseline in the same loop.
//!
//! Prints `ratio NAME VALUE BOUND` for each promise of SPECIFICATION.md.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::cast_precision_loss,
    reason = "a bench"
)]

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use skillbox_engine::{Engine, Session, SessionOptions};
use skillbox_sandbox::{LocalConfig, LocalExecutor};
use skillbox_types::{CommandLine, ExecRequest};

fn main() {
    skillbox_sandbox::run_launcher_if_asked();
    let only = std::env::args().skip(1).find(|arg| !arg.starts_with('-'));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let dir = tempfile::tempdir().unwrap();
        let bench = Bench::new(dir.path()).await;
        let wanted = |name: &str| only.as_deref().is_none_or(|only| name.contains(only));
        if wanted("warm_command") {
            bench.warm_command().await;
        }
        if wanted("open_session") {
            bench.open_session().await;
        }
        if wanted("python") {
            bench.python().await;
        }
        if wanted("whole_loop") {
            bench.whole_loop().await;
        }
        bench.engine.shut_down().await;
    });
}

struct Bench {
    engine: Engine,
    plain: std::path::PathBuf,
}

struct Samples {
    base: Vec<Duration>,
    ours: Vec<Duration>,
}

impl Samples {
    fn new() -> Self {
        Self { base: Vec::new(), ours: Vec::new() }
    }

    fn report(mut self, name: &str, p10: Option<f64>, median: Option<f64>) {
        self.base.sort();
        self.ours.sort();
        let at = |samples: &[Duration], percent: usize| samples[samples.len() * percent / 100].as_secs_f64();
        for (quantile, percent, bound) in [("p10", 10, p10), ("median", 50, median)] {
            let ratio = at(&self.ours, percent) / at(&self.base, percent);
            let bound = bound.map_or("-".to_owned(), |bound| bound.to_string());
            println!(
                "ratio {name}_{quantile} {ratio:.2} {bound}   ({:.0} us / {:.0} us)",
                at(&self.ours, percent) * 1e6,
                at(&self.base, percent) * 1e6
            );
        }
    }
}

fn spawn(program: &str, args: &[&str], dir: &Path) -> Duration {
    let began = Instant::now();
    let status = Command::new(program)
        .args(args)
        .current_dir(dir)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success());
    began.elapsed()
}

/// The plainest way to start a program: what the ratios compare with.
fn posix_spawn(program: &str) -> Duration {
    let began = Instant::now();
    let status = Command::new(program)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success());
    began.elapsed()
}

fn argv(words: &[&str]) -> ExecRequest {
    ExecRequest::new(CommandLine::Argv(words.iter().map(|word| (*word).to_owned()).collect()))
}

impl Bench {
    async fn new(dir: &Path) -> Self {
        let state = dir.join("state");
        let skills = dir.join("skills");
        make_skill(&skills);
        let config = LocalConfig::new(&state, Engine::store_dir(&state));
        let executor = Arc::new(LocalExecutor::new(config).unwrap());
        let engine = Engine::builder(&state, executor)
            .skills([skills.as_path()])
            .warm_sessions(2)
            .build()
            .await
            .unwrap();
        println!("level {:?}", engine.probe().await.unwrap().level);
        let plain = dir.join("plain");
        std::fs::create_dir_all(plain.join("out")).unwrap();
        Self { engine, plain }
    }

    async fn session(&self) -> Session {
        self.engine.open_session(SessionOptions::default()).await.unwrap()
    }

    async fn timed(session: &Session, request: ExecRequest) -> Duration {
        let began = Instant::now();
        let result = session.run(request).await.unwrap();
        let took = began.elapsed();
        assert!(result.end.success(), "{result:?}");
        took
    }

    async fn warm_command(&self) {
        let session = self.session().await;
        let fill = "i=0; while [ $i -lt 100 ]; do mkdir -p work/d$i; cd work/d$i; for j in 0 1 2 3 4 5 6 7 8 9; do \
                    for k in 0 1 2 3 4 5 6 7 8 9; do : > f$j$k; done; done; cd ../..; i=$((i+1)); done";
        let mut request = ExecRequest::new(CommandLine::Shell(fill.to_owned()));
        request.timeout = skillbox_types::TimeLimit::Ms(60_000);
        Self::timed(&session, request).await;
        for (name, pause) in [("warm_command_after_80ms", 80), ("warm_command_back_to_back", 0)] {
            let mut samples = Samples::new();
            for _ in 0..60 {
                tokio::time::sleep(Duration::from_millis(pause)).await;
                samples.base.push(tokio::task::block_in_place(|| posix_spawn("/bin/true")));
                tokio::time::sleep(Duration::from_millis(pause)).await;
                samples.ours.push(Self::timed(&session, argv(&["/bin/true"])).await);
            }
            samples.report(name, Some(1.6), Some(2.5));
        }
        session.close().await.unwrap();
    }

    async fn open_session(&self) {
        let mut samples = Samples::new();
        for _ in 0..60 {
            tokio::time::sleep(Duration::from_millis(30)).await;
            samples.base.push(tokio::task::block_in_place(|| posix_spawn("/bin/true")));
            let began = Instant::now();
            let session = self.session().await;
            session.open_sandbox().await.unwrap();
            samples.ours.push(began.elapsed());
            session.close().await.unwrap();
        }
        samples.report("open_session", Some(4.0), Some(4.0));
    }

    async fn python(&self) {
        let session = self.session().await;
        let mut samples = Samples::new();
        for _ in 0..30 {
            samples.base.push(tokio::task::block_in_place(|| {
                spawn("/usr/bin/python3", &["-c", "pass"], &self.plain)
            }));
            samples.ours.push(Self::timed(&session, argv(&["/usr/bin/python3", "-c", "pass"])).await);
        }
        samples.report("python_pass", Some(1.15), Some(1.15));
        session.close().await.unwrap();
    }

    async fn whole_loop(&self) {
        for (name, words, bare, bound) in [
            ("whole_loop_python", ["/usr/bin/python3", "scripts/write.py"], "/usr/bin/python3", 2.5),
            ("whole_loop_shell", ["/bin/sh", "scripts/write.sh"], "/bin/sh", 5.0),
        ] {
            let script = self.plain.parent().unwrap().join("skills/three").join(words[1]);
            let mut samples = Samples::new();
            for _ in 0..40 {
                tokio::time::sleep(Duration::from_millis(20)).await;
                let args: Vec<&str> =
                    if bare == "/bin/sh" { vec!["-c", "/bin/true"] } else { vec![script.to_str().unwrap()] };
                samples.base.push(tokio::task::block_in_place(|| spawn(bare, &args, &self.plain)));
                let began = Instant::now();
                let session = self.session().await;
                let loaded = session.load("three").await.unwrap();
                let mut request = argv(&words);
                request.skill = Some(loaded.name);
                request.outputs.globs = vec!["out/**".to_owned()];
                let result = session.run(request).await.unwrap();
                session.close().await.unwrap();
                samples.ours.push(began.elapsed());
                assert_eq!(result.output_files.len(), 3, "{result:?}");
            }
            samples.report(name, Some(bound), Some(bound));
        }
    }
}

fn make_skill(skills: &Path) {
    let dir = skills.join("three");
    std::fs::create_dir_all(dir.join("scripts")).unwrap();
    std::fs::write(dir.join("SKILL.md"), "---\nname: three\ndescription: Writes three files.\n---\n")
        .unwrap();
    let python = "import json\nopen('out/a.txt','w').write('a\\n')\nopen('out/b.csv','w').write('1,2\\n')\njson.dump({}, open('out/c.json','w'))\n";
    std::fs::write(dir.join("scripts/write.py"), python).unwrap();
    std::fs::write(
        dir.join("scripts/write.sh"),
        "echo a > out/a.txt; echo 1,2 > out/b.csv; echo '{}' > out/c.json\n",
    )
    .unwrap();
}
