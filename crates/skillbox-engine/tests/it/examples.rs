//! The example skills, run as their README says.

use std::path::PathBuf;
use std::time::Duration;

use skillbox_engine::{Engine, Session, SessionOptions};
use skillbox_types::{CommandLine, End, ExecRequest, ExecResult, Input, SkillName, TimeLimit, WorkspacePath};

use crate::lab::{Lab, codes, end, names};

/// Set where the checkout cannot be read: the folder of a copy.
const COPY: &str = "SKILLBOX_TEST_EXAMPLES";

fn examples() -> PathBuf {
    if let Some(copy) = std::env::var_os(COPY) {
        return copy.into();
    }
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from);
    manifest.join("../../skills").canonicalize().unwrap()
}

#[test]
fn as_an_ordinary_user() {
    skillbox_testkit::again_as_an_ordinary_user(&["::"], &[(COPY, &examples())]);
}

async fn open(lab: &Lab) -> (Engine, Session) {
    let engine = Engine::builder(lab.state(), lab.executor()).skills([examples()]).build().await.unwrap();
    let session = engine.open_session(SessionOptions::default()).await.unwrap();
    (engine, session)
}

async fn run(session: &Session, skill: &str, command: &[&str], inputs: &[(&str, &str)]) -> ExecResult {
    let loaded = session.load(skill).await.unwrap();
    assert!(loaded.warnings.is_empty(), "{skill}: {:?}", loaded.warnings);
    let mut request =
        ExecRequest::new(CommandLine::Argv(command.iter().map(|&arg| arg.to_owned()).collect()));
    request.skill = Some(SkillName::new(skill).unwrap());
    request.outputs.globs = vec!["out/**".to_owned()];
    request.timeout = TimeLimit::Ms(15_000);
    for (name, content) in inputs {
        request.inputs.push(Input {
            path: WorkspacePath::new(&format!("work/inputs/{name}")).unwrap(),
            content: content.as_bytes().to_vec(),
            executable: false,
        });
    }
    session.run(request).await.unwrap()
}

#[track_caller]
fn expect(result: &ExecResult, code: i32) {
    assert_eq!(result.end, End::Exited { exit_code: code }, "{}\n{}", result.stdout.text, result.stderr.text);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hello() {
    let lab = Lab::new();
    for command in [["python3", "scripts/hello.py", "Ada"], ["sh", "scripts/hello.sh", "Ada"]] {
        let (engine, session) = open(&lab).await;
        let result = run(&session, "hello", &command, &[]).await;
        expect(&result, 0);
        assert_eq!(names(&result), ["out/greeting.csv", "out/greeting.json", "out/greeting.txt"]);
        let types: Vec<_> = result.output_files.iter().map(|file| file.mime_type.as_str()).collect();
        assert_eq!(types, ["text/csv", "application/json", "text/plain"]);
        assert!(result.output_files[2].content.contains("Ada"));
        end(engine).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sales_report() {
    let lab = Lab::new();
    let (engine, session) = open(&lab).await;
    let result = run(&session, "sales-report", &["python3", "scripts/report.py", "--by", "month"], &[]).await;
    expect(&result, 0);
    let mut types: Vec<_> = result.output_files.iter().map(|file| file.mime_type.as_str()).collect();
    types.sort_unstable();
    assert_eq!(types, ["application/json", "image/svg+xml", "text/csv"]);
    end(engine).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn text_stats() {
    let lab = Lab::new();
    let (engine, session) = open(&lab).await;
    let essay = [("essay.txt", "One two two.\nThree three three!\n")];
    let result = run(&session, "text-stats", &["sh", "scripts/stats.sh", "inputs/essay.txt"], &essay).await;
    expect(&result, 0);
    assert_eq!(names(&result), ["out/stats.tsv"]);
    assert!(result.output_files[0].content.contains("word:three\t3"), "{}", result.output_files[0].content);
    end(engine).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn style_guide() {
    let lab = Lab::new();
    let (engine, session) = open(&lab).await;
    let draft = [("draft.md", "# A draft\n\nThis is is a very simple sentence.\n")];
    let result =
        run(&session, "style-guide", &["python3", "scripts/check.py", "inputs/draft.md"], &draft).await;
    assert!(
        matches!(result.end, End::Exited { exit_code: 0 | 1 }),
        "{:?} {}",
        result.end,
        result.stderr.text
    );
    let references = run(&session, "style-guide", &["cat", "references/prose.md"], &[]).await;
    expect(&references, 0);
    assert!(references.stdout.total_bytes > 100);
    end(engine).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failing_on_purpose() {
    let lab = Lab::new();
    let (engine, session) = open(&lab).await;
    let fail = async |args: &[&str]| {
        let command = [&["python3", "scripts/fail.py"], args].concat();
        run(&session, "failing-on-purpose", &command, &[]).await
    };
    expect(&fail(&["exit", "42"]).await, 42);
    let signal = fail(&["signal", "SEGV"]).await;
    assert!(
        matches!(&signal.end, End::Signaled { signal: 11, signal_name } if signal_name == "SIGSEGV"),
        "{:?}",
        signal.end
    );
    expect(&fail(&["traceback"]).await, 1);
    let partial = fail(&["partial"]).await;
    expect(&partial, 1);
    assert_eq!(names(&partial), ["out/done.txt", "out/report.csv"]);
    let left = fail(&["leave"]).await;
    expect(&left, 0);
    assert!(codes(&left.warnings).contains(&"leftovers_killed"), "{:?}", left.warnings);
    let flood = fail(&["flood", "4"]).await;
    expect(&flood, 0);
    assert!(flood.stdout.total_bytes > 4 << 20 && flood.stdout.truncated);
    let bytes = fail(&["bytes"]).await;
    assert!(bytes.stdout.lossy && bytes.stderr.lossy);
    let link = fail(&["link"]).await;
    expect(&link, 0);
    assert!(!names(&link).contains(&"out/link.txt") && codes(&link.warnings).contains(&"not_collected"));
    let memory = fail(&["memory", "2000"]).await;
    assert!(matches!(memory.end, End::OomKilled | End::Exited { exit_code: 1 }), "{:?}", memory.end);
    let disk = fail(&["disk", "80"]).await;
    assert!(!disk.end.success(), "{:?}", disk.end);
    for way in ["hang", "stubborn", "tree"] {
        let mut request = ExecRequest::new(CommandLine::Argv(
            ["python3", "scripts/fail.py", way].map(str::to_owned).to_vec(),
        ));
        request.skill = Some(SkillName::new("failing-on-purpose").unwrap());
        request.timeout = TimeLimit::Ms(500);
        let began = std::time::Instant::now();
        assert_eq!(session.run(request).await.unwrap().end, End::TimedOut { limit_ms: 500 }, "{way}");
        assert!(began.elapsed() < Duration::from_secs(4), "{way}: {:?}", began.elapsed());
    }
    end(engine).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn boundaries() {
    let lab = Lab::new();
    let (engine, session) = open(&lab).await;
    let result = run(&session, "boundaries", &["python3", "scripts/boundaries.py"], &[]).await;
    expect(&result, 0);
    end(engine).await;
}
