//! Staircases as tables of the page, with a sentence on each step's tipping point.
//!
//! Invariant: figures and rule are those of `crate::staircase`; this module decides nothing.

use super::tables::{marks, scrolling};
use crate::number;
use crate::results::Results;
use crate::staircase::{FAILED_SHARE, P99_FACTOR, Staircase, THROUGHPUT_SHARE, share_text, staircases};
use crate::star::mark;
use crate::summary::{CellResult, CellSummary};
use maud::{Markup, html};

/// Sections without and with keep-alive; empty for a ladder without staircases.
pub(super) fn sections(results: &Results) -> Markup {
    html! {
        (section(&staircases(results, false), false))
        (section(&staircases(results, true), true))
    }
}

fn section(staircases: &[Staircase<'_>], keepalive: bool) -> Markup {
    if staircases.is_empty() {
        return html! {};
    }
    let (id, heading, connections) = if keepalive {
        (
            "staircase-keepalive",
            "With more and more users, with keep-alive",
            "on connections that are used again",
        )
    } else {
        ("staircase", "With more and more users", "with a new connection for each request")
    };
    html! {
        section id=(id) {
            h2 { (heading) }
            p.note {
                "Each step at every number of users, " (connections) ". A step tips over at the first number of users at which \
                 throughput is below " (number::percent(THROUGHPUT_SHARE)) " of its best with fewer users and their rounds do not overlap, or the 99% \
                 response is more than " (P99_FACTOR) " times what it was before in proportion to the users, or more than " (share_text(FAILED_SHARE)) " of the requests fail, or no user gets a good response."
            }
            (scrolling(heading, &table(staircases)))
            (marks(staircases.iter().flat_map(|of| &of.stairs).map(|(_, result)| result)))
            ul.tips {
                @for staircase in staircases {
                    li {
                        strong { (staircase.step.number) ". " (staircase.step.title) } " "
                        (staircase.said()) "."
                    }
                }
            }
        }
    }
}

fn table(staircases: &[Staircase<'_>]) -> Markup {
    let summaries = || staircases.iter().flat_map(|of| &of.stairs).filter_map(|(_, result)| result.summary());
    let units: Vec<&str> = summaries()
        .next()
        .map(|summary| summary.meters_per_page.iter().map(|meter| meter.name.as_str()).collect())
        .unwrap_or_default();
    let columns = 5 + units.len();
    html! {
        table.staircase {
            thead { tr {
                th { "step" } th { "what" } th { "version" } th.n { "users" } th.n { "through\u{ad}put, req/s" } th.n { "mean, ms" } th.n { "sd, ms" }
                th.n { "99% response" } th.n { "failed" }
                @for unit in &units { th.n { (unit) " a request" } }
            } }
            @for staircase in staircases {
                tbody {
                    @for (place, (users, result)) in staircase.stairs.iter().enumerate() {
                        @let tips = staircase.tip.as_ref().is_some_and(|tip| tip.users == *users);
                        tr.tips[tips] {
                            @if place == 0 {
                                @let rows = staircase.stairs.len();
                                th scope="rowgroup" rowspan=(rows) { (staircase.step.number) }
                                td.title rowspan=(rows) { (staircase.step.title) }
                                td.title rowspan=(rows) { (staircase.version.unwrap_or("–")) }
                            }
                            td.n { (number::grouped(*users)) }
                            @match result {
                                CellResult::Measured(summary) => { (figures(summary)) }
                                CellResult::Void(reason) => { td.void colspan=(columns) { strong { "VOID" } " " (reason) } }
                                CellResult::Missing => { td.void colspan=(columns) { "not measured yet" } }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn figures(summary: &CellSummary) -> Markup {
    html! {
        td.n { strong { (number::rate(summary.throughput.median)) } (mark(summary)) }
        td.n { (number::three_digits(summary.response.mean_ms)) }
        td.n { (number::three_digits(summary.response.sd_ms)) }
        td.n { (number::milliseconds(summary.response.p99_ms)) }
        td.n { (share_text(summary.failed_share())) }
        @for meter in &summary.meters_per_page { td.n { (number::three_digits(meter.value)) } }
    }
}
