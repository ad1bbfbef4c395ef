//! Refill: fetches the most requested purged pages again, before a visitor has to wait for them.
//!
//! ```text
//!   purge -> wake -> for each page, the most requested first:
//!     stored? -> next page
//!     missing -> wait for its turn, and until the origin is idle -> fetch
//! ```
//!
//! Invariants: refill fetches one page at a time, and at most `refill.rate` a second. It fetches
//! only while no request waits for the origin, so visitors have priority. It sends nothing personal
//! (see `popular`). Its fetches are ordinary flights: requests join them, and a purge revokes them.

use crate::control::counters::{Cells, Metric};
use crate::fetch::flight::State;
use crate::fetch::fly;
use crate::request::lookup::Base;
use crate::memory::popular::Page;
use crate::fetch::refetch;
use crate::shared::Shared;
use crate::sites::Site;
use crate::memory::sync::{Mutex, MutexGuard, PoisonError};
use semantics::is_server_error;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use store::{Key, Lookup};
use tokio::sync::Notify;
use tokio::time::Instant;

/// How often the workers' notes are merged.
const MERGE_EVERY: Duration = Duration::from_secs(1);

/// Pause before a busy origin is checked again.
const BUSY_PAUSE: Duration = Duration::from_millis(100);

/// After this many failed fetches in a row, refill stops and leaves the rest to visitors' requests.
const FAILURES_MAX: u32 = 3;

/// Maximum number of fetches for one page. The first may show that the page varies on more fields
/// than was known.
const FLIGHTS_MAX: u32 = 2;

/// Maximum number of ordered pages that wait for their refetch. Beyond it the oldest are dropped.
const ORDERED_MAX: usize = 1024;

/// Number of pages that are checked before the task yields.
const LOOKS_MAX: usize = 32;

/// The queue of the refill task.
#[derive(Debug, Default)]
pub(crate) struct Refiller {
    work: Mutex<Work>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct Work {
    /// Whether pages were purged since the last refill.
    due: bool,
    /// Pages that are fetched first, even if they are stored.
    ordered: VecDeque<Key>,
}

/// The outcome for one page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refilled {
    /// The page is stored, is being fetched, or cannot be shared.
    Done,
    /// The origin failed.
    Failed,
    /// Work with a higher priority has arrived.
    Interrupted,
}

impl Refiller {
    /// Starts a refill after a purge.
    pub(crate) fn wake(&self) {
        self.work().due = true;
        self.changed.notify_one();
    }

    /// Orders the refetch of one page.
    pub(crate) fn order(&self, key: &Key) {
        let mut work = self.work();
        if work.ordered.contains(key) {
            return;
        }
        if work.ordered.len() >= ORDERED_MAX {
            work.ordered.pop_front();
        }
        work.ordered.push_back(key.detached());
        drop(work);
        self.changed.notify_one();
    }

    fn has_work(&self) -> bool {
        let work = self.work();
        work.due || !work.ordered.is_empty()
    }

    fn take_due(&self) -> bool {
        std::mem::take(&mut self.work().due)
    }

    fn take_ordered(&self) -> Option<Key> {
        self.work().ordered.pop_front()
    }

    fn work(&self) -> MutexGuard<'_, Work> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs the refill task until the drain begins.
pub(crate) async fn run(shared: Arc<Shared>) {
    let mut refill = Refill { shared, last: None };
    while !refill.shared.is_draining() {
        if refill.shared.refiller.has_work() {
            refill.work().await;
        } else {
            refill.shared.refiller.changed.notified().await;
        }
    }
}

/// Merges the workers' notes periodically.
pub(crate) async fn merge(shared: Arc<Shared>) {
    loop {
        tokio::time::sleep(MERGE_EVERY).await;
        shared.popular.merge(shared.clock.monotonic());
    }
}

/// The state of the refill task.
struct Refill {
    shared: Arc<Shared>,
    /// When the last fetch began.
    last: Option<Instant>,
}

impl Refill {
    fn cells(&self) -> &Cells {
        self.shared.cells(0)
    }

    /// Fetches the ordered pages, then the most requested ones that are missing.
    async fn work(&mut self) {
        while let Some(key) = self.shared.refiller.take_ordered() {
            for page in self.pages_of(&key) {
                // Retried, because a purge in between does not cancel an order.
                while self.refetch(&page, true).await == Refilled::Interrupted {}
            }
        }
        if !self.shared.refiller.take_due() {
            return;
        }
        self.shared.popular.merge(self.shared.clock.monotonic());
        let mut failures = 0;
        for (number, page) in self.shared.popular.ranked().iter().enumerate() {
            if self.shared.refiller.has_work() || self.shared.is_draining() {
                return;
            }
            if number % LOOKS_MAX == 0 {
                tokio::task::yield_now().await;
            }
            failures = match self.refetch(page, false).await {
                Refilled::Done => 0,
                Refilled::Failed if failures + 1 < FAILURES_MAX => failures + 1,
                Refilled::Failed | Refilled::Interrupted => return,
            };
        }
    }

    /// The remembered variants of the page, or a plain request for it if there are none.
    fn pages_of(&self, key: &Key) -> Vec<Arc<Page>> {
        self.shared.popular.merge(self.shared.clock.monotonic());
        let ranked = self.shared.popular.ranked().into_iter();
        let mut pages: Vec<_> = ranked.filter(|page| page.key == *key).collect();
        if pages.is_empty() {
            pages.push(Arc::new(Page::plain(key)));
        }
        pages
    }

    /// Fetches a page if it is missing, or, if an order named it, even if it is stored.
    async fn refetch(&mut self, page: &Page, ordered: bool) -> Refilled {
        let Some(site) = self.shared.sites.iter().find(|site| site.id == page.key.site()).cloned() else {
            return Refilled::Done;
        };
        for flight in 0..FLIGHTS_MAX {
            let is_wanted =
                if ordered && flight == 0 { !self.is_paused(page) } else { self.is_missing(page) };
            if !is_wanted {
                break;
            }
            if !self.turn(&site, ordered).await {
                return Refilled::Interrupted;
            }
            if !self.fly(&site, page, ordered && flight == 0).await {
                self.cells().count(Metric::RefillFailures);
                return Refilled::Failed;
            }
        }
        Refilled::Done
    }

    /// Whether the origin has just failed on the page, or the page has a hit-for-miss entry.
    fn is_paused(&self, page: &Page) -> bool {
        let now = self.shared.clock.monotonic();
        self.shared.ailing.reason(&page.key, now).is_some()
            || self.shared.hit_for_miss.reason(&page.key, now).is_some()
    }

    fn is_missing(&self, page: &Page) -> bool {
        if self.is_paused(page) {
            return false;
        }
        match self.shared.store.peek(&page.key, &page.fields) {
            Lookup::Found { softened, .. } => softened,
            Lookup::Shelved(_) => false,
            Lookup::NoVariant | Lookup::Absent => true,
        }
    }

    /// Waits until the next fetch may begin; false if work with a higher priority has arrived.
    async fn turn(&mut self, site: &Site, ordered: bool) -> bool {
        let interval = Duration::from_secs(1) / self.shared.plan.refill.rate.max(1);
        if let Some(last) = self.last {
            tokio::time::sleep_until(last + interval).await;
        }
        let mut is_postponed = false;
        while !site.origin.has_time() {
            if !is_postponed {
                self.cells().count(Metric::RefillsPostponed);
                is_postponed = true;
            }
            tokio::time::sleep(BUSY_PAUSE).await;
            if self.shared.is_draining() || !ordered && self.shared.refiller.has_work() {
                return false;
            }
        }
        self.last = Some(Instant::now());
        true
    }

    /// Fetches a page; false if the origin failed.
    async fn fly(&self, site: &Arc<Site>, page: &Page, ordered: bool) -> bool {
        let is_renewed = || !ordered && !self.is_missing(page);
        let base = self.base(page, ordered);
        let Some((flight, mut departure)) = refetch::departure(&self.shared, 0, site, page, base, is_renewed)
        else {
            return true;
        };
        departure.request.probe = site.origin.claim_probe();
        self.cells().count(Metric::Refills);
        fly::fly(departure).await;
        match &flight.subscribe().borrow().state {
            State::Failed(_) => false,
            State::Private(answer) => !is_server_error(answer.status),
            State::Waiting | State::Shared(_) | State::Confirmed(_) | State::Denied | State::Void => true,
        }
    }

    /// The stored object of the page, for the origin to confirm.
    fn base(&self, page: &Page, ordered: bool) -> Option<Base> {
        match self.shared.store.peek(&page.key, &page.fields) {
            Lookup::Found { object, softened } => {
                let whole = Some(object).filter(|object| object.part().is_none());
                whole.map(|object| Base::new(object, softened || ordered))
            }
            Lookup::Shelved(_) | Lookup::NoVariant | Lookup::Absent => None,
        }
    }
}
