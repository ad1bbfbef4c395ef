//! A TCP or Unix connection, or one of a simulation, and the identity of its peer.
//!
//! Invariant: an [`IdleStream`] belongs to no runtime. It can therefore wait in a pool that all
//! workers share, and continue on any of them.

use crate::tls_agreement::known_version;
use crate::tls_session::{self, ClientTls, IdleTls, ServerTls};
use address::Address;
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};
use std::fmt;
use std::io::{self, IoSlice};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tls_terms::TlsVersion;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

/// A connection registered with a tokio runtime.
#[derive(Debug)]
pub enum Stream {
    /// A TCP connection.
    Tcp(TcpStream),
    /// A connection to a Unix socket.
    Unix(UnixStream),
    /// A connection that was accepted and secured by TLS.
    Tls(Box<ServerTls>),
    /// A connection that was opened and secured by TLS.
    TlsToServer(Box<ClientTls>),
    /// A connection without a socket.
    Other(Box<dyn Connection>),
}

/// A connection that waits for its next use and is registered with no runtime.
#[derive(Debug)]
pub enum IdleStream {
    /// A TCP connection.
    Tcp(std::net::TcpStream),
    /// A connection to a Unix socket.
    Unix(std::os::unix::net::UnixStream),
    /// A connection that was opened and secured by TLS.
    Tls(Box<IdleTls>),
    /// A connection without a socket.
    Other(Box<dyn Connection>),
}

/// The operations of a connection that the edge needs. [`Stream`] does the same with the system's
/// sockets; simulations implement this trait in memory.
pub trait Connection: AsyncRead + AsyncWrite + fmt::Debug + Send + Sync + Unpin {
    /// Same as [`Stream::try_write_vectored`].
    ///
    /// # Errors
    /// `WouldBlock` if no byte is accepted now; otherwise the error that broke the connection.
    fn try_write_vectored(&self, slices: &[IoSlice<'_>]) -> io::Result<usize>;

    /// Same as [`Stream::reset_on_close`].
    fn reset_on_close(&self, abrupt: bool);

    /// Same as [`IdleStream::is_quiet`].
    fn is_quiet(&self) -> bool;
}

/// Makes connections.
pub trait Network: Send + Sync {
    /// Connects to an address.
    ///
    /// # Errors
    /// As [`Stream::connect`].
    fn connect<'a>(&'a self, address: &'a Address) -> Connecting<'a>;
}

/// A connection in progress.
pub type Connecting<'a> = Pin<Box<dyn Future<Output = io::Result<Stream>> + Send + 'a>>;

/// The network of the system.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemNetwork;

impl Network for SystemNetwork {
    fn connect<'a>(&'a self, address: &'a Address) -> Connecting<'a> {
        Box::pin(Stream::connect(address))
    }
}

/// The peer of an accepted connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// A TCP peer. An IPv4 address that was received as a mapped IPv6 address is an IPv4 address
    /// here.
    Ip(SocketAddr),
    /// A process on this machine.
    Unix,
    /// A client that the proxy in front does not name.
    Unknown,
}

impl Stream {
    /// Connects, and turns Nagle's algorithm off. The addresses of a host name are tried in the
    /// resolver's order.
    ///
    /// # Errors
    /// As the system reports them; the error for the last address if there are several.
    pub async fn connect(address: &Address) -> io::Result<Self> {
        let stream = match address {
            Address::Ip(ip) => TcpStream::connect(ip).await?,
            Address::Host { name, port } => TcpStream::connect((name.as_str(), *port)).await?,
            Address::Unix(path) => return UnixStream::connect(path).await.map(Self::Unix),
        };
        stream.set_nodelay(true)?;
        Ok(Self::Tcp(stream))
    }

    /// Whether TLS secures the connection.
    pub const fn is_secured(&self) -> bool {
        matches!(self, Self::Tls(_) | Self::TlsToServer(_))
    }

    /// The application protocol that both sides agreed on in the TLS handshake (RFC 7301).
    pub fn protocol(&self) -> Option<&[u8]> {
        match self {
            Self::Tls(secured) => secured.get_ref().1.alpn_protocol(),
            Self::TlsToServer(secured) => secured.get_ref().1.alpn_protocol(),
            Self::Tcp(_) | Self::Unix(_) | Self::Other(_) => None,
        }
    }

    /// The version of TLS that both sides agreed on. `None` for a plain connection.
    pub fn tls_version(&self) -> Option<TlsVersion> {
        let version = match self {
            Self::Tls(secured) => secured.get_ref().1.protocol_version(),
            Self::TlsToServer(secured) => secured.get_ref().1.protocol_version(),
            Self::Tcp(_) | Self::Unix(_) | Self::Other(_) => None,
        };
        version.and_then(known_version)
    }

    /// The host that the client named in the TLS handshake (RFC 6066 section 3).
    pub fn server_name(&self) -> Option<&str> {
        match self {
            Self::Tls(secured) => secured.get_ref().1.server_name(),
            Self::Tcp(_) | Self::Unix(_) | Self::TlsToServer(_) | Self::Other(_) => None,
        }
    }

    /// Removes the connection from its runtime.
    ///
    /// # Errors
    /// As the system reports them, `Unsupported` for an accepted connection with TLS, and
    /// `WouldBlock` if TLS still has bytes to send. The connection is then closed.
    pub fn into_idle(self) -> io::Result<IdleStream> {
        match self {
            Self::Tcp(stream) => stream.into_std().map(IdleStream::Tcp),
            Self::Unix(stream) => stream.into_std().map(IdleStream::Unix),
            Self::Tls(_) => Err(io::ErrorKind::Unsupported.into()),
            Self::TlsToServer(secured) => IdleTls::of(secured).map(|idle| IdleStream::Tls(Box::new(idle))),
            Self::Other(connection) => Ok(IdleStream::Other(connection)),
        }
    }

    /// Writes as many bytes as the system accepts now, without waiting. TLS may keep bytes that the
    /// next flush writes.
    ///
    /// # Errors
    /// `WouldBlock` if the system accepts no byte now; `Unsupported` for a connection that was
    /// opened with TLS, which is never written to in this way; otherwise as the system reports
    /// them.
    pub fn try_write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.try_write_vectored(slices),
            Self::Unix(stream) => stream.try_write_vectored(slices),
            Self::Tls(secured) => tls_session::try_write_vectored(secured, slices),
            Self::TlsToServer(_) => Err(io::ErrorKind::Unsupported.into()),
            Self::Other(connection) => connection.try_write_vectored(slices),
        }
    }

    /// As [`Stream::try_write_vectored`], for bytes that [`Stream::poll_send_file`] follows at
    /// once. TCP then needs no packet for them alone.
    ///
    /// # Errors
    /// As for [`Stream::try_write_vectored`].
    pub fn try_write_before_file(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let Self::Tcp(stream) = self else { return self.try_write_vectored(slices) };
        let flags = SendFlags::MORE | SendFlags::NOSIGNAL;
        let write = || Ok(sendmsg(&*stream, slices, &mut SendAncillaryBuffer::default(), flags)?);
        stream.try_io(Interest::WRITABLE, write)
    }

    /// Takes bytes that [`AsyncWrite::poll_flush`] sends. Several pieces so cost one system call.
    /// TLS sends them earlier if it has no room for more; see [`Stream::gather_up_to`]. A
    /// connection without TLS sends them at once.
    ///
    /// # Errors
    /// As the system reports them.
    pub fn poll_gather(
        &mut self,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self {
            Self::Tls(secured) => tls_session::poll_gather(secured, context, slices),
            plain => Pin::new(plain).poll_write_vectored(context, slices),
        }
    }

    /// Lets TLS hold this many bytes that are not sent yet. The least is one record.
    pub fn gather_up_to(&mut self, bytes: usize) {
        if let Self::Tls(secured) = self {
            tls_session::limit(secured.get_mut().1, bytes);
        }
    }

    /// Whether [`Stream::poll_send_file`] works on this connection.
    pub const fn takes_files(&self) -> bool {
        matches!(self, Self::Tcp(_) | Self::Unix(_))
    }

    /// Sends at most `bytes` bytes of `file` from `offset` on, without copying them through this
    /// process (sendfile). Advances `offset`. Returns the number of bytes sent; zero at the end of
    /// the file.
    ///
    /// # Errors
    /// As the system reports them; `Unsupported` if the connection is no socket or secured.
    pub fn poll_send_file(
        &self,
        context: &mut Context<'_>,
        file: impl AsFd,
        offset: &mut u64,
        bytes: usize,
    ) -> Poll<io::Result<usize>> {
        loop {
            ready!(match self {
                Self::Tcp(stream) => stream.poll_write_ready(context),
                Self::Unix(stream) => stream.poll_write_ready(context),
                Self::Tls(_) | Self::TlsToServer(_) | Self::Other(_) => {
                    Poll::Ready(Err(io::ErrorKind::Unsupported.into()))
                }
            })?;
            let sent = match self {
                Self::Tcp(stream) => stream.try_io(Interest::WRITABLE, || send(stream, &file, offset, bytes)),
                Self::Unix(stream) => {
                    stream.try_io(Interest::WRITABLE, || send(stream, &file, offset, bytes))
                }
                Self::Tls(_) | Self::TlsToServer(_) | Self::Other(_) => {
                    Err(io::ErrorKind::Unsupported.into())
                }
            };
            match sent {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                sent => return Poll::Ready(sent),
            }
        }
    }

    /// Makes closing abrupt, or orderly again. After an abrupt close the peer of a TCP connection
    /// receives a reset instead of an end, so it cannot take a truncated response for a complete
    /// one. The setting holds however the connection is dropped. It has no effect on a Unix socket.
    pub fn reset_on_close(&self, abrupt: bool) {
        match self {
            Self::Tcp(stream) => {
                // This cannot fail on an open socket.
                let _ =
                    socket2::SockRef::from(stream).set_linger(abrupt.then_some(std::time::Duration::ZERO));
            }
            Self::Unix(_) => {}
            Self::Tls(secured) => secured.get_ref().0.reset_on_close(abrupt),
            Self::TlsToServer(secured) => secured.get_ref().0.reset_on_close(abrupt),
            Self::Other(connection) => connection.reset_on_close(abrupt),
        }
    }
}

fn send(stream: impl AsFd, file: impl AsFd, offset: &mut u64, bytes: usize) -> io::Result<usize> {
    Ok(rustix::fs::sendfile(stream, file, Some(offset), bytes)?)
}

impl IdleStream {
    /// Registers the connection with the current tokio runtime.
    ///
    /// # Errors
    /// As the system reports them; the connection is then closed.
    pub fn into_stream(self) -> io::Result<Stream> {
        // tokio requires non-blocking mode, in which `Stream::into_idle` left the socket.
        match self {
            Self::Tcp(stream) => TcpStream::from_std(stream).map(Stream::Tcp),
            Self::Unix(stream) => UnixStream::from_std(stream).map(Stream::Unix),
            Self::Tls(idle) => idle.into_stream(),
            Self::Other(connection) => Ok(Stream::Other(connection)),
        }
    }

    /// Whether the peer has neither closed the connection nor sent anything. Only such a connection
    /// may carry a new request. Messages of TLS itself, such as session tickets, do not count.
    pub fn is_quiet(&mut self) -> bool {
        let socket = match self {
            Self::Tcp(stream) => socket2::SockRef::from(&*stream),
            Self::Unix(stream) => socket2::SockRef::from(&*stream),
            Self::Tls(idle) => return idle.is_quiet(),
            Self::Other(connection) => return connection.is_quiet(),
        };
        let mut octet = [std::mem::MaybeUninit::uninit()];
        matches!(socket.peek(&mut octet), Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }
}

impl Peer {
    /// The peer's IP address, if it has one.
    pub fn ip(&self) -> Option<IpAddr> {
        match self {
            Self::Ip(address) => Some(address.ip()),
            Self::Unix | Self::Unknown => None,
        }
    }

    /// Whether the peer runs on this machine.
    pub fn is_loopback(&self) -> bool {
        match self {
            Self::Ip(address) => address.ip().to_canonical().is_loopback(),
            Self::Unix => true,
            Self::Unknown => false,
        }
    }
}

impl From<SocketAddr> for Peer {
    fn from(address: SocketAddr) -> Self {
        Self::Ip(SocketAddr::new(address.ip().to_canonical(), address.port()))
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(address) => address.ip().fmt(f),
            Self::Unix => f.write_str("unix"),
            Self::Unknown => f.write_str("-"),
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_read(context, buffer),
            Self::Unix(stream) => Pin::new(stream).poll_read(context, buffer),
            Self::Tls(secured) => Pin::new(secured).poll_read(context, buffer),
            Self::TlsToServer(secured) => Pin::new(secured).poll_read(context, buffer),
            Self::Other(connection) => Pin::new(connection).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, octets: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_write(context, octets),
            Self::Unix(stream) => Pin::new(stream).poll_write(context, octets),
            Self::Tls(secured) => Pin::new(secured).poll_write(context, octets),
            Self::TlsToServer(secured) => Pin::new(secured).poll_write(context, octets),
            Self::Other(connection) => Pin::new(connection).poll_write(context, octets),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_write_vectored(context, slices),
            Self::Unix(stream) => Pin::new(stream).poll_write_vectored(context, slices),
            Self::Tls(secured) => Pin::new(secured).poll_write_vectored(context, slices),
            Self::TlsToServer(secured) => Pin::new(secured).poll_write_vectored(context, slices),
            Self::Other(connection) => Pin::new(connection).poll_write_vectored(context, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_flush(context),
            Self::Unix(stream) => Pin::new(stream).poll_flush(context),
            Self::Tls(secured) => Pin::new(secured).poll_flush(context),
            Self::TlsToServer(secured) => Pin::new(secured).poll_flush(context),
            Self::Other(connection) => Pin::new(connection).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Unix(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Tls(secured) => Pin::new(secured).poll_shutdown(context),
            Self::TlsToServer(secured) => Pin::new(secured).poll_shutdown(context),
            Self::Other(connection) => Pin::new(connection).poll_shutdown(context),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Peer, Stream};
    use crate::bind;
    use address::Address;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    #[test]
    fn mapped_address_is_an_ipv4_address() {
        let peer = Peer::from("[::ffff:127.0.0.1]:5".parse::<std::net::SocketAddr>().unwrap());
        assert!(peer.is_loopback());
        assert_eq!(peer.to_string(), "127.0.0.1");
    }

    #[tokio::test]
    async fn idle_connection_can_be_used_again() {
        let listeners = bind(&"127.0.0.1:0".parse::<Address>().unwrap(), 1).unwrap();
        let acceptor = listeners[0].acceptor().unwrap();
        for gone in [false, true] {
            let client = Stream::connect(listeners[0].local()).await.unwrap();
            let (mut server, _) = acceptor.accept().await.unwrap();
            let mut idle = client.into_idle().unwrap();
            assert!(idle.is_quiet());
            if gone {
                drop(server);
            } else {
                server.write_all(b"!").await.unwrap();
            }
            let mut stream = idle.into_stream().unwrap();
            let mut octet = [0; 1];
            assert_eq!(stream.read(&mut octet).await.unwrap(), usize::from(!gone));
        }
    }

    #[tokio::test]
    async fn closed_or_sending_peer_is_not_quiet() {
        let (left, mut right) = tokio::net::UnixStream::pair().unwrap();
        let mut idle = Stream::Unix(left).into_idle().unwrap();
        assert!(idle.is_quiet());
        right.write_all(b"!").await.unwrap();
        assert!(!idle.is_quiet());
        let (left, right) = tokio::net::UnixStream::pair().unwrap();
        let mut idle = Stream::Unix(left).into_idle().unwrap();
        drop(right);
        assert!(!idle.is_quiet());
    }
}
