//! The page of a run: its content, and its isolation.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use petasos_report::html::run_page;
use petasos_report::run::{Distribution, Run, RunSecond};

fn times(scale: u64) -> Distribution {
    Distribution {
        count: Some(1_000),
        min_us: Some(scale),
        mean_us: Some(scale as f64 * 2.5),
        sd_us: Some(scale as f64),
        p50_us: Some(scale * 2),
        p75_us: Some(scale * 3),
        p90_us: Some(scale * 4),
        p95_us: Some(scale * 5),
        p99_us: Some(scale * 9),
        p999_us: Some(scale * 20),
        max_us: Some(scale * 30),
    }
}

fn run() -> Run {
    let second = |n: u64| RunSecond {
        second: n,
        users: 25,
        in_flight: 24,
        started: 100,
        good: 90 + n,
        failed: n % 3,
        failed_by_kind: if !n.is_multiple_of(3) { [("status".to_owned(), n % 3)].into() } else { [].into() },
        statuses: [("2xx".to_owned(), 90 + n), ("5xx".to_owned(), n % 3)].into(),
        verdicts: [("hit".to_owned(), 80 + n), ("miss".to_owned(), 10)].into(),
        host_busy: Some(0.5),
        generator_busy: Some(0.2),
        p50_us: Some(2_000 + 100 * n),
        p95_us: Some(5_000),
        p99_us: Some(9_000),
        ..RunSecond::default()
    };
    let mut run = Run::of_source("petasos");
    run.url = Some("http://example.test/<script>alert(1)</script>".to_owned());
    run.elapsed_s = Some(10.0);
    run.requests = Some(1_000);
    run.failed = Some(9);
    run.good_per_s = Some(99.1);
    run.failed_by_kind = [("status".to_owned(), 9), ("connect".to_owned(), 0)].into();
    run.statuses = [("200".to_owned(), 991), ("503".to_owned(), 9)].into();
    run.verdicts = [("hit".to_owned(), times(1_000)), ("miss".to_owned(), times(30_000))].into();
    run.good_times.latency = times(1_000);
    run.good_times.total = times(1_000);
    run.good_times.connect = times(50);
    run.seconds = (0..10).map(second).collect();
    run.generator.trust = Some("tight".to_owned());
    run.generator.reasons = vec!["a generator thread used 91% of a core".to_owned()];
    run
}

#[test]
fn verdict_comes_first_and_doubts_follow() {
    let page = run_page(&run());
    let place = |text: &str| page.find(text).unwrap_or_else(|| panic!("{text} is missing"));
    assert!(place("99.1</strong> good responses a second") < place("The run is tight"));
    assert!(place("The run is tight") < place("Responses a second</h2>"));
    for text in
        ["9 of 1,000 requests failed", "status: 9", "half of them within", "a generator thread used 91%"]
    {
        place(text);
    }
    assert!(!page.contains("connect: 0"), "a kind that did not occur must not be listed");
}

#[test]
fn page_has_every_chart_and_table() {
    let page = run_page(&run());
    for id in [
        "rate",
        "times",
        "host",
        "errors",
        "crowd",
        "statuses",
        "verdicts-time",
        "spectrum",
        "by-verdict",
        "verdicts",
        "phases",
    ] {
        assert!(page.contains(&format!("id=\"{id}\"")), "{id} is missing");
    }
    // Each drawing describes itself in words.
    assert!(page.contains("good: 90.0 to 99.0 per second") || page.contains("good: 90 to 99 per second"));
}

#[test]
fn record_with_few_figures_makes_a_short_page() {
    let mut little = Run::of_source("wrk");
    little.good_per_s = Some(12.0);
    let page = run_page(&little);
    assert!(page.contains("imported run") && page.contains("measured by wrk"));
    assert!(!page.contains("id=\"rate\"") && !page.contains("id=\"spectrum\""));
}

#[test]
fn page_runs_nothing_and_loads_nothing() {
    let page = run_page(&run());
    assert!(!page.contains("<script") && page.contains("&lt;script&gt;"));
    assert!(page.contains("default-src 'none'"));
    assert!(!page.contains("src=") && !page.contains("@import") && !page.contains("url("));
}

#[test]
fn run_without_good_responses_has_no_times() {
    let mut run = run();
    let none = Distribution::from(&stats::Histogram::new());
    run.good = Some(0);
    run.good_per_s = Some(0.0);
    run.good_times.latency = none;
    run.good_times.total = none;
    run.good_times.connect = none;
    run.verdicts.clear();
    let page = run_page(&run);
    assert!(page.contains("<strong>0</strong> good responses a second. 9 of 1,000"), "{page}");
    assert!(!page.contains(">0 ms<") && !page.contains("id=\"spectrum\""), "{page}");
}
