//! A flood of bans against the real binary while visitors send requests. Neither a purge nor a hit
//! may wait for the work that bans leave behind.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]
#![allow(clippy::disallowed_methods, reason = "the subject is how long a client waits")]
#![allow(clippy::needless_collect, reason = "every thread is started before the first is waited for")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use testkit::{Client, Edge, Origin, response};

/// Number of bans, all with different expressions: more than the ban list holds.
const BANS: usize = 640;
/// Number of clients that send bans.
const SENDERS: usize = 4;
/// Number of visitors who send requests during the flood.
const VISITORS: usize = 2;
/// Longest time that one purge may take. Work that grows with objects times bans takes many times
/// as long. Without it, even a loaded machine needs a small part of this time.
const PURGE_MAX: Duration = Duration::from_secs(3);
/// Longest time that one hit may take.
const HIT_MAX: Duration = Duration::from_secs(1);

/// Number of stored pages.
fn pages() -> usize {
    let is_long = std::env::var_os("PETASOS_ATTACK").is_some_and(|form| form == "long");
    if is_long { 20_000 } else { 3_000 }
}

/// Sends a ban and returns the time until its response.
fn ban(client: &mut Client, expression: &str) -> Duration {
    let begun = Instant::now();
    client.send(format!("BAN / HTTP/1.1\r\nHost: example.test\r\nX-Url: {expression}\r\n\r\n"));
    let answer = client.read();
    assert_eq!(answer.status, 200, "{}", answer.text());
    begun.elapsed()
}

/// Fills the store with every page, from several clients.
fn fill(edge: &Edge) {
    thread::scope(|scope| {
        for first in 0..SENDERS {
            scope.spawn(move || {
                let mut client = Client::connect(edge.address);
                for number in (first..pages()).step_by(SENDERS) {
                    assert_eq!(client.get(&format!("/page/{number}"), &[]).status, 200);
                }
            });
        }
    });
}

/// Requests pages until `stop` is set. Returns the longest wait and the number of requests that
/// were not hits.
fn visit(edge: &Edge, seed: usize, stop: &AtomicBool) -> (Duration, usize) {
    let mut client = Client::connect(edge.address);
    let mut longest = Duration::ZERO;
    let mut misses = 0;
    let mut number = seed;
    while !stop.load(Ordering::Relaxed) {
        number = (number * 7_919 + 1) % pages();
        let begun = Instant::now();
        let answer = client.get(&format!("/page/{number}"), &[]);
        longest = longest.max(begun.elapsed());
        misses += usize::from(!answer.field("Cache-Status").unwrap().contains("; hit"));
    }
    (longest, misses)
}

/// Sends all bans and returns the longest time that one took.
fn flood(edge: &Edge) -> Duration {
    thread::scope(|scope| {
        let send = |first: usize| {
            move || {
                let mut client = Client::connect(edge.address);
                let expressions = (first..BANS).step_by(SENDERS);
                expressions.map(|number| ban(&mut client, &format!("^/gone/{number}/[a-z]+[0-9]?$"))).max()
            }
        };
        let senders: Vec<_> = (0..SENDERS).map(|first| scope.spawn(send(first))).collect();
        senders.into_iter().filter_map(|sender| sender.join().unwrap()).max().unwrap()
    })
}

#[test]
fn flood_of_bans_delays_neither_purges_nor_hits() {
    let version = Arc::new(AtomicU64::new(1));
    let origin = Origin::start({
        let version = Arc::clone(&version);
        move |_| {
            let version = version.load(Ordering::SeqCst).to_string();
            response("200 OK", &["Cache-Control: max-age=600"], version.as_bytes())
        }
    });
    let edge = Edge::start(&origin.url(), &[]);
    fill(&edge);
    version.store(2, Ordering::SeqCst);
    let stop = AtomicBool::new(false);
    let (purge, visits) = thread::scope(|scope| {
        let edge = &edge;
        let stop = &stop;
        let visitors: Vec<_> =
            (0..VISITORS).map(|seed| scope.spawn(move || visit(edge, seed, stop))).collect();
        let purge = flood(edge);
        stop.store(true, Ordering::Relaxed);
        (purge, visitors.into_iter().map(|visitor| visitor.join().unwrap()).collect::<Vec<_>>())
    });
    let hit = visits.iter().map(|(longest, _)| *longest).max().unwrap();
    let misses: usize = visits.iter().map(|(_, misses)| misses).sum();
    println!("attack: the slowest ban of a flood: {purge:?} of at most {PURGE_MAX:?}");
    println!("attack: the slowest hit beside a flood of bans: {hit:?} of at most {HIT_MAX:?}");
    println!("attack: pages lost to bans that mean none of them: {misses}, at most 0");
    assert!(purge <= PURGE_MAX && hit <= HIT_MAX && misses == 0, "{purge:?} {hit:?} {misses}");
    assert!(edge.metric("petasos_purge_comparisons_total", "") > 0.0);
    assert!(edge.metric("petasos_purges_widened_total", "") <= 0.0, "no ban became wider");
    // Even with a full list, a ban takes effect before its response.
    let mut client = Client::connect(edge.address);
    for number in (0..pages()).step_by(pages() / 20) {
        ban(&mut client, &format!("^/page/{number}$"));
        assert_eq!(client.get(&format!("/page/{number}"), &[]).text(), "2", "page {number} after its ban");
    }
}
