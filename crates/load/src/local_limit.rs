//! Limits of this machine that keep a connection from being made, told apart from what the target did.
//!
//! Invariant: an error that the target can cause is never a limit of this machine.

use rustix::io::Errno;
use std::io;

/// A limit of this machine at which a connection could not be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocalLimit {
    /// No local port is free toward the address.
    Ports,
    /// The process, or the machine, may not open another descriptor.
    Descriptors,
    /// The kernel has no memory for another connection.
    Memory,
}

impl LocalLimit {
    /// The limit that an error of connecting tells of; `None` if the target may be its cause.
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
    fn errors_of_this_machine_are_told_from_the_targets() {
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
