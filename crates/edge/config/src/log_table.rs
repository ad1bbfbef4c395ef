//! The settings of logs, as rows of the settings table.

use crate::log_level;
use crate::row::{global, row};
use crate::setting::{Setting, SettingKind, SettingScope};

/// The words of `access_log_format`.
pub(crate) const FORMATS: &[&str] = &["combined", "json"];

/// The greatest value of `access_log_every`.
const EVERY_MAX: u64 = 1_000_000;

pub(crate) const LOGS: &[Setting] = &[
    row(
        "access_log",
        SettingScope::Global,
        SettingKind::LogTarget,
        None,
        "Where Petasos writes one line for each request: a file, or `-` for standard output. `journald`: the \
         systemd journal; `journald:PATH`: the socket of a journal namespace. `syslog`: /dev/log; \
         `syslog:ADDRESS`: datagrams to HOST:PORT over UDP (RFC 5424), or to a socket unix:PATH. If left \
         out: no access log.",
    )
    .flag("--access-log"),
    global(
        "access_log_format",
        SettingKind::Choice(FORMATS),
        "combined",
        "Format of the lines of `access_log`. `combined`: the combined log format, followed by host, \
         verdict, reason and time. `json`: one JSON object per line, also with cache key, phases, protocol, \
         TLS and trace. docs/observing.md describes both.",
    )
    .flag("--access-log-format"),
    row(
        "access_log_where",
        SettingScope::Global,
        SettingKind::Filter,
        None,
        "Condition for a line in `access_log`, such as `verdict = miss and time > 200ms`. docs/observing.md \
         describes the language. If left out: every request gets a line.",
    ),
    global(
        "access_log_every",
        SettingKind::Count(1, EVERY_MAX),
        "1",
        "Sampling of `access_log`: one of this many requests gets a line. Requests with a status from 500 \
         on always get one.",
    ),
    global(
        "anonymise_addresses",
        SettingKind::Switch,
        "false",
        "Whether `access_log`, `petasos log` and `petasos top` show client addresses without their last \
         bits. 24 bits of an IPv4 address and 48 bits of an IPv6 address remain. Filters see the shortened \
         addresses, too.",
    ),
    global(
        "trace_fetches",
        SettingKind::Switch,
        "false",
        "Whether a shared request to the origin begins a trace (W3C Trace Context): it has a `traceparent` of \
         its own, which `access_log_format = \"json\"` and `petasos log --json` show. A client's own request \
         keeps the trace of its client in any case.",
    ),
    row(
        "trace_export",
        SettingScope::Global,
        SettingKind::Text,
        None,
        "URL of an OpenTelemetry collector that receives spans of requests by OTLP over HTTP, such as \
         `http://127.0.0.1:4318`. Petasos sends them to `/v1/traces` below it. docs/observing.md describes \
         the spans. If left out: no spans.",
    ),
    global(
        "trace_export_every",
        SettingKind::Count(1, EVERY_MAX),
        "100",
        "Sampling of `trace_export`: one of this many requests without a `traceparent` begins a trace, and \
         one of this many fetches with `trace_fetches` is exported. A request with a `traceparent` is \
         exported if that says that the trace is sampled.",
    ),
    global(
        "trace_service",
        SettingKind::Text,
        "petasos",
        "Name of the service (`service.name`) in the spans of `trace_export`.",
    ),
    global(
        "log_level",
        SettingKind::Choice(log_level::NAMES),
        "info",
        "Least severe messages that Petasos writes to standard error. `error`: a function is off, or a part \
         of Petasos has failed. `warn`: also what needs attention, such as an origin that does not answer. \
         `info`: also changes of state. `debug`: also each failure that `warn` reports once a minute.",
    )
    .flag("--log-level"),
];
