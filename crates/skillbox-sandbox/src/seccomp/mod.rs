//! The system-call policy and the filter made of it.
//!
//! The policy is the table in `rules.rs`: which system calls are refused, under which condition, with which error, and
//! why. Everything else that is known is allowed; numbers that are not known answer `ENOSYS`. [`Policy::compile`] turns
//! it into a classic BPF program (seccomp(2)): a binary tree over ranges of system call numbers, so that a call costs about eight
//! comparisons instead of one for each row, and installing it costs half of what a linear filter does.
//!
//! A foreign architecture (an i386 call through `int 0x80`) and the x32 table of x86_64 end the process
//! (`SECCOMP_RET_KILL_PROCESS`): they would reach the same kernel code under other numbers.
//!
//! ```
//! use skillbox_sandbox::seccomp::{Action, Arch, FilterOptions, Policy};
//! let policy = Policy::new(FilterOptions::default());
//! let ptrace = policy.evaluate(Arch::X86_64, Arch::X86_64.audit_value(), 101, [0; 6]);
//! assert_eq!(ptrace, Action::Errno(1)); // EPERM
//! assert!(policy.compile(Arch::X86_64).instructions().len() <= 350);
//! ```

mod compile;
mod install;
mod numbers;
mod policy;
mod rules;
#[cfg(test)]
mod tests;

pub use compile::SockFilter;
pub use install::Program;
pub use policy::{Action, Arch, Check, Condition, FilterOptions, Policy, Rule, Sockets, Strictness, When};
