//! Establishes connections, and establishes them again with a used socket.
//!
//! Invariant: nothing here blocks. Events report the progress of a connection; an immediate refusal
//! is an error. The worker keeps track of responses and decides when a socket may be used again.
//!
//! A new connection for each request is costly for the kernel. On loopback it takes 50 µs, because
//! the peer's half of the handshake runs in the caller's time; our own part is 2 µs. Two measures
//! reduce this cost. The acknowledgement that ends the handshake is delayed and sent with the
//! request. A socket can also be used again instead of being closed and created anew. The
//! connection then ends with a reset, so a plan has to ask for this ([`record::Close::Rst`]).

use mio::net::TcpStream;
use net::ask_for_stamps;
use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::IpBindAddressNoPort;
use rustix::io::Errno;
use rustix::net::sockopt::{set_socket_recv_buffer_size, set_socket_send_buffer_size, set_tcp_quickack};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, connect_unspec, socket_with};
use std::io;
use std::net::{IpAddr, SocketAddr};

/// Begins a connection to `address`, from the address `local` and with kernel buffers of
/// `buffer_bytes` bytes, if these are given.
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
        // The kernel then chooses the port when the connection is made, so ports in use toward
        // other addresses are available too. The error is ignored because an older kernel without
        // the option only has fewer ports.
        let _ = setsockopt(&socket, IpBindAddressNoPort, &true);
        bind(&socket, &SocketAddr::new(local, 0))?;
    }
    if let Some(bytes) = buffer_bytes {
        // This has to happen before connecting, because the handshake advertises the window. The
        // kernel reduces sizes above its limit to that limit.
        set_socket_send_buffer_size(&socket, bytes as usize)?;
        set_socket_recv_buffer_size(&socket, bytes as usize)?;
    }
    // The error is ignored: without timestamps, response times end at the read, which is less exact
    // but not wrong.
    let _ = ask_for_stamps(&socket);
    let stream = TcpStream::from_std(socket.into());
    begin(&stream, address)?;
    Ok(stream)
}

/// Begins a connection with the socket of one that the peer has closed. The old connection is
/// dropped: the peer receives a reset instead of a FIN, after its own FIN. The socket stays
/// registered for events.
///
/// # Errors
/// As the system reports them; the socket is unusable afterwards.
pub(crate) fn redial(stream: &TcpStream, address: SocketAddr) -> io::Result<()> {
    connect_unspec(stream)?;
    begin(stream, address)
}

/// Whether sockets of connections to this address may be used again: only if both ends are on this
/// machine. On loopback, our kernel also does the peer's work and keeps its closed connections, so
/// reuse saves both. Elsewhere a middlebox may count resets, and the gain is small.
pub(crate) fn is_redialled(address: SocketAddr) -> bool {
    address.ip().is_loopback()
}

fn begin(stream: &TcpStream, address: SocketAddr) -> io::Result<()> {
    // The error is ignored: without the option a run is slower, not wrong. If no request follows
    // soon, the kernel sends the delayed acknowledgement.
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
    fn one_socket_makes_several_connections_in_turn() {
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
        assert_eq!(
            stream.read(&mut [0]).unwrap_err().kind(),
            ErrorKind::WouldBlock,
            "data of an earlier connection was read"
        );
    }

    #[test]
    fn refusals_are_errors_and_only_loopback_sockets_are_reused() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let stream = dial(address, None, None).unwrap();
        drop((listener.accept().unwrap(), listener));
        // On loopback a refusal may be known at once, or be the socket's pending error.
        let refused = redial(&stream, address).err().or_else(|| stream.take_error().unwrap());
        assert_eq!(refused.unwrap().kind(), ErrorKind::ConnectionRefused);
        assert!(is_redialled(address) && is_redialled("[::1]:80".parse().unwrap()));
        assert!(!is_redialled("192.0.2.1:80".parse().unwrap()));
    }

    #[test]
    fn reused_sockets_keep_the_requested_buffer_sizes() {
        use rustix::net::sockopt::{socket_recv_buffer_size, socket_send_buffer_size};
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let stream = dial(address, None, Some(30_000)).unwrap();
        for _ in 0..2 {
            // The kernel doubles the size for its own overhead.
            let sizes =
                (socket_send_buffer_size(&stream).unwrap(), socket_recv_buffer_size(&stream).unwrap());
            assert_eq!(sizes, (60_000, 60_000));
            drop(listener.accept().unwrap());
            redial(&stream, address).unwrap();
        }
    }

    #[test]
    fn reused_sockets_keep_the_given_local_address() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let stream = dial(address, Some("127.8.9.10".parse().unwrap()), None).unwrap();
        for _ in 0..2 {
            let (server, peer) = listener.accept().unwrap();
            assert_eq!(peer.ip().to_string(), "127.8.9.10");
            drop(server);
            redial(&stream, address).unwrap();
        }
        // A documentation address (RFC 5737) is assigned to no machine.
        let error = dial(address, Some("192.0.2.1".parse().unwrap()), None).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AddrNotAvailable);
    }
}
