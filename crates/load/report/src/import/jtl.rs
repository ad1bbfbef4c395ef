//! Imports JMeter's results as CSV, and sums up samples for both kinds of JTL.
//!
//! JTL times are whole milliseconds, which limits the resolution of the percentiles. Only top-level
//! samples are counted, as in JMeter's own CSV. Rows of transaction controllers repeat the times of
//! other rows and are left out.

use super::quoted::QuotedRows;
use super::{ImportError, ImportedRun};
use crate::run::{Distribution, Phases, Run};
use stats::Histogram;
use std::collections::BTreeMap;
use std::io::BufRead;

/// One sample of a JTL.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct JtlSample {
    pub(super) start_ms: u64,
    pub(super) elapsed_ms: u64,
    pub(super) code: String,
    pub(super) message: String,
    pub(super) is_success: bool,
    pub(super) received_bytes: Option<u64>,
    pub(super) sent_bytes: Option<u64>,
    pub(super) threads: Option<u64>,
    pub(super) url: Option<String>,
    /// Time from the start to the first byte.
    pub(super) latency_ms: Option<u64>,
    /// Time from the start to the established connection.
    pub(super) connect_ms: Option<u64>,
}

/// Whether a line is the header of a JTL.
pub(super) fn is_header(line: &[u8]) -> bool {
    line.starts_with(b"timeStamp")
        && [b"elapsed".as_slice(), b"success"].iter().all(|name| contains(line, name))
}

fn contains(line: &[u8], name: &[u8]) -> bool {
    line.windows(name.len()).any(|window| window == name)
}

/// Reads a JTL in CSV.
pub(super) fn import(file: impl BufRead) -> Result<ImportedRun, ImportError> {
    let mut rows = QuotedRows::new(file, b',');
    let mut header = rows.next()?.unwrap_or_default();
    if let [only] = header.as_slice() {
        // Other delimiters come from spreadsheets in some locales, or from
        // jmeter.save.saveservice.default_delimiter.
        let other = [';', '\t', '|'].into_iter().find(|other| only.contains(*other)).unwrap_or(',');
        header = only.split(other).map(str::to_owned).collect();
        rows.set_delimiter(other as u8);
    }
    let columns = JtlColumns::new(&header)?;
    let mut sum = Sum::default();
    while let Some(row) = rows.next()? {
        let added = columns.sample(&row).and_then(|sample| sum.add(&sample));
        added.map_err(|reason| ImportError::line(rows.line(), reason))?;
    }
    sum.imported()
}

/// Positions of the columns by name.
struct JtlColumns {
    places: BTreeMap<String, usize>,
}

impl JtlColumns {
    fn new(header: &[String]) -> Result<Self, ImportError> {
        let name = |name: &String| name.trim().trim_start_matches('\u{feff}').to_owned();
        let places: BTreeMap<String, usize> = header.iter().map(name).zip(0..).collect();
        for needed in ["timeStamp", "elapsed", "success"] {
            if !places.contains_key(needed) {
                return Err(ImportError::line(1, format!("the header has no column {needed:?}")));
            }
        }
        Ok(Self { places })
    }

    fn sample(&self, row: &[String]) -> Result<JtlSample, String> {
        let text = |name: &str| self.places.get(name).and_then(|&place| row.get(place)).map(String::as_str);
        let number = |name: &str| match text(name) {
            None | Some("") => Ok(None),
            Some(text) => {
                text.parse::<u64>().map(Some).map_err(|_| format!("{name}: {text:?} is not a whole number"))
            }
        };
        let start_ms = number("timeStamp").map_err(|reason| {
            format!("{reason} of milliseconds; let JMeter write it with jmeter.save.saveservice.timestamp_format=ms")
        })?;
        Ok(JtlSample {
            start_ms: start_ms.ok_or("timeStamp is empty")?,
            elapsed_ms: number("elapsed")?.ok_or("elapsed is empty")?,
            code: text("responseCode").unwrap_or_default().to_owned(),
            message: text("responseMessage").unwrap_or_default().to_owned(),
            is_success: text("success").is_some_and(|text| text.eq_ignore_ascii_case("true")),
            received_bytes: number("bytes")?,
            sent_bytes: number("sentBytes")?,
            threads: number("allThreads")?,
            url: text("URL").filter(|url| !url.is_empty() && *url != "null").map(str::to_owned),
            latency_ms: number("Latency")?,
            connect_ms: number("Connect")?,
        })
    }
}

/// Running sums over the samples.
#[derive(Default)]
pub(super) struct Sum {
    count: u64,
    transactions: u64,
    first_ms: Option<u64>,
    last_ms: u64,
    good: u64,
    kinds: BTreeMap<String, u64>,
    statuses: BTreeMap<String, u64>,
    received_bytes: Option<u64>,
    sent_bytes: Option<u64>,
    threads: Option<u64>,
    url: Option<String>,
    good_times: SampleTimes,
    wrong_times: SampleTimes,
}

#[derive(Default)]
struct SampleTimes {
    connect: Histogram,
    processing: Histogram,
    waiting: Histogram,
    transfer: Histogram,
    total: Histogram,
}

impl Sum {
    /// Adds a sample. The error is a sentence: the file's times or sizes are too large for a sum.
    pub(super) fn add(&mut self, sample: &JtlSample) -> Result<(), String> {
        if sample.message.starts_with("Number of samples in transaction") {
            self.transactions += 1;
            return Ok(());
        }
        let end_ms = sample.start_ms.checked_add(sample.elapsed_ms).ok_or("its end is beyond all time")?;
        self.count += 1;
        self.first_ms = Some(self.first_ms.map_or(sample.start_ms, |first| first.min(sample.start_ms)));
        self.last_ms = self.last_ms.max(end_ms);
        let add = |sum: &mut Option<u64>, more: Option<u64>| -> Result<(), String> {
            if let Some(more) = more {
                *sum = Some(sum.unwrap_or(0).checked_add(more).ok_or("the bytes so far have no 64-bit sum")?);
            }
            Ok(())
        };
        add(&mut self.received_bytes, sample.received_bytes)?;
        add(&mut self.sent_bytes, sample.sent_bytes)?;
        self.threads = self.threads.max(sample.threads);
        if self.url.is_none() {
            self.url.clone_from(&sample.url);
        }
        let is_status = sample.code.len() == 3 && sample.code.bytes().all(|byte| byte.is_ascii_digit());
        if is_status {
            *self.statuses.entry(sample.code.clone()).or_default() += 1;
        }
        if sample.is_success {
            self.good += 1;
            self.good_times.add(sample);
        } else {
            let kind = kind(sample, is_status);
            *self.kinds.entry(kind.to_owned()).or_default() += 1;
            if is_status {
                self.wrong_times.add(sample);
            }
        }
        Ok(())
    }

    pub(super) fn imported(self) -> Result<ImportedRun, ImportError> {
        let Some(first_ms) = self.first_ms else {
            return Err(ImportError::Missing("the file has a header but no samples".to_owned()));
        };
        let failed: u64 = self.kinds.values().sum();
        let wrong: u64 = ["status", "body"].iter().filter_map(|kind| self.kinds.get(*kind)).sum();
        let complete = self.good + wrong;
        let elapsed_s = (self.last_ms - first_ms) as f64 / 1e3;
        let rate = |count: u64| (elapsed_s > 0.0).then(|| count as f64 / elapsed_s);
        let mut run = Run {
            url: self.url,
            started_s: Some(first_ms as f64 / 1e3),
            elapsed_s: Some(elapsed_s),
            requests: Some(self.count),
            complete: Some(complete),
            good: Some(self.good),
            failed: Some(failed),
            failed_by_kind: self.kinds,
            good_per_s: rate(self.good),
            complete_per_s: rate(complete),
            statuses: self.statuses,
            received_bytes: self.received_bytes,
            sent_bytes: self.sent_bytes,
            good_times: self.good_times.phases(),
            wrong_times: self.wrong_times.phases(),
            ..Run::of_source("jtl")
        };
        run.plan.users = self.threads;
        let notes = (self.transactions > 0).then(|| {
            format!(
                "{} rows of transaction controllers were left out, because they repeat their samples",
                self.transactions
            )
        });
        Ok(ImportedRun { runs: vec![run], notes: notes.into_iter().collect() })
    }
}

/// Kind of a sample's failure in Petasos' terms.
fn kind(sample: &JtlSample, is_status: bool) -> &'static str {
    let status_class = if is_status { sample.code.bytes().next() } else { None };
    match status_class {
        // The status is good, so an assertion on the content has failed.
        Some(b'1'..=b'3') => "body",
        Some(_) => "status",
        None => {
            let names = [
                ("Timeout", "timeout"),
                ("SSL", "tls"),
                ("ConnectException", "connect"),
                ("UnknownHost", "connect"),
                ("NoRouteToHost", "connect"),
                ("BindException", "address"),
            ];
            let found = names.iter().find(|(name, _)| sample.code.contains(name));
            found.map_or("receive", |(_, kind)| kind)
        }
    }
}

impl SampleTimes {
    fn add(&mut self, sample: &JtlSample) {
        let us = |ms: u64| ms.saturating_mul(1000);
        self.total.record(us(sample.elapsed_ms));
        if let Some(connect_ms) = sample.connect_ms {
            self.connect.record(us(connect_ms));
            self.processing.record(us(sample.elapsed_ms.saturating_sub(connect_ms)));
            if let Some(latency_ms) = sample.latency_ms {
                self.waiting.record(us(latency_ms.saturating_sub(connect_ms)));
            }
        }
        if let Some(latency_ms) = sample.latency_ms {
            self.transfer.record(us(sample.elapsed_ms.saturating_sub(latency_ms)));
        }
    }

    /// Converts the times; a phase that was never recorded is unknown.
    fn phases(&self) -> Phases {
        let of = |times: &Histogram| {
            if times.is_empty() { Distribution::default() } else { Distribution::from(times) }
        };
        Phases {
            connect: of(&self.connect),
            processing: of(&self.processing),
            waiting: of(&self.waiting),
            transfer: of(&self.transfer),
            total: of(&self.total),
            // JMeter's threads wait for their responses, and the file does not contain an intended
            // schedule.
            latency: of(&self.total),
            ..Phases::default()
        }
    }
}
