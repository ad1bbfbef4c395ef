//! Formats the report of a trial for a terminal of 80 columns.
//!
//! Invariant: the text states nothing beyond the report. Facts that matter most for the decision
//! come first.

use crate::load_text;
use crate::report::{Comparison, EverybodysCookie, PageClass, PageReport, TrialReport};
use crate::sameness::Sameness;
use why::TextLines;

/// Column where the text beside the labels begins.
const LABEL_COLUMN: usize = 15;

/// Causes that are shown; the rest is counted.
const CAUSES_SHOWN_MAX: usize = 8;

/// Pages with a difference that are shown.
const DIFFERENT_SHOWN_MAX: usize = 5;

/// Kinds of links that were not followed and are shown.
const SKIPPED_SHOWN_MAX: usize = 4;

/// Formats the report.
pub fn screen(report: &TrialReport) -> String {
    let mut lines = TextLines::default();
    site(&mut lines, report);
    lines.gap();
    lines.paragraph(0, &headline(report));
    if let Some(cookie) = &report.everybodys_cookie {
        everybodys_cookie(&mut lines, cookie);
    }
    causes(&mut lines, report);
    comparison(&mut lines, report);
    load_text::load(&mut lines, report);
    server_time(&mut lines, report);
    layers(&mut lines, report);
    not_visited(&mut lines, report);
    lines.into_text()
}

fn labelled(lines: &mut TextLines, label: &str, text: &str) {
    lines.labelled(2, label, LABEL_COLUMN, text);
}

fn site(lines: &mut TextLines, report: &TrialReport) {
    let pages = counted(report.pages.len(), "page", "pages");
    lines.paragraph(0, &format!("{}: {pages} visited, nothing changed", report.url));
    if let Some(cause) = &report.stopped {
        labelled(lines, "ended early", &format!("{cause}."));
    }
    let software = report.software.iter();
    let software: Vec<_> =
        software.map(|software| format!("{} ({})", software.name, software.evidence)).collect();
    labelled(
        lines,
        "runs on",
        &if software.is_empty() {
            "software that Petasos does not know".to_owned()
        } else {
            software.join(", ")
        },
    );
    let profile = match report.unproved_profile() {
        None => report.profile.clone(),
        Some((profile, software)) => format!(
            "{}; the pages do not prove {software}: set profile = \"{profile}\" if it is right",
            report.profile
        ),
    };
    labelled(lines, "profile", &profile);
}

/// The sentence that decides.
pub(crate) fn headline(report: &TrialReport) -> String {
    let (memory, all) = (report.from_memory(), report.pages.len());
    if let Some(cookie) = &report.everybodys_cookie {
        let whose = cookie.software.map_or_else(String::new, |software| format!(" ({software})"));
        return format!(
            "EVERY VISITOR GETS THE COOKIE {}{whose}, so {} of {all} pages cannot be shared.{}",
            cookie.name,
            cookie.pages,
            if report.count(PageClass::Memory) == 0 {
                " No cache in front helps until that changes."
            } else {
                ""
            }
        );
    }
    let setting = report.count(PageClass::Setting);
    let mut more = if setting > 0 {
        format!(" With settings of Petasos: {} of {all}.", memory + setting)
    } else {
        String::new()
    };
    let others = report.count(PageClass::Memory) - memory;
    if others > 0 {
        more.push_str(&format!(" {others} more from memory differ or cannot be compared."));
    }
    if memory * 2 < all {
        format!("FEWER THAN HALF OF THE PAGES CAN BE ANSWERED FROM MEMORY: {memory} of {all}.{more}")
    } else {
        format!("{memory} OF {all} PAGES CAN BE ANSWERED FROM MEMORY as they are.{more}")
    }
}

fn everybodys_cookie(lines: &mut TextLines, cookie: &EverybodysCookie) {
    labelled(lines, "to do", &cookie.remedy);
    if let Some(rule) = &cookie.rule {
        labelled(
            lines,
            "or",
            &format!(
                "{rule} in petasos.toml. Pages are then shared without the cookie. Use it only if anonymous \
                 visitors do not need it."
            ),
        );
    }
}

/// The reasons why pages are not answered from memory, grouped by cause.
fn causes(lines: &mut TextLines, report: &TrialReport) {
    let groups = groups(&report.pages);
    if groups.is_empty() {
        return;
    }
    lines.gap();
    lines.paragraph(0, "What keeps pages out");
    for group in groups.iter().take(CAUSES_SHOWN_MAX) {
        let Some(first) = group.first() else { continue };
        let cause = first.reason.as_deref().unwrap_or("not known");
        let example = format!("such as {}", path(&first.url));
        let label = counted(group.len(), "page", "pages");
        match first.class {
            PageClass::Personal => labelled(lines, &label, &format!("right: personal ({cause}), {example}")),
            _ => labelled(lines, &label, &format!("{cause}, {example}")),
        }
        match (first.class, &first.remedy) {
            (PageClass::Setting, Some(remedy)) => {
                let line = remedy.lines().collect::<Vec<_>>().join(" and ");
                lines.labelled(LABEL_COLUMN, "line", LABEL_COLUMN + 6, &format!("{line} in petasos.toml"));
            }
            (_, Some(remedy)) => lines.labelled(LABEL_COLUMN, "to do", LABEL_COLUMN + 6, remedy),
            (_, None) => {}
        }
    }
    let more: usize = groups.iter().skip(CAUSES_SHOWN_MAX).map(Vec::len).sum();
    if more > 0 {
        labelled(lines, &counted(more, "page", "pages"), "for further causes; --json lists them");
    }
}

/// Pages that are not answered from memory, grouped by class, reason and remedy, the largest group
/// first.
pub(crate) fn groups(pages: &[PageReport]) -> Vec<Vec<&PageReport>> {
    let mut groups: Vec<Vec<&PageReport>> = Vec::new();
    for page in pages.iter().filter(|page| page.class != PageClass::Memory) {
        let belongs = |group: &&mut Vec<&PageReport>| {
            group.first().is_some_and(|first| {
                (first.class, &first.reason, &first.remedy) == (page.class, &page.reason, &page.remedy)
            })
        };
        match groups.iter_mut().find(belongs) {
            Some(group) => group.push(page),
            None => groups.push(vec![page]),
        }
    }
    groups.sort_by_key(|group| std::cmp::Reverse(group.len()));
    groups
}

fn comparison(lines: &mut TextLines, report: &TrialReport) {
    lines.gap();
    lines.paragraph(0, "The same page with and without Petasos");
    labelled(lines, "anonymous", &comparison_text(&report.anonymous));
    match &report.logged_in {
        Some(comparison) => labelled(lines, "with cookie", &comparison_text(comparison)),
        None if report.cookie_changes_nothing => labelled(lines, "with cookie", COOKIE_IDLE),
        None => labelled(lines, "logged in", "not compared; --cookie 'NAME=VALUE' of a session does it"),
    }
    let differing = report.pages.iter().flat_map(|page| {
        let results = [("anonymous", Some(&page.anonymous)), ("with cookie", page.logged_in.as_ref())];
        results.into_iter().filter_map(move |(who, result)| match result {
            Some(Sameness::Differs(places)) => Some((page, who, places)),
            _ => None,
        })
    });
    for (page, who, places) in differing.take(DIFFERENT_SHOWN_MAX) {
        labelled(lines, "DIFFERENT", &format!("{} ({who}): direct | through Petasos", path(&page.url)));
        for place in places {
            lines.labelled(LABEL_COLUMN, "-", LABEL_COLUMN + 2, place);
        }
    }
}

/// Text for a given cookie that changes no page.
pub(crate) const COOKIE_IDLE: &str = "not compared: the cookie changes no page; is it still valid?";

pub(crate) fn comparison_text(comparison: &Comparison) -> String {
    let Comparison { same, same_but_moving, unknown, different } = *comparison;
    let mut text =
        format!("{} of {} pages", same + same_but_moving, same + same_but_moving + unknown + different);
    if same_but_moving > 0 {
        text.push_str(&format!(
            ", {same_but_moving} of them except in places that change by themselves, such as a nonce"
        ));
    }
    if unknown > 0 {
        text.push_str(&format!("; {unknown} cannot be compared: they differ with every request, are too long, or had no direct response"));
    }
    if different > 0 {
        text.push_str(&format!("; {different} DIFFER"));
    }
    text
}

fn server_time(lines: &mut TextLines, report: &TrialReport) {
    lines.gap();
    let time = format!("{:.1} ms", report.first_byte_ms);
    if report.is_on_this_machine {
        lines.paragraph(0, &format!("Server time: {time} to the first byte (median of the pages)."));
    } else {
        lines.paragraph(
            0,
            &format!(
                "Server time: {time} to the first byte without handshakes (median of the pages; the way through \
                 the network is part of it). Run the command on the site's server to learn the factor."
            ),
        );
    }
}

fn layers(lines: &mut TextLines, report: &TrialReport) {
    lines.gap();
    lines.paragraph(0, "Layers");
    for layer in &report.layers {
        labelled(lines, layer.layer, &layer.seen);
    }
}

fn not_visited(lines: &mut TextLines, report: &TrialReport) {
    let skipped = report.skipped.iter().take(SKIPPED_SHOWN_MAX);
    let mut parts: Vec<String> =
        skipped.map(|skipped| format!("{} ({})", skipped.what, skipped.links)).collect();
    let failed = report.failed.iter().take(SKIPPED_SHOWN_MAX);
    parts.extend(failed.map(|failed| format!("{} ({})", path(&failed.url), failed.what)));
    let shown = SKIPPED_SHOWN_MAX.min(report.skipped.len()) + SKIPPED_SHOWN_MAX.min(report.failed.len());
    if report.skipped.len() + report.failed.len() > shown {
        parts.push("others, which --json lists".to_owned());
    }
    if !parts.is_empty() {
        lines.gap();
        lines.paragraph(0, &format!("Not visited: {}.", parts.join(", ")));
    }
}

/// A URL without scheme and host.
pub(crate) fn path(url: &str) -> &str {
    let after_scheme = url.find("://").map_or(0, |place| place + 3);
    let path = url.get(after_scheme..).and_then(|rest| rest.find('/'));
    path.and_then(|place| url.get(after_scheme + place..)).unwrap_or(url)
}

fn counted(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::{headline, path, screen};
    use crate::report::{Comparison, EverybodysCookie, LoadReport, PageClass};
    use crate::sameness::Sameness;
    use crate::testing::{page, report};

    #[test]
    fn headline_states_what_decides() {
        let pages = |memory: usize, others: usize| {
            let memory = vec![PageClass::Memory; memory];
            report(memory.into_iter().chain(vec![PageClass::Personal; others]).map(page).collect())
        };
        assert_eq!(headline(&pages(1, 1)), "1 OF 2 PAGES CAN BE ANSWERED FROM MEMORY as they are.");
        assert_eq!(
            headline(&pages(1, 2)),
            "FEWER THAN HALF OF THE PAGES CAN BE ANSWERED FROM MEMORY: 1 of 3."
        );
        let with_setting = report([PageClass::Memory, PageClass::Setting].map(page).to_vec());
        assert!(headline(&with_setting).ends_with(" as they are. With settings of Petasos: 2 of 2."));
        let mut with_cookie = pages(0, 2);
        with_cookie.everybodys_cookie = Some(EverybodysCookie {
            name: "sid".to_owned(),
            software: Some("PHP"),
            pages: 2,
            rule: None,
            remedy: String::new(),
        });
        assert!(
            headline(&with_cookie).starts_with("EVERY VISITOR GETS THE COOKIE sid (PHP), so 2 of 2 pages")
        );
    }

    #[test]
    fn differences_and_causes_are_shown_with_their_pages() {
        let mut pages = vec![page(PageClass::Setting), page(PageClass::Setting), page(PageClass::Personal)];
        pages[0].anonymous = Sameness::Differs(vec!["line 3: a[b | c]".to_owned()]);
        let mut told = report(pages);
        told.load = LoadReport::GaveIn { reason: "it broke".to_owned() };
        let text = screen(&told);
        for part in [
            "  2 pages      store-refused-no-freshness, such as /page\n",
            "line  ttl = \"5m\" in petasos.toml\n",
            "  1 page       right: personal (store-refused-no-freshness), such as /page\n",
            "  anonymous    2 of 3 pages; 1 DIFFER\n",
            "  DIFFERENT    /page (anonymous): direct | through Petasos\n",
            "- line 3: a[b | c]\n",
            "NO FACTOR: the load was ended early, because it broke. Repair this first.\n",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(told.has_difference());
    }

    #[test]
    fn comparison_counts_add_up_to_the_pages() {
        let found = Comparison { same: 3, same_but_moving: 2, unknown: 1, different: 0 };
        let text = super::comparison_text(&found);
        assert!(text.starts_with("5 of 6 pages, 2 of them except"), "{text}");
    }

    #[test]
    fn path_of_a_url_has_no_host() {
        assert_eq!(["http://a/", "https://a:1/b?c", "a"].map(path), ["/", "/b?c", "a"]);
    }
}
