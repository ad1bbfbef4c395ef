//! The order of a ladder's text, page and Markdown, and statements that they must not make.

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
use petasos_report::markdown::markdown;
use petasos_report::results::{LimitingResource, Measured, Results, VisitOutcome};
use petasos_report::summary::{one_concurrency, rows};
use petasos_report::table::text;

/// The text with single spaces.
fn said(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Changes each measured run of a cell. `change` receives the position of the round, counted from
/// 0.
fn each_run(results: &mut Results, cell: &str, mut change: impl FnMut(usize, &mut Measured)) {
    let cell = results.cells.iter_mut().find(|one| one.id == cell).unwrap();
    for (round, run) in cell.runs.iter_mut().enumerate() {
        let VisitOutcome::Measured(measured) = &mut run.outcome else { continue };
        change(round, measured);
    }
}

/// Results with these throughputs in the rounds of steps 4 and 5. No step is measured at two
/// concurrencies.
fn with_rounds(before: &[f64], after: &[f64]) -> Results {
    let mut results = made_up(before.len() as u64);
    results.cells.retain(|cell| results.steps.iter().any(|step| step.cell == cell.id));
    each_run(&mut results, "aggressive", |round, run| run.throughput_per_s = before[round]);
    each_run(&mut results, "objects", |round, run| run.throughput_per_s = after[round]);
    results
}

#[test]
fn headline_and_classic_table_come_last() {
    let results = made_up(3);
    for is_verbose in [false, true] {
        let text = text(&results, 80, is_verbose);
        let place = |part: &str| text.rfind(part).unwrap_or_else(|| panic!("no {part:?} in {text}"));
        let headline = place("\nFrom 8.10 pages a second");
        let table = place("\n7         100  Petasos");
        assert!(headline < table, "{text}");
        let after: Vec<&str> = text[table + 1..].lines().skip(1).collect();
        assert!(after.iter().all(|line| line.starts_with("* ") || line.starts_with("  ")), "{after:?}");
        assert_eq!(text.contains("Cores used"), is_verbose, "{text}");
    }
    assert!(text(&results, 80, true).find("Cores used") < text(&results, 80, true).find("\nFrom 8.10"));
}

#[test]
fn terminal_shows_no_ab_commands() {
    for is_verbose in [false, true] {
        let text = text(&made_up(3), 120, is_verbose);
        assert!(!text.contains("ab -") && !text.contains("http://"), "{text}");
    }
}

#[test]
fn headline_says_at_least_if_the_generator_was_the_limit() {
    let mut results = made_up(3);
    let limited = said(&text(&results, 120, false));
    assert!(
        limited.contains("to at least 22,900 in step 7 (Petasos, 100 users): at least 2,827×"),
        "{limited}"
    );
    assert!(page(&results).contains("<strong>at least 22,900</strong>"));
    assert!(markdown(&results).contains("at least 22,900"));
    each_run(&mut results, "petasos-100", |_, run| run.bound_by = LimitingResource::AcceleratorCpu);
    let free = said(&text(&results, 120, false));
    assert!(free.contains("to 22,900 in step 7 (Petasos, 100 users): 2,827×"), "{free}");
    each_run(&mut results, "petasos-100", |_, run| run.generator.trust = "invalid".to_owned());
    assert!(said(&text(&results, 120, false)).contains("to at least 22,900"));
}

#[test]
fn difference_within_the_noise_is_no_step() {
    let cases: [(&[f64], &[f64], bool); 8] = [
        (&[1_000.0], &[880.0], false),
        (&[1_000.0], &[1_600.0], true),
        (&[1_000.0, 1_040.0, 980.0], &[1_040.0, 1_010.0, 1_080.0], false),
        (&[1_000.0, 1_010.0, 990.0], &[1_040.0, 1_050.0, 1_045.0], true),
        // One failed round does not hide a factor of two and more, but it hides a difference of
        // 10%.
        (&[1_000.0, 1_100.0, 2_000.0], &[2_500.0, 2_600.0, 2_700.0], true),
        (&[1_000.0, 1_050.0, 990.0], &[1_060.0, 1_150.0, 1_160.0], false),
        (&[1_000.0, 1_010.0, 990.0, 1_005.0, 995.0], &[1_200.0, 1_210.0, 1_190.0, 1_205.0, 1_195.0], true),
        (&[1_000.0, 1_100.0, 900.0, 1_050.0, 950.0], &[1_040.0, 1_010.0, 1_080.0, 990.0, 1_000.0], false),
    ];
    for (before, after, is_step) in cases {
        let results = with_rounds(before, after);
        assert_eq!(rows(&results)[4].factor_before.unwrap().is_step, is_step, "{before:?} {after:?}");
        let text = said(&text(&results, 80, true));
        assert_eq!(
            text.contains("no difference from step 4 beyond the noise of the rounds"),
            !is_step,
            "{text}"
        );
    }
}

#[test]
fn one_round_with_wild_times_shows_less() {
    let mut results = with_rounds(&[1_000.0], &[1_600.0]);
    each_run(&mut results, "objects", |_, run| {
        run.answers = 30;
        run.response.sd_ms = 2.0 * run.response.mean_ms;
    });
    assert!(!rows(&results)[4].factor_before.unwrap().is_step);
}

#[test]
fn difference_smaller_than_between_equal_steps_is_no_step() {
    // Steps 6 and 7 measure the same and differ by 7% at 25 users.
    let mut results = made_up(3);
    for cell in ["petasos", "petasos-100"] {
        each_run(&mut results, cell, |_, run| run.bound_by = LimitingResource::AcceleratorCpu);
    }
    let gain = rows(&results)[6].factor_before.unwrap();
    assert!(gain.times > 1.04 && !gain.is_step, "{gain:?}");
}

#[test]
fn noise_at_one_concurrency_hides_nothing_at_another() {
    let mut results = made_up(3);
    each_run(&mut results, "petasos", |_, run| run.bound_by = LimitingResource::AcceleratorCpu);
    // Steps 6 and 7 measure the same and differ much with one user only.
    each_run(&mut results, "petasos-100-c1", |_, run| run.throughput_per_s *= 4.0);
    let factors = |results: &Results| {
        let of = |gain: Option<petasos_report::difference::Gain>| gain.map(|gain| gain.is_step);
        rows(results).iter().map(|row| of(row.factor_before)).collect::<Vec<_>>()
    };
    let is_step = Some(true);
    assert_eq!(factors(&results)[1..6], [is_step; 5]);
    // At 25 users, the noise hides the differences of steps with 25 users.
    each_run(&mut results, "petasos-100-c25", |_, run| run.throughput_per_s *= 40.0);
    assert_eq!(factors(&results)[4..6], [Some(false); 2]);
    assert_eq!(factors(&results)[1..4], [is_step; 3]);
}

#[test]
fn steps_limited_by_the_generator_are_lower_bounds() {
    // The generator was the limit in steps 6 and 7.
    let mut results = made_up(3);
    let of = rows(&results);
    assert!(of[5].factor_before.unwrap().is_lower_bound && !of[4].factor_before.unwrap().is_lower_bound);
    assert!(of[6].factor_first.unwrap().is_lower_bound);
    assert_eq!(of[6].factor_before, None, "no factor over a lower bound");
    let table = text(&results, 120, false);
    assert!(table.contains("≥ 2,827×"), "{table}");
    assert!(table.contains("≥: the load generator was the limit, so the factor may be larger."), "{table}");

    // Step 5 is as fast as step 6 could be measured.
    each_run(&mut results, "objects", |_, run| run.throughput_per_s = 23_000.0);
    assert_eq!(rows(&results)[5].factor_before, None, "a lower bound within the noise");
    let headline = said(&text(&results, 120, false));
    assert!(headline.contains("to at least 22,900 in step 7"), "{headline}");

    // Step 1 is as fast as step 6 could be measured.
    let mut first = results.clone();
    each_run(&mut first, "none", |_, run| run.throughput_per_s = 23_500.0);
    let headline = said(&text(&first, 120, false));
    assert!(headline.contains("The most was measured in step 1"), "{headline}");

    // Step 5 is faster than steps 6 and 7 could be measured.
    each_run(&mut results, "objects", |_, run| run.throughput_per_s = 40_000.0);
    let headline = said(&text(&results, 120, false));
    assert!(headline.contains("to 40,000 in step 5"), "{headline}");
    let more = "The load generator was the limit in steps 6 and 7, so more may be served there.";
    assert!(headline.contains(more), "{headline}");
}

#[test]
fn headline_makes_no_claim_from_lower_bounds() {
    let limited = |cells: &[&str]| {
        let mut results = made_up(3);
        for cell in ["none", "petasos", "petasos-100"] {
            let is_limited = cells.contains(&cell);
            let bound = if is_limited { LimitingResource::Generator } else { LimitingResource::OriginCpu };
            each_run(&mut results, cell, |_, run| run.bound_by = bound);
        }
        results
    };
    let first_is_fastest = |cells: &[&str]| {
        let mut results = limited(cells);
        each_run(&mut results, "none", |_, run| run.throughput_per_s = 90_000.0);
        said(&text(&results, 120, false))
    };
    let text_of = |results: &Results| said(&text(results, 120, false));
    // A lower bound is the highest measured value and may be below the true one.
    let text = first_is_fastest(&["none"]);
    assert!(text.contains("The most was measured in step 1 (no cache, 2 users): at least 90,000 pages a second. The load generator was the limit in step 1."), "{text}");
    // If another step has a lower bound, the first step may not be the fastest.
    let text = first_is_fastest(&["petasos"]);
    assert!(
        text.contains("The most was measured in step 1 (no cache, 2 users): 90,000 pages a second."),
        "{text}"
    );
    assert!(
        first_is_fastest(&[]).contains("No step serves more than 90,000 pages a second, those in step 1")
    );
    // Both steps of the headline may be lower bounds.
    let text = text_of(&limited(&["none", "petasos-100"]));
    assert!(text.contains("The load generator was the limit in steps 1 and 7."), "{text}");
    // A lower bound close to the first step does not prove that there is no difference.
    let mut near = limited(&["petasos-100"]);
    each_run(&mut near, "none", |_, run| run.throughput_per_s = 22_890.0);
    let text = text_of(&near);
    assert!(text.contains("to at least 22,900") && !text.contains(", no difference"), "{text}");
}

#[test]
fn response_times_are_compared_at_one_concurrency() {
    let results = made_up(3);
    let (users, alike) = one_concurrency(&results).unwrap();
    assert_eq!((users, alike.len()), (25, 7));
    assert!(alike.iter().all(|row| row.cell.concurrency == 25 && !row.cell.keepalive));
    let page = page(&results);
    for heading in ["Response time at 25 users", "Response time by percentile, at 25 users"] {
        assert!(page.contains(heading), "{heading}");
    }
    assert!(!page.contains("Response time by step"));
}

#[test]
fn page_and_markdown_have_a_command_for_each_row() {
    let mut results = made_up(3);
    for cell in &mut results.cells {
        let k = if cell.keepalive { "-k " } else { "" };
        cell.ab = format!("ab -l {k}-t 2 -n 10000000 -c {} \"$URL\"", cell.concurrency);
    }
    let page = page(&results);
    let markdown = markdown(&results);
    assert_eq!(page.matches("<code>ab -l ").count(), 9, "seven rows and two with keep-alive");
    assert_eq!(markdown.matches("\n    ab -l ").count(), 9);
    for text in [&page, &markdown] {
        assert_eq!(text.matches("without -k, because").count(), 7);
        assert_eq!(text.matches("with -k, because").count(), 2);
        assert!(text.contains("petasos ladder FILE --stay"));
    }
}

#[test]
fn markdown_has_headline_and_tables() {
    insta::assert_snapshot!(markdown(&made_up(3)));
}

#[test]
fn chart_to_scale_shows_the_factor() {
    let page = page(&made_up(3));
    let (_, chart) = page.split_once("<figure id=\"throughput\">").unwrap();
    let (chart, _) = chart.split_once("</figure>").unwrap();
    assert!(chart.contains("Throughput to scale") && !chart.contains("logarithmic"));
    assert!(chart.contains("≥ 22,900") && chart.contains("≥ 2,827×"), "{chart}");
}
