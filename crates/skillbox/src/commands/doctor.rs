//! `skillbox doctor`.

use std::path::{Path, PathBuf};
use std::time::Instant;

use serde::Serialize;
use skillbox_engine::{Engine, SessionOptions};
use skillbox_types::{
    CommandLine, ExecRequest, ExecResult, Isolation, MaterializeMethod, Mechanism, MechanismState, Timing,
    Warning,
};
use tokio_util::sync::CancellationToken;

use super::block_on;
use crate::args::DoctorArgs;
use crate::environment::Environment;
use crate::failure::Failure;
use crate::host_files::{self, NewFile};
use crate::output::{self, Columns, Talk, clean, plain_table, print_json, print_line};
use crate::{host, signals};

/// Finds the interpreters that skills mostly need, and proves that results come back.
const TRIAL: &str =
    "for name in python3 node bash; do command -v \"$name\"; done; echo it works > out/trial.txt";

/// What `doctor --json` prints.
#[derive(Debug, Default, Serialize)]
struct Findings {
    version: &'static str,
    /// Whether skills can be run here.
    ok: bool,
    state_dir: PathBuf,
    #[serde(skip_serializing_if = "Option::is_none")]
    isolation: Option<Isolation>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trial: Option<Trial>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    remedy: Option<String>,
}

/// A skill that was really loaded and run.
#[derive(Debug, Serialize)]
struct Trial {
    /// Whether skills are overlays, or else copies.
    method: Option<MaterializeMethod>,
    interpreters: Vec<String>,
    /// From nothing to the first sandbox, which also starts the launcher.
    first_sandbox_ms: u64,
    timing_ms: Timing,
    warnings: Vec<Warning>,
}

pub(super) fn doctor(args: &DoctorArgs, environment: &Environment, talk: &Talk) -> Result<u8, Failure> {
    let mut findings = Findings { version: env!("CARGO_PKG_VERSION"), ..Findings::default() };
    let examined = examine(args, environment, &mut findings);
    match examined {
        Ok(()) => findings.ok = true,
        Err(Failure::Said { message, hint }) => {
            findings.error = Some(message);
            findings.remedy = hint;
        }
        Err(other) => return Err(other),
    }
    if args.json {
        print_json(&findings)?;
    } else {
        print(&findings)?;
        if let Some(error) = &findings.error {
            talk.error(error);
        }
        if let Some(remedy) = &findings.remedy {
            talk.hint(remedy);
        }
    }
    Ok(u8::from(!findings.ok))
}

fn examine(args: &DoctorArgs, environment: &Environment, findings: &mut Findings) -> Result<(), Failure> {
    findings.state_dir = host::state_dir(args.host.state_dir.as_ref(), environment)?;
    let name = "skillbox-doctor";
    let temporary = tempfile::tempdir()
        .map_err(|error| Failure::new(format!("cannot make a temporary folder: {error}")))?;
    let skill = temporary.path().join(name);
    make_skill(name, &skill)?;
    let builder = host::engine(&args.host, environment)?.skills([skill]);
    block_on(async {
        let cancel = CancellationToken::new();
        signals::watch(cancel.clone())
            .map_err(|error| Failure::new(format!("cannot watch for signals: {error}")))?;
        let engine = builder.build().await?;
        let examined = tokio::select! {
            examined = try_out(&engine, name, findings) => examined,
            () = cancel.cancelled() => Err(Failure::Cancelled),
        };
        engine.shut_down().await;
        examined
    })
}

fn make_skill(name: &str, dir: &Path) -> Result<(), Failure> {
    let template = skillbox_skill::new_skill(name, "A skill to try a machine out with.")
        .map_err(|error| Failure::new(error.to_string()))?;
    let files: Vec<NewFile<'_>> = template
        .iter()
        .map(|file| NewFile { path: file.path, content: &file.content, executable: file.executable })
        .collect();
    host_files::make_tree(dir, &files)
}

async fn try_out(engine: &Engine, name: &str, findings: &mut Findings) -> Result<(), Failure> {
    let began = Instant::now();
    findings.isolation = Some(engine.probe().await?);
    let first_sandbox_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    let session = engine.open_session(SessionOptions::default()).await?;
    let tried = async {
        let loaded = session.load(name).await?;
        let mut request = ExecRequest::new(CommandLine::Shell(TRIAL.to_owned()));
        request.skill = Some(loaded.name);
        request.outputs.globs = vec!["out/**".to_owned()];
        session.run(request).await
    }
    .await;
    let closed = session.close().await;
    let result = tried?;
    closed?;
    if !result.end.success() || result.output_files.len() != 1 {
        return Err(Failure::new(format!(
            "the trial run failed: {:?}, {} files collected; stderr: {}",
            result.end,
            result.output_files.len(),
            result.stderr.text
        )));
    }
    findings.trial = Some(trial(result, first_sandbox_ms));
    Ok(())
}

fn trial(result: ExecResult, first_sandbox_ms: u64) -> Trial {
    Trial {
        method: result.skill.map(|skill| skill.method),
        interpreters: result.stdout.text.lines().map(str::to_owned).collect(),
        first_sandbox_ms,
        timing_ms: result.timing_ms,
        warnings: result.warnings,
    }
}

fn print(findings: &Findings) -> Result<(), Failure> {
    print_line(&format!("skillbox {}", findings.version))?;
    print_line(&format!("state directory: {}", clean(&findings.state_dir.display().to_string())))?;
    if let Some(isolation) = &findings.isolation {
        let level = serde_json::to_value(isolation.level).ok();
        let level = level.as_ref().and_then(serde_json::Value::as_str).unwrap_or("unknown");
        print_line(&format!("isolation: {level}, by the {} executor", isolation.executor))?;
        let rows = isolation.mechanisms.iter().map(row);
        print_line(&plain_table(&["MECHANISM", "STATE", "DETAIL"], rows, Columns::Free))?;
        for mechanism in &isolation.mechanisms {
            if let MechanismState::Missing { remedy: Some(remedy), .. } = &mechanism.state {
                print_line(&format!("to get {}: {}", mechanism.name, clean(remedy)))?;
            }
        }
    }
    let Some(trial) = &findings.trial else { return Ok(()) };
    let skills = match trial.method {
        Some(MaterializeMethod::Overlay) => "by overlay: their size costs nothing",
        Some(MaterializeMethod::Reflink) => "by reflink: overlays cannot be had here",
        Some(MaterializeMethod::Copy) | None => "by copying: neither overlays nor reflinks can be had here",
    };
    print_line(&format!("skills are placed {skills}"))?;
    print_line(&format!("interpreters: {}", clean(&trial.interpreters.join(", "))))?;
    let timing = &trial.timing_ms;
    print_line(&format!(
        "trial run: first sandbox {} ms, then open {} ms, materialize {} ms, execute {} ms, collect {} ms",
        trial.first_sandbox_ms, timing.open, timing.materialize, timing.execute, timing.collect
    ))?;
    trial
        .warnings
        .iter()
        .try_for_each(|warning| print_line(&format!("warning: {}", output::warning(&warning.message))))?;
    print_line("skills can be run here")?;
    Ok(())
}

fn row(mechanism: &Mechanism) -> Vec<String> {
    let (state, reason) = match &mechanism.state {
        MechanismState::Active => ("active", ""),
        MechanismState::Degraded { reason } => ("degraded", reason.as_str()),
        MechanismState::Missing { reason, .. } => ("missing", reason.as_str()),
    };
    let detail = [mechanism.detail.as_str(), reason]
        .iter()
        .filter(|text| !text.is_empty())
        .copied()
        .collect::<Vec<_>>();
    vec![mechanism.name.clone(), state.to_owned(), clean(&detail.join("; "))]
}
