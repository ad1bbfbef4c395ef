//! Contents: whole bodies, parts, lies of the origin, other users' pages.

use crate::history::{BYTES, History, ask, content, part, reply};
use bytes::Bytes;
use petasos_actors::{Ask, ContentId, Ending, HeldCopy, Lie, RangeSpec, Reply, Rule, slice};

/// Bytes of version 1 of `/a`.
const WHOLE: usize = BYTES + 37;

/// Judges one response to a request for `/a`, of which the origin has sent versions 1 and 2.
fn judge(ask: Ask, reply: &Reply) -> History {
    let mut history = History::new();
    history.origin(&content("/a", 1));
    history.origin(&content("/a", 2));
    history.visit(ask, reply);
    history
}

fn right() -> Reply {
    reply(&content("/a", 1), "hit-fresh")
}

#[test]
fn whole_body_is_right() {
    judge(ask("/a"), &right()).is_right();
    let mut cut = right();
    cut.body.truncate(500);
    cut.ending = Ending::GivenUp;
    judge(ask("/a"), &cut).is_right();
}

#[test]
fn damaged_bodies_are_found() {
    let damages: [fn(&mut Reply); 7] = [
        |reply| reply.body.truncate(500),
        |reply| reply.body = Bytes::from(slice(&content("/a", 2), 0, WHOLE)),
        |reply| {
            let mixed = [slice(&content("/a", 1), 0, 512), slice(&content("/a", 2), 512, WHOLE)];
            reply.body = Bytes::from(mixed.concat());
        },
        |reply| reply.body = Bytes::from([&reply.body[..], b"more"].concat()),
        |reply| reply.fields.set("Content-Length", "1000"),
        |reply| reply.fields.set("ETag", content("/a", 2).etag()),
        |reply| {
            reply.fields.remove("X-Sim");
        },
    ];
    for (number, damage) in damages.iter().enumerate() {
        let mut damaged = right();
        damage(&mut damaged);
        let history = judge(ask("/a"), &damaged);
        assert_eq!(history.violated(), [Rule::Integrity], "{number}");
    }
    // Also if the response is not complete.
    let mut mixed = right();
    mixed.body = Bytes::from([slice(&content("/a", 1), 0, 512), slice(&content("/a", 2), 512, 600)].concat());
    mixed.ending = Ending::GivenUp;
    judge(ask("/a"), &mixed).violates(Rule::Integrity);
}

#[test]
fn coding_that_the_visitor_refuses_is_found() {
    let mut coded = right();
    coded.fields.push("Content-Encoding", "gzip");
    judge(ask("/a"), &coded).violates(Rule::Integrity);
    let accepting = || Ask { accepts_gzip: true, ..ask("/a") };
    judge(accepting(), &right()).is_right();
    // The page has no coded form.
    judge(accepting(), &coded).violates(Rule::Integrity);
}

#[test]
fn version_that_the_origin_never_sent_is_found() {
    judge(ask("/a"), &reply(&content("/a", 3), "hit-fresh")).violates(Rule::Integrity);
}

#[test]
fn unnoticeable_lies_are_permitted_with_their_length_only() {
    for (lie, bytes, announced, is_right) in [
        (Lie::LooksWhole(500), 500, "500", true),
        (Lie::LooksWhole(500), 499, "500", false),
        (Lie::Announces(1100), WHOLE, "1100", true),
        (Lie::Announces(500), 500, "500", false),
    ] {
        let mut history = History::new();
        let id = content("/a", 1);
        history.origin(&id);
        let at = history.now();
        history.ledger.origin_lies(at, &id, lie);
        let mut answer = right();
        answer.fields.set("Content-Length", announced);
        answer.body.truncate(bytes);
        history.visit(ask("/a"), &answer);
        assert_eq!(history.violated().is_empty(), is_right, "{lie:?} {bytes}");
    }
}

#[test]
fn page_of_another_target_or_language_is_found() {
    judge(ask("/b"), &right()).violates(Rule::Integrity);
    let words = |language: &str| ContentId { language: language.to_owned(), ..content("/words", 1) };
    for (accepted, sent, is_right) in
        [(Some("de"), "de", true), (Some("de"), "en", false), (None, "en", true), (Some("fr"), "en", true)]
    {
        let mut history = History::new();
        history.origin(&words(sent));
        let asked = Ask { language: accepted.map(str::to_owned), ..ask("/words") };
        history.visit(asked, &reply(&words(sent), "hit-fresh"));
        assert_eq!(history.violated().is_empty(), is_right, "{accepted:?} {sent}");
    }
}

#[test]
fn page_of_another_user_is_private() {
    let mine = |user: &str| ContentId { user: user.to_owned(), ..content("/mine", 1) };
    for (requester, sent, rule) in [
        (Some("u1"), "u1", None),
        (None, "-", None),
        (Some("u1"), "u2", Some(Rule::Privacy)),
        (None, "u1", Some(Rule::Privacy)),
        (Some("u1"), "-", Some(Rule::Integrity)),
    ] {
        let mut history = History::new();
        history.origin(&mine(sent));
        let asked = Ask { user: requester.map(str::to_owned), ..ask("/mine") };
        history.visit(asked, &reply(&mine(sent), "pass-cookie"));
        assert_eq!(history.violated(), rule.into_iter().collect::<Vec<_>>(), "{requester:?} {sent}");
    }
}

#[test]
fn cookie_of_another_user_is_private() {
    for (requester, cookie, is_right) in [
        (Some("u1"), "session=u1; Path=/", true),
        (Some("u1"), "session=u2; Path=/", false),
        (None, "session=u1", false),
    ] {
        let mut answer = right();
        answer.fields.push("Set-Cookie", cookie);
        let history = judge(Ask { user: requester.map(str::to_owned), ..ask("/a") }, &answer);
        let expected: &[Rule] = if is_right { &[] } else { &[Rule::Privacy] };
        assert_eq!(history.violated(), expected, "{requester:?} {cookie}");
    }
}

fn asks(ranges: &[RangeSpec]) -> Ask {
    Ask { ranges: ranges.to_vec(), ..ask("/a") }
}

fn partial(start: usize, end: usize, range: &str) -> Reply {
    let mut answer = part(&content("/a", 1), "hit-fresh", 206, start, end);
    answer.fields.push("Content-Range", range.to_owned());
    answer
}

#[test]
fn parts_must_be_right() {
    let ranges = [RangeSpec::FromTo(100, 199)];
    judge(asks(&ranges), &partial(100, 200, "bytes 100-199/1037")).is_right();
    judge(asks(&[RangeSpec::Last(37)]), &partial(1000, 1037, "bytes 1000-1036/1037")).is_right();
    judge(asks(&ranges), &right()).is_right();
    for (number, wrong) in [
        partial(100, 200, "bytes 100-199/1038"),
        partial(101, 201, "bytes 100-199/1037"),
        partial(100, 199, "bytes 100-199/1037"),
        partial(100, 300, "bytes 100-299/1037"),
        part(&content("/a", 1), "hit-fresh", 206, 100, 200),
    ]
    .iter()
    .enumerate()
    {
        assert_eq!(judge(asks(&ranges), wrong).violated(), [Rule::Integrity], "{number}");
    }
    judge(ask("/a"), &partial(100, 200, "bytes 100-199/1037")).violates(Rule::Integrity);
    for bytes in [99, 100, 101] {
        let mut chunked = partial(100, 100 + bytes, "bytes 100-199/1037");
        chunked.fields.remove("Content-Length");
        assert_eq!(judge(asks(&ranges), &chunked).violated().is_empty(), bytes == 100, "{bytes}");
    }
}

#[test]
fn if_range_needs_the_same_version() {
    let asked = |version| Ask {
        if_range: Some(HeldCopy { id: content("/a", version), date_secs: None }),
        ..asks(&[RangeSpec::FromTo(100, 199)])
    };
    judge(asked(1), &partial(100, 200, "bytes 100-199/1037")).is_right();
    judge(asked(2), &partial(100, 200, "bytes 100-199/1037")).violates(Rule::Integrity);
}

fn multipart(second: &[u8]) -> Reply {
    let one = slice(&content("/a", 1), 0, 10);
    let head =
        |range: &str| format!("\r\n--x\r\nContent-Type: a/b\r\nContent-Range: bytes {range}/1037\r\n\r\n");
    let body = [head("0-9").as_bytes(), &one, head("500-509").as_bytes(), second, b"\r\n--x--\r\n"].concat();
    let mut answer = part(&content("/a", 1), "hit-fresh", 206, 0, body.len());
    answer.fields.push("Content-Type", "multipart/byteranges; boundary=x");
    answer.body = Bytes::from(body);
    answer
}

#[test]
fn parts_of_multipart_must_be_right() {
    let ranges = [RangeSpec::FromTo(0, 9), RangeSpec::FromTo(500, 509)];
    let (old, new) = (content("/a", 1), content("/a", 2));
    judge(asks(&ranges), &multipart(&slice(&old, 500, 510))).is_right();
    judge(asks(&ranges), &multipart(&slice(&old, 501, 511))).violates(Rule::Integrity);
    judge(asks(&ranges), &multipart(&slice(&old, 500, 505))).violates(Rule::Integrity);
    judge(asks(&ranges), &multipart(&slice(&new, 500, 510))).violates(Rule::Integrity);
    judge(asks(&ranges[..1]), &multipart(&slice(&old, 500, 510))).violates(Rule::Integrity);
}

#[test]
fn unsatisfiable_range_names_a_length_of_the_page() {
    let unsatisfiable = |range: &str| {
        let mut answer = crate::history::bare(416, "hit-fresh");
        answer.fields.push("Content-Range", range.to_owned());
        answer
    };
    let beyond = [RangeSpec::From(5000)];
    judge(asks(&beyond), &unsatisfiable("bytes */1037")).is_right();
    judge(asks(&beyond), &unsatisfiable("bytes */1036")).violates(Rule::Integrity);
    judge(asks(&[RangeSpec::From(0)]), &unsatisfiable("bytes */1037")).violates(Rule::Integrity);
}

#[test]
fn head_has_the_length_of_its_page_and_no_body() {
    let asked = || Ask { method: "HEAD".to_owned(), ..ask("/a") };
    let mut answer = right();
    answer.body = Bytes::new();
    judge(asked(), &answer).is_right();
    answer.fields.set("Content-Length", "1036");
    judge(asked(), &answer).violates(Rule::Integrity);
}

#[test]
fn status_belongs_to_the_page() {
    let mut history = History::new();
    history.origin(&content("/gone", 1));
    let mut answer = reply(&content("/gone", 1), "hit-fresh");
    answer.status = Some(404);
    history.visit(ask("/gone"), &answer);
    history.is_right();
    answer.status = Some(200);
    history.visit(ask("/gone"), &answer);
    history.violates(Rule::Integrity);
}
