//! The classic table as plain text: step, concurrency, caching, throughput, 95% response, observed load; beside
//! or below it the rest of each step's figures, under each row the command that repeats it, then a sentence for
//! each step and the tables of the further cells.
//!
//! Invariant: no line but a command, which is there to be copied, is longer than the given width, as long as
//! that is at least [`WIDTH_MIN`]. No colours, no terminal codes.

use crate::grid::{Align, Column, Grid, wrapped};
use crate::number;
use crate::processes;
use crate::results::{CellRecord, Results};
use crate::sentence::{interval, noise, sentence};
use crate::summary::{
    ANSWERS_FEW, Bystander, Row, Standing, Summary, rows, shared_concurrencies, standing, step_of,
};

/// The narrowest width that is kept.
pub const WIDTH_MIN: usize = 80;
/// The width from which all figures of a step stand in one row.
const WIDTH_ONE_BLOCK: usize = 165;

/// How many columns the second block has on a narrow terminal: all but the last.
const NARROW_COLUMNS: usize = 8;

/// The whole text for a terminal or pipe of `width` columns.
pub fn text(results: &Results, width: usize) -> String {
    let width = width.max(WIDTH_MIN);
    let rows = rows(results);
    let mut out = String::new();
    let synthetic = if results.synthetic { " (a synthetic site)" } else { "" };
    out.push_str(&format!("{}{synthetic}, page {}\n\n", results.title, results.page));
    classic(&rows, width, &mut out);
    processes::table(&rows, width, &mut out);
    sentences(&rows, width, &mut out);
    keepalive(results, &mut out, width);
    equal_concurrency(results, &mut out, width);
    notes(results, &rows, width, &mut out);
    out
}

/// The classic columns, and the rest beside them or below.
fn classic(rows: &[Row<'_>], width: usize, out: &mut String) {
    let together = width >= WIDTH_ONE_BLOCK;
    let mut grid = Grid::new(
        first_columns().into_iter().chain(if together { more_columns() } else { Vec::new() }).collect(),
    );
    for row in rows {
        match &row.standing {
            Standing::Measured(summary) => {
                let mut cells = first_cells(row, summary);
                if together {
                    cells.extend(more_cells(row, summary));
                }
                grid.row(cells);
            }
            other => grid.row_with_rest(names(row), &no_figures(other)),
        }
        grid.verbatim(&format!("     {}", row.cell.ab));
    }
    out.push_str(&grid.text(width));
    if !together {
        // What bound each step is in its sentence.
        let columns = std::iter::once(Column::new(&["step"], Align::Left)).chain(more_columns());
        let mut grid = Grid::new(columns.take(NARROW_COLUMNS).collect());
        for row in rows {
            match &row.standing {
                Standing::Measured(summary) => {
                    let cells = std::iter::once(row.step.number.clone()).chain(more_cells(row, summary));
                    grid.row(cells.take(NARROW_COLUMNS).collect());
                }
                // The reason stands in the first block.
                Standing::Void(_) => grid.row(vec![row.step.number.clone(), "VOID".to_owned()]),
                Standing::Missing => grid.row(vec![row.step.number.clone()]),
            }
        }
        out.push('\n');
        out.push_str(&grid.text(width));
    }
}

fn no_figures(standing: &Standing) -> String {
    match standing {
        Standing::Void(reason) => format!("VOID: {reason}"),
        _ => "not measured yet".to_owned(),
    }
}

fn first_columns() -> Vec<Column> {
    vec![
        Column::new(&["step"], Align::Left),
        Column::new(&["concur-", "rency"], Align::Right),
        Column::new(&["caching"], Align::Left).flexible(),
        Column::new(&["throughput"], Align::Right),
        Column::new(&["95%", "response"], Align::Right),
        Column::new(&["observed", "load"], Align::Right),
        Column::new(&["system", "load"], Align::Right),
    ]
}

fn names(row: &Row<'_>) -> Vec<String> {
    vec![row.step.number.clone(), row.cell.concurrency.to_string(), row.step.title.clone()]
}

fn first_cells(row: &Row<'_>, summary: &Summary) -> Vec<String> {
    let mark = if summary.few { "*" } else { "" };
    let mut cells = names(row);
    cells.extend([
        format!("{}{mark} req/s", number::rate(summary.throughput.median)),
        number::milliseconds(summary.response.p95_ms),
        or_dash(summary.observed_load.map(number::load)),
        or_dash(summary.load_average.map(number::load)),
    ]);
    cells
}

fn more_columns() -> Vec<Column> {
    vec![
        Column::new(&["failed"], Align::Right),
        Column::new(&["mean ± sd"], Align::Right),
        Column::new(&["CPU per", "page"], Align::Right),
        Column::new(&["memory", "(PSS)"], Align::Right),
        Column::new(&["× step", "before"], Align::Right),
        Column::new(&["× step", "1"], Align::Right),
        Column::new(&["by-", "stander", "p95"], Align::Right),
        Column::new(&["bound by"], Align::Left).flexible(),
    ]
}

fn more_cells(row: &Row<'_>, summary: &Summary) -> Vec<String> {
    let times = |factor: Option<stats::Factor>| or_dash(factor.map(|factor| number::times(factor.times)));
    vec![
        summary.failed.to_string(),
        number::mean_and_deviation(summary.response.mean_ms, summary.response.sd_ms),
        or_dash(summary.cpu_per_page_ms.map(number::milliseconds)),
        or_dash(summary.site_pss_bytes.map(|bytes| number::bytes(bytes as u64))),
        times(row.factor_before),
        times(row.factor_first),
        or_dash(summary.bystander.map(bystander)),
        summary.bound_by.words().to_owned(),
    ]
}

/// The bystander's 95th percentile: with a sign if it can only be more.
pub(crate) fn bystander(figure: Bystander) -> String {
    if figure.requests == 0 {
        return "failed".to_owned();
    }
    let sign = if figure.at_least { ">" } else { "" };
    format!("{sign}{}", number::milliseconds(figure.p95_ms))
}

fn or_dash(text: Option<String>) -> String {
    text.unwrap_or_else(|| "-".to_owned())
}

fn sentences(rows: &[Row<'_>], width: usize, out: &mut String) {
    out.push('\n');
    let before = std::iter::once(None).chain(rows.iter().map(Some));
    for (row, before) in rows.iter().zip(before) {
        let text = format!("{}. {}: {}", row.step.number, row.step.title, sentence(row, before));
        wrapped(&text, width, "   ", out);
    }
}

/// Cells that used their connections again, beside the step's own.
fn keepalive(results: &Results, out: &mut String, width: usize) {
    let cells: Vec<&CellRecord> = results.cells.iter().filter(|cell| cell.keepalive).collect();
    if cells.is_empty() {
        return;
    }
    out.push_str("\nWith keep-alive\n");
    let mut grid = Grid::new(first_columns());
    for cell in cells {
        further_row(results, cell, &mut grid);
        grid.verbatim(&format!("     {}", cell.ab));
    }
    out.push_str(&grid.text(width));
}

fn further_row(results: &Results, cell: &CellRecord, grid: &mut Grid) {
    let Some(step) = step_of(results, cell) else { return };
    let row = Row { step, cell, standing: standing(cell), factor_before: None, factor_first: None };
    match &row.standing {
        Standing::Measured(summary) => grid.row(first_cells(&row, summary)),
        other => grid.row_with_rest(names(&row), &no_figures(other)),
    }
}

/// Every step at the same concurrency, one table for each.
fn equal_concurrency(results: &Results, out: &mut String, width: usize) {
    for concurrency in shared_concurrencies(results) {
        out.push_str(&format!("\nEvery step at concurrency {concurrency}, without keep-alive\n"));
        let mut grid = Grid::new(first_columns());
        for cell in results.cells.iter().filter(|cell| !cell.keepalive && cell.concurrency == concurrency) {
            further_row(results, cell, &mut grid);
        }
        out.push_str(&grid.text(width));
    }
}

fn notes(results: &Results, rows: &[Row<'_>], width: usize, out: &mut String) {
    out.push('\n');
    let mut note = |text: &str| wrapped(text, width, "  ", out);
    let standings: Vec<Standing> = results.cells.iter().map(standing).collect();
    if standings.iter().filter_map(Standing::summary).any(|summary| summary.few) {
        note(&format!("* fewer than {ANSWERS_FEW} answers in a round: percentiles are coarse."));
    }
    if !results.complete {
        note("Not complete: the same command goes on with the visits that are missing.");
    }
    let rounds = results.plan.rounds;
    let verdict = if rounds < stats::RUNS_FOR_INTERVAL as u64 {
        "with fewer than five there are figures and no intervals".to_owned()
    } else {
        let factors = rows.iter().filter_map(|row| Some((row, row.factor_first?)));
        let texts = factors.map(|(row, factor)| {
            format!("step {} {}{}", row.step.number, number::times(factor.times), interval(factor))
        });
        format!("× step 1 with 95% intervals: {}", texts.collect::<Vec<_>>().join(", "))
    };
    let plural = if rounds == 1 { "" } else { "s" };
    note(&format!(
        "Each figure is the median of the rounds' own ({rounds} round{plural}, seed {}); {verdict}.",
        results.plan.seed
    ));
    note(
        "Mean ± sd: of the response times. Observed load: mean number of runnable and blocked tasks of the site, at 10 Hz. Bystander: an uncached page asked once a second during the load.",
    );
    idle_note(rows, &mut note);
    if let Some(noise) = noise(results) {
        note(&format!("{noise}."));
    }
    for (row, summary) in rows.iter().filter_map(|row| Some((row, row.standing.summary()?))) {
        if summary.other_length > 0 {
            note(&format!(
                "Step {}: {} good answers differ in length from the first one.",
                row.step.number, summary.other_length
            ));
        }
        if summary.trust == "invalid" {
            note(&format!(
                "Step {}: the generator, not the server, may have been the limit; see results.json.",
                row.step.number
            ));
        }
    }
    machine_note(results, &mut note);
}

/// The machine, the programs, the limits.
fn machine_note(results: &Results, note: &mut impl FnMut(&str)) {
    let environment = &results.environment;
    let machine = &environment.machine;
    let versions: Vec<&str> = environment.versions.iter().map(|version| version.version.as_str()).collect();
    let limits: Vec<String> =
        machine.limits.iter().map(|limit| format!("{} {}", limit.name, limit.value)).collect();
    note(&format!(
        "{}, {} cores, {}, {}; {}. {}.{}",
        machine.cpu_model.as_deref().unwrap_or("unknown processor"),
        machine.cores,
        machine.memory_bytes.map_or_else(|| "unknown memory".to_owned(), number::bytes),
        machine.kernel.as_deref().unwrap_or("unknown kernel"),
        limits.join(", "),
        versions.join("; "),
        if environment.generator_shares_host { " The generator shares the host." } else { "" }
    ));
}

/// What the bystander took on the idle site, per step, and how often it asked.
fn idle_note(rows: &[Row<'_>], note: &mut impl FnMut(&str)) {
    let measured = || rows.iter().filter_map(|row| Some((row, row.standing.summary()?)));
    let asked = || measured().filter_map(|(_, summary)| Some(summary.bystander?.requests));
    let idle = measured().filter_map(|(row, summary)| {
        Some(format!("step {} {}", row.step.number, number::milliseconds(summary.idle?.p95_ms)))
    });
    let idle: Vec<String> = idle.collect();
    if let (false, Some(least), Some(most)) = (idle.is_empty(), asked().min(), asked().max()) {
        let idle = idle.join(", ");
        let requests = if least == most { least.to_string() } else { format!("{least} to {most}") };
        note(&format!("Bystander p95 on the idle site: {idle}; under load from {requests} requests a step."));
    }
}
