//! Imports of other tools' output. `data/ab*.txt` and `data/wrk*.txt` are output of ab 2.3 and wrk
//! 4.1.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that cannot go on panics")]

use petasos_report::import::import;
use petasos_report::run::{Distribution, Run};

fn one(text: &str) -> Run {
    let imported = import(text.as_bytes()).unwrap();
    assert_eq!(imported.runs.len(), 1);
    imported.runs.into_iter().next().unwrap()
}

fn error(text: &str) -> String {
    import(text.as_bytes()).unwrap_err().to_string()
}

#[test]
fn report_of_ab_is_imported() {
    let run = one(include_str!("data/ab.txt"));
    assert_eq!((run.source.as_str(), run.url.as_deref()), ("ab", Some("http://127.0.0.1:18473/")));
    assert_eq!(
        (run.complete, run.good, run.failed, run.requests),
        (Some(500), Some(500), Some(0), Some(500))
    );
    assert_eq!((run.elapsed_s, run.good_per_s), (Some(0.908), Some(550.81)));
    assert_eq!(
        (run.received_bytes, run.content_bytes, run.document_bytes),
        (Some(95_000), Some(3_000), Some(6))
    );
    assert_eq!((run.plan.users, run.plan.keep_alive), (Some(10), Some(false)));
    assert_eq!(run.plan.protocol.as_deref(), Some("HTTP/1.0"));
    let total = run.good_times.total;
    assert_eq!((total.min_us, total.mean_us, total.sd_us), (Some(1_000), Some(11_000.0), Some(21_900.0)));
    assert_eq!((total.p50_us, total.p90_us, total.p95_us), (Some(5_000), Some(21_000), Some(30_000)));
    assert_eq!((total.p99_us, total.max_us, total.p999_us), (Some(148_000), Some(160_000), None));
    assert_eq!(run.good_times.latency, total);
    assert_eq!(run.good_times.waiting.max_us, Some(159_000));
    // Values that ab does not report.
    assert_eq!((run.started_s, run.address, run.unfinished, run.sent_bytes), (None, None, None, None));
    assert_eq!((run.generator.trust, run.plan.timeout_s), (None, None));
    assert_eq!(run.good_times.transfer, Distribution::default());
}

#[test]
fn quoted_and_indented_reports_are_read() {
    for (before, text) in [
        ("> ", include_str!("data/ab.txt")),
        ("    ", include_str!("data/ab.txt")),
        ("> > ", include_str!("data/wrk-latency.txt")),
        ("\t", include_str!("data/wrk-latency.txt")),
    ] {
        let quoted: String = text.lines().map(|line| format!("{before}{line}\n")).collect();
        assert_eq!(one(&quoted), one(text), "{before:?}");
    }
}

#[test]
fn report_of_petasos_bench_is_imported() {
    let text = "\
Petasos bench report 1
Target:                 http://h:81/page?a=b
Server:                 nginx at 127.0.0.1:81
Load:                   25 users, HTTP/1.1 GET, connections kept
Measured:               2.000 s
Good answers:           1,997 of 2,000, 998.50 req/s
Failed:                 3 of 2,000: status 2, timeout 1
Status codes:           200 1997, 500 2
Received:               20,480 bytes, 10.00 KiB/s, 1,000 bytes of content each
Connections:            26 opened
Generator:              tight; threads 2, busiest 85% of a core

Times in ms     answers    mean     p50     p90     p95     p99   p99.9     max
Connect            1997   0.001   0.000   0.000   0.000   0.000   0.100   0.100
Total              1997   1.250   1.000   2.000   3.000   4.000  50.000  123.46
Wrong answers         2   0.500   0.500       -       -       -       -   0.600
";
    let run = one(text);
    assert_eq!((run.source.as_str(), run.url.as_deref()), ("petasos", Some("http://h:81/page?a=b")));
    assert_eq!((run.good, run.failed, run.requests), (Some(1997), Some(3), Some(2000)));
    assert_eq!((run.complete, run.good_per_s, run.elapsed_s), (Some(1999), Some(998.5), Some(2.0)));
    assert_eq!((run.failed_by_kind["timeout"], run.statuses["500"]), (1, 2));
    assert_eq!((run.plan.users, run.plan.keep_alive), (Some(25), Some(true)));
    assert_eq!(run.generator.trust.as_deref(), Some("tight"));
    let total = run.good_times.total;
    assert_eq!((total.p95_us, total.p999_us, total.max_us), (Some(3_000), Some(50_000), Some(123_460)));
    assert_eq!((run.good_times.latency, run.wrong_times.total.p95_us), (total, None));
    assert!(error(&text.replace("1,997 of", "many of")).contains("line 6: "));
}

#[test]
fn error_pages_that_ab_counts_as_good_are_failures() {
    let run = one(include_str!("data/ab-missing.txt"));
    assert_eq!((run.complete, run.good, run.failed), (Some(200), Some(0), Some(200)));
    assert_eq!(run.failed_by_kind["status"], 200);
    assert_eq!(run.good_per_s, Some(0.0));
    assert_eq!((run.good_times.total.count, run.wrong_times.total.count), (None, Some(200)));
}

#[test]
fn counts_that_ab_may_double_are_unknown() {
    let text = include_str!("data/ab.txt");
    let bracket = |bracket: &str| {
        one(&text
            .replace("Failed requests:        0\n", &format!("Failed requests:        28\n   ({bracket})\n")))
    };
    let lengths = bracket("Connect: 0, Receive: 0, Length: 28, Exceptions: 0");
    assert_eq!((lengths.good, lengths.failed), (Some(472), Some(28)));
    let resets = bracket("Connect: 0, Receive: 14, Length: 14, Exceptions: 0");
    assert_eq!((resets.good, resets.failed, resets.good_per_s), (None, None, None));
    assert_eq!((resets.complete, resets.failed_by_kind["receive"]), (Some(500), 14));
    assert_eq!(resets.complete_per_s, Some(550.81));
}

#[test]
fn options_of_ab_change_its_layout() {
    let text = include_str!("data/ab.txt");
    let kept = one(&text.replace("Total transferred", "Keep-Alive requests:    500\nTotal transferred"));
    assert_eq!((kept.plan.keep_alive, kept.connections.kept), (Some(true), Some(500)));
    let variable = one(&text.replace("        6 bytes", "        Variable"));
    assert_eq!((variable.document_bytes, variable.plan.expect_constant_length), (None, Some(false)));
    let tls = text.replace("Document Path", "SSL/TLS Protocol:       TLSv1.3,X,256,256\nDocument Path");
    assert_eq!(one(&tls).url.unwrap(), "https://127.0.0.1:18473/");
    let short =
        one(&text.replace("Total:          1   11  21.9      5     160", "Total:          1    11  160"));
    assert_eq!((short.good_times.total.mean_us, short.good_times.total.p50_us), (None, Some(5_000)));
    let two = import(format!("{text}{text}").as_bytes()).unwrap();
    assert_eq!(two.runs.len(), 2);
    assert_eq!(two.runs[0], two.runs[1]);
    assert_eq!(
        error(&text.replace("Complete requests:      500", "Complete requests:      many")),
        "line 17: Complete requests: \"many\" is not a number"
    );
}

#[test]
fn report_of_wrk_is_imported() {
    let run = one(include_str!("data/wrk-latency.txt"));
    assert_eq!((run.source.as_str(), run.url.as_deref()), ("wrk", Some("http://127.0.0.1:33173/page")));
    assert_eq!((run.complete, run.good, run.failed), (Some(4541), Some(4541), Some(0)));
    assert_eq!((run.elapsed_s, run.plan.time_s, run.plan.users), (Some(2.0), Some(2.0), Some(8)));
    assert_eq!((run.good_per_s, run.received_bytes), (Some(2269.48), Some(9_269_411)));
    let total = run.good_times.total;
    assert_eq!((total.mean_us, total.sd_us, total.max_us), (Some(3_890.0), Some(3_210.0), Some(34_130)));
    assert_eq!((total.p50_us, total.p75_us, total.p90_us), (Some(3_260), Some(3_650), Some(4_360)));
    assert_eq!((total.p99_us, total.p95_us, total.min_us), (Some(25_800), None, None));
    let run = one(include_str!("data/wrk-missing.txt"));
    assert_eq!((run.complete, run.good, run.good_per_s), (Some(1469), Some(0), Some(0.0)));
    assert_eq!(run.wrong_times.total.p50_us, None);
    let errors = include_str!("data/wrk-latency.txt")
        .replace("Requests/sec", "  Socket errors: connect 1, read 2, write 3, timeout 4\nRequests/sec");
    let run = one(&errors);
    assert_eq!((run.failed, run.failed_by_kind["timeout"], run.failed_by_kind["connect"]), (Some(10), 4, 1));
    assert_eq!((run.complete, run.good, run.requests), (Some(4541), Some(4537), Some(4547)));
    let cut = include_str!("data/wrk-latency.txt").split("  4541").next().unwrap();
    assert_eq!(error(cut), "line 1: the report that begins here has no line \"... requests in ...\"");
}

const JTL: &str = "\
timeStamp,elapsed,label,responseCode,responseMessage,threadName,dataType,success,failureMessage,bytes,sentBytes,\
grpThreads,allThreads,URL,Latency,IdleTime,Connect
1000,100,home,200,OK,\"a, \"\"1\"\"\",text,true,,1000,100,1,1,http://h/,60,0,20
1500,300,home,200,OK,t 2,text,true,,1000,100,2,2,http://h/,280,0,0
1600,50,home,503,Service Unavailable,t 1,text,false,,500,100,2,2,http://h/,40,0,0
1700,20,home,200,OK,t 1,text,false,\"Test failed:
text expected to contain /x/\",500,100,2,2,http://h/,10,0,0
1800,200,home,Non HTTP response code: java.net.ConnectException,refused,t 1,,false,,0,0,2,2,http://h/,0,0,200
1900,100,all,200,\"Number of samples in transaction : 1, number of failing samples : 0\",t 1,,true,,1,1,2,2,null,0,0,0
";

#[test]
fn jtl_in_csv_is_imported() {
    let imported = import(JTL.as_bytes()).unwrap();
    assert_eq!(
        imported.notes,
        ["1 rows of transaction controllers were left out, because they repeat their samples"]
    );
    let run = &imported.runs[0];
    assert_eq!((run.source.as_str(), run.url.as_deref()), ("jtl", Some("http://h/")));
    assert_eq!((run.started_s, run.elapsed_s), (Some(1.0), Some(1.0)));
    assert_eq!((run.requests, run.complete, run.good, run.failed), (Some(5), Some(4), Some(2), Some(3)));
    let kinds: Vec<_> = run.failed_by_kind.iter().map(|(kind, count)| (kind.as_str(), *count)).collect();
    assert_eq!(kinds, [("body", 1), ("connect", 1), ("status", 1)]);
    assert_eq!((run.statuses["200"], run.statuses["503"]), (3, 1));
    assert_eq!((run.received_bytes, run.sent_bytes, run.plan.users), (Some(3000), Some(400), Some(2)));
    let times = &run.good_times;
    assert_eq!((times.total.count, times.total.mean_us), (Some(2), Some(200_000.0)));
    assert_eq!((times.connect.max_us, times.processing.max_us), (Some(20_000), Some(300_000)));
    assert_eq!((times.waiting.min_us, times.transfer.max_us), (Some(40_000), Some(40_000)));
    assert_eq!(run.wrong_times.total.count, Some(2));
    assert_eq!(times.tls, Distribution::default());
}

#[test]
fn jtl_may_have_few_columns_and_another_delimiter() {
    let run = one("timeStamp;elapsed;success\n1000;100;true\n");
    assert_eq!((run.good, run.received_bytes, run.url), (Some(1), None, None));
    assert_eq!(run.good_times.connect, Distribution::default());
}

#[test]
fn jtl_in_xml_counts_outer_samples_only() {
    let text = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>
<testResults version=\"1.2\">
<httpSample t=\"100\" lt=\"60\" ct=\"20\" ts=\"1000\" s=\"true\" lb=\"home &amp; page\" rc=\"200\" rm=\"OK\" by=\"1000\" sby=\"100\" na=\"1\">
  <httpSample t=\"40\" lt=\"30\" ct=\"0\" ts=\"1050\" s=\"true\" lb=\"style.css\" rc=\"200\" rm=\"OK\" by=\"10\"/>
  <java.net.URL>http://h/?a&amp;b</java.net.URL>
</httpSample>
<sample t=\"50\" ts=\"1600\" s=\"false\" rc=\"503\" rm=\"no\" by=\"500\" na=\"2\"/>
</testResults>
";
    let run = one(text);
    assert_eq!((run.requests, run.good, run.failed), (Some(2), Some(1), Some(1)));
    assert_eq!(run.url.as_deref(), Some("http://h/?a&b"));
    assert_eq!((run.started_s, run.elapsed_s, run.plan.users), (Some(1.0), Some(0.65), Some(2)));
    assert_eq!((run.good_times.total.max_us, run.good_times.waiting.max_us), (Some(100_000), Some(40_000)));
    assert_eq!(run.received_bytes, Some(1500));
}

#[test]
fn unreadable_input_is_refused_with_the_reason() {
    assert!(error("hello\n").starts_with("neither a report of petasos bench, nor one of ab (no line"));
    assert!(error("").starts_with("neither a report of petasos bench"));
    assert!(error("<html></html>").starts_with("neither a report of petasos bench"));
    assert_eq!(
        error("timeStamp,elapsed,success\n1,x,true\n"),
        "line 2: elapsed: \"x\" is not a whole number"
    );
    assert!(error("timeStamp,elapsed,success\n2024/01/01,1,true\n").contains("timestamp_format=ms"));
    assert_eq!(error("timeStamp,elapsed,success\n"), "the file has a header but no samples");
    assert!(error("<testResults><sample t=\"1\"/></testResults>").contains("a sample without ts and t"));
    assert!(error("<testResults><sample t=\"1\" ts=\"x\"/>").contains("ts: \"x\" is not a whole number"));
    assert!(
        error("<testResults><sample t=\"1\" ts=\"2\">").starts_with("neither")
            || error("<testResults><b").contains("byte")
    );
}

#[test]
fn numbers_without_a_sum_are_refused() {
    let huge = u64::MAX;
    let csv = |rows: &str| error(&format!("timeStamp,elapsed,success,bytes\n{rows}"));
    assert_eq!(csv(&format!("{huge},1,true,1\n")), "line 2: its end is beyond all time");
    let bytes = csv(&format!("1,1,true,{huge}\n2,1,true,1\n"));
    assert_eq!(bytes, "line 3: the bytes so far have no 64-bit sum");
    for end in ["/>", "></sample>"] {
        let xml = error(&format!("<testResults><sample t=\"1\" ts=\"{huge}\"{end}</testResults>"));
        assert!(xml.ends_with("its end is beyond all time"), "{xml}");
    }
    let ab = include_str!("data/ab.txt").replace(
        "Failed requests:        0\n",
        &format!("Failed requests:        1\n   (Connect: {huge}, Receive: 0, Length: 1, Exceptions: 0)\n"),
    );
    assert!(error(&ab).ends_with("Connect is not a number"), "{}", error(&ab));
    let wrk = include_str!("data/wrk-missing.txt");
    let count = wrk.lines().find_map(|line| line.trim().strip_prefix("Non-2xx or 3xx responses: ")).unwrap();
    assert!(error(&wrk.replace(count, &huge.to_string())).contains("is not a line that wrk writes"));
}

#[test]
fn text_beyond_the_limit_is_refused() {
    use std::io::{BufReader, Read};
    let report = include_str!("data/ab.txt");
    let blanks = std::io::repeat(b'\n').take(petasos_report::import::TEXT_BYTES_MAX);
    let text = BufReader::new(report.as_bytes().chain(blanks));
    let error = import(text).unwrap_err().to_string();
    assert_eq!(error, "the text is longer than 67108864 bytes");
}
