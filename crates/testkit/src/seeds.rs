//! The committed seeds of the fuzz targets. Ordinary tests replay them, so that the targets' checks
//! stay valid without a fuzzer.
//!
//! Invariant: a target without its seeds fails. This module creates no seeds and runs no fuzzer.

use std::path::Path;

/// Least number of seeds of a target. With fewer, part of the corpus was lost.
const SEEDS_MIN: usize = 10;

/// The seeds of a crate's fuzz targets.
#[derive(Clone, Copy, Debug)]
pub struct Seeds(&'static str);

impl Seeds {
    /// The seeds of the crate in `directory`. Tests pass `env!("CARGO_MANIFEST_DIR")`.
    pub const fn of(directory: &'static str) -> Self {
        Self(directory)
    }

    /// Runs `check` on each seed of the target `name`.
    ///
    /// # Panics
    /// If `check` panics, or if there are too few seeds.
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
