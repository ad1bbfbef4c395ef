//! `petasos ab` beside the real `ab`, against the same server: labels, columns and meanings, line by line.
//! The real one must be installed; without it these tests fail and say so.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on panics")]
#![allow(clippy::indexing_slicing, reason = "a test that cannot go on panics")]

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use testkit::{Action, Origin, Output, Seen, petasos, response};

/// Lines whose values depend on time or on the program's own name, so that only their form is compared.
const TIMED: [&str; 6] =
    ["Time taken", "Requests per second", "Time per request", "Transfer rate", "Total body sent", "      "];

/// Runs the real `ab`.
fn ab(arguments: &[&str]) -> Output {
    let output = Command::new("ab").args(arguments).stdin(Stdio::null()).output();
    let output = output.unwrap_or_else(|error| {
        panic!("cannot run ab ({error}): install it from Debian's package apache2-utils")
    });
    Output {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// An origin that behaves as servers do toward HTTP/1.0: it closes unless asked to keep the connection.
fn origin(status: &'static str, body: impl Fn(&Seen, usize) -> Vec<u8> + Send + Sync + 'static) -> Origin {
    let number = AtomicUsize::new(0);
    Origin::start(move |seen| {
        let kept = seen.field("Connection").is_some_and(|value| value == "Keep-Alive");
        let body = body(seen, number.fetch_add(1, Ordering::SeqCst));
        let connection = if kept { "Connection: Keep-Alive" } else { "Connection: close" };
        let mut actions = response(status, &["Server: Tester/1.0 (test)", connection], &body);
        if seen.head.starts_with("HEAD")
            && let Some(Action::Send(octets)) = actions.first_mut()
        {
            octets.truncate(octets.len() - body.len());
        }
        if !kept {
            actions.push(Action::Close);
        }
        actions
    })
}

/// The report's lines: from `Server Software` on, without what stands below `ab`'s layout, and without the
/// warnings about the spread, which the times of a run may or may not call for.
fn report(stdout: &str) -> Vec<String> {
    let start = stdout.find("Server Software:").unwrap_or_else(|| panic!("no report in {stdout}"));
    let report = stdout[start..].split("\nBeyond ab\n").next().unwrap();
    let warnings =
        ["WARNING: The median", "ERROR: The median", "        These results", "       deviation apart"];
    let is_warning = |line: &&str| warnings.iter().any(|warning| line.starts_with(warning));
    report.trim_end().lines().filter(|line| !is_warning(line)).map(str::to_owned).collect()
}

/// A line with the form of its numbers only: every number becomes `9`, or `9.99` with as many places as it has.
/// Padding before a number is cut, because wide numbers have less of it; [`ends`] looks at columns.
fn form(line: &str) -> String {
    let mut form = String::new();
    let mut in_fraction = false;
    for character in line.chars() {
        let after_digit = form.ends_with('9');
        match character {
            '0'..='9' if after_digit && !in_fraction => {}
            '0'..='9' => {
                form.truncate(if after_digit { form.len() } else { form.trim_end().len() });
                form.push('9');
            }
            '.' if after_digit => {
                form.push('.');
                in_fraction = true;
                continue;
            }
            other => form.push(other),
        }
        in_fraction &= character.is_ascii_digit();
    }
    form
}

/// Where the columns of a table row end.
fn ends(row: &str) -> Vec<usize> {
    let characters: Vec<char> = row.chars().collect();
    let is_end =
        |at: &usize| characters[*at] != ' ' && characters.get(at + 1).is_none_or(|next| *next == ' ');
    (0..characters.len()).filter(is_end).collect()
}

/// Runs both with the same arguments and compares their reports.
fn compare(origin: &Origin, arguments: &[&str]) {
    let url = format!("{}/page?x=1", origin.url());
    let arguments = [arguments, &[&url]].concat();
    let theirs = report(&ab(&arguments).stdout);
    let ours = report(&petasos([&["ab"][..], &arguments[..]].concat()).stdout);
    assert_eq!(ours.len(), theirs.len(), "{arguments:?}\nours: {ours:#?}\ntheirs: {theirs:#?}");
    for (our, their) in ours.iter().zip(&theirs) {
        let said = format!("{arguments:?}\nours:   {our}\ntheirs: {their}");
        assert_eq!(form(our), form(their), "{said}");
        let is_row =
            ["Connect:", "Processing:", "Waiting:", "Total:"].iter().any(|label| our.starts_with(label));
        if is_row || our.contains('%') {
            assert_eq!(ends(our), ends(their), "{said}");
        } else if !TIMED.iter().any(|label| our.starts_with(label)) {
            assert_eq!(our, their, "{arguments:?}");
        }
    }
}

#[test]
fn plain_requests() {
    let origin = origin("200 OK", |_, _| b"hello world".to_vec());
    compare(&origin, &["-n", "40", "-c", "4"]);
    compare(&origin, &["-n", "2"]);
    compare(&origin, &[]);
}

#[test]
fn kept_connections() {
    let origin = origin("200 OK", |_, _| b"hello world".to_vec());
    compare(&origin, &["-k", "-n", "40", "-c", "4"]);
    compare(&origin, &["-kn40", "-H", "Accept-Encoding: gzip", "-C", "a=b"]);
}

#[test]
fn optional_parts() {
    let origin = origin("200 OK", |_, _| b"hello world".to_vec());
    compare(&origin, &["-n", "20", "-S"]);
    compare(&origin, &["-n", "20", "-d"]);
    compare(&origin, &["-n", "20", "-S", "-d", "-q"]);
    compare(&origin, &["-n", "20", "-i"]);
}

#[test]
fn requests_with_content() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("form");
    std::fs::write(&file, "a=1&b=2").unwrap();
    let file = file.to_str().unwrap();
    let origin = origin("200 OK", |seen, _| seen.head.split(' ').next().unwrap().as_bytes().to_vec());
    compare(&origin, &["-n", "10", "-p", file, "-T", "application/x-www-form-urlencoded"]);
    compare(&origin, &["-n", "10", "-u", file]);
    assert!(origin.seen().iter().all(|seen| seen.body == b"a=1&b=2"));
    assert_eq!(origin.seen().iter().filter(|seen| seen.head.starts_with("PUT")).count(), 20);
}

#[test]
fn lengths_that_differ() {
    // The first answer is the only one of its length, so both count all others as failed.
    let origin = origin("200 OK", |_, number| vec![b'x'; if number.is_multiple_of(20) { 5 } else { 6 }]);
    compare(&origin, &["-n", "20"]);
    compare(&origin, &["-n", "20", "-l"]);
}

/// The one difference in meaning: what `ab` takes for a success.
#[test]
fn error_pages_fail_here_and_the_report_says_what_ab_says() {
    let origin = origin("404 Not Found", |_, _| b"hello world".to_vec());
    let url = format!("{}/", origin.url());
    let theirs = ab(&["-n", "10", &url]).stdout;
    let ours = petasos(["ab", "-n", "10", &url]);
    assert!(theirs.contains("Failed requests:        0\nNon-2xx responses:      10\n"), "{theirs}");
    assert!(ours.stdout.contains("Failed requests:        10\n"), "{}", ours.stdout);
    assert!(ours.stdout.contains("Non-2xx responses:      10\n"), "{}", ours.stdout);
    assert!(ours.stdout.contains("ab would have reported 0 failed requests"), "{}", ours.stdout);
    assert_eq!(ours.code, Some(1));
}

#[test]
fn files_have_the_same_form() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let origin = origin("200 OK", |_, _| b"hello world".to_vec());
    let url = format!("{}/", origin.url());
    for (name, program) in [
        ("theirs", ab as fn(&[&str]) -> Output),
        ("ours", |arguments| petasos([&["ab"][..], arguments].concat())),
    ] {
        let (csv, tsv) = (path(&format!("{name}.csv")), path(&format!("{name}.tsv")));
        let output = program(&["-n", "100", "-c", "4", "-e", &csv, "-g", &tsv, &url]);
        assert_eq!(output.code, Some(0), "{}", output.stderr);
    }
    let read = |name: &str| std::fs::read_to_string(path(name)).unwrap();
    for (name, rows) in [("csv", 102), ("tsv", 101)] {
        let (ours, theirs) = (read(&format!("ours.{name}")), read(&format!("theirs.{name}")));
        assert_eq!((ours.lines().count(), theirs.lines().count()), (rows, rows));
        let first = |text: &str| text.lines().next().unwrap().to_owned();
        assert_eq!(first(&ours), first(&theirs));
        let shape = |text: &str| form(text.lines().nth(1).unwrap());
        let weekdays = |shape: String| shape.split('\t').skip(1).map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(weekdays(shape(&ours)), weekdays(shape(&theirs)));
    }
}

#[test]
fn progress_goes_to_standard_error() {
    let origin = origin("200 OK", |_, _| b"hello world".to_vec());
    let url = format!("{}/", origin.url());
    let (theirs, ours) = (ab(&["-n", "300", &url]), petasos(["ab", "-n", "300", &url]));
    assert_eq!(ours.stderr, theirs.stderr);
    assert!(
        ours.stdout.contains("\nBenchmarking 127.0.0.1 (be patient)\n\n\nServer Software:"),
        "{}",
        ours.stdout
    );
    let (theirs, ours) = (ab(&["-q", "-n", "300", &url]), petasos(["ab", "-q", "-n", "300", &url]));
    assert_eq!((ours.stderr.as_str(), theirs.stderr.as_str()), ("", ""));
    let waiting = "(be patient).....done\n\n\nServer Software:";
    assert!(ours.stdout.contains(waiting) && theirs.stdout.contains(waiting), "{}", ours.stdout);
}

#[test]
fn bad_command_lines_are_refused_by_both() {
    for arguments in [
        &["-c", "5", "-n", "4", "http://127.0.0.1/"][..],
        &["http://127.0.0.1"],
        &["-n", "5"],
        &["-n", "0", "http://127.0.0.1/"],
        &["-i", "-p", "/dev/null", "http://127.0.0.1/"],
        &["-Y", "http://127.0.0.1/"],
    ] {
        assert_ne!(ab(arguments).code, Some(0), "{arguments:?}");
        let ours = petasos([&["ab"][..], arguments].concat());
        assert_eq!((ours.code, ours.stdout.as_str()), (Some(2), ""), "{arguments:?}");
        assert!(ours.stderr.starts_with("petasos: ab: "), "{arguments:?}: {}", ours.stderr);
    }
}
