//! The integration tests of skillbox-skill, as one binary.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]
#![allow(clippy::disallowed_methods, reason = "tests make their folders with std::fs")]

mod conformance;
mod finding;
mod links;
mod proposed;
mod reading;
mod support;
mod template;
