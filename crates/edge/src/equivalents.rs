//! Targets that name the same page although their query strings differ, as `No-Vary-Search` of its responses says.
//!
//! Invariant: a target stands for another only while the newest stored response for that other states the rule
//! under which the two are equivalent. Which targets are, is known only when a response comes: so a response that
//! states a rule is not stored if any target of its path was invalidated since its fetch began. What is forgotten
//! costs a fetch, nothing else; the memory is bounded.

use crate::sync::{AtomicBool, PoisonError, RwLock};
use bytes::Bytes;
use message::Fields;
use semantics::NoVarySearch;
use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::atomic::Ordering;
use store::Key;

/// Targets that are remembered; when there are more, all are forgotten.
const TARGETS_MAX: usize = 65_536;

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
    /// By origin and path, as a hash. Two with one hash are told apart by what the keys in it say.
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
    /// Canonical targets with a key that stands for all equivalent ones.
    keys: HashMap<Bytes, Key>,
}

impl Equivalents {
    /// The key under which a page is stored that is equivalent to the one of `key`, which may be `key` itself.
    pub(crate) fn find(&self, key: &Key) -> Option<Key> {
        if !self.any.load(Ordering::Acquire) {
            return None;
        }
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let path = known.paths.get(&self.hash(key))?;
        let found = path.keys.get(&path.rule.canonical(key.target()))?;
        let same_origin = (found.site(), found.is_https(), found.host())
            == (key.site(), key.is_https(), key.host())
            && path_of(found) == path_of(key);
        same_origin.then(|| found.clone())
    }

    /// Takes down that the target of `key` was invalidated, as number `sequence` of the store's order; gives the key
    /// under which an equivalent page is stored, which may be `key` itself.
    pub(crate) fn invalidate(&self, key: &Key, sequence: u64) -> Option<Key> {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if known.invalidated.len() >= PATHS_MAX {
            known.invalidated.clear();
            known.invalidated_before = sequence;
        }
        known.invalidated.insert(self.hash(key), sequence);
        drop(known);
        self.find(key)
    }

    /// Whether a response under `key` states a rule, and a target of its path was invalidated since its fetch began: it
    /// may be equivalent.
    pub(crate) fn is_outdated(&self, key: &Key, response: &Fields, begun: u64) -> bool {
        NoVarySearch::of(response).is_some()
            && self.known.read().unwrap_or_else(PoisonError::into_inner).is_newer(self.hash(key), begun)
    }

    /// Learns from the fields of a response that `publish` stores under `key`, whose fetch began at `begun`; does
    /// neither if that would bring back what an equivalent target's invalidation meant.
    pub(crate) fn learn(&self, key: &Key, response: &Fields, begun: u64, publish: impl FnOnce()) {
        let rule = NoVarySearch::of(response);
        if rule.is_none() && !self.any.load(Ordering::Acquire) {
            return publish();
        }
        let hash = self.hash(key);
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let Some(rule) = rule else {
            known.forget(hash, key);
            return publish();
        };
        if known.is_newer(hash, begun) {
            return;
        }
        publish();
        if known.paths.get(&hash).is_some_and(|path| path.rule != rule) {
            let removed = known.paths.remove(&hash);
            known.targets -= removed.map_or(0, |path| path.keys.len());
        }
        if known.targets >= TARGETS_MAX {
            known.paths.clear();
            known.targets = 0;
        }
        let path = known.paths.entry(hash).or_insert_with(|| Path { rule, keys: HashMap::new() });
        let canonical = path.rule.canonical(key.target());
        let added = path.keys.insert(canonical, key.detached()).is_none();
        known.targets += usize::from(added);
        self.any.store(true, Ordering::Release);
    }

    fn hash(&self, key: &Key) -> u64 {
        self.hasher.hash_one((key.site(), key.is_https(), key.host(), path_of(key)))
    }
}

impl Known {
    /// Whether a target of the path was, or may have been, invalidated after `begun`.
    fn is_newer(&self, hash: u64, begun: u64) -> bool {
        self.invalidated_before.max(self.invalidated.get(&hash).copied().unwrap_or(0)) > begun
    }

    fn forget(&mut self, hash: u64, key: &Key) {
        let Some(path) = self.paths.get_mut(&hash) else { return };
        let canonical = path.rule.canonical(key.target());
        if path.keys.get(&canonical) == Some(key) {
            path.keys.remove(&canonical);
            self.targets -= 1;
        }
    }
}

/// The target without its query.
fn path_of(key: &Key) -> &[u8] {
    key.target().split(|&octet| octet == b'?').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{Equivalents, TARGETS_MAX};
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
        equivalents.learn(key, response, u64::MAX, || stored = true);
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
        for number in 0..=TARGETS_MAX {
            learn(&equivalents, &page(&format!("/a?id={number}")), &stating("params=(\"utm\")"));
        }
        assert!(equivalents.known.read().unwrap().targets <= TARGETS_MAX);
        assert_eq!(equivalents.find(&page("/a?id=0&utm=1")), None);
    }

    #[test]
    fn what_an_equivalent_targets_invalidation_meant_does_not_come_back() {
        let (equivalents, rule) = (Equivalents::default(), stating("params=(\"utm\")"));
        assert_eq!(equivalents.invalidate(&page("/a?utm=2"), 7), None);
        assert!(equivalents.is_outdated(&page("/a?utm=1"), &rule, 6));
        assert!(!equivalents.is_outdated(&page("/a?utm=1"), &Fields::new(), 6), "no rule, no equivalents");
        assert!(!equivalents.is_outdated(&page("/b?utm=1"), &rule, 6));
        equivalents.learn(&page("/a?utm=1"), &rule, 6, || panic!("stored what was invalidated"));
        let mut stored = false;
        equivalents.learn(&page("/a?utm=1"), &rule, 7, || stored = true);
        assert!(stored);
        assert_eq!(equivalents.invalidate(&page("/a?utm=2"), 8), Some(page("/a?utm=1")));
    }
}
