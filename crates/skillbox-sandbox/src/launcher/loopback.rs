//! Brings the loopback interface of a network namespace up.

use std::io;
use std::os::fd::AsRawFd as _;

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

/// Sets `IFF_UP` on `lo` (netdevice(7)); the kernel gives it 127.0.0.1 and ::1 by itself.
pub(crate) fn up() -> io::Result<()> {
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    // SAFETY: ifreq is plain data, valid when zeroed.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(b"lo") {
        *to = libc::c_char::try_from(*from).unwrap_or_default();
    }
    request.ifr_ifru.ifru_flags = libc::c_short::try_from(libc::IFF_UP).unwrap_or_default();
    // SAFETY: the socket is open and SIOCSIFFLAGS reads one ifreq.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
