//! Runs with HTTP/1.1 pipelining: several requests in flight on each connection.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on panics")]

use address::HttpUrl;
use petasos_load::Control;
use platform::SystemClock;
use record::{Arrival, FailureKind, Plan, PlanError, Protocol, Rate, RunOutcome, Stop, WeightedTarget};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// The requests that a server has received.
#[derive(Default)]
struct Seen {
    /// The most requests received at once, before a response.
    ahead: AtomicUsize,
    all: AtomicUsize,
}

/// A server that answers `answers` requests on each connection and then closes it. It writes
/// responses in pieces of 7 bytes. The content of a response is its number on the connection.
/// Returns the address and the server's record.
fn serve(answers: usize) -> (SocketAddr, Arc<Seen>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, seeing) = (listener.local_addr().unwrap(), Arc::<Seen>::default());
    let seen = Arc::clone(&seeing);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let seen = Arc::clone(&seen);
            std::thread::spawn(move || answer(stream.unwrap(), answers, &seen));
        }
    });
    (address, seeing)
}

fn answer(mut stream: TcpStream, answers: usize, seen: &Seen) {
    let (mut octets, mut buffer, mut number) = (Vec::new(), [0; 65_536], 0);
    while let Ok(bytes @ 1..) = stream.read(&mut buffer) {
        octets.extend_from_slice(buffer.get(..bytes).unwrap());
        let heads = octets.windows(4).filter(|window| window == b"\r\n\r\n").count();
        seen.ahead.fetch_max(heads, Ordering::SeqCst);
        seen.all.fetch_add(heads, Ordering::SeqCst);
        let mut out = Vec::new();
        for _ in 0..heads {
            number += 1;
            out.extend_from_slice(
                format!("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n{number:05}").as_bytes(),
            );
            if number == answers {
                break;
            }
        }
        octets.clear();
        for piece in out.chunks(7) {
            if stream.write_all(piece).is_err() {
                return;
            }
        }
        if number == answers {
            let _ = stream.shutdown(std::net::Shutdown::Write);
            let _ = stream.read_to_end(&mut Vec::new());
            return;
        }
    }
}

fn plan(address: SocketAddr, requests: u64) -> Plan {
    let mut plan = Plan::new(HttpUrl::parse(&format!("http://{address}/")).unwrap());
    plan.stop = Stop { requests: Some(requests), ..Stop::default() };
    Plan { pipeline: 8, threads: 1, ..plan }
}

fn run(plan: &Plan) -> RunOutcome {
    let outcome = petasos_load::run(plan, &SystemClock::new(), &Control::new()).unwrap();
    assert_eq!(outcome.requests(), outcome.good + outcome.failures.total());
    outcome
}

#[test]
fn pipelined_requests_are_all_counted() {
    let (address, seen) = serve(usize::MAX);
    let plan = Plan { users: 3, ..plan(address, 400) };
    let outcome = run(&plan);
    assert_eq!((outcome.good, outcome.requests(), outcome.unfinished), (400, 400, 0));
    assert_eq!((outcome.connections, outcome.kept, outcome.resent), (3, 400, 0));
    assert_eq!(outcome.content_bytes, 400 * 5);
    assert_eq!(outcome.received_bytes, 400 * (outcome.first_head.len() as u64 + 5));
    assert_eq!(outcome.sent_bytes, 400 * petasos_load::image(&plan).unwrap().len() as u64);
    let ahead = seen.ahead.load(Ordering::SeqCst);
    assert!((2..=8).contains(&ahead), "{ahead}");
}

#[test]
fn requests_that_a_closing_server_left_are_sent_again() {
    let (address, _) = serve(20);
    let outcome = run(&plan(address, 100));
    assert_eq!((outcome.good, outcome.requests()), (100, 100));
    assert!(outcome.connections >= 5 && outcome.resent > 0, "{} {}", outcome.connections, outcome.resent);
    // With a limit of one connection at a time, the repeated requests have to wait for it.
    let outcome = run(&Plan { connections_per_host_max: Some(1), users: 2, ..plan(address, 100) });
    assert_eq!((outcome.good, outcome.requests()), (100, 100));
}

#[test]
fn a_post_is_not_sent_twice() {
    let (address, _) = serve(20);
    let outcome = run(&Plan { method: message::Method::Post, ..plan(address, 100) });
    assert_eq!((outcome.requests(), outcome.resent), (100, 0));
    assert_eq!(outcome.failures.of(FailureKind::Receive), 100 - outcome.good);
    assert!(outcome.good < 100);
}

#[test]
fn stalled_pipeline_fails_all_its_requests() {
    let (address, _) = serve(usize::MAX);
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let timeout = Duration::from_millis(50);
    let outcome = run(&Plan { timeout, ..plan(silent.local_addr().unwrap(), 8) });
    assert_eq!(outcome.failures.of(FailureKind::Timeout) + outcome.failures.of(FailureKind::Receive), 8);
    assert_eq!(run(&plan(address, 8)).good, 8);
}

/// A server that sends no response until it has received `all` requests, over all connections.
fn hold(all: usize) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let arrived = Arc::new((Mutex::new(0), Condvar::new()));
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, arrived) = (stream.unwrap(), Arc::clone(&arrived));
            let mut reading = stream.try_clone().unwrap();
            let (send, requests) = std::sync::mpsc::channel();
            let counted = Arc::clone(&arrived);
            std::thread::spawn(move || {
                let mut buffer = [0; 65_536];
                while let Ok(bytes @ 1..) = reading.read(&mut buffer) {
                    // Requests are small and arrive whole.
                    let heads = buffer.get(..bytes).unwrap().windows(4).filter(|four| four == b"\r\n\r\n");
                    let heads = heads.count();
                    *counted.0.lock().unwrap() += heads;
                    counted.1.notify_all();
                    (0..heads).for_each(|_| send.send(()).unwrap());
                }
            });
            std::thread::spawn(move || {
                for () in requests {
                    let count = arrived.0.lock().unwrap();
                    drop(arrived.1.wait_while(count, |count| *count < all).unwrap());
                    stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").unwrap();
                }
            });
        }
    });
    address
}

#[test]
fn schedule_does_not_wait_for_a_stalled_server() {
    let arrival = Arrival::Open { rate: Rate::Constant(500.0), in_flight_max: 100 };
    let outcome = run(&Plan { arrival, pipeline: 10, ..plan(hold(50), 50) });
    assert_eq!((outcome.good, outcome.connections), (50, 5));
    let latency = outcome.good_times.latency();
    assert!(latency.max_us() >= 98_000 && latency.median_us() >= 48_000, "{latency:?}");
}

#[test]
fn urls_of_several_hosts_use_separate_connections() {
    let ((one, of_one), (other, of_other)) = (serve(usize::MAX), serve(usize::MAX));
    let target = |address: SocketAddr| HttpUrl::parse(&format!("http://{address}/x")).unwrap();
    let targets =
        [(one, 1), (other, 3)].map(|(address, weight)| WeightedTarget::new(target(address), weight));
    let outcome = run(&Plan { targets: targets.to_vec(), users: 2, ..plan(one, 400) });
    assert_eq!((outcome.good, outcome.requests()), (400, 400));
    let counts: Vec<u64> = outcome.urls.iter().map(|url| url.good).collect();
    assert!(counts.first() < counts.get(1) && !counts.contains(&0), "{counts:?}");
    let seen = [of_one, of_other].map(|seen| seen.all.load(Ordering::SeqCst) as u64);
    assert_eq!(counts, seen, "a request went to the wrong host");
    // Sixteen requests in flight, at most eight on each connection.
    assert!(outcome.connections <= 4, "{}", outcome.connections);
}

#[test]
fn plans_that_cannot_be_pipelined_are_refused() {
    let plan = plan("127.0.0.1:1".parse().unwrap(), 1);
    assert_eq!(plan.check(), Ok(()));
    let contradicts = |plan: Plan| matches!(plan.check(), Err(PlanError::Contradiction(_)));
    assert!(contradicts(Plan { keep_alive: false, ..plan.clone() }));
    assert!(contradicts(Plan { http: Protocol::Http10, ..plan }));
}
