//! The real binary between visitors that send content and applications that answer before they have
//! read it, or never read it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on panics")]

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use testkit::{Client, Edge, Origin, PATIENCE, eventually, get, response};

/// An application that reads the first head of each connection, answers with these bytes and
/// closes.
fn hasty(answer: &'static str) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut head = Vec::new();
            let mut octet = [0];
            while !head.ends_with(b"\r\n\r\n") && stream.read(&mut octet).is_ok_and(|read| read == 1) {
                head.push(octet[0]);
            }
            if head.is_empty() {
                // The edge connects once at its start, without a request, to test whether the
                // origin listens.
                continue;
            }
            counted.fetch_add(1, Ordering::SeqCst);
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    (url, count)
}

/// Sends a POST with `octets` bytes of content, or as many as are accepted, before it reads.
/// Returns everything received.
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
fn early_response_reaches_a_client_that_is_still_sending() {
    let (url, count) = hasty("HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno");
    let edge = Edge::start(&url, &[]);
    for megabytes in [1, 8] {
        let received = post_then_read(&edge, megabytes << 20);
        assert!(received.starts_with("HTTP/1.1 403") && received.ends_with("no"), "{received:?}");
    }
    assert_eq!(count.load(Ordering::SeqCst), 2, "a POST was repeated");
}

#[test]
fn post_without_a_response_is_not_repeated() {
    let (url, count) = hasty("");
    let edge = Edge::start(&url, &[]);
    let received = post_then_read(&edge, 1 << 20);
    assert!(received.starts_with("HTTP/1.1 502"), "{received:?}");
    assert_eq!(count.load(Ordering::SeqCst), 1);
}

#[test]
fn connections_closed_by_the_origin_cost_no_response() {
    // The origin closes every connection without announcing it.
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
fn aborted_upload_is_not_forwarded_and_leaves_nothing() {
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
fn refused_expectation_closes_the_connection() {
    let (url, _) = hasty("HTTP/1.1 417 Expectation Failed\r\nContent-Length: 0\r\n\r\n");
    let edge = Edge::start(&url, &[]);
    let mut client = Client::connect(edge.address);
    client.send("PUT / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 40\r\nExpect: 100-continue\r\n\r\n");
    let answer = client.read();
    assert_eq!((answer.status, answer.field("Connection")), (417, Some("close")));
    // The bytes that would have been the content must not be read as a request.
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
