//! Charts with a row or column for each step: throughput, response time, the bystander, and load
//! beside throughput.

use super::svg::{
    LinearScale, LogScale, drawing, horizontal_tick, label, linear_tick, points, px, shortened, tick,
    vertical_tick,
};
use super::{ChartSize, colour};
use crate::number;
use crate::results::VisitOutcome;
use crate::star::mark;
use crate::summary::{CellSummary, ClassicRow};
use maud::{Markup, html};

/// Height of a row in pixels.
const ROW: f64 = 34.0;
/// Height of a row whose step is named above it, in pixels.
const NARROW_ROW: f64 = 40.0;
/// Space for labels to the right of the largest value, in pixels.
const RIGHT: f64 = 158.0;
/// Position where the titles of the steps begin, and space for the numbers of users, in pixels.
const TITLES: f64 = 44.0;
const USERS: f64 = 78.0;
/// Width of a figure in a column, in pixels.
const FIGURE: f64 = 34.0;
/// Space for the axis at the bottom, in pixels.
const BOTTOM: f64 = 30.0;

/// A row of a chart.
struct ChartRow<'a> {
    row: &'a ClassicRow<'a>,
    summary: Option<&'a CellSummary>,
    colour: &'static str,
    /// Vertical middle of the row in pixels.
    y: f64,
}

/// Area of rows and axis, in pixels.
struct RowArea<'a> {
    lines: Vec<ChartRow<'a>>,
    left: f64,
    right: f64,
    height: f64,
}

impl<'a> RowArea<'a> {
    fn new(rows: &'a [ClassicRow<'a>], size: ChartSize) -> Self {
        // On a narrow page, the step's name is above its row; on a wide page, beside it.
        let (left, row) = if size.narrow { (8.0, NARROW_ROW) } else { (352.0, ROW) };
        let below = if size.narrow { 14.0 } else { 0.0 };
        let line = |(position, line): (usize, &'a ClassicRow<'a>)| ChartRow {
            row: line,
            summary: line.result.summary(),
            colour: colour(rows, position),
            y: (position as f64 + 0.5) * row + below,
        };
        let lines: Vec<ChartRow<'a>> = rows.iter().enumerate().map(line).collect();
        let height = lines.len() as f64 * row + BOTTOM;
        Self { lines, left, right: size.width - RIGHT, height }
    }

    /// Draws a logarithmic axis and the names of the steps.
    fn background(&self, scale: &LogScale, size: ChartSize, unit: &str) -> Markup {
        let ticks: Vec<_> = scale.ticks().map(|(value, x)| (tick(value, size.narrow), x)).collect();
        self.with_ticks(&ticks, size, unit)
    }

    /// Draws an axis with these labels, and the names of the steps.
    fn with_ticks(&self, ticks: &[(String, f64)], size: ChartSize, unit: &str) -> Markup {
        let bottom = self.height - BOTTOM;
        html! {
            @for (text, x) in ticks { (vertical_tick(*x, 4.0, bottom, text)) }
            (label(size.width - 2.0, bottom + 18.0, "end", "tick", unit))
            @for line in &self.lines { (self.name(line, size)) }
        }
    }

    fn name(&self, line: &ChartRow<'_>, size: ChartSize) -> Markup {
        let step = &line.row.step;
        let users = format!("{} users", number::grouped(line.row.cell.concurrency));
        if size.narrow {
            let title = shortened(&step.title, size.width - TITLES - USERS);
            html! {
                text x=(px(self.left)) y=(px(line.y - 15.0)) class="name" {
                    (step.number) " " (title) tspan class="tick" dx="8" { (users) }
                }
            }
        } else {
            html! {
                (label(0.0, line.y + 4.5, "start", "name strong", &shortened(&step.number, TITLES - 6.0)))
                (label(TITLES, line.y + 4.5, "start", "name", &shortened(&step.title, self.left - TITLES - USERS)))
                (label(self.left - 12.0, line.y + 4.5, "end", "tick", &users))
            }
        }
    }

    /// Text of a row without figures.
    fn absent(&self, line: &ChartRow<'_>) -> Markup {
        let text = match line.row.result {
            crate::summary::CellResult::Void(_) => "void",
            _ => "not measured",
        };
        label(self.left + 4.0, line.y + 4.5, "start", "absent", text)
    }
}

/// Chart of each step's throughput to scale, with each round as a small ring.
pub(super) fn throughput(id: &str, rows: &[ClassicRow<'_>], size: ChartSize) -> Markup {
    let frame = RowArea::new(rows, size);
    let runs = |line: &ChartRow<'_>| -> Vec<f64> {
        let measured = line.row.cell.runs.iter().filter_map(|run| match &run.outcome {
            VisitOutcome::Measured(measured) => Some(measured.throughput_per_s),
            VisitOutcome::Void { .. } => None,
        });
        measured.collect()
    };
    let scale = LinearScale::over(frame.lines.iter().flat_map(&runs), frame.left, frame.right);
    let ticks = scale.ticks().map(|(value, x)| (linear_tick(value, size.narrow), x)).to_vec();
    let content = html! {
        (frame.with_ticks(&ticks, size, "req/s"))
        @for line in &frame.lines {
            @if let Some(summary) = line.summary {
                // A bar is at least one pixel long, so that it stays visible.
                @let x = scale.at(summary.throughput.median).max(frame.left + 1.0);
                @let least = if summary.is_limited() { "≥ " } else { "" };
                g class=(line.colour) {
                    line x1=(px(frame.left)) x2=(px(x)) y1=(px(line.y)) y2=(px(line.y)) class="bar" {}
                    @for run in runs(line) { circle cx=(px(scale.at(run))) cy=(px(line.y)) r="3" class="ring" {} }
                }
                text x=(px(scale.at(summary.throughput.high) + 10.0)) y=(px(line.y + 4.5)) class="value" {
                    (least) (number::rate(summary.throughput.median)) (mark(summary))
                    @if let Some(gain) = line.row.factor_first {
                        tspan class="tick" dx="8" {
                            (crate::table::times(gain))
                        }
                    }
                }
            } @else { (frame.absent(line)) }
        }
    };
    drawing(
        id,
        size.width,
        frame.height,
        "Throughput of each step",
        &described(rows, |summary| format!("{} requests a second", number::rate(summary.throughput.median))),
        &content,
    )
}

/// Chart of each step's response times: median, 95% and 99%.
pub(super) fn response(id: &str, rows: &[ClassicRow<'_>], size: ChartSize) -> Markup {
    let frame = RowArea::new(rows, size);
    let times = frame.lines.iter().filter_map(|line| Some(line.summary?.response));
    let scale = LogScale::over(times.flat_map(|times| [times.p50_ms, times.p99_ms]), frame.left, frame.right);
    let content = html! {
        (frame.background(&scale, size, "ms"))
        @for line in &frame.lines {
            @if let Some(summary) = line.summary {
                @let times = summary.response;
                g class=(line.colour) {
                    line x1=(px(scale.at(times.p50_ms))) x2=(px(scale.at(times.p99_ms))) y1=(px(line.y)) y2=(px(line.y)) class="range" {}
                    circle cx=(px(scale.at(times.p50_ms))) cy=(px(line.y)) r="4" class="ring" {}
                    circle cx=(px(scale.at(times.p95_ms))) cy=(px(line.y)) r="5.5" class="dot" {}
                }
                (label(scale.at(times.p99_ms) + 12.0, line.y + 4.5, "start", "value", &number::milliseconds(times.p95_ms)))
            } @else { (frame.absent(line)) }
        }
    };
    drawing(
        id,
        size.width,
        frame.height,
        "Response time of each step",
        &described(rows, |summary| {
            let times = summary.response;
            format!(
                "50% of the responses within {}, 95% within {}, 99% within {}",
                number::milliseconds(times.p50_ms),
                number::milliseconds(times.p95_ms),
                number::milliseconds(times.p99_ms)
            )
        }),
        &content,
    )
}

/// Chart of the uncached page: on the idle site, and while the step was loaded.
pub(super) fn bystander(id: &str, rows: &[ClassicRow<'_>], size: ChartSize) -> Markup {
    let frame = RowArea::new(rows, size);
    let pair =
        |line: &ChartRow<'_>| Some((line.summary?.idle.map(|idle| idle.p95_ms), line.summary?.bystander?));
    let values = frame
        .lines
        .iter()
        .filter_map(pair)
        .flat_map(|(idle, loaded)| [idle.unwrap_or(loaded.p95_ms), loaded.p95_ms]);
    let scale = LogScale::over(values, frame.left, frame.right);
    let content = html! {
        (frame.background(&scale, size, "ms"))
        @for line in &frame.lines {
            @if let Some((idle, loaded)) = pair(line).filter(|(_, loaded)| loaded.requests > 0) {
                @let x = scale.at(loaded.p95_ms);
                @let from = scale.at(idle.unwrap_or(loaded.p95_ms));
                g class=(line.colour) {
                    line x1=(px(from)) x2=(px(x)) y1=(px(line.y)) y2=(px(line.y)) class="range" {}
                    @if idle.is_some() { circle cx=(px(from)) cy=(px(line.y)) r="4" class="ring" {} }
                    circle cx=(px(x)) cy=(px(line.y)) r="5.5" class="dot" {}
                }
                (label(x.max(from) + 12.0, line.y + 4.5, "start", "value", &crate::table::bystander(loaded)))
            } @else { (frame.absent(line)) }
        }
    };
    drawing(
        id,
        size.width,
        frame.height,
        "An uncached page while each step is loaded",
        &described(rows, |summary| {
            let idle = summary.idle.map_or_else(|| "unknown".to_owned(), crate::table::bystander);
            let loaded = summary.bystander.map_or_else(|| "unknown".to_owned(), crate::table::bystander);
            format!("95% within {loaded} under load, {idle} on the idle site")
        }),
        &content,
    )
}

/// Chart of each step's throughput and observed load on one axis.
pub(super) fn load_and_throughput(id: &str, rows: &[ClassicRow<'_>], size: ChartSize) -> Markup {
    let height = 330.0;
    let (left, right, top, bottom) =
        (if size.narrow { 48.0 } else { 64.0 }, size.width - 30.0, 24.0, height - 52.0);
    let figures = |field: fn(&CellSummary) -> Option<f64>| -> Vec<(usize, f64)> {
        let found = rows.iter().enumerate().filter_map(|(at, row)| Some((at, field(row.result.summary()?)?)));
        found.collect()
    };
    let throughput = figures(|summary| Some(summary.throughput.median));
    let load = figures(|summary| summary.observed_load);
    let values = throughput.iter().chain(&load).map(|(_, value)| *value);
    let scale = LogScale::over(values, bottom, top);
    let column = (right - left) / rows.len().max(1) as f64;
    let rate = if size.narrow { number::compact } else { number::rate };
    let x = |at: usize| left + (at as f64 + 0.5) * column;
    // If columns are narrower than their figures, only every second or third figure is shown.
    let stride = (FIGURE / column).ceil().max(1.0) as usize;
    let place = |series: &[(usize, f64)]| -> Vec<(f64, f64)> {
        series.iter().map(|(at, value)| (x(*at), scale.at(*value))).collect()
    };
    let content = html! {
        @for (value, y) in scale.ticks() { (horizontal_tick(y, left, right, &tick(value, size.narrow))) }
        @for (at, row) in rows.iter().enumerate() {
            (label(x(at), bottom + 20.0, "middle", "name strong", &row.step.number))
            @if !size.narrow { (label(x(at), bottom + 38.0, "middle", "tick", &shortened(&row.step.title, column))) }
        }
        g class="ca" {
            polyline points=(points(&place(&throughput))) class="line" {}
            @for ((px_x, y), (at, value)) in place(&throughput).into_iter().zip(&throughput) {
                circle cx=(px(px_x)) cy=(px(y)) r="4.5" class="dot" {}
                @if at % stride == 0 { (label(px_x, y - 11.0, "middle", "value", &rate(*value))) }
            }
        }
        g class="c3" {
            polyline points=(points(&place(&load))) class="line dashed" {}
            @for ((px_x, y), (at, value)) in place(&load).into_iter().zip(&load) {
                circle cx=(px(px_x)) cy=(px(y)) r="4.5" class="dot" {}
                // The figure is below the line unless it would overlap the axis, where small loads
                // are.
                @let beside = if y + 19.0 > bottom { y - 11.0 } else { y + 19.0 };
                @if at % stride == 0 { (label(px_x, beside, "middle", "value", &number::load(*value))) }
            }
        }
    };
    drawing(
        id,
        size.width,
        height,
        "Throughput and observed load of each step",
        &described(rows, |summary| {
            let load = summary.observed_load.map_or_else(|| "unknown".to_owned(), number::load);
            format!("{} requests a second, load {load}", number::rate(summary.throughput.median))
        }),
        &content,
    )
}

/// Describes a chart in words, step by step.
pub(super) fn described(rows: &[ClassicRow<'_>], words: impl Fn(&CellSummary) -> String) -> String {
    let step = |row: &ClassicRow<'_>| {
        let figures = row.result.summary().map_or_else(|| "no figures".to_owned(), &words);
        format!("Step {}, {}: {figures}.", row.step.number, row.step.title)
    };
    rows.iter().map(step).collect::<Vec<_>>().join(" ")
}
