//! `petasos ab --plain` prints the same output as `ab`, even if servers misbehave. Only timings
//! differ.

use crate::beside::{SAME_NAME, answer, ours, theirs};
use crate::lines::{same, without_warnings};
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use testkit::{Action, CommandOutput, Gate, Origin, Seen, response};

const PAGE: &[u8] = b"hello world";

/// Number of lines that name the program; both programs print as many.
pub(crate) const BANNER_LINES: usize = 3;

pub(crate) type OriginScript = fn(&Seen, usize) -> Vec<Action>;

/// An origin that numbers its requests from 0.
fn numbered(script: OriginScript) -> Origin {
    let number = AtomicUsize::new(0);
    Origin::start(move |seen| script(seen, number.fetch_add(1, Ordering::SeqCst)))
}

pub(crate) fn page(seen: &Seen, _: usize) -> Vec<Action> {
    answer("200 OK", seen, PAGE)
}

pub(crate) fn missing(seen: &Seen, _: usize) -> Vec<Action> {
    answer("404 Not Found", seen, b"nope")
}

pub(crate) fn moved(seen: &Seen, _: usize) -> Vec<Action> {
    answer("302 Found", seen, b"")
}

pub(crate) fn sometimes_missing(seen: &Seen, number: usize) -> Vec<Action> {
    if number % 3 == 2 { missing(seen, number) } else { page(seen, number) }
}

pub(crate) fn of_three_lengths(seen: &Seen, number: usize) -> Vec<Action> {
    answer("200 OK", seen, &vec![b'x'; number % 3 + 5])
}

/// Sends less content than the head announced, then closes.
pub(crate) fn cut(seen: &Seen, _: usize) -> Vec<Action> {
    let mut actions = answer("200 OK", seen, PAGE);
    if let Some(Action::Send(octets)) = actions.first_mut() {
        octets.truncate(octets.len() - 6);
    }
    vec![actions.swap_remove(0), Action::Close]
}

pub(crate) fn sometimes_cut(seen: &Seen, number: usize) -> Vec<Action> {
    if number % 3 == 2 { cut(seen, number) } else { page(seen, number) }
}

fn closed(_: &Seen, _: usize) -> Vec<Action> {
    vec![Action::Close]
}

fn sometimes_closed(seen: &Seen, number: usize) -> Vec<Action> {
    if number % 4 == 3 { vec![Action::Close] } else { page(seen, number) }
}

fn sometimes_reset(seen: &Seen, number: usize) -> Vec<Action> {
    if number % 4 == 3 { vec![Action::Reset] } else { page(seen, number) }
}

fn half_a_head(_: &Seen, _: usize) -> Vec<Action> {
    vec![Action::Send(b"HTTP/1.1 200 OK\r\nX: y\r\n".to_vec()), Action::Close]
}

fn without_length(_: &Seen, _: usize) -> Vec<Action> {
    vec![Action::Send(b"HTTP/1.1 200 OK\r\n\r\nhello".to_vec()), Action::Close]
}

fn in_chunks(_: &Seen, _: usize) -> Vec<Action> {
    let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    vec![Action::Send(format!("{head}5\r\nhello\r\n0\r\n\r\n").into_bytes()), Action::Close]
}

fn too_much(_: &Seen, _: usize) -> Vec<Action> {
    let mut actions = response("200 OK", &["Connection: close"], PAGE);
    if let Some(Action::Send(octets)) = actions.first_mut() {
        octets.extend_from_slice(b" and more");
    }
    actions.push(Action::Close);
    actions
}

fn silent(_: &Seen, _: usize) -> Vec<Action> {
    vec![Action::Await(Gate::default())]
}

fn slow(seen: &Seen, number: usize) -> Vec<Action> {
    let mut actions = page(seen, number);
    actions.insert(0, Action::Pause(Duration::from_millis(5)));
    actions
}

/// Output of a program, with the port of its server replaced.
struct ProgramOutput {
    stdout: Vec<String>,
    stderr: String,
}

/// Runs a program against its own server.
fn run(script: OriginScript, arguments: &[&str], program: fn(&[&str]) -> CommandOutput) -> ProgramOutput {
    let origin = numbered(script);
    let url = format!("{}/page?x=1", origin.url());
    let port = url.split([':', '/']).nth(4).unwrap().to_owned();
    let output = program(&[arguments, &[&url]].concat());
    let named = |text: &str| text.replace(&port, "PORT");
    // With HTML output, a paragraph begins before the lines that name the program.
    let banner_lines = BANNER_LINES + usize::from(output.stdout.starts_with("<p>"));
    let stdout = without_warnings(&named(&output.stdout)).into_iter().skip(banner_lines).collect();
    ProgramOutput { stdout, stderr: named(&output.stderr) }
}

pub(crate) fn plain(arguments: &[&str]) -> CommandOutput {
    ours(&[&["--plain"], arguments].concat())
}

/// Runs both programs with these arguments and compares their complete output.
pub(crate) fn compare(script: OriginScript, line: &str) {
    let arguments: Vec<&str> = line.split(' ').filter(|word| !word.is_empty()).collect();
    compare_words(script, &arguments);
}

fn compare_words(script: OriginScript, arguments: &[&str]) {
    let theirs = run(script, arguments, theirs);
    let ours = run(script, arguments, plain);
    same(&ours.stdout, &theirs.stdout, arguments);
    assert_eq!(ours.stderr, theirs.stderr, "{arguments:?}");
}

/// Command lines against a server that behaves correctly.
pub(crate) const GOOD_LINES: [&str; 19] = [
    "",
    "-n 12",
    "-n 12 -c 3",
    "-k -n 12",
    "-k -n 12 -c 4",
    "-n 12 -S",
    "-n 12 -d",
    "-n 12 -S -d",
    "-n 12 -q",
    "-n 160",
    "-n 160 -q",
    "-n 12 -i",
    "-n 12 -i -k",
    "-n 12 -l",
    "-n 12 -r -v 1",
    "-n 12 -C a=b -A u:p -H X:1",
    "-t 20 -n 12",
    "-n 12 -s 5 -b 8192",
    "-n 12 -m OPTIONS",
];

#[test]
fn plain_reports_match_ab_for_good_servers() {
    GOOD_LINES.iter().for_each(|line| compare(page, line));
    compare(slow, "-k -n 6 -c 2");
}

#[test]
fn plain_reports_match_ab_for_requests_with_content() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("form");
    std::fs::write(&file, "a=1&b=2").unwrap();
    for arguments in [&["-p"][..], &["-k", "-T", "a/b", "-p"], &["-u"], &["-w", "-p"]] {
        compare_words(page, &[&SAME_NAME[..], &["-n", "6"], arguments, &[file.to_str().unwrap()]].concat());
    }
}

/// Servers that misbehave or return errors, and the command lines run against them.
pub(crate) const BAD_SERVERS: [(OriginScript, &str); 23] = [
    (missing, "-n 12"),
    (missing, "-n 12 -c 3"),
    (missing, "-k -n 12"),
    (moved, "-n 12"),
    (sometimes_missing, "-n 12"),
    (sometimes_missing, "-n 12 -l"),
    (of_three_lengths, "-n 12"),
    (of_three_lengths, "-k -n 12 -l"),
    (cut, "-n 12"),
    (cut, "-n 12 -r -c 3"),
    (cut, "-k -n 6"),
    (sometimes_cut, "-n 12"),
    (sometimes_cut, "-k -r -n 12"),
    (closed, "-n 12"),
    (sometimes_closed, "-n 12"),
    (sometimes_closed, "-k -n 12"),
    (sometimes_reset, "-r -n 12"),
    (sometimes_reset, "-n 12"),
    (half_a_head, "-n 6"),
    (without_length, "-n 6"),
    (in_chunks, "-n 6"),
    (too_much, "-n 6"),
    (silent, "-s 1"),
];

#[test]
fn plain_reports_match_ab_for_bad_servers() {
    BAD_SERVERS.iter().for_each(|(script, line)| compare(*script, line));
}

#[test]
fn plain_runs_without_a_server_end_like_ab() {
    for url in ["http://127.0.0.1:1/", "http://no.such.host.invalid/"] {
        let theirs = theirs(&["-n", "3", url]);
        let ours = plain(&["-n", "3", url]);
        let after =
            |output: &CommandOutput| output.stdout.lines().skip(BANNER_LINES).map(str::to_owned).collect();
        let (their_lines, our_lines): (Vec<String>, Vec<String>) = (after(&theirs), after(&ours));
        assert_eq!(our_lines, their_lines);
        // The number after the resolver's message is specific to `ab`'s library, so it is not
        // compared.
        let reason = |output: &CommandOutput| output.stderr.split(" (").next().unwrap().trim().to_owned();
        assert_eq!(reason(&ours), reason(&theirs));
    }
}

/// Output of a shell pipeline that reads this text.
fn piped(text: &str, pipeline: &str) -> String {
    let mut shell = Command::new("sh")
        .args(["-c", pipeline])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // A pipeline may end before it has read everything, so a write error is ignored.
    let _ = shell.stdin.take().unwrap().write_all(text.as_bytes());
    String::from_utf8(shell.wait_with_output().unwrap().stdout).unwrap()
}

/// Pipelines that extract a field from `ab`'s report. The flag is set for timings: those must give
/// a number from both programs, all others the same text.
pub(crate) const IDIOMS: [(&str, bool); 15] = [
    ("awk '/^Complete requests/ {print $3}'", false),
    ("grep 'Failed requests' | awk '{print $3}'", false),
    ("awk '/^Failed requests/ {getline; print}'", false),
    ("awk '/Non-2xx/ {print $3}'", false),
    ("sed -n 's/^Document Length: *\\([0-9]*\\) bytes/\\1/p'", false),
    ("awk -F: '/^Concurrency Level/ {print $2 + 0}'", false),
    ("sed -n '14,15p'", false),
    ("sed -n '/^Percentage/,$p' | wc -l", false),
    ("grep -c '%'", false),
    ("awk '/^Requests per second/ {print $4}'", true),
    ("awk '/^Time per request/ {print $4; exit}'", true),
    ("grep 'Transfer rate' | tr -s ' ' | cut -d' ' -f3", true),
    ("grep -E '^ +95%' | awk '{print $2}'", true),
    ("tail -n 1 | awk '{print $2}'", true),
    ("awk '/^Total:/ {print $6}'", true),
];

#[test]
fn idioms_of_awk_grep_and_sed_find_the_same_fields() {
    for script in [page as OriginScript, sometimes_missing] {
        let text = |program: fn(&[&str]) -> CommandOutput| {
            let origin = numbered(script);
            program(&["-n", "30", &format!("{}/", origin.url())]).stdout
        };
        let theirs = text(theirs);
        let ours = text(plain);
        for (pipeline, is_timed) in IDIOMS {
            let their = piped(&theirs, pipeline);
            let our = piped(&ours, pipeline);
            if is_timed {
                let is_number = |text: &str| text.trim().parse::<f64>().is_ok();
                assert!(is_number(&their) && is_number(&our), "{pipeline}: {our:?} and {their:?}");
            } else {
                assert_eq!(our, their, "{pipeline}");
            }
        }
    }
}
