//! From a plan to what the supervisor is told.

use skillbox_init::protocol::{ExecSpec, Rlimits};
use skillbox_types::{Limits, WorkspacePath};

use crate::{Counts, ExecPlan};

/// The workspace as every sandbox sees it.
const WORKSPACE: &str = "/workspace";
/// Processes of the supervisor's own that count against its user: itself, the reaper of a command, and the two that are parked ahead.
const SUPERVISORS: u64 = 4;

/// The command of a plan, with a folder of its own, under what is not limited for its tree as a whole.
pub(crate) fn spec_of(plan: &ExecPlan, run_dir: &WorkspacePath, counts: Counts) -> ExecSpec {
    let run = format!("RUN_DIR={WORKSPACE}/{run_dir}").into_bytes();
    let bytes = |text: &str| text.as_bytes().to_vec().into();
    ExecSpec {
        program: bytes(plan.argv.first().map_or("", String::as_str)),
        args: plan.argv.iter().map(|arg| bytes(arg)).collect(),
        env: plan
            .env
            .iter()
            .map(|(name, value)| format!("{name}={value}").into_bytes())
            .chain([run])
            .map(Into::into)
            .collect(),
        cwd: bytes(plan.cwd.as_str()),
        make_dir: Some(bytes(run_dir.as_str())),
        stdin_pipe: plan.stdin.is_some(),
        rlimits: rlimits_of(&plan.limits, counts),
    }
}

/// Where a cgroup counts memory and processes, limits of single processes would only get in its way.
fn rlimits_of(limits: &Limits, counts: Counts) -> Rlimits {
    Rlimits {
        cpu_seconds: limits.cpu_time.map(|time| time.as_secs().max(1)),
        file_size_bytes: Some(limits.file_size_bytes),
        open_files: Some(limits.open_files),
        processes: (!counts.processes).then(|| limits.pids.saturating_add(SUPERVISORS)),
        data_bytes: (!counts.memory).then_some(limits.memory_bytes),
    }
}
