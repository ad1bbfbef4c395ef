//! Samples of counters over the last minutes, from which rates follow.
//!
//! Invariant: the number of samples is bounded. Samples with a gap between them are forgotten, so
//! that no rate is a mean over a time without samples.

use api::dashboard::DashboardData;
use std::collections::VecDeque;
use std::time::Duration;

/// Maximum number of samples.
pub const SAMPLES_MAX: usize = 61;

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

/// What happened between two samples.
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
        for figures in data.sites.iter().flat_map(|site| &site.verdicts) {
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
        if self.list.len() == SAMPLES_MAX {
            self.list.pop_front();
        }
        self.list.push_back(Sample { at, counts: Counts::of(data) });
    }

    /// The rates between the last two samples.
    pub(crate) fn rates(&self) -> Option<Rates> {
        self.all_rates().last()
    }

    /// The rates between all samples, the oldest first.
    pub(crate) fn all_rates(&self) -> impl Iterator<Item = Rates> {
        self.list.iter().zip(self.list.iter().skip(1)).map(|(one, other)| {
            let seconds = other.at.saturating_sub(one.at).as_secs_f64().max(f64::MIN_POSITIVE);
            let grown = |count: fn(&Counts) -> u64| count(&other.counts).saturating_sub(count(&one.counts));
            let (pages, hits) = (grown(|counts| counts.pages), grown(|counts| counts.hits));
            Rates {
                requests: grown(|counts| counts.requests) as f64 / seconds,
                hits: hits as f64 / seconds,
                hit_ratio: crate::figure::share(hits, pages),
                failed: grown(|counts| counts.failed) as f64 / seconds,
            }
        })
    }
}
