//! Makes connections, and makes them again with a socket that has been used.
//!
//! Invariant: nothing here waits. A connection that is being made is told by its events, and a refusal that is known
//! at once is an error. Which answers a connection has brought, and when it may be used again, is the worker's matter.
//!
//! A new connection for each request is work for the kernel: 50 µs on loopback, where the peer's half of the handshake
//! runs in the caller's time, against 2 µs of our own. The acknowledgement that ends the handshake waits for the
//! request and rides on it, which spares a part of that. Another part is spared if a socket is used again instead of
//! being closed and made anew, but then the connection ends with a reset: a plan has to ask for that
//! ([`crate::Close::Rst`]).

use mio::net::TcpStream;
use net::ask_for_stamps;
use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::IpBindAddressNoPort;
use rustix::io::Errno;
use rustix::net::sockopt::{set_socket_recv_buffer_size, set_socket_send_buffer_size, set_tcp_quickack};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, connect_unspec, socket_with};
use std::io;
use std::net::{IpAddr, SocketAddr};

/// Begins a connection, from this local address if one is given, with buffers of so many octets if that is given.
///
/// # Errors
/// As the system reports them.
pub(crate) fn dial(
    address: SocketAddr,
    local: Option<IpAddr>,
    buffer_bytes: Option<u32>,
) -> io::Result<TcpStream> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(family, SocketType::STREAM, flags, None)?;
    if let Some(local) = local {
        // With it the port is chosen when the connection is made, and may be one that others use toward other
        // addresses. An older kernel without it has fewer ports, that is all.
        let _ = setsockopt(&socket, IpBindAddressNoPort, &true);
        bind(&socket, &SocketAddr::new(local, 0))?;
    }
    if let Some(bytes) = buffer_bytes {
        // Before it connects: the window that the peer is told of begins there. What is above the system's limit
        // becomes that limit.
        set_socket_send_buffer_size(&socket, bytes as usize)?;
        set_socket_recv_buffer_size(&socket, bytes as usize)?;
    }
    // Without stamps the times of answers are those of reading: less exact, not wrong.
    let _ = ask_for_stamps(&socket);
    let stream = TcpStream::from_std(socket.into());
    begin(&stream, address)?;
    Ok(stream)
}

/// Begins a connection with the socket of one that the peer has closed. What is left of that one is dropped: the peer
/// gets a reset for it instead of a FIN, after it has said that it is done. Its registration for events stays.
///
/// # Errors
/// As the system reports them; the socket is then of no use.
pub(crate) fn redial(stream: &TcpStream, address: SocketAddr) -> io::Result<()> {
    connect_unspec(stream)?;
    begin(stream, address)
}

/// Whether sockets of connections to this address may be used again. Only where both ends are this machine's: there
/// the peer's kernel is ours, its work would be charged to us and its memory of closed connections kept by us.
/// Elsewhere a middle box may count resets, and the gain is small.
pub(crate) fn is_redialled(address: SocketAddr) -> bool {
    address.ip().is_loopback()
}

fn begin(stream: &TcpStream, address: SocketAddr) -> io::Result<()> {
    // Without it the run is slower, not wrong: if the request does not come soon, the kernel sends what it has put off.
    let _ = set_tcp_quickack(stream, false);
    match connect(stream, &address) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::{dial, is_redialled, redial};
    use std::io::{ErrorKind, Read as _, Write as _};
    use std::net::TcpListener;

    #[test]
    fn a_socket_makes_one_connection_after_the_other() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let mut stream = dial(address, None, None).unwrap();
        for round in 0..3_u8 {
            let (mut server, _) = listener.accept().unwrap();
            stream.write_all(&[round]).unwrap();
            let mut octet = [0];
            server.read_exact(&mut octet).unwrap();
            assert_eq!(octet, [round]);
            drop(server);
            redial(&stream, address).unwrap();
        }
        let (_server, _) = listener.accept().unwrap();
        assert_eq!(stream.read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock, "of an earlier one");
    }

    #[test]
    fn refusals_are_errors_and_only_loopback_is_redialled() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let stream = dial(address, None, None).unwrap();
        drop((listener.accept().unwrap(), listener));
        // On loopback a refusal may be known at once, or be the socket's state.
        let refused = redial(&stream, address).err().or_else(|| stream.take_error().unwrap());
        assert_eq!(refused.unwrap().kind(), ErrorKind::ConnectionRefused);
        assert!(is_redialled(address) && is_redialled("[::1]:80".parse().unwrap()));
        assert!(!is_redialled("192.0.2.1:80".parse().unwrap()));
    }

    #[test]
    fn buffers_have_the_size_asked_for_also_when_made_again() {
        use rustix::net::sockopt::{socket_recv_buffer_size, socket_send_buffer_size};
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let stream = dial(address, None, Some(30_000)).unwrap();
        for _ in 0..2 {
            // The system keeps as much again for itself.
            let sizes =
                (socket_send_buffer_size(&stream).unwrap(), socket_recv_buffer_size(&stream).unwrap());
            assert_eq!(sizes, (60_000, 60_000));
            drop(listener.accept().unwrap());
            redial(&stream, address).unwrap();
        }
    }

    #[test]
    fn a_connection_comes_from_the_address_that_is_given_also_when_made_again() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let stream = dial(address, Some("127.8.9.10".parse().unwrap()), None).unwrap();
        for _ in 0..2 {
            let (server, peer) = listener.accept().unwrap();
            assert_eq!(peer.ip().to_string(), "127.8.9.10");
            drop(server);
            redial(&stream, address).unwrap();
        }
        // An address for documentation (RFC 5737) is nobody's.
        let error = dial(address, Some("192.0.2.1".parse().unwrap()), None).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AddrNotAvailable);
    }
}
