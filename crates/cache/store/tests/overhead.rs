//! The memory that an object costs beside the bytes of its head and body, as counted by the
//! allocator. This test runs in a process of its own, so that no other test allocates.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use bytes::Bytes;
use message::{ResponseHead, Status};
use petasos_store as store;
use semantics::{Freshness, Moment, VariantKey, VaryRule};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use std::alloc::System;
use std::sync::Arc;
use std::time::Duration;
use store::{Body, Key, Object, Publication, PublishResult, SiteId, Store, StoreLimits};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// A twentieth of a million objects with fifty thousand tags, for which the overhead is promised.
const OBJECTS: u64 = 50_000;
const TAGS: u64 = 2_500;
/// The promised overhead of an object, in bytes.
const OVERHEAD_BYTES_MAX: u64 = 300;

fn heap_bytes() -> u64 {
    let stats = ALLOCATOR.stats();
    (stats.bytes_allocated - stats.bytes_deallocated) as u64
}

fn tags(number: u64) -> Vec<Bytes> {
    (0..4).map(|place| Bytes::from(format!("node:{}", (number * 7_919 + place * 613) % TAGS))).collect()
}

/// Stores a page and returns the bytes of its head and body.
fn publish(store: &Store, number: u64, body: &[u8]) -> u64 {
    let mut head = ResponseHead::new(Status::OK);
    let mut prebuilt = b"HTTP/1.1 200 OK\r\n".to_vec();
    for (name, value) in [
        ("Content-Type", "text/html; charset=UTF-8".to_owned()),
        ("Cache-Control", "max-age=600".to_owned()),
        ("ETag", format!("\"{number:x}\"")),
        ("Age", "7".to_owned()),
        ("Surrogate-Key", "a b c d".to_owned()),
    ] {
        // The last two fields are stored but not sent.
        if name != "Age" && name != "Surrogate-Key" {
            prebuilt.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
        }
        head.fields.push(name, value);
    }
    prebuilt.extend_from_slice(b"Content-Length: 1000\r\n");
    let octets = "HTTP/1.1 200 OK\r\n".len() + head.fields.wire_bytes() + body.len();
    let freshness = Freshness::lasting(Duration::from_secs(600), Moment::default());
    let target = Bytes::from(format!("/articles/{number:07}/some-title"));
    let published = store.publish(Publication {
        key: &Key::new(SiteId(0), true, b"www.example.org", target),
        rule: VaryRule::default(),
        variant: VariantKey::default(),
        object: Arc::new(Object::new(&head, &prebuilt, Body::copy_of(body), freshness)),
        tags: &tags(number),
        begun: store.sequence(),
    });
    assert_eq!(published, PublishResult::Stored);
    octets as u64
}

#[test]
fn object_overhead_stays_below_its_limit() {
    let limits = StoreLimits { memory_bytes_max: 2 << 30, ..StoreLimits::default() };
    let store = Store::new(limits, 3);
    let body = vec![b'x'; 1_000];
    let before = heap_bytes();
    let octets: u64 = (0..OBJECTS).map(|number| publish(&store, number, &body)).sum();
    let heap = heap_bytes() - before;
    let each = (heap - octets) / OBJECTS;
    println!("{each} octets beside head and body");
    assert!(each <= OVERHEAD_BYTES_MAX, "{each}");
    let stats = store.stats();
    assert_eq!((stats.objects, stats.tags), (OBJECTS, TAGS));
    assert!(stats.bytes >= heap, "the store counts at least the memory in use: {} of {heap}", stats.bytes);
}
