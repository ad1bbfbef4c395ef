//! Refill: fetches the most requested purged pages again, before a visitor has to wait for them.
//!
//! ```text
//!   purge -> wake -> for each page, the most requested first:
//!     stored          -> next page
//!     origin is busy  -> next page; this one waits for the next pass
//!     missing         -> wait for its turn -> fetch
//! ```
//!
//! Invariants: refill fetches one page at a time, and at most `refill.rate` a second. It fetches
//! only while no request waits for the origin, so visitors have priority. A busy or dead origin
//! delays only the pages of its own site. Refill sends nothing personal (see `hot_pages`). Its
//! fetches are ordinary ones: requests join them, and a purge revokes them.

use crate::control::counters::{Cells, Metric};
use crate::fetch::coalesced_fetch::FetchState;
use crate::fetch::refetch;
use crate::fetch::task;
use crate::memory::hot_pages::PageVariant;
use crate::memory::refiller::ORDERED_MAX;
use crate::shared::Shared;
use crate::sites::Site;
use platform::HashMap;
use semantics::is_server_error;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use store::{Lookup, SiteId};
use tokio::time::Instant;

/// How often the workers' notes are merged.
const MERGE_EVERY: Duration = Duration::from_secs(1);

/// Pause before a busy origin is checked again.
const BUSY_PAUSE: Duration = Duration::from_millis(100);

/// After this many failed fetches of a site in a row, refill leaves the rest of its pages to
/// visitors' requests.
const FAILURES_MAX: u32 = 3;

/// Maximum number of fetches for one page. The first may show that the page varies on more fields
/// than was known.
const FETCHES_MAX: u32 = 2;

/// Number of pages that are checked before the task yields.
const LOOKS_MAX: usize = 32;

/// The outcome for one page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RefillOutcome {
    /// The page is stored, is being fetched, or cannot be shared.
    Done,
    /// The origin failed.
    Failed,
    /// The origin is busy with other requests.
    Postponed,
}

/// Runs the refill task until the drain begins.
pub(crate) async fn run(shared: Arc<Shared>) {
    let mut refill = RefillState::new(shared);
    while !refill.shared.is_draining() {
        refill.work().await;
        let refiller = &refill.shared.refiller;
        if refiller.has_work() {
            continue;
        }
        if refill.is_postponed {
            tokio::time::sleep(BUSY_PAUSE).await;
        } else {
            refiller.changed.notified().await;
        }
    }
}

/// Merges the workers' notes periodically.
pub(crate) async fn merge(shared: Arc<Shared>) {
    loop {
        tokio::time::sleep(MERGE_EVERY).await;
        shared.hot_pages.merge(shared.clock.monotonic());
    }
}

/// The state of the refill task.
struct RefillState {
    shared: Arc<Shared>,
    /// When the last fetch began.
    last: Option<Instant>,
    /// Pages to fetch even if they are stored.
    ordered: VecDeque<Arc<PageVariant>>,
    /// Purged pages to fetch if they are missing, the most requested first.
    purged: VecDeque<Arc<PageVariant>>,
    /// Whether a page of the last pass waits because its origin is busy.
    is_postponed: bool,
}

impl RefillState {
    fn new(shared: Arc<Shared>) -> Self {
        let (ordered, purged) = (VecDeque::new(), VecDeque::new());
        Self { shared, last: None, ordered, purged, is_postponed: false }
    }

    fn cells(&self) -> &Cells {
        self.shared.cells(0)
    }

    /// Takes new work, and looks once at each page: at the ordered ones first.
    async fn work(&mut self) {
        self.shared = self.shared.current();
        self.take_orders();
        if self.shared.refiller.take_due() {
            self.purged = self.ranked().into();
        }
        let was_postponed = std::mem::take(&mut self.is_postponed);
        let ordered = std::mem::take(&mut self.ordered);
        self.ordered = self.pass(ordered, true).await;
        let purged = std::mem::take(&mut self.purged);
        self.purged = self.pass(purged, false).await;
        if self.is_postponed && !was_postponed {
            self.cells().count(Metric::RefillsPostponed);
        }
    }

    /// The most requested pages.
    fn ranked(&self) -> Vec<Arc<PageVariant>> {
        self.shared.hot_pages.merge(self.shared.clock.monotonic());
        self.shared.hot_pages.ranked()
    }

    /// Takes the new orders: for each page its remembered variants, or a plain request if there are
    /// none.
    fn take_orders(&mut self) {
        let keys = self.shared.refiller.take_ordered();
        if keys.is_empty() {
            return;
        }
        let mut variants: HashMap<_, _> = keys.iter().map(|key| (key.clone(), Vec::new())).collect();
        for page in self.ranked() {
            if let Some(variants) = variants.get_mut(&page.key) {
                variants.push(page);
            }
        }
        for key in &keys {
            if self.ordered.iter().any(|page| page.key == *key) {
                continue;
            }
            match variants.remove(key).filter(|pages| !pages.is_empty()) {
                Some(pages) => self.ordered.extend(pages),
                None => self.ordered.push_back(Arc::new(PageVariant::plain(key))),
            }
        }
        let excess = self.ordered.len().saturating_sub(ORDERED_MAX);
        self.ordered.drain(..excess);
    }

    /// Looks once at each page and fetches it if necessary. Returns the pages that are left because
    /// their origin is busy, or because work with a higher priority has arrived.
    async fn pass(&mut self, pages: VecDeque<Arc<PageVariant>>, ordered: bool) -> VecDeque<Arc<PageVariant>> {
        let (mut left, mut failures) = (VecDeque::new(), HashMap::<SiteId, u32>::default());
        for (number, page) in pages.into_iter().enumerate() {
            if self.shared.is_draining() || !ordered && self.shared.refiller.has_work() {
                left.push_back(page);
                continue;
            }
            if number % LOOKS_MAX == 0 {
                tokio::task::yield_now().await;
            }
            let failed = failures.entry(page.key.site()).or_default();
            if *failed == FAILURES_MAX {
                continue;
            }
            match self.refetch(&page, ordered).await {
                RefillOutcome::Done => *failed = 0,
                RefillOutcome::Failed => *failed += 1,
                RefillOutcome::Postponed => {
                    self.is_postponed = true;
                    left.push_back(page);
                }
            }
        }
        left
    }

    /// Fetches a page if it is missing, or, if an order named it, even if it is stored.
    async fn refetch(&mut self, page: &PageVariant, ordered: bool) -> RefillOutcome {
        // A pass may take long.
        self.shared = self.shared.current();
        let Some(site) = self.shared.sites.iter().find(|site| site.id == page.key.site()).cloned() else {
            return RefillOutcome::Done;
        };
        for fetch in 0..FETCHES_MAX {
            let is_wanted = if ordered && fetch == 0 { !self.is_paused(page) } else { self.is_missing(page) };
            if !is_wanted {
                break;
            }
            if !self.turn(&site).await {
                return RefillOutcome::Postponed;
            }
            if !self.fetch(&site, page, ordered && fetch == 0).await {
                self.cells().count(Metric::RefillFailures);
                return RefillOutcome::Failed;
            }
        }
        RefillOutcome::Done
    }

    /// Whether the origin has just failed on the page, or the page has a hit-for-miss entry.
    fn is_paused(&self, page: &PageVariant) -> bool {
        let now = self.shared.clock.monotonic();
        self.shared.recently_failed.reason(&page.key, now).is_some()
            || self.shared.hit_for_miss.reason(&page.key, now).is_some()
    }

    fn is_missing(&self, page: &PageVariant) -> bool {
        if self.is_paused(page) {
            return false;
        }
        match self.shared.store.peek(&page.key, &page.fields) {
            Lookup::Found { softened, .. } => softened,
            Lookup::Shelved(_) => false,
            Lookup::NoVariant | Lookup::Absent => true,
        }
    }

    /// Waits until the rate permits the next fetch; false if the origin is busy.
    async fn turn(&mut self, site: &Site) -> bool {
        let interval = Duration::from_secs(1) / self.shared.plan.refill.rate.max(1);
        if let Some(last) = self.last
            && site.origin.has_time()
        {
            tokio::time::sleep_until(last + interval).await;
        }
        let has_time = site.origin.has_time();
        if has_time {
            self.last = Some(Instant::now());
        }
        has_time
    }

    /// Fetches a page; false if the origin failed.
    async fn fetch(&self, site: &Arc<Site>, page: &PageVariant, ordered: bool) -> bool {
        let is_renewed = || !ordered && !self.is_missing(page);
        let base = refetch::stored_base(&self.shared, page, ordered);
        let Some((fetch, mut task)) = refetch::task(&self.shared, 0, site, page, base, is_renewed) else {
            return true;
        };
        task.request.probe = site.origin.claim_probe();
        self.cells().count(Metric::Refills);
        task::run(task).await;
        match &fetch.subscribe().borrow().state {
            FetchState::Failed(_) => false,
            FetchState::Private(answer) => !is_server_error(answer.status),
            FetchState::Waiting
            | FetchState::Shared(_)
            | FetchState::Confirmed(_)
            | FetchState::Denied
            | FetchState::Void => true,
        }
    }
}
