//! Outcomes that were written down from sandbox.md §5.3, §6.1 and the manual pages, not from the code. Numbers are
//! literal, from the kernel's tables, so that a mistake in ours shows.

use super::interpreter::{longest_path, run};
use crate::seccomp::{
    Action::{self, Allow, Errno, KillProcess},
    Arch::{self, Aarch64, X86_64},
    FilterOptions, Policy, Sockets, Strictness,
};

const EPERM: Action = Errno(1);
const ENOSYS: Action = Errno(38);
const EPROTONOSUPPORT: Action = Errno(93);
const EAFNOSUPPORT: Action = Errno(97);

const X86: u32 = 0xc000_003e;
const ARM64: u32 = 0xc000_00b7;
const I386: u32 = 0x4000_0003;
const ARM: u32 = 0x4000_0028;

type Row = (Arch, u32, u32, &'static [u64], Action);

#[rustfmt::skip]
const GENERAL: &[Row] = &[
    // Ordinary calls.
    (X86_64, X86, 0, &[], Allow), (Aarch64, ARM64, 63, &[], Allow), // read
    (X86_64, X86, 59, &[], Allow), (Aarch64, ARM64, 221, &[], Allow), // execve
    (X86_64, X86, 231, &[], Allow), (Aarch64, ARM64, 94, &[], Allow), // exit_group
    (X86_64, X86, 57, &[], Allow), (X86_64, X86, 58, &[], Allow), // fork, vfork
    (X86_64, X86, 62, &[1, 9], Allow), // kill: process 1 ignores it
    (X86_64, X86, 437, &[], Allow), (Aarch64, ARM64, 437, &[], Allow), // openat2
    (X86_64, X86, 434, &[], Allow), (X86_64, X86, 424, &[], Allow), // pidfd_open, pidfd_send_signal
    (X86_64, X86, 444, &[], Allow), (X86_64, X86, 317, &[], Allow), // landlock_create_ruleset, seccomp
    (X86_64, X86, 157, &[], Allow), (X86_64, X86, 140, &[0, 1], Allow), // prctl, getpriority of another
    (X86_64, X86, 29, &[], Allow), // shmget, in an IPC namespace of its own
    (X86_64, X86, 319, &[], Allow), (X86_64, X86, 334, &[], Allow), // memfd_create, rseq
    (X86_64, X86, 439, &[], Allow), (X86_64, X86, 462, &[], Allow), // faccessat2, mseal
    // Foreign architectures and x32.
    (X86_64, I386, 11, &[], KillProcess), (X86_64, ARM64, 63, &[], KillProcess), (X86_64, 0, 0, &[], KillProcess),
    (Aarch64, ARM, 11, &[], KillProcess), (Aarch64, X86, 0, &[], KillProcess),
    (X86_64, X86, 0x4000_0000, &[], KillProcess), (X86_64, X86, 0x4000_0065, &[], KillProcess),
    (X86_64, X86, 0xffff_ffff, &[], KillProcess), (X86_64, X86, 0x4000_0208, &[], KillProcess),
    // Unknown: above the newest, and in the gaps.
    (X86_64, X86, 470, &[], ENOSYS), (Aarch64, ARM64, 470, &[], ENOSYS), (X86_64, X86, 512, &[], ENOSYS),
    (X86_64, X86, 547, &[], ENOSYS), (X86_64, X86, 0x3fff_ffff, &[], ENOSYS), (X86_64, X86, 0x8000_0000, &[], ENOSYS),
    (Aarch64, ARM64, 0x4000_0000, &[], ENOSYS), (Aarch64, ARM64, 0xffff_ffff, &[], ENOSYS),
    (X86_64, X86, 337, &[], ENOSYS), (X86_64, X86, 423, &[], ENOSYS), (Aarch64, ARM64, 244, &[], ENOSYS),
    (Aarch64, ARM64, 295, &[], ENOSYS), (Aarch64, ARM64, 403, &[], ENOSYS),
    (X86_64, X86, 336, &[], Allow), (X86_64, X86, 424, &[], Allow), (Aarch64, ARM64, 294, &[], EPERM), // kexec_file_load
    // libc falls back.
    (X86_64, X86, 435, &[], ENOSYS), (Aarch64, ARM64, 435, &[], ENOSYS), // clone3
    (X86_64, X86, 425, &[], ENOSYS), (X86_64, X86, 426, &[], ENOSYS), (Aarch64, ARM64, 427, &[], ENOSYS), // io_uring_*
    (X86_64, X86, 206, &[], ENOSYS), (Aarch64, ARM64, 0, &[], ENOSYS), (X86_64, X86, 208, &[], Allow), // io_setup, io_getevents
    // Other processes.
    (X86_64, X86, 101, &[0], EPERM), (Aarch64, ARM64, 117, &[16], EPERM), // ptrace: TRACEME, ATTACH
    (X86_64, X86, 310, &[], EPERM), (X86_64, X86, 311, &[], EPERM), (Aarch64, ARM64, 270, &[], EPERM), // process_vm_*
    (X86_64, X86, 438, &[], EPERM), (X86_64, X86, 440, &[], EPERM), (X86_64, X86, 312, &[], EPERM), // pidfd_getfd, process_madvise, kcmp
    (X86_64, X86, 302, &[0, 7, 1], Allow), (X86_64, X86, 302, &[1, 7, 1], EPERM), // prlimit64 on itself, on init
    (X86_64, X86, 302, &[0xffff_ffff, 7, 1], EPERM), (X86_64, X86, 302, &[0x1_0000_0000, 7, 1], Allow), // a pid_t is 32 bits
    (Aarch64, ARM64, 261, &[0], Allow), (Aarch64, ARM64, 261, &[1], EPERM),
    (X86_64, X86, 141, &[0, 0, 19], Allow), (X86_64, X86, 141, &[0, 1, 19], EPERM), // setpriority: itself, init
    (X86_64, X86, 141, &[1, 0, 19], Allow), (X86_64, X86, 141, &[1, 1, 19], EPERM), // its group, another
    (X86_64, X86, 141, &[2, 0, 19], EPERM), (X86_64, X86, 141, &[2, 1000, 19], EPERM), // all of the user's
    (Aarch64, ARM64, 140, &[0, 0], Allow), (Aarch64, ARM64, 140, &[2, 0], EPERM),
    (X86_64, X86, 251, &[1, 0, 0], Allow), (X86_64, X86, 251, &[1, 1, 0], EPERM), // ioprio_set
    (X86_64, X86, 251, &[2, 0, 0], Allow), (X86_64, X86, 251, &[3, 0, 0], EPERM), (X86_64, X86, 251, &[3, 1000, 0], EPERM),
    (X86_64, X86, 203, &[0], Allow), (X86_64, X86, 203, &[1], EPERM), // sched_setaffinity
    (X86_64, X86, 204, &[1], Allow), (X86_64, X86, 145, &[1], Allow), // sched_getaffinity, sched_getscheduler
    (X86_64, X86, 144, &[0], Allow), (X86_64, X86, 144, &[1], EPERM), // sched_setscheduler
    (X86_64, X86, 142, &[1], EPERM), (X86_64, X86, 314, &[1], EPERM), (Aarch64, ARM64, 274, &[1], EPERM), // sched_setparam, sched_setattr
    // Namespaces.
    (X86_64, X86, 56, &[17], Allow), (X86_64, X86, 56, &[0x003d_0f00], Allow), // fork, pthread_create
    (X86_64, X86, 56, &[0x4111], Allow), // vfork by posix_spawn: CLONE_VM | CLONE_VFORK | SIGCHLD
    (X86_64, X86, 56, &[0x1000_0011], EPERM), (X86_64, X86, 56, &[0x0002_0011], EPERM), (X86_64, X86, 56, &[0x2000_0011], EPERM), // user, mnt, pid
    (X86_64, X86, 56, &[0x4000_0011], EPERM), (X86_64, X86, 56, &[0x0200_0011], EPERM), (X86_64, X86, 56, &[0x0400_0011], EPERM), // net, cgroup, uts
    (X86_64, X86, 56, &[0x0800_0011], EPERM), (Aarch64, ARM64, 220, &[0x1000_0011], EPERM), (Aarch64, ARM64, 220, &[17], Allow),
    (X86_64, X86, 56, &[0xffff_ffff_1000_0011], EPERM), // rubbish in the upper half hides nothing
    (X86_64, X86, 272, &[0x1000_0000], EPERM), (X86_64, X86, 272, &[0x80], EPERM), (Aarch64, ARM64, 97, &[], EPERM), // unshare
    (X86_64, X86, 308, &[], EPERM), (Aarch64, ARM64, 268, &[], EPERM), // setns
    // Mounts.
    (X86_64, X86, 165, &[], EPERM), (X86_64, X86, 166, &[], EPERM), (X86_64, X86, 155, &[], EPERM), (X86_64, X86, 161, &[], EPERM),
    (X86_64, X86, 428, &[], EPERM), (X86_64, X86, 429, &[], EPERM), (X86_64, X86, 430, &[], EPERM), (X86_64, X86, 431, &[], EPERM),
    (X86_64, X86, 432, &[], EPERM), (X86_64, X86, 433, &[], EPERM), (X86_64, X86, 442, &[], EPERM), (X86_64, X86, 467, &[], EPERM),
    (Aarch64, ARM64, 40, &[], EPERM), (Aarch64, ARM64, 39, &[], EPERM), (Aarch64, ARM64, 41, &[], EPERM), (Aarch64, ARM64, 51, &[], EPERM),
    (X86_64, X86, 303, &[], EPERM), (X86_64, X86, 304, &[], EPERM), // name_to_handle_at, open_by_handle_at
    // Devices and set-id files.
    (X86_64, X86, 133, &[0, 0o020_666], EPERM), (X86_64, X86, 133, &[0, 0o060_660], EPERM), (X86_64, X86, 133, &[0, 0o010_644], Allow),
    (X86_64, X86, 133, &[0, 0o140_755], Allow), (X86_64, X86, 133, &[0, 0o644], Allow), (X86_64, X86, 133, &[0, 0o104_755], EPERM),
    (X86_64, X86, 133, &[0, 0o014_644], EPERM), (X86_64, X86, 259, &[0, 0, 0o020_666], EPERM), (X86_64, X86, 259, &[0, 0, 0o010_600], Allow),
    (X86_64, X86, 259, &[0, 0, 0o102_755], EPERM), (Aarch64, ARM64, 33, &[0, 0, 0o060_666], EPERM), (Aarch64, ARM64, 33, &[0, 0, 0o010_666], Allow),
    (X86_64, X86, 316, &[0, 0, 0, 0, 0], Allow), (X86_64, X86, 316, &[0, 0, 0, 0, 1], Allow), (X86_64, X86, 316, &[0, 0, 0, 0, 2], Allow), // renameat2
    (X86_64, X86, 316, &[0, 0, 0, 0, 4], EPERM), (X86_64, X86, 316, &[0, 0, 0, 0, 5], EPERM), // RENAME_WHITEOUT
    (X86_64, X86, 316, &[0, 0, 0, 0, 0x1_0000_0004], EPERM), (Aarch64, ARM64, 276, &[0, 0, 0, 0, 4], EPERM), (Aarch64, ARM64, 276, &[], Allow),
    (X86_64, X86, 90, &[0, 0o755], Allow), (X86_64, X86, 90, &[0, 0o4755], EPERM), (X86_64, X86, 90, &[0, 0o2755], EPERM), // chmod
    (X86_64, X86, 90, &[0, 0o1777], Allow), // the sticky bit is harmless
    (X86_64, X86, 91, &[0, 0o6755], EPERM), (X86_64, X86, 91, &[0, 0o700], Allow), (Aarch64, ARM64, 52, &[3, 0o4755], EPERM), // fchmod
    (X86_64, X86, 268, &[0, 0, 0o4755], EPERM), (X86_64, X86, 268, &[0o4000, 0, 0o755], Allow), (Aarch64, ARM64, 53, &[0, 0, 0o2755], EPERM),
    (X86_64, X86, 452, &[0, 0, 0o4755, 0], EPERM), (X86_64, X86, 452, &[0, 0, 0o755, 0], Allow), (Aarch64, ARM64, 452, &[0, 0, 0o4755], EPERM),
    (X86_64, X86, 83, &[0, 0o2755], EPERM), (X86_64, X86, 83, &[0, 0o755], Allow), (X86_64, X86, 258, &[0, 0, 0o2755], EPERM), // mkdir(at)
    (Aarch64, ARM64, 34, &[0, 0, 0o2755], EPERM), (Aarch64, ARM64, 34, &[0, 0, 0o755], Allow),
    (X86_64, X86, 85, &[0, 0o4755], EPERM), (X86_64, X86, 85, &[0, 0o644], Allow), // creat
    (X86_64, X86, 2, &[0, 0o101, 0o4755], EPERM), (X86_64, X86, 2, &[0, 0o101, 0o644], Allow), (X86_64, X86, 2, &[0, 0, 0o4755], Allow), // open
    (X86_64, X86, 2, &[0, 0o20_200_002, 0o4755], EPERM), // O_TMPFILE
    (X86_64, X86, 257, &[0, 0, 0o101, 0o4755], EPERM), (X86_64, X86, 257, &[0, 0, 0o101, 0o644], Allow), // openat
    (X86_64, X86, 257, &[0, 0, 0o2_000_000, 0xffff_ffff], Allow), (X86_64, X86, 257, &[0, 0, 0o20_200_002, 0o2644], EPERM),
    (X86_64, X86, 257, &[0, 0, 0o200_000, 0o4755], Allow), // O_DIRECTORY, which O_TMPFILE includes, makes nothing
    (Aarch64, ARM64, 56, &[0, 0, 0o101, 0o4755], EPERM), (Aarch64, ARM64, 56, &[0, 0, 0o20_040_002, 0o4755], EPERM),
    (Aarch64, ARM64, 56, &[0, 0, 0o101, 0o600], Allow),
    // Sockets: AF_UNIX 1, AF_INET 2, AF_INET6 10, AF_NETLINK 16, AF_PACKET 17, AF_ALG 38, AF_VSOCK 40, AF_XDP 44.
    (X86_64, X86, 41, &[1, 1, 0], Allow), (X86_64, X86, 41, &[1, 2, 0], Allow), (X86_64, X86, 41, &[1, 0x8_0801, 0], Allow),
    (X86_64, X86, 41, &[2, 1, 0], Allow), (X86_64, X86, 41, &[2, 1, 6], Allow), (X86_64, X86, 41, &[10, 2, 17], Allow),
    (X86_64, X86, 41, &[2, 3, 1], EPERM), (X86_64, X86, 41, &[10, 3, 58], EPERM), (X86_64, X86, 41, &[2, 0x8_0803, 255], EPERM), // SOCK_RAW
    (X86_64, X86, 41, &[2, 10, 0], EPERM), (X86_64, X86, 41, &[1, 3, 0], EPERM),
    (X86_64, X86, 41, &[2, 2, 1], EPROTONOSUPPORT), (X86_64, X86, 41, &[10, 2, 58], EPROTONOSUPPORT), // ping
    (X86_64, X86, 41, &[2, 1, 132], EPROTONOSUPPORT), (X86_64, X86, 41, &[2, 1, 262], EPROTONOSUPPORT), // SCTP, MPTCP
    (X86_64, X86, 41, &[16, 3, 0], EAFNOSUPPORT), (X86_64, X86, 41, &[17, 3, 768], EAFNOSUPPORT), (X86_64, X86, 41, &[38, 5, 0], EAFNOSUPPORT),
    (X86_64, X86, 41, &[40, 1, 0], EAFNOSUPPORT), (X86_64, X86, 41, &[44, 3, 0], EAFNOSUPPORT), (X86_64, X86, 41, &[0, 1, 0], EAFNOSUPPORT),
    (X86_64, X86, 41, &[0x1_0000_0028, 1, 0], EAFNOSUPPORT), (X86_64, X86, 41, &[0xffff_ffff, 1, 0], EAFNOSUPPORT),
    (Aarch64, ARM64, 198, &[1, 1, 0], Allow), (Aarch64, ARM64, 198, &[40, 1, 0], EAFNOSUPPORT), (Aarch64, ARM64, 198, &[2, 3, 1], EPERM),
    (X86_64, X86, 53, &[1, 1, 0], Allow), (X86_64, X86, 53, &[1, 2, 0], Allow), (X86_64, X86, 53, &[2, 1, 0], EAFNOSUPPORT), // socketpair
    (X86_64, X86, 53, &[30, 1, 0], EAFNOSUPPORT), (Aarch64, ARM64, 199, &[30, 1, 0], EAFNOSUPPORT), // AF_TIPC
    // Terminals.
    (X86_64, X86, 16, &[0, 0x5401], Allow), (X86_64, X86, 16, &[0, 0x5413], Allow), // TCGETS, TIOCGWINSZ
    (X86_64, X86, 16, &[0, 0x5412], EPERM), (X86_64, X86, 16, &[0, 0x541c], EPERM), (X86_64, X86, 16, &[0, 0x5423], EPERM),
    (X86_64, X86, 16, &[0, 0x1_0000_5412], EPERM), (X86_64, X86, 16, &[0, 0xffff_ffff_0000_5412], EPERM), // CVE-2023-1523
    (Aarch64, ARM64, 29, &[0, 0x5412], EPERM), (Aarch64, ARM64, 29, &[0, 0x5401], Allow),
    // The kernel's own state.
    (X86_64, X86, 135, &[0], Allow), (X86_64, X86, 135, &[0xffff_ffff], Allow), (X86_64, X86, 135, &[0xffff_ffff_ffff_ffff], Allow),
    (X86_64, X86, 135, &[0x4_0000], EPERM), (X86_64, X86, 135, &[0x40_0000], EPERM), (X86_64, X86, 135, &[8], EPERM),
    (Aarch64, ARM64, 92, &[0], Allow), (Aarch64, ARM64, 92, &[0x4_0000], EPERM),
    (X86_64, X86, 248, &[], EPERM), (X86_64, X86, 249, &[], EPERM), (X86_64, X86, 250, &[], EPERM), // keys
    (X86_64, X86, 321, &[], EPERM), (X86_64, X86, 298, &[], EPERM), (X86_64, X86, 323, &[], EPERM), // bpf, perf_event_open, userfaultfd
    (Aarch64, ARM64, 280, &[], EPERM), (Aarch64, ARM64, 241, &[], EPERM), (Aarch64, ARM64, 282, &[], EPERM),
    (X86_64, X86, 300, &[], EPERM), (X86_64, X86, 179, &[], EPERM), (X86_64, X86, 443, &[], EPERM), // fanotify_init, quotactl(_fd)
    (X86_64, X86, 163, &[], EPERM), (X86_64, X86, 103, &[], EPERM), (X86_64, X86, 153, &[], EPERM), // acct, syslog, vhangup
    (X86_64, X86, 167, &[], EPERM), (X86_64, X86, 168, &[], EPERM), (X86_64, X86, 169, &[], EPERM), // swapon, swapoff, reboot
    (X86_64, X86, 246, &[], EPERM), (X86_64, X86, 320, &[], EPERM), // kexec
    (X86_64, X86, 175, &[], EPERM), (X86_64, X86, 313, &[], EPERM), (X86_64, X86, 176, &[], EPERM), // modules
    (X86_64, X86, 164, &[], EPERM), (X86_64, X86, 227, &[], EPERM), (X86_64, X86, 159, &[], EPERM), (X86_64, X86, 305, &[], EPERM), // clocks
    (X86_64, X86, 228, &[], Allow), (X86_64, X86, 96, &[], Allow), // clock_gettime, gettimeofday
    (X86_64, X86, 170, &[], EPERM), (X86_64, X86, 171, &[], EPERM), // sethostname, setdomainname
    (X86_64, X86, 172, &[], EPERM), (X86_64, X86, 173, &[], EPERM), (X86_64, X86, 154, &[], EPERM), // iopl, ioperm, modify_ldt
    (X86_64, X86, 158, &[], Allow), // arch_prctl, which libc starts with
    (X86_64, X86, 256, &[], EPERM), (X86_64, X86, 279, &[], EPERM), (X86_64, X86, 237, &[], EPERM), (X86_64, X86, 238, &[], EPERM), // NUMA
    (X86_64, X86, 450, &[], EPERM), (X86_64, X86, 239, &[], Allow), // set_mempolicy_home_node, get_mempolicy
    (X86_64, X86, 459, &[], EPERM), (X86_64, X86, 460, &[], EPERM), (X86_64, X86, 461, &[], EPERM), // lsm_*
    (X86_64, X86, 240, &[], EPERM), (Aarch64, ARM64, 180, &[], EPERM), // mq_open
];

fn check(options: FilterOptions, rows: &[Row]) {
    let policy = Policy::new(options);
    let mut wrong = Vec::new();
    for (arch, audit_arch, number, some, expected) in rows {
        let mut args = [0; 6];
        args[..some.len()].copy_from_slice(some);
        let found = run(policy.compile(*arch).instructions(), *audit_arch, *number, args);
        if found != *expected {
            wrong.push(format!(
                "{arch:?} {audit_arch:#x} {number} ({:?}) {some:x?}: {found:?}, not {expected:?}",
                arch.name(*number)
            ));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), rows.len(), wrong.join("\n"));
}

#[test]
fn general_filter_answers_as_the_references_say() {
    println!("{} rows", GENERAL.len());
    check(FilterOptions::default(), GENERAL);
}

#[test]
fn weaker_levels_refuse_more() {
    let drop = FilterOptions { sockets: Sockets::UnixOnly, strictness: Strictness::UidDrop };
    check(
        drop,
        &[
            (X86_64, X86, 41, &[1, 1, 0], Allow),
            (X86_64, X86, 41, &[2, 1, 0], EAFNOSUPPORT),
            (X86_64, X86, 41, &[40, 1, 0], EAFNOSUPPORT),
            (X86_64, X86, 53, &[1, 2, 0], EPERM),
            (X86_64, X86, 53, &[1, 0x8_0002, 0], EPERM),
            (X86_64, X86, 53, &[1, 1, 0], Allow),
            (X86_64, X86, 53, &[1, 5, 0], Allow),
            (X86_64, X86, 29, &[], EPERM),
            (X86_64, X86, 64, &[], EPERM),
            (X86_64, X86, 68, &[], EPERM),
            (Aarch64, ARM64, 194, &[], EPERM),
            (X86_64, X86, 434, &[], EPERM),
            (X86_64, X86, 90, &[0, 0o755], Allow),
            (X86_64, X86, 90, &[0, 0o4755], EPERM),
            (X86_64, X86, 92, &[], Allow),
        ],
    );
    let landlock = FilterOptions { sockets: Sockets::Nothing, strictness: Strictness::Landlock };
    check(
        landlock,
        &[
            (X86_64, X86, 41, &[1, 1, 0], EAFNOSUPPORT),
            (X86_64, X86, 41, &[2, 1, 0], EAFNOSUPPORT),
            (X86_64, X86, 53, &[1, 1, 0], Allow),
            (X86_64, X86, 53, &[1, 2, 0], EPERM),
            (X86_64, X86, 90, &[0, 0o755], EPERM),
            (X86_64, X86, 92, &[], EPERM),
            (X86_64, X86, 280, &[], EPERM),
            (X86_64, X86, 188, &[], EPERM),
            (Aarch64, ARM64, 5, &[], EPERM),
            (X86_64, X86, 83, &[0, 0o755], Allow),
            (X86_64, X86, 434, &[], EPERM),
        ],
    );
}

#[test]
fn filter_stays_under_350_instructions() {
    for sockets in [Sockets::UnixAndInet, Sockets::UnixOnly, Sockets::Nothing] {
        for strictness in [Strictness::Namespaces, Strictness::UidDrop, Strictness::Landlock] {
            for arch in [X86_64, Aarch64] {
                let program = Policy::new(FilterOptions { sockets, strictness }).compile(arch);
                let (size, path) = (program.instructions().len(), longest_path(program.instructions()));
                println!("{arch:?} {sockets:?} {strictness:?}: {size} instructions, at most {path} executed");
                assert!(size <= 350 && path <= 40);
            }
        }
    }
}
