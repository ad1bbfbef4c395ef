//! The attacked application: an HTTP server with a fixed number of workers. A worker is busy from
//! the first byte of a request to the last byte of its response. Further requests wait for a free
//! worker.
//!
//! Invariant: every request is counted, except requests for `/probe`. These are health checks of
//! the peers and need no worker.

use anyhow::Result;
use clock::Clock as _;
use platform::SystemClock;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use testkit::HeldPort;

/// Time that a worker takes for a page.
const PAGE_TIME: Duration = Duration::from_millis(10);
/// Length of a download, in bytes: more than the system's buffers hold.
pub(super) const DOWNLOAD_BYTES: usize = 8 << 20;
/// Maximum size of a request's content, in bytes.
const CONTENT_BYTES_MAX: u64 = 1 << 20;

/// The running application.
pub(in crate::bench) struct AttackOrigin {
    held: HeldPort,
    shared: Arc<OriginShared>,
}

#[derive(Default)]
struct OriginShared {
    workers: usize,
    state: Mutex<OriginState>,
    changed: Condvar,
}

#[derive(Default)]
struct OriginState {
    is_refusing: bool,
    is_hung: bool,
    fault: Option<PageFault>,
    busy: usize,
    requests: usize,
    /// The times of answered requests, from their first byte to the response.
    times: Vec<Duration>,
    connections: Vec<Weak<TcpStream>>,
}

/// A fault in the responses of the application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::bench) enum PageFault {
    /// Each takes this long.
    Slow(Duration),
    /// Each second one has status 503.
    HalfErrors,
    /// Each ends before its content is complete.
    Truncated,
    /// Each takes the first time, or the second one if `/slow/` is in its path.
    Mixed(Duration, Duration),
}

impl AttackOrigin {
    /// Starts an application with this many workers.
    pub(in crate::bench) fn start(workers: usize) -> Result<Self> {
        let shared = OriginShared { workers, ..OriginShared::default() };
        let origin = Self { held: HeldPort::take(), shared: Arc::new(shared) };
        origin.listen()?;
        Ok(origin)
    }

    pub(in crate::bench) fn address(&self) -> SocketAddr {
        self.held.address()
    }

    /// Requests so far.
    pub(in crate::bench) fn requests(&self) -> usize {
        self.shared.state().requests
    }

    /// Takes the times of the requests answered since the last call, from the first byte of a
    /// request to its response.
    pub(in crate::bench) fn take_times(&self) -> Vec<Duration> {
        std::mem::take(&mut self.shared.state().times)
    }

    /// Number of busy workers.
    pub(super) fn busy(&self) -> usize {
        self.shared.state().busy
    }

    /// From now on, no request is answered.
    pub(in crate::bench) fn hang(&self) {
        self.shared.state().is_hung = true;
    }

    /// From now on, responses have this fault.
    pub(in crate::bench) fn fail(&self, fault: PageFault) {
        self.shared.state().fault = Some(fault);
    }

    /// Accepts connections again.
    ///
    /// # Errors
    /// If the port cannot be opened.
    pub(in crate::bench) fn revive(&self) -> Result<()> {
        self.shared.state().is_refusing = false;
        self.listen()
    }

    /// Closes all connections and refuses new ones from now on.
    pub(in crate::bench) fn refuse(&self) {
        self.shared.state().is_refusing = true;
        // Wakes the accepting thread, so that it closes the listener.
        let _ = TcpStream::connect(self.address());
        for connection in self.shared.state().connections.drain(..).filter_map(|open| open.upgrade()) {
            // Fails only if the client has closed the connection already.
            let _ = connection.shutdown(Shutdown::Both);
        }
    }

    fn listen(&self) -> Result<()> {
        let listener = TcpListener::bind(self.address())?;
        let shared = Arc::clone(&self.shared);
        std::thread::spawn(move || {
            for connection in listener.incoming() {
                let mut state = shared.state();
                if state.is_refusing {
                    return;
                }
                let Ok(connection) = connection.map(Arc::new) else { continue };
                state.connections.retain(|open| open.strong_count() > 0);
                state.connections.push(Arc::downgrade(&connection));
                let shared = Arc::clone(&shared);
                std::thread::spawn(move || shared.converse(&connection));
            }
        });
        Ok(())
    }
}

impl Drop for AttackOrigin {
    fn drop(&mut self) {
        self.refuse();
        self.shared.state().is_hung = false;
        self.shared.changed.notify_all();
    }
}

impl OriginShared {
    fn state(&self) -> MutexGuard<'_, OriginState> {
        // A poisoned lock means that another thread panicked, which has already been printed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Serves the requests of one connection until it ends.
    fn converse(&self, connection: &TcpStream) {
        let (clock, mut reader) = (SystemClock::new(), BufReader::new(connection));
        while let Ok([_, ..]) = reader.fill_buf() {
            let is_probe = reader.buffer().starts_with(b"GET /probe");
            let begun = clock.monotonic();
            if !is_probe {
                self.take_worker();
            }
            let went_on = self.answer(&mut reader, connection, is_probe);
            if !is_probe {
                let mut state = self.state();
                state.busy -= 1;
                state.times.push(clock.monotonic().since(begun));
                drop(state);
                self.changed.notify_all();
            }
            if went_on.is_none() {
                return;
            }
        }
    }

    fn take_worker(&self) {
        let mut state = self.state();
        state.requests += 1;
        while state.busy >= self.workers && !state.is_refusing {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.busy += 1;
    }

    /// Reads a request and answers it; `None` if the connection ends.
    fn answer(
        &self,
        reader: &mut BufReader<&TcpStream>,
        mut connection: &TcpStream,
        is_probe: bool,
    ) -> Option<()> {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if reader.read_line(&mut head).ok()? == 0 {
                return None;
            }
        }
        let length = head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("Content-Length").then(|| value.trim().parse::<u64>().ok())?
        });
        let length = length.unwrap_or(0).min(CONTENT_BYTES_MAX);
        if std::io::copy(&mut reader.take(length), &mut std::io::sink()).ok()? < length {
            return None;
        }
        let mut state = self.state();
        while state.is_hung && !state.is_refusing {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let (fault, number) = (state.fault.filter(|_| !is_probe), state.requests);
        drop(state);
        let target = head.split(' ').nth(1)?;
        if !is_probe {
            std::thread::sleep(match fault {
                Some(PageFault::Slow(time)) => time,
                Some(PageFault::Mixed(_, slow)) if target.contains("/slow/") => slow,
                Some(PageFault::Mixed(quick, _)) => quick,
                Some(PageFault::HalfErrors | PageFault::Truncated) | None => PAGE_TIME,
            });
        }
        match fault {
            Some(PageFault::HalfErrors) if number.is_multiple_of(2) => {
                connection.write_all(b"HTTP/1.1 503 Oh\r\nContent-Length: 2\r\n\r\nno").ok()?;
            }
            Some(PageFault::Truncated) => {
                let whole = response(target);
                connection.write_all(whole.get(..whole.len() - 1)?).ok()?;
                return None;
            }
            _ => connection.write_all(&response(target)).ok()?,
        }
        let is_last = head.to_ascii_lowercase().contains("\r\nconnection: close\r\n");
        // Varnish's probes read until the connection is closed.
        if is_last { connection.shutdown(Shutdown::Write).ok().and(None) } else { Some(()) }
    }
}

/// The response for a path. `/own/`, `/download/` and `/form` are private; `/stale/` expires after
/// a second.
fn response(target: &str) -> Vec<u8> {
    let kind = target.split(['/', '?']).nth(1).unwrap_or("");
    let policy = match kind {
        "own" | "download" | "form" => "private",
        "stale" => "max-age=1, stale-if-error=86400",
        _ => "max-age=600",
    };
    let is_download = matches!(kind, "download" | "film");
    let content = if is_download { vec![b'x'; DOWNLOAD_BYTES] } else { target.as_bytes().to_vec() };
    let mut response = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nCache-Control: {policy}\r\nContent-Length: {}\r\n\r\n",
        content.len()
    )
    .into_bytes();
    response.extend(content);
    response
}
