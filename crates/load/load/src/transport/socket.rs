//! A socket of the worker's poll as an async stream, with or without TLS, and its byte counts.
//!
//! Invariant: nothing here registers wakers. The owner polls again at each event of the socket.
//! Events are edge-triggered, so reads and writes continue until the system has nothing more, or
//! until the bytes of a turn are read ([`Octets::is_turn_over`]).

use super::TURN_BYTES_MAX;
use mio::net::TcpStream;
use net::{Stamp, receive};
use std::io::{self, ErrorKind, Write as _};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::client::TlsStream;

/// A non-blocking socket.
pub(super) struct Socket {
    pub(super) stream: TcpStream,
    /// Where the arrival of bytes is recorded.
    pub(super) octets: Arc<Octets>,
}

impl Socket {
    /// Whether the TCP handshake is done.
    pub(super) fn poll_established(&self) -> Poll<io::Result<()>> {
        if let Some(error) = self.stream.take_error()? {
            return Poll::Ready(Err(error));
        }
        match self.stream.peer_addr() {
            Ok(_) => Poll::Ready(Ok(())),
            Err(error) if error.kind() == ErrorKind::NotConnected => Poll::Pending,
            Err(error) => Poll::Ready(Err(error)),
        }
    }
}

/// Repeats an operation that the system interrupted, and turns `WouldBlock` into `Pending`.
fn poll_io<T>(mut attempt: impl FnMut() -> io::Result<T>) -> Poll<io::Result<T>> {
    loop {
        return match attempt() {
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) if error.kind() == ErrorKind::WouldBlock => Poll::Pending,
            done => Poll::Ready(done),
        };
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.octets.is_turn_over() {
            return Poll::Pending;
        }
        let room = buffer.initialize_unfilled();
        let (bytes, stamp) = ready!(poll_io(|| receive(&self.stream, room)))?;
        buffer.advance(bytes);
        self.octets.came(bytes, stamp);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Socket {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, octets: &[u8]) -> Poll<io::Result<usize>> {
        poll_io(|| self.stream.write(octets))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.stream.shutdown(std::net::Shutdown::Write) {
            Err(error) if error.kind() != ErrorKind::NotConnected => Poll::Ready(Err(error)),
            _ => Poll::Ready(Ok(())),
        }
    }
}

/// A connection with or without TLS.
pub(super) enum Wire {
    Plain(Socket),
    Secured(Box<TlsStream<Socket>>),
}

/// Counts the bytes of a connection since the last query. Only one thread uses it at a time, but
/// not necessarily the one that created it. Relaxed is enough, because handing the connection to
/// another thread orders all accesses.
#[derive(Debug, Default)]
pub(crate) struct Octets {
    received: AtomicU64,
    sent: AtomicU64,
    /// Whether the TCP handshake is done.
    is_established: AtomicBool,
    /// When the last bytes arrived, by the wall clock in nanoseconds; 0 if unknown.
    stamp_ns: AtomicU64,
    /// Bytes that were read in this turn.
    turn_bytes: AtomicUsize,
    /// The first bytes, until their kind is known.
    first: Mutex<Vec<u8>>,
    /// The kind of the first bytes.
    greeting: OnceLock<Greeting>,
}

/// Number of bytes that identify a server's protocol.
const GREETING_BYTES: usize = 4;

/// The first bytes that a server sends on an HTTP/2 connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Greeting {
    /// Its SETTINGS frame, as required (RFC 9113 section 3.4).
    Settings,
    /// An HTTP/1 status line.
    Http1,
    Other,
}

impl Greeting {
    fn of(octets: &[u8]) -> Self {
        // In a frame header, the type follows three bytes of length; SETTINGS has type 4.
        match octets {
            [b'H', b'T', b'T', b'P', ..] => Self::Http1,
            [_, _, _, 4, ..] => Self::Settings,
            _ => Self::Other,
        }
    }
}

impl Octets {
    /// Records that the TCP handshake is done.
    pub(super) fn establish(&self) {
        self.is_established.store(true, Ordering::Relaxed);
    }

    /// Whether the TCP handshake is done.
    pub(super) fn is_established(&self) -> bool {
        self.is_established.load(Ordering::Relaxed)
    }

    /// Begins a turn of the connection.
    pub(super) fn begin_turn(&self) {
        self.turn_bytes.store(0, Ordering::Relaxed);
    }

    /// Whether the turn has read as many bytes as it may. There may be more, and no event will
    /// tell.
    pub(super) fn is_turn_over(&self) -> bool {
        self.turn_bytes.load(Ordering::Relaxed) >= TURN_BYTES_MAX
    }

    /// Records how many bytes were read, and when they arrived.
    fn came(&self, bytes: usize, stamp: Option<Stamp>) {
        self.turn_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.stamp_ns.store(stamp.map_or(0, Stamp::as_nanos), Ordering::Relaxed);
    }

    /// When the last bytes arrived.
    pub(super) fn stamp(&self) -> Option<Stamp> {
        Stamp::from_nanos(self.stamp_ns.load(Ordering::Relaxed))
    }

    /// The kind of the server's first bytes so far, if there were any.
    pub(super) fn greeting(&self) -> Option<Greeting> {
        let known = self.greeting.get().copied();
        known.or_else(|| (!self.first().is_empty()).then_some(Greeting::Other))
    }

    /// Determines the kind of the first bytes. They may come one by one.
    fn greet(&self, octets: &[u8]) {
        if self.greeting.get().is_some() {
            return;
        }
        let mut first = self.first();
        let missing = GREETING_BYTES.saturating_sub(first.len());
        first.extend(octets.iter().take(missing));
        if first.len() >= GREETING_BYTES {
            self.greeting.get_or_init(|| Greeting::of(&first));
        }
    }

    fn first(&self) -> MutexGuard<'_, Vec<u8>> {
        // The bytes are still usable after a panic in another thread.
        self.first.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes received and sent since the last call.
    pub(super) fn take(&self) -> (u64, u64) {
        (self.received.swap(0, Ordering::Relaxed), self.sent.swap(0, Ordering::Relaxed))
    }
}

/// Counts the bytes of a connection, below HTTP and above TLS.
pub(crate) struct CountedSocket {
    pub(super) wire: Wire,
    pub(super) octets: Arc<Octets>,
}

impl AsyncRead for CountedSocket {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        ready!(match &mut this.wire {
            Wire::Plain(socket) => Pin::new(socket).poll_read(context, buffer),
            Wire::Secured(stream) => Pin::new(stream).poll_read(context, buffer),
        })?;
        let octets = buffer.filled().get(before..).unwrap_or_default();
        this.octets.greet(octets);
        this.octets.received.fetch_add(octets.len() as u64, Ordering::Relaxed);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for CountedSocket {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, octets: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let bytes = ready!(match &mut this.wire {
            Wire::Plain(socket) => Pin::new(socket).poll_write(context, octets),
            Wire::Secured(stream) => Pin::new(stream).poll_write(context, octets),
        })?;
        this.octets.sent.fetch_add(bytes as u64, Ordering::Relaxed);
        Poll::Ready(Ok(bytes))
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().wire {
            Wire::Plain(socket) => Pin::new(socket).poll_flush(context),
            Wire::Secured(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().wire {
            Wire::Plain(socket) => Pin::new(socket).poll_shutdown(context),
            Wire::Secured(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Greeting, Octets};

    #[test]
    fn greeting_may_come_byte_by_byte() {
        let greeting = |octets: &[u8]| {
            let connection = Octets::default();
            octets.chunks(1).for_each(|octet| connection.greet(octet));
            connection.greeting()
        };
        assert_eq!(greeting(&[0, 0, 18, 4, 0, 0, 0, 0, 0]), Some(Greeting::Settings));
        assert_eq!(greeting(b"HTTP/1.1 400 Bad Request"), Some(Greeting::Http1));
        assert_eq!((greeting(b"SSH-2.0"), greeting(b"SS")), (Some(Greeting::Other), Some(Greeting::Other)));
        assert_eq!(greeting(b""), None);
    }
}
