//! A socket of the worker's poll as something that octets go through, with or without TLS, and the count of them.
//!
//! Invariant: nothing here asks to be woken. Whoever waits for a socket is asked again at each of its events; since
//! these come once for a change, every read and write goes on until the system has no more.

use mio::net::TcpStream;
use net::{Stamp, receive};
use std::io::{self, ErrorKind, Write as _};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::client::TlsStream;

/// A socket that does not block.
pub(super) struct Socket {
    pub(super) stream: TcpStream,
    /// Where it notes when octets came.
    pub(super) octets: Arc<Octets>,
}

impl Socket {
    /// Whether TCP stands.
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

/// Does something until the system has not interrupted it.
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
        let room = buffer.initialize_unfilled();
        let (bytes, stamp) = ready!(poll_io(|| receive(&self.stream, room)))?;
        buffer.advance(bytes);
        self.octets.came(stamp);
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

/// What went through a connection since somebody asked. One thread alone looks at it; but it may be another one than
/// that which made it.
#[derive(Debug, Default)]
pub(super) struct Octets {
    received: AtomicU64,
    sent: AtomicU64,
    /// Whether TCP stands.
    is_established: AtomicBool,
    /// When the last ones came in, by the wall clock; 0 if that is not known.
    stamp_ns: AtomicU64,
    /// What the first ones were.
    greeting: OnceLock<Greeting>,
}

/// What a server begins with that is spoken to in HTTP/2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Greeting {
    /// Its settings, as it must (RFC 9113 section 3.4).
    Settings,
    /// A status line of HTTP/1.
    Http1,
    Other,
}

impl Greeting {
    fn of(octets: &[u8]) -> Self {
        // The type of a frame follows three octets of its length.
        match octets {
            [b'H', b'T', b'T', b'P', ..] => Self::Http1,
            [_, _, _, 4, ..] => Self::Settings,
            _ => Self::Other,
        }
    }
}

impl Octets {
    /// Takes note that TCP stands.
    pub(super) fn establish(&self) {
        self.is_established.store(true, Ordering::Relaxed);
    }

    /// Whether TCP stands.
    pub(super) fn is_established(&self) -> bool {
        self.is_established.load(Ordering::Relaxed)
    }

    /// Takes note of when octets came in.
    fn came(&self, stamp: Option<Stamp>) {
        self.stamp_ns.store(stamp.map_or(0, Stamp::as_nanos), Ordering::Relaxed);
    }

    /// When the last ones came in.
    pub(super) fn stamp(&self) -> Option<Stamp> {
        Stamp::from_nanos(self.stamp_ns.load(Ordering::Relaxed))
    }

    /// What the server has begun with, if it has said anything.
    pub(super) fn greeting(&self) -> Option<Greeting> {
        self.greeting.get().copied()
    }

    /// What was received and sent since this was asked last.
    pub(super) fn take(&self) -> (u64, u64) {
        (self.received.swap(0, Ordering::Relaxed), self.sent.swap(0, Ordering::Relaxed))
    }
}

/// Counts the octets that go through a connection, below HTTP and above TLS.
pub(super) struct Counted {
    pub(super) wire: Wire,
    pub(super) octets: Arc<Octets>,
}

impl AsyncRead for Counted {
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
        if !octets.is_empty() {
            this.octets.greeting.get_or_init(|| Greeting::of(octets));
        }
        this.octets.received.fetch_add(octets.len() as u64, Ordering::Relaxed);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Counted {
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
