//! Ranges of stored pages, and which range requests share a fetch.

use crate::support::files::{DIGITS, FRESH, LETTERS, digits, file, is_part, is_whole};
use crate::support::{Stage, behind, reason};
use testkit::{Action, Gate, response};

const LAST_MODIFIED: &str = "Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT";

#[test]
fn ranges_are_served_from_a_stored_page() {
    let stage = digits();
    stage.get("/", &[]);
    for (range, content, extent) in [
        ("bytes=0-3", "0123", "0-3/10"),
        ("bytes=4-4", "4", "4-4/10"),
        ("bytes=7-", "789", "7-9/10"),
        ("bytes=-2", "89", "8-9/10"),
        ("bytes=8-99", "89", "8-9/10"),
        ("bytes=-99", DIGITS, "0-9/10"),
        ("bytes=3-4, 5-6", "3456", "3-6/10"),
    ] {
        let answer = stage.get("/", &[&format!("Range: {range}")]);
        is_part(&answer, content, extent, "hit-fresh");
        assert_eq!(answer.field("ETag"), Some("\"1\""));
    }
    for range in ["bytes=5-4", "items=0-1", "bytes=a-b", "", "bytes=0-,0-"] {
        is_whole(&stage.get("/", &[&format!("Range: {range}")]), DIGITS, "hit-fresh");
    }
    let none = stage.get("/", &["Range: bytes=10-"]);
    assert_eq!((none.status, none.field("Content-Range"), none.complete), (416, Some("bytes */10"), true));
    assert!(none.field("Date").is_some() && none.field("Via").is_some(), "{}", none.head);
    let head = stage.ask("HEAD", "/", &["Range: bytes=0-1"]);
    assert_eq!(
        (head.status, head.field("Content-Length"), head.field("Content-Range")),
        (200, Some("10"), None)
    );
    let unchanged = stage.get("/", &["Range: bytes=0-1", "If-None-Match: \"1\""]);
    assert_eq!((unchanged.status, unchanged.field("Content-Range")), (304, None));
    stage.await_seen(1);
}

#[test]
fn several_ranges_are_sent_as_multipart() {
    let stage = digits();
    stage.get("/", &[]);
    let answer = stage.get("/", &["Range: bytes=0-1, -1"]);
    assert_eq!((answer.status, answer.field("Content-Range"), answer.complete), (206, None, true));
    let boundary =
        answer.field("Content-Type").unwrap().strip_prefix("multipart/byteranges; boundary=").unwrap();
    let parts: Vec<_> = answer.text().split(&format!("--{boundary}")).collect();
    assert_eq!(parts.len(), 4, "{}", answer.text());
    for (part, extent, content) in [(parts[1], "0-1/10", "01"), (parts[2], "9-9/10", "9")] {
        assert!(part.contains(&format!("Content-Range: bytes {extent}\r\n")), "{part}");
        assert!(part.ends_with(&format!("\r\n\r\n{content}\r\n")), "{part}");
    }
    assert_eq!(parts[3].trim_end(), "--");
}

#[test]
fn if_range_needs_a_strong_match() {
    for (tag, holds) in [("\"1\"", true), ("W/\"1\"", false)] {
        let stage = Stage::new(move |_| {
            response("200 OK", &[FRESH, &format!("ETag: {tag}"), LAST_MODIFIED], DIGITS.as_bytes())
        });
        stage.get("/", &[]);
        for (validator, holds) in [
            ("\"1\"", holds),
            ("W/\"1\"", false),
            ("\"2\"", false),
            ("Sun, 06 Nov 1994 08:49:37 GMT", true),
            ("Sun, 06 Nov 1994 08:49:38 GMT", false),
        ] {
            let answer = stage.get("/", &["Range: bytes=0-1", &format!("If-Range: {validator}")]);
            assert_eq!(answer.status, if holds { 206 } else { 200 }, "{tag} {validator}");
        }
    }
}

#[test]
fn equal_ranges_share_a_fetch_only_with_equal_if_range() {
    let gate = Gate::default();
    let stage = Stage::new({
        let gate = gate.clone();
        move |seen| behind(&gate, file(seen, "\"2\"", LETTERS))
    });
    let range = "Range: bytes=0-3";
    let mut first = stage.begin("GET", "/", &[range]);
    stage.await_seen(1);
    let mut same = stage.begin("GET", "/", &[range]);
    let mut resuming = stage.begin("GET", "/", &[range, "If-Range: \"1\""]);
    stage.await_seen(2);
    gate.open();
    assert_eq!((first.read().status, same.read().status), (206, 206));
    let all = resuming.read();
    assert_eq!(
        (all.status, all.text()),
        (200, LETTERS),
        "the client's beginning is of another representation"
    );
}

#[test]
fn fetches_of_a_part_and_of_the_whole_run_independently() {
    let gate = Gate::default();
    let stage = Stage::new({
        let gate = gate.clone();
        move |seen| match seen.field("Range") {
            None => {
                let head =
                    format!("HTTP/1.1 200 OK\r\n{FRESH}\r\nETag: \"1\"\r\nContent-Length: 10\r\n\r\n01234");
                let rest = vec![Action::Send(b"56789".to_vec())];
                [vec![Action::Send(head.into_bytes())], behind(&gate, rest)].concat()
            }
            Some(_) => file(seen, "\"1\"", DIGITS),
        }
    });
    let mut whole = stage.begin("GET", "/", &[]);
    assert_eq!(whole.read_head().status, 200);
    is_part(&stage.get("/", &["Range: bytes=8-9"]), "89", "8-9/10", "miss-absent");
    is_part(&stage.get("/", &["Range: bytes=8-9"]), "89", "8-9/10", "hit-fresh");
    gate.open();
    assert_eq!(whole.read_octets(10), DIGITS.as_bytes());
    is_part(&stage.get("/", &["Range: bytes=0-1"]), "01", "0-1/10", "hit-fresh");
    is_whole(&stage.get("/", &[]), DIGITS, "hit-fresh");
    assert_eq!(stage.metric("petasos_store_objects", ""), 1);
}

#[test]
fn parts_of_coded_content_need_its_coding_accepted() {
    let stage = Stage::new(|seen| {
        let gzip = seen.field("Accept-Encoding").unwrap_or("").contains("gzip");
        let (content, tag) = if gzip { (LETTERS, "\"g\"") } else { (DIGITS, "\"1\"") };
        let mut actions = file(seen, tag, content);
        if gzip && let Some(Action::Send(octets)) = actions.first_mut() {
            let text = String::from_utf8(octets.clone()).unwrap();
            *octets = text
                .replacen("\r\n", "\r\nContent-Encoding: gzip\r\nVary: Accept-Encoding\r\n", 1)
                .into_bytes();
        }
        actions
    });
    for (range, letters, numbers) in
        [("bytes=0-1", "ab", "01"), ("bytes=2-3", "cd", "23"), ("bytes=0-3", "abcd", "0123")]
    {
        let range = format!("Range: {range}");
        assert_eq!(stage.get("/", &[&range, "Accept-Encoding: gzip"]).text(), letters);
        assert_eq!(stage.get("/", &[&range, "Accept-Encoding: identity"]).text(), numbers);
    }
    assert_eq!(stage.get("/", &["Accept-Encoding: gzip"]).text(), LETTERS);
}
#[test]
fn range_of_an_error_response_is_ignored() {
    let stage = Stage::new(|_| response("404 Not Found", &[FRESH], b"nothing"));
    for expected in ["miss-absent", "hit-fresh"] {
        let answer = stage.get("/", &["Range: bytes=0-1"]);
        assert_eq!((answer.status, answer.text(), reason(&answer)), (404, "nothing", expected));
    }
    let stage = Stage::new(|_| response("416 No", &[FRESH, "Content-Range: bytes */10"], b""));
    for _ in 0..2 {
        assert_eq!(stage.get("/", &["Range: bytes=20-"]).status, 416);
    }
    stage.await_seen(2);
}

#[test]
fn range_of_an_expired_page_revalidates_the_page() {
    let stage = digits();
    stage.get("/", &[]);
    stage.pass(60);
    is_part(&stage.get("/", &["Range: bytes=0-1"]), "01", "0-1/10", "hit-revalidated");
    is_part(&stage.get("/", &["Range: bytes=2-3"]), "23", "2-3/10", "hit-fresh");
    is_whole(&stage.get("/", &[]), DIGITS, "hit-fresh");
    stage.pass(60);
    stage.becomes(|seen| file(seen, "\"2\"", LETTERS));
    assert_eq!(stage.get("/", &["Range: bytes=0-1"]).text(), "ab");
    assert_eq!(stage.get("/", &["Range: bytes=2-3"]).text(), "cd");
    is_whole(&stage.get("/", &[]), LETTERS, "miss-expired");
}
