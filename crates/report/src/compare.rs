//! Sides of runs compared: how far throughput and times of one lie from those of the other, with intervals, and one
//! sentence.
//!
//! Invariant: the unit is the run, never the request. The sentence is about one figure that is chosen before the
//! sides are held against each other, so that five figures do not get five chances to differ; the others have their
//! intervals in the table. A verdict never claims less noise than the machine has (`pilot`). Fewer than five runs a
//! side, or a run among them that the generator limits, give figures and no verdict.

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
use stats::{Contrast, Interval, RUNS_FOR_INTERVAL, Shown};

/// Name and version of the JSON, the value of its member `schema`.
pub const SCHEMA: &str = "petasos-compare/1";

/// The most runs a side may have: all their pairs are looked at thousands of times.
pub const RUNS_MAX: usize = 200;

/// The most sides that are compared with the first one.
pub const SIDES_MAX: usize = 26;

/// The seed of the resamples if none is given.
pub const SEED_DEFAULT: u64 = 1;

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Metric {
    /// Good answers a second, or pages whose document arrived.
    Throughput,
    /// Mean latency of good answers, or mean page time, in milliseconds like those below.
    Mean,
    /// Their median.
    P50,
    /// Their 95th percentile.
    P95,
    /// Their 99th percentile.
    P99,
}

impl Metric {
    /// All, in the order of the table.
    pub const ALL: [Self; 5] = [Self::Throughput, Self::Mean, Self::P50, Self::P95, Self::P99];

    /// Its name in tables and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Throughput => "throughput",
            Self::Mean => "mean",
            Self::P50 => "p50",
            Self::P95 => "p95",
            Self::P99 => "p99",
        }
    }

    /// Whether larger values are better ones.
    pub const fn is_better_larger(self) -> bool {
        matches!(self, Self::Throughput)
    }

    /// The figure of a run: answers a second or milliseconds; `None` if it is not known.
    fn of(self, run: &Run) -> Option<f64> {
        let milliseconds = |pick: fn(&Distribution) -> Option<f64>| {
            pick(&run.good_times.latency).map(|value_us| value_us / 1e3)
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

/// Runs that belong together: one state of a server.
#[derive(Clone, Debug, PartialEq)]
pub struct Side {
    /// What it is called: a directory, a file, a URL.
    pub name: String,
    /// Its runs.
    pub runs: Vec<Run>,
}

/// How to compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// What the sentence is about; `None` means throughput, or mean latency if the rate was given, or a percentile if
    /// the first runs show that these are noisier.
    pub on: Option<Metric>,
    /// What chooses the resamples of the intervals.
    pub seed: u64,
    /// Whether runs in which the generator was the limit, or may have been, are judged.
    pub accept_invalid: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { on: None, seed: SEED_DEFAULT, accept_invalid: false }
    }
}

/// What cannot be compared.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompareError {
    /// Fewer than two sides.
    #[error("a comparison needs two sides")]
    Sides,
    /// Too many sides.
    #[error("at most {SIDES_MAX} sides can be compared, not {0}")]
    SidesMany(usize),
    /// Requests and pages.
    #[error(
        "runs of requests cannot be compared with runs of pages (bench --page): load all sides with --page, or none"
    )]
    Mixed,
    /// A side without runs.
    #[error("{0}: there is no run in it")]
    Empty(String),
    /// A side with too many runs.
    #[error("{name}: at most {RUNS_MAX} runs a side can be compared, not {runs}")]
    RunsMany {
        /// The side.
        name: String,
        /// How many it has.
        runs: usize,
    },
}

/// The first side compared with each of the others.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// What chose the resamples of the intervals.
    pub seed: u64,
    /// What is counted and timed.
    pub unit: Unit,
    /// The sides, the one compared with first.
    pub sides: Vec<Summary>,
    /// One for each side but the first.
    pub against: Vec<Against>,
    /// What to know before believing it.
    pub notes: Vec<String>,
}

/// A side in the comparison.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// A, B and so on.
    pub letter: char,
    /// Its name.
    pub name: String,
    /// How many runs it has.
    pub runs: usize,
    /// Its figures, in the order of [`Metric::ALL`].
    pub figures: Vec<Figure>,
}

/// One figure of a side over its runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// Which.
    pub metric: Metric,
    /// The median over the runs; null if a run does not tell, like the others.
    pub median: Option<f64>,
    /// The smallest run.
    pub low: Option<f64>,
    /// The largest run.
    pub high: Option<f64>,
}

impl Figure {
    /// The best run: the most answers, or the shortest time.
    pub const fn best(&self) -> Option<f64> {
        if self.metric.is_better_larger() { self.high } else { self.low }
    }

    /// The worst run.
    pub const fn worst(&self) -> Option<f64> {
        if self.metric.is_better_larger() { self.low } else { self.high }
    }
}

/// A side set against the first one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Against {
    /// The letter of the side.
    pub letter: char,
    /// What the sentence is about.
    pub on: Metric,
    /// What can be said.
    pub verdict: Verdict,
    /// How far this figure moves from one run of a side to the next, as a share of it; null if that is not known.
    pub noise: Option<f64>,
    /// How many rounds it takes to find a difference of 5% in four of five comparisons; null if that is not known.
    pub rounds_for_5_percent: Option<u32>,
    /// Whether the runs were compared round by round, as pairs; else all of one side with all of the other.
    pub is_paired: bool,
    /// The verdict as a sentence.
    pub sentence: String,
    /// All figures, in the order of [`Metric::ALL`].
    pub rows: Vec<Row>,
}

/// One figure of a side against that of the first side.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Which.
    pub metric: Metric,
    /// How many times the first side's it is: the median over all pairs of runs, or over means of two rounds where
    /// rounds are compared; null if it is not known.
    pub ratio: Option<f64>,
    /// The interval of the ratio, of 95% or, where rounds are compared, of 97.5%; null for too few runs.
    pub interval: Option<Interval>,
    /// The probability of Mann-Whitney's test, or of Wilcoxon's where rounds are compared; null for too few runs.
    pub p: Option<f64>,
    /// What this figure shows by itself; null if it is not known.
    pub shown: Option<Verdict>,
}

/// What a comparison says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Faster than the first side.
    Faster,
    /// Slower than the first side.
    Slower,
    /// No difference is shown, which does not mean that there is none.
    NoDifferenceShown,
    /// Too few runs for a verdict.
    TooFewRuns,
    /// A run is invalid or may have lost time to its generator, so that differences may be the generator's.
    Invalid,
    /// The figure is not known for every run, or is zero.
    NotKnown,
}

/// Compares the first side with each of the others.
///
/// # Errors
/// If there are not two sides, or a side has no runs, or too many.
pub fn compare(sides: &[Side], options: Options) -> Result<Comparison, CompareError> {
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
    /// The comparison as JSON text with a line end, indented for people.
    pub fn to_json(&self) -> String {
        // No map keys but strings, and floats that are not finite become null: nothing here can fail.
        let mut text = serde_json::to_string_pretty(self).unwrap_or_default();
        text.push('\n');
        text
    }

    /// The table, the notes and the sentences, at most `width` characters wide where that is possible; with each side's
    /// best run beside its median if that is wanted.
    pub fn text(&self, width: usize, shows_best: bool) -> String {
        text::text(self, width, shows_best)
    }
}

/// The figure in all runs; `None` if one does not tell.
fn values(metric: Metric, side: &Side) -> Option<Vec<f64>> {
    side.runs.iter().map(|run| metric.of(run)).collect()
}

fn summary(letter: char, side: &Side) -> Summary {
    let figure = |metric| {
        let values = values(metric, side).unwrap_or_default();
        Figure {
            metric,
            median: stats::median(&values),
            low: values.iter().copied().min_by(f64::total_cmp),
            high: values.iter().copied().max_by(f64::total_cmp),
        }
    };
    let figures = Metric::ALL.map(figure).to_vec();
    Summary { letter, name: side.name.clone(), runs: side.runs.len(), figures }
}

fn against(letter: char, (first, other): (&Side, &Side), unit: Unit, options: Options) -> Against {
    let rounds = rounds::rounds(first, other);
    let mut rows: Vec<Row> = Metric::ALL
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
    let preferred = if was_rate_given { Metric::Mean } else { Metric::Throughput };
    let on = options.on.unwrap_or_else(|| pilot::choose(preferred, first, other));
    let noise = pilot::noise(on, first, other);
    if let Some((row, noise)) = rows.iter_mut().find(|row| row.metric == on).zip(noise) {
        bound_by_noise(row, pilot::bound(noise, first.runs.len(), other.runs.len()));
    }
    let shown = rows.iter().find(|row| row.metric == on).and_then(|row| row.shown);
    let is_invalid = [first, other].into_iter().any(notes::has_doubtful_runs) && !options.accept_invalid;
    let verdict = match shown {
        None => Verdict::NotKnown,
        Some(Verdict::Faster | Verdict::Slower | Verdict::NoDifferenceShown) if is_invalid => {
            Verdict::Invalid
        }
        Some(shown) => shown,
    };
    let mut against = Against {
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

/// Lets a figure show a difference only beyond the noise, and its interval be as wide as that.
fn bound_by_noise(row: &mut Row, bound: f64) {
    let (Some(ratio), Some(interval)) = (row.ratio, row.interval) else { return };
    row.interval = Some(pilot::widened(interval, ratio, bound));
    let is_within = ratio.ln().abs() <= bound;
    if is_within && matches!(row.shown, Some(Verdict::Faster | Verdict::Slower)) {
        row.shown = Some(Verdict::NoDifferenceShown);
    }
}

fn unpaired(metric: Metric, first: &Side, other: &Side, seed: u64) -> Option<Contrast> {
    let (a, b) = values(metric, first).zip(values(metric, other))?;
    stats::ratio(&a, &b, seed)
}

fn paired(metric: Metric, rounds: &[(&Run, &Run)]) -> Option<Contrast> {
    let figures = |(a, b): &(&Run, &Run)| metric.of(a).zip(metric.of(b));
    stats::paired_ratio(&rounds.iter().map(figures).collect::<Option<Vec<_>>>()?)
}

fn row(metric: Metric, contrast: Option<Contrast>) -> Row {
    let shown = contrast.map(|contrast| match (contrast.shown(), metric.is_better_larger()) {
        (Shown::TooFewRuns, _) => Verdict::TooFewRuns,
        (Shown::Nothing, _) => Verdict::NoDifferenceShown,
        (Shown::Larger, true) | (Shown::Smaller, false) => Verdict::Faster,
        (Shown::Larger, false) | (Shown::Smaller, true) => Verdict::Slower,
    });
    Row {
        metric,
        ratio: contrast.map(|contrast| contrast.estimate),
        interval: contrast.and_then(|contrast| contrast.interval),
        p: contrast.and_then(|contrast| contrast.p),
        shown,
    }
}
