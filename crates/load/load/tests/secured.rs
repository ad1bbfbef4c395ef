//! Runs over TLS: verification, resumption, and that no byte is lost or added between records.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on panics")]
#![allow(clippy::indexing_slicing, reason = "a test that cannot go on panics")]

use address::HttpUrl;
use petasos_load::{Control, LoadError};
use platform::SystemClock;
use record::{Ended, FailureKind, Plan, Protocol, RunOutcome, Stop};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;
use testkit::{Action, Certificate, Origin, TlsFront, response};

/// A plan for `requests` requests by one user who trusts the server's authority.
fn plan(front: &TlsFront, requests: u64) -> Plan {
    let url = format!("https://localhost:{}/", front.address.port());
    let mut plan = Plan::new(HttpUrl::parse(&url).unwrap());
    plan.stop = Stop { requests: Some(requests), ..Stop::default() };
    let file = std::env::temp_dir().join(format!(
        "petasos-load-{}-{}.pem",
        std::process::id(),
        front.address.port()
    ));
    std::fs::write(&file, &front.authority_pem).unwrap();
    plan.tls.ca_file = Some(file);
    plan
}

fn run(plan: &Plan) -> Result<RunOutcome, LoadError> {
    let outcome = petasos_load::run(plan, &SystemClock::new(), &Control::new());
    std::fs::remove_file(plan.tls.ca_file.as_ref().unwrap()).unwrap();
    outcome
}

/// An origin with a page of `content_bytes` bytes. It closes after each response if the request
/// asks for it.
fn origin(content_bytes: usize) -> Origin {
    Origin::start(move |seen| {
        let mut actions = response("200 OK", &[], &vec![b'x'; content_bytes]);
        actions.extend((seen.field("Connection") == Some("close")).then_some(Action::Close));
        actions
    })
}

#[test]
fn persistent_connections_carry_pages_of_many_records() {
    let origin = origin(100_000);
    let front = TlsFront::start(origin.address(), Certificate::Good);
    let outcome = run(&Plan { users: 3, threads: 1, ..plan(&front, 60) }).unwrap();
    assert_eq!((outcome.good, outcome.requests(), outcome.connections), (60, 60, 3));
    assert_eq!((outcome.content_bytes, outcome.document_bytes), (6_000_000, Some(100_000)));
    let times = &outcome.good_times;
    assert!(times.tls.max_us() > 0 && times.tls.max_us() <= times.connect.max_us());
    assert_eq!(times.tls.min_us(), 0, "a reused connection has no handshake");
    let head_bytes = outcome.first_head.len() as u64;
    assert_eq!(outcome.received_bytes, 60 * (head_bytes + 100_000), "only HTTP bytes are counted");
}

#[test]
fn self_signed_certificate_is_trusted_by_its_own_file() {
    let origin = origin(5);
    let front = TlsFront::start(origin.address(), Certificate::SelfSigned);
    assert_eq!(run(&plan(&front, 3)).unwrap().good, 3);
    let mut by_another_name = plan(&front, 3);
    by_another_name.tls.name = Some("other.test".to_owned());
    assert!(run(&by_another_name).is_err());
    let other = TlsFront::start(origin.address(), Certificate::SelfSigned);
    let by_another_file = plan(&front, 3);
    std::fs::write(by_another_file.tls.ca_file.as_ref().unwrap(), &other.authority_pem).unwrap();
    assert!(run(&by_another_file).is_err());
}

#[test]
fn later_connections_resume_the_session_if_allowed() {
    let origin = origin(5);
    let front = TlsFront::start(origin.address(), Certificate::Good);
    for is_resumed in [true, false] {
        let mut plan = Plan { keep_alive: false, ..plan(&front, 20) };
        plan.tls.is_resumed = is_resumed;
        let outcome = run(&plan).unwrap();
        assert_eq!((outcome.good, outcome.connections), (20, 20));
        assert_eq!(outcome.resumed, if is_resumed { 19 } else { 0 });
    }
}

#[test]
fn handshake_bytes_are_held_back_until_read() {
    let origin = origin(5);
    let front = TlsFront::start(origin.address(), Certificate::Good);
    for pipeline in [1, 2] {
        // A response that arrives in one piece is not held back, so the time is the handshake's. A
        // handshake that arrives while the thread looks for it is not either, so one of many
        // counts.
        let one = || {
            let outcome = run(&Plan { pipeline, ..plan(&front, 1) }).unwrap();
            assert_eq!(outcome.good, 1);
            outcome.check.held_back
        };
        let is_held_back = std::iter::repeat_with(one).take(50).any(|held_back| !held_back.is_zero());
        assert!(is_held_back, "with {pipeline} requests at a time");
    }
}

#[test]
fn large_requests_are_split_into_records() {
    let origin = Origin::start(|seen| response("200 OK", &[], seen.body.len().to_string().as_bytes()));
    let front = TlsFront::start(origin.address(), Certificate::Good);
    let content = vec![b'y'; 3_000_000].into();
    let body = Some(record::RequestBody { content, content_type: "text/plain".to_owned() });
    let plan = Plan { method: message::Method::Post, body, ..plan(&front, 3) };
    let sent_bytes = 3 * petasos_load::image(&plan).unwrap().len() as u64;
    let outcome = run(&plan).unwrap();
    assert_eq!((outcome.good, outcome.document_bytes, outcome.sent_bytes), (3, Some(7), sent_bytes));
    assert!(origin.seen().iter().all(|seen| seen.body.len() == 3_000_000));
}

#[test]
fn no_request_is_sent_before_the_certificate_is_verified() {
    let origin = origin(5);
    for (certificate, reason) in [
        (Certificate::OtherName, "the server's certificate is not for `localhost`"),
        (Certificate::Expired, "the server's certificate has expired"),
    ] {
        let front = TlsFront::start(origin.address(), certificate);
        match run(&plan(&front, 5)) {
            Err(LoadError::Unreachable { reason: found, .. }) => assert_eq!(found, reason),
            other => panic!("{:?}", other.map(|outcome| outcome.failures)),
        }
    }
    assert!(origin.seen().is_empty());
    let front = TlsFront::start(origin.address(), Certificate::OtherName);
    let mut plan = plan(&front, 5);
    plan.tls.is_verified = false;
    assert_eq!(run(&plan).unwrap().good, 5);
}

#[test]
fn server_without_tls_is_reported_as_such() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut front = TlsFront::start(listener.local_addr().unwrap(), Certificate::Good);
    front.address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        client.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
        let _ = client.read_to_end(&mut Vec::new());
    });
    match run(&plan(&front, 5)) {
        Err(LoadError::Unreachable { reason, .. }) => {
            assert!(reason.contains("does not speak TLS"), "{reason}")
        }
        other => panic!("{:?}", other.map(|outcome| outcome.failures)),
    }
}

/// Forwards records in both directions, but drops the server's records of exactly `record_bytes`
/// bytes.
fn swallower(server: SocketAddr, record_bytes: usize) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let (mut client, mut server) = (client.unwrap(), TcpStream::connect(server).unwrap());
            let (mut from_client, mut to_server) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            std::thread::spawn(move || std::io::copy(&mut from_client, &mut to_server));
            std::thread::spawn(move || {
                let mut head = [0; 5];
                while server.read_exact(&mut head).is_ok() {
                    let mut record = vec![0; usize::from(u16::from_be_bytes([head[3], head[4]]))];
                    server.read_exact(&mut record).unwrap();
                    if record.len() != record_bytes {
                        client.write_all(&[&head, &record[..]].concat()).unwrap();
                    }
                }
                let _ = client.shutdown(std::net::Shutdown::Both);
            });
        }
    });
    address
}

/// Forwards the first connection. Accepts later ones and never answers them.
fn dying(server: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        let mut server = TcpStream::connect(server).unwrap();
        let (mut from_client, mut to_server) = (client.try_clone().unwrap(), server.try_clone().unwrap());
        std::thread::spawn(move || std::io::copy(&mut from_client, &mut to_server));
        std::thread::spawn(move || {
            let _ = std::io::copy(&mut server, &mut client);
            let _ = client.shutdown(std::net::Shutdown::Both);
        });
        listener.incoming().map(Result::unwrap).collect::<Vec<_>>()
    });
    address
}

#[test]
fn target_without_further_handshakes_is_gone() {
    for pipeline in [1, 2] {
        let origin = Origin::start(|_| {
            let mut actions = response("200 OK", &["Connection: close"], b"hello");
            actions.push(Action::Close);
            actions
        });
        let mut front = TlsFront::start(origin.address(), Certificate::Good);
        front.address = dying(front.address);
        let mut plan = Plan { pipeline, timeout: Duration::from_millis(200), ..plan(&front, 1) };
        plan.stop = Stop { time: Some(Duration::from_secs(30)), ..Stop::default() };
        let outcome = run(&plan).unwrap();
        assert_eq!((outcome.good, outcome.ended), (1, Ended::TargetGone), "{pipeline} at a time");
        assert_eq!(outcome.failures.total(), outcome.failures.of(FailureKind::Connect));
    }
}

#[test]
fn close_without_a_tls_alert_does_not_end_a_page() {
    let origin = Origin::start(|_| {
        vec![Action::Send(b"HTTP/1.1 200 OK\r\n\r\nuntil the end".to_vec()), Action::Close]
    });
    let mut front = TlsFront::start(origin.address(), Certificate::Good);
    let plain = Plan { http: Protocol::Http11, keep_alive: false, ..plan(&front, 4) };
    assert_eq!(run(&plain).unwrap().good, 4);
    // A closing alert in TLS 1.3: two bytes of alert, one of type, sixteen of tag.
    front.address = swallower(front.address, 19);
    let outcome = run(&Plan { keep_alive: false, ..plan(&front, 4) }).unwrap();
    assert_eq!((outcome.good, outcome.failures.of(FailureKind::Receive)), (0, 4));
}
