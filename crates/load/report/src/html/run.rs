//! One measured run as a page: the verdict, then charts over time, then all figures.
//!
//! Invariant: everything comes from the run's record. The page loads nothing and has no scripts.
//! Unknown values are left out.

use super::over_time::{DrawingTexts, SecondsLine, bars, lines, stacked, whole};
use super::tables::scrolling;
use super::{HALF, WIDE, document, figure};
use crate::number;
use crate::run::{ContentDrift, Distribution, Run, RunSecond};
use maud::{Markup, html};
use std::collections::{BTreeMap, BTreeSet};

/// Returns the page of a run.
pub fn run_page(run: &Run) -> String {
    let name = run.url.as_deref().unwrap_or("imported run");
    let seconds = whole(&run.seconds, run.elapsed_s);
    let content = html! {
        (head(run, name))
        @if seconds.len() > 1 { (over_time(seconds)) }
        (distribution(run))
        (tables(run))
    };
    document(&format!("Load report: {name}"), &content)
}

fn head(run: &Run, name: &str) -> Markup {
    html! {
        header {
            p.kicker { "Load report" }
            h1 { (name) }
            p.lead { (verdict(run)) }
            @match run.generator.trust.as_deref() {
                Some("clean") | None => {}
                Some(trust) => {
                    p.warning {
                        strong { "The run is " (trust) ". " }
                        (run.generator.reasons.join("; ")) "."
                    }
                }
            }
            @if run.failed.is_some_and(|failed| failed > 0) {
                p.warning { strong { "Some requests failed. " } (failures(&run.failed_by_kind)) }
            }
            @for missed in run.thresholds.iter().filter(|condition| condition.missed) {
                p.warning { strong { "Threshold missed. " } code { (missed.condition) } ": " (missed.found) "." }
            }
            @if let Some(drift) = &run.drift { (drifted(drift)) }
            p.facts {
                @if let Some(users) = run.plan.users { span { (number::grouped(users)) " users" } }
                @if let Some(rate) = run.rate_asked_per_s { span { (number::rate(rate)) " requests a second demanded" } }
                @if let Some(elapsed) = run.elapsed_s { span { (format!("{elapsed:.1} s")) } }
                @if let Some(protocol) = &run.plan.protocol { span { (protocol) } }
                @match run.plan.keep_alive {
                    Some(true) => span { "connections kept" },
                    Some(false) => span { "a connection for each request" },
                    None => {}
                }
                @if let Some(server) = run.server_software.as_deref().filter(|name| !name.is_empty()) { span { "server " code { (server) } } }
                @if let Some(started) = run.started_s { span { (number::moment(started as u64)) } }
                @if !run.source.is_empty() { span { "measured by " (run.source) } }
            }
        }
    }
}

/// Warning about the changes between responses, with their places.
fn drifted(drift: &ContentDrift) -> Markup {
    html! {
        div.warning id="drift" {
            strong { "The page changed: " (drift.said()) ". " }
            (number::grouped(drift.differing)) " of " (number::grouped(drift.compared))
            " compared responses differ from the first."
            @if drift.spots_count.is_none() { " The first different one differs throughout." }
            ul {
                @for spot in &drift.spots {
                    li {
                        "line " (spot.line) ", " (spot.kind) ": "
                        code { (spot.before) del { (spot.first) } " " ins { (spot.other) } }
                    }
                }
            }
            @if let Some(more) = drift.spots_count.and_then(|count| count.checked_sub(drift.spots.len() as u64)).filter(|&more| more > 0) {
                "and in " (number::grouped(more)) " other places."
            }
        }
    }
}

/// The first sentence: throughput, response times, failures and trust.
fn verdict(run: &Run) -> Markup {
    let times = run.good_times.latency.or_unknown();
    let time = |value: Option<u64>| value.map(|us| number::milliseconds(us as f64 / 1e3));
    html! {
        @match run.good_per_s {
            Some(rate) => { strong { (number::rate(rate)) } " good responses a second" }
            None => "The number of good responses a second is not known"
        }
        @if let Some((half, most)) = time(times.p50_us).zip(time(times.p99_us)) {
            "; half of them within " strong { (half) } ", 99% within " strong { (most) }
        }
        ". "
        @match (run.failed, run.requests) {
            (Some(0), Some(requests)) => { "None of " (number::grouped(requests)) " requests failed." }
            (Some(failed), Some(requests)) => {
                (number::grouped(failed)) " of " (number::grouped(requests)) " requests failed."
            }
            _ => {}
        }
        @if run.generator.trust.as_deref() == Some("clean") { " The generator was not the limit." }
    }
}

/// A list of kinds with their counts, without those that did not occur.
pub(super) fn failures<K: AsRef<str>>(kinds: &BTreeMap<K, u64>) -> String {
    let said: Vec<String> = kinds
        .iter()
        .filter(|(_, count)| **count > 0)
        .map(|(kind, count)| format!("{}: {}", kind.as_ref(), number::grouped(*count)))
        .collect();
    said.join(", ")
}

fn over_time(seconds: &[RunSecond]) -> Markup {
    let of = |read: &dyn Fn(&RunSecond) -> Option<f64>| seconds.iter().map(read).collect::<Vec<_>>();
    let ms = |value: Option<u64>| value.map(|us| us as f64 / 1e3);
    let line = |name: &str, colour, is_dashed, values| SecondsLine {
        name: name.to_owned(),
        colour,
        is_dashed,
        values,
    };
    let mut rates = vec![line("good", "c5", false, of(&|second| Some(second.good as f64)))];
    if seconds.iter().any(|second| second.failed > 0) {
        rates.push(line("failed", "ca", false, of(&|second| Some(second.failed as f64))));
    }
    if seconds.iter().any(|second| second.not_started > 0) {
        rates.push(line("not started", "ca", true, of(&|second| Some(second.not_started as f64))));
    }
    let times = [
        line("99%", "ca", false, of(&|second| ms(second.p99_us))),
        line("95%", "c3", false, of(&|second| ms(second.p95_us))),
        line("median", "c5", false, of(&|second| ms(second.p50_us))),
    ];
    let mut crowd = vec![line("in flight", "c5", false, of(&|second| Some(second.in_flight as f64)))];
    if seconds.iter().any(|second| second.users > 0) {
        crowd.push(line("users", "c2", true, of(&|second| Some(second.users as f64))));
    }
    let host = [
        line("host", "ca", false, of(&|second| second.host_busy.map(|share| share * 100.0))),
        line("generator", "c4", true, of(&|second| second.generator_busy.map(|share| share * 100.0))),
    ];
    let statuses = layers(seconds, |second| &second.statuses);
    let verdicts = layers(seconds, |second| &second.verdicts);
    let errors = layers(seconds, |second| &second.failed_by_kind);
    html! {
        (figure("rate", "Responses a second", "One value for each second of the run; a response belongs to the second in which it ended.", WIDE,
            |id, size| lines(&DrawingTexts { id, title: "Responses a second over time", unit: "per second" }, size, &rates)))
        (figure("times", "Response time", "Of the responses that ended in each second, from the time at which their requests were due.", WIDE,
            |id, size| lines(&DrawingTexts { id, title: "Response time over time", unit: "ms" }, size, &times)))
        @if seconds.iter().any(|second| second.host_busy.is_some()) {
            (figure("host", "Load of this host", "Share of all processor cores that was busy; the generator's part is dashed.", WIDE,
                |id, size| lines(&DrawingTexts { id, title: "Load of the host over time", unit: "% of all cores" }, size, &host)))
        }
        @if !errors.is_empty() {
            (figure("errors", "Failed requests", "Failed requests a second by kind.", WIDE,
                |id, size| stacked(&DrawingTexts { id, title: "Failed requests over time", unit: "per second" }, size, &errors)))
        }
        (figure("crowd", "Requests in flight", "At the end of each second.", WIDE,
            |id, size| lines(&DrawingTexts { id, title: "Requests in flight over time", unit: "requests" }, size, &crowd)))
        div.pair {
            (figure("statuses", "Status codes", "Complete responses a second by class of their status.", HALF,
                |id, size| stacked(&DrawingTexts { id, title: "Status codes over time", unit: "per second" }, size, &statuses)))
            @if !verdicts.is_empty() {
                (figure("verdicts-time", "Cache verdicts", "Good responses a second by verdict of the nearest cache.", HALF,
                    |id, size| stacked(&DrawingTexts { id, title: "Cache verdicts over time", unit: "per second" }, size, &verdicts)))
            }
        }
    }
}

/// Colours of stacked areas, assigned in the order of their names.
const LAYERS: [&str; 6] = ["c1", "c3", "c5", "c2", "c4", "c0"];

/// Makes a layer for each name that occurs, in alphabetical order. Statuses of class 4xx and 5xx
/// thus come above 2xx and 3xx, in a warning colour.
fn layers(seconds: &[RunSecond], counts: impl Fn(&RunSecond) -> &BTreeMap<String, u64>) -> Vec<SecondsLine> {
    let names: BTreeSet<&String> = seconds.iter().flat_map(|second| counts(second).keys()).collect();
    let is_bad = |name: &str| name.starts_with('5') || name.starts_with('4');
    let layer = |(n, name): (usize, &String)| {
        let values =
            seconds.iter().map(|second| counts(second).get(name).map(|count| *count as f64)).collect();
        let colour = if is_bad(name) { "ca" } else { LAYERS.get(n % LAYERS.len()).copied().unwrap_or("c0") };
        SecondsLine { name: name.clone(), colour, is_dashed: false, values }
    };
    names.into_iter().enumerate().map(layer).collect()
}

/// Charts of the percentiles and of the times by cache verdict.
fn distribution(run: &Run) -> Markup {
    let times = &run.good_times.latency.or_unknown();
    let spectrum: Vec<(String, f64, String)> = percentiles(times)
        .into_iter()
        .filter_map(|(name, value)| {
            let ms = value? as f64 / 1e3;
            Some((name.to_owned(), ms, number::milliseconds(ms)))
        })
        .collect();
    let split: Vec<(String, f64, String)> = run
        .verdicts
        .iter()
        .filter_map(|(name, times)| {
            let half = times.p50_us? as f64 / 1e3;
            Some((name.clone(), half, number::milliseconds(half)))
        })
        .collect();
    html! {
        @if !spectrum.is_empty() {
            (figure("spectrum", "Percentiles", "This share of the good responses arrived within this time.", WIDE,
                |id, size| bars(&DrawingTexts { id, title: "Percentiles of the response time", unit: "ms" }, size, &spectrum)))
        }
        @if split.len() > 1 {
            (figure("by-verdict", "Response time by cache verdict", "The bar is the median.", WIDE,
                |id, size| bars(&DrawingTexts { id, title: "Response time by cache verdict", unit: "ms" }, size, &split)))
        }
        @if !split.is_empty() { (by_verdict(&run.verdicts)) }
    }
}

/// Table of the times of good responses by verdict of the nearest cache.
fn by_verdict(verdicts: &BTreeMap<String, Distribution>) -> Markup {
    let table = html! {
        table {
            thead { tr {
                th { "verdict" } th.n { "responses" } th.n { "mean" } th.n { "sd" }
                @for (name, _) in percentiles(&Distribution::default()) { th.n { (name) } }
            } }
            tbody {
                @for (name, times) in verdicts {
                    tr {
                        th scope="row" { (name) }
                        td.n { (times.count.map_or_else(|| "–".to_owned(), number::grouped)) }
                        td.n { (milliseconds(times.mean_us)) }
                        td.n { (milliseconds(times.sd_us)) }
                        @for (_, value) in percentiles(times) { td.n { (milliseconds(value.map(|us| us as f64))) } }
                    }
                }
            }
        }
    };
    html! { section id="verdicts" { h2 { "Good responses by cache verdict" } (scrolling("Good responses by cache verdict", &table)) } }
}

/// Percentiles that a page shows, with their names.
pub(super) fn percentiles(times: &Distribution) -> [(&'static str, Option<u64>); 8] {
    [
        ("least", times.min_us),
        ("50%", times.p50_us),
        ("75%", times.p75_us),
        ("90%", times.p90_us),
        ("95%", times.p95_us),
        ("99%", times.p99_us),
        ("99.9%", times.p999_us),
        ("longest", times.max_us),
    ]
}

fn tables(run: &Run) -> Markup {
    html! {
        (phases(run))
        @if run.stages.len() > 1 { (stages(run)) }
        @if run.urls.len() > 1 { (urls(run)) }
        (facts(run))
    }
}

fn phases(run: &Run) -> Markup {
    let good = &run.good_times;
    let rows = [
        ("connect", "start of the request until the connection is established, TLS included", &good.connect),
        ("TLS", "part of connect", &good.tls),
        ("waiting", "last byte sent until the first byte of the response", &good.waiting),
        ("transfer", "first until last byte of the response", &good.transfer),
        ("total", "start of the request until the last byte", &good.total),
        ("latency", "time at which the request was due until the last byte", &good.latency),
    ];
    let table = html! {
        table {
            thead { tr {
                th { "phase" } th.n { "mean" } th.n { "sd" }
                @for (name, _) in percentiles(&good.total) { th.n { (name) } }
                th { "from, until" }
            } }
            tbody {
                @for (name, meaning, times) in rows {
                    @if times.count.is_some_and(|count| count > 0) {
                        tr {
                            th scope="row" { (name) }
                            td.n { (milliseconds(times.mean_us)) }
                            td.n { (milliseconds(times.sd_us)) }
                            @for (_, value) in percentiles(times) { td.n { (milliseconds(value.map(|us| us as f64))) } }
                            td.title.meaning { (meaning) }
                        }
                    }
                }
            }
        }
    };
    html! {
        section id="phases" {
            h2 { "Phases of good answers" }
            (scrolling("Phases", &table))
        }
    }
}

fn stages(run: &Run) -> Markup {
    let table = html! {
        table {
            thead { tr {
                th { "stage" } th.n { "good a second" } th.n { "mean" } th.n { "sd" } th.n { "median" } th.n { "95%" } th.n { "99%" }
                th.n { "not started" } th { "failed" }
            } }
            tbody {
                @for stage in &run.stages {
                    @let times = stage.good_times.latency.or_unknown();
                    tr {
                        th scope="row" {
                            @match (stage.users, stage.rate_per_s) {
                                (Some(users), _) => { (number::grouped(users)) " users" }
                                (None, Some(rate)) => { (number::rate(rate)) " a second" }
                                (None, None) => "–"
                            }
                        }
                        td.n { (number::rate(stage.good_per_s)) }
                        td.n { (milliseconds(times.mean_us)) }
                        td.n { (milliseconds(times.sd_us)) }
                        @for value in [times.p50_us, times.p95_us, times.p99_us] {
                            td.n { (milliseconds(value.map(|us| us as f64))) }
                        }
                        td.n { (number::grouped(stage.not_started)) }
                        td { (failures(&stage.failed_by_kind)) }
                    }
                }
            }
        }
    };
    html! { section id="stages" { h2 { "Stages" } (scrolling("Stages", &table)) } }
}

fn urls(run: &Run) -> Markup {
    let table = html! {
        table {
            thead { tr {
                th { "URL" } th.n { "weight" } th.n { "complete" } th.n { "good" } th.n { "failed" } th.n { "mean" } th.n { "longest" }
            } }
            tbody {
                @for url in &run.urls {
                    tr {
                        th.title scope="row" { code { (url.url) } }
                        td.n { (url.weight) }
                        @for count in [url.complete, url.good, url.failed] { td.n { (number::grouped(count)) } }
                        td.n { (milliseconds(url.mean_us)) }
                        td.n { (milliseconds(url.max_us.map(|us| us as f64))) }
                    }
                }
            }
        }
    };
    html! { section id="urls" { h2 { "URLs" } (scrolling("URLs", &table)) } }
}

/// Table of all other figures of the record: name and value.
fn facts(run: &Run) -> Markup {
    let count = |value: Option<u64>| value.map(number::grouped);
    let bytes = |value: Option<u64>| value.map(number::bytes);
    let facts = [
        ("complete responses", count(run.complete)),
        ("unfinished at the end", count(run.unfinished)),
        ("not started", count(run.not_started)),
        ("responses with another length than the first", count(run.length_differs)),
        ("responses that stated their length", count(run.lengths_known)),
        ("content of the first good response", bytes(run.document_bytes)),
        ("received", bytes(run.received_bytes)),
        ("sent", bytes(run.sent_bytes)),
        ("connections opened", count(run.connections.opened)),
        (
            "connections with TLS sessions resumed",
            count(run.connections.resumed.filter(|&resumed| resumed > 0)),
        ),
        ("requests on kept connections", count(run.connections.kept)),
        ("requests per connection, mean", run.connections.requests_mean.map(|mean| format!("{mean:.1}"))),
        ("requests sent again", count(run.connections.resent)),
        ("busiest generator thread", run.generator.cpu_share_max.map(number::percent)),
        (
            "time until responses were read, 99%",
            run.generator.lag_p99_us.map(|us| number::milliseconds(us as f64 / 1e3)),
        ),
        (
            "generator's share of the users' time",
            run.generator.account.as_ref().and_then(|account| account.lost_share).map(number::percent),
        ),
        ("Little's-law residual", run.generator.little_residual.map(number::percent)),
        ("address", run.address.clone()),
        ("ended by", run.ended.clone()),
    ];
    html! {
        section id="facts" {
            h2 { "Figures" }
            dl {
                @for (name, value) in facts {
                    @if let Some(value) = value { div { dt { (name) } dd { (value) } } }
                }
                @if !run.statuses.is_empty() {
                    div { dt { "status codes" } dd { (failures(&run.statuses)) } }
                }
            }
        }
    }
}

/// Formats a time in microseconds that may be unknown.
pub(super) fn milliseconds(us: Option<f64>) -> String {
    us.map_or_else(|| "–".to_owned(), |us| number::milliseconds(us / 1e3))
}
