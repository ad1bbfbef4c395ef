//! The counters and times of one thread. Each thread has its own recorder; they are merged when the
//! run is over.
//!
//! Invariant: recording a response does not allocate, except when a stage, a cache verdict or a
//! wrong response occurs for the first time.

use crate::account::{UserState, UserTimeLedger};
use crate::exchange::ExchangeTimes;
use crate::pauses::Pauses;
use crate::stage_record::StageRecord;
use clock::Monotonic;
use record::{
    CacheVerdict, FailureKind, Failures, LateResponses, RequestsPerConnection, Sample, Second, StatusCounts,
};
use stats::Histogram;
use std::time::Duration;

/// The judgement of a complete response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ResponseJudgement {
    /// Why it is wrong; `None` for a good response.
    pub(crate) wrong: Option<FailureKind>,
    /// Whether its length differs from the first good one's.
    pub(crate) length_differs: bool,
    /// Whether its content differs from the first good one's; `None` if it was not compared.
    pub(crate) content_differs: Option<bool>,
}

/// A complete response, as the recorder sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JudgedResponse {
    pub(crate) status: u16,
    pub(crate) verdict: Option<CacheVerdict>,
    /// Whether the connection stays open for the next request.
    pub(crate) kept: bool,
    /// Whether a `Content-Length` field announced its length.
    pub(crate) length_known: bool,
    pub(crate) judgement: ResponseJudgement,
    /// Content bytes, without transfer coding.
    pub(crate) content_bytes: u64,
    /// When this turn of the worker began. The response may have been readable since then.
    pub(crate) readable_since: Monotonic,
}

/// Counters that only grow. The difference of two copies belongs to the time between them.
#[derive(Clone, Debug, Default)]
pub(crate) struct RunCounters {
    pub(crate) started: u64,
    pub(crate) complete: u64,
    pub(crate) good: u64,
    pub(crate) failures: Failures,
    /// Failures of requests that waited too long for a connection and had not started before.
    pub(crate) never_sent: u64,
    pub(crate) not_started: u64,
    /// Complete responses by status class; index 0 counts statuses outside of 100 to 599.
    pub(crate) classes: [u64; 6],
    /// Good responses by verdict.
    pub(crate) verdicts: [u64; CacheVerdict::ALL.len()],
    pub(crate) received_bytes: u64,
}

/// The responses of one URL.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct UrlRecord {
    pub(crate) complete: u64,
    pub(crate) good: u64,
    pub(crate) failed: u64,
    pub(crate) total_us_sum: u64,
    pub(crate) total_us_max: u64,
}

/// How many measured responses each connection carried.
#[derive(Clone, Copy, Debug, Default)]
struct ConnectionUse {
    connections: u64,
    answers: u64,
    min: u64,
    max: u64,
}

/// One thread's counters and histograms.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    pub(crate) counters: RunCounters,
    pub(crate) length_differs: u64,
    pub(crate) contents_compared: u64,
    pub(crate) contents_differing: u64,
    pub(crate) statuses: StatusCounts,
    pub(crate) content_bytes: u64,
    pub(crate) sent_bytes: u64,
    pub(crate) kept: u64,
    pub(crate) lengths_known: u64,
    pub(crate) connections: u64,
    pub(crate) resumed: u64,
    pub(crate) resent: u64,
    pub(crate) closed_by_us: u64,
    pub(crate) unfinished: u64,
    pub(crate) late: LateResponses,
    /// Requests of the warm-up that ended, and how many of them failed.
    pub(crate) warmup: (u64, u64),
    pub(crate) cpu: Vec<Duration>,
    /// Processor time of busy-waits, which is not in `cpu`.
    pub(crate) busy_wait: Duration,
    /// How long the threads were ready to run but waited for a core; `None` if the system does not
    /// report it.
    pub(crate) core_wait: Option<Duration>,
    /// The users' time by state.
    pub(crate) ledger: UserTimeLedger,
    /// The sum of [`ExchangeTimes::held_back`] over all measured responses.
    pub(crate) held_back: Duration,
    /// See [`HeldBack::excess`](crate::exchange::HeldBack::excess).
    pub(crate) held_back_excess: Duration,
    /// Measured responses that ended with the close of their connection.
    pub(crate) ends_with_close: u64,
    /// How long a response may have waited unread because the thread was busy with others.
    pub(crate) lag: Histogram,
    /// How late the thread noticed that a request of an open loop was due.
    pub(crate) schedule_lag: Histogram,
    /// The time all ended requests were in flight, summed up, in nanoseconds.
    pub(crate) in_flight_ns: u128,
    /// The time users had waited for a connection before their requests began, in nanoseconds.
    pub(crate) waited_ns: u128,
    /// The pauses of users after failed connections.
    pub(crate) pauses: Pauses,
    /// The number of requests in flight, integrated over time, in nanoseconds.
    pub(crate) in_flight_area_ns: u128,
    /// The time that unfinished requests had been in flight at the end, summed up, in nanoseconds.
    pub(crate) unfinished_ns: u128,
    /// When the last request ended.
    pub(crate) last_end: Monotonic,
    pub(crate) samples: Vec<Sample>,
    pub(crate) stages: Vec<StageRecord>,
    pub(crate) urls: Vec<UrlRecord>,
    samples_max: usize,
    measuring_since: Monotonic,
    served: ConnectionUse,
    second: SecondRecord,
}

/// The current second.
#[derive(Debug, Default)]
struct SecondRecord {
    /// Number of seconds before it.
    passed: u32,
    end: Monotonic,
    latencies: Histogram,
    at_begin: RunCounters,
}

/// The parameters of a recorder.
#[derive(Clone, Debug, Default)]
pub(crate) struct RecorderSettings {
    pub(crate) measuring_since: Monotonic,
    /// When a closed loop cuts off the requests in flight.
    pub(crate) measuring_until: Option<Monotonic>,
    /// The end of each stage, if it is known.
    pub(crate) stage_ends: Vec<Option<Monotonic>>,
    pub(crate) urls: usize,
    pub(crate) samples_max: usize,
    /// Whether requests may start later than intended, so that latency and total time differ.
    pub(crate) tells_latency: bool,
    /// Whether connections use TLS, so that handshake times are recorded.
    pub(crate) has_tls: bool,
}

impl Recorder {
    /// An empty recorder.
    pub(crate) fn new(settings: &RecorderSettings) -> Self {
        let stages = settings.stage_ends.iter();
        let second = SecondRecord { end: settings.measuring_since.plus(SECOND), ..SecondRecord::default() };
        Self {
            ledger: UserTimeLedger::new(settings.measuring_since, settings.measuring_until),
            samples_max: settings.samples_max,
            measuring_since: settings.measuring_since,
            last_end: settings.measuring_since,
            stages: stages
                .map(|&end| StageRecord::new(end, settings.tells_latency, settings.has_tls))
                .collect(),
            urls: vec![UrlRecord::default(); settings.urls],
            second,
            ..Self::default()
        }
    }

    /// Records a complete response that was read by `end`.
    ///
    /// Its times end when its last bytes arrived: they are those of the server and the network. Its
    /// user, however, could not continue before `end`, so the request counts as in flight until
    /// then.
    pub(crate) fn answer(&mut self, exchange: &ExchangeTimes, end: Monotonic, received: JudgedResponse) {
        let wrong = received.judgement.wrong;
        self.account_answer(exchange, end, wrong.is_some());
        if !exchange.measured {
            self.warmup.0 += 1;
            self.warmup.1 += u64::from(wrong.is_some());
            return;
        }
        self.ended(exchange, end);
        self.lag.record(micros(received.readable_since, end));
        self.count(&received);
        let latency_us = micros(exchange.intended, exchange.last_octet);
        self.second.latencies.record(latency_us);
        if let Some(stage) = self.stages.get_mut(usize::from(exchange.stage)) {
            let is_late = stage.answer(exchange, received.verdict, wrong);
            self.late.complete += u64::from(is_late);
            self.late.good += u64::from(is_late && wrong.is_none());
        }
        let total_us = micros(exchange.started, exchange.last_octet);
        if let Some(url) = self.urls.get_mut(exchange.url as usize) {
            url.complete += 1;
            url.good += u64::from(wrong.is_none());
            url.failed += u64::from(wrong.is_some());
            url.total_us_sum += total_us;
            url.total_us_max = url.total_us_max.max(total_us);
        }
        if self.samples.len() < self.samples_max {
            self.samples.push(Sample {
                start_us: micros(self.measuring_since, exchange.started),
                connect_us: clamp(micros(exchange.started, exchange.connected)),
                total_us: clamp(total_us),
                waiting_us: clamp(micros(exchange.sent, exchange.first_octet)),
                content_bytes: clamp(received.content_bytes),
                url: exchange.url,
                status: received.status,
                failure: wrong,
            });
        }
    }

    /// Moves a request whose response was read at `end` through the ledger. Its user now processes
    /// the response.
    fn account_answer(&mut self, exchange: &ExchangeTimes, end: Monotonic, is_wrong: bool) {
        if exchange.measured {
            self.held_back += exchange.held_back.total();
            self.held_back_excess += exchange.held_back.excess();
            self.ends_with_close += u64::from(exchange.ends_with_close);
        }
        let at_server = match (exchange.measured, is_wrong) {
            (false, _) => UserState::Unfinished,
            (true, true) => UserState::Failed,
            (true, false) => UserState::Server,
        };
        let ledger = &mut self.ledger;
        ledger.pass(UserState::Connecting, at_server, exchange.connected);
        ledger.pass(at_server, UserState::Unread, exchange.last_octet.max(exchange.connected));
        if exchange.of_user {
            ledger.pass(UserState::Unread, UserState::Processing, end);
        } else {
            ledger.leave(UserState::Unread, end);
        }
    }

    /// Moves a request that failed at `end` through the ledger. Its user may send the next one at
    /// once, unless no connection could be made.
    fn account_failure(&mut self, exchange: &ExchangeTimes, end: Monotonic, kind: FailureKind) {
        let was_connecting = matches!(kind, FailureKind::Connect | FailureKind::Tls | FailureKind::Address);
        let failed = match (was_connecting, exchange.measured) {
            (true, _) => UserState::Connecting,
            (false, true) => UserState::Failed,
            (false, false) => UserState::Unfinished,
        };
        self.ledger.pass(UserState::Connecting, failed, exchange.connected);
        match (exchange.of_user, was_connecting) {
            (true, true) => {}
            (true, false) => self.ledger.pass(failed, UserState::Late, end),
            (false, _) => self.ledger.leave(failed, end),
        }
    }

    fn count(&mut self, received: &JudgedResponse) {
        let counters = &mut self.counters;
        counters.complete += 1;
        let class = usize::from(received.status / 100);
        let class = if (1..=5).contains(&class) { class } else { 0 };
        if let Some(count) = counters.classes.get_mut(class) {
            *count += 1;
        }
        match received.judgement.wrong {
            Some(kind) => counters.failures.add(kind),
            None => {
                counters.good += 1;
                let verdict =
                    received.verdict.and_then(|verdict| counters.verdicts.get_mut(verdict as usize));
                if let Some(count) = verdict {
                    *count += 1;
                }
            }
        }
        self.kept += u64::from(received.kept);
        self.lengths_known += u64::from(received.length_known);
        self.length_differs += u64::from(received.judgement.length_differs);
        self.contents_compared += u64::from(received.judgement.content_differs.is_some());
        self.contents_differing += u64::from(received.judgement.content_differs == Some(true));
        self.statuses.add(received.status);
    }

    /// Records a request without a complete response.
    pub(crate) fn failure(&mut self, exchange: &ExchangeTimes, end: Monotonic, kind: FailureKind) {
        self.account_failure(exchange, end, kind);
        if exchange.measured {
            self.ended(exchange, end);
        }
        self.count_failure(exchange, end, kind);
    }

    /// Records a request that waited for a connection until `end`, longer than the timeout. It is
    /// not in flight.
    pub(crate) fn never_sent(&mut self, exchange: &ExchangeTimes, end: Monotonic) {
        if exchange.of_user {
            self.ledger.pass(UserState::Connecting, UserState::Late, end);
        } else {
            self.ledger.leave(UserState::Connecting, end);
        }
        if exchange.measured {
            self.counters.never_sent += u64::from(!exchange.is_returned);
            if exchange.of_user {
                self.waited_ns += end.since(exchange.intended).as_nanos();
            }
            self.last_end = self.last_end.max(end);
        }
        self.count_failure(exchange, end, FailureKind::Timeout);
    }

    fn count_failure(&mut self, exchange: &ExchangeTimes, end: Monotonic, kind: FailureKind) {
        if !exchange.measured {
            self.warmup.0 += 1;
            self.warmup.1 += 1;
            return;
        }
        self.counters.failures.add(kind);
        if let Some(stage) = self.stages.get_mut(usize::from(exchange.stage)) {
            stage.failures.add(kind);
        }
        if let Some(url) = self.urls.get_mut(exchange.url as usize) {
            url.failed += 1;
        }
        if self.samples.len() < self.samples_max {
            self.samples.push(Sample {
                start_us: micros(self.measuring_since, exchange.started),
                // The moments before the failure are not known.
                connect_us: 0,
                total_us: clamp(micros(exchange.started, end)),
                waiting_us: 0,
                content_bytes: 0,
                url: exchange.url,
                status: 0,
                failure: Some(kind),
            });
        }
    }

    /// Counts a request that fell due and is not started.
    pub(crate) fn not_started(&mut self, exchange: &ExchangeTimes) {
        if exchange.measured {
            self.counters.not_started += 1;
            if let Some(stage) = self.stages.get_mut(usize::from(exchange.stage)) {
                stage.not_started += 1;
            }
        }
    }

    /// Counts a closed connection and the measured responses it carried.
    pub(crate) fn connection_over(&mut self, answers: u64) {
        let served = &mut self.served;
        if answers > 0 {
            served.min = if served.connections == 0 { answers } else { served.min.min(answers) };
            served.max = served.max.max(answers);
            served.connections += 1;
            served.answers += answers;
        }
    }

    /// How many requests each connection carried.
    pub(crate) fn requests_per_connection(&self) -> RequestsPerConnection {
        let ConnectionUse { connections, answers, min, max } = self.served;
        let mean = if connections > 0 { answers as f64 / connections as f64 } else { 0.0 };
        RequestsPerConnection { min, mean, max }
    }

    /// Requests that have ended.
    pub(crate) fn requests(&self) -> u64 {
        self.counters.good + self.counters.failures.total()
    }

    /// Whether the current second is over at `now`.
    pub(crate) fn second_is_over(&self, now: Monotonic) -> bool {
        now >= self.second.end
    }

    /// When the current second ends.
    pub(crate) fn second_end(&self) -> Monotonic {
        self.second.end
    }

    /// Ends the current second and begins the next. Passes the counts and latencies of the ended
    /// second to `take`. `users` is the number of users at its end.
    pub(crate) fn end_second(&mut self, users: u64, take: impl FnOnce(&Second, &Histogram)) {
        let (now, then) = (&self.counters, &self.second.at_begin);
        let second = Second {
            second: self.second.passed,
            started: now.started - then.started,
            good: now.good - then.good,
            failures: now.failures.since(&then.failures),
            not_started: now.not_started - then.not_started,
            statuses: differences(now.classes, then.classes),
            verdicts: differences(now.verdicts, then.verdicts),
            received_bytes: now.received_bytes - then.received_bytes,
            users,
            in_flight: now.started.saturating_sub(self.requests() - now.never_sent),
            ..Second::default()
        };
        take(&second, &self.second.latencies);
        self.second.latencies.clear();
        self.second.at_begin = self.counters.clone();
        self.second.passed += 1;
        self.second.end = self.second.end.plus(SECOND);
    }

    /// Whether nothing at all has happened in the current second.
    pub(crate) fn second_is_empty(&self) -> bool {
        let (now, then) = (&self.counters, &self.second.at_begin);
        let sum = |of: &RunCounters| {
            of.started + of.good + of.failures.total() + of.not_started + of.received_bytes
        };
        sum(now) == sum(then)
    }

    /// Adds another thread's recorder.
    pub(crate) fn merge(&mut self, other: Self) {
        self.counters.merge(&other.counters);
        self.length_differs += other.length_differs;
        self.contents_compared += other.contents_compared;
        self.contents_differing += other.contents_differing;
        self.statuses.merge(&other.statuses);
        self.content_bytes += other.content_bytes;
        self.sent_bytes += other.sent_bytes;
        self.kept += other.kept;
        self.lengths_known += other.lengths_known;
        self.connections += other.connections;
        self.resumed += other.resumed;
        self.resent += other.resent;
        self.closed_by_us += other.closed_by_us;
        self.unfinished += other.unfinished;
        self.late.good += other.late.good;
        self.late.complete += other.late.complete;
        self.cpu.extend(other.cpu);
        self.busy_wait += other.busy_wait;
        self.core_wait = self.core_wait.zip(other.core_wait).map(|(ours, theirs)| ours + theirs);
        self.ledger.merge(&other.ledger);
        self.held_back += other.held_back;
        self.held_back_excess += other.held_back_excess;
        self.ends_with_close += other.ends_with_close;
        self.lag.merge(&other.lag);
        self.schedule_lag.merge(&other.schedule_lag);
        self.in_flight_ns += other.in_flight_ns;
        self.waited_ns += other.waited_ns;
        self.pauses.merge(other.pauses);
        self.unfinished_ns += other.unfinished_ns;
        self.in_flight_area_ns += other.in_flight_area_ns;
        self.last_end = self.last_end.max(other.last_end);
        self.samples.extend(other.samples);
        self.stages.iter_mut().zip(other.stages).for_each(|(ours, theirs)| ours.merge(theirs));
        self.urls.iter_mut().zip(&other.urls).for_each(|(ours, theirs)| ours.merge(theirs));
        self.served.merge(other.served);
    }

    fn ended(&mut self, exchange: &ExchangeTimes, end: Monotonic) {
        self.in_flight_ns += end.since(exchange.started).as_nanos();
        if exchange.of_user {
            self.waited_ns += exchange.started.since(exchange.intended).as_nanos();
        }
        self.last_end = self.last_end.max(end);
    }
}

impl RunCounters {
    fn merge(&mut self, other: &Self) {
        self.started += other.started;
        self.complete += other.complete;
        self.good += other.good;
        self.failures.merge(&other.failures);
        self.never_sent += other.never_sent;
        self.not_started += other.not_started;
        self.classes.iter_mut().zip(other.classes).for_each(|(ours, theirs)| *ours += theirs);
        self.verdicts.iter_mut().zip(other.verdicts).for_each(|(ours, theirs)| *ours += theirs);
        self.received_bytes += other.received_bytes;
    }
}

impl UrlRecord {
    fn merge(&mut self, other: &Self) {
        self.complete += other.complete;
        self.good += other.good;
        self.failed += other.failed;
        self.total_us_sum += other.total_us_sum;
        self.total_us_max = self.total_us_max.max(other.total_us_max);
    }
}

impl ConnectionUse {
    fn merge(&mut self, other: Self) {
        if other.connections > 0 {
            self.min = if self.connections == 0 { other.min } else { self.min.min(other.min) };
            self.max = self.max.max(other.max);
            self.connections += other.connections;
            self.answers += other.answers;
        }
    }
}

const SECOND: Duration = Duration::from_secs(1);

fn differences<const N: usize>(now: [u64; N], then: [u64; N]) -> [u64; N] {
    let mut differences = now;
    differences.iter_mut().zip(then).for_each(|(count, then)| *count -= then);
    differences
}

/// Whole microseconds between two moments; 0 if they are in the wrong order.
pub(crate) fn micros(from: Monotonic, to: Monotonic) -> u64 {
    to.as_nanos().saturating_sub(from.as_nanos()) / 1_000
}

/// Samples keep 32 bits: 71 minutes.
fn clamp(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::{ExchangeTimes, JudgedResponse, Recorder, RecorderSettings, ResponseJudgement, UserState};
    use clock::Monotonic;
    use record::{CacheVerdict, FailureKind, LateResponses};
    use std::time::Duration;

    const GOOD: ResponseJudgement =
        ResponseJudgement { wrong: None, length_differs: false, content_differs: None };

    fn at(micros: u64) -> Monotonic {
        Monotonic::from_nanos(micros * 1_000)
    }

    fn recorder(samples_max: usize) -> Recorder {
        Recorder::new(&RecorderSettings {
            stage_ends: vec![None],
            urls: 1,
            samples_max,
            ..RecorderSettings::default()
        })
    }

    fn exchange() -> ExchangeTimes {
        ExchangeTimes {
            connected: at(130),
            sent: at(140),
            first_octet: at(190),
            last_octet: at(210),
            ..ExchangeTimes::starting(at(100), true)
        }
    }

    fn received(judgement: ResponseJudgement, verdict: Option<CacheVerdict>) -> JudgedResponse {
        JudgedResponse {
            status: 200,
            verdict,
            kept: true,
            length_known: true,
            judgement,
            content_bytes: 5,
            readable_since: at(100),
        }
    }

    #[test]
    fn phases_are_recorded_apart_and_add_up() {
        let mut recorder = recorder(1);
        recorder.answer(&exchange(), at(210), received(GOOD, None));
        let sample = recorder.samples.first().copied().unwrap();
        assert_eq!(
            (sample.start_us, sample.connect_us, sample.waiting_us, sample.total_us),
            (100, 30, 50, 110)
        );
        let (good, wrong, verdicts) = recorder.stages[0].times();
        assert_eq!((good.connect.max_us(), good.processing.max_us()), (30, 80));
        assert_eq!((good.waiting.max_us(), good.transfer.max_us(), good.total.max_us()), (50, 20, 110));
        assert!(wrong.total.is_empty() && verdicts.is_empty() && good.from_intended.is_none());
    }

    #[test]
    fn late_start_counts_in_the_latency_only() {
        let settings = RecorderSettings {
            stage_ends: vec![Some(at(250))],
            urls: 1,
            tells_latency: true,
            ..RecorderSettings::default()
        };
        let mut recorder = Recorder::new(&settings);
        let late = ExchangeTimes { of_user: false, ..exchange() }.started_at(at(150));
        let [first, second] = [at(210), at(250)].map(|last_octet| ExchangeTimes { last_octet, ..late });
        recorder.answer(&first, at(210), received(GOOD, None));
        recorder.answer(&ExchangeTimes { of_user: true, ..second }, at(250), received(GOOD, None));
        let (good, _, _) = recorder.stages[0].times();
        assert_eq!((good.total.min_us(), good.latency().min_us(), good.latency().max_us()), (60, 110, 150));
        assert_eq!(recorder.in_flight_ns, 160_000);
        assert_eq!(
            (recorder.late, recorder.stages[0].late),
            (LateResponses { good: 1, complete: 1 }, recorder.late)
        );
    }

    #[test]
    fn unread_response_keeps_its_times_but_occupies_its_user() {
        let mut recorder = recorder(1);
        recorder.answer(&exchange(), at(5_000), received(GOOD, None));
        assert_eq!(recorder.samples[0].total_us, 110);
        assert_eq!((recorder.stages[0].times().0.total.max_us(), recorder.urls[0].total_us_max), (110, 110));
        assert_eq!((recorder.in_flight_ns, recorder.last_end), (4_900_000, at(5_000)));
    }

    #[test]
    fn waits_for_a_connection_count_as_user_time() {
        let mut recorder = recorder(0);
        let exchange = ExchangeTimes::starting(at(100), true).started_at(at(150));
        recorder.failure(&exchange, at(200), FailureKind::Connect);
        assert_eq!((recorder.in_flight_ns, recorder.waited_ns), (50_000, 50_000));
        recorder.failure(&ExchangeTimes { of_user: false, ..exchange }, at(200), FailureKind::Connect);
        assert_eq!(recorder.waited_ns, 50_000, "no user waits in an open loop");
    }

    #[test]
    fn request_that_was_never_sent_is_not_in_flight() {
        let mut recorder = recorder(0);
        recorder.counters.started = 1;
        let exchange = ExchangeTimes { of_user: false, ..ExchangeTimes::starting(at(100), true) };
        recorder.ledger.enter(UserState::Connecting, at(100));
        recorder.never_sent(&exchange, at(200));
        recorder.end_second(0, |second, _| assert_eq!((second.failures.total(), second.in_flight), (1, 1)));
        // The request that had started comes back from its connection, which does not process it.
        let returned = ExchangeTimes { is_returned: true, measured: true, ..exchange };
        recorder.ledger.enter(UserState::Connecting, at(200));
        recorder.never_sent(&returned, at(200));
        recorder.end_second(0, |second, _| assert_eq!((second.started, second.in_flight), (0, 0)));
        assert_eq!((recorder.in_flight_ns, recorder.waited_ns, recorder.last_end), (0, 0, at(200)));
        recorder.ledger.enter(UserState::Connecting, at(100));
        recorder.never_sent(&ExchangeTimes { of_user: true, ..exchange }, at(200));
        assert_eq!((recorder.in_flight_ns, recorder.waited_ns), (0, 100_000));
        recorder.ledger.close(at(250));
        let account = recorder.ledger.account();
        let micros = Duration::from_micros;
        assert_eq!((account.connecting, account.late, account.failed), (micros(200), micros(50), micros(0)));
    }

    #[test]
    fn early_bytes_are_held_back_until_read() {
        let mut recorder = recorder(0);
        let mut exchange = ExchangeTimes::starting(at(100), true);
        exchange.receive(at(200), at(250));
        assert_eq!(exchange.held_back.total(), Duration::ZERO, "these bytes may be the last ones");
        // The second piece arrives after the first was read; the third arrives while the second is
        // unread.
        exchange.receive(at(300), at(500));
        exchange.receive(at(420), at(510));
        assert_eq!(
            (exchange.held_back.total(), exchange.last_octet),
            (Duration::from_micros(50 + 120), at(420))
        );
        exchange.end_with_close(at(600));
        recorder.answer(&exchange, at(600), received(GOOD, None));
        assert_eq!((recorder.held_back, recorder.ends_with_close), (Duration::from_micros(50 + 120 + 90), 1));
    }

    #[test]
    fn wrong_responses_have_separate_times() {
        let mut recorder = recorder(0);
        let [good, bad] = [at(1_100), at(200)].map(|last_octet| ExchangeTimes { last_octet, ..exchange() });
        recorder.answer(&good, at(1_100), received(GOOD, None));
        let wrong = ResponseJudgement { wrong: Some(FailureKind::Status), ..GOOD };
        recorder.answer(&bad, at(200), received(wrong, None));
        assert_eq!((recorder.counters.complete, recorder.counters.good, recorder.requests()), (2, 1, 2));
        assert_eq!(recorder.counters.failures.of(FailureKind::Status), 1);
        let (good, wrong, _) = recorder.stages[0].times();
        assert_eq!((good.total.count(), good.total.max_us()), (1, 1_000));
        assert_eq!((wrong.total.count(), wrong.total.max_us()), (1, 100));
        let url = recorder.urls[0];
        assert_eq!((url.complete, url.good, url.failed, url.total_us_max), (2, 1, 1, 1_000));
    }

    #[test]
    fn verdicts_split_the_total() {
        let mut recorder = recorder(0);
        for verdict in [Some(CacheVerdict::Hit), Some(CacheVerdict::Other), None, Some(CacheVerdict::Hit)] {
            recorder.answer(&exchange(), at(210), received(GOOD, verdict));
        }
        let (good, _, verdicts) = recorder.stages[0].times();
        assert_eq!(good.total.count(), 4);
        let counts: Vec<_> = verdicts.iter().map(|times| (times.verdict, times.total.count())).collect();
        assert_eq!(counts, [(CacheVerdict::Hit, 2), (CacheVerdict::Other, 1)]);
    }

    #[test]
    fn warm_up_requests_are_only_counted() {
        let mut recorder = recorder(9);
        let exchange = ExchangeTimes { measured: false, ..exchange() };
        recorder.answer(&exchange, at(210), received(GOOD, None));
        recorder.failure(&exchange, at(210), FailureKind::Timeout);
        assert_eq!((recorder.requests(), recorder.counters.complete, recorder.samples.len()), (0, 0, 0));
        assert_eq!((recorder.in_flight_ns, recorder.warmup), (0, (2, 1)));
    }

    #[test]
    fn each_second_has_its_own_counts() {
        let mut recorder = recorder(0);
        let mut seconds = Vec::new();
        for answers in [2, 0, 1] {
            for _ in 0..answers {
                recorder.counters.started += 1;
                recorder.answer(&exchange(), at(210), received(GOOD, Some(CacheVerdict::Hit)));
            }
            recorder.end_second(7, |second, latencies| seconds.push((second.clone(), latencies.count())));
        }
        let counts: Vec<_> =
            seconds.iter().map(|(second, count)| (second.second, second.good, *count)).collect();
        assert_eq!(counts, [(0, 2, 2), (1, 0, 0), (2, 1, 1)]);
        let (third, _) = &seconds[2];
        assert_eq!((third.started, third.statuses[2], third.verdicts[0], third.users), (1, 1, 1, 7));
        assert!(recorder.second_is_empty() && !recorder.second_is_over(at(3_999_999)));
        assert!(recorder.second_is_over(at(4_000_000)));
    }

    #[test]
    fn requests_per_connection_have_min_mean_and_max() {
        let (mut left, mut right) = (recorder(0), recorder(0));
        [3, 0, 5].into_iter().for_each(|answers| left.connection_over(answers));
        right.connection_over(1);
        left.merge(right);
        let spread = left.requests_per_connection();
        assert_eq!((spread.min, spread.max), (1, 5));
        assert!((spread.mean - 3.0).abs() < 1e-9);
    }

    #[test]
    fn merging_adds_everything_up() {
        let (mut left, mut right) = (recorder(9), recorder(9));
        left.answer(&exchange(), at(210), received(GOOD, Some(CacheVerdict::Miss)));
        right.answer(&exchange(), at(310), received(GOOD, Some(CacheVerdict::Miss)));
        right.failure(&exchange(), at(400), FailureKind::Timeout);
        left.merge(right);
        assert_eq!((left.counters.complete, left.requests(), left.samples.len()), (2, 3, 3));
        let lost = left.samples.iter().find(|sample| sample.status == 0).unwrap();
        assert_eq!((lost.failure, lost.total_us), (Some(FailureKind::Timeout), 300));
        assert_eq!((left.in_flight_ns, left.last_end), ((110 + 210 + 300) * 1_000, at(400)));
        let (good, _, verdicts) = left.stages[0].times();
        assert_eq!((good.total.count(), verdicts.first().unwrap().total.count()), (2, 2));
    }
}
