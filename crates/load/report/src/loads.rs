//! Figures by kind of visitor: responses by verdict, the bystander beside its logged-in twin, and a
//! section for each load other than the anonymous one.
//!
//! Invariant: a figure is the median over the rounds. Counts of visitors and writes are sums. A
//! step without figures in the classic table has none here either. No line is longer than the given
//! width.

use crate::grid::{Align, Grid, GridColumn, wrapped};
use crate::number;
use crate::results::{LoadRecord, Measured, ResponseTimes, Results, VerdictRecord};
use crate::star::note;
use crate::summary::{
    BystanderFigures, CellResult, CellSummary, ClassicRow, VerdictFigures, VisitorFigures, WriteFigures,
    load_rows, times as median_times,
};
use crate::table::{bystander, first_cells, first_columns, names, no_figures};

/// Name for responses without a verdict.
pub(crate) const SILENT: &str = "none";

/// Good responses by verdict, in the order in which the runs list them.
pub(crate) fn verdicts(runs: &[&Measured]) -> Vec<VerdictFigures> {
    let all = || runs.iter().flat_map(|run| run.verdicts.iter().map(move |verdict| (*run, verdict)));
    let mut names: Vec<&str> = Vec::new();
    all().for_each(|(_, verdict)| {
        if !names.contains(&verdict.name.as_str()) {
            names.push(&verdict.name);
        }
    });
    let of = |name: &&str| -> Vec<(&Measured, &VerdictRecord)> {
        all().filter(|(_, verdict)| verdict.name == *name).collect()
    };
    let verdict = |name: &&str| {
        let mine = of(name);
        let per_s: Vec<f64> = mine.iter().map(|(_, verdict)| verdict.per_s).collect();
        let shares: Vec<f64> =
            mine.iter().map(|(run, verdict)| verdict.answers as f64 / run.answers.max(1) as f64).collect();
        let responses: Vec<&ResponseTimes> =
            mine.iter().filter_map(|(_, verdict)| verdict.response.as_ref()).collect();
        Some(VerdictFigures {
            name: (*name).to_owned(),
            per_s: stats::median(&per_s)?,
            share: stats::median(&shares)?,
            response: (!responses.is_empty()).then(|| median_times(&responses)),
        })
    };
    names.iter().filter_map(verdict).collect()
}

/// Responses by kind of visitor.
pub(crate) fn visitors(runs: &[&Measured]) -> Vec<VisitorFigures> {
    let kinds = runs.first().map_or(&[][..], |run| &run.visitors);
    let kind = |(place, first): (usize, &crate::results::VisitorRecord)| {
        let mine: Vec<_> = runs.iter().filter_map(|run| run.visitors.get(place)).collect();
        VisitorFigures {
            name: first.name.clone(),
            answers: mine.iter().map(|of| of.answers).sum(),
            failed: mine.iter().map(|of| of.failed).sum(),
            mean_ms: stats::median(&mine.iter().filter_map(|of| of.mean_ms).collect::<Vec<_>>()),
        }
    };
    kinds.iter().enumerate().map(kind).collect()
}

/// Writes by kind.
pub(crate) fn writes(runs: &[&Measured]) -> Vec<WriteFigures> {
    let kinds = runs.first().map_or(&[][..], |run| &run.writes);
    let kind = |(place, first): (usize, &crate::results::WriteRecord)| {
        let mine: Vec<_> = runs.iter().filter_map(|run| run.writes.get(place)).collect();
        let took: Vec<f64> = mine.iter().flat_map(|of| of.took_ms.iter().copied()).collect();
        WriteFigures {
            name: first.name.clone(),
            done: took.len(),
            failed: mine.iter().map(|of| of.failed).sum(),
            p95_ms: stats::quantile(&took, 0.95),
        }
    };
    kinds.iter().enumerate().map(kind).collect()
}

/// The measured rows with their figures.
fn measured<'a>(rows: &'a [ClassicRow<'a>]) -> impl Iterator<Item = (&'a ClassicRow<'a>, &'a CellSummary)> {
    rows.iter().filter_map(|row| Some((row, row.result.summary()?)))
}

/// Whether any response had a verdict.
pub(crate) fn has_verdicts(rows: &[ClassicRow<'_>]) -> bool {
    measured(rows).any(|(_, summary)| summary.verdicts.iter().any(|verdict| verdict.name != SILENT))
}

/// Whether a logged-in bystander was measured.
pub(crate) fn has_twin(rows: &[ClassicRow<'_>]) -> bool {
    measured(rows).any(|(_, summary)| summary.twin.is_some())
}

/// Writes the tables that the anonymous load has in addition to its own.
pub(crate) fn beside(rows: &[ClassicRow<'_>], width: usize, out: &mut String) {
    by_verdict(rows, width, out);
    bystanders(rows, width, out);
}

/// Writes a section for each load other than the anonymous one.
pub(crate) fn sections(results: &Results, width: usize, out: &mut String) {
    for load in &results.loads {
        section(results, load, width, out);
    }
}

fn section(results: &Results, load: &LoadRecord, width: usize, out: &mut String) {
    let rows = load_rows(results, load);
    out.push('\n');
    let about = load.about.as_ref().map(|about| format!(": {about}")).unwrap_or_default();
    wrapped(&format!("Load: {}{about}", load.title), width, "", out);
    let mut grid = Grid::new(first_columns());
    for row in &rows {
        match &row.result {
            CellResult::Measured(summary) => grid.row(first_cells(row, summary)),
            other => grid.row_with_rest(names(row), &no_figures(other)),
        }
    }
    out.push_str(&grid.text(width));
    costs(&rows, width, out);
    by_verdict(&rows, width, out);
    bystanders(&rows, width, out);
    who(&rows, width, out);
}

/// Writes the processor time per page, and the meters' values per second and per page.
fn costs(rows: &[ClassicRow<'_>], width: usize, out: &mut String) {
    let Some((_, first)) = measured(rows).next() else { return };
    let mut columns = vec![
        GridColumn::new(&["step"], Align::Left),
        GridColumn::new(&["failed"], Align::Right),
        GridColumn::new(&["CPU per", "page"], Align::Right),
    ];
    for meter in &first.meters {
        // Each word of the name gets its own line, so that columns stay narrow.
        let heading: Vec<&str> = meter.name.split(' ').chain(["a second"]).collect();
        columns.push(GridColumn::new(&heading, Align::Right));
        columns.push(GridColumn::new(&["for a", "page"], Align::Right));
    }
    let mut grid = Grid::new(columns);
    for (row, summary) in measured(rows) {
        let mut cells = vec![
            row.step.number.clone(),
            summary.failed.to_string(),
            or_dash(summary.cpu_per_page_ms.map(number::milliseconds)),
        ];
        let per_page = summary.meters_per_page.iter().map(|meter| number::three_digits(meter.value));
        let per_s = summary.meters.iter().map(|meter| number::three_digits(meter.value));
        cells.extend(per_s.zip(per_page).flat_map(|(per_s, per_page)| [per_s, per_page]));
        grid.row(cells);
    }
    out.push('\n');
    out.push_str(&grid.text(width));
}

/// Writes rates and times of the responses by verdict.
fn by_verdict(rows: &[ClassicRow<'_>], width: usize, out: &mut String) {
    if !has_verdicts(rows) {
        return;
    }
    let columns = ["step", "verdict", "req/s", "share", "mean", "50%", "95%", "99%"];
    let align = |place: usize| if place < 2 { Align::Left } else { Align::Right };
    let columns = columns.iter().enumerate().map(|(place, name)| GridColumn::new(&[name], align(place)));
    let mut grid = Grid::new(columns.collect());
    for (row, summary) in measured(rows) {
        for (place, verdict) in summary.verdicts.iter().enumerate() {
            let number = if place == 0 { row.step.number.clone() } else { String::new() };
            let time = |of: fn(&ResponseTimes) -> f64| {
                or_dash(verdict.response.as_ref().map(|response| number::milliseconds(of(response))))
            };
            grid.row(vec![
                number,
                verdict.name.clone(),
                number::rate(verdict.per_s),
                number::percent(verdict.share),
                time(|times| times.mean_ms),
                time(|times| times.p50_ms),
                time(|times| times.p95_ms),
                time(|times| times.p99_ms),
            ]);
        }
    }
    out.push_str("\nResponses by verdict of the nearest cache, with their times\n");
    out.push_str(&grid.text(width));
}

/// Writes the bystander and its twin, on the idle site and under load.
fn bystanders(rows: &[ClassicRow<'_>], width: usize, out: &mut String) {
    if !has_twin(rows) {
        return;
    }
    let mut grid = Grid::new(vec![
        GridColumn::new(&["step"], Align::Left),
        GridColumn::new(&["anonymous,", "idle site"], Align::Right),
        GridColumn::new(&["under", "load"], Align::Right),
        GridColumn::new(&["logged in,", "idle site"], Align::Right),
        GridColumn::new(&["under", "load"], Align::Right),
        GridColumn::new(&["requests"], Align::Right),
        GridColumn::new(&["failed"], Align::Right),
    ]);
    for (row, summary) in measured(rows) {
        let both = || [summary.bystander, summary.twin].into_iter().flatten();
        let time = |figure: Option<BystanderFigures>| or_dash(figure.map(bystander));
        grid.row(vec![
            row.step.number.clone(),
            time(summary.idle),
            time(summary.bystander),
            time(summary.idle_twin),
            time(summary.twin),
            both().map(|figure| figure.requests).sum::<usize>().to_string(),
            both().map(|figure| figure.failed).sum::<u64>().to_string(),
        ]);
    }
    out.push_str("\nThe bystander (95% response of an uncached page) beside its logged-in twin\n");
    out.push_str(&grid.text(width));
}

/// Writes the sentences below a load's tables.
fn who(rows: &[ClassicRow<'_>], width: usize, out: &mut String) {
    let sentences = sentences(rows);
    if !sentences.is_empty() {
        out.push('\n');
    }
    for sentence in sentences {
        wrapped(&sentence, width, "  ", out);
    }
}

/// One sentence for each step that has figures of visitors or writes. Notes on disturbed rows
/// follow.
pub(crate) fn sentences(rows: &[ClassicRow<'_>]) -> Vec<String> {
    let who = measured(rows).map(|(row, summary)| (&row.step.number, said(summary)));
    let told = who.filter(|(_, said)| !said.is_empty());
    let told = told.map(|(number, said)| format!("Step {number}: {said}."));
    told.chain(measured(rows).filter_map(|(row, summary)| note(row, summary))).collect()
}

/// Figures of visitors and writes in words.
fn said(summary: &CellSummary) -> String {
    let kind = |of: &VisitorFigures| {
        let mean =
            of.mean_ms.map(|mean| format!(", mean {}", number::milliseconds(mean))).unwrap_or_default();
        format!("{} {} good, {} failed or not theirs{mean}", of.name, number::grouped(of.answers), of.failed)
    };
    let write = |of: &WriteFigures| {
        let p95 = of.p95_ms.map(|p95| format!(", 95% {}", number::milliseconds(p95))).unwrap_or_default();
        format!("{} written {} times, {} failed{p95}", of.name, of.done, of.failed)
    };
    let all: Vec<String> =
        summary.visitors.iter().map(kind).chain(summary.writes.iter().map(write)).collect();
    all.join("; ")
}

fn or_dash(text: Option<String>) -> String {
    text.unwrap_or_else(|| "-".to_owned())
}
