//! The policy itself: the table that a reviewer reads.
//!
//! How to read a row: the named calls answer the action of the first check whose conditions all hold. A call that no
//! row refuses is allowed. Rows for the weaker levels ([`When::AtLeast`]) come first, since the first check that holds decides.
//!
//! Looked at and left allowed on purpose:
//! - `openat2`: its flags and mode lie in memory, where a filter cannot see them, so it can make a set-id file that `open` and
//!   `chmod` cannot. Such a file is worthless: every writable mount of the sandbox is nosuid, `no_new_privs` is set, and on the host the
//!   workspace's parent is closed to all but the engine. The supervisor, which carries this filter too, resolves paths with it.
//! - `kill`, `tgkill`, `rt_sigqueueinfo`, `pidfd_send_signal`: process 1 of a process namespace ignores every signal from inside that
//!   it has no handler for, SIGKILL and SIGSTOP included; the other processes of a session belong to it.
//! - `getpriority`, `sched_get*`, `ioprio_get`: they only read.
//! - `prctl`, `seccomp`, `landlock_*`: they act on the caller and can only take from it; what would give something
//!   (`PR_SET_MM`, `PR_CAPBSET_*`) needs capabilities that nothing here has.
//! - `chown`, `setuid`, `setgid` and theirs: the user namespace maps one user.
//! - SysV and POSIX shared memory: an IPC namespace and a /dev/shm of the session's own, counted by its memory limit.

use Action::Errno;
use Condition::{AnyBit, In, NotIn};

use super::policy::{Action, Check, Condition, Rule, Sockets, Strictness, When};

// errno(3), generic numbers
const EPERM: Action = Errno(1);
const ENOSYS: Action = Errno(38);
const EPROTONOSUPPORT: Action = Errno(93);
const EAFNOSUPPORT: Action = Errno(97);

const ALL: u32 = u32::MAX;

const fn always(action: Action) -> Check {
    Check { when: &[], action }
}

const REFUSED: &[Check] = &[always(EPERM)];

/// `S_ISUID | S_ISGID` of inode(7).
const SET_ID: u32 = 0o6000;
/// `O_CREAT | __O_TMPFILE` of open(2); the same on both architectures.
const CREATES: u32 = 0o100 | 0o20_000_000;
/// Every `CLONE_NEW…` flag of clone(2) that `clone` takes: NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET.
const NEW_NAMESPACE: u32 = 0x7e02_0000;
/// `S_IFMT` of inode(7), and the kinds that are no devices: none given (a regular file), S_IFREG, S_IFIFO, S_IFSOCK.
const FILE_KIND: u32 = 0o170_000;
const NO_DEVICE: &[u32] = &[0, 0o100_000, 0o010_000, 0o140_000];

/// `RENAME_WHITEOUT` of rename(2).
const RENAME_WHITEOUT: u32 = 4;

const AF_UNIX: u32 = 1;
const AF_INET: u32 = 2;
const AF_INET6: u32 = 10;

/// The table.
pub(super) const RULES: &[Rule] = &[
    // Weaker levels.
    Rule {
        calls: &["socketpair"],
        checks: &[Check { when: &[In { arg: 1, mask: 0xf, values: &[2] }], action: EPERM }],
        when: When::AtLeast(Strictness::UidDrop),
        reason: "SOCK_DGRAM: an unconnected datagram socket reaches the host's sockets by connect",
    },
    Rule {
        calls: &["shmget", "semget", "msgget"],
        checks: REFUSED,
        when: When::AtLeast(Strictness::UidDrop),
        reason: "without an IPC namespace segments outlive the command and are seen by other sessions",
    },
    Rule {
        calls: &["pidfd_open"],
        checks: REFUSED,
        when: When::AtLeast(Strictness::UidDrop),
        reason: "without a process namespace it names the host's processes",
    },
    Rule {
        calls: &[
            "chmod",
            "fchmod",
            "fchmodat",
            "fchmodat2",
            "chown",
            "fchown",
            "lchown",
            "fchownat",
            "utime",
            "utimes",
            "futimesat",
            "utimensat",
            "setxattr",
            "lsetxattr",
            "fsetxattr",
            "setxattrat",
            "removexattr",
            "lremovexattr",
            "fremovexattr",
            "removexattrat",
            "file_setattr",
        ],
        checks: REFUSED,
        when: When::AtLeast(Strictness::Landlock),
        reason: "Landlock does not cover metadata: as the engine's own user they would change the host's files",
    },
    // Answered as by a kernel that lacks them, so that programs fall back.
    Rule {
        calls: &["clone3"],
        checks: &[always(ENOSYS)],
        when: When::Always,
        reason: "its flags lie in memory, where a filter cannot see a new namespace; libc falls back to clone",
    },
    Rule {
        calls: &["io_uring_setup", "io_uring_enter", "io_uring_register"],
        checks: &[always(ENOSYS)],
        when: When::Always,
        reason: "its operations (openat, socket, connect, …) pass no filter; a large attack surface; programs fall back to epoll",
    },
    Rule {
        calls: &["io_setup"],
        checks: &[always(ENOSYS)],
        when: When::Always,
        reason: "fs.aio-max-nr is one count for the whole host: a session could take it all; programs fall back to threads",
    },
    // Other processes.
    Rule {
        calls: &["ptrace", "process_vm_readv", "process_vm_writev", "process_madvise", "pidfd_getfd", "kcmp"],
        checks: REFUSED,
        when: When::Always,
        reason: "reads, changes or compares other processes, the supervisor among them",
    },
    Rule {
        calls: &["prlimit64", "sched_setparam", "sched_setscheduler", "sched_setaffinity", "sched_setattr"],
        checks: &[Check { when: &[NotIn { arg: 0, mask: ALL, values: &[0] }], action: EPERM }],
        when: When::Always,
        reason: "with a process id other than 0 (the caller) they act on others: the supervisor has the same user, and its limits, \
                 priority and processors would be a command's to take. The caller's own number is refused as well: a filter does not know it",
    },
    Rule {
        calls: &["setpriority"],
        checks: &[
            Check { when: &[NotIn { arg: 0, mask: ALL, values: &[0, 1] }], action: EPERM },
            Check { when: &[NotIn { arg: 1, mask: ALL, values: &[0] }], action: EPERM },
        ],
        when: When::Always,
        reason: "PRIO_USER reaches all of the user's processes, the supervisor's too, and so does a process id other than 0 (the caller, or \
                 its group: the supervisor is in none of a command's)",
    },
    Rule {
        calls: &["ioprio_set"],
        checks: &[
            Check { when: &[NotIn { arg: 0, mask: ALL, values: &[1, 2] }], action: EPERM },
            Check { when: &[NotIn { arg: 1, mask: ALL, values: &[0] }], action: EPERM },
        ],
        when: When::Always,
        reason: "as setpriority; IOPRIO_WHO_PROCESS is 1, IOPRIO_WHO_PGRP 2",
    },
    // Namespaces and mounts.
    Rule {
        calls: &["clone"],
        checks: &[Check { when: &[AnyBit { arg: 0, mask: NEW_NAMESPACE }], action: EPERM }],
        when: When::Always,
        reason: "a new user namespace gives its maker every capability in it, and with them most of the kernel's attack surface",
    },
    Rule {
        calls: &["unshare", "setns"],
        checks: REFUSED,
        when: When::Always,
        reason: "new namespaces, as clone; and joining others",
    },
    Rule {
        calls: &[
            "mount",
            "umount2",
            "pivot_root",
            "chroot",
            "open_tree",
            "open_tree_attr",
            "move_mount",
            "fsopen",
            "fsconfig",
            "fsmount",
            "fspick",
            "mount_setattr",
        ],
        checks: REFUSED,
        when: When::Always,
        reason: "the mounts are the walls; a ramfs alone would be memory without a limit. All of them, the newest too: a list that missed them \
                 was an escape elsewhere (CVE-2021-41133)",
    },
    Rule {
        calls: &["open_by_handle_at", "name_to_handle_at"],
        checks: REFUSED,
        when: When::Always,
        reason: "opens files by number, past every directory that is not mounted",
    },
    // Files.
    Rule {
        calls: &["mknod"],
        checks: &[Check { when: &[NotIn { arg: 1, mask: FILE_KIND, values: NO_DEVICE }], action: EPERM }],
        when: When::Always,
        reason: "device files; FIFOs and sockets stay possible, programs need them",
    },
    Rule {
        calls: &["mknodat"],
        checks: &[Check { when: &[NotIn { arg: 2, mask: FILE_KIND, values: NO_DEVICE }], action: EPERM }],
        when: When::Always,
        reason: "as mknod; the mode is the third argument",
    },
    Rule {
        calls: &["renameat2"],
        checks: &[Check { when: &[AnyBit { arg: 4, mask: RENAME_WHITEOUT }], action: EPERM }],
        when: When::Always,
        reason: "RENAME_WHITEOUT leaves a character device (0, 0) behind without any capability: a device file past the rows above",
    },
    Rule {
        calls: &["chmod", "fchmod", "mkdir", "creat", "mknod"],
        checks: &[Check { when: &[AnyBit { arg: 1, mask: SET_ID }], action: EPERM }],
        when: When::Always,
        reason: "no set-user-id or set-group-id files, which would be worth something outside the sandbox",
    },
    Rule {
        calls: &["fchmodat", "fchmodat2", "mkdirat", "mknodat"],
        checks: &[Check { when: &[AnyBit { arg: 2, mask: SET_ID }], action: EPERM }],
        when: When::Always,
        reason: "as chmod; the mode is the third argument",
    },
    Rule {
        calls: &["open"],
        checks: &[Check {
            when: &[AnyBit { arg: 1, mask: CREATES }, AnyBit { arg: 2, mask: SET_ID }],
            action: EPERM,
        }],
        when: When::Always,
        reason: "the mode of a new file, as chmod; without O_CREAT and O_TMPFILE the argument is not read and may be anything",
    },
    Rule {
        calls: &["openat"],
        checks: &[Check {
            when: &[AnyBit { arg: 2, mask: CREATES }, AnyBit { arg: 3, mask: SET_ID }],
            action: EPERM,
        }],
        when: When::Always,
        reason: "as open; the flags are the third argument, the mode the fourth",
    },
    // Sockets.
    Rule {
        calls: &["socket"],
        checks: &[Check {
            when: &[NotIn { arg: 0, mask: ALL, values: &[AF_UNIX, AF_INET, AF_INET6] }],
            action: EAFNOSUPPORT,
        }],
        when: When::Sockets(Sockets::UnixAndInet),
        reason: "AF_VSOCK reaches the host from an empty network namespace; AF_NETLINK, AF_PACKET, AF_ALG and the rest load modules and are \
                 attack surface. Internet sockets see the session's own loopback alone",
    },
    Rule {
        calls: &["socket"],
        checks: &[Check { when: &[NotIn { arg: 0, mask: ALL, values: &[AF_UNIX] }], action: EAFNOSUPPORT }],
        when: When::Sockets(Sockets::UnixOnly),
        reason: "no internet sockets where the network namespace is not the session's own: Landlock does not cover UDP",
    },
    Rule {
        calls: &["socket"],
        checks: &[always(EAFNOSUPPORT)],
        when: When::Sockets(Sockets::Nothing),
        reason: "without namespaces a Unix socket reaches the host's services by path, which Landlock does not cover before ABI 9",
    },
    Rule {
        calls: &["socket"],
        checks: &[
            Check { when: &[In { arg: 1, mask: 0xf, values: &[3, 10] }], action: EPERM },
            Check {
                when: &[
                    NotIn { arg: 0, mask: ALL, values: &[AF_UNIX] },
                    NotIn { arg: 2, mask: ALL, values: &[0, 6, 17] },
                ],
                action: EPROTONOSUPPORT,
            },
        ],
        when: When::Always,
        reason: "SOCK_RAW and SOCK_PACKET forge packets; of the protocols only TCP and UDP: the others (SCTP, L2TP, ping, …) load modules",
    },
    Rule {
        calls: &["socketpair"],
        checks: &[Check { when: &[NotIn { arg: 0, mask: ALL, values: &[AF_UNIX] }], action: EAFNOSUPPORT }],
        when: When::Always,
        reason: "as socket; a pair of another family would reach the same kernel code",
    },
    // Terminals.
    Rule {
        calls: &["ioctl"],
        checks: &[Check {
            when: &[In { arg: 1, mask: ALL, values: &[0x5412, 0x541c, 0x5423] }],
            action: EPERM,
        }],
        when: When::Always,
        reason: "TIOCSTI and TIOCLINUX put input into a terminal that somebody else reads (CVE-2017-5226, CVE-2023-1523: the kernel compares the \
                 low 32 bits, and so do we); TIOCSETD loads line disciplines",
    },
    // The kernel's own state, and what is rarely needed and often broken.
    Rule {
        calls: &["personality"],
        checks: &[Check { when: &[NotIn { arg: 0, mask: ALL, values: &[0, 0xffff_ffff] }], action: EPERM }],
        when: When::Always,
        reason: "0 and the query only: other values turn off address randomisation or make mappings executable",
    },
    Rule {
        calls: &["keyctl", "add_key", "request_key"],
        checks: REFUSED,
        when: When::Always,
        reason: "keyrings belong to a user, not to a namespace: a channel between sessions, and kernel memory",
    },
    Rule {
        calls: &["bpf", "perf_event_open", "userfaultfd"],
        checks: REFUSED,
        when: When::Always,
        reason: "attack surface; userfaultfd makes races in the kernel easy to win",
    },
    Rule {
        calls: &[
            "fanotify_init",
            "quotactl",
            "quotactl_fd",
            "acct",
            "syslog",
            "vhangup",
            "swapon",
            "swapoff",
            "reboot",
        ],
        checks: REFUSED,
        when: When::Always,
        reason: "administration of the host",
    },
    Rule {
        calls: &["kexec_load", "kexec_file_load", "init_module", "finit_module", "delete_module"],
        checks: REFUSED,
        when: When::Always,
        reason: "code for the kernel",
    },
    Rule {
        calls: &[
            "settimeofday",
            "clock_settime",
            "adjtimex",
            "clock_adjtime",
            "sethostname",
            "setdomainname",
        ],
        checks: REFUSED,
        when: When::Always,
        reason: "clock and names of the host",
    },
    Rule {
        calls: &["iopl", "ioperm", "modify_ldt"],
        checks: REFUSED,
        when: When::Always,
        reason: "hardware ports and segments of x86",
    },
    Rule {
        calls: &["migrate_pages", "move_pages", "mbind", "set_mempolicy", "set_mempolicy_home_node"],
        checks: REFUSED,
        when: When::Always,
        reason: "placement of memory, of other processes too",
    },
    Rule {
        calls: &["lsm_get_self_attr", "lsm_set_self_attr", "lsm_list_modules"],
        checks: REFUSED,
        when: When::Always,
        reason: "labels of the host's security modules",
    },
    Rule {
        calls: &["mq_open"],
        checks: REFUSED,
        when: When::Always,
        reason: "POSIX message queues are kernel memory; their limit here is 0 bytes anyway",
    },
];
