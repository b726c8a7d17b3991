//! The finished program and its installation.

#![allow(unsafe_code, reason = "seccomp(2) has no safe wrapper")]

use std::io;

use super::SockFilter;

/// A compiled filter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    instructions: Vec<SockFilter>,
}

impl Program {
    pub(super) fn new(instructions: Vec<SockFilter>) -> Self {
        Self { instructions }
    }

    /// The instructions, in order.
    pub fn instructions(&self) -> &[SockFilter] {
        &self.instructions
    }

    /// Puts the filter on the calling thread; its children inherit it, and nothing takes it off again.
    ///
    /// Needs `no_new_privs` (or `CAP_SYS_ADMIN` in the user namespace), and answers `EACCES` without. Threads that are already there keep
    /// running without it: call it while there is one. Allocates nothing, so it may be called between `fork` and `exec`.
    pub fn install(&self) -> io::Result<()> {
        let too_long = || io::Error::from_raw_os_error(libc::EINVAL);
        let program = libc::sock_fprog {
            len: u16::try_from(self.instructions.len()).map_err(|_| too_long())?,
            filter: self.instructions.as_ptr().cast::<libc::sock_filter>().cast_mut(),
        };
        // SAFETY: SockFilter has the layout of sock_filter (repr(C), the same fields); the kernel only reads `len` of them, copies
        // them before it returns, and both outlive the call.
        let answer = unsafe {
            libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, std::ptr::from_ref(&program))
        };
        if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}
