//! Targets that name the same page although their query strings differ, as `No-Vary-Search` of its responses says.
//!
//! Invariant: a target stands for another only while the newest stored response for that other states the rule
//! under which the two are equivalent. Which targets are, is known only when a response comes: so a response that
//! states a rule is not stored if any target of its path was invalidated since its fetch began. The memory is bounded,
//! and what it forgets is no longer stored either: no invalidation of an equivalent target would find it.
//!
//! A visitor's target stands for others only in its own percent-encoding of the path, as in the store. An invalidation
//! means all percent-encodings, so one entry has the keys of all of them.

use crate::sync::{AtomicBool, PoisonError, RwLock};
use bytes::Bytes;
use message::Fields;
use semantics::{NoVarySearch, canonical_target};
use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::atomic::Ordering;
use store::Key;

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
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if known.invalidated.len() >= PATHS_MAX {
            known.invalidated.clear();
            known.invalidated_before = sequence;
        }
        known.invalidated.insert(self.hash(key), sequence);
        drop(known);
        self.find_spelled(key)
    }

    /// Whether a response under `key` states a rule, and a target of its path was invalidated since its fetch began: it
    /// may be equivalent.
    pub(crate) fn is_outdated(&self, key: &Key, response: &Fields, begun: u64) -> bool {
        NoVarySearch::of(response).is_some()
            && self.known.read().unwrap_or_else(PoisonError::into_inner).is_newer(self.hash(key), begun)
    }

    /// Learns from the fields of a response that `publish` stores under `key`, whose fetch began at `begun`; does
    /// neither if that would bring back what an equivalent target's invalidation meant. Gives the keys that are
    /// forgotten for it: the caller removes from the store what stands under them.
    #[must_use]
    pub(crate) fn learn(&self, key: &Key, response: &Fields, begun: u64, publish: impl FnOnce()) -> Vec<Key> {
        let rule = NoVarySearch::of(response);
        if rule.is_none() && !self.any.load(Ordering::Acquire) {
            publish();
            return Vec::new();
        }
        let hash = self.hash(key);
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let Some(rule) = rule else {
            known.forget(hash, key);
            publish();
            return Vec::new();
        };
        if known.is_newer(hash, begun) {
            return Vec::new();
        }
        publish();
        let mut forgotten = Vec::new();
        if known.paths.get(&hash).is_some_and(|path| path.rule != rule) {
            forgotten.extend(known.paths.remove(&hash).into_iter().flat_map(Path::into_keys));
            known.targets -= forgotten.len();
        }
        if known.targets >= TARGETS_MAX {
            forgotten.extend(known.forget_any());
        }
        let path = known.paths.entry(hash).or_insert_with(|| Path { rule, keys: HashMap::new() });
        let spellings = path.keys.entry(path.rule.canonical_spelling(key.target())).or_default();
        let before = spellings.len();
        spellings.retain(|other| !is_alike(other, key));
        if spellings.len() >= SPELLINGS_MAX {
            forgotten.push(spellings.remove(0));
        }
        spellings.push(key.detached());
        let after = spellings.len();
        known.targets = known.targets + after - before;
        self.any.store(true, Ordering::Release);
        forgotten.retain(|other| other != key);
        forgotten
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

impl Known {
    /// Whether a target of the path was, or may have been, invalidated after `begun`.
    fn is_newer(&self, hash: u64, begun: u64) -> bool {
        self.invalidated_before.max(self.invalidated.get(&hash).copied().unwrap_or(0)) > begun
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

    fn forget(&mut self, hash: u64, key: &Key) {
        let Some(path) = self.paths.get_mut(&hash) else { return };
        let canonical = path.rule.canonical_spelling(key.target());
        let Some(spellings) = path.keys.get_mut(&canonical) else { return };
        let before = spellings.len();
        spellings.retain(|other| other != key);
        self.targets -= before - spellings.len();
        if spellings.is_empty() {
            path.keys.remove(&canonical);
            if path.keys.is_empty() {
                self.paths.remove(&hash);
            }
        }
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
    use store::{Key, SiteId};

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
        drop(equivalents.learn(key, response, u64::MAX, || stored = true));
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
    fn a_response_that_states_no_rule_ends_it_for_its_target() {
        let equivalents = Equivalents::default();
        learn(&equivalents, &page("/a?utm=1"), &stating("params"));
        learn(&equivalents, &page("/a?utm=2"), &Fields::new());
        assert_eq!(equivalents.find(&page("/a?utm=3")), Some(page("/a?utm=1")));
        learn(&equivalents, &page("/a?utm=1"), &Fields::new());
        assert_eq!(equivalents.find(&page("/a?utm=3")), None);
    }

    #[test]
    fn the_memory_is_bounded() {
        let equivalents = Equivalents::default();
        let (rule, mut forgotten) = (stating("params=(\"utm\")"), Vec::new());
        for number in 0..TARGETS_MAX + 9 {
            let target = format!("/{}?id={number}", number % 7);
            forgotten.extend(equivalents.learn(&page(&target), &rule, u64::MAX, || {}));
        }
        assert_eq!(equivalents.known.read().unwrap().targets, TARGETS_MAX);
        assert_eq!(forgotten.len(), 9, "each takes one place");
        for key in &forgotten {
            assert_eq!(equivalents.find(key), None, "{key:?}");
        }
    }

    #[test]
    fn what_an_equivalent_targets_invalidation_meant_does_not_come_back() {
        let (equivalents, rule) = (Equivalents::default(), stating("params=(\"utm\")"));
        assert_eq!(equivalents.invalidate(&page("/a?utm=2"), 7), []);
        assert!(equivalents.is_outdated(&page("/a?utm=1"), &rule, 6));
        assert!(!equivalents.is_outdated(&page("/a?utm=1"), &Fields::new(), 6), "no rule, no equivalents");
        assert!(!equivalents.is_outdated(&page("/b?utm=1"), &rule, 6));
        drop(equivalents.learn(&page("/a?utm=1"), &rule, 6, || panic!("stored what was invalidated")));
        let mut stored = false;
        drop(equivalents.learn(&page("/a?utm=1"), &rule, 7, || stored = true));
        assert!(stored);
        assert_eq!(equivalents.invalidate(&page("/a?utm=2"), 8), [page("/a?utm=1")]);
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
