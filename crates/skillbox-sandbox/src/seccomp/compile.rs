//! From the policy to a classic BPF program.
//!
//! The program is built from its end to its beginning, so that every jump's target is known when the jump is
//! written. A conditional jump reaches 255 instructions; where a target lies farther away, a copy of it (a return)
//! or an unconditional jump is placed in between.

use std::collections::HashMap;

use super::{
    install::Program,
    numbers,
    policy::{Action, Arch, Check, Condition, ENOSYS, Policy, X32_BIT},
};

/// One instruction: `struct sock_filter` of linux/filter.h.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SockFilter {
    /// Operation.
    pub code: u16,
    /// Instructions to skip when the comparison holds.
    pub jt: u8,
    /// Instructions to skip when it does not.
    pub jf: u8,
    /// Operand.
    pub k: u32,
}

// linux/bpf_common.h
pub(super) const LD_W_ABS: u16 = 0x20;
pub(super) const AND_K: u16 = 0x54;
pub(super) const JA: u16 = 0x05;
pub(super) const JEQ_K: u16 = 0x15;
pub(super) const JGE_K: u16 = 0x35;
pub(super) const JSET_K: u16 = 0x45;
pub(super) const RET_K: u16 = 0x06;

// linux/seccomp.h
pub(super) const RET_KILL_PROCESS: u32 = 0x8000_0000;
pub(super) const RET_ERRNO: u32 = 0x0005_0000;
pub(super) const RET_ALLOW: u32 = 0x7fff_0000;

// struct seccomp_data
pub(super) const OFFSET_NR: u32 = 0;
pub(super) const OFFSET_ARCH: u32 = 4;
pub(super) const OFFSET_ARGS: u32 = 16;

/// How far back a target may lie before a copy or a relay is placed; leaves room for two relays.
const REACH: usize = 250;

/// What is decided about a range of numbers.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Leaf {
    Decided(Action),
    Checks(Vec<Check>),
}

/// Where a piece of code begins, counted from the end of the program.
type Label = usize;

impl Policy {
    /// The program for `arch`.
    pub fn compile(&self, arch: Arch) -> Program {
        let ranges = self.ranges(arch);
        let mut builder = Builder::default();
        let tree = builder.tree(&ranges);
        let mut next = tree;
        if arch == Arch::X86_64 {
            let kill = builder.ret(Action::KillProcess);
            next = builder.jump(JSET_K, X32_BIT, kill, next);
        }
        next = builder.push_before(SockFilter { code: LD_W_ABS, jt: 0, jf: 0, k: OFFSET_NR }, next);
        let kill = builder.ret(Action::KillProcess);
        next = builder.jump(JEQ_K, arch.audit_value(), next, kill);
        builder.push_before(SockFilter { code: LD_W_ABS, jt: 0, jf: 0, k: OFFSET_ARCH }, next);
        builder.reversed.reverse();
        Program::new(builder.reversed)
    }

    /// Consecutive ranges of numbers with the same leaf: each with its first number, the first being 0.
    fn ranges(&self, arch: Arch) -> Vec<(u32, Leaf)> {
        let mut known: Vec<_> = numbers::all(arch).collect();
        known.sort_unstable();
        let mut ranges: Vec<(u32, Leaf)> = Vec::new();
        let mut add = |first: u32, leaf: Leaf| {
            if ranges.last().is_none_or(|(_, last)| *last != leaf) {
                ranges.push((first, leaf));
            }
        };
        let mut free = 0;
        for (number, name) in known {
            if number > free {
                add(free, Leaf::Decided(Action::Errno(ENOSYS)));
            }
            add(number, leaf(self.checks(name)));
            free = number + 1;
        }
        add(free.max(numbers::NEWEST + 1), Leaf::Decided(Action::Errno(ENOSYS)));
        ranges
    }
}

fn leaf(mut checks: Vec<Check>) -> Leaf {
    // Nothing is asked after a check without a condition.
    if let Some(last) = checks.iter().position(|check| check.when.is_empty()) {
        checks.truncate(last + 1);
    }
    match checks.as_slice() {
        [] => Leaf::Decided(Action::Allow),
        [only] if only.when.is_empty() => Leaf::Decided(only.action),
        _ => Leaf::Checks(checks),
    }
}

#[derive(Debug, Default)]
struct Builder {
    /// The instructions, last one first.
    reversed: Vec<SockFilter>,
    /// Code that has been written and can be jumped to again.
    written: HashMap<Leaf, Label>,
}

impl Builder {
    fn tree(&mut self, ranges: &[(u32, Leaf)]) -> Label {
        match ranges {
            [] => self.ret(Action::KillProcess),
            [(_, leaf)] => self.leaf(leaf),
            _ => {
                let middle = ranges.len().div_ceil(2);
                let (below, above) = ranges.split_at(middle);
                let from = above.first().map_or(0, |(first, _)| *first);
                let above = self.tree(above);
                let below = self.tree(below);
                self.jump(JGE_K, from, above, below)
            }
        }
    }

    fn leaf(&mut self, leaf: &Leaf) -> Label {
        match leaf {
            Leaf::Decided(action) => self.ret(*action),
            Leaf::Checks(checks) => {
                if let Some(label) = self.written.get(leaf) {
                    return *label;
                }
                let mut next = match checks.last() {
                    Some(Check { when: [], .. }) => None,
                    _ => Some(self.ret(Action::Allow)),
                };
                for check in checks.iter().rev() {
                    let refused = self.ret(check.action);
                    let otherwise = next.unwrap_or(refused);
                    let mut holds = refused;
                    for condition in check.when.iter().rev() {
                        holds = self.condition(condition, holds, otherwise);
                    }
                    next = Some(holds);
                }
                let label = next.unwrap_or_default();
                self.written.insert(leaf.clone(), label);
                label
            }
        }
    }

    fn condition(&mut self, condition: &Condition, holds: Label, otherwise: Label) -> Label {
        let (arg, mask, first) = match *condition {
            Condition::AnyBit { arg, mask } => (arg, u32::MAX, self.jump(JSET_K, mask, holds, otherwise)),
            Condition::In { arg, mask, values } => (arg, mask, self.values(values, holds, otherwise)),
            Condition::NotIn { arg, mask, values } => (arg, mask, self.values(values, otherwise, holds)),
        };
        let masked = match mask {
            u32::MAX => first,
            k => self.push_before(SockFilter { code: AND_K, jt: 0, jf: 0, k }, first),
        };
        let k = OFFSET_ARGS + 8 * u32::from(arg); // the low half comes first: both architectures are little-endian
        self.push_before(SockFilter { code: LD_W_ABS, jt: 0, jf: 0, k }, masked)
    }

    /// `found` when the accumulator is one of `values`, else `missing`.
    fn values(&mut self, values: &[u32], found: Label, missing: Label) -> Label {
        values.iter().rev().fold(missing, |next, value| self.jump(JEQ_K, *value, found, next))
    }

    fn ret(&mut self, action: Action) -> Label {
        let key = Leaf::Decided(action);
        match self.written.get(&key) {
            Some(label) if self.reversed.len() - label <= REACH => *label,
            _ => {
                let k = match action {
                    Action::Allow => RET_ALLOW,
                    Action::Errno(errno) => RET_ERRNO | u32::from(errno),
                    Action::KillProcess => RET_KILL_PROCESS,
                };
                let label = self.push(SockFilter { code: RET_K, jt: 0, jf: 0, k });
                self.written.insert(key, label);
                label
            }
        }
    }

    fn jump(&mut self, code: u16, k: u32, holds: Label, otherwise: Label) -> Label {
        let holds = self.within_reach(holds);
        let otherwise = self.within_reach(otherwise);
        let (jt, jf) = (self.distance(holds), self.distance(otherwise));
        self.push(SockFilter { code, jt, jf, k })
    }

    /// `label`, or a relay to it that a conditional jump reaches.
    fn within_reach(&mut self, label: Label) -> Label {
        let distance = self.reversed.len() - label;
        if distance <= REACH {
            return label;
        }
        let copied = self.at(label).filter(|instruction| instruction.code == RET_K);
        let k = u32::try_from(distance).unwrap_or(u32::MAX);
        self.push(copied.unwrap_or(SockFilter { code: JA, jt: 0, jf: 0, k }))
    }

    /// Writes `instruction` so that execution goes on at `next`.
    fn push_before(&mut self, instruction: SockFilter, next: Label) -> Label {
        let distance = self.reversed.len() - next;
        if distance > 0 {
            let k = u32::try_from(distance).unwrap_or(u32::MAX);
            self.push(SockFilter { code: JA, jt: 0, jf: 0, k });
        }
        self.push(instruction)
    }

    fn push(&mut self, instruction: SockFilter) -> Label {
        self.reversed.push(instruction);
        self.reversed.len()
    }

    fn at(&self, label: Label) -> Option<SockFilter> {
        label.checked_sub(1).and_then(|index| self.reversed.get(index)).copied()
    }

    /// Instructions between the next one written and `label`.
    fn distance(&self, label: Label) -> u8 {
        u8::try_from(self.reversed.len() - label).unwrap_or(u8::MAX)
    }
}
