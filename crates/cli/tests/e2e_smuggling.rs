//! Request smuggling against the real binary. A request that two parsers could read differently is
//! refused, or forwarded as exactly one unambiguous request.

use testkit::{Client, Edge, Http2Frame, Http2Frames, Origin, response};

/// An origin whose responses are all shareable, so that a smuggled request would show.
fn origin() -> Origin {
    Origin::start(|seen| {
        let text = format!("{} at {}", seen.target(), seen.field("Host").unwrap_or("none"));
        response("200 OK", &["Cache-Control: max-age=60"], text.as_bytes())
    })
}

/// Sends `octets`. Returns the status of the first response and whether the connection ends after
/// it.
fn answer(edge: &Edge, octets: &[u8]) -> (u16, bool) {
    let mut client = Client::connect(edge.address);
    client.send(octets);
    let status = client.read().status;
    (status, client.is_closed())
}

#[test]
fn ambiguous_framings_are_refused() {
    let origin = origin();
    let head = "POST / HTTP/1.1\r\nHost: a.test\r\n";
    let edge = Edge::start(&origin.url(), &[]);
    let smuggled = "GET /smuggled HTTP/1.1\r\nHost: a.test\r\n\r\n";
    for lines in [
        "Content-Length: 5\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nContent-Length: 5",
        "Content-Length: 5, 5",
        "Content-Length: 5\r\nContent-Length: 5",
        "Content-Length: +5",
        "Content-Length: -1",
        "Content-Length: 0x5",
        "Content-Length: 5 5",
        "Content-Length:",
        "Content-Length: 99999999999999999999",
        "Content-Length: 5\r\n\tfolded: x",
        "Content-Length : 5",
        "Content-Length\t: 5",
        "Content-Length\0: 5",
        " Content-Length: 5",
        "Transfer-Encoding: chunked, chunked",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked, identity",
        "Transfer-Encoding: identity",
        "Transfer-Encoding: gzip, chunked",
        "Transfer-Encoding: xchunked",
        "Transfer-Encoding: chunked;q=1",
        "Transfer-Encoding: \u{b}chunked",
        "Transfer-Encoding: \"chunked\"",
        "Transfer-Encoding:\r\n chunked",
        "Transfer-Encoding",
        "X: y\rTransfer-Encoding: chunked",
        "X: y\nTransfer-Encoding: chunked",
        "X: \0",
        ": chunked",
    ] {
        let request = format!("{head}{lines}\r\n\r\n0\r\n\r\n{smuggled}");
        let (status, closed) = answer(&edge, request.as_bytes());
        assert!(matches!(status, 400 | 501) && closed, "{lines:?}: {status}");
    }
    let http_1_0 = format!("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{smuggled}");
    assert_eq!(answer(&edge, http_1_0.as_bytes()), (400, true));
    assert!(origin.seen().is_empty(), "{:?}", origin.seen());
}

#[test]
fn ambiguous_chunks_never_complete_a_request() {
    let origin = origin();
    let edge = Edge::start(&origin.url(), &[]);
    for body in [
        "5\nhello\r\n0\r\n\r\n",
        "5\r\nhello\n0\r\n\r\n",
        "5\r\nhelloXX0\r\n\r\n",
        "5 \r\nhello\r\n0\r\n\r\n",
        "+5\r\nhello\r\n0\r\n\r\n",
        "0x5\r\nhello\r\n0\r\n\r\n",
        "-1\r\nhello\r\n0\r\n\r\n",
        "\r\n5\r\nhello\r\n0\r\n\r\n",
        "5;a\nb\r\nhello\r\n0\r\n\r\n",
        "5;a\rb\r\nhello\r\n0\r\n\r\n",
        "5\r\nhello\r\n0\r\nX: y\n\r\n",
        "5\r\nhello\r\n0\r\nbad line\r\n\r\n",
        "00000000000000005\r\nhello\r\n0\r\n\r\n",
        "ffffffffffffffff0\r\nhello\r\n0\r\n\r\n",
    ] {
        let head = "POST /chunks HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n";
        let (status, closed) = answer(&edge, format!("{head}{body}").as_bytes());
        assert!(status == 400 && closed, "{body:?}: {status}");
    }
    assert_eq!(origin.count("/chunks"), 0, "a request without an end was taken as complete");
}

#[test]
fn content_of_a_get_is_not_a_second_request() {
    let origin = origin();
    let edge = Edge::start(&origin.url(), &[]);
    let smuggled = "GET /smuggled HTTP/1.1\r\nHost: a.test\r\n\r\n";
    let length = format!("Content-Length: {}", smuggled.len());
    let mut client = Client::connect(edge.address);
    for _ in 0..2 {
        client.send(format!("GET /page HTTP/1.1\r\nHost: a.test\r\n{length}\r\n\r\n{smuggled}"));
        assert_eq!(client.read().text(), "/page at a.test");
    }
    client.send("GET /page HTTP/1.1\r\nHost: a.test\r\n\r\n");
    assert_eq!(client.read().text(), "/page at a.test");
    client.send(format!("HEAD /page HTTP/1.1\r\nHost: a.test\r\n{length}\r\n\r\n{smuggled}"));
    client.read_head();
    client.send("GET /last HTTP/1.1\r\nHost: a.test\r\n\r\n");
    assert_eq!(client.read().text(), "/last at a.test");
    assert_eq!(origin.count("/smuggled"), 0);
}

#[test]
fn connection_options_remove_no_essential_fields() {
    let origin = Origin::start(|_| response("200 OK", &["Cache-Control: no-store"], b"x"));
    let edge = Edge::start(&origin.url(), &[]);
    let mut client = Client::connect(edge.address);
    client.send(
        "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 1\r\nCookie: session=1\r\n\
         Connection: content-length, host, cookie, x-forwarded-for, via, x-own\r\nX-Own: 1\r\n\r\nx",
    );
    assert_eq!(client.read().status, 200);
    let seen = &origin.seen()[0];
    for (name, value) in [
        ("Host", Some("a.test")),
        ("Content-Length", Some("1")),
        ("Cookie", Some("session=1")),
        ("X-Forwarded-For", Some("127.0.0.1")),
        ("X-Own", None),
    ] {
        assert_eq!(seen.field(name), value, "{}", seen.head);
    }
}

#[test]
fn host_of_key_and_request_agree_in_every_notation() {
    let origin = origin();
    let edge = Edge::start(&origin.url(), &[]);
    let ask = |target: &str, host: &str| {
        let mut client = Client::connect(edge.address);
        client.send(format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        let page = client.read();
        (page.status, page.text().to_owned())
    };
    // A target in absolute-form determines the cache key; the Host field does not (RFC 9112 section
    // 3.2.2).
    assert_eq!(ask("http://evil.test/page", "victim.test").1, "/page at evil.test");
    assert_eq!(ask("/page", "victim.test").1, "/page at victim.test");
    assert_eq!(ask("http://victim.test/page", "evil.test").1, "/page at victim.test");
    assert_eq!(ask("http://victim.test?page", "victim.test").1, "/?page at victim.test");
    assert_eq!(ask("https://victim.test/page", "victim.test").1, "/page at victim.test");
    assert_eq!(ask("/page", "VICTIM.test:80").1, "/page at victim.test");
    for (target, host) in [
        ("/page", "victim.test@evil.test"),
        ("/page", "victim.test/evil"),
        ("/page", "victim.test, evil.test"),
        ("/page", "victim.test evil.test"),
        ("/page", "victim.test:port"),
        ("/page", ""),
        ("http://victim.test@evil.test/page", "victim.test"),
        ("http://victim.test:80@evil.test/page", "victim.test"),
        ("http:///page", "victim.test"),
        ("http:page", "victim.test"),
        ("page", "victim.test"),
        ("*", "victim.test"),
        ("/page#fragment", "victim.test"),
        ("/pa\u{7f}ge", "victim.test"),
    ] {
        assert_eq!(ask(target, host).0, 400, "{target:?} {host:?}");
    }
    assert_eq!(origin.seen().len(), 3, "{:?}", origin.seen());
}

/// The corpus of this file as frames: HTTP/2 uses fields where HTTP/1 uses lines.
#[test]
fn smuggling_by_translation_reaches_no_origin() {
    let origin = origin();
    let edge = Edge::configured(&origin.url(), "http2_cleartext = true\n", &[]);
    let smuggled = "0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: a.test\r\n\r\n";
    let pseudo = [(":method", "POST"), (":scheme", "http"), (":authority", "a.test"), (":path", "/")];
    let fields: [&[(&str, &str)]; 22] = [
        &[("content-length", "5")],
        &[("content-length", "0"), ("content-length", "50")],
        &[("content-length", "0, 50")],
        &[("content-length", "+50")],
        &[("content-length", "-1")],
        &[("content-length", "0x32")],
        &[("content-length", "")],
        &[("content-length", "99999999999999999999")],
        &[("transfer-encoding", "chunked")],
        &[("transfer-encoding", "identity")],
        &[("connection", "content-length")],
        &[("connection", "close")],
        &[("keep-alive", "timeout=5")],
        &[("proxy-connection", "keep-alive")],
        &[("upgrade", "h2c")],
        &[("te", "trailers, chunked")],
        &[("x", "y\r\ntransfer-encoding: chunked")],
        &[("x", "y\ntransfer-encoding: chunked")],
        &[("x", "y\0")],
        &[("x\r\ntransfer-encoding: chunked\r\ny", "z")],
        &[("x: y", "z")],
        &[("content-length ", "5")],
    ];
    for fields in fields {
        let mut frames = Http2Frames::connect(edge.address);
        let mut head = Http2Frame::request(1, &[&pseudo[..], fields].concat());
        head.flags = 4;
        let mut content = Http2Frame::new(0, 1, smuggled);
        content.flags = 1;
        frames.send(&[head, content]);
        assert!(is_refused(&mut frames), "{fields:?}");
    }
    for (name, value) in [
        (":path", "/ HTTP/1.1\r\nHost: b.test\r\n\r\nGET /smuggled"),
        (":path", "/a b"),
        (":path", "http://b.test/"),
        (":method", "GET /smuggled HTTP/1.1\r\nX:"),
        (":method", "GET "),
        (":authority", "a.test\r\nX: y"),
        (":authority", "a.test/b"),
        (":authority", "user@a.test"),
        (":scheme", "http://b.test/ HTTP/1.1\r\nX"),
        (":status", "200"),
        (":unknown", "x"),
    ] {
        let mut frames = Http2Frames::connect(edge.address);
        let others = pseudo.iter().filter(|(pseudo, _)| *pseudo != name);
        let fields: Vec<_> = others.copied().chain([(name, value)]).collect();
        frames.send(&[Http2Frame::request(1, &fields)]);
        assert!(is_refused(&mut frames), "{name}: {value:?}");
    }
    let seen = origin.seen();
    assert!(seen.is_empty(), "{seen:?}");
}

/// Whether the answer is a reset, the end of the connection, or an error response.
fn is_refused(frames: &mut Http2Frames) -> bool {
    while let Some(frame) = frames.read() {
        match frame.kind {
            // HEADERS: 12 is ":status 400" (RFC 7541 appendix A).
            1 => return frame.payload.first() == Some(&(0x80 | 12)),
            // RST_STREAM and GOAWAY.
            3 | 7 => return true,
            _ => {}
        }
    }
    true
}
