//! Exchanges with origins that misbehave in many ways.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use bytes::Bytes;
use clock::ManualClock;
use h1::{BodyError, BodyFraming};
use message::{Frame, Method};
use net::SystemNetwork;
use petasos_origin::{
    BreakerLimits, FetchBounds, FetchClient, FetchError, FetchRequest, GroupMember, NoUpload, Origin,
    OriginEvent, OriginExchange, OriginGroup, Settings, Upload, UploadError, Urgency,
};
use platform::SystemClock;
use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use testkit::{Action, Gate, response};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, UnixListener, UnixStream};

/// Longer than any test takes.
const FOREVER: Duration = Duration::from_secs(3600);

fn settings() -> Settings {
    Settings {
        connect_timeout: FOREVER,
        first_byte_timeout: FOREVER,
        between_bytes_timeout: FOREVER,
        response_limits: h1::Limits::DEFAULT,
        bounds: FetchBounds {
            fetches_max: 8,
            is_adaptive: false,
            client_fetches_max: 8,
            stalled_max: 8,
            queue_max: 8,
            client_queue_max: 8,
        },
        queue_timeout: FOREVER,
        idle_connections_max: 8,
        idle_connection_timeout: FOREVER,
        breaker: BreakerLimits { silence_min: FOREVER, silence_max: FOREVER, probe_pause_max: FOREVER },
    }
}

fn origin_with(url: &str, settings: Settings) -> Arc<Origin> {
    Arc::new(Origin::new(
        url.parse().unwrap(),
        settings,
        Arc::new(SystemClock::new()),
        Arc::new(SystemNetwork),
    ))
}

fn request(method: &Method, target: &str, framing: BodyFraming) -> FetchRequest {
    let framing_field = match framing {
        BodyFraming::Length(bytes) => format!("Content-Length: {bytes}\r\n"),
        BodyFraming::Chunked => "Transfer-Encoding: chunked\r\n".to_owned(),
        BodyFraming::Empty | BodyFraming::UntilClose => String::new(),
    };
    let head = format!("{method} {target} HTTP/1.1\r\nHost: example.test\r\n{framing_field}\r\n");
    FetchRequest {
        head: head.into(),
        method: method.clone(),
        framing,
        expect_continue: false,
        is_conditional: false,
        urgency: Urgency::default(),
        client: FetchClient::Any([192, 0, 2, 1].into()),
        page: None,
        probe: None,
    }
}

async fn get(origin: &Arc<Origin>, target: &str) -> OriginExchange {
    origin.fetch(request(&Method::Get, target, BodyFraming::Empty)).await.unwrap()
}

/// All events until the end or the error, with that error.
async fn events(
    exchange: &mut OriginExchange,
    mut upload: impl Upload,
) -> (Vec<OriginEvent>, Option<FetchError>) {
    let mut events = Vec::new();
    loop {
        match exchange.next(&mut upload).await {
            Ok(event) => {
                let end = matches!(event, OriginEvent::End(_));
                events.push(event);
                if end {
                    return (events, None);
                }
            }
            Err(error) => return (events, Some(error)),
        }
    }
}

fn content(events: &[OriginEvent]) -> Vec<u8> {
    let mut content = Vec::new();
    for event in events {
        if let OriginEvent::Data(octets) = event {
            content.extend_from_slice(octets);
        }
    }
    content
}

/// An upload whose frames are all available from the start.
struct Ready(std::vec::IntoIter<Frame>);

impl Upload for Ready {
    fn poll_frame(&mut self, _: &mut Context<'_>) -> Poll<Result<Frame, UploadError>> {
        Poll::Ready(self.0.next().ok_or(UploadError::Gone))
    }
}

fn upload(pieces: &[&'static str]) -> Ready {
    let data = pieces.iter().map(|piece| Frame::Data(Bytes::from_static(piece.as_bytes())));
    Ready(data.chain([Frame::End(None)]).collect::<Vec<_>>().into_iter())
}

#[tokio::test]
async fn a_connection_is_used_again_after_a_complete_response() {
    let server = testkit::Origin::start(|_| response("200 OK", &[], b"hello"));
    let origin = origin_with(&server.url(), settings());
    for _ in 0..3 {
        let mut exchange = get(&origin, "/").await;
        assert_eq!(origin.gauges().active, 1);
        let (events, error) = events(&mut exchange, NoUpload).await;
        assert_eq!((content(&events).as_slice(), error), (&b"hello"[..], None));
        assert_eq!((origin.gauges().active, origin.gauges().idle), (0, 1));
    }
}

/// Answers requests at a port of this machine, and counts the connections.
fn counting_server() -> (u16, Arc<AtomicUsize>) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let (port, count) = (listener.local_addr().unwrap().port(), Arc::new(AtomicUsize::new(0)));
    let counted = Arc::clone(&count);
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            counted.fetch_add(1, Ordering::SeqCst);
            std::thread::spawn(move || {
                let mut head = [0; 4096];
                while stream.read(&mut head).is_ok_and(|bytes| bytes > 0) {
                    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
                }
            });
        }
    });
    (port, count)
}

#[tokio::test]
async fn connection_to_a_host_name_is_not_used_for_long() {
    for (host, connections) in [("localhost", 2), ("127.0.0.1", 1)] {
        let (port, count) = counting_server();
        let clock = Arc::new(ManualClock::default());
        let url = format!("http://{host}:{port}").parse().unwrap();
        let origin = Arc::new(Origin::new(url, settings(), clock.clone(), Arc::new(SystemNetwork)));
        // The last request comes before the second connection to the name is too old.
        for seconds in [0, 20, 20, 20] {
            clock.advance(Duration::from_secs(seconds));
            let mut exchange = get(&origin, "/").await;
            let (_, error) = events(&mut exchange, NoUpload).await;
            assert_eq!((error, origin.gauges().idle), (None, 1), "{host}");
        }
        assert_eq!(count.load(Ordering::SeqCst), connections, "{host}");
    }
}

#[tokio::test]
async fn request_on_a_connection_of_an_ended_origin_moves() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let ended = origin_with(&format!("http://{}", listener.local_addr().unwrap()), settings());
    let server = testkit::Origin::start(|_| response("200 OK", &[], b"hello"));
    let well = origin_with(&server.url(), settings());
    // The turns of the heavier one come first.
    let members =
        [(ended, 100), (well, 1)].map(|(origin, weight)| GroupMember { origin, weight }).into_iter();
    let group = Arc::new(OriginGroup::new(members.collect()));
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut head = [0; 1000];
        let _ = stream.read(&mut head).await.unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi").await.unwrap();
        drop(listener);
        let _ = stream.read(&mut head).await.unwrap();
    });
    for expected in ["hi", "hello"] {
        let request = request(&Method::Get, "/", BodyFraming::Empty);
        let mut exchange = group.fetch(request).await.unwrap();
        let (events, error) = events(&mut exchange, NoUpload).await;
        assert_eq!((content(&events), error), (expected.as_bytes().to_vec(), None));
    }
    assert_eq!(group.retries(), 1);
}

#[tokio::test]
async fn no_request_probes_an_origin_while_another_answers() {
    let server = testkit::Origin::start(|_| response("200 OK", &[], b"hello"));
    let clock = Arc::new(ManualClock::default());
    let new = |url: &str| {
        Arc::new(Origin::new(url.parse().unwrap(), settings(), clock.clone(), Arc::new(SystemNetwork)))
    };
    let port = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    let dead = new(&format!("http://127.0.0.1:{port}"));
    let refused = dead.fetch(request(&Method::Get, "/", BodyFraming::Empty)).await;
    assert_eq!(refused.err(), Some(FetchError::Refused));
    clock.advance(Duration::from_secs(1));
    let member = |origin: &Arc<Origin>| GroupMember { origin: origin.clone(), weight: 1 };
    let both = OriginGroup::new(vec![member(&dead), member(&new(&server.url()))]);
    assert!(!both.is_open() && !both.is_probe_due() && both.claim_probe().is_none());
    assert!(both.has_time() && !both.is_busy());
    let alone = OriginGroup::new(vec![member(&dead)]);
    assert!(alone.is_open() && alone.claim_probe().is_some());
}

#[tokio::test]
async fn client_that_waits_for_its_share_makes_no_origin_busy() {
    let server = testkit::Origin::start(|_| response("200 OK", &[], b"hello"));
    let clock = Arc::new(ManualClock::default());
    let bounds = FetchBounds { fetches_max: 2, client_fetches_max: 1, ..settings().bounds };
    for (clients, is_busy) in [([1, 1, 1], false), ([1, 2, 3], true)] {
        let settings = Settings { bounds, ..settings() };
        let url = server.url().parse().unwrap();
        let origin = Arc::new(Origin::new(url, settings, clock.clone(), Arc::new(SystemNetwork)));
        let begin = |client: u8| {
            let (origin, request) = (origin.clone(), request(&Method::Get, "/", BodyFraming::Empty));
            request.urgency.is_wanted_by(Some([192, 0, 2, client].into()));
            tokio::spawn(async move { origin.fetch(request).await.unwrap() })
        };
        let held = begin(clients[0]).await.unwrap();
        let other = if is_busy { Some(begin(clients[1]).await.unwrap()) } else { None };
        let late = begin(clients[2]);
        while origin.gauges().waiting == 0 {
            tokio::task::yield_now().await;
        }
        clock.advance(Duration::from_secs(1));
        drop(held);
        let late = late.await.unwrap();
        assert_eq!(origin.is_busy(), is_busy);
        drop((late, other));
    }
}

#[tokio::test]
async fn response_not_read_to_its_end_closes_the_connection() {
    let server = testkit::Origin::start(|_| response("200 OK", &[], b"hello"));
    let origin = origin_with(&server.url(), settings());
    let mut exchange = get(&origin, "/").await;
    assert!(matches!(exchange.next(&mut NoUpload).await, Ok(OriginEvent::Head { .. })));
    drop(exchange);
    assert_eq!((origin.gauges().active, origin.gauges().idle), (0, 0));
}

#[tokio::test]
async fn unexpected_second_response_closes_the_connection() {
    let server = testkit::Origin::start(|_| {
        let one = "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na";
        vec![Action::Send(format!("{one}{one}").into_bytes())]
    });
    let origin = origin_with(&server.url(), settings());
    let (events, error) = events(&mut get(&origin, "/").await, NoUpload).await;
    assert_eq!((content(&events).as_slice(), error), (&b"a"[..], None));
    assert_eq!(origin.gauges().idle, 0);
}

#[tokio::test]
async fn late_content_of_a_head_is_not_the_next_response() {
    let gate = Gate::default();
    let late = gate.clone();
    let server = testkit::Origin::start(move |seen| {
        if !seen.head.starts_with("HEAD") {
            return response("200 OK", &[], b"own");
        }
        let foreign = b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nforeign";
        let head = format!("HTTP/1.1 500 Error\r\nContent-Length: {}\r\n\r\n", foreign.len());
        vec![Action::Send(head.into_bytes()), Action::Await(late.clone()), Action::Send(foreign.to_vec())]
    });
    let origin = origin_with(&server.url(), settings());
    let head = request(&Method::Head, "/", BodyFraming::Empty);
    let (_, error) = events(&mut origin.fetch(head).await.unwrap(), NoUpload).await;
    assert_eq!((error, origin.gauges().idle), (None, 0));
    let mut next = get(&origin, "/").await;
    gate.open();
    let (events, error) = events(&mut next, NoUpload).await;
    assert_eq!((content(&events).as_slice(), error), (&b"own"[..], None));
}

/// Reads a request's head.
async fn read_head(stream: &mut UnixStream) -> Vec<u8> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    head
}

/// Tests that late content is not taken for the next response. It sends `response` on a connection,
/// then late content, and then another request. Returns the content that the second request
/// receives, and whether the connection was kept. Bytes sent to a Unix socket are readable at once.
async fn after_late_content(first: &FetchRequest, response: &str) -> (Vec<u8>, bool) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("origin");
    let listener = UnixListener::bind(&path).unwrap();
    let origin = origin_with(&format!("unix:{}", path.display()), settings());
    let mut first = origin.fetch(first.clone()).await.unwrap();
    let (mut connection, _) = listener.accept().await.unwrap();
    connection.write_all(response.as_bytes()).await.unwrap();
    let ((_, error), _) = tokio::join!(events(&mut first, NoUpload), read_head(&mut connection));
    assert_eq!(error, None, "{response}");
    let was_kept = origin.gauges().idle == 1;
    let late = b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nforeign";
    // The connection may be closed already.
    let _ = connection.write_all(late).await;
    let mut next = get(&origin, "/next").await;
    let honest = async {
        let (mut connection, _) = listener.accept().await.unwrap();
        read_head(&mut connection).await;
        connection.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nown").await.unwrap();
        connection
    };
    // If the late content is taken for the response, the origin gets no second connection.
    tokio::pin!(honest);
    let (found, error) = tokio::select! {
        found = events(&mut next, NoUpload) => found,
        _connection = &mut honest => events(&mut next, NoUpload).await,
    };
    assert_eq!(error, None, "{response}");
    (content(&found), was_kept)
}

#[tokio::test]
async fn late_content_of_empty_responses_is_not_the_next_response() {
    for head in ["304 Not Modified", "204 No Content", "200 OK\r\nContent-Length: 0"] {
        let mut conditional = request(&Method::Get, "/", BodyFraming::Empty);
        conditional.is_conditional = true;
        let answer = after_late_content(&conditional, &format!("HTTP/1.1 {head}\r\n\r\n")).await;
        assert_eq!(answer, (b"own".to_vec(), true), "{head}");
    }
}

#[tokio::test]
async fn empty_response_that_announces_content_is_not_reused() {
    for head in ["304 Not Modified\r\nContent-Length: 46", "304 Not Modified\r\nTransfer-Encoding: chunked"] {
        let mut conditional = request(&Method::Get, "/", BodyFraming::Empty);
        conditional.is_conditional = true;
        let answer = after_late_content(&conditional, &format!("HTTP/1.1 {head}\r\n\r\n")).await;
        assert_eq!(answer, (b"own".to_vec(), false), "{head}");
    }
}

/// An origin that answers `/`. At the first request for another target it closes the connection
/// without a response.
fn dies_once() -> testkit::Origin {
    let died = AtomicBool::new(false);
    testkit::Origin::start(move |seen| {
        if seen.target() != "/" && !died.swap(true, Ordering::SeqCst) {
            return vec![Action::Close];
        }
        response("200 OK", &[], b"hello")
    })
}

#[tokio::test]
async fn repeatable_request_survives_the_end_of_a_reused_connection() {
    let server = dies_once();
    let origin = origin_with(&server.url(), settings());
    events(&mut get(&origin, "/").await, NoUpload).await;
    let (events, error) = events(&mut get(&origin, "/again").await, NoUpload).await;
    assert_eq!((content(&events).as_slice(), error), (&b"hello"[..], None));
    assert_eq!(server.count("/again"), 2);
}

#[tokio::test]
async fn request_on_new_connection_or_with_content_is_not_repeated() {
    let server = dies_once();
    let origin = origin_with(&server.url(), settings());
    let (_, error) = events(&mut get(&origin, "/new").await, NoUpload).await;
    assert_eq!(error, Some(FetchError::Closed));
    assert_eq!(server.count("/new"), 1);

    let server = dies_once();
    let origin = origin_with(&server.url(), settings());
    events(&mut get(&origin, "/").await, NoUpload).await;
    let post = request(&Method::Post, "/form", BodyFraming::Length(3));
    let (_, error) = events(&mut origin.fetch(post).await.unwrap(), upload(&["a=b"])).await;
    assert_eq!(error, Some(FetchError::Closed));
    assert_eq!(server.count("/form"), 1);
}

#[tokio::test]
async fn truncation_is_an_error_for_every_delimited_framing() {
    let server = testkit::Origin::start(|seen| {
        let response = match seen.target() {
            "/length" => "Content-Length: 10\r\n\r\nhello",
            "/chunked" => "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
            _ => "Content-Length: 10\r\n",
        };
        vec![Action::Send(format!("HTTP/1.1 200 OK\r\n{response}").into_bytes()), Action::Close]
    });
    let origin = origin_with(&server.url(), settings());
    for (target, expected) in [
        ("/length", FetchError::BadBody(BodyError::Truncated { missing_bytes: Some(5) })),
        ("/chunked", FetchError::BadBody(BodyError::Truncated { missing_bytes: None })),
        ("/head", FetchError::Closed),
    ] {
        let (_, error) = events(&mut get(&origin, target).await, NoUpload).await;
        assert_eq!(error, Some(expected), "{target}");
    }
    assert_eq!(origin.gauges().idle, 0);
}

#[tokio::test]
async fn undelimited_body_ends_with_the_connection() {
    let server = testkit::Origin::start(|_| {
        vec![Action::Send(b"HTTP/1.1 200 OK\r\n\r\nhello".to_vec()), Action::Close]
    });
    let origin = origin_with(&server.url(), settings());
    let (events, error) = events(&mut get(&origin, "/").await, NoUpload).await;
    assert_eq!((content(&events).as_slice(), error), (&b"hello"[..], None));
    assert_eq!(origin.gauges().idle, 0);
}

#[tokio::test]
async fn informational_responses_and_trailers_come_through() {
    let server = testkit::Origin::start(|_| {
        vec![Action::Send(
            b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n\
              HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nX-Sum: 1\r\n\r\n"
                .to_vec(),
        )]
    });
    let origin = origin_with(&server.url(), settings());
    let (events, error) = events(&mut get(&origin, "/").await, NoUpload).await;
    assert_eq!(error, None);
    assert!(matches!(&events[0], OriginEvent::Informational(head) if head.status.code() == 103));
    assert!(matches!(&events[1], OriginEvent::Head { framing: BodyFraming::Chunked, .. }));
    assert!(
        matches!(events.last(), Some(OriginEvent::End(Some(trailer))) if trailer.first("x-sum").unwrap() == "1")
    );
    assert_eq!(origin.gauges().idle, 1);
}

#[tokio::test]
async fn content_is_sent_with_length_or_chunked() {
    let server = testkit::Origin::start(|seen| response("200 OK", &[], &seen.body));
    let origin = origin_with(&server.url(), settings());
    for (framing, expected) in
        [(BodyFraming::Length(4), "abcd"), (BodyFraming::Chunked, "2\r\nab\r\n2\r\ncd\r\n0\r\n\r\n")]
    {
        let post = request(&Method::Post, "/", framing);
        let (events, error) = events(&mut origin.fetch(post).await.unwrap(), upload(&["ab", "cd"])).await;
        assert_eq!((content(&events).as_slice(), error), (expected.as_bytes(), None));
    }
    assert_eq!(origin.gauges().idle, 2);
}

#[tokio::test]
async fn failed_upload_is_not_an_error_of_the_origin() {
    let server = testkit::Origin::start(|_| response("200 OK", &[], b""));
    let origin = origin_with(&server.url(), settings());
    let post = request(&Method::Post, "/", BodyFraming::Length(4));
    let short = Ready(vec![Frame::Data(Bytes::from_static(b"ab"))].into_iter());
    let (_, error) = events(&mut origin.fetch(post).await.unwrap(), short).await;
    assert_eq!(error, Some(FetchError::Upload(UploadError::Gone)));
}

#[tokio::test]
async fn expectation_holds_the_content_back() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let origin = origin_with(&format!("http://{}", listener.local_addr().unwrap()), settings());
    let server = async {
        for answer in ["HTTP/1.1 100 Continue\r\n\r\n", "HTTP/1.1 417 No\r\nContent-Length: 0\r\n\r\n"] {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut input = Vec::new();
            while !input.ends_with(b"\r\n\r\n") {
                input.push(stream.read_u8().await.unwrap());
            }
            stream.write_all(answer.as_bytes()).await.unwrap();
            if answer.starts_with("HTTP/1.1 100") {
                let mut content = [0; 4];
                stream.read_exact(&mut content).await.unwrap();
                assert_eq!(&content, b"abcd");
                stream.write_all(b"HTTP/1.1 204 Done\r\n\r\n").await.unwrap();
            } else {
                // Not one byte of content may come before the end.
                assert_eq!(stream.read(&mut [0]).await.unwrap(), 0);
            }
        }
    };
    let client = async {
        for expected in [204, 417] {
            let mut post = request(&Method::Post, "/", BodyFraming::Length(4));
            post.expect_continue = true;
            let (events, error) = events(&mut origin.fetch(post).await.unwrap(), upload(&["abcd"])).await;
            assert_eq!(error, None);
            let status = events.iter().find_map(|event| match event {
                OriginEvent::Head { head, .. } => Some(head.status.code()),
                _ => None,
            });
            assert_eq!(status, Some(expected));
            // The second request has unsent content, so its connection cannot be kept.
            assert_eq!(origin.gauges().idle, 1);
        }
    };
    tokio::join!(server, client);
}

#[tokio::test]
async fn waits_for_the_origin_are_limited() {
    let gate = Gate::default();
    let server = testkit::Origin::start({
        let gate = gate.clone();
        move |seen| match seen.target() {
            "/silent" => vec![Action::Await(gate.clone())],
            _ => vec![
                Action::Send(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello".to_vec()),
                Action::Await(gate.clone()),
            ],
        }
    });
    let short = Duration::from_millis(20);
    let quick_first = Settings { first_byte_timeout: short, ..settings() };
    let (_, error) =
        events(&mut get(&origin_with(&server.url(), quick_first), "/silent").await, NoUpload).await;
    assert_eq!(error, Some(FetchError::FirstByteTimeout));
    let quick_between = Settings { between_bytes_timeout: short, ..settings() };
    let (events, error) =
        events(&mut get(&origin_with(&server.url(), quick_between), "/stalls").await, NoUpload).await;
    assert_eq!((content(&events).as_slice(), error), (&b"hello"[..], Some(FetchError::BetweenBytesTimeout)));
    gate.open();
}

#[tokio::test]
async fn origin_that_does_not_listen_refuses() {
    let nobody = testkit::HeldPort::take();
    let origin = origin_with(&format!("http://{}", nobody.address()), settings());
    let error = origin.fetch(request(&Method::Get, "/", BodyFraming::Empty)).await.unwrap_err();
    assert_eq!(error, FetchError::Refused);
    let origin = origin_with("unix:/nonexistent/app.sock", settings());
    let error = origin.fetch(request(&Method::Get, "/", BodyFraming::Empty)).await.unwrap_err();
    assert_eq!(error, FetchError::Refused);
}

#[tokio::test]
async fn tunnel_returns_the_connection_and_early_bytes() {
    let server = testkit::Origin::start(|_| {
        vec![Action::Send(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\nearly".to_vec())]
    });
    let origin = origin_with(&server.url(), settings());
    let mut exchange = get(&origin, "/").await;
    assert!(
        matches!(exchange.next(&mut NoUpload).await, Ok(OriginEvent::Head { head, .. }) if head.status.code() == 101)
    );
    let (_stream, early) = exchange.into_tunnel().unwrap();
    assert_eq!(&early[..], b"early");
}

#[tokio::test]
async fn stalled_response_counts_again_when_it_is_read_on() {
    let server = testkit::Origin::start(|_| response("200 OK", &[], b"content"));
    let origin = origin_with(&server.url(), settings());
    let mut exchange = get(&origin, "/").await;
    let counts = || (origin.gauges().active, origin.gauges().stalled);
    assert!(matches!(exchange.next(&mut NoUpload).await, Ok(OriginEvent::Head { .. })));
    for _ in 0..2 {
        assert!(exchange.stall());
        assert_eq!(counts(), (0, 1));
        if let Ok(OriginEvent::Data(_)) = exchange.next(&mut NoUpload).await {
            assert_eq!(counts(), (1, 0), "it is worked on again");
        }
    }
    assert_eq!(counts(), (0, 0), "the end gives the turn back");
}
