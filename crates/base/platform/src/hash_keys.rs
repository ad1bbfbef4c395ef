//! Keys of hash tables, so that a client that chooses the entries cannot make them collide.
//!
//! Invariant: the keys are random in each process, except in a simulation, where they follow from
//! its seed. The order of a table's entries is therefore reproducible there.

use std::collections::hash_map::RandomState;
use std::collections::{self, hash_map::DefaultHasher};
use std::hash::{BuildHasher, Hasher as _};

/// A hash table with [`HashKeys`].
pub type HashMap<K, V, S = HashKeys> = collections::HashMap<K, V, S>;

/// A hash set with [`HashKeys`].
pub type HashSet<T, S = HashKeys> = collections::HashSet<T, S>;

/// The keys of one hash table. Each value has other ones; a clone has the same.
#[derive(Clone, Debug)]
pub struct HashKeys(Keys);

#[derive(Clone, Debug)]
enum Keys {
    Random(RandomState),
    Seeded(u64),
}

impl HashKeys {
    /// New keys.
    pub fn new() -> Self {
        Self(threads::simulated_seed().map_or_else(|| Keys::Random(RandomState::new()), Keys::Seeded))
    }
}

impl Default for HashKeys {
    fn default() -> Self {
        Self::new()
    }
}

impl BuildHasher for HashKeys {
    type Hasher = DefaultHasher;

    fn build_hasher(&self) -> DefaultHasher {
        match &self.0 {
            Keys::Random(keys) => keys.build_hasher(),
            Keys::Seeded(seed) => {
                let mut hasher = DefaultHasher::new();
                hasher.write_u64(*seed);
                hasher
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::HashKeys;
    use std::hash::BuildHasher;

    #[test]
    fn keys_differ_between_values_and_not_between_clones() {
        let keys = HashKeys::new();
        let copy = keys.clone();
        assert_eq!(keys.hash_one("a"), copy.hash_one("a"));
        assert_ne!(keys.hash_one("a"), HashKeys::new().hash_one("a"));
    }
}
