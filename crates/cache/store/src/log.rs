//! The ledger of invalidations behind a lock, shared by all shards, and its sequence number, which
//! is read without the lock.
//!
//! Invariant: the number is raised while the ledger is locked for writing, after the invalidation
//! has been recorded. So a thread that reads a number finds every invalidation up to it in the
//! ledger. An object that was checked up to the current number needs no further check. Lock order:
//! shard, then ledger.

use crate::hash::KeyHasher;
use crate::ledger::{Ledger, RecordedInvalidation};
use crate::list::{ListComparison, Sievable};
use crate::subject::{InvalidationSubject, TagIds};
use crate::sync::{AtomicU64, RwLock, RwLockReadGuard, RwLockWriteGuard, sound};
use crate::{Selector, SiteId};
use bytes::Bytes;
use defects::{Defect, is_planted};
use invalidation::Mode;
use std::sync::atomic::Ordering;

/// The unit in which the log takes memory from the shards. A smaller one would lock all shards for
/// each new tag, a larger one would leave more of a small budget unused.
const WEIGHED_BYTES: usize = 4 << 10;

/// The invalidations of a store.
#[derive(Debug)]
pub(crate) struct Log {
    ledger: RwLock<Ledger>,
    sequence: Sequence,
    bytes: AtomicU64,
    /// The number of retired sites.
    retired: AtomicU64,
    /// 1 if the log took a further unit of memory since the last [`Log::take_grown`].
    grown: AtomicU64,
}

/// The number of the last invalidation. Every look-up reads it, so it does not share a cache line
/// with data that every publication writes.
#[derive(Debug)]
#[repr(align(128))]
struct Sequence(AtomicU64);

/// The ledger's verdict on an object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LedgerVerdict {
    /// The mode of the strongest matching invalidation.
    pub(crate) mode: Option<Mode>,
    /// The number of the last invalidation that was considered.
    pub(crate) checked: u64,
    /// The number of comparisons with listed invalidations.
    pub(crate) comparisons: u64,
}

/// The result of admitting an object to the store.
#[derive(Debug, Default)]
pub(crate) struct AdmittedObject {
    /// The numbers of its tags, four bytes each. The object has joined these tags.
    pub(crate) tags: Vec<u8>,
    /// The number of the last invalidation that it was checked against.
    pub(crate) checked: u64,
    pub(crate) softened: bool,
}

impl Log {
    pub(crate) fn new(keys: KeyHasher, seed: u64, listed_max: usize, memory_bytes_max: u64) -> Self {
        let ledger = RwLock::new(Ledger::new(keys, seed, listed_max, memory_bytes_max));
        let zero = || AtomicU64::new(0);
        Self { ledger, sequence: Sequence(zero()), bytes: zero(), retired: zero(), grown: zero() }
    }

    /// The number of the last invalidation.
    pub(crate) fn sequence(&self) -> u64 {
        self.sequence.0.load(Ordering::SeqCst)
    }

    /// The bytes in use.
    pub(crate) fn bytes(&self) -> usize {
        // The value was stored from a usize, so the cast loses nothing.
        self.bytes.load(Ordering::Relaxed) as usize
    }

    /// The bytes that the budgets of the shards leave to the log: those in use, rounded up to a
    /// multiple of [`WEIGHED_BYTES`].
    pub(crate) fn weighed_bytes(&self) -> usize {
        self.bytes().next_multiple_of(WEIGHED_BYTES)
    }

    /// Whether [`Log::weighed_bytes`] has grown since the last call. Whoever receives true must
    /// trim all shards.
    pub(crate) fn take_grown(&self) -> bool {
        // Most calls find nothing, and a read leaves the cache line with its readers.
        self.grown.load(Ordering::SeqCst) != 0 && self.grown.swap(0, Ordering::SeqCst) != 0
    }

    /// The number of tags.
    pub(crate) fn tags(&self) -> usize {
        self.read().tags().len()
    }

    /// The strongest invalidation after `since` that matches the subject.
    pub(crate) fn judge(&self, since: u64, subject: &InvalidationSubject<'_>) -> LedgerVerdict {
        let ledger = self.read();
        let ListComparison { mode, comparisons } = ledger.judge(since, subject);
        LedgerVerdict { mode, checked: ledger.sequence(), comparisons }
    }

    /// As [`Log::judge`], for a response whose tags are given as texts. The tags in its subject are
    /// ignored.
    pub(crate) fn judge_texts(
        &self,
        since: u64,
        subject: &InvalidationSubject<'_>,
        tags: &[Bytes],
    ) -> Option<Mode> {
        let ledger = self.read();
        let known = tags.iter().filter_map(|tag| ledger.tags().find(subject.site, tag));
        let ids: Vec<u8> = known.flat_map(u32::to_le_bytes).collect();
        ledger.judge(since, &InvalidationSubject { tags: TagIds(&ids), ..*subject }).mode
    }

    /// Admits a response whose fetch began at `begun`. `None` if a hard invalidation since then
    /// matches it, or if its site is retired.
    ///
    /// The subject must have no tags. They are given as texts, and the response joins them.
    pub(crate) fn admit(
        &self,
        begun: u64,
        subject: &InvalidationSubject<'_>,
        tags: &[Bytes],
    ) -> Option<AdmittedObject> {
        // The sequence is read first: the invalidation of a retired site follows its retirement, so
        // an object that is stored with an earlier number is invalidated.
        let sequence = self.sequence();
        if tags.is_empty() && begun == sequence && self.retired.load(Ordering::SeqCst) == 0 {
            return Some(AdmittedObject { checked: sequence, ..AdmittedObject::default() });
        }
        if tags.is_empty() {
            let ledger = self.read();
            if ledger.is_retired(subject.site) {
                return None;
            }
            let ListComparison { mode, .. } = ledger.judge(begun, subject);
            let checked = ledger.sequence();
            let softened = mode == Some(Mode::Soft);
            let is_admitted = mode != Some(Mode::Hard) || is_planted(Defect::PublishAfterPurge);
            return is_admitted.then(|| AdmittedObject { checked, softened, ..AdmittedObject::default() });
        }
        self.write(|ledger| {
            if ledger.is_retired(subject.site) {
                return None;
            }
            let mut ids = Vec::with_capacity(tags.len() * size_of::<u32>());
            for tag in tags {
                let id = ledger.tags_mut().intern(subject.site, tag);
                // A tag that occurs twice counts once.
                if !TagIds(&ids).has(id) {
                    ids.extend_from_slice(&id.to_le_bytes());
                    ledger.tags_mut().hold(id);
                }
            }
            let checked = ledger.sequence();
            let mode = ledger.judge(begun, &InvalidationSubject { tags: TagIds(&ids), ..*subject }).mode;
            let is_admitted = mode != Some(Mode::Hard) || is_planted(Defect::PublishAfterPurge);
            for id in TagIds(&ids).iter() {
                if is_admitted {
                    ledger.tags_mut().join(id, checked);
                }
                ledger.tags_mut().release(id);
            }
            let softened = mode == Some(Mode::Soft);
            is_admitted.then_some(AdmittedObject { tags: ids, checked, softened })
        })
    }

    /// Removes an object from its tags, after it has left the store.
    pub(crate) fn dismiss(&self, tags: TagIds<'_>, checked: u64) {
        if tags.0.is_empty() {
            return;
        }
        self.write(|ledger| tags.iter().for_each(|id| ledger.tags_mut().leave(id, checked)));
    }

    /// Records an invalidation.
    pub(crate) fn record(&self, selector: &Selector, mode: Mode) -> RecordedInvalidation {
        self.write(|ledger| ledger.take_down(selector, mode))
    }

    /// From now on, nothing of this site is admitted.
    pub(crate) fn retire(&self, site: SiteId) {
        self.write(|ledger| ledger.retire(site));
        self.retired.fetch_add(1, Ordering::SeqCst);
    }

    pub(crate) fn is_retired(&self, site: SiteId) -> bool {
        self.read().is_retired(site)
    }

    /// Makes a sieve of the oldest listed bans that have none, if there are enough of them. It is
    /// compiled while no lock is held.
    pub(crate) fn sieve(&self) {
        let sievable = self.read().sievable();
        if let Some(sieved) = sievable.map(Sievable::compile) {
            self.write(|ledger| ledger.sieve(sieved));
        }
    }

    /// The number of listed invalidations.
    pub(crate) fn listed(&self) -> usize {
        self.read().listed()
    }

    /// The number of invalidations that were widened.
    pub(crate) fn widened(&self) -> u64 {
        self.read().widened()
    }

    /// Records an invalidation of an earlier process; see [`Ledger::replay`].
    pub(crate) fn replay(&self, sequence: u64, selector: &Selector, mode: Mode) {
        self.write(|ledger| ledger.replay(sequence, selector, mode));
    }

    /// Continues the numbering above `sequence`. Call it after the last replay and before anything
    /// is stored.
    pub(crate) fn resume(&self, sequence: u64) {
        self.write(|ledger| ledger.resume(sequence));
    }

    /// The number that a sweep has to reach, or `None` if every object has been checked.
    pub(crate) fn unswept(&self) -> Option<u64> {
        let ledger = self.read();
        (ledger.swept() < ledger.sequence()).then(|| ledger.sequence())
    }

    /// Records that every stored object has been checked up to `sequence`.
    pub(crate) fn sweep_ended(&self, sequence: u64) {
        self.write(|ledger| ledger.sweep_ended(sequence));
    }

    fn read(&self) -> RwLockReadGuard<'_, Ledger> {
        sound(self.ledger.read())
    }

    /// Changes the ledger.
    fn write<T>(&self, change: impl FnOnce(&mut Ledger) -> T) -> T {
        let mut ledger: RwLockWriteGuard<'_, Ledger> = sound(self.ledger.write());
        let result = change(&mut ledger);
        // Relaxed is enough: the size is only weighed. Look-ups read the number without the lock.
        let weighed_bytes = self.weighed_bytes();
        self.bytes.store(ledger.bytes() as u64, Ordering::Relaxed);
        if self.weighed_bytes() > weighed_bytes {
            self.grown.store(1, Ordering::SeqCst);
        }
        self.sequence.0.store(ledger.sequence(), Ordering::SeqCst);
        result
    }
}
