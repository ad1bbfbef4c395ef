//! One run as JSON, for programs and for later comparison. `docs/run-json.md` describes every
//! member.
//!
//! Invariant: as long as [`SCHEMA`] is unchanged, members are only added. None is renamed or
//! changes its meaning. A member is null if its value is unknown; imported runs of other tools
//! leave many unknown. Names end with their units: `_s` seconds, `_us` microseconds, `_bytes`
//! bytes.

mod account;
mod drift;
mod measured;
mod pages;
mod read;
mod white_space;

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

pub use account::UserTime;
pub use drift::{ContentDrift, DriftSpot, SPOTS_SHOWN_MAX, what_changed};
pub use pages::RequestedPages;
pub use read::{RunReadError, read_runs};
pub use white_space::{is_white_space_alone, visible_space};

/// Name and version of the format: the value of the member `schema`.
pub const SCHEMA: &str = "petasos-run/1";

/// The source of runs that Petasos measured itself.
pub const SOURCE_PETASOS: &str = "petasos";

/// One run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Run {
    /// [`SCHEMA`].
    pub schema: String,
    /// Tool that measured the run: `petasos`, `ab`, `wrk` or `jtl`.
    pub source: String,
    /// URL of the requests; the first of several.
    pub url: Option<String>,
    /// Network address that received the requests.
    pub address: Option<String>,
    /// Start of the measured part, in seconds since 1970-01-01 UTC.
    pub started_s: Option<f64>,
    /// Duration of the measured part in seconds.
    pub elapsed_s: Option<f64>,
    /// Reason for the end: `requests`, `time`, `stopped`, `target gone`, `receive error` or
    /// `failing`.
    pub ended: Option<String>,
    /// Round of the comparison that this run belongs to; null for a single run.
    pub round: Option<Round>,
    /// Requested load.
    pub plan: RequestedLoad,
    /// Requested page mode, if each request of the run is a page. This member is not written,
    /// because runs of page mode have a separate JSON schema.
    #[serde(skip)]
    pub pages: Option<RequestedPages>,
    /// Requests that ended, successful or not.
    pub requests: Option<u64>,
    /// Responses received completely.
    pub complete: Option<u64>,
    /// Responses that met all expectations.
    pub good: Option<u64>,
    /// Requests that failed.
    pub failed: Option<u64>,
    /// Failed requests by kind; kinds that did not occur are 0.
    pub failed_by_kind: BTreeMap<String, u64>,
    /// Requests in flight at the end. No other count includes them.
    pub unfinished: Option<u64>,
    /// Requests of an open loop that were due while too many were in flight, and so never started.
    pub not_started: Option<u64>,
    /// Complete responses of an open loop that came after the end of the measured time; no rate
    /// includes them.
    pub late: Option<u64>,
    /// Requested rate of an open loop in requests per second, as a mean over the run; null in a
    /// closed loop.
    pub rate_asked_per_s: Option<f64>,
    /// Good responses per second.
    pub good_per_s: Option<f64>,
    /// Complete responses per second.
    pub complete_per_s: Option<f64>,
    /// Complete responses by status code.
    pub statuses: BTreeMap<String, u64>,
    /// Content length in bytes of the first response with a good status; null if there was none.
    pub document_bytes: Option<u64>,
    /// Responses with a good status whose length differs from `document_bytes`.
    pub length_differs: Option<u64>,
    /// Complete responses that announced their length.
    pub lengths_known: Option<u64>,
    /// Bytes received, heads and framing included.
    pub received_bytes: Option<u64>,
    /// Content bytes received.
    pub content_bytes: Option<u64>,
    /// Bytes sent.
    pub sent_bytes: Option<u64>,
    /// First word of the `Server` field in the first response.
    pub server_software: Option<String>,
    /// Duration of the name resolution in seconds.
    pub dns_s: Option<f64>,
    /// Counts of connections.
    pub connections: ConnectionCounts,
    /// Times of good responses.
    pub good_times: Phases,
    /// Times of complete responses with an unexpected status, length or content.
    pub wrong_times: Phases,
    /// Total times of good responses by verdict of the nearest cache.
    pub verdicts: BTreeMap<String, Distribution>,
    /// Figures of each second.
    pub seconds: Vec<RunSecond>,
    /// Stages in order; empty for a plan without stages.
    pub stages: Vec<StageFigures>,
    /// URLs in the order of the plan; empty if there was only one.
    pub urls: Vec<Url>,
    /// Differences between responses; null if the compared responses were equal.
    pub drift: Option<ContentDrift>,
    /// Trustworthiness of the figures.
    pub generator: GeneratorCheck,
    /// Conditions that the run was judged by, in the order of the command line.
    pub thresholds: Vec<FailCondition>,
    /// Machine of the load generator; null if it was not examined.
    pub machine: Option<probe::Environment>,
}

/// One round of a comparison. Each side is loaded once, in a random order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Round {
    /// Identity of the comparison.
    pub comparison: String,
    /// Number of the round, counted from 1.
    pub number: u64,
}

/// A condition for failing a run, and the run's result for it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FailCondition {
    /// The condition as it was given, for example `p95 > 300ms`.
    pub condition: String,
    /// Whether the condition holds, so that the run has failed.
    pub missed: bool,
    /// The value found in the run, in words.
    pub found: String,
}

/// Requested load.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RequestedLoad {
    /// Users of the closed loop; null in an open one.
    pub users: Option<u64>,
    /// Arrival process, which decides when requests should start: `closed`, `constant`, `poisson`,
    /// `ramp` or `stages`.
    pub arrival: Option<String>,
    /// Number of requests in flight from which an open loop starts no more; null in a closed loop.
    pub in_flight_max: Option<u64>,
    /// Time over which the load grew to its full size, in seconds.
    pub ramp_up_s: Option<f64>,
    /// Largest number of requests in flight on one connection.
    pub pipeline: Option<u64>,
    /// Seed of all random choices.
    pub seed: Option<u64>,
    /// Number of requests to make; null for no limit.
    pub requests: Option<u64>,
    /// Time to measure in seconds; null for no limit.
    pub time_s: Option<f64>,
    /// Duration of the unmeasured load before the measured part, in seconds.
    pub warmup_s: Option<f64>,
    /// Time limit of a request in seconds.
    pub timeout_s: Option<f64>,
    /// Whether connections should be kept alive.
    pub keep_alive: Option<bool>,
    /// Way of closing a connection after the server has closed it: `fin` or `rst`.
    pub close: Option<String>,
    /// `HTTP/1.0`, `HTTP/1.1` or `HTTP/2`.
    pub protocol: Option<String>,
    /// Request method.
    pub method: Option<String>,
    /// Content length of each request in bytes.
    pub body_bytes: Option<u64>,
    /// Status codes that count as good, for example `2xx` or `200,304`.
    pub expect_status: Option<String>,
    /// Whether every response had to be as long as the first good one.
    pub expect_constant_length: Option<bool>,
}

/// Counts of connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ConnectionCounts {
    /// Connections opened in the measured part.
    pub opened: Option<u64>,
    /// Opened connections whose TLS handshake resumed an earlier session; 0 without TLS.
    pub resumed: Option<u64>,
    /// Responses after which the connection stayed open.
    pub kept: Option<u64>,
    /// Requests sent again because the server had closed a kept connection without notice.
    pub resent: Option<u64>,
    /// Connections that the generator closed because the server did not.
    pub closed_by_us: Option<u64>,
    /// Smallest number of requests on one connection.
    pub requests_min: Option<u64>,
    /// Mean number of requests on one connection.
    pub requests_mean: Option<f64>,
    /// Largest number of requests on one connection.
    pub requests_max: Option<u64>,
}

/// Distributions of the times of a set of responses, by phase.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Phases {
    /// From the start to the established connection; 0 on kept connections.
    pub connect: Distribution,
    /// From the TCP connection to the end of the TLS handshake; part of `connect`.
    pub tls: Distribution,
    /// From the established connection to the last byte.
    pub processing: Distribution,
    /// From the sent request to the first byte.
    pub waiting: Distribution,
    /// From the first to the last byte.
    pub transfer: Distribution,
    /// From the start to the last byte.
    pub total: Distribution,
    /// From the intended start to the last byte.
    pub latency: Distribution,
}

/// A distribution of times in microseconds. Mean and deviation are exact, percentiles are within
/// 0.1 percent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Distribution {
    /// Number of values.
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

impl Distribution {
    /// The distribution, with all values unknown if there were none. Its zeros are no times then.
    pub(crate) fn or_unknown(self) -> Self {
        if self.count == Some(0) { Self::default() } else { self }
    }
}

/// One second of a run. A response belongs to the second in which it ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunSecond {
    /// Number of the second; 0 is the first of the measured part.
    pub second: u64,
    /// Users at the end of the second; 0 in an open loop.
    pub users: u64,
    /// Requests in flight at the end of the second.
    pub in_flight: u64,
    /// Number of started requests.
    pub started: u64,
    /// Number of good responses.
    pub good: u64,
    /// Number of failed requests.
    pub failed: u64,
    /// Number of requests that were due and not started.
    pub not_started: u64,
    /// Failed requests by kind; only kinds that occurred.
    pub failed_by_kind: BTreeMap<String, u64>,
    /// Complete responses by status class, for example `2xx`; only classes that occurred.
    pub statuses: BTreeMap<String, u64>,
    /// Good responses by cache verdict; only verdicts that occurred.
    pub verdicts: BTreeMap<String, u64>,
    /// Bytes received.
    pub received_bytes: u64,
    /// Busy share of all processor cores of the generator's host, 0 to 1; null if it was not
    /// watched.
    pub host_busy: Option<f64>,
    /// Share of all processor cores that the generator used, 0 to 1; null if it was not watched.
    pub generator_busy: Option<f64>,
    /// Median latency of complete responses; null without any, as for the following percentiles.
    pub p50_us: Option<u64>,
    /// 95th percentile of the latency.
    pub p95_us: Option<u64>,
    /// 99th percentile of the latency.
    pub p99_us: Option<u64>,
    /// Longest latency.
    pub max_us: Option<u64>,
}

/// One stage. A request belongs to the stage in which its start was intended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct StageFigures {
    /// Requested number of users; null if a rate was requested.
    pub users: Option<u64>,
    /// Requested requests per second; null if users were requested.
    pub rate_per_s: Option<f64>,
    /// Duration of the measurement in seconds.
    pub elapsed_s: f64,
    /// Number of complete responses.
    pub complete: u64,
    /// Number of good responses.
    pub good: u64,
    /// Good responses per second.
    pub good_per_s: f64,
    /// Failed requests by kind; kinds that did not occur are 0.
    pub failed_by_kind: BTreeMap<String, u64>,
    /// Number of requests that were due and not started.
    pub not_started: u64,
    /// Times of good responses.
    pub good_times: Phases,
}

/// One of several URLs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Url {
    /// The URL.
    pub url: String,
    /// Weight of the URL relative to the others.
    pub weight: u64,
    /// Number of complete responses.
    pub complete: u64,
    /// Number of good responses.
    pub good: u64,
    /// Number of failed requests.
    pub failed: u64,
    /// Content length in bytes of the URL's first response with a good status.
    pub document_bytes: Option<u64>,
    /// Mean total time of complete responses; null without any.
    pub mean_us: Option<f64>,
    /// Longest total time of complete responses; null without any.
    pub max_us: Option<u64>,
}

/// Trustworthiness of the figures.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct GeneratorCheck {
    /// Result of the self-check: `clean`, `tight` or `invalid`.
    pub trust: Option<String>,
    /// Reasons why the self-check is not clean.
    pub reasons: Vec<String>,
    /// Processor time of each thread over the measured part, in seconds.
    pub cpu_s: Vec<f64>,
    /// Share of the measured time that the busiest thread spent on a core.
    pub cpu_share_max: Option<f64>,
    /// 99th percentile of the time for which a response may have lain unread.
    pub lag_p99_us: Option<u64>,
    /// Share of the users (in an open loop, of the requests in flight) that Little's law misses:
    /// 0.03 means that the recorded times account for 3% fewer. Null if the run was too short.
    pub little_residual: Option<f64>,
    /// Whether the generator took, or may have taken, more than 5% of the users' time. Time that
    /// waking up explains does not count. If set, differences from other runs may come from the
    /// generator. False if the tool does not report it.
    pub may_have_lost: bool,
    /// Account of the users' time; null if the tool does not report it.
    pub account: Option<UserTime>,
}

impl Run {
    /// Creates a run that another tool measured, with all figures unknown.
    pub fn of_source(source: &str) -> Self {
        Self { schema: SCHEMA.to_owned(), source: source.to_owned(), ..Self::default() }
    }

    /// Returns the run as indented JSON with a line end.
    pub fn to_json(&self) -> String {
        // Keys are strings and numbers are finite, so serialisation cannot fail.
        let mut text = serde_json::to_string_pretty(self).unwrap_or_default();
        text.push('\n');
        text
    }
}
