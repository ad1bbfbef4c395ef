//! One run as JSON, for programs and for later comparison. `docs/run-json.md` describes every member.
//!
//! Invariant: members are added, never renamed or given another meaning, as long as [`SCHEMA`] stays the same.
//! Units are in the names: `_s` seconds, `_us` microseconds, `_bytes` octets.

use load::{FailureKind, Length, Outcome, Times};
use serde::Serialize;
use stats::Histogram;
use std::collections::BTreeMap;

/// Name and version of the format, the value of the member `schema`.
pub const SCHEMA: &str = "petasos-run/1";

/// One run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Run {
    /// [`SCHEMA`].
    pub schema: String,
    /// The URL the requests were for.
    pub url: String,
    /// The address they went to.
    pub address: String,
    /// When the measured part began, in seconds since 1970-01-01 UTC.
    pub started_s: f64,
    /// How long the measured part took.
    pub elapsed_s: f64,
    /// Why the run ended: `requests`, `time`, `stopped`, `target gone` or `receive error`.
    pub ended: String,
    /// What was asked for.
    pub plan: Asked,
    /// Requests that ended, well or badly.
    pub requests: u64,
    /// Answers received in full.
    pub complete: u64,
    /// Answers as expected.
    pub good: u64,
    /// Requests that failed.
    pub failed: u64,
    /// Failed requests by kind; kinds that did not occur are 0.
    pub failed_by_kind: BTreeMap<String, u64>,
    /// Requests in flight at the end, which are in no other count.
    pub unfinished: u64,
    /// Good answers per second.
    pub good_per_s: f64,
    /// Complete answers per second.
    pub complete_per_s: f64,
    /// Complete answers by status code.
    pub statuses: BTreeMap<String, u64>,
    /// Content octets of the first answer with a good status; null if there was none.
    pub document_bytes: Option<u64>,
    /// Answers with a good status whose length differs from that.
    pub length_differs: u64,
    /// Octets received, heads and framing included.
    pub received_bytes: u64,
    /// Content octets received.
    pub content_bytes: u64,
    /// Octets sent.
    pub sent_bytes: u64,
    /// First word of the `Server` field of the first answer.
    pub server_software: String,
    /// What became of connections.
    pub connections: Connections,
    /// Times of good answers.
    pub good_times: Phases,
    /// Times of complete answers with an unexpected status or length.
    pub wrong_times: Phases,
    /// Total times of good answers by what the nearest cache said.
    pub verdicts: BTreeMap<String, Distribution>,
    /// How far to trust the figures.
    pub generator: Generator,
}

/// What was asked for.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Asked {
    /// Users of the closed loop.
    pub users: u64,
    /// Requests to make; null without such a limit.
    pub requests: Option<u64>,
    /// Time to measure; null without such a limit.
    pub time_s: Option<f64>,
    /// Load before the measured part.
    pub warmup_s: f64,
    /// Time limit of a request.
    pub timeout_s: f64,
    /// Whether connections were to be kept.
    pub keep_alive: bool,
    /// `HTTP/1.0` or `HTTP/1.1`.
    pub protocol: String,
    /// The method.
    pub method: String,
    /// Content octets of each request.
    pub body_bytes: u64,
    /// Status codes that counted as good, such as `2xx` or `200,304`.
    pub expect_status: String,
    /// Whether answers had to be as long as the first good one.
    pub expect_constant_length: bool,
}

/// What became of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Connections {
    /// Opened in the measured part.
    pub opened: u64,
    /// Answers whose connection stayed open.
    pub kept: u64,
    /// Requests sent again because a kept connection had been closed unannounced.
    pub resent: u64,
    /// Closed by us because the server did not.
    pub closed_by_us: u64,
}

/// The times of a set of answers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Phases {
    /// Start to connected; 0 on kept connections.
    pub connect: Distribution,
    /// Connected to last octet.
    pub processing: Distribution,
    /// Request sent to first octet.
    pub waiting: Distribution,
    /// Start to last octet.
    pub total: Distribution,
    /// Intended start to last octet.
    pub latency: Distribution,
}

/// A distribution of times in microseconds. Mean and deviation are exact, percentiles within 0.1 percent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Distribution {
    /// How many values.
    pub count: u64,
    /// Smallest.
    pub min_us: u64,
    /// Arithmetic mean.
    pub mean_us: f64,
    /// Sample standard deviation.
    pub sd_us: f64,
    /// Median.
    pub p50_us: u64,
    /// 75th percentile.
    pub p75_us: u64,
    /// 90th percentile.
    pub p90_us: u64,
    /// 95th percentile.
    pub p95_us: u64,
    /// 99th percentile.
    pub p99_us: u64,
    /// 99.9th percentile.
    pub p999_us: u64,
    /// Largest.
    pub max_us: u64,
}

/// How far to trust the figures.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Generator {
    /// `clean`, `tight` or `invalid`.
    pub trust: String,
    /// Why it is not clean.
    pub reasons: Vec<String>,
    /// CPU time of each thread over the measured part.
    pub cpu_s: Vec<f64>,
    /// Share of the measured time that the busiest thread was on a core.
    pub cpu_share_max: f64,
    /// 99th percentile of how long an answer may have lain unread.
    pub lag_p99_us: u64,
    /// How far the mean number of requests in flight was below the number of users, as a share of it; null if
    /// the run was too short to tell.
    pub little_residual: Option<f64>,
}

impl Run {
    /// The run as JSON text with a line end, indented for people.
    pub fn to_json(&self) -> String {
        // Strings as keys and finite numbers: nothing in this type can fail to serialise.
        let mut text = serde_json::to_string_pretty(self).unwrap_or_default();
        text.push('\n');
        text
    }
}

impl From<&Outcome> for Run {
    fn from(outcome: &Outcome) -> Self {
        let failed = |kind: FailureKind| (kind.name().to_owned(), outcome.failures.of(kind));
        let verdicts = outcome.verdicts.iter();
        Self {
            schema: SCHEMA.to_owned(),
            url: outcome.plan.target.to_string(),
            address: outcome.address.to_string(),
            started_s: outcome.started.as_micros() as f64 / 1e6,
            elapsed_s: outcome.elapsed.as_secs_f64(),
            ended: outcome.ended.name().to_owned(),
            plan: Asked::from(&outcome.plan),
            requests: outcome.requests(),
            complete: outcome.complete,
            good: outcome.good,
            failed: outcome.failures.total(),
            failed_by_kind: FailureKind::ALL.into_iter().map(failed).collect(),
            unfinished: outcome.unfinished,
            good_per_s: outcome.good_per_second(),
            complete_per_s: outcome.complete_per_second(),
            statuses: outcome.statuses.iter().map(|(code, count)| (code.to_string(), count)).collect(),
            document_bytes: outcome.document_bytes,
            length_differs: outcome.length_differs,
            received_bytes: outcome.received_bytes,
            content_bytes: outcome.content_bytes,
            sent_bytes: outcome.sent_bytes,
            server_software: outcome.server_software(),
            connections: Connections {
                opened: outcome.connections,
                kept: outcome.kept,
                resent: outcome.resent,
                closed_by_us: outcome.closed_by_us,
            },
            good_times: Phases::from(&outcome.good_times),
            wrong_times: Phases::from(&outcome.wrong_times),
            verdicts: verdicts
                .map(|of| (of.verdict.name().to_owned(), Distribution::from(&of.total)))
                .collect(),
            generator: Generator {
                trust: outcome.check.trust.to_string(),
                reasons: outcome.check.reasons.clone(),
                cpu_s: outcome.cpu.iter().map(std::time::Duration::as_secs_f64).collect(),
                cpu_share_max: outcome.check.cpu_share_max,
                lag_p99_us: outcome.check.lag_p99_us,
                little_residual: outcome.check.little_residual,
            },
        }
    }
}

impl From<&load::Plan> for Asked {
    fn from(plan: &load::Plan) -> Self {
        Self {
            users: plan.users as u64,
            requests: plan.stop.requests,
            time_s: plan.stop.time.map(|time| time.as_secs_f64()),
            warmup_s: plan.warmup.as_secs_f64(),
            timeout_s: plan.timeout.as_secs_f64(),
            keep_alive: plan.keep_alive,
            protocol: plan.protocol().to_owned(),
            method: plan.method.to_string(),
            body_bytes: plan.body.as_ref().map_or(0, |body| body.content.len() as u64),
            expect_status: plan.expect.status.to_string(),
            expect_constant_length: plan.expect.length == Length::Constant,
        }
    }
}

impl From<&Times> for Phases {
    fn from(times: &Times) -> Self {
        Self {
            connect: Distribution::from(&times.connect),
            processing: Distribution::from(&times.processing),
            waiting: Distribution::from(&times.waiting),
            total: Distribution::from(&times.total),
            latency: Distribution::from(times.latency()),
        }
    }
}

impl From<&Histogram> for Distribution {
    fn from(histogram: &Histogram) -> Self {
        Self {
            count: histogram.count(),
            min_us: histogram.min_us(),
            mean_us: histogram.mean_us(),
            sd_us: histogram.standard_deviation_us(),
            p50_us: histogram.percentile_us(50.0),
            p75_us: histogram.percentile_us(75.0),
            p90_us: histogram.percentile_us(90.0),
            p95_us: histogram.percentile_us(95.0),
            p99_us: histogram.percentile_us(99.0),
            p999_us: histogram.percentile_us(99.9),
            max_us: histogram.max_us(),
        }
    }
}
