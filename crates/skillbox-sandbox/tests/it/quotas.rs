//! What the kernel counts for the whole host, or apart from other memory: a session must not take it all.
//!
//! Expected values are those that the launcher sets; see inotify(7), namespaces(7), getrlimit(2), sysvipc(7), io_setup(2), rename(2).

use skillbox_sandbox::cgroup::{CgroupConfig, CgroupLimits, CgroupTree, Provider};
use skillbox_testkit::contract::{Harness, run, run_alone};
use skillbox_types::{Limits, MechanismState};

use crate::contract::{local, without_cgroups};

/// Python with the C library at hand, and `fails(call)`: the name of its error.
const PRELUDE: &str = "import ctypes, errno, os, signal, socket, sys, time
c = ctypes.CDLL(None, use_errno=True)
def call(f, *args):
    ctypes.set_errno(0)
    return 'ok' if f(*args) != -1 else errno.errorcode[ctypes.get_errno()]
";

async fn python(h: &Harness, script: &str) -> String {
    h.python(&format!("{PRELUDE}{script}")).await.ok().trim().to_owned()
}

fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// Six processes with 240 sockets each, filled with `send` and never read, and what the host then counts for the protocol.
fn hoard(open: &str, protocol: &str) -> String {
    format!(
        "kids = []
for _ in range(6):
    r, w = os.pipe()
    if os.fork() == 0:
        keep = []
{open}
        os.write(w, b'x')
        time.sleep(60)
        os._exit(0)
    os.close(w)
    kids.append(r)
for r in kids: os.read(r, 1)
line = next(l for l in open('/proc/net/sockstat') if l.startswith('{protocol}:')).split()
print(int(line[line.index('mem') + 1]) * os.sysconf('SC_PAGE_SIZE') >> 20)"
    )
}

const UDP: &str = "        t = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        for _ in range(240):
            s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 212992)
            s.bind(('127.0.0.1', 0))
            keep.append(s)
            for _ in range(14):
                try: t.sendto(bytes(32000), s.getsockname())
                except OSError: pass";

const TCP: &str = "        l = socket.create_server(('127.0.0.1', 0))
        for _ in range(60):
            a = socket.create_connection(l.getsockname())
            b, _ = l.accept()
            a.setblocking(False)
            keep += [a, b]
            try:
                while True: a.send(bytes(65536))
            except OSError: pass";

const MEMORY: u64 = 128 << 20;

async fn small() -> Harness {
    let limits = Limits { memory_bytes: MEMORY, open_files: 4096, ..Limits::default() };
    Harness::open(local().await, limits).await
}

async fn socket_buffers(open: &str, protocol: &str, most: u64) {
    let h = small().await;
    if h.is_full_or_say("the memory of socket buffers") {
        // Twice, as a command in a fresh cgroup and as one in a used one.
        for _ in 0..2 {
            let ran = h.python(&format!("{PRELUDE}{}", hoard(open, protocol))).await;
            // To be ended for it is right as well.
            if let skillbox_types::End::Exited { exit_code: 0 } = ran.end() {
                let megabytes: u64 = ran.stdout().trim().parse().unwrap();
                println!("{protocol}: {megabytes} MiB in socket buffers");
                assert!(megabytes < most, "{protocol}: {megabytes} MiB");
            } else {
                assert!(!ran.stderr().contains("Error"), "{}", ran.stderr());
            }
        }
        h.assert_usable().await;
    }
    h.sandbox().close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn socket_buffers_count_as_memory() {
    // The count is the host's: others get some room.
    socket_buffers(UDP, "UDP", (MEMORY >> 20) + 32).await;
    // The kernel grants each TCP socket a little above the limit.
    socket_buffers(TCP, "TCP", (MEMORY >> 20) + 80).await;
}

#[test]
fn the_socket_limit_follows_the_memory_limit() {
    let Ok(tree) = CgroupTree::probe(&CgroupConfig::default()) else {
        return println!("left out: no cgroup");
    };
    if tree.controllers().memory != Some(Provider::V1) {
        return println!("left out: memory is not on v1 here");
    }
    let limits = |memory| CgroupLimits { memory_bytes: memory, ..CgroupLimits::default() };
    let session = tree.session(&limits(Some(64 << 20))).unwrap();
    let _slots = [session.init_slot().unwrap(), session.exec_slot().unwrap()];
    let limit = || -> Option<u64> {
        let name = "memory.kmem.tcp.limit_in_bytes";
        let found = session.dirs().iter().find_map(|dir| std::fs::read_to_string(dir.join(name)).ok());
        found?.trim().parse().ok()
    };
    let Some(mut found) = limit() else { return println!("left out: this kernel does not count sockets") };
    for memory in [64 << 20, 256 << 20, 32 << 20] {
        session.set_limits(&limits(Some(memory))).unwrap();
        found = limit().unwrap();
        assert_eq!(found, memory);
    }
    assert_eq!(session.socket_bytes().unwrap(), Some(0));
    session.set_limits(&limits(None)).unwrap();
    assert!(limit().unwrap() > found << 20);
}

const INOTIFY: &str = "n = 0
while (e := call(c.inotify_init1, 0)) == 'ok' and n < 1000: n += 1
print(n, e)";

/// The kernel's counts go up the user namespaces: 20 sandboxes take more together than one user of the host may have.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inotify_instances_are_the_sandboxs_own() {
    run_alone(local, async |h: &Harness| {
        if !h.has("fresh_proc") {
            println!("left out: without /proc there is nothing to set");
            return;
        }
        assert_eq!(python(h, INOTIFY).await, "16 EMFILE");
        let watches = "print(*(open('/proc/sys/user/max_inotify_' + n).read().strip() for n in ('instances', 'watches')))";
        assert_eq!(python(h, watches).await, "16 8192");
        let change = "try: open('/proc/sys/user/max_inotify_instances', 'w')\nexcept OSError as e: print(errno.errorcode[e.errno])";
        assert!(["EROFS", "EACCES"].contains(&python(h, change).await.as_str()));
        if !is_root() {
            println!("left out: as an ordinary user all sandboxes are that user's");
            return;
        }
        let mut others = Vec::new();
        for _ in 0..20 {
            let other = h.another().await;
            let plan = other.python_plan(&format!(
                "{PRELUDE}{INOTIFY}\nopen('n', 'w').write(str(n)); os.rename('n', 'taken'); time.sleep(60)"
            ));
            let running = other.spawn(plan, tokio_util::sync::CancellationToken::new());
            other.until_written("taken").await;
            assert_eq!(std::fs::read_to_string(other.workspace().join("taken")).unwrap(), "16");
            others.push((other, running));
        }
        // SAFETY: takes a number; what it makes is closed below.
        let mine: Vec<_> = (0..8).map(|_| unsafe { libc::inotify_init1(libc::IN_CLOEXEC) }).collect();
        for fd in &mine {
            // SAFETY: made above; closing -1 does nothing.
            unsafe { libc::close(*fd) };
        }
        assert!(mine.iter().all(|fd| *fd >= 0), "the host's root gets no inotify instance: {mine:?}");
        for (other, running) in others {
            other.sandbox().close().await.unwrap();
            let _ = running.await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn signals_messages_and_locked_memory_are_limited() {
    for cgroups in [true, false] {
        let setup = async || if cgroups { local().await } else { without_cgroups().await };
        run(setup, async |h: &Harness| {
            let limits = "import resource as r
print(*(r.getrlimit(l) for l in (r.RLIMIT_SIGPENDING, r.RLIMIT_MSGQUEUE, r.RLIMIT_MEMLOCK)))";
            assert_eq!(python(h, limits).await, "(512, 512) (0, 0) (65536, 65536)");
            let raise = "import resource as r
try: r.setrlimit(r.RLIMIT_SIGPENDING, (513, 513))
except ValueError: print('refused')";
            assert_eq!(python(h, raise).await, "refused");
            let queue = "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGRTMIN + 1])
n = 0
while (e := call(c.sigqueue, os.getpid(), int(signal.SIGRTMIN) + 1, None)) == 'ok' and n < 100000: n += 1
print(n, e)";
            let answer = python(h, queue).await;
            let (count, error) = answer.split_once(' ').unwrap();
            assert!((400..=512).contains(&count.parse::<u32>().unwrap()) && error == "EAGAIN", "{answer}");
            let lock = "m = ctypes.create_string_buffer(1 << 20)
print(call(c.mlock, m, ctypes.c_size_t(1 << 20)))";
            assert_eq!(python(h, lock).await, "ENOMEM");
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sysv_shared_memory_is_limited_by_its_namespace() {
    run(local, async |h: &Harness| {
        if !is_root() {
            println!("left out: only the host's root may set it");
            return;
        }
        let shm = h.limits().shm_bytes;
        let script = format!(
            "c.shmget.argtypes = [ctypes.c_int, ctypes.c_size_t, ctypes.c_int]
print(call(c.shmget, 0, {shm} + 1, 0o1600), call(c.shmget, 0, 4096, 0o1600), call(c.shmget, 0, {shm}, 0o1600))"
        );
        assert_eq!(python(h, &script).await, "EINVAL ok ENOSPC");
        // The host's own stays.
        let host = std::fs::read_to_string("/proc/sys/kernel/shmmax").unwrap();
        assert_ne!(host.trim(), shm.to_string());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn asynchronous_io_contexts_are_refused() {
    run(local, async |h: &Harness| {
        let number = libc::SYS_io_setup;
        let script = format!("x = ctypes.c_ulong(0)\nprint(call(c.syscall, {number}, 128, ctypes.byref(x)))");
        assert_eq!(python(h, &script).await, "ENOSYS");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn renaming_makes_no_device_file() {
    run(local, async |h: &Harness| {
        let number = libc::SYS_renameat2;
        let script = format!(
            "def rename(a, b, flags): return call(c.syscall, {number}, -100, a, -100, b, flags)
for name in ('a', 'b', '/tmp/a'): open(name, 'w').close()
print(rename(b'a', b'c', 4), rename(b'/tmp/a', b'/tmp/c', 5), rename(b'a', b'b', 2), rename(b'a', b'b', 1), rename(b'a', b'd', 0))
print(*sorted(os.listdir('.')))"
        );
        let answer = python(h, &script).await;
        let (outcomes, names) = answer.split_once('\n').unwrap();
        // RENAME_WHITEOUT; RENAME_WHITEOUT and RENAME_NOREPLACE; RENAME_EXCHANGE; RENAME_NOREPLACE; none.
        assert_eq!(outcomes, "EPERM EPERM ok EEXIST ok");
        assert!(names.contains("b d"), "{names}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_report_without_cgroups_promises_nothing_about_shared_memory() {
    let setup = without_cgroups().await;
    let isolation = setup.executor.probe().await.unwrap();
    let cgroup = isolation.mechanisms.iter().find(|mechanism| mechanism.name == "cgroup").unwrap();
    assert!(matches!(cgroup.state, MechanismState::Missing { .. }));
    for word in ["not limited as a whole", "shared", "memfd", "SysV", "each process"] {
        assert!(cgroup.detail.contains(word), "{word}: {}", cgroup.detail);
    }
    setup.executor.shut_down().await;
}

#[test]
fn as_an_ordinary_user() {
    skillbox_testkit::again_as_an_ordinary_user(&["quotas::"], &[]);
}
