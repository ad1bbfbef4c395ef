//! Thresholds: parsing, errors with their place, and judgements of runs.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use petasos_report::run::{Distribution, Run};
use petasos_report::thresholds::{Threshold, text, thresholds_reference};

/// A run of 1000 requests, 10 of them failed, with a p95 of 300 ms.
fn run() -> Run {
    let mut run = Run {
        requests: Some(1000),
        complete: Some(998),
        good: Some(990),
        failed: Some(10),
        good_per_s: Some(99.0),
        ..Run::of_source("petasos")
    };
    run.failed_by_kind = [("status".to_owned(), 8), ("timeout".to_owned(), 2)].into();
    run.statuses = [("200".to_owned(), 990), ("502".to_owned(), 3), ("503".to_owned(), 5)].into();
    let hits = Distribution { count: Some(495), ..Distribution::default() };
    run.verdicts = [("hit".to_owned(), hits)].into();
    let times = &mut run.good_times;
    times.latency = Distribution { count: Some(990), p95_us: Some(300_000), p999_us: Some(900), ..hits };
    times.waiting = Distribution { count: Some(990), mean_us: Some(1_500.0), ..hits };
    run
}

fn is_missed(expression: &str) -> bool {
    expression.parse::<Threshold>().unwrap().judge(&run()).is_missed
}

#[test]
fn every_operator_and_unit_decides_at_its_bound() {
    for (expression, missed) in [
        ("p95 > 300ms", false),
        ("p95 >= 300ms", true),
        ("p95 < 300ms", false),
        ("p95 <= 0.3s", true),
        ("p95>299999us", true),
        ("  p99.9  >  0.9 ms ", false),
        ("p99.9 >= 900µs", true),
        ("latency.p95 > 0.004m", true),
        ("waiting.mean > 1.4ms", true),
        ("waiting.mean > 1.5ms", false),
        ("errors > 0.99%", true),
        ("errors > 1%", false),
        ("errors > 9", true),
        ("errors.timeout >= 2", true),
        ("errors.timeout > 0.2%", false),
        ("errors.connect > 0", false),
        ("status.5xx > 7", true),
        ("status.503 > 5", false),
        ("cache.hit < 50%", false),
        ("cache.hit < 51%", true),
        ("cache.miss > 0", false),
        ("rate < 100/s", true),
        ("rate < 99 req/s", false),
        ("good < 99%", false),
        ("good < 991", true),
        ("requests < 1000", false),
    ] {
        assert_eq!(is_missed(expression), missed, "{expression}");
    }
}

#[test]
fn condition_on_an_unknown_figure_has_failed() {
    // The mean was not measured, and the number of requests that were not started is unknown.
    for expression in ["mean > 1s", "tls.p95 > 1s", "not_started > 0"] {
        let judged = expression.parse::<Threshold>().unwrap().judge(&run());
        assert!(judged.is_missed, "{expression}");
        assert_eq!(judged.found, "its value is not known");
    }
    let mut none = run();
    none.good_times.latency = Distribution { count: Some(0), p95_us: Some(0), ..Distribution::default() };
    assert!("p95 > 1s".parse::<Threshold>().unwrap().judge(&none).is_missed);
}

#[test]
fn errors_are_reported_with_their_column() {
    let error = |text: &str| text.parse::<Threshold>().unwrap_err().to_string();
    assert_eq!(error("p95 > 300"), "column 7: 300 has no unit; a time needs us, ms, s or m");
    assert_eq!(error("p95 > 300 parsec"), "column 7: \"parsec\" is not a unit of time; write us, ms, s or m");
    assert_eq!(error(" p95 > fast"), "column 8: \"fast\" does not begin with a number");
    assert_eq!(error("p95 == 3ms"), "column 5: the operator must be >, >=, < or <=");
    assert_eq!(error("p95 3ms"), "column 8: an operator is missing; write METRIC > VALUE, or <, >=, <=");
    assert!(error(" p96 > 3ms").starts_with("column 2: there is no metric \"p96\"; write one of mean, sd, "));
    assert!(error("waiting.p96 > 3ms").starts_with("column 1: waiting has no \"p96\"; write one of mean"));
    assert_eq!(error("> 3ms"), "column 1: a metric is missing");
    assert!(
        error("errors.bad > 1")
            .starts_with("column 1: there is no kind of error \"bad\"; write one of connect, ")
    );
    assert_eq!(error("status.50 > 1"), "column 1: \"50\" is not a status; write for example 503 or 5xx");
    assert!(error("cache.hits > 1").contains("write one of hit, stale"));
    assert_eq!(error("rate < 10%"), "column 8: \"%\" is not a unit of a rate; write /s or no unit");
    assert_eq!(error("requests < 10%"), "column 12: requests is not a share; write a number without %");
    assert_eq!(error("errors > 1ms"), "column 10: \"ms\" is not a unit of an amount; write % or no unit");
    assert!(error(&format!("p95 > {}ms", "1".repeat(300))).contains("longer than 200 bytes"));
    assert_eq!(error("é95 = 1"), "column 5: the operator must be >, >=, < or <=");
    assert!(error("p95 > 1e3ms").contains("not a unit of time"));
}

#[test]
fn each_judgement_is_a_line() {
    let judged: Vec<_> = ["p95 > 200ms", "errors > 2%", "rate < 50"]
        .map(|text| text.parse::<Threshold>().unwrap().judge(&run()))
        .into();
    let expected = "\nThresholds\n  FAILED  p95 > 200ms: it is 300 ms\n  passed  errors > 2%: it is 1.00%\n  \
                    passed  rate < 50: it is 99.0 req/s\n";
    assert_eq!(text(&judged), expected);
    assert_eq!(text(&[]), "");
}

#[test]
fn only_error_conditions_replace_the_rule_of_no_failures() {
    let about = |text: &str| text.parse::<Threshold>().unwrap().is_about_errors();
    assert!(about("errors > 1%") && about("errors > 5") && about("good < 99%"));
    assert!(!about("errors.timeout > 0") && !about("errors.status > 1%") && !about("good < 5"));
    assert!(!about("p95 > 1s") && !about("status.5xx > 0") && !about("rate < 1"));
}

#[test]
fn every_documented_name_is_accepted() {
    let page = thresholds_reference();
    let names = page.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    let mut count = 0;
    for name in names {
        let expression = match name {
            "errors.NAME" => "errors.body > 1".to_owned(),
            "status.NAME" => "status.404 > 1".to_owned(),
            "cache.NAME" => "cache.pass > 1".to_owned(),
            "latency" | "total" | "connect" | "tls" | "processing" | "waiting" | "transfer" => {
                format!("{name}.max > 1s")
            }
            name if name.starts_with(['r', 'g', 'e', 'n']) => format!("{name} > 1"),
            name => format!("{name} > 1ms"),
        };
        expression.parse::<Threshold>().unwrap();
        count += 1;
    }
    assert_eq!(count, 25);
}
