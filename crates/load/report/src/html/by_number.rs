//! Charts with a line for each kind of caching: throughput and response time against concurrency,
//! and response time against percentile.

use super::by_step::described;
use super::svg::{
    LogScale, drawing, horizontal_tick, label, points, px, shortened, spread, tick, vertical_tick,
};
use super::{ChartSize, colour};
use crate::number;
use crate::results::{ResponseTimes, Results};
use crate::summary::{CellSummary, ClassicRow, cell_result};
use maud::{Markup, html};
use std::collections::BTreeMap;

/// Height of these charts in pixels.
const HEIGHT: f64 = 380.0;
/// Smallest distance between two labels in pixels.
const LABEL_GAP: f64 = 16.0;
/// A percentage, and the time within which that share of the responses arrived.
type Percentile = (f64, fn(&ResponseTimes) -> f64);
/// Percentiles in the chart.
const PERCENTILES: [Percentile; 6] = [
    (50.0, |times| times.p50_ms),
    (75.0, |times| times.p75_ms),
    (90.0, |times| times.p90_ms),
    (95.0, |times| times.p95_ms),
    (99.0, |times| times.p99_ms),
    (99.9, |times| times.p999_ms),
];

/// A line of a chart: name, colour and points.
struct ChartLine {
    name: String,
    colour: &'static str,
    points: Vec<(f64, f64)>,
}

/// Makes one line for each title, because steps that differ only in concurrency are one kind of
/// caching.
fn by_concurrency(
    results: &Results,
    rows: &[ClassicRow<'_>],
    value: fn(&CellSummary) -> f64,
) -> Vec<ChartLine> {
    let mut series: Vec<ChartLine> = Vec::new();
    let mut seen: Vec<&str> = Vec::new();
    for (position, row) in rows.iter().enumerate() {
        if seen.contains(&row.step.title.as_str()) {
            continue;
        }
        seen.push(&row.step.title);
        let same =
            |id: &str| rows.iter().any(|other| other.step.id == id && other.step.title == row.step.title);
        let mut points = BTreeMap::new();
        for cell in results.cells.iter().filter(|cell| !cell.keepalive && same(&cell.step)) {
            if let Some(summary) = cell_result(cell).summary() {
                points.entry(cell.concurrency).or_insert_with(|| value(summary));
            }
        }
        let points = points.into_iter().map(|(concurrency, value)| (concurrency as f64, value)).collect();
        series.push(ChartLine { name: row.step.title.clone(), colour: colour(rows, position), points });
    }
    series.retain(|line| !line.points.is_empty());
    series
}

/// Chart of throughput against concurrency.
pub(super) fn throughput(id: &str, results: &Results, rows: &[ClassicRow<'_>], size: ChartSize) -> Markup {
    let series = by_concurrency(results, rows, |summary| summary.throughput.median);
    against_concurrency(id, &series, size, "Throughput against concurrency", "req/s")
}

/// Chart of the 95% response time against concurrency.
pub(super) fn response(id: &str, results: &Results, rows: &[ClassicRow<'_>], size: ChartSize) -> Markup {
    let series = by_concurrency(results, rows, |summary| summary.response.p95_ms);
    against_concurrency(id, &series, size, "95% response time against concurrency", "ms")
}

fn against_concurrency(id: &str, series: &[ChartLine], size: ChartSize, title: &str, unit: &str) -> Markup {
    let area = LineArea::new(size);
    let all = || series.iter().flat_map(|line| line.points.iter());
    let x = LogScale::over(all().map(|(concurrency, _)| *concurrency), area.left, area.right);
    let y = LogScale::over(all().map(|(_, value)| *value), area.bottom, area.top);
    let placed = place(series, |concurrency| x.at(concurrency), |value| y.at(value));
    let mut users: Vec<u64> = all().map(|(concurrency, _)| *concurrency as u64).collect();
    users.sort_unstable();
    users.dedup();
    let content = html! {
        @for (value, at) in y.ticks() { (horizontal_tick(at, area.left, area.right, &tick(value, size.narrow))) }
        @for (users, at) in thinned(&users, |users| x.at(users as f64)) {
            (vertical_tick(at, area.top, area.bottom, &users.to_string()))
        }
        (label(area.left - 8.0, 10.0, "end", "tick", unit))
        (label(area.right, area.bottom + 34.0, "end", "tick", "users"))
        (lines(series, &placed, &area))
    };
    let line = |line: &ChartLine| {
        let values = line
            .points
            .iter()
            .map(|(users, value)| format!("{} at {users:.0}", number::three_digits(*value)));
        format!("{}: {}.", line.name, values.collect::<Vec<_>>().join(", "))
    };
    let words = format!("In {unit}, by users. {}", series.iter().map(line).collect::<Vec<_>>().join(" "));
    drawing(id, size.width, HEIGHT, title, &words, &content)
}

/// Chart of response time against percentile, on an axis of nines.
pub(super) fn percentiles(id: &str, rows: &[ClassicRow<'_>], size: ChartSize) -> Markup {
    let area = LineArea::new(size);
    let line = |(position, row): (usize, &ClassicRow<'_>)| {
        let summary = row.result.summary()?;
        // A percentile beyond the last response of a run would only repeat its longest time, so it
        // is left out.
        let answers = summary.answers as f64 / summary.rounds.max(1) as f64;
        let known = PERCENTILES.iter().filter(|(percent, _)| answers * (1.0 - percent / 100.0) >= 1.0);
        let points = known.map(|(percent, read)| (*percent, read(&summary.response))).collect();
        Some(ChartLine {
            name: format!("{} {}", row.step.number, row.step.title),
            colour: colour(rows, position),
            points,
        })
    };
    let series: Vec<ChartLine> =
        rows.iter().enumerate().filter_map(line).filter(|line| !line.points.is_empty()).collect();
    let nines = |percent: f64| -(1.0 - percent / 100.0).log10();
    let least = nines(50.0);
    let most = nines(99.9);
    let x = |percent: f64| area.left + (nines(percent) - least) / (most - least) * (area.right - area.left);
    let values = series.iter().flat_map(|line| line.points.iter().map(|(_, value)| *value));
    let y = LogScale::over(values, area.bottom, area.top);
    let placed = place(&series, x, |value| y.at(value));
    let content = html! {
        @for (value, at) in y.ticks() { (horizontal_tick(at, area.left, area.right, &tick(value, size.narrow))) }
        @for (percent, at) in thinned(&PERCENTILES.map(|(percent, _)| percent), x) {
            (vertical_tick(at, area.top, area.bottom, &format!("{percent}%")))
        }
        (label(area.left - 8.0, 10.0, "end", "tick", "ms"))
        (lines(&series, &placed, &area))
    };
    drawing(
        id,
        size.width,
        HEIGHT,
        "Response time by percentile",
        &described(rows, |summary| {
            let times = &summary.response;
            let parts = PERCENTILES
                .iter()
                .map(|(percent, read)| format!("{percent}% within {}", number::milliseconds(read(times))));
            parts.collect::<Vec<_>>().join(", ")
        }),
        &content,
    )
}

/// Area of the lines, in pixels.
struct LineArea {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
    /// Width for the names of the lines.
    names: f64,
}

impl LineArea {
    fn new(size: ChartSize) -> Self {
        let (left, names) = if size.narrow { (40.0, 98.0) } else { (64.0, 190.0) };
        Self { left, right: size.width - names, top: 28.0, bottom: HEIGHT - 44.0, names }
    }
}

/// Converts the points of each line to pixels.
fn place(series: &[ChartLine], x: impl Fn(f64) -> f64, y: impl Fn(f64) -> f64) -> Vec<Vec<(f64, f64)>> {
    let line = |line: &ChartLine| line.points.iter().map(|(a, b)| (x(*a), y(*b))).collect();
    series.iter().map(line).collect()
}

/// Draws the lines with their names at the end.
fn lines(series: &[ChartLine], placed: &[Vec<(f64, f64)>], area: &LineArea) -> Markup {
    let ends: Vec<f64> = placed.iter().filter_map(|line| line.last()).map(|(_, y)| *y).collect();
    let labels = spread(&ends, LABEL_GAP, area.top, area.bottom);
    html! {
        @for ((line, pixels), at) in series.iter().zip(placed).zip(labels) {
            @let (end_x, end_y) = pixels.last().copied().unwrap_or((area.right, at));
            g class=(line.colour) {
                polyline points=(points(pixels)) class="line" {}
                @for (x, y) in pixels { circle cx=(px(*x)) cy=(px(*y)) r="3.5" class="dot" {} }
                polyline points=(points(&[(end_x + 5.0, end_y), (area.right + 4.0, at)])) class="leader" {}
                (label(area.right + 8.0, at + 4.5, "start", "series", &shortened(&line.name, area.names)))
            }
        }
    }
}

/// Keeps only those of ascending values whose labels do not overlap.
fn thinned<T: Copy>(values: &[T], at: impl Fn(T) -> f64) -> Vec<(T, f64)> {
    const APART: f64 = 30.0;
    let mut kept: Vec<(T, f64)> = Vec::new();
    for &value in values {
        let x = at(value);
        if kept.last().is_none_or(|(_, last)| x - last >= APART) {
            kept.push((value, x));
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::thinned;

    #[test]
    fn axis_labels_do_not_overlap() {
        assert_eq!(thinned(&[1, 2, 40, 100], f64::from), [(1, 1.0), (40, 40.0), (100, 100.0)]);
    }
}
