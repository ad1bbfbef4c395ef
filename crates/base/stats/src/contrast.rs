//! Comparison of two sets of runs: how far one side lies from the other, with an interval and a
//! test.
//!
//! Invariant: the unit is the run. There is a verdict only if the bootstrap interval and the
//! Mann-Whitney test agree that there is a difference. With fewer than [`RUNS_FOR_INTERVAL`] runs
//! on a side there are only figures.
//!
//! The estimate is that of Hodges and Lehmann (1963): the median ratio (or difference) of all pairs
//! of one run of each side. One run that went wrong moves it little. Its interval is the percentile
//! bootstrap over runs, with tails widened for few runs (Hesterberg 2015, "expanded percentile").
//!
//! The alternatives are worse at five runs a side. A plain percentile or BCa interval of the means
//! covers the truth in 80 to 94 of 100 cases where it promises 95. Bootstrap-t keeps its promise,
//! but fails twice as often if one run is an outlier. The chosen interval covers the truth in 94 to
//! 97 of 100 cases. A test below repeats that count.

use crate::normal;
use crate::random::Random;
use crate::ranks::mann_whitney;
use crate::sample::{Interval, RUNS_FOR_INTERVAL, quantile_of_sorted};

/// The probability below which the Mann-Whitney test says that the sides differ.
pub const SIGNIFICANCE: f64 = 0.05;

/// The number of resamples for one interval.
const RESAMPLES: usize = 10_000;

/// The relation of `b` to `a`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Contrast {
    /// The median, over all pairs of one run of each side, of b / a or b - a.
    pub estimate: f64,
    /// Its interval: of 95%, or of 97.5% for rounds; `None` if there are too few runs.
    pub interval: Option<Interval>,
    /// The two-sided probability of the accompanying test; `None` if there is no interval.
    pub p: Option<f64>,
    /// The estimate that means no difference: 1 for a ratio, 0 for a difference.
    neutral: f64,
    /// The probability below which the test says that the sides differ.
    significance: f64,
}

/// The verdict about two sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContrastVerdict {
    /// There are too few runs for more than figures.
    TooFewRuns,
    /// The runs do not show a difference. There may still be one.
    Nothing,
    /// The values of `b` are larger.
    Larger,
    /// The values of `b` are smaller.
    Smaller,
}

impl Contrast {
    /// A ratio with its interval, the probability of the accompanying test, and the probability
    /// below which the test shows a difference.
    pub(crate) const fn of_ratio(
        estimate: f64,
        interval: Option<Interval>,
        p: Option<f64>,
        significance: f64,
    ) -> Self {
        Self { estimate, interval, p, neutral: 1.0, significance }
    }

    /// The verdict: a difference only if interval and test agree on it.
    pub fn shown(&self) -> ContrastVerdict {
        let (Some(interval), Some(p)) = (self.interval, self.p) else { return ContrastVerdict::TooFewRuns };
        if p >= self.significance {
            ContrastVerdict::Nothing
        } else if interval.low > self.neutral {
            ContrastVerdict::Larger
        } else if interval.high < self.neutral {
            ContrastVerdict::Smaller
        } else {
            ContrastVerdict::Nothing
        }
    }
}

/// The ratio of `b` to `a`. `None` if a side has no runs, or a value that is infinite, NaN or not
/// above zero.
///
/// `seed` determines the resamples: the same runs and seed give the same interval.
pub fn ratio(a: &[f64], b: &[f64], seed: u64) -> Option<Contrast> {
    let positive = a.iter().chain(b).all(|value| *value > 0.0 && value.is_finite());
    positive.then(|| contrast(a, b, seed, 1.0, |a, b| b / a))?
}

/// The difference `b` minus `a`. `None` if a side has no runs or an infinite value or NaN. `seed`
/// is as for [`ratio`].
pub fn difference(a: &[f64], b: &[f64], seed: u64) -> Option<Contrast> {
    let finite = a.iter().chain(b).all(|value| value.is_finite());
    finite.then(|| contrast(a, b, seed, 0.0, |a, b| b - a))?
}

fn contrast(a: &[f64], b: &[f64], seed: u64, neutral: f64, of: fn(f64, f64) -> f64) -> Option<Contrast> {
    let pairs = Pairs::new(a, b, of);
    let estimate = pairs.weighted_median(&vec![1; a.len()], &vec![1; b.len()])?;
    let enough = a.len().min(b.len()) >= RUNS_FOR_INTERVAL;
    let interval = if enough { pairs.interval(&mut Random::from_seed(seed), RESAMPLES) } else { None };
    let p = interval.and_then(|_| mann_whitney(a, b)).map(|test| test.p);
    Some(Contrast { estimate, interval, p, neutral, significance: SIGNIFICANCE })
}

/// All pairs of one value of each side, in ascending order of their ratio or difference. Resampling
/// changes the weight of each value, but never the order of the pairs. The median of a resample is
/// therefore found by one pass over weights.
struct Pairs {
    sorted: Vec<(f64, usize, usize)>,
    size_a: usize,
    size_b: usize,
}

impl Pairs {
    fn new(a: &[f64], b: &[f64], of: fn(f64, f64) -> f64) -> Self {
        let pairs = a
            .iter()
            .enumerate()
            .flat_map(|(i, &a)| b.iter().enumerate().map(move |(j, &b)| (of(a, b), i, j)));
        let mut sorted: Vec<(f64, usize, usize)> = pairs.collect();
        sorted.sort_unstable_by(|(a, ..), (b, ..)| a.total_cmp(b));
        Self { sorted, size_a: a.len(), size_b: b.len() }
    }

    /// The median of all pairs, where each value counts as often as its weight says; `None` if
    /// there are no pairs. The weights of a side add up to its size.
    fn weighted_median(&self, weights_a: &[u32], weights_b: &[u32]) -> Option<f64> {
        let total = (self.size_a * self.size_b) as u64;
        // Ranks from 1: the middle one for an odd total, the two middle ones for an even total.
        let first = total.div_ceil(2);
        let second = total / 2 + 1;
        let mut seen = 0;
        let mut lower = None;
        for &(value, i, j) in &self.sorted {
            let (Some(a), Some(b)) = (weights_a.get(i), weights_b.get(j)) else { continue };
            seen += u64::from(*a) * u64::from(*b);
            if lower.is_none() && seen >= first {
                lower = Some(value);
            }
            if seen >= second {
                return lower.map(|lower| f64::midpoint(lower, value));
            }
        }
        None
    }

    fn interval(&self, random: &mut Random, resamples: usize) -> Option<Interval> {
        let mut weights_a = vec![0; self.size_a];
        let mut weights_b = vec![0; self.size_b];
        let mut estimates = Vec::with_capacity(resamples);
        for _ in 0..resamples {
            draw(&mut weights_a, random);
            draw(&mut weights_b, random);
            estimates.extend(self.weighted_median(&weights_a, &weights_b));
        }
        estimates.sort_unstable_by(f64::total_cmp);
        let tail = tail(self.size_a, self.size_b);
        Some(Interval {
            low: quantile_of_sorted(&estimates, tail)?,
            high: quantile_of_sorted(&estimates, 1.0 - tail)?,
        })
    }
}

/// Draws as many times as there are weights, and counts how often each index was drawn.
fn draw(weights: &mut [u32], random: &mut Random) {
    weights.fill(0);
    for _ in 0..weights.len() {
        let drawn = random.below(weights.len());
        if let Some(weight) = weights.get_mut(drawn) {
            *weight += 1;
        }
    }
}

/// The share of resamples outside each end. Resampling makes spreads too small by the square root
/// of (n - 1) / n. A spread estimated from few runs needs Student's distribution instead of the
/// normal one.
fn tail(runs_a: usize, runs_b: usize) -> f64 {
    let fewer = runs_a.min(runs_b) as f64;
    let degrees = (runs_a + runs_b) as f64 - 2.0;
    normal::below(-(fewer / (fewer - 1.0)).sqrt() * normal::student_975(degrees))
}

#[cfg(test)]
mod tests {
    use super::{ContrastVerdict, Pairs, Random, difference, mann_whitney, ratio};
    use crate::median;
    use proptest::prelude::{prop_assert, proptest};

    const SEED: u64 = 7;

    #[test]
    fn ratio_is_the_median_over_all_pairs() {
        // The ratios of all pairs are 2, 3, 1 and 1.5.
        assert_eq!(ratio(&[1.0, 2.0], &[2.0, 3.0], SEED).unwrap().estimate, 1.75);
        assert_eq!(difference(&[1.0, 2.0], &[2.0, 3.0], SEED).unwrap().estimate, 1.0);
    }

    #[test]
    fn fewer_than_five_runs_give_only_figures() {
        let found = ratio(&[1.0; 4], &[2.0; 50], SEED).unwrap();
        assert_eq!((found.estimate, found.interval, found.p), (2.0, None, None));
        assert_eq!(found.shown(), ContrastVerdict::TooFewRuns);
        assert_ne!(ratio(&[1.0; 5], &[2.0; 5], SEED).unwrap().shown(), ContrastVerdict::TooFewRuns);
    }

    #[test]
    fn distant_sides_differ_in_the_right_direction() {
        let a = [100.0, 101.0, 99.0, 102.0, 98.0];
        let b = [111.0, 109.0, 112.0, 110.0, 108.0];
        assert_eq!(ratio(&a, &b, SEED).unwrap().shown(), ContrastVerdict::Larger);
        assert_eq!(ratio(&b, &a, SEED).unwrap().shown(), ContrastVerdict::Smaller);
        assert_eq!(difference(&b, &a, SEED).unwrap().shown(), ContrastVerdict::Smaller);
        let interval = ratio(&a, &b, SEED).unwrap().interval.unwrap();
        assert!(interval.low > 1.06 && interval.high < 1.15, "{interval:?}");
        assert_eq!(ratio(&a, &a, SEED).unwrap().shown(), ContrastVerdict::Nothing);
    }

    #[test]
    fn invalid_values_have_no_ratio_or_difference() {
        assert_eq!(ratio(&[], &[1.0], SEED), None);
        assert_eq!(ratio(&[0.0; 5], &[1.0; 5], SEED), None);
        assert_eq!(ratio(&[1.0; 5], &[f64::INFINITY; 5], SEED), None);
        assert!(difference(&[0.0; 5], &[0.0; 5], SEED).is_some());
        assert_eq!(difference(&[f64::NAN], &[0.0], SEED), None);
    }

    #[test]
    fn resamples_depend_only_on_the_seed() {
        let a = [1.0, 1.3, 1.1, 1.6, 1.2, 1.4];
        let b = [1.5, 1.2, 1.9, 1.4, 1.7];
        assert_eq!(ratio(&a, &b, 1), ratio(&a, &b, 1));
        assert_ne!(ratio(&a, &b, 1).unwrap().interval, ratio(&a, &b, 2).unwrap().interval);
    }

    #[test]
    fn interval_and_test_must_agree() {
        let interval = |low, high| Some(super::Interval { low, high });
        let of = |interval, p| super::Contrast::of_ratio(1.1, interval, Some(p), 0.05).shown();
        assert_eq!(of(interval(1.01, 1.2), 0.049), ContrastVerdict::Larger);
        assert_eq!(of(interval(1.01, 1.2), 0.05), ContrastVerdict::Nothing);
        assert_eq!(of(interval(0.99, 1.2), 0.001), ContrastVerdict::Nothing);
        assert_eq!(of(interval(0.8, 0.99), 0.001), ContrastVerdict::Smaller);
    }

    /// The distribution of runs in the simulation.
    #[derive(Clone, Copy, Debug)]
    enum RunDistribution {
        Even,
        OneInTenSlow,
        TwoModes,
        WiderAfter,
    }

    /// The sum of eight uniform numbers, centred and scaled: close enough to normal, with the
    /// deviation 1.
    fn bell(random: &mut Random) -> f64 {
        let uniform = |random: &mut Random| random.below(1 << 20) as f64 / f64::from(1 << 20);
        ((0..8).map(|_| uniform(random)).sum::<f64>() - 4.0) * (12.0_f64 / 8.0).sqrt()
    }

    fn run(kind: RunDistribution, is_after: bool, random: &mut Random) -> f64 {
        let noise = bell(random);
        let share = match kind {
            RunDistribution::Even => 0.03 * noise,
            RunDistribution::OneInTenSlow => 0.02 * noise - if random.below(10) == 0 { 0.2 } else { 0.0 },
            RunDistribution::TwoModes => 0.01 * noise + if random.below(2) == 0 { 0.04 } else { -0.04 },
            RunDistribution::WiderAfter => {
                if is_after {
                    0.06 * noise
                } else {
                    0.02 * noise
                }
            }
        };
        1000.0 * (1.0 + share)
    }

    /// Counts over 300 experiments in which `b` is of the same kind as `a`, times `factor`: how
    /// often the interval covers 1, and how often interval and test both exclude 1.
    fn count(kind: RunDistribution, runs_a: usize, runs_b: usize, factor: f64) -> (u32, u32) {
        let mut random = Random::from_seed(runs_a as u64 * 100 + runs_b as u64);
        let mut covered = 0;
        let mut shown = 0;
        for _ in 0..300 {
            let a: Vec<f64> = (0..runs_a).map(|_| run(kind, false, &mut random)).collect();
            let b: Vec<f64> = (0..runs_b).map(|_| factor * run(kind, true, &mut random)).collect();
            let interval = Pairs::new(&a, &b, |a, b| b / a).interval(&mut random, 200).unwrap();
            let covers = interval.low <= 1.0 && 1.0 <= interval.high;
            covered += u32::from(covers);
            shown += u32::from(!covers && mann_whitney(&a, &b).unwrap().p < 0.05);
        }
        (covered, shown)
    }

    #[test]
    fn intervals_cover_the_truth_as_often_as_promised() {
        for kind in [
            RunDistribution::Even,
            RunDistribution::OneInTenSlow,
            RunDistribution::TwoModes,
            RunDistribution::WiderAfter,
        ] {
            for (runs_a, runs_b) in [(5, 5), (5, 8)] {
                let (covered, shown) = count(kind, runs_a, runs_b, 1.0);
                // 95% of 300 is 285, with a deviation of 3.8.
                assert!(covered >= 276, "{kind:?} {runs_a} {runs_b}: {covered} of 300");
                assert!(shown <= 20, "{kind:?} {runs_a} {runs_b}: {shown} differences where there are none");
            }
        }
    }

    #[test]
    fn decrease_by_a_tenth_is_detected() {
        for (kind, least) in [
            (RunDistribution::Even, 280),
            (RunDistribution::TwoModes, 280),
            (RunDistribution::WiderAfter, 215),
        ] {
            let (_, shown) = count(kind, 5, 5, 0.9);
            assert!(shown >= least, "{kind:?}: found {shown} times in 300");
        }
    }

    proptest! {
        #[test]
        fn pass_over_weights_gives_the_median_of_the_resample(
            a in proptest::collection::vec((1_u8..9, 0_u32..3), 1..8),
            b in proptest::collection::vec((1_u8..9, 0_u32..3), 1..8),
        ) {
            let of = |a: f64, b: f64| b / a;
            let values = |side: &[(u8, u32)]| -> Vec<f64> { side.iter().map(|(v, _)| f64::from(*v)).collect() };
            let weights = |side: &[(u8, u32)]| -> Vec<u32> { side.iter().map(|(_, w)| *w).collect() };
            let repeated = |side: &[(u8, u32)]| -> Vec<f64> {
                side.iter().flat_map(|&(v, w)| std::iter::repeat_n(f64::from(v), w as usize)).collect()
            };
            let drawn_a = repeated(&a);
            let drawn_b = repeated(&b);
            let all: Vec<f64> =
                drawn_a.iter().flat_map(|&a| drawn_b.iter().map(move |&b| of(a, b))).collect();
            let mut pairs = Pairs::new(&values(&a), &values(&b), of);
            pairs.size_a = drawn_a.len();
            pairs.size_b = drawn_b.len();
            let found = pairs.weighted_median(&weights(&a), &weights(&b));
            let is_same = match (found, median(&all)) {
                (Some(found), Some(slow)) => (found - slow).abs() < 1e-12,
                (found, slow) => found == slow,
            };
            prop_assert!(is_same, "{found:?} {:?}", median(&all));
        }
    }
}
