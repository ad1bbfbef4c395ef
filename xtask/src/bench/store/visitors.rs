//! Visitors on persistent connections. Each requests one page after the other.
//!
//! Invariant: a response counts as right if its status is 200 and its content has the length and
//! the first bytes of the page. One thread serves all connections with one poll. A connection that
//! the server closed is opened again, and a response that was cut off counts as wrong.

use super::origin::{BenchPage, NUMBER_BYTES};
use anyhow::{Context, Result, ensure};
use clock::{Clock as _, Monotonic};
use h1::client::{Exchange, Terms};
use message::{Method, Status};
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use platform::SystemClock;
use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Size of the read buffer, in bytes.
const READ_BYTES: usize = 64 * 1024;
/// Longest wait in poll, and thus the precision of a request rate.
const SLICE: Duration = Duration::from_millis(1);
/// Time without any response after which all outstanding responses count as missing.
const PATIENCE: Duration = Duration::from_secs(20);

/// Connected visitors.
pub(super) struct ConnectedVisitors<'a> {
    address: SocketAddr,
    poll: Poll,
    connections: Vec<VisitorConnection>,
    idle: Vec<usize>,
    buffer: Vec<u8>,
    clock: SystemClock,
    interrupted: &'a AtomicBool,
    asked: SeriesFigures,
}

/// Result of a series of requests.
#[derive(Debug, Default)]
pub(super) struct SeriesFigures {
    /// Right responses.
    pub(super) right: u64,
    /// Wrong or missing responses.
    pub(super) wrong: u64,
    /// Bytes of content in right responses.
    pub(super) content_bytes: u64,
    /// Time from each request to the last byte of its response, in nanoseconds; right responses
    /// only.
    pub(super) nanos: Vec<u64>,
}

struct VisitorConnection {
    stream: TcpStream,
    /// The requested page, until its response is complete.
    page: Option<BenchPage>,
    sent: Monotonic,
    exchange: Exchange,
    beginning: Vec<u8>,
    content_bytes: usize,
}

impl<'a> ConnectedVisitors<'a> {
    /// Opens `visitors` connections.
    ///
    /// # Errors
    /// If the server refuses a connection.
    pub(super) fn gather(address: SocketAddr, visitors: usize, interrupted: &'a AtomicBool) -> Result<Self> {
        let poll = Poll::new()?;
        let clock = SystemClock::new();
        let connections = (0..visitors)
            .map(|index| VisitorConnection::open(address, &poll, index, &clock))
            .collect::<Result<_, _>>()
            .with_context(|| format!("{address} does not take another connection"))?;
        Ok(Self {
            address,
            poll,
            connections,
            idle: (0..visitors).collect(),
            buffer: vec![0; READ_BYTES],
            clock,
            interrupted,
            asked: SeriesFigures::default(),
        })
    }

    /// Requests the pages from `next` until it returns `None` or the server stops answering. `rate`
    /// is the number of requests a second; `None` means as fast as the connections allow.
    ///
    /// # Errors
    /// If a system call fails, if the server refuses a connection, or on an interruption.
    pub(super) fn ask(
        &mut self,
        rate: Option<u32>,
        mut next: impl FnMut() -> Option<BenchPage>,
    ) -> Result<SeriesFigures> {
        self.asked = SeriesFigures::default();
        let begun = self.clock.monotonic();
        let mut started = 0_u64;
        let mut is_over = false;
        let mut last = begun;
        let mut settled = 0;
        let mut events = Events::with_capacity(1024);
        while !is_over || self.idle.len() < self.connections.len() {
            // Relaxed is enough: the flag guards no other data.
            ensure!(!self.interrupted.load(Ordering::Relaxed), "interrupted");
            let now = self.clock.monotonic();
            let due = rate.map(|rate| (now.since(begun).as_secs_f64() * f64::from(rate)) as u64);
            while !is_over && due.is_none_or(|due| started < due) {
                let Some(index) = self.idle.pop() else { break };
                match next() {
                    Some(page) => self.send(index, page)?,
                    None => {
                        self.idle.push(index);
                        is_over = true;
                    }
                }
                started += 1;
                last = now;
            }
            if settled != self.asked.right + self.asked.wrong {
                settled = self.asked.right + self.asked.wrong;
                last = now;
            }
            if self.idle.len() < self.connections.len() && now.since(last) > PATIENCE {
                self.asked.wrong += (self.connections.len() - self.idle.len()) as u64;
                break;
            }
            match self.poll.poll(&mut events, Some(SLICE)) {
                Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error.into()),
                _ => {}
            }
            for event in &events {
                self.read(event.token().0)?;
            }
        }
        Ok(std::mem::take(&mut self.asked))
    }

    fn send(&mut self, index: usize, page: BenchPage) -> Result<()> {
        let Some(connection) = self.connections.get_mut(index) else { return Ok(()) };
        let request = format!("GET {} HTTP/1.1\r\nHost: bench.test\r\n\r\n", page.target());
        connection.page = Some(page);
        connection.sent = self.clock.monotonic();
        match connection.stream.write(request.as_bytes()) {
            Ok(sent) => {
                ensure!(sent == request.len(), "a request cannot be sent at once");
                Ok(())
            }
            Err(_) => self.settle(index, false, true),
        }
    }

    /// Reads all available bytes of a connection.
    fn read(&mut self, index: usize) -> Result<()> {
        loop {
            let Some(connection) = self.connections.get_mut(index) else { return Ok(()) };
            let (verdict, is_closed, is_drained) = match connection.stream.read(&mut self.buffer) {
                Ok(0) => (connection.page.map(|_| false), true, true),
                Ok(octets) => {
                    let input = self.buffer.get(..octets).unwrap_or_default();
                    (connection.feed(input), false, octets < READ_BYTES)
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(_) => (connection.page.map(|_| false), true, true),
            };
            if verdict.is_some() || is_closed {
                return self.settle(index, verdict == Some(true), is_closed || verdict == Some(false));
            }
            if is_drained {
                return Ok(());
            }
        }
    }

    /// Records the outcome of a request: a complete response, or a failure. Reopens the connection
    /// if it is broken.
    fn settle(&mut self, index: usize, is_right: bool, is_broken: bool) -> Result<()> {
        let Some(connection) = self.connections.get_mut(index) else { return Ok(()) };
        if let Some(page) = connection.page.take() {
            if is_right {
                let nanos = self.clock.monotonic().since(connection.sent).as_nanos();
                self.asked.nanos.push(nanos as u64);
                self.asked.content_bytes += u64::from(page.bytes);
            }
            self.asked.right += u64::from(is_right);
            self.asked.wrong += u64::from(!is_right);
            self.idle.push(index);
        }
        if is_broken {
            *connection = VisitorConnection::open(self.address, &self.poll, index, &self.clock)
                .context("the server takes no connection any more")?;
        }
        connection.forget();
        Ok(())
    }
}

impl VisitorConnection {
    fn open(address: SocketAddr, poll: &Poll, index: usize, clock: &SystemClock) -> std::io::Result<Self> {
        let stream = std::net::TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        let mut stream = TcpStream::from_std(stream);
        poll.registry().register(&mut stream, Token(index), Interest::READABLE)?;
        Ok(Self {
            stream,
            page: None,
            sent: clock.monotonic(),
            exchange: Exchange::new(&Method::Get, Terms::TOLERANT),
            beginning: Vec::with_capacity(NUMBER_BYTES),
            content_bytes: 0,
        })
    }

    /// Prepares for the next response.
    fn forget(&mut self) {
        self.exchange.restart();
        self.beginning.clear();
        self.content_bytes = 0;
    }

    /// Takes the next bytes. Returns the verdict once the response is complete, or as soon as a
    /// wrong byte is found.
    fn feed(&mut self, input: &[u8]) -> Option<bool> {
        let Self { exchange, beginning, content_bytes, page, .. } = self;
        let taken = exchange.skim(input, |run| {
            let missing = NUMBER_BYTES - beginning.len();
            beginning.extend_from_slice(run.get(..missing).unwrap_or(run));
            *content_bytes += run.len();
        });
        if exchange.status().is_some_and(|status| status != Status::OK) {
            return Some(false);
        }
        let page = (*page)?;
        match taken {
            Ok(taken) if !taken.is_complete => None,
            Ok(taken) => Some(
                taken.consumed == input.len()
                    && *content_bytes == page.bytes as usize
                    && *beginning == page.beginning().as_bytes(),
            ),
            Err(_) => Some(false),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::origin::{BenchPage, PageOrigin};
    use super::ConnectedVisitors;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn every_page_of_the_origin_counts_as_right() {
        let origin = PageOrigin::start().unwrap();
        let interrupted = AtomicBool::new(false);
        // The last page is wrong on purpose: it is shorter than the number that it begins with.
        let mut pages = [20, 64, 1_000, 70_000, 1 << 20].into_iter().cycle().zip(0..50).chain([(10, 50)]);
        let mut visitors = ConnectedVisitors::gather(origin.address, 3, &interrupted).unwrap();
        let asked =
            visitors.ask(None, || pages.next().map(|(bytes, number)| BenchPage { bytes, number })).unwrap();
        assert_eq!((asked.right, asked.wrong, asked.nanos.len()), (50, 1, 50));
        assert_eq!(asked.content_bytes, 10 * (20 + 64 + 1_000 + 70_000 + (1 << 20)));
        assert_eq!(origin.requests(), 51);
    }
}
