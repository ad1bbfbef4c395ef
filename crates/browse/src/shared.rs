//! What the threads of a run share: the plan, the pages that are left, and what people watch.
//!
//! Invariant: nothing here waits for a page. Figures are no part of it: each thread has its own, but for what has
//! ended in each second.

use crate::plan::PagePlan;
use crate::series::Series;
use net::TlsClient;
use platform::{Clock, Monotonic};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// So many requests must have ended before most of them are said to fail.
const FAILING_REQUESTS_MIN: u64 = 20;

/// What people who watch a run see, and the way to stop it. One belongs to one run.
#[derive(Debug, Default)]
pub struct Watch {
    stop: Arc<AtomicBool>,
    done: AtomicU64,
    failed: AtomicU64,
    is_measuring: AtomicBool,
}

impl Watch {
    /// A watch that is stopped by this flag.
    pub fn stopped_by(stop: Arc<AtomicBool>) -> Self {
        Self { stop, ..Self::default() }
    }

    /// Pages of the measured part that have ended, and how many of them had no document.
    pub fn pages(&self) -> (u64, u64) {
        (self.done.load(Ordering::Relaxed), self.failed.load(Ordering::Relaxed))
    }

    /// Whether the warm-up is over.
    pub fn is_measuring(&self) -> bool {
        self.is_measuring.load(Ordering::Relaxed)
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    pub(crate) fn add_done(&self) {
        self.done.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn add_failed(&self) {
        self.failed.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn restart(&self) {
        self.done.store(0, Ordering::Relaxed);
        self.failed.store(0, Ordering::Relaxed);
        self.is_measuring.store(true, Ordering::Relaxed);
    }
}

/// What the threads of a run share.
pub(crate) struct Shared {
    pub(crate) plan: PagePlan,
    pub(crate) tls: Option<TlsClient>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) watch: Arc<Watch>,
    /// Pages that may still begin.
    pub(crate) pages_left: AtomicU64,
    /// Resources that were asked for and have ended, and those of them that did not arrive; the warm-up's included.
    pub(crate) ended_requests: AtomicU64,
    pub(crate) failed_requests: AtomicU64,
    /// Somebody has found that most fail.
    pub(crate) is_failing: AtomicBool,
    pub(crate) series: Series,
    /// Connections of the run that may stay open after their page.
    pub(crate) lingering_max: usize,
    pub(crate) began: Monotonic,
    pub(crate) measuring_since: Monotonic,
    pub(crate) deadline: Option<Monotonic>,
}

/// Requests that had ended and failed when somebody looked last.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Trend {
    ended: u64,
    failed: u64,
}

impl Shared {
    /// Whether another page may begin at `begin`; if so, it has to.
    pub(crate) fn take_page(&self, begin: Monotonic) -> bool {
        if self.plan.pages.is_none() || begin < self.measuring_since {
            return true;
        }
        self.pages_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
    }

    /// The moment by whose second something counts: what ends a little after the time is up belongs to the last one.
    pub(crate) fn counting(&self, now: Monotonic) -> Monotonic {
        let last = |deadline: Monotonic| Monotonic::from_nanos(deadline.as_nanos().saturating_sub(1));
        self.deadline.map_or(now, |deadline| now.min(last(deadline)))
    }

    /// Takes note of a resource that has ended.
    pub(crate) fn count(&self, has_failed: bool) {
        self.ended_requests.fetch_add(1, Ordering::Relaxed);
        self.failed_requests.fetch_add(u64::from(has_failed), Ordering::Relaxed);
    }

    /// Ends the run if most of what ended since `then` failed and the plan says so; gives from when on to look next.
    pub(crate) fn end_if_failing(&self, then: Trend) -> Trend {
        let failed = self.failed_requests.load(Ordering::Relaxed);
        let now = Trend { ended: self.ended_requests.load(Ordering::Relaxed), failed };
        let (ended, failed) = (now.ended - then.ended, now.failed.saturating_sub(then.failed));
        if ended < FAILING_REQUESTS_MIN {
            return then;
        }
        if self.plan.stops_when_failing && failed * 2 > ended {
            self.is_failing.store(true, Ordering::Relaxed);
        }
        now
    }
}
