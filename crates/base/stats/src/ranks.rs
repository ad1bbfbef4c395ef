//! The Mann-Whitney rank test: whether values of one side tend to be larger than those of the
//! other.
//!
//! Invariant: for small sides the probability is exact, even with ties. It is counted over all ways
//! to assign the values to the two sides, each value with its midrank. Only if there are more than
//! [`EXACT_VALUES_MAX`] values in total, the normal approximation is used, with its corrections for
//! ties and continuity.

use crate::normal;

/// The maximum number of values, both sides together, for the exact count. C(50, 25) assignments
/// still fit exactly into a float, and for more values the approximation is accurate to three
/// digits.
pub const EXACT_VALUES_MAX: usize = 50;

/// The result of the rank test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MannWhitney {
    /// The number of pairs of one value from each side in which the value of `b` is larger. A tie
    /// counts one half.
    pub u: f64,
    /// The two-sided probability of an assignment at least as uneven, if both sides have the same
    /// distribution.
    pub p: f64,
}

/// Tests `a` against `b` (Mann and Whitney 1947); `None` if a side is empty or a value is NaN.
pub fn mann_whitney(a: &[f64], b: &[f64]) -> Option<MannWhitney> {
    if a.is_empty() || b.is_empty() || a.iter().chain(b).any(|value| value.is_nan()) {
        return None;
    }
    let pairs = a.iter().flat_map(|a| b.iter().map(move |b| (a, b)));
    let u = pairs.map(|(a, b)| if b > a { 1.0 } else { f64::from(u8::from(a == b)) / 2.0 }).sum();
    let ranks = doubled_midranks(a, b);
    let p = if ranks.len() <= EXACT_VALUES_MAX {
        exact(&ranks, a.len(), u)
    } else {
        approximate(&ranks, a.len() as f64, b.len() as f64, u)
    };
    Some(MannWhitney { u, p })
}

/// Twice the rank of each value in both sides together, in ascending order. Tied values share the
/// mean of their ranks. Ranks are doubled so that these means are whole numbers.
fn doubled_midranks(a: &[f64], b: &[f64]) -> Vec<usize> {
    let mut values: Vec<f64> = a.iter().chain(b).copied().collect();
    values.sort_unstable_by(f64::total_cmp);
    let mut ranks = Vec::with_capacity(values.len());
    for tied in values.chunk_by(|a, b| a == b) {
        let first = ranks.len() + 1;
        let last = ranks.len() + tied.len();
        ranks.resize(last, first + last);
    }
    ranks
}

/// Counts all ways to assign `ranks` to the two sides. Returns the share whose U is at least as far
/// from the mean of U as `u` is. The first side has `size_a` values.
fn exact(ranks: &[usize], size_a: usize, u: f64) -> f64 {
    let sum: usize = ranks.iter().sum();
    // deals[taken][total]: in how many ways `taken` of the ranks seen so far add up to `total`.
    let mut deals = vec![vec![0.0_f64; sum + 1]; size_a + 1];
    if let Some(none) = deals.first_mut().and_then(|row| row.first_mut()) {
        *none = 1.0;
    }
    for &rank in ranks {
        // Downwards, so that no rank is used twice.
        for taken in (1..=size_a).rev() {
            let (below, above) = deals.split_at_mut(taken);
            let (Some(from), Some(to)) = (below.last(), above.first_mut()) else { continue };
            to.iter_mut().skip(rank).zip(from).for_each(|(to, from)| *to += from);
        }
    }
    let size_b = ranks.len() - size_a;
    let half = (size_a * size_b) as f64 / 2.0;
    let distance = (u - half).abs();
    // The rank sum of `a` is the sum of the ranks within `a` alone, plus the number of pairs that
    // `a` wins.
    let own = (size_a * (size_a + 1)) as f64 / 2.0;
    let row = deals.last().map(Vec::as_slice).unwrap_or_default();
    let far = |total: usize| (total as f64 / 2.0 - own - half).abs() >= distance - 1e-9;
    let uneven: f64 = row.iter().enumerate().filter(|(total, _)| far(*total)).map(|(_, ways)| ways).sum();
    (uneven / row.iter().sum::<f64>()).min(1.0)
}

fn approximate(ranks: &[usize], size_a: f64, size_b: f64, u: f64) -> f64 {
    let total = size_a + size_b;
    let cube = |tied: &[usize]| (tied.len() as f64).powi(3) - tied.len() as f64;
    let ties: f64 = ranks.chunk_by(|a, b| a == b).map(cube).sum();
    let variance = size_a * size_b / 12.0 * (total + 1.0 - ties / (total * (total - 1.0)));
    if variance <= 0.0 {
        return 1.0;
    }
    let distance = ((u - size_a * size_b / 2.0).abs() - 0.5).max(0.0);
    (2.0 * normal::below(-distance / variance.sqrt())).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::{approximate, doubled_midranks, exact, mann_whitney};
    use proptest::prelude::{prop_assert, proptest};

    #[test]
    fn separate_sides_of_five_have_the_smallest_probability() {
        let found = mann_whitney(&[1.0, 2.0, 3.0, 4.0, 5.0], &[6.0, 7.0, 8.0, 9.0, 10.0]).unwrap();
        // 2 of C(10, 5) = 252 assignments.
        assert!((found.p - 2.0 / 252.0).abs() < 1e-12);
        assert_eq!(found.u, 25.0);
        let turned = mann_whitney(&[6.0, 7.0, 8.0, 9.0, 10.0], &[1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
        assert_eq!((turned.u, turned.p), (0.0, found.p));
    }

    #[test]
    fn probabilities_agree_with_published_tables() {
        // For sides of 5 and 5, U = 2 has the two-sided probability 8 / 252, and U = 3 has 14 /
        // 252.
        let two = mann_whitney(&[1.0, 2.0, 3.0, 4.0, 7.0], &[5.0, 6.0, 8.0, 9.0, 10.0]).unwrap();
        assert_eq!(two.u, 23.0);
        assert!((two.p - 8.0 / 252.0).abs() < 1e-12, "{}", two.p);
    }

    #[test]
    fn empty_side_and_nan_have_no_test() {
        assert_eq!(mann_whitney(&[], &[1.0]), None);
        assert_eq!(mann_whitney(&[f64::NAN], &[1.0]), None);
    }

    #[test]
    fn equal_values_show_no_difference() {
        assert_eq!(mann_whitney(&[3.0; 6], &[3.0; 7]).unwrap().p, 1.0);
        assert_eq!(mann_whitney(&[3.0; 40], &[3.0; 40]).unwrap().p, 1.0);
    }

    #[test]
    fn approximation_agrees_with_the_exact_count() {
        let a: Vec<f64> = (0..24).map(|i| f64::from(i * 7 % 24)).collect();
        let b: Vec<f64> = (0..24).map(|i| f64::from(i * 5 % 24) + 5.5).collect();
        let ranks = doubled_midranks(&a, &b);
        let u = mann_whitney(&a, &b).unwrap().u;
        let counted = exact(&ranks, 24, u);
        let close = approximate(&ranks, 24.0, 24.0, u);
        assert!((counted - close).abs() < 0.002, "{counted} {close}");
    }

    /// Counts all assignments one by one.
    fn slow(a: &[f64], b: &[f64]) -> f64 {
        let all: Vec<f64> = a.iter().chain(b).copied().collect();
        let u = |a: &[f64], b: &[f64]| -> f64 {
            let won = |x: f64, y: f64| {
                if y > x {
                    1.0
                } else if y == x {
                    0.5
                } else {
                    0.0
                }
            };
            a.iter().map(|&x| b.iter().map(|&y| won(x, y)).sum::<f64>()).sum()
        };
        let half = (a.len() * b.len()) as f64 / 2.0;
        let distance = (u(a, b) - half).abs();
        let mut uneven = 0;
        let mut deals = 0;
        for mask in 0_u32..1 << all.len() {
            if mask.count_ones() as usize == a.len() {
                let side = |wanted: u32| -> Vec<f64> {
                    (0..all.len()).filter(|i| (mask >> i) & 1 == wanted).map(|i| all[i]).collect()
                };
                deals += 1;
                uneven += u32::from((u(&side(1), &side(0)) - half).abs() >= distance - 1e-9);
            }
        }
        f64::from(uneven) / f64::from(deals)
    }

    proptest! {
        #[test]
        fn count_by_sums_agrees_with_counting_all_assignments(
            a in proptest::collection::vec(0_u8..6, 1..6),
            b in proptest::collection::vec(0_u8..6, 1..6),
        ) {
            let (a, b): (Vec<f64>, Vec<f64>) =
                (a.into_iter().map(f64::from).collect(), b.into_iter().map(f64::from).collect());
            let p = mann_whitney(&a, &b).unwrap().p;
            prop_assert!((p - slow(&a, &b)).abs() < 1e-9, "{p} {}", slow(&a, &b));
        }
    }
}
