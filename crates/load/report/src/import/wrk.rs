//! Imports the report of wrk, with or without `--latency`, and of wrk2, which has more percentiles.

use super::{ImportError, count, leading_number, parts};
use crate::run::{Distribution, Phases, Run};

/// Returns the runs in a text; empty if it contains no report of wrk.
pub(super) fn runs(text: &str) -> Result<Vec<Run>, ImportError> {
    let is_first = |line: &str| line.starts_with("Running ") && line.contains(" test @ ");
    let reports = parts(text, is_first);
    reports.iter().map(|lines| run(lines)).collect()
}

fn run(lines: &[(u64, &str)]) -> Result<Run, ImportError> {
    let mut run = Run::of_source("wrk");
    let mut latency = Distribution::default();
    let mut wrong_status = 0;
    let mut socket = [0; 4];
    for &(number, line) in lines {
        let wrong = || ImportError::line(number, format!("{:?} is not a line that wrk writes", line.trim()));
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            ["Running", time, "test", "@", url] => {
                run.url = Some((*url).to_owned());
                run.plan.time_s = Some(micros(time).ok_or_else(wrong)? / 1e6);
            }
            [_, "threads", "and", users, "connections"] => {
                run.plan.users = Some(users.parse().map_err(|_| wrong())?)
            }
            ["Latency", mean, sd, max, _] => {
                latency.mean_us = Some(micros(mean).ok_or_else(wrong)?);
                latency.sd_us = Some(micros(sd).ok_or_else(wrong)?);
                latency.max_us = Some(micros(max).ok_or_else(wrong)? as u64);
            }
            [percent, time] if percent.ends_with('%') => take_percentile(&mut latency, percent, time),
            [requests, "requests", "in", time, bytes, "read"] => {
                run.complete = Some(count(requests).ok_or_else(wrong)?);
                run.elapsed_s = Some(micros(time.trim_end_matches(',')).ok_or_else(wrong)? / 1e6);
                run.received_bytes = bytes_of(bytes);
            }
            ["Socket", "errors:", "connect", connect, "read", read, "write", write, "timeout", timeout] => {
                for (errors, text) in socket.iter_mut().zip([connect, read, write, timeout]) {
                    *errors = count(text.trim_end_matches(',')).ok_or_else(wrong)?;
                }
            }
            ["Non-2xx", "or", "3xx", "responses:", responses] => {
                wrong_status = count(responses).ok_or_else(wrong)?
            }
            ["Requests/sec:", rate] => run.complete_per_s = leading_number(rate),
            _ => {}
        }
    }
    let Some(complete) = run.complete else {
        let line = lines.first().map_or(0, |(number, _)| *number);
        return Err(ImportError::line(
            line,
            "the report that begins here has no line \"... requests in ...\"",
        ));
    };
    let [connect, read, write, timeout] = socket;
    let kinds = [
        ("connect", connect),
        ("receive", read),
        ("send", write),
        ("timeout", timeout),
        ("status", wrong_status),
    ];
    run.failed_by_kind = kinds.map(|(kind, count)| (kind.to_owned(), count)).into();
    let failed: u64 = run.failed_by_kind.values().sum();
    // wrk counts a response that came after the time limit as complete and as a timeout.
    let good = complete.saturating_sub(wrong_status).saturating_sub(timeout);
    run.good = Some(good);
    run.failed = Some(failed);
    run.requests = Some(good + failed);
    if complete > 0 {
        run.good_per_s = run.complete_per_s.map(|rate| rate * good as f64 / complete as f64);
    }
    run.plan.protocol = Some("HTTP/1.1".to_owned());
    latency.count = Some(complete);
    run.place_times(Phases { total: latency, latency, ..Phases::default() });
    Ok(run)
}

fn take_percentile(latency: &mut Distribution, percent: &str, time: &str) {
    let value = micros(time).map(|us| us.round() as u64);
    let place = match percent.trim_end_matches('%').parse() {
        Ok(50.0) => &mut latency.p50_us,
        Ok(75.0) => &mut latency.p75_us,
        Ok(90.0) => &mut latency.p90_us,
        Ok(95.0) => &mut latency.p95_us,
        Ok(99.0) => &mut latency.p99_us,
        Ok(99.9) => &mut latency.p999_us,
        _ => return,
    };
    // wrk2 may print a second table with uncorrected times, so the first value is kept.
    if place.is_none() {
        *place = value;
    }
}

/// Parses a time such as `635.91us`, `1.20ms`, `30.00s`, `1.5m` or `2h`; returns microseconds.
fn micros(text: &str) -> Option<f64> {
    let units = [("us", 1.0), ("ms", 1e3), ("s", 1e6), ("m", 60e6), ("h", 3600e6)];
    let (number, unit) = units.iter().find_map(|(unit, size)| Some((text.strip_suffix(unit)?, *size)))?;
    number.parse::<f64>().ok().filter(|number| number.is_finite()).map(|number| number * unit)
}

/// Parses an amount such as `17.76GB`, whose units are binary; returns bytes.
fn bytes_of(text: &str) -> Option<u64> {
    let units = [("TB", 40), ("GB", 30), ("MB", 20), ("KB", 10), ("B", 0)];
    let (number, power) = units.iter().find_map(|(unit, power)| Some((text.strip_suffix(unit)?, *power)))?;
    number.parse::<f64>().ok().map(|number| (number * f64::from(power).exp2()) as u64)
}
