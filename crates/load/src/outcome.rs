//! What a run measured.
//!
//! The words, which reports and JSON share:
//!
//! - A *request* is counted when it has ended; each ends in exactly one way: *good*, or failed of one
//!   [`FailureKind`]. Nothing is counted twice.
//! - An answer is *complete* when it was received in full: good ones, and those that failed for their status,
//!   length or content. Their times are kept in two sets, so that error pages cannot make good pages look fast.
//! - *Unfinished* requests were in flight when the run stopped. They are in no other figure, except that the
//!   octets they brought are in the totals.
//!
//! The times of an answer, all in microseconds:
//!
//! - *connect*: from the start of the request until the connection stood; 0 on a kept connection.
//! - *processing*: from then until the last octet of the answer.
//! - *waiting*: from the last octet of the request until the first octet of the answer; part of processing.
//! - *transfer*: from the first octet of the answer until the last; part of processing.
//! - *tls*: from the moment TCP stood until TLS was agreed on; part of connect.
//! - *total*: from the start until the last octet: connect + processing.
//! - *latency*: from the moment the request was meant to start until the last octet. In a closed loop a
//!   request is meant to start when the one before has ended, so this equals total.
//!
//! Invariant: `requests() == good + failures.total()` and `complete == good + status + length + body failures`.

use crate::ab_account::AbAccount;
use crate::check::SelfCheck;
use crate::plan::{Plan, WeightedTarget};
use crate::traffic::Stage;
use crate::verdict::CacheVerdict;
use bytes::Bytes;
use net::TlsAgreement;
use platform::Timestamp;
use stats::Histogram;
use std::net::SocketAddr;
use std::time::Duration;

/// Everything one run has measured.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What was asked for.
    pub plan: Plan,
    /// The address the load went to; of several hosts, that of the first.
    pub address: SocketAddr,
    /// What the first connection with TLS has agreed on.
    pub tls: Option<TlsAgreement>,
    /// How long it took to find the addresses. That happens once, before the run.
    pub dns: Duration,
    /// How many threads made the load.
    pub threads: usize,
    /// Whether these threads ran before all ordinary programs of the machine.
    pub is_real_time: bool,
    /// When the measured part began.
    pub started: Timestamp,
    /// How long the measured part took: until the last request ended, or until the time was up.
    pub elapsed: Duration,
    /// Why the run ended.
    pub ended: Ended,
    /// Answers received in full, whatever their status and length.
    pub complete: u64,
    /// Answers received in full that were as expected.
    pub good: u64,
    /// Requests that failed, by kind.
    pub failures: Failures,
    /// What ApacheBench would have counted, if the plan asked for that.
    pub ab: Option<AbAccount>,
    /// Complete answers with a good status whose length differs from [`Outcome::document_bytes`], also where
    /// that is not a failure.
    pub length_differs: u64,
    /// Complete answers by status code.
    pub statuses: StatusCounts,
    /// Octets received, heads and framing included.
    pub received_bytes: u64,
    /// Content octets received, transfer coding removed.
    pub content_bytes: u64,
    /// Octets sent.
    pub sent_bytes: u64,
    /// Content octets of the first answer with a good status.
    pub document_bytes: Option<u64>,
    /// The head of the first answer, as received.
    pub first_head: Vec<u8>,
    /// Complete answers with a `Content-Length` field: their length was known before their end.
    pub lengths_known: u64,
    /// How answers to one URL differed from each other, where that was looked at.
    pub drift: Option<Drift>,
    /// Times of good answers.
    pub good_times: Times,
    /// Times of complete answers that failed for status, length or content.
    pub wrong_times: Times,
    /// Good answers by what the cache nearest to us said, with their total times; empty if none said anything.
    pub verdicts: Vec<VerdictTimes>,
    /// Complete answers whose connection stayed open for the next request.
    pub kept: u64,
    /// Connections opened in the measured part.
    pub connections: u64,
    /// Connections of these whose TLS resumed an earlier session instead of beginning anew.
    pub resumed: u64,
    /// Requests sent again on a fresh connection because the server had closed the kept one unused.
    pub resent: u64,
    /// Connections we had to close because the server did not, although it had said so or been told to.
    pub closed_by_us: u64,
    /// How many requests connections carried.
    pub requests_per_connection: RequestsPerConnection,
    /// Requests in flight when the run stopped.
    pub unfinished: u64,
    /// Requests of an open loop that fell due while too many were in flight, and were not started. They are in no
    /// other figure.
    pub not_started: u64,
    /// Answers of an open loop that came after [`Outcome::elapsed`] was over. They are in all figures but rates.
    pub late: Late,
    /// Requests per second that an open loop was asked for, as a mean over the run.
    pub rate_asked: Option<f64>,
    /// What happened in each second of the measured part; at most [`SECONDS_MAX`].
    pub seconds: Vec<Second>,
    /// The stages, in the order of the plan; empty if it has none. What is outside of this list is their sum.
    pub stages: Vec<StageOutcome>,
    /// The URLs, in the order of the plan.
    pub urls: Vec<UrlOutcome>,
    /// CPU time of each generator thread over the measured part.
    pub cpu: Vec<Duration>,
    /// How far the figures can be trusted.
    pub check: SelfCheck,
    /// Single requests, if the plan asked for them, in the order in which their requests started.
    pub samples: Vec<Sample>,
}

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// All requests asked for have ended.
    Requests,
    /// The time was up.
    Time,
    /// It was stopped from outside.
    Stopped,
    /// For [`crate::GONE_AFTER`] no connection could be made any more.
    TargetGone,
    /// An answer broke off and the plan said to stop then.
    ReceiveError,
    /// Most requests of the last seconds failed and the plan said to stop then.
    Failing,
}

impl Ended {
    /// The word used in reports.
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
    /// TLS could not be agreed on: no valid certificate, no common version.
    Tls,
    /// There was no free local port for the connection: a limit of this machine, not of the target.
    Address,
    /// The request could not be written.
    Send,
    /// The connection broke, or ended before the answer did.
    Receive,
    /// The answer did not come in time.
    Timeout,
    /// The answer's status is not among the expected ones.
    Status,
    /// The answer's length is not that of the first good one.
    Length,
    /// The answer's content is not what was expected.
    Body,
    /// The answer is not HTTP/1, or octets follow its end.
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

    /// The word used in reports.
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

    /// What an operator can do about it, where that is not obvious.
    pub const fn advice(self) -> Option<&'static str> {
        match self {
            Self::Address => Some(
                "all local ports toward this address are in use, most of them by closed connections in \
                 TIME_WAIT: keep connections alive, or widen net.ipv4.ip_local_port_range",
            ),
            _ => None,
        }
    }
}

/// Failed requests by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Failures([u64; FailureKind::ALL.len()]);

impl Failures {
    /// So many of each of these kinds.
    pub fn of_kinds(counts: &[(FailureKind, u64)]) -> Self {
        let mut failures = Self::default();
        for &(kind, count) in counts {
            if let Some(place) = failures.0.get_mut(kind as usize) {
                *place += count;
            }
        }
        failures
    }

    /// How many requests failed this way.
    pub fn of(&self, kind: FailureKind) -> u64 {
        self.0.get(kind as usize).copied().unwrap_or(0)
    }

    /// How many requests failed.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    pub(crate) fn add(&mut self, kind: FailureKind) {
        if let Some(count) = self.0.get_mut(kind as usize) {
            *count += 1;
        }
    }

    /// Adds others.
    pub fn merge(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0).for_each(|(count, more)| *count += more);
    }

    /// What has been added since `before`, an earlier reading.
    pub(crate) fn since(&self, before: &Self) -> Self {
        let mut since = *self;
        since.0.iter_mut().zip(before.0).for_each(|(count, then)| *count -= then);
        since
    }
}

/// Complete answers by status code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusCounts(Vec<u64>);

impl StatusCounts {
    /// So many of each of these codes; codes of four digits and more are left out.
    pub fn of(counts: &[(u16, u64)]) -> Self {
        let mut statuses = Self::default();
        for &(code, count) in counts {
            if let Some(place) = statuses.0.get_mut(usize::from(code)) {
                *place += count;
            }
        }
        statuses
    }

    /// How many answers had a code of this class; 2 means 200 to 299.
    pub fn class(&self, class: u16) -> u64 {
        self.iter().filter(|(code, _)| code / 100 == class).map(|(_, count)| count).sum()
    }

    /// Codes that occurred, ascending, with how often they did.
    pub fn iter(&self) -> impl Iterator<Item = (u16, u64)> + use<'_> {
        (0..).zip(&self.0).filter(|&(_, &count)| count > 0).map(|(code, &count)| (code, count))
    }

    pub(crate) fn add(&mut self, code: u16) {
        if let Some(count) = self.0.get_mut(usize::from(code)) {
            *count += 1;
        }
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(count, more)| *count += more);
    }
}

impl Default for StatusCounts {
    fn default() -> Self {
        Self(vec![0; 1000])
    }
}

/// The times of a set of answers. The module's text defines each.
#[derive(Clone, Debug, Default)]
pub struct Times {
    /// Start to connected.
    pub connect: Histogram,
    /// Connected to last octet.
    pub processing: Histogram,
    /// Request sent to first octet.
    pub waiting: Histogram,
    /// Start to last octet.
    pub total: Histogram,
    /// TCP connected to TLS agreed on; part of connect. Without TLS there is none.
    pub tls: Histogram,
    /// First octet to last octet.
    pub transfer: Histogram,
    /// Intended start to last octet, where that is not the same as total: in an open loop.
    pub from_intended: Option<Box<Histogram>>,
}

impl Times {
    /// From the intended start to the last octet. The closed loop means to start a request when the one
    /// before has ended and does so at once; there these are the total times.
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

/// Answers that came after the time of a run or of a stage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Late {
    /// Good ones.
    pub good: u64,
    /// All complete ones.
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

/// One second of a run. An answer belongs to the second in which it ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Second {
    /// Which second: 0 is the first of the measured part.
    pub second: u32,
    /// Requests started.
    pub started: u64,
    /// Good answers.
    pub good: u64,
    /// Failed requests.
    pub failures: Failures,
    /// Requests that fell due and were not started.
    pub not_started: u64,
    /// Complete answers by class of their status: place 2 is 200 to 299; place 0 has those outside of 100 to 599.
    pub statuses: [u64; 6],
    /// Good answers by cache verdict, in the order of [`CacheVerdict::ALL`].
    pub verdicts: [u64; CacheVerdict::ALL.len()],
    /// Octets received.
    pub received_bytes: u64,
    /// Median of the latencies of complete answers, in microseconds; 0 without any, here and below.
    pub p50_us: u64,
    /// Their 95th percentile.
    pub p95_us: u64,
    /// Their 99th percentile.
    pub p99_us: u64,
    /// The longest.
    pub max_us: u64,
    /// Users at the end of the second; 0 in an open loop.
    pub users: u64,
    /// Requests in flight at the end of the second.
    pub in_flight: u64,
}

/// The most seconds that are kept: a day. A longer run goes on being measured without them.
pub const SECONDS_MAX: usize = 86_400;

/// One stage. A request belongs to the stage in which it was meant to start.
#[derive(Clone, Debug)]
pub struct StageOutcome {
    /// What was asked for.
    pub stage: Stage,
    /// How long it was measured.
    pub elapsed: Duration,
    /// Complete answers.
    pub complete: u64,
    /// Good answers.
    pub good: u64,
    /// Failed requests.
    pub failures: Failures,
    /// Requests that fell due and were not started.
    pub not_started: u64,
    /// Answers that came after its time.
    pub late: Late,
    /// Times of good answers.
    pub good_times: Times,
    /// Times of complete answers that failed.
    pub wrong_times: Times,
}

impl StageOutcome {
    /// Good answers per second.
    pub fn good_per_second(&self) -> f64 {
        per_second(self.good - self.late.good, self.elapsed)
    }
}

/// One of the URLs.
#[derive(Clone, Debug)]
pub struct UrlOutcome {
    /// The URL and its weight.
    pub target: WeightedTarget,
    /// Complete answers.
    pub complete: u64,
    /// Good answers.
    pub good: u64,
    /// Failed requests.
    pub failed: u64,
    /// Content octets of its first answer with a good status.
    pub document_bytes: Option<u64>,
    /// The sum of the total times of its complete answers, in microseconds.
    pub total_us_sum: u64,
    /// The longest of them.
    pub total_us_max: u64,
}

/// How answers to one URL differed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drift {
    /// The URL's place in [`Outcome::urls`].
    pub url: usize,
    /// Good answers that were compared with the first one octet by octet.
    pub compared: u64,
    /// How many of them differ from it, in length or content.
    pub differing: u64,
    /// The first good answer's content, as far as it was kept.
    pub first: Bytes,
    /// The content of the first answer that differs, as far as it was kept.
    pub other: Bytes,
}

/// The good answers that share a cache verdict.
#[derive(Clone, Debug)]
pub struct VerdictTimes {
    /// The verdict.
    pub verdict: CacheVerdict,
    /// Total times of these answers; its count is how many there were.
    pub total: Histogram,
}

/// One request that ended: a complete answer, or a failure without one, whose status is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// When the request started, in microseconds after [`Outcome::started`].
    pub start_us: u64,
    /// Start to connected.
    pub connect_us: u32,
    /// Start to last octet.
    pub total_us: u32,
    /// Request sent to first octet.
    pub waiting_us: u32,
    /// Content octets of the answer; 0 without one.
    pub content_bytes: u32,
    /// The URL's place in [`Outcome::urls`].
    pub url: u32,
    /// The status code; 0 if no complete answer came.
    pub status: u16,
    /// How it failed; `None` for a good answer.
    pub failure: Option<FailureKind>,
}

impl Outcome {
    /// The outcome of a plan of which nothing has been run.
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
            late: Late::default(),
            rate_asked: None,
            seconds: Vec::new(),
            stages: Vec::new(),
            urls: Vec::new(),
            cpu: Vec::new(),
            check: SelfCheck::default(),
            samples: Vec::new(),
        }
    }

    /// Requests that have ended, well or badly.
    pub fn requests(&self) -> u64 {
        self.good + self.failures.total()
    }

    /// Good answers per second: the rate that counts.
    pub fn good_per_second(&self) -> f64 {
        per_second(self.good - self.late.good, self.elapsed)
    }

    /// Complete answers per second, good or wrong: what `ab` calls requests per second.
    pub fn complete_per_second(&self) -> f64 {
        per_second(self.complete - self.late.complete, self.elapsed)
    }

    /// The times of all complete answers, good and wrong.
    pub fn complete_times(&self) -> Times {
        let mut times = self.good_times.clone();
        times.merge(&self.wrong_times);
        times
    }

    /// The server's name and version: the first word of the `Server` field of the first answer, or nothing.
    pub fn server_software(&self) -> String {
        let word = self
            .first_field(b"server")
            .unwrap_or_default()
            .split(|&byte| byte <= b' ')
            .next()
            .unwrap_or_default();
        word.escape_ascii().to_string()
    }

    /// The value of a field in the head of the first answer.
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
    fn every_kind_has_its_own_place() {
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
    fn codes_are_counted_and_summed_by_class() {
        let mut counts = StatusCounts::default();
        [200, 204, 200, 503].into_iter().for_each(|code| counts.add(code));
        assert_eq!(counts.iter().collect::<Vec<_>>(), [(200, 2), (204, 1), (503, 1)]);
        assert_eq!((counts.class(2), counts.class(5), counts.class(4)), (3, 1, 0));
    }
}
