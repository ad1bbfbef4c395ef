//! The result of a trial as plain data. This is the JSON document of `petasos try --json`.
//!
//! Invariant: every fact occurs once. `screen` formats the report for a terminal.

use crate::factor::FactorRange;
use crate::measure::{RoundFigures, SideFigures};
use crate::sameness::Sameness;
use profiles::{Profile, Software};
use serde::Serialize;
use std::collections::BTreeMap;

/// The version of the document. It changes when a member is removed or changes its meaning.
pub const FORMAT: u32 = 1;

/// All results of a trial.
#[derive(Clone, Debug, Serialize)]
pub struct TrialReport {
    /// [`FORMAT`].
    pub format: u32,
    /// The URL with which the visit began.
    pub url: String,
    /// Whether the site runs on the machine of the command.
    pub is_on_this_machine: bool,
    /// The software that the site runs on, as its start page shows.
    pub software: Vec<Software>,
    /// The name of the detected profile, `auto` or `default` if none was detected.
    pub profile: String,
    /// The pages with a good response, in the order of the visit.
    pub pages: Vec<PageReport>,
    /// Pages without a good response, with the reasons.
    pub failed: Vec<FailedPage>,
    /// Links that were not followed.
    pub skipped: Vec<SkippedLinks>,
    /// Why the visit ended before all pages were visited.
    pub stopped: Option<String>,
    /// Whether it ended because the site failed, became slower or asked for a pause. Then the site
    /// is not loaded.
    pub is_in_trouble: bool,
    /// The cookie that the site sets for everybody and that keeps its pages from being shared.
    pub everybodys_cookie: Option<EverybodysCookie>,
    /// The layers of the site, as far as they can be seen from outside.
    pub layers: Vec<LayerReport>,
    /// The median of the pages' times from the request to the head of the response, in
    /// milliseconds. Handshakes are left out.
    pub first_byte_ms: f64,
    /// The comparison for an anonymous visitor.
    pub anonymous: Comparison,
    /// The comparison for the visitor with the given cookie.
    pub logged_in: Option<Comparison>,
    /// Whether a cookie was given and no direct response differs by it. Then there is no comparison
    /// for a logged-in visitor, except for pages with a difference.
    pub cookie_changes_nothing: bool,
    /// The measured load.
    pub load: LoadReport,
    /// The text of `petasos.toml` for this site.
    pub configuration: String,
}

/// The outcome of the load.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "outcome")]
pub enum LoadReport {
    /// It was not made.
    NotMade {
        /// Why, as the rest of a sentence after "because".
        reason: String,
    },
    /// The site failed or became slower, so the load ended early and there is no factor.
    GaveIn {
        /// The failure, as a clause.
        reason: String,
    },
    /// All rounds were made.
    Made(Box<LoadFigures>),
}

/// The figures of all rounds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LoadFigures {
    /// Number of users, each with one request in progress.
    pub users: usize,
    /// Whether the users kept their connections. Otherwise each page had a new one.
    pub keep_alive: bool,
    /// Number of pages that were loaded: those that are answered from memory.
    pub pages: usize,
    /// The rounds.
    pub rounds: Vec<RoundFigures>,
    /// Medians over the rounds for the site without Petasos.
    pub today: SideFigures,
    /// Medians over the rounds for the site through the temporary edge.
    pub with_petasos: SideFigures,
    /// The factors. `None` if the load generator may have been the limit of the direct load, or if
    /// its figures are not valid.
    pub factors: Option<Factors>,
    /// Whether the load generator may have been the limit of Petasos, so that its pages a second
    /// and the factors are lower bounds.
    pub is_at_least: bool,
}

/// The gain by Petasos.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Factors {
    /// How many times as many pages a second Petasos answered from memory.
    pub from_memory: FactorRange,
    /// The factor across all visited pages, each requested equally often.
    pub across_pages: FactorRange,
}

/// The kind of change after which a page can be answered from memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PageClass {
    /// Nothing: the temporary edge answered the second request from memory.
    Memory,
    /// A setting of Petasos.
    Setting,
    /// A change of the application.
    Application,
    /// None is wanted: the page is for one visitor and must not be shared.
    Personal,
}

/// A page.
#[derive(Clone, Debug, Serialize)]
pub struct PageReport {
    /// Its URL.
    pub url: String,
    /// The kind of change after which it can be answered from memory.
    pub class: PageClass,
    /// The temporary edge's verdict about the second request, such as `hit`.
    pub verdict: Option<&'static str>,
    /// The reason, as in docs/reasons.md. `None` for pages that are answered from memory.
    pub reason: Option<String>,
    /// The change to make: a line of `petasos.toml`, or advice for the application.
    pub remedy: Option<String>,
    /// The time from the request to the whole response, in milliseconds.
    pub server_ms: f64,
    /// Whether an anonymous visitor gets the same page through Petasos.
    pub anonymous: Sameness,
    /// Whether the visitor with the given cookie does.
    pub logged_in: Option<Sameness>,
}

impl PageReport {
    /// Whether the page is answered from memory, and is known to be the same through Petasos. Only
    /// such pages count for the result and are loaded.
    pub fn is_same_from_memory(&self) -> bool {
        let is_same = matches!(self.anonymous, Sameness::Same | Sameness::SameButMoving);
        let differs = self.logged_in.as_ref().is_some_and(Sameness::is_difference);
        self.class == PageClass::Memory && is_same && !differs
    }
}

/// A page without a good response.
#[derive(Clone, Debug, Serialize)]
pub struct FailedPage {
    /// Its URL.
    pub url: String,
    /// The status or error.
    pub what: String,
}

/// Links that were not followed for one reason.
#[derive(Clone, Debug, Serialize)]
pub struct SkippedLinks {
    /// Number of links.
    pub links: u64,
    /// Their kind.
    pub what: &'static str,
    /// Why they were not followed: a sentence.
    pub reason: &'static str,
}

/// A cookie that keeps the pages of a site from being shared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EverybodysCookie {
    /// Its name.
    pub name: String,
    /// The software that sets it, if known.
    pub software: Option<&'static str>,
    /// Pages that set it for a visitor without cookies.
    pub pages: usize,
    /// The rule that would change it: a line of `petasos.toml` if there is one.
    pub rule: Option<String>,
    /// Advice for the application.
    pub remedy: String,
}

/// A layer of the site.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LayerReport {
    /// Its name.
    pub layer: &'static str,
    /// Traces of the layer in the responses.
    pub seen: String,
}

/// How many pages are the same through Petasos.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Comparison {
    /// Pages whose every byte is the same.
    pub same: usize,
    /// Pages that differ only where direct responses differ, too.
    pub same_but_moving: usize,
    /// Pages that cannot be compared; [`Sameness::Unknown`] has the causes.
    pub unknown: usize,
    /// Pages with a real difference.
    pub different: usize,
}

impl Comparison {
    /// Counts the results.
    pub(crate) fn of<'a>(results: impl Iterator<Item = &'a Sameness>) -> Self {
        let mut counts = Self::default();
        for result in results {
            *match result {
                Sameness::Same => &mut counts.same,
                Sameness::SameButMoving => &mut counts.same_but_moving,
                Sameness::Unknown => &mut counts.unknown,
                Sameness::Differs(_) => &mut counts.different,
            } += 1;
        }
        counts
    }
}

impl TrialReport {
    /// The JSON document, indented, with a final line break.
    pub fn to_json(&self) -> String {
        // Serialising plain data with string keys cannot fail.
        let text = serde_json::to_string_pretty(self).unwrap_or_default();
        format!("{text}\n")
    }

    /// The profile for the found software if detection did not choose it, because the pages do not
    /// prove the system. With the name of the software.
    pub(crate) fn unproved_profile(&self) -> Option<(&'static str, &'static str)> {
        let fits = |profile: &'static Profile| {
            let of = self.software.iter().find(|software| profile.is_for(software.name))?;
            Some((profile.name.as_str(), of.name))
        };
        Profile::all().iter().find_map(fits).filter(|(profile, _)| *profile != self.profile)
    }

    /// Number of pages that are answered from memory and are the same.
    pub fn from_memory(&self) -> usize {
        self.pages.iter().filter(|page| page.is_same_from_memory()).count()
    }

    /// Number of pages of a class.
    pub fn count(&self, class: PageClass) -> usize {
        self.pages.iter().filter(|page| page.class == class).count()
    }

    /// Whether a page was found that differs through Petasos.
    pub fn has_difference(&self) -> bool {
        let differs = |comparison: &Comparison| comparison.different > 0;
        differs(&self.anonymous) || self.logged_in.as_ref().is_some_and(differs)
    }

    /// Lines of `petasos.toml` that let more pages be answered from memory, with the number of
    /// pages, the most useful first.
    pub(crate) fn settings(&self) -> Vec<(String, usize)> {
        let mut lines: BTreeMap<&String, usize> = BTreeMap::new();
        let pages = self.pages.iter().filter(|page| page.class == PageClass::Setting);
        for line in pages.filter_map(|page| page.remedy.as_ref()) {
            *lines.entry(line).or_default() += 1;
        }
        let mut lines: Vec<_> = lines.into_iter().map(|(line, pages)| (line.clone(), pages)).collect();
        lines.sort_by_key(|(_, pages)| std::cmp::Reverse(*pages));
        lines
    }
}
