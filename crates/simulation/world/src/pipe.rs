//! Connections in memory: pairs of pipes that behave like the two ends of a TCP connection.
//!
//! Invariant: each end receives exactly the bytes that the other end wrote, in order, unless a
//! reset loses the last ones. Only the settings and the given generator decide about the lengths of
//! reads and writes and about latency.

use crate::Random;
use crate::direction::{Direction, End, Readable, Writable, latency};
use crate::memory_meter::MemoryMeter;
use net::Connection;
use std::fmt;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

/// The properties of a connection.
#[derive(Clone, Debug)]
pub struct PipeSettings {
    /// Bytes that each direction holds before its writer must wait; at least 1.
    pub capacity_bytes: usize,
    /// How many percent of the reads and writes transfer fewer bytes than possible.
    pub partial_percent: u64,
    /// How often in 100 cases an operation that could proceed lets other tasks run first.
    pub yield_percent: u64,
    /// The least time in milliseconds until sent bytes arrive.
    pub latency_ms_min: u64,
    /// The longest time until sent bytes arrive; 0 if everything arrives at once.
    pub latency_ms_max: u64,
    /// How often in 100 cases a reset loses the bytes that the peer has not read.
    pub loss_percent: u64,
    /// Whether closing an end with unread bytes resets the connection, as TCP does.
    pub reset_if_unread: bool,
    /// Counts the ends that are open, and the memory of the bytes between them.
    pub open: OpenPipes,
}

impl Default for PipeSettings {
    /// A local connection without latency.
    fn default() -> Self {
        Self {
            capacity_bytes: 64 * 1024,
            partial_percent: 20,
            yield_percent: 0,
            latency_ms_min: 0,
            latency_ms_max: 0,
            loss_percent: 50,
            reset_if_unread: true,
            open: OpenPipes::default(),
        }
    }
}

impl PipeSettings {
    /// Settings by chance: small and large buffers, local and distant peers. The ends are counted
    /// by `open`.
    pub fn by_chance(random: &mut Random, open: &OpenPipes) -> Self {
        let capacity_bytes = match random.below(4) {
            0 => random.between(1, 64),
            1 => random.between(64, 4096),
            _ => random.between(4096, 256 * 1024),
        };
        let latency_ms_max = if random.percent(50) { 0 } else { random.between(1, 120) };
        Self {
            capacity_bytes: capacity_bytes as usize,
            partial_percent: random.choice(&[0, 10, 60]).copied().unwrap_or_default(),
            yield_percent: random.choice(&[0, 0, 5, 30]).copied().unwrap_or_default(),
            latency_ms_min: latency_ms_max / 2,
            latency_ms_max,
            open: open.clone(),
            ..Self::default()
        }
    }
}

/// A count of open ends of connections, and of the memory of the bytes between them. Clones are the
/// same count.
#[derive(Clone, Debug, Default)]
pub struct OpenPipes {
    ends: Arc<AtomicUsize>,
    memory: MemoryMeter,
}

impl OpenPipes {
    /// The number of ends that have not been dropped.
    pub fn count(&self) -> usize {
        self.ends.load(Ordering::Relaxed)
    }

    /// The memory of the bytes that wait in all connections. On a real machine it belongs to the
    /// kernel.
    pub fn memory_bytes(&self) -> u64 {
        self.memory.bytes()
    }
}

/// One end of a connection in memory. Dropping it closes the connection.
pub struct Pipe {
    settings: PipeSettings,
    random: Mutex<Random>,
    outgoing: Arc<Mutex<Direction>>,
    incoming: Arc<Mutex<Direction>>,
    is_abrupt: AtomicBool,
    is_closed: AtomicBool,
    /// Ends when the next bytes arrive.
    arrival: Option<Pin<Box<Sleep>>>,
}

/// Makes a connection and returns its two ends.
pub fn pipe(settings: &PipeSettings, mut random: Random) -> (Pipe, Pipe) {
    let there = Arc::new(Mutex::new(Direction::new(settings.capacity_bytes, &settings.open.memory)));
    let back = Arc::new(Mutex::new(Direction::new(settings.capacity_bytes, &settings.open.memory)));
    let mut end = |outgoing: &Arc<Mutex<Direction>>, incoming: &Arc<Mutex<Direction>>| {
        settings.open.ends.fetch_add(1, Ordering::Relaxed);
        Pipe {
            settings: settings.clone(),
            random: Mutex::new(Random::new(random.number())),
            outgoing: Arc::clone(outgoing),
            incoming: Arc::clone(incoming),
            is_abrupt: AtomicBool::new(false),
            is_closed: AtomicBool::new(false),
            arrival: None,
        }
    };
    (end(&there, &back), end(&back, &there))
}

impl Pipe {
    /// Resets the connection now. The peer receives `ConnectionReset` after the bytes before it, or
    /// instead of them. This end reads and writes nothing any more.
    pub fn reset(&self) {
        self.close(End::Reset);
    }

    fn close(&self, end: End) {
        if self.is_closed.swap(true, Ordering::Relaxed) {
            return;
        }
        let mut random = locked(&self.random);
        let latency = latency(&mut random, self.settings.latency_ms_min, self.settings.latency_ms_max);
        let is_lost = end == End::Reset && random.percent(self.settings.loss_percent);
        // The first packet after an orderly close is answered by a reset, so that write succeeds.
        let swallows = end == End::Closed && random.percent(50);
        drop(random);
        let mut outgoing = locked(&self.outgoing);
        if is_lost {
            outgoing.lose();
        }
        outgoing.end(end, latency);
        drop(outgoing);
        locked(&self.incoming).leave(end, latency, swallows);
    }

    /// The number of bytes out of `bytes` that an operation transfers.
    fn part(&self, bytes: usize) -> usize {
        let mut random = locked(&self.random);
        if bytes > 1 && random.percent(self.settings.partial_percent) {
            return random.between(1, bytes as u64) as usize;
        }
        bytes
    }

    /// Whether the calling task lets others run first. It is woken again.
    fn yields(&self, context: &Context<'_>) -> bool {
        let yields =
            self.settings.yield_percent > 0 && locked(&self.random).percent(self.settings.yield_percent);
        if yields {
            context.waker().wake_by_ref();
        }
        yields
    }

    /// Writes as many bytes as fit. Without a context it does not wait.
    fn send(&self, slices: &[IoSlice<'_>], context: Option<&Context<'_>>) -> Poll<io::Result<usize>> {
        let wanted: usize = slices.iter().map(|slice| slice.len()).sum();
        let mut outgoing = locked(&self.outgoing);
        match outgoing.writable() {
            Writable::Fails(kind) => {
                outgoing.report_reset();
                Poll::Ready(Err(kind.into()))
            }
            Writable::Void => Poll::Ready(Ok(wanted)),
            _ if wanted == 0 => Poll::Ready(Ok(0)),
            Writable::Full => {
                if let Some(context) = context {
                    outgoing.writer = Some(context.waker().clone());
                }
                Poll::Pending
            }
            Writable::Bytes(bytes) => {
                let part = self.part(bytes.min(wanted));
                let (first_ms, last_ms) = (self.settings.latency_ms_min, self.settings.latency_ms_max);
                let latency = latency(&mut locked(&self.random), first_ms, last_ms);
                outgoing.write(slices, part, latency);
                Poll::Ready(Ok(part))
            }
        }
    }
}

impl Connection for Pipe {
    fn try_write_vectored(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match self.send(slices, None) {
            Poll::Ready(written) => written,
            Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    fn reset_on_close(&self, abrupt: bool) {
        self.is_abrupt.store(abrupt, Ordering::Relaxed);
    }

    fn is_quiet(&self) -> bool {
        matches!(locked(&self.incoming).readable(), Readable::Nothing | Readable::Later(_))
    }
}

impl AsyncRead for Pipe {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let pipe = self.get_mut();
        if buffer.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        if pipe.yields(context) {
            return Poll::Pending;
        }
        loop {
            let mut incoming = locked(&pipe.incoming);
            match incoming.readable() {
                Readable::Bytes(bytes) => {
                    let part = pipe.part(bytes.min(buffer.remaining()));
                    incoming.read(buffer, part);
                    return Poll::Ready(Ok(()));
                }
                Readable::Ended(End::Closed) => return Poll::Ready(Ok(())),
                Readable::Ended(End::Reset) => {
                    drop(incoming);
                    locked(&pipe.outgoing).report_reset();
                    return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
                }
                Readable::Nothing => {
                    incoming.reader = Some(context.waker().clone());
                    return Poll::Pending;
                }
                Readable::Later(moment) => {
                    incoming.reader = Some(context.waker().clone());
                    drop(incoming);
                    let arrival =
                        pipe.arrival.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(moment)));
                    if arrival.deadline() != moment {
                        arrival.as_mut().reset(moment);
                    }
                    if arrival.as_mut().poll(context).is_pending() {
                        return Poll::Pending;
                    }
                }
            }
        }
    }
}

impl AsyncWrite for Pipe {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, octets: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(context, &[IoSlice::new(octets)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.yields(context) {
            return Poll::Pending;
        }
        self.send(slices, Some(context))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut random = locked(&self.random);
        let latency = latency(&mut random, self.settings.latency_ms_min, self.settings.latency_ms_max);
        locked(&self.outgoing).end(End::Closed, latency);
        Poll::Ready(Ok(()))
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        self.settings.open.ends.fetch_sub(1, Ordering::Relaxed);
        let is_unread = self.settings.reset_if_unread && locked(&self.incoming).unread_bytes() > 0;
        let is_abrupt = self.is_abrupt.load(Ordering::Relaxed) || is_unread;
        self.close(if is_abrupt { End::Reset } else { End::Closed });
    }
}

impl fmt::Debug for Pipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pipe").finish_non_exhaustive()
    }
}

/// Locks state that every operation leaves consistent.
pub(crate) fn locked<T>(state: &Mutex<T>) -> MutexGuard<'_, T> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
