//! Refill after a purge: the most requested pages are fetched again in their order and without
//! personal fields. The rate is limited, and the origin must be idle.

use crate::support::{Stage, bare, behind, connect, reason, tagged};
use clock::Clock;
use platform::SystemClock;
use std::time::Duration;
use testkit::{Action, Client, Gate, Response, Seen, eventually, response};

const FRESH: &str = "Cache-Control: max-age=600";

fn page(seen: &Seen) -> Vec<Action> {
    response("200 OK", &[FRESH, "xkey: all"], seen.target().as_bytes())
}

/// An edge that refills after every purge, at this rate.
fn refilling(rate: u32, script: impl Fn(&Seen) -> Vec<Action> + Send + Sync + 'static) -> Stage {
    Stage::with(
        |plan| {
            plan.refill.enabled = true;
            plan.refill.rate = rate;
        },
        script,
    )
}

/// An edge with the sites example.test and other.test, which makes one fetch at a time for each
/// and refills after every purge.
fn two_sites() -> Stage {
    let plan = |plan: &mut config::EdgePlan| {
        plan.refill.enabled = true;
        plan.refill.rate = 1000;
        plan.limits.fetches_max = 1;
        let site = plan.sites.remove(0);
        let of = |id, name: &str| config::SitePlan { id, names: vec![name.to_owned()], ..site.clone() };
        plan.sites = vec![of(0, "example.test"), of(1, "other.test")];
    };
    Stage::with(plan, page)
}

/// The response to a request for a page of other.test.
fn ask_other(stage: &Stage, method: &str, target: &str) -> Response {
    let mut client = connect(&stage.edge);
    client.send(format!("{method} {target} HTTP/1.1\r\nHost: other.test\r\n\r\n"));
    client.read()
}

/// Keeps the origin of example.test busy with a request for `/slow` until the gate is opened.
fn occupy(stage: &Stage) -> (Gate, Client) {
    let gate = Gate::default();
    let closed = gate.clone();
    stage
        .becomes(move |seen| if seen.target() == "/slow" { behind(&closed, page(seen)) } else { page(seen) });
    let slow = stage.begin("GET", "/slow", &[]);
    eventually("the origin is busy", || stage.origin.count("/slow") == 1);
    (gate, slow)
}

/// Stores the page and delivers it this many times as a hit.
fn request(stage: &Stage, target: &str, hits: usize, fields: &[&str]) {
    stage.get(target, fields);
    for _ in 0..hits {
        assert_eq!(reason(&stage.get(target, fields)), "hit-fresh", "{target}");
    }
}

fn purge_all(stage: &Stage) {
    assert_eq!(stage.ask("PURGE", "/", &["Clear-Cache: true"]).status, 200);
}

/// The targets of the origin's requests after the first `before`.
fn seen_since(stage: &Stage, before: usize) -> Vec<String> {
    stage.origin.seen().iter().skip(before).map(|seen| seen.target().to_owned()).collect()
}

fn refills(stage: &Stage) -> u64 {
    stage.metric("petasos_refills_total", "")
}

/// Waits until this many pages have been refetched and no fetch is under way.
fn await_refills(stage: &Stage, count: u64) {
    eventually("pages are fetched again", || refills(stage) == count);
    stage.await_quiet();
}

#[test]
fn most_requested_pages_are_refetched_first() {
    let stage = refilling(1000, page);
    for (target, hits) in [("/rare", 1), ("/often", 9), ("/sometimes", 4)] {
        request(&stage, target, hits, &[]);
    }
    stage.get("/never-hit", &[]);
    let before = stage.origin.seen().len();
    purge_all(&stage);
    await_refills(&stage, 3);
    assert_eq!(seen_since(&stage, before), ["/often", "/sometimes", "/rare"]);
    for target in ["/often", "/sometimes", "/rare"] {
        assert_eq!(reason(&stage.get(target, &[])), "hit-fresh");
    }
    assert!(stage.metric("petasos_popular_pages", "") >= 3);
}

#[test]
fn refill_skips_stored_pages_and_revalidates_stale_ones() {
    let stage = refilling(1000, |seen| {
        tagged(
            seen,
            "\"1\"",
            &[
                FRESH,
                "Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT",
                &format!("xkey: {}", &seen.target()[1..]),
            ],
            "page",
        )
    });
    request(&stage, "/a", 3, &[]);
    request(&stage, "/b", 2, &[]);
    let before = stage.origin.seen().len();
    assert_eq!(stage.ask("PURGE", "/", &["xkey-softpurge: b"]).status, 200);
    await_refills(&stage, 1);
    assert_eq!(seen_since(&stage, before), ["/b"]);
    assert_eq!(stage.last_seen().field("If-None-Match"), Some("\"1\""));
    assert_eq!(reason(&stage.get("/b", &[])), "hit-fresh");
}

#[test]
fn refill_keeps_to_its_rate() {
    let stage = refilling(2, page);
    for number in 0..5 {
        request(&stage, &format!("/{number}"), 1, &[]);
    }
    let clock = SystemClock::new();
    let begun = clock.monotonic();
    purge_all(&stage);
    await_refills(&stage, 3);
    // True even on a slow machine: three fetches are separated by two intervals of half a second.
    assert!(clock.monotonic().since(begun) >= Duration::from_millis(1000));
}

#[test]
fn refill_waits_while_the_origin_is_busy() {
    let stage = two_sites();
    request(&stage, "/a", 2, &[]);
    (0..2).for_each(|_| assert_eq!(ask_other(&stage, "GET", "/b").status, 200));
    let before = stage.origin.seen().len();
    let (gate, mut slow) = occupy(&stage);
    purge_all(&stage);
    eventually("refilling waits", || stage.metric("petasos_refills_postponed_total", "") == 1);
    let mut visitor = stage.begin("GET", "/visited", &[]);
    eventually("the visitor waits", || stage.metric("petasos_origin_fetches_waiting", "") == 1);
    // Refill looks at /a before /b, because /a was requested more often.
    assert_eq!(ask_other(&stage, "PURGE", "/b").status, 200);
    eventually("refill has looked at all pages", || stage.origin.count("/b") == 2);
    assert_eq!(seen_since(&stage, before), ["/slow", "/b"]);
    gate.open();
    slow.read();
    visitor.read();
    await_refills(&stage, 2);
    assert_eq!(seen_since(&stage, before), ["/slow", "/b", "/visited", "/a"]);
}

#[test]
fn busy_origin_does_not_delay_the_refill_of_other_sites() {
    let stage = two_sites();
    stage.get("/a", &[]);
    (0..4).for_each(|_| assert_eq!(ask_other(&stage, "GET", "/b").status, 200));
    let (gate, mut slow) = occupy(&stage);
    assert_eq!(stage.ask("REFRESH", "/a", &[]).status, 200);
    eventually("its page waits", || stage.metric("petasos_refills_postponed_total", "") == 1);
    assert_eq!(ask_other(&stage, "REFRESH", "/b").status, 200);
    eventually("an ordered page of the other site is fetched", || stage.origin.count("/b") == 2);
    assert_eq!(ask_other(&stage, "PURGE", "/b").status, 200);
    eventually("a purged page of the other site is fetched", || stage.origin.count("/b") == 3);
    assert_eq!(stage.origin.count("/a"), 1);
    gate.open();
    slow.read();
    eventually("the page that waited is fetched", || stage.origin.count("/a") == 2);
}

#[test]
fn refill_sends_no_personal_fields() {
    let secrets = ["Cookie: session=1", "Authorization: Basic c2VjcmV0", "X-Api-Key: 7"];
    for (number, rfc) in [false, true].into_iter().enumerate() {
        let stage = Stage::with(
            |plan| {
                plan.refill.enabled = true;
                plan.refill.rate = 1000;
                plan.sites.iter_mut().filter(|_| rfc).for_each(|site| site.policy = profiles::Policy::rfc());
            },
            |seen| match seen.target() {
                "/by-cookie" => {
                    response("200 OK", &[FRESH, "Cache-Control: public", "Vary: Cookie, X-Api-Key"], b"own")
                }
                _ => response("200 OK", &[FRESH, "Cache-Control: public", "Vary: Accept-Language"], b"page"),
            },
        );
        for target in ["/by-cookie", "/mine", "/all"] {
            for _ in 0..4 {
                stage.get(target, &secrets);
            }
        }
        for _ in 0..4 {
            stage.get("/all", &["Accept-Language: fr", "Referer: http://secret.test/", "X-Secret: 1"]);
            stage.get("/all", &["Accept-Language: fr"]);
        }
        // Refill fetches this page last, because it was requested least.
        request(&stage, "/last", 1, &[]);
        let before = stage.origin.seen().len();
        purge_all(&stage);
        eventually("the refill has come to its last page", || stage.origin.count("/last") == 2);
        let again: Vec<_> = stage.origin.seen().into_iter().skip(before).collect();
        let targets: Vec<_> = again.iter().map(Seen::target).collect();
        assert_eq!(targets, ["/all", "/last"], "{number}");
        for secret in ["session", "Basic", "Api-Key", "Referer", "X-Secret"] {
            assert!(!again.iter().any(|seen| seen.head.contains(secret)), "{secret}: {again:?}");
        }
        assert_eq!(reason(&stage.get("/all", &["Accept-Language: fr"])), "hit-fresh");
    }
}

#[test]
fn requested_variants_are_refetched() {
    let stage = refilling(1000, |seen| {
        let language = seen.field("Accept-Language").unwrap_or("none").to_owned();
        response("200 OK", &[FRESH, "Vary: Accept-Language"], language.as_bytes())
    });
    for (language, hits) in [("Accept-Language: fr", 4), ("Accept-Language: de", 2)] {
        stage.get("/", &[language]);
        request(&stage, "/", hits, &[language]);
    }
    purge_all(&stage);
    await_refills(&stage, 2);
    for language in ["fr", "de"] {
        let answer = stage.get("/", &[&format!("Accept-Language: {language}")]);
        assert_eq!((reason(&answer), answer.text()), ("hit-fresh", language));
    }
}

#[test]
fn refill_stops_if_the_origin_fails() {
    let stage = two_sites();
    for number in 0..8 {
        request(&stage, &format!("/{number}"), 2, &[]);
    }
    // Refill looks at this page last, because it was requested least.
    (0..2).for_each(|_| assert_eq!(ask_other(&stage, "GET", "/last").status, 200));
    stage.becomes(|seen| match seen.target() {
        "/last" => page(seen),
        _ => response("500 Internal Server Error", &[], b"dying"),
    });
    let before = stage.origin.seen().len();
    assert_eq!(stage.call_admin("POST", "/purge", r#"{"type":"all"}"#).status, 200);
    eventually("the refill has come to its last page", || stage.origin.count("/last") == 2);
    assert_eq!(stage.metric("petasos_refill_failures_total", ""), 3);
    let again = seen_since(&stage, before);
    assert!(again.len() == 4 && again[3] == "/last", "{again:?}");
}

#[test]
fn purge_order_can_request_or_prevent_a_refill() {
    let stage = Stage::new(page);
    request(&stage, "/a", 2, &[]);
    purge_all(&stage);
    let content = |refill| format!(r#"{{"type":"all","refill":{refill}}}"#);
    request(&stage, "/a", 2, &[]);
    assert_eq!(stage.call_admin("POST", "/purge", &content(true)).status, 200);
    await_refills(&stage, 1);
    assert_eq!(stage.ask("PURGE", "/a", &["Petasos-Refill: 1"]).status, 200);
    await_refills(&stage, 2);
    assert_eq!(stage.ask("PURGE", "/a", &["Petasos-Refill: maybe"]).status, 400);
    let always = two_sites();
    request(&always, "/a", 3, &[]);
    request(&always, "/b", 1, &[]);
    let (gate, mut slow) = occupy(&always);
    assert_eq!(always.ask("PURGE", "/b", &[]).status, 200);
    eventually("the refill of /b waits", || always.metric("petasos_refills_postponed_total", "") == 1);
    assert_eq!(always.call_admin("POST", "/purge", &content(false)).status, 200);
    gate.open();
    slow.read();
    // A refill of /a would precede the one of /b, because /a was requested more often.
    eventually("/b is fetched again", || always.origin.count("/b") == 2);
    assert_eq!(always.origin.count("/a"), 1);
    assert_eq!(reason(&always.get("/a", &[])), "miss-absent");
}

#[test]
fn visitor_joins_a_refill_and_a_purge_revokes_it() {
    let gate = Gate::default();
    let stage = refilling(1000, page);
    request(&stage, "/a", 2, &[]);
    let closed = gate.clone();
    stage.becomes(move |_| behind(&closed, response("200 OK", &[FRESH], b"old")));
    purge_all(&stage);
    eventually("the page is being fetched", || refills(&stage) == 1);
    eventually("the origin was asked", || stage.origin.count("/a") == 2);
    let mut joining = stage.begin("GET", "/a", &[]);
    eventually("a client waits for the page", || stage.metric("petasos_flight_waits_total", "") == 1);
    stage.becomes(|_| response("200 OK", &[FRESH], b"new"));
    assert_eq!(stage.ask("PURGE", "/a", &["Petasos-Refill: 0"]).status, 200);
    assert_eq!(stage.get("/a", &[]).text(), "new");
    gate.open();
    assert_eq!(joining.read().text(), "new", "no waiter gets an invalidated response");
    stage.await_quiet();
    assert_eq!(stage.get("/a", &[]).text(), "new");
}

#[test]
fn refresh_method_refetches_the_page_at_once() {
    let stage = Stage::new(|seen| {
        tagged(seen, "\"1\"", &[FRESH, "Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT"], "page")
    });
    request(&stage, "/a", 0, &[]);
    let answer = stage.ask("REFRESH", "/a", &[]);
    assert_eq!((answer.status, answer.field("X-Purged-Count")), (200, Some("1")));
    await_refills(&stage, 1);
    assert_eq!(stage.last_seen().field("If-None-Match"), Some("\"1\""));
    assert_eq!(reason(&stage.get("/a", &[])), "hit-fresh");
    assert_eq!(stage.ask("REFRESH", "/new", &[]).status, 200);
    await_refills(&stage, 2);
    assert_eq!(stage.origin.count("/new"), 1, "an absent page is fetched too");
    assert_eq!(stage.ask("REFRESH", "/a", &["X-Forwarded-For: 203.0.113.9"]).status, 403);
}

#[test]
fn get_with_x_refresh_returns_the_new_page() {
    let stage = Stage::new(|seen| tagged(seen, "\"1\"", &[FRESH], "old"));
    request(&stage, "/a", 1, &[]);
    stage.becomes(|seen| tagged(seen, "\"2\"", &[FRESH], "new"));
    assert_eq!(stage.get("/a", &[]).text(), "old");
    let answer = stage.get("/a", &["X-Refresh: 1"]);
    assert_eq!((answer.text(), reason(&answer)), ("new", "miss-refresh"));
    assert_eq!(stage.last_seen().field("X-Refresh"), None, "the edge does not forward the field");
    let answer = stage.get("/a", &[]);
    assert_eq!((answer.text(), reason(&answer)), ("new", "hit-fresh"));
    let forwarded = stage.get("/a", &["X-Refresh: 1", "X-Forwarded-For: 203.0.113.9"]);
    assert_eq!(reason(&forwarded), "pass-unknown-field", "from other clients it is an ordinary field");
    assert_eq!(reason(&stage.get("/a", &[])), "hit-fresh");
}

#[test]
fn token_of_a_refresh_is_not_forwarded_to_the_origin() {
    use std::io::Write;
    let mut file = tempfile::NamedTempFile::new().unwrap();
    writeln!(file, "secret").unwrap();
    let token_file = file.path().to_owned();
    let plan = |plan: &mut config::EdgePlan| {
        plan.purge_peers = address::Prefixes::default();
        plan.token_file = Some(token_file);
    };
    let stage = Stage::with(plan, page);
    request(&stage, "/a", 1, &[]);
    let answer = stage.get("/a", &["X-Refresh: 1", "Authorization: Bearer secret"]);
    assert_eq!(reason(&answer), "miss-refresh");
    assert!(!stage.last_seen().head.contains("secret"), "{:?}", stage.last_seen());
    assert_eq!(reason(&stage.get("/a", &["X-Refresh: 1"])), "pass-unknown-field");
}

#[test]
fn head_of_a_purge_order_may_be_longer() {
    let stage = Stage::new(page);
    request(&stage, "/a", 1, &[]);
    let tags: String = (0..3300).map(|number| format!("tag-number-{number:08} ")).collect();
    let tags = format!("xkey-purge: {tags}all");
    assert!(tags.len() > 64 * 1024);
    assert_eq!(stage.get("/a", &[&tags]).status, 431, "clients' heads keep their usual limit");
    let answer = stage.ask("PURGE", "/", &[&tags]);
    assert_eq!((answer.status, answer.field("X-Purged-Count")), (200, Some("1")), "{}", answer.text());
    let from_afar = stage.ask("PURGE", "/", &["X-Forwarded-For: 203.0.113.9", &tags]);
    assert_eq!(from_afar.status, 431, "a client without the right to purge keeps the usual limit");
    let twice = format!("{tags} {tags}");
    assert_eq!(stage.ask("PURGE", "/", &[&twice]).status, 431);
    // The next request on the same connection has the usual limit again.
    let mut client = connect(&stage.edge);
    client.send(format!("PURGE / HTTP/1.1\r\nHost: example.test\r\n{tags}\r\n\r\n"));
    assert_eq!(client.read().status, 200);
    client.send(format!("GET / HTTP/1.1\r\nHost: example.test\r\n{tags}\r\n\r\n"));
    assert_eq!(client.read().status, 431);
    let admin = format!(
        "POST /service/any/purge HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n{}\r\n\r\n",
        tags.replace("xkey-purge", "Surrogate-Key")
    );
    assert_eq!(crate::support::admin(&stage.edge, &admin).status, 200);
}

#[test]
fn unsolicited_304_during_a_refill_is_not_stored() {
    // A 304 response to a request without validators violates HTTP, so nothing of it is stored.
    let stage = refilling(1000, page);
    request(&stage, "/a", 1, &[]);
    stage.becomes(|_| bare("304 Not Modified", &[FRESH]));
    purge_all(&stage);
    await_refills(&stage, 1);
    stage.becomes(page);
    assert_eq!(stage.get("/a", &[]).text(), "/a");
}
