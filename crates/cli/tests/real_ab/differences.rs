//! Intended differences between the two programs.

use crate::beside::{answer, origin, ours, page, theirs};
use crate::lines::{number, report};
use std::sync::atomic::{AtomicUsize, Ordering};
use testkit::{Action, Gate, Origin, response};

/// The only difference in meaning: `ab` counts responses without status 2xx as successes.
#[test]
fn error_responses_fail_and_the_report_gives_the_count_of_ab() {
    let origin = origin("404 Not Found", |_, _| b"hello world".to_vec());
    let url = format!("{}/", origin.url());
    let theirs = theirs(&["-n", "10", &url]).stdout;
    let ours = ours(&["-n", "10", &url]);
    assert!(theirs.contains("Failed requests:        0\nNon-2xx responses:      10\n"), "{theirs}");
    assert!(ours.stdout.contains("Failed requests:        10\n"), "{}", ours.stdout);
    assert!(ours.stdout.contains("Non-2xx responses:      10\n"), "{}", ours.stdout);
    assert!(ours.stdout.contains("ab would have reported 0 failed requests"), "{}", ours.stdout);
    assert_eq!(ours.code, Some(1));
}

/// An origin that resets the connection at every fourth request.
fn breaking() -> Origin {
    let number = AtomicUsize::new(0);
    Origin::start(move |seen| match number.fetch_add(1, Ordering::SeqCst) % 4 {
        3 => vec![Action::Reset],
        _ => answer("200 OK", seen, b"hello world"),
    })
}

#[test]
fn broken_connection_counts_once_and_the_run_has_a_report() {
    let url = |origin: &Origin| format!("{}/", origin.url());
    let one = breaking();
    let other = breaking();
    let their = report(&theirs(&["-r", "-n", "8", &url(&one)]).stdout);
    let our = report(&ours(&["-r", "-n", "8", &url(&other)]).stdout);
    // `ab` counts a broken connection once as broken and once as of another length. If the system
    // also reports an error, it counts a third time.
    let their_failed = number(&their, "Failed requests:").unwrap();
    assert!(their_failed >= 4.0 && number(&their, "Complete requests:") == Some(8.0), "{their:#?}");
    assert!(our.contains(&"   (Connect: 0, Receive: 2, Length: 0, Exceptions: 0)".to_owned()), "{our:#?}");
    assert_eq!(number(&our, "Failed requests:"), Some(2.0), "{our:#?}");
    let one = breaking();
    let other = breaking();
    let their = theirs(&["-n", "8", &url(&one)]);
    let our = ours(&["-n", "8", &url(&other)]);
    assert!(their.code != Some(0) && !their.stdout.contains("Server Software"), "{}", their.stdout);
    assert!(our.stderr.contains("-r goes on") && our.code == Some(1), "{}", our.stderr);
    assert_eq!(number(&report(&our.stdout), "Complete requests:"), Some(3.0), "{}", our.stdout);
}

#[test]
fn request_without_response_counts_as_failed() {
    let origin = Origin::start(|_| vec![Action::Await(Gate::default())]);
    let url = format!("{}/", origin.url());
    let their = theirs(&["-s", "1", &url]);
    let our = ours(&["-s", "1", &url]);
    assert!(their.code != Some(0) && !their.stdout.contains("Server Software"), "{}", their.stdout);
    assert!(our.stdout.contains("(Connect: 0, Receive: 0, Length: 0, Exceptions: 1)"), "{}", our.stdout);
    assert_eq!(our.code, Some(1));
}

#[test]
fn chunked_responses_are_read_to_their_end() {
    let origin = Origin::start(|_| {
        let mut actions = response("200 OK", &["Connection: Keep-Alive"], b"");
        let chunked = "HTTP/1.1 200 OK\r\nConnection: Keep-Alive\r\nTransfer-Encoding: chunked\r\n\r\n\
                       5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n";
        actions[0] = Action::Send(chunked.as_bytes().to_vec());
        actions
    });
    let url = format!("{}/", origin.url());
    let our = report(&ours(&["-k", "-n", "4", &url]).stdout);
    assert_eq!(number(&our, "Document Length:"), Some(11.0), "{our:#?}");
    assert_eq!(number(&our, "HTML transferred:"), Some(44.0), "{our:#?}");
    let their = report(&theirs(&["-k", "-n", "4", &url]).stdout);
    assert_ne!(number(&their, "Document Length:"), Some(11.0), "{their:#?}");
}

#[test]
fn response_that_is_not_http_is_an_exception() {
    let origin = Origin::start(|_| vec![Action::Send(b"hello\r\n\r\nworld".to_vec()), Action::Close]);
    let url = format!("{}/", origin.url());
    let their = theirs(&["-n", "2", &url]).stdout;
    assert!(their.contains("Non-2xx responses:      2\n"), "{their}");
    assert!(their.contains("Document Length:        5 bytes"), "{their}");
    let our = ours(&["-n", "2", &url]).stdout;
    assert!(our.contains("(Connect: 0, Receive: 0, Length: 0, Exceptions: 2)"), "{our}");
    let plain = ours(&["--plain", "-n", "2", &url]).stdout;
    assert!(plain.contains("Complete requests:      2\n") && !plain.contains("Non-2xx"), "{plain}");
    assert!(plain.contains("Document Length:        0 bytes"), "{plain}");
}

#[test]
fn response_head_of_9_kb_ends_only_the_run_of_ab() {
    let origin = Origin::start(|_| {
        let head = format!("HTTP/1.1 200 OK\r\nX: {}\r\nContent-Length: 5\r\n\r\n", "x".repeat(9000));
        vec![Action::Send(format!("{head}hello").into_bytes()), Action::Close]
    });
    let url = format!("{}/", origin.url());
    let their = theirs(&["-n", "2", &url]).stdout;
    assert!(!their.contains("Server Software"), "{their}");
    let plain = ours(&["--plain", "-n", "2", &url]).stdout;
    assert!(plain.contains("Complete requests:      2\n"), "{plain}");
}

#[test]
fn several_cookies_are_all_sent() {
    let origin = page();
    let url = format!("{}/", origin.url());
    let arguments = ["-C", "a=1", "-C", "b=2", &url];
    let codes = [theirs(&arguments).code, ours(&arguments).code];
    assert_eq!(codes, [Some(0); 2]);
    let cookies: Vec<_> = origin.seen().iter().map(|seen| seen.field("Cookie").map(str::to_owned)).collect();
    assert_eq!(cookies, [Some("b=2".to_owned()), Some("a=1; b=2".to_owned())]);
}

#[test]
fn options_that_ab_misreads_are_refused_or_work() {
    let origin = page();
    let url = format!("{}/", origin.url());
    for (arguments, their_code, our_code) in [
        (&["-n", "2x"][..], Some(0), Some(2)),
        (&["-b", "-5"], Some(0), Some(2)),
        (&["-H", "nonsense"], Some(0), Some(2)),
        (&["-m", "PATCH", "-p", "/dev/null"], Some(1), Some(0)),
        (&["-t", "0", "-n", "2"], Some(0), Some(0)),
    ] {
        let arguments = [arguments, &[&url]].concat();
        let codes = (theirs(&arguments).code, ours(&arguments).code);
        assert_eq!(codes, (their_code, our_code), "{arguments:?}");
    }
    let before = origin.seen().len();
    for run in [theirs, ours] {
        run(&["-A", "a:b", "-A", "c:d", &url]);
    }
    let seen = origin.seen().split_off(before);
    let count = |place: usize| seen[place].head.matches("Authorization: Basic").count();
    assert_eq!((count(0), count(1)), (2, 1), "{seen:#?}");
}
