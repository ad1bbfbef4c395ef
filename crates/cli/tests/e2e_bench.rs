//! `petasos bench` from the user's view: output, JSON, exit codes, signals, closed pipes. These
//! tests do not depend on the machine being fast enough to measure with. So runs that must succeed
//! accept an invalid self-check.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use report::run::read_runs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use testkit::{Action, Gate, HeldPort, Origin, eventually, petasos, response};

fn good_origin() -> Origin {
    Origin::start(|_| response("200 OK", &["Cache-Status: petasos; hit"], b"hello"))
}

/// Starts `petasos bench` without waiting for it.
fn start(arguments: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_petasos"));
    command.arg("bench").args(arguments).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn interrupt(child: &Child) {
    let status = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(status.success());
}

#[test]
fn good_run_prints_the_report_and_exits_with_0() {
    let origin = good_origin();
    let output = petasos(["bench", &origin.url(), "-n", "50", "-c", "5", "--accept-invalid"]);
    assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""));
    assert!(output.stdout.contains("Good answers:           50 of 50, "), "{}", output.stdout);
    assert!(output.stdout.contains(", connections kept\n"), "{}", output.stdout);
    assert!(output.stdout.contains("\nCache hit            50 "), "{}", output.stdout);
    assert_eq!(origin.count("/"), 50);
}

#[test]
fn remote_target_without_terminal_or_consent_is_refused() {
    // An address for documentation (RFC 5737), which no machine has.
    for arguments in [&["bench", "-n", "1"][..], &["ab"]] {
        let output = petasos([arguments, &["http://192.0.2.1:8080/"]].concat());
        assert_eq!((output.code, output.stdout.as_str()), (Some(2), ""), "{arguments:?}");
        let says = "192.0.2.1:8080 is not on this machine, and there is no terminal to ask on; give --yes to load it";
        assert!(output.stderr.contains(says), "{}", output.stderr);
    }
}

#[test]
fn exit_code_1_comes_with_a_reason() {
    let origin = Origin::start(|_| response("500 Internal Server Error", &[], b"oh"));
    let output = petasos(["bench", &origin.url(), "-n", "3", "--accept-invalid"]);
    assert_eq!(output.code, Some(1));
    let says = "petasos: exit code 1: no response was as expected\n";
    assert_eq!(output.stderr, says);
    let missed = petasos([
        "bench",
        &origin.url(),
        "-n",
        "3",
        "--accept-invalid",
        "--expect-status",
        "500",
        "--fail-if",
        "p95 > 0ms",
    ]);
    assert!(missed.stderr.contains("exit code 1: a condition of --fail-if holds"), "{}", missed.stderr);
}

#[test]
fn json_on_standard_output_moves_the_report_to_standard_error() {
    let origin = good_origin();
    let url = origin.url();
    let output = petasos(["bench", &url, "-n", "5", "--no-keepalive", "--json", "-", "--accept-invalid"]);
    assert_eq!(output.code, Some(0));
    assert!(output.stdout.starts_with("{\n  \"schema\": \"petasos-run/1\""), "{}", output.stdout);
    assert!(output.stdout.contains("\"keep_alive\": false"), "{}", output.stdout);
    assert!(output.stderr.contains("Good answers:           5 of 5, "), "{}", output.stderr);
}

#[test]
fn json_goes_into_a_file() {
    let origin = good_origin();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("run.json");
    let output = petasos(["bench", &origin.url(), "-n", "5", "--json", file.to_str().unwrap()]);
    assert!(output.stdout.contains("Good answers:           5 of 5, "), "{}", output.stdout);
    assert!(std::fs::read_to_string(file).unwrap().contains("\"good\": 5"));
}

#[test]
fn change_between_responses_is_named_in_the_report() {
    let count = AtomicU64::new(10);
    let origin = Origin::start(move |_| {
        let page = format!(
            "<html>\n<p>You are visitor number {} of this site, dear guest of ours.</p>\n</html>\n",
            count.fetch_add(1, Ordering::SeqCst)
        );
        response("200 OK", &[], page.as_bytes())
    });
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("run.html");
    let output =
        petasos(["bench", &origin.url(), "-n", "9", "--json", "-", "--html", file.to_str().unwrap()]);
    assert!(
        output.stderr.contains("8 of 8 that were compared differ from the first; what changed: a number\n"),
        "{}",
        output.stderr
    );
    let place = "line 2, a number: <p>You are visitor number [10 | 11]\n";
    assert!(output.stderr.contains(place), "{}", output.stderr);
    assert!(output.stdout.contains("\"kinds\": [\n      \"number\"\n    ]"), "{}", output.stdout);
    let page = std::fs::read_to_string(file).unwrap();
    assert!(page.contains("The page changed: a number. ") && page.contains("<del>10</del>"), "{page}");
}

#[test]
fn several_runs_report_a_median_and_a_best() {
    let origin = good_origin();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("runs.json");
    let file = file.to_str().unwrap();
    let output =
        petasos(["bench", &origin.url(), "-n", "20", "--runs", "3", "--accept-invalid", "--json", file]);
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    assert_eq!(origin.count("/"), 60);
    assert_eq!(output.stderr.lines().filter(|line| line.starts_with("run ")).count(), 3);
    assert_eq!(output.stdout.matches("Good answers:           20 of 20, ").count(), 1);
    assert!(output.stdout.contains("Over 3 runs") && output.stdout.contains("best"), "{}", output.stdout);
    let stored = read_runs(&std::fs::read_to_string(file).unwrap()).unwrap();
    assert_eq!(stored.iter().map(|run| run.good).collect::<Vec<_>>(), [Some(20); 3]);
    let failing = AtomicU64::new(0);
    // The 25th request is in the second run, whichever run is shown.
    let origin = Origin::start(move |_| {
        let is_bad = failing.fetch_add(1, Ordering::SeqCst) == 24;
        response(if is_bad { "503 Service Unavailable" } else { "200 OK" }, &[], b"hello")
    });
    let output = petasos(["bench", &origin.url(), "-n", "20", "--runs", "3", "--accept-invalid"]);
    assert_eq!(output.code, Some(1), "{}", output.stdout);
    let reason = "petasos: exit code 1: run 2 of 3: 1 of 20 requests failed";
    assert_eq!(output.stderr.lines().last(), Some(reason), "{}", output.stderr);
}

#[test]
fn one_invalid_run_of_several_exits_with_1() {
    let number = AtomicU64::new(0);
    // The first request takes so long that the schedule's next ones are not started.
    let origin = Origin::start(move |_| {
        let mut actions = response("200 OK", &[], b"hello");
        if number.fetch_add(1, Ordering::SeqCst) == 0 {
            actions.insert(0, Action::Pause(Duration::from_millis(200)));
        }
        actions
    });
    let url = origin.url();
    let arguments = ["--rate", "100", "-t", "300ms", "--in-flight-max", "1", "--threads", "1", "--runs", "3"];
    let output = petasos([&["bench", &url][..], &arguments].concat());
    assert_eq!(output.code, Some(1), "{}", output.stderr);
    let reason = "the self-check calls run 1 of 3 invalid (--accept-invalid takes it all the same)";
    assert!(output.stderr.lines().last().unwrap().ends_with(reason), "{}", output.stderr);
    let accepted = petasos([&["bench", &url, "--accept-invalid"][..], &arguments].concat());
    assert_eq!(accepted.code, Some(0), "{}", accepted.stderr);
}

#[test]
fn ab_plain_prints_no_messages_that_ab_lacks() {
    let origin = good_origin();
    let url = format!("{}/", origin.url());
    // `ab` also prints nothing about a media type without content.
    let arguments = ["-n", "1", "-T", "text/html", &url];
    let ours = petasos(["ab"].into_iter().chain(arguments));
    assert!(ours.stderr.contains("-T has no effect: it needs -p or -u"), "{}", ours.stderr);
    let plain = petasos(["ab", "--plain"].into_iter().chain(arguments));
    assert_eq!(plain.stderr, "");
}

#[test]
fn failed_requests_exit_with_1() {
    let origin = Origin::start(|_| response("503 Service Unavailable", &[], b"no"));
    let output = petasos(["bench", &origin.url(), "-n", "5"]);
    assert_eq!(output.code, Some(1));
    assert!(output.stdout.contains("\nFailed:                 5 of 5: status 5\n"), "{}", output.stdout);
    let url = origin.url();
    let expected = petasos(["bench", &url, "-n", "5", "--expect-status", "503", "--accept-invalid"]);
    assert_eq!(expected.code, Some(0));
}

#[test]
fn run_that_cannot_start_exits_with_2_and_the_reason() {
    let nobody = HeldPort::take();
    let refusing = format!("http://{}/", nobody.address());
    for (arguments, reason) in [
        (&["ftp://127.0.0.1/"][..], "has the scheme ftp; use http:// or https://"),
        (&["127.0.0.1"], "is not a URL"),
        (&["http://nowhere.invalid/"], "nowhere.invalid"),
        (&[&refusing], "refused"),
        (&["http://127.0.0.1/", "-c", "0"], "0 users are out of range"),
        (&["http://127.0.0.1/", "--body", "/nonexistent"], "cannot read /nonexistent"),
        (&["http://127.0.0.1/", "--nonsense", "2"], "--nonsense"),
        (&["http://127.0.0.1/", "-H", "nonsense"], "not a header field"),
        (&["http://127.0.0.1/", "-t", "soon"], "soon"),
    ] {
        let output = petasos([&["bench"][..], arguments].concat());
        assert_eq!((output.code, output.stdout.as_str()), (Some(2), ""), "{arguments:?}");
        assert!(output.stderr.contains(reason), "{arguments:?}: {}", output.stderr);
    }
}

#[test]
fn interrupted_run_keeps_its_measurements() {
    let gate = Gate::default();
    let held = gate.clone();
    let origin = Origin::start(move |seen| {
        let mut actions = response("200 OK", &[], b"hello");
        if seen.target() == "/slow" {
            actions.insert(0, Action::Await(held.clone()));
        }
        actions
    });
    let mut child = start(&[&origin.url(), "-n", "100000000"]);
    eventually("requests arrive", || origin.count("/") > 10);
    interrupt(&child);
    let mut text = String::new();
    child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(1));
    assert!(text.contains("Status codes:           200 "), "{text}");
    assert!(text.contains("Ended early:            stopped\n"), "{text}");
    let mut stuck = start(&[&format!("{}/slow", origin.url())]);
    eventually("the slow request arrives", || origin.count("/slow") == 1);
    interrupt(&stuck);
    assert_eq!(stuck.wait().unwrap().code(), Some(1));
    gate.open();
}

#[test]
fn interrupt_between_two_runs_keeps_the_finished_ones() {
    let origin = good_origin();
    let mut child = start(&[&origin.url(), "-n", "1", "--runs", "200", "--accept-invalid"]);
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut told = String::new();
    stderr.read_line(&mut told).unwrap();
    assert!(told.starts_with("run 1 of 200: "), "{told}");
    interrupt(&child);
    let mut text = String::new();
    child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    stderr.read_to_string(&mut told).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(1), "{told}");
    assert!(told.lines().last().unwrap().contains("interrupted"), "{told}");
    assert!(!text.is_empty(), "there is no report");
    assert!(origin.count("/") < 200, "the interruption was ignored");
}

#[test]
fn run_that_cannot_start_keeps_the_earlier_ones() {
    let origin = good_origin();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("runs.json");
    let path = file.to_str().unwrap();
    let mut child = start(&[&origin.url(), "-n", "20", "--runs", "200", "--accept-invalid", "--json", path]);
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut told = String::new();
    stderr.read_line(&mut told).unwrap();
    assert!(told.starts_with("run 1 of 200: "), "{told}");
    origin.kill();
    let mut text = String::new();
    child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    stderr.read_to_string(&mut told).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(2), "{told}");
    let last = told.lines().last().unwrap();
    assert!(last.contains(" of 200: ") && last.contains("cannot connect"), "{told}");
    assert!(!text.is_empty(), "there is no report");
    assert!(!read_runs(&std::fs::read_to_string(file).unwrap()).unwrap().is_empty());
}

#[test]
fn closed_pipe_is_a_silent_success() {
    let origin = good_origin();
    let mut child = start(&[&origin.url(), "-n", "500", "--accept-invalid"]);
    drop(child.stdout.take());
    let mut stderr = String::new();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    assert_eq!((child.wait().unwrap().code(), stderr.as_str()), (Some(0), ""));
}
