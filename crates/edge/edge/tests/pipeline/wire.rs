//! Messages on the wire: framing, streaming, failures and limits.

use crate::support::{address, before, connect, metric, plan, reason, start};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;
use testkit::{Action, Gate, HeldPort, Origin, PATIENCE, eventually, response};

const FRESH: &str = "Cache-Control: max-age=60";

fn raw(head: &str, body: &str) -> Vec<Action> {
    vec![Action::Send(format!("HTTP/1.1 {head}\r\n\r\n{body}").into_bytes())]
}

#[test]
fn truncated_response_is_neither_completed_nor_stored() {
    let origin = Origin::start(|seen| {
        let (head, body) = match seen.target() {
            "/length" => ("Content-Length: 10", "hello"),
            _ => ("Transfer-Encoding: chunked", "5\r\nhello\r\n"),
        };
        [raw(&format!("200 OK\r\n{FRESH}\r\n{head}"), body), vec![Action::Close]].concat()
    });
    let edge = before(&origin);
    for target in ["/length", "/chunked"] {
        for fields in [&[][..], &["Cookie: session=1"]] {
            let answer = connect(&edge).get(target, fields);
            assert!(!answer.complete, "{target} {fields:?}");
            assert_eq!(answer.text(), "hello", "the complete bytes are passed on");
        }
        // A client whose framing cannot show the truncation gets a reset.
        let mut old = TcpStream::connect(address(&edge)).unwrap();
        old.write_all(format!("GET {target} HTTP/1.0\r\nHost: a\r\n\r\n").as_bytes()).unwrap();
        let mut answer = Vec::new();
        let ended = old.read_to_end(&mut answer);
        let length_is_short = String::from_utf8_lossy(&answer).contains("Content-Length: 10");
        assert!(ended.is_err() || length_is_short, "{target}: {}", String::from_utf8_lossy(&answer));
    }
    assert_eq!(metric(&edge, "petasos_store_objects", ""), 0);
    assert_eq!(metric(&edge, "petasos_responses_cut_total", ""), 6);
}

#[test]
fn error_page_hides_the_address_of_the_origin() {
    let nobody = HeldPort::take();
    let url = format!("http://{}", nobody.address());
    let edge = start(plan(&url));
    let mut client = connect(&edge);
    for (fields, status, why) in
        [(&[][..], 502, "origin-refused-connection"), (&["Cookie: session=1"], 503, "origin-breaker-open")]
    {
        let answer = client.get("/", fields);
        assert_eq!((answer.status, reason(&answer)), (status, why));
        let page = answer.text();
        assert!(page.contains("<p>The site cannot answer") && !page.contains(&url), "{page}");
        assert_eq!(answer.field("Cache-Control"), Some("no-store"));
    }
    assert_eq!(metric(&edge, "petasos_store_objects", ""), 0);
}

#[test]
fn silent_origin_times_out() {
    let gate = Gate::default();
    let origin = Origin::start({
        let gate = gate.clone();
        move |_| vec![Action::Await(gate.clone())]
    });
    let mut plan = plan(&origin.url());
    plan.limits.first_byte_timeout = Duration::from_millis(20);
    let edge = start(plan);
    for fields in [&[][..], &["Cookie: session=1"]] {
        let answer = connect(&edge).get("/", fields);
        assert_eq!((answer.status, reason(&answer)), (504, "origin-timeout"));
    }
    gate.open();
}

#[test]
fn request_beyond_the_queue_is_refused() {
    let gate = Gate::default();
    let origin = Origin::start({
        let gate = gate.clone();
        move |_| [vec![Action::Await(gate.clone())], response("200 OK", &[], b"done")].concat()
    });
    let mut plan = plan(&origin.url());
    (plan.limits.fetches_max, plan.limits.queue_max) = (1, 1);
    let edge = start(plan);
    let mut clients: Vec<_> = (0..2).map(|_| connect(&edge)).collect();
    for (client, waiting) in clients.iter_mut().zip(0..) {
        client.send("GET / HTTP/1.1\r\nHost: a\r\nCookie: session=1\r\n\r\n");
        eventually("the request is at the origin or in the queue", || {
            metric(&edge, "petasos_origin_fetches_active", "") == 1
                && metric(&edge, "petasos_origin_fetches_waiting", "") == waiting
        });
    }
    let refused = connect(&edge).get("/", &["Cookie: session=1"]);
    assert_eq!((refused.status, reason(&refused)), (503, "queue-full"));
    assert!(refused.field("Retry-After").is_some());
    gate.open();
    assert!(clients.iter_mut().all(|client| client.read().text() == "done"));
}

#[test]
fn requests_from_people_precede_those_from_robots() {
    let gate = Gate::default();
    let origin = Origin::start({
        let gate = gate.clone();
        move |_| {
            [vec![Action::Await(gate.clone())], response("200 OK", &["Cache-Control: max-age=60"], b"done")]
                .concat()
        }
    });
    let mut plan = plan(&origin.url());
    plan.limits.fetches_max = 1;
    let edge = start(plan);
    let (robot, person) = ("Googlebot/2.1", "Mozilla/5.0 (X11; Linux x86_64) Firefox/128.0");
    let visits = [("/first", robot), ("/a", robot), ("/b", robot), ("/person", person), ("/b", person)];
    let mut clients = visits.map(|_| connect(&edge));
    for ((client, (target, agent)), waiting) in clients.iter_mut().zip(visits).zip(0..) {
        client.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\nUser-Agent: {agent}\r\n\r\n"));
        // The last request joins the fetch that a robot waits for.
        eventually("the request is at the origin or in the queue", || {
            metric(&edge, "petasos_origin_fetches_active", "") == 1
                && metric(&edge, "petasos_origin_fetches_waiting", "") == u64::min(waiting, 3)
                && metric(&edge, "petasos_flight_waits_total", "") == u64::from(waiting == 4)
        });
    }
    gate.open();
    assert!(clients.iter_mut().all(|client| client.read().text() == "done"));
    let seen = origin.seen();
    let asked: Vec<_> = seen.iter().map(|seen| seen.target()).collect();
    assert_eq!(asked, ["/first", "/b", "/person", "/a"]);
}

#[test]
fn queued_request_times_out() {
    let gate = Gate::default();
    let origin = Origin::start({
        let gate = gate.clone();
        move |_| [vec![Action::Await(gate.clone())], response("200 OK", &[], b"done")].concat()
    });
    let mut plan = plan(&origin.url());
    (plan.limits.fetches_max, plan.limits.queue_timeout) = (1, Duration::from_millis(20));
    let edge = start(plan);
    let mut first = connect(&edge);
    first.send("GET / HTTP/1.1\r\nHost: a\r\nCookie: session=1\r\n\r\n");
    eventually("the request is at the origin", || metric(&edge, "petasos_origin_fetches_active", "") == 1);
    let refused = connect(&edge).get("/", &["Cookie: session=1"]);
    assert_eq!((refused.status, reason(&refused)), (503, "queue-timeout"));
    gate.open();
    assert_eq!(first.read().text(), "done");
}

#[test]
fn ambiguous_request_is_refused_and_its_connection_closed() {
    let origin = Origin::start(|_| response("200 OK", &[], b""));
    let edge = before(&origin);
    for (head, status) in [
        ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked", 400),
        ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 4", 400),
        ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity", 400),
        ("GET / HTTP/1.1\r\nHost: a\r\nHost: b", 400),
        ("GET / HTTP/1.1\r\nHost : a", 400),
        ("GET / HTTP/1.1\r\nHost: a\r\nX: b\n c", 400),
        ("GET / HTTP/1.1", 400),
        ("GET / HTTP/2.0\r\nHost: a", 505),
        ("CONNECT a:1 HTTP/1.1\r\nHost: a:1", 501),
    ] {
        let mut client = connect(&edge);
        client.send(format!("{head}\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n"));
        let refused = client.read();
        assert_eq!(refused.status, status, "{head}");
        assert_eq!(refused.field("Connection"), Some("close"));
        assert!(client.is_closed(), "{head}");
    }
    assert_eq!(origin.seen().len(), 0);
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let origin = Origin::start(|seen| response("200 OK", &[FRESH], seen.target().as_bytes()));
    let edge = before(&origin);
    let mut client = connect(&edge);
    let requests: String = (0..20).map(|n| format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", n % 3)).collect();
    client.send(requests);
    for n in 0..20 {
        assert_eq!(client.read().text(), format!("/{}", n % 3));
    }
    assert_eq!(origin.seen().len(), 3);
}

#[test]
fn content_and_trailers_stream_both_ways() {
    let origin = Origin::start(|seen| {
        let body = String::from_utf8(seen.body.clone()).unwrap();
        raw(
            "200 OK\r\nTransfer-Encoding: chunked",
            &format!("{:x}\r\n{body}\r\n0\r\nX-Down: 1\r\n\r\n", body.len()),
        )
    });
    let mut plan = plan(&origin.url());
    plan.limits.request_buffer_bytes_max = 0;
    let edge = start(plan);
    let mut client = connect(&edge);
    // The scripted origin reads up to an empty trailer, so the request has no trailer fields.
    client.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n");
    client.send("2\r\nde\r\n0\r\n\r\n");
    let answer = client.read();
    assert_eq!(answer.text(), "3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n");
    assert!(answer.trailers.contains("X-Down: 1"), "{:?}", answer.trailers);
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nabcde");
    assert_eq!(client.read().text(), "abcde");
}

/// An origin without a parser: passes everything received up to `end` to `answer`, which writes the
/// response.
fn plain_origin(
    end: &'static str,
    answer: impl Fn(String, &mut TcpStream) + Send + 'static,
) -> (String, std::thread::JoinHandle<()>) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let thread = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let (mut received, mut octet) = (Vec::new(), [0]);
        while !received.ends_with(end.as_bytes()) && stream.read(&mut octet).unwrap() == 1 {
            received.push(octet[0]);
        }
        answer(String::from_utf8(received).unwrap(), &mut stream);
    });
    (url, thread)
}

#[test]
fn request_trailers_reach_the_origin() {
    let (url, origin) = plain_origin("0\r\nX-Up: 1\r\n\r\n", |received, stream| {
        assert!(received.contains("3\r\nabc\r\n"), "{received}");
        stream.write_all(b"HTTP/1.1 204 Done\r\n\r\n").unwrap();
    });
    let edge = start(plan(&url));
    let mut client = connect(&edge);
    client.send(
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX-Up: 1\r\n\r\n",
    );
    assert_eq!(client.read().status, 204);
    origin.join().unwrap();
}

#[test]
fn expect_continue_is_answered_by_the_origin() {
    let (url, origin) = plain_origin("\r\n\r\n", |received, stream| {
        assert!(received.contains("Expect: 100-continue\r\n"), "{received}");
        stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").unwrap();
        let mut content = [0; 3];
        stream.read_exact(&mut content).unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n").unwrap();
        stream.write_all(&content).unwrap();
    });
    let edge = start(plan(&url));
    let mut client = connect(&edge);
    client.send("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n");
    assert_eq!(client.read_head().status, 100);
    client.send("abc");
    assert_eq!(client.read().text(), "abc");
    origin.join().unwrap();
}

#[test]
fn early_hints_are_passed_on_to_http_1_1_clients() {
    let origin = Origin::start(|_| {
        let hints = "HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n";
        [vec![Action::Send(hints.as_bytes().to_vec())], response("200 OK", &[FRESH], b"page")].concat()
    });
    let edge = before(&origin);
    for (target, fields) in [("/shared", ""), ("/own", "Cookie: session=1\r\n")] {
        let mut client = connect(&edge);
        client.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n{fields}\r\n"));
        let hints = client.read_head();
        assert_eq!((hints.status, hints.field("Link")), (103, Some("</a.css>")));
        assert_eq!(client.read().text(), "page");
    }
    let mut old = connect(&edge);
    old.send("GET /old HTTP/1.0\r\nHost: a\r\n\r\n");
    assert_eq!(old.read_head().status, 200);
}

#[test]
fn http_1_0_client_gets_no_chunks_and_keeps_alive_on_request() {
    let origin = Origin::start(|_| {
        raw(&format!("200 OK\r\n{FRESH}\r\nTransfer-Encoding: chunked"), "2\r\nhi\r\n0\r\n\r\n")
    });
    let edge = before(&origin);
    let mut client = connect(&edge);
    client.send("GET / HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\n\r\n");
    let answer = client.read();
    assert_eq!((answer.text(), answer.field("Transfer-Encoding")), ("hi", None));
    assert!(client.is_closed(), "content of unknown length ends with the connection");
    let mut client = connect(&edge);
    for _ in 0..2 {
        client.send("GET / HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\n\r\n");
        let hit = client.read();
        assert_eq!((hit.text(), hit.field("Connection")), ("hi", Some("keep-alive")));
    }
    client.send("GET / HTTP/1.0\r\nHost: a\r\n\r\n");
    assert_eq!(client.read().field("Connection"), Some("close"));
    assert!(client.is_closed());
}

#[test]
fn unknown_methods_and_statuses_are_passed_on() {
    let origin = Origin::start(|seen| {
        let status = seen.target().trim_start_matches('/');
        let allow = format!("X-Method: {}", seen.head.split(' ').next().unwrap());
        response(status, &[&allow], b"")
    });
    let edge = before(&origin);
    let mut client = connect(&edge);
    for (method, status) in
        [("DELETE", 204), ("PATCH", 299), ("OPTIONS", 200), ("PROPFIND", 207), ("PUT", 418), ("SEARCH", 599)]
    {
        client.send(format!("{method} /{status} HTTP/1.1\r\nHost: a\r\n\r\n"));
        let answer = client.read();
        assert_eq!((answer.status, answer.field("X-Method")), (status, Some(method)));
        assert_eq!(reason(&answer), "pass-method");
    }
}

#[test]
fn options_with_max_forwards_zero_is_not_forwarded() {
    let origin = Origin::start(|seen| {
        response("200 OK", &[], seen.field("Max-Forwards").unwrap_or("none").as_bytes())
    });
    let edge = before(&origin);
    let ask = |method: &str, left: &str| {
        let mut client = connect(&edge);
        client.send(format!("{method} / HTTP/1.1\r\nHost: a\r\nMax-Forwards: {left}\r\n\r\n"));
        client.read()
    };
    assert_eq!(reason(&ask("OPTIONS", "0")), "last-hop");
    for left in ["0", "10", "x"] {
        let answer = ask("TRACE", left);
        assert_eq!((answer.status, reason(&answer)), (501, "trace-refused"), "{left}");
        assert!(!answer.text().contains("Max-Forwards"), "{}", answer.text());
    }
    assert_eq!(origin.seen().len(), 0);
    for (method, left, forwarded) in
        [("OPTIONS", "1", "0"), ("OPTIONS", "10", "9"), ("DELETE", "0", "0"), ("OPTIONS", "x", "x")]
    {
        assert_eq!(ask(method, left).text(), forwarded, "{method} {left}");
    }
}

#[test]
fn upgraded_connection_becomes_a_tunnel() {
    let (url, origin) = plain_origin("\r\n\r\n", |received, stream| {
        assert!(received.contains("Upgrade: echo\r\n"), "{received}");
        stream
            .write_all(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: echo\r\nConnection: upgrade\r\n\r\nhi ")
            .unwrap();
        let mut received = String::new();
        stream.read_to_string(&mut received).unwrap();
        stream.write_all(received.to_uppercase().as_bytes()).unwrap();
    });
    let edge = start(plan(&url));
    let mut client = TcpStream::connect(address(&edge)).unwrap();
    client
        .write_all(b"GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\nearly ")
        .unwrap();
    client.write_all(b"late").unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    let (head, rest) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 101 ") && head.contains("Upgrade: echo"), "{head}");
    assert_eq!(rest, "hi EARLY LATE");
    origin.join().unwrap();
    assert_eq!(metric(&edge, "petasos_tunnels_total", ""), 1);
}

#[test]
fn large_body_is_streamed_whether_cacheable_or_not() {
    const BYTES: usize = 24 << 20;
    let origin = Origin::start(|seen| {
        let fields: &[&str] = if seen.target() == "/private" { &[] } else { &[FRESH] };
        response("200 OK", fields, &vec![b'x'; BYTES])
    });
    let mut plan = plan(&origin.url());
    (plan.memory_bytes, plan.limits.object_bytes_max) = (256 << 20, 1 << 20);
    let edge = start(plan);
    for target in ["/large", "/private"] {
        let answer = connect(&edge).get(target, &[]);
        assert_eq!((answer.body.len(), answer.complete), (BYTES, true));
    }
    assert_eq!(metric(&edge, "petasos_store_objects", ""), 0);
}

#[test]
fn upload_limit_applies_to_every_framing() {
    let origin = Origin::start(|seen| response("200 OK", &[], seen.body.len().to_string().as_bytes()));
    let mut plan = plan(&origin.url());
    plan.limits.request_body_bytes_max = 10;
    let edge = start(plan);
    let mut client = connect(&edge);
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 11\r\n\r\n12345678901");
    assert_eq!(client.read().status, 413);
    assert!(client.is_closed());
    let mut client = connect(&edge);
    client.send(
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nb\r\n12345678901\r\n0\r\n\r\n",
    );
    assert_eq!(client.read().status, 413);
    assert!(client.is_closed());
    assert_eq!(origin.seen().len(), 0);
}

#[test]
fn slow_clients_time_out() {
    let origin = Origin::start(|_| response("200 OK", &[], b""));
    let mut plan = plan(&origin.url());
    plan.limits.idle_timeout = Duration::from_millis(20);
    let edge = start(plan.clone());
    let mut idle = connect(&edge);
    assert!(idle.is_closed());
    // On a busy machine, a client that sends something must not count as idle.
    plan.limits.idle_timeout = PATIENCE;
    plan.limits.request_head_timeout = Duration::from_millis(20);
    plan.limits.request_body_timeout = Duration::from_millis(20);
    let edge = start(plan);
    let mut half_head = connect(&edge);
    half_head.send("GET / HTTP/1.1\r\nHo");
    assert_eq!(half_head.read().status, 408);
    let mut half_body = connect(&edge);
    half_body.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nab");
    assert_eq!(half_body.read().status, 408);
    assert!(half_body.is_closed());
}

#[test]
fn client_that_reads_nothing_is_disconnected() {
    let origin = Origin::start(|_| response("200 OK", &[], &vec![b'x'; 64 << 20]));
    let mut plan = plan(&origin.url());
    plan.limits.write_timeout = Duration::from_millis(50);
    let edge = start(plan);
    let mut client = connect(&edge);
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    eventually("the client times out", || metric(&edge, "petasos_visitor_timeouts_total", "") == 1);
    eventually("the client's connection is closed", || metric(&edge, "petasos_connections_open", "") == 0);
    eventually("the origin's fetch has ended", || metric(&edge, "petasos_origin_fetches_active", "") == 0);
}

#[test]
fn connection_beyond_the_limit_is_closed() {
    let origin = Origin::start(|_| response("200 OK", &[], b""));
    let mut plan = plan(&origin.url());
    plan.limits.connections_max = 2;
    let edge = start(plan);
    let mut kept = [connect(&edge), connect(&edge)];
    for client in &mut kept {
        assert_eq!(client.get("/", &[]).status, 200);
    }
    assert!(connect(&edge).is_closed());
    assert_eq!(metric(&edge, "petasos_connections_refused_total", ""), 1);
    drop(kept);
    eventually("a connection slot is free again", || metric(&edge, "petasos_connections_open", "") == 0);
    assert_eq!(connect(&edge).get("/", &[]).status, 200);
}

#[test]
fn drain_completes_requests_in_progress() {
    let gate = Gate::default();
    let origin = Origin::start({
        let gate = gate.clone();
        move |_| [vec![Action::Await(gate.clone())], response("200 OK", &[FRESH], b"page")].concat()
    });
    let edge = before(&origin);
    let (mut idle, mut busy) = (connect(&edge), connect(&edge));
    busy.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    eventually("the request is at the origin", || metric(&edge, "petasos_flights_started_total", "") == 1);
    let listen = address(&edge);
    edge.stop();
    assert!(idle.is_closed());
    eventually("no new connection is accepted", || TcpStream::connect(listen).is_err());
    gate.open();
    let answer = busy.read();
    assert_eq!(answer.text(), "page");
    assert!(busy.is_closed());
    edge.join().unwrap();
}
