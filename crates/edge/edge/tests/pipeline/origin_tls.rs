//! Origins over TLS: verification, the client's certificate, idle connections, and what breaks.

use crate::support::{self, plan, reason};
use config::{CertificatePaths, EdgePlan, OriginTlsPlan};
use petasos_edge::{BoundEdge, RunningEdge, System};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::PathBuf;
use std::time::Duration;
use testkit::{Action, Certificate, Origin, Seen, TlsFront, eventually, response};

/// An edge in front of an origin behind a TLS server.
struct SecuredOrigin {
    edge: RunningEdge,
    front: TlsFront,
    origin: Origin,
    _directory: tempfile::TempDir,
}

const FRESH: &str = "Cache-Control: max-age=60";
const OWN: &str = "Cache-Control: private";

impl SecuredOrigin {
    fn start(certificate: Certificate, script: fn(&Seen) -> Vec<Action>) -> Self {
        let origin = Origin::start(script);
        let front = TlsFront::start(origin.address(), certificate);
        Self::before(origin, front, |_, _| {})
    }

    /// Starts an edge that trusts the authority of `front`.
    fn before(origin: Origin, front: TlsFront, change: impl FnOnce(&mut EdgePlan, &TlsFront)) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let authority = directory.path().join("authority.pem");
        std::fs::write(&authority, &front.authority_pem).unwrap();
        let mut plan = plan(&format!("https://localhost:{}", front.address.port()));
        let tls = tls(&mut plan);
        tls.authorities = Some(authority);
        change(&mut plan, &front);
        Self { edge: support::start(plan), front, origin, _directory: directory }
    }

    fn get(&self, target: &str) -> testkit::Response {
        support::connect(&self.edge).get(target, &[])
    }
}

/// The settings for TLS of the only site.
fn tls(plan: &mut EdgePlan) -> &mut OriginTlsPlan {
    plan.sites[0].origin_tls.as_mut().unwrap()
}

fn page(seen: &Seen) -> Vec<Action> {
    let proto = seen.field("X-Forwarded-Proto").unwrap_or("none").to_owned();
    let fields = if seen.target().starts_with("/own") { [OWN] } else { [FRESH] };
    response("200 OK", &fields, format!("{proto} {}", seen.body.len()).as_bytes())
}

#[test]
fn verified_origin_is_served_and_its_pages_are_stored() {
    let secured = SecuredOrigin::start(Certificate::Good, page);
    let first = secured.get("/");
    assert_eq!((first.text(), reason(&first)), ("http 0", "miss-absent"), "the client came without TLS");
    assert_eq!(reason(&secured.get("/")), "hit-fresh");
    assert_eq!(secured.origin.seen().len(), 1);
}

#[test]
fn origin_with_a_wrong_certificate_gets_no_request() {
    for certificate in [Certificate::Expired, Certificate::NotYet, Certificate::OtherName] {
        let secured = SecuredOrigin::start(certificate, page);
        let failed = secured.get("/");
        assert_eq!((failed.status, reason(&failed)), (502, "origin-tls-failed"), "{certificate:?}");
        assert!(!failed.text().contains("localhost"), "{}", failed.text());
        let breaker = support::metric(&secured.edge, "petasos_origin_breaker_state", "");
        assert_eq!(breaker, 2, "as if it refused connections: {certificate:?}");
        assert_eq!(secured.origin.seen().len(), 0);
    }
    let origin = Origin::start(page);
    let front = TlsFront::start(origin.address(), Certificate::Good);
    let unknown = SecuredOrigin::before(origin, front, |plan, _| {
        let stranger = TlsFront::start("127.0.0.1:1".parse().unwrap(), Certificate::Good);
        std::fs::write(tls(plan).authorities.as_ref().unwrap(), stranger.authority_pem.clone()).unwrap();
    });
    assert_eq!(reason(&unknown.get("/")), "origin-tls-failed");
    assert_eq!(support::metric(&unknown.edge, "petasos_origin_refusals_total", ""), 1);
    assert_eq!(unknown.origin.seen().len(), 0);
}

#[test]
fn name_and_insecure_decide_which_certificate_is_accepted() {
    let changes: [fn(&mut OriginTlsPlan); 2] =
        [|tls| tls.name = "other.test".to_owned(), |tls| tls.is_verified = false];
    for change in changes {
        let origin = Origin::start(page);
        let front = TlsFront::start(origin.address(), Certificate::OtherName);
        let secured = SecuredOrigin::before(origin, front, |plan, _| change(tls(plan)));
        assert_eq!(secured.get("/").status, 200);
    }
}

#[test]
fn address_in_the_url_must_be_in_the_certificate() {
    for (certificate, status) in [(Certificate::Good, 200), (Certificate::OtherName, 502)] {
        let origin = Origin::start(page);
        let front = TlsFront::start(origin.address(), certificate);
        let secured = SecuredOrigin::before(origin, front, |plan, front| {
            let authorities = tls(plan).authorities.clone();
            let url = format!("https://{}", front.address);
            plan.sites = EdgePlan::for_origin(url.parse().unwrap()).sites;
            tls(plan).authorities = authorities;
        });
        assert_eq!(secured.get("/").status, status);
    }
}

/// The certificate of a client that the server knows, as a setting.
fn identity(plan: &EdgePlan, front: &TlsFront) -> CertificatePaths {
    let authorities = plan.sites[0].origin_tls.as_ref().unwrap().authorities.clone().unwrap();
    let file: PathBuf = authorities.with_file_name("identity.pem");
    std::fs::write(&file, &front.identity_pem).unwrap();
    CertificatePaths { chain: file.clone(), key: file }
}

#[test]
fn origin_that_demands_a_certificate_gets_ours() {
    let origin = Origin::start(page);
    let front = TlsFront::start_for_known_clients(origin.address());
    let secured = SecuredOrigin::before(origin, front, |plan, front| {
        tls(plan).certificate = Some(identity(plan, front));
    });
    assert_eq!(secured.get("/").text(), "http 0");
}

#[test]
fn missing_client_certificate_is_named_as_the_reason() {
    let origin = Origin::start(page);
    let front = TlsFront::start_for_known_clients(origin.address());
    let secured = SecuredOrigin::before(origin, front, |_, _| {});
    let failed = secured.get("/");
    assert_eq!((failed.status, reason(&failed)), (502, "origin-tls-failed"));
    assert_eq!(secured.origin.seen().len(), 0);
}

#[test]
fn idle_connections_are_used_by_all_workers() {
    let secured = SecuredOrigin::start(Certificate::Good, page);
    for number in 0..20 {
        let answer = secured.get(&format!("/own/{number}"));
        assert_eq!(answer.text(), "http 0");
    }
    assert_eq!(secured.front.handshakes(), 1, "one connection carries all requests");
}

#[test]
fn sessions_are_resumed() {
    let secured = SecuredOrigin::start(Certificate::Good, |seen| {
        let close: &[&str] = &[OWN, "Connection: close"];
        [response("200 OK", close, seen.target().as_bytes()), vec![Action::Close]].concat()
    });
    for number in 0..3 {
        assert_eq!(secured.get(&format!("/{number}")).status, 200);
    }
    assert_eq!((secured.front.handshakes(), secured.front.resumptions()), (3, 2));
}

#[test]
fn origin_that_closes_idle_connections_loses_no_request() {
    // The server sends its closing message and then closes, some time after each response.
    let secured = SecuredOrigin::start(Certificate::Good, |_| {
        let kept = response("200 OK", &[OWN], b"kept");
        [kept, vec![Action::Pause(Duration::from_millis(5)), Action::Close]].concat()
    });
    for number in 0..100 {
        let answer = secured.get(&format!("/{number}"));
        assert_eq!((answer.status, answer.text()), (200, "kept"));
        std::thread::sleep(Duration::from_millis(number % 10));
    }
}

#[test]
fn large_bodies_pass_both_ways() {
    let secured = SecuredOrigin::start(Certificate::Good, |seen| {
        let body = vec![b'x'; 5 << 20];
        let bytes = seen.body.len();
        response("200 OK", &[OWN, &format!("X-Received: {bytes}")], &body)
    });
    let mut client = support::connect(&secured.edge);
    let upload = vec![b'y'; 3 << 20];
    client.send(format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", upload.len()));
    client.send(&upload);
    let answer = client.read();
    assert!(answer.complete && answer.body.len() == 5 << 20, "{} bytes", answer.body.len());
    assert_eq!(answer.field("X-Received"), Some("3145728"));
}

#[test]
fn body_that_ends_without_a_closing_message_is_incomplete() {
    let secured = SecuredOrigin::start(Certificate::Good, |_| {
        let head = format!("HTTP/1.1 200 OK\r\n{FRESH}\r\n\r\nhalf");
        vec![Action::Send(head.into_bytes()), Action::Pause(Duration::from_millis(100)), Action::Reset]
    });
    let mut client = support::connect(&secured.edge);
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(!client.read().complete);
    assert_ne!(reason(&secured.get("/")), "hit-fresh");
}

#[test]
fn upgraded_connection_passes_through_tls() {
    let origin = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = origin.local_addr().unwrap();
    let echo = std::thread::spawn(move || {
        let (mut stream, _) = origin.accept().unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut octet = [0];
            stream.read_exact(&mut octet).unwrap();
            head.push(octet[0]);
        }
        let switch =
            "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\nhi ";
        stream.write_all(switch.as_bytes()).unwrap();
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).unwrap();
        stream.write_all(&rest).unwrap();
        String::from_utf8(head).unwrap()
    });
    let spare = Origin::start(page);
    let secured = SecuredOrigin::before(spare, TlsFront::start(address, Certificate::Good), |_, _| {});
    let mut client = std::net::TcpStream::connect(support::address(&secured.edge)).unwrap();
    client
        .write_all(b"GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nearly ")
        .unwrap();
    client.write_all(b"late").unwrap();
    client.shutdown(std::net::Shutdown::Write).unwrap();
    let mut received = String::new();
    client.read_to_string(&mut received).unwrap();
    assert!(received.starts_with("HTTP/1.1 101 ") && received.ends_with("hi early late"), "{received}");
    assert!(echo.join().unwrap().contains("Upgrade: websocket\r\n"));
}

#[test]
fn handshake_that_never_ends_is_limited_by_connect_timeout() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut plan = plan(&format!("https://{}", silent.local_addr().unwrap()));
    plan.limits.connect_timeout = Duration::from_millis(200);
    tls(&mut plan).is_verified = false;
    let edge = support::start(plan);
    let failed = support::connect(&edge).get("/", &[]);
    assert_eq!((failed.status, reason(&failed)), (504, "origin-timeout"));
}

#[test]
fn plain_origin_behind_an_https_url_is_told_apart() {
    let plain = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut plan = plan(&format!("https://{}", plain.local_addr().unwrap()));
    tls(&mut plan).is_verified = false;
    std::thread::spawn(move || {
        let (mut stream, _) = plain.accept().unwrap();
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
        // Kept open until the edge closes it.
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let edge = support::start(plan);
    let failed = support::connect(&edge).get("/", &[]);
    assert_eq!((failed.status, reason(&failed)), (502, "origin-tls-failed"));
}

#[test]
fn files_that_cannot_be_used_prevent_the_start() {
    let start = |change: fn(&mut OriginTlsPlan)| {
        let mut plan = plan("https://localhost:1");
        tls(&mut plan).is_verified = false;
        change(tls(&mut plan));
        BoundEdge::bind(plan, System::of_machine()).err().map(|error| error.to_string())
    };
    assert_eq!(start(|_| {}), None);
    let missing = start(|tls| (tls.is_verified, tls.authorities) = (true, Some("/none/ca.pem".into())));
    assert!(missing.unwrap().contains("cannot read /none/ca.pem"));
    let missing = start(|tls| {
        tls.certificate = Some(CertificatePaths { chain: "/none/c.pem".into(), key: "/none/k.pem".into() });
    });
    assert!(missing.unwrap().contains("cannot read /none/c.pem"));
    assert!(start(|tls| tls.name = "a b".to_owned()).unwrap().contains("no host name"));
}

#[test]
fn revived_origin_is_found_by_the_next_probe() {
    let secured = SecuredOrigin::start(Certificate::Good, page);
    assert_eq!(secured.get("/own").status, 200);
    secured.origin.kill();
    assert_ne!(secured.get("/own").status, 200);
    secured.origin.revive();
    eventually("the origin is asked again", || secured.get("/own").status == 200);
}
