//! The edge's metrics: a table with each metric's name, kind and advice for the operator, and the
//! counters of each worker.
//!
//! Invariant: a worker writes only to its own cells, so workers do not contend for a cache line.
//! Background threads use the cells of worker 0. A reading is the sum over all workers. Gauges and
//! counters of other components are read on demand in `shared`. Rendering is done in `metrics`.

use semantics::Reason;
use std::sync::atomic::{AtomicU64, Ordering};

/// Whether a value is a counter or a gauge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A value that only grows until the process ends.
    Counter,
    /// A value that may rise and fall.
    Gauge,
}

/// One row of the table of metrics.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Which metric this is.
    pub metric: Metric,
    /// Counter or gauge.
    pub kind: Kind,
    /// The metric's name without the prefix `petasos_` and, for counters, without the suffix
    /// `_total`.
    pub name: &'static str,
    /// What the metric means and what to do about it.
    pub help: &'static str,
}

macro_rules! metrics {
    ($($variant:ident: $kind:ident $name:literal, $help:literal;)*) => {
        /// All metrics, except the number of requests by reason.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Metric {
            $(#[doc = $help] $variant,)*
        }

        /// The table of metrics, in the order of the enum.
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
    ConnectionsRefusedAddress: Counter "connections_refused_address",
        "Connections closed at once because their address had limits.connections_per_address_max open. If the address is \
         a proxy's, name it in trusted_proxies.";
    ConnectionsOpen: Gauge "connections_open",
        "Connections from visitors that are open now. Near limits.connections_max, raise that limit or lower \
         limits.idle_timeout.";
    RequestsMalformed: Counter "requests_malformed",
        "Requests refused because they are no correct HTTP/1. Some are normal on the open Internet; many from \
         one address are an attack or a broken client.";
    VisitorTimeouts: Counter "visitor_timeouts",
        "Connections closed because the visitor sent or took no octet for too long inside a request or \
         response. Many at once look like an attack with slow clients.";
    VisitorsTooSlow: Counter "visitors_too_slow",
        "Requests and responses broken off because the client stayed below limits.request_rate_min or \
         limits.response_rate_min. Many from one address are an attack with slow clients.";
    RequestsStreamed: Counter "requests_streamed",
        "Requests whose content went to the application while the client was still sending it: it was larger than \
         limits.request_buffer_bytes_max, found no room, or had to stream.";
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
    FetchesDenied: Counter "fetches_denied",
        "Shared fetches that an application refused with 401, 403, 407, 429 or 451; each client then asked with its own \
         address. Some are restricted pages. Many mean that the application bans the address client_address: let it \
         accept that address.";
    OriginBusy: Counter "origin_busy",
        "Fetches given up because all fetches of the application were in use and its queue was full or too \
         slow. Raise limits.fetches_max if the application can take more.";
    OriginFetchesActive: Gauge "origin_fetches_active",
        "Requests an application works on now. At limits.fetches_max others wait.";
    OriginFetchesWaiting: Gauge "origin_fetches_waiting",
        "Requests that wait for their turn at an application. More than a few for long mean that it is too slow.";
    OriginFetchesStalled: Gauge "origin_fetches_stalled",
        "Fetches in which an application waits until a slow client has taken or sent more. They do not count for \
         limits.fetches_max. At limits.stalled_fetches_max further ones do.";
    OriginBreakerState: Gauge "origin_breaker_state",
        "0 while the breaker of the application is closed, 1 while it is open because the application accepts connections \
         and does not answer, 2 while no connection can be made. Standard error tells each change.";
    OriginBreakerChanges: Counter "origin_breaker_changes",
        "Changes of that state. Many mean that the application is at the edge of what it can do.";
    BreakerStale: Counter "breaker_stale",
        "Requests answered at once with a stale copy because the breaker of their application is open.";
    BreakerRefusals: Counter "breaker_refusals",
        "Fetches that were not sent, or were given up because no client waited for them, because the breaker of their \
         application is open.";
    OriginConnectionsIdle: Gauge "origin_connections_idle",
        "Unused connections kept to an application.";
    ResponsesCut: Counter "responses_cut",
        "Responses that were cut off at the visitor because the application's response was. Nothing of them \
         is stored. Look for crashes in the application's log.";
    ResponsesDecoded: Counter "responses_decoded",
"Responses that were decoded from gzip for clients that do not accept it. Each costs processor time; many mean \
         that a monitor or a proxy in front should send Accept-Encoding.";
    DecodingsFailed: Counter "decodings_failed",
"Responses that were cut off while they were decoded, because the application's content is no whole gzip or is longer than \
         limits.decoded_bytes_max.";
    UncompressedSites: Gauge "uncompressed_sites",
        "Sites whose application sent a page of more than 4 KiB of text without compression, although gzip was offered. \
         Standard error names the page; the setting via_to_origin, or the application's web server, can mend it.";
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
    RefreshesPaused: Counter "refreshes_paused",
        "Stale responses served without fetching a newer one, because the application failed on their page less than \
         limits.failure_pause ago, or because its breaker is open.";
    FailurePauses: Counter "failure_pauses",
        "Times that a request waited for limits.failure_pause because the fetch that it waited for ended in an error of \
         the application. Look at the application's error log.";
    LeakChecks: Counter "leak_checks",
        "Requests with cookies that went to the application although their page was stored, to see whether the \
         application answers them with the same page.";
    LeakSuspicions: Counter "leak_suspicions",
        "Of these, those whose answer was not what is stored. The page is fetched again without cookies, to see \
         whether it is the page that changes.";
    LeaksPrevented: Counter "leaks_prevented",
        "Pages that were found to depend on cookies which the profile takes for noise. The log names page and \
         cookies; add those that change pages to session_cookies.";
    Purges: Counter "purges",
        "Orders to purge that were carried out.";
    PurgesForbidden: Counter "purges_forbidden",
        "Orders to purge from somebody who may not give them.";
    PurgesMalformed: Counter "purges_malformed",
        "Orders to purge that could not be understood, from clients or in the application's answers.";
    PurgesByAnswers: Counter "purges_by_answers",
        "Invalidations that the application's answers asked for.";
    PurgesByWrites: Counter "purges_by_writes",
        "Writes that a site's profile knows and that succeeded; what they change was made stale.";
    PurgesUndurable: Counter "purges_undurable",
        "Attempts to make purges outlive a restart that failed at every place: the disk, state_directory and \
         runtime_directory. Purges by clients were answered 503, or purge_partial_status.";
    PurgesAtRisk: Gauge "purges_at_risk",
        "1 while a restart would bring purged pages back. Do not restart; make state_directory writable.";
    PurgesListed: Gauge "purges_listed",
        "Prefixes, bans and groups of tags with which stored responses and fetches that began before are compared. At most \
         512; then the oldest becomes a purge of its site, of what nothing has checked since.";
    PurgesWidened: Counter "purges_widened",
        "Purges that met more than they named, because more came than the sweep over the stored responses could follow. \
         Name tags or pages instead of expressions.";
    PurgeComparisons: Counter "purge_comparisons",
        "Comparisons of stored responses with listed purges: the work that prefixes and bans leave behind.";
    WritesLeftToPurges: Counter "writes_left_to_purges",
        "Writes that a site's profile knows and that invalidated nothing, because the site purges by itself.";
    WritesPostponed: Counter "writes_postponed",
        "Writes beyond limits.writes_per_minute. The stored pages of the site are served while they are refreshed in the \
         background, which begins ten seconds after the first such write.";
    PageWritesPostponed: Counter "page_writes_postponed",
        "Stored pages that a request with an unsafe method named beyond limits.page_writes_per_minute. Each is served \
         until a fetch in the background has replaced it.";
    ParameterFloods: Counter "parameter_floods",
        "Requests that would have been fetched beyond unknown_parameters_per_minute. Each was answered by 429, or by the \
         page without its unknown parameters.";
    ForeignPorts: Counter "foreign_ports",
        "Requests that passed because of a port in Host that is not the site's, beyond limits.foreign_ports_max.";
    Refills: Counter "refills",
        "Fetches of purged pages before a visitor asked for them.";
    RefillFailures: Counter "refill_failures",
        "Such fetches that ended in an error of the application. After several in a row the rest is left to visitors.";
    RefillsPostponed: Counter "refills_postponed",
        "Times that such a fetch waited because the application had other things to do.";
    PopularPages: Gauge "popular_pages",
        "Most requested pages that are remembered to be fetched again after purges.";
    SitesRecognised: Counter "sites_recognised",
        "Detections of what a site runs on; the site changed to the profile for that.";
    DetectionsDropped: Counter "detections_dropped",
        "Detected profiles that were dropped because no sign confirmed them for seven days or an operator refused them.";
    DetectionDocuments: Counter "detection_documents",
        "Documents whose head was parsed for signs of a system; at most 60 of one site in a minute.";
    FillingBytes: Gauge "filling_bytes",
        "Memory reserved outside of the store: for bodies on their way into it, for windows of bodies that are not stored, \
         and for bodies that are read back from the disk. At most an eighth of the setting memory.";
    FillingsUnkept: Counter "fillings_unkept",
        "Bodies that are not stored in memory because too much of it was taken by other bodies that were \
         arriving or lingering; they go to the disk or to their clients alone. Give more memory, or lower limits.object_bytes_max.";
    BufferedBytes: Gauge "buffered_bytes",
        "Memory taken by bodies that wait between a client and an origin, beyond a small allowance for each. At \
         limits.buffer_memory_percent of memory they wait in spool_directory.";
    SpoolBytes: Gauge "spool_bytes",
        "Bytes that the unnamed files in spool_directory take. At spool_size further requests stream to their origin, and \
         origins wait for slow readers.";
    SpoolClosing: Gauge "spool_closing",
        "Files in spool_directory that wait to be closed. While it is 64 or more no further body is written there. Look at \
         the directory's disk, or choose another directory.";
    SpoolErrors: Counter "spool_errors",
        "Operations of spool_directory that failed or took longer than limits.disk_timeout. Bodies then wait in memory only. \
         Look at the directory's disk, or choose another one.";
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
    StoreShelved: Gauge "store_shelved",
        "Responses among the stored ones that are on the disk only.";
    DiskOff: Gauge "disk_off",
        "1 while stored responses should be kept on the disk and are not; standard error has the reason. Serving goes \
         on from memory.";
    DiskDistrusted: Gauge "disk_distrusted",
        "1 when a purge could not be written to the disk, so that the next start begins with an empty one.";
    DiskBytes: Gauge "disk_bytes",
        "Octets that the files in the disk directory take.";
    DiskObjects: Gauge "disk_objects",
        "Responses on the disk.";
    DiskQueueBytes: Gauge "disk_queue_bytes",
        "Octets that wait to be written to the disk.";
    DiskAccepted: Counter "disk_accepted",
        "The number of the last operation that was handed to the disk.";
    DiskDurable: Counter "disk_durable",
        "The number of the last operation that outlives the process, as do all before it. At most a second behind \
         disk_accepted.";
    DiskWritten: Counter "disk_written",
        "Responses written to the disk.";
    DiskRefused: Counter "disk_refused",
        "Responses not written to the disk because it was off or too much was waiting. They are in memory only.";
    DiskEvicted: Counter "disk_evicted",
        "Responses removed from the disk to make room. Many in comparison to disk_reads mean that disk_size is too \
         small.";
    DiskTorn: Counter "disk_torn",
        "Records on the disk that were dropped because they are not as they were written. Some are normal after a \
         crash; others mean that the disk fails.";
    DiskFull: Counter "disk_full",
        "Times that the disk had no room. Make room, or lower disk_size.";
    DiskErrors: Counter "disk_errors",
        "Operations that the disk refused for other reasons than want of room. Look at the system's log.";
    DiskFillBytes: Gauge "disk_fill_bytes",
        "Octets of the disk that responses on their way to it have reserved. Near limits.disk_fill_percent of \
         disk_size, large responses are passed on but not stored.";
    DiskFillsUnshared: Counter "disk_fills_unshared",
        "Responses not written to the disk because others on their way there took all of limits.disk_fill_percent. \
         Many mean that disk_size is small for the large files that visitors load at the same time.";
    DiskHangs: Counter "disk_hangs",
        "Times that an operation of the disk took longer than limits.disk_timeout. The disk is not used until it \
         answers again; look at the system's log.";
    DiskStuck: Gauge "disk_stuck",
        "Operations of the disk that take longer than limits.disk_timeout now, each with a thread that waits for it.";
    DiskDamaged: Counter "disk_damaged",
        "Reads of stored responses from the disk that failed or did not match their checksums. Each response is removed and \
         fetched again. A few are normal after a power cut; others mean that the disk fails.";
    DamagedResponsesCompleted: Counter "damaged_responses_completed",
        "Responses that ran into damage on the disk while they were sent, and were completed from the origin.";
    DamagedResponsesCut: Counter "damaged_responses_cut",
        "Responses that ran into damage on the disk while they were sent, and were cut off at the client: they have no \
         strong validator, or the origin did not send the missing bytes of the same version. The next request fetches the \
         whole response.";
    DiskVerifiedBytes: Counter "disk_verified_bytes",
        "Bytes of stored responses that were read from the disk in the background and matched their checksums. \
         limits.disk_verify_rate sets the pace.";
    DiskVerifyDamaged: Counter "disk_verify_damaged",
        "Stored responses that were found damaged on the disk in the background, and were removed before a client met the \
         damage. More than a few mean that the disk fails.";
    DiskReads: Counter "disk_reads",
        "Stored responses that were read from the disk because they were not in memory. Many in comparison to hits \
         mean that memory is small for what is asked for again.";
    DiskReadsRefused: Counter "disk_reads_refused",
        "Requests for stored responses on the disk that went to the origin because 4096 others were waiting to be read. \
         More than a few mean that the disk is slow.";
    StaticTreeOff: Gauge "static_tree_off",
        "1 while pages should be written to the static tree and are not; standard error has the reason. Serving goes on.";
    StaticTreePages: Gauge "static_tree_pages",
        "Pages in the static tree.";
    StaticTreeBytes: Gauge "static_tree_bytes",
        "Octets of the files in the static tree.";
    StaticTreeWritten: Counter "static_tree_written",
        "Pages written to the static tree.";
    StaticTreeRemoved: Counter "static_tree_removed",
        "Pages removed from the static tree because they were purged, expired, or replaced by what is no page.";
    StaticTreeErrors: Counter "static_tree_errors",
        "Operations on the static tree that the disk refused. Standard error says which; the pages are not in the tree, \
         and what could not be removed is tried again.";
    StaticTreeNoPages: Counter "static_tree_no_pages",
        "Stored responses that are no page for the static tree: not 200, not HTML in UTF-8, a part, or larger than 4 MiB.";
    StaticTreeNotForAll: Counter "static_tree_not_for_all",
        "Stored pages not written to the static tree because they vary on more than Accept-Encoding, or set a cookie.";
    StaticTreeShortLived: Counter "static_tree_short_lived",
        "Stored pages not written to the static tree because they are fresh for five seconds or less.";
    StaticTreePaths: Counter "static_tree_paths",
        "Stored responses not written to the static tree because their target has a query, or no safe name in the \
         layout, or another page has that name.";
    StaticTreeFull: Counter "static_tree_full",
        "Pages not written to the static tree because it has static_tree.pages_max pages or static_tree.size octets.";
    StaticTreeBusy: Counter "static_tree_busy",
        "Pages not written to the static tree because 256 others, or 32 MiB, were waiting to be. Use a faster disk.";
    Tunnels: Counter "tunnels",
        "Connections upgraded to another protocol, such as WebSocket, and passed through.";
    StreamsEnded: Counter "streams_ended",
        "Upgraded connections and event streams that were ended limits.drain_streams after SIGTERM.";
    AccessLogDropped: Counter "access_log_dropped",
        "Access log lines dropped because the log could not be written, or not fast enough. Make room, use a faster disk, \
         or raise limits.access_log_lines_max.";
    MessagesLost: Counter "messages_lost",
        "Messages to standard error that were lost because it is closed, full or read too slowly.";
}

/// The number of rows.
const METRIC_COUNT: usize = METRICS.len();

/// The counters of one worker. The alignment keeps two workers from sharing a cache line.
#[repr(align(128))]
#[derive(Debug)]
pub(crate) struct Cells {
    values: [AtomicU64; METRIC_COUNT],
    reasons: Vec<AtomicU64>,
}

/// The counters of all workers.
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
            // Relaxed is enough: no other memory depends on a counter.
            cell.fetch_add(amount, Ordering::Relaxed);
        }
    }

    /// Counts a request whose verdict has this reason.
    #[inline]
    pub(crate) fn count_reason(&self, reason: Reason) {
        if let Some(cell) = self.reasons.get(reason.index()) {
            cell.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Counters {
    /// Counters for this many workers, at least one.
    pub(crate) fn new(workers: usize) -> Self {
        Self { workers: (0..workers.max(1)).map(|_| Cells::new()).collect() }
    }

    /// The counters of one worker.
    pub(crate) fn worker(&self, index: usize) -> &Cells {
        #[expect(
            clippy::indexing_slicing,
            reason = "there is at least one worker, and the index is below the count"
        )]
        &self.workers[index % self.workers.len()]
    }

    /// The value of a counter, summed over all workers.
    pub(crate) fn value(&self, metric: Metric) -> u64 {
        self.workers
            .iter()
            .filter_map(|cells| cells.values.get(metric as usize))
            .map(|cell| cell.load(Ordering::Relaxed))
            .sum()
    }

    /// Number of requests whose verdict had this reason.
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
    fn rows_follow_the_enum_and_have_unique_names_and_sentences() {
        let names: HashSet<_> = METRICS.iter().map(|row| row.name).collect();
        assert_eq!(names.len(), METRICS.len());
        for (index, row) in METRICS.iter().enumerate() {
            assert_eq!(row.metric as usize, index);
            assert!(row.help.ends_with('.') && !row.help.contains("  "), "{}", row.name);
            assert!(!row.name.ends_with("_total"), "{}", row.name);
        }
    }

    #[test]
    fn value_of_a_counter_is_the_sum_over_all_workers() {
        let counters = Counters::new(2);
        counters.worker(0).add(Metric::BytesSent, 5);
        counters.worker(1).add(Metric::BytesSent, 7);
        assert_eq!(counters.value(Metric::BytesSent), 12);
    }
}
