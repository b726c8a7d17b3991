//! `skillbox run`.

mod plan;
mod report;

use skillbox_engine::{Engine, EngineBuilder, Session};
use skillbox_types::{End, ExecResult, Warning};
use tokio_util::sync::CancellationToken;

use self::plan::RunPlan;
use super::block_on;
use crate::args::RunArgs;
use crate::environment::Environment;
use crate::failure::Failure;
use crate::output::{Live, LiveOptions, Talk, print_json};
use crate::{host_files, selection, signals};

/// The code of the warnings about files that were asked for and not saved; the engine's too.
const NOT_SAVED: &str = "not_saved";

/// The exit code where nobody read the program's output any more, so that it was ended: as by SIGPIPE in a pipeline of the shell.
const UNREAD: u8 = 128 + 13;

pub(super) fn run(args: &RunArgs, environment: &Environment, talk: &Talk) -> Result<u8, Failure> {
    // Everything that can be found wrong without a sandbox is found before there is one.
    let (engine, plan) = RunPlan::new(args, environment)?;
    let finished = block_on(in_engine(engine, &plan, args, environment, talk))?;
    if args.json {
        print_json(&finished.result)?;
    } else {
        report::report(&finished.result, args, talk);
    }
    if finished.unread && finished.result.end == End::Cancelled {
        return Ok(UNREAD);
    }
    Ok(u8::try_from(finished.result.end.exit_code()).unwrap_or(125))
}

/// A command that was run.
struct Finished {
    result: ExecResult,
    /// Whether nobody read its output any more.
    unread: bool,
}

async fn in_engine(
    engine: EngineBuilder,
    plan: &RunPlan,
    args: &RunArgs,
    environment: &Environment,
    talk: &Talk,
) -> Result<Finished, Failure> {
    let cancel = CancellationToken::new();
    signals::watch(cancel.clone())
        .map_err(|error| Failure::new(format!("cannot watch for signals: {error}")))?;
    let engine = engine.build().await?;
    let repository = engine.skills();
    if !args.quiet {
        selection::warn_about_roots(&repository, &args.roots, environment, talk);
    }
    let finished = match selection::lookup(&repository, &plan.skill) {
        Ok(_) => in_session(&engine, plan, args, &cancel).await,
        Err(failure) => Err(failure),
    };
    engine.shut_down().await;
    finished
}

/// Opens a session, runs the command in it, and closes it whatever happened.
async fn in_session(
    engine: &Engine,
    plan: &RunPlan,
    args: &RunArgs,
    cancel: &CancellationToken,
) -> Result<Finished, Failure> {
    if let Some(dir) = &plan.save_to {
        host_files::make_writable_dir(dir)?;
    }
    let session = engine.open_session(plan.session.clone()).await?;
    let finished = execute(&session, plan, args, cancel).await;
    let closed = session.close().await;
    let finished = finished?;
    closed?;
    Ok(finished)
}

async fn execute(
    session: &Session,
    plan: &RunPlan,
    args: &RunArgs,
    cancel: &CancellationToken,
) -> Result<Finished, Failure> {
    let loaded = tokio::select! {
        loaded = session.load_with(&plan.skill, plan.on_conflict) => loaded?,
        () = cancel.cancelled() => return Err(Failure::Cancelled),
    };
    let unread = cancel.child_token();
    let (events, live) = if args.json {
        (None, None)
    } else {
        let (events, live) = Live::start(LiveOptions { raw: args.raw, unread: unread.clone() });
        (Some(events), Some(live))
    };
    let request = plan.request_for(loaded.name.clone());
    let outcome = session.run_with(request, events, unread.clone()).await;
    if let Some(live) = live {
        live.finish().await;
    }
    let mut result = outcome?;
    // What loading gave occasion to say comes before what the command did.
    result.warnings.splice(0..0, loaded.warnings);
    if args.outputs.is_empty() {
        // Nobody asked for these files: that there are none is nothing to warn of.
        result.warnings.retain(|warning| warning.code != "no_match");
    }
    if let Some(dir) = &plan.save_to {
        // The command ran: whatever becomes of its files, its end and its other results are told.
        match session.save(&mut result.output_files, dir).await {
            Ok(warnings) => result.warnings.extend(warnings),
            Err(error) => {
                let text = format!("the files were not saved to {}: {error}", dir.display());
                result.warnings.push(Warning::new(NOT_SAVED, text));
            }
        }
    }
    Ok(Finished { result, unread: unread.is_cancelled() && !cancel.is_cancelled() })
}
