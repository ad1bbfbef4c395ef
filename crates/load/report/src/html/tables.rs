//! Tables of the page: the classic table, further cells, details of each step, and the environment.

use crate::details::{place_of_generator, uncompressed};
use crate::difference::Gain;
use crate::number;
use crate::repeat::{HOW, repeats};
use crate::results::{CellRecord, Measured, Results, VisitOutcome};
use crate::sentence::{noise, sentence};
use crate::staircase::staircases;
use crate::star::{MEANING, mark, note};
use crate::summary::{
    ANSWERS_FEW, CellResult, CellSummary, ClassicRow, cell_result, first_number, row_before,
    shared_concurrencies, step_of,
};
use crate::table::{bystander, factor_signs};
use maud::{Markup, html};

/// A table that scrolls separately if it is wider than the page.
pub(super) fn scrolling(label: &str, table: &Markup) -> Markup {
    html! { div.scroll role="region" aria-label=(label) tabindex="0" { (table) } }
}

/// The classic table, with one row per step.
pub(super) fn classic(rows: &[ClassicRow<'_>]) -> Markup {
    let table = html! {
        table.classic {
            thead { tr {
                th { "step" } th.n { "concur\u{ad}rency" } th { "caching" } th.n { "through\u{ad}put, req/s" } th.n { "mean" } th.n { "95% response" }
                th.n { "bytes a page" } th.n { "observed load" } th.n { "system load" } th.n { "× before" } th.n { "× step " (first_number(rows)) }
            } }
            @for row in rows {
                tbody {
                    tr {
                        th scope="row" { (row.step.number) }
                        td.n { (number::grouped(row.cell.concurrency)) }
                        td.title { (row.step.title) }
                        @match &row.result {
                            CellResult::Measured(summary) => {
                                (first_figures(summary))
                                td.n { (times(row.factor_before)) }
                                td.n { (times(row.factor_first)) }
                            }
                            CellResult::Void(reason) => { td.void colspan="8" { strong { "VOID" } " " (reason) } }
                            CellResult::Missing => { td.void colspan="8" { "not measured yet" } }
                        }
                    }
                }
            }
        }
    };
    let gains = || rows.iter().flat_map(|row| [row.factor_before, row.factor_first]).flatten();
    html! {
        section id="table" {
            (scrolling("The ladder", &table))
            (few(rows.iter().map(|row| &row.result)))
            @for note in rows.iter().filter_map(|row| note(row, row.result.summary()?)) {
                p.note { (note) }
            }
            @if gains().any(|gain| gain.interval.is_some()) {
                p.note { "The 95% interval of a factor over the rounds is below the factor." }
            }
            @for sign in factor_signs(rows) { p.note { (sign) } }
        }
    }
}

/// A factor with its interval.
fn times(gain: Option<Gain>) -> Markup {
    html! {
        @if let Some(gain) = gain {
            (crate::table::times(gain))
            @if let Some(interval) = gain.interval {
                small { (number::factor(interval.low)) "× – " (number::factor(interval.high)) "×" }
            }
        } @else { "–" }
    }
}

/// The figures that do not fit into the classic table.
pub(super) fn further_figures(rows: &[ClassicRow<'_>]) -> Markup {
    let table = html! {
        table {
            thead { tr {
                th { "step" } th { "caching" } th.n { "failed" } th.n { "mean ± sd, ms" } th.n { "CPU a page" }
                th.n { "memory" } th.n { "bystander 95%" } th { "bound by" }
            } }
            tbody {
                @for row in rows {
                    tr {
                        th scope="row" { (row.step.number) }
                        td.title { (row.step.title) }
                        @match &row.result {
                            CellResult::Measured(summary) => (costs(summary)),
                            CellResult::Void(_) => { td.void colspan="6" { strong { "VOID" } } }
                            CellResult::Missing => { td.void colspan="6" { "not measured yet" } }
                        }
                    }
                }
            }
        }
    };
    html! {
        section id="further" {
            h2 { "Further figures" }
            (scrolling("Further figures", &table))
            @for text in rows.iter().filter_map(|row| uncompressed(rows, row)) { p.note { (text) } }
            p.note { "Each figure is the median of the rounds' own. Bytes a page are those on the wire, head included. Mean ± sd is of the response times. Memory is the site's (PSS). CPU a page is that of site, database and accelerator together." }
        }
    }
}

fn costs(summary: &CellSummary) -> Markup {
    html! {
        td.n { (summary.failed) }
        td.n { (number::three_digits(summary.response.mean_ms)) " ± " (number::three_digits(summary.response.sd_ms)) }
        td.n { (or_dash(summary.cpu_per_page_ms.map(number::milliseconds))) }
        td.n { (or_dash(summary.site_pss_bytes.map(|bytes| number::bytes(bytes as u64)))) }
        td.n { (or_dash(summary.bystander.map(bystander))) }
        td { (summary.bound_by.words()) }
    }
}

/// The ApacheBench commands that repeat the rows.
pub(super) fn commands(results: &Results) -> Markup {
    let repeats = repeats(results);
    html! {
        @if !repeats.is_empty() {
            section id="again" {
                h2 { "Again with ab" }
                p.note { (HOW) }
                ol.steps {
                    @for repeat in &repeats {
                        li {
                            p.note {
                                span.number { (repeat.step.number) } " " (repeat.step.title) ", "
                                (number::grouped(repeat.cell.concurrency)) " users, " (repeat.why) ":"
                            }
                            div.scroll role="region" aria-label="Command" tabindex="0" { code { (repeat.cell.ab) } }
                        }
                    }
                }
            }
        }
    }
}

/// The figures of the classic columns.
pub(super) fn first_figures(summary: &CellSummary) -> Markup {
    html! {
        td.n { strong { (number::rate(summary.throughput.median)) } (mark(summary)) }
        td.n { (number::milliseconds(summary.response.mean_ms)) }
        td.n { (number::milliseconds(summary.response.p95_ms)) }
        td.n { (or_dash(summary.bytes_per_page.map(|bytes| number::bytes(bytes as u64)))) }
        td.n { (or_dash(summary.observed_load.map(number::load))) }
        td.n { (or_dash(summary.load_average.map(number::load))) }
    }
}

/// Explains the mark of few responses, if a row has it.
pub(super) fn few<'a>(mut cell_results: impl Iterator<Item = &'a CellResult>) -> Markup {
    let few = cell_results.any(|result| result.summary().is_some_and(|summary| summary.few));
    html! { @if few { p.note { "* fewer than " (ANSWERS_FEW) " responses in a round: percentiles are coarse." } } }
}

/// Explains the marks of cells that have no notes.
pub(super) fn marks<'a>(cell_results: impl Iterator<Item = &'a CellResult> + Clone) -> Markup {
    let starred = cell_results.clone().any(|of| of.summary().is_some_and(|summary| summary.star.is_some()));
    html! { (few(cell_results)) @if starred { p.note { (MEANING) } } }
}

/// A text, or a dash if there is none.
pub(super) fn or_dash(text: Option<String>) -> String {
    text.unwrap_or_else(|| "–".to_owned())
}

/// Tables of further cells: with keep-alive, and at equal concurrency.
pub(super) fn further(results: &Results) -> Markup {
    let keepalive: Vec<&CellRecord> = results.cells.iter().filter(|cell| cell.keepalive).collect();
    // A staircase shows the same cells.
    let has_stairs = !staircases(results, false).is_empty();
    let alike = if has_stairs { Vec::new() } else { shared_concurrencies(results, false) };
    html! {
        @if !keepalive.is_empty() && staircases(results, true).is_empty() {
            section id="keepalive" {
                h2 { "With keep-alive" }
                p.note { "These steps keep their connections. In the other tables, every request has a new connection." }
                (cells(results, "With keep-alive", &keepalive))
            }
        }
        @for concurrency in alike {
            @let same: Vec<&CellRecord> = results.cells.iter().filter(|cell| !cell.keepalive && cell.concurrency == concurrency).collect();
            @let heading = format!("Every step at concurrency {concurrency}");
            section {
                h2 { (heading) }
                (cells(results, &heading, &same))
            }
        }
    }
}

/// A table of further cells, with the meaning of its marks.
fn cells(results: &Results, label: &str, cells: &[&CellRecord]) -> Markup {
    let cell_results: Vec<CellResult> = cells.iter().map(|cell| cell_result(cell)).collect();
    let table = html! {
        table {
            thead { tr {
                th { "step" } th.n { "concur\u{ad}rency" } th { "caching" } th.n { "through\u{ad}put, req/s" } th.n { "mean" } th.n { "95% response" }
                th.n { "bytes a page" } th.n { "observed load" } th.n { "system load" }
            } }
            @for (cell, result) in cells.iter().zip(&cell_results) {
                @let step = step_of(results, cell);
                tbody {
                    tr {
                        th scope="row" { (step.map_or("", |step| &step.number)) }
                        td.n { (number::grouped(cell.concurrency)) }
                        td.title { (step.map_or("", |step| &step.title)) }
                        @match result {
                            CellResult::Measured(summary) => { (first_figures(summary)) }
                            CellResult::Void(reason) => { td.void colspan="6" { strong { "VOID" } " " (reason) } }
                            CellResult::Missing => { td.void colspan="6" { "not measured yet" } }
                        }
                    }
                }
            }
        }
    };
    html! { (scrolling(label, &table)) (marks(cell_results.iter())) }
}

/// A sentence for each step, its proofs, and its use of resources.
pub(super) fn steps(results: &Results, rows: &[ClassicRow<'_>]) -> Markup {
    html! {
        section id="steps" {
            h2 { "Step by step" }
            ol.steps {
                @for (place, row) in rows.iter().enumerate() {
                    li {
                        h3 { span.number { (row.step.number) } " " (row.step.title) }
                        p { (sentence(row, row_before(rows, place))) }
                        @if let Some(run) = last_run(row.cell) { (detail(run)) }
                    }
                }
            }
            @if results.plan.rounds < stats::RUNS_FOR_INTERVAL as u64 {
                p.note { "With fewer than five rounds there are no intervals." }
            }
        }
    }
}

fn last_run(cell: &CellRecord) -> Option<&Measured> {
    cell.runs.iter().rev().find_map(|run| match &run.outcome {
        VisitOutcome::Measured(measured) => Some(&**measured),
        VisitOutcome::Void { .. } => None,
    })
}

/// The last measured round of a step: processes, counters, proofs.
fn detail(run: &Measured) -> Markup {
    let mut proofs: Vec<&String> = run.proofs.iter().collect();
    proofs.dedup();
    let groups = html! {
        table.small {
            thead { tr { th { "processes" } th { "role" } th.n { "load" } th.n { "CPU" } th.n { "CPU a page" } th.n { "memory (PSS)" } } }
            tbody {
                @for group in &run.groups {
                    tr {
                        td { (group.name) } td { (group.role) } td.n { (number::load(group.load)) }
                        td.n { (number::percent(group.cpu_s / run.seconds)) }
                        td.n { (or_dash(group.cpu_per_page_ms.map(number::milliseconds))) }
                        td.n { (or_dash(group.pss_bytes.map(number::bytes))) }
                    }
                }
                tr {
                    td { "load generator" } td { "generator" } td.n { "–" }
                    td.n { (number::percent(run.generator.cpu_s / run.seconds)) }
                    td.n { "–" } td.n { "–" }
                }
            }
        }
    };
    html! {
        details {
            summary { "Last round: processes, counters, proof" }
            (scrolling("Processes", &groups))
            @for meter in &run.meters {
                p.note {
                    (meter.name) ": " (number::rate(meter.per_s)) " " (meter.unit) " a second"
                    @if let Some(per_page) = meter.per_page { ", " (number::three_digits(per_page)) " a page" }
                }
            }
            p.note { "Proven by " @for (position, proof) in proofs.iter().enumerate() {
                @if position > 0 { "; " } code { (proof) }
            } "." }
            @if run.other_length > 0 { p.note { (run.other_length) " good responses differ in length from the first one." } }
            @if let Some(changed) = &run.what_changed {
                p.note { "What changed from one response to another: " (changed) "." }
            }
            @for failure in &run.failures { p.note { "Failed (" (failure.name) "): " (failure.count) } }
            @for reason in &run.generator.reasons { p.note { "Self-check of the generator: " (run.generator.trust) ", " (reason) "." } }
        }
    }
}

/// The environment of the measurement and the method.
pub(super) fn environment(results: &Results) -> Markup {
    let environment = &results.environment;
    let machine = &environment.machine;
    let fact = |name: &str, value: Option<String>| {
        html! {
            @if let Some(value) = value { div { dt { (name) } dd { (value) } } }
        }
    };
    html! {
        section id="environment" {
            h2 { "Where and how" }
            dl {
                (fact("Processor", machine.cpu_model.clone()))
                (fact("Cores", Some(machine.cores.to_string())))
                (fact("Governor", machine.governor.clone()))
                (fact("Memory", machine.memory_bytes.map(number::bytes)))
                (fact("Kernel", machine.kernel.clone()))
                (fact("System", machine.system.clone()))
                @for limit in &machine.limits { (fact(&limit.name, Some(limit.value.clone()))) }
                @for version in &environment.versions { (fact(&version.name, Some(version.version.clone()))) }
                (fact("Load generator", Some(place_of_generator(results).to_owned())))
                (fact("Plan", Some(format!("{}, {}", results.plan.effort, results.plan.hash))))
            }
            p.note {
                "Closed loop: each user sends a request after it has read the response to its previous one. The cells are visited once a round, in an order shuffled from the seed. "
                "Before and after each load the ladder proves the layer and compares the page with that of step 1. If one of the two fails, the step is void. "
                "Observed load is the mean number of runnable and blocked tasks of the site's processes, sampled ten times a second."
            }
            @if let Some(noise) = noise(results) { p.note { (noise) "." } }
        }
    }
}
