//! Background refreshes of stored objects that a write may have changed.
//!
//! Invariants: an object that is older than a scheduled refresh stays due until a younger one
//! replaces it, whatever becomes of a single fetch. Refreshes of one page or site are at least
//! [`REFRESH_AFTER`] apart. Memory does not grow with the number of writes.

use clock::Monotonic;
use platform::HashKeys;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use store::Key;

/// Delay between a write beyond the limit and the background refresh. All writes until then share
/// the refresh.
const REFRESH_AFTER: Duration = Duration::from_secs(10);

/// Number of slots for single pages. Pages that share a slot are refreshed together, which costs
/// further fetches and is otherwise harmless.
const SLOTS: usize = 4096;

/// A scheduled refresh. Times are nanoseconds of the monotonic clock plus one; zero means never.
///
/// Relaxed is enough: a look-up that reads one time before a concurrent write and the other after
/// it may find no refresh due. The next look-up finds it.
#[derive(Debug, Default)]
pub(crate) struct Refresh {
    /// Objects stored before this time are refreshed in the background, from this time on.
    at: AtomicU64,
    /// The previous value of `at`, which applies until `at` is reached.
    previous: AtomicU64,
}

/// Scheduled refreshes of single pages.
#[derive(Debug)]
pub(crate) struct PageRefreshes {
    slots: Vec<Refresh>,
    hasher: HashKeys,
    /// The latest scheduled time of all slots. An object stored since is not due, so most hits need
    /// not compute a hash. Relaxed is enough, as in [`Refresh`].
    latest: AtomicU64,
}

/// A time as a number that is never zero.
pub(crate) fn stamp(now: Monotonic) -> u64 {
    now.as_nanos() + 1
}

impl Refresh {
    /// Whether an object that was stored at `stored` should now be refreshed in the background.
    pub(crate) fn is_due(&self, stored: Monotonic, now: Monotonic) -> bool {
        let next = self.at.load(Ordering::Relaxed);
        let at = if next <= stamp(now) { next } else { self.previous.load(Ordering::Relaxed) };
        stamp(stored) < at
    }

    /// Schedules a background refresh of all objects stored by then.
    pub(crate) fn schedule(&self, now: Monotonic) {
        let (now, later) = (stamp(now), stamp(now.plus(REFRESH_AFTER)));
        // An already scheduled refresh covers this write as well.
        let next = |at| (at <= now).then_some(later);
        if let Ok(begun) = self.at.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next) {
            // Kept, so that pages which were not requested since are still refreshed, however often
            // the site is written to.
            self.previous.fetch_max(begun, Ordering::Relaxed);
        }
    }
}

impl Default for PageRefreshes {
    fn default() -> Self {
        let slots = (0..SLOTS).map(|_| Refresh::default()).collect();
        Self { slots, hasher: HashKeys::new(), latest: AtomicU64::new(0) }
    }
}

impl PageRefreshes {
    /// Whether an object under `key` that was stored at `stored` should now be refreshed in the
    /// background.
    pub(crate) fn is_due(&self, key: &Key, stored: Monotonic, now: Monotonic) -> bool {
        stamp(stored) < self.latest.load(Ordering::Relaxed)
            && self.slot(key).is_some_and(|slot| slot.is_due(stored, now))
    }

    /// Schedules a background refresh of the objects that are stored under `key` by then.
    pub(crate) fn schedule(&self, key: &Key, now: Monotonic) {
        if let Some(slot) = self.slot(key) {
            slot.schedule(now);
        }
        self.latest.fetch_max(stamp(now.plus(REFRESH_AFTER)), Ordering::Relaxed);
    }

    fn slot(&self, key: &Key) -> Option<&Refresh> {
        let slot = self.hasher.hash_one(key) % SLOTS as u64;
        self.slots.get(usize::try_from(slot).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use super::{PageRefreshes, Refresh};
    use bytes::Bytes;
    use clock::Monotonic;
    use store::{Key, SiteId};

    fn at(secs: u64) -> Monotonic {
        Monotonic::from_nanos(secs * 1_000_000_000)
    }

    #[test]
    fn writes_beyond_the_limit_share_one_refresh() {
        let refresh = Refresh::default();
        assert!(!refresh.is_due(at(0), at(5)));
        refresh.schedule(at(5));
        refresh.schedule(at(14));
        assert!(!refresh.is_due(at(0), at(14)), "not yet");
        assert!(refresh.is_due(at(14), at(15)));
        assert!(!refresh.is_due(at(15), at(16)), "stored since");
        refresh.schedule(at(16));
        assert!(refresh.is_due(at(15), at(26)));
    }

    #[test]
    fn refresh_stays_due_while_writes_go_on() {
        let refresh = Refresh::default();
        refresh.schedule(at(5));
        refresh.schedule(at(16));
        assert!(refresh.is_due(at(14), at(17)), "due since 15");
        assert!(!refresh.is_due(at(15), at(17)), "due at 26");
    }

    #[test]
    fn refresh_of_a_page_concerns_few_others() {
        let refreshes = PageRefreshes::default();
        let key = |number: usize| Key::new(SiteId(0), false, b"a.test", Bytes::from(format!("/{number}")));
        refreshes.schedule(&key(0), at(5));
        assert!(!refreshes.is_due(&key(0), at(0), at(14)) && refreshes.is_due(&key(0), at(0), at(15)));
        assert!(!refreshes.is_due(&key(0), at(15), at(15)), "stored since");
        let others = (1..=100).filter(|number| refreshes.is_due(&key(*number), at(0), at(15)));
        assert!(others.count() < 10, "a slot has few pages");
    }
}
