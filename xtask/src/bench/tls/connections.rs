//! Connections of the benchmark's own client: handshakes in a row, and many that are idle.

use super::servers::RunningServer;
use anyhow::{Result, ensure};
use clock::Clock;
use platform::SystemClock;
use std::net::SocketAddr;
use std::time::Duration;
use testkit::{Client, Trust};

/// Whether a client resumes its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Resumption {
    None,
    Ticket,
}

/// Threads that make connections.
const THREADS: usize = 4;

/// Time for a server to settle after connections were made.
const SETTLE: Duration = Duration::from_secs(2);

/// The first bytes of a client with HTTP/2: the preface and empty settings.
const HTTP2_BEGIN: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// Makes connections with one request each for some seconds; returns their number, or zero if the
/// server resumes no session.
pub(super) fn shake_hands(
    address: SocketAddr,
    trust: &Trust,
    resumption: Resumption,
    seconds: u64,
) -> Result<u64> {
    let clock = SystemClock::new();
    let end = clock.monotonic().plus(Duration::from_secs(seconds));
    let goes_on = || clock.monotonic() < end;
    std::thread::scope(|threads| {
        let mut running = Vec::with_capacity(THREADS);
        for _ in 0..THREADS {
            running.push(threads.spawn(|| shake_hands_until(goes_on, address, trust, resumption)));
        }
        // A thread that panicked has printed why.
        running.into_iter().map(|thread| thread.join().unwrap_or(Ok(0))).sum()
    })
}

fn shake_hands_until(
    goes_on: impl Fn() -> bool,
    address: SocketAddr,
    trust: &Trust,
    resumption: Resumption,
) -> Result<u64> {
    // Each thread has separate sessions.
    let own = trust.without_sessions();
    let mut count = 0;
    while goes_on() {
        let fresh = own.without_sessions();
        let trust = if resumption == Resumption::None { &fresh } else { &own };
        let mut client = Client::secured(address, "localhost", trust)?;
        let is_resumed = client.handshake().is_resumed;
        ensure!(client.get("/12.html", &["Connection: close"]).status == 200, "a response is no page");
        ensure!(!is_resumed || resumption == Resumption::Ticket, "a session was resumed");
        if !is_resumed && resumption == Resumption::Ticket && count > 0 {
            return Ok(0);
        }
        count += 1;
    }
    Ok(count)
}

/// Memory of a server for each of `count` idle connections, in bytes.
pub(super) fn idle_bytes(server: &RunningServer<'_>, is_http2: bool, count: usize) -> Result<f64> {
    let before = server.resident_bytes();
    let trust = if is_http2 { server.trust.offering(b"h2") } else { server.trust.clone() };
    let mut clients = Vec::with_capacity(count);
    for _ in 0..count {
        let mut client = Client::secured(server.address, "localhost", &trust)?;
        if is_http2 {
            client.send(HTTP2_BEGIN);
            ensure!(client.try_read_octets(9).is_some(), "the server sends no settings");
        } else {
            ensure!(client.get("/12.html", &[]).status == 200, "a response is no page");
        }
        clients.push(client);
    }
    std::thread::sleep(SETTLE);
    let after = server.resident_bytes();
    drop(clients);
    Ok(after.saturating_sub(before) as f64 / count as f64)
}
