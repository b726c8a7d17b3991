//! The compiled program against the policy's direct evaluation, and the table against itself.

use proptest::prelude::*;

use super::interpreter::run;
use crate::seccomp::{
    Arch, Check, Condition, FilterOptions, Policy, Rule, Sockets, Strictness, When, numbers, rules::RULES,
};

fn every_option() -> Vec<FilterOptions> {
    let sockets = [Sockets::UnixAndInet, Sockets::UnixOnly, Sockets::Nothing];
    let strictness = [Strictness::Namespaces, Strictness::UidDrop, Strictness::Landlock];
    sockets
        .into_iter()
        .flat_map(|sockets| strictness.map(|strictness| FilterOptions { sockets, strictness }))
        .collect()
}

/// Arguments that the policy asks about, their neighbours, and rubbish in the upper half.
fn argument() -> BoxedStrategy<u64> {
    let mut interesting = vec![0, 1, 2, u64::from(u32::MAX), u64::MAX];
    for condition in RULES.iter().flat_map(|rule| rule.checks).flat_map(|check| check.when) {
        match *condition {
            Condition::AnyBit { mask, .. } => {
                interesting.extend((0..32).map(|bit| u64::from(mask & (1 << bit))));
                interesting.push(u64::from(!mask));
            }
            Condition::In { values, .. } | Condition::NotIn { values, .. } => {
                interesting.extend(values.iter().map(|value| u64::from(*value)));
            }
        }
    }
    let near = (proptest::sample::select(interesting), -1_i64..=1, any::<bool>()).prop_map(
        |(value, step, upper)| {
            value.wrapping_add_signed(step) ^ if upper { 0xa5a5_a5a5_0000_0000 } else { 0 }
        },
    );
    prop_oneof![4 => near, 1 => any::<u64>()].boxed()
}

fn number() -> impl Strategy<Value = u32> {
    prop_oneof![
        8 => 0..=numbers::NEWEST + 2,
        1 => any::<u32>(),
        1 => (0..=600_u32).prop_map(|number| number | 0x4000_0000),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn program_answers_as_the_policy_does(
        option in 0..9_usize,
        arm in any::<bool>(),
        foreign in proptest::option::weighted(0.02, any::<u32>()),
        number in number(),
        args in proptest::array::uniform6(argument()),
    ) {
        thread_local! {
            static PROGRAMS: Vec<(Policy, [crate::seccomp::Program; 2])> = every_option()
                .into_iter()
                .map(Policy::new)
                .map(|policy| {
                    let programs = [policy.compile(Arch::X86_64), policy.compile(Arch::Aarch64)];
                    (policy, programs)
                })
                .collect();
        }
        PROGRAMS.with(|programs| {
            let (policy, programs) = &programs[option];
            let arch = if arm { Arch::Aarch64 } else { Arch::X86_64 };
            let audit_arch = foreign.unwrap_or(arch.audit_value());
            let expected = policy.evaluate(arch, audit_arch, number, args);
            let found = run(programs[usize::from(arm)].instructions(), audit_arch, number, args);
            prop_assert_eq!(found, expected, "{:?} {:?} {:x?}", arch, arch.name(number), args);
            Ok(())
        })?;
    }

}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    /// A policy of random rows: long jumps, shared code and relays included.
    #[test]
    fn any_policy_compiles_to_what_it_says(
        picks in proptest::collection::vec((0..383_usize, 0..6_u8, any::<u32>(), proptest::collection::vec(any::<u8>(), 0..8), 0..4_u8, 1..100_u16), 1..300),
        calls in proptest::collection::vec((number(), proptest::array::uniform6(prop_oneof![any::<u64>(), 0..256_u64])), 1..200),
    ) {
        let names: Vec<&'static str> = numbers::all(Arch::X86_64).map(|(_, name)| name).collect();
        // Leaked, for the table's type is static; a test ends soon.
        let rules: Vec<Rule> = picks
            .into_iter()
            .map(|(name, arg, mask, values, kind, errno)| {
                let values: &'static [u32] = values.into_iter().map(u32::from).collect::<Vec<_>>().leak();
                let condition = match kind {
                    0 => Condition::AnyBit { arg, mask },
                    1 => Condition::In { arg, mask: u32::MAX, values },
                    2 => Condition::In { arg, mask: mask | 0xff, values },
                    _ => Condition::NotIn { arg, mask, values },
                };
                let when = vec![condition; usize::from(kind != 0)].leak();
                let checks = vec![Check { when, action: crate::seccomp::Action::Errno(errno) }].leak();
                let calls = vec![names[name % names.len()]].leak();
                Rule { calls, checks, when: When::Always, reason: "" }
            })
            .collect();
        let policy = Policy::from_rules(&rules, FilterOptions::default());
        for arch in [Arch::X86_64, Arch::Aarch64] {
            let program = policy.compile(arch);
            for (number, args) in &calls {
                let expected = policy.evaluate(arch, arch.audit_value(), *number, *args);
                prop_assert_eq!(run(program.instructions(), arch.audit_value(), *number, *args), expected);
            }
        }
    }
}

#[test]
fn every_number_is_decided_as_the_policy_says() {
    for options in every_option() {
        let policy = Policy::new(options);
        for arch in [Arch::X86_64, Arch::Aarch64] {
            let program = policy.compile(arch);
            for number in 0..=1024 {
                let expected = policy.evaluate(arch, arch.audit_value(), number, [0; 6]);
                assert_eq!(
                    run(program.instructions(), arch.audit_value(), number, [0; 6]),
                    expected,
                    "{number}"
                );
            }
        }
    }
}

fn programs(rules: &[Rule]) -> Vec<Vec<crate::seccomp::SockFilter>> {
    every_option()
        .into_iter()
        .flat_map(|options| {
            let policy = Policy::from_rules(rules, options);
            [Arch::X86_64, Arch::Aarch64].map(|arch| policy.compile(arch).instructions().to_vec())
        })
        .collect()
}

#[test]
fn every_row_has_a_reason_and_known_calls() {
    for rule in RULES {
        assert!(rule.reason.len() >= 10, "{:?} needs a reason", rule.calls);
        assert!(!rule.calls.is_empty() && !rule.checks.is_empty());
        for call in rule.calls {
            let known = [Arch::X86_64, Arch::Aarch64].iter().any(|arch| arch.number(call).is_some());
            assert!(known, "{call} is no system call of either architecture");
        }
        for check in rule.checks {
            assert!(check.when.iter().all(|condition| match *condition {
                Condition::AnyBit { arg, .. } | Condition::In { arg, .. } | Condition::NotIn { arg, .. } =>
                    arg < 6,
            }));
        }
    }
}

#[test]
fn no_row_and_no_call_in_a_row_is_redundant() {
    let all = programs(RULES);
    for (index, rule) in RULES.iter().enumerate() {
        for call in rule.calls {
            let mut fewer = RULES.to_vec();
            let calls: Vec<_> = rule.calls.iter().copied().filter(|other| other != call).collect();
            fewer[index].calls = calls.leak();
            assert_ne!(programs(&fewer), all, "{call} in the row {:?} changes nothing", rule.calls);
        }
        for check in 0..rule.checks.len() {
            let mut fewer = RULES.to_vec();
            let mut checks = rule.checks.to_vec();
            checks.remove(check);
            fewer[index].checks = checks.leak();
            assert_ne!(programs(&fewer), all, "check {check} of the row {:?} changes nothing", rule.calls);
        }
    }
}

#[test]
fn numbers_are_unique_and_none_is_above_the_newest() {
    for arch in [Arch::X86_64, Arch::Aarch64] {
        let mut all: Vec<_> = numbers::all(arch).map(|(number, _)| number).collect();
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
        assert_eq!(all.last(), Some(&numbers::NEWEST));
        // From 424 on both architectures count together, except for calls that one of them lacks.
        for number in 424..=numbers::NEWEST {
            assert_eq!(arch.name(number), Arch::X86_64.name(number), "{number}");
        }
    }
}

/// Those numbers that the `libc` crate knows for the architecture that the tests run on.
#[test]
fn numbers_agree_with_libc() {
    macro_rules! agree {
        ($($name:ident)*) => {$(
            let expected = u32::try_from(libc::$name).unwrap();
            let name = stringify!($name).strip_prefix("SYS_").unwrap();
            assert_eq!(Arch::native().number(name), Some(expected), "{name}");
        )*};
    }
    agree! {
        SYS_read SYS_write SYS_close SYS_ioctl SYS_clone SYS_clone3 SYS_execve SYS_exit_group SYS_ptrace SYS_mount SYS_umount2
        SYS_pivot_root SYS_chroot SYS_unshare SYS_setns SYS_socket SYS_socketpair SYS_personality SYS_prlimit64 SYS_setpriority
        SYS_ioprio_set SYS_sched_setaffinity SYS_sched_setattr SYS_sched_setparam SYS_sched_setscheduler SYS_fchmod SYS_fchmodat
        SYS_mkdirat SYS_mknodat SYS_openat SYS_openat2 SYS_keyctl SYS_add_key SYS_request_key SYS_bpf SYS_perf_event_open SYS_userfaultfd
        SYS_io_setup SYS_renameat2 SYS_io_uring_setup SYS_io_uring_enter SYS_io_uring_register SYS_open_tree SYS_move_mount SYS_fsopen SYS_fsconfig SYS_fsmount
        SYS_fspick SYS_mount_setattr SYS_open_by_handle_at SYS_name_to_handle_at SYS_process_vm_readv SYS_process_vm_writev
        SYS_process_madvise SYS_pidfd_getfd SYS_pidfd_open SYS_kcmp SYS_mq_open SYS_mbind SYS_move_pages SYS_migrate_pages SYS_set_mempolicy
        SYS_fanotify_init SYS_quotactl SYS_quotactl_fd SYS_acct SYS_syslog SYS_vhangup SYS_swapon SYS_swapoff SYS_reboot SYS_kexec_load
        SYS_init_module SYS_finit_module SYS_delete_module SYS_settimeofday SYS_clock_settime SYS_adjtimex
        SYS_clock_adjtime SYS_sethostname SYS_setdomainname SYS_shmget SYS_semget SYS_msgget SYS_setxattr SYS_fchownat SYS_utimensat
    }
}
