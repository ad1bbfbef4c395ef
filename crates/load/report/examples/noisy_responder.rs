//! The server behind `tests/data/runs.csv`. It responds like an application, with a long tail,
//! stalls and slow changes of speed. Its second port is slower by a given factor.
//!
//! Usage: `noisy_responder FACTOR` prints two addresses; every response of the second takes FACTOR
//! times as long. Both serve until the process is killed. There is one thread per connection. The
//! delays depend only on the number of the request.

use stats::Random;
use std::io::{self, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// Usual response time in microseconds.
const BASE_US: f64 = 3_000.0;

/// Number of requests between two changes of speed. They take some hundred milliseconds, so whole
/// runs differ as well as single requests.
const MOOD_REQUESTS: usize = 400;

/// Content of each response: 2 kB.
const CONTENT: [u8; 2_000] = [b'x'; 2_000];

fn main() -> io::Result<()> {
    let factor = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(1.1);
    let delays: Arc<[f64]> = delays().into();
    let servers = [1.0, factor].map(|factor| serve(Arc::clone(&delays), factor));
    for server in servers {
        // A server ends only with the process.
        let _ = server?.join();
    }
    Ok(())
}

/// Delays of 100,000 requests in microseconds: a skewed distribution with changes of speed by some
/// percent. One request in two hundred stalls for 30 ms.
fn delays() -> Vec<f64> {
    let mut random = Random::from_seed(1);
    let mut uniform = move || (random.below(1 << 24) + 1) as f64 / f64::from(1 << 24);
    let mut mood = 1.0;
    (0..100_000)
        .map(|request| {
            if request % MOOD_REQUESTS == 0 {
                mood = 1.0 + 0.7 * (mood - 1.0) + 0.08 * (uniform() - 0.5);
            }
            let tail = -0.15 * uniform().ln();
            let stall = if uniform() < 0.005 { 30_000.0 } else { 0.0 };
            BASE_US * mood * (0.9 + tail) + stall
        })
        .collect()
}

/// Starts a server: listens, prints its address, and serves each connection in a thread.
#[allow(clippy::print_stdout, reason = "the address is the result")]
fn serve(delays: Arc<[f64]>, factor: f64) -> io::Result<thread::JoinHandle<()>> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    println!("{}", listener.local_addr()?);
    let count = Arc::new(AtomicUsize::new(0));
    Ok(thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let delays = Arc::clone(&delays);
            let count = Arc::clone(&count);
            // The error is ignored because a client may close its connection at any time.
            thread::spawn(move || drop(answer(stream, &delays, &count, factor)));
        }
    }))
}

/// Answers the requests of a connection until the client closes it. Each request must arrive in one
/// read.
fn answer(mut stream: TcpStream, delays: &[f64], count: &AtomicUsize, factor: f64) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", CONTENT.len());
    let page = [head.as_bytes(), &CONTENT].concat();
    let mut buffer = [0; 4096];
    while stream.read(&mut buffer)? > 0 {
        let request = count.fetch_add(1, Ordering::Relaxed);
        let delay_us = delays.get(request % delays.len()).copied().unwrap_or(BASE_US);
        thread::sleep(Duration::from_nanos((delay_us * factor * 1e3) as u64));
        stream.write_all(&page)?;
    }
    Ok(())
}
