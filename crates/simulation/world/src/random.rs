//! Random decisions that follow from a seed.
//!
//! Invariant: the same seed and the same calls give the same decisions, on every machine. Each part
//! of a simulation has its own generator, made by [`Random::fork`]. Removing one part of a plan
//! therefore does not change the decisions of the others.

use std::time::Duration;

/// The increment of SplitMix64 (Steele, Lea and Flood, 2014).
const INCREMENT: u64 = 0x9e37_79b9_7f4a_7c15;

/// A generator of random numbers (SplitMix64). It is fast and well spread, but not secret.
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

impl Random {
    /// A generator whose numbers follow from `seed`.
    pub const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// A generator for a part of the simulation. It depends on the seed of this one and on `label`,
    /// but not on the numbers that this one has given.
    #[must_use]
    pub fn fork(seed: u64, label: &str, number: u64) -> Self {
        let mut state = mix(seed ^ mix(number.wrapping_add(INCREMENT)));
        for octet in label.bytes() {
            state = mix(state ^ u64::from(octet).wrapping_mul(INCREMENT));
        }
        Self { state }
    }

    /// The next number.
    pub const fn number(&mut self) -> u64 {
        self.state = self.state.wrapping_add(INCREMENT);
        mix(self.state)
    }

    /// A number below `end`; 0 if `end` is 0.
    pub const fn below(&mut self, end: u64) -> u64 {
        if end == 0 { 0 } else { self.number() % end }
    }

    /// A number from `first` to `last`, both included.
    pub const fn between(&mut self, first: u64, last: u64) -> u64 {
        first + self.below(last.saturating_sub(first).saturating_add(1))
    }

    /// True in `percent` of 100 cases.
    pub const fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// One of `choices`; `None` if there are none.
    pub fn choice<'a, T>(&mut self, choices: &'a [T]) -> Option<&'a T> {
        choices.get(self.below(choices.len() as u64) as usize)
    }

    /// A duration from `first` to `last` in whole milliseconds.
    pub fn millis(&mut self, first: u64, last: u64) -> Duration {
        Duration::from_millis(self.between(first, last))
    }
}

pub(crate) const fn mix(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

/// A number that depends on every byte.
pub(crate) fn digest(octets: &[u8]) -> u64 {
    let words =
        octets.chunks(8).map(|word| word.iter().fold(0, |word, octet| (word << 8) | u64::from(*octet)));
    words.fold(octets.len() as u64, |hash, word| mix(hash ^ word))
}

#[cfg(test)]
mod tests {
    use super::Random;

    #[test]
    fn forks_are_reproducible_and_differ_by_label_and_number() {
        let first = |label, number| Random::fork(7, label, number).number();
        assert_eq!(first("visitor", 1), first("visitor", 1));
        let all = [first("visitor", 1), first("visitor", 2), first("origin", 1), first("origin", 2)];
        let different: std::collections::BTreeSet<_> = all.into_iter().collect();
        assert_eq!(different.len(), 4);
    }

    #[test]
    fn numbers_stay_within_their_bounds() {
        let mut random = Random::new(1);
        let mut seen = [0; 4];
        for _ in 0..1000 {
            let number = random.between(3, 6);
            assert!((3..=6).contains(&number));
            seen[number as usize - 3] += 1;
        }
        assert!(seen.iter().all(|count| *count > 100), "{seen:?}");
        assert_eq!(random.below(0), 0);
        assert!(random.choice::<u8>(&[]).is_none());
    }
}
