//! Renders docs/observing.md from the table of metrics. A test compares the file with this text.

use crate::access_log::FORMAT;
use crate::counters::{Kind, METRICS};
use std::fmt::Write;

/// The reference of everything that an operator can observe of a running edge, as Markdown.
pub fn observing_reference() -> String {
    let mut page = format!(
        "# Observing the edge\n\n\
         The admin address (setting `admin`) answers `GET /metrics` (OpenMetrics text, for Prometheus and its\n\
         like), `GET /status` (JSON: version, sites, store, connections), `GET /healthz` (the process lives) and\n\
         `POST /why` (what would become of a request, and why: see [why.md](why.md)). These change nothing. Two calls do:\n\
         purges (see [purging.md](purging.md)) and `POST /profile` (see [profiles.md](profiles.md)).\n\n\
         A client on the same machine reads without a token. A client on another machine, or one whose request a proxy has\n\
         forwarded, needs the token of `token_file`, sent as `Authorization: Bearer TOKEN`; in Prometheus that is\n\
         `authorization: {{ credentials_file: FILE }}`. Only `/healthz` answers everybody. Each request must name the address\n\
         by an IP address, `localhost` or the configured name, so that no page of another site can make a browser ask.\n\n\
         Every answer carries `Cache-Status` with the reason for what was done; [reasons.md](reasons.md) lists them.\n\n\
         ## The access log\n\n\
         The setting `access_log` names a file, or `-` for standard output. Each request is one line: the combined\n\
         log format, followed by the edge's own fields.\n\n\
         ```text\n{FORMAT}\n```\n\n\
         BYTES are the octets of content sent. HOST is what the visitor sent, `-` if nothing. VERDICT and REASON are\n\
         names from [reasons.md](reasons.md). MICROSECONDS run from the end of the request's head to the last octet\n\
         handed to the system. Quotes, backslashes and octets that are not printable ASCII are written as `\\xHH`.\n\
         When lines come faster than they can be written, the surplus is dropped and counted. Messages to standard error\n\
         are dropped and counted likewise, so that neither a full disk nor a closed terminal stops the edge.\n\n\
         ## Signals\n\n\
         | signal | what it does |\n|---|---|\n\
         | SIGHUP | Opens the access log anew, and says that changed settings need a restart. |\n\
         | SIGUSR1 | Opens the access log anew, as after a rotation. If that fails, lines go on to the file that was open. |\n\
         | SIGUSR2 | Nothing. |\n\
         | SIGTERM, SIGINT | Takes no new connection and closes idle ones. Upgraded connections and event streams end after \
         `limits.drain_streams`, other requests at `limits.drain_timeout`. The admin address answers until then. A second \
         one ends everything at once. |\n\n\
         A rotation by logrotate needs `postrotate` with `pkill -USR1 -x petasos`, or `systemctl kill -s USR1 petasos`.\n\n\
         ## Metrics\n\n\
         `petasos_requests_total` counts requests, with the labels `verdict` and `reason`. Metrics about origins have\n\
         the label `site`: the site's first name, or `any`.\n\n\
         This page is rendered from the table of metrics by `cargo xtask docs`.\n\n\
         | metric | kind | what it says and what to do |\n|---|---|---|\n"
    );
    for row in METRICS {
        let (suffix, kind) = match row.kind {
            Kind::Counter => ("_total", "counter"),
            Kind::Gauge => ("", "gauge"),
        };
        // Writing to a String cannot fail.
        let _ = writeln!(page, "| `petasos_{}{suffix}` | {kind} | {} |", row.name, row.help);
    }
    page
}
