//! Snapshots of the ladder's text table, and the rules behind its figures.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on panics"
)]

mod common;

use common::made_up;
use petasos_report::results::{Results, VisitOutcome};
use petasos_report::summary::{CellResult, cell_result, factor, rows, shared_concurrencies, twins};
use petasos_report::table::text as table_text;

/// The report with all figures.
fn text(results: &Results, width: usize) -> String {
    table_text(results, width, true)
}

fn widest(text: &str) -> usize {
    text.lines().map(|line| line.chars().count()).max().unwrap()
}

#[test]
fn a_narrow_terminal() {
    let text = text(&made_up(3), 80);
    assert!(widest(&text) <= 80, "{text}");
    insta::assert_snapshot!(text);
}

#[test]
fn terminal_shows_headline_and_classic_table_alone() {
    for width in [80, 120, 200] {
        let text = table_text(&made_up(3), width, false);
        assert!(widest(&text) <= width, "{text}");
        insta::assert_snapshot!(format!("short_{width}"), text);
    }
}

#[test]
fn a_wide_terminal() {
    let text = text(&made_up(5), 180);
    assert!(widest(&text) <= 180, "{text}");
    insta::assert_snapshot!(text);
}

#[test]
fn report_fits_every_width() {
    for width in 80..200 {
        assert!(widest(&text(&made_up(1), width)) <= width, "{width}");
    }
    assert_eq!(text(&made_up(1), 10), text(&made_up(1), 80));
}

/// A ladder with staircases: every step has cells at 500, 1,000 and 2,000 users. The last step
/// loses half of its throughput at 2,000.
fn with_stairs(rounds: u64) -> Results {
    let mut results = made_up(rounds);
    for step in results.steps.clone() {
        for (users, loss) in
            [(500, 1.0), (1_000, 1.0), (2_000, if step.id == "petasos-100" { 2.0 } else { 1.0 })]
        {
            let own = results.cells.iter().find(|cell| cell.id == step.cell).unwrap();
            let mut cell = own.clone();
            cell.id = format!("{}-c{users}", step.id);
            cell.concurrency = users;
            for run in &mut cell.runs {
                let VisitOutcome::Measured(measured) = &mut run.outcome else { continue };
                measured.throughput_per_s /= loss;
            }
            results.cells.push(cell);
        }
    }
    results
}

#[test]
fn step_with_uncompressed_pages_is_reported() {
    let said = |results: &Results| text(results, 120).split_whitespace().collect::<Vec<_>>().join(" ");
    let mut results = made_up(3);
    assert!(!said(&results).contains("from being compressed"), "all steps have pages of equal length");
    for run in &mut results.cells[0].runs {
        let VisitOutcome::Measured(measured) = &mut run.outcome else { continue };
        measured.received_bytes = measured.answers * 69_654;
    }
    let said = said(&results);
    assert!(said.contains("Step 1: 68.0 KiB a page, and 12.9 KiB in step 2."), "{said}");
    assert!(said.contains("via_to_origin = false"), "{said}");
}

#[test]
fn staircases_have_figures_per_request_and_tipping_points() {
    let text = text(&with_stairs(3), 80);
    assert!(widest(&text) <= 80, "{text}");
    let (_, stairs) = text.split_once("Every step with more and more users").unwrap();
    let stairs = stairs.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        stairs.contains("6. Petasos (petasos 0.1.0 (0123456789)): no tipping point up to 2,000 users."),
        "{stairs}"
    );
    assert!(
        stairs.contains("7. Petasos (petasos 0.1.0 (0123456789)): tips over at 2,000 users: throughput"),
        "{stairs}"
    );
    assert_eq!(stairs.matches("> 2,000").count(), 1, "{stairs}");
    assert!(stairs.contains("a request"), "{stairs}");
    assert!(!text.contains("Every step at concurrency"), "the staircase replaces these tables");
    assert!(
        !self::text(&made_up(3), 80).contains("more and more users"),
        "two numbers of users make no staircase"
    );
    for width in 80..200 {
        assert!(widest(&self::text(&with_stairs(1), width)) <= width, "{width}");
    }
}

#[test]
fn step_without_good_responses_has_tipped_over() {
    let mut results = with_stairs(2);
    let mut silence = |id: &str, is_silent: bool| {
        let cell = results.cells.iter_mut().find(|cell| cell.id == id).unwrap();
        cell.runs[1].outcome = VisitOutcome::Void { reason: "it did not go".to_owned(), is_silent };
    };
    silence("objects-c1000", true);
    silence("petasos-c2000", false);
    let text = text(&results, 180);
    assert!(
        text.contains("5. + object cache: tips over at 1,000 users: no user gets a good response."),
        "{text}"
    );
    assert!(
        text.contains("6. Petasos: no tipping point up to 1,000 users; not measured at 2,000."),
        "{text}"
    );
}

#[test]
fn page_has_the_staircases() {
    let page = petasos_report::html::page(&with_stairs(3));
    assert!(page.contains("id=\"staircase\"") && page.contains("petasos 0.1.0 (0123456789)</td>"));
    assert_eq!(page.matches("<tr class=\"tips\">").count(), 1);
    assert!(page.contains("tips over at 2,000 users: throughput falls from"));
    let (_, stairs) = page.split_once("id=\"staircase\"").unwrap();
    let (stairs, _) = stairs.split_once("</section>").unwrap();
    assert!(
        stairs.contains("</strong>*") && stairs.contains("* fewer than 100 responses in a round"),
        "{stairs}"
    );
    assert!(!petasos_report::html::page(&made_up(3)).contains("id=\"staircase\""));
}

/// Results in which the first run of a cell is void.
fn with_void(id: &str) -> Results {
    let mut results = made_up(3);
    let cell = results.cells.iter_mut().find(|cell| cell.id == id).unwrap();
    cell.runs[0].outcome = VisitOutcome::Void {
        reason: "the layer is not proven: found X-Cache: MISS; expected “HIT”".to_owned(),
        is_silent: false,
    };
    results
}

#[test]
fn a_void_step_has_a_reason_and_no_number() {
    let mut results = with_void("opcode");
    results.cells.iter_mut().find(|cell| cell.id == "objects").unwrap().runs.clear();
    results.complete = false;
    insta::assert_snapshot!(table_text(&results, 80, false));
}

#[test]
fn one_void_run_makes_the_cell_void_without_factors() {
    let results = with_void("opcode");
    let rows = rows(&results);
    assert!(
        matches!(&rows[2].result, CellResult::Void(reason) if reason.starts_with("round 1: the layer is not proven"))
    );
    assert_eq!((rows[2].factor_before, rows[2].factor_first, rows[3].factor_before), (None, None, None));
    assert!(rows[3].factor_first.is_some());
}

#[test]
fn factors_have_intervals_from_five_rounds_on() {
    for (rounds, has_interval) in [(3, false), (4, false), (5, true)] {
        let results = made_up(rounds);
        let rows = rows(&results);
        let first = rows[5].factor_first.unwrap();
        assert!((first.times - 21_800.0 / 8.1).abs() < 1e-6, "{first:?}");
        assert_eq!(first.interval.is_some(), has_interval);
        assert_eq!((rows[0].factor_before, rows[0].factor_first), (None, None));
    }
}

#[test]
fn factors_use_only_rounds_that_measured_both() {
    let mut results = made_up(3);
    let cell = |results: &Results, id: &str| results.cells.iter().find(|cell| cell.id == id).unwrap().clone();
    results.cells.iter_mut().find(|cell| cell.id == "none").unwrap().runs.truncate(1);
    let before = cell(&results, "none");
    let after = cell(&results, "page-cache");
    assert!((factor(&before, &after).unwrap().times - 29.6 / 8.1).abs() < 1e-9);
}

#[test]
fn figures_are_medians_over_the_rounds() {
    let results = made_up(3);
    let CellResult::Measured(summary) = cell_result(&results.cells[0]) else { panic!("no figures") };
    // The rounds have 1.00, 1.06 and 0.97 times the step's throughput.
    assert_eq!((summary.throughput.median, summary.rounds), (8.1, 3));
    assert!(
        (summary.throughput.low - 8.1 * 0.97).abs() < 1e-9
            && (summary.throughput.high - 8.1 * 1.06).abs() < 1e-9
    );
    assert!(summary.few, "16 answers are fewer than 100");
    let bystander = summary.bystander.unwrap();
    assert!(bystander.at_least && bystander.requests == 9 && bystander.p95_ms == 700.0, "{bystander:?}");
    assert_eq!(summary.idle.unwrap().requests, 9);
    assert_eq!((summary.other_length, summary.failed), (9, 0));
}

#[test]
fn concurrencies_of_most_steps_are_shared() {
    assert_eq!(shared_concurrencies(&made_up(1), false), [1, 25]);
}

#[test]
fn same_steps_at_one_concurrency_show_the_noise() {
    let results = made_up(3);
    let found: Vec<(u64, i64)> =
        twins(&results).iter().map(|twins| (twins.concurrency, (twins.ratio * 1000.0) as i64)).collect();
    // Steps 6 and 7 both have cells with 1 and with 25 users. At 25 users, the cell of step 7 has
    // 1.02 times the throughput of the step's first cell.
    assert_eq!(found, [(25, 1071), (1, 1050)]);
}
