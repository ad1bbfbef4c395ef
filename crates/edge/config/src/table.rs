//! The settings table: one row for every setting.
//! The file format, the flags of `petasos serve`, `petasos check --print` and docs/settings.md all
//! come from these rows.

use crate::admin_table::ADMIN;
use crate::compression_table::COMPRESSION;
use crate::context_table::CONTEXT_LIMITS;
use crate::guard_table::GUARD;
use crate::listener_table::LISTENER;
use crate::log_table::LOGS;
use crate::route_table::ROUTE;
use crate::row::{global, row, site};
use crate::setting::{Setting, SettingKind, SettingScope};
use crate::site_table::SITE;
use crate::warm_table::WARM;

/// Upper bound of all limits that count connections, fetches or waiting requests.
pub(crate) const COUNT_MAX: u64 = 1_000_000;

/// Upper bound of the limits on header fields in a message: the parser's own limit.
const FIELDS_MAX: u64 = 256;

/// The largest value of `limits.http2_streams_max`.
const STREAMS_MAX: u64 = 10_000;

/// All settings: listeners first, then the edge, then sites and routes, then limits by where they
/// act.
pub const SETTINGS: &[Setting] =
    &joined([LISTENER, ADMIN, EDGE, LOGS, SITE, COMPRESSION, WARM, ROUTE, GUARD, LIMITS, CONTEXT_LIMITS]);

const SETTINGS_COUNT: usize = LISTENER.len()
    + ADMIN.len()
    + EDGE.len()
    + LOGS.len()
    + SITE.len()
    + COMPRESSION.len()
    + WARM.len()
    + ROUTE.len()
    + GUARD.len()
    + LIMITS.len()
    + CONTEXT_LIMITS.len();

/// Concatenates the parts. A `const fn`, because `SETTINGS` is a constant; hence the loops over
/// indices.
#[expect(clippy::indexing_slicing, reason = "the compiler evaluates it, and refuses an index out of range")]
const fn joined(parts: [&[Setting]; 11]) -> [Setting; SETTINGS_COUNT] {
    let [first, ..] = parts;
    let mut all = [first[0]; SETTINGS_COUNT];
    let (mut part, mut count) = (0, 0);
    while part < parts.len() {
        let mut row = 0;
        while row < parts[part].len() {
            all[count] = parts[part][row];
            (row, count) = (row + 1, count + 1);
        }
        part += 1;
    }
    all
}

/// Settings of the edge itself: its storage and its trusted peers.
const EDGE: &[Setting] = &[
    row(
        "workers",
        SettingScope::Global,
        SettingKind::Count(1, 1024),
        None,
        "Threads that serve connections. If left out: one less than the number of processor cores, and at \
         least one. The remaining core keeps an application on the same machine responsive during a flood of \
         hits.",
    )
    .flag("--workers"),
    row(
        "memory",
        SettingScope::Global,
        SettingKind::Size,
        None,
        "Memory that the process may occupy, including stored responses and bodies in transfer; \
         docs/performance.md states the margin. If left out: a quarter of the machine's memory, or of the \
         control group's limit if there is one.",
    )
    .flag("--memory"),
    row(
        "disk",
        SettingScope::Global,
        SettingKind::Text,
        None,
        "Directory where Petasos also keeps stored responses. A restart, even after a crash, then begins \
         with a warm cache, and responses that were evicted from memory need no new fetch. The directory \
         belongs to one edge alone; Petasos refuses a directory with files of other programs. If left out: \
         memory only.",
    )
    .flag("--disk"),
    global(
        "disk_size",
        SettingKind::Size,
        "10GiB",
        "Largest total size of the files in the directory `disk`. When it is reached, Petasos evicts the \
         oldest responses that are not in memory too.",
    )
    .flag("--disk-size"),
    global(
        "purge_durability",
        SettingKind::Choice(&["process", "power"]),
        "process",
        "Events that an answered purge survives when `disk` is set. `process`: any end of the process; \
         after a power cut Petasos validates every stored response before it uses it. `power`: also a power \
         cut; each purge waits until it is on the disk.",
    )
    .flag("--purge-durability"),
    row(
        "state_directory",
        SettingScope::Global,
        SettingKind::Text,
        None,
        "Directory, best on another device than `disk`, with a small file that vouches for the contents of \
         `disk`. If `disk` fails during a purge, Petasos invalidates this file, and the next start begins with \
         an empty `disk`. Certificates that Petasos obtains itself (`tls`) are here too, with their keys. So are the \
         values of each minute of 30 days, and the weekly summaries. `none`: no such directory. If left out: $STATE_DIRECTORY; else \
         /var/lib/petasos for root, and petasos in $XDG_STATE_HOME or ~/.local/state for other users.",
    ),
    row(
        "runtime_directory",
        SettingScope::Global,
        SettingKind::Text,
        None,
        "Directory with a small file that vouches for the contents of `disk` until the machine restarts. It \
         may be empty after a restart of the machine. Petasos uses it if `purge_durability` is `process`. The directory must outlive the \
         service: if its file is missing at a start after a crash, `disk` begins empty. `none`: no such \
         directory. If left out: petasos in $XDG_RUNTIME_DIR, else /run/petasos unless systemd removes that \
         with the service ($RUNTIME_DIRECTORY).",
    ),
    row(
        "spool_directory",
        SettingScope::Global,
        SettingKind::Text,
        None,
        "Directory for unnamed files with bodies that wait between a client and an origin when memory has \
         no room for them. The directory may hold other files. `none`: bodies wait in memory only. If left \
         out: /var/tmp, else the system's temporary directory.",
    ),
    global(
        "acme_directory",
        SettingKind::Text,
        "https://acme-v02.api.letsencrypt.org/directory",
        "URL of the directory of the ACME authority that issues certificates for the host names in `tls`. \
         The default is Let's Encrypt. Each authority has its own account and certificates in \
         `state_directory`.",
    ),
    row(
        "acme_contact",
        SettingScope::Global,
        SettingKind::Text,
        None,
        "Mail address that the ACME authority may write to. Petasos states it when it makes an account. If \
         left out: none.",
    ),
    row(
        "acme_eab_file",
        SettingScope::Global,
        SettingKind::Text,
        None,
        "File with the external account binding that an ACME authority gives to its customers. The first \
         line is the identifier of the key, the second the HMAC key in base64. Petasos reads it when \
         it makes an account. If left out: none.",
    ),
    row(
        "acme_ca_file",
        SettingScope::Global,
        SettingKind::Text,
        None,
        "PEM file with the authorities by which Petasos verifies the server of `acme_directory`, for a \
         private authority. If left out: those of the system.",
    ),
    row(
        "include",
        SettingScope::Global,
        SettingKind::Files,
        None,
        "Further files with [[site]] and [[listener]] tables, which are read as if they stood at the end of \
         this file. A path without a leading slash begins at the directory of this file. An included file has \
         no other settings and includes no further files. If left out: none.",
    ),
    global(
        "unknown_hosts",
        SettingKind::Choice(&["refuse", "close"]),
        "refuse",
        "Response to a request for a host that belongs to no site. `refuse`: 421 (Misdirected Request). \
         `close`: none; Petasos closes the connection, or with HTTP/2 the stream. A site without `names` serves all hosts.",
    ),
    global(
        "spool_size",
        SettingKind::Size,
        "1GiB",
        "Largest total size of the files in `spool_directory`. When it is reached, a larger request streams \
         to the origin, and the origin waits for a slow reader of its response.",
    ),
    global(
        "purge_partial_status",
        SettingKind::Numbers(&[503, 202]),
        "503",
        "Status of a purge that is in force but that a restart would undo, because Petasos can write \
         neither `disk` nor `state_directory` nor `runtime_directory`. The response's content says so with \
         either status. `202` is for clients that give up after a 503.",
    ),
    row(
        "trusted_proxies",
        SettingScope::Global,
        SettingKind::Peers,
        None,
        "Addresses of proxies in front of the edge whose X-Forwarded-For and X-Forwarded-Proto Petasos \
         believes. An entry is an address, a prefix such as 10.0.0.0/8, `cloudflare`, `fastly`, or @ and the \
         path of a file. The names stand for the addresses of these networks (docs/behind-a-cdn.md). The \
         file has one address or prefix per line, `#` begins a comment, and Petasos reads it at the start \
         and at a reload. If left out: Petasos believes no proxy.",
    )
    .flag("--trusted-proxies"),
    row(
        "purge_peers",
        SettingScope::Global,
        SettingKind::Peers,
        None,
        "Addresses whose PURGE, BAN and other purge methods Petasos obeys at `listen` without a token, if \
         no proxy forwarded the request. An entry is an address, a prefix such as \
         10.0.0.0/8, or @ and the path of a file with one of them per line. The setting is for \
         applications that cannot send a token. List no address of a proxy that forwards visitors, because \
         they could purge. If left out: purges need the token, or the admin address.",
    )
    .flag("--purge-peers"),
    row(
        "token_file",
        SettingScope::Global,
        SettingKind::Text,
        None,
        "File whose first line is the secret token for purges. Clients in `purge_peers` purge at `listen` \
         without it. If left out: this machine may purge at `admin`, and only `purge_peers` may purge at \
         `listen`.",
    )
    .flag("--token-file"),
    global(
        "create_token",
        SettingKind::Switch,
        "false",
        "At the start, creates the file `token_file` with a random secret of 256 bits that only its owner \
         can read. Petasos leaves an existing file unchanged.",
    )
    .flag("--create-token"),
];

/// Limits, ordered by the stage where they act. The limits of single parts follow.
const LIMITS: &[Setting] = &[
    global(
        "limits.connections_max",
        SettingKind::Count(1, COUNT_MAX),
        "10000",
        "Largest number of open connections from clients, all workers together.",
    ),
    global(
        "limits.connections_per_address_max",
        SettingKind::Count(0, COUNT_MAX),
        "1000",
        "Largest number of connections from one client address; an IPv6 network of 64 bits counts as one \
         address. Addresses of `trusted_proxies` and of this machine are exempt. `0`: no limit per address.",
    ),
    global(
        "limits.admin_connections_max",
        SettingKind::Count(1, COUNT_MAX),
        "64",
        "Largest number of open connections at the admin address. Further ones get 503. One client on another \
         machine may hold a quarter of them, and all clients on other machines three quarters.",
    ),
    global(
        "limits.request_head_bytes_max",
        SettingKind::Size,
        "32KiB",
        "Largest size of one request's head: its request line and header fields.",
    ),
    global(
        "limits.purge_head_bytes_max",
        SettingKind::Size,
        "96KiB",
        "Largest size of the head of a purge request from an authorised client. It exceeds \
         `limits.request_head_bytes_max` because purge headers may list 64 KiB of tags and more.",
    ),
    global(
        "limits.request_fields_max",
        SettingKind::Count(1, FIELDS_MAX),
        "128",
        "Largest number of header fields in one request.",
    ),
    site("limits.request_body_bytes_max", SettingKind::Size, Some("1GiB"), "Largest content of one request."),
    global(
        "limits.http2_streams_max",
        SettingKind::Count(1, STREAMS_MAX),
        "100",
        "Largest number of requests at once on one connection with HTTP/2. Clients keep others back.",
    ),
    global(
        "limits.tls_handshake_timeout",
        SettingKind::Duration,
        "10s",
        "Longest time from the start of a connection to the end of its TLS handshake.",
    ),
    global(
        "limits.request_head_timeout",
        SettingKind::Duration,
        "10s",
        "Longest time from the first byte of a request to the end of its head.",
    ),
    global(
        "limits.request_body_timeout",
        SettingKind::Duration,
        "30s",
        "Longest pause inside a request's content.",
    ),
    global(
        "limits.request_buffer_bytes_max",
        SettingKind::Size,
        "64MiB",
        "Largest content of a request that Petasos reads whole before it contacts the origin, so that a \
         slow client does not occupy a fetch. Larger content streams to the origin, and so does content of a \
         request with `Expect: 100-continue`, an upgrade, or gRPC. `0B`: all content streams.",
    ),
    global(
        "limits.response_buffer_bytes_max",
        SettingKind::Size,
        "256MiB",
        "Largest content of one response that waits in `spool_directory` for a slow client, so that the \
         origin need not wait.",
    ),
    global(
        "limits.buffer_memory_percent",
        SettingKind::Count(1, 50),
        "5",
        "Share of `memory`, in percent, for bodies that wait between a client and an origin. Stored responses may take \
         the rest.",
    ),
    global(
        "limits.request_rate_min",
        SettingKind::Size,
        "512B",
        "Lowest rate, in bytes per second, at which a client must send a request's content while the edge \
         waits for it. Petasos averages it over `limits.rate_window`. `0B`: no minimum.",
    ),
    global(
        "limits.response_rate_min",
        SettingKind::Size,
        "512B",
        "Lowest rate, in bytes per second, at which a client must read a response while the edge waits for \
         it. Petasos averages it over `limits.rate_window`. `0B`: no minimum.",
    ),
    global(
        "limits.rate_window",
        SettingKind::Duration,
        "1m",
        "Time of waiting for a client over which Petasos measures `limits.request_rate_min` and \
         `limits.response_rate_min`.",
    ),
    global(
        "limits.idle_timeout",
        SettingKind::Duration,
        "1m",
        "Time after which Petasos closes a client connection without a request.",
    ),
    global(
        "limits.write_timeout",
        SettingKind::Duration,
        "1m",
        "Longest time in which a client reads no byte of a response.",
    ),
    global(
        "limits.tunnel_idle_timeout",
        SettingKind::Duration,
        "1h",
        "Longest time without data on an upgraded connection.",
    ),
    global(
        "limits.drain_timeout",
        SettingKind::Duration,
        "30s",
        "Longest time that requests in progress may continue after SIGTERM.",
    ),
    global(
        "limits.drain_streams",
        SettingKind::Duration,
        "5s",
        "Time that upgraded connections, such as WebSocket, and event streams continue after SIGTERM. Their \
         clients reconnect by themselves.",
    ),
    site(
        "limits.connect_timeout",
        SettingKind::Duration,
        Some("3s"),
        "Longest time to connect to an origin.",
    ),
    site(
        "limits.first_byte_timeout",
        SettingKind::Duration,
        Some("1m"),
        "Longest time from the end of a request to the first byte of the origin's response.",
    ),
    site(
        "limits.between_bytes_timeout",
        SettingKind::Duration,
        Some("1m"),
        "Longest pause inside an origin's response.",
    ),
    global(
        "limits.response_head_bytes_max",
        SettingKind::Size,
        "64KiB",
        "Largest size of one response's head: its status line and header fields.",
    ),
    global(
        "limits.response_fields_max",
        SettingKind::Count(1, FIELDS_MAX),
        "256",
        "Largest number of header fields in one response.",
    ),
    site(
        "limits.fetches_max",
        SettingKind::Count(1, COUNT_MAX),
        Some("64"),
        "Largest number of requests that one origin processes at a time.",
    ),
    site(
        "limits.client_fetches_max",
        SettingKind::Count(1, COUNT_MAX),
        Some("32"),
        "Largest number of requests of one client address, or of one IPv6 network of 64 bits, that one \
         origin processes at a time. Further requests of the client wait in the queue while other clients go \
         ahead. A proxy in front counts as one client unless it is one of `trusted_proxies`.",
    ),
    site(
        "limits.stalled_fetches_max",
        SettingKind::Count(0, COUNT_MAX),
        Some("256"),
        "Largest number of fetches per origin that do not count for `limits.fetches_max`. In these fetches \
         the origin waits until a slow client has read more of the response or has sent more of the request. \
         One client may have at most half of them. Beyond this number, a slow client's fetch counts until it \
         has ended.",
    ),
    site(
        "limits.queue_max",
        SettingKind::Count(0, COUNT_MAX),
        Some("1024"),
        "Longest queue of requests that wait for one origin when all its fetches are in use. Requests from \
         people precede requests from robots. When the queue is full, a person's request replaces the last \
         robot's. A client that names itself a robot, or sends no User-Agent, counts as a robot.",
    ),
    site(
        "limits.client_queue_max",
        SettingKind::Count(0, COUNT_MAX),
        Some("512"),
        "Largest number of requests of one client address, or of one IPv6 network of 64 bits, that wait for \
         one origin. Petasos answers further requests of the client with 503.",
    ),
    site(
        "limits.queue_timeout",
        SettingKind::Duration,
        Some("10s"),
        "Longest time that a request waits in the queue of an origin (`limits.queue_max`). Petasos then \
         answers it with 503.",
    ),
    site(
        "limits.idle_connections_max",
        SettingKind::Count(0, COUNT_MAX),
        Some("64"),
        "Largest number of unused connections that Petasos keeps to one origin.",
    ),
    site(
        "limits.idle_connection_timeout",
        SettingKind::Duration,
        Some("4s"),
        "Time that Petasos keeps an unused connection to an origin. It must be less than the origin's own \
         keep-alive time; Apache's is 5s.",
    ),
    global(
        "limits.flight_wait",
        SettingKind::Duration,
        "10s",
        "Longest time that a request waits for another request's fetch of the same page.",
    ),
    global(
        "limits.stale_wait",
        SettingKind::Duration,
        "1s",
        "Longest time that a request waits for a fetch while a stale copy of its page may replace an error. \
         Petasos then sends the copy. A fetch also counts as silent for the \
         origin's breaker after this time. If three times the usual 99th percentile of the time to the first \
         byte is longer, that time counts. It is never more than `limits.flight_wait`.",
    ),
    global(
        "limits.probe_pause_max",
        SettingKind::Duration,
        "5s",
        "Longest pause between two probes of an origin whose breaker is open. The next probe also waits at \
         most this long for the one before it. Petasos probes an origin that refuses connections at least \
         once a second while there are requests.",
    ),
    global(
        "limits.failure_pause",
        SettingKind::Duration,
        "1s",
        "Pause before Petasos requests a page again whose fetch ended without a response or with 500, 502, \
         503 or 504. During the pause, Petasos sends a stale copy at once if it \
         may replace the error, and starts no background refresh of the page. Requests that waited for the \
         fetch and have no stale copy wait for the pause, then share one new fetch. Purged pages, and \
         pages whose response forbids staleness, are requested at once.",
    ),
    global(
        "limits.hit_for_miss",
        SettingKind::Duration,
        "2m",
        "Lifetime of a hit-for-miss entry: the time that Petasos remembers that a page cannot be shared. \
         Requests for this page do not wait for one another.",
    ),
    global(
        "limits.hit_for_miss_entries_max",
        SettingKind::Count(0, COUNT_MAX),
        "65536",
        "Largest number of hit-for-miss entries (see `limits.hit_for_miss`).",
    ),
    global(
        "limits.leak_guard_every",
        SettingKind::Count(0, COUNT_MAX),
        "1000",
        "Sampling rate of the leak guard: the origin gets one in this many hits with cookies, and 64 of \
         each new site. If the origin's response differs from the stored page, visitors with cookies get \
         that page from the origin. This lasts until another check shows no difference, and at least an \
         hour. `0` switches the guard off.",
    ),
    global(
        "limits.writes_per_minute",
        SettingKind::Count(0, COUNT_MAX),
        "20",
        "Number of writes per minute and site that make pages stale by the rules of the site's profile. \
         After further writes, Petasos serves stored pages while it refreshes them in the background. `0`: \
         it does so after every write.",
    ),
    global(
        "limits.page_writes_per_minute",
        SettingKind::Count(0, COUNT_MAX),
        "120",
        "Number of stored pages per minute and site that Petasos removes because a request with an unsafe \
         method named them (RFC 9111 section 4.4). It serves further pages while it refreshes them in the \
         background, from ten seconds after the request on.",
    ),
    global(
        "limits.self_purge_memory",
        SettingKind::Duration,
        "1h",
        "Time for which the write rules of a site's profile invalidate nothing because the site purges by \
         itself. It begins when an authorised client purges pages of the site during a write or within ten \
         seconds after it.",
    ),
    global(
        "limits.private_session_bytes_max",
        SettingKind::Size,
        "1MiB",
        "Memory for the copies of pages of one session (`logged_in`). The copies that were not used for the \
         longest time go first. A larger response is not kept.",
    ),
    global(
        "limits.private_bytes_max",
        SettingKind::Size,
        "64MiB",
        "Memory for the copies of all sessions together (`logged_in`), on top of `memory`. The sessions that \
         were not active for the longest time lose theirs first.",
    ),
    global(
        "limits.foreign_ports_max",
        SettingKind::Count(0, 65_535),
        "4",
        "Number of foreign ports in `Host`, per site, for which Petasos stores pages. The ports that \
         are not foreign are the default port, those of `listen`, `host` and `ports`, and X-Forwarded-Port \
         from one of `trusted_proxies`. The limit exists because each port has its own \
         copies, and any client can name one. Requests for further ports pass until one of the ports was \
         unused for an hour.",
    ),
    global(
        "limits.object_bytes_max",
        SettingKind::Size,
        "64MiB",
        "Largest content of one response that is stored in memory. Larger responses go to the `disk`; \
         without one, Petasos forwards them and does not store them.",
    ),
    global(
        "limits.decoded_bytes_max",
        SettingKind::Size,
        "256MiB",
        "Largest content of one response after Petasos has decoded it from gzip for a client that does not accept \
 gzip. Petasos cuts off a longer response.",
    ),
    global(
        "limits.disk_object_bytes_max",
        SettingKind::Size,
        "1GiB",
        "Largest content of one response that is stored on the disk. Petasos forwards larger responses and \
         does not store them.",
    ),
    global(
        "limits.disk_fill_percent",
        SettingKind::Count(1, 100),
        "25",
        "Share of `disk_size`, in percent, that responses being written to the disk may take together. \
         Petasos cannot evict a response while it is written, so it forwards further responses and does not \
         store them.",
    ),
    global(
        "limits.disk_timeout",
        SettingKind::Duration,
        "2s",
        "Longest time that a request, or the response to a purge, waits for the disk. A slower disk \
         operation switches the `disk` off until the disk answers again.",
    ),
    global(
        "limits.completion_timeout",
        SettingKind::Duration,
        "5m",
        "Longest total time that a response waits for the origin after the disk failed to deliver the rest \
         of its content. Petasos then cuts the response off at the client.",
    ),
    global(
        "limits.disk_verify_rate",
        SettingKind::Size,
        "2MiB",
        "Bytes per second that Petasos reads from the disk in the background to find damaged responses \
         before a client meets them. After it has read everything, it begins again. `0B` switches it off.",
    ),
    global(
        "limits.access_log_lines_max",
        SettingKind::Count(1, COUNT_MAX),
        "8192",
        "Largest number of access log lines that wait to be written. Petasos drops and counts further lines.",
    ),
    global(
        "limits.client_traces_max",
        SettingKind::Count(0, COUNT_MAX),
        "100",
        "Largest number of requests per second whose spans `trace_export` sends because the `traceparent` of \
         their client asks for it. Requests from addresses in `trusted_proxies` do not count. Petasos \
         exports no spans of further ones. 0: clients cannot ask for it.",
    ),
    global(
        "refill.enabled",
        SettingKind::Switch,
        "false",
        "Whether Petasos fetches the most requested of the purged pages again after each purge, before \
         visitors request them. `false`: it does so only after purges that ask for it.",
    )
    .flag("--refill"),
    global(
        "refill.rate",
        SettingKind::Count(1, 1000),
        "5",
        "Largest number of pages that Petasos refills per second. It fetches one at a time, and only while \
         no request waits for the origin.",
    ),
    global(
        "refill.pages_max",
        SettingKind::Count(0, 100_000),
        "1000",
        "Number of the most requested pages that Petasos remembers for refilling. 0: none.",
    ),
    row(
        "static_tree.directory",
        SettingScope::Global,
        SettingKind::Text,
        None,
        "Directory where Petasos also writes, as files, the pages that every visitor without a session \
         gets. A web server can then serve them by itself: docs/static-tree.md. The directory belongs to one \
         edge alone and must hold nothing else. If left out: Petasos writes no pages.",
    ),
    site(
        "static_tree.layout",
        SettingKind::Choice(&["typo3", "wp-super-cache", "cache-enabler", "boost", "none"]),
        Some("typo3"),
        "Naming scheme of the files in `static_tree.directory`: that of TYPO3's static file cache, WP Super \
         Cache, Cache Enabler or Drupal's Boost. `none`: Petasos writes no page of the site.",
    ),
    global(
        "static_tree.pages_max",
        SettingKind::Count(1, COUNT_MAX),
        "10000",
        "Largest number of pages in the static tree. When it is reached, Petasos writes no further pages.",
    ),
    global(
        "static_tree.size",
        SettingKind::Size,
        "1GiB",
        "Largest total size of the files in the static tree. When it is reached, Petasos writes no further \
         pages.",
    ),
];

#[cfg(test)]
mod tests {
    use super::SETTINGS;
    use std::collections::HashSet;

    #[test]
    fn defaults_parse_and_print_unchanged() {
        for setting in SETTINGS {
            let Some(default) = setting.default else { continue };
            let value =
                setting.kind.parse(default).unwrap_or_else(|error| panic!("{}: {error}", setting.key));
            let printed = value.to_toml();
            assert_eq!(printed.trim_matches('"'), default, "{}", setting.key);
        }
    }

    #[test]
    fn keys_and_flags_are_unique_and_docs_are_sentences() {
        let keys: HashSet<_> = SETTINGS.iter().map(|setting| setting.key).collect();
        let flags: Vec<_> = SETTINGS.iter().filter_map(|setting| setting.flag).collect();
        assert_eq!(keys.len(), SETTINGS.len());
        assert_eq!(flags.iter().collect::<HashSet<_>>().len(), flags.len());
        for setting in SETTINGS {
            assert!(setting.doc.ends_with('.') && !setting.doc.contains("  "), "{}", setting.key);
        }
    }
}
