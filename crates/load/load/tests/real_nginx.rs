//! Runs against Debian's nginx: TLS, resumption, HTTP/2, and connections that nginx ends after a
//! number of requests. These tests fail with a message unless nginx is installed.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on panics")]

use address::HttpUrl;
use petasos_load::Control;
use platform::SystemClock;
use record::{Arrival, Plan, Protocol, Rate, RunOutcome, Stage, StageLoad, Stop, Think, WeightedTarget};
use std::time::Duration;
use testkit::web_server::Nginx;

/// Size of the page in bytes.
const PAGE_BYTES: u64 = 13_000;

/// Requests after which nginx ends a connection.
const REQUESTS_PER_CONNECTION: u64 = 50;

/// Starts nginx with a page, served with and without TLS.
fn start_nginx() -> Nginx {
    let given = format!("keepalive_requests {REQUESTS_PER_CONNECTION}; ssl_session_cache shared:s:1m;");
    let nginx = Nginx::start(&given);
    std::fs::write(nginx.root().join("page"), vec![b'x'; PAGE_BYTES as usize]).unwrap();
    nginx
}

/// A plan for `requests` requests over TLS.
fn secure(nginx: &Nginx, requests: u64) -> Plan {
    let mut plan = plan(&format!("https://localhost:{}/page", nginx.secure_port), requests);
    plan.tls.ca_file = Some(nginx.authority());
    plan
}

fn plan(url: &str, requests: u64) -> Plan {
    let mut plan = Plan::new(HttpUrl::parse(url).unwrap());
    plan.stop = Stop { requests: Some(requests), ..Stop::default() };
    plan.threads = 1;
    plan
}

/// Runs a plan in which nothing may fail.
fn run(plan: &Plan) -> RunOutcome {
    let outcome = petasos_load::run(plan, &SystemClock::new(), &Control::new()).unwrap();
    let requests = plan.stop.requests.unwrap();
    assert_eq!((outcome.good, outcome.requests()), (requests, requests), "{:?}", outcome.failures);
    assert_eq!(outcome.content_bytes, requests * PAGE_BYTES);
    assert!(outcome.server_software().starts_with("nginx/"), "{}", outcome.server_software());
    outcome
}

#[test]
fn http1_over_tls_resumes_sessions() {
    let nginx = start_nginx();
    let kept = run(&Plan { users: 4, ..secure(&nginx, 400) });
    assert!(kept.connections >= 400 / REQUESTS_PER_CONNECTION, "{}", kept.connections);
    assert!(kept.resumed >= kept.connections - 4, "{} of {}", kept.resumed, kept.connections);
    let single = run(&Plan { keep_alive: false, ..secure(&nginx, 30) });
    assert_eq!((single.connections, single.resumed), (30, 29));
    assert!(single.good_times.tls.max_us() > 0);
}

#[test]
fn pipelined_requests_work_with_and_without_tls() {
    let nginx = start_nginx();
    let plain = format!("http://127.0.0.1:{}/page", nginx.http1_port);
    for plan in [secure(&nginx, 400), plan(&plain, 400)] {
        let outcome = run(&Plan { users: 2, pipeline: 8, ..plan });
        assert!(outcome.connections >= 400 / REQUESTS_PER_CONNECTION, "{}", outcome.connections);
    }
}

#[test]
fn http2_works_with_and_without_tls() {
    let nginx = start_nginx();
    let plain = format!("http://127.0.0.1:{}/page", nginx.plain_port);
    for plan in [secure(&nginx, 400), plan(&plain, 400)] {
        let shared = run(&Plan { users: 2, pipeline: 8, http: Protocol::H2, ..plan.clone() });
        assert!(shared.connections >= 400 / REQUESTS_PER_CONNECTION, "{}", shared.connections);
        assert!(shared.connections <= 2 + 400 / REQUESTS_PER_CONNECTION * 2, "{}", shared.connections);
        let single = run(&Plan { keep_alive: false, http: Protocol::H2, ..plan });
        assert_eq!(single.connections, 400);
    }
}

/// All ways to carry requests: one or several on a connection, with and without TLS.
fn transports(nginx: &Nginx) -> Vec<Plan> {
    let plain =
        |port: u16| Plan { stop: Stop::default(), ..plan(&format!("http://127.0.0.1:{port}/page"), 1) };
    let secure = Plan { stop: Stop::default(), ..secure(nginx, 1) };
    let http2 = |pipeline, plan: Plan| Plan { http: Protocol::H2, pipeline, ..plan };
    vec![
        plain(nginx.http1_port),
        Plan { pipeline: 4, ..plain(nginx.http1_port) },
        Plan { pipeline: 4, ..secure.clone() },
        http2(1, plain(nginx.plain_port)),
        http2(8, secure),
    ]
}

/// Runs a plan and checks that it made `requests` requests without failures.
fn run_all(plan: &Plan, requests: u64) -> RunOutcome {
    let outcome = petasos_load::run(plan, &SystemClock::new(), &Control::new()).unwrap();
    assert_eq!((outcome.good, outcome.requests()), (requests, requests), "{plan:?}: {:?}", outcome.failures);
    assert_eq!((outcome.not_started, outcome.content_bytes), (0, requests * PAGE_BYTES));
    outcome
}

#[test]
fn every_arrival_works_with_every_transport() {
    let nginx = start_nginx();
    let time = Some(Duration::from_millis(300));
    let open = |rate| Arrival::Open { rate, in_flight_max: 1_000 };
    for plan in transports(&nginx) {
        let timed = Plan { stop: Stop { time, ..Stop::default() }, ..plan.clone() };
        let constant = run_all(&Plan { arrival: open(Rate::Constant(400.0)), ..timed.clone() }, 120);
        assert_eq!(constant.good_times.latency().count(), 120);
        run_all(&Plan { arrival: open(Rate::Ramp { from: 200.0, to: 600.0 }), ..timed.clone() }, 120);
        let counted = Plan { stop: Stop { requests: Some(150), ..Stop::default() }, ..plan.clone() };
        run_all(&Plan { arrival: open(Rate::Poisson(1_000.0)), seed: 7, ..counted.clone() }, 150);
        // Both threads follow the same schedule.
        run_all(&Plan { arrival: open(Rate::Constant(400.0)), threads: 2, ..timed }, 120);
        let think = Think::Range { from: Duration::from_millis(1), to: Duration::from_millis(3) };
        let ramp = Duration::from_millis(50);
        run_all(&Plan { users: 3, think, ramp, ..counted.clone() }, 150);
        run_all(&Plan { users: 3, warmup: Duration::from_millis(50), ..counted }, 150);
        let stage = |rate| Stage { load: StageLoad::Rate(rate), time: Duration::from_millis(200) };
        let cooldown = Duration::from_millis(50);
        let outcome = run_all(&Plan { stages: vec![stage(100.0), stage(300.0)], cooldown, ..plan }, 80);
        let good: Vec<u64> = outcome.stages.iter().map(|stage| stage.good).collect();
        assert_eq!(good, [20, 60]);
    }
}

#[test]
fn connection_options_work_with_every_transport() {
    let nginx = start_nginx();
    let stop = Stop { requests: Some(60), ..Stop::default() };
    for plan in transports(&nginx) {
        let plan = Plan { stop, users: 4, ..plan };
        // With at most two connections, users wait for them, and all are served.
        let bounded =
            Plan { connections_per_host_max: Some(2), connections_per_address_max: Some(2), ..plan.clone() };
        let outcome = run_all(&bounded, 60);
        assert!(outcome.connections <= 2 + 60 / REQUESTS_PER_CONNECTION * 2, "{}", outcome.connections);
        run_all(&Plan { source: Some("127.0.0.0/24".parse().unwrap()), ..plan.clone() }, 60);
        let also = HttpUrl::parse(&plan.target.to_string().replace("/page", "/page?other")).unwrap();
        let targets = [(plan.target.clone(), 3), (also, 1)];
        let targets = targets.map(|(target, weight)| WeightedTarget::new(target, weight)).to_vec();
        let weighted = run_all(&Plan { targets, ..plan.clone() }, 60);
        let counts: Vec<u64> = weighted.urls.iter().map(|url| url.good).collect();
        assert!(counts.first() > counts.get(1) && !counts.contains(&0), "{counts:?}");
        if plan.pipeline > 1 {
            continue;
        }
        let linger = Duration::from_millis(30);
        let lingering = run_all(&Plan { keep_alive: false, linger, ..plan }, 60);
        assert_eq!(lingering.connections, 60);
    }
}

#[test]
fn server_that_refuses_http2_is_reported_as_such() {
    let nginx = start_nginx();
    let url = format!("https://localhost:{}/page", nginx.secure_http1_port);
    let plan = Plan { target: HttpUrl::parse(&url).unwrap(), http: Protocol::H2, ..secure(&nginx, 1) };
    let error = petasos_load::run(&plan, &SystemClock::new(), &Control::new()).unwrap_err().to_string();
    let reason = "the server does not speak HTTP/2: it did not choose h2 in the TLS handshake";
    assert!(error.ends_with(reason), "{error}");
}
