//! The settings table: one row for every setting.
//! The file format, the flags of `petasos serve`, `petasos check --print` and docs/settings.md all
//! come from these rows.

use crate::setting::{Kind, Scope, Setting};
use crate::site_table::SITE;

pub(crate) const fn row(
    key: &'static str,
    scope: Scope,
    kind: Kind,
    default: Option<&'static str>,
    doc: &'static str,
) -> Setting {
    Setting { key, scope, kind, default, flag: None, doc }
}

const fn global(key: &'static str, kind: Kind, default: &'static str, doc: &'static str) -> Setting {
    row(key, Scope::Global, kind, Some(default), doc)
}

pub(crate) const fn site(
    key: &'static str,
    kind: Kind,
    default: Option<&'static str>,
    doc: &'static str,
) -> Setting {
    row(key, Scope::Site, kind, default, doc)
}

impl Setting {
    pub(crate) const fn flag(mut self, flag: &'static str) -> Self {
        self.flag = Some(flag);
        self
    }
}

/// Upper bound of all limits that count connections, fetches or waiting requests.
const COUNT_MAX: u64 = 1_000_000;

/// Upper bound of the limits on header fields in a message: the parser's own limit.
const FIELDS_MAX: u64 = 256;

/// All settings: addresses first, then sites, then limits by where they act.
pub const SETTINGS: &[Setting] = &joined([EDGE, SITE, LIMITS]);

const SETTINGS_COUNT: usize = EDGE.len() + SITE.len() + LIMITS.len();

/// Concatenates the parts. A `const fn`, because `SETTINGS` is a constant; hence the loops over
/// indices.
#[expect(clippy::indexing_slicing, reason = "the compiler evaluates it, and refuses an index out of range")]
const fn joined(parts: [&[Setting]; 3]) -> [Setting; SETTINGS_COUNT] {
    let [first, _, _] = parts;
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

/// Settings of the edge itself: its addresses, its storage and its trusted peers.
const EDGE: &[Setting] = &[
    global("listen", Kind::Address, "127.0.0.1:8080", "Where visitors connect. `:PORT` is every address of the machine.").flag("--listen"),
    global(
        "admin",
        Kind::Address,
        "127.0.0.1:8081",
        "Where metrics and status are served, and where this machine may purge without a token. A client on another machine, \
         or behind a proxy, reads and purges only with the token of `token_file`; `/healthz` answers everybody. Keep it on a \
         loopback address, because nothing is encrypted there, and have no proxy forward to it.",
    )
    .flag("--admin"),
    row(
        "workers",
        Scope::Global,
        Kind::Count(1, 1024),
        None,
        "Threads that serve connections. Left out: one for each processor core but one, and at least one, so that an \
         application on the same machine keeps a core under a flood of hits.",
    )
    .flag("--workers"),
    row(
        "memory",
        Scope::Global,
        Kind::Size,
        None,
        "Memory that the process may occupy, stored responses and bodies on their way included; docs/performance.md states \
         the margin. Left out: a quarter of the machine's memory, or of the control group's limit where there is one.",
    )
    .flag("--memory"),
    row(
        "disk",
        Scope::Global,
        Kind::Text,
        None,
        "Directory where stored responses are kept too, so that a restart, even after a crash, begins with a warm \
         cache, and what memory has no room for is not fetched again. It belongs to one edge alone; a directory with \
         files of other programs is refused. Left out: memory only.",
    )
    .flag("--disk"),
    global(
        "disk_size",
        Kind::Size,
        "10GiB",
        "The most that the files in the directory `disk` may take. When it is reached, the oldest go that are not \
         in memory too.",
    )
    .flag("--disk-size"),
    global(
        "purge_durability",
        Kind::Choice(&["process", "power"]),
        "process",
        "What a purge outlives once it was answered, where there is a `disk`. `process`: the end of the process, \
         however it ends; after a power cut every stored response is validated before it is used. `power`: a power cut \
         too; each purge waits until the disk has it.",
    )
    .flag("--purge-durability"),
    row(
        "state_directory",
        Scope::Global,
        Kind::Text,
        None,
        "Directory, best on another device than `disk`, with a small file that vouches for the contents of `disk`. When \
         `disk` fails while a page is purged, the file is spoiled, and the next start begins with an empty `disk`. `none`: \
         no such directory. Left out: $STATE_DIRECTORY; else /var/lib/petasos for root, and petasos in $XDG_STATE_HOME \
         or ~/.local/state for other users.",
    ),
    row(
        "runtime_directory",
        Scope::Global,
        Kind::Text,
        None,
        "As `state_directory`, for a directory that may be empty after a restart of the machine. It is used if \
         `purge_durability` is `process`. It must outlive the service: a file that is missing at a start after a \
         crash makes `disk` begin empty. `none`: no such directory. Left out: petasos in $XDG_RUNTIME_DIR, else \
         /run/petasos unless systemd removes that with the service ($RUNTIME_DIRECTORY).",
    ),
    row(
        "spool_directory",
        Scope::Global,
        Kind::Text,
        None,
        "Directory for files without names, in which bodies wait between a client and an origin when memory has no room \
         for them. It may hold anything else. `none`: bodies wait in memory only. Left out: /var/tmp, else the system's \
         temporary directory.",
    ),
    global(
        "spool_size",
        Kind::Size,
        "1GiB",
        "The most that the files in `spool_directory` may take. When it is reached, a larger request streams to the \
         origin, and the origin waits for a slow reader of its response.",
    ),
    global(
        "purge_partial_status",
        Kind::Numbers(&[503, 202]),
        "503",
        "Status of a purge that is in force but would be forgotten by a restart, because neither `disk` nor \
         `state_directory` nor `runtime_directory` can be written. The content says so either way. `202` is for clients \
         that give up after a 503.",
    ),
    row(
        "access_log",
        Scope::Global,
        Kind::Text,
        None,
        "File that gets one line for each request, or `-` for standard output. Left out: no access log.",
    )
    .flag("--access-log"),
    row(
        "trusted_proxies",
        Scope::Global,
        Kind::Peers,
        None,
        "Addresses of proxies in front of the edge whose X-Forwarded-For and X-Forwarded-Proto are believed. \
         An entry is an address, a prefix such as 10.0.0.0/8, or @ and the path of a file with one of these in each \
         line, which is read at the start; `#` begins a comment there. Left out: nobody's are.",
    )
    .flag("--trusted-proxies"),
    row(
        "purge_peers",
        Scope::Global,
        Kind::Peers,
        None,
        "Addresses whose PURGE, BAN and other purge methods are obeyed at `listen` without a token, if the request was \
         not forwarded; entries as in `trusted_proxies`. For applications that can send no token. List no address of a \
         proxy that forwards visitors: they could purge. Left out: purges need the token, or the admin address.",
    )
    .flag("--purge-peers"),
    row(
        "token_file",
        Scope::Global,
        Kind::Text,
        None,
        "File whose first line is the secret that purges must show, but for those of `purge_peers` at `listen`. Left \
         out: at `admin` this machine may purge, and at `listen` only `purge_peers`.",
    )
    .flag("--token-file"),
    global(
        "create_token",
        Kind::Switch,
        "false",
        "Creates the file `token_file` with a random secret of 256 bits at the start, readable by its owner alone. An \
         existing file is left as it is.",
    )
    .flag("--create-token"),
];

/// Limits, ordered by the stage where they act, then the rows of parts with limits of their own.
const LIMITS: &[Setting] = &[
    global(
        "limits.connections_max",
        Kind::Count(1, COUNT_MAX),
        "10000",
        "Connections from visitors, all workers together.",
    ),
    global(
        "limits.connections_per_address_max",
        Kind::Count(0, COUNT_MAX),
        "1000",
        "Connections from one client address; an IPv6 network of 64 bits counts as one address. Addresses of \
         `trusted_proxies` and of this machine have no limit of their own. `0`: none has.",
    ),
    global(
        "limits.request_head_bytes_max",
        Kind::Size,
        "32KiB",
        "Request line and header fields of one request.",
    ),
    global(
        "limits.purge_head_bytes_max",
        Kind::Size,
        "96KiB",
        "The same for requests to purge from those who may: their headers list tags, 64 KiB of them and more.",
    ),
    global("limits.request_fields_max", Kind::Count(1, FIELDS_MAX), "128", "Header fields of one request."),
    global("limits.request_body_bytes_max", Kind::Size, "1GiB", "Content of one request."),
    global(
        "limits.request_head_timeout",
        Kind::Duration,
        "10s",
        "From a request's first octet to the end of its head.",
    ),
    global("limits.request_body_timeout", Kind::Duration, "30s", "Longest pause inside a request's content."),
    global(
        "limits.request_buffer_bytes_max",
        Kind::Size,
        "64MiB",
        "Content of a request that is read whole before the origin is asked, so that a slow client keeps no fetch from \
         others. A larger content streams to the origin, as does one with `Expect: 100-continue`, an upgrade, and gRPC. \
         `0B`: every content streams.",
    ),
    global(
        "limits.response_buffer_bytes_max",
        Kind::Size,
        "256MiB",
        "Content of one response that waits in `spool_directory` for a slow client, so that the origin need not wait.",
    ),
    global(
        "limits.buffer_memory_percent",
        Kind::Count(1, 50),
        "5",
        "Share of `memory`, in percent, for bodies that wait between a client and an origin. Stored responses may take \
         the rest.",
    ),
    global(
        "limits.request_rate_min",
        Kind::Size,
        "512B",
        "Bytes per second that a client must send of a request's content while the edge waits for it, on average over \
         `limits.rate_window`. `0B`: no minimum.",
    ),
    global(
        "limits.response_rate_min",
        Kind::Size,
        "512B",
        "Bytes per second that a client must take of a response while the edge waits for it, on average over \
         `limits.rate_window`. `0B`: no minimum.",
    ),
    global(
        "limits.rate_window",
        Kind::Duration,
        "1m",
        "Time of waiting for a client over which `limits.request_rate_min` and `limits.response_rate_min` are measured.",
    ),
    global(
        "limits.idle_timeout",
        Kind::Duration,
        "1m",
        "How long a connection is kept that asks for nothing.",
    ),
    global(
        "limits.write_timeout",
        Kind::Duration,
        "1m",
        "How long a visitor may take no octet of a response.",
    ),
    global(
        "limits.tunnel_idle_timeout",
        Kind::Duration,
        "1h",
        "How long an upgraded connection may be silent.",
    ),
    global(
        "limits.drain_timeout",
        Kind::Duration,
        "30s",
        "How long requests in flight may go on after SIGTERM.",
    ),
    global(
        "limits.drain_streams",
        Kind::Duration,
        "5s",
        "How long upgraded connections, such as WebSocket, and event streams go on after SIGTERM. Their clients connect \
         again by themselves.",
    ),
    global("limits.connect_timeout", Kind::Duration, "3s", "To connect to an origin."),
    global(
        "limits.first_byte_timeout",
        Kind::Duration,
        "1m",
        "From the end of a request to the first octet of the origin's response.",
    ),
    global(
        "limits.between_bytes_timeout",
        Kind::Duration,
        "1m",
        "Longest pause inside an origin's response.",
    ),
    global(
        "limits.response_head_bytes_max",
        Kind::Size,
        "64KiB",
        "Status line and header fields of one response.",
    ),
    global("limits.response_fields_max", Kind::Count(1, FIELDS_MAX), "256", "Header fields of one response."),
    global(
        "limits.fetches_max",
        Kind::Count(1, COUNT_MAX),
        "64",
        "Requests that one origin works on at a time.",
    ),
    global(
        "limits.client_fetches_max",
        Kind::Count(1, COUNT_MAX),
        "32",
        "Requests of one client address, or of one IPv6 network of 64 bits, that one origin works on at a time. Further \
         requests of the client wait in the queue while other clients go ahead. A proxy in front counts as one client \
         unless it is one of `trusted_proxies`.",
    ),
    global(
        "limits.stalled_fetches_max",
        Kind::Count(0, COUNT_MAX),
        "256",
        "Fetches of one origin that do not count for `limits.fetches_max`, because the origin waits until a slow client has \
         taken more of the response or has sent more of the request. One client has half of \
         them at most. Beyond this number a slow client's fetch counts until it has ended.",
    ),
    global(
        "limits.queue_max",
        Kind::Count(0, COUNT_MAX),
        "1024",
        "Requests that wait for one origin when all its fetches are in use. Those that people wait for come before those of robots, and take their places when the queue is full; who names itself a robot, or nothing, counts as a robot.",
    ),
    global(
        "limits.client_queue_max",
        Kind::Count(0, COUNT_MAX),
        "512",
        "Requests of one client address, or of one IPv6 network of 64 bits, that wait for one origin; further requests of \
         the client are answered 503.",
    ),
    global(
        "limits.queue_timeout",
        Kind::Duration,
        "10s",
        "How long a request waits in that queue before it is answered 503.",
    ),
    global(
        "limits.idle_connections_max",
        Kind::Count(0, COUNT_MAX),
        "64",
        "Unused connections kept to one origin.",
    ),
    global(
        "limits.idle_connection_timeout",
        Kind::Duration,
        "4s",
        "How long an unused connection to an origin is kept. Less than the origin's own keep-alive time; \
         Apache's is 5s.",
    ),
    global(
        "limits.flight_wait",
        Kind::Duration,
        "10s",
        "How long a request waits for another request's fetch of the same page.",
    ),
    global(
        "limits.stale_wait",
        Kind::Duration,
        "1s",
        "How long a request waits for a fetch while a stale copy of its page, which may be sent if the origin fails, lies \
         ready; then the copy is sent. A fetch counts as silent for the origin's breaker after the same time, or after \
         three times the usual 99th percentile of the time to the first byte if that is longer, but at most after \
         `limits.flight_wait`.",
    ),
    global(
        "limits.probe_pause_max",
        Kind::Duration,
        "5s",
        "Longest pause between two probes of an origin whose breaker is open, and how long a probe is waited for before \
         the next one. An origin that refuses connections is probed once a second at least while there are requests.",
    ),
    global(
        "limits.failure_pause",
        Kind::Duration,
        "1s",
        "How long the origin is left alone with a page after a fetch of it ended without a response or with 500, 502, 503 \
         or 504. In that time a stale copy that may stand in for the error is sent at once, and nothing stale is refreshed \
         in the background. Requests that waited for the fetch and have no such copy wait as long, and then share one new \
         fetch. Purged pages, and pages whose response forbids staleness, are asked for at once.",
    ),
    global(
        "limits.hit_for_miss",
        Kind::Duration,
        "2m",
        "How long it is remembered that a page turned out not to be shareable, so that its requests do not wait for one another.",
    ),
    global(
        "limits.hit_for_miss_entries_max",
        Kind::Count(0, COUNT_MAX),
        "65536",
        "Pages of which that is remembered.",
    ),
    global(
        "limits.leak_guard_every",
        Kind::Count(0, COUNT_MAX),
        "1000",
        "Of the requests with cookies that would be answered from the store, one in so many, and 64 of each site while it is new, goes to the application instead; where its answer is another page, visitors with cookies get that page from the application until another look shows no difference, after an hour at the earliest. `0`: none.",
    ),
    global(
        "limits.writes_per_minute",
        Kind::Count(0, COUNT_MAX),
        "20",
        "Writes in a minute, for each site, that make pages stale by the rules of the site's profile. After further \
         ones stored pages are served while they are refreshed in the background. `0`: always so.",
    ),
    global(
        "limits.page_writes_per_minute",
        Kind::Count(0, COUNT_MAX),
        "120",
        "Stored pages in a minute, for each site, that are removed because a request with an unsafe method named them \
         (RFC 9111 section 4.4). Further ones are served until a fetch in the background has replaced them.",
    ),
    global(
        "limits.self_purge_memory",
        Kind::Duration,
        "1h",
        "How long the rules of a site's profile for writes invalidate nothing after an authorised client has purged \
         pages of the site during a write or within ten seconds after it.",
    ),
    global(
        "limits.foreign_ports_max",
        Kind::Count(0, 65_535),
        "4",
        "Ports in `Host`, of one site, for which pages are fetched into the store although they are not the site's: not \
         the default port, that of `listen` or `host`, one of `ports`, or the one in X-Forwarded-Port from one of `trusted_proxies`. \
         Each port has copies of its own, and any client can name one. Requests for further ports pass until a port was \
         unused for an hour.",
    ),
    global(
        "limits.object_bytes_max",
        Kind::Size,
        "64MiB",
        "Content of one response that is stored in memory; larger ones go to the disk, or are passed on but not \
         stored where there is no `disk`.",
    ),
    global(
        "limits.decoded_bytes_max",
        Kind::Size,
        "256MiB",
"Content of one response after it was decoded from gzip, for a client that does not accept gzip. A response that \
         turns out to be longer is cut off.",
    ),
    global(
        "limits.disk_object_bytes_max",
        Kind::Size,
        "1GiB",
        "Content of one response that is stored on the disk; larger ones are passed on but not stored.",
    ),
    global(
        "limits.disk_fill_percent",
        Kind::Count(1, 100),
        "25",
        "Share of `disk_size`, in percent, that responses on their way to the disk may take together. Space that is \
         being written to cannot be evicted, so further responses are passed on but not stored.",
    ),
    global(
        "limits.disk_timeout",
        Kind::Duration,
        "2s",
        "Longest time that a request, or the answer to a purge, waits for the disk. An operation of the disk that takes \
         longer switches the `disk` off until the disk answers again.",
    ),
    global(
        "limits.completion_timeout",
        Kind::Duration,
        "5m",
        "Longest time that a response waits for the origin, all waits together, when the disk cannot give the rest of its \
         content and the origin is asked for it. After that the response is cut off at the client.",
    ),
    global(
        "limits.disk_verify_rate",
        Kind::Size,
        "2MiB",
        "Bytes per second that are read from the disk in the background to find damaged responses before a client meets \
         them. When everything was read, reading begins again. `0B` switches it off.",
    ),
    global(
        "limits.access_log_lines_max",
        Kind::Count(1, COUNT_MAX),
        "8192",
        "Access log lines that wait to be written; further ones are dropped and counted.",
    ),
    global(
        "refill.enabled",
        Kind::Switch,
        "false",
        "After each purge the most requested of the purged pages are fetched again before visitors ask for them. \
         Without it, after purges that ask for it.",
    )
    .flag("--refill"),
    global(
        "refill.rate",
        Kind::Count(1, 1000),
        "5",
        "Pages fetched again in a second at most, one after the other, and only while nothing waits for the origin.",
    ),
    global(
        "refill.pages_max",
        Kind::Count(0, 100_000),
        "1000",
        "Most requested pages that are remembered for this. 0: none.",
    ),
    row(
        "static_tree.directory",
        Scope::Global,
        Kind::Text,
        None,
        "Directory where pages that every visitor without a session gets are also written as files, for a web server to \
         serve them by itself: docs/static-tree.md. It belongs to one edge alone and must hold nothing else. Left out: \
         none are written.",
    ),
    site(
        "static_tree.layout",
        Kind::Choice(&["typo3", "wp-super-cache", "cache-enabler", "boost", "none"]),
        Some("typo3"),
        "How these files are named: as by TYPO3's static file cache, WP Super Cache, Cache Enabler or Drupal's Boost. \
         `none`: no page of the site is written.",
    ),
    global(
        "static_tree.pages_max",
        Kind::Count(1, COUNT_MAX),
        "10000",
        "Pages that the tree has at a time; further ones are not written.",
    ),
    global(
        "static_tree.size",
        Kind::Size,
        "1GiB",
        "The most that all its files may take; further pages are not written.",
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
