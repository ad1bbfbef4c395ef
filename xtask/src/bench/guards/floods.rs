//! The floods. Each attacker sends requests at a constant rate at most, from addresses of one
//! network of 24 bits.

use crate::bench::visitors::{VisitedServer, later};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use testkit::Client;

/// One flood.
pub(super) struct Flood {
    pub(super) name: &'static str,
    /// Number of attackers, each with its own thread.
    pub(super) attackers: u16,
    /// The work of one attacker: its server, its number, whether the flood is over, and the counter
    /// of sent units.
    pub(super) attack: fn(&VisitedServer, u16, &dyn Fn() -> bool, &AtomicU64),
}

pub(super) const FLOODS: [Flood; 6] = [
    Flood { name: "pages that are never stored, from one /24", attackers: 64, attack: own_pages },
    Flood { name: "5,000 requests that do not end", attackers: 4, attack: slow_heads },
    Flood { name: "random query strings", attackers: 64, attack: random_queries },
    Flood { name: "pages that do not exist", attackers: 64, attack: missing_pages },
    Flood { name: "heads of 60 kB", attackers: 16, attack: large_heads },
    Flood { name: "200 slow readers", attackers: 4, attack: slow_readers },
];

/// Time between two requests of an attacker: all 64 together send 6,400 a second.
const EVERY: Duration = Duration::from_millis(10);
/// Addresses of the attackers' network.
const ADDRESSES: u32 = 254;
/// Connections of slow clients, all attackers together.
const SLOW_HEADS: u16 = 5_000;
const SLOW_READERS: u16 = 200;
/// Time between two bytes of a slow client.
const BYTE_EVERY: Duration = Duration::from_secs(2);
/// Parts of this time after which a slow client looks whether the flood is over.
const SLICES: u32 = 8;
/// Receive buffers in bytes: of an ordinary client, and of a slow one.
const RECEIVE_BYTES: usize = 64 << 10;
const SLOW_RECEIVE_BYTES: usize = 4 << 10;

fn own_pages(server: &VisitedServer, number: u16, is_over: &dyn Fn() -> bool, sent: &AtomicU64) {
    repeat(server, number, is_over, sent, |count| get(&format!("/own/{number}/{count}"), ""));
}

fn random_queries(server: &VisitedServer, number: u16, is_over: &dyn Fn() -> bool, sent: &AtomicU64) {
    repeat(server, number, is_over, sent, |count| get(&format!("/page/1?{number}x{count}"), ""));
}

fn missing_pages(server: &VisitedServer, number: u16, is_over: &dyn Fn() -> bool, sent: &AtomicU64) {
    repeat(server, number, is_over, sent, |count| get(&format!("/none/{number}/{count}"), ""));
}

fn large_heads(server: &VisitedServer, number: u16, is_over: &dyn Fn() -> bool, sent: &AtomicU64) {
    let field = format!("X-Large: {}\r\n", "x".repeat(1_000)).repeat(60);
    repeat(server, number, is_over, sent, |_| get("/page/1", &field));
}

fn get(target: &str, fields: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: bench.test\r\nConnection: close\r\n{fields}\r\n")
}

/// The address of an attacker's request.
fn address(number: u16, count: u32) -> [u8; 4] {
    let host = (u32::from(number) + 7 * count) % ADDRESSES + 1;
    [127, 0, 7, host as u8]
}

/// Sends one request after the other, each on a new connection and from another address.
fn repeat(
    server: &VisitedServer,
    number: u16,
    is_over: &dyn Fn() -> bool,
    sent: &AtomicU64,
    request: impl Fn(u32) -> String,
) {
    let mut next = server.now();
    for count in 0.. {
        if is_over() {
            return;
        }
        std::thread::sleep(next.since(server.now()));
        let client = Client::try_connect_from(address(number, count), server.address, RECEIVE_BYTES);
        // The server should refuse.
        let _ = client.and_then(|mut client| client.try_ask(request(count)));
        sent.fetch_add(1, Ordering::Relaxed);
        next = later(next.plus(EVERY), server.now());
    }
}

fn slow_heads(server: &VisitedServer, number: u16, is_over: &dyn Fn() -> bool, sent: &AtomicU64) {
    let begin = |address, from| {
        let mut client = Client::try_connect_from(from, address, SLOW_RECEIVE_BYTES)?;
        client.try_send("GET /page/1 HTTP/1.1\r\nHost: bench.test\r\nX-Slow: ")?;
        Some(client)
    };
    let touch = |client: &mut Client| client.try_send("x").is_some();
    hold(server, (number, SLOW_HEADS / 4), is_over, sent, (&begin, &touch));
}

fn slow_readers(server: &VisitedServer, number: u16, is_over: &dyn Fn() -> bool, sent: &AtomicU64) {
    let begin = |address, from| {
        let mut client = Client::try_connect_from(from, address, SLOW_RECEIVE_BYTES)?;
        client.try_send("GET /film/1 HTTP/1.1\r\nHost: bench.test\r\n\r\n")?;
        Some(client)
    };
    let touch = |client: &mut Client| client.try_read_octets(1).is_some();
    hold(server, (number, SLOW_READERS / 4), is_over, sent, (&begin, &touch));
}

/// How a slow client begins its connection, and its later actions. The results say whether the
/// server has kept the connection.
type SlowClient<'a> = (&'a dyn Fn(SocketAddr, [u8; 4]) -> Option<Client>, &'a dyn Fn(&mut Client) -> bool);

/// Keeps this many connections of slow clients open. Connections that the server closes are opened
/// again.
fn hold(
    server: &VisitedServer,
    (number, connections): (u16, u16),
    is_over: &dyn Fn() -> bool,
    sent: &AtomicU64,
    (begin, touch): SlowClient<'_>,
) {
    let mut open: Vec<Client> = Vec::new();
    for round in 0.. {
        for missing in 0..usize::from(connections).saturating_sub(open.len()) {
            if is_over() {
                return;
            }
            let from = address(number * 61, round * 101 + missing as u32);
            open.extend(begin(server.address, from));
            sent.fetch_add(1, Ordering::Relaxed);
        }
        for _ in 0..SLICES {
            std::thread::sleep(BYTE_EVERY / SLICES);
            if is_over() {
                return;
            }
        }
        open.retain_mut(touch);
    }
}
