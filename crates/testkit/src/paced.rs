//! A server that answers each request after a time that it is told, and writes down how long it really took: the truth
//! that a load tester's figures are held against.
//!
//! Invariant: a time it wrote down lies within what any client can have seen: it begins when the kernel has received
//! the request, however late the thread that reads it wakes up, and ends before the first octet of the answer is
//! written.

use net::{StampClock, ask_for_stamps, receive};
use platform::{Clock, Monotonic, SystemClock};
use std::io::Write;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// Sleeping ends late by less than this, mostly; the rest of a time is spent looking at the clock.
const SPIN: Duration = Duration::from_micros(300);

/// A running server; it stops when dropped.
pub struct Paced {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: Option<JoinHandle<()>>,
}

struct Shared {
    clock: SystemClock,
    started: Monotonic,
    /// What request `number` has to wait, if it has come so long after the start.
    wait: Box<dyn Fn(u64, Duration) -> Duration + Send + Sync>,
    requests: AtomicU64,
    waits_us: Mutex<Vec<u64>>,
    is_stopped: AtomicBool,
}

impl Paced {
    /// Starts a server on a free loopback port. `wait` says how long a request waits, by its number and by when it came
    /// after the start.
    pub fn start(wait: impl Fn(u64, Duration) -> Duration + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let clock = SystemClock::new();
        let shared = Arc::new(Shared {
            clock,
            started: clock.monotonic(),
            wait: Box::new(wait),
            requests: AtomicU64::new(0),
            waits_us: Mutex::default(),
            is_stopped: AtomicBool::new(false),
        });
        let theirs = Arc::clone(&shared);
        let accepting = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if theirs.is_stopped.load(Ordering::SeqCst) {
                    return;
                }
                let (Ok(stream), shared) = (stream, Arc::clone(&theirs)) else { continue };
                std::thread::spawn(move || shared.converse(stream));
            }
        });
        Self { address, shared, accepting: Some(accepting) }
    }

    /// `http://ADDRESS/`.
    pub fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    /// How long each request waited so far, in microseconds, sorted.
    pub fn waits_us(&self) -> Vec<u64> {
        let mut waits = self.shared.waits_us.lock().unwrap().clone();
        waits.sort_unstable();
        waits
    }
}

impl Drop for Paced {
    fn drop(&mut self) {
        self.shared.is_stopped.store(true, Ordering::SeqCst);
        // Wakes the accepting thread so that it sees the flag.
        let _ = TcpStream::connect(self.address);
        if let Some(accepting) = self.accepting.take() {
            let _ = accepting.join();
        }
    }
}

impl Shared {
    /// Answers the requests of one connection, whose heads fit one read, until the client closes it.
    fn converse(&self, mut stream: TcpStream) {
        stream.set_nodelay(true).unwrap();
        ask_for_stamps(&stream).unwrap();
        let mut buffer = [0; 4096];
        while let Ok((1.., stamp)) = receive(&stream, &mut buffer) {
            let now = self.clock.monotonic();
            let came = StampClock::compare(&self.clock).moment(stamp, now);
            let number = self.requests.fetch_add(1, Ordering::SeqCst);
            let due = came.plus((self.wait)(number, came.since(self.started)));
            std::thread::sleep(due.since(now).saturating_sub(SPIN));
            while self.clock.monotonic() < due {
                std::hint::spin_loop();
            }
            let waited = self.clock.monotonic().since(came);
            self.waits_us.lock().unwrap().push(waited.as_micros() as u64);
            if stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").is_err() {
                break;
            }
        }
        let _ = stream.shutdown(Shutdown::Both);
    }
}
