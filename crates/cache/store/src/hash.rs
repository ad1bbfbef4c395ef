//! Hashing of cache keys, once for each look-up, with a seed unique to this process. So a client
//! cannot choose keys that fall into one chain of the index. Hashes never leave the process.

use crate::{Key, SiteId};
use foldhash::SharedSeed;
use foldhash::quality::FoldHasher;
use semantics::canonical_target;
use std::hash::{BuildHasher, Hash, Hasher};

/// Hashes keys.
#[derive(Clone, Debug)]
pub(crate) struct KeyHasher {
    seed: u64,
    shared: SharedSeed,
}

impl KeyHasher {
    pub(crate) const fn new(seed: u64) -> Self {
        Self { seed, shared: SharedSeed::from_u64(seed) }
    }

    /// The hash of a key. All percent-encodings of a target have the same hash, so that a purge of
    /// the target reaches the pages stored under each of them.
    pub(crate) fn hash(&self, key: &Key) -> u64 {
        let mut hasher = FoldHasher::with_seed(self.seed, &self.shared);
        (key.site(), key.is_https(), key.host(), canonical_target(key.target())).hash(&mut hasher);
        hasher.finish()
    }
}

/// Hashes texts that belong to a site, such as tags and hosts.
#[derive(Clone, Debug)]
pub(crate) struct TextHasher {
    seed: u64,
    shared: SharedSeed,
}

impl TextHasher {
    pub(crate) const fn new(seed: u64) -> Self {
        Self { seed, shared: SharedSeed::from_u64(seed) }
    }

    pub(crate) fn hash(&self, site: SiteId, text: &[u8]) -> u64 {
        let mut hasher = FoldHasher::with_seed(self.seed, &self.shared);
        (site, text).hash(&mut hasher);
        hasher.finish()
    }
}

/// For tables whose keys are already hashes, so that they are not hashed again.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PrehashedState;

/// Passes a `u64` through unchanged.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Prehashed(u64);

impl BuildHasher for PrehashedState {
    type Hasher = Prehashed;

    fn build_hasher(&self) -> Prehashed {
        Prehashed::default()
    }
}

impl Hasher for Prehashed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, octets: &[u8]) {
        // Only `write_u64` is used. This fallback is correct for any other input.
        for &octet in octets {
            self.0 = self.0.rotate_left(8) ^ u64::from(octet);
        }
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}
