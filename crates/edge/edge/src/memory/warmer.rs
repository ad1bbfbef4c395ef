//! The runs that fill the cache: their orders, and how far each is.
//!
//! Invariants: a site has at most one run. A later order replaces it, and an order to stop ends it.
//! There are as many entries as sites that had a run.

use api::warm::{WarmDocument, WarmRun};
use crawl::WarmOrder;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// With what a run begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WarmBegin {
    /// With an order of an operator.
    Ordered(WarmOrder),
    /// With the settings of the site.
    Configured,
    /// With the state that an earlier process has left.
    Resumed(Vec<u8>),
}

/// A run that is to begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OrderedRun {
    /// The first name of the site, or `any`.
    pub(crate) site: String,
    /// A later run has a higher number.
    pub(crate) number: u64,
    pub(crate) begin: WarmBegin,
}

/// The pages of all runs of a site.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WarmTotals {
    pub(crate) warmed: u64,
    pub(crate) fresh: u64,
    pub(crate) not_cacheable: u64,
    pub(crate) failed: u64,
    /// Pages that are left in the run under way.
    pub(crate) left: u64,
    /// Whether a run is under way.
    pub(crate) is_running: bool,
}

/// Orders and progress.
#[derive(Debug, Default)]
pub(crate) struct Warmer {
    state: Mutex<WarmerState>,
    /// There are new orders.
    pub(crate) changed: Notify,
}

#[derive(Debug, Default)]
struct WarmerState {
    last: u64,
    /// Whether the runs of the start were ordered.
    has_begun: bool,
    orders: BTreeMap<String, OrderedRun>,
    /// The number of the run that each site may have.
    permitted: BTreeMap<String, u64>,
    /// The order of the last run of each site that has begun, with the number of the run.
    underway: BTreeMap<String, (u64, WarmOrder)>,
    runs: BTreeMap<String, WarmRun>,
    /// Runs that a later one has replaced and whose end was not shown yet, as they were counted, by
    /// site and number.
    replaced: BTreeMap<(String, u64), WarmRun>,
    /// The pages of runs that have ended.
    ended: BTreeMap<String, WarmTotals>,
}

impl Warmer {
    /// Orders a run, which replaces that of the site. Returns its number.
    pub(crate) fn order(&self, site: &str, begin: WarmBegin) -> u64 {
        let mut state = self.state();
        state.last += 1;
        let number = state.last;
        let order = OrderedRun { site: site.to_owned(), number, begin };
        state.orders.insert(site.to_owned(), order);
        state.permitted.insert(site.to_owned(), number);
        drop(state);
        self.changed.notify_one();
        number
    }

    /// Ends the run of a site. Returns its number; `None` if there is none.
    pub(crate) fn stop(&self, site: &str) -> Option<u64> {
        let mut state = self.state();
        state.orders.remove(site);
        state.permitted.remove(site)
    }

    /// The order of the run of a site that is under way or about to begin.
    pub(crate) fn current_order(&self, site: &str) -> Option<WarmOrder> {
        let state = self.state();
        if let Some(OrderedRun { begin: WarmBegin::Ordered(order), .. }) = state.orders.get(site) {
            return Some(order.clone());
        }
        let number = state.permitted.get(site)?;
        state.underway.get(site).filter(|(own, _)| own == number).map(|(_, order)| order.clone())
    }

    /// Records the order of a run that begins.
    pub(crate) fn begins_with(&self, run: &OrderedRun, order: WarmOrder) {
        self.state().underway.insert(run.site.clone(), (run.number, order));
    }

    /// Whether the runs of the start are still to be ordered. Only the first call returns true.
    pub(crate) fn begins(&self) -> bool {
        !std::mem::replace(&mut self.state().has_begun, true)
    }

    /// Takes the new orders.
    pub(crate) fn take_orders(&self) -> Vec<OrderedRun> {
        std::mem::take(&mut self.state().orders).into_values().collect()
    }

    /// Whether a run may go on.
    pub(crate) fn is_permitted(&self, site: &str, number: u64) -> bool {
        self.state().permitted.get(site) == Some(&number)
    }

    /// Whether a site has a run that may go on.
    pub(crate) fn has_run(&self, site: &str) -> bool {
        self.state().permitted.contains_key(site)
    }

    /// Shows how far a run is. One that has ended is counted.
    pub(crate) fn show(&self, run: WarmRun) {
        let mut guard = self.state();
        let state = &mut *guard;
        let replaced = state.runs.get(&run.site).filter(|shown| shown.run < run.run && shown.is_running);
        if let Some(older) = replaced.cloned() {
            // Its pages count at once, or the totals would fall until it ends.
            state.ended.entry(run.site.clone()).or_default().add(&older);
            state.replaced.insert((older.site.clone(), older.run), older);
        }
        if !run.is_running {
            let counted = state.replaced.remove(&(run.site.clone(), run.run)).unwrap_or_default();
            state.ended.entry(run.site.clone()).or_default().add_since(&counted, &run);
            if state.permitted.get(&run.site) == Some(&run.run) {
                state.permitted.remove(&run.site);
            }
            if state.underway.get(&run.site).is_some_and(|(number, _)| *number == run.run) {
                state.underway.remove(&run.site);
            }
        }
        // The run that replaces this one may have begun already.
        let is_newer = state.runs.get(&run.site).is_none_or(|shown| shown.run <= run.run);
        if is_newer {
            state.runs.insert(run.site.clone(), run);
        }
    }

    /// Marks the runs that were under way as lost, because their task has ended.
    pub(crate) fn lose_all(&self) {
        let mut state = self.state();
        let state = &mut *state;
        for run in state.runs.values_mut().filter(|run| run.is_running) {
            run.is_running = false;
            "ended unexpectedly; the log says why".clone_into(&mut run.state);
            state.ended.entry(run.site.clone()).or_default().add(run);
            state.permitted.remove(&run.site);
        }
        state.replaced.clear();
    }

    /// The last run of each site.
    pub(crate) fn document(&self) -> WarmDocument {
        WarmDocument { runs: self.state().runs.values().cloned().collect() }
    }

    /// The pages of all runs of a site.
    pub(crate) fn totals(&self, site: &str) -> WarmTotals {
        let state = self.state();
        let mut totals = state.ended.get(site).copied().unwrap_or_default();
        if let Some(run) = state.runs.get(site).filter(|run| run.is_running) {
            totals.add(run);
            totals.is_running = true;
            let done = run.warmed + run.fresh + run.not_cacheable + run.failed;
            totals.left = run.found.saturating_sub(done);
        }
        totals
    }

    fn state(&self) -> MutexGuard<'_, WarmerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl WarmTotals {
    fn add(&mut self, run: &WarmRun) {
        self.add_since(&WarmRun::default(), run);
    }

    /// Adds the pages of `run` that came after it was `counted`.
    fn add_since(&mut self, counted: &WarmRun, run: &WarmRun) {
        self.warmed += run.warmed.saturating_sub(counted.warmed);
        self.fresh += run.fresh.saturating_sub(counted.fresh);
        self.not_cacheable += run.not_cacheable.saturating_sub(counted.not_cacheable);
        self.failed += run.failed.saturating_sub(counted.failed);
    }
}

#[cfg(test)]
mod tests {
    use super::{WarmBegin, WarmTotals, Warmer};
    use api::warm::WarmRun;

    fn run(number: u64, warmed: u64, is_running: bool) -> WarmRun {
        WarmRun { site: "a".to_owned(), run: number, found: 9, warmed, is_running, ..WarmRun::default() }
    }

    #[test]
    fn later_order_replaces_the_run_and_a_stop_ends_it() {
        let warmer = Warmer::default();
        let (first, second) =
            (warmer.order("a", WarmBegin::Configured), warmer.order("a", WarmBegin::Configured));
        assert_eq!(warmer.take_orders().len(), 1);
        assert!(!warmer.is_permitted("a", first) && warmer.is_permitted("a", second));
        assert_eq!((warmer.stop("a"), warmer.stop("a")), (Some(second), None));
        assert!(!warmer.is_permitted("a", second));
    }

    #[test]
    fn totals_only_grow_and_the_newest_run_is_shown() {
        let warmer = Warmer::default();
        warmer.show(run(1, 4, true));
        assert_eq!(
            warmer.totals("a"),
            WarmTotals { warmed: 4, left: 5, is_running: true, ..WarmTotals::default() }
        );
        warmer.show(run(2, 0, true));
        assert_eq!(warmer.totals("a").warmed, 4, "the run that is replaced still counts");
        warmer.show(run(1, 5, false));
        assert_eq!((warmer.totals("a").warmed, warmer.document().runs[0].run), (5, 2));
        warmer.lose_all();
        assert!(!warmer.totals("a").is_running && warmer.totals("a").left == 0);
        assert_eq!(warmer.totals("a").warmed, 5);
    }
}
