//! Targets that name the same page although their query strings differ, as `No-Vary-Search` of its responses says.
//!
//! Invariant: a target stands for another only while the newest stored response for either of them states the rule
//! under which the two are equivalent. Which targets are, is known only when a response comes: so a response that
//! states a rule is not stored if any target of its path was invalidated since its fetch began. The memory is bounded,
//! and what it forgets is no longer stored either: no invalidation of an equivalent target would find it. Each variant
//! of a page may state another rule; `asked_target` asks the one that is to be delivered.
//!
//! What an earlier process stored obeys both: it is learned before it is taken over from the disk, and not taken over
//! if the journal has a later invalidation of any target of its path. It never takes the place of another response.
//!
//! A visitor's target stands for others only in its own percent-encoding of the path, as in the store. An invalidation
//! means all percent-encodings, so one entry has the keys of all of them.

use crate::shared::Shared;
use crate::sync::{AtomicBool, PoisonError, RwLock};
use bytes::Bytes;
use message::{Fields, ResponseHead, names};
use semantics::{NoVarySearch, canonical_target};
use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::atomic::Ordering;
use store::{Key, Returning, Selector};

/// Targets that are remembered; a further one takes the place of another.
const TARGETS_MAX: usize = 65_536;

/// Percent-encodings of the path of one target that are remembered; a further one takes the place of the oldest.
const SPELLINGS_MAX: usize = 32;

/// Paths of which it is remembered when a target was invalidated; when there are more, all count as having been.
const PATHS_MAX: usize = 65_536;

/// What is known of equivalent targets.
#[derive(Debug, Default)]
pub(crate) struct Equivalents {
    /// Whether there is anything to find; most sites never say anything of the kind.
    any: AtomicBool,
    hasher: RandomState,
    known: RwLock<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// By origin and path in its canonical spelling, as a hash. Two with one hash are told apart by what the keys in it
    /// say.
    paths: HashMap<u64, Path>,
    targets: usize,
    /// The number of the last invalidation of a target, by origin and path.
    invalidated: HashMap<u64, u64>,
    /// The least number that any path may have been invalidated by, of those that were forgotten.
    invalidated_before: u64,
}

#[derive(Debug)]
struct Path {
    rule: NoVarySearch,
    /// By the form that all spellings of equivalent targets share: for each spelling of the path a key that stands for
    /// all equivalent ones.
    keys: HashMap<Bytes, Vec<Key>>,
}

impl Equivalents {
    /// The key under which a page is stored that is equivalent to the one of `key`, which may be `key` itself.
    pub(crate) fn find(&self, key: &Key) -> Option<Key> {
        if !self.any.load(Ordering::Acquire) {
            return None;
        }
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let mut found = known.equivalent(self.hash(key), key);
        found.find(|found| path_of(found) == path_of(key)).cloned()
    }

    /// The keys under which pages are stored that an invalidation of `key` reaches, because they are equivalent to it
    /// in one of its percent-encodings; `key` itself may be among them.
    pub(crate) fn find_spelled(&self, key: &Key) -> Vec<Key> {
        if !self.any.load(Ordering::Acquire) {
            return Vec::new();
        }
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        known.equivalent(self.hash(key), key).cloned().collect()
    }

    /// Takes down that the target of `key` was invalidated, as number `sequence` of the store's order; gives the keys
    /// that [`Equivalents::find_spelled`] finds.
    pub(crate) fn invalidate(&self, key: &Key, sequence: u64) -> Vec<Key> {
        let hash = self.hash(key);
        self.known.write().unwrap_or_else(PoisonError::into_inner).note(hash, sequence);
        self.find_spelled(key)
    }

    /// Takes down an invalidation of the process before.
    pub(crate) fn hear(&self, sequence: u64, selector: &Selector) {
        // The store compares responses that return with every other selector by itself.
        let Selector::Target { site, host, target } = selector else { return };
        for https in [false, true] {
            let hash = self.hash(&Key::new(*site, https, host, target.clone()));
            self.known.write().unwrap_or_else(PoisonError::into_inner).note(hash, sequence);
        }
    }

    /// Whether a response under `key` states a rule, and a target of its path was invalidated since its fetch began: it
    /// may be equivalent.
    pub(crate) fn is_outdated(&self, key: &Key, response: &Fields, begun: u64) -> bool {
        NoVarySearch::of(response).is_some()
            && self.known.read().unwrap_or_else(PoisonError::into_inner).is_newer(self.hash(key), begun)
    }

    /// Learns from the fields of a response that `publish` stores under `key`, whose fetch began at `begun`; does
    /// neither if that would bring back what an equivalent target's invalidation meant. `remove` is called with each
    /// key that is forgotten for it, and removes what is stored under that key.
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
        // Under the lock: an invalidation that finds a target forgotten must not leave its response in the store.
        known.make_place(hash, &rule, key).iter().for_each(remove);
        publish();
        known.put(hash, rule, key);
        self.any.store(true, Ordering::Release);
    }

    /// Learns from a response of the process before, which `adopt` stores if it says true; does neither if that would
    /// bring back what an equivalent target's invalidation meant, or take the place of another response.
    pub(crate) fn learn_returning(&self, returning: &Returning<'_>, adopt: impl FnOnce() -> bool) {
        let Returning { key, no_vary_search, checked } = *returning;
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

impl Shared {
    /// Learns from a response that `publish` stores, as [`Equivalents::learn`] says. An error of the origin that states
    /// no rule says nothing of the rule of its page: the page's variants remain stored, and invalidations find the
    /// error too.
    pub(crate) fn learn_equivalents(
        &self,
        key: &Key,
        response: &ResponseHead,
        begun: u64,
        publish: impl FnOnce(),
    ) {
        if response.status.is_server_error() && NoVarySearch::of(&response.fields).is_none() {
            return publish();
        }
        let remove = |forgotten: &Key| {
            self.store.remove(forgotten);
            // Its file in the static tree is found by no invalidation of an equivalent target either.
            if let Some(site) = self.sites.iter().find(|site| site.id == forgotten.site()) {
                self.static_tree.withdraw(site, forgotten);
            }
        };
        self.equivalents.learn(key, &response.fields, begun, remove, publish);
    }
}

impl Path {
    fn into_keys(self) -> impl Iterator<Item = Key> {
        self.keys.into_values().flatten()
    }
}

impl Known {
    /// Whether a target of the path was, or may have been, invalidated after `begun`.
    fn is_newer(&self, hash: u64, begun: u64) -> bool {
        self.invalidated_before.max(self.invalidated.get(&hash).copied().unwrap_or(0)) > begun
    }

    /// Notes an invalidation of a target of the path.
    fn note(&mut self, hash: u64, sequence: u64) {
        if self.invalidated.len() >= PATHS_MAX {
            let latest = self.invalidated.drain().map(|(_, sequence)| sequence).max();
            self.invalidated_before = self.invalidated_before.max(latest.unwrap_or(0));
        }
        // Of two that are noted at the same time, the later may come first.
        let noted = self.invalidated.entry(hash).or_default();
        *noted = sequence.max(*noted);
    }

    /// Forgets what stands in the way of a key; gives what was forgotten. That is the key itself, too, if the rule has
    /// changed, because its other variants were stored under the rule before.
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
            // Another target stands for the same ones, after two fetches at the same time: nothing would find it.
            forgotten.extend(spellings.extract_if(.., |other| other != key && is_alike(other, key)));
            if spellings.len() >= SPELLINGS_MAX && !spellings.contains(key) {
                forgotten.push(spellings.remove(0));
            }
            self.targets -= before - spellings.len();
        }
        forgotten
    }

    /// Whether a key can be put without anything being forgotten for it.
    fn has_place(&self, hash: u64, rule: &NoVarySearch, key: &Key) -> bool {
        let Some(path) = self.paths.get(&hash) else { return self.targets < TARGETS_MAX };
        let spellings = path.keys.get(&rule.canonical_spelling(key.target()));
        let alike = spellings.and_then(|spellings| spellings.iter().find(|other| is_alike(other, key)));
        let is_room =
            || self.targets < TARGETS_MAX && spellings.is_none_or(|some| some.len() < SPELLINGS_MAX);
        path.rule == *rule && alike.map_or_else(is_room, |other| other == key)
    }

    /// Remembers a key that has a place.
    fn put(&mut self, hash: u64, rule: NoVarySearch, key: &Key) {
        let path = self.paths.entry(hash).or_insert_with(|| Path { rule, keys: HashMap::new() });
        let spellings = path.keys.entry(path.rule.canonical_spelling(key.target())).or_default();
        if !spellings.contains(key) {
            spellings.push(key.detached());
            self.targets += 1;
        }
    }

    /// The keys of the path with this hash that are equivalent to `key` in one of its percent-encodings.
    fn equivalent<'a>(&'a self, hash: u64, key: &'a Key) -> impl Iterator<Item = &'a Key> {
        let found = self.paths.get(&hash);
        let found = found.and_then(|path| path.keys.get(&path.rule.canonical_spelling(key.target())));
        found.into_iter().flatten().filter(|found| is_same_origin(found, key))
    }

    /// Forgets one form, whichever comes first; gives its keys.
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

    /// Forgets the key that stands for a key, in its percent-encoding; gives it, as all variants under it were stored
    /// under the rule.
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

/// Whether two keys of one form stand for the same targets: they have one spelling of the path.
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
    use store::{Key, Returning, Selector, SiteId};

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

    /// Learns from a response whose fetch begins now and is stored.
    fn learn(equivalents: &Equivalents, key: &Key, response: &Fields) {
        let mut stored = false;
        equivalents.learn(key, response, u64::MAX, |_| {}, || stored = true);
        assert!(stored);
    }

    #[test]
    fn a_target_is_found_by_what_counts_of_its_query() {
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
    fn response_that_states_no_rule_ends_it_for_equivalents() {
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
    fn rule_that_changes_removes_what_it_was_stated_for() {
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
    fn the_memory_is_bounded() {
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
    fn what_an_equivalent_targets_invalidation_meant_does_not_come_back() {
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
    fn of_two_equivalent_pages_the_older_is_removed() {
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
    fn late_note_of_an_earlier_invalidation_changes_nothing() {
        let (equivalents, rule) = (Equivalents::default(), stating("params=(\"utm\")"));
        for sequence in [8, 7] {
            equivalents.invalidate(&page("/a?utm=2"), sequence);
        }
        assert!(equivalents.is_outdated(&page("/a?utm=1"), &rule, 7));
    }

    /// Whether a page of the process before is taken over, that was checked up to this number.
    fn returns(equivalents: &Equivalents, target: &str, checked: u64) -> bool {
        let (key, no_vary_search) = (page(target), Bytes::from_static(b"params=(\"utm\")"));
        let mut adopted = false;
        let returning = Returning { key: &key, no_vary_search: &no_vary_search, checked };
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
    fn returning_page_takes_no_place_of_another() {
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
    fn spellings_are_found_by_invalidations_and_bounded() {
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
