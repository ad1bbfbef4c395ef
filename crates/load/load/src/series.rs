//! The run second by second. Each thread hands in its part of a second; when all have, the figures
//! are computed.
//!
//! Invariant: memory does not depend on the number of responses. It grows only with the number of
//! seconds, and at most [`SECONDS_MAX`] are kept. Seconds are in order and without gaps.

use record::{SECONDS_MAX, Second};
use stats::Histogram;
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The seconds of a run, shared by its threads.
#[derive(Debug, Default)]
pub(crate) struct LoadSeries(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    /// How many seconds each thread has handed in.
    handed_in: Vec<u32>,
    /// Seconds that some thread has not handed in yet. The first one has number `done.len()`.
    open: VecDeque<(Second, Histogram)>,
    done: Vec<Second>,
}

impl LoadSeries {
    /// Prepares for this number of threads.
    pub(crate) fn begin(&self, threads: usize) {
        self.lock().handed_in = vec![0; threads];
    }

    /// Adds the next second of `thread`, with the latencies of its complete responses.
    pub(crate) fn hand_in(&self, thread: usize, second: &Second, latencies: &Histogram) {
        let mut inner = self.lock();
        let inner = &mut *inner;
        let Some(handed_in) = inner.handed_in.get_mut(thread) else { return };
        let place = (*handed_in as usize).saturating_sub(inner.done.len());
        *handed_in += 1;
        if inner.done.len() + place >= SECONDS_MAX {
            return;
        }
        while inner.open.len() <= place {
            let second = (inner.done.len() + inner.open.len()) as u32;
            inner.open.push_back((Second { second, ..Second::default() }, Histogram::new()));
        }
        if let Some((sum, all)) = inner.open.get_mut(place) {
            sum.add(second);
            all.merge(latencies);
        }
        let common = inner.handed_in.iter().min().map_or(0, |&count| count as usize);
        inner.conclude(common);
    }

    /// Ends the series when the run is over: computes the figures of incomplete seconds and returns
    /// all seconds.
    pub(crate) fn finish(&self) -> Vec<Second> {
        let mut inner = self.lock();
        inner.conclude(usize::MAX);
        std::mem::take(&mut inner.done)
    }

    /// The complete seconds from number `from` on.
    pub(crate) fn since(&self, from: usize) -> Vec<Second> {
        self.lock().done.get(from..).unwrap_or_default().to_vec()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // The counters are still usable after a panic in another thread.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// Computes the figures of the seconds below number `common`.
    fn conclude(&mut self, common: usize) {
        while self.done.len() < common {
            let Some((mut second, latencies)) = self.open.pop_front() else { return };
            second.p50_us = latencies.median_us();
            second.p95_us = latencies.percentile_us(95.0);
            second.p99_us = latencies.percentile_us(99.0);
            second.max_us = latencies.max_us();
            self.done.push(second);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::LoadSeries;
    use record::Second;
    use stats::Histogram;

    fn latencies(values: &[u64]) -> Histogram {
        let mut histogram = Histogram::new();
        values.iter().for_each(|&value| histogram.record(value));
        histogram
    }

    #[test]
    fn second_is_complete_once_all_threads_have_handed_it_in() {
        let series = LoadSeries::default();
        series.begin(2);
        let good = |good| Second { good, ..Second::default() };
        series.hand_in(0, &good(3), &latencies(&[100, 200, 300]));
        series.hand_in(0, &good(1), &latencies(&[50]));
        assert_eq!(series.since(0), []);
        series.hand_in(1, &good(1), &latencies(&[900]));
        let [first] = &series.since(0)[..] else { panic!("one second is complete") };
        assert_eq!((first.second, first.good, first.p50_us, first.max_us), (0, 4, 200, 900));
        assert_eq!(series.since(1), []);
        let all = series.finish();
        let counts: Vec<_> = all.iter().map(|second| (second.second, second.good, second.p99_us)).collect();
        assert_eq!(counts, [(0, 4, 900), (1, 1, 50)]);
    }
}
