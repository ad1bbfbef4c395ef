//! Comparison of two sides that were measured in rounds, with one run of each side in a round.
//!
//! Invariant: the unit is the round. A change between rounds that affects both runs of a round
//! alike does not affect any figure. Estimate, interval and test all rest on Wilcoxon's signed
//! ranks, so they cannot contradict each other. If all values differ, the interval excludes 1
//! exactly when the test shows a difference.
//!
//! The estimate is that of Hodges and Lehmann (1963) for one sample. It is the median of the means
//! of any two logarithms of ratios, including each with itself. The interval lies between two of
//! these means, as far inside as the exact distribution of Wilcoxon's statistic allows for 97.5%.
//! Both assume that the logarithms are distributed symmetrically. If there is no difference, the
//! random order within each round ensures that.
//!
//! An exact test errs as often as its level says. At 5% it would report a difference between a
//! server and itself 5 times in 100 on average. Two methods of one kind cannot correct each other,
//! so the level is 2.5%.

use crate::contrast::Contrast;
use crate::sample::Interval;

/// The probability below which rounds show a difference.
const SIGNIFICANCE: f64 = 0.025;

/// The minimum number of rounds for an interval. With fewer rounds no outcome has a probability
/// below 0.025: six that all agree have 1/32.
pub const ROUNDS_FOR_INTERVAL: usize = 7;

/// How many times as large the second value of each pair is as the first. `None` if there are no
/// pairs, or if a value is not finite or not above zero. Interval and test are present only from
/// [`ROUNDS_FOR_INTERVAL`] pairs on.
pub fn paired_ratio(pairs: &[(f64, f64)]) -> Option<Contrast> {
    let is_positive = |value: f64| value > 0.0 && value.is_finite();
    if pairs.is_empty() || !pairs.iter().all(|(a, b)| is_positive(*a) && is_positive(*b)) {
        return None;
    }
    let logarithms: Vec<f64> = pairs.iter().map(|(a, b)| (b / a).ln()).collect();
    let means = means_of_two(&logarithms);
    let middle = crate::median(&means)?;
    let is_enough = pairs.len() >= ROUNDS_FOR_INTERVAL;
    let interval = is_enough.then(|| interval(&means, pairs.len())).flatten();
    let p = interval.map(|_| signed_ranks(&logarithms));
    Some(Contrast::of_ratio(middle.exp(), interval, p, SIGNIFICANCE))
}

/// The means of any two values, including each with itself, in ascending order.
fn means_of_two(values: &[f64]) -> Vec<f64> {
    let of = |(place, first): (usize, &f64)| {
        let first = *first;
        values.iter().skip(place).map(move |second| f64::midpoint(first, *second)).collect::<Vec<_>>()
    };
    let mut means: Vec<f64> = values.iter().enumerate().flat_map(of).collect();
    means.sort_unstable_by(f64::total_cmp);
    means
}

fn interval(means: &[f64], rounds: usize) -> Option<Interval> {
    let ranks: Vec<usize> = (1..=rounds).collect();
    let mut below = 0.0;
    let is_outside = |chance: &f64| {
        below += *chance;
        below <= SIGNIFICANCE / 2.0
    };
    // The number of means outside the interval on either side. Entry k of the distribution is for
    // k means outside, so this is the index of the last entry taken.
    let outside = distribution(&ranks).into_iter().take_while(is_outside).count().checked_sub(1)?;
    let low = means.get(outside)?;
    let high = means.get(means.len().checked_sub(outside + 1)?)?;
    Some(Interval { low: low.exp(), high: high.exp() })
}

/// The exact two-sided probability that random signs give rank sums at least as uneven as these.
/// Equal values share their ranks, and zeros are skipped.
fn signed_ranks(values: &[f64]) -> f64 {
    let mut values: Vec<f64> = values.iter().copied().filter(|value| *value != 0.0).collect();
    values.sort_unstable_by(|a, b| a.abs().total_cmp(&b.abs()));
    let doubled = doubled_ranks(&values);
    let sum = |is_negative: bool| -> usize {
        let signed = values.iter().zip(&doubled).filter(|(value, _)| (**value < 0.0) == is_negative);
        signed.map(|(_, rank)| rank).sum()
    };
    let lesser = sum(true).min(sum(false));
    let tail: f64 = distribution(&doubled).iter().take(lesser + 1).sum();
    (2.0 * tail).min(1.0)
}

/// Twice the rank of each value, by ascending absolute value. Equal values share the mean of their
/// ranks. Ranks are doubled so that these means are whole numbers.
fn doubled_ranks(ascending: &[f64]) -> Vec<usize> {
    ascending
        .chunk_by(|a, b| a.abs().total_cmp(&b.abs()).is_eq())
        .scan(0, |passed, equal| {
            let first = *passed + 1;
            let last = *passed + equal.len();
            *passed = last;
            Some(std::iter::repeat_n(first + last, equal.len()))
        })
        .flatten()
        .collect()
}

/// For each sum, the probability that randomly chosen ranks add up to it.
fn distribution(ranks: &[usize]) -> Vec<f64> {
    let mut chances = vec![1.0];
    for &rank in ranks {
        let mut next = vec![0.0; chances.len() + rank];
        for (sum, chance) in chances.iter().enumerate() {
            for place in [sum, sum + rank] {
                if let Some(next) = next.get_mut(place) {
                    *next += chance / 2.0;
                }
            }
        }
        chances = next;
    }
    chances
}

#[cfg(test)]
mod tests {
    use super::{ROUNDS_FOR_INTERVAL, distribution, paired_ratio, signed_ranks};
    use crate::contrast::ContrastVerdict;
    use crate::random::Random;
    use proptest::prelude::{prop_assert, prop_assert_eq, proptest};

    #[test]
    fn probabilities_agree_with_published_tables() {
        let tail = |rounds: usize, sum: usize| -> f64 {
            distribution(&(1..=rounds).collect::<Vec<_>>()).iter().take(sum + 1).sum()
        };
        // Critical values of Wilcoxon's signed-rank test, two-sided. At 0.05: 0 for 6, 2 for 7, 8
        // for 10, 52 for 20. At 0.02: 0 for 7, 5 for 10, 43 for 20.
        for (rounds, critical, one_side) in [
            (6, 0, 0.025),
            (7, 2, 0.025),
            (10, 8, 0.025),
            (20, 52, 0.025),
            (7, 0, 0.01),
            (10, 5, 0.01),
            (20, 43, 0.01),
        ] {
            assert!(tail(rounds, critical) <= one_side && tail(rounds, critical + 1) > one_side, "{rounds}");
        }
        assert!((distribution(&[1, 2, 3]).iter().sum::<f64>() - 1.0).abs() < 1e-12);
    }

    #[test]
    fn seven_agreeing_rounds_show_a_difference_and_six_do_not() {
        let round = |n: usize| (100.0 + n as f64, (100.0 + n as f64) * (1.1 + n as f64 / 1000.0));
        let seven = paired_ratio(&(0..7).map(round).collect::<Vec<_>>()).unwrap();
        assert_eq!(seven.shown(), ContrastVerdict::Larger);
        assert!((seven.p.unwrap() - 2.0 / 128.0).abs() < 1e-12);
        assert!((seven.estimate - 1.103).abs() < 1e-3, "{}", seven.estimate);
        let interval = seven.interval.unwrap();
        assert!((interval.low - 1.1).abs() < 1e-9 && (interval.high - 1.106).abs() < 1e-9, "{interval:?}");
        let six = paired_ratio(&(0..6).map(round).collect::<Vec<_>>()).unwrap();
        assert_eq!((six.shown(), six.interval), (ContrastVerdict::TooFewRuns, None));
        assert_eq!(ROUNDS_FOR_INTERVAL, 7);
    }

    #[test]
    fn changes_between_rounds_do_not_count() {
        // The machine slows to about a third over the rounds. One side is always about 2% slower
        // than the other.
        let pairs: Vec<(f64, f64)> = (0..10)
            .map(|round| {
                let speed = 3000.0 / (1.0 + f64::from(round) / 5.0);
                (speed, speed * (0.98 + f64::from(round % 3) / 1000.0))
            })
            .collect();
        assert_eq!(paired_ratio(&pairs).unwrap().shown(), ContrastVerdict::Smaller);
        let (a, b): (Vec<f64>, Vec<f64>) = pairs.into_iter().unzip();
        assert_eq!(crate::ratio(&a, &b, 1).unwrap().shown(), ContrastVerdict::Nothing);
    }

    #[test]
    fn equal_values_and_zeros_have_their_probability() {
        assert!((signed_ranks(&[0.0; 8]) - 1.0).abs() < 1e-12);
        // Four values of one size, three of them positive: 5 of the 16 sign patterns give a sum of
        // 2.5 or less, doubled for two sides.
        assert!((signed_ranks(&[1.0, 1.0, 1.0, -1.0]) - 10.0 / 16.0).abs() < 1e-12);
        assert_eq!(paired_ratio(&[(7.0, 7.0); 9]).unwrap().shown(), ContrastVerdict::Nothing);
        assert!(paired_ratio(&[]).is_none() && paired_ratio(&[(1.0, 0.0)]).is_none());
    }

    #[test]
    fn interval_covers_the_truth_as_often_as_it_says() {
        let mut random = Random::from_seed(7);
        for rounds in [7, 8, 10] {
            let mut covered = 0;
            for _ in 0..1000 {
                let pairs: Vec<(f64, f64)> = (0..rounds)
                    .map(|_| {
                        // Both sides have noise of the same skewed kind: sometimes a run takes half
                        // as long again.
                        let mut run = || {
                            1.0 + random.below(100) as f64 / 1000.0
                                + f64::from(u8::from(random.below(10) == 0)) / 2.0
                        };
                        (run(), run() * 1.07)
                    })
                    .collect();
                let interval = paired_ratio(&pairs).unwrap().interval.unwrap();
                covered += usize::from((interval.low..=interval.high).contains(&1.07));
            }
            assert!(covered >= 965, "{covered} of 1000 with {rounds} rounds");
        }
    }

    proptest! {
        #[test]
        fn interval_and_test_agree(values in proptest::collection::vec(1_u32..1_000_000, 14..60)) {
            let pairs: Vec<(f64, f64)> =
                values.chunks_exact(2).map(|pair| (f64::from(pair[0]), f64::from(pair[1]))).collect();
            let contrast = paired_ratio(&pairs).unwrap();
            let interval = contrast.interval.unwrap();
            let p = contrast.p.unwrap();
            prop_assert!(interval.low <= contrast.estimate && contrast.estimate <= interval.high);
            let turned: Vec<(f64, f64)> = pairs.iter().map(|(a, b)| (*b, *a)).collect();
            let turned = paired_ratio(&turned).unwrap();
            prop_assert!((turned.estimate * contrast.estimate - 1.0).abs() < 1e-9);
            prop_assert!((turned.p.unwrap() - p).abs() < 1e-9);
            // Equal sizes are so rare in these values that they can be ignored.
            let mut sizes: Vec<u64> = pairs.iter().map(|(a, b)| (b / a).ln().abs().to_bits()).collect();
            sizes.sort_unstable();
            sizes.dedup();
            if sizes.len() == pairs.len() {
                let excludes = interval.low > 1.0 || interval.high < 1.0;
                prop_assert_eq!(excludes, p <= 0.025);
            }
        }
    }
}
