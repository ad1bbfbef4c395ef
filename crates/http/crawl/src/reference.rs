//! The documentation of the visited pages: `docs/crawling.md`.
//!
//! Invariant: every rule and every cause has a row, because the tables are made from them.

use crate::frontier::{FrontierLimits, RESTRICTED_PER_PATH_MAX};
use crate::link_rules::{RULES, RuleClass};
use crate::robots::{CRAWL_DELAY_MAX, ROBOTS_BYTES_MAX};
use crate::sitemap::{SITEMAP_BYTES_MAX, SITEMAP_ENTRIES_MAX};
use crate::sitemap_plan::{INDEX_DEPTH_MAX, SITEMAPS_MAX};
use crate::skipped::SkipCause;
use std::fmt::Write;

/// The causes that are no rule of the table, in the order of the documentation.
const CAUSES: [SkipCause; 10] = [
    SkipCause::Robots,
    SkipCause::Nofollow,
    SkipCause::Foreign,
    SkipCause::TooLong,
    SkipCause::Malformed,
    SkipCause::Scripted,
    SkipCause::Sorted,
    SkipCause::Calendar,
    SkipCause::Depth,
    SkipCause::QueueFull,
];

const START: &str = "\
# Which pages a visit of a site leaves out

This page is rendered from the tables of the code by `cargo xtask docs`. [Decision
118](decisions/0118-a-crawl-is-computed-without-sockets.md) has the reasons.

[`petasos try`](try.md) visits sites by these rules, and Petasos fills its cache by them
([warming.md](warming.md)). A visit requests pages with GET, on the same scheme, host and port. It
reads robots.txt as RFC 9309 says, under the name `petasos`. The parts of a site take turns, so that
many pages of one part do not hide another.

## Links that are not followed

Many applications log out, delete or buy by a link. If it is unclear what a link does, it is left out.
The class of a rule says which sources it applies to:

- *effect*: following the link may change something. Such a URL is never requested, not even from
  a file of the operator, except the URL with which the visit begins.
- *no page*: the link leads to something else than a page for all visitors. It is not requested from
  links, sitemaps and feeds.
- *trap*: the link leads to endlessly many pages, or to a page again. Links of pages are not followed.

| link | class | why it is not followed | some forms |
|---|---|---|---|
";

/// Renders the documentation.
pub fn crawling_reference() -> String {
    let mut text = START.to_owned();
    for row in RULES {
        let class = match row.class {
            RuleClass::Effect => "effect",
            RuleClass::Trap => "trap",
            RuleClass::Other => "no page",
        };
        let examples: Vec<String> = row.examples().iter().map(|form| format!("`{form}`")).collect();
        // Writing into a String cannot fail, here and below.
        let _ = writeln!(text, "| {} | {class} | {} | {} |", row.name, row.reason, examples.join(" "));
    }
    text.push_str("\n## Other causes\n\n| link | why it is not followed |\n|---|---|\n");
    for cause in CAUSES {
        let _ = writeln!(text, "| {} | {} |", cause.name(), cause.reason());
    }
    text.push_str("\n## Limits\n\n| limit | value |\n|---|---|\n");
    let (short, long) = (FrontierLimits::TRY, FrontierLimits::WARM);
    let limits = [
        (
            "pages of a look at a site, and of filling a cache",
            format!("{}, {}", short.pages_max, long.pages_max),
        ),
        ("pages that wait", format!("{}, {}", short.queued_max, long.queued_max)),
        ("links between the start and a page", format!("{}, {}", short.depth_max, long.depth_max)),
        (
            "sorted or filtered lists, and pages of a calendar, of one path",
            RESTRICTED_PER_PATH_MAX.to_string(),
        ),
        ("bytes of robots.txt", ROBOTS_BYTES_MAX.to_string()),
        ("longest `Crawl-delay` that is honoured", format!("{} s", CRAWL_DELAY_MAX.as_secs())),
        ("bytes and entries of a sitemap", format!("{SITEMAP_BYTES_MAX}, {SITEMAP_ENTRIES_MAX}")),
        ("sitemaps of a site, and levels of indexes", format!("{SITEMAPS_MAX}, {INDEX_DEPTH_MAX}")),
    ];
    for (limit, value) in limits {
        let _ = writeln!(text, "| {limit} | {value} |");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{CAUSES, crawling_reference};
    use crate::RULES;

    #[test]
    fn every_rule_and_cause_has_a_row() {
        let text = crawling_reference();
        for name in RULES.iter().map(|row| row.name).chain(CAUSES.map(|cause| cause.name())) {
            assert!(text.contains(&format!("\n| {name} |")), "{name}");
        }
        assert!(!text.contains("|  |"), "an empty cell");
    }
}
