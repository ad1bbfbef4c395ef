//! The real binary between visitors that send content and applications that answer before they have read it, or
//! never read it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on panics")]

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use testkit::{Client, Edge, Origin, PATIENCE, eventually, get, response};

/// An application that reads each connection's first head only, answers with these octets and closes.
fn hasty(answer: &'static str) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, mut head, mut octet) = (stream.unwrap(), Vec::new(), [0]);
            while !head.ends_with(b"\r\n\r\n") && stream.read(&mut octet).is_ok_and(|read| read == 1) {
                head.push(octet[0]);
            }
            if head.is_empty() {
                // The edge has tried at its start whether somebody listens.
                continue;
            }
            counted.fetch_add(1, Ordering::SeqCst);
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    (url, count)
}

/// Sends a POST with `octets` octets of content, all that is taken, before it reads; gives everything it got.
fn post_then_read(edge: &Edge, octets: usize) -> String {
    let mut stream = TcpStream::connect(edge.address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    write!(
        stream,
        "POST /form HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\nContent-Length: {octets}\r\n\r\n"
    )
    .unwrap();
    let piece = [b'x'; 16 * 1024];
    for _ in 0..octets / piece.len() {
        match stream.write_all(&piece) {
            Ok(()) => {}
            Err(error) if matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe) => break,
            Err(error) => panic!("{error}"),
        }
    }
    let mut received = Vec::new();
    let _ = stream.read_to_end(&mut received);
    String::from_utf8(received).unwrap()
}

#[test]
fn an_answer_before_the_content_reaches_a_visitor_that_sends_first() {
    let (url, count) = hasty("HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno");
    let edge = Edge::start(&url, &[]);
    for megabytes in [1, 8] {
        let received = post_then_read(&edge, megabytes << 20);
        assert!(received.starts_with("HTTP/1.1 403") && received.ends_with("no"), "{received:?}");
    }
    assert_eq!(count.load(Ordering::SeqCst), 2, "a POST was repeated");
}

#[test]
fn an_application_that_closes_without_an_answer_is_asked_once() {
    let (url, count) = hasty("");
    let edge = Edge::start(&url, &[]);
    let received = post_then_read(&edge, 1 << 20);
    assert!(received.starts_with("HTTP/1.1 502"), "{received:?}");
    assert_eq!(count.load(Ordering::SeqCst), 1);
}

#[test]
fn connections_that_the_application_closes_cost_nobody_an_answer() {
    // It keeps no connection, and does not say so.
    let origin = Origin::start(|seen| {
        let mut actions = response("200 OK", &["Cache-Control: no-store"], seen.target().as_bytes());
        actions.push(testkit::Action::Close);
        actions
    });
    let edge = Edge::start(&origin.url(), &[]);
    let mut client = Client::connect(edge.address);
    for number in 0..50 {
        let target = format!("/get/{number}");
        assert_eq!(client.get(&target, &["Cookie: session=1"]).text(), target);
        client.send(format!("POST /post/{number} HTTP/1.1\r\nHost: a.test\r\nContent-Length: 1\r\n\r\nx"));
        assert_eq!(client.read().text(), format!("/post/{number}"));
        assert_eq!(origin.count(&format!("/post/{number}")), 1);
    }
}

#[test]
fn an_upload_that_breaks_off_is_no_request_and_leaves_nothing() {
    let origin = Origin::start(|seen| response("200 OK", &["Cache-Control: no-store"], &seen.body));
    let edge = Edge::start(&origin.url(), &[]);
    for head in ["Content-Length: 100", "Transfer-Encoding: chunked"] {
        for sent in ["", "5\r\nhel", "5\r\nhello\r\n"] {
            let mut client = Client::connect(edge.address);
            client.send(format!("POST /part HTTP/1.1\r\nHost: a.test\r\n{head}\r\n\r\n{sent}"));
            drop(client);
        }
    }
    eventually("nothing is left", || {
        edge.metric("petasos_connections_open", "") + edge.metric("petasos_origin_fetches_active", "") <= 0.0
    });
    assert_eq!(origin.count("/part"), 0, "a part was taken for the whole");
    assert_eq!(get(edge.address, "/", &[]).status, 200);
}

#[test]
fn an_expectation_that_is_refused_ends_the_connection() {
    let (url, _) = hasty("HTTP/1.1 417 Expectation Failed\r\nContent-Length: 0\r\n\r\n");
    let edge = Edge::start(&url, &[]);
    let mut client = Client::connect(edge.address);
    client.send("PUT / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 40\r\nExpect: 100-continue\r\n\r\n");
    let answer = client.read();
    assert_eq!((answer.status, answer.field("Connection")), (417, Some("close")));
    // What would have been the content is no request.
    client.send("GET /smuggled HTTP/1.1\r\nHost: a.test\r\n\r\n");
    assert!(client.is_closed());
}

#[test]
fn every_request_is_counted_once() {
    let origin = Origin::start(|seen| match seen.target() {
        "/broken" => vec![testkit::Action::Close],
        "/private" => response("200 OK", &["Cache-Control: private"], b"x"),
        _ => response("200 OK", &["Cache-Control: max-age=60"], b"x"),
    });
    let edge = Edge::start(&origin.url(), &[]);
    let mut expected = 0.0;
    for request in [
        "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /private HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /private HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /broken HTTP/1.1\r\nHost: a\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n",
        "GET / HTTP/1.0\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nCookie: x=1\r\n\r\n",
        "GET / HTTP/1.1\r\n\r\n",
        "nonsense\r\n\r\n",
        "CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n",
        "GET /none HTTP/1.1\r\nHost: a\r\nCache-Control: only-if-cached\r\n\r\n",
    ] {
        let mut client = Client::connect(edge.address);
        client.send(request);
        client.read();
        expected += 1.0;
        eventually(request, || edge.metric("petasos_requests_total{", "") >= expected);
        assert!(edge.metric("petasos_requests_total{", "") <= expected, "{request:?} was counted twice");
    }
}
