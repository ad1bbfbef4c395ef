//! Reserves a loopback port, for a server that starts later, or to test connections to a port
//! without a server.
//!
//! Invariant: while the port is held, the system assigns it to no listener and no connection that
//! leaves the choice of port to the system. A server that names the port can still bind it: with
//! SO_REUSEADDR, which servers set, several sockets may share an address while no other one
//! listens.

use socket2::{Domain, SockAddr, Socket, Type};
use std::net::SocketAddr;

/// A reserved port without a listener.
pub struct HeldPort(Socket);

impl HeldPort {
    /// Reserves a free port.
    pub fn take() -> Self {
        Self(bound(SocketAddr::from(([127, 0, 0, 1], 0))))
    }

    /// The address of the port.
    pub fn address(&self) -> SocketAddr {
        address(&self.0)
    }

    /// The number of the port.
    pub fn number(&self) -> u16 {
        self.address().port()
    }
}

/// A socket bound to this address that does not listen.
pub(crate) fn bound(address: SocketAddr) -> Socket {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.set_reuse_address(true).unwrap();
    socket.bind(&SockAddr::from(address)).unwrap();
    socket
}

/// The local address of a socket.
pub(crate) fn address(socket: &Socket) -> SocketAddr {
    socket.local_addr().unwrap().as_socket().unwrap()
}

#[cfg(test)]
mod tests {
    use super::HeldPort;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn held_port_is_given_only_to_servers_that_name_it() {
        let held = HeldPort::take();
        assert!(TcpStream::connect(held.address()).is_err());
        let others: Vec<_> = (0..200).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        assert!(others.iter().all(|other| other.local_addr().unwrap() != held.address()));
        let server = TcpListener::bind(held.address()).unwrap();
        assert!(TcpStream::connect(held.address()).is_ok());
        drop(server);
    }
}
