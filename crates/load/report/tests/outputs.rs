//! Result files of a run: JTL, seconds as CSV, and the HdrHistogram log.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that cannot go on panics")]

use address::HttpUrl;
use clock::Timestamp;
use petasos_report::csv::seconds_csv;
use petasos_report::run::Run;
use petasos_report::{hdr, import, jtl};
use record::{FailureKind, Failures, Plan, RunOutcome, Sample, Second};
use std::time::Duration;

fn outcome() -> RunOutcome {
    let plan = Plan { users: 3, ..Plan::new(HttpUrl::parse("http://h.test/?a=1,2").unwrap()) };
    let good = Sample {
        start_us: 1_500,
        connect_us: 2_000,
        total_us: 9_900,
        waiting_us: 3_000,
        content_bytes: 100,
        url: 0,
        status: 200,
        failure: None,
    };
    let wrong = Sample { status: 404, failure: Some(FailureKind::Status), ..good };
    let lost = Sample { status: 0, failure: Some(FailureKind::Timeout), ..good };
    let mut outcome = RunOutcome {
        started: Timestamp::from_secs(1_000),
        elapsed: Duration::from_secs(1),
        good: 1,
        complete: 2,
        failures: Failures::of_kinds(&[(FailureKind::Status, 1), (FailureKind::Timeout, 1)]),
        sent_bytes: 150,
        first_head: vec![b'x'; 20],
        samples: vec![good, wrong, lost],
        ..RunOutcome::of(plan, "127.0.0.1:80".parse().unwrap())
    };
    outcome.good_times.total.record(9_900);
    outcome.seconds = vec![Second {
        second: 0,
        started: 3,
        good: 1,
        failures: outcome.failures,
        statuses: [0, 0, 1, 0, 1, 0],
        verdicts: [1, 0, 0, 0, 0, 0, 0],
        received_bytes: 500,
        p50_us: 9_900,
        users: 3,
        ..Second::default()
    }];
    outcome
}

#[test]
fn jtl_has_exactly_the_columns_of_jmeter() {
    let mut octets = Vec::new();
    jtl::write(&outcome(), &mut octets).unwrap();
    let text = String::from_utf8(octets).unwrap();
    let url = "\"http://h.test/?a=1,2\"";
    let expected = format!(
        "timeStamp,elapsed,label,responseCode,responseMessage,threadName,dataType,success,failureMessage,bytes,sentBytes,\
         grpThreads,allThreads,URL,Latency,IdleTime,Connect\n\
         1000001,9,{url},200,OK,petasos 1-1,text,true,,120,50,3,3,{url},5,0,2\n\
         1000001,9,{url},404,Not Found,petasos 1-1,text,false,the status is not an expected one,120,50,3,3,{url},5,0,2\n\
         1000001,9,{url},Non HTTP response code: java.net.SocketTimeoutException,\
         Non HTTP response message: the response did not arrive in time,petasos 1-1,text,false,,0,50,3,3,{url},5,0,2\n"
    );
    assert_eq!(text, expected);
    let run = &import::import(text.as_bytes()).unwrap().runs[0];
    assert_eq!((run.good, run.failed, run.failed_by_kind["timeout"]), (Some(1), Some(2), 1));
}

#[test]
fn each_second_is_a_row_of_the_csv() {
    let text = seconds_csv(&Run::from(&outcome()));
    let expected = "\
time_s,second,users,in_flight,started,good,failed,not_started,received_bytes,p50_us,p95_us,p99_us,max_us,\
status_1xx,status_2xx,status_3xx,status_4xx,status_5xx,status_other,\
cache_hit,cache_hit_by_age,cache_stale,cache_revalidated,cache_miss,cache_pass,cache_other,\
failed_connect,failed_tls,failed_address,failed_send,failed_receive,failed_timeout,failed_status,failed_length,\
failed_body,failed_malformed
1000.000,0,3,0,3,1,2,0,500,9900,0,0,0,0,1,0,1,0,0,1,0,0,0,0,0,0,0,0,0,0,0,1,1,0,0,0
";
    assert_eq!(text, expected);
}

#[test]
fn hdr_log_has_the_recorded_phases_only() {
    let text = String::from_utf8(hdr::hdr_log(&outcome()).unwrap()).unwrap();
    let tags: Vec<&str> =
        text.lines().filter_map(|line| line.strip_prefix("Tag=")?.split(',').next()).collect();
    assert_eq!(tags, ["latency", "total"]);
}
