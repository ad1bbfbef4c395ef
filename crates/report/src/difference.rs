//! How many times more a cell served than another, and whether that is more than chance: pure.
//!
//! Invariant: a factor is called a step only if it exceeds every noise that the ladder itself shows: that of cells
//! which measured the same thing, and that of the rounds. docs/results.md states the same rule.

use crate::results::CellRecord;
use crate::summary::{Figure, Summary, factor, standing};
use stats::Interval;

/// With one round, whose spread is unknown, smaller factors are noise.
pub const ONE_ROUND_TIMES: f64 = 1.5;
/// With one round, a factor is noise within so many standard errors of the two mean response times.
const ONE_ROUND_ERRORS: f64 = 4.0;
/// With two to four rounds, their span is widened at either end by this share of itself.
const SPAN_WIDENED: f64 = 0.5;

/// How many times more a cell served than another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gain {
    /// So many times.
    pub times: f64,
    /// The 95% interval over the rounds, from five rounds on.
    pub interval: Option<Interval>,
    /// Whether the difference exceeds the noise.
    pub is_step: bool,
}

/// What `after` brought over `before`; `None` if either is void or missing. `noise` is the largest factor between cells
/// that measured the same thing, or 1.
pub(crate) fn gain(before: &CellRecord, after: &CellRecord, noise: f64) -> Option<Gain> {
    let factor = factor(before, after)?;
    let (before, after) = (standing(before), standing(after));
    let (before, after) = (before.summary()?, after.summary()?);
    let apart = factor.times.max(1.0 / factor.times);
    let is_beyond_rounds = match factor.interval {
        Some(interval) => interval.low > 1.0 || interval.high < 1.0,
        None if before.rounds.min(after.rounds) < 2 => apart > one_round_limit(before, after),
        None => spans_are_apart(before.throughput, after.throughput),
    };
    let is_step = apart > noise && is_beyond_rounds;
    Some(Gain { times: factor.times, interval: factor.interval, is_step })
}

/// The factor up to which two single rounds may differ by chance.
fn one_round_limit(before: &Summary, after: &Summary) -> f64 {
    let relative = |of: &Summary| {
        let spread = of.response.sd_ms / of.response.mean_ms.max(f64::MIN_POSITIVE);
        spread / (of.answers.max(1) as f64).sqrt()
    };
    let error = relative(before).hypot(relative(after));
    ONE_ROUND_TIMES.max(1.0 + ONE_ROUND_ERRORS * error)
}

fn spans_are_apart(one: Figure, other: Figure) -> bool {
    let span = |of: Figure| {
        let more = SPAN_WIDENED * (of.high - of.low);
        (of.low - more, of.high + more)
    };
    let (one, other) = (span(one), span(other));
    one.1 < other.0 || other.1 < one.0
}

#[cfg(test)]
mod tests {
    use super::spans_are_apart;
    use crate::summary::Figure;

    #[test]
    fn spans_that_nearly_touch_are_not_apart() {
        let figure = |low: f64, high: f64| Figure { median: low, low, high, interval: None };
        assert!(!spans_are_apart(figure(10.0, 12.0), figure(13.0, 15.0)));
        assert!(spans_are_apart(figure(10.0, 12.0), figure(14.1, 16.0)));
        assert!(spans_are_apart(figure(14.1, 16.0), figure(10.0, 12.0)));
        assert!(!spans_are_apart(figure(10.0, 20.0), figure(21.0, 31.0)));
    }
}
