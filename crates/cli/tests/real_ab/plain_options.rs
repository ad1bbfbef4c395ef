//! `petasos ab --plain` beside `ab`: options that change the request, the connection or the layout;
//! https; proxies. The last test counts how many command lines are compared in total.

use crate::beside::{answer, page as page_origin, theirs};
use crate::lines::same;
use crate::plain::{
    BAD_SERVERS, BANNER_LINES, GOOD_LINES, IDIOMS, OriginScript, compare, cut, missing, page, plain,
};
use std::collections::BTreeSet;
use testkit::{Action, Certificate, CommandOutput, Gate, Seen, TlsFront};

fn broken(seen: &Seen, _: usize) -> Vec<Action> {
    answer("500 Internal Server Error", seen, b"oh")
}

fn empty(seen: &Seen, _: usize) -> Vec<Action> {
    answer("200 OK", seen, b"")
}

/// Header lines that end with LF alone.
fn bare_lines(_: &Seen, _: usize) -> Vec<Action> {
    let text = "HTTP/1.1 200 OK\nServer: x\nContent-Length: 5\n\nhello";
    vec![Action::Send(text.into()), Action::Close]
}

fn old(_: &Seen, _: usize) -> Vec<Action> {
    let text = "HTTP/1.0 200 OK\r\nServer: x y z/1 (test)\r\n\r\nhello";
    vec![Action::Send(text.into()), Action::Close]
}

/// Stops sending in the middle of a response.
fn stalled(_: &Seen, _: usize) -> Vec<Action> {
    let text = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel";
    vec![Action::Send(text.into()), Action::Await(Gate::default())]
}

/// Command lines with options for requests, connections and files.
const OPTION_LINES: [&str; 22] = [
    "-n 12 -H A:1 -H B:2 -H Accept:text/html",
    "-n 12 -C a=b -C c=d",
    "-n 12 -A nocolon",
    "-n 12 -P u:p",
    "-n 12 -T text/plain",
    "-n 12 -B 127.0.0.9",
    "-n 12 -b 0",
    "-n 12 -I",
    "-n 12 -f TLS1.2",
    "-n 12 -Z HIGH",
    "-n 12 -v 0",
    "-kiq -n 12 -c 2",
    "-kn12 -c2",
    "-n 12 -m PATCH",
    "-n 12 -m HEAD",
    "-n 12 -r -k -c 4",
    "-n 12 -l -k -S -d -q",
    "-n 1 -d",
    "-n 12 -e /dev/null -g /dev/null",
    "-n 12 -p /dev/null",
    "-n 12 -u /dev/null",
    "-n 12 -s 5 -c 12",
];

/// Command lines with the report as an HTML table.
const TABLE_LINES: [(OriginScript, &str); 8] = [
    (page, "-w -n 6"),
    (page, "-w -k -n 6"),
    (page, "-w -i -n 6"),
    (page, "-w -l -n 6"),
    (page, "-w -n 160"),
    (page, "-n 6 -x border=1 -y align=left -z class=x"),
    (missing, "-w -n 6"),
    (cut, "-w -n 6"),
];

/// More servers that misbehave.
const MORE_SERVERS: [(OriginScript, &str); 7] = [
    (broken, "-n 6"),
    (broken, "-k -i -n 6"),
    (empty, "-n 6"),
    (empty, "-k -n 6"),
    (bare_lines, "-k -n 6"),
    (old, "-n 6"),
    (stalled, "-s 1 -n 2"),
];

/// Command lines for a target behind TLS or a proxy.
const TLS_LINES: [&str; 4] = ["-n 6", "-k -n 6 -c 2", "-f TLS1.2 -n 6", "-n 6 -I -S"];

#[test]
fn plain_reports_match_ab_with_other_options() {
    OPTION_LINES.iter().for_each(|line| compare(page, line));
}

#[test]
fn plain_html_tables_match_ab() {
    TABLE_LINES.iter().for_each(|(script, line)| compare(*script, line));
}

#[test]
fn plain_reports_match_ab_for_odd_responses() {
    MORE_SERVERS.iter().for_each(|(script, line)| compare(*script, line));
}

/// Runs both programs for a URL and compares their complete output.
fn compare_at(url: &str, line: &str) {
    let arguments: Vec<&str> = line.split(' ').chain([url]).collect();
    let [theirs, ours] = [theirs, plain].map(|run| run(&arguments));
    let lines = |output: &CommandOutput| -> Vec<String> {
        let lines = crate::lines::without_warnings(&output.stdout);
        lines.into_iter().skip(BANNER_LINES).collect()
    };
    same(&lines(&ours), &lines(&theirs), &arguments);
    assert_eq!(ours.stderr, theirs.stderr, "{arguments:?}");
}

#[test]
fn plain_reports_match_ab_with_tls_and_proxies() {
    let origin = page_origin();
    let front = TlsFront::start(origin.address(), Certificate::Good);
    for line in TLS_LINES {
        compare_at(&format!("https://localhost:{}/page", front.address.port()), line);
    }
    compare_at("http://site.invalid:8081/page?x", &format!("-n 4 -X {}", origin.address()));
    compare_at("http://site.invalid/", &format!("-k -n 4 -P u:p -X {}", origin.address()));
}

#[test]
fn plain_version_has_as_many_lines_as_that_of_ab() {
    let [theirs, ours] = [theirs, plain].map(|run| run(&["-V"]));
    assert_eq!(ours.stdout.lines().count(), theirs.stdout.lines().count(), "{}", ours.stdout);
    assert_eq!((ours.code, theirs.code), (Some(0), Some(0)));
}

#[test]
fn documented_number_of_comparisons_is_correct() {
    // The address of a script identifies its origin.
    let with = |lines: &[(OriginScript, &str)]| -> BTreeSet<(usize, String)> {
        lines.iter().map(|(script, line)| (*script as usize, (*line).to_owned())).collect()
    };
    let good = GOOD_LINES
        .iter()
        .chain(&OPTION_LINES)
        .map(|line| (page as OriginScript as usize, (*line).to_owned()));
    let mut lines: BTreeSet<_> = good.collect();
    lines.extend(with(&BAD_SERVERS));
    lines.extend(with(&TABLE_LINES));
    lines.extend(with(&MORE_SERVERS));
    // The slow server (1), content (4), no server (2), TLS, proxies (2) and `-V` (1).
    let others = 1 + 4 + 2 + TLS_LINES.len() + 2 + 1;
    let lines = lines.len() + others;
    let idioms = IDIOMS.len();
    println!("ab beside petasos ab --plain: {lines} command lines, {idioms} idioms");
    let claim = format!(
        "A test compares both on {lines} command lines, misbehaving servers included, and {idioms} idioms"
    );
    let document = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/ab.md")).unwrap();
    assert!(document.contains(&claim), "docs/ab.md does not say: {claim}");
    assert!(lines >= 40 && idioms >= 15);
}
