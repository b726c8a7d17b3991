//! What a local sandbox enforces.

use skillbox_types::{Isolation, IsolationLevel, Mechanism, MechanismState, NetworkPolicy};

use super::executor::{NAME, NoCgroup};
use crate::cgroup::{CgroupTree, Provider};
use crate::launcher::SetupReport;

/// Puts the report together; every namespace in it was entered, or there would be no sandbox to report on.
pub(crate) fn isolation(
    setup: &SetupReport,
    cgroup: &Result<CgroupTree, NoCgroup>,
    filter: usize,
) -> Isolation {
    let active = |name: &str, detail: &str| Mechanism {
        name: name.to_owned(),
        state: MechanismState::Active,
        detail: detail.to_owned(),
    };
    let mapping = if setup.privileged {
        "uid 1000 inside is an unprivileged uid of its own on the host"
    } else {
        "uid 1000 inside is the engine's own user on the host"
    };
    let mut mechanisms = vec![
        active("user_namespace", mapping),
        active("mount_namespace", "read-only root with the runtime directories alone"),
        active("pid_namespace", "ended with its process 1"),
        active("ipc_namespace", ""),
        active("uts_namespace", ""),
        active("cgroup_namespace", ""),
        active("network_namespace", "own loopback, no route"),
        active("seccomp", &format!("{filter} instructions")),
        active("no_new_privs", ""),
        active("capabilities", "none"),
        active("rlimits", "CPU time, file size, open files, core dumps, pending signals, locked memory"),
        active("tmpfs_sizes", "/tmp and /dev/shm"),
        proc(setup),
    ];
    let mut level = if setup.no_proc.is_none() { IsolationLevel::Full } else { IsolationLevel::Namespaces };
    match cgroup {
        Ok(tree) => {
            let controllers = tree.controllers();
            for (name, provider) in [("cgroup_memory", controllers.memory), ("cgroup_pids", controllers.pids)]
            {
                let state = match provider {
                    Some(_) => MechanismState::Active,
                    None => MechanismState::Missing {
                        reason: "the controller is not there".to_owned(),
                        remedy: Some("mount or enable the controller".to_owned()),
                    },
                };
                if provider.is_none() {
                    level = IsolationLevel::Namespaces;
                }
                let detail = match provider {
                    Some(Provider::V1) => "cgroup v1",
                    Some(Provider::V2) => "cgroup v2",
                    None => "",
                };
                mechanisms.push(Mechanism { name: name.to_owned(), state, detail: detail.to_owned() });
            }
        }
        Err(unavailable) => {
            level = IsolationLevel::Namespaces;
            mechanisms.push(Mechanism {
                name: "cgroup".to_owned(),
                state: MechanismState::Missing {
                    reason: unavailable.reason.clone(),
                    remedy: Some(unavailable.remedy.clone()),
                },
                detail: "memory is not limited as a whole: RLIMIT_DATA limits each process's private memory alone, and counts no shared \
                         memory (shared mappings, memfd_create, SysV segments) and no socket buffers; processes are limited by RLIMIT_NPROC"
                    .to_owned(),
            });
        }
    }
    Isolation { executor: NAME.to_owned(), level, network: NetworkPolicy::None, mechanisms }
}

fn proc(setup: &SetupReport) -> Mechanism {
    let state = match &setup.no_proc {
        None => MechanismState::Active,
        Some(error) => {
            MechanismState::Missing { reason: error.to_string(), remedy: Some(super::remedy::remedy(error)) }
        }
    };
    Mechanism { name: "fresh_proc".to_owned(), state, detail: String::new() }
}
