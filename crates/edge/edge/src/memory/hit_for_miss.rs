//! The hit-for-miss table: pages whose last response could not be shared, and why.
//!
//! Invariants: each entry expires after a fixed time. It leaves the table earlier only if
//! `entries_max` other keys are recorded after it, however often each of them is. The table only
//! decides whether requests wait for one another, never whether a response may be shared.

use crate::memory::sync::{Mutex, MutexGuard, PoisonError};
use bytes::Bytes;
use clock::Monotonic;
use platform::{HashKeys, HashMap};
use semantics::{Culprit, Reason};
use std::collections::VecDeque;
use std::hash::BuildHasher;
use std::time::Duration;
use store::Key;

/// A bounded table of keys with a reason for each.
#[derive(Debug)]
pub(crate) struct HitForMiss {
    entries: Mutex<HitForMissEntries>,
    hasher: HashKeys,
    memory: Duration,
    entries_max: usize,
}

/// Keys are kept as hashes. If two keys collide, the requests for the second do not wait for one
/// another either, which is harmless.
#[derive(Debug, Default)]
struct HitForMissEntries {
    by_key: HashMap<u64, HitForMissEntry>,
    /// The order of recording, oldest first. An element is outdated if its key was recorded again
    /// or removed since then.
    order: VecDeque<ExpiryRecord>,
    /// The number of the last recording.
    number: u64,
}

#[derive(Debug)]
struct HitForMissEntry {
    until: Monotonic,
    number: u64,
    remembered: PassReason,
}

#[derive(Debug)]
struct ExpiryRecord {
    until: Monotonic,
    number: u64,
    hash: u64,
}

/// Why the response for a page could not be shared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PassReason {
    pub(crate) reason: Reason,
    /// The cookie, field or other part of the response that was the cause.
    pub(crate) culprit: Option<Culprit>,
}

/// Bytes of a culprit's name that are kept.
const NAME_BYTES_MAX: usize = 64;

impl HitForMiss {
    /// An empty table. An entry lives for `memory`, and at most `entries_max` are kept.
    pub(crate) fn new(memory: Duration, entries_max: usize) -> Self {
        Self { entries: Mutex::default(), hasher: HashKeys::new(), memory, entries_max }
    }

    /// Records that the response for `key` could not be shared, so that later requests do not wait
    /// for one another.
    pub(crate) fn remember(&self, key: &Key, reason: Reason, culprit: Option<Culprit>, now: Monotonic) {
        // Copied, because a name is a slice of a buffer that holds the response's whole head.
        let culprit = culprit.map(|Culprit { kind, name }| {
            let name = name.get(..NAME_BYTES_MAX).unwrap_or(&name);
            Culprit { kind, name: Bytes::copy_from_slice(name) }
        });
        let remembered = PassReason { reason, culprit };
        let (until, hash) = (now.plus(self.memory), self.hasher.hash_one(key));
        let mut entries = self.lock();
        entries.record(hash, until, remembered);
        entries.forget_old(now, self.entries_max);
    }

    /// Removes the entry of `key`.
    pub(crate) fn forget(&self, key: &Key) {
        let hash = self.hasher.hash_one(key);
        self.lock().by_key.remove(&hash);
    }

    /// Removes all entries.
    pub(crate) fn forget_all(&self) {
        *self.lock() = HitForMissEntries::default();
    }

    /// Why the response for `key` could not be shared a short while ago; `None` without a live
    /// entry.
    pub(crate) fn reason(&self, key: &Key, now: Monotonic) -> Option<Reason> {
        let hash = self.hasher.hash_one(key);
        let entries = self.lock();
        entries.by_key.get(&hash).filter(|entry| now < entry.until).map(|entry| entry.remembered.reason)
    }

    /// Like [`HitForMiss::reason`], but also returns the culprit.
    pub(crate) fn recall(&self, key: &Key, now: Monotonic) -> Option<PassReason> {
        let hash = self.hasher.hash_one(key);
        let entries = self.lock();
        entries.by_key.get(&hash).filter(|entry| now < entry.until).map(|entry| entry.remembered.clone())
    }

    /// Poison is ignored because no code that can panic runs under the lock.
    fn lock(&self) -> MutexGuard<'_, HitForMissEntries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HitForMissEntries {
    fn record(&mut self, hash: u64, until: Monotonic, remembered: PassReason) {
        self.number += 1;
        let number = self.number;
        self.by_key.insert(hash, HitForMissEntry { until, number, remembered });
        self.order.push_back(ExpiryRecord { until, number, hash });
    }

    /// Drops expired entries, and the oldest ones until at most `entries_max` are left.
    fn forget_old(&mut self, now: Monotonic, entries_max: usize) {
        while let Some(oldest) = self.order.front() {
            let is_live = is_live(&self.by_key, oldest);
            if is_live && now < oldest.until && self.by_key.len() <= entries_max {
                break;
            }
            if is_live {
                self.by_key.remove(&oldest.hash);
            }
            self.order.pop_front();
        }
        // A key that is recorded often leaves outdated elements behind older live ones. Removing
        // them only when they are as many as the entries costs each recording a constant time.
        if self.order.len() > 2 * entries_max {
            let by_key = &self.by_key;
            self.order.retain(|recorded| is_live(by_key, recorded));
        }
    }
}

/// Whether the table still has what was recorded.
fn is_live(by_key: &HashMap<u64, HitForMissEntry>, recorded: &ExpiryRecord) -> bool {
    by_key.get(&recorded.hash).is_some_and(|entry| entry.number == recorded.number)
}

#[cfg(test)]
mod tests {
    use super::HitForMiss;
    use bytes::Bytes;
    use clock::Monotonic;
    use semantics::{Culprit, CulpritKind, Reason};
    use std::time::Duration;
    use store::{Key, SiteId};

    fn key(target: &'static str) -> Key {
        Key::new(SiteId(0), false, b"a.test", Bytes::from_static(target.as_bytes()))
    }

    fn at(seconds: u64) -> Monotonic {
        Monotonic::from_nanos(seconds * 1_000_000_000)
    }

    #[test]
    fn entries_expire_and_the_oldest_makes_room() {
        let hit_for_miss = HitForMiss::new(Duration::from_secs(120), 2);
        let reason = Reason::StoreRefusedPrivate;
        hit_for_miss.remember(&key("/a"), reason, None, at(0));
        assert_eq!(hit_for_miss.reason(&key("/a"), at(119)), Some(reason));
        assert_eq!(hit_for_miss.reason(&key("/a"), at(120)), None);
        hit_for_miss.remember(&key("/b"), reason, None, at(1));
        hit_for_miss.remember(&key("/c"), Reason::StoreRefusedSetCookie, None, at(2));
        assert_eq!(hit_for_miss.reason(&key("/a"), at(3)), None, "the oldest makes room");
        assert_eq!(hit_for_miss.reason(&key("/b"), at(3)), Some(reason));
        assert_eq!(hit_for_miss.reason(&key("/c"), at(3)), Some(Reason::StoreRefusedSetCookie));
        hit_for_miss.forget(&key("/c"));
        assert_eq!(hit_for_miss.reason(&key("/c"), at(3)), None);
        let entries = hit_for_miss.lock();
        assert!(entries.order.len() <= 2 && entries.by_key.len() <= 2);
    }

    #[test]
    fn frequent_page_does_not_remove_other_entries() {
        let hit_for_miss = HitForMiss::new(Duration::from_secs(3600), 4);
        let reason = Reason::StoreRefusedPrivate;
        hit_for_miss.remember(&key("/a"), reason, None, at(0));
        for second in 0..100 {
            hit_for_miss.remember(&key("/b"), reason, None, at(second));
        }
        assert_eq!(hit_for_miss.reason(&key("/a"), at(100)), Some(reason));
        for second in 0..100 {
            hit_for_miss.forget(&key("/c"));
            hit_for_miss.remember(&key("/c"), reason, None, at(second));
        }
        assert_eq!(hit_for_miss.reason(&key("/a"), at(100)), Some(reason));
        let entries = hit_for_miss.lock();
        assert!(entries.by_key.len() == 3 && entries.order.len() <= 8, "outdated elements are removed");
    }

    #[test]
    fn table_without_room_keeps_nothing() {
        let hit_for_miss = HitForMiss::new(Duration::from_secs(3600), 0);
        hit_for_miss.remember(&key("/a"), Reason::StoreRefusedPrivate, None, at(0));
        assert_eq!(hit_for_miss.reason(&key("/a"), at(0)), None);
    }

    #[test]
    fn culprit_is_kept_as_a_copy_of_limited_length() {
        let hit_for_miss = HitForMiss::new(Duration::from_secs(120), 2);
        let name = Bytes::from("n".repeat(1000));
        let culprit = Culprit { kind: CulpritKind::Cookie, name: name.clone() };
        hit_for_miss.remember(&key("/a"), Reason::StoreRefusedSetCookie, Some(culprit), at(0));
        let remembered = hit_for_miss.recall(&key("/a"), at(1)).unwrap();
        assert_eq!(remembered.reason, Reason::StoreRefusedSetCookie);
        assert_eq!(remembered.culprit.unwrap().name, name.slice(..64));
        assert!(name.is_unique(), "the response's head is not kept alive");
        assert_eq!(hit_for_miss.recall(&key("/a"), at(120)), None);
    }
}
