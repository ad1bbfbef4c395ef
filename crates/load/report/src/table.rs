//! The plain-text report of a ladder. It ends with the headline and the classic table: step,
//! concurrency, caching, throughput, mean and 95% response, bytes per page, observed load. With
//! `--verbose`, all other tables precede these two.
//!
//! Invariant: no line is longer than the given width, if the width is at least [`WIDTH_MIN`]. The
//! text has no colours and no terminal codes.

use crate::details;
use crate::difference::Gain;
use crate::grid::{Align, Grid, GridColumn, wrapped};
use crate::headline::headline;
use crate::number;
use crate::results::{LoadRecord, Results};
use crate::star::{MEANING, mark, note, star};
use crate::summary::{
    ANSWERS_FEW, BystanderFigures, CellResult, CellSummary, ClassicRow, cell_result, first_number, load_rows,
    rows,
};

/// Smallest supported width in columns. A smaller width is raised to it.
pub const WIDTH_MIN: usize = 80;
/// Width from which the classic table includes the factors.
const WIDTH_FACTORS: usize = 118;
/// Width from which all figures of a step are in one row.
pub(crate) const WIDTH_ONE_BLOCK: usize = 175;

/// Returns the report for a terminal or pipe of `width` columns. `is_verbose` adds the tables with
/// all other figures.
pub fn text(results: &Results, width: usize, is_verbose: bool) -> String {
    let width = width.max(WIDTH_MIN);
    let rows = rows(results);
    let mut out = String::new();
    let synthetic = if results.synthetic { " (a synthetic site)" } else { "" };
    wrapped(&format!("{}{synthetic}, page {}", results.title, results.page), width, "", &mut out);
    out.push('\n');
    if is_verbose {
        details::all(results, &rows, width, &mut out);
        out.push('\n');
    }
    if rows.is_empty() {
        for load in &results.loads {
            load_alone(results, load, width, &mut out);
        }
    } else {
        summary(&rows, width, &mut out);
    }
    marks(results, &rows, is_verbose, width, &mut out);
    out
}

/// Writes the headline and the table of a load.
fn summary(rows: &[ClassicRow<'_>], width: usize, out: &mut String) {
    if let Some(headline) = headline(rows) {
        wrapped(&headline, width, "", out);
        out.push('\n');
    }
    classic(rows, width, out);
}

/// Writes the report of a load when the anonymous load was not measured.
fn load_alone(results: &Results, load: &LoadRecord, width: usize, out: &mut String) {
    wrapped(&format!("Load: {}", load.title), width, "", out);
    summary(&load_rows(results, load), width, out);
    out.push('\n');
}

/// Writes the classic columns, and more columns if the width allows.
fn classic(rows: &[ClassicRow<'_>], width: usize, out: &mut String) {
    let columns = match width {
        WIDTH_ONE_BLOCK.. => more_columns(rows),
        WIDTH_FACTORS.. => factor_columns(rows).into(),
        _ => Vec::new(),
    };
    let mut grid = Grid::new(first_columns().into_iter().chain(columns).collect());
    for row in rows {
        match &row.result {
            CellResult::Measured(summary) => {
                let more = match width {
                    WIDTH_ONE_BLOCK.. => more_cells(row, summary),
                    WIDTH_FACTORS.. => factor_cells(row),
                    _ => Vec::new(),
                };
                grid.row(first_cells(row, summary).into_iter().chain(more).collect());
            }
            other => grid.row_with_rest(names(row), &no_figures(other)),
        }
    }
    out.push_str(&grid.text(width));
}

/// Writes the meaning of the table's signs, and notes on other measurements.
fn marks(results: &Results, rows: &[ClassicRow<'_>], is_verbose: bool, width: usize, out: &mut String) {
    let mut say = |text: &str| wrapped(text, width, "  ", out);
    let few = |cell| cell_result(cell).summary().is_some_and(|summary| summary.few);
    let has_few = if is_verbose || rows.is_empty() {
        results.all_cells().any(few)
    } else {
        rows.iter().any(|row| few(row.cell))
    };
    if has_few {
        say(&format!("* fewer than {ANSWERS_FEW} responses in a round: percentiles are coarse."));
    }
    if width >= WIDTH_FACTORS {
        factor_signs(rows).for_each(&mut say);
    }
    if is_verbose && results.all_cells().any(|cell| star(cell).is_some()) {
        say(MEANING);
    }
    if !results.complete {
        say("Not complete: the same command makes the missing visits.");
    }
    let notes = rows.iter().filter_map(|row| note(row, row.result.summary()?));
    notes.for_each(|note| say(&note));
    if !is_verbose && !rows.is_empty() && !results.loads.is_empty() {
        let titles: Vec<&str> = results.loads.iter().map(|load| load.title.as_str()).collect();
        say(&format!("Also measured, and shown by --verbose: {}.", titles.join("; ")));
    }
}

/// Meaning of the signs that factors of these rows have.
pub(crate) fn factor_signs(rows: &[ClassicRow<'_>]) -> impl Iterator<Item = &'static str> {
    let gains = || rows.iter().flat_map(|row| [row.factor_before, row.factor_first]).flatten();
    let noise =
        gains().any(|gain| !gain.is_step).then_some("≈1×: no difference beyond the noise of the rounds.");
    let bound = gains()
        .any(|gain| gain.is_lower_bound)
        .then_some("≥: the load generator was the limit, so the factor may be larger.");
    noise.into_iter().chain(bound)
}

/// Reason why a row has no figures.
pub(crate) fn no_figures(result: &CellResult) -> String {
    match result {
        CellResult::Void(reason) => format!("VOID: {reason}"),
        _ => "not measured yet".to_owned(),
    }
}

/// Columns of the classic table.
pub(crate) fn first_columns() -> Vec<GridColumn> {
    vec![
        GridColumn::new(&["step"], Align::Left),
        GridColumn::new(&["concur-", "rency"], Align::Right),
        GridColumn::new(&["caching"], Align::Left).flexible(),
        GridColumn::new(&["throughput"], Align::Right),
        GridColumn::new(&["mean"], Align::Right),
        GridColumn::new(&["95%", "response"], Align::Right),
        GridColumn::new(&["bytes", "a page"], Align::Right),
        GridColumn::new(&["observed", "load"], Align::Right),
    ]
}

/// First cells of a row: number, concurrency and title.
pub(crate) fn names(row: &ClassicRow<'_>) -> Vec<String> {
    vec![row.step.number.clone(), number::grouped(row.cell.concurrency), row.step.title.clone()]
}

/// Cells of a row for the classic columns.
pub(crate) fn first_cells(row: &ClassicRow<'_>, summary: &CellSummary) -> Vec<String> {
    let mut cells = names(row);
    cells.extend([
        format!("{}{} req/s", number::rate(summary.throughput.median), mark(summary)),
        number::milliseconds(summary.response.mean_ms),
        number::milliseconds(summary.response.p95_ms),
        or_dash(summary.bytes_per_page.map(|bytes| number::bytes(bytes as u64))),
        or_dash(summary.observed_load.map(number::load)),
    ]);
    cells
}

/// Factor of a row relative to another; `≈1×` if the difference is noise, and with `≥` if it is a
/// lower bound.
pub(crate) fn times(gain: Gain) -> String {
    match gain {
        Gain { is_step: false, .. } => "≈1×".to_owned(),
        Gain { is_lower_bound: true, times, .. } => format!("≥ {}", number::times(times)),
        Gain { times, .. } => number::times(times),
    }
}

fn factor_columns(rows: &[ClassicRow<'_>]) -> [GridColumn; 2] {
    ["before", first_number(rows)].map(|other| GridColumn::new(&["× step", other], Align::Right))
}

fn factor_cells(row: &ClassicRow<'_>) -> Vec<String> {
    [row.factor_before, row.factor_first].map(|gain| or_dash(gain.map(times))).to_vec()
}

pub(crate) fn more_columns(rows: &[ClassicRow<'_>]) -> Vec<GridColumn> {
    let [before, first] = factor_columns(rows);
    vec![
        GridColumn::new(&["failed"], Align::Right),
        GridColumn::new(&["sd"], Align::Right),
        GridColumn::new(&["system", "load"], Align::Right),
        GridColumn::new(&["CPU per", "page"], Align::Right),
        GridColumn::new(&["memory", "(PSS)"], Align::Right),
        before,
        first,
        GridColumn::new(&["by-", "stander", "p95"], Align::Right),
        GridColumn::new(&["bound by"], Align::Left).flexible(),
    ]
}

pub(crate) fn more_cells(row: &ClassicRow<'_>, summary: &CellSummary) -> Vec<String> {
    vec![
        summary.failed.to_string(),
        number::milliseconds(summary.response.sd_ms),
        or_dash(summary.load_average.map(number::load)),
        or_dash(summary.cpu_per_page_ms.map(number::milliseconds)),
        or_dash(summary.site_pss_bytes.map(|bytes| number::bytes(bytes as u64))),
        or_dash(row.factor_before.map(times)),
        or_dash(row.factor_first.map(times)),
        or_dash(summary.bystander.map(bystander)),
        summary.bound_by.words().to_owned(),
    ]
}

/// The bystander's 95th percentile, with `>` before it if it is only a lower bound.
pub(crate) fn bystander(figure: BystanderFigures) -> String {
    if figure.requests == 0 {
        return "failed".to_owned();
    }
    let sign = if figure.at_least { ">" } else { "" };
    format!("{sign}{}", number::milliseconds(figure.p95_ms))
}

fn or_dash(text: Option<String>) -> String {
    text.unwrap_or_else(|| "-".to_owned())
}
