//! Sockets for datagrams that one receiver gets.
//!
//! Invariant: sending waits at most [`SEND_TIME_MAX`] for a receiver whose queue is full.

use address::Address;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs as _, UdpSocket};
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

/// The longest wait for a receiver whose queue is full.
const SEND_TIME_MAX: Duration = Duration::from_secs(1);

/// A socket for datagrams. Its calls may wait, so they are for a thread.
pub trait Datagrams: Send {
    /// Sends one datagram.
    ///
    /// # Errors
    /// As the system reports them; `WouldBlock` or `TimedOut` if the queue of the receiver stays
    /// full.
    fn send(&self, datagram: &[u8]) -> io::Result<()>;
}

/// A socket of the system.
#[derive(Debug)]
pub(crate) enum SystemDatagrams {
    Unix(UnixDatagram),
    Udp(UdpSocket),
}

impl SystemDatagrams {
    /// Opens a socket whose receiver is at `address`.
    pub(crate) fn connect(address: &Address) -> io::Result<Self> {
        let resolved = match address {
            Address::Unix(path) => {
                let socket = UnixDatagram::unbound()?;
                socket.set_write_timeout(Some(SEND_TIME_MAX))?;
                socket.connect(path)?;
                return Ok(Self::Unix(socket));
            }
            Address::Ip(address) => Some(*address),
            Address::Host { name, port } => (name.as_str(), *port).to_socket_addrs()?.next(),
        };
        let receiver = resolved.ok_or(io::ErrorKind::NotFound)?;
        let any = match receiver {
            SocketAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
            SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
        };
        let socket = UdpSocket::bind(any)?;
        socket.set_write_timeout(Some(SEND_TIME_MAX))?;
        socket.connect(receiver)?;
        Ok(Self::Udp(socket))
    }
}

impl Datagrams for SystemDatagrams {
    fn send(&self, datagram: &[u8]) -> io::Result<()> {
        match self {
            Self::Unix(socket) => socket.send(datagram),
            Self::Udp(socket) => socket.send(datagram),
        }
        .map(drop)
    }
}
