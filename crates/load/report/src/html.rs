//! `report.html`: a single file without scripts, which sends no request.
//!
//! Invariants:
//!
//! * Everything shown is computed from the results.
//! * Each chart is drawn twice with the same content, for wide and for narrow pages, and describes
//!   itself in words.
//! * The page's own policy forbids it to load anything.

mod by_number;
mod by_step;
mod loads;
mod over_time;
mod run;
mod staircase;
mod svg;
mod tables;
mod trial;
mod visits;

pub use run::run_page;
pub use trial::{TrialFigure, TrialPage, TrialSection, trial_page};
pub use visits::visits_page;

use crate::headline::{HeadlinePart, parts};
use crate::number;
use crate::results::{LoadRecord, Results};
use crate::summary::{CellResult, ClassicRow, cell_result, first_number, one_concurrency, rows};
use maud::{DOCTYPE, Markup, PreEscaped, html};

const STYLE: &str = include_str!("html/style.css");
/// Content Security Policy that forbids every request. Style and the empty icon are part of the
/// page.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:";
/// Widths of charts in pixels: over the whole page, beside another chart, and on a narrow page.
const WIDE: f64 = 1150.0;
const HALF: f64 = 560.0;
const NARROW: f64 = 350.0;
/// Colours of the steps in order; the last kind of caching uses [`ACCENT`].
const RAMP: [&str; 6] = ["c0", "c1", "c2", "c3", "c4", "c5"];
const ACCENT: &str = "ca";

/// Size of a chart.
#[derive(Clone, Copy, Debug)]
struct ChartSize {
    width: f64,
    narrow: bool,
}

/// Returns the page.
pub fn page(results: &Results) -> String {
    let rows = rows(results);
    let content = html! {
        (head(results, &rows))
        @if !rows.is_empty() {
            (tables::classic(&rows))
            (first_charts(results, &rows))
        }
        section id="details" {
            h2.details { "Details" }
            @if let Some(about) = &results.about { p.about { (about) } }
        }
        @if !rows.is_empty() {
            (tables::further_figures(&rows))
            (charts(results, &rows))
        }
        (loads::beside(&rows))
        (loads::sections(results))
        (staircase::sections(results))
        (tables::further(results))
        @if !rows.is_empty() { (tables::steps(results, &rows)) }
        (tables::commands(results))
        (tables::environment(results))
    };
    document(&format!("{}: what each layer brings", results.title), &content)
}

/// Returns a page with this title and content.
fn document(title: &str, content: &Markup) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="color-scheme" content="light dark";
                link rel="icon" href="data:,";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body { main { (content) } }
        }
    };
    page.into_string()
}

/// Colour of a row. The last kind of caching is distinguished from the steps before it.
fn colour(rows: &[ClassicRow<'_>], position: usize) -> &'static str {
    let title = |row: &ClassicRow<'_>| row.step.title.clone();
    let last = rows.last().map(title);
    if rows.get(position).map(title) == last {
        return ACCENT;
    }
    let before = rows.iter().filter(|row| Some(title(row)) != last).count();
    let shade = if before > 1 { position * (RAMP.len() - 1) / (before - 1) } else { 0 };
    RAMP.get(shade).copied().unwrap_or("c5")
}

fn head(results: &Results, rows: &[ClassicRow<'_>]) -> Markup {
    let rounds = results.plan.rounds;
    html! {
        header {
            p.kicker { "Ladder report" }
            h1 { (results.title) }
            p.lead { (verdict(results, rows)) }
            @if !results.complete {
                p.warning { "Not complete: some visits are missing. The same command makes them." }
            }
            @for row in rows {
                @if let CellResult::Void(reason) = &row.result {
                    p.warning { strong { "Step " (row.step.number) " is void." } " " (reason) "." }
                }
            }
            p.facts {
                @if results.synthetic { span { "synthetic site" } }
                span { "page " code { (results.page) } }
                @if let Some(page) = &results.reference { span { (number::bytes(page.length_bytes)) } }
                span { (rounds) @if rounds == 1 { " round" } @else { " rounds" } }
                span { "seed " (results.plan.seed) }
                span { (number::moment(results.started_at_s)) }
            }
        }
    }
}

/// The headline: from the first step to the fastest.
fn verdict(results: &Results, rows: &[ClassicRow<'_>]) -> Markup {
    let Some(parts) = parts(rows) else { return without_anonymous(results) };
    html! {
        @for part in &parts {
            @match part {
                HeadlinePart::Plain(text) => (text),
                HeadlinePart::Strong(text) => strong { (text) },
            }
        }
    }
}

/// The headline if no step has figures of the anonymous load.
fn without_anonymous(results: &Results) -> Markup {
    let has_figures =
        |load: &&LoadRecord| load.cells.iter().any(|cell| cell_result(cell).summary().is_some());
    let loads: Vec<&str> = results.loads.iter().filter(has_figures).map(|load| load.title.as_str()).collect();
    html! {
        @if loads.is_empty() { "Nothing has been measured yet." }
        @else { "Measured only under further loads: " (loads.join(", ")) "." }
    }
}

/// Charts above the details.
fn first_charts(results: &Results, rows: &[ClassicRow<'_>]) -> Markup {
    let alike = one_concurrency(results);
    html! {
        @let caption = format!("Good responses a second, on a linear axis. Rings: the rounds. Grey: factor over step {}.", first_number(rows));
        (figure("throughput", "Throughput to scale", &caption, WIDE,
            |id, size| by_step::throughput(id, rows, size)))
        @if let Some((users, alike)) = &alike {
            @let caption = format!("Steps that were measured with {} users, on a logarithmic axis. Ring: 50% of the responses; dot and number: 95%; end of the line: 99%.", number::grouped(*users));
            (figure("response", &format!("Response time at {} users", number::grouped(*users)), &caption, WIDE,
                |id, size| by_step::response(id, alike, size)))
        }
    }
}

fn charts(results: &Results, rows: &[ClassicRow<'_>]) -> Markup {
    let has_bystander =
        rows.iter().any(|row| row.result.summary().is_some_and(|summary| summary.bystander.is_some()));
    html! {
        (figure("load", "Throughput and load on one axis", "Throughput (line, req/s) and observed load (dashed, runnable and blocked tasks of the site); the axis is logarithmic.", WIDE,
            |id, size| by_step::load_and_throughput(id, rows, size)))
        @if has_bystander {
            (figure("bystander", "Response time of an uncached page under load", "95% response time of an uncached page. Ring: on the idle site; dot and number: requested once a second while the step was loaded.", WIDE,
                |id, size| by_step::bystander(id, rows, size)))
        }
        div.pair {
            (figure("throughput-users", "Throughput against concurrency", "Each step without keep-alive, at every number of users that was measured.", HALF,
                |id, size| by_number::throughput(id, results, rows, size)))
            (figure("response-users", "Response time against concurrency", "95% of the responses arrived within this time.", HALF,
                |id, size| by_number::response(id, results, rows, size)))
        }
        @if let Some((users, alike)) = &one_concurrency(results) {
            @let heading = format!("Response time by percentile, at {} users", number::grouped(*users));
            (figure("percentiles", &heading, "The axis is stretched towards the slowest responses. Percentiles with fewer than one response beyond them are left out.", WIDE,
                |id, size| by_number::percentiles(id, alike, size)))
        }
    }
}

/// A chart, drawn for wide and for narrow pages, with its heading and explanation.
fn figure(
    id: &str,
    heading: &str,
    caption: &str,
    width: f64,
    draw: impl Fn(&str, ChartSize) -> Markup,
) -> Markup {
    html! {
        figure id=(id) {
            h2 { (heading) }
            figcaption { (caption) }
            div.chart.wide { (draw(&format!("{id}-wide"), ChartSize { width, narrow: false })) }
            div.chart.narrow { (draw(&format!("{id}-narrow"), ChartSize { width: NARROW, narrow: true })) }
        }
    }
}
