//! Many visitors at once: who waits for whom, and what becomes of them when it goes wrong.

use crate::support::{Stage, bare, behind, reason, tagged};
use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use testkit::{Action, Client, Gate, Seen, eventually, response};

const FRESH: &str = "Cache-Control: max-age=60";

/// What an origin says that numbers its answers.
fn numbered(fields: &'static [&'static str]) -> impl Fn(&Seen) -> Vec<Action> + Send + Sync + 'static {
    let count = AtomicUsize::new(0);
    move |_| response("200 OK", fields, count.fetch_add(1, Ordering::SeqCst).to_string().as_bytes())
}

#[test]
fn an_origin_that_dies_half_way_leaves_nobody_with_a_whole() {
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
        assert!(client.is_closed(), "what ended early looks whole");
    }
    stage.await_seen(1);
    stage.await_quiet();
    assert_eq!(stage.metric("petasos_store_objects", ""), 0);
    assert_eq!(stage.metric("petasos_filling_bytes", ""), 0);
    assert_eq!(stage.metric("petasos_responses_cut_total", ""), 100);
}

#[test]
fn an_origin_that_closes_or_refuses_fails_all_who_wait() {
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
        // The next crowd is one again: an error is no property of the page.
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
fn a_crowd_that_saw_an_error_waits_for_one_another_again() {
    let gate = Gate::default();
    let stage = Stage::with(|plan| plan.limits.flight_wait = Duration::from_millis(20), {
        let gate = gate.clone();
        move |_| behind(&gate, response("503 Busy", &[], b"busy"))
    });
    // One leads, the others lose patience and ask for themselves.
    let mut clients: Vec<_> = (0..3).map(|_| stage.begin("GET", "/", &[])).collect();
    stage.await_seen(3);
    gate.open();
    assert!(clients.iter_mut().all(|client| client.read().status == 503));
    stage.becomes(|_| response("200 OK", &[FRESH], b"page"));
    assert_eq!(reason(&stage.get("/", &[])), "miss-absent");
    assert_eq!(reason(&stage.get("/", &[])), "hit-fresh");
}

#[test]
fn a_page_that_is_private_is_remembered_for_two_minutes() {
    let stage = Stage::new(numbered(&["Cache-Control: private"]));
    stage.get("/", &[]);
    let gate = Gate::default();
    stage.becomes({
        let (gate, own) = (gate.clone(), numbered(&["Cache-Control: private"]));
        move |seen| behind(&gate, own(seen))
    });
    let mut clients: Vec<_> = (0..5).map(|_| stage.begin("GET", "/", &[])).collect();
    eventually("nobody waits for anybody", || stage.origin.seen().len() == 6);
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
fn a_private_answer_is_for_the_one_who_asked() {
    // By the letter a fetch carries what its visitor sent, so its answer may be about that visitor.
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
fn a_private_answer_whose_visitor_has_gone_goes_to_nobody() {
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
fn by_the_letter_personal_requests_share_no_flight() {
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
fn whoever_leaves_a_revalidation_harms_nobody() {
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
fn hints_reach_all_who_wait_and_those_who_come_later() {
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
fn trailers_reach_all_who_read_while_it_fills() {
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
fn odd_statuses_and_fields_are_left_as_they_are() {
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
fn time_in_the_queue_is_no_age() {
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
