//! HEAD requests: they share the fetches of GET requests, and renew a page only with proof.

use crate::support::{Stage, bare, behind, reason};
use testkit::{Action, Gate, Seen, eventually, response};

const FRESH: &str = "Cache-Control: max-age=60";
/// The time at which a stage begins.
const NOW: &str = "Last-Modified: Tue, 14 Nov 2023 22:13:20 GMT";

fn methods(stage: &Stage) -> Vec<String> {
    let method = |seen: Seen| seen.head.split(' ').next().unwrap_or_default().to_owned();
    stage.origin.seen().into_iter().map(method).collect()
}

/// The response of an origin that supports HEAD.
fn answer(seen: &Seen, fields: &[&str], content: &[u8]) -> Vec<Action> {
    if seen.head.starts_with("HEAD ") {
        let length = format!("Content-Length: {}", content.len());
        let fields: Vec<&str> = fields.iter().copied().chain([&length[..]]).collect();
        return bare("200 OK", &fields);
    }
    response("200 OK", fields, content)
}

#[test]
fn fifty_head_requests_for_an_absent_page_share_one_fetch() {
    let gate = Gate::default();
    let stage = Stage::new({
        let gate = gate.clone();
        move |seen| behind(&gate, answer(seen, &[FRESH, "ETag: \"1\""], b"page"))
    });
    let mut heads: Vec<_> = (0..50).map(|_| stage.begin("HEAD", "/", &[])).collect();
    eventually("49 wait", || stage.metric("petasos_flight_waits_total", "") == 49);
    gate.open();
    for head in &mut heads {
        let head = head.read_head();
        assert_eq!(
            (head.status, head.field("ETag"), head.field("Content-Length")),
            (200, Some("\"1\""), Some("4"))
        );
    }
    let page = stage.get("/", &[]);
    assert_eq!((page.text(), reason(&page)), ("page", "hit-fresh"));
    assert_eq!(reason(&stage.ask("HEAD", "/", &[])), "hit-fresh");
    assert_eq!(methods(&stage), ["GET"]);
}

#[test]
fn head_is_answered_before_the_content_has_arrived() {
    let gate = Gate::default();
    let stage = Stage::new({
        let gate = gate.clone();
        move |_| {
            let head = bare("200 OK", &[FRESH, "Content-Length: 4"]);
            [head, behind(&gate, vec![Action::Send(b"page".to_vec())])].concat()
        }
    });
    let head = stage.ask("HEAD", "/", &[]);
    assert_eq!((head.status, head.field("Content-Length")), (200, Some("4")));
    gate.open();
    assert_eq!(stage.get("/", &[]).text(), "page");
    assert_eq!(methods(&stage), ["GET"]);
}

#[test]
fn head_of_a_private_page_reads_no_content() {
    const BYTES: usize = 64 << 20;
    let stage = Stage::new(|seen| {
        if seen.target() == "/next" {
            return response("200 OK", &[], b"next");
        }
        let fields = ["Cache-Control: no-store", "Content-Length: 67108864"];
        let content = if seen.head.starts_with("GET ") { vec![b'a'; BYTES] } else { Vec::new() };
        [bare("200 OK", &fields), vec![Action::Send(content)]].concat()
    });
    for _ in 0..3 {
        let mut client = stage.begin("HEAD", "/", &[]);
        let head = client.read_head();
        assert_eq!((head.status, head.field("Content-Length")), (200, Some("67108864")));
        // The connection is still usable, so the next response is read correctly.
        assert_eq!(client.get("/next", &[]).text(), "next");
    }
    assert_eq!(methods(&stage), ["GET", "GET", "HEAD", "GET", "HEAD", "GET"]);
}

#[test]
fn rfc_profile_forwards_head_requests() {
    let stage = Stage::rfc(|seen| answer(seen, &[FRESH], b"page"));
    stage.ask("HEAD", "/", &[]);
    assert_eq!(stage.get("/", &[]).text(), "page");
    assert_eq!(methods(&stage), ["HEAD", "GET"]);
}

#[test]
fn head_does_not_renew_by_last_modified_of_the_same_second() {
    for stage in [Stage::new as fn(_) -> Stage, Stage::rfc] {
        let stage = stage(|seen: &Seen| answer(seen, &[FRESH, NOW], b"first"));
        stage.get("/", &[]);
        stage.becomes(|seen| answer(seen, &[FRESH, NOW], b"other"));
        stage.pass(60);
        assert_eq!(stage.ask("HEAD", "/", &[]).status, 200);
        assert_eq!(stage.get("/", &[]).text(), "other");
    }
}

#[test]
fn head_without_proof_causes_a_refetch_of_the_page() {
    let stage = Stage::new(|seen| answer(seen, &[FRESH, NOW], b"page"));
    stage.get("/", &[]);
    stage.pass(60);
    assert_eq!(reason(&stage.ask("HEAD", "/", &[])), "miss-expired");
    stage.await_seen(3);
    stage.await_quiet();
    assert_eq!(reason(&stage.ask("HEAD", "/", &[])), "hit-fresh");
    assert_eq!(methods(&stage), ["GET", "HEAD", "GET"]);
}

#[test]
fn head_renews_a_page_with_an_older_date() {
    let stage =
        Stage::new(|seen| answer(seen, &[FRESH, "Last-Modified: Tue, 14 Nov 2023 22:00:00 GMT"], b"page"));
    stage.get("/", &[]);
    stage.pass(60);
    stage.ask("HEAD", "/", &[]);
    assert_eq!(reason(&stage.get("/", &[])), "hit-fresh");
    assert_eq!(methods(&stage), ["GET", "HEAD"]);
}

#[test]
fn rule_in_a_head_response_applies_to_later_purges() {
    const SETTLED: &str = "Last-Modified: Tue, 14 Nov 2023 22:00:00 GMT";
    let stage = Stage::new(|seen| answer(seen, &[FRESH, SETTLED], b"page"));
    stage.get("/?utm=1", &[]);
    stage.becomes(|seen| answer(seen, &[FRESH, SETTLED, "No-Vary-Search: params=(\"utm\")"], b"page"));
    stage.pass(60);
    stage.ask("HEAD", "/?utm=1", &[]);
    assert_eq!(reason(&stage.get("/?utm=1", &[])), "hit-fresh");
    assert_eq!(stage.ask("PURGE", "/?utm=2", &[]).status, 200);
    assert_eq!(reason(&stage.get("/?utm=1", &[])), "miss-absent");
}

#[test]
fn unshared_page_is_sent_in_the_language_of_its_client() {
    for caching in ["Cache-Control: private", "Cache-Control: no-store", "Cache-Control: max-age=60"] {
        for methods in [["GET", "HEAD"], ["HEAD", "GET"], ["HEAD", "HEAD"]] {
            let stage = Stage::new(move |seen| {
                let language = seen.field("Accept-Language").unwrap_or("none");
                let field = format!("X-Language: {language}");
                answer(seen, &[caching, "Vary: Accept-Language", &field], b"page")
            });
            for (count, method) in methods.into_iter().enumerate() {
                let page = stage.ask(method, "/", &["Accept-Language: de"]);
                assert_eq!(page.field("X-Language"), Some("de"), "{caching}, {methods:?} {count}");
            }
        }
    }
}
