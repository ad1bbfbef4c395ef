//! Imports the report of ApacheBench 2.x, and that of `petasos ab`, which has the same layout.
//!
//! `ab` counts a failed response as complete, and may count it twice. If the number of good
//! responses is therefore ambiguous, it is null.

use super::{ImportError, leading_number, parts};
use crate::run::{Distribution, Phases, Run};
use std::collections::BTreeMap;

/// Returns the runs in a text; empty if it contains no report of `ab`.
pub(super) fn runs(text: &str) -> Result<Vec<Run>, ImportError> {
    let reports = parts(text, |line| line.starts_with("Server Software:"));
    let reports = reports.iter().filter(|lines| {
        lines.iter().any(|(_, line)| {
            line.starts_with("Requests per second:") || line.starts_with("Complete requests:")
        })
    });
    let is_petasos = text.contains("This is Petasos");
    reports.map(|lines| AbReport::read(lines)?.run(is_petasos)).collect()
}

/// The lines of one report by label.
#[derive(Default)]
struct AbReport<'a> {
    values: BTreeMap<&'a str, (u64, &'a str)>,
    /// Counts of failures: Connect, Receive, Length, Exceptions.
    bracket: BTreeMap<&'a str, u64>,
    /// Minimum, mean, deviation, median and maximum in milliseconds, by row.
    times: BTreeMap<&'a str, Vec<f64>>,
    /// Times in milliseconds by percentage.
    percentages: BTreeMap<u64, f64>,
}

impl<'a> AbReport<'a> {
    fn read(lines: &[(u64, &'a str)]) -> Result<Self, ImportError> {
        let mut report = Self::default();
        for &(number, line) in lines {
            let trimmed = line.trim();
            if let Some(bracket) = trimmed.strip_prefix("(Connect:") {
                report.read_bracket(bracket.trim_end_matches(')'), number)?;
            } else if let Some((percent, rest)) = trimmed.split_once('%') {
                if let (Ok(percent), Some(ms)) = (percent.parse(), leading_number(rest)) {
                    report.percentages.insert(percent, ms);
                }
            } else if let Some((label, value)) = trimmed.split_once(':') {
                let value = value.trim();
                if ["Connect", "Processing", "Waiting", "Total"].contains(&label) {
                    let numbers = value.split_whitespace().map_while(|word| word.parse().ok());
                    report.times.insert(label, numbers.collect());
                } else {
                    // Two lines have the same label. The first is the mean over users and is kept.
                    report.values.entry(label).or_insert((number, value));
                }
            }
        }
        Ok(report)
    }

    fn read_bracket(&mut self, text: &'a str, line: u64) -> Result<(), ImportError> {
        let first = text.split(',').next().unwrap_or_default();
        let others = text.split(',').skip(1).filter_map(|part| part.trim().split_once(':'));
        for (label, count) in std::iter::once(("Connect", first)).chain(others) {
            let count = super::count(count.trim());
            let count = count.ok_or_else(|| ImportError::line(line, format!("{label} is not a number")))?;
            self.bracket.insert(label, count);
        }
        Ok(())
    }

    /// Parses the number of a line; `None` if the line is missing.
    fn number(&self, label: &str) -> Result<Option<f64>, ImportError> {
        let Some((line, value)) = self.values.get(label) else { return Ok(None) };
        let number = leading_number(value);
        number
            .map(Some)
            .ok_or_else(|| ImportError::line(*line, format!("{label}: {value:?} is not a number")))
    }

    fn count(&self, label: &str) -> Result<Option<u64>, ImportError> {
        Ok(self.number(label)?.map(|number| number as u64))
    }

    fn run(&self, is_petasos: bool) -> Result<Run, ImportError> {
        let mut run = Run::of_source("ab");
        run.url = self.url();
        run.elapsed_s = self.number("Time taken for tests")?;
        run.complete = self.count("Complete requests")?;
        run.complete_per_s = self.number("Requests per second")?;
        run.received_bytes = self.count("Total transferred")?;
        run.content_bytes = self.count("HTML transferred")?;
        run.sent_bytes = self.count("Total body sent")?;
        let text = |label| self.values.get(label).map(|(_, value)| *value).filter(|value| !value.is_empty());
        run.server_software = text("Server Software").map(str::to_owned);
        let length = text("Document Length");
        run.document_bytes = length.and_then(leading_number).map(|bytes| bytes as u64);
        run.plan.expect_constant_length = length.map(|length| length != "Variable");
        run.plan.users = self.count("Concurrency Level")?;
        run.plan.protocol = (!is_petasos).then(|| "HTTP/1.0".to_owned());
        let kept = self.count("Keep-Alive requests")?;
        run.plan.keep_alive = Some(kept.is_some());
        run.connections.kept = kept.or(Some(0));
        self.count_failures(&mut run)?;
        let mut total = self.distribution("Total");
        self.take_percentages(&mut total);
        total.count = run.complete;
        run.place_times(Phases {
            connect: self.distribution("Connect"),
            processing: self.distribution("Processing"),
            waiting: self.distribution("Waiting"),
            total,
            // In a closed loop, a request is intended to start when the preceding one has ended.
            // Latency therefore equals the total time.
            latency: total,
            ..Phases::default()
        });
        Ok(run)
    }

    fn url(&self) -> Option<String> {
        let text = |label| self.values.get(label).map(|(_, value)| *value);
        let host = text("Server Hostname")?;
        let port = text("Server Port")?;
        let path = text("Document Path")?;
        let is_tls = self.values.contains_key("SSL/TLS Protocol");
        let (scheme, usual) = if is_tls { ("https", "443") } else { ("http", "80") };
        let port = if port == usual { String::new() } else { format!(":{port}") };
        Some(format!("{scheme}://{host}{port}{path}"))
    }

    /// Converts the overlapping counters of `ab` to exclusive ones, if they are unambiguous.
    fn count_failures(&self, run: &mut Run) -> Result<(), ImportError> {
        let bad = self.count("Failed requests")?;
        let wrong_status = self.count("Non-2xx responses")?.unwrap_or(0);
        let unsent = self.count("Write errors")?.unwrap_or(0);
        let of = |label| self.bracket.get(label).copied().unwrap_or(0);
        let connect = of("Connect");
        let broken = of("Receive") + of("Exceptions");
        let length = of("Length");
        let kinds = [
            ("connect", connect),
            ("receive", broken),
            ("length", length),
            ("send", unsent),
            ("status", wrong_status),
        ];
        run.failed_by_kind = kinds.map(|(kind, count)| (kind.to_owned(), count)).into();
        // `ab` counts a broken response as complete, and often again for its length. It also counts
        // an error page of another length in two lines.
        let is_plain = broken + unsent == 0 && (length == 0 || wrong_status == 0);
        if let (Some(complete), Some(_), true) = (run.complete, bad, is_plain) {
            let good = complete.saturating_sub(length + wrong_status);
            let failed = connect + length + wrong_status;
            run.good = Some(good);
            run.failed = Some(failed);
            run.requests = Some(good + failed);
            if complete > 0 {
                run.good_per_s = run.complete_per_s.map(|rate| rate * good as f64 / complete as f64);
            }
        }
        Ok(())
    }

    /// Reads a row of the table of times. The row is unknown with `-S`, because its columns may run
    /// together.
    fn distribution(&self, label: &str) -> Distribution {
        let Some([min, mean, sd, median, max]) = self.times.get(label).map(Vec::as_slice) else {
            return Distribution::default();
        };
        Distribution {
            min_us: Some(micros(*min)),
            mean_us: Some(mean * 1e3),
            sd_us: Some(sd * 1e3),
            p50_us: Some(micros(*median)),
            max_us: Some(micros(*max)),
            ..Distribution::default()
        }
    }

    /// Takes the table of percentages, whose median is correct; the median in the table of times
    /// may be wrong.
    fn take_percentages(&self, total: &mut Distribution) {
        let at = |percent: u64| self.percentages.get(&percent).map(|ms| micros(*ms));
        total.p50_us = at(50).or(total.p50_us);
        total.p75_us = at(75);
        total.p90_us = at(90);
        total.p95_us = at(95);
        total.p99_us = at(99);
        total.max_us = total.max_us.or_else(|| at(100));
    }
}

fn micros(ms: f64) -> u64 {
    (ms * 1e3).round() as u64
}
