//! The part of docs/observing.md about records of requests: the access log with its formats,
//! destinations and filters, live views and traces.

use request_log::COMBINED_FORMAT;
use request_log::filter::FIELDS;
use std::fmt::Write;

/// The members of a line of JSON that a reader could not guess, each with its meaning.
const MEMBERS: &[(&str, &str)] = &[
    ("at", "when the head of the request was complete, in UTC with microseconds"),
    ("client", "the client's address; behind a proxy in `trusted_proxies`, the one that the proxy reports"),
    ("peer", "the address of the connection, if it is another one"),
    ("bytes", "content bytes sent"),
    ("received, sent", "bytes of request and response, heads included"),
    ("key", "the cache key as a URL"),
    ("trace", "the trace of the request's `traceparent` (W3C Trace Context)"),
    (
        "time",
        "from the end of the request's head until the edge has handed the last byte to the operating system",
    ),
    ("phases.disk", "waiting for the disk"),
    ("phases.wait", "waiting for the head of a shared fetch"),
    ("phases.pass", "sending the client's own request, until the head of the response"),
    ("phases.send", "all the rest: choosing and sending the response"),
    ("fetch", "the request to the origin that the response came from"),
    ("fetch.number", "its number since the start; requests that share a fetch have the same"),
    ("fetch.queue", "waiting for a turn at the origin"),
    ("fetch.connect", "making the connection; about 0 for a kept one"),
    ("fetch.first_byte", "waiting for the head of the response"),
    ("fetch.trace", "the trace that the edge began for a shared fetch (`trace_fetches`)"),
];

/// The views of a running edge.
const LIVE: &str = "\n## Live views\n\n\
     The [dashboard](dashboard.md) shows them in a browser.\n\n\
     `GET /log?where=CONDITION` at the admin address streams each request as it ends, as a line of JSON.\n\
     The condition is optional, percent-encoded, and has at most 4096 bytes and 32 regular expressions,\n\
     which share 2 MiB. At most 8 clients can follow. A client that reads too slowly misses requests and\n\
     gets a line `{\"skipped\": N}`; it never slows a request. An empty line says that the stream lives.\n\
     The log may be off; without a follower, the stream costs nothing.\n\n\
     Three commands show a running edge. Each takes `--admin ADDRESS`, and `--token-file FILE` if needed:\n\n\
     * `petasos log --where 'verdict = miss and path ~ \"^/shop\"'` prints each request with its phases;\n\
     \x20 `--json` prints the lines of the stream.\n\
     * `petasos status` prints one screen, or JSON with `--json`. Its exit code is 0 if all is well, 1 if\n\
     \x20 something needs attention, and 2 if no edge answers.\n\
     * `petasos top` shows rates, verdicts, percentiles, pages, origin requests and clients, until you press\n\
     \x20 `q`.\n";

/// The export of traces.
const TRACES: &str = "\n## Traces\n\n\
     `trace_export = \"http://127.0.0.1:4318\"` sends spans of requests to a collector of OpenTelemetry,\n\
     by OTLP over HTTP. Attributes have the names of OpenTelemetry's conventions for HTTP.\n\n\
     | span | kind | parent | meaning |\n|---|---|---|---|\n\
     | the method, such as `GET` | server | the client's span, if it sent one | the request, as in the access log; also \
     `petasos.verdict`, `petasos.reason`, `petasos.site` and `petasos.fetch.number` |\n\
     | `disk`, `wait`, `pass` | internal | the request | the phases, as in the access log |\n\
     | the method | client | `pass`, or the request that led a shared fetch | the request to the origin, \
     until the head of its response; also `petasos.fetch.queue_us`, `connect_us` and `first_byte_us`, in microseconds |\n\n\
     The `traceparent` of a request decides whether it has spans. Of the other requests, one of\n\
     `trace_export_every` begins a trace. Petasos believes clients at most `limits.client_traces_max`\n\
     times a second, and `trusted_proxies` always.\n\n\
     A client's own request to the origin names the span of the edge as its parent, so that the spans of\n\
     the origin follow it. A shared fetch belongs to no client's trace. With `trace_fetches` it begins a\n\
     trace of its own, to which the requests have links. A response from the store has one span.\n\n\
     Spans leave once a second. At most 4 MiB wait; Petasos drops and counts further ones\n\
     (`petasos_trace_spans_dropped_total`), and no request waits for the collector. A text is cut after\n\
     2 KiB. `anonymise_addresses` holds for spans, too. If the collector wants https, let a collector on\n\
     the same machine forward the spans.\n";

/// The section, as Markdown.
pub(super) fn log_section() -> String {
    let mut text = format!(
        "## The access log\n\n\
         The setting `access_log` names a file, `-` for standard output, `journald`, or `syslog`. The edge\n\
         writes one line for each request, in the format that `access_log_format` names.\n\n\
         ```text\n{COMBINED_FORMAT}\n```\n\n\
         `combined` is the combined log format, followed by the edge's own fields. BYTES is the number of\n\
         content bytes sent. HOST is the host that the client sent, or `-` if it sent none. VERDICT and REASON\n\
         are names from [reasons.md](reasons.md). MICROSECONDS is the time of the request. The edge writes\n\
         quotes, backslashes and bytes that are not printable ASCII as `\\xHH`.\n\n\
         `json` writes one JSON object per line. Bytes that are not UTF-8 become U+FFFD. A member that a request\n\
         does not have is left out. Times are microseconds.\n\n\
         | member | meaning |\n|---|---|\n"
    );
    for (name, meaning) in MEMBERS {
        let names = name.replace(", ", "`, `");
        // Writing to a String cannot fail.
        let _ = writeln!(text, "| `{names}` | {meaning} |");
    }
    text.push_str(
        "\nThe others are `method`, `host`, `target`, `protocol`, `tls`, `status`, `site`, `verdict`, `reason`,\n\
         `referer` and `agent`.\n\n\
         With `journald`, an entry also has the fields PETASOS_VERDICT, PETASOS_REASON, PETASOS_STATUS,\n\
         PETASOS_SITE and PETASOS_TRACE: `journalctl SYSLOG_IDENTIFIER=petasos PETASOS_VERDICT=failed`. With\n\
         `syslog`, a message has facility local7, severity info and the message id `access`.\n\n\
         `access_log_every` writes a sample, which always includes requests with a status from 500 on.\n\
         `anonymise_addresses` removes the last bits of addresses before a filter compares them. Then\n\
         `client = 192.0.2.7` matches no request, but `client = 192.0.2.0/24` does. These settings, the\n\
         format and the filter take effect with a reload.\n\n\
         If lines arrive faster than they can be written, the edge drops and counts the surplus\n\
         (`petasos_access_log_dropped_total`). It does the same with messages to standard error, so neither a\n\
         full disk nor a closed terminal stops the edge.\n\n\
         ### Filters\n\n\
         `access_log_where` writes only the requests that meet a condition:\n\n\
         ```text\n\
         verdict = miss and (path ~ \"^/shop\" or time > 200ms) and not client = 192.0.2.0/24\n\
         ```\n\n\
         A condition is `FIELD OPERATOR VALUE`. Texts have `=`, `!=`, `~` (a regular expression matches\n\
         somewhere) and `!~`; addresses have `=` and `!=`; numbers, sizes (`1MiB`) and times (`200ms`) also\n\
         have `<`, `<=`, `>` and `>=`. `and` binds more tightly than `or`; `not` and parentheses apply. A value\n\
         with spaces or signs needs quotes. What a request does not have is an empty text or zero.\n\n\
         | field | meaning |\n|---|---|\n",
    );
    for row in FIELDS {
        let _ = writeln!(text, "| `{}` | {} |", row.name, row.help);
    }
    text.push_str(LIVE);
    text.push_str(TRACES);
    text
}
