//! What one thread has counted and timed. Each thread has a recorder of its own; they are merged when the run
//! is over.
//!
//! Invariant: recording an answer allocates nothing, except when a cache verdict or a wrong answer is seen for
//! the first time.

use crate::outcome::{FailureKind, Failures, Sample, StatusCounts, Times, VerdictTimes};
use crate::verdict::CacheVerdict;
use platform::Monotonic;
use stats::Histogram;
use std::time::Duration;

/// The moments of one request, as far as it has come. Moments that have not come yet are stale.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Exchange {
    /// Whether it belongs to the measured part.
    pub(crate) measured: bool,
    pub(crate) started: Monotonic,
    pub(crate) connected: Monotonic,
    pub(crate) sent: Monotonic,
    pub(crate) first_octet: Monotonic,
}

impl Exchange {
    pub(crate) fn starting(started: Monotonic, measured: bool) -> Self {
        Self { measured, started, connected: started, sent: started, first_octet: started }
    }
}

/// How a complete answer was judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Judgement {
    /// Why it is wrong; `None` for a good answer.
    pub(crate) wrong: Option<FailureKind>,
    /// Whether its length differs from the first good one's.
    pub(crate) length_differs: bool,
}

/// A complete answer, as the recorder sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Received {
    pub(crate) status: u16,
    pub(crate) verdict: Option<CacheVerdict>,
    /// Whether the connection stays open for the next request.
    pub(crate) kept: bool,
    pub(crate) judgement: Judgement,
    /// The earliest moment at which it can have been there to be read.
    pub(crate) readable_since: Monotonic,
}

/// One thread's counters and histograms.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    pub(crate) complete: u64,
    pub(crate) good: u64,
    pub(crate) failures: Failures,
    pub(crate) length_differs: u64,
    pub(crate) statuses: StatusCounts,
    pub(crate) received_bytes: u64,
    pub(crate) content_bytes: u64,
    pub(crate) sent_bytes: u64,
    pub(crate) kept: u64,
    pub(crate) connections: u64,
    pub(crate) resent: u64,
    pub(crate) closed_by_us: u64,
    pub(crate) unfinished: u64,
    pub(crate) cpu: Vec<Duration>,
    /// How long an answer may have lain unread because the thread was busy with others.
    pub(crate) lag: Histogram,
    /// The time all requests were in flight, in nanoseconds.
    pub(crate) in_flight_ns: u128,
    /// When the last request ended.
    pub(crate) last_end: Monotonic,
    pub(crate) samples: Vec<Sample>,
    samples_max: usize,
    measuring_since: Monotonic,
    /// Total times of good answers are in `totals` only, by verdict; here this histogram stays empty.
    good_phases: Times,
    wrong: Option<Box<Times>>,
    totals: [Option<Box<Histogram>>; VERDICTS],
}

/// The verdicts and the absence of one.
const VERDICTS: usize = CacheVerdict::ALL.len() + 1;

impl Recorder {
    /// An empty recorder for requests from `measuring_since` on that keeps at most `samples_max` samples.
    pub(crate) fn new(measuring_since: Monotonic, samples_max: usize) -> Self {
        Self { samples_max, measuring_since, last_end: measuring_since, ..Self::default() }
    }

    /// Takes note of a complete answer.
    pub(crate) fn answer(&mut self, exchange: &Exchange, end: Monotonic, received: Received) {
        if !exchange.measured {
            return;
        }
        self.ended(exchange, end);
        self.lag.record(micros(received.readable_since, end));
        self.complete += 1;
        self.kept += u64::from(received.kept);
        self.length_differs += u64::from(received.judgement.length_differs);
        self.statuses.add(received.status);
        let connect_us = micros(exchange.started, exchange.connected);
        let waiting_us = micros(exchange.sent, exchange.first_octet);
        let total_us = micros(exchange.started, end);
        // Both parts are cut to whole microseconds, so they add up to the total only this way.
        let processing_us = total_us.saturating_sub(connect_us);
        let phases = match received.judgement.wrong {
            None => {
                self.good += 1;
                self.total(received.verdict).record(total_us);
                &mut self.good_phases
            }
            Some(kind) => {
                self.failures.add(kind);
                let wrong = self.wrong.get_or_insert_default();
                wrong.total.record(total_us);
                wrong
            }
        };
        phases.connect.record(connect_us);
        phases.processing.record(processing_us);
        phases.waiting.record(waiting_us);
        if self.samples.len() < self.samples_max {
            self.samples.push(Sample {
                start_us: micros(self.measuring_since, exchange.started),
                connect_us: clamp(connect_us),
                total_us: clamp(total_us),
                waiting_us: clamp(waiting_us),
                status: received.status,
                good: received.judgement.wrong.is_none(),
            });
        }
    }

    /// Takes note of a request that brought no complete answer.
    pub(crate) fn failure(&mut self, exchange: &Exchange, end: Monotonic, kind: FailureKind) {
        if exchange.measured {
            self.ended(exchange, end);
            self.failures.add(kind);
        }
    }

    /// Requests that have ended.
    pub(crate) fn requests(&self) -> u64 {
        self.good + self.failures.total()
    }

    /// Adds what another thread has recorded.
    pub(crate) fn merge(&mut self, other: Self) {
        self.complete += other.complete;
        self.good += other.good;
        self.failures.merge(&other.failures);
        self.length_differs += other.length_differs;
        self.statuses.merge(&other.statuses);
        self.received_bytes += other.received_bytes;
        self.content_bytes += other.content_bytes;
        self.sent_bytes += other.sent_bytes;
        self.kept += other.kept;
        self.connections += other.connections;
        self.resent += other.resent;
        self.closed_by_us += other.closed_by_us;
        self.unfinished += other.unfinished;
        self.cpu.extend(other.cpu);
        self.lag.merge(&other.lag);
        self.in_flight_ns += other.in_flight_ns;
        self.last_end = self.last_end.max(other.last_end);
        self.samples.extend(other.samples);
        self.good_phases.merge(&other.good_phases);
        if let Some(theirs) = other.wrong {
            self.wrong.get_or_insert_default().merge(&theirs);
        }
        for (ours, theirs) in self.totals.iter_mut().zip(other.totals) {
            if let Some(theirs) = theirs {
                ours.get_or_insert_default().merge(&theirs);
            }
        }
    }

    /// The times of good answers, of wrong answers, and of good answers by verdict.
    pub(crate) fn into_times(self) -> (Times, Times, Vec<VerdictTimes>) {
        let mut good = self.good_phases;
        let mut verdicts = Vec::new();
        let names = std::iter::once(None).chain(CacheVerdict::ALL.into_iter().map(Some));
        for (verdict, total) in names.zip(self.totals) {
            let Some(total) = total else { continue };
            good.total.merge(&total);
            if let Some(verdict) = verdict {
                verdicts.push(VerdictTimes { verdict, total: *total });
            }
        }
        (good, self.wrong.map(|times| *times).unwrap_or_default(), verdicts)
    }

    fn ended(&mut self, exchange: &Exchange, end: Monotonic) {
        self.in_flight_ns += end.since(exchange.started).as_nanos();
        self.last_end = self.last_end.max(end);
    }

    fn total(&mut self, verdict: Option<CacheVerdict>) -> &mut Histogram {
        let place = verdict.map_or(0, |verdict| verdict as usize + 1);
        #[expect(
            clippy::indexing_slicing,
            reason = "VERDICTS is one more than the greatest verdict plus one"
        )]
        self.totals[place].get_or_insert_default()
    }
}

/// Whole microseconds between two moments.
fn micros(from: Monotonic, to: Monotonic) -> u64 {
    to.as_nanos().saturating_sub(from.as_nanos()) / 1_000
}

/// Samples keep 32 bits: 71 minutes.
fn clamp(value_us: u64) -> u32 {
    u32::try_from(value_us).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::{Exchange, Judgement, Received, Recorder};
    use crate::outcome::FailureKind;
    use crate::verdict::CacheVerdict;
    use platform::Monotonic;

    const GOOD: Judgement = Judgement { wrong: None, length_differs: false };

    fn at(micros: u64) -> Monotonic {
        Monotonic::from_nanos(micros * 1_000)
    }

    fn exchange() -> Exchange {
        Exchange { measured: true, started: at(100), connected: at(130), sent: at(140), first_octet: at(190) }
    }

    fn received(judgement: Judgement, verdict: Option<CacheVerdict>) -> Received {
        Received { status: 200, verdict, kept: true, judgement, readable_since: at(100) }
    }

    #[test]
    fn phases_are_told_apart_and_add_up() {
        let mut recorder = Recorder::new(at(0), 1);
        recorder.answer(&exchange(), at(210), received(GOOD, None));
        let sample = recorder.samples.first().copied().unwrap();
        assert_eq!(
            (sample.start_us, sample.connect_us, sample.waiting_us, sample.total_us),
            (100, 30, 50, 110)
        );
        let (good, wrong, verdicts) = recorder.into_times();
        assert_eq!((good.connect.max_us(), good.processing.max_us()), (30, 80));
        assert_eq!((good.waiting.max_us(), good.total.max_us()), (50, 110));
        assert!(wrong.total.is_empty() && verdicts.is_empty());
    }

    #[test]
    fn wrong_answers_have_times_of_their_own() {
        let mut recorder = Recorder::new(at(0), 0);
        recorder.answer(&exchange(), at(1_100), received(GOOD, None));
        let wrong = Judgement { wrong: Some(FailureKind::Status), length_differs: false };
        recorder.answer(&exchange(), at(200), received(wrong, None));
        assert_eq!((recorder.complete, recorder.good, recorder.requests()), (2, 1, 2));
        assert_eq!(recorder.failures.of(FailureKind::Status), 1);
        let (good, wrong, _) = recorder.into_times();
        assert_eq!((good.total.count(), good.total.max_us()), (1, 1_000));
        assert_eq!((wrong.total.count(), wrong.total.max_us()), (1, 100));
    }

    #[test]
    fn verdicts_split_the_total() {
        let mut recorder = Recorder::new(at(0), 0);
        for verdict in [Some(CacheVerdict::Hit), Some(CacheVerdict::Other), None, Some(CacheVerdict::Hit)] {
            recorder.answer(&exchange(), at(210), received(GOOD, verdict));
        }
        let (good, _, verdicts) = recorder.into_times();
        assert_eq!(good.total.count(), 4);
        let counts: Vec<_> = verdicts.iter().map(|times| (times.verdict, times.total.count())).collect();
        assert_eq!(counts, [(CacheVerdict::Hit, 2), (CacheVerdict::Other, 1)]);
    }

    #[test]
    fn warm_up_leaves_no_trace() {
        let mut recorder = Recorder::new(at(0), 9);
        let exchange = Exchange { measured: false, ..exchange() };
        recorder.answer(&exchange, at(210), received(GOOD, None));
        recorder.failure(&exchange, at(210), FailureKind::Timeout);
        assert_eq!((recorder.requests(), recorder.complete, recorder.samples.len()), (0, 0, 0));
        assert_eq!(recorder.in_flight_ns, 0);
    }

    #[test]
    fn merging_adds_everything_up() {
        let (mut left, mut right) = (Recorder::new(at(0), 9), Recorder::new(at(0), 9));
        left.answer(&exchange(), at(210), received(GOOD, Some(CacheVerdict::Miss)));
        right.answer(&exchange(), at(310), received(GOOD, Some(CacheVerdict::Miss)));
        right.failure(&exchange(), at(400), FailureKind::Timeout);
        left.merge(right);
        assert_eq!((left.complete, left.requests(), left.samples.len()), (2, 3, 2));
        assert_eq!((left.in_flight_ns, left.last_end), ((110 + 210 + 300) * 1_000, at(400)));
        let (good, _, verdicts) = left.into_times();
        assert_eq!((good.total.count(), verdicts.first().unwrap().total.count()), (2, 2));
    }
}
