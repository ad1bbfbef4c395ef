//! Measures the noise of the machine. It decides which figure can distinguish the sides, and how
//! many rounds a difference of 5% needs.
//!
//! Noise is the change of a side's figure from one run to the next, never the difference between
//! the sides. The choice of the figure therefore cannot prefer one that differs by chance.
//!
//! Invariant: a verdict reports a difference only beyond [`NOISE_ERRORS`] standard errors of that
//! noise, and its interval is never narrower. Rank tests alone err as often as their level allows:
//! of 40 comparisons of a server with itself, one is expected to differ. On 1,000 recorded rounds,
//! this bound reduces such errors to none in 240. It still finds 97 of 100 servers that are 10%
//! slower.

use super::{ComparedMetric, Side};
use crate::run::Run;
use stats::Interval;

/// Number of first runs of each side that choose the figure. With fewer runs there is no choice.
pub const PILOT_RUNS: usize = 5;

/// The preferred figure is kept unless its noise exceeds this multiple of another figure's noise.
pub const NOISE_TIMES_MAX: f64 = 1.5;

/// Standard errors of the noise that a difference must exceed.
pub const NOISE_ERRORS: f64 = 3.0;

/// Difference, as a share, for which the needed number of rounds is reported.
pub const DIFFERENCE: f64 = 0.05;

/// Standard errors beyond [`NOISE_ERRORS`] at which four of five comparisons find the difference.
const POWER_ERRORS: f64 = 0.84;

/// Chooses the figure that distinguishes the sides best in their first runs: `preferred`, unless
/// another is clearly less noisy.
pub(super) fn choose(preferred: ComparedMetric, first: &Side, other: &Side) -> ComparedMetric {
    let pilots = [first, other].map(|side| in_order(side).into_iter().take(PILOT_RUNS).collect::<Vec<_>>());
    if pilots.iter().any(|runs| runs.len() < PILOT_RUNS) {
        return preferred;
    }
    let noise = |metric| noise_of(metric, &pilots);
    let Some(own) = noise(preferred) else { return preferred };
    let others = [ComparedMetric::P50, ComparedMetric::P95]
        .into_iter()
        .filter_map(|metric| Some((metric, noise(metric)?)));
    let quietest = others.min_by(|(_, a), (_, b)| a.total_cmp(b));
    quietest.filter(|(_, noise)| own > NOISE_TIMES_MAX * noise).map_or(preferred, |(metric, _)| metric)
}

/// Resolution of percentiles in milliseconds: of records, and of the tools that report whole
/// milliseconds. A smaller change does not show.
const STEP_MS: f64 = 0.001;
const STEP_COARSE_MS: f64 = 1.0;

/// Noise of a figure from run to run, as a share of the figure; `None` if it is unknown or there
/// are too few runs.
pub(super) fn noise(metric: ComparedMetric, first: &Side, other: &Side) -> Option<f64> {
    noise_of(metric, &[in_order(first), in_order(other)])
}

/// Number of rounds with which four of five comparisons find a difference of 5%.
pub(super) fn rounds_needed(noise: f64) -> u32 {
    let errors = (NOISE_ERRORS + POWER_ERRORS) * noise / DIFFERENCE.ln_1p();
    let rounds = (2.0 * errors * errors).ceil() as u32;
    rounds.max(stats::ROUNDS_FOR_INTERVAL as u32)
}

/// Smallest logarithm of a ratio that counts as a difference. It is also half the smallest width of
/// the ratio's interval, in logarithms.
pub(super) fn bound(noise: f64, runs_first: usize, runs_other: usize) -> f64 {
    let one = |runs: usize| 1.0 / runs.max(1) as f64;
    NOISE_ERRORS * noise * (one(runs_first) + one(runs_other)).sqrt()
}

/// Widens an interval to the bound that the noise sets.
pub(super) fn widened(interval: Interval, ratio: f64, bound: f64) -> Interval {
    Interval { low: interval.low.min(ratio * (-bound).exp()), high: interval.high.max(ratio * bound.exp()) }
}

/// Standard deviation from half the mean square of the steps between consecutive runs (von
/// Neumann). Slow drift over many runs affects both sides alike and hardly contributes.
fn noise_of(metric: ComparedMetric, sides: &[Vec<&Run>; 2]) -> Option<f64> {
    let variance = |runs: &Vec<&Run>| {
        let values = runs.iter().map(|run| metric.of(run).filter(|value| *value > 0.0).map(f64::ln));
        let logarithms: Vec<f64> = values.collect::<Option<_>>()?;
        let steps = logarithms.windows(2).filter_map(|two| match two {
            [one, next] => Some((next - one).powi(2)),
            _ => None,
        });
        let rounding = stats::mean(&runs.iter().filter_map(|run| rounding(metric, run)).collect::<Vec<_>>());
        stats::mean(&steps.collect::<Vec<_>>()).map(|mean| (mean / 2.0).max(rounding.unwrap_or(0.0)))
    };
    let variances = sides.iter().map(variance).collect::<Option<Vec<_>>>()?;
    stats::mean(&variances).map(f64::sqrt)
}

/// Variance that rounding adds to a percentile, as a share of its square; `None` for other figures.
/// Without it, times that are all `5 ms`, or all `20 µs`, would seem free of noise. In a mean of
/// many times, the rounding cancels out.
fn rounding(metric: ComparedMetric, run: &Run) -> Option<f64> {
    let is_percentile = !matches!(metric, ComparedMetric::Throughput | ComparedMetric::Mean);
    let step_ms = if matches!(run.source.as_str(), "ab" | "jtl") { STEP_COARSE_MS } else { STEP_MS };
    let value = metric.of(run).filter(|value| is_percentile && *value > 0.0)?;
    Some((step_ms / value).powi(2) / 12.0)
}

/// The runs in the order in which they were made, as far as it is recorded.
fn in_order(side: &Side) -> Vec<&Run> {
    let mut runs: Vec<&Run> = side.runs.iter().collect();
    if runs.iter().all(|run| run.started_s.is_some()) {
        runs.sort_by(|a, b| a.started_s.unwrap_or(0.0).total_cmp(&b.started_s.unwrap_or(0.0)));
    } else if runs.iter().all(|run| run.round.is_some()) {
        runs.sort_by_key(|run| run.round.as_ref().map(|round| (round.comparison.clone(), round.number)));
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::{bound, choose, noise, rounds_needed, widened};
    use crate::compare::{ComparedMetric, Side};
    use crate::run::Run;
    use stats::Interval;

    /// A side whose throughput and p50 alternate up and down by these shares.
    fn side(throughput: f64, p50: f64, runs: usize) -> Side {
        let run = |place: usize| {
            let sign = if place.is_multiple_of(2) { 1.0 } else { -1.0 };
            let mut run = Run { good_per_s: Some(1_000.0 * (1.0 + sign * throughput)), ..Run::default() };
            run.good_times.latency.p50_us = Some((10_000.0 * (1.0 + sign * p50)) as u64);
            run.good_times.latency.p95_us = Some((20_000.0 * (1.0 + sign * 0.3)) as u64);
            run
        };
        Side { name: "side".to_owned(), runs: (0..runs).map(run).collect() }
    }

    #[test]
    fn least_noisy_figure_is_chosen_from_five_runs_a_side() {
        let chosen = |throughput, p50, runs| {
            choose(ComparedMetric::Throughput, &side(throughput, p50, runs), &side(throughput, p50, runs))
        };
        assert_eq!(
            (chosen(0.1, 0.02, 5), chosen(0.1, 0.02, 4)),
            (ComparedMetric::P50, ComparedMetric::Throughput)
        );
        // A figure only slightly less noisy is not chosen.
        assert_eq!(
            (chosen(0.04, 0.03, 9), chosen(0.02, 0.1, 9)),
            (ComparedMetric::Throughput, ComparedMetric::Throughput)
        );
    }

    #[test]
    fn times_in_whole_milliseconds_have_rounding_noise() {
        let of_ab = |p50_us: u64| {
            let mut side = side(0.01, 0.0, 5);
            for run in &mut side.runs {
                run.source = "ab".to_owned();
                run.good_times.latency.p50_us = Some(p50_us);
            }
            side
        };
        let chosen = |p50_us| choose(ComparedMetric::Throughput, &of_ab(p50_us), &of_ab(p50_us));
        // A millisecond is a fifth of the first time and a two-hundredth of the second.
        assert_eq!((chosen(5_000), chosen(200_000)), (ComparedMetric::Throughput, ComparedMetric::P50));
        let mut side = of_ab(5_000);
        side.runs.iter_mut().for_each(|run| run.good_times.latency.mean_us = Some(5_000.0));
        assert_eq!(noise(ComparedMetric::Mean, &side, &side), Some(0.0), "rounding cancels out in a mean");
    }

    #[test]
    fn times_of_few_microseconds_have_rounding_noise() {
        let mut side = side(0.01, 0.0, 5);
        side.runs.iter_mut().for_each(|run| run.good_times.latency.p50_us = Some(20));
        let noise = noise(ComparedMetric::P50, &side, &side).unwrap();
        assert!((0.014..0.015).contains(&noise), "a microsecond in 20, over the root of 12: {noise}");
        assert!(bound(noise, 5, 5) > 0.025, "half a microsecond is no difference");
    }

    #[test]
    fn noise_is_the_step_between_runs_of_one_side() {
        let mut other = side(0.1, 0.0, 10);
        let same = noise(ComparedMetric::Throughput, &other, &other).unwrap();
        other.runs.iter_mut().for_each(|run| run.good_per_s = run.good_per_s.map(|rate| rate * 3.0));
        let far = noise(ComparedMetric::Throughput, &side(0.1, 0.0, 10), &other).unwrap();
        assert!((same - far).abs() < 1e-9 && (0.13..0.15).contains(&same), "{same} {far}");
        assert!(noise(ComparedMetric::P50, &other, &other).unwrap() < 1e-4);
        assert_eq!(noise(ComparedMetric::P99, &other, &other), None);
    }

    #[test]
    fn needed_rounds_grow_with_the_square_of_noise() {
        assert_eq!((rounds_needed(0.0), rounds_needed(0.02), rounds_needed(0.1)), (7, 7, 124));
        assert!((bound(0.02, 10, 10) - 0.0268).abs() < 1e-4);
        let narrow = Interval { low: 0.99, high: 1.2 };
        let wide = widened(narrow, 1.0, 0.1);
        assert!((wide.low - 0.905).abs() < 1e-3 && wide.high == 1.2);
    }
}
