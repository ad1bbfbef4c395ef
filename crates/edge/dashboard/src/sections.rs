//! The sections of the main page that show figures of the moment.
//!
//! Invariant: a section has no form and no state, and is the same for every reader. The script may
//! replace it at any time.

mod origins;
mod overview;
mod pages;
mod sites;

pub use origins::origins_csv;
pub(crate) use sites::verdict;

use crate::chart::{Chart, Line, time_ticks};
use crate::{Change, View, figure};
use api::dashboard::{History, Series};
use maud::{Markup, html};

/// Name, title and content of each section, in the order of the page.
pub(crate) fn all(view: &View<'_>) -> Vec<(&'static str, &'static str, Markup)> {
    vec![
        ("overview", "Now", overview::overview(view)),
        ("history", "History", history(view)),
        ("sites", "Sites", sites::sites(view)),
        ("reasons", "Reasons", sites::reasons(view)),
        ("origins", "Origins", origins::origins(view)),
        ("pages", "Pages", pages::pages(view)),
        ("costs", "Cookies and parameters", pages::costs(view)),
        ("certificates", "Certificates", pages::certificates(view)),
        ("changes", "Purges and reloads", changes(view.changes)),
    ]
}

/// Name and HTML of each section. The script replaces the content of the element with the
/// identifier `live-NAME`.
pub fn sections(view: &View<'_>) -> Vec<(&'static str, String)> {
    all(view).into_iter().map(|(name, _, content)| (name, content.into_string())).collect()
}

/// A table that can be scrolled with the keyboard when it is wider than the screen.
pub(crate) fn table(label: &str, head: &Markup, body: &Markup) -> Markup {
    html! {
        div.scroll role="region" aria-label=(label) tabindex="0" {
            table {
                thead { tr { (head) } }
                tbody { (body) }
            }
        }
    }
}

/// A place for a table without rows.
pub(crate) fn empty(text: &str) -> Markup {
    html! { p.empty { (text) } }
}

/// A share as a bar with its text.
pub(crate) fn bar(share: Option<f64>) -> Markup {
    let Some(share) = share else { return html! { span.quiet { "–" } } };
    let width = format!("{:.1}", share.clamp(0.0, 1.0) * 100.0);
    html! {
        span.bar {
            svg aria-hidden="true" viewBox="0 0 100 8" preserveAspectRatio="none" {
                rect.track x="0" y="0" width="100" height="8" {}
                rect.fill x="0" y="0" width=(width) height="8" {}
            }
            span { (figure::percent(share)) }
        }
    }
}

/// A URL as a link to its stored responses.
pub(crate) fn url_link(url: &str) -> Markup {
    html! {
        a.url href={ "/dashboard/search?url=" (figure::parameter(url)) } { (url) }
    }
}

/// Charts of the history, with the processor's users on one axis.
fn history(view: &View<'_>) -> Markup {
    let History { first_minute, minutes_per_value, series } = view.history;
    let values = series.iter().map(|series| series.values.len()).max().unwrap_or(0) as u64;
    let has_values = series.iter().any(|series| series.values.iter().any(Option::is_some));
    if !has_values {
        return empty("No minute is recorded yet. The first values appear after a minute.");
    }
    let ticks = time_ticks(*first_minute, values * minutes_per_value);
    let groups = grouped(series);
    html! {
        div.charts {
            @for (number, group) in groups.iter().enumerate() {
                @let lines = lines_of(group);
                (Chart {
                    id: &format!("history-{number}"),
                    title: &group.title,
                    unit: group.unit,
                    lines: &lines,
                    ticks: &ticks,
                    period: view.range.text(),
                }.draw())
            }
        }
        p.note {
            "Times are UTC. Each value is of a minute, or of several: a mean, and the worst minute of errors and "
            "of p99."
        }
    }
}

/// Series that are drawn on one axis.
struct ChartGroup<'a> {
    title: String,
    unit: &'a str,
    series: Vec<&'a Series>,
}

/// The series in groups of one axis each, in the order of their first series.
fn grouped(series: &[Series]) -> Vec<ChartGroup<'_>> {
    let mut groups: Vec<ChartGroup<'_>> = Vec::new();
    for series in series {
        let title = axis_of(&series.name);
        match groups.iter_mut().find(|group| group.title == title && group.unit == series.unit) {
            Some(group) => group.series.push(series),
            None => groups.push(ChartGroup { title, unit: &series.unit, series: vec![series] }),
        }
    }
    groups
}

/// The title of the axis on which a series is drawn: a common one, or its own name.
fn axis_of(name: &str) -> String {
    let title = match name {
        "requests" | "hits" | "misses" | "passes" => "Requests",
        "p50" | "p95" | "p99" | "origin p95" => "Response times",
        "cpu" | "cpu petasos" | "cpu database" => "Processor",
        "store" | "disk" => "Stored responses",
        "reloads" | "purges" => "Purges and reloads",
        _ => {
            let mut letters = name.chars();
            return letters
                .next()
                .map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect());
        }
    };
    title.to_owned()
}

/// The lines of a group. Only the first has its usual range, because others would hide it.
fn lines_of<'a>(group: &ChartGroup<'a>) -> Vec<Line<'a>> {
    let line = |(place, series): (usize, &&'a Series)| Line {
        name: match series.name.strip_prefix("cpu") {
            Some("") => "machine",
            Some(part) => part.trim_start(),
            None => &series.name,
        },
        values: &series.values,
        usual: if place == 0 { &series.usual } else { &[] },
    };
    group.series.iter().enumerate().map(line).collect()
}

/// Recent purges and reloads.
fn changes(changes: &[Change]) -> Markup {
    if changes.is_empty() {
        return empty("No purge or reload at the admin address since the start.");
    }
    let head = html! {
        th scope="col" { "When (UTC)" } th scope="col" { "Who" } th scope="col" { "What" }
        th scope="col" { "Result" }
    };
    let body = html! {
        @for change in changes {
            tr {
                td.moment { (figure::utc(change.at_secs)) }
                td.text { (change.who) }
                td.text { (change.what) }
                td.text.bad[!change.is_done] { (change.result) }
            }
        }
    };
    table("Purges and reloads", &head, &body)
}
