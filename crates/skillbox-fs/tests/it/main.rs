//! Tests of skillbox-fs through its public interface.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests fail by panicking")]
#![allow(clippy::disallowed_methods, reason = "tests play the part of scripts, and run children")]
#![allow(clippy::print_stdout, reason = "children report, and tests say what they leave out")]

mod child;
mod confined;
mod copy;
mod glob;
mod import;
mod mime;
mod odd_names;
mod remove;
mod store;
mod walk;
