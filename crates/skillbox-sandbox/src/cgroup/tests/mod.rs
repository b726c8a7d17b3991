#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "tests")]

pub(super) mod fake;
mod parsing;
mod real_unified;
mod unified_layout;
