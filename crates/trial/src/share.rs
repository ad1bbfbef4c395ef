//! The report of a trial for others: Markdown without host names, paths and cookies.
//!
//! Invariant: only numbers, and names from the tables of Petasos, are written. No text that came
//! from the site, its URLs or the system is.

use crate::load_text::{SIDES, conditions, meaning, pairs};
use crate::report::{LoadReport, PageClass, TrialReport};
use crate::screen::{comparison_text, groups};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Returns the text.
pub fn share_text(report: &TrialReport) -> String {
    let all = report.pages.len();
    let count = |class| report.count(class);
    let software: Vec<&str> = report.software.iter().map(|software| software.name).collect();
    let software = if software.is_empty() { "not known".to_owned() } else { software.join(", ") };
    let mut text = format!(
        "# A site, tried with Petasos {}\n\n\
         - Software: {software}. Profile: {}.\n\
         - {} of {all} visited pages can be answered from memory. A setting would add {}, a change of the application \
         {}; {} are personal.\n\
         - The same with and without Petasos, anonymous: {}.\n",
        env!("CARGO_PKG_VERSION"),
        report.profile,
        report.from_memory(),
        count(PageClass::Setting),
        count(PageClass::Application),
        count(PageClass::Personal),
        comparison_text(&report.anonymous)
    );
    // Writing into a String cannot fail, here and below.
    if let Some(comparison) = &report.logged_in {
        let _ = writeln!(text, "- The same for a logged-in visitor: {}.", comparison_text(comparison));
    }
    if report.cookie_changes_nothing {
        text.push_str("- The given cookie changes no page, so nothing is said about a logged-in visitor.\n");
    }
    let _ = writeln!(text, "- First byte after {:.1} ms (median of the pages).", report.first_byte_ms);
    if report.everybodys_cookie.is_some() {
        text.push_str("- Every visitor gets a cookie that keeps the pages from being shared.\n");
    }
    load(&mut text, report);
    causes(&mut text, report);
    text
}

fn load(text: &mut String, report: &TrialReport) {
    match &report.load {
        LoadReport::NotMade { .. } => text.push_str("- No load was made, so there is no factor.\n"),
        LoadReport::GaveIn { .. } => {
            text.push_str("- The site failed or became slower under the load, so there is no factor.\n");
        }
        LoadReport::Made(figures) => {
            let _ = writeln!(text, "- {}\n", meaning(report, figures));
            let _ = writeln!(text, "{}.\n", conditions(figures));
            let _ = writeln!(text, "| | {} | {} |\n|---|---|---|", SIDES[0], SIDES[1]);
            for pair in pairs(figures) {
                let [today, petasos] = pair.texts;
                let _ = writeln!(text, "| {} | {today} | {petasos} |", pair.name);
            }
        }
    }
}

fn causes(text: &mut String, report: &TrialReport) {
    let mut causes: BTreeMap<(PageClass, &str), usize> = BTreeMap::new();
    for page in groups(&report.pages).into_iter().flatten() {
        // A reason of the edge is a word of docs/reasons.md; another server's might be anything.
        let reason = page.reason.as_deref().unwrap_or_default();
        let is_ours = semantics::Reason::ALL.iter().any(|known| known.name() == reason);
        *causes.entry((page.class, if is_ours { reason } else { "not known" })).or_default() += 1;
    }
    if causes.is_empty() {
        return;
    }
    text.push_str("\n| pages | cause | remedy |\n|---|---|---|\n");
    for ((class, reason), pages) in causes {
        let remedy = match class {
            PageClass::Setting => "a setting of Petasos",
            PageClass::Personal => "none needed: personal",
            PageClass::Application | PageClass::Memory => "a change of the application",
        };
        let _ = writeln!(text, "| {pages} | {reason} | {remedy} |");
    }
}

#[cfg(test)]
mod tests {
    use super::share_text;
    use crate::report::{EverybodysCookie, FailedPage, LayerReport, LoadReport, PageClass};
    use crate::sameness::Sameness;
    use crate::testing::{page, report};
    use profiles::Software;

    #[test]
    fn nothing_that_the_site_said_is_shared() {
        let secret = || "SECRET".to_owned();
        let mut pages = [PageClass::Memory, PageClass::Application, PageClass::Setting].map(page).to_vec();
        for page in &mut pages {
            page.url = "http://SECRET/SECRET".to_owned();
            page.anonymous = Sameness::Differs(vec![secret()]);
            page.logged_in = Some(Sameness::Differs(vec![secret()]));
            page.remedy = Some(secret());
            page.reason = Some(secret());
        }
        let mut told = report(pages);
        told.url = "http://SECRET/".to_owned();
        told.software = vec![Software { name: "WordPress", evidence: secret() }];
        told.stopped = Some(secret());
        told.configuration = secret();
        told.failed = vec![FailedPage { url: secret(), what: secret() }];
        told.layers = vec![LayerReport { layer: "page cache", seen: secret() }];
        told.everybodys_cookie = Some(EverybodysCookie {
            name: secret(),
            software: None,
            pages: 1,
            rule: Some(secret()),
            remedy: secret(),
        });
        for load in [LoadReport::NotMade { reason: secret() }, LoadReport::GaveIn { reason: secret() }] {
            told.load = load;
            let text = share_text(&told);
            assert!(!text.contains("SECRET"), "{text}");
            assert!(text.contains("0 of 3 visited pages") && text.contains("WordPress"), "{text}");
        }
    }
}
