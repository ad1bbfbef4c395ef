//! Stored parts, and how they are joined to the whole.

use crate::support::files::{DIGITS, FRESH, LETTERS, digits, file, is_part, is_whole, part};
use crate::support::{Stage, behind, reason};
use testkit::{Action, Client, Gate, response};

#[test]
fn stored_part_is_extended_to_the_whole() {
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
fn adjacent_parts_are_joined_to_one_object() {
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
fn requests_for_the_whole_share_the_fetch_of_the_missing_part() {
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
fn parts_of_different_contents_are_not_joined() {
    // With an origin that evaluates If-Range, and with one that ignores it.
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
    // A newer part replaces an older one that does not fit it.
    let stage = digits();
    stage.get("/", &["Range: bytes=0-4"]);
    stage.becomes(|seen| file(seen, "\"2\"", LETTERS));
    is_part(&stage.get("/", &["Range: bytes=5-6"]), "fg", "5-6/10", "miss-part");
    is_part(&stage.get("/", &["Range: bytes=0-4"]), "abcde", "0-4/10", "miss-part");
    is_part(&stage.get("/", &["Range: bytes=0-6"]), "abcdefg", "0-6/10", "hit-fresh");
}

#[test]
fn part_without_a_strong_validator_is_not_joined() {
    let stage = Stage::new(|seen| file(seen, "W/\"1\"", DIGITS));
    stage.get("/", &["Range: bytes=0-4"]);
    is_part(&stage.get("/", &["Range: bytes=0-4"]), "01234", "0-4/10", "hit-fresh");
    stage.get("/", &["Range: bytes=5-9"]);
    is_whole(&stage.get("/", &[]), DIGITS, "miss-part");
    stage.await_seen(3);
    assert_eq!((stage.last_seen().field("Range"), stage.last_seen().field("If-Range")), (None, None));
    is_whole(&stage.get("/", &[]), DIGITS, "hit-fresh");
}

#[test]
fn truncated_completion_is_followed_by_a_whole_fetch() {
    for broken in [
        "HTTP/1.1 206 Partial Content\r\nCache-Control: max-age=60\r\nETag: \"1\"\r\n\
         Content-Range: bytes 5-9/10\r\nContent-Length: 5\r\n\r\n56",
        "HTTP/1.1 206 Partial Content\r\nCache-Control: max-age=60\r\nETag: \"1\"\r\n\
         Content-Range: bytes 5-9/10\r\nContent-Length: 7\r\n\r\n56789xy",
        "HTTP/1.1 206 Partial Content\r\nCache-Control: max-age=60\r\nETag: \"1\"\r\n\
         Content-Range: bytes 5-9/10\r\nContent-Length: 3\r\n\r\n567",
        "HTTP/1.1 206 Partial Content\r\nCache-Control: max-age=60\r\nETag: \"1\"\r\n\
         Content-Range: bytes 5-6/10\r\nContent-Length: 2\r\n\r\n56",
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
fn whole_page_is_fetched_if_the_origin_refuses_the_range() {
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
fn part_of_a_body_too_large_to_store_is_not_completed() {
    let large = "0123456789".repeat(1000);
    let content = large.clone();
    let change = |plan: &mut config::EdgePlan| plan.limits.object_bytes_max = 5_000;
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
fn wrong_content_range_is_corrected_or_not_stored() {
    // The origin states more bytes than it sends; the bytes that it sent are stored.
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
    // A contradictory Content-Range is not stored.
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
fn unsolicited_part_is_not_shared() {
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
fn joined_part_does_not_answer_an_invalid_range() {
    let stage = digits();
    stage.get("/", &["Range: bytes=0-2"]);
    stage.get("/", &["Range: bytes=3-4"]);
    for range in ["", "bytes=5-2", "items=0-1"] {
        let answer = stage.get("/", &[&format!("Range: {range}")]);
        assert_eq!((answer.status, answer.text()), (200, DIGITS), "{range:?}");
    }
}

#[test]
fn stored_part_is_used_only_if_if_range_matches() {
    let stage = digits();
    let range = "Range: bytes=0-3";
    stage.get("/", &[range]);
    is_part(&stage.get("/", &[range, "If-Range: \"1\""]), "0123", "0-3/10", "hit-fresh");
    let all = stage.get("/", &[range, "If-Range: \"0\""]);
    assert_eq!(
        (all.status, all.text()),
        (200, DIGITS),
        "the client's beginning is of another representation"
    );
}

#[test]
fn stale_part_is_served_while_the_origin_is_down() {
    let stage = digits();
    stage.get("/", &["Range: bytes=0-4"]);
    stage.origin.kill();
    stage.pass(100);
    is_part(&stage.get("/", &["Range: bytes=0-4"]), "01234", "0-4/10", "stale-on-error");
    is_part(&stage.get("/", &["Range: bytes=1-2"]), "12", "1-2/10", "stale-breaker-open");
    assert_eq!(stage.get("/", &["Range: bytes=5-6"]).status, 503);
    assert_eq!(stage.get("/", &[]).status, 503);
}
#[test]
fn private_part_does_not_make_the_whole_private() {
    let stage = Stage::new(|seen| match seen.field("Range") {
        Some(_) => {
            let fields = ["Cache-Control: private", "Content-Range: bytes 0-1/10"];
            response("206 Partial Content", &fields, b"01")
        }
        None => file(seen, "\"1\"", DIGITS),
    });
    assert_eq!(reason(&stage.get("/", &["Range: bytes=0-1"])), "store-refused-private");
    is_whole(&stage.get("/", &[]), DIGITS, "miss-absent");
    is_whole(&stage.get("/", &[]), DIGITS, "hit-fresh");
}
