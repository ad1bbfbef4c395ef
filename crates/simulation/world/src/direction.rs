//! One direction of an in-memory connection: bytes on their way from a writer to a reader.
//!
//! Invariant: the reader receives the bytes in the order in which they were written. An end or a
//! reset arrives after the bytes before it. A side that waits is woken when the other side changes
//! something.

use crate::Random;
use crate::memory_meter::{CountedMemory, MemoryMeter};
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::task::Waker;
use std::time::Duration;
use tokio::time::Instant;

/// A moment at which something arrives; `None` means at once.
pub(crate) type Arrival = Option<Instant>;

/// How a writer ended its direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// In order. The reader reads 0.
    Closed,
    /// Abruptly. The reader receives `ConnectionReset`.
    Reset,
}

/// The state of a direction for its reader.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Readable {
    /// This many bytes have arrived, at least one.
    Bytes(usize),
    /// The direction has ended.
    Ended(End),
    /// Something arrives at this moment.
    Later(Instant),
    /// Nothing is on its way.
    Nothing,
}

/// The state of a direction for its writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Writable {
    /// This many bytes fit, at least one.
    Bytes(usize),
    /// The buffer is full.
    Full,
    /// The reader does not read any more, but the writer cannot know it yet.
    Void,
    /// Writing fails with this error.
    Fails(io::ErrorKind),
}

/// One direction of a connection.
#[derive(Debug)]
pub(crate) struct Direction {
    capacity_bytes: usize,
    /// Bytes that the reader has not read, whether they have arrived or not.
    bytes: VecDeque<u8>,
    memory: CountedMemory,
    /// How many of `bytes` have arrived.
    arrived: usize,
    /// The later arrivals, in order: a number of bytes and their moment.
    arrivals: VecDeque<(usize, Instant)>,
    end: Option<(End, Arrival)>,
    /// How the reader ended, and when the writer notices.
    reader_gone: Option<(End, Arrival)>,
    /// Whether the writer's next write disappears because it does not know that the reader left.
    swallows: bool,
    /// Whether the writer has received the error that a reset causes.
    reset_reported: bool,
    pub(crate) reader: Option<Waker>,
    pub(crate) writer: Option<Waker>,
}

impl Direction {
    pub(crate) fn new(capacity_bytes: usize, memory: &MemoryMeter) -> Self {
        Self {
            capacity_bytes: capacity_bytes.max(1),
            bytes: VecDeque::new(),
            memory: memory.holder(),
            arrived: 0,
            arrivals: VecDeque::new(),
            end: None,
            reader_gone: None,
            swallows: false,
            reset_reported: false,
            reader: None,
            writer: None,
        }
    }

    /// Looks for something to read.
    pub(crate) fn readable(&mut self) -> Readable {
        if self.reader_gone.is_some() {
            return Readable::Ended(End::Reset);
        }
        if self.arrived == 0 {
            self.receive();
        }
        if self.arrived > 0 {
            return Readable::Bytes(self.arrived);
        }
        if let Some((_, moment)) = self.arrivals.front() {
            return Readable::Later(*moment);
        }
        match self.end {
            Some((_, Some(moment))) if Instant::now() < moment => Readable::Later(moment),
            Some((end, _)) => Readable::Ended(end),
            None => Readable::Nothing,
        }
    }

    /// Counts the bytes whose moment has come as arrived.
    fn receive(&mut self) {
        let Some((_, first)) = self.arrivals.front() else { return };
        let now = Instant::now();
        if now < *first {
            return;
        }
        while let Some((bytes, _)) = self.arrivals.pop_front_if(|(_, moment)| *moment <= now) {
            self.arrived += bytes;
        }
    }

    /// Takes arrived bytes, at most as many as fit into `buffer` and `bytes_max`. Wakes the writer,
    /// which has more space now.
    pub(crate) fn read(&mut self, buffer: &mut tokio::io::ReadBuf<'_>, bytes_max: usize) {
        let wanted = self.arrived.min(buffer.remaining()).min(bytes_max);
        let (first, second) = self.bytes.as_slices();
        let of_first = first.len().min(wanted);
        buffer.put_slice(first.get(..of_first).unwrap_or_default());
        buffer.put_slice(second.get(..wanted - of_first).unwrap_or_default());
        self.bytes.drain(..wanted);
        self.arrived -= wanted;
        wake(&mut self.writer);
    }

    /// Looks whether a write is possible.
    pub(crate) fn writable(&mut self) -> Writable {
        if let Some((end, moment)) = self.reader_gone {
            if std::mem::take(&mut self.swallows) || moment.is_some_and(|moment| Instant::now() < moment) {
                return Writable::Void;
            }
            let is_first = end == End::Reset && !self.reset_reported;
            return Writable::Fails(if is_first {
                io::ErrorKind::ConnectionReset
            } else {
                io::ErrorKind::BrokenPipe
            });
        }
        if self.end.is_some() {
            return Writable::Fails(io::ErrorKind::BrokenPipe);
        }
        match self.capacity_bytes - self.bytes.len() {
            0 => Writable::Full,
            bytes => Writable::Bytes(bytes),
        }
    }

    /// Notes that the writer or the reader has received the error of a reset. Later writes fail as
    /// on a closed connection.
    pub(crate) const fn report_reset(&mut self) {
        self.reset_reported = true;
    }

    /// Adds at most `bytes_max` bytes of `slices`, which must fit. They arrive after `latency`.
    /// Wakes the reader.
    pub(crate) fn write(&mut self, slices: &[IoSlice<'_>], bytes_max: usize, latency: Option<Duration>) {
        let mut left = bytes_max;
        for slice in slices {
            let part = slice.get(..left).unwrap_or(slice);
            self.bytes.extend(part);
            left -= part.len();
        }
        self.memory.set(self.bytes.capacity());
        let written = bytes_max - left;
        match self.arrival(latency) {
            Some(moment) => self.arrivals.push_back((written, moment)),
            None => self.arrived += written,
        }
        wake(&mut self.reader);
    }

    /// The arrival of data sent now, not before the last arrival so far.
    fn arrival(&self, latency: Option<Duration>) -> Arrival {
        let last = self.arrivals.back().map(|(_, moment)| *moment);
        let sent = latency.map(|latency| Instant::now() + latency);
        last.max(sent)
    }

    /// Ends the direction from the writer's side. A reset replaces an orderly end.
    pub(crate) fn end(&mut self, end: End, latency: Option<Duration>) {
        if self.end.is_none() || end == End::Reset {
            self.end = Some((end, self.arrival(latency)));
        }
        wake(&mut self.reader);
    }

    /// Drops the bytes that the reader has not read.
    pub(crate) fn lose(&mut self) {
        self.bytes.clear();
        self.arrivals.clear();
        self.arrived = 0;
    }

    /// Ends the direction from the reader's side. The writer notices after `latency`, and after one
    /// more write if `swallows` is true.
    pub(crate) fn leave(&mut self, end: End, latency: Option<Duration>, swallows: bool) {
        self.lose();
        if self.reader_gone.is_none() {
            self.swallows = swallows;
            self.reader_gone = Some((end, latency.map(|latency| Instant::now() + latency)));
        }
        wake(&mut self.writer);
    }

    /// How many bytes are unread.
    pub(crate) fn unread_bytes(&self) -> usize {
        self.bytes.len()
    }
}

/// Wakes the task that waits, if there is one.
fn wake(waker: &mut Option<Waker>) {
    if let Some(waker) = waker.take() {
        waker.wake();
    }
}

/// The latency of one transfer; `None` if the connection has none.
pub(crate) fn latency(random: &mut Random, first_ms: u64, last_ms: u64) -> Option<Duration> {
    (last_ms > 0).then(|| random.millis(first_ms, last_ms))
}
