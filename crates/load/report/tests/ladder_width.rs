//! The ladder's text on terminals of 80, 120 and 200 columns, with long names and large numbers.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that cannot go on panics")]

mod common;

use common::made_up;
use petasos_report::results::{Measured, Results, VisitOutcome};
use petasos_report::table::text;

const URL: &str =
    "http://127.0.0.1:38123/index.php/catalogue/frames/touring?colour=midnight-blue&size=58&sort=price";

fn each_run(results: &mut Results, mut change: impl FnMut(&mut Measured)) {
    for run in results.cells.iter_mut().flat_map(|cell| &mut cell.runs) {
        let VisitOutcome::Measured(measured) = &mut run.outcome else { continue };
        change(measured);
    }
}

/// Results with a long page path, long names, large numbers, staircases, stars, and a void step
/// whose reason contains a URL.
fn unwieldy() -> Results {
    let mut results = made_up(3);
    results.page = URL.split_once("38123").unwrap().1.to_owned();
    results.title = "The online shop of Mission Bicycles with all of its extensions".to_owned();
    results.steps[2].title = "opcode_cache+page_cache+aggressive_page_cache+object_cache".to_owned();
    for step in results.steps.clone() {
        for users in [500, 1_000, 10_000] {
            let mut cell = results.cells.iter().find(|cell| cell.id == step.cell).unwrap().clone();
            cell.id = format!("{}-c{users}", step.id);
            cell.concurrency = users;
            results.cells.push(cell);
        }
    }
    results.cells.iter_mut().for_each(|cell| cell.concurrency = cell.concurrency.max(1_000));
    each_run(&mut results, |measured| {
        measured.answers = 1_234_567;
        measured.throughput_per_s *= 12.0;
        measured.received_bytes = measured.answers * 987_654_321;
        measured.response.mean_ms = 1_234.0;
        measured.response.sd_ms = 2_345.0;
        measured.response.p95_ms = 3_456.0;
        measured.response.p99_ms = 4_567.0;
        measured.starred = vec![format!("the generator took 9.0% of the users' time, see {URL}")];
        let meter = |unit: &str| petasos_report::results::MeterRecord {
            unit: unit.to_owned(),
            name: unit.to_owned(),
            per_page: Some(1_234.0),
            ..measured.meters[0].clone()
        };
        measured.meters = ["SQL queries", "compiled modules", "cache purges"].map(meter).into();
    });
    let void = results.steps[1].cell.clone();
    for run in &mut results.cells.iter_mut().find(|cell| cell.id == void).unwrap().runs {
        run.outcome =
            VisitOutcome::Void { reason: format!("GET {URL} was answered with 503"), is_silent: false };
    }
    results
}

#[test]
fn long_names_fit_the_width_of_the_terminal() {
    let results = unwieldy();
    for (width, is_verbose) in [80, 120, 200].into_iter().flat_map(|width| [(width, false), (width, true)]) {
        let text = text(&results, width, is_verbose);
        for line in text.lines() {
            assert!(line.chars().count() <= width, "{width} columns: {line}\n{text}");
        }
        assert!(text.split_whitespace().collect::<String>().contains(URL), "the reason is whole: {text}");
    }
}
