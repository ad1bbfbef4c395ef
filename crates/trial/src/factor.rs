//! Computes factors from the measured rounds: for the pages that can be answered from memory, and
//! across all pages.
//!
//! Across all pages, each requested equally often, only the pages from memory become faster, as in
//! Amdahl's law. With the server's time of each page as its weight, the factor is
//!
//! ```text
//!   sum of the times of all pages
//!   ---------------------------------------------------------------------
//!   times of the other pages + times of the pages from memory / factor
//! ```
//!
//! Invariant: the factor across all pages lies between 1 and the factor of the pages from memory,
//! if the latter is at least 1.

use serde::Serialize;

/// A factor with its range over the rounds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct FactorRange {
    /// The median of the rounds.
    pub times: f64,
    /// The lowest round.
    pub low: f64,
    /// The highest round.
    pub high: f64,
}

/// The factor from the first to the second value of each round. `None` without rounds, or if a
/// first value is not above zero.
pub(crate) fn factor(rounds: &[(f64, f64)]) -> Option<FactorRange> {
    if rounds.iter().any(|(before, _)| *before <= 0.0) {
        return None;
    }
    let mut ratios: Vec<f64> = rounds.iter().map(|(before, after)| after / before).collect();
    ratios.sort_unstable_by(f64::total_cmp);
    let (low, high) = (*ratios.first()?, *ratios.last()?);
    Some(FactorRange { times: *ratios.get(ratios.len() / 2)?, low, high })
}

/// The factor across pages, each requested equally often. Each page has the server's time for it,
/// and whether it can be answered from memory, `factor` times as fast.
pub(crate) fn across(pages: &[(f64, bool)], factor: FactorRange) -> FactorRange {
    let sum = |from_memory: bool| -> f64 {
        pages.iter().filter(|(_, is)| *is == from_memory).map(|(time, _)| time).sum()
    };
    let (memory, rest) = (sum(true), sum(false));
    let of = |factor: f64| {
        let after = rest + memory / factor;
        if after > 0.0 { (rest + memory) / after } else { 1.0 }
    };
    FactorRange { times: of(factor.times), low: of(factor.low), high: of(factor.high) }
}

#[cfg(test)]
mod tests {
    use super::{FactorRange, across, factor};
    use proptest::prelude::{prop, prop_assert, proptest};

    fn exactly(times: f64) -> FactorRange {
        FactorRange { times, low: times, high: times }
    }

    #[test]
    fn factor_is_the_median_of_the_rounds_with_their_range() {
        let found = factor(&[(10.0, 100.0), (10.0, 400.0), (10.0, 200.0)]);
        assert_eq!(found, Some(FactorRange { times: 20.0, low: 10.0, high: 40.0 }));
        assert_eq!(factor(&[]), None);
        assert_eq!(factor(&[(0.0, 1.0)]), None);
    }

    #[test]
    fn nine_slow_pages_of_fifty_leave_a_factor_of_five() {
        let pages: Vec<(f64, bool)> = (0..50).map(|page| (20.0, page < 41)).collect();
        let found = across(&pages, exactly(193.0)).times;
        assert!((found - 5.428).abs() < 0.001, "{found}");
        // A slow page weighs as much as its time.
        let found = across(&[(90.0, true), (10.0, false)], exactly(1e9)).times;
        assert!((found - 10.0).abs() < 0.001, "{found}");
    }

    #[test]
    fn without_pages_from_memory_nothing_changes() {
        assert_eq!(across(&[(5.0, false)], exactly(100.0)).times, 1.0);
        assert_eq!(across(&[], exactly(100.0)).times, 1.0);
    }

    proptest! {
        #[test]
        fn factor_across_pages_is_between_one_and_that_of_the_memory(
            pages in prop::collection::vec((0.01_f64..1000.0, prop::bool::ANY), 1..60),
            times in 1.0_f64..10_000.0,
        ) {
            let found = across(&pages, exactly(times)).times;
            prop_assert!((1.0 - 1e-9..=times * (1.0 + 1e-9)).contains(&found), "{found}");
        }
    }
}
