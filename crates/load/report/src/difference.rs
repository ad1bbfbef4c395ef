//! Compares the throughput of two cells and decides whether the difference exceeds chance. Pure
//! functions.
//!
//! Invariant: a factor counts as a step only if it exceeds all noise that the ladder itself shows.
//! This is the noise of cells that measured the same thing, and that of the rounds. docs/results.md
//! states the same rule. If the load generator was the limit of a cell, its throughput is a lower
//! bound: nothing is compared with it, and its own factor is a lower bound too.

use crate::results::CellRecord;
use crate::summary::{CellSummary, RoundsFigure, cell_result, factor};
use stats::Interval;
use std::collections::BTreeMap;

/// With one round, the spread is unknown and factors up to this one are noise. With two to four
/// rounds, a larger factor is a step if the ranges of the rounds do not overlap.
pub const ONE_ROUND_TIMES: f64 = 1.5;
/// With one round, a factor within this many standard errors of the two mean response times is
/// noise.
const ONE_ROUND_ERRORS: f64 = 4.0;
/// With two to four rounds and a factor up to [`ONE_ROUND_TIMES`], each range is widened at both
/// ends by this share of its length.
const SPAN_WIDENED: f64 = 0.5;

/// Throughput of a cell relative to another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gain {
    /// The factor.
    pub times: f64,
    /// 95% confidence interval over the rounds; `None` for fewer than five rounds.
    pub interval: Option<Interval>,
    /// Whether the difference exceeds the noise.
    pub is_step: bool,
    /// Whether the load generator was the limit of the later cell, so the true factor may be
    /// larger.
    pub is_lower_bound: bool,
}

/// Noise between cells that measured the same thing, by number of users and keep-alive.
///
/// Invariant: the noise at one number of users says nothing about another. Rounds with one user may
/// differ by half on a machine on which rounds with 25 users differ by one percent.
#[derive(Clone, Debug, Default)]
pub(crate) struct CellNoise(BTreeMap<(u64, bool), f64>);

impl CellNoise {
    /// Keeps the largest of the factors for each kind of cell.
    pub(crate) fn new(factors: impl Iterator<Item = ((u64, bool), f64)>) -> Self {
        let mut largest = BTreeMap::new();
        for (kind, factor) in factors {
            let of = largest.entry(kind).or_insert(1.0_f64);
            *of = of.max(factor);
        }
        Self(largest)
    }

    /// Chance may make two cells differ by up to this factor: the larger one of their kinds. It is
    /// 1 if no cells of these kinds measured the same thing.
    fn between(&self, cells: [&CellRecord; 2]) -> f64 {
        let of = |cell: &CellRecord| self.0.get(&(cell.concurrency, cell.keepalive)).copied();
        cells.into_iter().filter_map(of).fold(1.0, f64::max)
    }
}

/// Factor of `after` relative to `before`. `None` if either is void, missing or starred, if
/// `before` is a lower bound, or if `after` is one within the noise.
pub(crate) fn gain(before: &CellRecord, after: &CellRecord, noise: &CellNoise) -> Option<Gain> {
    let gain = measured_gain(before, after, noise)?;
    let is_known = !cell_result(before).summary()?.is_limited() && (gain.is_step || !gain.is_lower_bound);
    is_known.then_some(gain)
}

/// Whether `cell` is a lower bound within the noise of `fastest`, and so may be as fast or faster.
pub(crate) fn may_be_as_fast(cell: &CellRecord, fastest: &CellRecord, noise: &CellNoise) -> bool {
    measured_gain(fastest, cell, noise).is_some_and(|gain| gain.is_lower_bound && !gain.is_step)
}

/// Factor of the throughputs as measured. `None` if either is void, missing or starred.
fn measured_gain(before: &CellRecord, after: &CellRecord, noise: &CellNoise) -> Option<Gain> {
    let factor = factor(before, after)?;
    let noise = noise.between([before, after]);
    let before = cell_result(before);
    let after = cell_result(after);
    let before = before.summary()?;
    let after = after.summary()?;
    let apart = factor.times.max(1.0 / factor.times);
    let is_beyond_rounds = match factor.interval {
        Some(interval) => interval.low > 1.0 || interval.high < 1.0,
        None if before.rounds.min(after.rounds) < 2 => apart > one_round_limit(before, after),
        None => {
            let widened = if apart > ONE_ROUND_TIMES { 0.0 } else { SPAN_WIDENED };
            spans_are_apart(before.throughput, after.throughput, widened)
        }
    };
    let is_step = apart > noise && is_beyond_rounds;
    let is_lower_bound = after.is_limited();
    Some(Gain { times: factor.times, interval: factor.interval, is_step, is_lower_bound })
}

/// Chance may make two single rounds differ by up to this factor.
fn one_round_limit(before: &CellSummary, after: &CellSummary) -> f64 {
    let relative = |of: &CellSummary| {
        let spread = of.response.sd_ms / of.response.mean_ms.max(f64::MIN_POSITIVE);
        spread / (of.answers.max(1) as f64).sqrt()
    };
    let error = relative(before).hypot(relative(after));
    ONE_ROUND_TIMES.max(1.0 + ONE_ROUND_ERRORS * error)
}

/// Whether the ranges of two figures do not overlap, after each is widened at both ends by a share
/// of its length.
fn spans_are_apart(one: RoundsFigure, other: RoundsFigure, widened: f64) -> bool {
    let span = |of: RoundsFigure| {
        let more = widened * (of.high - of.low);
        (of.low - more, of.high + more)
    };
    let one = span(one);
    let other = span(other);
    one.1 < other.0 || other.1 < one.0
}

#[cfg(test)]
mod tests {
    use super::{SPAN_WIDENED, spans_are_apart};
    use crate::summary::RoundsFigure;

    #[test]
    fn spans_are_apart_only_beyond_their_widening() {
        let figure = |low: f64, high: f64| RoundsFigure { median: low, low, high, interval: None };
        let apart = |one: (f64, f64), other: (f64, f64), widened| {
            spans_are_apart(figure(one.0, one.1), figure(other.0, other.1), widened)
        };
        assert!(!apart((10.0, 12.0), (13.0, 15.0), SPAN_WIDENED));
        assert!(apart((10.0, 12.0), (14.1, 16.0), SPAN_WIDENED));
        assert!(apart((14.1, 16.0), (10.0, 12.0), SPAN_WIDENED));
        assert!(!apart((10.0, 20.0), (21.0, 31.0), SPAN_WIDENED));
        assert!(apart((10.0, 20.0), (21.0, 31.0), 0.0) && !apart((10.0, 20.0), (20.0, 31.0), 0.0));
    }
}
