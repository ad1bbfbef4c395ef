//! Seeded pseudo-random numbers for orders and resamples that must be reproducible.
//!
//! Invariant: the numbers depend only on the seed, on every machine and in every version. A
//! recorded seed therefore repeats an experiment's order. They are not suitable for secrets.

/// SplitMix64 (Steele, Lea and Flood 2014): one addition and one finaliser a number, period 2^64.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The sequence for `seed`.
    pub const fn from_seed(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub const fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from 0 to `bound` - 1; 0 if `bound` is 0. The bias is below `bound` in 2^64.
    pub fn below(&mut self, bound: usize) -> usize {
        let product = u128::from(self.next_u64()) * bound as u128;
        (product >> 64) as usize
    }

    /// Shuffles `items`, so that every order is equally likely (Fisher and Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Random;
    use proptest::prelude::{any, prop_assert_eq, proptest};

    #[test]
    fn sequence_agrees_with_the_published_one() {
        let mut random = Random::from_seed(1_234_567);
        let first: Vec<u64> = (0..3).map(|_| random.next_u64()).collect();
        assert_eq!(first, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }

    #[test]
    fn all_orders_of_three_are_equally_frequent() {
        let mut random = Random::from_seed(7);
        let mut seen = std::collections::BTreeMap::new();
        for _ in 0..6000 {
            let mut items = [1, 2, 3];
            random.shuffle(&mut items);
            *seen.entry(items).or_insert(0) += 1;
        }
        assert_eq!(seen.len(), 6);
        assert!(seen.values().all(|count| (850..1150).contains(count)), "{seen:?}");
    }

    proptest! {
        #[test]
        fn shuffle_keeps_items_and_depends_only_on_the_seed(seed in any::<u64>(), length in 0_usize..50) {
            let shuffled = |seed| {
                let mut items: Vec<usize> = (0..length).collect();
                Random::from_seed(seed).shuffle(&mut items);
                items
            };
            let mut sorted = shuffled(seed);
            prop_assert_eq!(&sorted, &shuffled(seed));
            sorted.sort_unstable();
            prop_assert_eq!(sorted, (0..length).collect::<Vec<_>>());
        }
    }
}
