//! What is known about the writes and purges of a site.
//!
//! Invariant: only purges from authorised clients and fields of the origin's responses count as
//! signs that a site purges its pages itself.

use crate::memory::refreshes::{Refresh, stamp};
use clock::Monotonic;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The period of `limits.writes_per_minute`.
const MINUTE: Duration = Duration::from_secs(60);

/// A purge within this time after a write counts as caused by it.
const PURGE_AFTER: Duration = Duration::from_secs(10);

/// The state of a site's writes. Times are nanoseconds of the monotonic clock plus one; zero means
/// never.
///
/// Relaxed is enough: the times guard no other memory. A write and a purge that are noted at the
/// same time may miss each other; the site's next purge after a write is found.
#[derive(Debug, Default)]
pub(crate) struct Writes {
    pub(crate) site: TokenBucket,
    pub(crate) pages: TokenBucket,
    /// The background refresh of all pages.
    pub(crate) refresh: Refresh,
    last_purge: AtomicU64,
    last_write: AtomicU64,
    /// When the site last purged because of a write.
    purged_itself: AtomicU64,
}

/// A token-bucket rate limit with a burst of one minute's share. Holds the time at which the bucket
/// will be full again. Relaxed is enough: taking a token is one atomic operation.
#[derive(Debug, Default)]
pub(crate) struct TokenBucket(AtomicU64);

impl TokenBucket {
    /// Whether one more is admitted within the rate.
    pub(crate) fn admits(&self, per_minute: usize, now: u64) -> bool {
        let minute = MINUTE.as_nanos() as u64;
        let Some(interval) = minute.checked_div(per_minute as u64) else { return false };
        let next = |used: u64| Some(used.max(now) + interval).filter(|next| *next <= now + minute);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).is_ok()
    }
}

impl Writes {
    /// Whether an object that was stored at `stored` should now be refreshed in the background.
    pub(crate) fn is_to_be_refreshed(&self, stored: Monotonic, now: Monotonic) -> bool {
        self.refresh.is_due(stored, now)
    }

    /// Records an authorised purge of pages of the site.
    pub(crate) fn note_purge(&self, now: Monotonic) {
        let now = stamp(now);
        self.last_purge.store(now, Ordering::Relaxed);
        let written = self.last_write.load(Ordering::Relaxed);
        if written != 0 && now - written.min(now) <= PURGE_AFTER.as_nanos() as u64 {
            self.purged_itself.store(now, Ordering::Relaxed);
        }
    }

    /// Records a proven write whose request began at `begun`.
    pub(crate) fn note_write(&self, begun: Monotonic, now: Monotonic) {
        let purged = self.last_purge.load(Ordering::Relaxed);
        if purged >= stamp(begun) {
            self.purged_itself.store(purged, Ordering::Relaxed);
        }
        self.last_write.store(stamp(now), Ordering::Relaxed);
    }

    /// Whether the site has purged itself within `memory`.
    pub(crate) fn purges_itself(&self, memory: Duration, now: Monotonic) -> bool {
        let seen = self.purged_itself.load(Ordering::Relaxed);
        seen != 0 && stamp(now) - seen.min(stamp(now)) < memory.as_nanos() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::{TokenBucket, Writes, stamp};
    use clock::Monotonic;
    use std::time::Duration;

    fn at(secs: u64) -> Monotonic {
        Monotonic::from_nanos(secs * 1_000_000_000)
    }

    #[test]
    fn rate_admits_a_minutes_share_at_once_and_then_one_by_one() {
        let bucket = TokenBucket::default();
        let admitted = |secs, count: usize| (0..count).filter(|_| bucket.admits(6, stamp(at(secs)))).count();
        assert_eq!(admitted(0, 100), 6);
        assert_eq!((admitted(9, 5), admitted(10, 5), admitted(40, 5)), (0, 1, 3));
        assert!(!TokenBucket::default().admits(0, stamp(at(0))), "none at all");
    }

    #[test]
    fn purge_counts_only_near_a_write_and_expires() {
        let memory = Duration::from_secs(100);
        let writes = Writes::default();
        writes.note_purge(at(1));
        assert!(!writes.purges_itself(memory, at(2)), "an operator's");
        writes.note_write(at(5), at(6));
        assert!(!writes.purges_itself(memory, at(6)));
        writes.note_purge(at(17));
        assert!(!writes.purges_itself(memory, at(17)), "too late");
        writes.note_purge(at(18));
        writes.note_write(at(18), at(19));
        assert!(writes.purges_itself(memory, at(19)), "within the request");
        assert!(
            writes.purges_itself(memory, at(117)) && !writes.purges_itself(memory, at(119)),
            "it expires"
        );
        writes.note_purge(at(200));
        writes.note_write(at(190), at(191));
        writes.note_purge(at(201));
        assert!(writes.purges_itself(memory, at(201)), "soon after the write");
    }
}
