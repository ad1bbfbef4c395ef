//! Which responses are shared, and with which clients.

use crate::support::{address, before, connect, metric, plan, reason, start_at};
use clock::{ManualClock, Timestamp};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use testkit::{Action, Client, Gate, Origin, eventually, response};

const FRESH: &str = "Cache-Control: max-age=60";

/// An origin whose responses contain their number.
fn counting(fields: &'static [&'static str]) -> Origin {
    let count = AtomicUsize::new(0);
    Origin::start(move |_| {
        let number = count.fetch_add(1, Ordering::SeqCst) + 1;
        response("200 OK", fields, format!("answer {number}").as_bytes())
    })
}

#[test]
fn second_request_is_a_hit_with_its_age() {
    let origin = counting(&[FRESH, "Content-Type: text/html", "ETag: \"a\""]);
    let clock = Arc::new(ManualClock::at(Timestamp::from_secs(1_700_000_000)));
    let edge = start_at(plan(&origin.url()), clock.clone());
    let miss = connect(&edge).get("/", &[]);
    assert_eq!((miss.text(), reason(&miss)), ("answer 1", "miss-absent"));
    clock.advance(Duration::from_secs(7));
    let hit = connect(&edge).get("/", &[]);
    assert_eq!((hit.text(), reason(&hit)), ("answer 1", "hit-fresh"));
    assert_eq!(hit.field("Age"), Some("7"));
    assert_eq!(hit.field("Cache-Status"), Some("Petasos; hit; ttl=53; detail=hit-fresh"));
    assert_eq!((hit.field("Content-Type"), hit.field("ETag")), (Some("text/html"), Some("\"a\"")));
    assert_eq!(hit.field("Via"), Some("1.1 petasos"));
    assert!(hit.field("Date").is_some());
    clock.advance(Duration::from_secs(53));
    let expired = connect(&edge).get("/", &[]);
    assert_eq!((expired.text(), reason(&expired)), ("answer 2", "miss-expired"));
    // A request is recorded after its response was sent.
    eventually("the hit is recorded", || {
        metric(&edge, "petasos_requests_total", "reason=\"hit-fresh\"") == 1
    });
    assert_eq!(metric(&edge, "petasos_origin_fetches_total", ""), 2);
}

#[test]
fn variants_are_stored_separately() {
    let origin = Origin::start(|seen| {
        let language = seen.field("Accept-Language").unwrap_or("none").to_owned();
        response("200 OK", &[FRESH, "Vary: Accept-Language"], language.as_bytes())
    });
    let edge = before(&origin);
    for _ in 0..2 {
        for language in ["fr", "de"] {
            let answer = connect(&edge).get("/", &[&format!("Accept-Language: {language}")]);
            assert_eq!(answer.text(), language);
        }
        assert_eq!(connect(&edge).get("/", &[]).text(), "none");
    }
    let hit = connect(&edge).get("/", &["Accept-Language: fr"]);
    assert_eq!((hit.text(), reason(&hit)), ("fr", "hit-fresh"));
    assert!(origin.seen().len() <= 4, "{} requests for three variants", origin.seen().len());
}

#[test]
fn personal_requests_and_responses_are_not_shared() {
    for (request, answer) in [
        (&["Cookie: session=1"][..], &[FRESH][..]),
        (&["Authorization: Basic eDp5"], &[FRESH]),
        (&[], &[FRESH, "Set-Cookie: a=b"]),
        (&[], &["Cache-Control: private, max-age=60"]),
        (&[], &["Cache-Control: no-store"]),
        (&[], &[]),
    ] {
        let origin = counting(answer);
        let edge = before(&origin);
        for number in 1..=3 {
            let page = connect(&edge).get("/", request);
            assert_eq!(page.text(), format!("answer {number}"), "{request:?} {answer:?}");
        }
        assert_eq!(metric(&edge, "petasos_store_objects", ""), 0);
    }
}

#[test]
fn visitor_with_a_session_neither_gets_nor_changes_the_page() {
    let origin =
        Origin::start(|seen| response("200 OK", &[FRESH], seen.field("Cookie").unwrap_or("-").as_bytes()));
    let edge = before(&origin);
    assert_eq!(connect(&edge).get("/", &[]).text(), "-");
    let own = connect(&edge).get("/", &["Cookie: session=me"]);
    assert_eq!((own.text(), reason(&own)), ("session=me", "pass-cookie"));
    assert_eq!(connect(&edge).get("/", &[]).text(), "-");
    assert_eq!(connect(&edge).get("/", &["Cookie: _ga=1"]).text(), "-", "noise does not matter");
}

#[test]
fn different_hosts_share_nothing() {
    let origin = Origin::start(|seen| response("200 OK", &[FRESH], seen.field("Host").unwrap().as_bytes()));
    let edge = before(&origin);
    for _ in 0..2 {
        for host in ["a.test", "b.test", "a.test:8080"] {
            let mut client = connect(&edge);
            client.send(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"));
            assert_eq!(client.read().text(), host);
            client.send(format!("GET http://{host}/ HTTP/1.1\r\nHost: other.test\r\n\r\n"));
            assert_eq!(client.read().text(), host);
        }
    }
    assert_eq!(origin.seen().len(), 3);
}

#[test]
fn shared_fetch_forwards_only_fields_of_the_key() {
    let origin = Origin::start(|_| response("200 OK", &[FRESH], b"page"));
    let edge = before(&origin);
    connect(&edge)
        .get("/", &["X-Forwarded-Host: evil.test", "User-Agent: evil", "Cookie: _ga=evil", "Referer: evil"]);
    connect(&edge)
        .get("/unknown", &["X-Unknown: evil", "X-Forwarded-Host: evil.test", "X-Original-URL: /evil"]);
    for seen in origin.seen() {
        let allowed = usize::from(seen.target() == "/unknown");
        assert_eq!(seen.head.matches("evil").count(), allowed, "{}", seen.head);
        assert_eq!(seen.field("X-Forwarded-Host"), Some("example.test"));
    }
}

/// Sends GET requests on `size` connections, waits until `waiting` holds, opens the gate and
/// returns the responses.
fn crowd(
    edge: &petasos_edge::RunningEdge,
    gate: &Gate,
    size: usize,
    waiting: impl Fn() -> bool,
) -> Vec<testkit::Response> {
    let mut clients: Vec<Client> = (0..size).map(|_| connect(edge)).collect();
    for client in &mut clients {
        client.send("GET / HTTP/1.1\r\nHost: example.test\r\n\r\n");
    }
    eventually("all requests wait", waiting);
    gate.open();
    clients.iter_mut().map(Client::read).collect()
}

#[test]
fn fifty_simultaneous_misses_cost_one_fetch() {
    let gate = Gate::default();
    let origin = Origin::start({
        let gate = gate.clone();
        move |_| [vec![Action::Await(gate.clone())], response("200 OK", &[FRESH], &[b'x'; 100_000])].concat()
    });
    let edge = before(&origin);
    let answers = crowd(&edge, &gate, 50, || metric(&edge, "petasos_flight_waits_total", "") == 49);
    for answer in &answers {
        assert_eq!((answer.status, answer.body.len(), answer.complete), (200, 100_000, true));
    }
    assert_eq!(origin.seen().len(), 1);
    assert_eq!(answers.iter().filter(|answer| reason(answer) == "miss-collapsed").count(), 49);
    assert_eq!(reason(&connect(&edge).get("/", &[])), "hit-fresh");
}

#[test]
fn followers_stream_the_body_while_it_fills() {
    let gate = Gate::default();
    let origin = Origin::start({
        let gate = gate.clone();
        move |_| {
            vec![
                Action::Send(
                    format!("HTTP/1.1 200 OK\r\n{FRESH}\r\nContent-Length: 10\r\n\r\nhello").into_bytes(),
                ),
                Action::Await(gate.clone()),
                Action::Send(b"world".to_vec()),
            ]
        }
    });
    let edge = before(&origin);
    let mut clients = [connect(&edge), connect(&edge)];
    for client in &mut clients {
        client.send("GET / HTTP/1.1\r\nHost: example.test\r\n\r\n");
        assert_eq!(client.read_head().status, 200);
        assert_eq!(client.read_octets(5), b"hello");
    }
    gate.open();
    for client in &mut clients {
        assert_eq!(client.read_octets(5), b"world");
    }
    assert_eq!(origin.seen().len(), 1);
}

#[test]
fn followers_of_a_private_page_get_their_own_responses() {
    let (gate, count) = (Gate::default(), AtomicUsize::new(0));
    let origin = Origin::start({
        let gate = gate.clone();
        move |_| {
            let number = count.fetch_add(1, Ordering::SeqCst);
            let own = response("200 OK", &["Cache-Control: private"], format!("{number}").as_bytes());
            [vec![Action::Await(gate.clone())], own].concat()
        }
    });
    let edge = before(&origin);
    let answers = crowd(&edge, &gate, 20, || metric(&edge, "petasos_flight_waits_total", "") == 19);
    let mut bodies: Vec<_> = answers.iter().map(|answer| answer.text().to_owned()).collect();
    bodies.sort();
    bodies.dedup();
    assert_eq!(bodies.len(), 20, "no response went to two clients");
    // From now on no request waits for another one.
    connect(&edge).get("/", &[]);
    assert_eq!(metric(&edge, "petasos_flight_waits_total", ""), 19);
}

#[test]
fn follower_that_waited_too_long_sends_its_own_request() {
    let (gate, count) = (Gate::default(), AtomicUsize::new(0));
    let origin = Origin::start({
        let gate = gate.clone();
        move |_| {
            let page = response("200 OK", &[FRESH], b"page");
            if count.fetch_add(1, Ordering::SeqCst) == 0 {
                return [vec![Action::Await(gate.clone())], page].concat();
            }
            page
        }
    });
    let mut plan = plan(&origin.url());
    plan.limits.flight_wait = Duration::from_millis(20);
    let edge = crate::support::start(plan);
    let mut leader = connect(&edge);
    leader.send("GET / HTTP/1.1\r\nHost: example.test\r\n\r\n");
    eventually("the leader's request arrives", || {
        origin.seen().len() == 1 || metric(&edge, "petasos_origin_fetches_total", "") == 1
    });
    assert_eq!(connect(&edge).get("/", &[]).text(), "page");
    assert_eq!(metric(&edge, "petasos_flight_wait_timeouts_total", ""), 1);
    gate.open();
    assert_eq!(leader.read().text(), "page");
}

#[test]
fn leader_that_disconnects_does_not_end_the_fetch() {
    let gate = Gate::default();
    let origin = Origin::start({
        let gate = gate.clone();
        move |_| [vec![Action::Await(gate.clone())], response("200 OK", &[FRESH], b"page")].concat()
    });
    let edge = before(&origin);
    let mut leader = connect(&edge);
    leader.send("GET / HTTP/1.1\r\nHost: example.test\r\n\r\n");
    eventually("the fetch begins", || metric(&edge, "petasos_flights_started_total", "") == 1);
    let mut waiter = connect(&edge);
    waiter.send("GET / HTTP/1.1\r\nHost: example.test\r\n\r\n");
    eventually("the waiter waits", || metric(&edge, "petasos_flight_waits_total", "") == 1);
    drop(leader);
    gate.open();
    assert_eq!(waiter.read().text(), "page");
    assert_eq!(reason(&connect(&edge).get("/", &[])), "hit-fresh");
    assert_eq!(origin.seen().len(), 1);
}

#[test]
fn requests_with_sessions_never_wait_for_one_another() {
    let gate = Gate::default();
    let origin = Origin::start({
        let gate = gate.clone();
        move |_| [vec![Action::Await(gate.clone())], response("200 OK", &[FRESH], b"own")].concat()
    });
    let edge = before(&origin);
    let mut clients: Vec<_> = (0..5).map(|_| connect(&edge)).collect();
    for client in &mut clients {
        client.send("GET / HTTP/1.1\r\nHost: example.test\r\nCookie: session=1\r\n\r\n");
    }
    eventually("all requests reach the origin", || metric(&edge, "petasos_origin_fetches_total", "") == 5);
    gate.open();
    assert!(clients.iter_mut().all(|client| client.read().text() == "own"));
    assert_eq!(metric(&edge, "petasos_flight_waits_total", ""), 0);
}

#[test]
fn conditions_and_head_are_answered_from_the_store() {
    let origin = counting(&[FRESH, "ETag: \"a\"", "Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT"]);
    let edge = before(&origin);
    let mut client = connect(&edge);
    assert_eq!(client.get("/", &[]).status, 200);
    for condition in ["If-None-Match: W/\"a\"", "If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT"] {
        let unchanged = client.get("/", &[condition]);
        assert_eq!((unchanged.status, reason(&unchanged)), (304, "hit-fresh"));
        assert_eq!((unchanged.field("ETag"), unchanged.field("Age")), (Some("\"a\""), Some("0")));
    }
    assert_eq!(client.get("/", &["If-Match: \"b\""]).status, 412);
    client.send("HEAD / HTTP/1.1\r\nHost: example.test\r\n\r\n");
    let head = client.read_head();
    assert_eq!((head.status, head.field("Content-Length"), reason(&head)), (200, Some("8"), "hit-fresh"));
    assert_eq!(client.get("/", &[]).text(), "answer 1", "HEAD had no content");
    assert_eq!(origin.seen().len(), 1);
    assert_eq!(client.get("/other", &["If-None-Match: \"a\""]).status, 304, "also when it is fetched first");
}

#[test]
fn only_if_cached_miss_gives_504_without_a_fetch() {
    let origin = counting(&[FRESH]);
    let edge = before(&origin);
    let refused = connect(&edge).get("/", &["Cache-Control: only-if-cached"]);
    assert_eq!((refused.status, reason(&refused)), (504, "only-if-cached"));
    assert_eq!(origin.seen().len(), 0);
}

#[test]
fn named_sites_are_separate_and_unknown_names_are_refused() {
    let (first, second) = (counting(&[FRESH]), counting(&[FRESH]));
    let mut plan = plan(&first.url());
    plan.sites[0].names = vec!["example.test".to_owned()];
    let mut other = plan.sites[0].clone();
    (other.id, other.names, other.origin) = (1, vec!["b.test".to_owned()], second.url().parse().unwrap());
    plan.sites.push(other);
    let edge = crate::support::start(plan);
    assert_eq!(connect(&edge).get("/", &[]).status, 200);
    assert_eq!((first.seen().len(), second.seen().len()), (1, 0));
    let ask = |host: &str| {
        let mut client = Client::connect(address(&edge));
        client.send(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        client.read()
    };
    assert_eq!(ask("B.test:80").status, 200);
    assert_eq!((first.seen().len(), second.seen().len()), (1, 1));
    let refused = ask("c.test");
    assert_eq!((refused.status, reason(&refused)), (421, "unknown-site"));
}
