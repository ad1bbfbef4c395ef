//! The work of the refill task, as purges order it.
//!
//! Invariant: the number of ordered pages is bounded.

use crate::memory::sync::{Mutex, MutexGuard, PoisonError};
use std::collections::VecDeque;
use store::Key;
use tokio::sync::Notify;

/// Maximum number of ordered pages that wait for their refetch. Beyond it the oldest are dropped,
/// because their purge has marked them as stale: visitors' requests fetch them.
pub(crate) const ORDERED_MAX: usize = 1024;

/// The queue of the refill task.
#[derive(Debug, Default)]
pub(crate) struct Refiller {
    work: Mutex<RefillWork>,
    pub(crate) changed: Notify,
}

#[derive(Debug, Default)]
struct RefillWork {
    /// Whether pages were purged since the last refill.
    due: bool,
    /// Pages that are fetched first, even if they are stored.
    ordered: VecDeque<Key>,
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

    /// Whether the task has something to do.
    pub(crate) fn has_work(&self) -> bool {
        let work = self.work();
        work.due || !work.ordered.is_empty()
    }

    /// Takes the order to refill purged pages, if there is one.
    pub(crate) fn take_due(&self) -> bool {
        std::mem::take(&mut self.work().due)
    }

    /// Takes the pages that were ordered.
    pub(crate) fn take_ordered(&self) -> VecDeque<Key> {
        std::mem::take(&mut self.work().ordered)
    }

    fn work(&self) -> MutexGuard<'_, RefillWork> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
