//! The tables of `--verbose`: further figures of each step, a sentence for each, the tables of
//! further cells and loads, and notes on the measurement.
//!
//! Invariant: no line is longer than the given width.

use crate::grid::{Align, Grid, GridColumn, wrapped};
use crate::number;
use crate::results::{CellRecord, Results, VisitOutcome};
use crate::sentence::{interval, noise, sentence};
use crate::staircase::{Staircase, share_text, staircases};
use crate::star::mark;
use crate::summary::{
    CellResult, CellSummary, ClassicRow, first_number, row_before, shared_concurrencies, step_of,
};
use crate::table::{
    WIDTH_ONE_BLOCK, first_cells, first_columns, more_cells, more_columns, names, no_figures,
};
use crate::{loads, processes};

/// Width from which a staircase table shows versions, which are long texts.
const WIDTH_VERSIONS: usize = 110;
/// Number of columns of the further figures on a narrow terminal: all but the last one.
const NARROW_COLUMNS: usize = 9;

/// Writes all details.
pub(crate) fn all(results: &Results, rows: &[ClassicRow<'_>], width: usize, out: &mut String) {
    if !rows.is_empty() {
        anonymous(results, rows, width, out);
    }
    loads::sections(results, width, out);
    notes(results, rows, width, out);
}

/// Writes the details of the anonymous load.
fn anonymous(results: &Results, rows: &[ClassicRow<'_>], width: usize, out: &mut String) {
    if width < WIDTH_ONE_BLOCK {
        further_figures(rows, width, out);
    }
    processes::table(rows, width, out);
    loads::beside(rows, width, out);
    sentences(rows, width, out);
    for keepalive in [false, true] {
        let staircases = staircases(results, keepalive);
        match (staircases.is_empty(), keepalive) {
            (false, _) => staircase_table(&staircases, keepalive, out, width),
            (true, true) => self::keepalive(results, out, width),
            (true, false) => equal_concurrency(results, out, width),
        }
    }
}

/// Writes the figures of each step that do not fit into the classic table.
fn further_figures(rows: &[ClassicRow<'_>], width: usize, out: &mut String) {
    // The last column, `bound by`, is left out because the step's sentence contains it.
    let columns = std::iter::once(GridColumn::new(&["step"], Align::Left)).chain(more_columns(rows));
    let mut grid = Grid::new(columns.take(NARROW_COLUMNS).collect());
    for row in rows {
        match &row.result {
            CellResult::Measured(summary) => {
                let cells = std::iter::once(row.step.number.clone()).chain(more_cells(row, summary));
                grid.row(cells.take(NARROW_COLUMNS).collect());
            }
            // The classic table gives the reason.
            CellResult::Void(_) => grid.row(vec![row.step.number.clone(), "VOID".to_owned()]),
            CellResult::Missing => grid.row(vec![row.step.number.clone()]),
        }
    }
    out.push_str(&grid.text(width));
}

fn sentences(rows: &[ClassicRow<'_>], width: usize, out: &mut String) {
    out.push('\n');
    for (place, row) in rows.iter().enumerate() {
        let said = sentence(row, row_before(rows, place));
        let text = format!("{}. {}: {said}", row.step.number, row.step.title);
        wrapped(&text, width, "   ", out);
    }
}

/// Writes the table of all cells with keep-alive.
fn keepalive(results: &Results, out: &mut String, width: usize) {
    let cells: Vec<&CellRecord> = results.cells.iter().filter(|cell| cell.keepalive).collect();
    if cells.is_empty() {
        return;
    }
    out.push_str("\nWith keep-alive\n");
    let mut grid = Grid::new(first_columns());
    for cell in cells {
        further_row(results, cell, &mut grid);
    }
    out.push_str(&grid.text(width));
}

fn further_row(results: &Results, cell: &CellRecord, grid: &mut Grid) {
    let Some(step) = step_of(results, cell) else { return };
    let row = ClassicRow::alone(step, cell);
    match &row.result {
        CellResult::Measured(summary) => grid.row(first_cells(&row, summary)),
        other => grid.row_with_rest(names(&row), &no_figures(other)),
    }
}

/// Writes a table of all steps for each shared concurrency.
fn equal_concurrency(results: &Results, out: &mut String, width: usize) {
    for concurrency in shared_concurrencies(results, false) {
        let users = number::grouped(concurrency);
        out.push_str(&format!("\nEvery step at concurrency {users}, without keep-alive\n"));
        let mut grid = Grid::new(first_columns());
        for cell in results.cells.iter().filter(|cell| !cell.keepalive && cell.concurrency == concurrency) {
            further_row(results, cell, &mut grid);
        }
        out.push_str(&grid.text(width));
    }
}

/// Writes the table of a staircase, and the tipping point of each step.
fn staircase_table(staircases: &[Staircase<'_>], keepalive: bool, out: &mut String, width: usize) {
    let with = if keepalive { "with" } else { "without" };
    out.push_str(&format!("\nEvery step with more and more users, {with} keep-alive\n"));
    let summaries = || staircases.iter().flat_map(|of| &of.stairs).filter_map(|(_, result)| result.summary());
    let units: Vec<&str> = summaries()
        .next()
        .map(|summary| summary.meters_per_page.iter().map(|meter| meter.name.as_str()).collect())
        .unwrap_or_default();
    let has_room = width >= WIDTH_VERSIONS;
    let columns = [
        GridColumn::new(&["step"], Align::Left),
        GridColumn::new(&["what"], Align::Left).flexible(),
        GridColumn::new(&["users"], Align::Right),
        GridColumn::new(&["through-", "put", "req/s"], Align::Right),
        GridColumn::new(&["mean ± sd"], Align::Right),
        GridColumn::new(&["99%", "response"], Align::Right),
        GridColumn::new(&["failed"], Align::Right),
    ];
    let units = units.iter().map(|unit| {
        let heading: Vec<&str> = unit.split(' ').chain(["a request"]).collect();
        GridColumn::new(&heading, Align::Right)
    });
    let mut grid = Grid::new(columns.into_iter().chain(units).collect());
    for staircase in staircases {
        for (place, (users, result)) in staircase.stairs.iter().enumerate() {
            let (number, what) = match place {
                0 => (staircase.step.number.as_str(), staircase.step.title.as_str()),
                // The version of the step named in the first line goes into the second line.
                1 if has_room => ("", staircase.version.unwrap_or_default()),
                _ => ("", ""),
            };
            let tips = staircase.tip.as_ref().is_some_and(|tip| tip.users == *users);
            let users = format!("{}{}", if tips { "> " } else { "" }, number::grouped(*users));
            let names = vec![number.to_owned(), what.to_owned(), users];
            match result {
                CellResult::Measured(summary) => grid.row([names, stair_cells(summary)].concat()),
                other => grid.row_with_rest(names, &no_figures(other)),
            }
        }
    }
    out.push_str(&grid.text(width));
    for staircase in staircases {
        let version = if has_room { None } else { staircase.version };
        let version = version.map(|version| format!(" ({version})")).unwrap_or_default();
        let said = staircase.said();
        let text = format!("{}. {}{version}: {said}.", staircase.step.number, staircase.step.title);
        wrapped(&text, width, "   ", out);
    }
}

fn stair_cells(summary: &CellSummary) -> Vec<String> {
    let mut cells = vec![
        format!("{}{}", number::rate(summary.throughput.median), mark(summary)),
        number::mean_and_deviation(summary.response.mean_ms, summary.response.sd_ms),
        number::milliseconds(summary.response.p99_ms),
        share_text(summary.failed_share()),
    ];
    cells.extend(summary.meters_per_page.iter().map(|meter| number::three_digits(meter.value)));
    cells
}

fn notes(results: &Results, rows: &[ClassicRow<'_>], width: usize, out: &mut String) {
    out.push('\n');
    let mut note = |text: &str| wrapped(text, width, "  ", out);
    note(&rounds_note(results, rows));
    note(
        "Bytes a page: on the wire for each good response, head included; clients accept gzip, br and zstd. Mean and sd: of the response times. Observed load: mean number of runnable and blocked tasks of the site, at 10 Hz. Bystander: an uncached page, requested once a second during the load.",
    );
    rows.iter().filter_map(|row| uncompressed(rows, row)).for_each(|text| note(&text));
    idle_note(rows, &mut note);
    if let Some(noise) = noise(results) {
        note(&format!("{noise}."));
    }
    for (row, summary) in rows.iter().filter_map(|row| Some((row, row.result.summary()?))) {
        if summary.other_length > 0 {
            note(&format!(
                "Step {}: {} good responses differ in length from the first one.",
                row.step.number, summary.other_length
            ));
        }
        if let Some(changed) = &summary.what_changed {
            note(&format!("Step {}: what changed from one response to another: {changed}.", row.step.number));
        }
    }
    machine_note(results, &mut note);
}

/// Note for a step whose pages have lost compression. This is assumed if they are at least twice as
/// long on the wire as those of the step with the shortest pages.
pub(crate) fn uncompressed(rows: &[ClassicRow<'_>], row: &ClassicRow<'_>) -> Option<String> {
    const LOST: f64 = 2.0;
    const BYTES_MIN: f64 = 4096.0;
    let bytes = |row: &ClassicRow<'_>| row.result.summary()?.bytes_per_page;
    let own = bytes(row).filter(|own| *own >= BYTES_MIN)?;
    let (other, least) = rows
        .iter()
        .filter_map(|other| Some((other, bytes(other)?)))
        .min_by(|(_, one), (_, other)| one.total_cmp(other))?;
    (own >= LOST * least).then(|| {
        let text = |bytes: f64| number::bytes(bytes as u64);
        format!(
            "Step {}: {} a page, and {} in step {}. Something on the way keeps pages from being compressed. nginx does not compress responses to requests with Via, unless gzip_proxied allows it. With via_to_origin = false, Petasos sends no Via.",
            row.step.number, text(own), text(least), other.step.number
        )
    })
}

/// Note on the rounds behind each figure, with the intervals of the factors.
fn rounds_note(results: &Results, rows: &[ClassicRow<'_>]) -> String {
    let rounds = results.plan.rounds;
    let factors = rows.iter().filter_map(|row| Some((row, row.factor_first?)));
    let texts = factors.map(|(row, factor)| {
        format!("step {} {}×{}", row.step.number, number::factor(factor.times), interval(factor))
    });
    let texts: Vec<String> = texts.collect();
    let sure = if rounds < stats::RUNS_FOR_INTERVAL as u64 {
        "; with fewer than five rounds there are no intervals".to_owned()
    } else if texts.is_empty() {
        String::new()
    } else {
        format!("; × step {} with 95% intervals: {}", first_number(rows), texts.join(", "))
    };
    let plural = if rounds == 1 { "" } else { "s" };
    format!(
        "Each figure is the median of the rounds' own ({rounds} round{plural}, seed {}){sure}.",
        results.plan.seed
    )
}

/// Note on machine, programs and limits.
fn machine_note(results: &Results, note: &mut impl FnMut(&str)) {
    let environment = &results.environment;
    let machine = &environment.machine;
    let versions: Vec<&str> = environment.versions.iter().map(|version| version.version.as_str()).collect();
    let limits: Vec<String> =
        machine.limits.iter().map(|limit| format!("{} {}", limit.name, limit.value)).collect();
    note(&format!(
        "{}, {} cores, {}, {}; {}. {}. Load generator: {}.",
        machine.cpu_model.as_deref().unwrap_or("unknown processor"),
        machine.cores,
        machine.memory_bytes.map_or_else(|| "unknown memory".to_owned(), number::bytes),
        machine.kernel.as_deref().unwrap_or("unknown kernel"),
        limits.join(", "),
        versions.join("; "),
        place_of_generator(results)
    ));
}

/// Place and priority of the load generator, for a list of facts.
pub(crate) fn place_of_generator(results: &Results) -> &'static str {
    let cells = results.cells.iter().chain(results.loads.iter().flat_map(|load| &load.cells));
    let measured = cells.flat_map(|cell| &cell.runs).filter_map(|run| match &run.outcome {
        // A thread that busy-waits needs no priority.
        VisitOutcome::Measured(measured) if measured.generator.busy_wait_s > 0.0 => None,
        VisitOutcome::Measured(measured) => Some(measured.generator.is_real_time),
        VisitOutcome::Void { .. } => None,
    });
    let (real_time, ordinary): (Vec<bool>, Vec<bool>) = measured.partition(|is_real_time| *is_real_time);
    match (real_time.is_empty(), ordinary.is_empty()) {
        _ if !results.environment.generator_shares_host => "on another host than the site",
        (true, true) => "on the host of the site",
        (false, true) => "on the host of the site, with real-time priority: it reads each response at once",
        (false, false) => {
            "on the host of the site, with real-time priority in some runs only, which are not comparable with the \
             others. Walk the ladder again with --fresh"
        }
        (true, false) => {
            "on the host of the site, at ordinary priority: responses wait until the site leaves it a core. Run \
             the ladder as root or with `ulimit -r 1` to give it real-time priority"
        }
    }
}

/// Note on the bystander's times on the idle site, by step, and on its number of requests.
fn idle_note(rows: &[ClassicRow<'_>], note: &mut impl FnMut(&str)) {
    let measured = || rows.iter().filter_map(|row| Some((row, row.result.summary()?)));
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
