//! The command line, end to end: the real program on real skills in real sandboxes.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "tests set up and inspect the host on purpose"
)]

mod bad_input;
mod boundaries;
mod cancel;
mod commands;
mod exit_codes;
mod json;
mod lab;
mod layering;
mod run;
mod terminal;
