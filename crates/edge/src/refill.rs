//! After a purge: the most requested of the pages that are gone are fetched again, before a visitor has to wait.
//!
//! ```text
//!   purge -> woken -> for each page, the most requested first:
//!              is it there? -> next  |  wait for its turn, and until the origin has nothing else to do -> fetch
//! ```
//!
//! Invariant: one page at a time and `refill.rate` a second at most, and only while nothing waits for the origin, so
//! that visitors always go first; nothing is sent of any visitor's own (see `popular`). A fetch is a flight like any
//! other: visitors join it, and a purge revokes it.

use crate::counters::{Cells, Metric};
use crate::flight::State;
use crate::fly;
use crate::lookup::Base;
use crate::popular::Page;
use crate::refetch;
use crate::shared::Shared;
use crate::sites::Site;
use crate::sync::{Mutex, MutexGuard, PoisonError};
use semantics::is_server_error;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use store::{Key, Lookup};
use tokio::sync::Notify;
use tokio::time::Instant;

/// How often what the workers have noted is brought together.
const MERGE_EVERY: Duration = Duration::from_secs(1);

/// How long an origin that is busy is left alone before it is looked at again.
const BUSY_PAUSE: Duration = Duration::from_millis(100);

/// After so many fetches in a row that failed, the rest is left to visitors.
const FAILURES_MAX: u32 = 3;

/// Fetches for one page: the first may show that it varies on more than was known.
const FLIGHTS_MAX: u32 = 2;

/// Pages that somebody has ordered to be fetched again and that wait for it; of more, the oldest are left to visitors.
const ORDERED_MAX: usize = 1024;

/// Pages that are looked at before others get their turn.
const LOOKS_MAX: usize = 32;

/// Tells the refilling task what there is to do.
#[derive(Debug, Default)]
pub(crate) struct Refiller {
    work: Mutex<Work>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct Work {
    /// Something was purged.
    due: bool,
    /// Fetched first, and whether they are there or not.
    ordered: VecDeque<Key>,
}

/// What became of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refilled {
    /// It is there, or will be, or nobody may share it.
    Done,
    /// The origin has failed.
    Failed,
    /// There is something that goes before.
    Interrupted,
}

impl Refiller {
    /// Something was purged that shall be fetched again.
    pub(crate) fn wake(&self) {
        self.work().due = true;
        self.changed.notify_one();
    }

    /// This page shall be fetched again.
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

/// Refills until the edge ends.
pub(crate) async fn run(shared: Arc<Shared>) {
    tokio::spawn(merge(Arc::clone(&shared)));
    let mut refill = Refill { shared, last: None };
    while !refill.shared.is_draining() {
        if refill.shared.refiller.has_work() {
            refill.work().await;
        } else {
            refill.shared.refiller.changed.notified().await;
        }
    }
}

/// Keeps the ranking of pages up to date.
async fn merge(shared: Arc<Shared>) {
    loop {
        tokio::time::sleep(MERGE_EVERY).await;
        shared.popular.merge(shared.clock.monotonic());
    }
}

/// The task at work.
struct Refill {
    shared: Arc<Shared>,
    /// When the last fetch began.
    last: Option<Instant>,
}

impl Refill {
    fn cells(&self) -> &Cells {
        self.shared.cells(0)
    }

    /// Fetches what was ordered, and then what is most requested and not there.
    async fn work(&mut self) {
        while let Some(key) = self.shared.refiller.take_ordered() {
            for page in self.pages_of(&key) {
                // A purge in between changes nothing: it was ordered.
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

    /// The page in the variants that are most requested, or as nobody in particular asks for it.
    fn pages_of(&self, key: &Key) -> Vec<Arc<Page>> {
        self.shared.popular.merge(self.shared.clock.monotonic());
        let ranked = self.shared.popular.ranked().into_iter();
        let mut pages: Vec<_> = ranked.filter(|page| page.key == *key).collect();
        if pages.is_empty() {
            pages.push(Arc::new(Page::plain(key)));
        }
        pages
    }

    /// Fetches a page again that is not there as it should be, or that was ordered.
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

    /// Whether the origin has failed on the page a moment ago, or its answer is for nobody else.
    fn is_paused(&self, page: &Page) -> bool {
        let now = self.shared.clock.monotonic();
        self.shared.ailing.reason(&page.key, now).is_some()
            || self.shared.in_vain.reason(&page.key, now).is_some()
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

    /// Returns when the next fetch may begin; false if there is something that goes before.
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

    /// Fetches a page; false if the origin has failed.
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

    /// What is stored of the page, for the origin to confirm.
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
