//! Targets that name the same page although their query strings differ, as `No-Vary-Search` of its responses says.
//!
//! Invariant: a target stands for another only while the newest stored response for that other states the rule
//! under which the two are equivalent. What is forgotten costs a fetch, nothing else; the memory is bounded.

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

    /// Learns from the fields of a response that is stored under `key`.
    pub(crate) fn learn(&self, key: &Key, response: &Fields) {
        let rule = NoVarySearch::of(response);
        if rule.is_none() && !self.any.load(Ordering::Acquire) {
            return;
        }
        let hash = self.hash(key);
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let Some(rule) = rule else {
            known.forget(hash, key);
            return;
        };
        if known.paths.get(&hash).is_some_and(|path| path.rule != rule) {
            let removed = known.paths.remove(&hash);
            known.targets -= removed.map_or(0, |path| path.keys.len());
        }
        if known.targets >= TARGETS_MAX {
            *known = Known::default();
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

    #[test]
    fn a_target_is_found_by_what_counts_of_its_query() {
        let equivalents = Equivalents::default();
        assert_eq!(equivalents.find(&page("/a?utm=1")), None);
        equivalents.learn(&page("/a?id=7&utm=1"), &stating("params=(\"utm\")"));
        assert_eq!(equivalents.find(&page("/a?utm=2&id=7")), Some(page("/a?id=7&utm=1")));
        assert_eq!(equivalents.find(&page("/a?id=7")), Some(page("/a?id=7&utm=1")));
        for other in [page("/a?id=8&utm=1"), page("/b?id=7"), key("b.test", "/a?id=7")] {
            assert_eq!(equivalents.find(&other), None, "{other:?}");
        }
    }

    #[test]
    fn a_response_that_states_no_rule_ends_it_for_its_target() {
        let equivalents = Equivalents::default();
        equivalents.learn(&page("/a?utm=1"), &stating("params"));
        equivalents.learn(&page("/a?utm=2"), &Fields::new());
        assert_eq!(equivalents.find(&page("/a?utm=3")), Some(page("/a?utm=1")));
        equivalents.learn(&page("/a?utm=1"), &Fields::new());
        assert_eq!(equivalents.find(&page("/a?utm=3")), None);
    }

    #[test]
    fn the_memory_is_bounded() {
        let equivalents = Equivalents::default();
        for number in 0..=TARGETS_MAX {
            equivalents.learn(&page(&format!("/a?id={number}")), &stating("params=(\"utm\")"));
        }
        assert!(equivalents.known.read().unwrap().targets <= TARGETS_MAX);
        assert_eq!(equivalents.find(&page("/a?id=0&utm=1")), None);
    }
}
