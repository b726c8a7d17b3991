//! The sandbox's parts against the real kernel.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::print_stdout,
    missing_docs,
    unsafe_code,
    reason = "tests; raw system calls are what is tested"
)]

mod cgroup;
mod contract;
mod local;
mod quotas;
mod seccomp;
