#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "tests")]

mod interpreter;
mod outcomes;
mod properties;
