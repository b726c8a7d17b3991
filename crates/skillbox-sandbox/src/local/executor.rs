//! The executor itself: the launcher, what is built ahead, and the way from there to a session's sandbox.

use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};
use skillbox_executor::{Counts, ExecPlan, Executor, ExecutorError, Sandbox, SandboxSpec};
use skillbox_init::InitClient;
use skillbox_types::{End, Isolation, IsolationLevel, Limits, NetworkPolicy, WorkspacePath};
use tokio::sync::{Mutex as AsyncMutex, OnceCell};
use tokio_util::sync::CancellationToken;

use super::client::{LauncherClient, StartError};
use super::config::LocalConfig;
use super::ownership;
use super::placement::{LocalPlacement, cgroup_limits};
use super::remedy::remedy;
use super::report;
use super::uids::{UidLease, Uids};
use crate::cgroup::{CgroupConfig, CgroupError, CgroupTree};
use crate::launcher::{BuildSpec, LauncherConfig};
use crate::seccomp::{Arch, FilterOptions, Policy};

pub(crate) const NAME: &str = "local";

/// Runs commands in Linux namespaces on this machine.
///
/// ```no_run
/// # async fn example() -> Result<(), skillbox_executor::ExecutorError> {
/// use skillbox_executor::Executor as _;
/// use skillbox_sandbox::{LocalConfig, LocalExecutor};
///
/// let executor = LocalExecutor::new(LocalConfig::new("/var/lib/skillbox", "/var/lib/skillbox/store"))?;
/// println!("{:?}", executor.probe().await?.level);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct LocalExecutor {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    config: LocalConfig,
    /// Started at the first need, and again after it was lost.
    running: AsyncMutex<Option<Arc<Running>>>,
    probed: OnceCell<()>,
}

/// A launcher and what belongs to it.
#[derive(Debug)]
struct Running {
    launcher: Arc<LauncherClient>,
    cgroup: Result<CgroupTree, NoCgroup>,
    uids: Option<Arc<Uids>>,
    isolation: Arc<Isolation>,
}

/// Why there is no cgroup, and what to do about it.
#[derive(Debug)]
pub(crate) struct NoCgroup {
    pub(crate) reason: String,
    pub(crate) remedy: String,
}

impl LocalExecutor {
    /// Checks the configuration; nothing is started before the first need.
    pub fn new(config: LocalConfig) -> Result<Self, ExecutorError> {
        config.check()?;
        Ok(Self {
            inner: Arc::new(Inner { config, running: AsyncMutex::default(), probed: OnceCell::new() }),
        })
    }
}

#[async_trait]
impl Executor for LocalExecutor {
    fn name(&self) -> &'static str {
        NAME
    }

    async fn probe(&self) -> Result<Isolation, ExecutorError> {
        let running = self.inner.running().await?;
        self.inner.probe_once(&running).await?;
        Ok((*running.isolation).clone())
    }

    async fn open(&self, spec: SandboxSpec) -> Result<Sandbox, ExecutorError> {
        if spec.network != NetworkPolicy::None {
            return Err(ExecutorError::Unsupported {
                executor: NAME,
                what: format!("network {:?}", spec.network),
            });
        }
        let running = self.inner.running().await?;
        running.open(spec).await
    }

    async fn shut_down(&self) {
        if let Some(running) = self.inner.running.lock().await.take() {
            running.launcher.shut_down().await;
        }
    }
}

impl Inner {
    async fn running(&self) -> Result<Arc<Running>, ExecutorError> {
        let mut slot = self.running.lock().await;
        if let Some(running) = slot.as_ref().filter(|running| !running.launcher.is_lost()) {
            return Ok(running.clone());
        }
        let running = Arc::new(self.start().await?);
        *slot = Some(running.clone());
        Ok(running)
    }

    async fn start(&self) -> Result<Running, ExecutorError> {
        let config = &self.config;
        std::fs::create_dir_all(&config.state_dir)
            .map_err(ExecutorError::io(format!("make {}", config.state_dir.display())))?;
        let cgroup = if config.use_cgroups {
            CgroupTree::probe(&CgroupConfig::default())
                .map_err(|e| NoCgroup { reason: e.to_string(), remedy: e.remedy })
        } else {
            Err(NoCgroup {
                reason: "cgroups are switched off in the configuration".to_owned(),
                remedy: "set use_cgroups".to_owned(),
            })
        };
        let launcher_config = LauncherConfig {
            runtime_dirs: config.runtime_dirs.clone(),
            store: config.store_dir.clone(),
            track_by_cgroup: cgroup.is_ok(),
        };
        let launcher = match LauncherClient::start(&config.launcher, launcher_config).await {
            Ok(launcher) => Arc::new(launcher),
            Err(StartError::Executor(error)) => return Err(error),
            Err(StartError::Setup(error)) => {
                return Err(self.unavailable(None, error.to_string(), remedy(&error)));
            }
        };
        let uids = if launcher.report().privileged {
            let lock = Uids::lock(&config.state_dir, config.uid_base);
            Some(lock.map_err(ExecutorError::io("take uids for sandboxes"))?)
        } else {
            None
        };
        let filter = Policy::new(FilterOptions::default()).compile(Arch::native()).instructions().len();
        let isolation = report::isolation(launcher.report(), &cgroup, filter);
        if isolation.level < config.minimum {
            let why = cgroup.as_ref().err().map_or("no fresh /proc".to_owned(), |e| e.reason.clone());
            let advice = cgroup.as_ref().err().map_or(String::new(), |e| e.remedy.clone());
            return Err(self.unavailable(Some(isolation.level), why, advice));
        }
        Ok(Running { launcher, cgroup, uids, isolation: Arc::new(isolation) })
    }

    fn unavailable(&self, found: Option<IsolationLevel>, failed: String, remedy: String) -> ExecutorError {
        ExecutorError::SandboxUnavailable { minimum: self.config.minimum, found, failed, remedy }
    }

    /// Runs a real command in a real sandbox, once.
    async fn probe_once(&self, running: &Arc<Running>) -> Result<(), ExecutorError> {
        self.probed.get_or_try_init(async || self.try_command(running).await).await?;
        Ok(())
    }

    async fn try_command(&self, running: &Arc<Running>) -> Result<(), ExecutorError> {
        let failed = ExecutorError::io("make a folder for a trial command");
        // In the trash from the start: whoever dies meanwhile leaves nothing that is not removed.
        let trash = self.config.state_dir.join("trash");
        std::fs::create_dir_all(&trash).map_err(ExecutorError::io("make a folder for a trial command"))?;
        let dir = tempfile::Builder::new().prefix("probe-").tempdir_in(&trash).map_err(failed)?;
        let folder = |name: &str| {
            let path = dir.path().join(name);
            std::fs::create_dir(&path)
                .map(|()| path)
                .map_err(ExecutorError::io("make a folder for a trial command"))
        };
        let (workspace, home) = (folder("ws")?, folder("home")?);
        let limits = Limits::default();
        let sandbox = running
            .open(SandboxSpec {
                owned: vec![workspace.clone(), home.clone()],
                workspace,
                home,
                runs: WorkspacePath::root(),
                first_run: 1,
                limits: limits.clone(),
                network: NetworkPolicy::None,
                owner: None,
            })
            .await?;
        let plan = ExecPlan {
            argv: ["/bin/sh", "-c", ":"].map(str::to_owned).to_vec(),
            env: Vec::new(),
            cwd: WorkspacePath::root(),
            stdin: None,
            timeout: Some(Duration::from_secs(10)),
            grace: Duration::ZERO,
            limits,
        };
        let outcome = sandbox.exec(plan, None, CancellationToken::new()).await;
        let closed = sandbox.close().await;
        match outcome?.end {
            // Images without a shell are sandboxes all the same.
            End::Exited { exit_code: 0 } | End::SpawnFailed { errno: Some(libc::ENOENT), .. } => closed,
            end => Err(self.unavailable(
                None,
                format!("a trial command ended with {end:?}"),
                "run `skillbox doctor`, and report its output".to_owned(),
            )),
        }
    }
}

impl Running {
    async fn open(&self, spec: SandboxSpec) -> Result<Sandbox, ExecutorError> {
        let uid = match &self.uids {
            Some(uids) => Some(uids.lease(spec.owner).ok_or_else(|| {
                ExecutorError::Config(
                    "every uid for sandboxes is in use: close sessions, or start another engine".to_owned(),
                )
            })?),
            None => None,
        };
        let give_to = uid.as_ref().map(UidLease::uid).filter(|uid| spec.owner != Some(*uid));
        let (tree, limits, owned) =
            (self.cgroup.as_ref().ok().cloned(), cgroup_limits(&spec.limits), spec.owned);
        // The launcher builds meanwhile.
        let preparing = tokio::task::spawn_blocking(move || {
            if let Some(uid) = give_to {
                for dir in &owned {
                    ownership::give(dir, uid)
                        .map_err(ExecutorError::io(format!("hand over {}", dir.display())))?;
                }
            }
            tree.map(|tree| tree.session(&limits)).transpose().map_err(|e| setup_failed(&e))
        });
        let (ours, theirs) = connection_pair()?;
        let host_uid = uid.as_ref().map_or_else(|| nix::unistd::geteuid().as_raw(), UidLease::uid);
        let build =
            BuildSpec { host_uid, tmp_bytes: spec.limits.tmp_bytes, shm_bytes: spec.limits.shm_bytes };
        let built = self.launcher.build(build, theirs).await;
        let prepared = preparing.await.map_err(|e| ExecutorError::SandboxLost(e.to_string()));
        let (id, _pidfd) = built?;
        let cgroup = match prepared.and_then(|prepared| prepared) {
            Ok(cgroup) => cgroup,
            Err(error) => {
                self.launcher.close_in_background(id);
                return Err(error);
            }
        };
        let placement = Arc::new(LocalPlacement {
            launcher: self.launcher.clone(),
            id,
            uid,
            cgroup: Mutex::new(cgroup),
            counts: self.cgroup.as_ref().map_or_else(
                |_| Counts::default(),
                |tree| {
                    let controllers = tree.controllers();
                    Counts { memory: controllers.memory.is_some(), processes: controllers.pids.is_some() }
                },
            ),
            closed: AtomicBool::new(false),
        });
        self.launcher.attach_workspace(id, spec.workspace, spec.home).await?;
        let client = InitClient::connect(ours).await?;
        Sandbox::new(client, placement, self.isolation.clone(), spec.runs, spec.first_run)
    }
}

fn connection_pair() -> Result<(OwnedFd, OwnedFd), ExecutorError> {
    socketpair(AddressFamily::Unix, SockType::Stream, None, SockFlag::SOCK_CLOEXEC)
        .map_err(|e| ExecutorError::io("make a socket for the sandbox")(e.into()))
}

fn setup_failed(error: &CgroupError) -> ExecutorError {
    super::placement::cgroup_error(error)
}
