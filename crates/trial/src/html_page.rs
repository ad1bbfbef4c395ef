//! The report of a trial as an HTML page without scripts that loads nothing.
//!
//! Invariant: it has the sentences of the screen, and every page of the visit.

use crate::load_text::{SIDES, conditions, meaning, pairs};
use crate::report::{LoadReport, PageClass, TrialReport};
use crate::sameness::Sameness;
use crate::screen::{COOKIE_IDLE, comparison_text, groups, headline, path};
use report::html::{TrialFigure, TrialPage, TrialSection, trial_page};

/// Returns the page.
pub fn trial_html(report: &TrialReport) -> String {
    let mut page = TrialPage {
        title: report.url.clone(),
        lead: headline(report),
        warnings: Vec::new(),
        facts: vec![
            format!("{} pages visited", report.pages.len()),
            format!("profile {}", report.profile),
            format!("first byte after {:.1} ms", report.first_byte_ms),
        ],
        figures: Vec::new(),
        sections: Vec::new(),
    };
    page.facts.extend(report.software.iter().map(|software| software.name.to_owned()));
    if report.has_difference() {
        page.warnings.push("At least one page differs through Petasos.".to_owned());
    }
    page.warnings.extend(report.stopped.iter().map(|cause| format!("The visit ended early: {cause}.")));
    match &report.load {
        LoadReport::NotMade { reason } => {
            page.warnings.push(format!("No factor: the load was not made, because {reason}."));
        }
        LoadReport::GaveIn { reason } => {
            page.warnings.push(format!("No factor: the load was ended early, because {reason}."));
        }
        LoadReport::Made(figures) => {
            page.figures = pairs(figures)
                .into_iter()
                .map(|pair| TrialFigure {
                    heading: capitalised(pair.name),
                    caption: format!("{}. The scale is linear and begins at zero.", pair.better),
                    bars: SIDES
                        .iter()
                        .zip(pair.values)
                        .zip(pair.texts)
                        .map(|((side, value), text)| ((*side).to_owned(), value, text))
                        .collect(),
                })
                .collect();
            page.sections.push(TrialSection {
                heading: "What it means".to_owned(),
                paragraphs: vec![meaning(report, figures), format!("{}.", conditions(figures))],
                ..TrialSection::default()
            });
        }
    }
    let causes = causes(report);
    page.sections.extend((!causes.rows.is_empty()).then_some(causes));
    page.sections.extend([comparison(report), layers(report), pages(report)]);
    page.sections.push(TrialSection {
        heading: "petasos.toml".to_owned(),
        verbatim: Some(report.configuration.clone()),
        ..TrialSection::default()
    });
    trial_page(&page)
}

/// A text with a capital letter at its beginning.
fn capitalised(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map(|first| first.to_uppercase().chain(characters).collect()).unwrap_or_default()
}

fn causes(report: &TrialReport) -> TrialSection {
    let row = |group: &Vec<&crate::report::PageReport>| {
        let first = group.first()?;
        let remedy = match (first.class, &first.remedy) {
            (PageClass::Personal, _) => "right: personal".to_owned(),
            (_, Some(remedy)) => remedy.clone(),
            (_, None) => String::new(),
        };
        let reason = first.reason.clone().unwrap_or_default();
        Some(vec![group.len().to_string(), reason, remedy, path(&first.url).to_owned()])
    };
    let mut paragraphs = Vec::new();
    if let Some(cookie) = &report.everybodys_cookie {
        paragraphs.push(cookie.remedy.clone());
        paragraphs.extend(
            cookie.rule.iter().map(|rule| {
                format!("Or {rule} in petasos.toml, if anonymous visitors do not need the cookie.")
            }),
        );
    }
    TrialSection {
        heading: "What keeps pages out".to_owned(),
        paragraphs,
        columns: vec!["pages", "cause", "what to change", "such as"],
        rows: groups(&report.pages).iter().filter_map(row).collect(),
        verbatim: None,
    }
}

fn comparison(report: &TrialReport) -> TrialSection {
    let mut paragraphs = vec![format!("Anonymous: {}.", comparison_text(&report.anonymous))];
    paragraphs
        .extend(report.logged_in.iter().map(|found| format!("With the cookie: {}.", comparison_text(found))));
    if report.cookie_changes_nothing && report.logged_in.is_none() {
        paragraphs.push(format!("With the cookie: {COOKIE_IDLE}"));
    }
    TrialSection {
        heading: "The same page with and without Petasos".to_owned(),
        paragraphs,
        ..TrialSection::default()
    }
}

fn layers(report: &TrialReport) -> TrialSection {
    TrialSection {
        heading: "Layers".to_owned(),
        columns: vec!["layer", "what was seen"],
        rows: report.layers.iter().map(|layer| vec![layer.layer.to_owned(), layer.seen.clone()]).collect(),
        ..TrialSection::default()
    }
}

fn pages(report: &TrialReport) -> TrialSection {
    let row = |page: &crate::report::PageReport| {
        vec![
            path(&page.url).to_owned(),
            page.verdict.unwrap_or("none").to_owned(),
            page.reason.clone().unwrap_or_default(),
            format!("{:.1} ms", page.server_ms),
            [Some(&page.anonymous), page.logged_in.as_ref()]
                .into_iter()
                .flatten()
                .map(sameness_text)
                .collect::<Vec<_>>()
                .join("; "),
        ]
    };
    TrialSection {
        heading: "Pages".to_owned(),
        columns: vec!["page", "second request", "reason", "time", "through Petasos"],
        rows: report.pages.iter().map(row).collect(),
        ..TrialSection::default()
    }
}

fn sameness_text(sameness: &Sameness) -> String {
    match sameness {
        Sameness::Same => "the same".to_owned(),
        Sameness::SameButMoving => "the same beside places that change by themselves".to_owned(),
        Sameness::Unknown => "not comparable".to_owned(),
        Sameness::Differs(places) => format!("DIFFERENT: {}", places.join(", ")),
    }
}
