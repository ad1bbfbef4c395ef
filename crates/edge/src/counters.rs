//! What the edge counts and measures: one table with each metric's name, kind and what it tells an operator to
//! do; and the cells that workers count in.
//!
//! Invariant: a worker writes to cells of its own only, so counting costs no cache line that another core
//! wants; a reading is the sum over all workers. What others count or hold is read where it is, in
//! `shared`, when asked for. Rendering is `metrics`' business.

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
    /// Which metric this is.
    pub metric: Metric,
    /// Whether it only grows.
    pub kind: Kind,
    /// The metric's name without the `petasos_` in front and, for counters, the `_total` behind it.
    pub name: &'static str,
    /// What it says and what to do about it.
    pub help: &'static str,
}

macro_rules! metrics {
    ($($variant:ident: $kind:ident $name:literal, $help:literal;)*) => {
        /// Everything that is counted or measured besides requests by reason.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Metric {
            $(#[doc = $help] $variant,)*
        }

        /// The table, in the order of the enum.
        pub const METRICS: &[Row] = &[
            $(Row { metric: Metric::$variant, kind: Kind::$kind, name: $name, help: $help },)*
        ];
    };
}

metrics! {
    ConnectionsAccepted: Counter "connections_accepted",
        "Connections accepted from visitors. About as many as requests means that something in front does not \
         keep connections alive.";
    ConnectionsRefused: Counter "connections_refused",
        "Connections closed at once because limits.connections_max were open. Raise the limit, or find out \
         who opens so many.";
    ConnectionsOpen: Gauge "connections_open",
        "Connections from visitors that are open now. Near limits.connections_max, raise that limit or lower \
         limits.idle_timeout.";
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
        "Fetches given up because all fetches of the application were in use and its queue was full or too \
         slow. Raise limits.fetches_max if the application can take more.";
    OriginFetchesActive: Gauge "origin_fetches_active",
        "Requests an application works on now. At limits.fetches_max others wait.";
    OriginFetchesWaiting: Gauge "origin_fetches_waiting",
        "Requests that wait for their turn at an application. More than a few for long mean that it is too slow.";
    OriginConnectionsIdle: Gauge "origin_connections_idle",
        "Unused connections kept to an application.";
    ResponsesCut: Counter "responses_cut",
        "Responses that were cut off at the visitor because the application's response was. Nothing of them \
         is stored. Look for crashes in the application's log.";
    FlightsStarted: Counter "flights_started",
        "Fetches whose answer any number of requests may share.";
    FlightsOpen: Gauge "flights_open",
        "Such fetches under way now.";
    FlightWaits: Counter "flight_waits",
        "Requests that waited for the fetch of another instead of asking the application themselves.";
    FlightWaitTimeouts: Counter "flight_wait_timeouts",
        "Requests that gave up waiting for another's fetch after limits.flight_wait and asked themselves. The \
         application is slow to start its answers.";
    BackgroundRefreshes: Counter "background_refreshes",
        "Fetches that replaced a stale response while it was still served.";
    Purges: Counter "purges",
        "Orders to purge that were carried out.";
    PurgesForbidden: Counter "purges_forbidden",
        "Orders to purge from somebody who may not give them.";
    PurgesMalformed: Counter "purges_malformed",
        "Orders to purge that could not be understood, from clients or in the application's answers.";
    PurgesByAnswers: Counter "purges_by_answers",
        "Invalidations that the application's answers asked for.";
    FillingBytes: Gauge "filling_bytes",
        "Octets held of bodies that arrive and will be stored.";
    FillingsUnkept: Counter "fillings_unkept",
        "Bodies passed on without being stored because too much memory was taken by other bodies that were \
         arriving or lingering. Give more memory, or lower limits.object_bytes_max.";
    LingeringBytes: Gauge "lingering_bytes",
        "Octets of responses that are no longer stored and still in memory, because visitors have not taken \
         all of them yet.";
    StoreBytes: Gauge "store_bytes",
        "Memory that stored responses occupy, index included.";
    StoreBytesMax: Gauge "store_bytes_max",
        "Memory that stored responses may occupy: most of the setting memory, and less while the process occupies \
         more than is stored. When store_bytes stays near it and evictions go on, give more.";
    StoreObjects: Gauge "store_objects",
        "Responses stored now.";
    StorePublished: Counter "store_published",
        "Responses stored.";
    StoreEvicted: Counter "store_evicted",
        "Responses removed to make room. Many in comparison to hits mean that memory is too \
         small.";
    Tunnels: Counter "tunnels",
        "Connections upgraded to another protocol, such as WebSocket, and passed through.";
    AccessLogDropped: Counter "access_log_dropped",
        "Access log lines dropped because the log could not be written fast enough. Use a faster disk, or \
         raise limits.access_log_lines_max.";
}

/// The number of rows.
const METRIC_COUNT: usize = METRICS.len();

/// The cells of one worker, on cache lines of their own.
#[repr(align(128))]
#[derive(Debug)]
pub(crate) struct Cells {
    values: [AtomicU64; METRIC_COUNT],
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
    pub(crate) fn count(&self, metric: Metric) {
        self.add(metric, 1);
    }

    /// Adds `amount`.
    #[inline]
    pub(crate) fn add(&self, metric: Metric, amount: u64) {
        if let Some(cell) = self.values.get(metric as usize) {
            cell.fetch_add(amount, Ordering::Relaxed);
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

    /// The value of a counter.
    pub(crate) fn value(&self, metric: Metric) -> u64 {
        self.workers
            .iter()
            .filter_map(|cells| cells.values.get(metric as usize))
            .map(|cell| cell.load(Ordering::Relaxed))
            .sum()
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
    use super::{Counters, METRICS, Metric};
    use std::collections::HashSet;

    #[test]
    fn rows_stand_in_the_order_of_the_enum_with_unique_names_and_sentences() {
        let names: HashSet<_> = METRICS.iter().map(|row| row.name).collect();
        assert_eq!(names.len(), METRICS.len());
        for (index, row) in METRICS.iter().enumerate() {
            assert_eq!(row.metric as usize, index);
            assert!(row.help.ends_with('.') && !row.help.contains("  "), "{}", row.name);
            assert!(!row.name.ends_with("_total"), "{}", row.name);
        }
    }

    #[test]
    fn a_reading_is_the_sum_over_workers() {
        let counters = Counters::new(2);
        counters.worker(0).add(Metric::BytesSent, 5);
        counters.worker(1).add(Metric::BytesSent, 7);
        assert_eq!(counters.value(Metric::BytesSent), 12);
    }
}
