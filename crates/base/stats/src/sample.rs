//! Figures over runs: centre, spread, intervals and factors of a small set of numbers.
//!
//! Invariant: the unit is the run, never the request. Requests of one run share host, time and
//! order, so pooling them would make every difference look certain. An interval is given only for
//! [`RUNS_FOR_INTERVAL`] runs or more. With fewer runs there are figures without a verdict.

use crate::random::Random;
use serde::{Deserialize, Serialize};

/// The minimum number of runs for which an interval is computed.
pub const RUNS_FOR_INTERVAL: usize = 5;
/// The number of resamples for one interval.
const RESAMPLES: usize = 10_000;
/// The seed of the resamples, so that the same runs always give the same interval.
const RESAMPLE_SEED: u64 = 0x9e37;

/// A range that covers the true median with 95% confidence, as far as the runs allow.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

/// The arithmetic mean; `None` if there are no values.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// The sample standard deviation (divisor n - 1); `None` for fewer than two values.
pub fn standard_deviation(values: &[f64]) -> Option<f64> {
    if values.len() < 2 {
        return None;
    }
    let centre = mean(values)?;
    let squares: f64 = values.iter().map(|value| (value - centre).powi(2)).sum();
    Some((squares / (values.len() - 1) as f64).sqrt())
}

/// The median: the middle value, or the mean of the two middle values; `None` if there are no
/// values.
pub fn median(values: &[f64]) -> Option<f64> {
    quantile(values, 0.5)
}

/// The value below which the share `q` (0 to 1) of the values lies, interpolated linearly between
/// neighbours (type 7 of Hyndman and Fan 1996); `None` if there are no values.
pub fn quantile(values: &[f64], q: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    quantile_of_sorted(&sorted, q)
}

pub(crate) fn quantile_of_sorted(sorted: &[f64], q: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let position = q.clamp(0.0, 1.0) * last as f64;
    let below = position.floor() as usize;
    let low = sorted.get(below)?;
    let high = sorted.get((below + 1).min(last))?;
    Some(low + (high - low) * position.fract())
}

/// The 95% interval of the median over runs; `None` for fewer than [`RUNS_FOR_INTERVAL`] runs.
///
/// It is a percentile bootstrap: whole runs are resampled 10,000 times with a fixed seed.
pub fn median_interval(runs: &[f64]) -> Option<Interval> {
    if runs.len() < RUNS_FOR_INTERVAL {
        return None;
    }
    let mut random = Random::from_seed(RESAMPLE_SEED);
    let mut resample = Vec::with_capacity(runs.len());
    let mut medians = Vec::with_capacity(RESAMPLES);
    for _ in 0..RESAMPLES {
        resample.clear();
        resample.extend((0..runs.len()).filter_map(|_| runs.get(random.below(runs.len()))));
        medians.extend(median(&resample));
    }
    medians.sort_unstable_by(f64::total_cmp);
    Some(Interval { low: quantile_of_sorted(&medians, 0.025)?, high: quantile_of_sorted(&medians, 0.975)? })
}

/// How many times as large `after` is as `before`, over the rounds that measured both.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Factor {
    /// The ratio of the medians.
    pub times: f64,
    /// The 95% interval of the median ratio within a round; `None` for fewer than
    /// [`RUNS_FOR_INTERVAL`] rounds.
    pub interval: Option<Interval>,
}

/// The factor from `before` to `after`. Each pair is `(before, after)` of the same round, so both
/// share the machine's state. `None` if there is no pair, or if the median of `before` is not above
/// zero.
pub fn factor(pairs: &[(f64, f64)]) -> Option<Factor> {
    let (before, after): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
    let base = median(&before).filter(|base| *base > 0.0)?;
    let ratios: Vec<f64> =
        pairs.iter().filter(|(before, _)| *before > 0.0).map(|(before, after)| after / before).collect();
    Some(Factor { times: median(&after)? / base, interval: median_interval(&ratios) })
}

#[cfg(test)]
mod tests {
    use super::{Interval, factor, mean, median, median_interval, quantile, standard_deviation};
    use proptest::prelude::{prop_assert, proptest};

    #[test]
    fn known_figures() {
        let values = [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0];
        assert_eq!(mean(&values), Some(5.0));
        assert_eq!(median(&values), Some(4.5));
        // The squares of the deviations sum to 32, so the deviation is the square root of 32 / 7.
        assert!((standard_deviation(&values).unwrap() - 2.138_089_935_299_395).abs() < 1e-12);
        assert_eq!(quantile(&[1.0, 2.0, 3.0], 0.75), Some(2.5));
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
    }

    #[test]
    fn empty_sample_has_no_figures() {
        assert_eq!((mean(&[]), median(&[]), quantile(&[], 0.9)), (None, None, None));
        assert_eq!(standard_deviation(&[1.0]), None);
        assert_eq!(factor(&[]), None);
        assert_eq!(factor(&[(0.0, 5.0)]), None);
    }

    #[test]
    fn interval_needs_five_runs() {
        assert_eq!(median_interval(&[1.0, 2.0, 3.0, 4.0]), None);
        assert_eq!(factor(&[(1.0, 2.0); 4]).unwrap().interval, None);
        assert!(median_interval(&[1.0, 2.0, 3.0, 4.0, 5.0]).is_some());
    }

    /// Computed by hand. With 5 runs, a resample's median is the smallest value with the
    /// probability sum over k = 3..5 of C(5,k) 0.2^k 0.8^(5-k) = 5.8%. This is more than the 2.5%
    /// of each tail, so the interval is the whole range. With 9 distinct runs, it is the smallest
    /// value with 0.14%, and one of the two smallest with 2.8%. The interval therefore goes from
    /// the second to the eighth value.
    #[test]
    fn interval_agrees_with_a_computation_by_hand() {
        assert_eq!(median_interval(&[5.0, 1.0, 4.0, 2.0, 3.0]), Some(Interval { low: 1.0, high: 5.0 }));
        let nine: Vec<f64> = (1..=9).map(f64::from).collect();
        assert_eq!(median_interval(&nine), Some(Interval { low: 2.0, high: 8.0 }));
    }

    #[test]
    fn factor_is_paired_within_rounds() {
        // The machine runs at half speed in every other round. The factor is three in all rounds.
        let pairs = [(10.0, 30.0), (5.0, 15.0), (10.0, 30.0), (5.0, 15.0), (10.0, 30.0)];
        let factor = factor(&pairs).unwrap();
        assert_eq!(factor.times, 3.0);
        assert_eq!(factor.interval, Some(Interval { low: 3.0, high: 3.0 }));
    }

    proptest! {
        #[test]
        fn figures_stay_within_the_values(values in proptest::collection::vec(-1e9_f64..1e9, 5..12)) {
            let low = values.iter().copied().fold(f64::INFINITY, f64::min);
            let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let interval = median_interval(&values).unwrap();
            let middle = median(&values).unwrap();
            prop_assert!(low <= interval.low && interval.low <= interval.high && interval.high <= high);
            prop_assert!(interval.low <= middle && middle <= interval.high);
        }
    }
}
