//! A store with a number of pages of 1 kB.

use crate::pages;
use store::{Body, Store, StoreLimits};

/// The size of a page's body, in octets.
const BODY_BYTES: usize = 1_000;

/// A store with so many pages, and the octets of their heads and bodies.
pub(crate) fn filled(pages: u64) -> (Store, u64) {
    let limits = StoreLimits { memory_bytes_max: 4 << 30, ..StoreLimits::default() };
    let store = Store::new(limits, 42);
    let body = vec![b'x'; BODY_BYTES];
    let octets = (0..pages).filter_map(|number| pages::publish(&store, number, Body::copy_of(&body))).sum();
    (store, octets)
}
