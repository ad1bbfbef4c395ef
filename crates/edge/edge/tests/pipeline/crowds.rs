//! Many simultaneous requests: which of them wait for a fetch, and what they receive if it fails.

use crate::support::{Stage, bare, behind, reason, tagged};
use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use testkit::{Action, Client, Gate, Seen, eventually, response};

const FRESH: &str = "Cache-Control: max-age=60";

/// An origin that numbers its responses.
fn numbered(fields: &'static [&'static str]) -> impl Fn(&Seen) -> Vec<Action> + Send + Sync + 'static {
    let count = AtomicUsize::new(0);
    move |_| response("200 OK", fields, count.fetch_add(1, Ordering::SeqCst).to_string().as_bytes())
}

#[test]
fn origin_that_dies_midway_truncates_all_responses() {
    const HALF_BYTES: usize = 300_000;
    let (gate, dying) = (Gate::default(), Gate::default());
    let stage = Stage::new({
        let (gate, dying) = (gate.clone(), dying.clone());
        move |_| {
            let head = format!("HTTP/1.1 200 OK\r\n{FRESH}\r\nContent-Length: {}\r\n\r\n", 2 * HALF_BYTES);
            let half = vec![Action::Send(head.into_bytes()), Action::Send(vec![b'x'; HALF_BYTES])];
            [behind(&gate, half), behind(&dying, vec![Action::Close])].concat()
        }
    });
    let mut clients = stage.crowd(100, &[]);
    gate.open();
    for client in &mut clients {
        assert_eq!(client.read_head().status, 200);
    }
    dying.open();
    for client in &mut clients {
        client.read_octets(HALF_BYTES);
        assert!(client.is_closed(), "a truncated body looks complete");
    }
    stage.await_seen(1);
    stage.await_quiet();
    assert_eq!(stage.metric("petasos_store_objects", ""), 0);
    assert_eq!(stage.metric("petasos_filling_bytes", ""), 0);
    assert_eq!(stage.metric("petasos_responses_cut_total", ""), 100);
}

#[test]
fn origin_that_closes_or_refuses_fails_all_waiting_requests() {
    for status in ["200 OK", "503 Busy"] {
        let gate = Gate::default();
        let stage = Stage::new({
            let gate = gate.clone();
            move |_| match status {
                "200 OK" => behind(&gate, vec![Action::Close]),
                _ => behind(&gate, response(status, &["Cache-Control: no-store"], b"busy")),
            }
        });
        let mut clients = stage.crowd(20, &[]);
        gate.open();
        assert!(clients.iter_mut().all(|client| client.read().status >= 500));
        assert_eq!(stage.metric("petasos_store_objects", ""), 0);
        // Later requests are coalesced again, because an error says nothing about the page.
        stage.becomes({
            let gate = Gate::default();
            gate.open();
            move |_| behind(&gate, response("200 OK", &[FRESH], b"page"))
        });
        assert_eq!(reason(&stage.get("/", &[])), "miss-absent", "{status}");
        assert_eq!(reason(&stage.get("/", &[])), "hit-fresh", "{status}");
    }
}

#[test]
fn requests_are_coalesced_again_after_an_error() {
    let gate = Gate::default();
    let stage = Stage::with(|plan| plan.limits.flight_wait = Duration::from_millis(20), {
        let gate = gate.clone();
        move |_| behind(&gate, response("503 Busy", &[], b"busy"))
    });
    // One request leads; the others time out and send their own requests.
    let mut clients: Vec<_> = (0..3).map(|_| stage.begin("GET", "/", &[])).collect();
    stage.await_seen(3);
    gate.open();
    assert!(clients.iter_mut().all(|client| client.read().status == 503));
    stage.becomes(|_| response("200 OK", &[FRESH], b"page"));
    assert_eq!(reason(&stage.get("/", &[])), "miss-absent");
    assert_eq!(reason(&stage.get("/", &[])), "hit-fresh");
}

#[test]
fn private_page_has_a_hit_for_miss_entry_for_two_minutes() {
    let stage = Stage::new(numbered(&["Cache-Control: private"]));
    stage.get("/", &[]);
    let gate = Gate::default();
    stage.becomes({
        let (gate, own) = (gate.clone(), numbered(&["Cache-Control: private"]));
        move |seen| behind(&gate, own(seen))
    });
    let mut clients: Vec<_> = (0..5).map(|_| stage.begin("GET", "/", &[])).collect();
    eventually("no request waits for another", || stage.origin.seen().len() == 6);
    gate.open();
    let bodies: HashSet<_> = clients.iter_mut().map(|client| client.read().text().to_owned()).collect();
    assert_eq!(bodies.len(), 5);
    stage.pass(120);
    let gate = Gate::default();
    stage.becomes({
        let gate = gate.clone();
        move |_| behind(&gate, response("200 OK", &[FRESH], b"page"))
    });
    let mut clients = stage.crowd(5, &[]);
    gate.open();
    assert!(clients.iter_mut().all(|client| client.read().text() == "page"));
    stage.await_seen(7);
}

#[test]
fn private_response_is_only_for_the_leader() {
    // Under the `rfc` profile a fetch carries its client's fields, so its response may be for that
    // client.
    for _ in 0..10 {
        let gate = Gate::default();
        let stage = Stage::rfc({
            let gate = gate.clone();
            move |seen| {
                let own = seen.field("X-Api-Key").unwrap_or("nobody").to_owned();
                behind(&gate, response("200 OK", &["Cache-Control: private"], own.as_bytes()))
            }
        });
        let mut leader = stage.begin("GET", "/", &["X-Api-Key: secret"]);
        stage.await_seen(1);
        let mut waiters: Vec<_> = (0..8).map(|_| stage.begin("GET", "/", &[])).collect();
        eventually("all wait", || stage.metric("petasos_flight_waits_total", "") == 8);
        gate.open();
        assert_eq!(leader.read().text(), "secret");
        assert!(waiters.iter_mut().all(|waiter| waiter.read().text() == "nobody"));
    }
}

#[test]
fn private_response_of_a_disconnected_leader_is_dropped() {
    let gate = Gate::default();
    let stage = Stage::rfc({
        let gate = gate.clone();
        move |seen| {
            let own = seen.field("X-Api-Key").unwrap_or("nobody").to_owned();
            behind(&gate, response("200 OK", &["Cache-Control: private"], own.as_bytes()))
        }
    });
    let leader = stage.begin("GET", "/", &["X-Api-Key: secret"]);
    stage.await_seen(1);
    let mut waiter = stage.begin("GET", "/", &[]);
    eventually("it waits", || stage.metric("petasos_flight_waits_total", "") == 1);
    drop(leader);
    gate.open();
    assert_eq!(waiter.read().text(), "nobody");
    stage.await_quiet();
    eventually("no fetch is left", || stage.metric("petasos_origin_fetches_active", "") == 0);
}

#[test]
fn personal_requests_share_no_fetch_under_rfc_profile() {
    for own in ["Cookie: session=1", "Authorization: Basic eDp5"] {
        let gate = Gate::default();
        let stage = Stage::rfc({
            let gate = gate.clone();
            move |seen| {
                let fields = ["Cache-Control: max-age=60, public", "Vary: Cookie, Authorization"];
                let who = seen.field("Cookie").or_else(|| seen.field("Authorization"));
                let who = who.unwrap_or("nobody").to_owned();
                behind(&gate, response("200 OK", &fields, who.as_bytes()))
            }
        });
        let mut personal: Vec<_> = (0..4).map(|_| stage.begin("GET", "/", &[own])).collect();
        stage.await_seen(4);
        let mut anonymous: Vec<_> = (0..4).map(|_| stage.begin("GET", "/", &[])).collect();
        stage.await_seen(5);
        eventually("they wait", || stage.metric("petasos_flight_waits_total", "") == 3);
        gate.open();
        let value = own.split_once(": ").unwrap().1;
        assert!(personal.iter_mut().all(|client| client.read().text() == value));
        assert!(anonymous.iter_mut().all(|client| client.read().text() == "nobody"));
        assert_eq!(stage.get("/", &[own]).text(), value);
        assert_eq!(stage.get("/", &[]).text(), "nobody");
        stage.await_seen(5);
    }
}

#[test]
fn clients_that_disconnect_do_not_end_a_revalidation() {
    let page = [FRESH];
    let stage = Stage::new(move |seen| tagged(seen, "\"1\"", &page, "page"));
    stage.get("/", &[]);
    stage.pass(60);
    let gate = Gate::default();
    stage.becomes({
        let gate = gate.clone();
        move |seen| behind(&gate, tagged(seen, "\"1\"", &page, "page"))
    });
    let mut clients = stage.crowd(6, &[]);
    let mut last = clients.split_off(5);
    drop(clients);
    gate.open();
    assert_eq!(reason(&last[0].read()), "hit-revalidated");
    stage.await_quiet();
    assert_eq!(reason(&stage.get("/", &[])), "hit-fresh");
    stage.await_seen(2);
}

#[test]
fn early_hints_reach_all_waiting_requests() {
    let gate = Gate::default();
    let stage = Stage::new({
        let gate = gate.clone();
        move |_| {
            let hints = bare("103 Early Hints", &["Link: </a.css>", "Set-Cookie: a=b"]);
            [hints, behind(&gate, response("200 OK", &[FRESH], b"page"))].concat()
        }
    });
    let mut clients = vec![stage.begin("GET", "/", &[])];
    let told = |client: &mut Client| {
        let hints = client.read_head();
        assert_eq!(
            (hints.status, hints.field("Link"), hints.field("Set-Cookie")),
            (103, Some("</a.css>"), None)
        );
    };
    told(&mut clients[0]);
    for _ in 0..3 {
        let mut client = stage.begin("GET", "/", &[]);
        told(&mut client);
        clients.push(client);
    }
    gate.open();
    assert!(clients.iter_mut().all(|client| client.read().text() == "page"));
    assert_eq!(stage.get("/", &[]).status, 200, "a hit has none");
    stage.await_seen(1);
}

#[test]
fn trailers_reach_all_readers_of_a_filling_body() {
    let gate = Gate::default();
    let stage = Stage::new({
        let gate = gate.clone();
        move |_| {
            let head =
                format!("HTTP/1.1 200 OK\r\n{FRESH}\r\nTransfer-Encoding: chunked\r\n\r\n4\r\npage\r\n");
            let end = b"0\r\nX-Sum: 1\r\nSet-Cookie: a=b\r\nCache-Control: private\r\n\r\n".to_vec();
            [vec![Action::Send(head.into_bytes())], behind(&gate, vec![Action::Send(end)])].concat()
        }
    });
    let mut clients = [stage.begin("GET", "/", &[]), stage.begin("GET", "/", &[])];
    stage.await_seen(1);
    gate.open();
    for client in &mut clients {
        let answer = client.read();
        assert_eq!((answer.text(), &answer.trailers[..]), ("page", "X-Sum: 1\n"));
    }
    assert_eq!(stage.get("/", &[]).text(), "page");
}

#[test]
fn unusual_statuses_and_fields_are_passed_on_unchanged() {
    for status in ["299 Fine", "418 Teapot", "499 Odd", "599 Odd", "666 Beast", "999 Denied"] {
        let stage = Stage::new(move |_| response(status, &[FRESH, "X-Odd: \u{e4}", "x-empty:"], b"odd"));
        for fields in [&[][..], &["Cookie: session=1"]] {
            let answer = stage.get("/", fields);
            assert!(answer.head.starts_with(&format!("HTTP/1.1 {status}\r\n")), "{}", answer.head);
            assert_eq!(
                (answer.text(), answer.field("X-Odd"), answer.field("X-Empty")),
                ("odd", Some("\u{e4}"), Some(""))
            );
        }
    }
}

#[test]
fn time_in_the_queue_does_not_count_as_age() {
    let gate = Gate::default();
    let stage = Stage::with(|plan| plan.limits.fetches_max = 1, {
        let gate = gate.clone();
        move |seen| match seen.target() {
            "/first" => behind(&gate, response("200 OK", &[FRESH], b"first")),
            _ => response("200 OK", &[FRESH, "Age: 1"], b"page"),
        }
    });
    let mut first = stage.begin("GET", "/first", &[]);
    stage.await_seen(1);
    let mut queued = stage.begin("GET", "/", &[]);
    eventually("it is queued", || stage.metric("petasos_origin_fetches_waiting", "") == 1);
    stage.pass(30);
    gate.open();
    first.read();
    assert_eq!(queued.read().field("Age"), Some("1"));
}
