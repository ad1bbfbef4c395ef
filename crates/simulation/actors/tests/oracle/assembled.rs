//! Assembled pages: fragments of other visitors, stale and missing ones, and pages that are not
//! whole.

use crate::history::{BYTES, History, ask, content};
use bytes::Bytes;
use message::Fields;
use petasos_actors::{Ask, ContentId, Ending, FaultPlace, Lie, Reply, Rule, Scope, slice};

/// A whole page of version 1.
fn whole(id: &ContentId) -> Vec<u8> {
    slice(id, 0, BYTES + 37)
}

/// The page `/page` with these texts in the places of its first two fragments, and the rest.
fn assembled(first: &[u8], second: &[u8], rest: &[u8]) -> Reply {
    let id = content("/page", 1);
    let mut fields = Fields::new();
    fields.push("X-Sim", id.to_string());
    fields.push("X-Sim-Hidden", "1");
    fields.push("X-Sim-Template", "1");
    fields.push("Cache-Control", "private, no-store");
    fields.push("Cache-Status", "Petasos; hit; detail=hit-fresh");
    let body = [&whole(&id)[..], b"{", first, b"}{", second, b"}", rest].concat();
    Reply { ending: Ending::Complete, status: Some(200), fields, body: Bytes::from(body), ..Reply::default() }
}

/// What follows the first two fragments: an attempt that fails, and values.
const REST: &[u8] = b"{!}{ nobody -}";

const GAP: &[u8] = b"<!-- a fragment of this page is missing -->";

/// A history in which the origin has sent all that the page needs.
fn history() -> History {
    let mut history = History::new();
    for path in ["/page", "/a", "/b", "/mine"] {
        history.origin(&content(path, 1));
    }
    history
}

fn right() -> Reply {
    assembled(&whole(&content("/a", 1)), &whole(&content("/mine", 1)), REST)
}

fn judge(reply: &Reply) -> History {
    let mut history = history();
    history.visit(ask("/page"), reply);
    history
}

#[test]
fn whole_page_and_its_beginning_are_right() {
    judge(&right()).is_right();
    let bytes = right().body.len();
    for cut in [0, 1, 500, BYTES + 38, BYTES + 45, 2 * BYTES, bytes - 3] {
        let mut reply = right();
        reply.body.truncate(cut);
        reply.ending = Ending::GivenUp;
        judge(&reply).is_right();
        // The same bytes are no whole page.
        reply.ending = Ending::Complete;
        judge(&reply).violates(Rule::Integrity);
    }
}

#[test]
fn wrong_parts_are_found() {
    let (first, mine) = (whole(&content("/a", 1)), whole(&content("/mine", 1)));
    let parts: [(&[u8], &[u8], &[u8]); 8] = [
        (b"", &mine, REST),
        (GAP, &mine, REST),
        (&whole(&content("/b", 1)), &mine, REST),
        (first.get(..700).unwrap(), &mine, REST),
        (&first, &mine, b"{(x)(x)}{ nobody -}"),
        (&first, &mine, b"{!}{ u1 -}"),
        (&first, &mine, b"{!}{ nobody -}more"),
        (&first, &mine, b"{<esi:try>}{ nobody -}"),
    ];
    for (number, (first, second, rest)) in parts.into_iter().enumerate() {
        let history = judge(&assembled(first, second, rest));
        assert_eq!(history.violated(), [Rule::Integrity], "{number}");
    }
}

#[test]
fn fault_explains_a_gap() {
    let gap = assembled(GAP, &whole(&content("/mine", 1)), REST);
    judge(&gap).violates(Rule::Integrity);
    let mut faulty = history();
    let at = faulty.now();
    let fault = faulty.ledger.fault_begins(at, FaultPlace::Origin, "a failure");
    let at = faulty.now();
    faulty.ledger.fault_ends(at, fault);
    faulty.visit(ask("/page"), &gap);
    faulty.is_right();
}

#[test]
fn fragment_of_another_visitor_is_found() {
    let mut history = history();
    let foreign = ContentId { user: "u2".to_owned(), ..content("/mine", 1) };
    history.origin(&foreign);
    history.visit(ask("/page"), &assembled(&whole(&content("/a", 1)), &whole(&foreign), REST));
    assert!(history.violated().contains(&Rule::Privacy), "{:?}", history.violated());
}

/// A history in which the origin has sent the first `bytes` bytes of `id` as if they were whole.
fn history_with_cut(id: &ContentId, bytes: usize) -> History {
    let mut history = history();
    let at = history.now();
    history.ledger.origin_lies(at, id, Lie::LooksWhole(bytes));
    history.origin(id);
    history
}

#[test]
fn identity_at_the_end_of_a_content_ends_at_the_markup() {
    let id = content("/page", 1);
    let bytes = "000000 /page 1 -".len();
    // Without the markup that follows, the rest of the identity would be "{ nobody -}".
    let mut reply = assembled(b"", b"", b"");
    reply.body = [slice(&id, 0, bytes), b"{ nobody -}{}".to_vec()].concat().into();
    let mut history = history_with_cut(&id, bytes);
    history.visit(ask("/page"), &reply);
    history.is_right();
}

#[test]
fn cut_content_of_another_visitor_is_found() {
    let foreign = ContentId { user: "u2".to_owned(), ..content("/mine", 1) };
    let first = whole(&content("/a", 1));
    for (text, rule) in [("000000 /mine 1 u2", Rule::Integrity), ("000000 /mine 1 u2 - -", Rule::Privacy)] {
        let mut history = history_with_cut(&foreign, text.len());
        let cut = slice(&foreign, 0, text.len());
        assert_eq!(cut, text.as_bytes());
        history.visit(ask("/page"), &assembled(&first, &cut, REST));
        let violated = history.violated();
        assert!(violated.contains(&rule), "{text}: {violated:?}");
        // The same visitor may have it.
        let mut history = history_with_cut(&foreign, text.len());
        let own = Ask { user: Some("u2".to_owned()), ..ask("/page") };
        history.visit(own, &assembled(&first, &cut, REST));
        history.is_right();
    }
}

#[test]
fn foreign_identity_beside_a_cut_one_is_found() {
    let id = content("/page", 1);
    let foreign = ContentId { user: "u2".to_owned(), ..content("/mine", 1) };
    let bytes = "000000 /page 1 -".len();
    let mut reply = assembled(b"", b"", b"");
    let body = [&slice(&id, 0, bytes)[..], b"{", &whole(&foreign), b"}"].concat();
    reply.body = body.into();
    let mut history = history_with_cut(&id, bytes);
    history.visit(ask("/page"), &reply);
    assert!(history.violated().contains(&Rule::Privacy), "{:?}", history.violated());
}

#[test]
fn purged_fragment_is_found_in_a_fresh_page() {
    let mut history = history();
    history.purge(Scope::Target("/a".to_owned()), false);
    history.visit(ask("/page"), &right());
    history.violates(Rule::Staleness);
}

#[test]
fn expired_fragment_is_found_in_a_fresh_page() {
    let mut history = history();
    history.pass(80);
    history.origin(&content("/page", 1));
    history.origin(&content("/mine", 1));
    history.visit(ask("/page"), &right());
    history.violates(Rule::Age);
}

#[test]
fn page_that_a_cache_may_store_is_found() {
    for (name, value) in [
        ("Cache-Control", "max-age=60"),
        ("ETag", "\"t\""),
        ("Last-Modified", "Thu, 01 Jan 1970 00:00:01 GMT"),
        ("Content-Length", "9"),
        ("Surrogate-Control", "content=\"ESI/1.0\""),
        ("Age", "1"),
        ("Set-Cookie", "session=u1"),
    ] {
        let mut reply = right();
        reply.fields.push(name, value);
        let violated = judge(&reply).violated();
        assert!(violated.contains(&Rule::Fields), "{name}: {violated:?}");
    }
}
