//! What the policy is made of, and its direct evaluation.

use super::{numbers, rules};

/// An architecture whose filter can be built.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Arch {
    /// 64-bit x86.
    X86_64,
    /// 64-bit ARM.
    Aarch64,
}

impl Arch {
    /// The architecture that this program was built for.
    #[cfg(target_arch = "x86_64")]
    pub const fn native() -> Self {
        Self::X86_64
    }

    /// The architecture that this program was built for.
    #[cfg(target_arch = "aarch64")]
    pub const fn native() -> Self {
        Self::Aarch64
    }

    /// `AUDIT_ARCH_…` of linux/audit.h, as the kernel hands it to a filter.
    pub const fn audit_value(self) -> u32 {
        match self {
            Self::X86_64 => 0xc000_003e,
            Self::Aarch64 => 0xc000_00b7,
        }
    }

    /// The number of the system call `name`; `None` where this architecture (or the table) lacks it.
    pub fn number(self, name: &str) -> Option<u32> {
        numbers::number(self, name)
    }

    /// The name of system call `number`.
    pub fn name(self, number: u32) -> Option<&'static str> {
        numbers::name(self, number)
    }
}

/// What becomes of a system call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Action {
    /// The kernel executes it.
    Allow,
    /// It is not executed and fails with this `errno`.
    Errno(u16),
    /// The whole process ends with `SIGSYS`.
    KillProcess,
}

/// A condition on one argument.
///
/// Only the low 32 bits count: every argument that the policy looks at is an `int`, `mode_t` or a flag word
/// whose upper half the kernel ignores or truncates, so that a caller cannot hide bits there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Condition {
    /// At least one bit of `mask` is set.
    AnyBit {
        /// Which argument, from 0.
        arg: u8,
        /// The bits.
        mask: u32,
    },
    /// The argument, masked, is one of `values`.
    In {
        /// Which argument, from 0.
        arg: u8,
        /// The bits that are compared.
        mask: u32,
        /// The values.
        values: &'static [u32],
    },
    /// The argument, masked, is none of `values`.
    NotIn {
        /// Which argument, from 0.
        arg: u8,
        /// The bits that are compared.
        mask: u32,
        /// The values.
        values: &'static [u32],
    },
}

impl Condition {
    /// Whether it holds for `args`.
    pub fn holds(&self, args: &[u64; 6]) -> bool {
        #[allow(clippy::cast_possible_truncation, reason = "the low half is what the kernel looks at")]
        let low = |arg: u8| args.get(usize::from(arg)).map_or(0, |value| *value as u32);
        match *self {
            Self::AnyBit { arg, mask } => low(arg) & mask != 0,
            Self::In { arg, mask, values } => values.contains(&(low(arg) & mask)),
            Self::NotIn { arg, mask, values } => !values.contains(&(low(arg) & mask)),
        }
    }
}

/// An action and the conditions that must all hold for it; none means always.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Check {
    /// The conditions.
    pub when: &'static [Condition],
    /// What then happens.
    pub action: Action,
}

/// Which sockets may be made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Sockets {
    /// Unix and internet sockets: for a sandbox with a network namespace of its own.
    #[default]
    UnixAndInet,
    /// Unix sockets alone: where the network namespace is shared and Landlock confines abstract names.
    UnixOnly,
    /// None but `socketpair`.
    Nothing,
}

/// How much the filter must do alone, because other walls are missing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Strictness {
    /// Namespaces of its own: levels `namespaces` and `full`.
    #[default]
    Namespaces,
    /// The host's process, IPC and network namespace, but a user of its own: level `uid-drop`.
    UidDrop,
    /// As the engine's own user: level `landlock`.
    Landlock,
}

/// What a filter is made for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct FilterOptions {
    /// Which sockets may be made.
    pub sockets: Sockets,
    /// How much the filter must do alone.
    pub strictness: Strictness,
}

/// Under which options a rule is part of the filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum When {
    /// Always.
    Always,
    /// With these sockets.
    Sockets(Sockets),
    /// At this strictness and above.
    AtLeast(Strictness),
}

impl When {
    /// Whether a rule is in force under `options`.
    pub fn applies(self, options: FilterOptions) -> bool {
        match self {
            Self::Always => true,
            Self::Sockets(sockets) => options.sockets == sockets,
            Self::AtLeast(least) => options.strictness >= least,
        }
    }
}

/// A row of the policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    /// The system calls, by the kernel's names.
    pub calls: &'static [&'static str],
    /// The first check that holds decides; when none does, the next rule for the call is asked.
    pub checks: &'static [Check],
    /// Under which options.
    pub when: When,
    /// Why, for a reviewer.
    pub reason: &'static str,
}

/// The rules in force under some options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    pub(super) rules: Vec<Rule>,
}

impl Policy {
    /// The reviewed policy under `options`.
    pub fn new(options: FilterOptions) -> Self {
        Self::from_rules(rules::RULES, options)
    }

    pub(super) fn from_rules(rules: &[Rule], options: FilterOptions) -> Self {
        Self { rules: rules.iter().filter(|rule| rule.when.applies(options)).copied().collect() }
    }

    /// The rules, in the order in which they are asked.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// Every check for the system call `name`, in order.
    pub(super) fn checks(&self, name: &str) -> Vec<Check> {
        self.rules
            .iter()
            .filter(|rule| rule.calls.contains(&name))
            .flat_map(|rule| rule.checks.iter().copied())
            .collect()
    }

    /// The rule that decides on a system call, or `None` where no rule refuses it.
    pub fn deciding_rule(&self, name: &str, args: &[u64; 6]) -> Option<(&Rule, Action)> {
        self.rules.iter().filter(|rule| rule.calls.contains(&name)).find_map(|rule| {
            rule.checks
                .iter()
                .find(|check| check.when.iter().all(|condition| condition.holds(args)))
                .map(|check| (rule, check.action))
        })
    }

    /// What the filter for `arch` must answer to a call: the definition that the compiled program is tested against.
    ///
    /// `audit_arch` is the architecture that the call was made for, as the kernel states it.
    pub fn evaluate(&self, arch: Arch, audit_arch: u32, number: u32, args: [u64; 6]) -> Action {
        if audit_arch != arch.audit_value() || (arch == Arch::X86_64 && number & X32_BIT != 0) {
            return Action::KillProcess;
        }
        match arch.name(number) {
            None => Action::Errno(ENOSYS),
            Some(name) => self.deciding_rule(name, &args).map_or(Action::Allow, |(_, action)| action),
        }
    }
}

/// `__X32_SYSCALL_BIT`: marks a call of the x32 table on x86_64.
pub(super) const X32_BIT: u32 = 0x4000_0000;
pub(super) const ENOSYS: u16 = 38;
