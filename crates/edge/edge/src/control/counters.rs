//! The edge's metrics: a table with each metric's name, kind and advice for the operator, and the
//! counters of each worker.
//!
//! Invariant: a worker writes only to its own cells, so workers do not contend for a cache line.
//! Background threads use the cells of worker 0. A reading is the sum over all workers. Gauges and
//! counters of other components are read on demand in `metrics`, which renders all of them.

use std::sync::atomic::{AtomicU64, Ordering};

/// Whether a value is a counter or a gauge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// A value that only grows until the process ends.
    Counter,
    /// A value that may rise and fall.
    Gauge,
}

/// One row of the table of metrics.
#[derive(Clone, Copy, Debug)]
pub struct MetricRow {
    /// Which metric this is.
    pub metric: Metric,
    /// Counter or gauge.
    pub kind: MetricKind,
    /// The metric's name without the prefix `petasos_` and, for counters, without the suffix
    /// `_total`.
    pub name: &'static str,
    /// What the metric means and what to do about it.
    pub help: &'static str,
}

macro_rules! metrics {
    ($($variant:ident: $kind:ident $name:literal, $help:literal;)*) => {
        /// All metrics, except the number and the times of requests (`measures`).
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Metric {
            $(#[doc = $help] $variant,)*
        }

        /// The table of metrics, in the order of the enum.
        pub const METRICS: &[MetricRow] = &[
            $(MetricRow { metric: Metric::$variant, kind: MetricKind::$kind, name: $name, help: $help },)*
        ];
    };
}

metrics! {
    ConnectionsAccepted: Counter "connections_accepted",
        "Connections accepted from clients. If there are about as many as requests, something in front of \
         the edge does not keep connections alive.";
    ConnectionsRefused: Counter "connections_refused",
        "Connections closed at once because limits.connections_max were open. Raise the limit, or find out \
         which clients open so many.";
    ConnectionsRefusedAddress: Counter "connections_refused_address",
        "Connections closed at once because their address had limits.connections_per_address_max open. If the address is \
         a proxy's, name it in trusted_proxies.";
    ProxyHeadersFailed: Counter "proxy_headers_failed",
        "Connections from addresses in proxy_protocol that were closed because they did not begin with a \
         PROXY header. Let the proxy send one, or remove its address.";
    TlsHandshakes: Counter "tls_handshakes",
        "Connections from clients that were secured by TLS.";
    TlsHandshakesFailed: Counter "tls_handshakes_failed",
        "Connections closed because their TLS handshake failed: both sides had nothing in common, or the \
         client went away or spoke no TLS.";
    TlsHandshakeTimeouts: Counter "tls_handshake_timeouts",
        "Connections closed because their TLS handshake took longer than limits.tls_handshake_timeout.";
    Reloads: Counter "reloads",
        "Times that a changed configuration was put in force.";
    ReloadsRefused: Counter "reloads_refused",
        "Times that a changed configuration could not be used, so that the old one stayed in force. \
         Standard error says why.";
    Http2Connections: Counter "http2_connections",
        "Connections from clients that spoke HTTP/2.";
    Http2Floods: Counter "http2_floods",
        "Connections with HTTP/2 that were closed because the client sent frames without a purpose, or \
         reset its requests faster than they could end.";
    CertificateExpiry: Gauge "certificate_expiry_timestamp_seconds",
        "When the first certificate of the listeners expires, in seconds since 1970; 0 without TLS.";
    CertificatesReplaced: Counter "certificates_replaced",
        "Certificates that were read again because their files had changed.";
    CertificatesRefused: Counter "certificates_refused",
        "Changed certificate files that could not be used. The log names the file and the reason; the old \
         certificate stays in use.";
    AcmeCertificates: Counter "acme_certificates",
        "Certificates that an authority has issued by ACME.";
    AcmeFailures: Counter "acme_failures",
        "Attempts at a certificate by ACME that failed. The log and the admin address's /status have the \
         reason; the certificate in use stays.";
    AcmeFailing: Gauge "acme_failing",
        "Certificates whose last attempt by ACME failed. Mend the cause before \
         certificate_expiry_timestamp_seconds.";
    AcmeNextAttempt: Gauge "acme_next_attempt_timestamp_seconds",
        "When the next attempt at a certificate by ACME is due, in seconds since 1970. 0 without ACME, and \
         while an attempt is due at once.";
    AdminConnectionsRefused: Counter "admin_connections_refused",
        "Connections at the admin address that got 503 or were closed at once because \
         limits.admin_connections_max were open. Find out which clients keep theirs open, or raise the \
         limit.";
    DashboardLoginsRefused: Counter "dashboard_logins_refused",
        "Attempts to log in to the dashboard with a wrong token, or beyond five a minute from one client. \
         Many mean that a stranger reaches the admin address: let fewer machines reach it.";
    AdminTokensRefused: Counter "admin_tokens_refused",
        "Requests at the admin address with a wrong token, or after five wrong ones in a minute from one \
         client on another machine. Many mean that a stranger guesses: let fewer machines reach it.";
    ConnectionsOpen: Gauge "connections_open",
        "Connections from clients that are open now. If it is near limits.connections_max, raise that limit \
         or lower limits.idle_timeout.";
    RequestsMalformed: Counter "requests_malformed",
        "Requests refused because they are not correct HTTP/1. Some are normal on the open Internet; many \
         from one address are an attack or a broken client.";
    VisitorTimeouts: Counter "visitor_timeouts",
        "Connections closed because the client sent or read no byte for too long inside a request or \
         response. Many at once look like an attack with slow clients.";
    VisitorsTooSlow: Counter "visitors_too_slow",
        "Requests and responses aborted because the client stayed below limits.request_rate_min or \
         limits.response_rate_min. Many from one address are an attack with slow clients.";
    RequestsStreamed: Counter "requests_streamed",
        "Requests whose content went to the origin while the client was still sending it. The content was \
         larger than limits.request_buffer_bytes_max, there was no space for it, or the kind of request \
         requires streaming.";
    VisitorsGone: Counter "visitors_gone",
        "Responses that were not sent completely because the client closed the connection, and requests \
         over HTTP/2 that the client reset before they began. Usually harmless; many mean that pages are \
         slow, or that a client resets its requests on purpose.";
    BytesSent: Counter "bytes_sent",
        "Bytes sent to clients, heads included.";
    BytesReceived: Counter "bytes_received",
        "Bytes received from clients, heads included.";
    OriginFetches: Counter "origin_fetches",
        "Requests sent to origins. This is the load that the edge lets through; compare it with the number \
         of requests that the edge answers.";
    OriginRefusals: Counter "origin_refusals",
        "Fetches that found no connection to the origin, or none that could be secured. Start the \
         application, correct the origin's address, or read in the log what TLS refuses.";
    OriginTimeouts: Counter "origin_timeouts",
        "Fetches that exceeded limits.connect_timeout, limits.first_byte_timeout or \
         limits.between_bytes_timeout. The origin is overloaded or blocked: look at its slow requests.";
    OriginFaults: Counter "origin_faults",
        "Responses from origins that violated HTTP or ended too early. Look for crashes in the \
         application's log.";
    FetchesDenied: Counter "fetches_denied",
        "Shared fetches that an origin refused with 401, 403, 407, 429 or 451; each client's request was \
         then sent with its own address. Some are restricted pages. Many mean that the application bans the \
         address client_address: let it accept that address.";
    OriginBusy: Counter "origin_busy",
        "Fetches abandoned because all fetches of the origin were in use and its queue was full or too \
         slow. Raise limits.fetches_max if the application can process more.";
    OriginFetchesActive: Gauge "origin_fetches_active",
        "Requests that an origin processes now. At petasos_origin_fetches_max, further requests wait.";
    OriginFetchesMax: Gauge "origin_fetches_max",
        "Requests that an origin may process at a time: limits.fetches_max, or less with origin_limit = \
         \"adaptive\". If it falls while the site is slow, the application is short of processor time or \
         workers.";
    OriginFetchesWaiting: Gauge "origin_fetches_waiting",
        "Requests in the queue of an origin. If it stays above a few for long, the origin is too slow.";
    OriginFetchesStalled: Gauge "origin_fetches_stalled",
        "Fetches in which the origin waits until a slow client has read or sent more. They do not count for \
         limits.fetches_max. At limits.stalled_fetches_max further ones do.";
    OriginBreakerState: Gauge "origin_breaker_state",
        "State of the origin's breaker. 0: closed. 1: open because the origin accepts connections and does \
         not respond. 2: open because no connection can be made. Standard error reports each change.";
    OriginBreakerChanges: Counter "origin_breaker_changes",
        "Changes of the state of the origin's breaker. Many mean that the origin is at the limit of its \
         capacity.";
    OriginFailing: Gauge "origin_failing",
        "1 while an origin answers with server errors only or fails its health checks, so that the site's \
         other origins get its requests. Look for the cause in the application's log.";
    OriginRetries: Counter "origin_retries",
        "Requests that were sent to another origin of the site, because the first could not be reached or \
         sent no response. At most a tenth of all requests, and ten at once.";
    BreakerStale: Counter "breaker_stale",
        "Requests answered at once with a stale copy because their origin's breaker is open.";
    BreakerRefusals: Counter "breaker_refusals",
        "Fetches that were not sent, or were abandoned because no client waited for them, because their \
         origin's breaker is open.";
    OriginConnectionsIdle: Gauge "origin_connections_idle",
        "Unused connections kept to an origin.";
    ResponsesCut: Counter "responses_cut",
        "Responses that were cut off at the client because the origin's response was cut off. Petasos \
         stores nothing of them. Look for crashes in the application's log.";
    ResponsesDecoded: Counter "responses_decoded",
"Responses that Petasos decoded from gzip for clients that do not accept it. Each costs processor time; \
 many mean that a monitor or a proxy in front should send Accept-Encoding.";
    DecodingsFailed: Counter "decodings_failed",
"Responses that were cut off during decoding, because the origin's content is no complete gzip stream or is \
 longer than limits.decoded_bytes_max.";
    Encodings: Counter "encodings",
        "Stored responses of which the encoder thread has made coded forms.";
    EncodingBytesRead: Counter "encoding_bytes_read",
        "Bytes of content that the encoder thread has compressed, once for each coding.";
    EncodingBytesMade: Counter "encoding_bytes_made",
        "Bytes of the coded forms that the encoder thread has made. Compare them with encoding_bytes_read.";
    EncodingsUseless: Counter "encodings_useless",
        "Stored responses without coded forms, because a form saves less than 5%, the content is longer than \
         compression.size_max, or it is not in its Content-Encoding. If there are many, remove their types \
         from compression.types.";
    EncodingsVoid: Counter "encodings_void",
        "Orders of coded forms whose response left the store, or whose forms had no room in it. Many mean \
         that memory is too small for the pages that visitors use.";
    EncodingsDropped: Counter "encodings_dropped",
        "Uses of a stored response that would have ordered its coded forms while the queue was full. A \
         later use orders them. Many mean that the processor is busy, or that purges make all forms anew.";
    EncodingsWaiting: Gauge "encodings_waiting",
        "Orders of coded forms that wait for the encoder thread. At 16384, further ones are dropped.";
    FormBytes: Gauge "store_form_bytes",
        "The part of store_bytes that coded forms occupy.";
    ResponsesBrotli: Counter "responses_br",
        "Stored responses that were sent in a form with the coding br that Petasos has made.";
    ResponsesZstd: Counter "responses_zstd",
        "Stored responses that were sent in a form with the coding zstd that Petasos has made.";
    ResponsesGzip: Counter "responses_gzip",
        "Stored responses that were sent in a form with the coding gzip that Petasos has made.";
    MissesCoded: Counter "misses_coded",
        "Responses that were compressed while they were fetched (compression.misses).";
    UncompressedSites: Gauge "uncompressed_sites",
        "Sites whose origin sent a page of more than 4 KiB of text without compression, although the \
         request accepted gzip. Standard error names the page. The setting via_to_origin, or the \
         configuration of the origin's web server, can correct this.";
    FlightsStarted: Counter "flights_started",
        "Shared fetches started. Any number of requests may share the response of one.";
    FlightsOpen: Gauge "flights_open",
        "Shared fetches in progress now.";
    FlightWaits: Counter "flight_waits",
        "Requests that waited for another request's fetch and did not send their own request to the origin.";
    EarlyHints: Counter "early_hints",
        "Responses 103 with the links of a stored page, sent to browsers that waited for a newer copy \
         (early_hints).";
    EsiPages: Counter "esi_pages",
        "Pages assembled from ESI templates (esi).";
    EsiFragments: Counter "esi_fragments",
        "Fragments of ESI templates that were requested. Each is a request of its own in the other figures.";
    EsiFragmentsFailed: Counter "esi_fragments_failed",
        "Fragments of ESI templates that could not be had in time, from neither src nor alt, or that were \
         refused by a limit.";
    EsiGaps: Counter "esi_gaps",
        "Missing fragments that left a comment in a page, because the template has neither onerror nor \
         esi:try for them.";
    EsiFaults: Counter "esi_faults",
        "Faults of ESI markup in assembled pages, which leave the markup in the page. Standard error names \
         the page and the fault.";
    PrivateStored: Counter "private_copies_stored",
        "Responses kept for the session whose own request they answered (logged_in).";
    PrivateEnded: Counter "private_sessions_ended",
        "Sessions whose copies were removed, because the session wrote or its cookie was set anew.";
    PrivateEvicted: Counter "private_copies_evicted",
        "Copies for sessions that were removed because limits.private_session_bytes_max or \
         limits.private_bytes_max was reached.";
    PrivateSessions: Gauge "private_sessions",
        "Sessions that have copies of pages now.";
    PrivateBytes: Gauge "private_bytes",
        "Bytes of the copies that sessions have.";
    ContextRequests: Counter "context_requests",
        "Requests to the origin for the rights of a visitor (context_path).";
    ContextFailures: Counter "context_failures",
        "Requests for the rights of a visitor that were late or had no usable answer.";
    ContextStored: Counter "context_copies_stored",
        "Responses kept for visitors with the same rights (logged_in).";
    ContextChanged: Counter "context_copies_dropped",
        "Responses that were not kept because the rights of their visitor had changed or could not be \
         confirmed.";
    ContextEvicted: Counter "context_copies_evicted",
        "Pages for visitors with the same rights that were removed because limits.contexts_max, \
         limits.context_copies_max or limits.context_bytes_max was reached.";
    Contexts: Gauge "contexts",
        "Contexts that have pages now, counted for each site.";
    ContextCopies: Gauge "context_copies",
        "Pages that visitors with the same rights share now.";
    ContextBytes: Gauge "context_bytes",
        "Bytes of the pages that visitors with the same rights share.";
    ContextSessions: Gauge "context_sessions",
        "Sessions whose rights are remembered or asked for.";
    FlightWaitTimeouts: Counter "flight_wait_timeouts",
        "Requests that stopped waiting for another request's fetch after limits.flight_wait and started \
         their own. The origin is slow to start its responses.";
    BackgroundRefreshes: Counter "background_refreshes",
        "Background fetches that replaced a stale response while it was still served.";
    RefreshesPaused: Counter "refreshes_paused",
        "Stale responses served without a background refresh, because the origin failed on their page less \
         than limits.failure_pause ago, or because its breaker is open.";
    FailurePauses: Counter "failure_pauses",
        "Times that a request waited for limits.failure_pause because the fetch that it shared ended in an \
         error of the origin. Look at the application's error log.";
    LeakChecks: Counter "leak_checks",
        "Requests with cookies that the leak guard sent to the origin although their page was stored, to \
         compare the origin's response with the stored page.";
    LeakSuspicions: Counter "leak_suspicions",
        "Checks by the leak guard in which the origin's response differed from the stored page. Petasos \
         then fetches the page again without cookies, to see whether the page changes by itself.";
    LeaksPrevented: Counter "leaks_prevented",
        "Pages that depend on cookies which the profile classifies as noise, as the leak guard found out. \
         The log names page and cookies; add those that change pages to session_cookies.";
    Purges: Counter "purges",
        "Purge requests that were carried out.";
    PurgesForbidden: Counter "purges_forbidden",
        "Purge requests from clients that are not authorised.";
    PurgesMalformed: Counter "purges_malformed",
        "Purge orders that could not be parsed, from clients or in the origin's responses.";
    PurgesByAnswers: Counter "purges_by_answers",
        "Invalidations that the origin's responses demanded.";
    PurgesByWrites: Counter "purges_by_writes",
        "Successful writes that a site's profile recognises. Petasos marked as stale the pages that they \
         change.";
    PurgesUndurable: Counter "purges_undurable",
        "Purges that a restart could undo when they were answered: neither the disk nor state_directory nor \
         runtime_directory could be written in time. The response to a client's purge was 503, or \
         purge_partial_status. Further attempts for the same purge do not count.";
    PurgesAtRisk: Gauge "purges_at_risk",
        "1 while a restart would bring purged pages back. Do not restart; make state_directory writable.";
    PurgesListed: Gauge "purges_listed",
        "Listed purges: prefixes, bans and groups of tags. Petasos compares them with stored responses and \
         fetches that began before. The maximum is 512; then the oldest becomes a purge of its site for all \
         responses that were not yet compared with it.";
    PurgesWidened: Counter "purges_widened",
        "Purges that removed more than they named, because purges arrived faster than the sweep over the \
         stored responses could process them. Name tags or pages instead of expressions.";
    PurgeComparisons: Counter "purge_comparisons",
        "Comparisons of stored responses with listed purges: the work that prefixes and bans cause later.";
    WritesLeftToPurges: Counter "writes_left_to_purges",
        "Writes that a site's profile recognises and that invalidated nothing, because the site purges by \
         itself.";
    WritesPostponed: Counter "writes_postponed",
        "Writes beyond limits.writes_per_minute. Petasos serves the stored pages of the site while it \
         refreshes them in the background. The refresh begins ten seconds after the first of these writes.";
    PageWritesPostponed: Counter "page_writes_postponed",
        "Requests with an unsafe method that named a stored page beyond limits.page_writes_per_minute. \
         Petasos serves the page while it refreshes it in the background. The refresh begins with the first \
         request for the page ten seconds later.";
    ClientsDenied: Counter "clients_denied",
        "Connections and requests refused because their client is in guard.deny.";
    ClientsBanned: Counter "clients_banned",
        "Connections and requests refused at once because their client went on beyond its limits \
         (guard.ban). Standard error names such clients. If one is a proxy, name it in trusted_proxies.";
    ClientsTooFast: Counter "clients_too_fast",
        "Requests refused because their client exceeded guard.requests_per_second. The access log names \
         them by the reason client-rate.";
    ClientsTooCostly: Counter "clients_too_costly",
        "Requests refused because their client exceeded guard.origin_requests_per_second. The access log \
         names them by the reason client-origin-rate.";
    ParameterFloods: Counter "parameter_floods",
        "Requests beyond unknown_parameters_per_minute that would have needed a fetch. Petasos answered \
         each with 429, or with the page without its unknown parameters.";
    ForeignPorts: Counter "foreign_ports",
        "Requests that passed because of a port in Host that is not the site's, beyond limits.foreign_ports_max.";
    Refills: Counter "refills",
        "Refills: fetches of purged pages before a visitor requested them.";
    RefillFailures: Counter "refill_failures",
        "Refills that ended in an error of the origin. After three in a row, the refill of the site stops, \
         and visitors' requests fetch its remaining pages.";
    RefillsPostponed: Counter "refills_postponed",
        "Times that a refill waited because the origin was busy with other requests.";
    WarmFetches: Counter "warm_fetches",
        "Fetches that fill the cache by `warm` or `petasos warm`. docs/warming.md describes it.";
    WarmedPages: Counter "warmed_pages",
        "Pages of the site that Petasos has stored or confirmed to fill its cache.";
    WarmFreshPages: Counter "warm_fresh_pages",
        "Pages that were fresh already when Petasos filled the cache of the site.";
    WarmUncacheablePages: Counter "warm_uncacheable_pages",
        "Pages that could not be stored when Petasos filled the cache of the site. `petasos warm` names the \
         commonest reason, and `petasos why` the cause for a page.";
    WarmFailures: Counter "warm_failures",
        "Pages whose second fetch failed too when Petasos filled the cache of the site. Look into the log of \
         the application.";
    WarmPagesLeft: Gauge "warm_pages_left",
        "Pages that are left in the run that fills the cache of the site; 0 without one.";
    PopularPages: Gauge "popular_pages",
        "Most requested pages that Petasos remembers for refilling after purges.";
    SitesRecognised: Counter "sites_recognised",
        "Detections of the system behind a site. The site then got the profile for that system.";
    DetectionsDropped: Counter "detections_dropped",
        "Detected profiles that were dropped because no sign confirmed them for seven days or an operator refused them.";
    DetectionDocuments: Counter "detection_documents",
        "Documents whose head Petasos parsed for signs of a system; at most 60 per site and minute.";
    FillingBytes: Gauge "filling_bytes",
        "Memory reserved outside of the store: at most an eighth of the setting memory, and 64 KiB for each \
         body. It holds bodies that will be stored, windows of bodies that are not stored, and bodies that \
         are read back from the disk.";
    FillingsUnkept: Counter "fillings_unkept",
        "Bodies that were not stored in memory because other arriving or lingering bodies occupied too much \
         of it. They go to the disk, or to their clients only. Give more memory, or lower \
         limits.object_bytes_max.";
    BufferedBytes: Gauge "buffered_bytes",
        "Memory occupied by bodies that wait between a client and an origin, beyond a small allowance for \
         each. At limits.buffer_memory_percent of memory they wait in spool_directory.";
    SpoolBytes: Gauge "spool_bytes",
        "Size of the unnamed files in spool_directory. At spool_size further requests stream to their \
         origin, and origins wait for slow readers.";
    SpoolClosing: Gauge "spool_closing",
        "Files in spool_directory that wait to be closed. While it is 64 or more, Petasos writes no further \
         body there. Look at the directory's disk, or choose another directory.";
    SpoolErrors: Counter "spool_errors",
        "Operations on spool_directory that failed or took longer than limits.disk_timeout. Bodies then \
         wait in memory only. Look at the directory's disk, or choose another one.";
    LingeringBytes: Gauge "lingering_bytes",
        "Bytes of responses that are no longer stored and still in memory, because clients have not read \
         all of them yet.";
    StoreBytes: Gauge "store_bytes",
        "Memory that stored responses occupy, index included.";
    StoreBytesMax: Gauge "store_bytes_max",
        "Memory that stored responses may occupy. It is most of the setting memory, and less while the \
         process occupies more memory than stored responses account for. If store_bytes stays near it and \
         evictions continue, give more memory.";
    StoreObjects: Gauge "store_objects",
        "Responses stored now.";
    StorePublished: Counter "store_published",
        "Responses stored since the start.";
    StoreEvicted: Counter "store_evicted",
        "Responses evicted to free memory. Many in comparison to hits mean that memory is too small.";
    StoreShelved: Gauge "store_shelved",
        "Stored responses that are on the disk only.";
    DiskOff: Gauge "disk_off",
        "1 while the disk is configured for stored responses and not in use; standard error has the reason. \
         Petasos continues to serve from memory.";
    DiskDistrusted: Gauge "disk_distrusted",
        "1 when a purge could not be written to the disk, so that the next start begins with an empty one.";
    DiskBytes: Gauge "disk_bytes",
        "Size in bytes of the files in the disk directory.";
    DiskObjects: Gauge "disk_objects",
        "Responses on the disk.";
    DiskQueueBytes: Gauge "disk_queue_bytes",
        "Bytes that wait to be written to the disk.";
    DiskAccepted: Counter "disk_accepted",
        "Number of the last operation that was handed to the disk.";
    DiskDurable: Counter "disk_durable",
        "Number of the last operation that survives the end of the process, as do all before it. It is at \
         most a second behind disk_accepted.";
    DiskWritten: Counter "disk_written",
        "Responses written to the disk.";
    DiskRefused: Counter "disk_refused",
        "Responses not written to the disk because it was off or its write queue was full. They are in \
         memory only.";
    DiskEvicted: Counter "disk_evicted",
        "Responses evicted from the disk to free space. Many in comparison to disk_reads mean that \
         disk_size is too small.";
    DiskTorn: Counter "disk_torn",
        "Records on the disk that were dropped because their contents differ from those written. Some are \
         normal after a crash; others mean that the disk fails.";
    DiskFull: Counter "disk_full",
        "Times that the disk had no free space. Free some, or lower disk_size.";
    DiskErrors: Counter "disk_errors",
        "Disk operations that failed for reasons other than lack of space. Look at the system's log.";
    DiskFillBytes: Gauge "disk_fill_bytes",
        "Disk space in bytes reserved by responses that are being written. Near limits.disk_fill_percent of \
         disk_size, Petasos forwards large responses and does not store them.";
    DiskFillWaitingBytes: Gauge "disk_fill_waiting_bytes",
        "Bytes of responses that are received from the origin while they are written to the disk, and that \
         are not written yet. At most half of the write queue and one read from the origin, because \
         Petasos then reads no faster than the disk writes.";
    DiskFillsUnshared: Counter "disk_fills_unshared",
        "Responses not written to the disk because other responses being written took all of \
         limits.disk_fill_percent. Many mean that disk_size is small for the large files that clients load \
         at the same time.";
    DiskHangs: Counter "disk_hangs",
        "Times that a disk operation took longer than limits.disk_timeout. Petasos does not use the disk \
         until it answers again; look at the system's log.";
    DiskStuck: Gauge "disk_stuck",
        "Disk operations that have now taken longer than limits.disk_timeout, each with a thread that waits \
         for it.";
    DiskDamaged: Counter "disk_damaged",
        "Reads of stored responses from the disk that failed or did not match their checksums. Petasos \
         removes each response and fetches it again. A few are normal after a power cut; others mean that \
         the disk fails.";
    DamagedResponsesCompleted: Counter "damaged_responses_completed",
        "Responses that met damage on the disk while they were sent, and that Petasos completed from the \
         origin.";
    DamagedResponsesCut: Counter "damaged_responses_cut",
        "Responses that met damage on the disk while they were sent, and that Petasos cut off at the \
         client. They have no strong validator, or the origin did not send the missing bytes of the same \
         version. The next request fetches the whole response.";
    DiskVerifiedBytes: Counter "disk_verified_bytes",
        "Bytes of stored responses that Petasos read from the disk in the background and that matched their \
         checksums. limits.disk_verify_rate sets the pace.";
    DiskVerifyDamaged: Counter "disk_verify_damaged",
        "Stored responses that Petasos found damaged on the disk in the background and removed before a \
         client met the damage. More than a few mean that the disk fails.";
    DiskReads: Counter "disk_reads",
        "Stored responses that were read from the disk because they were not in memory. Many in comparison \
         to hits mean that memory is too small for the pages in demand.";
    FileSearches: Counter "file_searches",
        "Look-ups of files (setting files) that had to read a directory from its disk, on a thread.";
    FilesOpen: Gauge "files_open",
        "Files that are open for responses (setting files). At the limit, a quarter of the process's limit of \
         descriptors and 4096 at most, requests for further files of more than 16 KiB fail.";
    DiskReadsRefused: Counter "disk_reads_refused",
        "Requests for stored responses on the disk that went to the origin because 4096 other reads were \
         waiting. More than a few mean that the disk is slow.";
    StaticTreeOff: Gauge "static_tree_off",
        "1 while the static tree is configured and Petasos cannot write pages to it; standard error has the \
         reason. Serving continues.";
    StaticTreePages: Gauge "static_tree_pages",
        "Pages in the static tree.";
    StaticTreeBytes: Gauge "static_tree_bytes",
        "Size in bytes of the files in the static tree.";
    StaticTreeWritten: Counter "static_tree_written",
        "Pages written to the static tree.";
    StaticTreeRemoved: Counter "static_tree_removed",
        "Pages removed from the static tree because they were purged, expired, or replaced by a response \
         that is no page.";
    StaticTreeErrors: Counter "static_tree_errors",
        "Operations on the static tree that the disk refused. Standard error names them. The pages are not \
         in the tree, and Petasos tries failed removals again.";
    StaticTreeNoPages: Counter "static_tree_no_pages",
        "Stored responses that are no page for the static tree: not 200, not HTML in UTF-8, a part, or larger than 4 MiB.";
    StaticTreeNotForAll: Counter "static_tree_not_for_all",
        "Stored pages not written to the static tree because they vary on more than Accept-Encoding, or set a cookie.";
    StaticTreeShortLived: Counter "static_tree_short_lived",
        "Stored pages not written to the static tree because they are fresh for five seconds or less.";
    StaticTreePaths: Counter "static_tree_paths",
        "Stored responses not written to the static tree because of their target. It has a query or no safe name in \
         the layout, or another page has that name.";
    StaticTreeFull: Counter "static_tree_full",
        "Pages not written to the static tree because it has static_tree.pages_max pages or \
         static_tree.size bytes.";
    StaticTreeBusy: Counter "static_tree_busy",
        "Pages not written to the static tree because 256 other pages, or 32 MiB, were waiting to be \
         written. Use a faster disk.";
    Tunnels: Counter "tunnels",
        "Connections upgraded to another protocol, such as WebSocket, and forwarded.";
    StreamsEnded: Counter "streams_ended",
        "Upgraded connections and event streams that Petasos ended limits.drain_streams after SIGTERM.";
    AccessLogDropped: Counter "access_log_dropped",
        "Access log lines dropped because the log could not be written, or not fast enough. Free disk \
         space, use a faster disk, or raise limits.access_log_lines_max.";
    DashboardStreams: Gauge "dashboard_streams",
        "Event streams of the dashboard that are open, at most 8. Each open page of the dashboard with live \
         values has one.";
    LogFollowers: Gauge "log_followers",
        "Clients of the admin address that follow the log (petasos log, petasos top), at most 8. While there \
         is one, each request is recorded in full.";
    LogSkipped: Counter "log_skipped",
        "Records of requests that a client following the log did not get, because it reads too slowly. It \
         learns their number. Use a filter, or a faster connection.";
    HistoryOff: Gauge "history_off",
        "1 while the values of each minute do not reach their file in state_directory. Either the disk fails, or \
         another process keeps its values there: give each process its own state_directory.";
    HistoryMinutesLost: Counter "history_minutes_lost",
        "Minutes whose values are missing in the file of the dashboard's history, because the disk of \
         state_directory was late or failed for two hours. Standard error has the reason.";
    TraceSpansExported: Counter "trace_spans_exported",
        "Spans that the collector of trace_export has accepted.";
    TraceSpansDropped: Counter "trace_spans_dropped",
        "Spans that were not exported, because the collector refused them or 4 MiB of spans were waiting. A request \
         beyond limits.client_traces_max counts as one span. Look at the collector, or raise trace_export_every.";
    TraceExportFailures: Counter "trace_export_failures",
        "Attempts to send spans to the collector of trace_export that failed. Standard error has the reason.";
    MessagesLost: Counter "messages_lost",
        "Messages to standard error that were lost because it is closed, full or read too slowly.";
    Panics: Counter "panics",
        "Panics of threads and tasks. Standard error states the source line of each. A panic in a \
         connection's task closes that connection. Report each as a bug.";
    ThreadsLost: Counter "threads_lost",
        "Threads, tasks and their jobs that ended unexpectedly. Standard error names each. Petasos starts \
         threads and tasks again; after a panic of the disk's writer, the disk stays off until a restart. \
         Report each as a bug.";
}

/// The number of rows.
const METRIC_COUNT: usize = METRICS.len();

/// The counters of one worker. The alignment keeps two workers from sharing a cache line.
#[repr(align(128))]
#[derive(Debug)]
pub(crate) struct Cells {
    values: [AtomicU64; METRIC_COUNT],
}

/// The counters of all workers.
#[derive(Debug)]
pub(crate) struct EdgeCounters {
    workers: Vec<Cells>,
}

impl Cells {
    fn new() -> Self {
        Self { values: std::array::from_fn(|_| AtomicU64::new(0)) }
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
}

impl EdgeCounters {
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
}

#[cfg(test)]
mod tests {
    use super::{EdgeCounters, METRICS, Metric};
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
        let counters = EdgeCounters::new(2);
        counters.worker(0).add(Metric::BytesSent, 5);
        counters.worker(1).add(Metric::BytesSent, 7);
        assert_eq!(counters.value(Metric::BytesSent), 12);
    }
}
