//! One run as JSON, for programs and for later comparison. `docs/run-json.md` describes every member.
//!
//! Invariant: members are added, never renamed or given another meaning, as long as [`SCHEMA`] stays the same.
//! What is not known is null: runs of Petasos know everything, runs imported from other tools much less.
//! Units are in the names: `_s` seconds, `_us` microseconds, `_bytes` octets.

mod account;
mod drift;
mod measured;
mod pages;
mod read;
mod white_space;

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

pub use account::Account;
pub use drift::{Drift, DriftSpot, SPOTS_SHOWN_MAX, what_changed};
pub use pages::AskedOfPages;
pub use read::{ReadError, read_runs};
pub use white_space::{is_white_space_alone, visible_space};

/// Name and version of the format, the value of the member `schema`.
pub const SCHEMA: &str = "petasos-run/1";

/// What made a run: Petasos itself.
pub const SOURCE_PETASOS: &str = "petasos";

/// One run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Run {
    /// [`SCHEMA`].
    pub schema: String,
    /// Which tool measured: `petasos`, `ab`, `wrk` or `jtl`.
    pub source: String,
    /// The URL the requests were for; of several, the first.
    pub url: Option<String>,
    /// The address they went to.
    pub address: Option<String>,
    /// When the measured part began, in seconds since 1970-01-01 UTC.
    pub started_s: Option<f64>,
    /// How long the measured part took.
    pub elapsed_s: Option<f64>,
    /// Why the run ended: `requests`, `time`, `stopped`, `target gone`, `receive error` or `failing`.
    pub ended: Option<String>,
    /// The round in which it was made beside runs of other sides; null if it was made by itself.
    pub round: Option<Round>,
    /// What was asked for.
    pub plan: Asked,
    /// What page mode was asked for, if each request of the run is a page. Pages have a JSON schema of their own.
    #[serde(skip)]
    pub pages: Option<AskedOfPages>,
    /// Requests that ended, well or badly.
    pub requests: Option<u64>,
    /// Answers received in full.
    pub complete: Option<u64>,
    /// Answers as expected.
    pub good: Option<u64>,
    /// Requests that failed.
    pub failed: Option<u64>,
    /// Failed requests by kind; kinds that did not occur are 0.
    pub failed_by_kind: BTreeMap<String, u64>,
    /// Requests in flight at the end, which are in no other count.
    pub unfinished: Option<u64>,
    /// Requests of an open loop that fell due while too many were in flight, and were not started.
    pub not_started: Option<u64>,
    /// Answers of an open loop that came after the time was up; they are in no rate.
    pub late: Option<u64>,
    /// Requests per second that an open loop was asked for, as a mean over the run; null in a closed loop.
    pub rate_asked_per_s: Option<f64>,
    /// Good answers per second.
    pub good_per_s: Option<f64>,
    /// Complete answers per second.
    pub complete_per_s: Option<f64>,
    /// Complete answers by status code.
    pub statuses: BTreeMap<String, u64>,
    /// Content octets of the first answer with a good status; null if there was none.
    pub document_bytes: Option<u64>,
    /// Answers with a good status whose length differs from that.
    pub length_differs: Option<u64>,
    /// Complete answers whose length was announced.
    pub lengths_known: Option<u64>,
    /// Octets received, heads and framing included.
    pub received_bytes: Option<u64>,
    /// Content octets received.
    pub content_bytes: Option<u64>,
    /// Octets sent.
    pub sent_bytes: Option<u64>,
    /// First word of the `Server` field of the first answer.
    pub server_software: Option<String>,
    /// How long it took to find the addresses.
    pub dns_s: Option<f64>,
    /// What became of connections.
    pub connections: Connections,
    /// Times of good answers.
    pub good_times: Phases,
    /// Times of complete answers that failed for status, length or content.
    pub wrong_times: Phases,
    /// Total times of good answers by what the nearest cache said.
    pub verdicts: BTreeMap<String, Distribution>,
    /// What happened in each second.
    pub seconds: Vec<Second>,
    /// The stages in order; empty if there were none.
    pub stages: Vec<Stage>,
    /// The URLs in the order of the plan; empty if there was one.
    pub urls: Vec<Url>,
    /// How answers differed; null if those that were compared did not.
    pub drift: Option<Drift>,
    /// How far to trust the figures.
    pub generator: Generator,
    /// The conditions that the run was held against, in the order in which they were given.
    pub thresholds: Vec<Condition>,
    /// The generator's machine; null if nobody looked.
    pub machine: Option<probe::Environment>,
}

/// One round of a comparison: each side was loaded once, in an order drawn for it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Round {
    /// Tells this comparison from others.
    pub comparison: String,
    /// Which round, from 1.
    pub number: u64,
}

/// A condition under which a run has failed, and what the run showed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Condition {
    /// The condition as it was given, such as `p95 > 300ms`.
    pub condition: String,
    /// Whether it holds, so that the run has failed by it.
    pub missed: bool,
    /// What the run showed, in words.
    pub found: String,
}

/// What was asked for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Asked {
    /// Users of the closed loop; null in an open one.
    pub users: Option<u64>,
    /// When requests were meant to start: `closed`, `constant`, `poisson`, `ramp` or `stages`.
    pub arrival: Option<String>,
    /// Requests in flight beyond which an open loop starts none; null in a closed loop.
    pub in_flight_max: Option<u64>,
    /// Time over which the load grew to its full size.
    pub ramp_up_s: Option<f64>,
    /// Requests that a connection may have had under way at once.
    pub pipeline: Option<u64>,
    /// Where everything that is left to chance came from.
    pub seed: Option<u64>,
    /// Requests to make; null without such a limit.
    pub requests: Option<u64>,
    /// Time to measure; null without such a limit.
    pub time_s: Option<f64>,
    /// Load before the measured part.
    pub warmup_s: Option<f64>,
    /// Time limit of a request.
    pub timeout_s: Option<f64>,
    /// Whether connections were to be kept.
    pub keep_alive: Option<bool>,
    /// How connections ended that the server had closed: `fin` or `rst`.
    pub close: Option<String>,
    /// `HTTP/1.0`, `HTTP/1.1` or `HTTP/2`.
    pub protocol: Option<String>,
    /// The method.
    pub method: Option<String>,
    /// Content octets of each request.
    pub body_bytes: Option<u64>,
    /// Status codes that counted as good, such as `2xx` or `200,304`.
    pub expect_status: Option<String>,
    /// Whether answers had to be as long as the first good one.
    pub expect_constant_length: Option<bool>,
}

/// What became of connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Connections {
    /// Opened in the measured part.
    pub opened: Option<u64>,
    /// Those of them whose TLS resumed an earlier session; 0 without TLS.
    pub resumed: Option<u64>,
    /// Answers whose connection stayed open.
    pub kept: Option<u64>,
    /// Requests sent again because a kept connection had been closed unannounced.
    pub resent: Option<u64>,
    /// Closed by us because the server did not.
    pub closed_by_us: Option<u64>,
    /// The fewest requests that a connection carried.
    pub requests_min: Option<u64>,
    /// The mean number of requests that a connection carried.
    pub requests_mean: Option<f64>,
    /// The most requests that a connection carried.
    pub requests_max: Option<u64>,
}

/// The times of a set of answers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Phases {
    /// Start to connected; 0 on kept connections.
    pub connect: Distribution,
    /// TCP connected to TLS agreed on; part of connect.
    pub tls: Distribution,
    /// Connected to last octet.
    pub processing: Distribution,
    /// Request sent to first octet.
    pub waiting: Distribution,
    /// First octet to last octet.
    pub transfer: Distribution,
    /// Start to last octet.
    pub total: Distribution,
    /// Intended start to last octet.
    pub latency: Distribution,
}

/// A distribution of times in microseconds. Mean and deviation are exact, percentiles within 0.1 percent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Distribution {
    /// How many values.
    pub count: Option<u64>,
    /// Smallest.
    pub min_us: Option<u64>,
    /// Arithmetic mean.
    pub mean_us: Option<f64>,
    /// Sample standard deviation.
    pub sd_us: Option<f64>,
    /// Median.
    pub p50_us: Option<u64>,
    /// 75th percentile.
    pub p75_us: Option<u64>,
    /// 90th percentile.
    pub p90_us: Option<u64>,
    /// 95th percentile.
    pub p95_us: Option<u64>,
    /// 99th percentile.
    pub p99_us: Option<u64>,
    /// 99.9th percentile.
    pub p999_us: Option<u64>,
    /// Largest.
    pub max_us: Option<u64>,
}

/// One second of a run. An answer belongs to the second in which it ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Second {
    /// Which second: 0 is the first of the measured part.
    pub second: u64,
    /// Users at its end; 0 in an open loop.
    pub users: u64,
    /// Requests in flight at its end.
    pub in_flight: u64,
    /// Requests started.
    pub started: u64,
    /// Good answers.
    pub good: u64,
    /// Failed requests.
    pub failed: u64,
    /// Requests that fell due and were not started.
    pub not_started: u64,
    /// Failed requests by kind; only kinds that occurred.
    pub failed_by_kind: BTreeMap<String, u64>,
    /// Complete answers by class of their status (`2xx`); only classes that occurred.
    pub statuses: BTreeMap<String, u64>,
    /// Good answers by cache verdict; only verdicts that occurred.
    pub verdicts: BTreeMap<String, u64>,
    /// Octets received.
    pub received_bytes: u64,
    /// Share of all processor cores of the generator's host that was busy; null if nobody looked.
    pub host_busy: Option<f64>,
    /// Share of them that the generator had; null if nobody looked.
    pub generator_busy: Option<f64>,
    /// Median of the latencies of complete answers; null without any, here and below.
    pub p50_us: Option<u64>,
    /// Their 95th percentile.
    pub p95_us: Option<u64>,
    /// Their 99th percentile.
    pub p99_us: Option<u64>,
    /// The longest.
    pub max_us: Option<u64>,
}

/// One stage. A request belongs to the stage in which it was meant to start.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Stage {
    /// Users asked for; null if it was a rate.
    pub users: Option<u64>,
    /// Requests per second asked for; null if it was users.
    pub rate_per_s: Option<f64>,
    /// How long it was measured.
    pub elapsed_s: f64,
    /// Complete answers.
    pub complete: u64,
    /// Good answers.
    pub good: u64,
    /// Good answers per second.
    pub good_per_s: f64,
    /// Failed requests by kind; kinds that did not occur are 0.
    pub failed_by_kind: BTreeMap<String, u64>,
    /// Requests that fell due and were not started.
    pub not_started: u64,
    /// Times of good answers.
    pub good_times: Phases,
}

/// One of several URLs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Url {
    /// The URL.
    pub url: String,
    /// How often it was to be taken compared with the others.
    pub weight: u64,
    /// Complete answers.
    pub complete: u64,
    /// Good answers.
    pub good: u64,
    /// Failed requests.
    pub failed: u64,
    /// Content octets of its first answer with a good status.
    pub document_bytes: Option<u64>,
    /// Mean total time of its complete answers; null without any.
    pub mean_us: Option<f64>,
    /// The longest; null without any.
    pub max_us: Option<u64>,
}

/// How far to trust the figures.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Generator {
    /// `clean`, `tight` or `invalid`.
    pub trust: Option<String>,
    /// Why it is not clean.
    pub reasons: Vec<String>,
    /// CPU time of each thread over the measured part.
    pub cpu_s: Vec<f64>,
    /// Share of the measured time that the busiest thread was on a core.
    pub cpu_share_max: Option<f64>,
    /// 99th percentile of how long an answer may have lain unread.
    pub lag_p99_us: Option<u64>,
    /// How far the mean number of requests in flight was below the number of users, as a share of it; null if
    /// the run was too short to tell.
    pub little_residual: Option<f64>,
    /// Whether the generator took more than a twentieth of the users' time, or may have, and more than waking takes:
    /// differences between this run and others may be the generator's. False if the tool does not tell.
    pub may_have_lost: bool,
    /// What the users spent their time with; null if the tool does not tell.
    pub account: Option<Account>,
}

impl Run {
    /// A run that another tool measured, of which nothing is known yet.
    pub fn of_source(source: &str) -> Self {
        Self { schema: SCHEMA.to_owned(), source: source.to_owned(), ..Self::default() }
    }

    /// The run as JSON text with a line end, indented for people.
    pub fn to_json(&self) -> String {
        // Strings as keys and finite numbers: nothing in this type can fail to serialise.
        let mut text = serde_json::to_string_pretty(self).unwrap_or_default();
        text.push('\n');
        text
    }
}
