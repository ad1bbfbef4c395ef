//! Responses by verdict, the bystander beside its twin, and a section for each load other than the
//! anonymous one.

use super::tables::{few, first_figures, or_dash, scrolling};
use crate::loads::{has_twin, has_verdicts, sentences};
use crate::number;
use crate::results::{LoadRecord, ResponseTimes, Results};
use crate::summary::{BystanderFigures, CellResult, CellSummary, ClassicRow, load_rows};
use crate::table::bystander;
use maud::{Markup, html};

/// Tables that the anonymous load has in addition to its own.
pub(super) fn beside(rows: &[ClassicRow<'_>]) -> Markup {
    html! {
        @if has_verdicts(rows) || has_twin(rows) {
            section id="verdicts" {
                h2 { "Anonymous visitors by verdict" }
                (by_verdict(rows))
                (bystanders(rows))
            }
        }
    }
}

/// A section for each load other than the anonymous one.
pub(super) fn sections(results: &Results) -> Markup {
    html! { @for load in &results.loads { (section(results, load)) } }
}

fn section(results: &Results, load: &LoadRecord) -> Markup {
    let rows = load_rows(results, load);
    let units: Vec<String> = rows
        .iter()
        .find_map(|row| row.result.summary())
        .map(|summary| summary.meters.iter().map(|meter| meter.name.clone()).collect())
        .unwrap_or_default();
    let columns = 8 + 2 * units.len();
    let table = html! {
        table {
            thead { tr {
                th { "step" } th.n { "concur\u{ad}rency" } th { "caching" } th.n { "through\u{ad}put, req/s" } th.n { "mean" } th.n { "95% response" }
                th.n { "bytes a page" } th.n { "observed load" } th.n { "system load" } th.n { "failed" } th.n { "CPU a page" }
                @for unit in &units { th.n { (unit) " a second" } th.n { "a page" } }
            } }
            @for row in &rows {
                tbody {
                    tr {
                        th scope="row" { (row.step.number) }
                        td.n { (number::grouped(row.cell.concurrency)) }
                        td.title { (row.step.title) }
                        @match &row.result {
                            CellResult::Measured(summary) => { (first_figures(summary)) (costs(summary)) }
                            CellResult::Void(reason) => { td.void colspan=(columns) { strong { "VOID" } " " (reason) } }
                            CellResult::Missing => { td.void colspan=(columns) { "not measured yet" } }
                        }
                    }
                }
            }
        }
    };
    html! {
        section id={ "load-" (load.id) } {
            h2 { "Load: " (load.title) }
            @if let Some(about) = &load.about { p.note { (about) } }
            (scrolling(&load.title, &table))
            (few(rows.iter().map(|row| &row.result)))
            (by_verdict(&rows))
            (bystanders(&rows))
            @for sentence in sentences(&rows) { p.note { (sentence) } }
        }
    }
}

fn costs(summary: &CellSummary) -> Markup {
    html! {
        td.n { (summary.failed) }
        td.n { (or_dash(summary.cpu_per_page_ms.map(number::milliseconds))) }
        @for (per_s, per_page) in summary.meters.iter().zip(&summary.meters_per_page) {
            td.n { (number::three_digits(per_s.value)) }
            td.n { (number::three_digits(per_page.value)) }
        }
    }
}

fn by_verdict(rows: &[ClassicRow<'_>]) -> Markup {
    let time = |times: Option<&ResponseTimes>, of: fn(&ResponseTimes) -> f64| {
        or_dash(times.map(|times| number::milliseconds(of(times))))
    };
    let table = html! {
        table {
            thead { tr {
                th { "step" } th { "verdict" } th.n { "req/s" } th.n { "share" } th.n { "mean" } th.n { "50%" } th.n { "95%" } th.n { "99%" }
            } }
            @for row in rows {
                @if let Some(summary) = row.result.summary() {
                    tbody {
                        @for verdict in &summary.verdicts {
                            @let times = verdict.response.as_ref();
                            tr {
                                th scope="row" { (row.step.number) }
                                td { (verdict.name) }
                                td.n { (number::rate(verdict.per_s)) }
                                td.n { (number::percent(verdict.share)) }
                                td.n { (time(times, |times| times.mean_ms)) }
                                td.n { (time(times, |times| times.p50_ms)) }
                                td.n { (time(times, |times| times.p95_ms)) }
                                td.n { (time(times, |times| times.p99_ms)) }
                            }
                        }
                    }
                }
            }
        }
    };
    html! {
        @if has_verdicts(rows) {
            (scrolling("Responses by verdict of the nearest cache", &table))
            p.note { "Good responses by verdict of the nearest cache (Cache-Status, X-Cache, Age); “none”: no cache stated a verdict." }
        }
    }
}

fn bystanders(rows: &[ClassicRow<'_>]) -> Markup {
    let time = |figure: Option<BystanderFigures>| or_dash(figure.map(bystander));
    let table = html! {
        table {
            thead { tr {
                th { "step" } th.n { "anonymous, idle site" } th.n { "under load" } th.n { "logged in, idle site" } th.n { "under load" }
            } }
            @for row in rows {
                @if let Some(summary) = row.result.summary() {
                    tbody { tr {
                        th scope="row" { (row.step.number) }
                        td.n { (time(summary.idle)) }
                        td.n { (time(summary.bystander)) }
                        td.n { (time(summary.idle_twin)) }
                        td.n { (time(summary.twin)) }
                    } }
                }
            }
        }
    };
    html! {
        @if has_twin(rows) {
            (scrolling("The bystander beside its logged-in twin", &table))
            p.note { "95% response of an uncached page that an anonymous and a logged-in visitor request once a second." }
        }
    }
}
