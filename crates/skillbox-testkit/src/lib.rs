//! Skill builders, misbehaving programs and the contract suite for executors.
//!
//! Linking this crate makes a test binary able to be its own launcher: test harnesses have no `main` of their own in which
//! `run_launcher_if_asked` could be called, so it is called before `main`.

#![allow(
    unsafe_code,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    clippy::missing_panics_doc,
    clippy::print_stdout,
    reason = "a constructor before main needs a link section; the rest is the harness of tests, which fail by panicking"
)]

mod alone;
pub mod contract;
pub mod misbehave;
mod ordinary;
mod skill;
mod wait;

pub use alone::alone;
pub use ordinary::again_as_an_ordinary_user;
pub use skill::SkillBuilder;
pub use wait::{PATIENCE, until, until_blocking};

mod launcher {
    extern "C" fn launch() {
        skillbox_sandbox::run_launcher_if_asked();
    }

    #[used]
    // SAFETY: the section holds pointers to functions of this type, which the C runtime calls once before main (ELF gABI, "Initialization
    // and Termination Functions"); the standard library has stored the arguments by then.
    #[unsafe(link_section = ".init_array.65535")]
    static LAUNCH: extern "C" fn() = launch;
}

/// Makes sure that this crate is linked; call it once in each test binary that opens local sandboxes.
pub fn init() {
    skillbox_sandbox::run_launcher_if_asked();
}
