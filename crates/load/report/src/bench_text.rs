//! The text report of `petasos bench`: the load, its results, times in fractions of milliseconds,
//! and the trustworthiness of the figures.
//!
//! Invariants:
//!
//! * If most requests failed, the failures precede every other figure.
//! * A percentile with no response beyond it is left out.

use crate::ab::{milliseconds, write_connections, write_drift, write_generator, write_list};
use crate::number::grouped;
use record::{Arrival, FailureKind, Length, Plan, RunOutcome};
use stats::Histogram;
use std::fmt::Write as _;

/// First line of the report. [`crate::import`] recognises the report by it.
pub const BEGINNING: &str = "Petasos bench report 1";

/// Percentiles in the table of times.
pub const PERCENTILES: [f64; 5] = [50.0, 90.0, 95.0, 99.0, 99.9];

/// Text in place of an omitted percentile.
const LEFT_OUT: &str = "-";

/// Smallest width of the column of names. With it, the table fits 80 columns.
const NAME_WIDTH: usize = 15;

/// Returns the report.
pub fn report(outcome: &RunOutcome) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail, here and below.
    let _ = write_report(&mut text, outcome);
    text
}

/// Whether more requests failed than received a good response.
fn is_dominated_by_failures(outcome: &RunOutcome) -> bool {
    outcome.failures.total() > outcome.good
}

fn write_report(text: &mut String, outcome: &RunOutcome) -> std::fmt::Result {
    writeln!(text, "{BEGINNING}")?;
    if is_dominated_by_failures(outcome) {
        write_failures(text, outcome)?;
    }
    write_load(text, outcome)?;
    let good = grouped(outcome.good);
    let requests = grouped(outcome.requests());
    writeln!(text, "Good answers:           {good} of {requests}, {:.2} req/s", outcome.good_per_second())?;
    if !is_dominated_by_failures(outcome) {
        write_failures(text, outcome)?;
    }
    write_list(text, "Status codes:", outcome.statuses.iter())?;
    write_transfer(text, outcome)?;
    write_schedule(text, outcome)?;
    write_connections(text, outcome)?;
    write_drift(text, outcome)?;
    write_generator(text, outcome)?;
    let kinds = FailureKind::ALL.into_iter().filter(|&kind| outcome.failures.of(kind) > 0);
    kinds.filter_map(FailureKind::advice).try_for_each(|advice| writeln!(text, "Note: {advice}."))?;
    write_stages(text, outcome)?;
    write_times(text, outcome)
}

fn write_failures(text: &mut String, outcome: &RunOutcome) -> std::fmt::Result {
    let failed = outcome.failures.total();
    if failed == 0 {
        return Ok(());
    }
    let kinds = FailureKind::ALL.map(|kind| (kind.name(), outcome.failures.of(kind)));
    let kinds = kinds.iter().filter(|(_, count)| *count > 0);
    let kinds: Vec<String> = kinds.map(|(name, count)| format!("{name} {count}")).collect();
    let failed = grouped(failed);
    let requests = grouped(outcome.requests());
    writeln!(text, "Failed:                 {failed} of {requests}: {}", kinds.join(", "))
}

fn write_load(text: &mut String, outcome: &RunOutcome) -> std::fmt::Result {
    let plan = &outcome.plan;
    writeln!(text, "Target:                 {}", plan.target)?;
    if outcome.urls.len() > 1 {
        writeln!(text, "URLs:                   {}, of which the target is the first", outcome.urls.len())?;
    }
    let software = outcome.server_software();
    let software = if software.is_empty() { String::new() } else { format!("{software} at ") };
    writeln!(text, "Server:                 {software}{}", outcome.address)?;
    writeln!(text, "Load:                   {}", said(plan))?;
    writeln!(text, "Measured:               {:.3} s", outcome.elapsed.as_secs_f64())
}

/// Describes the requested load in words.
fn said(plan: &Plan) -> String {
    let load = match (&plan.stages[..], plan.arrival) {
        ([_, ..], _) => format!("{} stages", plan.stages.len()),
        ([], Arrival::Closed) if plan.users == 1 => "1 user".to_owned(),
        ([], Arrival::Closed) => format!("{} users", plan.users),
        ([], Arrival::Open { rate, .. }) => format!("{:.2} req/s", rate.mean()),
    };
    let connections = if plan.keep_alive { "connections kept" } else { "a connection for each request" };
    format!("{load}, {} {}, {connections}", plan.http.name(), plan.method)
}

fn write_transfer(text: &mut String, outcome: &RunOutcome) -> std::fmt::Result {
    let seconds = outcome.elapsed.as_secs_f64();
    let rate = if seconds > 0.0 { outcome.received_bytes as f64 / 1024.0 / seconds } else { 0.0 };
    let document = match (outcome.document_bytes, outcome.plan.expect.length) {
        (Some(bytes), Length::Constant) => format!(", {} bytes of content each", grouped(bytes)),
        (Some(bytes), Length::Variable) => format!(", {} bytes of content in the first", grouped(bytes)),
        (None, _) => String::new(),
    };
    writeln!(
        text,
        "Received:               {} bytes, {rate:.2} KiB/s{document}",
        grouped(outcome.received_bytes)
    )
}

/// Writes the table of times: a row for each phase of good responses, then rows by verdict, stage
/// and for wrong responses.
fn write_times(text: &mut String, outcome: &RunOutcome) -> std::fmt::Result {
    let rows = rows(outcome);
    if rows.is_empty() {
        return Ok(());
    }
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or_default().max(NAME_WIDTH);
    write!(text, "\n{:width$}{:>8}{:>8}", "Times in ms", "answers", "mean")?;
    for percentile in PERCENTILES {
        write!(text, "{:>8}", format!("p{percentile}"))?;
    }
    writeln!(text, "{:>8}", "max")?;
    let mut is_any_left_out = false;
    for (name, histogram) in &rows {
        let count = histogram.count();
        write!(text, "{name:width$}{count:8}{:>8}", fraction(histogram.mean_us()))?;
        for percentile in PERCENTILES {
            let is_known = is_meaningful(count, percentile);
            is_any_left_out |= !is_known;
            let value = fraction(histogram.percentile_us(percentile) as f64);
            write!(text, "{:>8}", if is_known { value.as_str() } else { LEFT_OUT })?;
        }
        writeln!(text, "{:>8}", fraction(histogram.max_us() as f64))?;
    }
    if is_any_left_out {
        writeln!(text, "{LEFT_OUT} stands where no answer lies beyond the percentile: there were too few")?;
    }
    Ok(())
}

/// Rows of the table that have any times.
fn rows(outcome: &RunOutcome) -> Vec<(String, &Histogram)> {
    let good = &outcome.good_times;
    let mut rows: Vec<(String, &Histogram)> = vec![
        ("Connect".to_owned(), &good.connect),
        ("TLS".to_owned(), &good.tls),
        ("Waiting".to_owned(), &good.waiting),
        ("Transfer".to_owned(), &good.transfer),
        ("Total".to_owned(), &good.total),
    ];
    rows.extend(good.from_intended.as_deref().map(|latency| ("Since due".to_owned(), latency)));
    rows.extend(outcome.verdicts.iter().map(|of| (format!("Cache {}", of.verdict.name()), &of.total)));
    let stages = (1..).zip(&outcome.stages);
    rows.extend(stages.map(|(number, stage)| (format!("Stage {number}"), stage.good_times.latency())));
    rows.push(("Wrong answers".to_owned(), &outcome.wrong_times.total));
    rows.retain(|(_, histogram)| !histogram.is_empty());
    rows
}

/// Formats microseconds as milliseconds, with fewer decimals for larger values.
fn fraction(us: f64) -> String {
    let ms = us / 1e3;
    match ms {
        ms if ms < 99.9995 => format!("{ms:.3}"),
        ms if ms < 999.995 => format!("{ms:.2}"),
        ms => format!("{ms:.1}"),
    }
}

/// Whether at least one of `count` responses lies beyond the percentile.
pub fn is_meaningful(count: u64, percentile: f64) -> bool {
    // The limit is below 1 because 100 - 99.9 is slightly less than 0.1 in floating point.
    count as f64 * (100.0 - percentile) / 100.0 > 0.999
}

/// Writes the requested and the achieved schedule of an open loop.
fn write_schedule(text: &mut String, outcome: &RunOutcome) -> std::fmt::Result {
    let check = &outcome.check;
    let (Some(asked), Some(lag_us)) = (outcome.rate_asked, check.schedule_lag_p99_us) else { return Ok(()) };
    let started = check.rate_started.unwrap_or_default();
    writeln!(
        text,
        "Open loop:              {asked:.2} req/s asked for, {started:.2} started, schedule lag p99 {:.3} ms",
        milliseconds(lag_us)
    )?;
    if outcome.not_started > 0 {
        let bound = "because too many were in flight";
        writeln!(text, "Not started:            {} requests that were due, {bound}", outcome.not_started)?;
    }
    if outcome.late.complete > 0 {
        writeln!(
            text,
            "Late:                   {} answers came after the time, in no rate",
            outcome.late.complete
        )?;
    }
    Ok(())
}

/// Writes rate and failures of each stage.
fn write_stages(text: &mut String, outcome: &RunOutcome) -> std::fmt::Result {
    for (number, stage) in (1..).zip(&outcome.stages) {
        let rate = stage.good_per_second();
        let failed = stage.failures.total();
        let label = format!("Stage {number}:");
        writeln!(text, "{label:24}{}: {rate:.2} good req/s, {failed} failed", stage.stage.load)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{fraction, is_meaningful, report};
    use address::HttpUrl;
    use record::{FailureKind, Failures, Plan, RunOutcome, StatusCounts, Stop, Times};
    use std::time::Duration;

    /// Responses that took 100 µs to connect and then the given times.
    fn times(waiting_us: impl IntoIterator<Item = u64>) -> Times {
        let mut times = Times::default();
        for us in waiting_us {
            times.connect.record(100);
            times.waiting.record(us);
            times.total.record(us + 100);
        }
        times
    }

    fn outcome(good: u64, failed: u64) -> RunOutcome {
        let mut plan = Plan::new(HttpUrl::parse("http://example.test:8080/page").unwrap());
        plan.stop = Stop { requests: Some(good + failed), ..Stop::default() };
        RunOutcome {
            elapsed: Duration::from_secs(2),
            complete: good + failed,
            good,
            failures: Failures::of_kinds(&[(FailureKind::Status, failed)]),
            statuses: StatusCounts::of(
                &[(200, good as u16), (500, failed as u16)].map(|(code, n)| (code, n.into())),
            ),
            received_bytes: 20_480,
            document_bytes: Some(1_000),
            first_head: b"HTTP/1.1 200 OK\r\nServer: Apache/2.4.58 (Ubuntu)\r\n\r\n".to_vec(),
            good_times: times((0..good).map(|number| 150 + number)),
            wrong_times: times((0..failed).map(|_| 50)),
            ..RunOutcome::of(plan, "127.0.0.1:8080".parse().unwrap())
        }
    }

    #[test]
    fn times_have_fractions_and_lines_fit_80_columns() {
        let text = report(&outcome(200, 0));
        assert!(text.contains("Good answers:           200 of 200, 100.00 req/s\n"), "{text}");
        assert!(text.contains("Server:                 Apache/2.4.58 at 127.0.0.1:8080\n"), "{text}");
        assert!(text.contains("\nTotal               200   0.3"), "{text}");
        let table = text.split("\n\n").nth(1).unwrap();
        assert!(table.lines().all(|line| line.len() <= 80), "{table}");
    }

    #[test]
    fn percentiles_without_a_response_beyond_are_left_out() {
        let text = report(&outcome(30, 0));
        let total = text.lines().find(|line| line.starts_with("Total ")).unwrap();
        let cells: Vec<&str> = total.split_whitespace().skip(3).collect();
        assert_eq!((cells[3], cells[4]), ("-", "-"), "{total}");
        assert!(cells[2].parse::<f64>().is_ok() && text.contains("there were too few"), "{text}");
        assert!(is_meaningful(100, 99.0) && !is_meaningful(99, 99.0));
        assert!(is_meaningful(1000, 99.9) && !is_meaningful(0, 50.0));
    }

    #[test]
    fn failures_come_first_if_most_requests_failed() {
        let place = |text: &str, label: &str| text.lines().position(|line| line.starts_with(label));
        let bad = report(&outcome(3, 7));
        assert_eq!(place(&bad, "Failed:"), Some(1), "{bad}");
        let good = report(&outcome(7, 3));
        assert!(place(&good, "Failed:") > place(&good, "Good answers:"), "{good}");
    }

    #[test]
    fn long_times_have_fewer_decimals() {
        assert_eq!((fraction(1_234.0), fraction(123_456.0)), ("1.234".to_owned(), "123.46".to_owned()));
        assert_eq!(fraction(12_345_678.0), "12345.7");
    }
}
