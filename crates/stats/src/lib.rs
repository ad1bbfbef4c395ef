//! Numbers about numbers: histograms of times, figures and intervals over runs, seeded random orders.
//!
//! Invariant: everything here is pure; the same input gives the same output, bootstrap included. What the
//! numbers mean is decided elsewhere.

mod histogram;
mod random;
mod sample;

pub use histogram::{Histogram, SIGNIFICANT_DIGITS, VALUE_MAX_US};
pub use random::Random;
pub use sample::{
    Factor, Interval, RUNS_FOR_INTERVAL, factor, mean, median, median_interval, quantile, standard_deviation,
};
