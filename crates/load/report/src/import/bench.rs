//! Imports the text report of `petasos bench`, for runs without a JSON file.

use super::{ImportError, count, leading_number, parts};
use crate::bench_text::{BEGINNING, PERCENTILES};
use crate::run::{Distribution, Run, SOURCE_PETASOS};
use std::collections::BTreeMap;

/// Returns the runs in a text; empty if it contains no report of `petasos bench`.
pub(super) fn runs(text: &str) -> Result<Vec<Run>, ImportError> {
    let reports = parts(text, |line| line.trim_end() == BEGINNING);
    reports.iter().map(|lines| run(lines)).collect()
}

fn run(lines: &[(u64, &str)]) -> Result<Run, ImportError> {
    let mut run = Run::of_source(SOURCE_PETASOS);
    for &(number, line) in lines {
        let wrong = || ImportError::line(number, format!("{line:?} is not a line that petasos bench writes"));
        let done = match line.split_once(':') {
            Some((label, value)) => take_value(&mut run, label, value.trim()),
            None => take_times(&mut run, line),
        };
        done.ok_or_else(wrong)?;
    }
    if run.good.is_none() {
        return Err(ImportError::Missing("the report has no line \"Good answers:\"".to_owned()));
    }
    run.failed = run.requests.zip(run.good).map(|(requests, good)| requests.saturating_sub(good));
    let wrong = ["status", "length", "body"].map(|kind| run.failed_by_kind.get(kind).copied().unwrap_or(0));
    run.complete = run.good.map(|good| good + wrong.iter().sum::<u64>());
    if run.good_times.latency.count.is_none() {
        // Without times since requests were due, the run was a closed loop.
        run.good_times.latency = run.good_times.total;
    }
    Ok(run)
}

/// Stores the value of a line; `None` if the line has an unexpected form.
fn take_value(run: &mut Run, label: &str, value: &str) -> Option<()> {
    match label {
        "Target" => run.url = Some(value.to_owned()),
        "Server" => match value.split_once(" at ") {
            Some((software, address)) => {
                run.server_software = Some(software.to_owned());
                run.address = Some(address.to_owned());
            }
            None => run.address = Some(value.to_owned()),
        },
        "Load" => {
            let mut words = value.split(", ");
            let load = words.next()?;
            let how = words.next()?;
            run.plan.users =
                load.strip_suffix(" users").or_else(|| load.strip_suffix(" user")).and_then(number);
            run.rate_asked_per_s = load.strip_suffix(" req/s").and_then(|rate| rate.parse().ok());
            let (protocol, method) = how.split_once(' ')?;
            run.plan.protocol = Some(protocol.to_owned());
            run.plan.method = Some(method.to_owned());
            run.plan.keep_alive = Some(words.next()? == "connections kept");
        }
        "Measured" => run.elapsed_s = Some(leading_number(value)?),
        "Good answers" => {
            let (good, rest) = value.split_once(" of ")?;
            let (requests, rate) = rest.split_once(", ")?;
            run.good = Some(number(good)?);
            run.requests = Some(number(requests)?);
            run.good_per_s = Some(leading_number(rate)?);
        }
        "Failed" => run.failed_by_kind = counts(value.split_once(": ")?.1)?,
        "Status codes" => run.statuses = counts(value)?,
        "Received" => run.received_bytes = Some(number(value.split_once(" bytes")?.0)?),
        "Connections" => run.connections.opened = leading_number(value).map(|opened| opened as u64),
        "Generator" => {
            let trust = value.split([';', ' ']).next()?;
            run.generator.trust = Some(trust.to_owned());
        }
        _ => {}
    }
    Some(())
}

/// Stores a row of the table of times. Rows that a run does not keep are ignored. `None` if the row
/// has an unexpected form.
fn take_times(run: &mut Run, line: &str) -> Option<()> {
    let rows = [
        ("Connect ", &mut run.good_times.connect),
        ("TLS ", &mut run.good_times.tls),
        ("Waiting ", &mut run.good_times.waiting),
        ("Transfer ", &mut run.good_times.transfer),
        ("Total ", &mut run.good_times.total),
        ("Since due ", &mut run.good_times.latency),
        ("Wrong answers ", &mut run.wrong_times.total),
    ];
    let found = rows.into_iter().find_map(|(name, times)| Some((times, line.strip_prefix(name)?)));
    let Some((times, cells)) = found else { return Some(()) };
    let cells: Vec<&str> = cells.split_whitespace().collect();
    let [count, mean, percentiles @ .., max] = cells.as_slice() else { return None };
    if percentiles.len() != PERCENTILES.len() {
        return None;
    }
    let micros = |text: &str| text.parse().ok().map(|ms: f64| (ms * 1e3).round() as u64);
    let [p50_us, p90_us, p95_us, p99_us, p999_us] =
        [0, 1, 2, 3, 4].map(|place| percentiles.get(place).and_then(|text| micros(text)));
    *times = Distribution {
        count: Some(number(count)?),
        mean_us: Some(mean.parse::<f64>().ok()? * 1e3),
        p50_us,
        p90_us,
        p95_us,
        p99_us,
        p999_us,
        max_us: Some(micros(max)?),
        ..Distribution::default()
    };
    Some(())
}

/// Parses a whole number, with or without commas between groups of digits.
fn number(text: &str) -> Option<u64> {
    count(&text.replace(',', ""))
}

/// Parses a list such as `status 3, timeout 1`.
fn counts(text: &str) -> Option<BTreeMap<String, u64>> {
    let pair = |part: &str| {
        let (name, count) = part.rsplit_once(' ')?;
        Some((name.to_owned(), number(count)?))
    };
    text.split(", ").map(pair).collect()
}
