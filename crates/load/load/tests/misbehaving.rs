//! Runs against servers that misbehave on purpose. Every request must be counted in exactly one
//! place, with exact numbers. Tests in which the order of responses matters have one user.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on panics")]

use address::HttpUrl;
use message::Method;
use petasos_load::{Control, LoadError};
use platform::SystemClock;
use record::{Arrival, Ended, FailureKind, Length, Plan, Protocol, Rate, RunOutcome, Stop};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use testkit::{Action, Gate, HeldPort, Origin, response};

/// A plan for `requests` requests by one user.
fn plan(origin: &Origin, requests: u64) -> Plan {
    let mut plan = Plan::new(HttpUrl::parse(&format!("{}/page", origin.url())).unwrap());
    plan.stop = Stop { requests: Some(requests), ..Stop::default() };
    plan
}

/// Runs the plan and checks the rules that hold for every outcome.
fn run(plan: &Plan) -> RunOutcome {
    let outcome = petasos_load::run(plan, &SystemClock::new(), &Control::new()).unwrap();
    assert_eq!(outcome.requests(), outcome.good + outcome.failures.total());
    let wrong = outcome.failures.of(FailureKind::Status) + outcome.failures.of(FailureKind::Length);
    assert_eq!(outcome.complete, outcome.good + wrong);
    assert_eq!(outcome.good_times.total.count(), outcome.good);
    assert_eq!(outcome.wrong_times.total.count(), wrong);
    assert_eq!(outcome.statuses.iter().map(|(_, count)| count).sum::<u64>(), outcome.complete);
    outcome
}

/// An origin that numbers its requests from 0.
fn numbered(script: impl Fn(usize) -> Vec<Action> + Send + Sync + 'static) -> Origin {
    let number = AtomicUsize::new(0);
    Origin::start(move |_| script(number.fetch_add(1, Ordering::SeqCst)))
}

fn send(octets: &str) -> Action {
    Action::Send(octets.as_bytes().to_vec())
}

/// All failures by kind, without kinds that did not occur.
fn failures(outcome: &RunOutcome) -> Vec<(FailureKind, u64)> {
    let counts = FailureKind::ALL.map(|kind| (kind, outcome.failures.of(kind)));
    counts.into_iter().filter(|&(_, count)| count > 0).collect()
}

#[test]
fn well_behaved_server_has_no_failures() {
    let origin = Origin::start(|_| response("200 OK", &["Server: Tester/1.0 (x)"], b"hello"));
    let mut plan = plan(&origin, 500);
    plan.users = 7;
    let outcome = run(&plan);
    assert_eq!((outcome.good, outcome.complete, outcome.requests(), outcome.unfinished), (500, 500, 500, 0));
    assert_eq!((outcome.connections, outcome.kept, outcome.resent), (7, 500, 0));
    assert_eq!((outcome.content_bytes, outcome.document_bytes), (2_500, Some(5)));
    let head_bytes = "HTTP/1.1 200 OK\r\nServer: Tester/1.0 (x)\r\nContent-Length: 5\r\n\r\n".len() as u64;
    assert_eq!(outcome.received_bytes, 500 * (head_bytes + 5));
    assert_eq!(outcome.sent_bytes, 500 * petasos_load::image(&plan).unwrap().len() as u64);
    assert_eq!((outcome.server_software().as_str(), outcome.ended), ("Tester/1.0", Ended::Requests));
    assert_eq!(origin.count("/page"), 500);
    assert!(!outcome.elapsed.is_zero() && outcome.cpu.len() == outcome.threads);
}

#[test]
fn without_keep_alive_each_request_has_its_own_connection() {
    for http in [Protocol::Http10, Protocol::Http11] {
        let origin = Origin::start(|seen| {
            let mut actions = response("200 OK", &["Connection: close"], b"hello");
            assert_eq!(seen.field("Connection"), seen.head.contains("HTTP/1.1").then_some("close"));
            actions.push(Action::Close);
            actions
        });
        let outcome = run(&Plan { keep_alive: false, http, users: 3, ..plan(&origin, 60) });
        assert_eq!((outcome.good, outcome.connections, outcome.kept), (60, 60, 0));
        assert_eq!(outcome.good_times.connect.count(), 60);
    }
}

#[test]
fn persistent_connection_is_not_reused_without_keep_alive() {
    let origin = Origin::start(|_| response("200 OK", &[], b"hello"));
    let outcome = run(&Plan { keep_alive: false, ..plan(&origin, 5) });
    assert_eq!((outcome.good, outcome.connections, outcome.kept), (5, 5, 0));
}

#[test]
fn http10_connection_persists_only_if_the_server_says_so() {
    let says = Origin::start(|seen| {
        assert_eq!(seen.field("Connection"), Some("Keep-Alive"));
        vec![send("HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\nx")]
    });
    let outcome = run(&Plan { http: Protocol::Http10, ..plan(&says, 20) });
    assert_eq!((outcome.good, outcome.connections, outcome.kept), (20, 1, 20));
    let silent =
        Origin::start(|_| vec![send("HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx"), Action::Close]);
    let outcome = run(&Plan { http: Protocol::Http10, ..plan(&silent, 20) });
    assert_eq!((outcome.good, outcome.connections, outcome.kept), (20, 20, 0));
}

#[test]
fn a_truncated_body_is_a_receive_failure() {
    let origin = numbered(|number| {
        if number % 5 == 4 {
            vec![send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel"), Action::Close]
        } else {
            response("200 OK", &[], b"hello")
        }
    });
    let outcome = run(&plan(&origin, 50));
    assert_eq!((outcome.good, failures(&outcome)), (40, vec![(FailureKind::Receive, 10)]));
    assert_eq!((outcome.connections, outcome.content_bytes), (10, 40 * 5 + 10 * 3));
}

#[test]
fn bytes_after_the_end_are_a_failure_also_in_a_later_read() {
    let origin = numbered(|_| {
        vec![
            send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello"),
            Action::Pause(Duration::from_millis(100)),
            send("helloworld"),
        ]
    });
    let outcome = run(&plan(&origin, 2));
    assert_eq!((outcome.good, failures(&outcome)), (0, vec![(FailureKind::Malformed, 2)]));
}

#[test]
fn a_reset_in_the_middle_is_a_receive_failure() {
    let origin = numbered(|_| vec![send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel"), Action::Reset]);
    let outcome = run(&plan(&origin, 5));
    assert_eq!((outcome.good, failures(&outcome)), (0, vec![(FailureKind::Receive, 5)]));
}

#[test]
fn first_broken_connection_can_end_the_run() {
    let origin = numbered(|number| {
        if number == 3 { vec![Action::Reset] } else { response("200 OK", &["Connection: close"], b"") }
    });
    let mut plan = plan(&origin, 50);
    plan.stop.at_first_receive_error = true;
    let outcome = run(&plan);
    assert_eq!((outcome.good, failures(&outcome)), (3, vec![(FailureKind::Receive, 1)]));
    assert_eq!(outcome.ended, Ended::ReceiveError);
}

#[test]
fn close_before_the_response_does_not_end_the_run() {
    let origin = numbered(|number| {
        if number % 4 == 3 { vec![Action::Close] } else { response("200 OK", &["Connection: close"], b"") }
    });
    let mut plan = plan(&origin, 12);
    plan.stop.at_first_receive_error = true;
    let outcome = run(&plan);
    assert_eq!((outcome.good, failures(&outcome)), (9, vec![(FailureKind::Receive, 3)]));
    assert_eq!(outcome.ended, Ended::Requests);
}

#[test]
fn chunked_responses_are_read_to_their_end() {
    let origin = Origin::start(|_| {
        vec![
            send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chu"),
            send("nked\r\n\r\n3\r\nabc\r\n4;x=y"),
            send("\r\ndefg\r\n0\r\nX-Sum: 1\r\n\r\n"),
        ]
    });
    let outcome = run(&plan(&origin, 40));
    assert_eq!((outcome.good, outcome.connections, outcome.content_bytes), (40, 1, 40 * 7));
}

#[test]
fn response_without_length_ends_with_the_connection() {
    let origin =
        Origin::start(|_| vec![send("HTTP/1.1 200 OK\r\n\r\n"), send("until the end"), Action::Close]);
    let outcome = run(&plan(&origin, 30));
    assert_eq!((outcome.good, outcome.connections, outcome.kept), (30, 30, 0));
    assert_eq!(outcome.document_bytes, Some(13));
}

#[test]
fn stalled_response_times_out_and_its_user_continues() {
    let gate = Gate::default();
    let held = gate.clone();
    let origin = numbered(move |number| {
        if number % 3 == 0 {
            vec![send("HTTP/1.1 200 OK\r\nContent-Le"), Action::Await(held.clone())]
        } else {
            response("200 OK", &[], b"hello")
        }
    });
    let timeout = Duration::from_secs(1);
    let outcome = run(&Plan { timeout, ..plan(&origin, 9) });
    gate.open();
    assert_eq!((outcome.good, failures(&outcome)), (6, vec![(FailureKind::Timeout, 3)]));
    assert!(outcome.elapsed >= timeout * 3);
}

#[test]
fn error_pages_are_failures_with_separate_times() {
    let origin = numbered(|number| match number % 4 {
        3 => response("500 Internal Server Error", &[], b"hello"),
        _ => response("200 OK", &[], b"hello"),
    });
    let outcome = run(&plan(&origin, 40));
    assert_eq!((outcome.good, failures(&outcome)), (30, vec![(FailureKind::Status, 10)]));
    assert_eq!((outcome.statuses.class(2), outcome.statuses.class(5)), (30, 10));
    assert_eq!(outcome.complete_times().total.count(), 40);
    let expected = Plan {
        expect: record::Expect { status: "200,5xx".parse().unwrap(), ..Default::default() },
        ..plan(&origin, 8)
    };
    assert_eq!(run(&expected).good, 8);
}

#[test]
fn varying_lengths_fail_unless_allowed() {
    let origin = numbered(|number| response("200 OK", &[], &b"hello!"[..5 + number % 2]));
    let constant = run(&plan(&origin, 20));
    assert_eq!((constant.good, failures(&constant)), (10, vec![(FailureKind::Length, 10)]));
    assert_eq!((constant.length_differs, constant.document_bytes), (10, Some(5)));
    let mut variable = plan(&origin, 20);
    variable.expect.length = Length::Variable;
    let variable = run(&variable);
    assert_eq!((variable.good, variable.length_differs), (20, 10));
}

#[test]
fn unannounced_close_of_an_idle_connection_fails_no_request() {
    let origin = numbered(|number| {
        let mut actions = response("200 OK", &[], b"hello");
        if number % 10 == 9 {
            actions.push(Action::Close);
        }
        actions
    });
    let outcome = run(&plan(&origin, 100));
    assert_eq!((outcome.good, failures(&outcome), outcome.connections), (100, vec![], 10));
}

#[test]
fn resent_request_uses_an_idle_connection() {
    // The first two requests are answered together, so they have two connections. The third is
    // received and not answered.
    let gate = Gate::default();
    let origin = numbered(move |number| match number {
        0 => [vec![Action::Await(gate.clone())], response("200 OK", &[], b"hello")].concat(),
        1 => {
            gate.open();
            response("200 OK", &[], b"hello")
        }
        2 => vec![Action::Close],
        _ => response("200 OK", &[], b"hello"),
    });
    let arrival = Arrival::Open { rate: Rate::Constant(4.0), in_flight_max: 10 };
    let outcome = run(&Plan { arrival, threads: 1, ..plan(&origin, 3) });
    assert_eq!((outcome.good, outcome.resent, outcome.connections), (3, 1, 2));
}

#[test]
fn a_post_is_not_sent_twice() {
    let origin = numbered(|number| match number % 2 {
        0 => response("200 OK", &[], b"hello"),
        _ => vec![Action::Close],
    });
    let outcome = run(&Plan { method: Method::Post, ..plan(&origin, 10) });
    assert_eq!((outcome.good, outcome.failures.of(FailureKind::Receive)), (5, 5));
    assert_eq!((origin.count("/page"), outcome.resent), (10, 0));
}

#[test]
fn bytes_after_the_response_are_malformed() {
    let twice = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    let origin = Origin::start(move |_| vec![send(&format!("{twice}{twice}"))]);
    let outcome = run(&plan(&origin, 10));
    assert_eq!((outcome.good, failures(&outcome)), (0, vec![(FailureKind::Malformed, 10)]));
    assert_eq!(outcome.connections, 10);
}

#[test]
fn response_that_is_not_http_is_malformed() {
    let origin = Origin::start(|_| vec![send("SSH-2.0-something\r\n")]);
    assert_eq!(failures(&run(&plan(&origin, 4))), [(FailureKind::Malformed, 4)]);
}

#[test]
fn a_refused_connection_is_an_error_with_the_reason() {
    let nobody = HeldPort::take();
    let mut plan = Plan::new(HttpUrl::parse(&format!("http://{}/", nobody.address())).unwrap());
    plan.stop.requests = Some(1_000);
    let error = petasos_load::run(&plan, &SystemClock::new(), &Control::new()).unwrap_err();
    let LoadError::Unreachable { reason, .. } = &error else { panic!("{error}") };
    assert!(reason.contains("refused"), "{error}");
}

#[test]
fn a_name_without_address_is_an_error_with_the_name() {
    let mut plan = Plan::new(HttpUrl::parse("http://nowhere.invalid/").unwrap());
    plan.stop.requests = Some(1);
    let error = petasos_load::run(&plan, &SystemClock::new(), &Control::new()).unwrap_err();
    assert!(matches!(&error, LoadError::Resolve { host, .. } if host == "nowhere.invalid"), "{error}");
}

#[test]
fn target_that_dies_leaves_the_earlier_measurements() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = std::thread::spawn(move || {
        use std::io::{Read as _, Write as _};
        let (mut stream, _) = listener.accept().unwrap();
        for _ in 0..10 {
            let bytes = stream.read(&mut [0; 4096]).unwrap();
            assert!(bytes > 0);
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").unwrap();
        }
    });
    let mut plan = Plan::new(HttpUrl::parse(&format!("http://{address}/")).unwrap());
    plan.stop.requests = Some(1_000_000);
    let outcome = run(&plan);
    server.join().unwrap();
    assert_eq!((outcome.good, outcome.ended), (10, Ended::TargetGone));
    assert!(outcome.failures.of(FailureKind::Connect) > 0);
    assert_eq!(outcome.failures.total(), outcome.failures.of(FailureKind::Connect));
}

#[test]
fn stopped_run_keeps_its_measurements() {
    let flag = Arc::new(AtomicBool::new(false));
    let control = Control::stopped_by(Arc::clone(&flag));
    let origin = numbered(move |number| {
        if number == 20 {
            flag.store(true, Ordering::SeqCst);
            return vec![Action::Await(Gate::default())];
        }
        response("200 OK", &[], b"hello")
    });
    let outcome = petasos_load::run(&plan(&origin, 1_000_000), &SystemClock::new(), &control).unwrap();
    assert_eq!((outcome.good, outcome.unfinished, outcome.ended), (20, 1, Ended::Stopped));
    assert_eq!(control.progress(&SystemClock::new()).done, 20);
}

#[test]
fn requests_in_flight_at_the_end_of_the_time_are_unfinished() {
    let gate = Gate::default();
    let held = gate.clone();
    let origin = Origin::start(move |_| vec![Action::Await(held.clone())]);
    let time = Duration::from_millis(150);
    let mut plan = plan(&origin, 1);
    plan.stop = Stop { time: Some(time), ..Stop::default() };
    let outcome = run(&Plan { users: 4, ..plan });
    gate.open();
    assert_eq!((outcome.requests(), outcome.unfinished, outcome.ended), (0, 4, Ended::Time));
    assert_eq!(outcome.elapsed, time);
}

#[test]
fn endless_response_does_not_hold_up_the_end_of_the_time() {
    use std::io::{Read as _, Write as _};
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            assert!(stream.read(&mut [0; 4096]).unwrap() > 0);
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000000000\r\n\r\n").unwrap();
            // Two writers keep the socket full while one thread reads it.
            for mut stream in [stream.try_clone().unwrap(), stream] {
                std::thread::spawn(move || while stream.write_all(&[0; 1 << 20]).is_ok() {});
            }
        }
    });
    for pipeline in [1, 2] {
        let mut plan = Plan::new(HttpUrl::parse(&format!("http://{address}/")).unwrap());
        plan.stop.time = Some(Duration::from_millis(500));
        let outcome = run(&Plan { pipeline, threads: 1, ..plan });
        assert_eq!((outcome.requests(), outcome.unfinished), (0, pipeline as u64));
        assert_eq!(outcome.ended, Ended::Time);
    }
}

#[test]
fn warm_up_requests_are_sent_and_not_counted() {
    let origin = Origin::start(|_| response("200 OK", &[], b"hello"));
    let outcome = run(&Plan { warmup: Duration::from_millis(100), ..plan(&origin, 10) });
    assert_eq!((outcome.requests(), outcome.kept), (10, 10));
    assert!(origin.count("/page") > 10, "the warm-up sent nothing");
}

#[test]
fn cache_verdicts_split_the_responses() {
    let origin = numbered(|number| {
        let status = match number % 4 {
            0 => "Cache-Status: petasos; fwd=miss",
            1 => "Age: 5",
            _ => "Cache-Status: petasos; hit",
        };
        response("200 OK", &[status], b"hello")
    });
    let outcome = run(&plan(&origin, 40));
    let counts: Vec<_> = outcome.verdicts.iter().map(|of| (of.verdict.name(), of.total.count())).collect();
    assert_eq!(counts, [("hit", 20), ("hit (by Age)", 10), ("miss", 10)]);
}

#[test]
fn a_large_request_is_sent_whole() {
    let origin = Origin::start(|seen| response("200 OK", &[], seen.body.len().to_string().as_bytes()));
    let content = vec![b'x'; 3_000_000];
    let body = record::RequestBody { content: content.into(), content_type: "text/plain".into() };
    let outcome = run(&Plan { method: Method::Post, body: Some(body), ..plan(&origin, 5) });
    assert_eq!((outcome.good, outcome.document_bytes), (5, Some(7)));
    assert!(outcome.sent_bytes > 15_000_000);
    assert!(origin.seen().iter().all(|seen| seen.body.len() == 3_000_000));
}

#[test]
fn samples_are_kept_up_to_their_limit() {
    let origin = Origin::start(|_| response("200 OK", &[], b"hello"));
    for (samples_max, kept) in [(10, 10), (40, 40), (100, 40)] {
        let outcome = run(&Plan { samples_max, users: 4, ..plan(&origin, 40) });
        assert_eq!(outcome.samples.len(), kept);
        assert!(outcome.samples.is_sorted_by_key(|sample| sample.start_us));
        assert!(outcome.samples.iter().all(|sample| sample.failure.is_none() && sample.status == 200));
    }
}
