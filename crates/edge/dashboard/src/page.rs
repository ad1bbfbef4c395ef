//! The frame of all pages, the main page, and the result of a change.

use crate::forms::{changing, hidden};
use crate::{Change, PurgeKind, Range, Reports, View, Viewer, fields, figure, sections};
use maud::{DOCTYPE, Markup, html};

/// Parts of the main page that do not change by themselves: identifier and title.
const STILL: [(&str, &str); 5] = [
    ("requests", "Live requests"),
    ("search", "Look up"),
    ("purge", "Purge and reload"),
    ("reports", "Reports"),
    ("summary", "Week"),
];

/// The main page.
pub fn main_page(view: &View<'_>, viewer: &Viewer) -> String {
    let live = sections::all(view);
    let content = html! {
        nav.contents aria-label="Sections" {
            ul {
                @for (name, title, _) in &live { li { a href={ "#" (name) } { (title) } } }
                @for (name, title) in STILL {
                    @if name != "summary" || view.summary.is_some() { li { a href={ "#" (name) } { (title) } } }
                }
            }
        }
        @for (name, title, content) in &live {
            section #(name) aria-labelledby={ "title-" (name) } {
                h2 id={ "title-" (name) } { (title) }
                @if *name == "history" { (ranges(view.range)) }
                div id={ "live-" (name) } { (content) }
            }
        }
        (still(0, &requests_form(None, "")))
        (still(1, &search_form("")))
        (still(2, &changing(viewer)))
        (still(3, &reports(view.reports)))
        @if let Some(summary) = view.summary { (still(4, &html! { pre.summary tabindex="0" { (summary) } })) }
    };
    let events = format!("/dashboard/events?{}={}", fields::RANGE, view.range.name());
    frame("Dashboard", Some((viewer, &events)), &content)
}

/// The page with the result of a change.
pub fn result_page(change: &Change) -> String {
    let title = if change.is_done { "Done" } else { "Not done" };
    let content = html! {
        h1 { (title) }
        p.lead.problem[!change.is_done] role="status" { (change.result) }
        dl.facts {
            dt { "What" } dd.value { (change.what) }
            dt { "Who" } dd { (change.who) }
            dt { "When" } dd { (figure::utc(change.at_secs)) " UTC" }
        }
        p { a href="/dashboard#changes" { "Back to the dashboard" } }
    };
    frame(title, None, &content)
}

/// A section that does not change by itself.
fn still(number: usize, content: &Markup) -> Markup {
    let (name, title) = STILL.get(number).copied().unwrap_or_default();
    html! {
        section #(name) aria-labelledby={ "title-" (name) } {
            h2 id={ "title-" (name) } { (title) }
            (content)
        }
    }
}

/// A whole page. `live` has the reader and the address of the events, if the page has live
/// sections.
pub(crate) fn frame(title: &str, live: Option<(&Viewer, &str)>, content: &Markup) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " · Petasos" }
                link rel="icon" href="/dashboard/icon.svg" type="image/svg+xml";
                link rel="stylesheet" href="/dashboard/style.css";
                script src="/dashboard/script.js" defer {}
            }
            body data-events=[live.map(|(_, events)| events)] {
                a.skip href="#main" { "Skip to the content" }
                header {
                    p.name { a href="/dashboard" { "Petasos" } }
                    @if let Some((viewer, _)) = live {
                        p #live-state role="status" { "Figures of the moment when this page was loaded." }
                        @if viewer.is_logged_in { (log_out(viewer)) }
                        @else if viewer.may_log_in && viewer.form_token.is_none() {
                            a href="/dashboard/login" { "Log in" }
                        }
                    }
                }
                main #main { (content) }
            }
        }
    };
    page.into_string()
}

fn log_out(viewer: &Viewer) -> Markup {
    html! {
        form method="post" action="/dashboard/logout" {
            (hidden(fields::FORM_TOKEN, viewer.form_token.as_deref().unwrap_or_default()))
            button.quiet-button type="submit" { "Log out" }
        }
    }
}

/// Links to the periods of the charts.
fn ranges(current: Range) -> Markup {
    html! {
        nav.ranges aria-label="Period of the charts" {
            @for range in Range::ALL {
                a href={ "/dashboard?" (fields::RANGE) "=" (range.name()) "#history" }
                    aria-current=[(range == current).then_some("true")] { (range.text()) }
            }
        }
    }
}

/// The form that opens the page of live requests.
pub(crate) fn requests_form(verdict: Option<&str>, condition: &str) -> Markup {
    let verdicts = ["hit", "stale", "miss", "pass", "done", "answered", "refused", "failed"];
    html! {
        form.card.line method="get" action="/dashboard/requests" {
            div {
                label for="verdict" { "Verdict" }
                select id="verdict" name=(fields::VERDICT) {
                    option value="" { "all" }
                    @for name in verdicts {
                        option value=(name) selected[verdict == Some(name)] { (name) }
                    }
                }
            }
            div.wide {
                label for="where" { "Condition " span.quiet { "(optional)" } }
                input id="where" name=(fields::WHERE) value=(condition) spellcheck="false" autocapitalize="none"
                    placeholder="path ~ \"^/shop\" and time > 200ms";
            }
            button type="submit" { "Show requests" }
        }
        p.note { "While requests are shown, the edge records each in full." }
    }
}

/// The form that looks for the response to a URL.
pub(crate) fn search_form(url: &str) -> Markup {
    html! {
        form.card.line method="get" action="/dashboard/search" {
            div.wide {
                label for="url" { "URL" }
                input id="url" type="url" name=(fields::URL) value=(url) required spellcheck="false"
                    placeholder="https://www.example.org/page";
            }
            button type="submit" { "Look up" }
        }
        p.note { "Shows what is stored for a URL, and what the next request for it gets. It changes nothing." }
    }
}

/// The fields of the form that begins a purge.
pub(crate) fn purge_fields(kind: PurgeKind, value: &str, is_soft: bool) -> Markup {
    html! {
        label for="kind" { "What" }
        select id="kind" name=(fields::KIND) {
            @for known in PurgeKind::ALL {
                option value=(known.name()) selected[known == kind] { (known.label()) }
            }
        }
        label for="value" { "URL, beginning, tag or host" }
        input id="value" name=(fields::VALUE) value=(value) spellcheck="false" autocapitalize="none"
            autocomplete="off";
        p.check {
            input id="soft" type="checkbox" name=(fields::SOFT) value="yes" checked[is_soft];
            label for="soft" { "Mark as stale only, and refresh in the background" }
        }
        button type="submit" { "Continue …" }
        p.note { "The next page asks whether you mean it." }
    }
}

/// The reports in the configured directory.
fn reports(reports: Reports<'_>) -> Markup {
    let reports = match reports {
        Reports::Listed(reports) => reports,
        Reports::Unreadable => {
            return sections::empty("The directory cannot be read at the moment. Load the page again later.");
        }
        Reports::NoDirectory => {
            return html! {
                p.empty {
                    "To see reports of " code { "petasos bench" } " and " code { "petasos ladder" }
                    " here, name their directory in the setting " code { "reports_directory" } "."
                }
            };
        }
    };
    if reports.is_empty() {
        return sections::empty("The directory has no report yet.");
    }
    let head = html! {
        th scope="col" { "Report" } th scope="col" { "Written (UTC)" } th.n scope="col" { "Size" }
    };
    let body = html! {
        @for report in reports {
            tr {
                th.url scope="row" { a href={ "/dashboard/reports/" (report_path(&report.name)) } { (report.name) } }
                td.moment { (figure::utc(report.at_secs)) }
                td.n { (figure::bytes(report.bytes)) }
            }
        }
    };
    sections::table("Reports", &head, &body)
}

/// The path of a report, with each segment encoded.
fn report_path(name: &str) -> String {
    name.split('/').map(figure::parameter).collect::<Vec<_>>().join("/")
}
