//! Reports of page loads: a text for people and JSON for programs, both made from
//! [`record::PageOutcome`]. `docs/page-mode.md` describes them.
//!
//! Invariants:
//!
//! * As long as [`SCHEMA`] is unchanged, members of the JSON are only added. None is renamed or
//!   changes its meaning.
//! * Names end with their units.

use crate::number::{grouped, milliseconds, three_digits};
use crate::run::{Distribution, FailCondition, Round};
use record::{FetchFailure, PageOutcome, Protocol};
use resource::{PageLimit, ResourceClass};
use serde::{Deserialize, Serialize};
use stats::Histogram;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

/// Name and version of the format: the value of the member `schema`.
pub const SCHEMA: &str = "petasos-page-run/1";

/// Number of foreign hosts in the text. The JSON lists all kept ones.
const FOREIGN_SHOWN_MAX: usize = 20;

/// A run of page mode.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PageRun {
    /// [`SCHEMA`].
    pub schema: String,
    /// URL of the page.
    pub url: String,
    /// Start of the measured part, in seconds since 1970-01-01 UTC.
    pub started_s: f64,
    /// Duration of the measured part in seconds.
    pub elapsed_s: f64,
    /// Round of the comparison that this run belongs to; null for a single run.
    pub round: Option<Round>,
    /// Reason for the end: `pages`, `time`, `stopped` or `failing`.
    pub ended: String,
    /// Number of simultaneous visitors.
    pub users: u64,
    /// Requested pages per second; null in a closed loop.
    pub rate_asked_per_s: Option<f64>,
    /// Shortest think time after a page, in seconds.
    pub think_min_s: f64,
    /// Longest think time after a page, in seconds.
    pub think_max_s: f64,
    /// Time for which connections stayed open after their page, in seconds.
    pub linger_s: f64,
    /// Requested share of returning visitors, 0 to 1.
    pub returning_asked: f64,
    /// Largest number of connections of a visitor to one host.
    pub connections_per_host_max: u64,
    /// The protocol: `HTTP/1.1` or `HTTP/2`.
    pub protocol: String,
    /// Counts of pages.
    pub pages: PagesByResult,
    /// Pages per second whose document arrived.
    pub pages_per_s: f64,
    /// Load times of pages whose document arrived.
    pub page_times: Distribution,
    /// Load times of these pages for returning visitors.
    pub returning_times: Distribution,
    /// Times from the start of a page to the first byte of its document.
    pub first_octet_times: Distribution,
    /// Times of all requests.
    pub request_times: Distribution,
    /// Requests by class of resource.
    pub classes: BTreeMap<String, ClassRun>,
    /// Responses by status code.
    pub statuses: BTreeMap<String, u64>,
    /// Failed requests by kind; kinds that did not occur are 0.
    pub failed_by_kind: BTreeMap<String, u64>,
    /// Examples of failures: the first ones.
    pub examples: Vec<Example>,
    /// Responses to requests for documents, by verdict of the nearest cache.
    pub document_verdicts: BTreeMap<String, u64>,
    /// Responses to all other requests, by verdict of the nearest cache.
    pub other_verdicts: BTreeMap<String, u64>,
    /// Foreign hosts that received no requests, with the number of their resources.
    pub foreign_hosts: BTreeMap<String, u64>,
    /// Number of resources on foreign hosts that are not listed by name.
    pub foreign_beyond: u64,
    /// Number of lazy images and frames, which were not loaded.
    pub lazy: u64,
    /// Number of redirects that were followed.
    pub redirects: u64,
    /// Number of connections opened.
    pub connections: u64,
    /// Connections closed before `linger_s` had passed, because too many were open.
    pub closed_early: u64,
    /// Bytes received, heads included.
    pub received_bytes: u64,
    /// How often each limit was reached; lists all limits.
    pub limits: BTreeMap<String, u64>,
    /// Resources of the first page of a new visitor, and the result of each.
    pub trace: Vec<TracedResource>,
    /// Figures of each second.
    pub seconds: Vec<PageRunSecond>,
    /// Trustworthiness of the figures.
    pub generator: PageGenerator,
    /// Conditions that the run was judged by, in the order of the command line.
    pub thresholds: Vec<FailCondition>,
}

/// Pages by result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PagesByResult {
    /// Pages that arrived completely.
    pub good: u64,
    /// Pages whose document arrived, but not all of the rest.
    pub incomplete: u64,
    /// Pages whose document did not arrive.
    pub failed: u64,
    /// Ended page loads of returning visitors.
    pub returning: u64,
    /// Page loads under way at the end of the run.
    pub unfinished: u64,
    /// Page loads that were due while all visitors were busy, and so never started.
    pub not_started: u64,
}

/// Requests of one class of resource.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClassRun {
    /// Requests that ended, successful or not.
    pub requests: u64,
    /// Resources that did not arrive.
    pub failed: u64,
    /// Responses with status 304.
    pub not_modified: u64,
    /// Resources that a returning visitor had in its cache and did not request.
    pub from_cache: u64,
    /// Bytes received.
    pub received_bytes: u64,
    /// Times of the responses.
    pub times: Distribution,
}

/// Example of a failed request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Example {
    /// URL of the resource.
    pub url: String,
    /// Kind of the failure.
    pub kind: String,
}

/// One resource of a page.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TracedResource {
    /// URL of the resource.
    pub url: String,
    /// Class of the resource.
    pub class: String,
    /// Result: `loaded`, `redirected` (the target of a redirect), `cached`, `lazy`, `foreign`, or
    /// the kind of failure.
    pub what: String,
}

/// One second of the measured part. Pages and responses belong to the second in which they ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PageRunSecond {
    /// Number of the second; 0 is the first of the measured part.
    pub second: u32,
    /// Visitors that had started by its end; 0 with a requested rate.
    pub users: u64,
    /// Pages that started.
    pub started: u64,
    /// Pages that were due while all visitors were busy.
    pub not_started: u64,
    /// Pages that arrived completely.
    pub good: u64,
    /// Pages whose document arrived, but not all of the rest.
    pub incomplete: u64,
    /// Pages whose document did not arrive.
    pub failed: u64,
    /// Number of responses.
    pub requests: u64,
    /// Number of resources that did not arrive.
    pub failed_requests: u64,
    /// Failed resources by kind; only kinds that occurred.
    pub failed_by_kind: BTreeMap<String, u64>,
    /// Responses by status class, for example `2xx`; only classes that occurred.
    pub statuses: BTreeMap<String, u64>,
    /// Responses by verdict of the nearest cache; only verdicts that occurred.
    pub verdicts: BTreeMap<String, u64>,
    /// Bytes of the responses, heads included.
    pub received_bytes: u64,
    /// Median page load time; null without any, as for the following percentiles.
    pub page_p50_us: Option<u64>,
    /// 95th percentile of the page load times.
    pub page_p95_us: Option<u64>,
    /// 99th percentile of the page load times.
    pub page_p99_us: Option<u64>,
    /// Longest page load time.
    pub page_max_us: Option<u64>,
    /// Median response time.
    pub request_p50_us: Option<u64>,
    /// 95th percentile of the response times.
    pub request_p95_us: Option<u64>,
    /// 99th percentile of the response times.
    pub request_p99_us: Option<u64>,
    /// Longest response time.
    pub request_max_us: Option<u64>,
}

/// Trustworthiness of the figures.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PageGenerator {
    /// Result of the self-check: `clean`, `tight` or `invalid`.
    pub trust: String,
    /// Reasons why the self-check is not clean.
    pub reasons: Vec<String>,
    /// Processor time of each thread in seconds.
    pub cpu_s: Vec<f64>,
    /// Share of the time that the busiest thread spent on a core.
    pub cpu_share_max: f64,
}

impl From<&PageOutcome> for PageRun {
    fn from(outcome: &PageOutcome) -> Self {
        let figures = &outcome.figures;
        let verdicts = |of_documents| {
            let of_these =
                figures.verdicts.iter().filter(move |((is_document, _), _)| *is_document == of_documents);
            of_these.map(|((_, verdict), count)| (verdict.name().to_owned(), *count)).collect()
        };
        let pages = &figures.pages;
        let (think_min, think_max) = outcome.think.bounds();
        Self {
            schema: SCHEMA.to_owned(),
            url: outcome.url.clone(),
            started_s: outcome.started.as_micros() as f64 / 1e6,
            elapsed_s: outcome.elapsed.as_secs_f64(),
            round: None,
            ended: outcome.ended.name().to_owned(),
            users: outcome.users as u64,
            rate_asked_per_s: outcome.rate_asked,
            think_min_s: think_min.as_secs_f64(),
            think_max_s: think_max.as_secs_f64(),
            linger_s: outcome.linger.as_secs_f64(),
            returning_asked: outcome.returning_asked,
            connections_per_host_max: outcome.connections_per_host_max as u64,
            protocol: protocol(outcome).name().to_owned(),
            pages: PagesByResult {
                good: pages.good,
                incomplete: pages.incomplete,
                failed: pages.failed,
                returning: pages.returning,
                unfinished: pages.unfinished,
                not_started: pages.not_started,
            },
            pages_per_s: outcome.pages_per_second(),
            page_times: Distribution::from(&figures.page_times),
            returning_times: Distribution::from(&figures.returning_times),
            first_octet_times: Distribution::from(&figures.first_octet_times),
            request_times: Distribution::from(&figures.request_times()),
            classes: ResourceClass::ALL.into_iter().zip(&figures.classes).map(class_run).collect(),
            statuses: figures.statuses.iter().map(|(code, count)| (code.to_string(), *count)).collect(),
            failed_by_kind: FetchFailure::ALL
                .into_iter()
                .map(|kind| kind.name().to_owned())
                .zip(figures.failures)
                .collect(),
            examples: examples(outcome),
            document_verdicts: verdicts(true),
            other_verdicts: verdicts(false),
            foreign_hosts: figures.foreign_hosts.clone(),
            foreign_beyond: figures.foreign_beyond,
            lazy: figures.lazy,
            redirects: figures.redirects,
            connections: figures.connections,
            closed_early: figures.closed_early,
            received_bytes: figures.received_bytes(),
            limits: PageLimit::ALL
                .into_iter()
                .map(|limit| (limit.name().to_owned(), figures.limits.of(limit)))
                .collect(),
            trace: trace(outcome),
            seconds: outcome.seconds.iter().map(second).collect(),
            generator: PageGenerator {
                trust: outcome.check.trust.to_string(),
                reasons: outcome.check.reasons.clone(),
                cpu_s: outcome.cpu.iter().map(Duration::as_secs_f64).collect(),
                cpu_share_max: outcome.check.cpu_share_max,
            },
            thresholds: Vec::new(),
        }
    }
}

impl PageRun {
    /// Returns the run as indented JSON with a line end.
    pub fn to_json(&self) -> String {
        // Numbers and texts always have a JSON form, so serialisation cannot fail.
        let mut text = serde_json::to_string_pretty(self).unwrap_or_default();
        text.push('\n');
        text
    }
}

fn protocol(outcome: &PageOutcome) -> Protocol {
    if outcome.is_http2 { Protocol::H2 } else { Protocol::Http11 }
}

fn class_run((class, found): (ResourceClass, &record::ClassOutcome)) -> (String, ClassRun) {
    let run = ClassRun {
        requests: found.requests,
        failed: found.failed,
        not_modified: found.not_modified,
        from_cache: found.from_cache,
        received_bytes: found.received_bytes,
        times: Distribution::from(&found.times),
    };
    (class.name().to_owned(), run)
}

/// Class of a status code, named as in runs of single requests.
fn class_of_status(code: u16) -> String {
    match code / 100 {
        class @ 1..=5 => format!("{class}xx"),
        _ => "other".to_owned(),
    }
}

fn second(of: &record::PageSecond) -> PageRunSecond {
    let page = of.page_times;
    let request = of.request_times;
    let mut failed_by_kind: BTreeMap<String, u64> =
        FetchFailure::ALL.into_iter().map(|kind| kind.name().to_owned()).zip(of.failures).collect();
    failed_by_kind.retain(|_, count| *count > 0);
    let mut statuses = BTreeMap::new();
    for (code, count) in &of.statuses {
        *statuses.entry(class_of_status(*code)).or_default() += count;
    }
    PageRunSecond {
        second: of.second,
        users: of.users,
        started: of.started,
        not_started: of.not_started,
        failed_by_kind,
        statuses,
        verdicts: of.verdicts.iter().map(|(verdict, count)| (verdict.name().to_owned(), *count)).collect(),
        received_bytes: of.received_bytes,
        good: of.good,
        incomplete: of.incomplete,
        failed: of.failed,
        requests: of.requests,
        failed_requests: of.failed_requests,
        page_p50_us: page.map(|times| times.p50_us),
        page_p95_us: page.map(|times| times.p95_us),
        page_p99_us: page.map(|times| times.p99_us),
        page_max_us: page.map(|times| times.max_us),
        request_p50_us: request.map(|times| times.p50_us),
        request_p95_us: request.map(|times| times.p95_us),
        request_p99_us: request.map(|times| times.p99_us),
        request_max_us: request.map(|times| times.max_us),
    }
}

fn examples(outcome: &PageOutcome) -> Vec<Example> {
    let examples = outcome.figures.examples.iter();
    examples.map(|(url, kind)| Example { url: url.clone(), kind: kind.name().to_owned() }).collect()
}

fn trace(outcome: &PageOutcome) -> Vec<TracedResource> {
    let traced = outcome.figures.trace.iter();
    traced
        .map(|one| TracedResource {
            url: one.url.clone(),
            class: one.class.name().to_owned(),
            what: one.what.to_owned(),
        })
        .collect()
}

/// Returns the text report for people.
pub fn text(outcome: &PageOutcome) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = write_head(&mut text, outcome)
        .and_then(|()| write_times(&mut text, outcome))
        .and_then(|()| write_classes(&mut text, outcome))
        .and_then(|()| write_left_out(&mut text, outcome))
        .and_then(|()| write_failures(&mut text, outcome))
        .and_then(|()| write_check(&mut text, outcome));
    text
}

fn write_head(text: &mut String, outcome: &PageOutcome) -> std::fmt::Result {
    let pages = &outcome.figures.pages;
    writeln!(text, "Page:                {}", outcome.url)?;
    let visitors = match outcome.rate_asked {
        Some(rate) => {
            format!("{} pages a second demanded, at most {} visitors", three_digits(rate), outcome.users)
        }
        None => format!("{} at a time", outcome.users),
    };
    let share = outcome.returning_asked * 100.0;
    writeln!(text, "Visitors:            {visitors}, {}% of them returning", three_digits(share))?;
    if !outcome.think.is_none() {
        let (from, to) = outcome.think.bounds();
        let range = if from == to { seconds(from) } else { format!("{} to {}", seconds(from), seconds(to)) };
        writeln!(text, "Thinking:            {range} between two pages")?;
    }
    if !outcome.linger.is_zero() {
        writeln!(
            text,
            "Lingering:           connections stay open for {} after their page",
            seconds(outcome.linger)
        )?;
    }
    let limit = outcome.connections_per_host_max;
    writeln!(
        text,
        "Connections:         {} opened, at most {limit} a host and visitor, {}",
        grouped(outcome.figures.connections),
        protocol(outcome).name()
    )?;
    writeln!(
        text,
        "Time taken:          {:.3} s (ended by {})",
        outcome.elapsed.as_secs_f64(),
        outcome.ended.name()
    )?;
    writeln!(text, "Good pages:          {}", grouped(pages.good))?;
    writeln!(text, "Incomplete pages:    {}", grouped(pages.incomplete))?;
    writeln!(text, "Failed pages:        {}", grouped(pages.failed))?;
    if pages.returning > 0 {
        writeln!(text, "Returning visits:    {}", grouped(pages.returning))?;
    }
    if pages.unfinished > 0 {
        writeln!(text, "Unfinished:          {}", grouped(pages.unfinished))?;
    }
    if outcome.rate_asked.is_some() {
        writeln!(text, "Not started:         {}", grouped(pages.not_started))?;
    }
    writeln!(text, "Pages per second:    {}", three_digits(outcome.pages_per_second()))?;
    let seconds = outcome.elapsed.as_secs_f64().max(1e-9);
    let requests = outcome.figures.requests();
    writeln!(text, "Requests per second: {}", three_digits(requests as f64 / seconds))?;
    let per_page = requests as f64 / outcome.pages().max(1) as f64;
    writeln!(text, "Requests per page:   {}", three_digits(per_page))?;
    let bytes = outcome.figures.received_bytes();
    writeln!(
        text,
        "Received:            {} bytes, {} a page",
        grouped(bytes),
        grouped(bytes / outcome.pages().max(1))
    )
}

fn seconds(time: Duration) -> String {
    format!("{} s", three_digits(time.as_secs_f64()))
}

fn write_times(text: &mut String, outcome: &PageOutcome) -> std::fmt::Result {
    let figures = &outcome.figures;
    writeln!(
        text,
        "\n{:<14}{:>10}{:>10}{:>10}{:>10}{:>10}{:>10}",
        "Times", "count", "mean", "p50", "p95", "p99", "max"
    )?;
    let requests = figures.request_times();
    let rows = [
        ("page", &figures.page_times),
        ("  returning", &figures.returning_times),
        ("first byte", &figures.first_octet_times),
        ("request", &requests),
    ];
    for (name, times) in rows.into_iter().filter(|(_, times)| !times.is_empty()) {
        write_row(text, name, times)?;
    }
    Ok(())
}

fn write_row(text: &mut String, name: &str, times: &Histogram) -> std::fmt::Result {
    let ms = |us: f64| milliseconds(us / 1000.0);
    let percentile = |percent| ms(times.percentile_us(percent) as f64);
    writeln!(
        text,
        "{name:<14}{:>10}{:>10}{:>10}{:>10}{:>10}{:>10}",
        grouped(times.count()),
        ms(times.mean_us()),
        percentile(50.0),
        percentile(95.0),
        percentile(99.0),
        ms(times.max_us() as f64)
    )
}

fn write_classes(text: &mut String, outcome: &PageOutcome) -> std::fmt::Result {
    writeln!(
        text,
        "\n{:<14}{:>10}{:>8}{:>10}{:>8}{:>14}{:>10}{:>10}",
        "Requests", "count", "304", "cached", "failed", "bytes", "mean", "p95"
    )?;
    for (class, found) in ResourceClass::ALL.into_iter().zip(&outcome.figures.classes) {
        if found.requests + found.from_cache + found.failed == 0 {
            continue;
        }
        // A class without any arrived resource has no times.
        let time = |us: f64| match found.times.is_empty() {
            true => "-".to_owned(),
            false => milliseconds(us / 1000.0),
        };
        writeln!(
            text,
            "{:<14}{:>10}{:>8}{:>10}{:>8}{:>14}{:>10}{:>10}",
            class.name(),
            grouped(found.requests),
            grouped(found.not_modified),
            grouped(found.from_cache),
            grouped(found.failed),
            grouped(found.received_bytes),
            time(found.times.mean_us()),
            time(found.times.percentile_us(95.0) as f64)
        )?;
    }
    let verdicts = &outcome.figures.verdicts;
    for (of_documents, name) in [(true, "Cache on pages"), (false, "Cache on others")] {
        let words: Vec<String> = verdicts
            .iter()
            .filter(|((is_document, _), _)| *is_document == of_documents)
            .map(|((_, verdict), count)| format!("{} {}", verdict.name(), grouped(*count)))
            .collect();
        if !words.is_empty() {
            writeln!(text, "{name}: {}", words.join(", "))?;
        }
    }
    Ok(())
}

fn write_left_out(text: &mut String, outcome: &PageOutcome) -> std::fmt::Result {
    let figures = &outcome.figures;
    if figures.lazy > 0 {
        writeln!(text, "\nNot loaded because they are lazy: {}", grouped(figures.lazy))?;
    }
    if !figures.foreign_hosts.is_empty() {
        writeln!(text, "\nForeign hosts, which got no request (--allow-host HOST allows them):")?;
        let mut hosts: Vec<_> = figures.foreign_hosts.iter().collect();
        hosts.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        for (host, count) in hosts.iter().take(FOREIGN_SHOWN_MAX) {
            writeln!(text, "{:>10}  {host}", grouped(**count))?;
        }
        let rest: u64 = hosts.iter().skip(FOREIGN_SHOWN_MAX).map(|(_, count)| **count).sum();
        if rest + figures.foreign_beyond > 0 {
            writeln!(text, "{:>10}  on other hosts", grouped(rest + figures.foreign_beyond))?;
        }
    }
    if figures.limits.total() > 0 {
        writeln!(text, "\nLimits that were reached:")?;
        for (limit, count) in figures.limits.iter() {
            writeln!(text, "{:>10}  {}", grouped(count), limit.name())?;
        }
    }
    Ok(())
}

fn write_failures(text: &mut String, outcome: &PageOutcome) -> std::fmt::Result {
    let figures = &outcome.figures;
    if figures.failed_requests() == 0 {
        return Ok(());
    }
    writeln!(text, "\nFailed requests:")?;
    for (kind, count) in FetchFailure::ALL.into_iter().zip(figures.failures).filter(|(_, count)| *count > 0) {
        writeln!(text, "{:>10}  {}", grouped(count), kind.name())?;
    }
    writeln!(text, "for example:")?;
    for (url, kind) in &figures.examples {
        writeln!(text, "            {url} ({})", kind.name())?;
    }
    Ok(())
}

fn write_check(text: &mut String, outcome: &PageOutcome) -> std::fmt::Result {
    let check = &outcome.check;
    let busiest = three_digits(check.cpu_share_max * 100.0);
    writeln!(text, "\nSelf-check: {} (busiest generator thread {busiest}% on a core)", check.trust)?;
    for reason in &check.reasons {
        writeln!(text, "  {reason}")?;
    }
    Ok(())
}
