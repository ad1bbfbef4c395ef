//! Compares sides of runs: the difference in throughput and times, with intervals, and a verdict in
//! one sentence.
//!
//! Invariants:
//!
//! * The unit is the run, never the request.
//! * The sentence is about one figure, chosen before the sides are compared. Otherwise five figures
//!   would have five chances to differ. The table shows the intervals of the others.
//! * A verdict never assumes less noise than the machine has (`pilot`).
//! * With fewer than five runs a side, or with a run that the generator limited, there are figures
//!   and no verdict.

mod notes;
mod over_runs;
mod pilot;
mod rounds;
mod text;
mod unit;

pub use over_runs::{middle, over_runs};
pub use pilot::{DIFFERENCE, NOISE_ERRORS, NOISE_TIMES_MAX, PILOT_RUNS};
pub use unit::Unit;

use crate::run::{Distribution, Run};
use serde::Serialize;
use stats::{Contrast, ContrastVerdict, Interval, RUNS_FOR_INTERVAL};

/// Name and version of the JSON format: the value of its member `schema`.
pub const SCHEMA: &str = "petasos-compare/1";

/// Largest number of runs of a side. The limit exists because all pairs of runs are evaluated
/// thousands of times.
pub const RUNS_MAX: usize = 200;

/// Largest number of sides of a comparison, the first one included.
pub const SIDES_MAX: usize = 26;

/// Seed of the resamples if the user gives none.
pub const SEED_DEFAULT: u64 = 1;

/// A figure that can be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ComparedMetric {
    /// Good responses per second, or pages per second whose document arrived.
    Throughput,
    /// Mean latency of good responses, or mean page load time, in milliseconds.
    Mean,
    /// Median of these times, in milliseconds.
    P50,
    /// 95th percentile of these times, in milliseconds.
    P95,
    /// 99th percentile of these times, in milliseconds.
    P99,
}

impl ComparedMetric {
    /// All figures, in the order of the table.
    pub const ALL: [Self; 5] = [Self::Throughput, Self::Mean, Self::P50, Self::P95, Self::P99];

    /// Name in tables and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Throughput => "throughput",
            Self::Mean => "mean",
            Self::P50 => "p50",
            Self::P95 => "p95",
            Self::P99 => "p99",
        }
    }

    /// Whether a larger value is better.
    pub const fn is_better_larger(self) -> bool {
        matches!(self, Self::Throughput)
    }

    /// Value of a run, per second or in milliseconds; `None` if it is unknown.
    fn of(self, run: &Run) -> Option<f64> {
        let milliseconds = |pick: fn(&Distribution) -> Option<f64>| {
            pick(&run.good_times.latency.or_unknown()).map(|value_us| value_us / 1e3)
        };
        match self {
            Self::Throughput => run.good_per_s.or(run.complete_per_s),
            Self::Mean => milliseconds(|times| times.mean_us),
            Self::P50 => milliseconds(|times| times.p50_us.map(|value| value as f64)),
            Self::P95 => milliseconds(|times| times.p95_us.map(|value| value as f64)),
            Self::P99 => milliseconds(|times| times.p99_us.map(|value| value as f64)),
        }
    }
}

/// Runs that belong together, for example of one state of a server.
#[derive(Clone, Debug, PartialEq)]
pub struct Side {
    /// Name of the side: a directory, a file or a URL.
    pub name: String,
    /// Runs of the side.
    pub runs: Vec<Run>,
}

/// Options of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompareOptions {
    /// Figure of the sentence. `None` chooses throughput, or mean latency if the rate was given. If
    /// the first runs show that this figure is noisy, a less noisy percentile is chosen.
    pub on: Option<ComparedMetric>,
    /// Seed of the resamples for the intervals.
    pub seed: u64,
    /// Whether to judge runs in which the generator was the limit, or may have been.
    pub accept_invalid: bool,
}

impl Default for CompareOptions {
    fn default() -> Self {
        Self { on: None, seed: SEED_DEFAULT, accept_invalid: false }
    }
}

/// Reason why sides cannot be compared.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompareError {
    /// There are fewer than two sides.
    #[error("a comparison needs at least two sides; name another file, directory or URL")]
    Sides,
    /// There are more than [`SIDES_MAX`] sides.
    #[error("{0} sides are too many; compare at most {SIDES_MAX}")]
    SidesMany(usize),
    /// Some sides measured requests, others pages.
    #[error(
        "runs of requests cannot be compared with runs of pages (bench --page): load all sides with --page, or none"
    )]
    Mixed,
    /// A side has no runs.
    #[error("{0}: the side has no run")]
    Empty(String),
    /// A side has more than [`RUNS_MAX`] runs.
    #[error("{name}: {runs} runs are too many; compare at most {RUNS_MAX} runs of a side")]
    RunsMany {
        /// Name of the side.
        name: String,
        /// Number of its runs.
        runs: usize,
    },
}

/// Result of comparing the first side with each of the others.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// Seed of the resamples for the intervals.
    pub seed: u64,
    /// Unit of the runs: requests or pages.
    pub unit: Unit,
    /// All sides; the first is the one that the others are compared with.
    pub sides: Vec<SideSummary>,
    /// One comparison for each side but the first.
    pub against: Vec<SideComparison>,
    /// Doubts about the comparison, for the reader.
    pub notes: Vec<String>,
}

/// A side of the comparison.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SideSummary {
    /// Letter of the side: A, B and so on.
    pub letter: char,
    /// Name of the side.
    pub name: String,
    /// Number of runs.
    pub runs: usize,
    /// Figures of the side, in the order of [`ComparedMetric::ALL`].
    pub figures: Vec<SideFigure>,
}

/// One figure of a side over its runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SideFigure {
    /// Name of the figure.
    pub metric: ComparedMetric,
    /// Median over the runs; null if the figure of a run is unknown, as for the following members.
    pub median: Option<f64>,
    /// Smallest value of a run.
    pub low: Option<f64>,
    /// Largest value of a run.
    pub high: Option<f64>,
}

impl SideFigure {
    /// Value of the best run: the highest throughput or the shortest time.
    pub const fn best(&self) -> Option<f64> {
        if self.metric.is_better_larger() { self.high } else { self.low }
    }

    /// Value of the worst run.
    pub const fn worst(&self) -> Option<f64> {
        if self.metric.is_better_larger() { self.low } else { self.high }
    }
}

/// Comparison of a side with the first one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SideComparison {
    /// Letter of the side.
    pub letter: char,
    /// Figure of the sentence.
    pub on: ComparedMetric,
    /// Verdict on this figure.
    pub verdict: ComparisonVerdict,
    /// Noise of this figure from one run of a side to the next, as a share of the figure; null if
    /// unknown.
    pub noise: Option<f64>,
    /// Number of rounds that find a difference of 5% in four of five comparisons; null if unknown.
    pub rounds_for_5_percent: Option<u32>,
    /// Whether runs of the same round were compared as pairs. Otherwise all runs of one side were
    /// compared with all of the other.
    pub is_paired: bool,
    /// The verdict as a sentence.
    pub sentence: String,
    /// All figures, in the order of [`ComparedMetric::ALL`].
    pub rows: Vec<ComparedFigure>,
}

/// One figure of a side, compared with that of the first side.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ComparedFigure {
    /// Name of the figure.
    pub metric: ComparedMetric,
    /// Ratio of the side's figure to the first side's; null if unknown. It is the median over all
    /// pairs of runs or, for paired rounds, over means of two rounds.
    pub ratio: Option<f64>,
    /// Interval of the ratio: 95%, or 97.5% for paired rounds; null for too few runs.
    pub interval: Option<Interval>,
    /// P-value of the Mann-Whitney test, or of the Wilcoxon test for paired rounds; null for too
    /// few runs.
    pub p: Option<f64>,
    /// Verdict on this figure alone; null if it is unknown.
    pub shown: Option<ComparisonVerdict>,
}

/// Verdict of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ComparisonVerdict {
    /// The side is faster than the first side.
    Faster,
    /// The side is slower than the first side.
    Slower,
    /// No difference was found. This does not prove that there is none.
    NoDifferenceShown,
    /// There are too few runs for a verdict.
    TooFewRuns,
    /// A run is invalid or may have lost time to its generator. The difference may come from the
    /// generator.
    Invalid,
    /// The figure is unknown for a run, or zero.
    NotKnown,
}

/// Compares the first side with each of the others.
///
/// # Errors
/// Returns an error if the number of sides, or of the runs of a side, is out of range. Sides of
/// requests cannot be compared with sides of pages; trying it is an error, too.
pub fn compare(sides: &[Side], options: CompareOptions) -> Result<Comparison, CompareError> {
    let Some((first, others)) = sides.split_first().filter(|(_, others)| !others.is_empty()) else {
        return Err(CompareError::Sides);
    };
    if sides.len() > SIDES_MAX {
        return Err(CompareError::SidesMany(sides.len()));
    }
    for side in sides {
        match side.runs.len() {
            0 => return Err(CompareError::Empty(side.name.clone())),
            1..=RUNS_MAX => {}
            runs => return Err(CompareError::RunsMany { name: side.name.clone(), runs }),
        }
    }
    let unit = Unit::of(sides)?;
    let letters = 'B'..='Z';
    let against = letters.zip(others).map(|(letter, other)| against(letter, (first, other), unit, options));
    Ok(Comparison {
        schema: SCHEMA,
        seed: options.seed,
        unit,
        sides: ('A'..='Z').zip(sides).map(|(letter, side)| summary(letter, side)).collect(),
        against: against.collect(),
        notes: notes::notes(sides, unit),
    })
}

impl Comparison {
    /// Returns the comparison as indented JSON with a line end.
    pub fn to_json(&self) -> String {
        // Keys are strings, and floats that are not finite become null, so serialisation cannot
        // fail.
        let mut text = serde_json::to_string_pretty(self).unwrap_or_default();
        text.push('\n');
        text
    }

    /// Returns the tables, the notes and the sentences, at most `width` characters wide where
    /// possible. `shows_best` adds each side's best run beside its median.
    pub fn text(&self, width: usize, shows_best: bool) -> String {
        text::text(self, width, shows_best)
    }
}

/// Values of the figure in all runs; `None` if it is unknown in one of them.
fn values(metric: ComparedMetric, side: &Side) -> Option<Vec<f64>> {
    side.runs.iter().map(|run| metric.of(run)).collect()
}

fn summary(letter: char, side: &Side) -> SideSummary {
    let figure = |metric| {
        let values = values(metric, side).unwrap_or_default();
        SideFigure {
            metric,
            median: stats::median(&values),
            low: values.iter().copied().min_by(f64::total_cmp),
            high: values.iter().copied().max_by(f64::total_cmp),
        }
    };
    let figures = ComparedMetric::ALL.map(figure).to_vec();
    SideSummary { letter, name: side.name.clone(), runs: side.runs.len(), figures }
}

fn against(
    letter: char,
    (first, other): (&Side, &Side),
    unit: Unit,
    options: CompareOptions,
) -> SideComparison {
    let rounds = rounds::rounds(first, other);
    let mut rows: Vec<ComparedFigure> = ComparedMetric::ALL
        .iter()
        .map(|&metric| {
            let contrast = match &rounds {
                Some(rounds) => paired(metric, rounds),
                None => unpaired(metric, first, other, options.seed),
            };
            row(metric, contrast)
        })
        .collect();
    let was_rate_given =
        [first, other].iter().any(|side| side.runs.iter().any(|run| run.rate_asked_per_s.is_some()));
    let preferred = if was_rate_given { ComparedMetric::Mean } else { ComparedMetric::Throughput };
    let on = options.on.unwrap_or_else(|| pilot::choose(preferred, first, other));
    let noise = pilot::noise(on, first, other);
    if let Some((row, noise)) = rows.iter_mut().find(|row| row.metric == on).zip(noise) {
        bound_by_noise(row, pilot::bound(noise, first.runs.len(), other.runs.len()));
    }
    let shown = rows.iter().find(|row| row.metric == on).and_then(|row| row.shown);
    let is_invalid = [first, other].into_iter().any(notes::has_doubtful_runs) && !options.accept_invalid;
    let verdict = match shown {
        None => ComparisonVerdict::NotKnown,
        Some(
            ComparisonVerdict::Faster | ComparisonVerdict::Slower | ComparisonVerdict::NoDifferenceShown,
        ) if is_invalid => ComparisonVerdict::Invalid,
        Some(shown) => shown,
    };
    let mut against = SideComparison {
        letter,
        on,
        verdict,
        noise,
        rounds_for_5_percent: noise.map(pilot::rounds_needed),
        is_paired: rounds.is_some(),
        sentence: String::new(),
        rows,
    };
    against.sentence = text::sentence(&against, unit, (first.runs.len(), other.runs.len()));
    against
}

/// Widens the interval to the noise, and withdraws a verdict of a difference within the noise.
fn bound_by_noise(row: &mut ComparedFigure, bound: f64) {
    let (Some(ratio), Some(interval)) = (row.ratio, row.interval) else { return };
    row.interval = Some(pilot::widened(interval, ratio, bound));
    let is_within = ratio.ln().abs() <= bound;
    if is_within && matches!(row.shown, Some(ComparisonVerdict::Faster | ComparisonVerdict::Slower)) {
        row.shown = Some(ComparisonVerdict::NoDifferenceShown);
    }
}

fn unpaired(metric: ComparedMetric, first: &Side, other: &Side, seed: u64) -> Option<Contrast> {
    let (a, b) = values(metric, first).zip(values(metric, other))?;
    stats::ratio(&a, &b, seed)
}

fn paired(metric: ComparedMetric, rounds: &[(&Run, &Run)]) -> Option<Contrast> {
    let figures = |(a, b): &(&Run, &Run)| metric.of(a).zip(metric.of(b));
    stats::paired_ratio(&rounds.iter().map(figures).collect::<Option<Vec<_>>>()?)
}

fn row(metric: ComparedMetric, contrast: Option<Contrast>) -> ComparedFigure {
    let shown = contrast.map(|contrast| match (contrast.shown(), metric.is_better_larger()) {
        (ContrastVerdict::TooFewRuns, _) => ComparisonVerdict::TooFewRuns,
        (ContrastVerdict::Nothing, _) => ComparisonVerdict::NoDifferenceShown,
        (ContrastVerdict::Larger, true) | (ContrastVerdict::Smaller, false) => ComparisonVerdict::Faster,
        (ContrastVerdict::Larger, false) | (ContrastVerdict::Smaller, true) => ComparisonVerdict::Slower,
    });
    ComparedFigure {
        metric,
        ratio: contrast.map(|contrast| contrast.estimate),
        interval: contrast.and_then(|contrast| contrast.interval),
        p: contrast.and_then(|contrast| contrast.p),
        shown,
    }
}
