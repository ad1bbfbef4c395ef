//! `petasos bench` as its users meet it: output, JSON, exit codes, signals, closed pipes.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::io::Read as _;
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use testkit::{Action, Gate, Origin, eventually, petasos, response};

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
fn a_good_run_prints_the_report_and_says_zero() {
    let origin = good_origin();
    let output = petasos(["bench", &origin.url(), "-n", "50", "-c", "5"]);
    assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""));
    assert!(
        output.stdout.contains("Complete requests:      50\nFailed requests:        0\n"),
        "{}",
        output.stdout
    );
    assert!(output.stdout.contains("Keep-Alive requests:    50\n"), "{}", output.stdout);
    assert!(output.stdout.contains("  cache hit:            50 answers, "), "{}", output.stdout);
    assert_eq!(origin.count("/"), 50);
}

#[test]
fn json_on_standard_output_moves_the_report_to_standard_error() {
    let origin = good_origin();
    let output = petasos(["bench", &origin.url(), "-n", "5", "--no-keepalive", "--json", "-"]);
    assert_eq!(output.code, Some(0));
    assert!(output.stdout.starts_with("{\n  \"schema\": \"petasos-run/1\""), "{}", output.stdout);
    assert!(output.stdout.contains("\"keep_alive\": false"), "{}", output.stdout);
    assert!(output.stderr.contains("Complete requests:      5\n"), "{}", output.stderr);
}

#[test]
fn json_goes_into_a_file() {
    let (origin, directory) = (good_origin(), tempfile::tempdir().unwrap());
    let file = directory.path().join("run.json");
    let output = petasos(["bench", &origin.url(), "-n", "5", "--json", file.to_str().unwrap()]);
    assert!(output.stdout.contains("Complete requests:      5\n"), "{}", output.stdout);
    assert!(std::fs::read_to_string(file).unwrap().contains("\"good\": 5"));
    let output = petasos(["bench", &origin.url(), "-n", "5", "--json", "/nonexistent/run.json"]);
    assert_eq!(output.code, Some(2));
    assert!(output.stdout.contains("Complete requests:      5\n"), "{}", output.stdout);
    assert!(output.stderr.contains("cannot write /nonexistent/run.json"), "{}", output.stderr);
}

#[test]
fn failures_say_one() {
    let origin = Origin::start(|_| response("503 Service Unavailable", &[], b"no"));
    let output = petasos(["bench", &origin.url(), "-n", "5"]);
    assert_eq!(output.code, Some(1));
    assert!(output.stdout.contains("Failed by kind:         status 5\n"), "{}", output.stdout);
    let expected = petasos(["bench", &origin.url(), "-n", "5", "--expect-status", "503"]);
    assert_eq!(expected.code, Some(0));
}

#[test]
fn what_cannot_run_says_two_and_the_reason() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let refusing = format!("http://{}/", listener.local_addr().unwrap());
    drop(listener);
    for (arguments, reason) in [
        (&["https://127.0.0.1/"][..], "the scheme https is not supported"),
        (&["127.0.0.1"], "is not a URL"),
        (&["http://nowhere.invalid/"], "nowhere.invalid"),
        (&[&refusing], "refused"),
        (&["http://127.0.0.1/", "-c", "0"], "number of users"),
        (&["http://127.0.0.1/", "--body", "/nonexistent"], "cannot read /nonexistent"),
        (&["http://127.0.0.1/", "--pipeline", "2"], "--pipeline"),
        (&["http://127.0.0.1/", "-H", "nonsense"], "not a header field"),
        (&["http://127.0.0.1/", "-t", "soon"], "soon"),
    ] {
        let output = petasos([&["bench"][..], arguments].concat());
        assert_eq!((output.code, output.stdout.as_str()), (Some(2), ""), "{arguments:?}");
        assert!(output.stderr.contains(reason), "{arguments:?}: {}", output.stderr);
    }
}

#[test]
fn an_interrupt_keeps_what_was_measured() {
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
    assert!(text.contains("Failed requests:        0\n"), "{text}");
    assert!(text.contains("Ended early:            stopped\n"), "{text}");
    let mut stuck = start(&[&format!("{}/slow", origin.url())]);
    eventually("the slow request arrives", || origin.count("/slow") == 1);
    interrupt(&stuck);
    assert_eq!(stuck.wait().unwrap().code(), Some(1));
    gate.open();
}

#[test]
fn a_closed_pipe_is_a_quiet_success() {
    let origin = good_origin();
    let mut child = start(&[&origin.url(), "-n", "500"]);
    drop(child.stdout.take());
    let mut stderr = String::new();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    assert_eq!((child.wait().unwrap().code(), stderr.as_str()), (Some(0), ""));
}
