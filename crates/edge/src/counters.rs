//! What the edge counts: one table with each counter's name, kind and what it tells an operator to do; and
//! the cells that workers count in.
//!
//! Invariant: a worker writes to cells of its own only, so counting costs no cache line that another core
//! wants; a reading is the sum over all workers. Rendering is `metrics`' business.

use semantics::Reason;
use std::sync::atomic::{AtomicU64, Ordering};

/// Whether a value only grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only grows, until the process ends.
    Counter,
    /// Goes up and down.
    Gauge,
}

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Which counter this is.
    pub counter: Counter,
    /// Whether it only grows.
    pub kind: Kind,
    /// The metric's name without the `petasos_` in front and, for counters, the `_total` behind it.
    pub name: &'static str,
    /// What it counts and what to do about it.
    pub help: &'static str,
}

macro_rules! counters {
    ($($variant:ident: $kind:ident $name:literal, $help:literal;)*) => {
        /// Everything that is counted besides requests by reason.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Counter {
            $(#[doc = $help] $variant,)*
        }

        /// The table, in the order of the enum.
        pub const COUNTERS: &[Row] = &[
            $(Row { counter: Counter::$variant, kind: Kind::$kind, name: $name, help: $help },)*
        ];
    };
}

counters! {
    ConnectionsAccepted: Counter "connections_accepted",
        "Connections accepted from visitors. Far more than requests divided by a few means that something in \
         front does not keep connections alive.";
    ConnectionsOpen: Gauge "connections_open",
        "Connections from visitors that are open now. Near limits.connections_max, raise that limit or lower \
         limits.idle_timeout.";
    ConnectionsRefused: Counter "connections_refused",
        "Connections closed at once because limits.connections_max were open. Raise the limit, or find out \
         who opens so many.";
    RequestsMalformed: Counter "requests_malformed",
        "Requests refused because they are no correct HTTP/1. Some are normal on the open Internet; many from \
         one address are an attack or a broken client.";
    VisitorTimeouts: Counter "visitor_timeouts",
        "Connections closed because the visitor sent or took no octet for too long inside a request or \
         response. Many at once look like an attack with slow clients.";
    VisitorsGone: Counter "visitors_gone",
        "Responses that could not be sent whole because the visitor closed the connection. Usually harmless; \
         many mean that pages are slow.";
    BytesSent: Counter "bytes_sent",
        "Octets sent to visitors, heads included.";
    BytesReceived: Counter "bytes_received",
        "Octets received from visitors, heads included.";
    OriginFetches: Counter "origin_fetches",
        "Requests sent to applications. This is the load the edge lets through; compare it with the requests \
         it answers.";
    OriginRefusals: Counter "origin_refusals",
        "Fetches that found no connection to the application. Start the application or correct the origin's \
         address.";
    OriginTimeouts: Counter "origin_timeouts",
        "Fetches that ran into limits.connect_timeout, limits.first_byte_timeout or \
         limits.between_bytes_timeout. The application is overloaded or stuck: look at its slow requests.";
    OriginFaults: Counter "origin_faults",
        "Responses from applications that broke HTTP or ended too early. Look for crashes in the \
         application's log.";
    OriginBusy: Counter "origin_busy",
        "Requests answered 503 because all fetches of the application were in use and its queue was full or \
         too slow. Raise limits.fetches_max if the application can take more.";
    ResponsesCut: Counter "responses_cut",
        "Responses that were cut off at the visitor because the application's response was. Nothing of them \
         is stored. Look for crashes in the application's log.";
    FlightsStarted: Counter "flights_started",
        "Fetches whose answer any number of requests may share.";
    FlightWaits: Counter "flight_waits",
        "Requests that waited for the fetch of another instead of asking the application themselves.";
    FlightWaitTimeouts: Counter "flight_wait_timeouts",
        "Requests that gave up waiting for another's fetch after limits.flight_wait and asked themselves. The \
         application is slow to start its answers.";
    Tunnels: Counter "tunnels",
        "Connections upgraded to another protocol, such as WebSocket, and passed through.";
    AccessLogDropped: Counter "access_log_dropped",
        "Access log lines dropped because the log could not be written fast enough. Use a faster disk, or \
         raise limits.access_log_lines_max.";
}

/// The number of rows.
const COUNTER_COUNT: usize = COUNTERS.len();

/// The cells of one worker, on cache lines of their own.
#[repr(align(128))]
#[derive(Debug)]
pub(crate) struct Cells {
    values: [AtomicU64; COUNTER_COUNT],
    reasons: Vec<AtomicU64>,
}

/// The cells of all workers.
#[derive(Debug)]
pub(crate) struct Counters {
    workers: Vec<Cells>,
}

impl Cells {
    fn new() -> Self {
        Self {
            values: std::array::from_fn(|_| AtomicU64::new(0)),
            reasons: Reason::ALL.iter().map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// Adds one.
    #[inline]
    pub(crate) fn count(&self, counter: Counter) {
        self.add(counter, 1);
    }

    /// Adds `amount`.
    #[inline]
    pub(crate) fn add(&self, counter: Counter, amount: u64) {
        if let Some(cell) = self.values.get(counter as usize) {
            cell.fetch_add(amount, Ordering::Relaxed);
        }
    }

    /// Takes one from a gauge. Another worker's cell may have been the one that counted up: only the sum
    /// means something, and it wraps as the cells do.
    #[inline]
    pub(crate) fn discount(&self, gauge: Counter) {
        if let Some(cell) = self.values.get(gauge as usize) {
            cell.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Counts a request that got the verdict with this reason.
    #[inline]
    pub(crate) fn count_reason(&self, reason: Reason) {
        if let Some(cell) = self.reasons.get(reason.index()) {
            cell.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Counters {
    /// Cells for this many workers, at least one.
    pub(crate) fn new(workers: usize) -> Self {
        Self { workers: (0..workers.max(1)).map(|_| Cells::new()).collect() }
    }

    /// The cells of one worker.
    pub(crate) fn worker(&self, index: usize) -> &Cells {
        #[expect(
            clippy::indexing_slicing,
            reason = "there is at least one worker, and the index is below the count"
        )]
        &self.workers[index % self.workers.len()]
    }

    /// The value of one row.
    pub(crate) fn value(&self, counter: Counter) -> u64 {
        self.workers
            .iter()
            .filter_map(|cells| cells.values.get(counter as usize))
            .fold(0, |sum, cell| sum.wrapping_add(cell.load(Ordering::Relaxed)))
    }

    /// Requests that got the verdict with this reason.
    pub(crate) fn requests(&self, reason: Reason) -> u64 {
        self.workers
            .iter()
            .filter_map(|cells| cells.reasons.get(reason.index()))
            .map(|cell| cell.load(Ordering::Relaxed))
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::{COUNTERS, Counter, Counters};
    use std::collections::HashSet;

    #[test]
    fn rows_stand_in_the_order_of_the_enum_with_unique_names_and_sentences() {
        let names: HashSet<_> = COUNTERS.iter().map(|row| row.name).collect();
        assert_eq!(names.len(), COUNTERS.len());
        for (index, row) in COUNTERS.iter().enumerate() {
            assert_eq!(row.counter as usize, index);
            assert!(row.help.ends_with('.') && !row.help.contains("  "), "{}", row.name);
            assert!(!row.name.ends_with("_total"), "{}", row.name);
        }
    }

    #[test]
    fn a_reading_is_the_sum_over_workers_and_gauges_may_cross_them() {
        let counters = Counters::new(2);
        counters.worker(0).add(Counter::BytesSent, 5);
        counters.worker(1).add(Counter::BytesSent, 7);
        assert_eq!(counters.value(Counter::BytesSent), 12);
        counters.worker(0).count(Counter::ConnectionsOpen);
        counters.worker(1).discount(Counter::ConnectionsOpen);
        assert_eq!(counters.value(Counter::ConnectionsOpen), 0);
    }
}
