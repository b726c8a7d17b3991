//! What sessions, commands, skills and collecting cost, as ratios to a baseline in the same loop.
//!
//! Prints `ratio NAME VALUE BOUND   (OURS / BASELINE)` for each promise of SPECIFICATION.md, with `-` for a bound where nothing is
//! promised. Arguments choose: only measurements whose name contains one of them are made. The baseline and what is measured take turns, so
//! that a busy machine slows both.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::cast_precision_loss,
    reason = "a measuring program"
)]

mod collect;
mod commands;
mod ending;
mod lab;
mod output;
mod samples;
mod sessions;
mod skills;

use lab::Lab;

fn main() {
    skillbox_sandbox::run_launcher_if_asked();
    let chosen: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    // On a worker, as the tasks of a program that embeds the engine run.
    runtime.block_on(async { tokio::spawn(measure(chosen)).await.unwrap() });
}

async fn measure(chosen: Vec<String>) {
    let wanted = |name: &str| {
        chosen.is_empty() || chosen.iter().any(|part| name.contains(part) || part.contains(name))
    };
    let dir = tempfile::tempdir().unwrap();
    let lab = Lab::new(dir.path()).await;
    if wanted("warm_command") {
        commands::warm_command(&lab).await;
    }
    if wanted("open_session") {
        sessions::open_session(&lab).await;
    }
    if wanted("python_pass") {
        commands::python_pass(&lab).await;
    }
    if wanted("python_1gib") {
        commands::python_1gib(&lab).await;
    }
    if wanted("materialize") {
        skills::materialize(&lab).await;
    }
    if wanted("output_1gb") {
        output::output_1gb(&lab).await;
    }
    if wanted("collect_10000") {
        collect::collect_10000(&lab).await;
    }
    if wanted("kill_64") {
        ending::kill_64(&lab).await;
    }
    if wanted("whole_loop") {
        sessions::whole_loop(&lab).await;
    }
    if wanted("throughput") {
        commands::throughput(&lab).await;
    }
    lab.shut_down().await;
}
