//! The connection below HTTP/2: counts its bytes, and sends all that `h2` wrote in one turn of its
//! task together.
//!
//! Invariants: bytes that were read to recognise the protocol are delivered first. What `h2` wrote
//! in a turn is sent in the same turn if the system accepts it. Encrypted bytes beyond one record
//! count in the budget of the buffers.

use crate::http2::outlet::{ROUND_BYTES, lock};
use crate::memory::budget::{MemoryShare, Reservation};
use bytes::{Buf as _, BytesMut};
use net::Stream;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Bytes that TLS may hold if the budget has them: the content of a round and the frames around it.
const GATHERED_BYTES: usize = ROUND_BYTES + 16 * 1024;

/// Bytes that are read and dropped at once.
const DISCARD_BYTES: usize = 1024;

/// The bytes of content that the requests of a connection were read with.
#[derive(Debug, Default)]
pub(crate) struct ContentMeter(AtomicU64);

/// A connection whose bytes are counted. `h2` and the task of the connection share it.
#[derive(Clone)]
pub(crate) struct Metered(Arc<Mutex<Carrier>>);

struct Carrier {
    stream: Stream,
    /// Bytes that were read before.
    early: BytesMut,
    received_bytes: u64,
    sent_bytes: u64,
    /// Whether a flush of `h2` is left to the end of the turn.
    is_gathering: bool,
    /// Whether the system had no more bytes in this turn. `h2` asks again after each request.
    is_read_out: bool,
    /// Why bytes that `h2` had written could not be sent.
    broken: Option<io::ErrorKind>,
    /// Memory of the budget, until the system has accepted everything.
    granted: Reservation,
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
    pub(crate) fn new(stream: Stream, early: BytesMut, share: &Arc<MemoryShare>) -> Self {
        Self(Arc::new(Mutex::new(Carrier {
            stream,
            early,
            received_bytes: 0,
            sent_bytes: 0,
            is_gathering: false,
            is_read_out: false,
            broken: None,
            granted: Reservation::empty(share),
        })))
    }

    /// Begins a turn of the connection's task, which must call [`Metered::poll_sent`] at its end.
    pub(crate) fn begin_turn(&self) {
        let mut carrier = lock(&self.0);
        (carrier.is_gathering, carrier.is_read_out) = (true, false);
    }

    /// Sends what `h2` has written. Ready when the system has accepted everything. If the
    /// connection is broken, `h2` learns it by its next call.
    pub(crate) fn poll_sent(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut carrier = lock(&self.0);
        if carrier.broken.is_some() {
            return Poll::Ready(());
        }
        if let Err(error) = ready!(Pin::new(&mut carrier.stream).poll_flush(context)) {
            carrier.broken = Some(error.kind());
            context.waker().wake_by_ref();
        }
        carrier.give_room_back();
        Poll::Ready(())
    }

    /// Lets all further reads and writes of `h2` fail.
    pub(crate) fn break_off(&self) {
        lock(&self.0).broken.get_or_insert(io::ErrorKind::BrokenPipe);
    }

    /// Reads bytes after the end of the connection, and drops them; zero bytes are the end.
    pub(crate) fn poll_discard(&self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let mut octets = [0; DISCARD_BYTES];
        let mut buffer = ReadBuf::new(&mut octets);
        ready!(Pin::new(&mut lock(&self.0).stream).poll_read(context, &mut buffer))?;
        Poll::Ready(Ok(buffer.filled().len()))
    }

    /// Bytes received and sent so far.
    pub(crate) fn read(&self) -> (u64, u64) {
        let carrier = lock(&self.0);
        (carrier.received_bytes, carrier.sent_bytes)
    }
}

impl Carrier {
    fn check(&self) -> io::Result<()> {
        self.broken.map_or(Ok(()), |kind| Err(kind.into()))
    }

    /// Makes room for a whole turn in TLS, if the budget permits.
    fn take_room(&mut self) {
        let bytes = GATHERED_BYTES as u64;
        let is_due = self.is_gathering && self.granted.bytes() == 0 && self.stream.is_secured();
        if is_due && self.granted.add(bytes, 0) {
            self.stream.gather_up_to(GATHERED_BYTES);
        }
    }

    fn give_room_back(&mut self) {
        if self.granted.bytes() > 0 {
            self.granted.shrink_to(0);
            self.stream.gather_up_to(0);
        }
    }
}

impl AsyncRead for Metered {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let carrier = &mut *lock(&self.0);
        carrier.check()?;
        if carrier.is_read_out {
            return Poll::Pending;
        }
        let before = buffer.filled().len();
        if carrier.early.is_empty() {
            let read = Pin::new(&mut carrier.stream).poll_read(context, buffer);
            carrier.is_read_out = carrier.is_gathering && read.is_pending();
            ready!(read)?;
        } else {
            let count = carrier.early.len().min(buffer.remaining());
            buffer.put_slice(carrier.early.get(..count).unwrap_or_default());
            carrier.early.advance(count);
        }
        carrier.received_bytes += (buffer.filled().len() - before) as u64;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Metered {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, octets: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(context, &[IoSlice::new(octets)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let carrier = &mut *lock(&self.0);
        carrier.check()?;
        carrier.take_room();
        let written = ready!(carrier.stream.poll_gather(context, slices))?;
        carrier.sent_bytes += written as u64;
        Poll::Ready(Ok(written))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let carrier = &mut *lock(&self.0);
        carrier.check()?;
        if carrier.is_gathering {
            Poll::Ready(Ok(()))
        } else {
            Pin::new(&mut carrier.stream).poll_flush(context)
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut lock(&self.0).stream).poll_shutdown(context)
    }
}
