//! Starred cells of a ladder: a cell that the generator or other processes disturbed takes part in
//! no factor.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that cannot go on panics")]

mod common;

use common::made_up;
use petasos_report::html::page;
use petasos_report::markdown::markdown;
use petasos_report::results::{CellRecord, Measured, Results, VisitOutcome};
use petasos_report::run::UserTime;
use petasos_report::staircase::staircases;
use petasos_report::star::star as star_of;
use petasos_report::summary::{cell_result, factor, twins};
use petasos_report::table::text;

const REASON: &str = "processes outside of the measurement used 51% of the machine";

/// Stars one round of a cell; `round` is its position, counted from 0.
fn star(cell: &mut CellRecord, round: usize) {
    let VisitOutcome::Measured(measured) = &mut cell.runs[round].outcome else { return };
    measured.starred.push(REASON.to_owned());
}

/// The cell with this id.
fn cell<'a>(results: &'a mut Results, id: &str) -> &'a mut CellRecord {
    results.cells.iter_mut().find(|cell| cell.id == id).unwrap()
}

fn each_run(cell: &mut CellRecord, mut change: impl FnMut(&mut Measured)) {
    for run in &mut cell.runs {
        let VisitOutcome::Measured(measured) = &mut run.outcome else { continue };
        change(measured);
    }
}

/// The text with single spaces.
fn said(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn starred_step_shows_its_star_in_headline_and_table() {
    let mut results = made_up(3);
    star(cell(&mut results, "petasos-100"), 1);
    for is_verbose in [false, true] {
        let text = said(&text(&results, 120, is_verbose));
        assert!(text.contains("to at least 22,900★ in step 7 (Petasos, 100 users)."), "{text}");
        assert!(text.contains("7 100 Petasos 22,900★ req/s"), "{text}");
        let note = format!("★ Step 7: in 1 of 3 rounds, first in round 2, {REASON}.");
        assert!(text.contains(&note), "{text}");
        assert!(!text.contains("2,827×"), "no factor of a starred cell: {text}");
    }
    let markdown = markdown(&results);
    let page = page(&results);
    assert!(markdown.contains("to at least 22,900★ in step 7"), "{markdown}");
    assert!(markdown.contains("| 7 | 100 | Petasos | 22,900★ |"), "{markdown}");
    assert!(page.contains("<strong>at least 22,900★</strong>"));
    assert!(page.contains("<td class=\"n\"><strong>22,900</strong>★</td>"));
    assert!(page.contains("≥ 22,900★"), "the chart must have the star");
    for text in [markdown, page] {
        assert!(text.contains(REASON) && !text.contains("2,827×"));
    }
}

#[test]
fn star_tells_how_many_users_were_at_the_server() {
    let mut results = made_up(3);
    let petasos = cell(&mut results, "petasos");
    star(petasos, 1);
    let mut users = [20.0, 10.5, 21.0].into_iter();
    each_run(petasos, |run| {
        run.generator.account = Some(UserTime {
            effective_users: users.next(),
            mean_until_received_us: Some(1_234.0),
            mean_until_processed_us: Some(2_938.0),
            ..UserTime::default()
        });
    });
    let expected = "10.5 of 25 users were at the server; a good response took 1.23 ms until it had come and 2.94 ms until its user had gone on";
    for text in [text(&results, 80, false), markdown(&results), page(&results)] {
        assert!(said(&text).contains(expected), "{text}");
    }
}

#[test]
fn starred_first_step_takes_comparisons_from_the_headline() {
    let mut results = made_up(3);
    star(cell(&mut results, "none"), 0);
    let text = said(&text(&results, 120, false));
    assert!(text.contains("From 8.10★ pages a second"), "{text}");
    let headline = text.split_once("The load generator was the limit").unwrap().0;
    assert!(!headline.contains('×') && !headline.contains("load went from"), "{headline}");
}

#[test]
fn headline_says_that_no_step_is_compared() {
    let mut results = made_up(3);
    let steps: Vec<String> = results.steps.iter().map(|step| step.cell.clone()).collect();
    let (last, others) = steps.split_last().unwrap();
    others.iter().for_each(|id| star(cell(&mut results, id), 0));
    let says = |steps: &str| {
        format!("The generator or other processes disturbed {steps} (★), so none is compared with another.")
    };
    assert!(said(&text(&results, 120, false)).contains(&says("all steps but one")));
    star(cell(&mut results, last), 0);
    for text in [text(&results, 120, false), markdown(&results), page(&results)] {
        assert!(said(&text).contains(&says("every step")), "{text}");
    }
    results.cells.iter_mut().for_each(|cell| {
        each_run(cell, |run| run.starred.clear());
    });
    assert!(!text(&results, 120, false).contains("disturbed"));
}

#[test]
fn mean_is_shown_beside_the_95_percent_response() {
    let results = made_up(3);
    let narrow = said(&text(&results, 80, false));
    assert!(narrow.contains("7 100 Petasos 22,900 req/s 4.97 ms 6.90 ms"), "{narrow}");
    assert!(markdown(&results).contains("| 7 | 100 | Petasos | 22,900 | 4.97 ms | 6.90 ms |"));
    assert!(page(&results).contains("<td class=\"n\">4.97 ms</td><td class=\"n\">6.90 ms</td>"));
}

#[test]
fn starred_stair_is_no_tipping_point() {
    let mut results = made_up(3);
    // A staircase needs three numbers of users for each step.
    let mut more = Vec::new();
    for step in results.steps.clone() {
        let one = results.cells.iter().find(|cell| cell.id == step.cell).unwrap();
        more.extend([500, 1_000, 2_000].map(|users| CellRecord {
            id: format!("{}-c{users}", step.id),
            concurrency: users,
            ..one.clone()
        }));
    }
    results.cells.extend(more);
    let tipped = cell(&mut results, "petasos-c1000");
    each_run(tipped, |run| run.throughput_per_s /= 10.0);
    let tip = |results: &Results| {
        let all = staircases(results, false);
        let of = all.iter().find(|of| of.step.id == "petasos").unwrap();
        (of.tip.as_ref().map(|tip| tip.users), of.said())
    };
    assert_eq!(tip(&results).0, Some(1_000));
    star(cell(&mut results, "petasos-c1000"), 0);
    let (users, said) = tip(&results);
    assert_eq!(users, None, "{said}");
    assert!(said.ends_with("; starred at 1,000"), "{said}");
    assert!(text(&results, 120, true).contains("2,180★"));
}

#[test]
fn starred_cells_do_not_count_as_noise() {
    let mut results = made_up(3);
    let count = twins(&results).len();
    star(cell(&mut results, "petasos-c1"), 0);
    assert_eq!(twins(&results).len(), count - 1);
}

#[test]
fn starred_round_removes_all_factors_of_its_cell() {
    let mut results = made_up(5);
    let first = results.cells[0].clone();
    let second = results.cells[1].clone();
    assert!(factor(&first, &second).is_some() && star_of(&second).is_none());
    star(&mut results.cells[1], 2);
    let cell = &results.cells[1];
    let star = star_of(cell).unwrap();
    assert_eq!((star.rounds, star.first, &star.reasons[..]), (1, 3, &[REASON.to_owned()][..]));
    assert!(factor(&first, cell).is_none() && factor(cell, &first).is_none());
    assert!(cell_result(cell).summary().is_some(), "a starred cell keeps its figures");
}
