//! Compares the texts and the JSON of a run with expectations, using an outcome written by hand.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use address::HttpUrl;
use clock::Timestamp;
use petasos_report::ab::html::{self, Attributes};
use petasos_report::ab::{OptionalParts, gnuplot_tsv, percentile_csv, plain_report, report};
use petasos_report::run::{Run, SCHEMA};
use record::{
    AbAccount, Ended, FailureKind, Failures, Plan, RunOutcome, Sample, SelfCheck, StatusCounts, Stop, Times,
};
use std::time::Duration;

/// Times of responses that took 1 ms to connect and then the given times, in milliseconds.
fn times(processing_ms: &[u64]) -> Times {
    times_us(processing_ms.iter().map(|ms| ms * 1_000))
}

/// Like [`times`], with microseconds.
fn times_us(processing_us: impl IntoIterator<Item = u64>) -> Times {
    let mut times = Times::default();
    for us in processing_us {
        times.connect.record(1_000);
        times.processing.record(us);
        times.waiting.record(us - 500);
        times.total.record(us + 1_000);
    }
    times
}

/// Ten good responses within two seconds.
fn ten_good() -> RunOutcome {
    let mut plan = Plan::new(HttpUrl::parse("http://example.test:8080/page?x").unwrap());
    plan.stop = Stop { requests: Some(10), ..Stop::default() };
    plan.users = 2;
    plan.keep_alive = false;
    RunOutcome {
        threads: 2,
        started: Timestamp::from_secs(1_729_166_400),
        elapsed: Duration::from_secs(2),
        ended: Ended::Requests,
        complete: 10,
        good: 10,
        failures: Failures::default(),
        statuses: StatusCounts::of(&[(200, 10)]),
        received_bytes: 20_480,
        content_bytes: 10_000,
        sent_bytes: 1_000,
        document_bytes: Some(1_000),
        first_head: b"HTTP/1.1 200 OK\r\nServer: Apache/2.4.58 (Ubuntu)\r\n\r\n".to_vec(),
        good_times: times(&[10, 11, 12, 13, 14, 15, 16, 17, 18, 40]),
        connections: 10,
        cpu: vec![Duration::from_millis(200); 2],
        check: SelfCheck { cpu_share_max: 0.1, little_residual: Some(0.012), ..SelfCheck::default() },
        ..RunOutcome::of(plan, "127.0.0.1:8080".parse().unwrap())
    }
}

/// Like [`ten_good`], but three of the ten responses have status 404, and one more request timed
/// out.
fn with_failures() -> RunOutcome {
    RunOutcome {
        good: 7,
        failures: Failures::of_kinds(&[(FailureKind::Status, 3), (FailureKind::Timeout, 1)]),
        statuses: StatusCounts::of(&[(200, 7), (404, 3)]),
        good_times: times(&[10, 11, 12, 13, 14, 15, 16]),
        wrong_times: times(&[17, 18, 40]),
        ab: Some(AbAccount { complete: 10, length: 3, ..AbAccount::default() }),
        ..ten_good()
    }
}

#[test]
fn report_of_a_good_run_matches_the_layout_of_ab() {
    let expected = "\
Server Software:        Apache/2.4.58
Server Hostname:        example.test
Server Port:            8080

Document Path:          /page?x
Document Length:        1000 bytes

Concurrency Level:      2
Time taken for tests:   2.000 seconds
Complete requests:      10
Failed requests:        0
Total transferred:      20480 bytes
HTML transferred:       10000 bytes
Requests per second:    5.00 [#/sec] (mean)
Time per request:       400.000 [ms] (mean)
Time per request:       200.000 [ms] (mean, across all concurrent requests)
Transfer rate:          10.00 [Kbytes/sec] received

Connection Times (ms)
              min  mean[+/-sd] median   max
Connect:        1    1   0.0      1       1
Processing:    10   17   8.6     14      40
Waiting:       10   16   8.6     14      40
Total:         11   18   8.6     15      41

Percentage of the requests served within a certain time (ms)
  50%     15
  66%     17
  75%     18
  80%     18
  90%     19
  95%     41
  98%     41
  99%     41
 100%     41 (longest request)

Beyond ab
Good answers:           10 of 10 requests, 5.00 req/s
Status codes:           200 10
Times of good answers:  mean 17.600 ms, sd 8.618, p50 15.007, p95 41.000, p99 41.000, max 41.000
Connections:            10 opened
Generator:              clean; threads 2, busiest 10% of a core, lag p99 0.000 ms, +1.2% off Little's law
";
    assert_eq!(report(&ten_good(), OptionalParts::default()), expected);
}

#[test]
fn error_pages_count_as_failed_and_counts_of_ab_are_quoted() {
    let text = report(&with_failures(), OptionalParts::default());
    for line in [
        "Complete requests:      10\n",
        "Failed requests:        4\n   (Connect: 0, Receive: 0, Length: 0, Exceptions: 1)\n",
        "Non-2xx responses:      3\n",
        "Total:         11   18   8.6     15      41\n",
        "Good answers:           7 of 11 requests, 3.50 req/s\n",
        "Failed by kind:         timeout 1, status 3\n",
        "Status codes:           200 7, 404 3\n",
        "p50 14.007, p95 17.000, p99 17.000, max 17.000\n",
        "ab would have reported 3 failed requests (Connect: 0, Receive: 0, Length: 3, Exceptions: 0).\n",
    ] {
        assert!(text.contains(line), "{line:?} is missing in\n{text}");
    }
}

#[test]
fn report_tells_if_ab_would_have_ended_without_one() {
    let account = AbAccount { complete: 9, silent: 1, ..AbAccount::default() };
    let text = report(&RunOutcome { ab: Some(account), ..with_failures() }, OptionalParts::default());
    let says = "ab would have ended without a report: apr_pollset_poll: The timeout specified has expired (70007).\n";
    assert!(text.contains(says), "{text}");
    let without_account = report(&RunOutcome { ab: None, ..with_failures() }, OptionalParts::default());
    assert!(!without_account.contains("ab would have"), "{without_account}");
}

#[test]
fn plain_report_has_only_the_counts_of_ab() {
    let account =
        AbAccount { complete: 10, non_2xx: 3, length: 3, document_bytes: 7, ..AbAccount::default() };
    let text = plain_report(&RunOutcome { ab: Some(account), ..with_failures() }, OptionalParts::default());
    for line in
        ["Document Length:        7 bytes\n", "Failed requests:        3\n", "Non-2xx responses:      3\n"]
    {
        assert!(text.contains(line), "{line:?} is missing in\n{text}");
    }
    assert!(text.ends_with("(longest request)\n"), "{text}");
}

#[test]
fn optional_lines_appear_where_ab_has_them() {
    let mut outcome = ten_good();
    outcome.plan.keep_alive = true;
    outcome.kept = 9;
    outcome.plan.body = Some(record::RequestBody { content: "x".into(), content_type: "text/plain".into() });
    outcome.failures = Failures::of_kinds(&[(FailureKind::Send, 2), (FailureKind::Address, 1)]);
    let text = report(&outcome, OptionalParts { percentiles: false, spread: false });
    let expected = "\
Failed requests:        3
   (Connect: 1, Receive: 0, Length: 0, Exceptions: 0)
Write errors:           2
Keep-Alive requests:    9
Total transferred:      20480 bytes
Total body sent:        1000
HTML transferred:       10000 bytes
Requests per second:    5.00 [#/sec] (mean)
Time per request:       400.000 [ms] (mean)
Time per request:       200.000 [ms] (mean, across all concurrent requests)
Transfer rate:          10.00 [Kbytes/sec] received
                        0.49 kb/s sent
                        10.49 kb/s total

Connection Times (ms)
              min   avg   max
Connect:        1     1    1
Processing:    10    17   40
Waiting:       10    16   40
Total:         11    18   41

Beyond ab
";
    assert!(text.contains(expected), "{text}");
    assert!(text.contains("Note: all local ports toward this address are in use"), "{text}");
}

/// A host name is sent in the handshake, unless it is an IP address or sending is switched off.
#[test]
fn report_names_the_tls_server_name_that_was_sent() {
    let said = |url: &str, change: fn(&mut Plan)| {
        let mut outcome = ten_good();
        outcome.plan.target = HttpUrl::parse(url).unwrap();
        change(&mut outcome.plan);
        let text = report(&outcome, OptionalParts::default());
        text.lines().find_map(|line| line.strip_prefix("TLS Server Name:        ")).map(str::to_owned)
    };
    assert_eq!(said("https://example.test/", |_| {}).as_deref(), Some("example.test"));
    let other = |plan: &mut Plan| plan.tls.name = Some("other.test".to_owned());
    assert_eq!(said("https://127.0.0.1/", other).as_deref(), Some("other.test"));
    assert_eq!(said("https://example.test/", |plan| plan.tls.server_name = false), None);
    assert_eq!(said("https://[::1]/", |_| {}), None);
    assert_eq!(said("http://example.test/", |_| {}), None);
}

#[test]
fn html_table_has_the_figures_of_the_text() {
    let attributes = Attributes { table: "border=1".into(), row: "a".into(), cell: "b".into() };
    let text = html::report(&with_failures(), &attributes);
    let expected = "\n\n<table border=1>\n\
        <tr a><th colspan=2 b>Server Software:</th><td colspan=2 b>Apache/2.4.58</td></tr>\n\
        <tr a><th colspan=2 b>Server Hostname:</th><td colspan=2 b>example.test</td></tr>\n\
        <tr a><th colspan=2 b>Server Port:</th><td colspan=2 b>8080</td></tr>\n\
        <tr a><th colspan=2 b>Document Path:</th><td colspan=2 b>/page?x</td></tr>\n\
        <tr a><th colspan=2 b>Document Length:</th><td colspan=2 b>1000 bytes</td></tr>\n\
        <tr a><th colspan=2 b>Concurrency Level:</th><td colspan=2 b>2</td></tr>\n\
        <tr a><th colspan=2 b>Time taken for tests:</th><td colspan=2 b>2.000 seconds</td></tr>\n\
        <tr a><th colspan=2 b>Complete requests:</th><td colspan=2 b>10</td></tr>\n\
        <tr a><th colspan=2 b>Failed requests:</th><td colspan=2 b>4</td></tr>\n\
        <tr a><td colspan=4 b >   (Connect: 0, Receive: 0, Length: 0, Exceptions: 1)</td></tr>\n\
        <tr a><th colspan=2 b>Non-2xx responses:</th><td colspan=2 b>3</td></tr>\n\
        <tr a><th colspan=2 b>Total transferred:</th><td colspan=2 b>20480 bytes</td></tr>\n\
        <tr a><th colspan=2 b>HTML transferred:</th><td colspan=2 b>10000 bytes</td></tr>\n\
        <tr a><th colspan=2 b>Requests per second:</th><td colspan=2 b>5.00</td></tr>\n\
        <tr a><th colspan=2 b>Transfer rate:</th><td colspan=2 b>10.00 kb/s received</td></tr>\n\
        <tr a><th b colspan=4>Connection Times (ms)</th></tr>\n\
        <tr a><th b>&nbsp;</th> <th b>min</th>   <th b>avg</th>   <th b>max</th></tr>\n\
        <tr a><th b>Connect:</th><td b>    1</td><td b>    1</td><td b>    1</td></tr>\n\
        <tr a><th b>Processing:</th><td b>   10</td><td b>   17</td><td b>   40</td></tr>\n\
        <tr a><th b>Total:</th><td b>   11</td><td b>   18</td><td b>   41</td></tr>\n\
        </table>\n<pre>\nBeyond ab\n";
    assert!(text.starts_with(expected), "{text}");
    assert!(text.ends_with("</pre>\n"), "{text}");
}

#[test]
fn run_without_responses_has_no_times() {
    let failures = Failures::of_kinds(&[(FailureKind::Timeout, 2)]);
    let outcome = RunOutcome {
        complete: 0,
        good: 0,
        failures,
        good_times: Times::default(),
        statuses: StatusCounts::default(),
        ..ten_good()
    };
    let text = report(&outcome, OptionalParts::default());
    assert!(text.contains("Complete requests:      0\nFailed requests:        2\n"), "{text}");
    assert!(!text.contains("Connection Times") && !text.contains("per second:"), "{text}");
}

#[test]
fn mean_far_from_the_median_causes_a_warning() {
    // The mean is never further from the median than one deviation, but `ab` compares whole
    // milliseconds. Here the median is 10, the mean is 11, and the deviations are 0.2, 0.6 and 5.
    let said = |others_us: u64, largest_us: u64| {
        let mut values = vec![others_us; 6];
        values.resize(11, largest_us);
        let outcome = RunOutcome { good_times: times_us(values), complete: 11, good: 11, ..ten_good() };
        let text = report(&outcome, OptionalParts::default());
        let about =
            |word: &str| text.contains(&format!("{word}: The median and mean for the processing time"));
        (about("WARNING"), about("ERROR"))
    };
    assert_eq!(said(10_400, 10_700), (false, true));
    assert_eq!(said(10_000, 11_200), (true, false));
    assert_eq!(said(6_000, 16_000), (false, false));
}

#[test]
fn percentile_csv_has_101_ascending_rows() {
    let csv = percentile_csv(&ten_good());
    let lines: Vec<_> = csv.lines().collect();
    assert_eq!((lines.len(), lines[0]), (102, "Percentage served,Time in ms"));
    assert_eq!((lines[1], lines[51], lines[101]), ("0,11.000", "50,15.007", "100,41.000"));
}

#[test]
fn tsv_rows_are_in_the_order_of_starts() {
    let sample = |start_us, total_us| Sample {
        start_us,
        connect_us: 1_000,
        total_us,
        waiting_us: 2_400,
        content_bytes: 1_000,
        url: 0,
        status: 200,
        failure: None,
    };
    let lost = Sample { status: 0, failure: Some(FailureKind::Timeout), ..sample(700_000, 1_000) };
    let outcome =
        RunOutcome { samples: vec![sample(0, 20_000), lost, sample(1_500_000, 9_600)], ..ten_good() };
    let expected = "starttime\tseconds\tctime\tdtime\tttime\twait\n\
                    Thu Oct 17 12:00:00 2024\t1729166400\t1\t19\t20\t2\n\
                    Thu Oct 17 12:00:01 2024\t1729166401\t1\t9\t10\t2\n";
    assert_eq!(gnuplot_tsv(&outcome), expected);
}

#[test]
fn tsv_dates_handle_leap_years() {
    let date = |seconds| {
        let sample = Sample {
            start_us: 0,
            connect_us: 0,
            total_us: 0,
            waiting_us: 0,
            content_bytes: 0,
            url: 0,
            status: 200,
            failure: None,
        };
        let outcome =
            RunOutcome { started: Timestamp::from_secs(seconds), samples: vec![sample], ..ten_good() };
        gnuplot_tsv(&outcome).lines().nth(1).unwrap().split('\t').next().unwrap().to_owned()
    };
    assert_eq!(date(0), "Thu Jan  1 00:00:00 1970");
    assert_eq!(date(951_782_399), "Mon Feb 28 23:59:59 2000");
    assert_eq!(date(951_782_400), "Tue Feb 29 00:00:00 2000");
    assert_eq!(date(1_709_251_200), "Fri Mar  1 00:00:00 2024");
    assert_eq!(date(4_107_542_400), "Mon Mar  1 00:00:00 2100");
}

#[test]
fn json_has_the_requested_load_and_the_results() {
    let json: serde_json::Value = serde_json::from_str(&Run::from(&with_failures()).to_json()).unwrap();
    let at = |path: &str| json.pointer(path).unwrap_or_else(|| panic!("{path} is missing"));
    assert_eq!(at("/schema"), SCHEMA);
    assert_eq!(at("/plan/users"), 2);
    assert_eq!(at("/plan/time_s"), &serde_json::Value::Null);
    assert_eq!((at("/requests"), at("/good"), at("/failed")), (&11.into(), &7.into(), &4.into()));
    assert_eq!((at("/failed_by_kind/status"), at("/failed_by_kind/connect")), (&3.into(), &0.into()));
    assert_eq!(at("/statuses/404"), 3);
    assert_eq!(at("/good_times/total/max_us"), 17_000);
    assert_eq!(at("/wrong_times/total/count"), 3);
    assert_eq!(at("/generator/trust"), "clean");
}
