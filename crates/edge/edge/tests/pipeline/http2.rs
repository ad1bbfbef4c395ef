//! HTTP/2 to clients: the same pipeline, its own framing, and what hostile clients try.

use crate::support::{self, Stage, metric, reason};
use config::EdgePlan;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::time::Duration;
use testkit::{Action, Gate, Http2Client, Http2Frame, Http2Frames, Seen, eventually, response};

const FRESH: &str = "Cache-Control: max-age=60";

/// An edge that accepts HTTP/2 without TLS.
fn stage(script: impl Fn(&Seen) -> Vec<Action> + Send + Sync + 'static) -> Stage {
    stage_with(|_| {}, script)
}

fn stage_with(
    change: impl FnOnce(&mut EdgePlan),
    script: impl Fn(&Seen) -> Vec<Action> + Send + Sync + 'static,
) -> Stage {
    Stage::with(
        |plan| {
            plan.listeners.iter_mut().for_each(|listener| listener.http2 = true);
            change(plan);
        },
        script,
    )
}

fn address(stage: &Stage) -> SocketAddr {
    support::address(&stage.edge)
}

fn client(stage: &Stage) -> Http2Client {
    Http2Client::connect(address(stage))
}

fn get(stream: u32, target: &str) -> Http2Frame {
    let fields = [(":method", "GET"), (":scheme", "http"), (":authority", "example.test"), (":path", target)];
    Http2Frame::request(stream, &fields)
}

#[test]
fn pages_are_shared_between_the_protocols() {
    let stage = stage(|_| response("200 OK", &[FRESH, "X-Page: yes"], b"a page"));
    let mut client = client(&stage);
    let first = client.get("/", &[]);
    assert_eq!((first.status, first.text(), reason(&first)), (200, "a page", "miss-absent"));
    let hit = client.get("/", &[]);
    assert_eq!((hit.text(), reason(&hit), hit.complete), ("a page", "hit-fresh", true));
    assert_eq!((hit.field("x-page"), hit.field("content-length")), (Some("yes"), Some("6")));
    for gone in ["connection", "transfer-encoding", "keep-alive"] {
        assert_eq!(hit.field(gone), None, "{gone}");
    }
    let plain = stage.get("/", &[]);
    assert_eq!((plain.text(), reason(&plain)), ("a page", "hit-fresh"));
    assert_eq!(metric(&stage.edge, "petasos_http2_connections_total", ""), 1);
}

#[test]
fn head_and_conditional_requests_have_no_content() {
    let stage = stage(|_| response("200 OK", &[FRESH, "ETag: \"a\""], b"a page"));
    let mut client = client(&stage);
    client.get("/", &[]);
    let head = client.request("HEAD", "/", &[]);
    let stream = client.begin(head, true).unwrap();
    let head = client.read(stream);
    assert_eq!((head.status, head.field("content-length"), head.body.len()), (200, Some("6"), 0));
    let known = client.get("/", &["if-none-match: \"a\""]);
    assert_eq!((known.status, known.body.len(), known.complete), (304, 0, true));
    let part = client.get("/", &["range: bytes=2-3"]);
    assert_eq!((part.status, part.text()), (206, "pa"));
}

#[test]
fn many_requests_at_once_are_all_answered() {
    let stage = stage(|seen| response("200 OK", &[FRESH], seen.target().repeat(2_000).as_bytes()));
    let mut client = client(&stage);
    // The client then knows how many requests it may send at once.
    client.get("/", &[]);
    let streams: Vec<_> = (0..300)
        .map(|number| {
            let target = format!("/{}", number % 7);
            let request = client.request("GET", &target, &[]);
            (target, client.begin(request, true).unwrap())
        })
        .collect();
    for (target, stream) in streams {
        let answer = client.read(stream);
        assert!(answer.complete);
        assert_eq!(answer.text(), target.repeat(2_000));
    }
}

#[test]
fn contents_and_trailers_pass_both_ways() {
    let stage = stage(|seen| {
        let size = seen.body.len();
        let body = "x".repeat(size);
        let chunked = format!(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{size:x}\r\n{body}\r\n0\r\nX-Sum: 5\r\n\r\n",
        );
        vec![Action::Send(chunked.into_bytes())]
    });
    let mut client = client(&stage);
    for size in [5, 300_000] {
        let content = vec![b'x'; size];
        let answer = client.post("/", &["content-type: text/plain"], &content);
        assert_eq!((answer.status, answer.complete, answer.body == content), (200, true, true), "{size}");
        assert_eq!(answer.trailers, "x-sum: 5\r\n");
    }
    assert_eq!(stage.last_seen().body.len(), 300_000);
}

#[test]
fn response_in_many_small_chunks_has_few_frames() {
    let chunks = format!("HTTP/1.1 200 OK\r\n{FRESH}\r\nTransfer-Encoding: chunked\r\n\r\n")
        + &"a\r\n0123456789\r\n".repeat(3000)
        + "0\r\n\r\n";
    let stage = stage(move |_| vec![Action::Send(chunks.clone().into_bytes())]);
    // A client made with `h2` ends a connection with more than some hundred small frames.
    let answer = client(&stage).get("/", &[]);
    assert_eq!((answer.complete, answer.body.len()), (true, 30_000));
    let passed = client(&stage).get("/", &["authorization: Basic dTpw"]);
    assert_eq!((passed.complete, passed.body.len()), (true, 30_000));
}

#[test]
fn truncated_response_ends_with_a_reset() {
    let stage = stage(|_| {
        let head = format!("HTTP/1.1 200 OK\r\n{FRESH}\r\nContent-Length: 10\r\n\r\nhello");
        vec![Action::Send(head.into_bytes()), Action::Close]
    });
    let answer = client(&stage).get("/", &[]);
    assert_eq!((answer.complete, answer.text()), (false, "hello"));
    let again = client(&stage).get("/", &[]);
    assert!(!again.complete);
}

#[test]
fn refused_requests_leave_the_connection_usable() {
    let stage = stage(|_| response("200 OK", &[FRESH], b"a page"));
    let mut frames = Http2Frames::connect(address(&stage));
    let base = [(":method", "GET"), (":scheme", "http"), (":path", "/")];
    let with = |fields: &[(&'static str, &'static str)]| [&base[..], fields].concat();
    // Malformed: the stream is reset.
    let malformed = [
        with(&[(":authority", "a.test"), ("connection", "close")]),
        with(&[(":authority", "a.test"), ("transfer-encoding", "chunked")]),
        with(&[(":authority", "a.test"), ("te", "gzip")]),
        with(&[(":authority", "a.test"), ("host", "b.test")]),
        with(&[(":authority", "a.test"), ("x", " padded")]),
        with(&[(":authority", "a.test"), ("content-length", "5")]),
        with(&[("x", "1"), (":authority", "a.test")]),
        vec![(":method", "GET"), (":path", "/"), (":authority", "a.test")],
        vec![(":method", "GET"), (":scheme", "http"), (":authority", "a.test")],
        vec![(":method", "GET"), (":scheme", "http"), (":authority", "a.test"), (":path", "")],
    ];
    let mut stream = 1;
    for fields in &malformed {
        frames.send(&[Http2Frame::request(stream, fields)]);
        let reset = frames.read_until(3).unwrap_or_else(|| panic!("no reset for {fields:?}"));
        assert_eq!((reset.stream, reset.payload.as_slice()), (stream, &[0, 0, 0, 1][..]), "{fields:?}");
        stream += 2;
    }
    // `h2` takes these for faults of the connection, as RFC 9113 section 8.1.1 permits.
    for field in [("X-Upper", "1"), ("x", "a\r\nEvil: 1"), ("x\r\nevil", "1")] {
        let mut frames = Http2Frames::connect(address(&stage));
        frames.send(&[Http2Frame::request(1, &with(&[(":authority", "a.test"), field]))]);
        assert_eq!(frames.goodbye(), Some(1), "{field:?}");
    }
    // Correct HTTP/2, but no request that HTTP/1 would accept: the response says why.
    for fields in [
        with(&[]),
        with(&[("host", "a b")]),
        with(&[(":authority", "user@a.test")]),
        with(&[(":authority", "a.test"), ("host", "a.test"), ("host", "a.test")]),
    ] {
        frames.send(&[Http2Frame::request(stream, &fields)]);
        let head = frames.read_until(1).unwrap();
        // 8 is ":status 200", 12 is ":status 400" (RFC 7541 appendix A).
        assert_eq!((head.stream, head.payload[0]), (stream, 0x80 | 12), "{fields:?}");
        stream += 2;
    }
    frames.send(&[get(stream, "/")]);
    loop {
        let frame = frames.read().unwrap();
        if frame.kind == 1 && frame.stream == stream {
            assert_eq!(frame.payload[0], 0x80 | 8);
            break;
        }
    }
    assert!(stage.origin.seen().iter().all(|seen| !seen.head.contains("Evil")));
}

#[test]
fn urgent_response_is_sent_first() {
    let stage = stage(|seen| response("200 OK", &[FRESH], seen.target().repeat(200_000).as_bytes()));
    let mut plain = support::connect(&stage.edge);
    for target in ["/a", "/b", "/c"] {
        plain.get(target, &[]);
    }
    let mut frames = Http2Frames::connect(address(&stage));
    let request = |stream, target, priority| {
        let fields = [
            (":method", "GET"),
            (":scheme", "http"),
            (":authority", "example.test"),
            (":path", target),
            ("priority", priority),
        ];
        Http2Frame::request(stream, &fields)
    };
    // The window of the connection is full after 65,535 bytes of the first response.
    frames.send(&[request(1, "/a", "u=5")]);
    let mut received = 0;
    while received < 65_535 {
        received += data(&mut frames).1;
    }
    frames.send(&[request(3, "/b", "u=7"), request(5, "/c", "u=0")]);
    // Both heads show that both requests wait.
    assert_eq!((frames.read_until(1).unwrap().stream, frames.read_until(1).unwrap().stream), (3, 5));
    let update = |stream, bytes: u32| Http2Frame::new(8, stream, bytes.to_be_bytes());
    frames.send(&[update(1, 1 << 20), update(3, 1 << 20), update(5, 1 << 20), update(0, 30_000)]);
    let mut left = 30_000;
    while left > 0 {
        let (stream, bytes) = data(&mut frames);
        assert_eq!(stream, 5, "the urgent response gets the whole window");
        left -= bytes;
    }
    frames.send(&[update(0, 2_000_000)]);
    let (mut ended, mut received) = (Vec::new(), [0; 6]);
    while ended.len() < 3 {
        let frame = frames.read_until(0).unwrap();
        received[frame.stream as usize] += frame.payload.len();
        if frame.flags & 1 == 1 {
            ended.push(frame.stream);
        }
        // One round may be on its way when a more urgent response could be sent.
        let others = received[1] + received[3];
        assert!(ended.contains(&5) || others <= 64 * 1024, "{others} bytes before the urgent response");
    }
    assert_eq!(ended, [5, 1, 3]);
}

/// The stream and the size of the next DATA frame.
fn data(frames: &mut Http2Frames) -> (u32, usize) {
    let frame = frames.read_until(0).unwrap();
    (frame.stream, frame.payload.len())
}

#[test]
fn incremental_responses_share_the_connection() {
    let stage = stage(|seen| response("200 OK", &[FRESH], seen.target().repeat(60_000).as_bytes()));
    let mut plain = support::connect(&stage.edge);
    plain.get("/a", &[]);
    plain.get("/b", &[]);
    let mut frames = Http2Frames::connect(address(&stage));
    let request = |stream, target| {
        let fields = [
            (":method", "GET"),
            (":scheme", "http"),
            (":authority", "example.test"),
            (":path", target),
            ("priority", "i"),
        ];
        Http2Frame::request(stream, &fields)
    };
    frames.send(&[request(1, "/a"), request(3, "/b")]);
    let mut received = 0;
    while received < 65_535 {
        received += data(&mut frames).1;
    }
    let update = |stream, bytes: u32| Http2Frame::new(8, stream, bytes.to_be_bytes());
    frames.send(&[update(1, 1 << 20), update(3, 1 << 20), update(0, 1 << 20)]);
    let (mut changes, mut last, mut received) = (0, 0, 65_535);
    while received < 240_000 {
        let (stream, bytes) = data(&mut frames);
        received += bytes;
        changes += u32::from(stream != last);
        last = stream;
    }
    assert!(changes >= 6, "{changes} changes between the responses");
}

#[test]
fn response_that_is_not_read_holds_up_no_other() {
    let stage = stage(|seen| response("200 OK", &[FRESH], seen.target().repeat(200_000).as_bytes()));
    support::connect(&stage.edge).get("/a", &[]);
    support::connect(&stage.edge).get("/b", &[]);
    let mut frames = Http2Frames::connect(address(&stage));
    // Windows of streams of 1,000 bytes, and a large one of the connection.
    frames.send(&[
        Http2Frame::new(4, 0, [0, 4, 0, 0, 3, 232]),
        Http2Frame::new(8, 0, (1_u32 << 24).to_be_bytes()),
    ]);
    frames.send(&[get(1, "/a"), get(3, "/b"), Http2Frame::new(8, 3, (1_u32 << 20).to_be_bytes())]);
    let mut received = 0;
    while received < 400_000 {
        let (stream, bytes) = data(&mut frames);
        received += if stream == 3 { bytes } else { 0 };
    }
}

#[test]
fn websocket_passes_over_a_stream() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let origin = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let (mut received, mut octet) = (Vec::new(), [0]);
        while !received.ends_with(b"\r\n\r\n") && stream.read(&mut octet).unwrap() == 1 {
            received.push(octet[0]);
        }
        let switch = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                      Sec-WebSocket-Accept: x\r\nSec-WebSocket-Protocol: chat\r\n\r\nhello";
        stream.write_all(switch.as_bytes()).unwrap();
        let mut rest = String::new();
        stream.read_to_string(&mut rest).unwrap();
        stream.write_all(rest.to_uppercase().as_bytes()).unwrap();
        String::from_utf8(received).unwrap()
    });
    let mut plan = support::plan(&url);
    plan.listeners.iter_mut().for_each(|listener| listener.http2 = true);
    let edge = support::start(plan);
    let mut client = Http2Client::connect(support::address(&edge));
    let mut request = client.request("CONNECT", "/chat", &["sec-websocket-version: 13"]);
    request.extensions_mut().insert(h2::ext::Protocol::from_static("websocket"));
    let stream = client.begin(request, false).unwrap();
    client.run(async {
        let (status, mut receive, mut send) = stream.head().await.unwrap();
        assert_eq!(status, 200);
        send.send_data(bytes::Bytes::from_static(b" and back"), true).unwrap();
        let mut received = Vec::new();
        while let Some(octets) = receive.data().await {
            received.extend_from_slice(&octets.unwrap());
        }
        assert_eq!(received, b"hello AND BACK");
    });
    let asked = origin.join().unwrap().to_lowercase();
    assert!(asked.starts_with("get /chat http/1.1\r\n"), "{asked}");
    for line in ["upgrade: websocket", "connection: upgrade", "sec-websocket-version: 13"] {
        assert!(asked.lines().any(|found| found == line), "{line} in\n{asked}");
    }
    let key = asked.lines().find_map(|line| line.strip_prefix("sec-websocket-key: ")).unwrap();
    assert_eq!(key.len(), 24, "16 bytes in base64");
}

#[test]
fn connect_and_unknown_protocols_are_refused() {
    let stage = stage(|_| response("200 OK", &[FRESH], b"a page"));
    let mut client = client(&stage);
    let mut request = client.request("CONNECT", "/x", &[]);
    request.extensions_mut().insert(h2::ext::Protocol::from_static("connect-udp"));
    let stream = client.begin(request, true).unwrap();
    let answer = client.read(stream);
    assert_eq!((answer.status, reason(&answer)), (501, "connect-refused"));
    assert_eq!(client.get("/", &[]).status, 200);
}

#[test]
fn early_hints_and_continue_precede_the_response() {
    let stage = stage(|_| {
        let octets =
            b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
        vec![Action::Send(octets.to_vec())]
    });
    let mut frames = Http2Frames::connect(address(&stage));
    frames.send(&[get(1, "/")]);
    let first = frames.read_until(1).unwrap();
    // The status 103 is no entry of the static table: it is a literal.
    assert!(first.payload.windows(3).any(|octets| octets == b"103") || first.payload[0] & 0x80 == 0);
    assert_eq!(first.flags & 1, 0, "no end of the stream");
    let second = frames.read_until(1).unwrap();
    assert_eq!(second.payload[0], 0x80 | 8);
}

#[test]
fn http1_is_served_where_http2_is_permitted() {
    let stage = stage(|_| response("200 OK", &[FRESH], b"a page"));
    let mut client = support::connect(&stage.edge);
    client.send("P");
    client.send("OST / HTTP/1.1\r\nHost: example.test\r\nContent-Length: 2\r\n\r\nab");
    assert_eq!(client.read().text(), "a page");
    assert_eq!(client.get("/", &[]).text(), "a page");
}

#[test]
fn http2_is_refused_where_it_is_not_permitted() {
    let stage = Stage::new(|_| response("200 OK", &[FRESH], b"a page"));
    let mut client = support::connect(&stage.edge);
    client.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    assert_eq!(client.read().status, 505);
}

#[test]
fn drain_ends_the_connection_after_its_requests() {
    let gate = Gate::default();
    let opened = gate.clone();
    let stage = stage(move |_| {
        let mut script = vec![Action::Await(opened.clone())];
        script.extend(response("200 OK", &[FRESH], b"late"));
        script
    });
    let mut client = client(&stage);
    let request = client.request("GET", "/", &[]);
    let stream = client.begin(request, true).unwrap();
    client.rest(Duration::from_millis(50));
    stage.await_seen(1);
    stage.edge.stop();
    client.rest(Duration::from_millis(100));
    gate.open();
    assert_eq!(client.read(stream).text(), "late");
    client.rest(Duration::from_millis(100));
    stage.edge.join().unwrap();
}

#[test]
fn floods_of_control_frames_end_the_connection() {
    let stage = stage(|_| response("200 OK", &[FRESH], b"a page"));
    let floods: [(&str, Http2Frame); 4] = [
        ("ping", Http2Frame::new(6, 0, [7; 8])),
        ("settings", Http2Frame::new(4, 0, [0, 4, 0, 0, 255, 255])),
        ("unknown", Http2Frame::new(200, 0, [0; 64])),
        ("priority", Http2Frame::new(2, 1, [0, 0, 0, 0, 16])),
    ];
    for (name, frame) in floods {
        let mut frames = Http2Frames::connect(address(&stage));
        let many = frame.octets().repeat(1_000);
        let reader = reading(&frames);
        let ended = (0..1_000).any(|_| !frames.send_octets(&many));
        assert!(ended, "the flood of {name} goes on");
        drop(frames);
        reader.join().unwrap();
    }
    assert_eq!(metric(&stage.edge, "petasos_http2_floods_total", ""), 4);
}

/// Reads and discards everything, so that the server can send.
fn reading(frames: &Http2Frames) -> std::thread::JoinHandle<()> {
    let mut reader = frames.again();
    std::thread::spawn(move || while reader.read().is_some() {})
}

#[test]
fn rapid_resets_end_the_connection() {
    let gate = Gate::default();
    let opened = gate.clone();
    let stage = stage(move |_| vec![Action::Await(opened.clone())]);
    let mut frames = Http2Frames::connect(address(&stage));
    let reader = reading(&frames);
    let mut stream = 1;
    let ended = (0..10_000).any(|number| {
        let reset = Http2Frame::new(3, stream, 8_u32.to_be_bytes());
        let sent = frames.send(&[get(stream, &format!("/{number}")), reset]);
        stream += 2;
        !sent
    });
    assert!(ended, "the resets go on");
    drop(frames);
    reader.join().unwrap();
    gate.open();
    let requests = stage.origin.seen().len();
    assert!(requests <= 300, "{requests} requests reached the origin");
}

#[test]
fn endless_head_ends_the_connection() {
    let stage = stage(|_| response("200 OK", &[FRESH], b"a page"));
    let mut frames = Http2Frames::connect(address(&stage));
    let reader = reading(&frames);
    let mut begin = get(1, "/");
    begin.flags = 1;
    frames.send(&[begin]);
    let more = Http2Frame::new(9, 1, testkit::field_block(&[("x", &"y".repeat(1_000))]));
    let ended = (0..10_000).any(|_| !frames.send(std::slice::from_ref(&more)));
    assert!(ended, "the head goes on");
    drop(frames);
    reader.join().unwrap();
}

#[test]
fn reset_connection_ends_its_responses_at_once() {
    let large = vec![b'a'; 3_000_000];
    let stage = stage(move |_| response("200 OK", &["Cache-Control: private"], &large));
    // Whether the reset is noticed by a read or by a write is a matter of chance.
    for reads in 0..40 {
        let mut frames = Http2Frames::connect(address(&stage));
        frames.send(&[
            get(1, "/"),
            Http2Frame::window_update(0, 1 << 20),
            Http2Frame::window_update(1, 1 << 20),
        ]);
        (0..reads).for_each(|_| drop(frames.read_until(0)));
        // The system resets the connection, because bytes were not read.
        drop(frames);
    }
    eventually("all connections are closed", || metric(&stage.edge, "petasos_connections_open", "") == 0);
    assert_eq!(metric(&stage.edge, "petasos_http2_connections_total", ""), 40);
    stage.await_quiet();
}

#[test]
fn slow_windows_are_cut_off() {
    let stage = stage_with(
        |plan| plan.limits.write_timeout = Duration::from_millis(300),
        |_| response("200 OK", &[FRESH], &vec![b'x'; 1 << 20]),
    );
    support::connect(&stage.edge).get("/", &[]);
    let mut frames = Http2Frames::connect(address(&stage));
    frames.send(&[Http2Frame::new(4, 0, [0, 4, 0, 0, 0, 0]), get(1, "/")]);
    let reset = frames.read_until(3).unwrap();
    assert_eq!(reset.stream, 1);
    eventually("the visitor counts as too slow", || {
        metric(&stage.edge, "petasos_visitor_timeouts_total", "") == 1
    });
}

#[test]
fn idle_connection_is_told_to_leave() {
    let stage = stage_with(
        |plan| plan.limits.idle_timeout = Duration::from_millis(100),
        |_| response("200 OK", &[FRESH], b"a page"),
    );
    let mut frames = Http2Frames::connect(address(&stage));
    frames.send(&[get(1, "/")]);
    assert_eq!(frames.goodbye(), Some(0));
    while frames.read().is_some() {}
}

#[test]
fn long_responses_of_one_connection_wait_for_each_other() {
    let stage = stage_with(
        |plan| {
            plan.limits.write_timeout = Duration::from_millis(400);
            plan.limits.rate_window = Duration::from_millis(400);
        },
        |seen| response("200 OK", &[FRESH], seen.target().repeat(400_000).as_bytes()),
    );
    support::connect(&stage.edge).get("/a", &[]);
    support::connect(&stage.edge).get("/b", &[]);
    let mut frames = Http2Frames::connect(address(&stage));
    let update = |stream, bytes: u32| Http2Frame::new(8, stream, bytes.to_be_bytes());
    frames.send(&[get(1, "/a"), get(3, "/b"), update(1, 1 << 20), update(3, 1 << 20)]);
    // The client reads 20 pieces, one each 50 ms: the second response waits for the first.
    let mut received = [0; 4];
    for _ in 0..20 {
        std::thread::sleep(Duration::from_millis(50));
        frames.send(&[update(0, 100_000)]);
    }
    while received[1] < 800_000 || received[3] < 800_000 {
        let (stream, bytes) = data(&mut frames);
        received[stream as usize] += bytes;
    }
    assert_eq!(metric(&stage.edge, "petasos_visitor_timeouts_total", ""), 0);
}

#[test]
fn connection_with_hits_is_not_idle() {
    let stage = stage_with(
        |plan| plan.limits.idle_timeout = Duration::from_millis(300),
        |_| response("200 OK", &[FRESH], b"a page"),
    );
    let mut client = client(&stage);
    for _ in 0..20 {
        assert_eq!(client.get("/", &[]).text(), "a page");
        client.rest(Duration::from_millis(50));
    }
    assert_eq!(metric(&stage.edge, "petasos_http2_connections_total", ""), 1);
}

#[test]
fn drain_tells_waiting_clients_at_once() {
    let gate = Gate::default();
    let opened = gate.clone();
    let stage = stage(move |_| support::behind(&opened, response("200 OK", &[FRESH], b"late")));
    let mut frames = Http2Frames::connect(address(&stage));
    frames.send(&[get(1, "/")]);
    stage.await_seen(1);
    stage.edge.stop();
    assert_eq!(frames.goodbye(), Some(0), "before the response");
    gate.open();
    assert_eq!(frames.read_until(0).unwrap().payload, b"late");
    drop(frames);
    stage.edge.join().unwrap();
}

#[test]
fn last_response_survives_frames_that_follow_its_end() {
    let body = vec![b'x'; 400_000];
    let gate = Gate::default();
    let opened = gate.clone();
    let stage = stage(move |_| support::behind(&opened, response("200 OK", &[FRESH], &body)));
    let mut frames = Http2Frames::connect(address(&stage));
    let update = Http2Frame::new(8, 0, (1_u32 << 20).to_be_bytes());
    frames.send(&[Http2Frame::new(4, 0, [0, 4, 0, 16, 0, 0]), update, get(1, "/")]);
    stage.await_seen(1);
    stage.edge.stop();
    let mut ping = frames.read_until(6).unwrap();
    ping.flags = 1;
    frames.send(&[ping]);
    gate.open();
    // The response is in the buffers of the system, and the edge has ended the connection. The
    // client does not know it, and opens its window when it begins to read.
    std::thread::sleep(Duration::from_millis(500));
    for _ in 0..5 {
        frames.send(&[Http2Frame::new(8, 0, 1_u32.to_be_bytes())]);
        std::thread::sleep(Duration::from_millis(20));
    }
    let (mut received, mut is_whole) = (0, false);
    while let Some(frame) = frames.read() {
        received += if frame.kind == 0 { frame.payload.len() } else { 0 };
        is_whole |= frame.kind == 0 && frame.flags & 1 == 1;
    }
    assert_eq!((received, is_whole), (400_000, true));
    drop(frames);
    stage.edge.join().unwrap();
}

#[test]
fn early_answers_to_uploads_are_no_flood() {
    let stage = stage_with(
        |plan| plan.limits.request_buffer_bytes_max = 0,
        |seen| response("403 Forbidden", &[], seen.target().as_bytes()),
    );
    let mut client = client(&stage);
    for number in 0..30 {
        let request = client.request("TRACE", &format!("/{number}"), &[]);
        let mut stream = client.begin(request, false).unwrap();
        // The window holds it, whether the edge reads it or not.
        stream.send.send_data(bytes::Bytes::from(vec![b'x'; 60_000]), true).unwrap();
        assert_eq!(client.read(stream).status, 501, "{number}");
    }
    assert_eq!(metric(&stage.edge, "petasos_http2_floods_total", ""), 0);
}

#[test]
fn origin_that_ignores_a_websocket_opens_no_tunnel() {
    let stage = stage(|_| response("200 OK", &[FRESH], b"<p>a page</p>"));
    let mut client = client(&stage);
    let mut request = client.request("CONNECT", "/chat", &["sec-websocket-version: 13"]);
    request.extensions_mut().insert(h2::ext::Protocol::from_static("websocket"));
    let stream = client.begin(request, false).unwrap();
    let status = client.run(async { stream.head().await.unwrap().0 });
    assert_eq!(status, 502);
}
