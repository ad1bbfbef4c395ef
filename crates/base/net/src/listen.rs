//! Listening sockets. They are created once at the start and handed to the workers, which accept
//! connections from them.
//!
//! Invariant: [`bind`] gives every worker its own socket for a TCP address (SO_REUSEPORT), so that
//! the kernel distributes connections over the workers. Nevertheless it fails if another process
//! listens on the port.

use crate::{Peer, Stream};
use address::Address;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// Length of the queue of connections to be accepted, per socket. The kernel limits it to
/// `net.core.somaxconn`.
const BACKLOG: i32 = 4096;

/// A bound, listening socket. Use an [`Acceptor`] to accept its connections.
#[derive(Debug)]
pub struct Listener {
    socket: BoundSocket,
    local: Address,
}

#[derive(Debug)]
pub(crate) enum BoundSocket {
    Tcp(std::net::TcpListener),
    Unix(std::os::unix::net::UnixListener),
}

/// A listening socket, registered with a tokio runtime.
#[derive(Debug)]
pub enum Acceptor {
    /// Accepts TCP connections.
    Tcp(tokio::net::TcpListener),
    /// Accepts connections to a Unix socket.
    Unix(tokio::net::UnixListener),
}

/// Why [`bind`] failed. The message says how to fix it.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// Another socket listens at the address.
    #[error(
        "cannot listen on {0}: the address is in use; stop the process that listens there or choose another port"
    )]
    InUse(Address),
    /// The port is below 1024 and the process lacks the right to use it.
    #[error(
        "cannot listen on {0}: permission denied; choose a port from 1024 on, \
         or give the binary the right to low ports (setcap cap_net_bind_service=+ep)"
    )]
    Denied(Address),
    /// The address is not one of this machine's.
    #[error(
        "cannot listen on {0}: this machine has no such address; use one of its own, 127.0.0.1 or 0.0.0.0"
    )]
    NotHere(Address),
    /// The host name has no address.
    #[error("cannot listen on {0}: the name does not resolve to an address; write the IP address")]
    Unresolved(Address),
    /// A file of another kind than a socket exists at the path.
    #[error(
        "cannot listen on {0}: a file that is not a socket is in the way; remove it or choose another path"
    )]
    NotASocket(Address),
    /// Any other error of the system.
    #[error("cannot listen on {address}: {error}")]
    System {
        /// The address as configured.
        address: Address,
        /// The system's error.
        error: io::Error,
    },
}

impl BindError {
    fn new(address: &Address, error: io::Error) -> Self {
        let address = address.clone();
        match error.kind() {
            io::ErrorKind::AddrInUse => Self::InUse(address),
            io::ErrorKind::PermissionDenied => Self::Denied(address),
            io::ErrorKind::AddrNotAvailable => Self::NotHere(address),
            _ => Self::System { address, error },
        }
    }
}

/// Creates `count` listening sockets for one address.
///
/// With port 0 the system chooses a port, the same for all sockets. A host name is resolved once:
/// its first IPv4 address is used, or its first address if it has no IPv4 address.
///
/// # Errors
/// See [`BindError`]. On an error no socket stays open.
pub fn bind(address: &Address, count: usize) -> Result<Vec<Listener>, BindError> {
    let failed = |error| BindError::new(address, error);
    match resolve(address)? {
        Address::Unix(path) => bind_unix(address, &path, count),
        Address::Ip(ip) => bind_tcp(ip, count).map_err(failed),
        Address::Host { .. } => Err(BindError::Unresolved(address.clone())),
    }
}

/// The address with its host name, if it has one, replaced by the IP address that [`bind`] uses.
///
/// # Errors
/// [`BindError::Unresolved`].
pub fn resolve(address: &Address) -> Result<Address, BindError> {
    let Address::Host { name, port } = address else { return Ok(address.clone()) };
    let unresolved = || BindError::Unresolved(address.clone());
    let resolved = (name.as_str(), *port).to_socket_addrs().map_err(|_| unresolved())?;
    let resolved: Vec<SocketAddr> = resolved.collect();
    let first = resolved.iter().find(|address| address.is_ipv4()).or_else(|| resolved.first());
    first.copied().map(Address::Ip).ok_or_else(unresolved)
}

impl Listener {
    /// A listening socket that another process has opened.
    ///
    /// # Errors
    /// The system's error.
    pub(crate) fn passed(socket: BoundSocket) -> io::Result<Self> {
        let local = match &socket {
            BoundSocket::Tcp(listener) => {
                listener.set_nonblocking(true)?;
                socket2::SockRef::from(listener).set_tcp_nodelay(true)?;
                Address::Ip(listener.local_addr()?)
            }
            BoundSocket::Unix(listener) => {
                listener.set_nonblocking(true)?;
                let local = listener.local_addr()?;
                let path =
                    local.as_pathname().ok_or_else(|| io::Error::other("the Unix socket has no path"))?;
                Address::Unix(path.to_owned())
            }
        };
        Ok(Self { socket, local })
    }

    /// Another handle of the same socket. Both accept connections from one queue.
    ///
    /// # Errors
    /// The system's error, for example if there are no file descriptors left.
    pub fn try_clone(&self) -> io::Result<Self> {
        let socket = match &self.socket {
            BoundSocket::Tcp(listener) => BoundSocket::Tcp(listener.try_clone()?),
            BoundSocket::Unix(listener) => BoundSocket::Unix(listener.try_clone()?),
        };
        Ok(Self { socket, local: self.local.clone() })
    }

    /// The bound address, with the port that the system chose.
    pub fn local(&self) -> &Address {
        &self.local
    }

    /// Registers a duplicate of the socket with the current tokio runtime. The listener keeps the
    /// original.
    ///
    /// # Errors
    /// The system's error, for example if there are no file descriptors left.
    pub fn acceptor(&self) -> io::Result<Acceptor> {
        match &self.socket {
            BoundSocket::Tcp(listener) => {
                tokio::net::TcpListener::from_std(listener.try_clone()?).map(Acceptor::Tcp)
            }
            BoundSocket::Unix(listener) => {
                tokio::net::UnixListener::from_std(listener.try_clone()?).map(Acceptor::Unix)
            }
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.socket {
            BoundSocket::Tcp(listener) => listener.as_fd(),
            BoundSocket::Unix(listener) => listener.as_fd(),
        }
    }
}

impl Acceptor {
    /// Waits for the next connection.
    ///
    /// Nagle's algorithm is off: an accepted socket inherits this from the listening one, which
    /// saves a system call per connection.
    ///
    /// # Errors
    /// The system's error. A connection that was closed before it was accepted is skipped and is no
    /// error. The returned errors, such as a lack of file descriptors or memory, are temporary.
    pub async fn accept(&self) -> io::Result<(Stream, Peer)> {
        loop {
            let accepted = match self {
                Self::Tcp(listener) => {
                    listener.accept().await.map(|(stream, peer)| (Stream::Tcp(stream), Peer::from(peer)))
                }
                Self::Unix(listener) => {
                    listener.accept().await.map(|(stream, _)| (Stream::Unix(stream), Peer::Unix))
                }
            };
            match accepted {
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset
                    ) => {}
                other => return other,
            }
        }
    }
}

/// Error number of Linux for "address family not supported": the system has no IPv6.
const EAFNOSUPPORT: i32 = 97;

fn bind_tcp(address: SocketAddr, count: usize) -> io::Result<Vec<Listener>> {
    let is_everywhere = address.ip() == Ipv6Addr::UNSPECIFIED;
    match bind_address(address, count) {
        Err(error) if is_everywhere && error.raw_os_error() == Some(EAFNOSUPPORT) => {
            bind_address(SocketAddr::from((Ipv4Addr::UNSPECIFIED, address.port())), count)
        }
        bound => bound,
    }
}

fn bind_address(address: SocketAddr, count: usize) -> io::Result<Vec<Listener>> {
    if address.port() != 0 {
        // SO_REUSEPORT silently lets a second process of this user share the port. Therefore first
        // bind without it, which fails if another socket listens there.
        drop(tcp_socket(address, false)?);
    }
    let mut target = address;
    let mut listeners = Vec::with_capacity(count);
    for _ in 0..count {
        let socket = tcp_socket(target, true)?;
        socket.set_tcp_nodelay(true)?;
        socket.listen(BACKLOG)?;
        let listener = std::net::TcpListener::from(socket);
        // With port 0 the first socket determines the port of the others.
        target = listener.local_addr()?;
        listeners.push(Listener { socket: BoundSocket::Tcp(listener), local: Address::Ip(target) });
    }
    Ok(listeners)
}

fn tcp_socket(address: SocketAddr, shared_port: bool) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    socket.set_reuse_address(true)?;
    if shared_port {
        socket.set_reuse_port(true)?;
    }
    if address.ip() == Ipv6Addr::UNSPECIFIED {
        // One socket then serves all addresses of the machine, including IPv4, whatever the
        // system's default is.
        socket.set_only_v6(false)?;
    }
    socket.bind(&address.into())?;
    Ok(socket)
}

fn bind_unix(address: &Address, path: &Path, count: usize) -> Result<Vec<Listener>, BindError> {
    remove_stale_socket(address, path)?;
    let failed = |error| BindError::new(address, error);
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None).map_err(failed)?;
    socket.set_nonblocking(true).map_err(failed)?;
    socket.bind(&SockAddr::unix(path).map_err(failed)?).map_err(failed)?;
    socket.listen(BACKLOG).map_err(failed)?;
    let listener = std::os::unix::net::UnixListener::from(socket);
    (0..count)
        .map(|_| Ok(Listener { socket: BoundSocket::Unix(listener.try_clone()?), local: address.clone() }))
        .collect::<io::Result<_>>()
        .map_err(failed)
}

/// Removes the socket file of a process that has ended. A file of another kind, and a socket that
/// accepts connections, stay.
fn remove_stale_socket(address: &Address, path: &Path) -> Result<(), BindError> {
    let Ok(metadata) = std::fs::symlink_metadata(path) else {
        return Ok(());
    };
    if !metadata.file_type().is_socket() {
        return Err(BindError::NotASocket(address.clone()));
    }
    match std::os::unix::net::UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path).map_err(|error| BindError::new(address, error))
        }
        _ => Err(BindError::InUse(address.clone())),
    }
}

#[cfg(test)]
mod tests {
    use super::{BindError, bind};
    use crate::Stream;
    use address::Address;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    fn loopback() -> Address {
        "127.0.0.1:0".parse().unwrap()
    }

    #[tokio::test]
    async fn listeners_of_one_address_share_one_port() {
        let listeners = bind(&loopback(), 3).unwrap();
        let local = listeners[0].local().clone();
        assert_ne!(local.port(), Some(0));
        assert!(listeners.iter().all(|listener| *listener.local() == local));
    }

    #[test]
    fn port_without_host_is_bound_on_every_address() {
        let listeners = bind(&":0".parse().unwrap(), 2).unwrap();
        let port = listeners[0].local().port().unwrap();
        assert!(std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());
    }

    #[test]
    fn port_of_another_process_is_an_error() {
        let first = bind(&loopback(), 2).unwrap();
        let error = bind(first[0].local(), 1).unwrap_err();
        assert!(matches!(&error, BindError::InUse(address) if address == first[0].local()));
        assert!(error.to_string().contains("in use"));
    }

    #[test]
    fn address_of_another_machine_is_an_error() {
        let error = bind(&"192.0.2.1:0".parse().unwrap(), 1).unwrap_err();
        assert!(matches!(error, BindError::NotHere(_)), "{error}");
    }

    async fn exchange(address: &Address) {
        let listeners = bind(address, 1).unwrap();
        let acceptor = listeners[0].acceptor().unwrap();
        let mut client = Stream::connect(listeners[0].local()).await.unwrap();
        let (mut server, peer) = acceptor.accept().await.unwrap();
        assert!(peer.is_loopback());
        if let Stream::Tcp(stream) = &server {
            assert!(stream.nodelay().unwrap());
        }
        client.write_all(b"ping").await.unwrap();
        let mut received = [0; 4];
        server.read_exact(&mut received).await.unwrap();
        assert_eq!(&received, b"ping");
    }

    #[tokio::test]
    async fn tcp_and_unix_connections_carry_bytes() {
        exchange(&loopback()).await;
        exchange(&"localhost:0".parse().unwrap()).await;
        let directory = tempfile::tempdir().unwrap();
        exchange(&Address::Unix(directory.path().join("socket"))).await;
    }

    #[test]
    fn only_a_stale_socket_file_is_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let address = Address::Unix(path.clone());
        drop(bind(&address, 2).unwrap());
        let alive = bind(&address, 1).unwrap();
        assert!(matches!(bind(&address, 1), Err(BindError::InUse(_))));
        drop(alive);
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "precious").unwrap();
        assert!(matches!(bind(&address, 1), Err(BindError::NotASocket(_))));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
    }
}
