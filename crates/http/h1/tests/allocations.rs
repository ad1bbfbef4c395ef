//! A client that skims allocates nothing per response in the steady state. This test runs in a
//! separate process, so that no other test allocates.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use message::Method;
use petasos_h1::client::{Exchange, Terms};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use std::alloc::System;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const RESPONSES: &[&[u8]] = &[
    b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 5\r\n\r\nhello",
    b"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    b"HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\n\r\n",
];

/// Reads each response whole, and once more in pieces, so that its head arrives in parts.
fn read_all(exchange: &mut Exchange) -> usize {
    let mut content_bytes = 0;
    for response in RESPONSES {
        for piece_bytes in [response.len(), 7] {
            exchange.restart();
            let mut is_complete = false;
            for piece in response.chunks(piece_bytes) {
                let taken = exchange.skim(piece, |run| content_bytes += run.len()).unwrap();
                is_complete = taken.is_complete;
            }
            assert!(is_complete);
        }
    }
    content_bytes
}

/// The allocations of the whole process while `exchange` reads 600 responses.
fn allocations_of_round(exchange: &mut Exchange) -> usize {
    let region = Region::new(ALLOCATOR);
    let content_bytes = (0..100).map(|_| read_all(exchange)).sum::<usize>();
    let change = region.change();
    assert_eq!(content_bytes, 100 * 20);
    change.allocations + change.reallocations
}

#[test]
fn skimmed_responses_allocate_nothing() {
    let mut exchange = Exchange::new(&Method::Get, Terms::TOLERANT);
    read_all(&mut exchange);
    // The test harness's own thread allocates now and then. An allocation per response would occur
    // in each of the rounds.
    let allocations = (0..10).map(|_| allocations_of_round(&mut exchange));
    assert_eq!(allocations.min(), Some(0));
}
