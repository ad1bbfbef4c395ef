//! Renders docs/hit-ratio.md: the rounds of the last measurement, the upper bound of each rate, and
//! the reasons of requests that were not hits.
//!
//! Invariant: every figure is from a round, or follows from the number of URLs by the formula that
//! the page states.

use super::{EdgeFigures, RATES, ROUNDS_PATH, RateRound, Rounds, SAVES_EVERY_SECS, is_hit};
use std::fmt::Write;
use std::path::Path;

/// Lifetime of a WordPress page, and the time after it in which the page is served stale while it
/// is refreshed, in seconds. Without the plugin, the profile sets both; with the plugin, the
/// plugin's responses do.
const LIFETIMES_SECS: [(&str, f64, f64); 2] = [("without", 300.0, 60.0), ("with", 3600.0, 0.0)];

/// The page, rendered from the file of the rounds.
///
/// # Errors
/// If the file of the rounds cannot be read or parsed.
pub fn hit_ratio_reference() -> Result<String, String> {
    Ok(page(&Rounds::read(Path::new(ROUNDS_PATH))?.rounds))
}

fn page(rounds: &[RateRound]) -> String {
    let urls = rounds.first().map_or(0, |round| round.urls);
    let mut page = HEAD.to_owned();
    // Writing into a String cannot fail.
    let _ = writeln!(page, "The site has {urls} URLs. {}\n", lengths(rounds));
    page.push_str(HITS);
    table(&mut page, rounds, EdgeFigures::hits);
    most(&mut page, rounds);
    page.push_str(KNOWN_SITE);
    table(&mut page, rounds, EdgeFigures::would_be_hits);
    page.push_str(LONG_RUN);
    for (plugin, lifetime, grace) in LIFETIMES_SECS {
        let bounds = RATES.map(|rate| format!("{:.1}%", 100.0 * bound(urls, rate, lifetime, grace)));
        let _ = writeln!(page, "| {plugin} | {lifetime} s | {} |", bounds.join(" | "));
    }
    page.push_str(REASONS);
    for (round, edge) in each(rounds) {
        let _ = writeln!(
            page,
            "| {} | {} | {} | {} | {} | {} | {} |",
            plugin(round.has_plugin),
            saves(round.save_every_secs),
            edge.rate,
            edge.requests(),
            edge.fresh(),
            edge.stale(),
            reasons(edge)
        );
    }
    page.push_str(PROMISE);
    for (round, edge) in each(rounds).filter(|(_, edge)| edge.saves > 0) {
        let oldest = if edge.old > 0 { format!("{} s", edge.old_secs_max) } else { String::new() };
        let _ = writeln!(
            page,
            "| {} | {} | {} | {} | {} | {} | {} | {oldest} |",
            plugin(round.has_plugin),
            saves(round.save_every_secs),
            edge.rate,
            edge.saves,
            edge.must_be_new,
            edge.broken,
            edge.old
        );
    }
    page
}

/// Adds a row of hit ratios for each round, with a column for each rate.
fn table(page: &mut String, rounds: &[RateRound], hits: fn(&EdgeFigures) -> u64) {
    for round in rounds {
        let cells: Vec<_> = round.edges.iter().map(|edge| percent(hits(edge), edge.requests())).collect();
        let plugin = plugin(round.has_plugin);
        let saves = saves(round.save_every_secs);
        // Writing into a String cannot fail.
        let _ = writeln!(page, "| {plugin} | {saves} | {} |", cells.join(" | "));
    }
}

/// Adds the upper bound of each rate. It is the same for all rounds, because the requests are.
fn most(page: &mut String, rounds: &[RateRound]) {
    let Some(round) = rounds.first() else { return };
    let most = round.edges.iter().map(|edge| percent(edge.requests() - edge.first, edge.requests()));
    let most: Vec<_> = most.collect();
    let _ = writeln!(page, "| | at most, as the store is empty at the start | {} |", most.join(" | "));
}

fn each(rounds: &[RateRound]) -> impl Iterator<Item = (&RateRound, &EdgeFigures)> {
    rounds.iter().flat_map(|round| round.edges.iter().map(move |edge| (round, edge)))
}

/// The durations of the rounds, missing rounds, and the remarks.
fn lengths(rounds: &[RateRound]) -> String {
    let minutes: std::collections::BTreeSet<u64> = rounds.iter().map(|round| round.secs / 60).collect();
    let minutes: Vec<_> = minutes.iter().map(u64::to_string).collect();
    let longest = rounds.iter().map(|round| round.took_secs).max().unwrap_or_default();
    let mut text =
        format!("Visitors came for {} minutes; the longest round took {longest} s.", minutes.join(" or "));
    for (has_plugin, every_secs) in
        [false, true].into_iter().flat_map(|plugin| SAVES_EVERY_SECS.map(|secs| (plugin, secs)))
    {
        if !rounds.iter().any(|round| (round.has_plugin, round.save_every_secs) == (has_plugin, every_secs)) {
            let _ =
                write!(text, "\n\nNot measured: plugin {}, saves {}.", plugin(has_plugin), saves(every_secs));
        }
    }
    for round in rounds.iter().filter(|round| !round.remark.is_empty()) {
        let plugin = plugin(round.has_plugin);
        let saves = saves(round.save_every_secs);
        let _ = write!(text, "\n\nPlugin: {plugin}; saves: {saves}. {}", round.remark);
    }
    text
}

const fn plugin(is_there: bool) -> &'static str {
    if is_there { "with" } else { "without" }
}

fn saves(every_secs: u64) -> String {
    match every_secs {
        0 => "none".to_owned(),
        60 => "every minute".to_owned(),
        secs => format!("every {secs} s"),
    }
}

fn percent(part: u64, of: u64) -> String {
    format!("{:.1}%", 100.0 * part as f64 / of.max(1) as f64)
}

/// Reasons of requests that were not hits, the most frequent first.
fn reasons(edge: &EdgeFigures) -> String {
    let mut others: Vec<_> = edge.reasons.iter().filter(|(reason, _)| !is_hit(reason)).collect();
    others.sort_by_key(|(reason, count)| (std::cmp::Reverse(**count), reason.as_str()));
    others.iter().map(|(reason, count)| format!("{count} `{reason}`")).collect::<Vec<_>>().join(", ")
}

/// The expected share of hits in the long run. Pages are requested independently, by Zipf's law,
/// and nothing is saved.
///
/// Requests within a page's lifetime are hits. The first request after it is a hit only if the page
/// may still be served stale. Any other first request fetches the page again.
fn bound(urls: u64, rate: f64, lifetime: f64, grace: f64) -> f64 {
    let weights: f64 = (1..=urls).map(|rank| 1.0 / rank as f64).sum();
    let hits = (1..=urls).map(|rank| {
        let share = 1.0 / rank as f64 / weights;
        let within = share * rate * lifetime;
        let renewed = 1.0 - (-share * rate * grace).exp();
        share * (within + renewed) / (within + 1.0)
    });
    hits.sum()
}

const HEAD: &str = "\
# Hit ratio at low rates

This page shows how many requests Petasos answers from the store on an ordinary site with few
visitors. The figures are measured on the WordPress lab in real time:

    cargo xtask long traffic wordpress --rates                 an hour: six rounds of ten minutes
    cargo xtask long traffic wordpress --rates --minutes 5     shorter rounds
    cargo xtask long traffic wordpress --rates --resume        only the rounds that an interrupted run has not finished
    cargo xtask long traffic wordpress --rates --write         keeps the rounds; `cargo xtask docs` renders this page

In each round, four edges are in front of one WordPress. Each edge is configured only with the
address of WordPress, and its store is empty at the start. Each edge receives the traffic of
`crates/testkit/src/traffic.rs` at a different rate. 5% of the requests are from robots, the others
from visitors with six tracking cookies and an unknown one. Three in ten requests have campaign
parameters. URLs are drawn by Zipf's law with exponent 1. The front page and the newest post are the
most popular; files, lists, feeds and other posts follow in a drawn order. The requests are evenly
spaced, and the same in all rounds.

In some rounds, a logged-in editor changes the title of the newest post. Without the plugin the
editor does so through each edge, because an edge knows only the writes that pass it. With the
plugin the editor uses one edge, and WordPress purges all four. The requests of the editor do not
count.

A *hit* is a response from the store that did not wait for the origin, fresh or stale. All other
responses count as no hits, including revalidations with 304 and checks of the leak guard. The
warm-up counts too.

";

const HITS: &str = "\
## Hits

| plugin | saves | 0.5/s | 1/s | 5/s | 12/s |
|---|---|---:|---:|---:|---:|
";

const KNOWN_SITE: &str = "
The last row is the share of requests whose URL had been requested before in a round of ten minutes.
No cache that starts empty can answer more. The number of URLs limits the ratio at low rates, not
the edge.

The rest of the gap at low rates is the leak guard. While a site is new to the edge, it sends up to
64 would-be hits of visitors with cookies to the origin, and up to 64 would-be hits of static files.
Both limits apply once in the life of a process. The next table counts these requests as hits,
because later requests of this kind are hits:

| plugin | saves | 0.5/s | 1/s | 5/s | 12/s |
|---|---|---:|---:|---:|---:|
";

const LONG_RUN: &str = "
## In the long run

In the long run the lifetime of pages limits the hit ratio, because most URLs are requested less
often than their copies expire. The table shows the expected share of hits without edits, after the
store has been warm for long, if every URL has the stated lifetime. Requests within the lifetime
after a fetch are hits. Without the plugin, WordPress states no lifetime, and the profile serves an
expired page for another 60 s while it is refreshed. The first request in these 60 s is a hit too.

| plugin | lifetime | 0.5/s | 1/s | 5/s | 12/s |
|---|---|---:|---:|---:|---:|
";

const REASONS: &str = "
## Why requests were no hits

[reasons.md](reasons.md) describes all reasons. In these rounds, they mean:

- `miss-absent`: the first request for a URL, or the first one after its stored response was
  removed.
- `pass-leak-guard`: a would-be hit that was compared with the origin's response.
- `stale-origin-slow`: a stale response, sent after the origin had been silent for a second. Builds
  ran on the same two cores.
- `pass-unknown-cookie`: a request before the edge saw the first page of WordPress. Until then the
  site has the profile `default`.
- `miss-invalidated`: a request for the post or, without the plugin, for a list. Without tags the
  edge does not know which posts a list shows, so it fetches each list again after a save.

| plugin | saves | rate | requests | fresh hits | stale hits | no hits |
|---|---|---:|---:|---:|---:|---|
";

const PROMISE: &str = "
## Age of the pages

The test compares each page that shows the saved post with the last save. It counts a save only if
WordPress answered it before the page was requested. With the plugin, all pages must be new at the
next request. Without it, the post itself and all lists must be new. Feeds of comments are left out,
because WordPress confirms them with 304 after a new title.

Without the plugin, the edge refreshes other posts that link to the saved one in the background. It
does so when they are requested more than ten seconds after the save. Their old copy may be up to
360 s old: 300 s of lifetime, and 60 s in which it is served while it is refreshed.

| plugin | saves | rate | saves seen | responses that must be new | outdated ones | old copies of other posts | oldest |
|---|---|---:|---:|---:|---:|---:|---:|
";

#[cfg(test)]
mod tests {
    use super::{bound, page};
    use crate::rates::{EdgeFigures, RATES, RateRound};

    fn round(has_plugin: bool, save_every_secs: u64) -> RateRound {
        let edges = RATES.map(|rate| {
            let counts = [
                ("hit-fresh", 6),
                ("stale-while-revalidate", 1),
                ("miss-expired", 1),
                ("miss-absent", 1),
                ("pass-leak-guard", 1),
            ];
            let reasons = counts.map(|(reason, count)| (reason.to_owned(), count)).into();
            let saves = save_every_secs.min(1) * 3;
            EdgeFigures { rate, first: 2, reasons, saves, must_be_new: 5, ..EdgeFigures::default() }
        });
        let remark = if has_plugin { "A build ran." } else { "" }.to_owned();
        RateRound {
            has_plugin,
            save_every_secs,
            secs: 600,
            took_secs: 601,
            remark,
            urls: 4,
            edges: edges.to_vec(),
        }
    }

    #[test]
    fn page_has_ratios_bounds_reasons_and_ages() {
        let text = page(&[round(false, 0), round(true, 10)]);
        for line in [
            "The site has 4 URLs. Visitors came for 10 minutes; the longest round took 601 s.",
            "Not measured: plugin without, saves every minute.",
            "Plugin: with; saves: every 10 s. A build ran.",
            "| without | none | 70.0% | 70.0% | 70.0% | 70.0% |",
            "| with | every 10 s | 70.0% | 70.0% | 70.0% | 70.0% |",
            "| without | none | 80.0% | 80.0% | 80.0% | 80.0% |",
            "| | at most, as the store is empty at the start | 80.0% | 80.0% | 80.0% | 80.0% |",
            "| without | none | 0.5 | 10 | 6 | 1 | 1 `miss-absent`, 1 `miss-expired`, 1 `pass-leak-guard` |",
            "| with | every 10 s | 12 | 3 | 5 | 0 | 0 |  |",
        ] {
            assert!(text.lines().any(|found| found == line), "no line \"{line}\" in:\n{text}");
        }
        assert!(!text.contains("| without | none | 0.5 | 0 |"), "a round without saves has no ages:\n{text}");
    }

    #[test]
    fn bound_follows_from_rate_and_lifetime() {
        let is_near = |one: f64, other: f64| (one - other).abs() < 1e-9;
        assert!(is_near(bound(1, 1.0, 300.0, 0.0), 300.0 / 301.0));
        assert!(is_near(bound(1, 0.01, 300.0, 60.0), (3.0 + 1.0 - (-0.6_f64).exp()) / 4.0));
        assert!(bound(600, 0.5, 300.0, 60.0) < bound(600, 0.5, 3600.0, 0.0));
        assert!(bound(600, 0.5, 300.0, 60.0) < bound(600, 12.0, 300.0, 60.0));
    }
}
