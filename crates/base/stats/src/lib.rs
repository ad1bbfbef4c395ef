//! Statistics for measurements: histograms of times, figures and intervals over runs, comparisons
//! of two sets of runs, and seeded random orders.
//!
//! Invariant: everything here is pure. The same input gives the same output, including bootstrap
//! results. The meaning of the numbers is decided by the callers.

mod contrast;
mod hdr_log;
mod histogram;
mod normal;
mod pairs;
mod random;
mod ranks;
mod sample;

pub use contrast::{Contrast, ContrastVerdict, SIGNIFICANCE, difference, ratio};
pub use hdr_log::{LogLine, hdr_log};
pub use histogram::{Histogram, SIGNIFICANT_DIGITS, VALUE_MAX_US};
pub use pairs::{ROUNDS_FOR_INTERVAL, paired_ratio};
pub use random::Random;
pub use ranks::{EXACT_VALUES_MAX, MannWhitney, mann_whitney};
pub use sample::{
    Factor, Interval, RUNS_FOR_INTERVAL, factor, mean, median, median_interval, quantile, standard_deviation,
};
