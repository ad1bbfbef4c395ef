//! The command line: every option letter of `ab`, and the command lines that both programs refuse.

use crate::beside::{ours, page, theirs};

/// The option letters in a usage text.
fn letters(usage: &str) -> Vec<char> {
    let mut letters: Vec<char> =
        usage.lines().filter_map(|line| line.strip_prefix("    -")?.chars().next()).collect();
    letters.sort_unstable();
    letters
}

#[test]
fn every_option_letter_of_ab_is_accepted() {
    let their = theirs(&["-h"]);
    let our = ours(&["-h"]);
    assert_eq!(letters(&our.stdout), letters(&their.stderr));
    assert!(letters(&our.stdout).len() >= 34, "{}", our.stdout);
    assert_eq!((their.code, our.code), (Some(22), Some(0)));
    assert_eq!((theirs(&["-V"]).code, ours(&["-V"]).code), (Some(0), Some(0)));
}

/// Checks that `petasos ab` refuses a command line with a message and exit code 2.
fn is_refused_here(arguments: &[&str]) {
    let our = ours(arguments);
    assert_eq!(our.code, Some(2), "{arguments:?}: {}", our.stdout);
    assert!(!our.stdout.contains("Server Software"), "{arguments:?}: {}", our.stdout);
    assert!(our.stderr.starts_with("petasos: "), "{arguments:?}: {}", our.stderr);
}

#[test]
fn bad_command_lines_are_refused_by_both() {
    // The server answers, so only the command line can be the reason.
    let origin = page();
    let url = format!("{}/", origin.url());
    for arguments in [
        &["-c", "5", "-n", "4", &url][..],
        &[&origin.url()],
        &["ftp://127.0.0.1/"],
        &[],
        &["-n", "5"],
        &["-n"],
        &[&url, "-n", "5"],
        &["-n", "0", &url],
        &["-n", "x", &url],
        &["-n", "-1", &url],
        &["-c", "0", &url],
        &["-c", "-1", &url],
        &["-i", "-p", "/dev/null", &url],
        &["-p", "/dev/null", "-u", "/dev/null", &url],
        &["-p", "/nonexistent/file", &url],
        &["-u", "/nonexistent/file", &url],
        &["-B", "192.0.2.1", &url],
        &["-B", "no.such.host.invalid", &url],
        &["-X", "127.0.0.1", &url],
    ] {
        let their = theirs(arguments);
        let is_refused = their.code != Some(0) && !their.stdout.contains("Server Software");
        assert!(is_refused, "{arguments:?}: {}", their.stdout);
        is_refused_here(arguments);
    }
    assert!(origin.seen().is_empty());
}

#[test]
fn unknown_options_that_ab_ignores_are_refused() {
    let origin = page();
    let url = format!("{}/", origin.url());
    for arguments in [&["-J", &url][..], &["-Y", &url], &["-Q", &url]] {
        let their = theirs(arguments);
        assert!(their.stdout.contains("Server Software"), "{arguments:?}: {}", their.stdout);
        is_refused_here(arguments);
    }
    for arguments in [["-W", "2", &url], ["-R", "2", &url]] {
        is_refused_here(&arguments);
    }
    is_refused_here(&["--help", &url]);
}

#[test]
fn errors_name_the_option_and_the_fix() {
    let url = "http://127.0.0.1:1/";
    for (arguments, says) in [
        (["-W", "2", url], "-W (worker threads) is no option of ab 2.4"),
        (["-X", "h", url], "write HOST:PORT"),
        (["-b", "x", url], "-b"),
        (["-n", "10x", url], "invalid number of requests \"10x\" for -n"),
    ] {
        let output = ours(&arguments);
        assert!(output.stderr.contains(says) && output.stderr.contains("petasos ab -h"), "{}", output.stderr);
    }
}

#[test]
fn consent_flag_is_accepted_only_before_the_options() {
    let origin = page();
    let url = format!("{}/", origin.url());
    assert_eq!(ours(&["--yes", "-n", "2", &url]).code, Some(0));
    assert_eq!(ours(&["-n", "2", "--yes", &url]).code, Some(2));
    assert_eq!(origin.seen().len(), 2);
}

#[test]
fn option_without_effect_is_reported_and_the_run_continues() {
    let origin = page();
    let url = format!("{}/", origin.url());
    for arguments in
        [&["-I"][..], &["-f", "TLS1.2"], &["-Z", "HIGH"], &["-E", "f"], &["-T", "a/b"], &["-w", "-d"]]
    {
        let output = ours(&[arguments, &[&url]].concat());
        assert_eq!(output.code, Some(0), "{arguments:?}: {}", output.stderr);
        assert!(output.stderr.contains("has no effect: it needs"), "{arguments:?}: {}", output.stderr);
    }
}
