//! A histogram of times in microseconds. Percentiles come from a high-dynamic-range histogram in
//! constant memory. Mean and standard deviation are exact, from running integer sums.
//!
//! Invariant: smallest value, largest value, mean and standard deviation are those of the recorded
//! values, even for values above [`VALUE_MAX_US`]. Only percentiles are rounded, by at most 0.1
//! percent.
//!
//! Units other than microseconds and the meaning of the values are up to the caller.

use hdrhistogram::Histogram as Hdr;

/// The largest value that percentiles distinguish: one hour in microseconds. A larger value counts
/// as this one in percentiles, and as itself in every other figure.
pub const VALUE_MAX_US: u64 = 3_600_000_000;

/// The number of significant decimal digits in percentiles.
pub const SIGNIFICANT_DIGITS: u8 = 3;

/// A distribution of values in microseconds.
#[derive(Clone, Debug)]
pub struct Histogram {
    buckets: Hdr<u64>,
    count: u64,
    sum: u128,
    sum_of_squares: u128,
    min: u64,
    max: u64,
}

impl Histogram {
    /// An empty histogram. Its buckets take about 190 kB, independent of the recorded values.
    pub fn new() -> Self {
        #[expect(
            clippy::expect_used,
            reason = "the bounds are constants that the crate accepts: 1 < 2 * 1 <= max"
        )]
        let buckets =
            Hdr::new_with_bounds(1, VALUE_MAX_US, SIGNIFICANT_DIGITS).expect("constant bounds are valid");
        Self { buckets, count: 0, sum: 0, sum_of_squares: 0, min: u64::MAX, max: 0 }
    }

    /// Records one value in microseconds.
    #[inline]
    pub fn record(&mut self, value_us: u64) {
        self.buckets.saturating_record(value_us);
        self.count += 1;
        self.sum = self.sum.saturating_add(u128::from(value_us));
        self.sum_of_squares = self.sum_of_squares.saturating_add(u128::from(value_us) * u128::from(value_us));
        self.min = self.min.min(value_us);
        self.max = self.max.max(value_us);
    }

    /// Adds all values that `other` has recorded.
    pub fn merge(&mut self, other: &Self) {
        // This cannot fail, because both histograms have the same constant bounds. After a failure,
        // `count` would differ from the number of values in the buckets.
        let added = self.buckets.add(&other.buckets);
        debug_assert!(added.is_ok(), "histograms of one kind always add");
        self.count += other.count;
        self.sum = self.sum.saturating_add(other.sum);
        self.sum_of_squares = self.sum_of_squares.saturating_add(other.sum_of_squares);
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// Removes all values and keeps the memory.
    pub fn clear(&mut self) {
        self.buckets.reset();
        self.count = 0;
        self.sum = 0;
        self.sum_of_squares = 0;
        self.min = u64::MAX;
        self.max = 0;
    }

    /// The buckets, for export to other formats.
    pub(crate) fn buckets(&self) -> &Hdr<u64> {
        &self.buckets
    }

    /// The number of recorded values.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Whether no value was recorded.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The sum of all values, in microseconds.
    pub fn sum_us(&self) -> u128 {
        self.sum
    }

    /// The smallest value in microseconds; zero if there is none.
    pub fn min_us(&self) -> u64 {
        if self.is_empty() { 0 } else { self.min }
    }

    /// The largest value in microseconds; zero if there is none.
    pub fn max_us(&self) -> u64 {
        self.max
    }

    /// The arithmetic mean in microseconds; zero if there is no value.
    pub fn mean_us(&self) -> f64 {
        if self.is_empty() { 0.0 } else { self.sum as f64 / self.count as f64 }
    }

    /// The sample standard deviation (divisor n - 1) in microseconds; zero for fewer than two
    /// values.
    pub fn standard_deviation_us(&self) -> f64 {
        if self.count < 2 {
            return 0.0;
        }
        // n * sum(x^2) - sum(x)^2 is exact in integers and never negative. With 2^32 values of an
        // hour each it stays below 2^32 * 2^32 * 2^64 = 2^128. Larger results saturate and do not
        // wrap.
        let count = u128::from(self.count);
        let scaled =
            count.saturating_mul(self.sum_of_squares).saturating_sub(self.sum.saturating_mul(self.sum));
        (scaled as f64 / (self.count as f64 * (self.count - 1) as f64)).sqrt()
    }

    /// The value in microseconds that `percent` (0 to 100) of the values do not exceed; zero if
    /// there is no value. It is rounded up by at most 0.1 percent, and never above the largest
    /// value.
    pub fn percentile_us(&self, percent: f64) -> u64 {
        if self.is_empty() {
            return 0;
        }
        self.buckets.value_at_quantile(percent / 100.0).clamp(self.min, self.max)
    }

    /// The value in microseconds that half of the values do not exceed.
    pub fn median_us(&self) -> u64 {
        self.percentile_us(50.0)
    }
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::{Histogram, VALUE_MAX_US};

    fn of(values: impl IntoIterator<Item = u64>) -> Histogram {
        let mut histogram = Histogram::new();
        for value in values {
            histogram.record(value);
        }
        histogram
    }

    #[test]
    fn empty_histogram_has_only_zeros() {
        let empty = Histogram::new();
        assert!(empty.is_empty());
        assert_eq!((empty.min_us(), empty.max_us(), empty.percentile_us(99.0)), (0, 0, 0));
        assert!(empty.mean_us() == 0.0 && empty.standard_deviation_us() == 0.0);
    }

    #[test]
    fn moments_are_exact_and_use_n_minus_one() {
        let histogram = of([2, 4, 4, 4, 5, 5, 7, 9]);
        assert!((histogram.mean_us() - 5.0).abs() < 1e-12);
        assert!((histogram.standard_deviation_us() - (32.0_f64 / 7.0).sqrt()).abs() < 1e-12);
        assert!(of([17]).standard_deviation_us() == 0.0);
    }

    #[test]
    fn small_spread_on_a_large_mean_is_kept() {
        let histogram = of([3_000_000_001, 3_000_000_002, 3_000_000_003]);
        assert!((histogram.standard_deviation_us() - 1.0).abs() < 1e-9);
        assert!((histogram.mean_us() - 3_000_000_002.0).abs() < 1e-6);
    }

    #[test]
    fn percentiles_are_within_a_thousandth() {
        let histogram = of(1..=100_000);
        for (percent, exact) in [(50.0, 50_000.0), (95.0, 95_000.0), (99.0, 99_000.0)] {
            let found = histogram.percentile_us(percent) as f64;
            assert!((found / exact - 1.0).abs() <= 0.001, "p{percent} is {found}");
        }
        assert_eq!(histogram.percentile_us(0.0), 1);
        assert_eq!(histogram.percentile_us(100.0), 100_000);
    }

    #[test]
    fn cleared_histogram_equals_a_new_one() {
        let mut histogram = of([5, 900]);
        histogram.clear();
        assert!(histogram.is_empty() && histogram.percentile_us(99.0) == 0);
        histogram.record(70);
        assert_eq!(
            (histogram.count(), histogram.min_us(), histogram.max_us(), histogram.median_us()),
            (1, 70, 70, 70)
        );
    }

    #[test]
    fn median_is_a_middle_value_for_odd_and_even_counts() {
        assert_eq!(of([10, 20, 30]).median_us(), 20);
        assert_eq!(of([10, 20, 30, 40]).median_us(), 20);
    }

    #[test]
    fn values_above_the_bound_keep_exact_maximum_and_mean() {
        let histogram = of([VALUE_MAX_US * 3]);
        assert_eq!(histogram.max_us(), VALUE_MAX_US * 3);
        assert!((histogram.mean_us() - (VALUE_MAX_US * 3) as f64).abs() < 1.0);
    }

    #[test]
    fn merging_equals_recording_in_one_place() {
        let mut left = of([1, 5, 900]);
        let right = of([70, 2_000_000]);
        left.merge(&right);
        let together = of([1, 5, 900, 70, 2_000_000]);
        assert_eq!(left.count(), 5);
        assert_eq!((left.min_us(), left.max_us(), left.sum_us()), (1, 2_000_000, together.sum_us()));
        assert_eq!(left.median_us(), together.median_us());
        assert!((left.standard_deviation_us() - together.standard_deviation_us()).abs() < 1e-9);
        left.merge(&Histogram::new());
        assert_eq!(left.min_us(), 1);
    }
}
