//! The entry of a fetch in the table of fetches.
//!
//! Invariants: a fetch stays in the table while it may still publish a response, so an
//! invalidation finds it there. A response that was requested before a postponed write to its page
//! is refreshed after it was stored.

use crate::fetch::coalesced_fetch::CoalescedFetch;
use crate::request::writes::refresh_page;
use crate::shared::Shared;
use std::sync::Arc;
use store::Key;

/// A fetch in the table. Its drop removes the fetch.
pub(crate) struct TableEntry {
    shared: Arc<Shared>,
    pub(crate) key: Key,
    pub(crate) fetch: Arc<CoalescedFetch>,
}

impl TableEntry {
    /// The entry of a fetch in the table under `key`.
    pub(crate) fn of(shared: &Arc<Shared>, key: &Key, fetch: &Arc<CoalescedFetch>) -> Arc<Self> {
        Arc::new(Self { shared: Arc::clone(shared), key: key.detached(), fetch: Arc::clone(fetch) })
    }
}

impl Drop for TableEntry {
    fn drop(&mut self) {
        let Self { shared, key, fetch } = &*self;
        shared.fetches.end(key, fetch, || refresh_page(shared, key, shared.clock.monotonic()));
    }
}
