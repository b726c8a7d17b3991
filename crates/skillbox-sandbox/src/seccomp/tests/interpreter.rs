//! An interpreter for the classic BPF that seccomp takes, written from linux/bpf_common.h and Documentation/networking/filter.rst. It
//! refuses what the kernel's checker (`seccomp_check_filter`, `bpf_check_classic`) refuses.

use crate::seccomp::{Action, SockFilter};

/// What the program answers to a `struct seccomp_data`.
pub(super) fn run(program: &[SockFilter], audit_arch: u32, number: u32, args: [u64; 6]) -> Action {
    let mut data = Vec::new();
    data.extend(number.to_le_bytes());
    data.extend(audit_arch.to_le_bytes());
    data.extend(0xdead_beef_u64.to_le_bytes()); // the instruction pointer, which must not matter
    data.extend(args.iter().flat_map(|arg| arg.to_le_bytes()));
    assert_eq!(data.len(), 64);

    let (mut accumulator, mut at) = (0_u32, 0_usize);
    loop {
        let instruction = program.get(at).unwrap_or_else(|| panic!("ran off the end"));
        at += 1;
        let branch = |holds: bool| usize::from(if holds { instruction.jt } else { instruction.jf });
        let k = instruction.k;
        match instruction.code {
            0x20 => {
                let from = k as usize;
                assert!(from.is_multiple_of(4) && from + 4 <= data.len(), "load at {from}");
                accumulator = u32::from_le_bytes(data[from..from + 4].try_into().unwrap());
            }
            0x54 => accumulator &= k,
            0x05 => at += k as usize,
            0x15 => at += branch(accumulator == k),
            0x25 => at += branch(accumulator > k),
            0x35 => at += branch(accumulator >= k),
            0x45 => at += branch(accumulator & k != 0),
            0x06 => {
                return match (k & 0xffff_0000, k & 0xffff) {
                    (0x7fff_0000, 0) => Action::Allow,
                    (0x0005_0000, errno) => Action::Errno(u16::try_from(errno).unwrap()),
                    (0x8000_0000, 0) => Action::KillProcess,
                    other => panic!("unknown return value {other:x?}"),
                };
            }
            other => panic!("unknown instruction {other:#x}"),
        }
    }
}

/// The longest way through the program, in instructions executed.
pub(super) fn longest_path(program: &[SockFilter]) -> usize {
    let mut longest = vec![0_usize; program.len()];
    for (at, instruction) in program.iter().enumerate().rev() {
        let from = |skip: usize| longest[at + 1 + skip];
        longest[at] = 1 + match instruction.code {
            0x06 => 0,
            0x05 => from(instruction.k as usize),
            0x15 | 0x25 | 0x35 | 0x45 => from(instruction.jt.into()).max(from(instruction.jf.into())),
            _ => from(0),
        };
    }
    longest[0]
}
