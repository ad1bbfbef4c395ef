//! The page of a run in page mode: its content, and its isolation.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on panics")]

use clock::Timestamp;
use petasos_report::csv::page_seconds_csv;
use petasos_report::html::visits_page;
use petasos_report::page::PageRun;
use petasos_report::run::{Distribution, Run, read_runs};
use record::{
    FetchFailure, PageCheck, PageEnd, PageFigures, PageOutcome, PageSecond, SecondTimes, Think, Trust,
};
use std::time::Duration;

fn run() -> PageRun {
    let mut figures = PageFigures::new();
    figures.pages.good = 95;
    figures.pages.incomplete = 5;
    figures.pages.returning = 30;
    (1..=100).for_each(|n| figures.page_times.record(n * 10_000));
    (1..=100).for_each(|n| figures.first_octet_times.record(n * 1_000));
    let document = figures.classes.first_mut().unwrap();
    document.requests = 100;
    (1..=100).for_each(|n| document.times.record(n * 2_000));
    if let Some(count) = figures.failures.get_mut(FetchFailure::Status as usize) {
        *count = 5;
    }
    figures.examples.push(("http://h/<gone>".to_owned(), FetchFailure::Status));
    figures.foreign_hosts.insert("foreign.test".to_owned(), 100);
    figures.statuses.extend([(200, 195), (404, 5)]);
    let times =
        |scale: u64| SecondTimes { p50_us: scale, p95_us: scale * 3, p99_us: scale * 5, max_us: scale * 9 };
    let second = |n: u32| PageSecond {
        second: n,
        users: 10,
        good: 9,
        incomplete: u64::from(n % 2),
        requests: 20,
        failed_requests: u64::from(n % 2),
        page_times: Some(times(400_000)),
        request_times: Some(times(20_000)),
        ..PageSecond::default()
    };
    let check = PageCheck {
        trust: Trust::Tight,
        reasons: vec!["a generator thread was on a core 85% of the time".to_owned()],
        cpu_share_max: 0.85,
    };
    PageRun::from(&PageOutcome {
        url: "http://h/<script>alert(1)</script>".to_owned(),
        users: 10,
        rate_asked: None,
        think: Think::Range { from: Duration::from_secs(1), to: Duration::from_secs(3) },
        linger: Duration::from_secs(5),
        returning_asked: 0.3,
        connections_per_host_max: 1,
        is_http2: true,
        started: Timestamp::default(),
        elapsed: Duration::from_secs(10),
        ended: PageEnd::Time,
        figures,
        seconds: (0..10).map(second).collect(),
        cpu: vec![Duration::from_secs(8)],
        check,
    })
}

#[test]
fn page_times_are_shown_beside_request_times() {
    let page = visits_page(&run());
    let place = |text: &str| page.find(text).unwrap_or_else(|| panic!("{text} is missing"));
    assert!(place("10.0</strong> pages a second") < place("The run is tight"));
    assert!(place("The run is tight") < place("Pages a second</h2>"));
    for id in
        ["pages", "times", "requests", "beside", "distribution", "classes", "examples", "foreign", "facts"]
    {
        place(&format!("id=\"{id}\""));
    }
    // Each drawing describes itself in words. Both kinds of time are on one axis.
    let said = page.get(place("Page time and request time over time")..).unwrap();
    assert!(said.find("page median: 400").unwrap() < said.find("request median: 20").unwrap());
    for text in [
        "5 of 100 pages failed or were incomplete",
        "5 incomplete, 0 without a document; requests: status: 5.",
        "HTTP/2, one connection a host",
        "1.00 s to 3.00 s between two pages",
        "connections open for 5.00 s after their page",
        "half 500 ms, 95% 950 ms",
        "foreign.test",
        "200: 195, 404: 5",
    ] {
        place(text);
    }
    assert!(!page.contains(">stylesheet<"), "a class that did not occur is shown");
}

#[test]
fn short_run_has_no_charts_over_time() {
    let mut run = run();
    run.seconds.truncate(1);
    let page = visits_page(&run);
    assert!(!page.contains("id=\"pages\"") && page.contains("id=\"beside\""));
}

#[test]
fn page_runs_nothing_and_loads_nothing() {
    let page = visits_page(&run());
    assert!(!page.contains("<script") && page.contains("&lt;script&gt;") && page.contains("&lt;gone&gt;"));
    assert!(page.contains("default-src 'none'"));
    assert!(!page.contains("src=") && !page.contains("@import") && !page.contains("url("));
}

#[test]
fn each_second_of_page_mode_is_a_row() {
    let csv = page_seconds_csv(&PageRun { started_s: 1000.0, ..run() });
    let mut lines = csv.lines();
    let expected = "\
time_s,second,pages_started,pages_good,pages_incomplete,pages_failed,pages_not_started,\
page_p50_us,page_p95_us,page_p99_us,page_max_us,requests,failed_requests,received_bytes,p50_us,p95_us,p99_us,max_us,\
status_1xx,status_2xx,status_3xx,status_4xx,status_5xx,status_other,\
cache_hit,cache_hit_by_age,cache_stale,cache_revalidated,cache_miss,cache_pass,cache_other,\
failed_name,failed_connect,failed_tls,failed_timeout,failed_closed,failed_broken,failed_bad_answer,failed_status,\
failed_foreign,failed_redirects,failed_too_long,failed_coding,failed_http2,failed_address,failed_descriptors,failed_memory,users";
    assert_eq!(lines.next(), Some(expected));
    let row = "1001.000,1,0,9,1,0,0,400000,1200000,2000000,3600000,20,1,0,20000,60000,100000,180000,\
0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,10";
    assert_eq!(lines.nth(1), Some(row));
}

#[test]
fn written_page_runs_are_read_back() {
    let written = run();
    let read = &read_runs(&written.to_json()).unwrap()[0];
    assert_eq!(*read, Run::from(&written));
    let asked = read.pages.unwrap();
    assert_eq!((asked.returning, asked.think_max_s, asked.linger_s), (0.3, 3.0, 5.0));
    assert_eq!((read.good, read.failed, read.generator.trust.as_deref()), (Some(95), Some(5), Some("tight")));
}

#[test]
fn run_without_documents_has_no_page_times() {
    let none = Distribution::from(&stats::Histogram::new());
    let mut run = run();
    run.page_times = none;
    run.classes.values_mut().for_each(|class| class.times = none);
    let page = visits_page(&run);
    assert!(!page.contains(">0 ms<"), "{page}");
}
