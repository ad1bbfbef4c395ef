//! State that the threads of a run share: the plan, the number of pages left, and the progress
//! display.
//!
//! Invariant: nothing here waits for a page load. Each thread has its own figures; only the
//! per-second figures are collected here. Relaxed ordering is enough for the counters and flags,
//! because they guard no other data.

use crate::plan::PagePlan;
use crate::ramp_up::RampUp;
use crate::series::PageSeries;
use clock::{Clock, Monotonic};
use load::{FailureTally, Trend};
use net::TlsClient;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Follows the progress of a run and stops it. A watch belongs to one run.
#[derive(Debug, Default)]
pub struct Watch {
    stop: Arc<AtomicBool>,
    done: AtomicU64,
    failed: AtomicU64,
}

impl Watch {
    /// A watch whose run ends when the flag is set.
    pub fn stopped_by(stop: Arc<AtomicBool>) -> Self {
        Self { stop, ..Self::default() }
    }

    /// Page loads of the measured part that have ended, and how many of them had no document.
    pub fn pages(&self) -> (u64, u64) {
        (self.done.load(Ordering::Relaxed), self.failed.load(Ordering::Relaxed))
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Counts a page load of the measured part that has ended.
    pub(crate) fn add_page(&self, has_document: bool) {
        self.failed.fetch_add(u64::from(!has_document), Ordering::Relaxed);
        self.done.fetch_add(1, Ordering::Relaxed);
    }
}

/// State that the threads of a run share.
pub(crate) struct BrowseContext {
    pub(crate) plan: PagePlan,
    pub(crate) tls: Option<TlsClient>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) watch: Arc<Watch>,
    /// Measured pages that may still begin.
    pub(crate) pages_left: AtomicU64,
    /// Resources that have ended and failed, including those of the warm-up.
    pub(crate) failure_tally: FailureTally,
    /// Whether the run ends early: a thread has found that most resources fail, or has panicked.
    pub(crate) is_failing: AtomicBool,
    pub(crate) series: PageSeries,
    /// When the visitors of a closed loop begin.
    pub(crate) ramp_up: RampUp,
    /// The most connections of the run that may linger.
    pub(crate) lingering_max: usize,
    pub(crate) began: Monotonic,
    pub(crate) measuring_since: Monotonic,
    pub(crate) deadline: Option<Monotonic>,
}

impl BrowseContext {
    /// Whether a page load that begins at `begin` belongs to the measured part.
    pub(crate) fn is_measured(&self, begin: Monotonic) -> bool {
        begin >= self.measuring_since
    }

    /// Whether another page load may begin at `begin`. If so, it is taken and has to begin.
    pub(crate) fn take_page(&self, begin: Monotonic) -> bool {
        if self.plan.pages.is_none() || !self.is_measured(begin) {
            return true;
        }
        self.pages_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
    }

    /// Whether a page load that begins at `begin` would still find a page.
    pub(crate) fn has_page(&self, begin: Monotonic) -> bool {
        self.plan.pages.is_none() || !self.is_measured(begin) || self.pages_left.load(Ordering::Relaxed) > 0
    }

    /// The moment whose second an event at `now` counts in. Events shortly after the deadline
    /// belong to the last second.
    pub(crate) fn counting(&self, now: Monotonic) -> Monotonic {
        let last = |deadline: Monotonic| Monotonic::from_nanos(deadline.as_nanos().saturating_sub(1));
        self.deadline.map_or(now, |deadline| now.min(last(deadline)))
    }

    /// Ends the run if most resources since `then` failed and the plan says so. Returns the counts
    /// to compare with next time: few resources are judged together with later ones.
    pub(crate) fn end_if_failing(&self, then: Trend) -> Trend {
        let now = self.failure_tally.now();
        let Some(fails) = now.fails_since(then) else { return then };
        if fails && self.plan.stops_when_failing {
            self.is_failing.store(true, Ordering::Relaxed);
        }
        now
    }
}
