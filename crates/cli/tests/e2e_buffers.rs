//! The real binary between clients and applications of different speeds. Content buffered in memory
//! or in the spool arrives complete, in order and at the right client only.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::io::{Read, Write};
use testkit::{Action, Client, Edge, Gate, Origin, Seen, eventually, response};

/// With this setting, buffers get 3 MiB of memory, so larger bodies go through the spool.
const SMALL: [&str; 2] = ["--memory", "64MiB"];

/// Content in which no two parts of a few hundred bytes are equal.
fn content(bytes: usize) -> Vec<u8> {
    (0..bytes as u64).map(|at| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
}

fn chunked(content: &[u8], trailer: &str) -> Vec<u8> {
    let mut octets = Vec::new();
    for chunk in content.chunks(50_000) {
        octets.extend(format!("{:x}\r\n", chunk.len()).into_bytes());
        octets.extend_from_slice(chunk);
        octets.extend_from_slice(b"\r\n");
    }
    octets.extend(format!("0\r\n{trailer}\r\n").into_bytes());
    octets
}

/// An origin that answers with the length of the content it received.
fn counting() -> Origin {
    Origin::start(|seen| response("200 OK", &[], seen.body.len().to_string().as_bytes()))
}

fn post(client: &mut Client, target: &str, framing: &str, content: &[u8]) -> u16 {
    client.send(format!("POST {target} HTTP/1.1\r\nHost: a.test\r\n{framing}\r\n\r\n"));
    client.send(content);
    client.read().status
}

fn seen(origin: &Origin, target: &str) -> Seen {
    origin.seen().into_iter().rfind(|seen| seen.target() == target).unwrap()
}

#[test]
fn uploads_arrive_whole_and_with_their_length() {
    let origin = counting();
    let edge = Edge::start(&origin.url(), &SMALL);
    let mut client = Client::connect(edge.address);
    for bytes in [0, 1, 16_384, 70_000, 1 << 20, 5 << 20] {
        let content = content(bytes);
        for (target, framing, sent) in [
            (format!("/length/{bytes}"), format!("Content-Length: {bytes}"), content.clone()),
            (format!("/chunked/{bytes}"), "Transfer-Encoding: chunked".to_owned(), chunked(&content, "")),
        ] {
            assert_eq!(post(&mut client, &target, &framing, &sent), 200, "{target}");
            let seen = seen(&origin, &target);
            assert_eq!(seen.field("Content-Length"), Some(&bytes.to_string()[..]), "{target}");
            assert!(seen.field("Transfer-Encoding").is_none() && seen.body == content, "{target}");
        }
    }
    assert!(edge.metric("petasos_requests_streamed_total", "") <= 0.0);
    eventually("nothing is kept", || {
        edge.metric("petasos_buffered_bytes", "") + edge.metric("petasos_spool_bytes", "") <= 0.0
    });
}

#[test]
fn upload_with_a_trailer_stays_chunked() {
    let origin = counting();
    let edge = Edge::start(&origin.url(), &[]);
    let sent = chunked(b"hello", "X-Sum: 7\r\n");
    assert_eq!(post(&mut Client::connect(edge.address), "/", "Transfer-Encoding: chunked", &sent), 200);
    let seen = seen(&origin, "/");
    assert_eq!(seen.field("Content-Length"), None);
    assert_eq!(seen.body, sent);
}

#[test]
fn uploads_larger_than_the_buffer_are_streamed_complete() {
    let origin = counting();
    for configuration in [
        "[limits]\nrequest_buffer_bytes_max = \"64KiB\"\n",
        "[limits]\nrequest_buffer_bytes_max = \"0B\"\n",
        // No spool, and memory for a single step.
        "spool_directory = \"none\"\n[limits]\nbuffer_memory_percent = 1\n",
    ] {
        let edge = Edge::configured(&origin.url(), configuration, &["--memory", "8MiB"]);
        let content = content(3 << 20);
        let mut client = Client::connect(edge.address);
        let framing = format!("Content-Length: {}", content.len());
        assert_eq!(post(&mut client, "/length", &framing, &content), 200);
        assert!(seen(&origin, "/length").body == content, "{configuration}");
        let sent = chunked(&content, "");
        assert_eq!(post(&mut client, "/chunked", "Transfer-Encoding: chunked", &sent), 200);
        let seen = seen(&origin, "/chunked");
        assert_eq!(seen.field("Transfer-Encoding"), Some("chunked"));
        let bytes = seen.body.windows(4).filter(|end| end == b"\r\n0\r").count();
        assert!(bytes == 1 && seen.body.len() > content.len(), "{configuration}");
        assert!(edge.metric("petasos_requests_streamed_total", "") >= 2.0);
    }
}

#[test]
fn slow_reader_gets_the_whole_body_after_origin_has_gone() {
    let body = content(6 << 20);
    let sent = body.clone();
    let origin = Origin::start(move |_| response("200 OK", &["Cache-Control: private"], &sent));
    let edge = Edge::start(&origin.url(), &SMALL);
    let mut client = Client::connect_from([127, 0, 0, 1], edge.address, 4096);
    client.send("GET / HTTP/1.1\r\nHost: a.test\r\nCookie: session=1\r\n\r\n");
    let mut answer = client.read_head();
    eventually("the origin has finished", || edge.metric("petasos_origin_fetches_active", "") <= 0.0);
    assert!(edge.metric("petasos_spool_bytes", "") > 0.0, "it was too small for the spool");
    assert!(edge.metric("petasos_origin_fetches_stalled", "") <= 0.0);
    origin.kill();
    assert!(client.read_body(&mut answer) && answer.body == body, "the content is another");
}

#[test]
fn events_reach_the_client_before_the_next_one() {
    let gate = Gate::default();
    let opened = gate.clone();
    let origin = Origin::start(move |_| {
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n";
        vec![
            Action::Send(head.into()),
            Action::Await(opened.clone()),
            Action::Send(b"data: 2\n\n".to_vec()),
            Action::Close,
        ]
    });
    let edge = Edge::start(&origin.url(), &[]);
    for request in [
        "GET /events HTTP/1.1\r\nHost: a.test\r\nCookie: session=1\r\n\r\n",
        "POST /events HTTP/1.1\r\nHost: a.test\r\nContent-Length: 5\r\n\r\nhello",
    ] {
        let mut client = Client::connect(edge.address);
        client.send(request);
        client.read_head();
        assert_eq!(client.read_octets("9\r\ndata: 1\n\n".len()), b"9\r\ndata: 1\n\n");
    }
    assert!(edge.metric("petasos_origin_fetches_active", "") <= 0.0, "an open stream keeps no fetch");
    gate.open();
}

#[test]
fn unusable_spool_is_reported_and_uploads_still_work() {
    let origin = counting();
    let configuration = "spool_directory = \"/dev/null/spool\"\n";
    let edge = Edge::configured(&origin.url(), configuration, &["--memory", "8MiB"]);
    let content = content(2 << 20);
    let framing = format!("Content-Length: {}", content.len());
    assert_eq!(post(&mut Client::connect(edge.address), "/", &framing, &content), 200);
    assert!(seen(&origin, "/").body == content, "the content is another");
    eventually("the directory is named", || edge.stderr().contains("/dev/null/spool"));
    assert!(edge.metric("petasos_spool_errors_total", "") > 0.0);
}

#[test]
fn refused_content_is_not_read_as_the_next_request() {
    // This origin answers after the head and closes without reading large content.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut head = Vec::new();
            let mut octet = [0];
            while !head.ends_with(b"\r\n\r\n") && stream.read(&mut octet).is_ok_and(|read| read == 1) {
                head.push(octet[0]);
            }
            let length = String::from_utf8_lossy(&head).contains("Content-Length: 7\r\n");
            let rest = if length { [0; 7].len() } else { 0 };
            let mut content = vec![0; rest];
            stream.read_exact(&mut content).unwrap();
            let status = if rest > 0 { "200 OK" } else { "413 Too Large" };
            let answer = format!("HTTP/1.1 {status}\r\nContent-Length: {rest}\r\n\r\n");
            stream.write_all(answer.as_bytes()).unwrap();
            stream.write_all(&content).unwrap();
        }
    });
    let edge = Edge::start(&url, &SMALL);
    let mut client = Client::connect(edge.address);
    let large = content(3 << 20);
    for _ in 0..3 {
        assert_eq!(post(&mut client, "/", &format!("Content-Length: {}", large.len()), &large), 413);
        client.send("POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 7\r\n\r\nmessage");
        let answer = client.read();
        assert_eq!((answer.status, answer.text()), (200, "message"));
    }
    eventually("nothing is kept", || {
        edge.metric("petasos_buffered_bytes", "") + edge.metric("petasos_spool_bytes", "") <= 0.0
    });
}
