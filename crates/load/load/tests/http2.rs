//! Runs over HTTP/2, against servers that behave and servers that drop connections and streams.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on panics")]

use address::HttpUrl;
use bytes::Bytes;
use h2::{Reason, server};
use http::Response;
use petasos_load::{Control, LoadError};
use platform::SystemClock;
use record::{
    Arrival, Ended, FailureKind, Plan, Protocol, Rate, RequestBody, RunOutcome, Stage, StageLoad, Stop,
    Think, Trust,
};
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;
use testkit::{HeldPort, Origin, response};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

/// How a server treats its requests.
#[derive(Clone, Copy)]
enum Manner {
    /// Answers each with 100,000 bytes, or a POST with the number of bytes received.
    Well,
    /// Like `Well`, but shuts a connection down gracefully after this number of requests.
    Leaves(usize),
    /// Resets every third stream.
    Resets,
    /// Refuses every third stream, so that the request may be sent again.
    Refuses,
    /// Refuses all streams.
    RefusesAll,
    /// Never answers.
    Stalls,
    /// Answers once this number of requests have arrived.
    Holds(usize),
    /// From 0.4 s after the first request on, does not answer for one second.
    Stands,
}

/// The requests and connections that a server has received.
struct Arrived {
    count: watch::Sender<usize>,
    first: OnceLock<Instant>,
    /// Addresses of the clients; then the most connections open at a time, and those open now.
    peers: Mutex<BTreeSet<IpAddr>>,
    open_max: AtomicUsize,
    open: AtomicUsize,
}

/// Starts an HTTP/2 server without TLS on a free port, in a thread that lives as long as the test.
fn serve(manner: Manner) -> SocketAddr {
    watched(manner).0
}

/// Like [`serve`], but also returns the server's record.
fn watched(manner: Manner) -> (SocketAddr, Arc<Arrived>) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    let arrived = Arc::new(Arrived {
        count: watch::channel(0).0,
        first: OnceLock::new(),
        peers: Mutex::default(),
        open_max: AtomicUsize::new(0),
        open: AtomicUsize::new(0),
    });
    let seen = Arc::clone(&arrived);
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = TcpListener::from_std(listener).unwrap();
            while let Ok((stream, peer)) = listener.accept().await {
                let arrived = Arc::clone(&arrived);
                arrived.peers.lock().unwrap().insert(peer.ip());
                let open = arrived.open.fetch_add(1, Ordering::SeqCst) + 1;
                arrived.open_max.fetch_max(open, Ordering::SeqCst);
                tokio::spawn(async move {
                    let mut connection = server::handshake(stream).await.unwrap();
                    let mut number = 0;
                    while let Some(Ok((request, respond))) = connection.accept().await {
                        number += 1;
                        if matches!(manner, Manner::Leaves(last) if last == number) {
                            connection.graceful_shutdown();
                        }
                        tokio::spawn(answer(manner, Arc::clone(&arrived), number, request, respond));
                    }
                    arrived.open.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
    });
    (address, seen)
}

async fn answer(
    manner: Manner,
    arrived: Arc<Arrived>,
    number: usize,
    request: http::Request<h2::RecvStream>,
    mut respond: server::SendResponse<Bytes>,
) {
    match manner {
        Manner::Stalls => std::future::pending().await,
        Manner::Resets if number.is_multiple_of(3) => return respond.send_reset(Reason::INTERNAL_ERROR),
        Manner::Refuses if number.is_multiple_of(3) => return respond.send_reset(Reason::REFUSED_STREAM),
        Manner::RefusesAll => return respond.send_reset(Reason::REFUSED_STREAM),
        Manner::Holds(all) => {
            arrived.count.send_modify(|count| *count += 1);
            arrived.count.subscribe().wait_for(|&count| count >= all).await.unwrap();
        }
        Manner::Stands => {
            let first = *arrived.first.get_or_init(Instant::now);
            if first.elapsed() >= Duration::from_millis(400) {
                sleep_until(first + Duration::from_millis(1_400)).await;
            }
        }
        _ => {}
    }
    let is_post = request.method() == http::Method::POST;
    let mut body = request.into_body();
    let mut received = 0;
    while let Some(Ok(piece)) = body.data().await {
        received += piece.len();
        body.flow_control().release_capacity(piece.len()).unwrap();
    }
    let content = if is_post { received.to_string().into_bytes() } else { vec![b'x'; 100_000] };
    let head = Response::builder().header("server", "tester/2").header("x-cache", "HIT");
    let mut stream = respond.send_response(head.body(()).unwrap(), false).unwrap();
    stream.send_data(content.into(), true).unwrap();
}

/// A plan for `requests` requests by one user.
fn plan(address: SocketAddr, requests: u64) -> Plan {
    let mut plan = Plan::new(HttpUrl::parse(&format!("http://{address}/page?x")).unwrap());
    plan.stop = Stop { requests: Some(requests), ..Stop::default() };
    plan.http = Protocol::H2;
    plan
}

fn run(plan: &Plan) -> Result<RunOutcome, LoadError> {
    let outcome = petasos_load::run(plan, &SystemClock::new(), &Control::new())?;
    assert_eq!(outcome.requests(), outcome.good + outcome.failures.total());
    Ok(outcome)
}

#[test]
fn many_requests_share_a_connection() {
    let address = serve(Manner::Well);
    let outcome = run(&Plan { users: 2, pipeline: 10, ..plan(address, 100) }).unwrap();
    assert_eq!((outcome.good, outcome.requests(), outcome.unfinished), (100, 100, 0));
    assert_eq!((outcome.connections, outcome.kept, outcome.resent), (2, 100, 0));
    assert_eq!((outcome.content_bytes, outcome.document_bytes), (10_000_000, Some(100_000)));
    assert_eq!(outcome.server_software(), "tester/2");
    assert_eq!(outcome.verdicts.len(), 1);
    assert!(outcome.received_bytes > 10_000_000 && outcome.received_bytes < 10_100_000);
    // Heads are compressed, so they are much smaller than a request line with its fields.
    assert!(outcome.sent_bytes > 0 && outcome.sent_bytes < 100 * 100, "{}", outcome.sent_bytes);
}

#[test]
fn without_keep_alive_each_request_has_its_own_connection() {
    let outcome = run(&Plan { keep_alive: false, users: 2, ..plan(serve(Manner::Well), 20) }).unwrap();
    assert_eq!((outcome.good, outcome.connections, outcome.kept), (20, 20, 0));
}

#[test]
fn connections_linger_and_use_the_given_local_addresses() {
    let (address, seen) = watched(Manner::Well);
    let source = Some("127.0.0.0/8".parse().unwrap());
    let lingering = Plan { keep_alive: false, linger: Duration::from_secs(60), source, ..plan(address, 5) };
    let outcome = run(&Plan { threads: 1, ..lingering }).unwrap();
    assert_eq!((outcome.good, outcome.connections), (5, 5));
    assert_eq!((seen.open_max.load(Ordering::SeqCst), seen.peers.lock().unwrap().len()), (5, 5));
}

#[test]
fn content_is_sent_whole() {
    let content = Bytes::from(vec![b'y'; 3_000_000]);
    let body = Some(RequestBody { content, content_type: "text/plain".to_owned() });
    let outcome = run(&Plan { method: message::Method::Post, body, ..plan(serve(Manner::Well), 3) }).unwrap();
    assert_eq!((outcome.good, outcome.document_bytes), (3, Some(7)));
    assert!(outcome.sent_bytes > 9_000_000);
}

#[test]
fn graceful_shutdown_moves_requests_to_a_new_connection() {
    let outcome = run(&Plan { pipeline: 4, ..plan(serve(Manner::Leaves(10)), 60) }).unwrap();
    assert_eq!((outcome.good, outcome.requests()), (60, 60));
    assert!(outcome.connections > 1 && outcome.connections <= 7, "{}", outcome.connections);
}

#[test]
fn stream_reset_fails_only_its_own_request() {
    let outcome = run(&plan(serve(Manner::Resets), 30)).unwrap();
    assert_eq!((outcome.good, outcome.failures.of(FailureKind::Receive), outcome.connections), (20, 10, 1));
}

#[test]
fn refused_streams_are_retried_a_few_times() {
    let outcome = run(&Plan { pipeline: 2, ..plan(serve(Manner::Refuses), 30) }).unwrap();
    assert_eq!((outcome.good, outcome.requests(), outcome.connections), (30, 30, 1));
    assert!(outcome.resent >= 14, "{}", outcome.resent);
    let outcome = run(&plan(serve(Manner::RefusesAll), 5)).unwrap();
    assert_eq!((outcome.failures.of(FailureKind::Receive), outcome.resent), (5, 15));
}

#[test]
fn mostly_failing_run_ends_early() {
    let mut plan = Plan { pipeline: 4, ..plan(serve(Manner::RefusesAll), u64::MAX) };
    plan.stop.when_failing = true;
    assert_eq!(run(&plan).unwrap().ended, Ended::Failing);
}

#[test]
fn thinking_user_keeps_its_place_on_the_connection() {
    // The second user begins while the first one thinks.
    let think = Think::Constant(Duration::from_millis(400));
    let ramp = Duration::from_millis(400);
    let outcome = run(&Plan { users: 2, threads: 1, think, ramp, ..plan(serve(Manner::Well), 6) }).unwrap();
    assert_eq!((outcome.good, outcome.connections), (6, 2));
}

#[test]
fn missing_responses_time_out() {
    let timeout = Duration::from_millis(50);
    let outcome = run(&Plan { timeout, users: 3, ..plan(serve(Manner::Stalls), 6) }).unwrap();
    assert_eq!((outcome.good, outcome.failures.of(FailureKind::Timeout), outcome.connections), (0, 6, 3));
}

#[test]
fn requests_in_flight_at_the_end_of_the_time_are_unfinished() {
    let mut plan = Plan { users: 3, pipeline: 2, ..plan(serve(Manner::Stalls), 1) };
    plan.stop = Stop { time: Some(Duration::from_millis(100)), ..Stop::default() };
    let outcome = run(&plan).unwrap();
    assert_eq!((outcome.requests(), outcome.unfinished), (0, 6));
}

#[test]
fn server_without_http2_is_an_error_with_the_reason() {
    let origin = Origin::start(|_| response("400 Bad Request", &[], b"what?"));
    let address = origin.url().trim_start_matches("http://").parse().unwrap();
    let error = run(&plan(address, 3)).unwrap_err().to_string();
    assert!(error.contains("does not speak HTTP/2: it responded in HTTP/1"), "{error}");
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap();
    std::thread::spawn(move || silent.incoming().for_each(drop));
    let error = run(&plan(address, 3)).unwrap_err().to_string();
    assert!(error.contains("does not speak HTTP/2"), "{error}");
    let closed = HeldPort::take();
    assert!(matches!(run(&plan(closed.address(), 30)), Err(LoadError::Unreachable { .. })));
}

#[test]
fn schedule_does_not_wait_for_a_stalled_server() {
    // The first response comes when all fifty requests have arrived, 98 ms after the first.
    for (pipeline, connections) in [(1, 50), (10, 5)] {
        let arrival = Arrival::Open { rate: Rate::Constant(500.0), in_flight_max: 100 };
        let plan = Plan { arrival, pipeline, threads: 1, ..plan(serve(Manner::Holds(50)), 50) };
        let outcome = run(&plan).unwrap();
        assert_eq!((outcome.good, outcome.connections, outcome.ended), (50, connections, Ended::Requests));
        let latency = outcome.good_times.latency();
        assert!(latency.max_us() >= 98_000 && latency.median_us() >= 48_000, "{latency:?}");
    }
}

#[test]
fn stall_shows_in_the_latency_of_all_requests_due_meanwhile() {
    for (pipeline, threads) in [(1, 1), (20, 1), (400, 2)] {
        let arrival = Arrival::Open { rate: Rate::Constant(200.0), in_flight_max: 1_000 };
        let outcome = run(&Plan { arrival, pipeline, threads, ..plan(serve(Manner::Stands), 400) }).unwrap();
        assert_eq!((outcome.good, outcome.not_started), (400, 0));
        // Half of the requests of two seconds arrive during the stall and wait for the rest of it.
        let latency = outcome.good_times.latency();
        assert!(latency.max_us() >= 900_000, "max {} us", latency.max_us());
        for (percent, at_least_us) in [(70.0, 250_000), (80.0, 450_000), (95.0, 750_000)] {
            let found = latency.percentile_us(percent);
            assert!(found >= at_least_us, "p{percent} is {found} us with {pipeline} on a connection");
        }
        assert!(pipeline < 400 || outcome.connections == 2, "{}", outcome.connections);
    }
}

#[test]
fn requests_beyond_in_flight_max_are_counted_not_delayed() {
    let arrival = Arrival::Open { rate: Rate::Constant(500.0), in_flight_max: 10 };
    let mut plan = Plan { arrival, pipeline: 5, threads: 1, ..plan(serve(Manner::Stalls), 1) };
    plan.stop = Stop { time: Some(Duration::from_millis(200)), ..Stop::default() };
    plan.timeout = Duration::from_secs(3);
    let outcome = run(&plan).unwrap();
    assert_eq!((outcome.not_started, outcome.failures.of(FailureKind::Timeout)), (90, 10));
    assert_eq!((outcome.connections, outcome.check.trust), (2, Trust::Invalid));
}

#[test]
fn queued_requests_time_out_from_when_they_were_due() {
    // One stream at a time. Further requests wait for it, and their wait counts as latency.
    let arrival = Arrival::Open { rate: Rate::Constant(200.0), in_flight_max: 100 };
    let mut plan = Plan { arrival, threads: 1, ..plan(serve(Manner::Stalls), 10) };
    plan.connections_per_host_max = Some(1);
    plan.timeout = Duration::from_millis(150);
    let outcome = run(&plan).unwrap();
    assert_eq!((outcome.requests(), outcome.failures.of(FailureKind::Timeout)), (10, 10));
    assert_eq!(outcome.connections, 1);
}

#[test]
fn stage_users_share_connections_and_keep_them_while_thinking() {
    let stage = |load, millis| Stage { load, time: Duration::from_millis(millis) };
    let mut plan = plan(serve(Manner::Well), 1);
    plan.stop = Stop::default();
    plan.stages = vec![stage(StageLoad::Users(2), 400), stage(StageLoad::Rate(100.0), 200)];
    plan.cooldown = Duration::from_millis(50);
    let mixed = run(&Plan { pipeline: 4, threads: 1, ..plan.clone() }).unwrap();
    assert_eq!(mixed.stages.iter().map(|stage| stage.good).sum::<u64>(), mixed.good);
    assert_eq!(mixed.stages.get(1).map(|stage| stage.good), Some(20));
    // Two connections for the two users, and at worst five for twenty requests at once, if a busy
    // machine delays them all.
    assert!(
        mixed.failures.total() == 0 && mixed.connections <= 2 + 20 / 4,
        "{} {:?}",
        mixed.connections,
        mixed.failures
    );
    // The number in flight and the time of each request are two records of the same load. They
    // differ if a thread loses its core between two clock readings, so the best of several runs
    // counts.
    let again = || run(&Plan { pipeline: 4, threads: 1, ..plan.clone() }).unwrap();
    let residual = |outcome: RunOutcome| outcome.check.little_residual.unwrap_or_default().abs();
    let mut residuals = std::iter::once(mixed).chain(std::iter::repeat_with(again).take(9)).map(residual);
    assert!(residuals.any(|residual| residual < 0.01));
    let think = Think::Constant(Duration::from_millis(20));
    plan.stages = vec![stage(StageLoad::Users(3), 200)];
    let thinking = run(&Plan { think, threads: 1, ..plan }).unwrap();
    assert_eq!(thinking.connections, 3);
    assert!(thinking.good <= 3 * 10, "{}", thinking.good);
}
