//! Limits of this machine that prevent a connection, as opposed to errors of the target.
//!
//! Invariant: an error that the target can cause is never reported as a limit of this machine.

use rustix::io::Errno;
use std::io;

/// A limit of this machine that prevented a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocalLimit {
    /// No local port is free toward the address.
    Ports,
    /// The process or the machine has reached its limit of open descriptors.
    Descriptors,
    /// The kernel has no memory for another connection.
    Memory,
}

impl LocalLimit {
    /// The limit behind an error of connecting; `None` if the target may have caused the error.
    pub fn of(error: &io::Error) -> Option<Self> {
        let is =
            |errnos: &[Errno]| errnos.iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()));
        match error.kind() {
            io::ErrorKind::AddrNotAvailable | io::ErrorKind::AddrInUse => Some(Self::Ports),
            _ if is(&[Errno::MFILE, Errno::NFILE]) => Some(Self::Descriptors),
            _ if is(&[Errno::NOBUFS, Errno::NOMEM]) => Some(Self::Memory),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::LocalLimit;
    use rustix::io::Errno;

    #[test]
    fn local_limits_are_distinguished_from_target_errors() {
        for (errno, limit) in [
            (Errno::ADDRNOTAVAIL, Some(LocalLimit::Ports)),
            (Errno::ADDRINUSE, Some(LocalLimit::Ports)),
            (Errno::MFILE, Some(LocalLimit::Descriptors)),
            (Errno::NFILE, Some(LocalLimit::Descriptors)),
            (Errno::NOBUFS, Some(LocalLimit::Memory)),
            (Errno::NOMEM, Some(LocalLimit::Memory)),
            (Errno::CONNREFUSED, None),
            (Errno::TIMEDOUT, None),
            (Errno::NETUNREACH, None),
        ] {
            assert_eq!(LocalLimit::of(&errno.into()), limit, "{errno:?}");
        }
    }
}
