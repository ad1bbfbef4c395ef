//! The measurements of a run.
//!
//! Reports and JSON use these terms:
//!
//! - A *request* is counted once, when it has ended. It ends in exactly one way: *good*, or failed
//!   with one [`FailureKind`].
//! - A response is *complete* when it was received in full. This includes good responses, and those
//!   that failed for their status, length or content. The times of good and of wrong responses are
//!   kept apart, so that fast error pages cannot make good pages look fast.
//! - *Unfinished* requests were in flight, or waited for a connection, when the run stopped. They
//!   are in no other figure, but the bytes they received are in the totals.
//!
//! The times of a response, all in microseconds:
//!
//! - *connect*: from the start of the request until the connection was ready; 0 on a reused
//!   connection.
//! - *processing*: from then until the last byte of the response.
//! - *waiting*: from the last byte of the request until the first byte of the response; part of
//!   processing.
//! - *transfer*: from the first byte of the response until the last; part of processing.
//! - *tls*: from the end of the TCP handshake until the end of the TLS handshake; part of connect.
//! - *total*: from the start until the last byte: connect + processing.
//! - *latency*: from the moment the request was meant to start until the last byte. In a closed
//!   loop a request is meant to start when the previous one has ended, so latency equals total.
//!
//! Invariant: `requests()` equals good plus all failures. `complete` equals good plus the failures
//! of kind status, length and body.

use crate::ab_account::AbAccount;
use crate::check::SelfCheck;
use crate::plan::{Plan, WeightedTarget};
use crate::traffic::Stage;
use crate::verdict::CacheVerdict;
use bytes::Bytes;
use clock::Timestamp;
use stats::Histogram;
use std::net::SocketAddr;
use std::time::Duration;
use tls_terms::TlsAgreement;

/// The measurements of one run.
#[derive(Clone, Debug)]
pub struct RunOutcome {
    /// The plan that was run.
    pub plan: Plan,
    /// The address the load went to. With several hosts, the address of the first.
    pub address: SocketAddr,
    /// The TLS parameters that the first TLS connection negotiated.
    pub tls: Option<TlsAgreement>,
    /// How long name resolution took. It happens once, before the run.
    pub dns: Duration,
    /// Number of generator threads.
    pub threads: usize,
    /// Whether all generator threads had real-time priority.
    pub is_real_time: bool,
    /// When the measured part began.
    pub started: Timestamp,
    /// How long the measured part took: until the last request ended, or until the time was up.
    pub elapsed: Duration,
    /// Why the run ended.
    pub ended: Ended,
    /// Responses received in full, whatever their status and length.
    pub complete: u64,
    /// Responses received in full that met the expectations.
    pub good: u64,
    /// Requests that failed, by kind.
    pub failures: Failures,
    /// ApacheBench's counts, if the plan asked for them.
    pub ab: Option<AbAccount>,
    /// Complete responses with a good status whose length differs from
    /// [`RunOutcome::document_bytes`], even if the plan does not treat that as a failure.
    pub length_differs: u64,
    /// Complete responses by status code.
    pub statuses: StatusCounts,
    /// Bytes received, including heads and framing.
    pub received_bytes: u64,
    /// Content bytes received, without transfer coding.
    pub content_bytes: u64,
    /// Bytes sent.
    pub sent_bytes: u64,
    /// Content bytes of the first URL's first response with a good status.
    pub document_bytes: Option<u64>,
    /// The head of the first response, as received.
    pub first_head: Vec<u8>,
    /// Complete responses with a `Content-Length` field, so that their length was known in advance.
    pub lengths_known: u64,
    /// How contents differed from the first good response of their URL; `None` if none did.
    pub drift: Option<Drift>,
    /// Times of good responses.
    pub good_times: Times,
    /// Times of complete responses that failed for status, length or content.
    pub wrong_times: Times,
    /// Good responses by the verdict of the nearest cache, with their total times. Empty if no
    /// response named a verdict.
    pub verdicts: Vec<VerdictTimes>,
    /// Complete responses whose connection stayed open for the next request.
    pub kept: u64,
    /// Connections opened in the measured part.
    pub connections: u64,
    /// Connections opened in the measured part whose TLS handshake resumed an earlier session.
    pub resumed: u64,
    /// Requests sent again on a new connection because the server had closed the reused one without
    /// reading them.
    pub resent: u64,
    /// Connections closed by the load tester because the server did not close them, although one
    /// side had announced the close.
    pub closed_by_us: u64,
    /// How many requests each connection carried.
    pub requests_per_connection: RequestsPerConnection,
    /// Requests that were in flight, or waited for a connection, when the run stopped.
    pub unfinished: u64,
    /// Requests of an open loop that were not started because too many were in flight when they
    /// fell due. They are in no other figure.
    pub not_started: u64,
    /// Responses of an open loop that came after the end of [`RunOutcome::elapsed`]. They are in
    /// all figures except rates.
    pub late: LateResponses,
    /// The rate requested for an open loop, in requests per second, as a mean over the run.
    pub rate_asked: Option<f64>,
    /// Figures for each second of the measured part; at most [`SECONDS_MAX`] entries.
    pub seconds: Vec<Second>,
    /// The stages, in the order of the plan; empty if it has none. All other figures are sums over
    /// the stages.
    pub stages: Vec<StageOutcome>,
    /// The URLs, in the order of the plan.
    pub urls: Vec<UrlOutcome>,
    /// CPU time of each generator thread over the measured part, without busy-waits.
    pub cpu: Vec<Duration>,
    /// CPU time that the threads spent polling for responses instead of sleeping. Only runs with
    /// [`Plan::real_time`] and at most one user for two cores have any.
    pub busy_wait: Duration,
    /// How far the figures can be trusted.
    pub check: SelfCheck,
    /// Single requests, if the plan asked for them, ordered by their start.
    pub samples: Vec<Sample>,
}

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// All requests of the plan have ended.
    Requests,
    /// The time was up.
    Time,
    /// The run was stopped through `load::Control`.
    Stopped,
    /// A connection failed, and the target had shown no sign of life for `load::GONE_AFTER`.
    TargetGone,
    /// A connection broke before its response had ended, and the plan said to stop then.
    ReceiveError,
    /// Most requests of the last seconds failed, or as many as the plan permits, and the plan said
    /// to stop then.
    Failing,
}

impl Ended {
    /// The name used in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::Time => "time",
            Self::Stopped => "stopped",
            Self::TargetGone => "target gone",
            Self::ReceiveError => "receive error",
            Self::Failing => "failing",
        }
    }
}

/// How a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(usize)]
pub enum FailureKind {
    /// The connection could not be made: refused, unreachable, no answer.
    Connect,
    /// The TLS handshake failed, for instance for an invalid certificate or without a common
    /// version.
    Tls,
    /// No local port was free for the connection: a limit of this machine, not of the target.
    Address,
    /// The request could not be written.
    Send,
    /// The connection broke, or ended before the response did.
    Receive,
    /// The response did not come in time.
    Timeout,
    /// The status of the response is not among the expected ones.
    Status,
    /// The length of the response differs from that of the first good one.
    Length,
    /// The content of the response is not the expected one.
    Body,
    /// The response is not valid HTTP, or bytes follow its end.
    Malformed,
}

impl FailureKind {
    /// All kinds, in the order in which they are reported.
    pub const ALL: [Self; 10] = [
        Self::Connect,
        Self::Tls,
        Self::Address,
        Self::Send,
        Self::Receive,
        Self::Timeout,
        Self::Status,
        Self::Length,
        Self::Body,
        Self::Malformed,
    ];

    /// The name used in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Tls => "tls",
            Self::Address => "address",
            Self::Send => "send",
            Self::Receive => "receive",
            Self::Timeout => "timeout",
            Self::Status => "status",
            Self::Length => "length",
            Self::Body => "body",
            Self::Malformed => "malformed",
        }
    }

    /// Advice for an operator about failures of this kind, unless it is obvious.
    pub const fn advice(self) -> Option<&'static str> {
        match self {
            Self::Address => Some(
                "all local ports toward this address are in use, most of them by closed connections in \
                 TIME_WAIT; keep connections alive, or widen net.ipv4.ip_local_port_range",
            ),
            _ => None,
        }
    }
}

/// Failed requests by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Failures([u64; FailureKind::ALL.len()]);

impl Failures {
    /// Failures from pairs of a kind and its count. Counts of the same kind are added.
    pub fn of_kinds(counts: &[(FailureKind, u64)]) -> Self {
        let mut failures = Self::default();
        for &(kind, count) in counts {
            if let Some(place) = failures.0.get_mut(kind as usize) {
                *place += count;
            }
        }
        failures
    }

    /// Number of requests that failed this way.
    pub fn of(&self, kind: FailureKind) -> u64 {
        self.0.get(kind as usize).copied().unwrap_or(0)
    }

    /// Number of failed requests.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Counts a failed request.
    pub fn add(&mut self, kind: FailureKind) {
        if let Some(count) = self.0.get_mut(kind as usize) {
            *count += 1;
        }
    }

    /// Adds the counts of `other`.
    pub fn merge(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0).for_each(|(count, more)| *count += more);
    }

    /// The failures added since `before`, an earlier copy.
    pub fn since(&self, before: &Self) -> Self {
        let mut since = *self;
        since.0.iter_mut().zip(before.0).for_each(|(count, then)| *count -= then);
        since
    }
}

/// Complete responses by status code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusCounts(Vec<u64>);

impl StatusCounts {
    /// Counts from pairs of a status code and its count. Codes above 999 are ignored.
    pub fn of(counts: &[(u16, u64)]) -> Self {
        let mut statuses = Self::default();
        for &(code, count) in counts {
            if let Some(place) = statuses.0.get_mut(usize::from(code)) {
                *place += count;
            }
        }
        statuses
    }

    /// Number of responses in a status class; class 2 means 200 to 299.
    pub fn class(&self, class: u16) -> u64 {
        self.iter().filter(|(code, _)| code / 100 == class).map(|(_, count)| count).sum()
    }

    /// Pairs of status code and count, ascending, without codes that did not occur.
    pub fn iter(&self) -> impl Iterator<Item = (u16, u64)> + use<'_> {
        (0..).zip(&self.0).filter(|&(_, &count)| count > 0).map(|(code, &count)| (code, count))
    }

    /// Counts a response. Codes above 999 are ignored.
    pub fn add(&mut self, code: u16) {
        if let Some(count) = self.0.get_mut(usize::from(code)) {
            *count += 1;
        }
    }

    /// Adds the counts of `other`.
    pub fn merge(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(count, more)| *count += more);
    }
}

impl Default for StatusCounts {
    fn default() -> Self {
        Self(vec![0; 1000])
    }
}

/// The times of a set of responses, in microseconds. The module documentation defines each.
#[derive(Clone, Debug, Default)]
pub struct Times {
    /// Start to connected.
    pub connect: Histogram,
    /// Connected to last byte.
    pub processing: Histogram,
    /// Request sent to first byte.
    pub waiting: Histogram,
    /// Start to last byte.
    pub total: Histogram,
    /// TCP connected to TLS negotiated; part of connect. Empty without TLS.
    pub tls: Histogram,
    /// First byte to last byte.
    pub transfer: Histogram,
    /// Intended start to last byte, if requests may start later than intended, as in an open loop.
    /// `None` if it would equal `total`.
    pub from_intended: Option<Box<Histogram>>,
}

impl Times {
    /// Latency: from the intended start to the last byte. In a closed loop without a limit on
    /// connections it equals the total time.
    pub fn latency(&self) -> &Histogram {
        self.from_intended.as_deref().unwrap_or(&self.total)
    }

    /// Adds the times of another set.
    pub fn merge(&mut self, other: &Self) {
        self.connect.merge(&other.connect);
        self.processing.merge(&other.processing);
        self.waiting.merge(&other.waiting);
        self.total.merge(&other.total);
        self.tls.merge(&other.tls);
        self.transfer.merge(&other.transfer);
        if let Some(theirs) = &other.from_intended {
            self.from_intended.get_or_insert_default().merge(theirs);
        }
    }
}

/// Responses that came after the end of a run or a stage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LateResponses {
    /// Good responses.
    pub good: u64,
    /// All complete responses.
    pub complete: u64,
}

/// How many requests the connections of a run carried.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RequestsPerConnection {
    /// The fewest.
    pub min: u64,
    /// The mean.
    pub mean: f64,
    /// The most.
    pub max: u64,
}

/// One second of a run. A response belongs to the second in which it ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Second {
    /// Index of the second: 0 is the first second of the measured part.
    pub second: u32,
    /// Requests started.
    pub started: u64,
    /// Good responses.
    pub good: u64,
    /// Failed requests.
    pub failures: Failures,
    /// Requests that fell due and were not started.
    pub not_started: u64,
    /// Complete responses by status class: index 2 counts 200 to 299. Index 0 counts statuses
    /// outside of 100 to 599.
    pub statuses: [u64; 6],
    /// Good responses by cache verdict, in the order of [`CacheVerdict::ALL`].
    pub verdicts: [u64; CacheVerdict::ALL.len()],
    /// Bytes received.
    pub received_bytes: u64,
    /// Median latency of complete responses, in microseconds; 0 if there were none.
    pub p50_us: u64,
    /// 95th percentile of the latency, in microseconds; 0 without responses.
    pub p95_us: u64,
    /// 99th percentile of the latency, in microseconds; 0 without responses.
    pub p99_us: u64,
    /// Longest latency, in microseconds; 0 without responses.
    pub max_us: u64,
    /// Users at the end of the second; 0 in an open loop.
    pub users: u64,
    /// Requests in flight at the end of the second.
    pub in_flight: u64,
}

impl Second {
    /// Adds another thread's counts. Percentiles cannot be added.
    pub fn add(&mut self, other: &Self) {
        self.started += other.started;
        self.good += other.good;
        self.failures.merge(&other.failures);
        self.not_started += other.not_started;
        self.statuses.iter_mut().zip(other.statuses).for_each(|(count, more)| *count += more);
        self.verdicts.iter_mut().zip(other.verdicts).for_each(|(count, more)| *count += more);
        self.received_bytes += other.received_bytes;
        self.users += other.users;
        self.in_flight += other.in_flight;
    }
}

/// The most seconds for which figures are kept: one day. A longer run is still measured, but later
/// seconds have no entry.
pub const SECONDS_MAX: usize = 86_400;

/// The measurements of one stage. A request belongs to the stage in which it was meant to start.
#[derive(Clone, Debug)]
pub struct StageOutcome {
    /// The stage of the plan.
    pub stage: Stage,
    /// How long it was measured.
    pub elapsed: Duration,
    /// Complete responses.
    pub complete: u64,
    /// Good responses.
    pub good: u64,
    /// Failed requests.
    pub failures: Failures,
    /// Requests that fell due and were not started.
    pub not_started: u64,
    /// Responses that came after the end of the stage.
    pub late: LateResponses,
    /// Times of good responses.
    pub good_times: Times,
    /// Times of complete responses that failed.
    pub wrong_times: Times,
}

impl StageOutcome {
    /// Good responses per second, without late ones.
    pub fn good_per_second(&self) -> f64 {
        per_second(self.good - self.late.good, self.elapsed)
    }
}

/// The measurements of one URL.
#[derive(Clone, Debug)]
pub struct UrlOutcome {
    /// The URL and its weight.
    pub target: WeightedTarget,
    /// Complete responses.
    pub complete: u64,
    /// Good responses.
    pub good: u64,
    /// Failed requests.
    pub failed: u64,
    /// Content bytes of its first response with a good status.
    pub document_bytes: Option<u64>,
    /// The sum of the total times of its complete responses, in microseconds.
    pub total_us_sum: u64,
    /// The longest total time of its complete responses, in microseconds.
    pub total_us_max: u64,
}

/// How contents differed from the first good response of their URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drift {
    /// Index in [`RunOutcome::urls`] of the URL whose contents are kept here.
    pub url: usize,
    /// Complete responses with a good status that were compared byte by byte, over all URLs.
    pub compared: u64,
    /// Compared responses that differ in length or content, over all URLs.
    pub differing: u64,
    /// The kept part of the first good response's content.
    pub first: Bytes,
    /// The kept part of the content that differs from it.
    pub other: Bytes,
}

/// The good responses that share a cache verdict.
#[derive(Clone, Debug)]
pub struct VerdictTimes {
    /// The verdict.
    pub verdict: CacheVerdict,
    /// Total times of these responses; the histogram's count is their number.
    pub total: Histogram,
}

/// One request that ended, with or without a complete response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// When the request started, in microseconds after [`RunOutcome::started`].
    pub start_us: u64,
    /// Start to connected, in microseconds.
    pub connect_us: u32,
    /// Start to last byte, in microseconds. For a request without a complete response, start to
    /// failure.
    pub total_us: u32,
    /// Request sent to first byte, in microseconds.
    pub waiting_us: u32,
    /// Content bytes of the response; 0 without a complete response.
    pub content_bytes: u32,
    /// Index of the URL in [`RunOutcome::urls`].
    pub url: u32,
    /// The status code; 0 without a complete response.
    pub status: u16,
    /// How the request failed; `None` for a good response.
    pub failure: Option<FailureKind>,
}

impl RunOutcome {
    /// The outcome of a plan before anything was run.
    pub fn of(plan: Plan, address: SocketAddr) -> Self {
        Self {
            plan,
            address,
            tls: None,
            dns: Duration::ZERO,
            threads: 0,
            is_real_time: false,
            started: Timestamp::default(),
            elapsed: Duration::ZERO,
            ended: Ended::Requests,
            complete: 0,
            good: 0,
            failures: Failures::default(),
            ab: None,
            length_differs: 0,
            statuses: StatusCounts::default(),
            received_bytes: 0,
            content_bytes: 0,
            sent_bytes: 0,
            document_bytes: None,
            first_head: Vec::new(),
            lengths_known: 0,
            drift: None,
            good_times: Times::default(),
            wrong_times: Times::default(),
            verdicts: Vec::new(),
            kept: 0,
            connections: 0,
            resumed: 0,
            resent: 0,
            closed_by_us: 0,
            requests_per_connection: RequestsPerConnection::default(),
            unfinished: 0,
            not_started: 0,
            late: LateResponses::default(),
            rate_asked: None,
            seconds: Vec::new(),
            stages: Vec::new(),
            urls: Vec::new(),
            cpu: Vec::new(),
            busy_wait: Duration::ZERO,
            check: SelfCheck::default(),
            samples: Vec::new(),
        }
    }

    /// Requests that have ended, successfully or not.
    pub fn requests(&self) -> u64 {
        self.good + self.failures.total()
    }

    /// Good responses per second: the rate that counts. Late responses are left out.
    pub fn good_per_second(&self) -> f64 {
        per_second(self.good - self.late.good, self.elapsed)
    }

    /// Complete responses per second, good or wrong: `ab` calls it requests per second. Late
    /// responses are left out.
    pub fn complete_per_second(&self) -> f64 {
        per_second(self.complete - self.late.complete, self.elapsed)
    }

    /// The times of all complete responses, good and wrong.
    pub fn complete_times(&self) -> Times {
        let mut times = self.good_times.clone();
        times.merge(&self.wrong_times);
        times
    }

    /// The server's name and version: the first word of the `Server` field of the first response,
    /// or an empty string.
    pub fn server_software(&self) -> String {
        let word = self
            .first_field(b"server")
            .unwrap_or_default()
            .split(|&byte| byte <= b' ')
            .next()
            .unwrap_or_default();
        word.escape_ascii().to_string()
    }

    /// The value of a field in the head of the first response.
    pub fn first_field(&self, name: &[u8]) -> Option<&[u8]> {
        self.first_head.split(|&byte| byte == b'\n').skip(1).find_map(|line| {
            let colon = line.iter().position(|&byte| byte == b':')?;
            let (own, value) = line.split_at(colon);
            own.eq_ignore_ascii_case(name).then(|| value.get(1..).unwrap_or_default().trim_ascii())
        })
    }
}

fn per_second(count: u64, elapsed: Duration) -> f64 {
    let seconds = elapsed.as_secs_f64();
    if seconds > 0.0 { count as f64 / seconds } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::{FailureKind, Failures, StatusCounts};

    #[test]
    fn each_failure_kind_has_its_own_counter() {
        let mut failures = Failures::default();
        for (index, kind) in FailureKind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, index);
            failures.add(kind);
            failures.add(kind);
        }
        assert!(FailureKind::ALL.iter().all(|&kind| failures.of(kind) == 2));
        assert_eq!(failures.total(), 2 * FailureKind::ALL.len() as u64);
    }

    #[test]
    fn status_codes_are_counted_and_summed_by_class() {
        let mut counts = StatusCounts::default();
        [200, 204, 200, 503].into_iter().for_each(|code| counts.add(code));
        assert_eq!(counts.iter().collect::<Vec<_>>(), [(200, 2), (204, 1), (503, 1)]);
        assert_eq!((counts.class(2), counts.class(5), counts.class(4)), (3, 1, 0));
    }
}
