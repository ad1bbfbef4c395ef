//! Invalidated groups of responses (RFC 9875).
//!
//! An invalidation is a number in one order; a flight takes the number that is current when it begins. A stored member
//! of a group is invalid if the group was invalidated after its fetch began.
//!
//! Invariant: what was invalidated never becomes valid again. When too many groups are known, all are forgotten in
//! favour of one number below which every member of any group is invalid.

use bytes::Bytes;
use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock};
use store::{Key, Object};

/// Groups of which it is known when they were invalidated.
const GROUPS_MAX: usize = 65_536;

/// When groups were last invalidated. Groups are kept as hashes of origin and name: two with one hash only means
/// that one is fetched again without need.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    sequence: AtomicU64,
    hasher: RandomState,
    known: RwLock<Known>,
}

#[derive(Debug, Default)]
struct Known {
    invalidated: HashMap<u64, u64>,
    /// Members whose fetch began before this are invalid whatever their groups.
    floor: u64,
}

impl Groups {
    /// The number for a fetch that begins now.
    pub(crate) fn now(&self) -> u64 {
        self.sequence.load(Ordering::SeqCst)
    }

    /// Invalidates groups of the origin that `key` belongs to.
    pub(crate) fn invalidate(&self, key: &Key, groups: impl IntoIterator<Item = impl AsRef<[u8]>>) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        for group in groups {
            let sequence = self.sequence.fetch_add(1, Ordering::SeqCst) + 1;
            if known.invalidated.len() >= GROUPS_MAX {
                known.invalidated.clear();
                known.floor = sequence;
            }
            known.invalidated.insert(self.hash(key, group.as_ref()), sequence);
        }
    }

    /// Whether a group of the stored object has been invalidated since its fetch began.
    pub(crate) fn invalidates(&self, key: &Key, object: &Object) -> bool {
        self.invalidated_since(key, object.groups(), object.begun())
    }

    /// Whether one of these groups of a response under `key` has been invalidated since its fetch began.
    pub(crate) fn invalidated_since(&self, key: &Key, groups: &[Bytes], begun: u64) -> bool {
        if groups.is_empty() {
            return false;
        }
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let newer = |sequence: &u64| *sequence > begun;
        newer(&known.floor)
            || groups.iter().any(|group| known.invalidated.get(&self.hash(key, group)).is_some_and(newer))
    }

    /// Groups belong to an origin: scheme, host and port, here also the site.
    fn hash(&self, key: &Key, group: &[u8]) -> u64 {
        self.hasher.hash_one((key.site(), key.is_https(), key.host(), group))
    }
}

#[cfg(test)]
mod tests {
    use super::{GROUPS_MAX, Groups};
    use bytes::Bytes;
    use message::{ResponseHead, Status};
    use semantics::{Freshness, Moment};
    use std::time::Duration;
    use store::{Body, Key, Object, SiteId};

    fn key(host: &str) -> Key {
        Key::new(SiteId(0), false, host.as_bytes(), Bytes::from_static(b"/"))
    }

    fn member(group: &'static str, begun: u64) -> Object {
        let freshness = Freshness::lasting(Duration::from_secs(9), Moment::default());
        Object::new(&ResponseHead::new(Status::OK), b"", Body::copy_of(b"x"), freshness)
            .in_groups(&[Bytes::from_static(group.as_bytes())], begun)
    }

    #[test]
    fn a_group_is_invalid_for_fetches_that_began_before() {
        let groups = Groups::default();
        let before = groups.now();
        groups.invalidate(&key("a.test"), ["news"]);
        let after = groups.now();
        assert!(groups.invalidates(&key("a.test"), &member("news", before)));
        assert!(!groups.invalidates(&key("a.test"), &member("news", after)));
        assert!(!groups.invalidates(&key("a.test"), &member("blog", before)));
        assert!(!groups.invalidates(&key("b.test"), &member("news", before)), "another origin");
    }

    #[test]
    fn forgotten_groups_stay_invalid() {
        let groups = Groups::default();
        let old = member("first", groups.now());
        groups.invalidate(&key("a.test"), ["first"]);
        groups.invalidate(&key("a.test"), (0..GROUPS_MAX).map(|number| number.to_string()));
        assert!(groups.invalidates(&key("a.test"), &old));
        assert!(!groups.invalidates(&key("a.test"), &member("first", groups.now())));
    }
}
