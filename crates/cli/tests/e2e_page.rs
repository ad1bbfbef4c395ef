//! `petasos bench --page` from the user's view: report, JSON, exit codes and refused flags.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on panics")]

use std::process::Command;
use testkit::{Action, Origin, Seen, binary, petasos, response};

const HTML: &str = "Content-Type: text/html";

fn site(seen: &Seen) -> Vec<Action> {
    match seen.target() {
        "/" => response(
            "200 OK",
            &[HTML, "Set-Cookie: v=1"],
            b"<link rel=stylesheet href=a.css><img src=b.png><img src=c.png loading=lazy><img src=//foreign.test/d.png>",
        ),
        "/broken" => response("200 OK", &[HTML], b"<img src=/gone.png>"),
        "/a.css" => response("200 OK", &["Content-Type: text/css", "Cache-Control: max-age=60"], b"a{}"),
        "/b.png" | "/favicon.ico" => response("200 OK", &["Cache-Control: max-age=60"], b"12345678"),
        _ => response("404 Not Found", &[HTML], b"no"),
    }
}

#[test]
fn whole_pages_are_loaded_and_reported() {
    let origin = Origin::start(site);
    let directory = tempfile::tempdir().unwrap();
    let json = directory.path().join("run.json");
    let output =
        petasos(["bench", &origin.url(), "--page", "-n", "6", "-c", "2", "--json", json.to_str().unwrap()]);
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    for line in ["Good pages:          6", "Requests per page:   4", "foreign.test", "Self-check: "] {
        assert!(output.stdout.contains(line), "no {line:?} in\n{}", output.stdout);
    }
    assert!(output.stdout.contains("Not loaded because they are lazy: 6"), "{}", output.stdout);
    assert_eq!((origin.count("/"), origin.count("/a.css"), origin.count("/c.png")), (6, 6, 0));
    let run = std::fs::read_to_string(json).unwrap();
    for member in ["\"schema\": \"petasos-page-run/1\"", "\"good\": 6", "\"foreign.test\": 6", "\"trust\": "]
    {
        assert!(run.contains(member), "no {member} in\n{run}");
    }
}

#[test]
fn run_of_pages_is_written_as_html() {
    let origin = Origin::start(site);
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let html = path("run.html");
    let json = path("run.json");
    let output = petasos(["bench", &origin.url(), "--page", "-n", "6", "--html", &html, "--json", &json]);
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    let page = std::fs::read_to_string(html).unwrap();
    for text in [
        "Page load report",
        "Page time beside request times",
        "stylesheet",
        "foreign.test",
        "None of 6 pages",
    ] {
        assert!(page.contains(text), "no {text:?} in\n{page}");
    }
    assert!(std::fs::read_to_string(json).unwrap().contains("\"seconds\": ["));
    let output = petasos(["bench", &origin.url(), "--page", "-n", "1", "--html", "-", "--json", "-"]);
    assert_eq!((output.code, origin.count("/")), (Some(2), 6), "{}", output.stderr);
    let output = petasos(["bench", &origin.url(), "--page", "-n", "1", "--html", "-"]);
    assert!(output.stdout.starts_with("<!DOCTYPE html>") && output.stderr.contains("Good pages:"));
}

#[test]
fn server_without_http2_exits_with_2_and_one_line() {
    let origin = Origin::start(site);
    let output = petasos(["bench", &origin.url(), "--page", "-n", "1", "--http", "2"]);
    assert_eq!(output.code, Some(2), "{}", output.stdout);
    assert!(output.stderr.contains("the server does not speak HTTP/2"), "{}", output.stderr);
    assert_eq!(output.stderr.trim_end().lines().count(), 1, "{}", output.stderr);
}

#[test]
fn returning_visitors_use_their_cache() {
    let origin = Origin::start(site);
    let output = petasos(["bench", &origin.url(), "--page", "-n", "5", "--returning", "100%"]);
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    assert_eq!((origin.count("/"), origin.count("/a.css"), origin.count("/b.png")), (5, 1, 1));
    assert!(output.stdout.contains("Returning visits:    4"), "{}", output.stdout);
}

#[test]
fn incomplete_pages_exit_with_1() {
    let origin = Origin::start(site);
    let output = petasos(["bench", &format!("{}/broken", origin.url()), "--page", "-n", "2"]);
    assert_eq!(output.code, Some(1));
    assert!(output.stdout.contains("Incomplete pages:    2") && output.stdout.contains("/gone.png (status)"));
    assert_eq!(output.stderr, "petasos: exit code 1: no page was good\n");
    let output = petasos(["bench", &format!("{}/missing", origin.url()), "--page", "-n", "2"]);
    assert_eq!((output.code, output.stdout.contains("Failed pages:        2")), (Some(1), true));
    assert_eq!(output.stderr, "petasos: exit code 1: no page was good\n");
}

#[test]
fn thresholds_apply_to_pages() {
    let origin = Origin::start(site);
    let bench = |path: &str, condition: &str| {
        let url = format!("{}{path}", origin.url());
        petasos(["bench", &url, "--page", "-n", "2", "--fail-if", condition])
    };
    let slow = bench("/", "p95 > 0ms");
    assert!(slow.stdout.contains("\nThresholds\n  FAILED  p95 > 0ms: it is "), "{}", slow.stdout);
    assert_eq!(slow.stderr, "petasos: exit code 1: a condition of --fail-if holds\n");
    let good = bench("/", "errors > 0%");
    assert_eq!((good.code, good.stderr.as_str()), (Some(0), ""));
    let broken = bench("/broken", "errors > 50%");
    assert!(broken.stdout.contains("  FAILED  errors > 50%: it is 100%\n"), "{}", broken.stdout);
    let of_requests = bench("/", "cache.miss > 5%");
    assert_eq!(of_requests.code, Some(2));
    assert!(
        of_requests.stderr.contains("'cache.miss > 5%' does not go with --page"),
        "{}",
        of_requests.stderr
    );
}

#[test]
fn pages_that_cannot_be_loaded_exit_with_2_and_one_line() {
    let gone = Origin::start(site);
    let url = gone.url();
    gone.kill();
    for arguments in [
        vec!["bench", &url, "--page", "-n", "1"],
        vec!["bench", "http://", "--page"],
        vec!["bench", &url, "--page", "--no-keepalive"],
        vec!["bench", &url, "--page", "--pipeline", "2"],
        vec!["bench", &url, "--page", "--allow-host", "http://x/"],
    ] {
        let output = petasos(&arguments);
        assert_eq!(output.code, Some(2), "{arguments:?}: {}", output.stderr);
        assert_eq!(output.stderr.trim_end().lines().count(), 1, "{arguments:?}: {}", output.stderr);
    }
    assert_eq!(petasos(["bench", &url, "--returning", "30%"]).code, Some(2));
    let accepting = petasos(["bench", &url, "--page", "-n", "1", "--accept-invalid"]);
    assert!(accepting.stderr.contains("cannot be used with '--accept-invalid'"), "{}", accepting.stderr);
}

#[test]
fn too_few_descriptors_make_the_run_invalid() {
    let origin = Origin::start(site);
    // One thread has all fifty visitors, and connects them all before it handles any connection.
    let line = "ulimit -n 32; exec \"$0\" bench \"$1\" --page -n 50 -c 50 --threads 1 --json -";
    let output = Command::new("sh").args(["-c", line]).arg(binary()).arg(origin.url()).output().unwrap();
    let (text, report) =
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    let run: serde_json::Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("no JSON: {report}"));
    let failed = |kind: &str| run["failed_by_kind"][kind].as_u64();
    assert_eq!(
        (failed("connect"), run["generator"]["trust"].as_str()),
        (Some(0), Some("invalid")),
        "{report}"
    );
    assert!(failed("descriptors").is_some_and(|count| count > 0), "{report}");
    assert!(report.contains("ulimit -n") && report.contains("fewer visitors (-c;"), "{report}");
}
