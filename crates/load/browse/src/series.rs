//! The run second by second. Each thread hands in its part of a second; when all have, the figures
//! are computed.
//!
//! Invariant: memory does not depend on the number of pages. It grows only with the number of
//! seconds, and at most [`SECONDS_MAX`] are kept. Seconds are in order and without gaps, and belong
//! to the measured part.

use crate::ramp_up::RampUp;
use clock::Monotonic;
use record::{PageSecond, SECONDS_MAX, SecondTimes};
use stats::Histogram;
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// One second.
const SECOND: Duration = Duration::from_secs(1);

/// One thread's part of a second.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) counts: PageSecond,
    pub(crate) page_times: Histogram,
    pub(crate) request_times: Histogram,
}

/// The current second of a thread.
#[derive(Debug)]
pub(crate) struct Current {
    /// Index of the second.
    number: usize,
    begin: Monotonic,
    tally: Tally,
}

/// The seconds of a run, shared by its threads.
#[derive(Debug)]
pub(crate) struct PageSeries {
    threads: usize,
    ramp_up: RampUp,
    seconds: Mutex<Seconds>,
}

#[derive(Debug, Default)]
struct Seconds {
    /// Seconds that some thread has not handed in yet. The first one has number `done.len()`.
    open: VecDeque<Open>,
    done: Vec<PageSecond>,
}

/// A second that some thread has not handed in yet.
#[derive(Debug, Default)]
struct Open {
    /// Number of threads that have handed it in.
    parts: usize,
    /// When it ended; in the run's last second, when the last thread did.
    end: Monotonic,
    sum: Tally,
}

impl Current {
    /// The first second, which begins at `begin`.
    pub(crate) fn new(begin: Monotonic) -> Self {
        Self { number: 0, begin, tally: Tally::default() }
    }

    /// Hands in the seconds that are over at `now`.
    pub(crate) fn advance(&mut self, now: Monotonic, series: &PageSeries) {
        while now >= self.begin.plus(SECOND) {
            let end = self.begin.plus(SECOND);
            self.hand_in(end, series);
            self.begin = end;
        }
    }

    /// The tally of the second that contains `now`; `None` before the measured part.
    pub(crate) fn at(&mut self, now: Monotonic, series: &PageSeries) -> Option<&mut Tally> {
        if now < self.begin {
            return None;
        }
        self.advance(now, series);
        Some(&mut self.tally)
    }

    /// Hands in the current second, at the end of the run.
    pub(crate) fn end(&mut self, now: Monotonic, series: &PageSeries) {
        self.advance(now, series);
        if now > self.begin {
            self.hand_in(now, series);
        }
    }

    /// Hands in the tally of a second that ended at `end`.
    fn hand_in(&mut self, end: Monotonic, series: &PageSeries) {
        series.hand_in(self.number, end, &self.tally);
        self.number += 1;
        self.tally.clear();
    }
}

impl Tally {
    fn clear(&mut self) {
        self.counts = PageSecond::default();
        self.page_times.clear();
        self.request_times.clear();
    }

    fn add(&mut self, other: &Self) {
        let (to, from) = (&mut self.counts, &other.counts);
        to.started += from.started;
        to.not_started += from.not_started;
        to.good += from.good;
        to.incomplete += from.incomplete;
        to.failed += from.failed;
        to.requests += from.requests;
        to.failed_requests += from.failed_requests;
        for (count, more) in to.failures.iter_mut().zip(from.failures) {
            *count += more;
        }
        for (status, count) in &from.statuses {
            *to.statuses.entry(*status).or_default() += count;
        }
        for (verdict, count) in &from.verdicts {
            *to.verdicts.entry(*verdict).or_default() += count;
        }
        to.received_bytes += from.received_bytes;
        self.page_times.merge(&other.page_times);
        self.request_times.merge(&other.request_times);
    }

    fn figures(self, second: u32) -> PageSecond {
        let times = |of: &Histogram| {
            (!of.is_empty()).then(|| SecondTimes {
                p50_us: of.median_us(),
                p95_us: of.percentile_us(95.0),
                p99_us: of.percentile_us(99.0),
                max_us: of.max_us(),
            })
        };
        let (page_times, request_times) = (times(&self.page_times), times(&self.request_times));
        PageSecond { second, page_times, request_times, ..self.counts }
    }
}

impl PageSeries {
    /// The series of a run with this number of threads.
    pub(crate) fn new(threads: usize, ramp_up: RampUp) -> Self {
        Self { threads, ramp_up, seconds: Mutex::default() }
    }

    /// Adds one thread's part of second `number`, which ended at `end`.
    fn hand_in(&self, number: usize, end: Monotonic, tally: &Tally) {
        let mut seconds = self.lock();
        let Some(place) = number.checked_sub(seconds.done.len()).filter(|_| number < SECONDS_MAX) else {
            return;
        };
        while seconds.open.len() <= place {
            seconds.open.push_back(Open::default());
        }
        if let Some(open) = seconds.open.get_mut(place) {
            open.parts += 1;
            open.end = open.end.max(end);
            open.sum.add(tally);
        }
        while seconds.open.front().is_some_and(|open| open.parts >= self.threads) {
            seconds.conclude(&self.ramp_up);
        }
    }

    /// Ends the series when the run is over: computes the figures of incomplete seconds and returns
    /// all seconds.
    pub(crate) fn finish(&self) -> Vec<PageSecond> {
        let mut seconds = self.lock();
        while !seconds.open.is_empty() {
            seconds.conclude(&self.ramp_up);
        }
        std::mem::take(&mut seconds.done)
    }

    fn lock(&self) -> MutexGuard<'_, Seconds> {
        // The counters are still usable after a panic in another thread.
        self.seconds.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seconds {
    /// Computes the figures of the first open second. The visitors are counted here, because a
    /// thread that has run out of pages hands in no further seconds.
    fn conclude(&mut self, ramp_up: &RampUp) {
        let Some(mut open) = self.open.pop_front() else { return };
        open.sum.counts.users = ramp_up.begun(open.end);
        let second = u32::try_from(self.done.len()).unwrap_or(u32::MAX);
        self.done.push(open.sum.figures(second));
    }
}

#[cfg(test)]
mod tests {
    use super::{Current, PageSeries, RampUp};
    use clock::Monotonic;
    use record::{CacheVerdict, FetchFailure};
    use std::time::Duration;

    fn at(millis: u64) -> Monotonic {
        Monotonic::from_nanos(millis * 1_000_000)
    }

    /// The series of two threads, with six visitors who begin within two seconds.
    fn series(millis: u64) -> PageSeries {
        PageSeries::new(2, RampUp { began: at(millis), ramp: Duration::from_secs(2), users: 6 })
    }

    #[test]
    fn second_is_the_sum_over_all_threads() {
        let series = series(5_000);
        let mut threads = [Current::new(at(5_000)), Current::new(at(5_000))];
        assert!(threads[0].at(at(4_999), &series).is_none(), "the warm-up was counted");
        for (millis, thread) in [(5_100, 0), (5_200, 1), (5_300, 1), (8_500, 0), (8_600, 1)] {
            let tally = threads[thread].at(at(millis), &series).unwrap();
            tally.counts.good += 1;
            tally.counts.fail(FetchFailure::Status);
            *tally.counts.statuses.entry(200).or_default() += 1;
            *tally.counts.verdicts.entry(CacheVerdict::Hit).or_default() += 1;
            tally.counts.received_bytes += 10;
            tally.page_times.record(millis);
        }
        threads.iter_mut().for_each(|thread| thread.end(at(8_700), &series));
        let seconds = series.finish();
        let good: Vec<_> = seconds.iter().map(|second| (second.second, second.good)).collect();
        assert_eq!(good, [(0, 3), (1, 0), (2, 0), (3, 2)]);
        let users: Vec<_> = seconds.iter().map(|second| second.users).collect();
        assert_eq!(users, [4, 6, 6, 6]);
        let first = &seconds[0];
        assert_eq!(
            (first.statuses[&200], first.verdicts[&CacheVerdict::Hit], first.received_bytes),
            (3, 3, 30)
        );
        assert_eq!((first.failed_requests, first.failures.iter().sum::<u64>()), (3, 3));
        assert_eq!(seconds[0].page_times.unwrap().max_us, 5_300);
        assert_eq!((seconds[1].page_times, seconds[0].request_times), (None, None));
    }

    #[test]
    fn thread_that_ends_early_does_not_delay_the_others() {
        let series = series(0);
        let (mut one, mut other) = (Current::new(at(0)), Current::new(at(0)));
        one.at(at(10), &series).unwrap().counts.failed += 1;
        one.end(at(20), &series);
        other.end(at(3_000), &series);
        assert_eq!(series.finish().len(), 3);
    }

    #[test]
    fn visitors_of_a_thread_that_ended_early_still_count() {
        let series = series(0);
        let (mut one, mut other) = (Current::new(at(0)), Current::new(at(0)));
        one.end(at(1_200), &series);
        other.end(at(2_100), &series);
        let users: Vec<_> = series.finish().iter().map(|second| second.users).collect();
        assert_eq!(users, [4, 6, 6]);
    }
}
