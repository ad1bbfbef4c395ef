//! Pages that are withheld from visitors with cookies, because a response with cookies differed
//! from the stored one.
//!
//! Invariants: the number of pages is bounded; beyond it the oldest are trusted again. Time alone
//! restores no trust: after its time a page is checked again, and stays withheld until that check
//! finds no difference. A look-up takes the lock only if its page, or another one of the same
//! group, is withheld.

use crate::memory::sync::{Mutex, MutexGuard, PoisonError};
use bytes::Bytes;
use clock::Monotonic;
use platform::{HashKeys, HashMap};
use semantics::{Culprit, CulpritKind};
use std::collections::VecDeque;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use store::Key;

/// How long a page that depends on cookies is not checked again.
const FOUND: Duration = Duration::from_secs(3_600);

/// How long a page is not checked again if the origin did not answer. Also the time that a check
/// may take.
const IN_DOUBT: Duration = Duration::from_secs(60);

/// After this time any visitor with cookies may show that the page is the same for all. Before,
/// only a visitor with the cookies that made the difference may.
const ANYBODY: Duration = Duration::from_secs(24 * 3_600);

/// Maximum length of the stored cookie names, in bytes.
const NAMES_BYTES_MAX: usize = 256;

/// Number of hash groups. For each group an atomic counter says, without the lock, whether it has
/// pages.
const GROUPS: usize = 1_024;

/// The withheld pages.
#[derive(Debug)]
pub(crate) struct Distrust {
    entries: Mutex<WithheldPages>,
    /// Number of withheld pages in each group.
    groups: Vec<AtomicU32>,
    hasher: HashKeys,
    pages_max: usize,
}

/// Keys are kept as hashes. If two keys collide, the second page is withheld too, which is
/// harmless.
#[derive(Debug, Default)]
struct WithheldPages {
    by_key: HashMap<u64, WithheldPage>,
    /// Sequence numbers and hashes, oldest first. An element is outdated if its number differs from
    /// its entry's.
    order: VecDeque<(u64, u64)>,
    number: u64,
}

#[derive(Debug)]
struct WithheldPage {
    number: u64,
    state: Suspicion,
    since: Monotonic,
    /// When it may be checked again.
    again: Monotonic,
    /// Names of the cookies that made the difference.
    names: Bytes,
}

/// The reason why a page is withheld.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Suspicion {
    /// Two responses differ; the difference is being investigated.
    Suspected,
    /// They differ, and the investigation had no result.
    Doubted,
    /// The page depends on cookies.
    Found,
}

/// The reason why a visitor does not receive the stored page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Withheld {
    pub(crate) culprit: Culprit,
    /// Whether this visitor's request may check the page again.
    pub(crate) may_look: bool,
}

impl Distrust {
    /// An empty table of at most `pages_max` pages.
    pub(crate) fn new(pages_max: usize) -> Self {
        let groups = (0..GROUPS).map(|_| AtomicU32::new(0)).collect();
        Self { entries: Mutex::default(), groups, hasher: HashKeys::new(), pages_max }
    }

    /// Why a visitor with these cookies does not receive the stored page; `None` if it does.
    pub(crate) fn of(&self, key: &Key, names: impl FnOnce() -> String, now: Monotonic) -> Option<Withheld> {
        self.entry(key, |entry| {
            let has_all = || {
                let names = names();
                let has = |name: &[u8]| names.split(", ").any(|own| own.as_bytes() == name);
                entry.names.split(|octet| *octet == b',').all(|name| has(name.trim_ascii()))
            };
            let is_due = entry.state != Suspicion::Suspected && now >= entry.again;
            let may_look = is_due && (now >= entry.since.plus(ANYBODY) || has_all());
            Withheld { culprit: Culprit { kind: CulpritKind::Cookie, name: entry.names.clone() }, may_look }
        })
    }

    /// The page's state; `None` if it is not withheld.
    pub(crate) fn state(&self, key: &Key) -> Option<Suspicion> {
        self.entry(key, |entry| entry.state)
    }

    /// Adds or updates a page, because a response with these cookies differed. A page that was
    /// found to depend on cookies stays so.
    pub(crate) fn take_in(&self, key: &Key, state: Suspicion, names: &str, now: Monotonic) {
        let hash = self.hasher.hash_one(key);
        let mut entries = self.lock();
        let known = entries.by_key.get(&hash).map(|entry| entry.state);
        if self.pages_max == 0 || (known == Some(Suspicion::Found) && state != Suspicion::Found) {
            return;
        }
        entries.tidy(self.pages_max);
        if known.is_none() {
            entries.make_room(self.pages_max, |gone| self.leaves(gone));
            self.enters(hash);
        }
        let again = now.plus(if state == Suspicion::Found { FOUND } else { IN_DOUBT });
        entries.number += 1;
        let number = entries.number;
        let names = kept_names(names);
        entries.by_key.insert(hash, WithheldPage { number, state, since: now, again, names });
        entries.order.push_back((number, hash));
    }

    /// Records that a check has begun, so that no other one starts for a while.
    pub(crate) fn note_check(&self, key: &Key, now: Monotonic) {
        let hash = self.hasher.hash_one(key);
        if let Some(entry) = self.lock().by_key.get_mut(&hash) {
            entry.again = now.plus(IN_DOUBT);
        }
    }

    /// Trusts the page again. One that was found to depend on cookies stays, unless
    /// `even_if_found`.
    pub(crate) fn trust(&self, key: &Key, even_if_found: bool) {
        let hash = self.hasher.hash_one(key);
        let mut entries = self.lock();
        let goes =
            entries.by_key.get(&hash).is_some_and(|entry| even_if_found || entry.state != Suspicion::Found);
        if goes {
            entries.by_key.remove(&hash);
            self.leaves(hash);
        }
    }

    fn entry<T>(&self, key: &Key, read: impl FnOnce(&WithheldPage) -> T) -> Option<T> {
        let hash = self.hasher.hash_one(key);
        // Relaxed is enough: a look-up concurrent with `take_in` may come before it.
        if self.group(hash)?.load(Ordering::Relaxed) == 0 {
            return None;
        }
        self.lock().by_key.get(&hash).map(read)
    }

    fn enters(&self, hash: u64) {
        if let Some(group) = self.group(hash) {
            group.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn leaves(&self, hash: u64) {
        if let Some(group) = self.group(hash) {
            group.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn group(&self, hash: u64) -> Option<&AtomicU32> {
        self.groups.get(hash as usize % GROUPS)
    }

    /// Poison is ignored because no code that can panic runs under the lock.
    fn lock(&self) -> MutexGuard<'_, WithheldPages> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl WithheldPages {
    /// Removes outdated elements from the order once they may be the majority.
    fn tidy(&mut self, pages_max: usize) {
        let Self { by_key, order, .. } = self;
        if order.len() >= 2 * pages_max {
            order.retain(|(number, hash)| by_key.get(hash).is_some_and(|entry| entry.number == *number));
        }
    }

    /// Removes the oldest pages until one more has room; calls `leaves` for each.
    fn make_room(&mut self, pages_max: usize, leaves: impl Fn(u64)) {
        while self.by_key.len() >= pages_max {
            let Some((number, hash)) = self.order.pop_front() else { return };
            if self.by_key.get(&hash).is_some_and(|entry| entry.number == number) {
                self.by_key.remove(&hash);
                leaves(hash);
            }
        }
    }
}

/// The longest prefix of whole names that fits into the limit.
fn kept_names(names: &str) -> Bytes {
    let kept = match names.get(..NAMES_BYTES_MAX) {
        None if names.len() <= NAMES_BYTES_MAX => names,
        beginning => beginning.and_then(|names| names.rsplit_once(", ")).map_or("", |(whole, _)| whole),
    };
    Bytes::copy_from_slice(kept.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::{Distrust, NAMES_BYTES_MAX, Suspicion, kept_names};
    use bytes::Bytes;
    use clock::Monotonic;
    use store::{Key, SiteId};

    fn key(target: &str) -> Key {
        Key::new(SiteId(0), false, b"a", Bytes::copy_from_slice(target.as_bytes()))
    }

    fn at(secs: u64) -> Monotonic {
        Monotonic::from_nanos(secs * 1_000_000_000)
    }

    /// Whether the page is withheld from a visitor with these cookies, and whether it may check
    /// again.
    fn kept(pages: &Distrust, names: &str, secs: u64) -> Option<bool> {
        pages.of(&key("/"), || names.to_owned(), at(secs)).map(|withheld| withheld.may_look)
    }

    #[test]
    fn withheld_page_is_checked_again_and_not_trusted_by_time() {
        let pages = Distrust::new(10);
        assert_eq!(kept(&pages, "lang", 0), None);
        pages.take_in(&key("/"), Suspicion::Found, "_ga, lang", at(0));
        let culprit = pages.of(&key("/"), String::new, at(0)).unwrap().culprit;
        assert_eq!(culprit.name, "_ga, lang");
        assert_eq!(kept(&pages, "lang, _ga", 3_599), Some(false));
        assert_eq!(kept(&pages, "lang, _ga, more", 3_600), Some(true));
        assert_eq!(
            kept(&pages, "_ga", 3_600),
            Some(false),
            "it lacks one of the cookies that made the difference"
        );
        assert_eq!(kept(&pages, "_ga", 86_400), Some(true), "after a day any request may check the page");
        pages.note_check(&key("/"), at(86_400));
        assert_eq!(kept(&pages, "lang, _ga", 86_401), Some(false), "one investigation at a time");
        pages.trust(&key("/"), true);
        assert_eq!(kept(&pages, "lang, _ga", 86_402), None);
    }

    #[test]
    fn leak_that_was_found_outlasts_a_new_suspicion() {
        let pages = Distrust::new(10);
        pages.take_in(&key("/"), Suspicion::Suspected, "_ga", at(0));
        assert_eq!(kept(&pages, "_ga", 3_600), Some(false), "the page is being investigated");
        pages.take_in(&key("/"), Suspicion::Found, "lang", at(1));
        pages.take_in(&key("/"), Suspicion::Suspected, "_ga", at(2));
        assert_eq!(pages.state(&key("/")), Some(Suspicion::Found));
        pages.trust(&key("/"), false);
        assert_eq!(pages.state(&key("/")), Some(Suspicion::Found));
        pages.take_in(&key("/b"), Suspicion::Doubted, "_ga", at(2));
        pages.trust(&key("/b"), false);
        assert_eq!(pages.state(&key("/b")), None);
    }

    #[test]
    fn oldest_pages_make_room_and_memory_is_bounded() {
        let pages = Distrust::new(2);
        for round in 0..10 {
            for target in ["/a", "/b", "/c"] {
                pages.take_in(&key(target), Suspicion::Found, "_ga", at(round));
            }
        }
        assert_eq!(["/a", "/b", "/c"].map(|target| pages.state(&key(target)).is_some()), [false, true, true]);
        (0..100).for_each(|round| pages.take_in(&key("/c"), Suspicion::Doubted, "_ga", at(round)));
        pages.take_in(&key("/a"), Suspicion::Found, "_ga", at(100));
        let entries = pages.lock();
        assert!(entries.by_key.len() == 2 && entries.order.len() <= 4, "{entries:?}");
    }

    #[test]
    fn cookie_names_are_cut_between_two_names() {
        assert_eq!(kept_names("_ga, lang"), "_ga, lang");
        let long = format!("_ga, {}", "n".repeat(NAMES_BYTES_MAX));
        assert_eq!(kept_names(&long), "_ga");
        assert_eq!(kept_names(&"é, ".repeat(200)).len() % 4, 2);
    }
}
