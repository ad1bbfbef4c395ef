//! The ledger, shared by all shards, and its sequence number, which can be read without a lock.
//!
//! Invariant: the number is raised while the ledger is locked for writing, after the invalidation was taken down in
//! it. So whoever reads a number has to ask about nothing newer, and whoever reads the same number again need not ask
//! at all. Order of locks: a shard, then the ledger.

use crate::hash::KeyHasher;
use crate::ledger::{Ledger, Recorded, Subject, TagIds};
use crate::list::{Compared, Sievable};
use crate::sync::{AtomicU64, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use crate::{Mode, Selector};
use bytes::Bytes;
use std::sync::atomic::Ordering;

/// The invalidations of a store.
#[derive(Debug)]
pub(crate) struct Log {
    ledger: RwLock<Ledger>,
    sequence: Sequence,
    bytes: AtomicU64,
}

/// Every look-up reads the number, so it shares no cache line with what every publication writes.
#[derive(Debug)]
#[repr(align(128))]
struct Sequence(AtomicU64);

/// What the ledger says of an object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Judged {
    /// The strongest of the invalidations that mean it.
    pub(crate) mode: Option<Mode>,
    /// Up to which number this is so.
    pub(crate) checked: u64,
    /// The comparisons that it took.
    pub(crate) comparisons: u64,
}

/// What an object that is to be stored has got.
#[derive(Debug, Default)]
pub(crate) struct Admitted {
    /// The numbers of its tags, four octets each, which it has joined.
    pub(crate) tags: Vec<u8>,
    /// Up to which invalidation it has been checked.
    pub(crate) checked: u64,
    pub(crate) softened: bool,
}

impl Log {
    pub(crate) fn new(keys: KeyHasher, seed: u64, listed_max: usize) -> Self {
        let ledger = RwLock::new(Ledger::new(keys, seed, listed_max));
        Self { ledger, sequence: Sequence(AtomicU64::new(0)), bytes: AtomicU64::new(0) }
    }

    /// The number of the last invalidation.
    pub(crate) fn sequence(&self) -> u64 {
        self.sequence.0.load(Ordering::SeqCst)
    }

    /// The octets in use.
    pub(crate) fn bytes(&self) -> usize {
        // It was a usize before.
        self.bytes.load(Ordering::Relaxed) as usize
    }

    /// How many tags there are.
    pub(crate) fn tags(&self) -> usize {
        self.read().tags().len()
    }

    /// The strongest invalidation after `since` that means the subject.
    pub(crate) fn judge(&self, since: u64, subject: &Subject<'_>) -> Judged {
        let ledger = self.read();
        let Compared { mode, comparisons } = ledger.judge(since, subject);
        Judged { mode, checked: ledger.sequence(), comparisons }
    }

    /// As [`Log::judge`], for a response whose tags are known by their texts; its subject has none.
    pub(crate) fn judge_texts(&self, since: u64, subject: &Subject<'_>, tags: &[Bytes]) -> Option<Mode> {
        let ledger = self.read();
        let known = tags.iter().filter_map(|tag| ledger.tags().find(subject.site, tag));
        let ids: Vec<u8> = known.flat_map(u32::to_le_bytes).collect();
        ledger.judge(since, &Subject { tags: TagIds(&ids), ..*subject }).mode
    }

    /// Admits a response that was fetched by a request which began at `begun`; `None` if it was invalidated since.
    /// The subject has no tags; they are joined.
    pub(crate) fn admit(&self, begun: u64, subject: &Subject<'_>, tags: &[Bytes]) -> Option<Admitted> {
        let sequence = self.sequence();
        if tags.is_empty() && begun == sequence {
            return Some(Admitted { checked: sequence, ..Admitted::default() });
        }
        if tags.is_empty() {
            let Judged { mode, checked, .. } = self.judge(begun, subject);
            let softened = mode == Some(Mode::Soft);
            return (mode != Some(Mode::Hard)).then(|| Admitted { checked, softened, ..Admitted::default() });
        }
        self.write(|ledger| {
            let mut ids = Vec::with_capacity(tags.len() * size_of::<u32>());
            for tag in tags {
                let id = ledger.tags_mut().intern(subject.site, tag);
                // A tag that is named twice is one.
                if !TagIds(&ids).has(id) {
                    ids.extend_from_slice(&id.to_le_bytes());
                    ledger.tags_mut().hold(id);
                }
            }
            let checked = ledger.sequence();
            let mode = ledger.judge(begun, &Subject { tags: TagIds(&ids), ..*subject }).mode;
            let is_admitted = mode != Some(Mode::Hard);
            for id in TagIds(&ids).iter() {
                if is_admitted {
                    ledger.tags_mut().join(id, checked);
                }
                ledger.tags_mut().release(id);
            }
            let softened = mode == Some(Mode::Soft);
            is_admitted.then_some(Admitted { tags: ids, checked, softened })
        })
    }

    /// An object that was admitted is not stored any more.
    pub(crate) fn dismiss(&self, tags: TagIds<'_>, checked: u64) {
        if tags.0.is_empty() {
            return;
        }
        self.write(|ledger| tags.iter().for_each(|id| ledger.tags_mut().leave(id, checked)));
    }

    /// Takes an invalidation down.
    pub(crate) fn record(&self, selector: &Selector, mode: Mode) -> Recorded {
        self.write(|ledger| ledger.take_down(selector, mode))
    }

    /// Makes a sieve of the oldest listed bans that have none yet, if they are enough for one. The sieve is compiled
    /// while nothing is locked.
    pub(crate) fn sieve(&self) {
        let sievable = self.read().sievable();
        if let Some(sieved) = sievable.map(Sievable::compile) {
            self.write(|ledger| ledger.sieve(sieved));
        }
    }

    /// How many invalidations are listed.
    pub(crate) fn listed(&self) -> usize {
        self.read().listed()
    }

    /// How many invalidations have been widened.
    pub(crate) fn widened(&self) -> u64 {
        self.read().widened()
    }

    /// Takes down what an earlier process took down; see [`Ledger::replay`].
    pub(crate) fn replay(&self, sequence: u64, selector: &Selector, mode: Mode) {
        self.write(|ledger| ledger.replay(sequence, selector, mode));
    }

    /// The next number is above this one. To be called when all was replayed, and before anything is stored.
    pub(crate) fn resume(&self, sequence: u64) {
        self.write(|ledger| ledger.resume(sequence));
    }

    /// The number that a sweep has to reach; `None` if everything has been checked.
    pub(crate) fn unswept(&self) -> Option<u64> {
        let ledger = self.read();
        (ledger.swept() < ledger.sequence()).then(|| ledger.sequence())
    }

    /// Every stored object has been checked up to `sequence`.
    pub(crate) fn sweep_ended(&self, sequence: u64) {
        self.write(|ledger| ledger.sweep_ended(sequence));
    }

    fn read(&self) -> RwLockReadGuard<'_, Ledger> {
        self.ledger.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// No code that can panic for a reason from outside runs under the lock, bans excepted, and these are only read.
    fn write<T>(&self, change: impl FnOnce(&mut Ledger) -> T) -> T {
        let mut ledger: RwLockWriteGuard<'_, Ledger> =
            self.ledger.write().unwrap_or_else(PoisonError::into_inner);
        let result = change(&mut ledger);
        self.bytes.store(ledger.bytes() as u64, Ordering::Relaxed);
        self.sequence.0.store(ledger.sequence(), Ordering::SeqCst);
        result
    }
}
