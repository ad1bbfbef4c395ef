//! Half-open TLS handshakes against the real binary: connections that send nothing, the beginning
//! of a ClientHello, or a whole one, and then wait.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that cannot go on panics")]
#![allow(clippy::print_stdout, reason = "the figures of the attack are its result")]

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use testkit::attack::{Attack, AttackKind, AttackedEdge, SERVER_NAME, is_long};
use testkit::{allow_descriptors, eventually};

/// Number of half-open handshakes at a time.
fn half_open() -> usize {
    if is_long() { 5_000 } else { 400 }
}

/// Number of attackers. They share the connections.
const ATTACKERS: usize = 5;
/// Connections that an attacker opens in each tick of 10 ms: together 1,000 a second. Ten seconds
/// later (`limits.tls_handshake_timeout`) the edge ends as many, and the attackers open them again.
const PER_TICK: usize = 2;
/// Ticks between two searches for connections that the edge has ended.
const SEARCH_TICKS: usize = 20;
/// Bytes of a ClientHello that the second kind of connection sends.
const PREFIX_BYTES: usize = 100;

/// Opens a connection, and sends a part of a handshake that depends on `number`.
fn begin(address: SocketAddr, hello: &[u8], number: usize) -> Option<TcpStream> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.write_all([&[], &hello[..PREFIX_BYTES], hello][number % 3]).ok()?;
    stream.set_nonblocking(true).unwrap();
    Some(stream)
}

/// Whether the edge has ended the connection. Discards the received bytes.
fn is_closed(stream: &mut TcpStream) -> bool {
    let mut discarded = [0; 8 << 10];
    loop {
        match stream.read(&mut discarded) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => return error.kind() != ErrorKind::WouldBlock,
        }
    }
}

/// The work of one attacker: keeps its part of the connections open.
/// The first attacker notes in `most` how many connections the edge has.
fn hold(attacked: &AttackedEdge, attack: &Attack, number: usize, most: &AtomicU64) {
    let hello = attacked.trust.client_hello(SERVER_NAME);
    let count = half_open() / ATTACKERS;
    let mut ticks = attack.ticks(number, ATTACKERS);
    let mut connections = Vec::new();
    let (mut begun, mut is_ready) = (0, false);
    for tick in 0.. {
        if !ticks.wait() {
            return;
        }
        for _ in 0..PER_TICK {
            if connections.len() < count {
                connections.extend(begin(attacked.edge.address, &hello, begun));
                begun += 1;
                attack.sent(1);
            }
        }
        if !is_ready && connections.len() == count {
            is_ready = true;
            if number == 0 {
                // Only once, because the edge's answer takes time from the hits.
                let open = attacked.edge.metric("petasos_connections_open", "") as u64;
                most.fetch_max(open, Ordering::Relaxed);
            }
            attack.ready();
        }
        if tick % SEARCH_TICKS == 0 {
            let before = connections.len();
            connections.retain_mut(|stream| !is_closed(stream));
            (connections.len()..before).for_each(|_| attack.closed());
        }
    }
}

#[test]
fn half_open_handshakes_delay_no_hit_and_stay_within_memory() {
    allow_descriptors(half_open() as u64 + 1_000);
    let attacked = AttackedEdge::start("");
    let kind = AttackKind {
        name: "half-open TLS handshakes",
        unit: "handshakes",
        http: "1.1",
        attackers: ATTACKERS,
        rate_min: 0,
        units_short: half_open() as u64,
    };
    let most = AtomicU64::new(0);
    attacked.suffer(&kind, |attack, number| hold(&attacked, attack, number, &most));
    let most = most.into_inner();
    println!("attack: half-open TLS handshakes: {most} open at once");
    assert!(most >= half_open() as u64 * 9 / 10, "only {most} were open at once");
}

#[test]
fn half_open_handshakes_are_ended_and_counted() {
    let attacked = AttackedEdge::start("[limits]\ntls_handshake_timeout = \"300ms\"\n");
    let hello = attacked.trust.client_hello(SERVER_NAME);
    let mut connections: Vec<_> =
        (0..60).map(|number| begin(attacked.edge.address, &hello, number).unwrap()).collect();
    eventually("every connection has ended", || connections.iter_mut().all(is_closed));
    let timeouts = attacked.edge.metric("petasos_tls_handshake_timeouts_total", "");
    println!("attack: half-open TLS handshakes ended and counted: {timeouts} of 60");
    assert!((timeouts - 60.0).abs() < 0.5, "{timeouts}");
}
