//! Sites with their hit ratios and times, reasons, and origins.

use super::{bar, empty, table};
use crate::View;
use crate::figure::{grouped, micros, percent, share};
use api::dashboard::{PathGroupFigures, SiteFigures, VerdictFigures};
use api::warm::WarmRun;
use maud::{Markup, html};

/// Maximum number of sites that are shown.
const SITES_MAX: usize = 30;

/// The name of the figures of requests that reached no site, such as those for an unknown host.
const NO_SITE: &str = "-";

pub(super) fn sites(view: &View<'_>) -> Markup {
    let is_shown = |site: &&SiteFigures| site.site != NO_SITE || !site.verdicts.is_empty();
    let sites: Vec<_> = view.data.sites.iter().filter(is_shown).collect();
    let (sites, more) = first(sites, SITES_MAX, |site| std::cmp::Reverse(requests(site)));
    html! {
        @for site in sites {
            div.site {
                h3 {
                    (if site.site == NO_SITE { "Requests for no site" } else { &site.site })
                    " " (site_ratio(site))
                }
                div.pair {
                    (verdicts(site))
                    (path_groups(site))
                }
            }
        }
        @if view.data.sites.is_empty() { (empty("No site has received a request yet.")) }
        @if more > 0 { p.note { (grouped(more)) " more sites have fewer requests." } }
        @if !view.data.status.warming.is_empty() { (warming(&view.data.status.warming)) }
    }
}

/// The first `count` entries by a key if there are more, and the number of the others.
pub(super) fn first<T, K: Ord>(mut list: Vec<T>, count: usize, key: impl Fn(&T) -> K) -> (Vec<T>, u64) {
    let more = list.len().saturating_sub(count);
    if more > 0 {
        // Stable, so that entries with equal keys keep their order.
        list.sort_by_key(key);
        list.truncate(count);
    }
    (list, more as u64)
}

/// The requests of a site.
fn requests(site: &SiteFigures) -> u64 {
    site.verdicts.iter().map(|figures| figures.requests).sum()
}

/// The last run of each site that filled the cache.
fn warming(runs: &[WarmRun]) -> Markup {
    let head = html! {
        th scope="col" { "Filling the cache" } th scope="col" { "Looked at" } th.n scope="col" { "Stored" }
        th.n scope="col" { "Fresh before" } th.n scope="col" { "Not cacheable" } th.n scope="col" { "Failed" }
        th scope="col" { "State" }
    };
    let row = |run: &WarmRun| {
        let done = run.warmed + run.fresh + run.not_cacheable + run.failed;
        html! {
            tr {
                th.url scope="row" { (run.site) }
                td { (bar(share(done, run.found))) }
                td.n { (grouped(run.warmed)) }
                td.n { (grouped(run.fresh)) }
                td.n title=[run.causes.first().map(|cause| &cause.cause)] { (grouped(run.not_cacheable)) }
                td.n { (grouped(run.failed)) }
                td.text { (run.state) }
            }
        }
    };
    table("Filling the cache", &head, &html! { @for run in runs { (row(run)) } })
}

/// The part of a site's pages that the cache answered.
fn site_ratio(site: &SiteFigures) -> Markup {
    let count = |names: &[&str]| {
        let named = site.verdicts.iter().filter(|figures| names.contains(&figures.verdict.as_str()));
        named.map(|figures| figures.requests).sum::<u64>()
    };
    let (hits, pages) = (count(&["hit", "stale"]), count(&["hit", "stale", "miss", "pass"]));
    html! {
        @if let Some(ratio) = share(hits, pages) { span.quiet { (percent(ratio)) " from the cache" } }
    }
}

fn verdicts(site: &SiteFigures) -> Markup {
    if site.verdicts.is_empty() {
        return empty("No request yet.");
    }
    let all = requests(site);
    let time = |time: Option<u64>| time.map_or_else(|| "–".to_owned(), micros);
    let head = html! {
        th scope="col" { "Verdict" } th.n scope="col" { "Requests" } th.n scope="col" { "Share" }
        th.n scope="col" { "p50" } th.n scope="col" { "p95" } th.n scope="col" { "p99" }
    };
    let row = |figures: &VerdictFigures| {
        html! {
            tr {
                th scope="row" { (verdict(&figures.verdict)) }
                td.n { (grouped(figures.requests)) }
                td.n { (share(figures.requests, all).map_or_else(String::new, percent)) }
                td.n { (time(figures.p50_micros)) }
                td.n { (time(figures.p95_micros)) }
                td.n { (time(figures.p99_micros)) }
            }
        }
    };
    let body = html! { @for figures in &site.verdicts { (row(figures)) } };
    html! {
        div {
            (table(&format!("Verdicts of {}", site.site), &head, &body))
            p.quiet { "Times are those of the last whole minute." }
        }
    }
}

fn path_groups(site: &SiteFigures) -> Markup {
    if site.path_groups.is_empty() {
        return html! {};
    }
    let head = html! {
        th scope="col" { "Path" } th.n scope="col" { "Requests" } th scope="col" { "From the cache" }
    };
    let row = |group: &PathGroupFigures| {
        html! {
            tr {
                th.url scope="row" { (group.group) }
                td.n { (grouped(group.requests)) }
                td { (bar(share(group.hits, group.requests))) }
            }
        }
    };
    let body = html! { @for group in &site.path_groups { (row(group)) } };
    table(&format!("Paths of {}", site.site), &head, &body)
}

/// A verdict as a coloured word.
pub(crate) fn verdict(name: &str) -> Markup {
    // A class is one of these words, never a text from outside.
    let class = match name {
        "hit" | "stale" => "good",
        "miss" | "pass" => "work",
        "refused" | "failed" => "bad",
        _ => "plain",
    };
    html! { span class={ "verdict " (class) } { (name) } }
}

pub(super) fn reasons(view: &View<'_>) -> Markup {
    if view.data.reasons.is_empty() {
        return empty("No request yet.");
    }
    let all = view.data.status.requests;
    let head = html! {
        th scope="col" { "Reason" } th.n scope="col" { "Requests" } th scope="col" { "What it means, what to do" }
    };
    let body = html! {
        @for reason in &view.data.reasons {
            tr {
                th.reason scope="row" { (verdict(&reason.verdict)) " " span.name { (reason.reason) } }
                td.n {
                    (grouped(reason.requests)) br;
                    span.quiet { (share(reason.requests, all).map_or_else(String::new, percent)) }
                }
                td.text {
                    (reason.meaning)
                    @if !reason.fix.is_empty() { " " strong { (reason.fix) } }
                }
            }
        }
    };
    table("Reasons of verdicts", &head, &body)
}
