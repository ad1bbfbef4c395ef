//! Runs against nginx as Debian packages it: TLS, resumption, HTTP/2, and connections that it ends after so many
//! requests. It must be installed; without it these tests fail and say so.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on panics")]

use petasos_load::{
    Arrival, Control, Outcome, Plan, Protocol, Rate, Stage, StageLoad, Stop, Target, Think, WeightedTarget,
};
use platform::SystemClock;
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use testkit::{HeldPort, PemFiles, eventually};

/// Octets of the page.
const PAGE_BYTES: u64 = 13_000;

/// Requests after which nginx ends a connection.
const REQUESTS_PER_CONNECTION: u64 = 50;

/// nginx with a page, over TLS and plain; it stops when dropped.
struct Nginx {
    child: Child,
    directory: tempfile::TempDir,
    _ports: [HeldPort; 4],
    secure_port: u16,
    plain_port: u16,
    http1_port: u16,
    /// HTTP/1.1 over TLS.
    secure_http1_port: u16,
}

impl Nginx {
    fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        let pem = PemFiles::make();
        for (name, text) in
            [("ca.pem", &pem.authority), ("cert.pem", &pem.certificate), ("key.pem", &pem.key)]
        {
            std::fs::write(path.join(name), text).unwrap();
        }
        std::fs::write(path.join("page"), vec![b'x'; PAGE_BYTES as usize]).unwrap();
        let ports = [(); 4].map(|()| HeldPort::take());
        let [secure_port, plain_port, http1_port, secure_http1_port] = ports.each_ref().map(HeldPort::number);
        let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|kind| format!("{kind}_temp_path {}/{kind};", path.display()))
            .join(" ");
        let configuration = format!(
            "daemon off; master_process off; pid {0}/pid; error_log {0}/log;
             events {{ worker_connections 512; }}
             http {{
               access_log off; root {0}; keepalive_requests {REQUESTS_PER_CONNECTION}; {temporary}
               ssl_certificate {0}/cert.pem; ssl_certificate_key {0}/key.pem; ssl_session_cache shared:s:1m;
               server {{ listen 127.0.0.1:{secure_port} ssl http2; }}
               server {{ listen 127.0.0.1:{plain_port} http2; }}
               server {{ listen 127.0.0.1:{http1_port}; }}
               server {{ listen 127.0.0.1:{secure_http1_port} ssl; }}
             }}",
            path.display()
        );
        std::fs::write(path.join("conf"), configuration).unwrap();
        let child = Command::new("nginx")
            .args(["-p", path.to_str().unwrap(), "-c", "conf"])
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| {
                panic!("cannot run nginx ({error}): install it from Debian's nginx-core")
            });
        let mut nginx =
            Self { child, directory, _ports: ports, secure_port, plain_port, http1_port, secure_http1_port };
        eventually("nginx listens", || {
            assert!(nginx.child.try_wait().unwrap().is_none(), "nginx has ended: {}", nginx.log());
            TcpStream::connect(("127.0.0.1", plain_port)).is_ok()
        });
        nginx
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.directory.path().join("log")).unwrap_or_default()
    }

    /// A plan for so many requests over TLS.
    fn secure(&self, requests: u64) -> Plan {
        let mut plan = plan(&format!("https://localhost:{}/page", self.secure_port), requests);
        plan.tls.ca_file = Some(self.directory.path().join("ca.pem"));
        plan
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn plan(url: &str, requests: u64) -> Plan {
    let mut plan = Plan::new(Target::parse(url).unwrap());
    plan.stop = Stop { requests: Some(requests), ..Stop::default() };
    plan.threads = 1;
    plan
}

/// Runs a plan in which nothing may fail.
fn run(plan: &Plan) -> Outcome {
    let outcome = petasos_load::run(plan, &SystemClock::new(), &Control::new()).unwrap();
    let requests = plan.stop.requests.unwrap();
    assert_eq!((outcome.good, outcome.requests()), (requests, requests), "{:?}", outcome.failures);
    assert_eq!(outcome.content_bytes, requests * PAGE_BYTES);
    assert!(outcome.server_software().starts_with("nginx/"), "{}", outcome.server_software());
    outcome
}

#[test]
fn http1_over_tls() {
    let nginx = Nginx::start();
    let kept = run(&Plan { users: 4, ..nginx.secure(400) });
    assert!(kept.connections >= 400 / REQUESTS_PER_CONNECTION, "{}", kept.connections);
    assert!(kept.resumed >= kept.connections - 4, "{} of {}", kept.resumed, kept.connections);
    let single = run(&Plan { keep_alive: false, ..nginx.secure(30) });
    assert_eq!((single.connections, single.resumed), (30, 29));
    assert!(single.good_times.tls.max_us() > 0);
}

#[test]
fn pipelined_requests_over_tls_and_plain() {
    let nginx = Nginx::start();
    let plain = format!("http://127.0.0.1:{}/page", nginx.http1_port);
    for plan in [nginx.secure(400), plan(&plain, 400)] {
        let outcome = run(&Plan { users: 2, pipeline: 8, ..plan });
        assert!(outcome.connections >= 400 / REQUESTS_PER_CONNECTION, "{}", outcome.connections);
    }
}

#[test]
fn http2_over_tls_and_plain() {
    let nginx = Nginx::start();
    let plain = format!("http://127.0.0.1:{}/page", nginx.plain_port);
    for plan in [nginx.secure(400), plan(&plain, 400)] {
        let shared = run(&Plan { users: 2, pipeline: 8, http: Protocol::H2, ..plan.clone() });
        assert!(shared.connections >= 400 / REQUESTS_PER_CONNECTION, "{}", shared.connections);
        assert!(shared.connections <= 2 + 400 / REQUESTS_PER_CONNECTION * 2, "{}", shared.connections);
        let single = run(&Plan { keep_alive: false, http: Protocol::H2, ..plan });
        assert_eq!(single.connections, 400);
    }
}

/// Every way to carry requests: one or several on a connection, over TLS and plain.
fn transports(nginx: &Nginx) -> Vec<Plan> {
    let plain =
        |port: u16| Plan { stop: Stop::default(), ..plan(&format!("http://127.0.0.1:{port}/page"), 1) };
    let secure = Plan { stop: Stop::default(), ..nginx.secure(1) };
    let http2 = |pipeline, plan: Plan| Plan { http: Protocol::H2, pipeline, ..plan };
    vec![
        plain(nginx.http1_port),
        Plan { pipeline: 4, ..plain(nginx.http1_port) },
        Plan { pipeline: 4, ..secure.clone() },
        http2(1, plain(nginx.plain_port)),
        http2(8, secure),
    ]
}

/// Runs a plan whose number of requests its schedule says.
fn run_all(plan: &Plan, requests: u64) -> Outcome {
    let outcome = petasos_load::run(plan, &SystemClock::new(), &Control::new()).unwrap();
    assert_eq!((outcome.good, outcome.requests()), (requests, requests), "{plan:?}: {:?}", outcome.failures);
    assert_eq!((outcome.not_started, outcome.content_bytes), (0, requests * PAGE_BYTES));
    outcome
}

#[test]
fn every_arrival_goes_with_every_transport() {
    let nginx = Nginx::start();
    let time = Some(Duration::from_millis(300));
    let open = |rate| Arrival::Open { rate, in_flight_max: 1_000 };
    for plan in transports(&nginx) {
        let timed = Plan { stop: Stop { time, ..Stop::default() }, ..plan.clone() };
        let constant = run_all(&Plan { arrival: open(Rate::Constant(400.0)), ..timed.clone() }, 120);
        assert_eq!(constant.good_times.latency().count(), 120);
        run_all(&Plan { arrival: open(Rate::Ramp { from: 200.0, to: 600.0 }), ..timed.clone() }, 120);
        let counted = Plan { stop: Stop { requests: Some(150), ..Stop::default() }, ..plan.clone() };
        run_all(&Plan { arrival: open(Rate::Poisson(1_000.0)), seed: 7, ..counted.clone() }, 150);
        // Two threads walk one schedule.
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
fn connections_are_made_as_asked_for_with_every_transport() {
    let nginx = Nginx::start();
    let stop = Stop { requests: Some(60), ..Stop::default() };
    for plan in transports(&nginx) {
        let plan = Plan { stop, users: 4, ..plan };
        // No more than two connections: users wait for them, and all are served.
        let bounded =
            Plan { connections_per_host_max: Some(2), connections_per_address_max: Some(2), ..plan.clone() };
        let outcome = run_all(&bounded, 60);
        assert!(outcome.connections <= 2 + 60 / REQUESTS_PER_CONNECTION * 2, "{}", outcome.connections);
        run_all(&Plan { source: Some("127.0.0.0/24".parse().unwrap()), ..plan.clone() }, 60);
        let also = Target::parse(&plan.target.to_string().replace("/page", "/page?other")).unwrap();
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
fn a_server_that_refuses_http2_is_told_as_such() {
    let nginx = Nginx::start();
    let url = format!("https://localhost:{}/page", nginx.secure_http1_port);
    let plan = Plan { target: Target::parse(&url).unwrap(), http: Protocol::H2, ..nginx.secure(1) };
    let error = petasos_load::run(&plan, &SystemClock::new(), &Control::new()).unwrap_err().to_string();
    let reason = "the server does not speak HTTP/2: it did not choose h2 when TLS was agreed on";
    assert!(error.ends_with(reason), "{error}");
}
