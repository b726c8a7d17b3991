//! The filter in the kernel: real system calls of a child that has put it on itself.
//!
//! Expected outcomes are sandbox.md §5.3 and §6.1, and the manual pages.

use std::{
    fs,
    io::Read,
    os::{
        fd::{AsRawFd, FromRawFd, OwnedFd},
        unix::process::{CommandExt, ExitStatusExt},
    },
    path::Path,
    process::{Command, Stdio},
};

use skillbox_sandbox::seccomp::{Arch, FilterOptions, Policy, Program};

fn program() -> Program {
    Policy::new(FilterOptions::default()).compile(Arch::native())
}

fn is_root() -> bool {
    // SAFETY: no arguments, cannot fail.
    unsafe { libc::geteuid() == 0 }
}

const NOBODY: libc::c_long = 65534;

/// To be called in a forked child: optionally becomes an ordinary user, then puts the filter on. Returns an errno, 0 on success.
fn confine(program: &Program, ordinary_user: bool) -> i32 {
    // SAFETY: plain numbers; acts on this process alone.
    unsafe {
        if ordinary_user
            && (libc::syscall(libc::SYS_setresgid, NOBODY, NOBODY, NOBODY) != 0
                || libc::syscall(libc::SYS_setresuid, NOBODY, NOBODY, NOBODY) != 0)
        {
            return errno();
        }
        if libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 {
            return errno();
        }
    }
    program.install().map_or_else(|error| error.raw_os_error().unwrap_or(-1), |()| 0)
}

fn errno() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(-1)
}

/// 0, or the errno of a system call.
fn call(number: libc::c_long, args: [usize; 5]) -> i32 {
    // SAFETY: the tests pass valid or null pointers; calls that succeed only change the child.
    let answer = unsafe { libc::syscall(number, args[0], args[1], args[2], args[3], args[4]) };
    if answer == -1 { errno() } else { 0 }
}

/// Runs `body` in a forked child, under the filter; nothing in it may allocate. Returns what it reports, and how the child ended.
fn in_child<const N: usize>(
    ordinary_user: bool,
    body: impl FnOnce() -> [i32; N],
) -> (Option<[i32; N]>, libc::c_int) {
    let program = program();
    let mut ends = [0; 2];
    // SAFETY: `ends` has room for two descriptors.
    assert_eq!(unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) }, 0);
    // SAFETY: fresh descriptors that nobody else owns.
    let (read, write) = unsafe { (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])) };
    // SAFETY: the child only makes system calls and ends with _exit.
    let child = unsafe { libc::fork() };
    assert!(child >= 0);
    if child == 0 {
        let refused = confine(&program, ordinary_user);
        let report = if refused == 0 { body() } else { [-refused; N] };
        // SAFETY: the array is valid for its size.
        unsafe {
            libc::write(write.as_raw_fd(), report.as_ptr().cast(), size_of_val(&report));
            libc::_exit(0);
        }
    }
    drop(write);
    let mut bytes = Vec::new();
    fs::File::from(read).read_to_end(&mut bytes).unwrap();
    let mut status = 0;
    // SAFETY: `status` outlives the call; the child is ours.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    let mut report = [0; N];
    for (value, four) in report.iter_mut().zip(bytes.chunks_exact(4)) {
        *value = i32::from_ne_bytes(four.try_into().unwrap());
    }
    ((bytes.len() == 4 * N).then_some(report), status)
}

/// The table of calls, under the filter, as this user or an ordinary one.
fn outcomes(ordinary_user: bool) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    if ordinary_user {
        use std::os::unix::fs::{PermissionsExt, chown};
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        chown(&file, Some(65534), Some(65534)).unwrap();
        chown(dir.path(), Some(65534), Some(65534)).unwrap();
    }
    let text = |path: &Path| std::ffi::CString::new(path.to_str().unwrap()).unwrap();
    let (path, made, fifo) = (text(&file), text(&dir.path().join("made")), text(&dir.path().join("fifo")));
    let (path, made, fifo) = (path.as_ptr() as usize, made.as_ptr() as usize, fifo.as_ptr() as usize);
    let parent = std::process::id() as usize;
    let at = libc::AT_FDCWD.cast_unsigned() as usize;
    let (create, temporary) =
        ((libc::O_CREAT | libc::O_WRONLY) as usize, (libc::O_TMPFILE | libc::O_WRONLY) as usize);
    let directory = text(dir.path());
    let directory = directory.as_ptr() as usize;
    let mut pair = [0_i32; 2];
    let mut limit = [0_u64; 2];
    let (pair, limit) = (pair.as_mut_ptr() as usize, limit.as_mut_ptr() as usize);
    let (eperm, enosys, family) = (libc::EPERM, libc::ENOSYS, libc::EAFNOSUPPORT);

    let table = [
        ("getpid", libc::SYS_getpid, [0; 5], 0),
        ("ptrace(TRACEME)", libc::SYS_ptrace, [0; 5], eperm),
        ("unshare(NEWUSER)", libc::SYS_unshare, [0x1000_0000, 0, 0, 0, 0], eperm),
        ("clone(NEWUSER)", libc::SYS_clone, [0x1000_0011, 0, 0, 0, 0], eperm),
        ("clone3", libc::SYS_clone3, [0; 5], enosys),
        ("io_uring_setup", libc::SYS_io_uring_setup, [1, 0, 0, 0, 0], enosys),
        ("setns", libc::SYS_setns, [0; 5], eperm),
        ("mount", libc::SYS_mount, [0; 5], eperm),
        ("umount2", libc::SYS_umount2, [0; 5], eperm),
        ("chroot", libc::SYS_chroot, [0; 5], eperm),
        ("open_tree", libc::SYS_open_tree, [at, 0, 0, 0, 0], eperm),
        ("number 470", 470, [0; 5], enosys),
        ("number 100000", 100_000, [0; 5], enosys),
        ("socket(AF_UNIX)", libc::SYS_socket, [1, 1, 0, 0, 0], 0),
        ("socket(AF_INET)", libc::SYS_socket, [2, 1, 0, 0, 0], 0),
        ("socket(AF_INET6, UDP)", libc::SYS_socket, [10, 2, 0, 0, 0], 0),
        ("socket(AF_VSOCK)", libc::SYS_socket, [40, 1, 0, 0, 0], family),
        ("socket(AF_NETLINK)", libc::SYS_socket, [16, 3, 0, 0, 0], family),
        ("socket(AF_ALG)", libc::SYS_socket, [38, 5, 0, 0, 0], family),
        ("socket(AF_PACKET)", libc::SYS_socket, [17, 3, 768, 0, 0], family),
        ("socket(SOCK_RAW)", libc::SYS_socket, [2, 3, 1, 0, 0], eperm),
        ("socket(ping)", libc::SYS_socket, [2, 2, 1, 0, 0], libc::EPROTONOSUPPORT),
        ("socketpair(AF_UNIX)", libc::SYS_socketpair, [1, 1, 0, pair, 0], 0),
        ("socketpair(AF_TIPC)", libc::SYS_socketpair, [30, 1, 0, pair, 0], family),
        ("fchmodat u+s", libc::SYS_fchmodat, [at, path, 0o4755, 0, 0], eperm),
        ("fchmodat g+s", libc::SYS_fchmodat, [at, path, 0o2755, 0, 0], eperm),
        ("fchmodat 755", libc::SYS_fchmodat, [at, path, 0o755, 0, 0], 0),
        ("fchmodat2 u+s", 452, [at, path, 0o4755, 0, 0], eperm),
        ("openat O_CREAT u+s", libc::SYS_openat, [at, made, create, 0o4755, 0], eperm),
        ("openat O_TMPFILE u+s", libc::SYS_openat, [at, directory, temporary, 0o4755, 0], eperm),
        ("openat O_CREAT 644", libc::SYS_openat, [at, made, create, 0o644, 0], 0),
        ("openat without O_CREAT", libc::SYS_openat, [at, path, 0, 0o4755, 0], 0),
        ("mkdirat g+s", libc::SYS_mkdirat, [at, made, 0o2755, 0, 0], eperm),
        ("mknodat device", libc::SYS_mknodat, [at, fifo, 0o020_666, 0x103, 0], eperm),
        ("mknodat FIFO", libc::SYS_mknodat, [at, fifo, 0o010_600, 0, 0], 0),
        ("personality query", libc::SYS_personality, [0xffff_ffff, 0, 0, 0, 0], 0),
        ("personality(READ_IMPLIES_EXEC)", libc::SYS_personality, [0x40_0000, 0, 0, 0, 0], eperm),
        ("ioctl(TIOCSTI)", libc::SYS_ioctl, [0, 0x5412, path, 0, 0], eperm),
        ("ioctl(TIOCSTI) with a high bit", libc::SYS_ioctl, [0, 0x1_0000_5412, path, 0, 0], eperm),
        ("prlimit64 on itself", libc::SYS_prlimit64, [0, 7, 0, limit, 0], 0),
        ("prlimit64 on the parent", libc::SYS_prlimit64, [parent, 7, 0, limit, 0], eperm),
        ("setpriority on itself", libc::SYS_setpriority, [0, 0, 5, 0, 0], 0),
        ("setpriority on the parent", libc::SYS_setpriority, [0, parent, 5, 0, 0], eperm),
        ("setpriority on the user", libc::SYS_setpriority, [2, 0, 5, 0, 0], eperm),
        ("ioprio_set on the user", libc::SYS_ioprio_set, [3, 0, 0, 0, 0], eperm),
        ("sched_setaffinity on the parent", libc::SYS_sched_setaffinity, [parent, 8, limit, 0, 0], eperm),
        ("keyctl", libc::SYS_keyctl, [0; 5], eperm),
        ("add_key", libc::SYS_add_key, [0; 5], eperm),
        ("bpf", libc::SYS_bpf, [0; 5], eperm),
        ("userfaultfd", libc::SYS_userfaultfd, [0; 5], eperm),
        ("perf_event_open", libc::SYS_perf_event_open, [0; 5], eperm),
        ("process_vm_readv", libc::SYS_process_vm_readv, [parent, 0, 0, 0, 0], eperm),
        ("pidfd_getfd", libc::SYS_pidfd_getfd, [0; 5], eperm),
        ("open_by_handle_at", libc::SYS_open_by_handle_at, [0; 5], eperm),
        ("kexec_load", libc::SYS_kexec_load, [0; 5], eperm),
        ("sethostname", libc::SYS_sethostname, [0; 5], eperm),
    ];
    let (report, status) = in_child(ordinary_user, || table.map(|(_, number, args, _)| call(number, args)));
    assert_eq!(status, 0);
    let report = report.unwrap();
    let wrong: Vec<_> = table
        .iter()
        .zip(report)
        .filter(|((.., expected), found)| expected != found)
        .map(|((name, .., expected), found)| format!("{name}: errno {found}, not {expected}"))
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn calls_are_refused_as_this_user() {
    outcomes(false);
}

#[test]
fn calls_are_refused_as_an_ordinary_user() {
    if is_root() {
        outcomes(true);
    } else {
        println!("left out: this user is an ordinary one already, see calls_are_refused_as_this_user");
    }
}

#[test]
fn installing_needs_no_new_privs() {
    if !is_root() {
        println!("left out: becomes an ordinary user itself, which needs root");
        return;
    }
    let program = program();
    // Per-thread credentials, so that the rest of the test program keeps its own.
    let refused = std::thread::spawn(move || {
        // SAFETY: plain numbers; the raw call changes this thread alone.
        assert_eq!(unsafe { libc::syscall(libc::SYS_setresuid, NOBODY, NOBODY, NOBODY) }, 0);
        program.install().unwrap_err().raw_os_error()
    });
    assert_eq!(refused.join().unwrap(), Some(libc::EACCES));
}

#[test]
fn installing_costs_little() {
    let mut times: Vec<_> = (0..100)
        .map(|_| {
            let program = program();
            let measured = std::thread::spawn(move || {
                // SAFETY: plain numbers; acts on this thread alone, as the filter does.
                assert_eq!(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }, 0);
                let begin = std::time::Instant::now();
                program.install().unwrap();
                begin.elapsed()
            });
            measured.join().unwrap()
        })
        .collect();
    times.sort_unstable();
    println!(
        "{} instructions, installed in {:?} (p10), {:?} (median)",
        program().instructions().len(),
        times[10],
        times[50]
    );
    // The promise is 150 µs; a busy machine gets some room.
    assert!(times[10] < std::time::Duration::from_micros(300));
}

#[cfg(target_arch = "x86_64")]
#[test]
fn x32_and_i386_calls_end_the_process() {
    let (report, status) = in_child(false, || [call(0x4000_0027, [0; 5])]);
    assert_eq!((report, libc::WTERMSIG(status)), (None, libc::SIGSYS));
    let (report, status) = in_child(false, || {
        let number = 20_i32; // getpid of i386
        // SAFETY: a system call without arguments; changes rax alone.
        unsafe { std::arch::asm!("int 0x80", inout("eax") number => _) };
        [0]
    });
    // A kernel without i386 calls ends it as well, with SIGSEGV.
    assert_eq!(report, None);
    assert!([libc::SIGSYS, libc::SIGSEGV].contains(&libc::WTERMSIG(status)));
}

#[test]
fn filter_is_inherited_and_stays() {
    let shell = "exec python3 -c 'import os, ctypes; libc = ctypes.CDLL(None, use_errno=True); \
                 assert libc.unshare(0x10000000) == -1 and ctypes.get_errno() == 1'";
    run("sh", &["-c", shell], true);
}

fn present(name: &str) -> bool {
    let found = ["/usr/bin", "/bin"].iter().any(|dir| Path::new(dir).join(name).exists());
    if !found {
        println!("left out: {name} is not installed");
    }
    found
}

fn run(program_name: &str, args: &[&str], succeeds: bool) {
    if !present(program_name) || (args.iter().any(|arg| arg.contains("python3")) && !present("python3")) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let filter = program();
    let mut command = Command::new(program_name);
    command.args(args).current_dir(dir.path()).stdin(Stdio::null()).env("HOME", dir.path());
    // SAFETY: `confine` makes system calls alone.
    unsafe {
        command.pre_exec(move || match confine(&filter, false) {
            0 => Ok(()),
            refused => Err(std::io::Error::from_raw_os_error(refused)),
        });
    }
    let output = command.output().unwrap();
    assert_eq!(
        (output.status.success(), output.status.signal()),
        (succeeds, None),
        "{program_name} {args:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Ordinary work is not broken.
#[test]
fn python_runs_under_the_filter() {
    let pool = "import multiprocessing as m\nif __name__ == '__main__':\n for way in ('fork', 'spawn', 'forkserver'):\n  \
                with m.get_context(way).Pool(2) as p: assert p.map(abs, [-1, -2]) == [1, 2]";
    run(
        "python3",
        &[
            "-c",
            &format!(
                "open('pool.py', 'w').write({pool:?}); import subprocess, sys; subprocess.run([sys.executable, 'pool.py'], check=True)"
            ),
        ],
        true,
    );
    let asynchronous = "import asyncio\nasync def main():\n p = await asyncio.create_subprocess_exec('true')\n assert await p.wait() == 0\nasyncio.run(main())";
    run("python3", &["-c", asynchronous], true);
    let server = "import http.server, threading, urllib.request as u\n\
                  s = http.server.HTTPServer(('127.0.0.1', 0), http.server.SimpleHTTPRequestHandler)\n\
                  threading.Thread(target=s.serve_forever, daemon=True).start()\n\
                  assert u.build_opener(u.ProxyHandler({})).open(f'http://127.0.0.1:{s.server_port}/').status == 200";
    run("python3", &["-c", server], true);
    run("python3", &["-c", "import sqlite3; sqlite3.connect('a.db').execute('create table t(x)')"], true);
    run(
        "python3",
        &["-c", "import os; os.mkfifo('f'); os.nice(1); os.sched_setaffinity(0, os.sched_getaffinity(0))"],
        true,
    );
}

#[test]
fn tools_run_under_the_filter() {
    run("bash", &["-c", "diff <(echo a) <(echo a)"], true);
    run("bash", &["-c", "mkfifo f; echo hi > f & read x < f; test \"$x\" = hi"], true);
    run(
        "sh",
        &[
            "-c",
            "mkdir d; chmod 1777 d; echo x > d/f; chmod 755 d/f; tar cf t.tar d && rm -r d && tar xpf t.tar && test -x d/f",
        ],
        true,
    );
    run("sh", &["-c", "chmod u+s ."], false);
    run("git", &["-c", "init.defaultBranch=main", "init", "-q", "."], true);
    run(
        "sh",
        &[
            "-c",
            "command -v gcc > /dev/null || exit 0; echo 'int main(){return 0;}' > a.c && gcc a.c -o a && ./a",
        ],
        true,
    );
    run("node", &["-e", "require('child_process').execFileSync('true')"], true);
    run("unshare", &["-U", "true"], false);
}
