//! A ladder as Markdown: headline, classic table, rows with keep-alive, further loads, and the
//! commands that repeat the rows.

use crate::headline::headline;
use crate::number;
use crate::repeat::{HOW, repeats};
use crate::results::{CellRecord, LoadRecord, Results};
use crate::sentence::noise;
use crate::star::{mark, note};
use crate::summary::{
    ANSWERS_FEW, CellResult, CellSummary, ClassicRow, first_number, load_rows, rows, step_of,
};
use crate::table::{no_figures, times};
use difference::is_hidden;
use std::fmt::{self, Write as _};

/// Returns the document.
pub fn markdown(results: &Results) -> String {
    let mut text = String::new();
    // Writing into a string cannot fail.
    let _ = write(results, &mut text);
    text
}

fn write(results: &Results, out: &mut String) -> fmt::Result {
    let rows = rows(results);
    writeln!(out, "# {}\n", escaped(&results.title))?;
    section(&rows, out)?;
    let kept: Vec<ClassicRow<'_>> =
        results.cells.iter().filter(|cell| cell.keepalive).filter_map(|cell| alone(results, cell)).collect();
    if !kept.is_empty() {
        writeln!(out, "## With keep-alive\n")?;
        table(&kept, first_number(&rows), out)?;
    }
    for load in &results.loads {
        further(results, load, out)?;
    }
    commands(results, out)?;
    let rounds = results.plan.rounds;
    let plural = if rounds == 1 { "" } else { "s" };
    writeln!(out, "Each figure is the median of {rounds} round{plural} (seed {}).", results.plan.seed)?;
    if let Some(noise) = noise(results) {
        writeln!(out, "{noise}.")?;
    }
    Ok(())
}

/// A further cell as a row without factors.
fn alone<'a>(results: &'a Results, cell: &'a CellRecord) -> Option<ClassicRow<'a>> {
    let step = step_of(results, cell)?;
    Some(ClassicRow::alone(step, cell))
}

fn further(results: &Results, load: &LoadRecord, out: &mut String) -> fmt::Result {
    writeln!(out, "## Load: {}\n", escaped(&load.title))?;
    section(&load_rows(results, load), out)
}

/// Writes the headline and the table of some rows.
fn section(rows: &[ClassicRow<'_>], out: &mut String) -> fmt::Result {
    if let Some(headline) = headline(rows) {
        writeln!(out, "{}\n", escaped(&headline))?;
    }
    if rows.is_empty() { Ok(()) } else { table(rows, first_number(rows), out) }
}

/// Writes a table. `first` is the number of the step that factors are relative to.
fn table(rows: &[ClassicRow<'_>], first: &str, out: &mut String) -> fmt::Result {
    writeln!(
        out,
        "| step | users | caching | req/s | mean | 95% response | bytes a page | observed load | × step {} |",
        escaped(first)
    )?;
    writeln!(out, "|---|---:|---|---:|---:|---:|---:|---:|---:|")?;
    for row in rows {
        let users = number::grouped(row.cell.concurrency);
        write!(out, "| {} | {users} | {} |", escaped(&row.step.number), escaped(&row.step.title))?;
        match &row.result {
            CellResult::Measured(summary) => writeln!(out, " {} |", figures(row, summary).join(" | "))?,
            other => writeln!(out, " {} | | | | | |", escaped(&no_figures(other)))?,
        }
    }
    writeln!(out)?;
    if rows.iter().any(|row| row.result.summary().is_some_and(|summary| summary.few)) {
        writeln!(out, "\\* fewer than {ANSWERS_FEW} responses in a round: percentiles are coarse.\n")?;
    }
    for note in rows.iter().filter_map(|row| note(row, row.result.summary()?)) {
        writeln!(out, "{}\n", escaped(&note))?;
    }
    Ok(())
}

fn figures(row: &ClassicRow<'_>, summary: &CellSummary) -> [String; 6] {
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "–".to_owned());
    [
        format!("{}{}", number::rate(summary.throughput.median), escaped(mark(summary))),
        number::milliseconds(summary.response.mean_ms),
        number::milliseconds(summary.response.p95_ms),
        or_dash(summary.bytes_per_page.map(|bytes| number::bytes(bytes as u64))),
        or_dash(summary.observed_load.map(number::load)),
        or_dash(row.factor_first.map(times)),
    ]
}

fn commands(results: &Results, out: &mut String) -> fmt::Result {
    let repeats = repeats(results);
    if repeats.is_empty() {
        return Ok(());
    }
    writeln!(out, "## Again with ab\n\n{HOW}\n")?;
    for repeat in repeats {
        let step = repeat.step;
        let users = number::grouped(repeat.cell.concurrency);
        writeln!(
            out,
            "Step {}, {}, {users} users, {}:\n",
            escaped(&step.number),
            escaped(&step.title),
            repeat.why
        )?;
        writeln!(out, "    {}\n", repeat.cell.ab)?;
    }
    Ok(())
}

/// Escapes a text so that it has no meaning in Markdown or HTML, nor for a terminal.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    for sign in text.chars() {
        match sign {
            hidden if is_hidden(hidden) => out.push(' '),
            '<' => out.push_str("&lt;"),
            '&' => out.push_str("&amp;"),
            '|' | '*' | '_' | '`' | '[' | ']' | '\\' | '#' => out.extend(['\\', sign]),
            other => out.push(other),
        }
    }
    out
}
