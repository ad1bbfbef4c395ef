//! A run of page mode as a page: the verdict, then page times beside the times of requests, then
//! all figures.
//!
//! Invariant: everything comes from the run's record. The page loads nothing and has no scripts.

use super::over_time::{DrawingTexts, SecondsLine, bars, lines, whole};
use super::run::{failures, milliseconds, percentiles};
use super::tables::scrolling;
use super::{WIDE, document, figure};
use crate::number;
use crate::page::{PageRun, PageRunSecond};
use crate::run::Distribution;
use maud::{Markup, html};

/// Returns the page of a run in page mode.
pub fn visits_page(run: &PageRun) -> String {
    let seconds = whole(&run.seconds, Some(run.elapsed_s));
    let content = html! {
        (head(run))
        @if seconds.len() > 1 { (over_time(seconds)) }
        (beside(run))
        (times(run))
        (classes(run))
        (left_out(run))
        (facts(run))
    };
    document(&format!("Page load report: {}", run.url), &content)
}

fn head(run: &PageRun) -> Markup {
    let pages = &run.pages;
    html! {
        header {
            p.kicker { "Page load report" }
            h1 { (run.url) }
            p.lead { (verdict(run)) }
            @if run.generator.trust != "clean" {
                p.warning {
                    strong { "The run is " (run.generator.trust) ". " }
                    (run.generator.reasons.join("; ")) "."
                }
            }
            @for missed in run.thresholds.iter().filter(|condition| condition.missed) {
                p.warning { strong { "Threshold missed. " } code { (missed.condition) } ": " (missed.found) "." }
            }
            @if pages.failed + pages.incomplete > 0 {
                p.warning {
                    strong { "Some pages were incomplete. " }
                    (number::grouped(pages.incomplete)) " incomplete, " (number::grouped(pages.failed)) " without a document; "
                    "requests: " (failures(&run.failed_by_kind)) "."
                }
            }
            p.facts {
                span { (number::grouped(run.users)) " visitors at a time" @if run.rate_asked_per_s.is_some() { " at most" } }
                @if let Some(rate) = run.rate_asked_per_s { span { (number::rate(rate)) " pages a second demanded" } }
                span { (number::percent(run.returning_asked)) " returning" }
                @if run.think_max_s > 0.0 { span { (thinking(run)) " between two pages" } }
                @if run.linger_s > 0.0 { span { "connections open for " (seconds(run.linger_s)) " after their page" } }
                span { (format!("{:.1} s", run.elapsed_s)) }
                span { (run.protocol) ", " @match run.connections_per_host_max {
                    1 => "one connection a host",
                    count => { (count) " connections a host" }
                } }
                span { (number::moment(run.started_s as u64)) }
            }
        }
    }
}

fn seconds(time_s: f64) -> String {
    format!("{} s", number::three_digits(time_s))
}

/// The think time: a constant or a range.
fn thinking(run: &PageRun) -> String {
    let from = seconds(run.think_min_s);
    let to = seconds(run.think_max_s);
    if from == to { to } else { format!("{from} to {to}") }
}

/// The first sentence: page rate, page times, incomplete pages and trust.
fn verdict(run: &PageRun) -> Markup {
    let time = |value: Option<u64>| value.map(|us| number::milliseconds(us as f64 / 1e3));
    let pages = &run.pages;
    let times = run.page_times.or_unknown();
    let ended = pages.good + pages.incomplete + pages.failed;
    let bad = pages.incomplete + pages.failed;
    html! {
        strong { (number::rate(run.pages_per_s)) } " pages a second"
        @if let Some((half, most)) = time(times.p50_us).zip(time(times.p99_us)) {
            "; half of them complete within " strong { (half) } ", 99% within " strong { (most) }
        }
        ". "
        @if bad == 0 { "None" } @else { (number::grouped(bad)) }
        " of " (number::grouped(ended)) " pages failed or were incomplete."
        @if run.generator.trust == "clean" { " The generator was not the limit." }
    }
}

fn over_time(seconds: &[PageRunSecond]) -> Markup {
    let of = |read: &dyn Fn(&PageRunSecond) -> Option<f64>| seconds.iter().map(read).collect::<Vec<_>>();
    let ms = |value: Option<u64>| value.map(|us| us as f64 / 1e3);
    let line = |name: &str, colour, is_dashed, values| SecondsLine {
        name: name.to_owned(),
        colour,
        is_dashed,
        values,
    };
    let mut rates = vec![line("good", "c5", false, of(&|second| Some(second.good as f64)))];
    if seconds.iter().any(|second| second.incomplete > 0) {
        rates.push(line("incomplete", "c3", false, of(&|second| Some(second.incomplete as f64))));
    }
    if seconds.iter().any(|second| second.failed > 0) {
        rates.push(line("failed", "ca", false, of(&|second| Some(second.failed as f64))));
    }
    let mut requests = vec![line("answers", "c5", false, of(&|second| Some(second.requests as f64)))];
    if seconds.iter().any(|second| second.failed_requests > 0) {
        requests.push(line("failed", "ca", false, of(&|second| Some(second.failed_requests as f64))));
    }
    let times = [
        line("page 95%", "ca", false, of(&|second| ms(second.page_p95_us))),
        line("page median", "c5", false, of(&|second| ms(second.page_p50_us))),
        line("request 95%", "ca", true, of(&|second| ms(second.request_p95_us))),
        line("request median", "c5", true, of(&|second| ms(second.request_p50_us))),
    ];
    html! {
        (figure("pages", "Pages a second", "One value for each second of the run; a page belongs to the second in which it ended.", WIDE,
            |id, size| lines(&DrawingTexts { id, title: "Pages a second over time", unit: "per second" }, size, &rates)))
        (figure("times", "Page time and request time", "Pages and, dashed, single requests that ended in each second.", WIDE,
            |id, size| lines(&DrawingTexts { id, title: "Page time and request time over time", unit: "ms" }, size, &times)))
        (figure("requests", "Requests a second", "All requests of the pages: documents, stylesheets, scripts, pictures, fonts.", WIDE,
            |id, size| lines(&DrawingTexts { id, title: "Requests a second over time", unit: "per second" }, size, &requests)))
    }
}

/// Chart of the median times of pages and of requests by class, on one axis.
fn beside(run: &PageRun) -> Markup {
    let bar = |name: &str, times: &Distribution| {
        times.count.filter(|&count| count > 0)?;
        let half = times.p50_us? as f64 / 1e3;
        let most = times.p95_us? as f64 / 1e3;
        let said = format!("half {}, 95% {}", number::milliseconds(half), number::milliseconds(most));
        Some((name.to_owned(), half, said))
    };
    let whole =
        [("page", &run.page_times), ("first byte", &run.first_octet_times), ("request", &run.request_times)];
    let of_classes = run.classes.iter().map(|(name, class)| (name.as_str(), &class.times));
    let all: Vec<_> =
        whole.into_iter().chain(of_classes).filter_map(|(name, times)| bar(name, times)).collect();
    html! {
        @if !all.is_empty() {
            (figure("beside", "Page time beside request times", "The bar is the median. A page takes longer than its requests, because requests wait for each other and for connections.", WIDE,
                |id, size| bars(&DrawingTexts { id, title: "Median of page time and of request times by class", unit: "ms" }, size, &all)))
        }
    }
}

fn times(run: &PageRun) -> Markup {
    let rows = [
        ("page", "start of the page until the last byte of the resources that it waits for", &run.page_times),
        ("returning", "page times of returning visitors", &run.returning_times),
        ("first byte", "start of the page until the head of the document", &run.first_octet_times),
        ("request", "free connection for the request until its last byte", &run.request_times),
    ];
    let table = html! {
        table {
            thead { tr {
                th { "time" } th.n { "count" } th.n { "mean" } th.n { "sd" }
                @for (name, _) in percentiles(&run.page_times) { th.n { (name) } }
                th { "from, until" }
            } }
            tbody {
                @for (name, meaning, times) in rows {
                    @if let Some(count) = times.count.filter(|&count| count > 0) {
                        tr {
                            th scope="row" { (name) }
                            td.n { (number::grouped(count)) }
                            td.n { (milliseconds(times.mean_us)) }
                            td.n { (milliseconds(times.sd_us)) }
                            @for (_, value) in percentiles(times) { td.n { (milliseconds(value.map(|us| us as f64))) } }
                            td.title { (meaning) }
                        }
                    }
                }
            }
        }
    };
    html! { section id="distribution" { h2 { "Times" } (scrolling("Times", &table)) } }
}

fn classes(run: &PageRun) -> Markup {
    let table = html! {
        table {
            thead { tr {
                th { "requests" } th.n { "count" } th.n { "304" } th.n { "from cache" } th.n { "failed" } th.n { "received" }
                th.n { "mean" } th.n { "median" } th.n { "95%" } th.n { "longest" }
            } }
            tbody {
                @for (name, class) in run.classes.iter().filter(|(_, class)| class.requests + class.from_cache + class.failed > 0) {
                    @let times = class.times.or_unknown();
                    tr {
                        th scope="row" { (name) }
                        @for count in [class.requests, class.not_modified, class.from_cache, class.failed] { td.n { (number::grouped(count)) } }
                        td.n { (number::bytes(class.received_bytes)) }
                        td.n { (milliseconds(times.mean_us)) }
                        @for value in [times.p50_us, times.p95_us, times.max_us] {
                            td.n { (milliseconds(value.map(|us| us as f64))) }
                        }
                    }
                }
            }
        }
    };
    html! { section id="classes" { h2 { "Requests by class" } (scrolling("Requests by class", &table)) } }
}

/// Lists of the first failed resources, and of the foreign hosts that received no requests.
fn left_out(run: &PageRun) -> Markup {
    html! {
        @if !run.examples.is_empty() {
            section id="examples" {
                h2 { "The first resources that did not arrive" }
                ul { @for example in &run.examples { li { code { (example.url) } " (" (example.kind) ")" } } }
            }
        }
        @if !run.foreign_hosts.is_empty() {
            section id="foreign" {
                h2 { "Foreign hosts, which got no request" }
                ul { @for (host, count) in &run.foreign_hosts { li { code { (host) } " " (number::grouped(*count)) } } }
            }
        }
    }
}

/// Table of all other figures of the record: name and value.
fn facts(run: &PageRun) -> Markup {
    let counts = [
        ("good pages", run.pages.good),
        ("pages of returning visitors", run.pages.returning),
        ("pages unfinished at the end", run.pages.unfinished),
        ("pages not started", run.pages.not_started),
        ("lazy resources, not loaded", run.lazy),
        ("redirects", run.redirects),
        ("connections opened", run.connections),
        ("connections closed before the time of --linger ended", run.closed_early),
    ];
    let lists = [
        ("status codes", failures(&run.statuses)),
        ("caches on pages", failures(&run.document_verdicts)),
        ("caches on all other resources", failures(&run.other_verdicts)),
        ("limits reached", failures(&run.limits)),
    ];
    html! {
        section id="facts" {
            h2 { "Figures" }
            dl {
                @for (name, count) in counts { div { dt { (name) } dd { (number::grouped(count)) } } }
                div { dt { "received" } dd { (number::bytes(run.received_bytes)) } }
                div { dt { "busiest generator thread" } dd { (number::percent(run.generator.cpu_share_max)) } }
                div { dt { "ended by" } dd { (run.ended) } }
                @for (name, list) in lists {
                    @if !list.is_empty() { div { dt { (name) } dd { (list) } } }
                }
            }
        }
    }
}
