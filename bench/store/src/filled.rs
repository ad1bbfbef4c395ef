//! A store that holds pages of 1 kB.

use crate::pages;
use store::{Body, Store, StoreLimits};

/// Size of a page's body, in bytes.
const BODY_BYTES: usize = 1_000;

/// A store with this number of pages, and the total bytes of their heads and bodies.
pub(crate) fn filled(pages: u64) -> (Store, u64) {
    let limits = StoreLimits { memory_bytes_max: 4 << 30, ..StoreLimits::default() };
    let store = Store::new(limits, 42);
    let body = vec![b'x'; BODY_BYTES];
    let octets = (0..pages).filter_map(|number| pages::publish(&store, number, Body::copy_of(&body))).sum();
    (store, octets)
}
