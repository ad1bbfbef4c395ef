//! Parts of responses: from a stored whole, from stored parts, and parts that become a whole.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on panics")]
#![allow(dead_code, reason = "each test file uses its part of the support")]

mod support;

use std::time::Duration;
use support::{Stage, bare, behind, reason};
use testkit::{Action, Client, Gate, Response, Seen, response};

const FRESH: &str = "Cache-Control: max-age=60";
const LAST_MODIFIED: &str = "Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT";
const DIGITS: &str = "0123456789";
const LETTERS: &str = "abcdefghij";

/// What a file server answers that has this content under this entity tag: it knows one range, `If-Range` and
/// `If-None-Match`.
fn file(seen: &Seen, tag: &str, content: &str) -> Vec<Action> {
    let tag_line = format!("ETag: {tag}");
    if seen.field("If-None-Match") == Some(tag) {
        return bare("304 Not Modified", &[FRESH, &tag_line]);
    }
    let unchanged = seen.field("If-Range").is_none_or(|validator| validator == tag);
    let Some((first, last)) =
        seen.field("Range").filter(|_| unchanged).and_then(|range| wanted(range, content.len()))
    else {
        return response("200 OK", &[FRESH, &tag_line], content.as_bytes());
    };
    part(first, &content[first..=last], content.len(), &tag_line)
}

fn wanted(range: &str, bytes: usize) -> Option<(usize, usize)> {
    let (first, last) = range.strip_prefix("bytes=")?.split_once('-')?;
    if first.is_empty() {
        return Some((bytes.saturating_sub(last.parse().ok()?), bytes - 1));
    }
    Some((first.parse().ok()?, last.parse().unwrap_or(bytes).min(bytes - 1)))
}

fn part(first: usize, content: &str, complete: usize, field: &str) -> Vec<Action> {
    let range = format!("Content-Range: bytes {first}-{}/{complete}", first + content.len() - 1);
    response("206 Partial Content", &[FRESH, field, &range], content.as_bytes())
}

fn digits() -> Stage {
    Stage::new(|seen| file(seen, "\"1\"", DIGITS))
}

fn is_part(answer: &Response, content: &str, range: &str, why: &str) {
    let told = (answer.status, answer.text(), answer.field("Content-Range"), reason(answer));
    assert_eq!(told, (206, content, Some(&format!("bytes {range}")[..]), why), "{}", answer.head);
    assert_eq!(answer.field("Content-Length"), Some(&content.len().to_string()[..]));
}

fn is_whole(answer: &Response, content: &str, why: &str) {
    let told = (answer.status, answer.text(), answer.field("Content-Range"), reason(answer));
    assert_eq!(told, (200, content, None, why), "{}", answer.head);
}

#[test]
fn parts_of_a_stored_whole() {
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
fn several_parts_are_told_apart() {
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
fn if_range_is_for_the_very_same_content() {
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
fn a_part_is_stored_and_grows_to_the_whole() {
    let stage = digits();
    is_part(&stage.get("/", &["Range: bytes=2-4"]), "234", "2-4/10", "miss-absent");
    is_part(&stage.get("/", &["Range: bytes=2-4"]), "234", "2-4/10", "hit-fresh");
    is_part(&stage.get("/", &["Range: bytes=3-3"]), "3", "3-3/10", "hit-fresh");
    stage.await_seen(1);
    is_part(&stage.get("/", &["Range: bytes=4-6"]), "456", "4-6/10", "miss-part");
    is_part(&stage.get("/", &["Range: bytes=2-6"]), "23456", "2-6/10", "hit-fresh");
    is_part(&stage.get("/", &["Range: bytes=0-1"]), "01", "0-1/10", "miss-part");
    is_part(&stage.get("/", &["Range: bytes=0-6"]), "0123456", "0-6/10", "hit-fresh");
    stage.await_seen(3);
    let whole = stage.get("/", &[]);
    is_whole(&whole, DIGITS, "miss-part");
    assert_eq!(
        whole.field("Cache-Status"),
        Some("Petasos; fwd=partial; fwd-status=206; ttl=60; stored; detail=miss-part")
    );
    let seen = stage.last_seen();
    assert_eq!((seen.field("Range"), seen.field("If-Range")), (Some("bytes=7-"), Some("\"1\"")));
    is_whole(&stage.get("/", &[]), DIGITS, "hit-fresh");
    stage.await_seen(4);
    assert_eq!(stage.metric("petasos_store_objects", ""), 1);
}

#[test]
fn many_tiny_parts_become_one() {
    let stage = digits();
    for at in [5, 4, 6, 3, 7, 2, 8, 1, 9, 0] {
        is_part(
            &stage.get("/", &[&format!("Range: bytes={at}-{at}")]),
            &at.to_string(),
            &format!("{at}-{at}/10"),
            if at == 5 { "miss-absent" } else { "miss-part" },
        );
    }
    is_whole(&stage.get("/", &[]), DIGITS, "hit-fresh");
    assert_eq!(stage.metric("petasos_store_objects", ""), 1);
    stage.await_seen(10);
}

#[test]
fn all_who_want_the_whole_wait_for_the_one_missing_part() {
    let stage = digits();
    stage.get("/", &["Range: bytes=0-4"]);
    let gate = Gate::default();
    stage.becomes({
        let gate = gate.clone();
        move |seen| behind(&gate, file(seen, "\"1\"", DIGITS))
    });
    let mut clients = stage.crowd(10, &[]);
    gate.open();
    let answers: Vec<_> = clients.iter_mut().map(Client::read).collect();
    assert!(answers.iter().all(|answer| (answer.status, answer.text()) == (200, DIGITS)));
    assert_eq!(answers.iter().filter(|answer| reason(answer) == "miss-collapsed").count(), 9);
    stage.await_seen(2);
}

#[test]
fn content_that_has_changed_is_not_mixed() {
    // Whether the origin looks at If-Range or not.
    for careful in [true, false] {
        let stage = digits();
        stage.get("/", &["Range: bytes=0-4"]);
        stage.becomes(move |seen| match seen.field("Range") {
            Some("bytes=5-") if !careful => part(5, "fghij", 10, "ETag: \"2\""),
            _ => file(seen, "\"2\"", LETTERS),
        });
        let answer = stage.get("/", &[]);
        assert_eq!((answer.status, answer.text()), (200, LETTERS), "careful: {careful}");
        assert_eq!(stage.get("/", &[]).text(), LETTERS);
        assert_eq!(stage.get("/", &["Range: bytes=0-1"]).text(), "ab");
    }
    // A newer part takes the place of an older one that it does not go with.
    let stage = digits();
    stage.get("/", &["Range: bytes=0-4"]);
    stage.becomes(|seen| file(seen, "\"2\"", LETTERS));
    is_part(&stage.get("/", &["Range: bytes=5-6"]), "fg", "5-6/10", "miss-part");
    is_part(&stage.get("/", &["Range: bytes=0-4"]), "abcde", "0-4/10", "miss-part");
    is_part(&stage.get("/", &["Range: bytes=0-6"]), "abcdefg", "0-6/10", "hit-fresh");
}

#[test]
fn a_part_without_a_strong_validator_stays_alone() {
    let stage = Stage::new(|seen| file(seen, "W/\"1\"", DIGITS));
    stage.get("/", &["Range: bytes=0-4"]);
    is_part(&stage.get("/", &["Range: bytes=0-4"]), "01234", "0-4/10", "hit-fresh");
    stage.get("/", &["Range: bytes=5-9"]);
    is_whole(&stage.get("/", &[]), DIGITS, "miss-part");
    assert_eq!((stage.last_seen().field("Range"), stage.last_seen().field("If-Range")), (None, None));
    is_whole(&stage.get("/", &[]), DIGITS, "hit-fresh");
}

#[test]
fn a_completion_that_breaks_off_leaves_nothing_wrong() {
    for broken in [
        "HTTP/1.1 206 Partial Content\r\nCache-Control: max-age=60\r\nETag: \"1\"\r\n\
         Content-Range: bytes 5-9/10\r\nContent-Length: 5\r\n\r\n56",
        "HTTP/1.1 206 Partial Content\r\nCache-Control: max-age=60\r\nETag: \"1\"\r\n\
         Content-Range: bytes 5-9/10\r\nContent-Length: 7\r\n\r\n56789xy",
        "HTTP/1.1 206 Partial Content\r\nCache-Control: max-age=60\r\nETag: \"1\"\r\n\
         Content-Range: bytes 5-9/10\r\nContent-Length: 3\r\n\r\n567",
    ] {
        let stage = digits();
        stage.get("/", &["Range: bytes=0-4"]);
        stage.becomes(move |seen| match seen.field("Range") {
            Some(_) => vec![Action::Send(broken.as_bytes().to_vec()), Action::Close],
            None => file(seen, "\"1\"", DIGITS),
        });
        for _ in 0..2 {
            let answer = stage.get("/", &[]);
            assert_eq!((answer.status, answer.text(), answer.complete), (200, DIGITS, true), "{broken}");
        }
        assert_eq!(reason(&stage.get("/", &[])), "hit-fresh");
    }
}

#[test]
fn an_origin_that_cannot_complete_is_asked_for_the_whole() {
    let stage = digits();
    stage.get("/", &["Range: bytes=0-4"]);
    stage.becomes(|seen| match seen.field("Range") {
        Some(_) => response("416 No", &["Content-Range: bytes */3"], b""),
        None => file(seen, "\"2\"", "abc"),
    });
    is_whole(&stage.get("/", &[]), "abc", "miss-part");
    is_whole(&stage.get("/", &[]), "abc", "hit-fresh");
    stage.await_seen(3);
}

#[test]
fn a_part_is_not_completed_beyond_what_may_be_stored() {
    let large = "0123456789".repeat(1000);
    let content = large.clone();
    let change = |plan: &mut config::Plan| plan.limits.object_bytes_max = 5_000;
    let stage = Stage::with(change, move |seen| file(seen, "\"1\"", &content));
    stage.get("/", &["Range: bytes=0-4"]);
    for _ in 0..2 {
        let answer = stage.get("/", &[]);
        assert_eq!((answer.status, answer.text()), (200, &large[..]));
        assert_eq!(reason(&answer), "store-refused-too-large");
        assert!(!answer.field("Cache-Status").unwrap().contains("; stored"));
        assert_eq!(stage.last_seen().field("Range"), None);
    }
    stage.await_seen(3);
}

#[test]
fn an_extent_that_is_not_true_does_no_harm() {
    // More was stated than sent: what came can be used, for what it is.
    let stage = Stage::new(|seen| match seen.field("Range") {
        Some("bytes=0-9") => {
            let stated = ["Content-Range: bytes 0-9/20", FRESH, "ETag: \"1\""];
            response("206 Partial Content", &stated, b"01234")
        }
        _ => file(seen, "\"1\"", "0123456789abcdefghij"),
    });
    assert_eq!(stage.get("/", &["Range: bytes=0-9"]).text(), "01234");
    is_part(&stage.get("/", &["Range: bytes=1-3"]), "123", "1-3/20", "hit-fresh");
    is_part(&stage.get("/", &["Range: bytes=5-7"]), "567", "5-7/20", "miss-part");
    is_whole(&stage.get("/", &[]), "0123456789abcdefghij", "miss-part");
    // What cannot be true is not stored.
    for (stated, content) in [
        ("bytes 0-1/10", "0123456789"),
        ("bytes 5-2/10", "0123"),
        ("bytes 0-9/5", "0123456789"),
        ("bytes */10", "0123"),
        ("items 0-3/10", "0123"),
        ("bytes 0-3/10, bytes 4-7/10", "0123"),
    ] {
        let range = format!("Content-Range: {stated}");
        let stage = Stage::new(move |_| {
            response("206 Partial Content", &[FRESH, "ETag: \"1\"", &range], content.as_bytes())
        });
        for _ in 0..2 {
            assert_eq!(stage.get("/", &["Range: bytes=0-3"]).text(), content, "{stated}");
        }
        assert_eq!(stage.metric("petasos_store_objects", ""), 0, "{stated}");
        stage.await_seen(2);
    }
}

#[test]
fn a_part_that_nobody_asked_for_answers_nobody_else() {
    let gate = Gate::default();
    let stage = Stage::new({
        let gate = gate.clone();
        move |_| behind(&gate, part(0, "0123", 10, "ETag: \"1\""))
    });
    let mut clients = stage.crowd(3, &[]);
    gate.open();
    assert!(clients.iter_mut().all(|client| reason(&client.read()) == "store-refused-partial"));
    assert_eq!(stage.metric("petasos_store_objects", ""), 0);
    stage.await_seen(3);
}

#[test]
fn the_same_range_is_the_same_question_only_under_the_same_condition() {
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
    assert_eq!((all.status, all.text()), (200, LETTERS), "it has the beginning of something else");
}

#[test]
fn a_part_and_the_whole_do_not_wait_for_one_another() {
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
fn a_joined_part_answers_no_range_that_means_the_whole() {
    let stage = digits();
    stage.get("/", &["Range: bytes=0-2"]);
    stage.get("/", &["Range: bytes=3-4"]);
    for range in ["", "bytes=5-2", "items=0-1"] {
        let answer = stage.get("/", &[&format!("Range: {range}")]);
        assert_eq!((answer.status, answer.text()), (200, DIGITS), "{range:?}");
    }
}

#[test]
fn parts_of_variants_are_kept_apart() {
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
    assert_eq!(stage.get("/", &["Accept-Encoding: identity"]).text(), DIGITS);
}

#[test]
fn only_a_success_has_parts() {
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
fn a_part_of_an_expired_whole_confirms_the_whole() {
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

#[test]
fn while_the_origin_is_gone_a_stored_part_answers_what_it_can() {
    let stage = Stage::with(
        |plan| plan.limits.flight_wait = Duration::from_secs(10),
        |seen| file(seen, "\"1\"", DIGITS),
    );
    stage.get("/", &["Range: bytes=0-4"]);
    stage.origin.kill();
    stage.pass(100);
    is_part(&stage.get("/", &["Range: bytes=0-4"]), "01234", "0-4/10", "stale-on-error");
    is_part(&stage.get("/", &["Range: bytes=1-2"]), "12", "1-2/10", "stale-on-error");
    assert_eq!(stage.get("/", &["Range: bytes=5-6"]).status, 502);
    assert_eq!(stage.get("/", &[]).status, 502);
}
