//! The engine's side of the launcher.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};
use skillbox_executor::ExecutorError;
use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::sync::oneshot;

use crate::launcher::{
    BuildSpec, FromLauncher, LAUNCHER_NAME, LauncherConfig, LauncherError, Request, SetupReport, ToLauncher,
    UNANSWERED, is_hooked, receive_blocking, send_blocking,
};

/// The executable that becomes the launcher.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum LauncherProgram {
    /// This program itself, which calls [`run_launcher_if_asked`](crate::run_launcher_if_asked) first thing in `main`.
    #[default]
    CurrentExe,
    /// A program that does so: the `skillbox` command line, for hosts that are not written in Rust.
    Path(PathBuf),
}

type Answer = Result<Option<OwnedFd>, LauncherError>;

#[derive(Debug, Default)]
struct Waiting {
    requests: HashMap<u64, oneshot::Sender<Answer>>,
    lost: bool,
}

#[derive(Debug)]
struct Shared {
    socket: UnixStream,
    waiting: Mutex<Waiting>,
    ids: AtomicU64,
}

/// A running launcher. When the last handle is dropped, the launcher ends, and every sandbox with it.
#[derive(Debug)]
pub(crate) struct LauncherClient {
    shared: Arc<Shared>,
    report: SetupReport,
    reader: tokio::task::JoinHandle<()>,
    child: Mutex<Option<Child>>,
}

/// Why no launcher is there.
#[derive(Debug)]
pub(crate) enum StartError {
    Executor(ExecutorError),
    Setup(LauncherError),
}

impl LauncherClient {
    /// Starts the launcher and waits until its template stands.
    pub(crate) async fn start(program: &LauncherProgram, config: LauncherConfig) -> Result<Self, StartError> {
        let failed =
            |what: &'static str| move |e: io::Error| StartError::Executor(ExecutorError::io(what)(e));
        let (child, socket) = spawn(program).map_err(StartError::Executor)?;
        let mut child = Some(child);
        let socket = UnixStream::from_std(socket.into()).map_err(failed("talk to the launcher"))?;
        send(&socket, &Request { number: UNANSWERED, what: ToLauncher::Setup(config) }, None)
            .await
            .map_err(failed("talk to the launcher"))?;
        let report = match receive(&socket).await {
            Ok(Some((FromLauncher::Ready { report }, _))) => report,
            Ok(Some((FromLauncher::Failed { error, .. }, _))) => {
                reap(child.take());
                return Err(StartError::Setup(error));
            }
            Ok(_) => {
                reap(child.take());
                let lost = "the launcher ended while it was set up".to_owned();
                return Err(StartError::Executor(ExecutorError::SandboxLost(lost)));
            }
            Err(error) => {
                reap(child.take());
                return Err(failed("talk to the launcher")(error));
            }
        };
        let shared = Arc::new(Shared { socket, waiting: Mutex::default(), ids: AtomicU64::new(1) });
        let reader = tokio::spawn(read_loop(shared.clone()));
        Ok(Self { shared, report, reader, child: Mutex::new(child) })
    }

    pub(crate) fn report(&self) -> &SetupReport {
        &self.report
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.shared.waiting().lost
    }

    /// Builds a sandbox whose init serves `connection`; answers its id and a pidfd of its init.
    pub(crate) async fn build(
        &self,
        spec: BuildSpec,
        connection: OwnedFd,
    ) -> Result<(u64, OwnedFd), ExecutorError> {
        let id = self.shared.ids.fetch_add(1, Ordering::Relaxed);
        let answer = self.request(ToLauncher::Build { id, spec }, Some(connection)).await?;
        match answer {
            Ok(Some(pidfd)) => Ok((id, pidfd)),
            Ok(None) => {
                Err(ExecutorError::SandboxLost("the launcher sent no handle on the sandbox".to_owned()))
            }
            Err(error) => Err(setup_error(error)),
        }
    }

    pub(crate) async fn attach_workspace(
        &self,
        id: u64,
        workspace: PathBuf,
        home: PathBuf,
    ) -> Result<(), ExecutorError> {
        self.request(ToLauncher::AttachWorkspace { id, workspace, home }, None)
            .await?
            .map_err(setup_error)?;
        Ok(())
    }

    pub(crate) async fn attach_skill(
        &self,
        id: u64,
        name: String,
        lower: PathBuf,
        layers: &std::path::Path,
    ) -> Result<(), ExecutorError> {
        let (upper, work) = (layers.join("upper"), layers.join("work"));
        let message = ToLauncher::AttachSkill { id, name, lower, upper, work };
        self.request(message, None).await?.map_err(setup_error)?;
        Ok(())
    }

    pub(crate) async fn close(&self, id: u64) -> Result<(), ExecutorError> {
        self.request(ToLauncher::Close { id }, None).await?.map_err(setup_error)?;
        Ok(())
    }

    /// Ends a sandbox without waiting for it.
    pub(crate) fn close_in_background(&self, id: u64) {
        let _ = self.shared.socket.try_io(Interest::WRITABLE, || {
            let request = Request { number: UNANSWERED, what: ToLauncher::Close { id } };
            send_blocking(&self.shared.socket, &request, &[])
        });
    }

    async fn request(&self, what: ToLauncher, fd: Option<OwnedFd>) -> Result<Answer, ExecutorError> {
        let number = self.shared.ids.fetch_add(1, Ordering::Relaxed);
        let (sender, receiver) = oneshot::channel();
        let lost = || ExecutorError::SandboxLost("the launcher is gone".to_owned());
        {
            let mut waiting = self.shared.waiting();
            if waiting.lost {
                return Err(lost());
            }
            waiting.requests.insert(number, sender);
        }
        send(&self.shared.socket, &Request { number, what }, fd)
            .await
            .map_err(ExecutorError::io("talk to the launcher"))?;
        receiver.await.map_err(|_| lost())
    }

    /// Ends the launcher and waits until it, and with it every sandbox, is gone.
    pub(crate) async fn shut_down(&self) {
        self.reader.abort();
        self.shared.lose();
        let _ = rustix::net::shutdown(&self.shared.socket, rustix::net::Shutdown::Both);
        let child = self.child.lock().unwrap_or_else(PoisonError::into_inner).take();
        let _ = tokio::task::spawn_blocking(move || reap(child)).await;
    }
}

impl Drop for LauncherClient {
    fn drop(&mut self) {
        self.reader.abort();
        let _ = rustix::net::shutdown(&self.shared.socket, rustix::net::Shutdown::Both);
        // The launcher ends at the end of its connection; a thread of its own waits, since waiting here could block a runtime.
        if let Some(mut child) = self.child.lock().unwrap_or_else(PoisonError::into_inner).take() {
            std::thread::spawn(move || child.wait());
        }
    }
}

impl Shared {
    /// Answers everybody who waits that there is no launcher any more.
    fn lose(&self) {
        let mut waiting = self.waiting();
        waiting.lost = true;
        waiting.requests.clear();
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn setup_error(error: LauncherError) -> ExecutorError {
    let cause = nix::errno::Errno::from_raw(error.errno).desc().to_owned();
    ExecutorError::Setup { step: error.step, cause, errno: error.errno }
}

fn reap(child: Option<Child>) {
    if let Some(mut child) = child {
        let _ = child.wait();
    }
}

fn spawn(program: &LauncherProgram) -> Result<(Child, OwnedFd), ExecutorError> {
    let path = match program {
        LauncherProgram::CurrentExe if !is_hooked() => {
            return Err(ExecutorError::Config(
                "the local executor starts this program a second time as its launcher, but the program never calls \
                 skillbox_sandbox::run_launcher_if_asked(); call it first thing in main, or name the skillbox command \
                 line as the launcher program"
                    .to_owned(),
            ));
        }
        LauncherProgram::CurrentExe => PathBuf::from("/proc/self/exe"),
        LauncherProgram::Path(path) => path.clone(),
    };
    let (ours, theirs) = socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC)
        .map_err(|e| ExecutorError::io("make a socket for the launcher")(e.into()))?;
    rustix::io::ioctl_fionbio(&ours, true)
        .map_err(|e| ExecutorError::io("make a socket for the launcher")(e.into()))?;
    // Without pre_exec the standard library starts programs by posix_spawn, whatever this process weighs.
    let child = Command::new(&path)
        .arg0(LAUNCHER_NAME)
        // An interrupt at the terminal is for the engine; the launcher, and with it every sandbox, ends when the engine says so.
        .process_group(0)
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::from(theirs))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(ExecutorError::io(format!("start the launcher {}", path.display())))?;
    Ok((child, ours))
}

async fn send(socket: &UnixStream, message: &Request, fd: Option<OwnedFd>) -> io::Result<()> {
    let fds: Vec<OwnedFd> = fd.into_iter().collect();
    loop {
        match send_blocking(socket, message, &fds) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => socket.writable().await?,
            other => return other,
        }
    }
}

async fn receive(socket: &UnixStream) -> io::Result<Option<(FromLauncher, Vec<OwnedFd>)>> {
    socket.async_io(Interest::READABLE, || receive_blocking(socket)).await
}

async fn read_loop(shared: Arc<Shared>) {
    while let Ok(Some((message, fds))) = receive(&shared.socket).await {
        let (number, answer) = match message {
            FromLauncher::Done { number } => (number, Ok(fds.into_iter().next())),
            FromLauncher::Failed { number, error } => (number, Err(error)),
            FromLauncher::Ready { .. } => continue,
        };
        if let Some(waiting) = shared.waiting().requests.remove(&number) {
            let _ = waiting.send(answer);
        }
    }
    shared.lose();
}
