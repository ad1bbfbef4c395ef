//! The entry of a fetch in the table of flights.
//!
//! Invariants: a flight stays in the table while it may still publish a response, so an
//! invalidation finds it there. A response that was requested before a postponed write to its page
//! is refreshed after it was stored.

use crate::fetch::flight::Flight;
use crate::request::writes::refresh_page;
use crate::shared::Shared;
use std::sync::Arc;
use store::Key;

/// A flight in the table. Its drop removes the flight.
pub(crate) struct TableEntry {
    shared: Arc<Shared>,
    pub(crate) key: Key,
    pub(crate) flight: Arc<Flight>,
}

impl TableEntry {
    /// The entry of a flight that is in the table under `key`.
    pub(crate) fn of(shared: &Arc<Shared>, key: &Key, flight: &Arc<Flight>) -> Arc<Self> {
        Arc::new(Self { shared: Arc::clone(shared), key: key.detached(), flight: Arc::clone(flight) })
    }
}

impl Drop for TableEntry {
    fn drop(&mut self) {
        let Self { shared, key, flight } = &*self;
        shared.flights.end(key, flight, || refresh_page(shared, key, shared.clock.monotonic()));
    }
}
