//! Secured connections in use: how much an accepted one buffers and when it writes, and how one
//! that Petasos opened waits for its next use.
//!
//! Invariant: only the socket belongs to a runtime. The TLS session stays with the connection when
//! the socket leaves its runtime, and no byte of either is lost on the way.

use crate::stream::{Connection, IdleStream, Stream};
use std::io::{self, IoSlice, Read, Write as _};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::rustls::ServerConnection;

/// A connection that was accepted and secured.
pub(crate) type ServerTls = tokio_rustls::server::TlsStream<Stream>;

/// A connection that was opened and secured.
pub(crate) type ClientTls = tokio_rustls::client::TlsStream<Stream>;

/// The bytes that a session may always keep for a client that reads slowly: one record (RFC 8446
/// section 5.1) and its overhead.
pub(crate) const BUFFER_BYTES: usize = 18 * 1024;

/// The most reads of pending bytes from an idle connection. A server sends some session tickets
/// after its handshake; one that sends far more is not worth another request.
const READS_MAX: usize = 16;

/// A secured connection that waits for its next use.
#[derive(Debug)]
pub struct IdleTls {
    /// The session, above [`Detached`] in place of the socket.
    secured: Box<ClientTls>,
    socket: IdleStream,
}

/// Takes the place of a socket that was taken out of its TLS stream.
#[derive(Debug)]
struct Detached;

impl IdleTls {
    /// Takes the socket out of its runtime.
    pub(crate) fn of(mut secured: Box<ClientTls>) -> io::Result<Self> {
        let (stream, session) = secured.get_mut();
        if session.wants_write() {
            // The flush of the last request is not over, so the connection is not idle.
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let socket = std::mem::replace(stream, Stream::Other(Box::new(Detached))).into_idle()?;
        Ok(Self { secured, socket })
    }

    /// Registers the socket with the current runtime.
    pub(crate) fn into_stream(mut self) -> io::Result<Stream> {
        *self.secured.get_mut().0 = self.socket.into_stream()?;
        Ok(Stream::TlsToServer(self.secured))
    }

    /// As [`IdleStream::is_quiet`]. Session tickets and other messages of TLS itself are taken in,
    /// because they carry nothing of a response.
    pub(crate) fn is_quiet(&mut self) -> bool {
        let session = self.secured.get_mut().1;
        for _ in 0..READS_MAX {
            match session.process_new_packets() {
                Ok(state) if !state.peer_has_closed() && state.plaintext_bytes_to_read() == 0 => {}
                Ok(_) | Err(_) => return false,
            }
            match session.read_tls(&mut ReadAtOnce(&mut self.socket)) {
                Ok(0) => return false,
                Ok(_) => {}
                Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
            }
        }
        false
    }
}

/// Reads from an idle connection without waiting.
struct ReadAtOnce<'a>(&'a mut IdleStream);

impl Read for ReadAtOnce<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.0 {
            IdleStream::Tcp(socket) => socket.read(buffer),
            IdleStream::Unix(socket) => socket.read(buffer),
            // Without a socket, only silence is known to be harmless.
            IdleStream::Other(connection) if connection.is_quiet() => Err(io::ErrorKind::WouldBlock.into()),
            IdleStream::Other(_) | IdleStream::Tls(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }
}

impl AsyncRead for Detached {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, _: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Err(io::ErrorKind::NotConnected.into()))
    }
}

impl AsyncWrite for Detached {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, _: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(Err(io::ErrorKind::NotConnected.into()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Err(io::ErrorKind::NotConnected.into()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Err(io::ErrorKind::NotConnected.into()))
    }
}

impl Connection for Detached {
    fn try_write_vectored(&self, _: &[IoSlice<'_>]) -> io::Result<usize> {
        Err(io::ErrorKind::NotConnected.into())
    }

    fn reset_on_close(&self, _: bool) {}

    fn is_quiet(&self) -> bool {
        false
    }
}

/// Encrypts as many bytes of `slices` as the session's buffer takes, and writes as many encrypted
/// bytes as the system accepts now. The rest waits for the next flush. Returns the number of bytes
/// that were encrypted.
///
/// # Errors
/// `WouldBlock` if the session's buffer is full; otherwise as the system reports them.
pub(crate) fn try_write_vectored(secured: &mut ServerTls, slices: &[IoSlice<'_>]) -> io::Result<usize> {
    let (stream, session) = secured.get_mut();
    let taken = session.writer().write_vectored(slices)?;
    while session.wants_write() {
        match session.write_tls(&mut WriteAtOnce(stream)) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) => return Err(error),
        }
    }
    if taken == 0 { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(taken) }
}

/// Limits the bytes that a session keeps, at least to one record.
pub(crate) fn limit(session: &mut ServerConnection, bytes: usize) {
    session.set_buffer_limit(Some(bytes.max(BUFFER_BYTES)));
}

/// Encrypts as many bytes of `slices` as the session's buffer takes. They are sent by the next
/// flush, or when the buffer is full.
///
/// # Errors
/// As the system reports them.
pub(crate) fn poll_gather(
    secured: &mut ServerTls,
    context: &mut Context<'_>,
    slices: &[IoSlice<'_>],
) -> Poll<io::Result<usize>> {
    loop {
        let taken = secured.get_mut().1.writer().write_vectored(slices)?;
        if taken > 0 || slices.iter().all(|slice| slice.is_empty()) {
            return Poll::Ready(Ok(taken));
        }
        ready!(Pin::new(&mut *secured).poll_flush(context))?;
    }
}

/// Writes to a stream without waiting.
struct WriteAtOnce<'a>(&'a mut Stream);

impl io::Write for WriteAtOnce<'_> {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(octets)])
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        self.0.try_write_vectored(slices)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::{IdleStream, Stream, TlsClient};
    use address::Address;
    use testkit::{Action, Certificate, Origin, TlsFront, response};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    /// A connection to `front` after one whole exchange.
    async fn used(front: &TlsFront) -> Stream {
        let stream = Stream::connect(&Address::from(front.address)).await.unwrap();
        let secured = TlsClient::insecure().unwrap().secure(stream, "localhost").await.unwrap();
        let mut stream = secured.into_stream();
        ask(&mut stream).await;
        stream
    }

    async fn ask(stream: &mut Stream) {
        stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
        stream.flush().await.unwrap();
        let mut octets = [0; 42];
        stream.read_exact(&mut octets).await.unwrap();
        assert!(octets.ends_with(b"safe"));
    }

    /// Runs in a new runtime, like one worker.
    fn in_runtime<T>(work: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
    }

    #[test]
    fn idle_connection_continues_in_another_runtime() {
        let origin = Origin::start(|_| response("200 OK", &[], b"safe"));
        let front = TlsFront::start(origin.address(), Certificate::Good);
        let mut idle = in_runtime(async { used(&front).await.into_idle().unwrap() });
        for _ in 0..3 {
            assert!(idle.is_quiet());
            idle = in_runtime(async {
                let mut stream = idle.into_stream().unwrap();
                ask(&mut stream).await;
                stream.into_idle().unwrap()
            });
        }
        assert_eq!(front.handshakes(), 1);
    }

    #[test]
    fn session_tickets_leave_an_idle_connection_quiet() {
        let origin = Origin::start(|_| response("200 OK", &[], b"safe"));
        let front = TlsFront::start(origin.address(), Certificate::Good);
        let mut idle = in_runtime(async {
            let stream = Stream::connect(&Address::from(front.address)).await.unwrap();
            let secured = TlsClient::insecure().unwrap().secure(stream, "localhost").await.unwrap();
            // Nothing was read since the handshake, so the tickets are still to come.
            secured.into_stream().into_idle().unwrap()
        });
        let IdleStream::Tls(tls) = &idle else { panic!("TLS is lost") };
        let IdleStream::Tcp(socket) = &tls.socket else { panic!("the socket is lost") };
        let arrived = || socket.peek(&mut [0; 1]).is_ok();
        testkit::eventually("the tickets arrive", arrived);
        assert!(idle.is_quiet());
        in_runtime(async { ask(&mut idle.into_stream().unwrap()).await });
    }

    #[test]
    fn closed_or_sending_server_is_not_quiet() {
        let origin = Origin::start(|_| {
            let late = vec![Action::Pause(std::time::Duration::from_millis(50))];
            let first = response("200 OK", &[], b"safe");
            [first, late, vec![Action::Send(b"late".to_vec())]].concat()
        });
        let front = TlsFront::start(origin.address(), Certificate::Good);
        let mut idle = in_runtime(async { used(&front).await.into_idle().unwrap() });
        testkit::eventually("late bytes are found", || !idle.is_quiet());
        let origin = Origin::start(|_| response("200 OK", &[], b"safe"));
        let front = TlsFront::start(origin.address(), Certificate::Good);
        let mut idle = in_runtime(async { used(&front).await.into_idle().unwrap() });
        assert!(idle.is_quiet());
        origin.kill();
        testkit::eventually("the closing message is found", || !idle.is_quiet());
    }
}
