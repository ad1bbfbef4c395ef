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

/// The reference of everything that an operator can observe of a running edge, as Markdown.
pub fn observing_reference() -> String {
    let mut page = format!(
        "# Observing the edge\n\n\
         You can observe a running edge by its metrics, its status, its access log, its traces and a field\n\
         of each response.\n\n\
         The admin address (setting `admin`) answers six calls that change nothing:\n\n\
         * `GET /metrics`: the metrics as OpenMetrics text, for Prometheus and similar systems.\n\
         * `GET /status`: JSON with version, sites, store and connections.\n\
         * `GET /healthz`: whether the process lives.\n\
         * `GET /readyz`: 200 while the edge takes new connections, 503 while it drains.\n\
         * `GET /log`: each request as it ends (see below).\n\
         * `POST /why`: how the edge would answer a request, and why (see [why.md](why.md)).\n\n\
         Two other calls change something: purges (see [purging.md](purging.md)) and `POST /profile` (see\n\
         [profiles.md](profiles.md)).\n\n\
         A client on the same machine reads without a token. A client on another machine, or one whose\n\
         request a proxy has forwarded, needs the token of `token_file`. It sends the token as\n\
         `Authorization: Bearer TOKEN`; in Prometheus that is `authorization: {{ credentials_file: FILE }}`.\n\
         Only `/healthz` and `/readyz` answer every client. Each request must name the address by an IP address,\n\
         `localhost` or the configured name. This prevents a page of another site from sending requests\n\
         through a visitor's browser.\n\n\
         Every response carries `Cache-Status` with its reason; [reasons.md](reasons.md) lists the reasons.\n\n\
         {}\n{MESSAGES}\n\n\
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
         `systemctl kill -s USR1 petasos`.\n\n\
         ## Metrics\n\n\
         `petasos_requests_total` counts requests, with the labels `verdict` and `reason`. Metrics about\n\
         origins have the label `site`, whose value is the site's first name, or `any`. If a site has\n\
         several origins, they also have the label `origin`.\n\n\
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
        for text in [rules, tests, dashboard] {
            assert!(named(text).count() > 2);
            for name in named(text) {
                assert!(exposed.iter().any(|known| known == name), "petasos_{name}");
            }
        }
    }
}
