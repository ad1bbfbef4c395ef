//! A deterministic generator of choices: the same seed makes the same site on every machine and in
//! every release. Not suitable for secrets.

/// SplitMix64: a counter and a mixing function.
#[derive(Clone, Debug)]
pub(super) struct Choices(u64);

impl Choices {
    pub(super) const fn from_seed(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub(super) const fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from 0 to `end` (exclusive); 0 if `end` is 0. For the small ranges used here, the
    /// bias of the remainder is below one in 2^40.
    pub(super) const fn below(&mut self, end: usize) -> usize {
        if end == 0 { 0 } else { (self.bits() % end as u64) as usize }
    }

    /// A number from `low` to `high`, both inclusive.
    pub(super) const fn between(&mut self, low: i64, high: i64) -> i64 {
        low + self.below((high - low + 1) as usize) as i64
    }

    /// True with a probability of `per_cent` in a hundred.
    pub(super) const fn chance(&mut self, per_cent: usize) -> bool {
        self.below(100) < per_cent
    }

    /// A random element of `items`.
    ///
    /// # Panics
    /// If `items` is empty. The generator's tables are constant and never empty.
    pub(super) const fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        let index = self.below(items.len());
        #[expect(
            clippy::indexing_slicing,
            reason = "below() stays under the length; empty material is our fault"
        )]
        &items[index]
    }
}

#[cfg(test)]
mod tests {
    use super::Choices;

    #[test]
    fn same_seed_makes_the_same_choices() {
        let draw = |seed| {
            let mut choices = Choices::from_seed(seed);
            [choices.bits(), choices.bits(), choices.bits()]
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
        // Published values of SplitMix64 from seed 1234567.
        assert_eq!(draw(1_234_567)[..2], [6_457_827_717_110_365_317, 3_203_168_211_198_807_973]);
    }

    #[test]
    fn ranges_include_both_ends() {
        let mut choices = Choices::from_seed(1);
        let seen: std::collections::BTreeSet<i64> = (0..200).map(|_| choices.between(-1, 2)).collect();
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), [-1, 0, 1, 2]);
    }
}
