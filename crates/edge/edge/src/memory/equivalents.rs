//! Targets that name the same page although their query strings differ, as stated by
//! `No-Vary-Search` in the page's responses.
//!
//! Invariants: a stored page answers for an equivalent target only while the newest stored response
//! for either target states the rule that makes them equivalent. Equivalence is known only when a
//! response arrives. Therefore a response with a rule is not stored if any target of its path was
//! invalidated since its fetch began. The memory is bounded. A page that it drops is removed from
//! the store too, because no invalidation of an equivalent target would find it. Each variant of a
//! page may state another rule; `own_target` checks the variant that is to be delivered.
//!
//! Objects of an earlier process obey the same invariants: each is learned before it is taken over
//! from disk. It is not taken over if the journal has a later invalidation of any target of its
//! path, and never replaces another response.
//!
//! A request finds equivalents only in its own percent-encoding of the path, as in the store. An
//! invalidation covers all percent-encodings, so one entry holds the keys of all of them.

use crate::memory::sync::{AtomicBool, PoisonError, RwLock};
use bytes::Bytes;
use message::{Fields, names};
use platform::{HashKeys, HashMap};
use semantics::{NoVarySearch, canonical_target};
use std::hash::BuildHasher;
use std::sync::atomic::Ordering;
use store::{AdoptedEquivalent, Key, Selector};

/// Maximum number of remembered targets; a further one replaces another.
const TARGETS_MAX: usize = 65_536;

/// Maximum number of percent-encodings of one path per target; a further one replaces the oldest.
const SPELLINGS_MAX: usize = 32;

/// Maximum number of paths whose last invalidation is remembered. Beyond it, all paths count as
/// invalidated.
const PATHS_MAX: usize = 65_536;

/// The known equivalent targets.
#[derive(Debug, Default)]
pub(crate) struct Equivalents {
    /// Whether any rule is known. Most sites state none, so that look-ups skip the lock. It is set
    /// under the lock, which an invalidation takes before it reads the flag, so that no
    /// invalidation misses a rule. A look-up that reads the flag too early finds no equivalent.
    any: AtomicBool,
    hasher: HashKeys,
    known: RwLock<KnownPaths>,
}

#[derive(Debug, Default)]
struct KnownPaths {
    /// By hash of origin and canonically spelled path. The keys inside distinguish paths with the
    /// same hash.
    paths: HashMap<u64, Path>,
    targets: usize,
    /// Sequence number of the last invalidation of a target, by hash of origin and path.
    invalidated: HashMap<u64, u64>,
    /// Highest sequence number among the dropped entries of `invalidated`: any path may have been
    /// invalidated up to it.
    invalidated_before: u64,
}

#[derive(Debug)]
struct Path {
    rule: NoVarySearch,
    /// By the canonical form of equivalent targets: for each percent-encoding of the path, the key
    /// that answers for all of them.
    keys: HashMap<Bytes, Vec<Key>>,
}

impl Equivalents {
    /// The key of a stored page that is equivalent to `key`; it may be `key` itself.
    pub(crate) fn find(&self, key: &Key) -> Option<Key> {
        if !self.any.load(Ordering::Acquire) {
            return None;
        }
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let mut found = known.equivalent(self.hash(key), key);
        found.find(|found| path_of(found) == path_of(key)).cloned()
    }

    /// The keys of stored pages that an invalidation of `key` covers, because they are equivalent
    /// in any percent-encoding. `key` itself may be among them.
    pub(crate) fn find_spelled(&self, key: &Key) -> Vec<Key> {
        if !self.any.load(Ordering::Acquire) {
            return Vec::new();
        }
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        known.equivalent(self.hash(key), key).cloned().collect()
    }

    /// Records that the target of `key` was invalidated with this sequence number of the store.
    /// Returns the keys that [`Equivalents::find_spelled`] finds.
    pub(crate) fn invalidate(&self, key: &Key, sequence: u64) -> Vec<Key> {
        let hash = self.hash(key);
        self.known.write().unwrap_or_else(PoisonError::into_inner).note(hash, sequence);
        self.find_spelled(key)
    }

    /// Records an invalidation of the previous process.
    pub(crate) fn hear(&self, sequence: u64, selector: &Selector) {
        // The store checks objects that it takes over against all other selectors itself.
        let Selector::Target { site, host, target } = selector else { return };
        for https in [false, true] {
            let hash = self.hash(&Key::new(*site, https, host, target.clone()));
            self.known.write().unwrap_or_else(PoisonError::into_inner).note(hash, sequence);
        }
    }

    /// Whether a response under `key` states a rule, and a target of its path was invalidated since
    /// its fetch began. That target may be equivalent.
    pub(crate) fn is_outdated(&self, key: &Key, response: &Fields, begun: u64) -> bool {
        NoVarySearch::of(response).is_some()
            && self.known.read().unwrap_or_else(PoisonError::into_inner).is_newer(self.hash(key), begun)
    }

    /// Learns from the fields of a response that `publish` stores under `key`; its fetch began at
    /// sequence number `begun`. Does neither if an equivalent target may have been invalidated
    /// since then. `remove` is called with each key that is dropped, and must remove its objects
    /// from the store.
    pub(crate) fn learn(
        &self,
        key: &Key,
        response: &Fields,
        begun: u64,
        remove: impl Fn(&Key),
        publish: impl FnOnce(),
    ) {
        let rule = NoVarySearch::of(response);
        if rule.is_none() && !self.any.load(Ordering::Acquire) {
            return publish();
        }
        let hash = self.hash(key);
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let Some(rule) = rule else {
            known.forget(hash, key).iter().for_each(remove);
            return publish();
        };
        if known.is_newer(hash, begun) {
            return;
        }
        // Under the lock, because an invalidation that no longer finds a dropped target must not
        // leave its response in the store.
        known.make_place(hash, &rule, key).iter().for_each(remove);
        publish();
        known.put(hash, rule, key);
        self.any.store(true, Ordering::Release);
    }

    /// Learns from a response of the previous process, which `adopt` stores if it returns true.
    /// Does neither if an equivalent target may have been invalidated, or if it would replace
    /// another response.
    pub(crate) fn learn_returning(&self, returning: &AdoptedEquivalent<'_>, adopt: impl FnOnce() -> bool) {
        let AdoptedEquivalent { key, no_vary_search, checked } = *returning;
        let mut fields = Fields::new();
        fields.push(names::NO_VARY_SEARCH, no_vary_search.clone());
        let Some(rule) = NoVarySearch::of(&fields) else {
            adopt();
            return;
        };
        let hash = self.hash(key);
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if !known.is_newer(hash, checked) && known.has_place(hash, &rule, key) && adopt() {
            known.put(hash, rule, key);
            self.any.store(true, Ordering::Release);
        }
    }

    fn hash(&self, key: &Key) -> u64 {
        self.hasher.hash_one((key.site(), key.is_https(), key.host(), canonical_target(path_of(key))))
    }
}

impl Path {
    fn into_keys(self) -> impl Iterator<Item = Key> {
        self.keys.into_values().flatten()
    }
}

impl KnownPaths {
    /// Whether a target of the path was, or may have been, invalidated after `begun`.
    fn is_newer(&self, hash: u64, begun: u64) -> bool {
        self.invalidated_before.max(self.invalidated.get(&hash).copied().unwrap_or(0)) > begun
    }

    /// Records an invalidation of a target of the path.
    fn note(&mut self, hash: u64, sequence: u64) {
        if self.invalidated.len() >= PATHS_MAX {
            let latest = self.invalidated.drain().map(|(_, sequence)| sequence).max();
            self.invalidated_before = self.invalidated_before.max(latest.unwrap_or(0));
        }
        // Two concurrent invalidations may be recorded in reverse order.
        let noted = self.invalidated.entry(hash).or_default();
        *noted = sequence.max(*noted);
    }

    /// Drops the entries that conflict with a key, and returns their keys. If the rule has changed,
    /// that includes the key itself, because its other variants were stored under the old rule.
    fn make_place(&mut self, hash: u64, rule: &NoVarySearch, key: &Key) -> Vec<Key> {
        let mut forgotten = Vec::new();
        if self.paths.get(&hash).is_some_and(|path| path.rule != *rule) {
            forgotten.extend(self.paths.remove(&hash).into_iter().flat_map(Path::into_keys));
            self.targets -= forgotten.len();
        }
        if self.targets >= TARGETS_MAX {
            forgotten.extend(self.forget_any());
        }
        let path = self.paths.get_mut(&hash);
        let spellings = path.and_then(|path| path.keys.get_mut(&rule.canonical_spelling(key.target())));
        if let Some(spellings) = spellings {
            let before = spellings.len();
            // After two concurrent fetches, another target may answer for the same ones; nothing
            // would find it any more.
            forgotten.extend(spellings.extract_if(.., |other| other != key && is_alike(other, key)));
            if spellings.len() >= SPELLINGS_MAX && !spellings.contains(key) {
                forgotten.push(spellings.remove(0));
            }
            self.targets -= before - spellings.len();
        }
        forgotten
    }

    /// Whether a key can be added without dropping another one.
    fn has_place(&self, hash: u64, rule: &NoVarySearch, key: &Key) -> bool {
        let Some(path) = self.paths.get(&hash) else { return self.targets < TARGETS_MAX };
        let spellings = path.keys.get(&rule.canonical_spelling(key.target()));
        let alike = spellings.and_then(|spellings| spellings.iter().find(|other| is_alike(other, key)));
        let is_room =
            || self.targets < TARGETS_MAX && spellings.is_none_or(|some| some.len() < SPELLINGS_MAX);
        path.rule == *rule && alike.map_or_else(is_room, |other| other == key)
    }

    /// Adds a key for which there is room.
    fn put(&mut self, hash: u64, rule: NoVarySearch, key: &Key) {
        let path = self.paths.entry(hash).or_insert_with(|| Path { rule, keys: HashMap::default() });
        let spellings = path.keys.entry(path.rule.canonical_spelling(key.target())).or_default();
        if !spellings.contains(key) {
            spellings.push(key.detached());
            self.targets += 1;
        }
    }

    /// The keys of the path with this hash that are equivalent to `key` in any percent-encoding.
    fn equivalent<'a>(&'a self, hash: u64, key: &'a Key) -> impl Iterator<Item = &'a Key> {
        let found = self.paths.get(&hash);
        let found = found.and_then(|path| path.keys.get(&path.rule.canonical_spelling(key.target())));
        found.into_iter().flatten().filter(|found| is_same_origin(found, key))
    }

    /// Drops one arbitrary canonical form and returns its keys.
    fn forget_any(&mut self) -> Vec<Key> {
        let found =
            self.paths.iter().find_map(|(&hash, path)| Some((hash, path.keys.keys().next()?.clone())));
        let Some((hash, form)) = found else { return Vec::new() };
        let Some(path) = self.paths.get_mut(&hash) else { return Vec::new() };
        let keys = path.keys.remove(&form).unwrap_or_default();
        if path.keys.is_empty() {
            self.paths.remove(&hash);
        }
        self.targets -= keys.len();
        keys
    }

    /// Drops and returns the key that answers for `key` in its percent-encoding. All its variants
    /// were stored under the rule.
    fn forget(&mut self, hash: u64, key: &Key) -> Vec<Key> {
        let Some(path) = self.paths.get_mut(&hash) else { return Vec::new() };
        let canonical = path.rule.canonical_spelling(key.target());
        let Some(spellings) = path.keys.get_mut(&canonical) else { return Vec::new() };
        let forgotten: Vec<Key> = spellings.extract_if(.., |other| is_alike(other, key)).collect();
        self.targets -= forgotten.len();
        if spellings.is_empty() {
            path.keys.remove(&canonical);
            if path.keys.is_empty() {
                self.paths.remove(&hash);
            }
        }
        forgotten
    }
}

/// Whether two keys with the same canonical form have the same origin and spelling of the path.
fn is_alike(one: &Key, other: &Key) -> bool {
    is_same_origin(one, other) && path_of(one) == path_of(other)
}

fn is_same_origin(one: &Key, other: &Key) -> bool {
    (one.site(), one.is_https(), one.host()) == (other.site(), other.is_https(), other.host())
}

/// The target without its query.
fn path_of(key: &Key) -> &[u8] {
    key.target().split(|&octet| octet == b'?').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{Equivalents, SPELLINGS_MAX, TARGETS_MAX};
    use bytes::Bytes;
    use message::Fields;
    use std::cell::{Cell, RefCell};
    use store::{AdoptedEquivalent, Key, Selector, SiteId};

    fn key(host: &str, target: &str) -> Key {
        Key::new(SiteId(0), false, host.as_bytes(), Bytes::copy_from_slice(target.as_bytes()))
    }

    fn page(target: &str) -> Key {
        key("a.test", target)
    }

    fn stating(rule: &'static str) -> Fields {
        let mut fields = Fields::new();
        fields.push("No-Vary-Search", rule);
        fields
    }

    /// Learns from a response whose fetch begins now, and checks that it is stored.
    fn learn(equivalents: &Equivalents, key: &Key, response: &Fields) {
        let mut stored = false;
        equivalents.learn(key, response, u64::MAX, |_| {}, || stored = true);
        assert!(stored);
    }

    #[test]
    fn target_is_found_by_the_parameters_that_the_rule_keeps() {
        let equivalents = Equivalents::default();
        assert_eq!(equivalents.find(&page("/a?utm=1")), None);
        learn(&equivalents, &page("/a?id=7&utm=1"), &stating("params=(\"utm\")"));
        assert_eq!(equivalents.find(&page("/a?utm=2&id=7")), Some(page("/a?id=7&utm=1")));
        assert_eq!(equivalents.find(&page("/a?id=7")), Some(page("/a?id=7&utm=1")));
        for other in [page("/a?id=8&utm=1"), page("/b?id=7"), key("b.test", "/a?id=7")] {
            assert_eq!(equivalents.find(&other), None, "{other:?}");
        }
    }

    #[test]
    fn response_without_a_rule_ends_the_equivalence() {
        let equivalents = Equivalents::default();
        for target in ["/a?utm=1", "/a?utm=2"] {
            learn(&equivalents, &page("/a?utm=1"), &stating("params=(\"utm\")"));
            learn(&equivalents, &page("/a?id=7"), &Fields::new());
            assert_eq!(
                equivalents.find(&page("/a?utm=3")),
                Some(page("/a?utm=1")),
                "no word about this page"
            );
            let removed = RefCell::new(Vec::new());
            let remove = |key: &Key| removed.borrow_mut().push(key.clone());
            equivalents.learn(&page(target), &Fields::new(), u64::MAX, remove, || {});
            assert_eq!(equivalents.find(&page("/a?utm=3")), None);
            assert_eq!(*removed.borrow(), [page("/a?utm=1")], "its other variants have stated the rule");
        }
    }

    #[test]
    fn changed_rule_removes_pages_stored_under_the_old_one() {
        let equivalents = Equivalents::default();
        learn(&equivalents, &page("/a?utm=1"), &stating("params=(\"utm\")"));
        let removed = RefCell::new(Vec::new());
        let remove = |key: &Key| removed.borrow_mut().push(key.clone());
        for _ in 0..2 {
            equivalents.learn(&page("/a?utm=1"), &stating("params"), u64::MAX, remove, || {});
            assert_eq!(*removed.borrow(), [page("/a?utm=1")], "its other variants have stated another rule");
        }
        assert_eq!(equivalents.known.read().unwrap().targets, 1);
    }

    #[test]
    fn number_of_remembered_targets_is_bounded() {
        let equivalents = Equivalents::default();
        let (rule, forgotten) = (stating("params=(\"utm\")"), RefCell::new(Vec::new()));
        for number in 0..TARGETS_MAX + 9 {
            let target = format!("/{}?id={number}", number % 7);
            let remove = |key: &Key| forgotten.borrow_mut().push(key.clone());
            equivalents.learn(&page(&target), &rule, u64::MAX, remove, || {});
        }
        assert_eq!(equivalents.known.read().unwrap().targets, TARGETS_MAX);
        assert_eq!(forgotten.borrow().len(), 9, "each takes one place");
        for key in forgotten.borrow().iter() {
            assert_eq!(equivalents.find(key), None, "{key:?}");
        }
        assert!(!returns(&equivalents, "/new?utm=1", u64::MAX), "no place is free");
        assert_eq!(equivalents.known.read().unwrap().targets, TARGETS_MAX);
    }

    #[test]
    fn invalidation_of_an_equivalent_target_prevents_storing() {
        let (equivalents, rule) = (Equivalents::default(), stating("params=(\"utm\")"));
        assert_eq!(equivalents.invalidate(&page("/a?utm=2"), 7), []);
        assert!(equivalents.is_outdated(&page("/a?utm=1"), &rule, 6));
        assert!(!equivalents.is_outdated(&page("/a?utm=1"), &Fields::new(), 6), "no rule, no equivalents");
        assert!(!equivalents.is_outdated(&page("/b?utm=1"), &rule, 6));
        let stores = |begun| {
            let mut stored = false;
            equivalents.learn(&page("/a?utm=1"), &rule, begun, |_| {}, || stored = true);
            stored
        };
        assert!(!stores(6) && stores(7));
        assert_eq!(equivalents.invalidate(&page("/a?utm=2"), 8), [page("/a?utm=1")]);
    }

    #[test]
    fn older_of_two_equivalent_pages_is_removed() {
        let (equivalents, rule) = (Equivalents::default(), stating("params=(\"utm\")"));
        learn(&equivalents, &page("/a?utm=1"), &rule);
        let removed = RefCell::new(Vec::new());
        let is_stored = Cell::new(false);
        let remove = |key: &Key| {
            assert!(!is_stored.get(), "removed first");
            removed.borrow_mut().push(key.clone());
        };
        equivalents.learn(&page("/a?utm=2"), &rule, u64::MAX, remove, || is_stored.set(true));
        assert_eq!(*removed.borrow(), [page("/a?utm=1")]);
        assert_eq!(equivalents.invalidate(&page("/a?utm=3"), 1), [page("/a?utm=2")]);
        assert_eq!(equivalents.known.read().unwrap().targets, 1);
    }

    #[test]
    fn earlier_invalidation_recorded_late_changes_nothing() {
        let (equivalents, rule) = (Equivalents::default(), stating("params=(\"utm\")"));
        for sequence in [8, 7] {
            equivalents.invalidate(&page("/a?utm=2"), sequence);
        }
        assert!(equivalents.is_outdated(&page("/a?utm=1"), &rule, 7));
    }

    /// Whether a page of the previous process, checked up to this sequence number, is taken over.
    fn returns(equivalents: &Equivalents, target: &str, checked: u64) -> bool {
        let (key, no_vary_search) = (page(target), Bytes::from_static(b"params=(\"utm\")"));
        let mut adopted = false;
        let returning = AdoptedEquivalent { key: &key, no_vary_search: &no_vary_search, checked };
        equivalents.learn_returning(&returning, || {
            adopted = true;
            true
        });
        assert!(!adopted || equivalents.find(&key) == Some(key));
        adopted
    }

    #[test]
    fn returning_page_is_found_by_equivalent_targets() {
        let equivalents = Equivalents::default();
        assert!(returns(&equivalents, "/a?utm=1", 0));
        assert_eq!(equivalents.find(&page("/a?utm=2")), Some(page("/a?utm=1")));
        assert_eq!(equivalents.invalidate(&page("/%61?utm=2"), 1), [page("/a?utm=1")]);
        assert!(!returns(&equivalents, "/a?utm=1", 0), "invalidated by another target");
        assert!(returns(&equivalents, "/a?utm=1", 1), "another variant");
        assert_eq!(equivalents.known.read().unwrap().targets, 1);
    }

    #[test]
    fn returning_page_obeys_purges_of_the_process_before() {
        let equivalents = Equivalents::default();
        let target = |target: &'static str| Selector::Target {
            site: SiteId(0),
            host: Bytes::from_static(b"a.test"),
            target: Bytes::from_static(target.as_bytes()),
        };
        equivalents.hear(7, &target("/%61?utm=2"));
        equivalents.hear(9, &Selector::Everything { site: None });
        assert!(!returns(&equivalents, "/a?utm=1", 6) && returns(&equivalents, "/a?utm=1", 7));
        assert!(returns(&equivalents, "/b?utm=1", 6));
    }

    #[test]
    fn returning_page_does_not_replace_another() {
        let equivalents = Equivalents::default();
        learn(&equivalents, &page("/a?utm=1"), &stating("params=(\"utm\")"));
        learn(&equivalents, &page("/b"), &stating("params"));
        for target in ["/a?utm=2", "/b"] {
            assert!(!returns(&equivalents, target, u64::MAX), "{target}");
        }
        assert_eq!(equivalents.find(&page("/a?utm=2")), Some(page("/a?utm=1")));
        assert_eq!(equivalents.find(&page("/b?id=1")), Some(page("/b")));
    }

    #[test]
    fn invalidation_finds_all_spellings_and_they_are_bounded() {
        let (equivalents, rule) = (Equivalents::default(), stating("params=(\"utm\")"));
        let spelled = |bits: u32| -> String {
            let letter = |(place, letter): (usize, char)| match bits >> place & 1 {
                1 => format!("%{:02x}", letter as u32),
                _ => letter.to_string(),
            };
            format!("/{}?utm={bits}", "letters".chars().enumerate().map(letter).collect::<String>())
        };
        let count = 2 * SPELLINGS_MAX as u32;
        (0..count).for_each(|bits| learn(&equivalents, &page(&spelled(bits)), &rule));
        let of_last = spelled(count - 1).replace("utm=", "utm=x");
        assert_eq!(equivalents.find(&page(&of_last)), Some(page(&spelled(count - 1))));
        assert_eq!(equivalents.find(&page("/letters?utm=2")), None, "the oldest gave way");
        assert_eq!(equivalents.invalidate(&page("/letters?utm=2"), 1).len(), SPELLINGS_MAX);
        assert_eq!(equivalents.known.read().unwrap().targets, SPELLINGS_MAX);
        (0..count).for_each(|bits| learn(&equivalents, &page(&spelled(bits)), &Fields::new()));
        assert_eq!(equivalents.known.read().unwrap().targets, 0);
    }
}
