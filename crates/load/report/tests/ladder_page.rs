//! The content of the ladder's page for different results, without a browser.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on panics"
)]

mod common;

use common::made_up;
use petasos_report::html::page;
use petasos_report::results::VisitOutcome;

#[test]
fn page_is_one_file_that_loads_nothing() {
    let page = page(&made_up(3));
    for forbidden in ["<script", "src=", "@import", "url(", "https://", "<iframe", "onload"] {
        assert!(!page.contains(forbidden), "{forbidden}");
    }
    assert!(page.contains("default-src 'none'"));
    let links = page.matches("http://").count();
    assert_eq!(links, page.matches("http://127.0.0.1:1808").count(), "addresses may occur in commands only");
}

#[test]
fn intervals_are_below_their_factors_with_two_decimals() {
    assert!(!page(&made_up(4)).contains("95% interval"), "four rounds are too few for an interval");
    assert!(page(&made_up(5)).contains("<small>3.65× – 3.65×</small>"));
}

#[test]
fn each_chart_has_a_wide_and_a_narrow_form_with_words() {
    let page = page(&made_up(3));
    for id in
        ["throughput", "response", "load", "bystander", "throughput-users", "response-users", "percentiles"]
    {
        for variant in ["wide", "narrow"] {
            assert!(
                page.contains(&format!("aria-labelledby=\"{id}-{variant}-t {id}-{variant}-d\"")),
                "{id} {variant}"
            );
        }
    }
    assert!(page.contains("Step 6, Petasos: 21,800 requests a second."));
    assert!(page.contains("2,691×"));
    assert!(page.contains("synthetic site"));
}

#[test]
fn text_from_results_is_escaped() {
    let mut results = made_up(1);
    results.title = "<b>bold</b> & \"quoted\"".to_owned();
    results.steps[0].title = "<img src=x>".to_owned();
    let page = page(&results);
    assert!(
        page.contains("&lt;b&gt;bold&lt;/b&gt; &amp;") && !page.contains("<b>") && !page.contains("<img")
    );
}

#[test]
fn void_step_is_reported_with_its_reason() {
    let mut results = made_up(2);
    results.cells[0].runs[1].outcome =
        VisitOutcome::Void { reason: "the door was locked".to_owned(), is_silent: false };
    let page = page(&results);
    assert!(page.contains("Step 1 is void."));
    assert_eq!(page.matches("the door was locked").count(), 2, "once at the top, once in the classic table");
}

#[test]
fn results_without_measurements_still_make_a_page() {
    let mut results = made_up(1);
    results.complete = false;
    results.cells.iter_mut().for_each(|cell| cell.runs.clear());
    assert!(page(&results).contains("Nothing has been measured yet."));
    results.steps.clear();
    results.cells.clear();
    assert!(page(&results).contains("Nothing has been measured yet."));
}
