//! Table of the processor use of each step and of its meters.
//!
//! Invariant: a figure is the median over the rounds. A step without figures in the classic table
//! has none here either; the classic table gives the reason.

use crate::grid::{Align, Grid, GridColumn};
use crate::number;
use crate::results::{Measured, MeterRecord};
use crate::summary::{CellResult, CellSummary, ClassicRow, NamedFigure};

/// Cores used by each group of processes; the last one is the generator.
pub(crate) fn cores(runs: &[&Measured]) -> Vec<NamedFigure> {
    let generator = |run: &&Measured| (run.generator.cpu_s, run.seconds);
    let mut cores = named(runs, |run| {
        run.groups.iter().map(|group| (group.name.clone(), group.cpu_s / run.seconds)).collect()
    });
    let own: Vec<f64> = runs.iter().map(generator).map(|(cpu_s, seconds)| cpu_s / seconds).collect();
    cores.extend(stats::median(&own).map(|value| NamedFigure { name: "generator".to_owned(), value }));
    cores
}

/// Counted units per second, for each meter.
pub(crate) fn meters(runs: &[&Measured]) -> Vec<NamedFigure> {
    named(runs, |run| run.meters.iter().map(|meter| (label(meter, &run.meters), meter.per_s)).collect())
}

/// Counted units per good response, for each meter.
pub(crate) fn meters_per_page(runs: &[&Measured]) -> Vec<NamedFigure> {
    let figure = |run: &Measured, meter: &MeterRecord| Some((label(meter, &run.meters), meter.per_page?));
    named(runs, |run| run.meters.iter().filter_map(|meter| figure(run, meter)).collect())
}

/// The name of a meter's figures: its unit, with its name if another meter has the same unit.
fn label(meter: &MeterRecord, all: &[MeterRecord]) -> String {
    let same = all.iter().filter(|other| other.unit == meter.unit).count();
    if same > 1 { format!("{} ({})", meter.name, meter.unit) } else { meter.unit.clone() }
}

/// Median of each name over the runs, in the order of the first run.
fn named(runs: &[&Measured], figures: impl Fn(&Measured) -> Vec<(String, f64)>) -> Vec<NamedFigure> {
    let all: Vec<Vec<(String, f64)>> = runs.iter().map(|run| figures(run)).collect();
    let names = all.first().into_iter().flatten().map(|(name, _)| name);
    let median = |name: &String| {
        let values: Vec<f64> =
            all.iter().flatten().filter(|(other, _)| other == name).map(|(_, value)| *value).collect();
        stats::median(&values).map(|value| NamedFigure { name: name.clone(), value })
    };
    names.filter_map(median).collect()
}

/// Writes the table. Without measured rows there is none.
pub(crate) fn table(rows: &[ClassicRow<'_>], width: usize, out: &mut String) {
    let Some(first) = rows.iter().find_map(|row| row.result.summary()) else { return };
    let columns = first.cores.iter().chain(&first.meters).map(|figure| heading(&figure.name));
    let mut grid =
        Grid::new(std::iter::once(GridColumn::new(&["step"], Align::Left)).chain(columns).collect());
    for row in rows {
        let mut cells = vec![row.step.number.clone()];
        if let CellResult::Measured(summary) = &row.result {
            cells.extend(figures(summary));
        }
        grid.row(cells);
    }
    out.push_str("\nCores used by each group of processes, and what was counted each second\n");
    out.push_str(&grid.text(width));
}

fn figures(summary: &CellSummary) -> Vec<String> {
    let cores = summary.cores.iter().map(|figure| format!("{:.2}", figure.value));
    let meters = summary.meters.iter().map(|figure| match figure.value {
        value if value < 10.0 => number::load(value),
        value => number::three_digits(value),
    });
    cores.chain(meters).collect()
}

/// Breaks a name at its separators into lines, so that columns stay narrow.
fn heading(name: &str) -> GridColumn {
    let broken = name.replace('-', "-\n").replace('/', "\n/").replace(' ', "\n");
    GridColumn::new(&broken.lines().collect::<Vec<_>>(), Align::Right)
}
