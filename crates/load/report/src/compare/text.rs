//! A comparison as text: a table for each side against the first, the notes, and the sentences. The
//! sentences are last because a terminal shows the end of its output.

use super::{
    ComparedFigure, ComparedMetric, Comparison, ComparisonVerdict, RUNS_FOR_INTERVAL, SideComparison,
    SideSummary, Unit,
};
use crate::grid::{Align, Grid, GridColumn};
use crate::number;
use difference::text_of;
use std::fmt::Write as _;

pub(super) fn text(comparison: &Comparison, width: usize, shows_best: bool) -> String {
    let mut text = String::new();
    for side in &comparison.sides {
        let runs = if side.runs == 1 { "1 run".to_owned() } else { format!("{} runs", side.runs) };
        // Writing to a string cannot fail, here and below.
        let _ = writeln!(text, "{}  {}  ({runs})", side.letter, text_of(side.name.as_bytes()));
    }
    for against in &comparison.against {
        let side = comparison.sides.iter().find(|side| side.letter == against.letter);
        if let (Some(first), Some(side)) = (comparison.sides.first(), side) {
            text.push('\n');
            text.push_str(&table(comparison.unit, (first, side), against, shows_best).text(width));
        }
    }
    if !comparison.notes.is_empty() {
        text.push('\n');
    }
    for note in &comparison.notes {
        // Writing into a String cannot fail.
        let _ = writeln!(text, "Note: {}.", text_of(note.as_bytes()));
    }
    text.push('\n');
    for against in &comparison.against {
        let _ = writeln!(text, "{}", against.sentence);
    }
    text
}

fn table(
    unit: Unit,
    (first, side): (&SideSummary, &SideSummary),
    against: &SideComparison,
    shows_best: bool,
) -> Grid {
    let letter = side.letter;
    let columns = vec![
        GridColumn::new(&[""], Align::Left),
        GridColumn::new(&[&first.letter.to_string()], Align::Right),
        GridColumn::new(&[&letter.to_string()], Align::Right),
        GridColumn::new(&[&format!("{letter} against A")], Align::Right),
        GridColumn::new(&[&format!("{} interval", confidence(against))], Align::Right),
        GridColumn::new(&["p"], Align::Right),
        GridColumn::new(&["alone it shows"], Align::Left),
    ];
    let best = |summary: &SideSummary| {
        let of = format!("of {}", summary.runs);
        GridColumn::new(&[&format!("{} best", summary.letter), &of], Align::Right)
    };
    let best = if shows_best { vec![best(first), best(side)] } else { Vec::new() };
    let mut grid = Grid::new(columns.into_iter().chain(best).collect());
    for ((row, a), b) in against.rows.iter().zip(&first.figures).zip(&side.figures) {
        let interval =
            row.interval.map(|interval| format!("{} to {}", change(interval.low), change(interval.high)));
        let mut cells = vec![
            row.metric.name().to_owned(),
            figure(unit, a.metric, a.median),
            figure(unit, b.metric, b.median),
            row.ratio.map_or_else(unknown, change),
            interval.unwrap_or_else(unknown),
            row.p.map_or_else(unknown, probability),
            row.shown.map_or_else(unknown, |shown| word(shown).to_owned()),
        ];
        if shows_best {
            cells.extend([a, b].map(|of| figure(unit, of.metric, of.best())));
        }
        grid.row(cells);
    }
    grid
}

/// Confidence level of the intervals.
const fn confidence(against: &SideComparison) -> &'static str {
    if against.is_paired { "97.5%" } else { "95%" }
}

fn unknown() -> String {
    "-".to_owned()
}

pub(super) fn figure(unit: Unit, metric: ComparedMetric, value: Option<f64>) -> String {
    match (metric, value) {
        (_, None) => unknown(),
        (ComparedMetric::Throughput, Some(rate)) => format!("{} {}", number::rate(rate), unit.per_second()),
        (_, Some(ms)) => number::milliseconds(ms),
    }
}

/// Formats a ratio: as a percentage below 2, as a factor from there on.
fn change(ratio: f64) -> String {
    if ratio < 2.0 { format!("{:+.1}%", (ratio - 1.0) * 100.0) } else { number::times(ratio) }
}

fn probability(p: f64) -> String {
    if p < 0.0001 { "<0.0001".to_owned() } else { format!("{p:.4}") }
}

const fn word(verdict: ComparisonVerdict) -> &'static str {
    match verdict {
        ComparisonVerdict::Faster => "faster",
        ComparisonVerdict::Slower => "slower",
        ComparisonVerdict::NoDifferenceShown => "no difference",
        ComparisonVerdict::TooFewRuns | ComparisonVerdict::Invalid | ComparisonVerdict::NotKnown => "-",
    }
}

/// The verdict in words. If no difference is shown, the number of rounds needed to find one
/// follows.
pub(super) fn sentence(against: &SideComparison, unit: Unit, runs: (usize, usize)) -> String {
    let verdict = verdict_in_words(against, unit, runs);
    let needed = against.rounds_for_5_percent.zip(against.noise);
    match needed {
        Some((rounds, noise)) if against.verdict == ComparisonVerdict::NoDifferenceShown => format!(
            "{verdict} The {} of one side varies by {:.1}% from run to run: a difference of 5% takes {rounds} rounds.",
            unit.words(against.on),
            noise * 100.0
        ),
        _ => verdict,
    }
}

fn verdict_in_words(
    against: &SideComparison,
    unit: Unit,
    (runs_first, runs_other): (usize, usize),
) -> String {
    let letter = against.letter;
    let what = unit.words(against.on);
    let row = against.rows.iter().find(|row| row.metric == against.on);
    let runs = if against.is_paired {
        format!("{runs_first} rounds")
    } else {
        format!("{runs_first} and {runs_other} runs")
    };
    let lies = row
        .and_then(|row| row.ratio)
        .map(|ratio| format!("the {what} of {letter} is {} that of A ({runs})", above(ratio)));
    match (against.verdict, row) {
        (ComparisonVerdict::Faster | ComparisonVerdict::Slower, Some(row)) => {
            differs(against, row, what, &runs)
        }
        (
            ComparisonVerdict::NoDifferenceShown,
            Some(ComparedFigure { interval: Some(interval), p: Some(p), .. }),
        ) => format!(
            "No difference between A and {letter} is shown: {}, {} interval {} to {}, p {}.",
            lies.unwrap_or_default(),
            confidence(against),
            change(interval.low),
            change(interval.high),
            with_sign(*p)
        ),
        (ComparisonVerdict::TooFewRuns, _) => format!(
            "No verdict on {letter}: it takes {RUNS_FOR_INTERVAL} runs a side; {}.",
            lies.unwrap_or(runs)
        ),
        (ComparisonVerdict::Invalid, _) => format!(
            "No verdict on {letter}: runs are invalid or may have lost time, so the generator may cause the difference; {}.",
            lies.unwrap_or(runs)
        ),
        _ => format!("No verdict on {letter}: the {what} is zero or not known in a run."),
    }
}

fn differs(against: &SideComparison, row: &ComparedFigure, what: &str, runs: &str) -> String {
    let is_faster = against.verdict == ComparisonVerdict::Faster;
    let word = if is_faster { "faster" } else { "slower" };
    let (Some(ratio), Some(interval), Some(p)) = (row.ratio, row.interval, row.p) else {
        return String::new();
    };
    let amount = if interval.low >= 2.0 {
        format!(
            "a factor of {} ({} to {})",
            number::three_digits(ratio),
            number::three_digits(interval.low),
            number::three_digits(interval.high)
        )
    } else {
        let percent = |ratio: f64| format!("{:.1}%", (ratio - 1.0).abs() * 100.0);
        let mut from = interval.low;
        let mut to = interval.high;
        if ratio < 1.0 {
            std::mem::swap(&mut from, &mut to);
        }
        format!("{} ({} to {})", percent(ratio), percent(from), percent(to))
    };
    format!(
        "{} is {word} than A by {amount}: {what}, {} interval, p {}, {runs}.",
        against.letter,
        confidence(against),
        with_sign(p)
    )
}

fn above(ratio: f64) -> String {
    match ratio {
        r if r >= 2.0 => format!("{} times", number::three_digits(r)),
        r if r >= 1.0 => format!("{:.1}% above", (r - 1.0) * 100.0),
        r => format!("{:.1}% below", (1.0 - r) * 100.0),
    }
}

fn with_sign(p: f64) -> String {
    if p < 0.0001 { "< 0.0001".to_owned() } else { format!("= {p:.4}") }
}
