//! Renders docs/observing.md from the table of metrics. A test compares the file with this text.

use crate::control::counters::{METRICS, MetricKind};
use crate::control::log_reference::log_section;
use std::fmt::Write;

/// The section about messages on standard error.
const MESSAGES: &str = "\
     ## Messages\n\n\
     Petasos writes messages to standard error. Each is one line: the time in UTC, the level, `petasos:`\n\
     and the text.\n\n\
     ```text\n\
     2026-01-02T03:04:05.678Z WARN petasos: origin http://127.0.0.1:8000 (site any) accepts no connection; ...\n\
     ```\n\n\
     | level | meaning |\n\
     |---|---|\n\
     | ERROR | A function is off, or a part of Petasos has failed: the disk cache, the access log, a thread. |\n\
     | WARN | Something needs attention: an origin that fails, a page that depends on a cookie. |\n\
     | INFO | A change of state: a detected system, a reopened log, an origin that answers again. |\n\
     | DEBUG | A detail for the search for a fault: every failed fetch. Each failure is a warning once a minute at most. |\n\n\
     The setting `log_level` names the least severe level that is written. Petasos writes control\n\
     characters as escapes, and cuts a line after 8 KiB. At most 1024 messages wait to be written; Petasos\n\
     drops further ones and counts them in `petasos_messages_lost_total`. Before it serves, Petasos writes\n\
     warnings about the configuration, and at the end the reason why it could not run, as plain text.";

/// The section about the figures of the dashboard.
const DASHBOARD: &str = "\
     ## Figures of the dashboard\n\n\
     `GET /dashboard/data` is JSON with the status and the present figures:\n\n\
     * `machine`: processor time of the last whole minute and memory.\n\
     * `sites`: for each site the requests by verdict, with the percentiles of the last whole minute.\n  \
     A percentile differs from the true value by at most 12.5%. `path_groups` counts requests by the\n  \
     first segment of the path; each worker counts its first 1024 requests of a site, then samples one\n  \
     in 16.\n\
     * `reasons`: the verdict reasons that occurred, each with its fix.\n\
     * `hottest`: the stored pages with the most requests. They come from the ranking for the refill,\n  \
     so there are none with `refill.pages_max = 0`.\n\
     * `misses`: the pages whose misses and passes took the origin the most time. A request that shared\n  \
     another one's fetch does not count. The time ends with the head of the response.\n\
     * `costs`: the cookies that made requests pass and the parameters of misses, by the same time.\n\n\
     In the last three, the past counts half after ten minutes. They have no queries, and no values of\n\
     cookies and parameters. A cookie or parameter without `=`, or with a name of more than 48 bytes, is\n\
     `(no name)`.\n\n\
     `GET /dashboard/history?minutes=N` has the values of the last N minutes, up to 43200 (30 days); a\n\
     day without N. A series has at most 1440 values, so one value is of several minutes in a longer\n\
     history (`minutes_per_value`). It is the mean over the time. For `hit ratio`, `p50`, `p95` and\n\
     `origin p95` it is the mean over the requests, and for `errors` and `p99` the worst minute. `usual`\n\
     is the range of the middle 80% of the values in the same hour of earlier days (UTC), once there are\n\
     three such days.\n\n\
     Petasos keeps these values in the file `history` of `state_directory`, which grows to 5.5 MB.\n\
     Without that directory, it keeps one day in memory. A minute in which a process begins or ends has\n\
     fewer seconds; those of two processes become one value. A whole minute is written once, so a clock\n\
     that is set back replaces nothing. While the clock is wrong, a minute may replace the one that is a\n\
     multiple of 30 days away. During an upgrade, the new process writes when the old one begins to\n\
     drain. If two processes share a state directory, only one of them writes the file\n\
     (`petasos_history_off`). A file of another format is moved to `history.old`.\n\n\
     `GET /dashboard/summary` is a summary of the last seven days in Markdown. The time that Petasos\n\
     saved is an estimate: the hits, times the mean time that an origin took to begin a response, those\n\
     to background refreshes included. It needs minutes that counted these requests; earlier versions of\n\
     Petasos did not. Sums are for each recorded hour, so that two weeks can be compared. The pages in it\n\
     are those of this calendar week and the one before. When a week ends (Monday, UTC), Petasos writes\n\
     its summary to `summaries/YYYY-Www.md` in `state_directory`. It tries again each minute if that\n\
     fails, and writes a summary that is due for at most 30 days. It keeps 26 of these files, and the\n\
     pages in `misses.json`, which it writes once an hour and when it stops.";

/// The reference of everything that an operator can observe of a running edge, as Markdown.
pub fn observing_reference() -> String {
    let mut page = format!(
        "# Observing the edge\n\n\
         You can observe a running edge by its metrics, its status, its access log, its traces and a field\n\
         of each response.\n\n\
         The admin address (setting `admin`) answers these calls, which change nothing:\n\n\
         * `GET /metrics`: the metrics as OpenMetrics text, for Prometheus and similar systems.\n\
         * `GET /status`: JSON with version, sites, store and connections.\n\
         * `GET /healthz`: whether the process lives.\n\
         * `GET /readyz`: 200 while the edge takes new connections, 503 while it drains.\n\
         * `GET /log`: each request as it ends (see below).\n\
         * `GET /dashboard/data`, `GET /dashboard/history` and `GET /dashboard/summary`: the figures behind\n  \
         the dashboard (see below).\n\
         * `GET /warm`: the last run of each site that filled the cache (see [warming.md](warming.md)).\n\
         * `POST /why`: how the edge would answer a request, and why (see [why.md](why.md)).\n\n\
         Other calls change something: purges (see [purging.md](purging.md)), `POST /profile` (see\n\
         [profiles.md](profiles.md)), `POST /reload` (see [reloading.md](reloading.md)), `POST /warm` (see\n\
         [warming.md](warming.md)), and the forms of the [dashboard](dashboard.md).\n\n\
         A client on the same machine reads without a token. A client on another machine, or one whose\n\
         request a proxy has forwarded, needs the token of `token_file`. It sends the token as\n\
         `Authorization: Bearer TOKEN`; in Prometheus that is `authorization: {{ credentials_file: FILE }}`.\n\
         Only `/healthz` and `/readyz` answer every client. Each request must name the address by an IP\n\
         address, `localhost` or the configured name. Petasos also refuses requests that a browser marks as\n\
         sent for a page of another site (`Sec-Fetch-Site`), except a link to the dashboard. Thus such a page\n\
         cannot use an operator's browser to send requests. Programs send no such field.\n\n\
         Petasos knows by fields such as `X-Forwarded-For`, `Forwarded` or `Via` that a proxy forwarded a\n\
         request. A proxy on the same machine that adds none of them makes all its clients local ones. Let no\n\
         such proxy reach the admin address.\n\n\
         Every response carries `Cache-Status` with its reason; [reasons.md](reasons.md) lists the reasons.\n\n\
         {}\n{MESSAGES}\n\n{DASHBOARD}\n\n\
         ## Signals\n\n\
         | signal | effect |\n|---|---|\n\
         | SIGHUP | Opens the access log again, and puts changed settings and certificates in force (docs/reloading.md). |\n\
         | SIGUSR1 | Opens the access log again, for use after a rotation. If that fails, the edge \
         continues to write to the file that was open. |\n\
         | SIGUSR2 | Starts the program again with the same arguments and `--upgrade`; the new process takes over (docs/reloading.md). |\n\
         | SIGTERM, SIGINT | Takes no new connection and closes idle ones. Upgraded connections and event streams end after \
         `limits.drain_streams`, other requests at `limits.drain_timeout`. The admin address answers until then. A second \
         signal ends everything at once. |\n\n\
         For rotation by logrotate, add `postrotate` with `pkill -USR1 -x petasos`, or\n\
         `systemctl kill --kill-whom=main -s USR1 petasos`.\n\n\
         ## Metrics\n\n\
         `petasos_requests_total` counts requests, with the labels `site`, `verdict` and `reason`. The label\n\
         `site` is the site's first name, or `any`, with the route. It is `-` for requests that reached no\n\
         site's pages; only those show every reason, also with the value 0. From the 257th site on, sites\n\
         share the label `(other)`. Metrics about origins have the label `site`, too. If a site has several\n\
         origins, they also have the label `origin`.\n\n\
         `petasos_request_duration_seconds` is a histogram of the times of requests, with the labels `site`\n\
         and `verdict`: from the complete head to the last byte of the response. A request whose\n\
         `traceparent` is marked as sampled becomes the exemplar of its bucket, with its `trace_id`. Let\n\
         Prometheus store exemplars by `--enable-feature=exemplar-storage`. Native histograms need the\n\
         binary format of Prometheus, which Petasos does not write (prometheus-client 0.25 has it).\n\n\
         `contrib/prometheus` has alert rules, `contrib/grafana` a dashboard;\n\
         [operations.md](operations.md) says what to do about each alert.\n\n\
         This page is rendered from the table of metrics by `cargo xtask docs`.\n\n\
         | metric | kind | meaning; what to do |\n|---|---|---|\n",
        log_section()
    );
    for row in METRICS {
        let (suffix, kind) = match row.kind {
            MetricKind::Counter => ("_total", "counter"),
            MetricKind::Gauge => ("", "gauge"),
        };
        // Writing to a String cannot fail.
        let _ = writeln!(page, "| `petasos_{}{suffix}` | {kind} | {} |", row.name, row.help);
    }
    page
}

#[cfg(test)]
mod tests {
    use super::METRICS;
    use crate::control::counters::MetricKind;

    /// The names that follow `petasos_` in a text.
    fn named(text: &str) -> impl Iterator<Item = &str> {
        let is_name = |character: char| {
            character.is_ascii_lowercase() || character.is_ascii_digit() || character == '_'
        };
        text.split("petasos_").skip(1).filter_map(move |rest| rest.split(|c| !is_name(c)).next())
    }

    #[test]
    fn rules_and_dashboard_name_existing_metrics() {
        let rules = include_str!("../../../../../contrib/prometheus/petasos.rules.yml");
        let tests = include_str!("../../../../../contrib/prometheus/petasos.tests.yml");
        let dashboard = include_str!("../../../../../contrib/grafana/petasos.json");
        let mut exposed: Vec<_> = METRICS
            .iter()
            .map(|row| match row.kind {
                MetricKind::Counter => format!("{}_total", row.name),
                MetricKind::Gauge => row.name.to_owned(),
            })
            .collect();
        exposed.push("requests_total".to_owned());
        exposed.push("request_duration_seconds_bucket".to_owned());
        for text in [rules, tests, dashboard] {
            assert!(named(text).count() > 2);
            for name in named(text) {
                assert!(exposed.iter().any(|known| known == name), "petasos_{name}");
            }
        }
    }
}
