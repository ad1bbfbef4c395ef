//! A server that delays each response by a given time and records the actual delay. Tests compare a
//! load tester's figures with these delays.
//!
//! Invariant: a recorded delay is a lower bound of the latency that a client can measure. It starts
//! when the kernel has received the request, even if the reading thread wakes up later. It ends
//! before the first byte of the response is written.

use clock::{Clock, Monotonic};
use net::{StampClock, ask_for_stamps, receive};
use platform::SystemClock;
use std::io::Write;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// The end of a wait, spent spinning on the clock. Sleeping usually overshoots by less than this.
const SPIN: Duration = Duration::from_micros(300);

/// A running server. It stops when it is dropped.
pub struct Paced {
    address: SocketAddr,
    shared: Arc<PacedState>,
    accepting: Option<JoinHandle<()>>,
}

struct PacedState {
    clock: SystemClock,
    started: Monotonic,
    /// The delay of a request, given its number and its time of arrival after the start.
    wait: Box<dyn Fn(u64, Duration) -> Duration + Send + Sync>,
    requests: AtomicU64,
    waits_us: Mutex<Vec<u64>>,
    is_stopped: AtomicBool,
}

impl Paced {
    /// Starts a server on a free loopback port. `wait` returns the delay of a request. Its
    /// arguments are the request's number and its time of arrival after the start.
    pub fn start(wait: impl Fn(u64, Duration) -> Duration + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let clock = SystemClock::new();
        let shared = Arc::new(PacedState {
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

    /// The recorded delays so far, in microseconds, sorted.
    pub fn waits_us(&self) -> Vec<u64> {
        let mut waits = self.shared.waits_us.lock().unwrap().clone();
        waits.sort_unstable();
        waits
    }
}

impl Drop for Paced {
    fn drop(&mut self) {
        self.shared.is_stopped.store(true, Ordering::SeqCst);
        // Wakes the accepting thread so that it sees the flag. The connection itself may fail.
        let _ = TcpStream::connect(self.address);
        if let Some(accepting) = self.accepting.take() {
            // A panic of the thread was already reported.
            let _ = accepting.join();
        }
    }
}

impl PacedState {
    /// Answers the requests of one connection until the client closes it. Each request's head must
    /// fit one read.
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
