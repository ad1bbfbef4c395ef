//! The connection below HTTP/2, which counts its bytes.
//!
//! Invariant: bytes that were read to recognise the protocol are delivered first.

use bytes::{Buf as _, BytesMut};
use net::Stream;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The bytes of a connection.
#[derive(Debug, Default)]
pub(crate) struct ByteMeter {
    received: AtomicU64,
    sent: AtomicU64,
    /// Whether the client reads more slowly than the edge sends.
    is_blocked: AtomicBool,
}

/// The bytes of content that the requests of a connection were read with.
#[derive(Debug, Default)]
pub(crate) struct ContentMeter(AtomicU64);

/// A connection whose bytes are counted.
#[derive(Debug)]
pub(crate) struct Metered {
    stream: Stream,
    /// Bytes that were read before.
    early: BytesMut,
    meter: Arc<ByteMeter>,
}

impl ByteMeter {
    /// Bytes received and sent so far.
    pub(crate) fn read(&self) -> (u64, u64) {
        (self.received.load(Ordering::Relaxed), self.sent.load(Ordering::Relaxed))
    }
}

impl ByteMeter {
    /// Whether the last bytes were not accepted.
    pub(crate) fn is_blocked(&self) -> bool {
        self.is_blocked.load(Ordering::Relaxed)
    }

    /// Notes the outcome of a write.
    fn note(&self, written: &Poll<io::Result<usize>>) {
        self.is_blocked.store(written.is_pending(), Ordering::Relaxed);
        if let Poll::Ready(Ok(bytes)) = written {
            self.sent.fetch_add(*bytes as u64, Ordering::Relaxed);
        }
    }
}

impl ContentMeter {
    pub(crate) fn add(&self, bytes: usize) {
        self.0.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn read(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Metered {
    /// `early` holds the bytes that were already read from the stream.
    pub(crate) fn new(stream: Stream, early: BytesMut, meter: Arc<ByteMeter>) -> Self {
        Self { stream, early, meter }
    }
}

impl AsyncRead for Metered {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        if this.early.is_empty() {
            ready!(Pin::new(&mut this.stream).poll_read(context, buffer))?;
        } else {
            let count = this.early.len().min(buffer.remaining());
            buffer.put_slice(this.early.get(..count).unwrap_or_default());
            this.early.advance(count);
        }
        this.meter.received.fetch_add((buffer.filled().len() - before) as u64, Ordering::Relaxed);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Metered {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, octets: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write(context, octets);
        this.meter.note(&written);
        written
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write_vectored(context, slices);
        this.meter.note(&written);
        written
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }
}
