//! Samples of counters over the last two minutes, from which rates follow.
//!
//! Invariants: the number of samples is bounded, and none is older than [`PERIOD`]. Samples with a
//! gap between them are dropped, so that no rate is a mean over a time without samples.

use api::dashboard::DashboardData;
use std::collections::VecDeque;
use std::time::Duration;

/// The time that samples are kept for.
const PERIOD: Duration = Duration::from_secs(120);

/// The time of one point of the chart.
const SLOT: Duration = Duration::from_secs(2);

/// Points of the chart.
const SLOTS: u32 = (PERIOD.as_secs() / SLOT.as_secs()) as u32;

/// Maximum number of samples: those of the period with the shortest time between them, and one
/// before.
const SAMPLES_MAX: usize = (PERIOD.as_millis() / SPACING_MIN.as_millis()) as usize + 2;

/// Shortest time between two samples. Several readers share them.
const SPACING_MIN: Duration = Duration::from_millis(900);

/// Longest time between two samples.
const GAP_MAX: Duration = Duration::from_secs(15);

/// Counters of the last minutes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Samples {
    list: VecDeque<Sample>,
}

/// Counters at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sample {
    at: Duration,
    counts: Counts,
}

/// Requests since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// All requests.
    pub(crate) requests: u64,
    /// Requests for pages: hits, stale hits, misses and passes.
    pub(crate) pages: u64,
    /// Hits and stale hits.
    pub(crate) hits: u64,
    /// Requests that failed.
    pub(crate) failed: u64,
}

/// The rates between two samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Rates {
    /// Requests per second.
    pub(crate) requests: f64,
    /// Answers from the cache per second.
    pub(crate) hits: f64,
    /// The part of pages that the cache answered; `None` without a page.
    pub(crate) hit_ratio: Option<f64>,
    /// Failed requests per second.
    pub(crate) failed: f64,
}

impl Counts {
    pub(crate) fn of(data: &DashboardData) -> Self {
        let mut counts = Self { requests: data.status.requests, ..Self::default() };
        // The sums over the sites would lack the sites that a reload has removed.
        for figures in &data.verdicts {
            match figures.verdict.as_str() {
                "hit" | "stale" => counts.hits += figures.requests,
                "miss" | "pass" => counts.pages += figures.requests,
                "failed" => counts.failed += figures.requests,
                _ => {}
            }
        }
        counts.pages += counts.hits;
        counts
    }
}

impl Samples {
    /// Adds a sample, taken at `at` on any clock that only goes forward.
    pub fn push(&mut self, at: Duration, data: &DashboardData) {
        if let Some(last) = self.list.back() {
            let gap = at.saturating_sub(last.at);
            if gap < SPACING_MIN {
                return;
            }
            if gap > GAP_MAX {
                self.list.clear();
            }
        }
        // One sample from before the period, so that the rates of all of it are known.
        let is_old =
            |sample: Option<&Sample>| sample.is_some_and(|sample| at.saturating_sub(sample.at) >= PERIOD);
        while is_old(self.list.get(1)) || self.list.len() >= SAMPLES_MAX {
            self.list.pop_front();
        }
        self.list.push_back(Sample { at, counts: Counts::of(data) });
    }

    /// Number of samples.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    /// The rates between the last two samples.
    pub(crate) fn rates(&self) -> Option<Rates> {
        let (one, other) = (self.list.iter().rev().nth(1)?, self.list.back()?);
        let seconds = other.at.saturating_sub(one.at).as_secs_f64().max(f64::MIN_POSITIVE);
        let grown = |count: fn(&Counts) -> u64| count(&other.counts).saturating_sub(count(&one.counts));
        let (pages, hits) = (grown(|counts| counts.pages), grown(|counts| counts.hits));
        Some(Rates {
            requests: grown(|counts| counts.requests) as f64 / seconds,
            hits: hits as f64 / seconds,
            hit_ratio: crate::figure::share(hits, pages),
            failed: grown(|counts| counts.failed) as f64 / seconds,
        })
    }

    /// The growth of a count in each slot of the period that ends with the last sample, in 1/s.
    /// `None` for a slot from which there is no sample. Readers take samples at any time, so the
    /// count between two samples is assumed to have grown evenly.
    pub(crate) fn slots(&self, count: fn(&Counts) -> u64) -> Vec<Option<f64>> {
        let Some(end) = self.list.back().map(|sample| sample.at) else { return Vec::new() };
        let at = |slots: u32| end.checked_sub(SLOT * slots).and_then(|at| self.count_at(at, count));
        let growth = |slot: u32| Some((at(slot)? - at(slot + 1)?).max(0.0) / SLOT.as_secs_f64());
        (0..SLOTS).rev().map(growth).collect()
    }

    /// A count at a moment between the first sample and the last one.
    fn count_at(&self, at: Duration, count: fn(&Counts) -> u64) -> Option<f64> {
        let next = self.list.partition_point(|sample| sample.at < at);
        let later = self.list.get(next)?;
        let count_of = |sample: &Sample| count(&sample.counts) as f64;
        if later.at == at {
            return Some(count_of(later));
        }
        let earlier = self.list.get(next.checked_sub(1)?)?;
        let part = (at - earlier.at).as_secs_f64() / (later.at - earlier.at).as_secs_f64();
        Some(count_of(earlier) + part * (count_of(later) - count_of(earlier)))
    }
}
