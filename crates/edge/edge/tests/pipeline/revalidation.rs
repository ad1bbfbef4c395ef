//! Revalidation: conditional requests for stored responses.

use crate::support::{Stage, bare, behind, reason, tagged};
use testkit::{Client, Gate, eventually, response};

const CHANGED: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
const LAST_MODIFIED: &str = "Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT";

/// A stage whose page with the tag "1" was stored and became stale.
fn stale(fields: &'static [&'static str]) -> Stage {
    let stage = Stage::new(move |seen| tagged(seen, "\"1\"", fields, "page"));
    assert_eq!(stage.get("/", &[]).text(), "page");
    stage.pass(60);
    stage
}

#[test]
fn matching_304_renews_the_stored_page_and_updates_its_head() {
    let stage = stale(&["Cache-Control: max-age=60", LAST_MODIFIED, "X-Old: kept", "X-Both: old"]);
    stage.becomes(|_| {
        bare(
            "304 Not Modified",
            &["ETag: \"1\"", "Cache-Control: max-age=100", "X-Both: new", "X-New: added"],
        )
    });
    let own = ["If-None-Match: \"other\"", "If-Modified-Since: Sun, 06 Nov 1994 08:49:36 GMT"];
    let confirmed = stage.get("/", &own);
    assert_eq!((confirmed.status, confirmed.text(), reason(&confirmed)), (200, "page", "hit-revalidated"));
    let seen = stage.last_seen();
    assert_eq!(
        (seen.field("If-None-Match"), seen.field("If-Modified-Since")),
        (Some("\"1\""), Some(CHANGED))
    );
    assert_eq!(seen.head.matches("If-").count(), 2, "the stored validators and no others: {}", seen.head);
    assert_eq!(confirmed.field("Age"), Some("0"));
    assert_eq!(
        confirmed.field("Cache-Status"),
        Some("Petasos; fwd=stale; fwd-status=304; ttl=100; stored; detail=hit-revalidated")
    );
    stage.pass(99);
    let hit = stage.get("/", &[]);
    assert_eq!((hit.text(), reason(&hit), hit.field("Age")), ("page", "hit-fresh", Some("99")));
    for (name, value) in [("X-Old", "kept"), ("X-Both", "new"), ("X-New", "added"), ("Content-Length", "4")] {
        assert_eq!(hit.field(name), Some(value), "{name}");
        assert_eq!(hit.head.matches(&format!("\r\n{name}:")).count(), 1, "{name} in {}", hit.head);
    }
    stage.pass(1);
    assert_eq!(reason(&stage.get("/", &[])), "hit-revalidated");
    assert_eq!(stage.metric("petasos_store_objects", ""), 1);
}

#[test]
fn simultaneous_requests_share_one_revalidation() {
    let stage = stale(&["Cache-Control: max-age=60"]);
    let gate = Gate::default();
    stage.becomes({
        let gate = gate.clone();
        move |seen| behind(&gate, tagged(seen, "\"1\"", &["Cache-Control: max-age=60"], "page"))
    });
    let mut clients = stage.crowd(20, &[]);
    gate.open();
    let answers: Vec<_> = clients.iter_mut().map(Client::read).collect();
    assert!(answers.iter().all(|answer| (answer.status, answer.text()) == (200, "page")));
    assert!(answers.iter().all(|answer| reason(answer) == "hit-revalidated"));
    let collapsed =
        |answer: &&testkit::Response| answer.field("Cache-Status").unwrap().contains("; collapsed");
    assert_eq!(answers.iter().filter(collapsed).count(), 19);
    stage.await_seen(2);
}

#[test]
fn client_conditions_are_evaluated_after_the_revalidation() {
    let stage = stale(&["Cache-Control: max-age=60"]);
    let unchanged = stage.get("/", &["If-None-Match: \"0\", \"1\""]);
    assert_eq!((unchanged.status, reason(&unchanged)), (304, "hit-revalidated"));
    assert_eq!(unchanged.field("ETag"), Some("\"1\""));
    stage.pass(60);
    stage.becomes(|seen| tagged(seen, "\"2\"", &["Cache-Control: max-age=60"], "new"));
    let changed = stage.get("/", &["If-None-Match: \"1\""]);
    assert_eq!((changed.status, changed.text(), reason(&changed)), (200, "new", "miss-expired"));
    stage.pass(60);
    assert_eq!(stage.get("/", &["If-Match: \"1\""]).status, 412);
    let current = stage.get("/", &["If-None-Match: \"2\""]);
    assert_eq!((current.status, current.body.len()), (304, 0));
}

#[test]
fn changed_page_replaces_the_stored_one() {
    let stage = stale(&["Cache-Control: max-age=60"]);
    stage.becomes(|seen| tagged(seen, "\"2\"", &["Cache-Control: max-age=60"], "new"));
    for expected in ["miss-expired", "hit-fresh"] {
        let answer = stage.get("/", &[]);
        assert_eq!((answer.text(), answer.field("ETag"), reason(&answer)), ("new", Some("\"2\""), expected));
    }
    stage.pass(60);
    assert_eq!(reason(&stage.get("/", &[])), "hit-revalidated");
    assert_eq!(stage.last_seen().field("If-None-Match"), Some("\"2\""));
}

#[test]
fn mismatched_304_causes_a_new_fetch() {
    let stage = stale(&["Cache-Control: max-age=60"]);
    stage.becomes(|seen| match seen.field("If-None-Match") {
        Some(_) => bare("304 Not Modified", &["ETag: \"2\"", "Cache-Control: max-age=60"]),
        None => tagged(seen, "\"2\"", &["Cache-Control: max-age=60"], "new"),
    });
    let answer = stage.get("/", &[]);
    assert_eq!((answer.status, answer.text()), (200, "new"));
    let next = stage.get("/", &[]);
    assert_eq!((next.status, next.text()), (200, "new"));
    assert_eq!(reason(&stage.get("/", &[])), "hit-fresh");
}

#[test]
fn private_304_removes_the_stored_page() {
    for forbidding in ["Cache-Control: private", "Cache-Control: no-store", "Set-Cookie: a=b"] {
        let stage = stale(&["Cache-Control: max-age=60"]);
        stage.becomes(move |seen| match seen.field("If-None-Match") {
            Some(_) => bare("304 Not Modified", &["ETag: \"1\"", forbidding]),
            None => response("200 OK", &[forbidding], seen.field("Cookie").unwrap_or("none").as_bytes()),
        });
        let answer = stage.get("/", &[]);
        assert_eq!((answer.status, answer.text()), (200, "none"), "{forbidding}");
        assert_eq!(stage.metric("petasos_store_objects", ""), 0, "{forbidding}");
        let seen = stage.origin.seen().len();
        assert_eq!(stage.get("/", &[]).text(), "none");
        assert_eq!(stage.origin.seen().len(), seen + 1, "{forbidding}");
    }
}

#[test]
fn followers_of_a_private_304_get_their_own_responses() {
    let stage = stale(&["Cache-Control: max-age=60"]);
    let gate = Gate::default();
    let count = std::sync::atomic::AtomicUsize::new(0);
    stage.becomes({
        let gate = gate.clone();
        move |seen| match seen.field("If-None-Match") {
            Some(_) => behind(&gate, bare("304 Not Modified", &["ETag: \"1\"", "Cache-Control: private"])),
            None => {
                let number = count.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                response("200 OK", &["Cache-Control: private"], number.to_string().as_bytes())
            }
        }
    });
    let mut clients = stage.crowd(10, &[]);
    gate.open();
    let mut bodies: Vec<_> = clients.iter_mut().map(|client| client.read().text().to_owned()).collect();
    bodies.sort();
    bodies.dedup();
    assert_eq!(bodies.len(), 10, "no response went to two clients");
}

#[test]
fn new_vary_in_a_304_applies_only_to_its_variant() {
    let stage = stale(&["Cache-Control: max-age=60"]);
    stage.becomes(|seen| {
        let language = seen.field("Accept-Language").unwrap_or("none").to_owned();
        let tag = if language == "none" { "\"1\"".to_owned() } else { format!("\"{language}\"") };
        tagged(seen, &tag, &["Cache-Control: max-age=60", "Vary: Accept-Language"], &language)
    });
    assert_eq!(reason(&stage.get("/", &[])), "hit-revalidated");
    for _ in 0..2 {
        for language in ["fr", "de"] {
            let answer = stage.get("/", &[&format!("Accept-Language: {language}")]);
            assert_eq!((answer.text(), answer.field("Vary")), (language, Some("Accept-Language")));
        }
        assert_eq!(stage.get("/", &[]).text(), "page");
    }
}

#[test]
fn page_with_no_cache_is_revalidated_for_each_request() {
    let stage = Stage::new(|seen| tagged(seen, "\"1\"", &["Cache-Control: no-cache"], "page"));
    assert_eq!(stage.get("/", &[]).text(), "page");
    for number in 2..5 {
        let answer = stage.get("/", &[]);
        assert_eq!((answer.text(), reason(&answer)), ("page", "hit-revalidated"));
        stage.await_seen(number);
        assert_eq!(stage.last_seen().field("If-None-Match"), Some("\"1\""));
    }
    stage.becomes(|seen| tagged(seen, "\"2\"", &["Cache-Control: no-cache"], "new"));
    assert_eq!(stage.get("/", &[]).text(), "new");
    assert_eq!(reason(&stage.get("/", &[])), "hit-revalidated");
}

#[test]
fn requests_for_a_no_cache_page_do_not_wait_for_one_another() {
    for fields in [&["Cache-Control: no-cache"][..], &["Cache-Control: max-age=0"]] {
        let stage = Stage::new(move |seen| tagged(seen, "\"1\"", fields, "page"));
        stage.get("/", &[]);
        // A successful revalidation does not change that.
        stage.get("/", &[]);
        let gate = Gate::default();
        stage.becomes({
            let gate = gate.clone();
            move |seen| behind(&gate, tagged(seen, "\"1\"", fields, "page"))
        });
        let mut clients: Vec<_> = (0..5).map(|_| stage.begin("GET", "/", &[])).collect();
        eventually("all are at the origin", || stage.origin.seen().len() == 7);
        gate.open();
        for client in &mut clients {
            let answer = client.read();
            assert_eq!((answer.text(), reason(&answer)), ("page", "hit-revalidated"));
        }
        assert_eq!(stage.metric("petasos_flight_waits_total", ""), 0);
    }
}

#[test]
fn requests_are_coalesced_again_once_no_cache_is_gone() {
    for renewed in ["\"1\"", "\"2\""] {
        let stage = Stage::new(|seen| tagged(seen, "\"1\"", &["Cache-Control: no-cache"], "page"));
        stage.get("/", &[]);
        stage.becomes(move |seen| tagged(seen, renewed, &["Cache-Control: max-age=60"], "page"));
        stage.get("/", &[]);
        stage.pass(60);
        let gate = Gate::default();
        stage.becomes({
            let gate = gate.clone();
            move |seen| behind(&gate, tagged(seen, renewed, &["Cache-Control: max-age=60"], "page"))
        });
        let mut clients = stage.crowd(5, &[]);
        gate.open();
        assert!(clients.iter_mut().all(|client| client.read().text() == "page"));
        stage.await_seen(3);
    }
}

#[test]
fn followers_of_a_no_cache_fetch_revalidate_for_themselves() {
    // The page has no-cache from the start, or since its revalidation.
    for first in [&["Cache-Control: no-cache"][..], &["Cache-Control: max-age=60"]] {
        let stage = Stage::new(move |seen| tagged(seen, "\"1\"", first, "page"));
        let seen_before = usize::from(first != ["Cache-Control: no-cache"]);
        if seen_before == 1 {
            stage.get("/", &[]);
            stage.pass(60);
        }
        let gate = Gate::default();
        stage.becomes({
            let gate = gate.clone();
            move |seen| behind(&gate, tagged(seen, "\"1\"", &["Cache-Control: no-cache"], "page"))
        });
        let mut clients = stage.crowd(5, &[]);
        stage.await_seen(seen_before + 1);
        gate.open();
        assert!(clients.iter_mut().all(|client| client.read().text() == "page"));
        stage.await_seen(seen_before + 5);
    }
}

#[test]
fn private_fields_are_only_for_the_leader() {
    let secret = "Cache-Control: max-age=60, private=\"X-Secret\"";
    let stage = Stage::rfc(move |seen| match seen.field("If-None-Match") {
        Some(_) => bare("304 Not Modified", &["ETag: \"1\"", secret, "X-Secret: of the second"]),
        None => response("200 OK", &["ETag: \"1\"", secret, "X-Secret: of the first"], b"page"),
    });
    assert_eq!(stage.get("/", &[]).field("X-Secret"), Some("of the first"));
    assert_eq!(stage.get("/", &[]).field("X-Secret"), None);
    stage.pass(60);
    stage.get("/", &[]);
    let hit = stage.get("/", &[]);
    assert_eq!((hit.text(), reason(&hit), hit.field("X-Secret")), ("page", "hit-fresh", None));
}

#[test]
fn late_304_does_not_restore_a_replaced_page() {
    for replacing in [&["Cache-Control: max-age=60"][..], &["Cache-Control: private"]] {
        let stage = Stage::rfc(|seen| tagged(seen, "\"1\"", &["Cache-Control: max-age=60"], "old"));
        stage.get("/", &[]);
        stage.pass(60);
        let gate = Gate::default();
        stage.becomes({
            let gate = gate.clone();
            move |seen| behind(&gate, tagged(seen, "\"1\"", &["Cache-Control: max-age=60"], "old"))
        });
        let mut slow = stage.begin("GET", "/", &["Cookie: session=1"]);
        stage.await_seen(2);
        stage.becomes(move |seen| tagged(seen, "\"2\"", replacing, "new"));
        assert_eq!(stage.get("/", &[]).text(), "new");
        gate.open();
        assert_eq!(slow.read().text(), "old");
        stage.await_quiet();
        assert_eq!(stage.get("/", &[]).text(), "new", "{replacing:?}");
    }
}

#[test]
fn simultaneous_reloads_share_one_revalidation() {
    let stage = Stage::new(|seen| tagged(seen, "\"1\"", &["Cache-Control: max-age=60"], "page"));
    stage.get("/", &[]);
    stage.pass(10);
    let gate = Gate::default();
    stage.becomes({
        let gate = gate.clone();
        move |seen| behind(&gate, tagged(seen, "\"1\"", &["Cache-Control: max-age=60"], "page"))
    });
    let mut clients = stage.crowd(5, &["Cache-Control: no-cache"]);
    gate.open();
    assert!(clients.iter_mut().all(|client| reason(&client.read()) == "hit-revalidated"));
    stage.await_seen(2);
    let hit = stage.get("/", &[]);
    assert_eq!((reason(&hit), hit.field("Age")), ("hit-fresh", Some("0")));
}

#[test]
fn page_without_validator_is_fetched_again() {
    let stage = Stage::new(|_| response("200 OK", &["Cache-Control: max-age=60"], b"page"));
    stage.get("/", &[]);
    stage.pass(60);
    assert_eq!(reason(&stage.get("/", &["If-None-Match: \"1\""])), "miss-expired");
    assert_eq!(stage.last_seen().head.matches("If-").count(), 0);
    // An unsolicited 304 is not passed on to a client that has no copy.
    stage.pass(60);
    stage.becomes(|_| bare("304 Not Modified", &["Cache-Control: max-age=60"]));
    let answer = stage.get("/", &[]);
    assert!((answer.status, answer.text()) == (200, "page") || answer.status >= 500, "{}", answer.head);
}

/// The second in which a [`Stage`] begins, and an earlier one, as HTTP dates.
const NOW: &str = "Tue, 14 Nov 2023 22:13:20 GMT";
const BEFORE: &str = "Tue, 14 Nov 2023 22:13:18 GMT";

/// A page whose date and entity tag have a resolution of one second, as Drupal's. They confirm any
/// content of that second.
fn dated(seen: &testkit::Seen, changed: &str, tag: Option<&str>, body: &str) -> Vec<testkit::Action> {
    let date = format!("Last-Modified: {changed}");
    let tag_line = tag.map(|tag| format!("ETag: {tag}"));
    let fields: Vec<&str> =
        ["Cache-Control: max-age=60", &date].into_iter().chain(tag_line.as_deref()).collect();
    if seen.field("If-None-Match").is_some() || seen.field("If-Modified-Since").is_some() {
        return bare("304 Not Modified", &fields);
    }
    response("200 OK", &fields, body.as_bytes())
}

fn soft_purge(stage: &Stage) {
    assert_eq!(stage.ask("PURGE", "/", &["X-Purge: invalidate"]).status, 200);
}

fn conditions(seen: &testkit::Seen) -> (bool, bool) {
    (seen.field("If-None-Match").is_some(), seen.field("If-Modified-Since").is_some())
}

#[test]
fn second_edit_within_a_second_is_seen_after_a_purge() {
    for tag in [Some("\"1700000000-0\""), None] {
        let stage = Stage::new(move |seen| dated(seen, NOW, tag, "first"));
        stage.get("/", &[]);
        stage.becomes(move |seen| dated(seen, NOW, tag, "second"));
        soft_purge(&stage);
        let shown = stage.get("/", &[]);
        assert_eq!((shown.text(), reason(&shown)), ("second", "miss-invalidated"), "{tag:?}");
        stage.becomes(move |seen| dated(seen, NOW, tag, "third"));
        assert_eq!(stage.ask("REFRESH", "/", &[]).status, 200);
        eventually("the page is fetched again", || stage.get("/", &[]).text() == "third");
    }
}

#[test]
fn older_validators_are_still_used_after_a_purge() {
    let stage = Stage::new(|seen| dated(seen, BEFORE, Some("\"1\""), "page"));
    stage.get("/", &[]);
    soft_purge(&stage);
    assert_eq!(reason(&stage.get("/", &[])), "hit-revalidated");
    assert_eq!(conditions(&stage.last_seen()), (true, true));
}

#[test]
fn exact_etags_setting_keeps_the_tag_after_a_purge() {
    let stage = Stage::with(
        |plan| plan.sites[0].policy.exact_etags = true,
        |seen| dated(seen, NOW, Some("\"1\""), "page"),
    );
    stage.get("/", &[]);
    soft_purge(&stage);
    assert_eq!(reason(&stage.get("/", &[])), "hit-revalidated");
    assert_eq!(conditions(&stage.last_seen()), (true, false));
}

#[test]
fn last_modified_of_the_same_second_is_no_validator() {
    let stage = Stage::new(|seen| dated(seen, NOW, None, "first"));
    stage.get("/", &[]);
    stage.becomes(|seen| dated(seen, NOW, None, "second"));
    stage.pass(60);
    assert_eq!(stage.get("/", &[]).text(), "second");
    // This response came a minute after the page's last change, so its date identifies one content.
    stage.pass(60);
    assert_eq!(reason(&stage.get("/", &[])), "hit-revalidated");
}

#[test]
fn head_does_not_renew_a_purged_page_by_weak_validators() {
    let stage = Stage::new(|seen| dated(seen, NOW, Some("\"1\""), "first"));
    stage.get("/", &[]);
    stage.becomes(|seen| dated(seen, NOW, Some("\"1\""), "other"));
    soft_purge(&stage);
    stage.ask("HEAD", "/", &[]);
    assert_eq!(stage.get("/", &[]).text(), "other");
}

#[test]
fn purged_part_is_not_joined_to_a_part_of_the_next_content() {
    let stage = Stage::new(|seen| crate::support::files::file(seen, "\"1\"", crate::support::files::DIGITS));
    stage.get("/", &["Range: bytes=0-4"]);
    stage.becomes(|seen| crate::support::files::file(seen, "\"1\"", crate::support::files::LETTERS));
    soft_purge(&stage);
    assert_eq!(stage.get("/", &["Range: bytes=5-9"]).text(), "fghij");
    stage.await_quiet();
    assert_eq!(stage.get("/", &["Range: bytes=0-9"]).text(), "abcdefghij");
    assert_eq!(stage.get("/", &[]).text(), "abcdefghij");
}

#[test]
fn unsolicited_304_is_an_origin_error() {
    let stage = Stage::new(|_| bare("304 Not Modified", &["ETag: \"1\""]));
    for fields in [&[][..], &["Cookie: session=1"], &["If-None-Match: \"1\""]] {
        let answer = stage.get("/", fields);
        assert_eq!((answer.status, reason(&answer)), (502, "origin-bad-response"), "{fields:?}");
    }
    let own = stage.get("/", &["Cookie: session=1", "If-None-Match: \"1\""]);
    assert_eq!(own.status, 304, "the client's own condition was passed on");
    assert_eq!(stage.ask("HEAD", "/", &[]).status, 502);
}

#[test]
fn stale_page_is_served_after_an_unsolicited_304() {
    let stage =
        Stage::new(|_| response("200 OK", &["Cache-Control: max-age=60, stale-if-error=600"], b"page"));
    stage.get("/", &[]);
    stage.pass(61);
    // The stored page has no validator, so the request has no condition.
    stage.becomes(|_| bare("304 Not Modified", &["ETag: \"1\""]));
    assert_eq!(stage.get("/", &[]).text(), "page");
}
