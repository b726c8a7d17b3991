//! Sessions, skills and commands through the façade, on the local executor.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    clippy::print_stdout,
    missing_docs,
    reason = "tests"
)]

mod attacks;
mod copying;
mod examples;
mod lab;
mod leftovers;
mod loading;
mod outputs;
mod running;
mod sessions;
