//! Thresholds and result files of `petasos bench`, and the effect of a full disk on them.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that cannot go on panics")]

use report::run::read_runs;
use std::sync::atomic::{AtomicUsize, Ordering};
use testkit::{Certificate, Origin, TlsFront, petasos, response};

/// An origin whose every tenth response is a 503.
fn faulty() -> Origin {
    let count = AtomicUsize::new(0);
    Origin::start(move |_| match count.fetch_add(1, Ordering::Relaxed) % 10 {
        9 => response("503 Service Unavailable", &[], b"no"),
        _ => response("200 OK", &[], b"hello"),
    })
}

#[test]
fn thresholds_decide_the_exit_code() {
    let origin = faulty();
    let url = origin.url();
    let bench = |thresholds: &[&str]| {
        let flags = thresholds.iter().flat_map(|threshold| ["--fail-if", threshold]);
        petasos(["bench", &url, "-n", "100", "--accept-invalid"].into_iter().chain(flags))
    };
    assert_eq!(bench(&[]).code, Some(1));
    let kept = bench(&["errors > 10%", "p95 > 30s"]);
    assert_eq!(kept.code, Some(0), "{}", kept.stdout);
    assert!(kept.stdout.contains("\nThresholds\n  passed  errors > 10%: it is 10.0%\n  passed  p95 > 30s: "));
    let missed = bench(&["errors > 9", "rate < 0.1"]);
    assert_eq!(missed.code, Some(1));
    assert!(missed.stdout.contains("  FAILED  errors > 9: it is 10\n"), "{}", missed.stdout);
    // A threshold on times alone does not permit failures.
    assert_eq!(bench(&["p95 > 30s"]).code, Some(1));
    let wrong = bench(&["p95 > 300"]);
    assert_eq!((wrong.code, wrong.stdout.as_str()), (Some(2), ""));
    assert!(wrong.stderr.contains("column 7: 300 has no unit;"), "{}", wrong.stderr);
}

#[test]
fn json_has_thresholds_and_number_of_resumed_tls_sessions() {
    let origin = faulty();
    let front = TlsFront::start(origin.address(), Certificate::Good);
    let url = format!("https://localhost:{}/", front.address.port());
    let directory = tempfile::tempdir().unwrap();
    let html = directory.path().join("run.html").to_str().unwrap().to_owned();
    let arguments =
        ["bench", &url, "-n", "20", "--no-keepalive", "--insecure", "--json", "-", "--html", &html];
    let output = petasos(arguments.into_iter().chain(["--fail-if", "errors > 1", "--fail-if", "p95 > 30s"]));
    assert_eq!(output.code, Some(1), "{}", output.stderr);
    let run = &read_runs(&output.stdout).unwrap()[0];
    assert_eq!((run.connections.opened, run.connections.resumed), (Some(20), Some(19)));
    let judged: Vec<_> = run.thresholds.iter().map(|one| (one.condition.as_str(), one.missed)).collect();
    assert_eq!(judged, [("errors > 1", true), ("p95 > 30s", false)]);
    assert_eq!(run.thresholds[0].found, "it is 2");
    let page = std::fs::read_to_string(html).unwrap();
    assert!(page.contains("Threshold missed. </strong><code>errors &gt; 1</code>: it is 2."), "{page}");
    assert!(page.contains("TLS sessions resumed") && !page.contains("p95 &gt; 30s"));
    // A run stored by an older version lacks these members and is still read.
    let before = read_runs(r#"{"schema": "petasos-run/1", "connections": {"opened": 3}}"#).unwrap();
    assert_eq!((before[0].connections.resumed, before[0].thresholds.len()), (None, 0));
}

#[test]
fn all_requested_files_are_written() {
    let origin = faulty();
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let url = origin.url();
    let csv = path("run.csv");
    let jtl = path("run.jtl");
    let hdr = path("run.hdr");
    let output = petasos(["bench", &url, "-n", "100", "--csv", &csv, "--jtl", &jtl, "--hdr", &hdr]);
    assert_eq!(output.code, Some(1));
    assert!(output.stderr.starts_with("petasos: exit code 1: "), "{}", output.stderr);
    let read = |path: &str| std::fs::read_to_string(path).unwrap();
    let rows: Vec<String> = read(&jtl).lines().map(str::to_owned).collect();
    assert_eq!(rows.len(), 101);
    assert!(
        rows[0]
            .starts_with("timeStamp,elapsed,label,responseCode,responseMessage,threadName,dataType,success,")
    );
    assert!(rows[10].contains(",503,Service Unavailable,petasos 1-1,text,false,"), "{}", rows[10]);
    assert!(rows[1].contains(",200,OK,petasos 1-1,text,true,,"), "{}", rows[1]);
    assert!(read(&csv).starts_with("time_s,second,users,"), "{}", read(&csv));
    assert!(read(&hdr).contains("\nTag=latency,0.000,"), "{}", read(&hdr));
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 3);
    let imported = petasos(["import", &jtl]);
    assert!(imported.stdout.contains("\"good\": 90,") && imported.stdout.contains("\"status\": 10"));
    let standard = petasos(["bench", &url, "-n", "10", "--csv", "-"]);
    assert!(
        standard.stdout.starts_with("time_s,")
            && standard.stderr.contains("Good answers:           9 of 10, ")
    );
    let twice = petasos(["bench", &url, "-n", "10", "--csv", "-", "--jtl", "-"]);
    assert_eq!(twice.code, Some(2));
    assert!(twice.stderr.contains("only one result can go to standard output"), "{}", twice.stderr);
}

#[test]
fn full_disk_costs_only_the_file_on_it() {
    let origin = Origin::start(|_| response("200 OK", &[], b"hello"));
    let directory = tempfile::tempdir().unwrap();
    let csv = directory.path().join("run.csv");
    let url = origin.url();
    let csv = csv.to_str().unwrap();
    let output =
        petasos(["bench", &url, "-n", "10", "--json", "/dev/full", "--jtl", "/proc/x", "--csv", csv]);
    assert_eq!(output.code, Some(2));
    assert!(output.stdout.contains("Good answers:           10 of 10, "), "{}", output.stdout);
    assert!(output.stderr.contains("cannot write /dev/full: No space left on device"), "{}", output.stderr);
    assert!(output.stderr.contains("cannot write /proc/x"), "{}", output.stderr);
    assert!(std::fs::read_to_string(csv).unwrap().starts_with("time_s,"));
}

#[test]
fn unwritable_file_is_reported_before_the_load() {
    let origin = Origin::start(|_| response("200 OK", &[], b"hello"));
    for (path, reason) in
        [("/nonexistent/x", "the directory /nonexistent does not exist;"), ("/tmp", "it is a directory;")]
    {
        let output = petasos(["bench", &origin.url(), "-n", "10", "--html", path]);
        assert_eq!((output.code, output.stdout.as_str()), (Some(2), ""));
        assert!(output.stderr.contains(reason), "{}", output.stderr);
    }
    assert_eq!(origin.count("/"), 0);
}
