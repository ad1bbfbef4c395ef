//! Comparisons of recorded runs, whose true difference is known, and of runs written by hand, for
//! the texts.
//!
//! `data/runs.csv` has rounds of three runs each, in a random order for each round. Two runs are of
//! the same server (`a1`, `a2`), and one is of this server slowed by 10% (`b`). The runs were
//! recorded with `examples/noisy_responder.rs` and
//! `petasos bench URL -t 300ms --warmup 30ms -c 8 --threads 1`, on two cores that compiled other
//! programs meanwhile.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that cannot go on panics")]

use petasos_report::compare::{
    CompareError, CompareOptions, ComparedMetric, ComparisonVerdict, Side, compare,
};
use petasos_report::page::PageRun;
use petasos_report::run::{RequestedPages, Round, Run, SOURCE_PETASOS, read_runs};

const RECORDED: &str = include_str!("data/runs.csv");

/// A run with the figures that comparisons use.
fn run(good_per_s: f64, mean_us: f64, percentiles_us: [u64; 3]) -> Run {
    let mut run = Run { good_per_s: Some(good_per_s), ..Run::of_source(SOURCE_PETASOS) };
    let latency = &mut run.good_times.latency;
    latency.mean_us = Some(mean_us);
    [latency.p50_us, latency.p95_us, latency.p99_us] = percentiles_us.map(Some);
    run
}

/// The recorded runs of one kind, by round.
fn recorded(kind: &str) -> Vec<Run> {
    let rows =
        RECORDED.lines().filter(|line| !line.starts_with(['#', 'r'])).map(|line| line.split(',').collect());
    rows.filter(|row: &Vec<&str>| row[1] == kind)
        .map(|row| {
            let number = |place: usize| row[place].parse::<u64>().unwrap();
            run(row[2].parse().unwrap(), row[3].parse().unwrap(), [number(4), number(5), number(6)])
        })
        .collect()
}

/// Verdicts on one figure alone, in 100 comparisons of `runs` rounds each.
fn shown(second: &str, runs: usize, metric: ComparedMetric) -> Vec<ComparisonVerdict> {
    shown_between(&recorded("a1"), &recorded(second), runs, metric, false)
}

fn shown_between(
    first: &[Run],
    second: &[Run],
    runs: usize,
    metric: ComparedMetric,
    is_paired: bool,
) -> Vec<ComparisonVerdict> {
    let comparisons = first.chunks_exact(runs).zip(second.chunks_exact(runs));
    let verdicts: Vec<ComparisonVerdict> = comparisons
        .take(100)
        .map(|(a, b)| {
            let comparison = compare(&[side("a", a), side("b", b)], CompareOptions::default()).unwrap();
            assert_eq!(comparison.against[0].is_paired, is_paired);
            comparison.against[0].rows.iter().find(|row| row.metric == metric).unwrap().shown.unwrap()
        })
        .collect();
    assert_eq!(verdicts.len(), 100, "too few rounds are recorded");
    verdicts
}

fn side(name: &str, runs: &[Run]) -> Side {
    Side { name: name.to_owned(), runs: runs.to_vec() }
}

/// The recorded runs of one kind, each with the number of its round.
fn in_rounds(kind: &str) -> Vec<Run> {
    let told = |(run, number): (Run, u64)| {
        let round = Some(Round { comparison: "recorded".to_owned(), number });
        Run { round, ..run }
    };
    recorded(kind).into_iter().zip(1..).map(told).collect()
}

/// Like [`shown`], with the rounds compared as pairs.
fn shown_in_rounds(second: &str, rounds: usize, metric: ComparedMetric) -> Vec<ComparisonVerdict> {
    shown_between(&in_rounds("a1"), &in_rounds(second), rounds, metric, true)
}

fn count(verdicts: &[ComparisonVerdict], verdict: ComparisonVerdict) -> usize {
    verdicts.iter().filter(|found| **found == verdict).count()
}

#[test]
fn paired_rounds_find_differences_and_rarely_err() {
    for (rounds, metric) in [
        (7, ComparedMetric::Throughput),
        (10, ComparedMetric::Throughput),
        (10, ComparedMetric::Mean),
        (10, ComparedMetric::P50),
        (10, ComparedMetric::P95),
        (10, ComparedMetric::P99),
    ] {
        let none = count(&shown_in_rounds("a2", rounds, metric), ComparisonVerdict::NoDifferenceShown);
        println!("the same server twice, {rounds} rounds, {metric:?}: no difference {none} times in 100");
        assert!(none >= 95, "{metric:?}, {rounds} rounds: {none} of 100");
    }
    for (rounds, metric, least) in [
        (7, ComparedMetric::Throughput, 50),
        (10, ComparedMetric::Throughput, 80),
        (10, ComparedMetric::P50, 90),
    ] {
        let verdicts = shown_in_rounds("b", rounds, metric);
        let slower = count(&verdicts, ComparisonVerdict::Slower);
        println!("a server slowed by a tenth, {rounds} rounds, {metric:?}: found {slower} times in 100");
        assert!(slower >= least, "{metric:?}, {rounds} rounds: {slower} of 100");
        assert_eq!(count(&verdicts, ComparisonVerdict::Faster), 0);
    }
}

#[test]
fn same_server_twice_shows_no_difference() {
    for (runs, metric) in
        [(5, ComparedMetric::Throughput), (10, ComparedMetric::Throughput), (10, ComparedMetric::P95)]
    {
        let none = count(&shown("a2", runs, metric), ComparisonVerdict::NoDifferenceShown);
        println!("the same server twice, {runs} runs a side, {metric:?}: no difference {none} times in 100");
        assert!(none >= 95, "{metric:?}, {runs} runs: {none} of 100");
    }
}

#[test]
fn server_slowed_by_ten_percent_is_found() {
    for (runs, metric, least) in [
        (5, ComparedMetric::Throughput, 60),
        (10, ComparedMetric::Throughput, 80),
        (10, ComparedMetric::P50, 80),
    ] {
        let verdicts = shown("b", runs, metric);
        let slower = count(&verdicts, ComparisonVerdict::Slower);
        println!("a server slowed by a tenth, {runs} runs a side, {metric:?}: found {slower} times in 100");
        assert!(slower >= least, "{metric:?}, {runs} runs: {slower} of 100");
        assert_eq!(count(&verdicts, ComparisonVerdict::Faster), 0);
    }
}

/// Ten runs around `good_per_s`, at most two percent apart.
fn around(good_per_s: f64) -> Vec<Run> {
    (0..10_u64)
        .map(|place| {
            let share = 1.0 + (place as f64 - 4.5) / 450.0;
            let mean_us = 1e7 / good_per_s * share;
            let of = |times: f64| (mean_us * times) as u64;
            Run {
                started_s: Some(place as f64),
                ..run(good_per_s * share, mean_us, [of(0.9), of(2.0), of(3.0)])
            }
        })
        .collect()
}

#[test]
fn text_has_a_table_and_ends_with_the_sentence() {
    let text =
        compare(&[side("before", &around(1000.0)), side("after", &around(905.0))], CompareOptions::default())
            .unwrap()
            .text(100, false);
    let expected = "\
A  before  (10 runs)
B  after  (10 runs)

                      A          B  B against A     95% interval        p  alone it shows
throughput  1,000 req/s  905 req/s        -9.5%  -10.1% to -8.9%  <0.0001  slower
mean            10.0 ms    11.0 ms       +10.5%  +9.8% to +11.2%  <0.0001  slower
";
    assert!(text.starts_with(expected), "{text}");
    assert!(
        text.ends_with(
            "\n\nB is slower than A by 9.5% (8.9% to 10.1%): throughput, 95% interval, p < 0.0001, 10 and 10 runs.\n"
        ),
        "{text}"
    );
}

#[test]
fn best_runs_are_shown_beside_the_medians_on_request() {
    let comparison =
        compare(&[side("before", &around(1000.0)), side("after", &around(905.0))], CompareOptions::default())
            .unwrap();
    let text = comparison.text(120, true);
    let cells = |line: &'_ str| -> Vec<String> {
        line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).map(str::to_owned).collect()
    };
    let rows: Vec<Vec<String>> = text.lines().map(cells).collect();
    let last_two = |name: &str| {
        let row = rows.iter().find(|row| row.first().is_some_and(|first| first == name)).unwrap();
        row[row.len() - 2..].join("|")
    };
    assert!(text.contains("A best") && text.contains("of 10"), "{text}");
    assert_eq!(last_two("throughput"), "1,010 req/s|914 req/s", "the best throughput is the highest");
    assert_eq!(last_two("mean"), "9.90 ms|10.9 ms", "the best time is the shortest");
    let without = |text: &str| text.lines().last().unwrap().to_owned();
    assert_eq!(
        without(&text),
        without(&comparison.text(120, false)),
        "the verdict must not depend on the best runs"
    );
}

fn sentence(a: &[Run], b: &[Run], options: CompareOptions) -> (ComparisonVerdict, String) {
    let mut comparison = compare(&[side("a", a), side("b", b)], options).unwrap();
    let against = comparison.against.remove(0);
    (against.verdict, against.sentence)
}

#[test]
fn every_verdict_has_its_sentence() {
    let (verdict, text) = sentence(&around(1000.0), &around(10_000.0), CompareOptions::default());
    assert_eq!(verdict, ComparisonVerdict::Faster);
    assert!(text.starts_with("B is faster than A by a factor of 10.0 ("), "{text}");
    let (verdict, text) = sentence(&around(1000.0), &around(1001.0), CompareOptions::default());
    assert_eq!(verdict, ComparisonVerdict::NoDifferenceShown);
    assert!(
        text.starts_with(
            "No difference between A and B is shown: the throughput of B is 0.1% above that of A (10 and"
        ),
        "{text}"
    );
    let (verdict, text) = sentence(&around(1000.0)[..4], &around(2500.0), CompareOptions::default());
    assert_eq!(verdict, ComparisonVerdict::TooFewRuns);
    assert_eq!(
        text,
        "No verdict on B: it takes 5 runs a side; the throughput of B is 2.52 times that of A (4 and 10 runs)."
    );
    let (verdict, _) = sentence(&around(1000.0), &[Run::of_source("wrk")], CompareOptions::default());
    assert_eq!(verdict, ComparisonVerdict::NotKnown);
    let on = |metric| CompareOptions { on: Some(metric), ..CompareOptions::default() };
    let (verdict, text) = sentence(&around(1000.0), &around(900.0), on(ComparedMetric::P95));
    assert_eq!(verdict, ComparisonVerdict::Slower);
    assert!(text.starts_with("B is slower than A by 11.1% (10."), "{text}");
    assert!(text.contains(": p95 of the latency, 95% interval"), "{text}");
}

#[test]
fn invalid_runs_are_judged_on_demand_only() {
    let mut b = around(500.0);
    b[3].generator.trust = Some("invalid".to_owned());
    b[3].generator.reasons = vec!["the generator was busy".to_owned()];
    let (verdict, text) = sentence(&around(1000.0), &b, CompareOptions::default());
    assert_eq!(verdict, ComparisonVerdict::Invalid);
    assert!(text.starts_with("No verdict on B: runs are invalid"), "{text}");
    let accepting = CompareOptions { accept_invalid: true, ..CompareOptions::default() };
    assert_eq!(sentence(&around(1000.0), &b, accepting).0, ComparisonVerdict::Slower);
    let comparison = compare(&[side("a", &around(1000.0)), side("b", &b)], accepting).unwrap();
    assert_eq!(comparison.notes, ["1 of 10 runs of B are invalid: the generator was busy"]);
}

#[test]
fn runs_that_may_have_lost_time_are_judged_on_demand_only() {
    let mut b = around(500.0);
    b[3].generator.trust = Some("tight".to_owned());
    b[3].generator.reasons = vec!["beginnings of responses waited".to_owned()];
    assert_eq!(sentence(&around(1000.0), &b, CompareOptions::default()).0, ComparisonVerdict::Slower);
    b[3].generator.may_have_lost = true;
    assert_eq!(sentence(&around(1000.0), &b, CompareOptions::default()).0, ComparisonVerdict::Invalid);
    let accepting = CompareOptions { accept_invalid: true, ..CompareOptions::default() };
    assert_eq!(sentence(&around(1000.0), &b, accepting).0, ComparisonVerdict::Slower);
    // Runs of earlier versions lack this member.
    let text = b[3].to_json().replace("may_have_lost", "of_a_later_version");
    assert!(!read_runs(&text).unwrap()[0].generator.may_have_lost);
}

#[test]
fn notes_tell_why_a_comparison_is_doubtful() {
    let mut a = around(1000.0);
    let mut b = around(900.0);
    for (place, (a, b)) in a.iter_mut().zip(&mut b).enumerate() {
        a.plan.users = Some(10);
        b.plan.users = Some(20);
        a.document_bytes = Some(48_046);
        b.document_bytes = Some(0);
        b.requests = Some(1000);
        b.failed = Some(1);
        b.started_s = Some(100.0 + place as f64);
    }
    let notes = compare(&[side("a", &a), side("b", &b)], CompareOptions::default()).unwrap().notes;
    assert_eq!(
        notes,
        [
            "10 of 10,000 requests of B failed; times are those of good responses",
            "A and B were not loaded alike: users 10 and 20",
            "the responses have 48046 bytes of content at A and 0 at B; check that the page is the same",
            "the runs of A and B were not interleaved, so the difference includes all other changes between them",
        ]
    );
    assert!(compare(&[side("a", &a), side("b", &a)], CompareOptions::default()).unwrap().notes.is_empty());
}

#[test]
fn notes_have_no_commands_for_a_terminal() {
    let mut b = around(900.0);
    b[0].generator.trust = Some("tight".to_owned());
    b[0].generator.reasons = vec!["a \u{1b}[2J\u{202e}reason".to_owned()];
    let sides = [side("a\u{9b}", &around(900.0)), side("b", &b)];
    let text = compare(&sides, CompareOptions::default()).unwrap().text(80, false);
    assert!(text.contains("reason") && !text.contains(['\u{1b}', '\u{9b}', '\u{202e}']), "{text}");
}

#[test]
fn sentence_is_about_the_mean_at_a_given_rate() {
    let at_rate = |mean: f64| -> Vec<Run> {
        let rated = |of: Run| Run { rate_asked_per_s: Some(100.0), good_per_s: Some(100.0), ..of };
        around(mean).into_iter().map(rated).collect()
    };
    let (verdict, text) = sentence(&at_rate(1000.0), &at_rate(1200.0), CompareOptions::default());
    assert_eq!(verdict, ComparisonVerdict::Faster);
    assert!(text.starts_with("B is faster than A by 16.7%") && text.contains(": mean latency, "), "{text}");
}

#[test]
fn incomparable_sides_are_refused_by_name() {
    let runs = around(1.0);
    let error = |sides: &[Side]| compare(sides, CompareOptions::default()).unwrap_err().to_string();
    assert_eq!(
        error(&[side("a", &runs)]),
        "a comparison needs at least two sides; name another file, directory or URL"
    );
    assert_eq!(error(&[side("a", &runs), side("b", &[])]), "b: the side has no run");
    let many = vec![Run::of_source("ab"); 201];
    assert_eq!(
        error(&[side("a", &many), side("b", &runs)]),
        "a: 201 runs are too many; compare at most 200 runs of a side"
    );
}

#[test]
fn json_has_the_sentence_and_every_figure() {
    let comparison =
        compare(&[side("a", &around(1000.0)), side("b", &around(900.0))], CompareOptions::default()).unwrap();
    let json: serde_json::Value = serde_json::from_str(&comparison.to_json()).unwrap();
    let at = |pointer: &str| json.pointer(pointer).unwrap().clone();
    assert_eq!(at("/schema"), "petasos-compare/1");
    assert_eq!(at("/against/0/verdict"), "slower");
    assert_eq!(at("/against/0/rows/3/metric"), "p95");
    assert!(at("/against/0/rows/0/interval/high").as_f64().unwrap() < 1.0);
    assert_eq!(at("/sides/1/letter"), "B");
    assert_eq!(at("/sides/0/runs"), 10);
}

#[test]
fn pages_at_different_rates_were_not_loaded_alike() {
    let side_at = |name: &str, rate| {
        let run = PageRun { rate_asked_per_s: Some(rate), users: 5_000, ..PageRun::default() };
        side(name, &[Run::from(&run)])
    };
    let text =
        compare(&[side_at("a", 5.0), side_at("b", 8.0)], CompareOptions::default()).unwrap().text(200, false);
    assert!(text.contains("were not loaded alike: rate_asked_per_s 5.0 and 8.0"), "{text}");
}

#[test]
fn requests_at_different_rates_were_not_loaded_alike() {
    let side_at = |name: &str, rate| {
        side(name, &[Run { rate_asked_per_s: Some(rate), ..run(100.0, 1_000.0, [1_000; 3]) }])
    };
    let text = |rate| {
        compare(&[side_at("a", 5.0), side_at("b", rate)], CompareOptions::default()).unwrap().text(200, false)
    };
    assert!(text(8.0).contains("were not loaded alike: rate_asked_per_s 5.0 and 8.0"), "{}", text(8.0));
    // The mean over a run's time is never quite the rate of the plan.
    assert!(!text(5.09).contains("alike"), "{}", text(5.09));
}

#[test]
fn pages_are_compared_with_pages_alone() {
    let requests: Vec<Run> = (0..5_u32).map(|n| run(100.0 + f64::from(n), 1_000.0, [1_000; 3])).collect();
    let pages = |scale: f64, returning: f64| {
        let of_pages = |run: &Run| {
            let pages = Some(RequestedPages { returning, ..RequestedPages::default() });
            let good_per_s = run.good_per_s.map(|rate| rate * scale);
            Run { pages, good_per_s, requests: Some(10), failed: Some(1), ..run.clone() }
        };
        requests.iter().map(of_pages).collect::<Vec<Run>>()
    };
    let sides = [side("a", &pages(1.0, 0.0)), side("b", &pages(0.5, 0.3))];
    let on = |metric| CompareOptions { on: Some(metric), ..CompareOptions::default() };
    let text = compare(&sides, on(ComparedMetric::Throughput)).unwrap().text(100, false);
    assert!(text.contains("102 pages/s") && !text.contains("req/s"), "{text}");
    for note in
        ["5 of 50 pages of A failed or were incomplete", "were not loaded alike: returning 0.0 and 0.3"]
    {
        assert!(text.contains(note), "{text}");
    }
    assert!(text.contains("B is slower than A by "), "{text}");
    let sentence = compare(&sides, on(ComparedMetric::P95)).unwrap().against[0].sentence.clone();
    assert!(sentence.contains("the p95 of the page time of B"), "{sentence}");
    let mixed = compare(&[side("a", &requests), side("b", &pages(1.0, 0.0))], CompareOptions::default());
    assert_eq!(mixed, Err(CompareError::Mixed));
}
