//! A loopback port that is kept: for a server that starts later, or for nobody.
//!
//! Invariant: while it is held nobody gets the port by chance, neither who listens on any port nor who connects from
//! any. A server that names it gets it all the same: with the option that servers set, several sockets may have one
//! address as long as no other listens.

use socket2::{Domain, SockAddr, Socket, Type};
use std::net::SocketAddr;

/// A port on which nobody listens yet.
pub struct HeldPort(Socket);

impl HeldPort {
    /// Takes a free port.
    pub fn take() -> Self {
        Self(bound(SocketAddr::from(([127, 0, 0, 1], 0))))
    }

    /// Where the port is.
    pub fn address(&self) -> SocketAddr {
        address(&self.0)
    }

    /// Its number.
    pub fn number(&self) -> u16 {
        self.address().port()
    }
}

/// A socket with this address that does not listen yet.
pub(crate) fn bound(address: SocketAddr) -> Socket {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.set_reuse_address(true).unwrap();
    socket.bind(&SockAddr::from(address)).unwrap();
    socket
}

/// The address that a socket has.
pub(crate) fn address(socket: &Socket) -> SocketAddr {
    socket.local_addr().unwrap().as_socket().unwrap()
}

#[cfg(test)]
mod tests {
    use super::HeldPort;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn it_is_nobodys_but_of_who_names_it() {
        let held = HeldPort::take();
        assert!(TcpStream::connect(held.address()).is_err());
        let others: Vec<_> = (0..200).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        assert!(others.iter().all(|other| other.local_addr().unwrap() != held.address()));
        let server = TcpListener::bind(held.address()).unwrap();
        assert!(TcpStream::connect(held.address()).is_ok());
        drop(server);
    }
}
