//! The committed seeds of the fuzz targets, for ordinary tests that keep the targets' checks true without a fuzzer.
//!
//! Invariant: a target whose seeds are gone fails. It makes no seeds and runs no fuzzer.

use std::path::Path;

/// The fewest seeds that a target has: fewer are a corpus that got lost.
const SEEDS_MIN: usize = 10;

/// The seeds of a crate's fuzz targets.
#[derive(Clone, Copy, Debug)]
pub struct Seeds(&'static str);

impl Seeds {
    /// Those of the crate in this directory: `env!("CARGO_MANIFEST_DIR")` of its tests.
    pub const fn of(directory: &'static str) -> Self {
        Self(directory)
    }

    /// Runs `check` on each seed of the target `name`.
    ///
    /// # Panics
    /// As `check` does, and if there are too few seeds.
    pub fn replay(self, name: &str, check: fn(&[u8])) {
        let seeds = Path::new(self.0).join("fuzz/corpus").join(name);
        let mut count = 0;
        for seed in std::fs::read_dir(&seeds).expect("the corpus is beside the crate") {
            check(&std::fs::read(seed.expect("readable").path()).expect("readable"));
            count += 1;
        }
        assert!(count >= SEEDS_MIN, "{count} seeds in {}", seeds.display());
    }
}
