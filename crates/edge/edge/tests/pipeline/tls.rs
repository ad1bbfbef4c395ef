//! Listeners with TLS: certificates, versions, resumption, and what plain clients meet there.

use crate::support::{self, plan};
use config::{CertificatePaths, DiskPlan, EdgePlan, ListenerPlan, RedirectPlan, TlsPlan};
use petasos_edge::{BoundEdge, RunningEdge, System};
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::path::Path;
use std::thread;
use std::time::Duration;
use testkit::{
    Authority, Client, Http2Client, Http2Frame, KeyKind, Origin, PemFiles, Trust, eventually, response,
};

/// An edge with a plain listener and one with TLS, whose certificates are in a directory.
struct Secured {
    edge: RunningEdge,
    directory: tempfile::TempDir,
    authority: Authority,
    _origin: Origin,
}

const VALID: (i32, i32) = (2000, 2100);

impl Secured {
    fn start(names: &[&str], alter: impl FnOnce(&mut EdgePlan)) -> Self {
        let (directory, authority) = (tempfile::tempdir().unwrap(), Authority::new("an authority"));
        let origin = Origin::start(|seen| {
            let proto = seen.field("X-Forwarded-Proto").unwrap_or("none").to_owned();
            let body = if seen.target() == "/large" { "x".repeat(3 << 20) } else { proto };
            response("200 OK", &["Cache-Control: max-age=60", "X-Page: yes"], body.as_bytes())
        });
        let mut plan = plan(&origin.url());
        let certificates = names.iter().map(|name| issue(&authority, name, directory.path())).collect();
        let tls = TlsPlan::of_files(certificates);
        let address = "127.0.0.1:0".parse().unwrap();
        plan.listeners.push(ListenerPlan { tls: Some(tls), ..ListenerPlan::plain(address) });
        alter(&mut plan);
        Self { edge: support::start(plan), directory, authority, _origin: origin }
    }

    fn address(&self) -> SocketAddr {
        support::socket(&self.edge.bound().listen[1])
    }

    fn trust(&self) -> Trust {
        Trust::of(&self.authority.pem())
    }

    fn connect(&self, name: &str) -> std::io::Result<Client> {
        Client::secured(self.address(), name, &self.trust())
    }

    fn metric(&self, name: &str) -> u64 {
        support::metric(&self.edge, name, "")
    }
}

fn issue(authority: &Authority, name: &str, directory: &Path) -> CertificatePaths {
    let (chain, key) = authority.issue(&[name], KeyKind::Ecdsa, VALID).write(directory, name);
    CertificatePaths { chain, key }
}

#[test]
fn secured_client_is_served_with_https_and_the_page_is_shared() {
    let secured = Secured::start(&["a.test"], |_| {});
    let mut client = secured.connect("a.test").unwrap();
    let first = client.get("/", &[]);
    assert_eq!((first.text(), support::reason(&first)), ("https", "miss-absent"));
    let again = secured.connect("a.test").unwrap().get("/", &[]);
    assert_eq!((again.text(), support::reason(&again)), ("https", "hit-fresh"));
    let plain = support::connect(&secured.edge).get("/", &[]);
    assert_eq!(
        (plain.text(), support::reason(&plain)),
        ("http", "miss-absent"),
        "another scheme, another key"
    );
    assert_eq!(secured.metric("petasos_tls_handshakes_total"), 2);
}

#[test]
fn large_bodies_and_pipelined_requests_pass_through_tls() {
    let secured = Secured::start(&["a.test"], |_| {});
    let mut client = secured.connect("a.test").unwrap();
    for _ in 0..3 {
        let large = client.get("/large", &[]);
        assert!(large.complete && large.body.len() == 3 << 20, "{} bytes", large.body.len());
    }
    client.send("GET / HTTP/1.1\r\nHost: example.test\r\n\r\n".repeat(200));
    for _ in 0..200 {
        assert_eq!(client.read().text(), "https");
    }
    client.send("GET / HTTP/1.1\r\nHost: example.test\r\nConnection: close\r\n\r\n");
    assert_eq!(client.read().status, 200);
    assert!(client.read_to_end(), "TLS says that this is the end");
}

#[test]
fn certificate_follows_the_name_and_sessions_are_resumed() {
    let secured = Secured::start(&["a.test", "b.test"], |_| {});
    let trust = secured.trust();
    let mut certificates = Vec::new();
    for name in ["a.test", "b.test"] {
        let mut client = Client::secured(secured.address(), name, &trust).unwrap();
        // The tickets arrive with the response.
        assert_eq!(client.get("/", &[]).status, 200);
        let handshake = client.handshake();
        assert!(!handshake.is_resumed && handshake.version == "TLSv1_3");
        certificates.push(handshake.certificate);
        let resumed = Client::secured(secured.address(), name, &trust).unwrap();
        assert!(resumed.handshake().is_resumed, "{name}");
    }
    assert_ne!(certificates[0], certificates[1]);
    let error = secured.connect("c.test").err().unwrap().to_string();
    assert!(
        error.contains("only valid for DnsName(\"a.test\")"),
        "the first certificate serves other names: {error}"
    );
}

#[test]
fn oldest_version_is_a_setting() {
    let older = |secured: &Secured| {
        let trust = Trust::of_tls_1_2(&secured.authority.pem());
        Client::secured(secured.address(), "a.test", &trust).map(|client| client.handshake().version)
    };
    assert_eq!(older(&Secured::start(&["a.test"], |_| {})).unwrap(), "TLSv1_2");
    let strict = Secured::start(&["a.test"], |plan| {
        plan.listeners[1].tls.as_mut().unwrap().is_at_least_1_3 = true;
    });
    assert!(older(&strict).is_err());
    assert_eq!(strict.connect("a.test").unwrap().handshake().version, "TLSv1_3");
    assert_eq!(strict.metric("petasos_tls_handshakes_failed_total"), 1);
}

#[test]
fn plain_request_to_a_tls_port_learns_the_reason() {
    let secured = Secured::start(&["a.test"], |_| {});
    let mut plain = Client::connect(secured.address());
    plain.send("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
    let refused = plain.read();
    assert!(refused.head.starts_with("HTTP/1.1 400 "), "no alert precedes it: {}", refused.head);
    assert!(refused.text().contains("write https:// in place of http://"), "{}", refused.text());
    assert!(plain.is_closed());
}

#[test]
fn hello_may_arrive_in_pieces_or_end_early() {
    let secured = Secured::start(&["a.test"], |_| {});
    let hello = secured.trust().client_hello("a.test");
    let mut whole = TcpStream::connect(secured.address()).unwrap();
    whole.set_nodelay(true).unwrap();
    for piece in hello.chunks(60) {
        whole.write_all(piece).unwrap();
        thread::sleep(Duration::from_millis(1));
    }
    let mut kind = [0];
    whole.read_exact(&mut kind).unwrap();
    assert_eq!(kind, [22], "the server's part of the handshake");
    // The edge learns at once that no more bytes follow.
    for bytes in [0, 1, 4, 5, hello.len() - 1] {
        let failed = secured.metric("petasos_tls_handshakes_failed_total");
        let mut part = TcpStream::connect(secured.address()).unwrap();
        part.write_all(&hello[..bytes]).unwrap();
        part.shutdown(Shutdown::Write).unwrap();
        assert_eq!(part.read(&mut kind).unwrap_or(0), 0, "{bytes}");
        eventually("it is counted", || secured.metric("petasos_tls_handshakes_failed_total") == failed + 1);
    }
    assert_eq!(secured.metric("petasos_tls_handshake_timeouts_total"), 0);
}

#[test]
fn unused_connection_with_http2_is_no_malformed_request() {
    let secured = Secured::start(&["a.test"], |plan| plan.listeners[1].http2 = true);
    let trust = secured.trust().offering(b"h2");
    let connect = || Client::secured(secured.address(), "a.test", &trust).unwrap();
    (0..3).for_each(|_| drop(connect()));
    connect().send("PRI * HTTP/2.0\r\n");
    let mut wrong = connect();
    wrong.send("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
    // How the connection ends does not matter.
    let _ = wrong.read_to_end();
    drop(wrong);
    eventually("all are closed", || secured.metric("petasos_connections_open") == 0);
    assert_eq!(secured.metric("petasos_requests_malformed_total"), 1);
}

#[test]
fn slow_handshake_is_cut_after_its_limit() {
    let secured = Secured::start(&["a.test"], |plan| {
        plan.limits.tls_handshake_timeout = Duration::from_millis(50);
    });
    let mut silent = Client::connect(secured.address());
    assert!(silent.is_closed());
    eventually("it is counted", || secured.metric("petasos_tls_handshake_timeouts_total") == 1);
}

#[test]
fn changed_certificate_serves_new_connections_only() {
    let secured = Secured::start(&["a.test"], |_| {});
    let mut old = secured.connect("a.test").unwrap();
    let before = old.handshake().certificate;
    issue(&secured.authority, "a.test", secured.directory.path());
    eventually("the new certificate serves", || {
        secured.connect("a.test").unwrap().handshake().certificate != before
    });
    assert_eq!(old.get("/", &[]).status, 200);
    PemFiles { key: String::new(), ..PemFiles::make() }.write(secured.directory.path(), "a.test");
    eventually("the bad file is reported", || secured.metric("petasos_certificates_refused_total") == 1);
    assert_eq!(secured.connect("a.test").unwrap().get("/", &[]).status, 200);
    assert_eq!(secured.metric("petasos_certificates_replaced_total"), 1);
}

#[test]
fn unusable_certificate_prevents_the_start_and_names_the_file() {
    let origin = Origin::start(|_| Vec::new());
    let mut plan = plan(&origin.url());
    let pair = CertificatePaths { chain: "/none/a.pem".into(), key: "/none/a.key".into() };
    let tls = TlsPlan::of_files(vec![pair]);
    plan.listeners[0].tls = Some(tls);
    let error = BoundEdge::bind(plan, System::of_machine()).err().unwrap().to_string();
    assert_eq!(error, "cannot serve TLS: cannot read /none/a.pem: No such file or directory (os error 2)");
}

/// The status and the target of the redirect of a plain request.
fn redirect(secured: &Secured, request: &str) -> (u16, Option<String>) {
    let mut plain = support::connect(&secured.edge);
    plain.send(request);
    let answer = plain.read();
    (answer.status, answer.field("Location").map(str::to_owned))
}

#[test]
fn plain_requests_are_redirected_to_the_port_with_tls() {
    let except = vec![profiles::Pattern::new("/health*")];
    let secured = Secured::start(&["a.test"], |plan| {
        plan.listeners[0].redirect = Some(RedirectPlan { except: except.clone() });
        plan.trusted_proxies = ["127.0.0.2".parse::<address::Prefix>().unwrap()].into_iter().collect();
    });
    let port = secured.address().port();
    let to = |path: &str| (308, Some(format!("https://a.test:{port}{path}")));
    for (line, expected) in [
        ("GET /a?b=c HTTP/1.1\r\nHost: a.test", to("/a?b=c")),
        ("POST /a HTTP/1.1\r\nHost: a.test:8080\r\nContent-Length: 0", to("/a")),
        ("GET http://a.test/x HTTP/1.1\r\nHost: a.test", to("/x")),
        ("OPTIONS * HTTP/1.1\r\nHost: a.test", to("/")),
        ("GET /health/db?x HTTP/1.1\r\nHost: a.test", (200, None)),
        ("GET /a/health HTTP/1.1\r\nHost: a.test", to("/a/health")),
        ("GET /a HTTP/1.1\r\nHost: a.test\r\nX-Forwarded-Proto: https", to("/a")),
        ("GET / HTTP/1.0", (400, None)),
    ] {
        assert_eq!(redirect(&secured, &format!("{line}\r\n\r\n")), expected, "{line}");
    }
    let mut proxy = Client::connect_from([127, 0, 0, 2], support::address(&secured.edge), 1 << 16);
    assert_eq!(proxy.get("/a", &["X-Forwarded-Proto: https"]).status, 200, "the visitor used https");
    assert_eq!(proxy.get("/a", &["X-Forwarded-Proto: http"]).status, 308);
    assert_eq!(secured.connect("a.test").unwrap().get("/a", &[]).status, 200);
    let redirected = support::connect(&secured.edge).get("/", &[]);
    assert_eq!(support::reason(&redirected), "redirected-to-https");
    assert_eq!(redirected.field("Cache-Control"), Some("no-store"));
}

#[test]
fn transport_security_is_sent_over_https_only() {
    let secured = Secured::start(&["a.test"], |plan| plan.sites[0].hsts_secs = Some(300));
    let field = |response: testkit::Response| response.field("Strict-Transport-Security").map(str::to_owned);
    let mut client = secured.connect("a.test").unwrap();
    for (target, fields) in
        [("/", &[][..]), ("/", &[]), ("/", &["If-None-Match: *"]), ("/x", &["Range: bytes=0-1"])]
    {
        assert_eq!(field(client.get(target, fields)).as_deref(), Some("max-age=300"), "{target} {fields:?}");
    }
    assert_eq!(field(support::connect(&secured.edge).get("/", &[])), None);
    let silent = Secured::start(&["a.test"], |_| {});
    assert_eq!(field(silent.connect("a.test").unwrap().get("/", &[])), None);
}

#[test]
fn bodies_on_disk_are_read_and_sent_through_tls() {
    let store = tempfile::tempdir().unwrap();
    let secured = Secured::start(&["a.test"], |plan| {
        plan.limits.object_bytes_max = 1 << 20;
        plan.disk = Some(DiskPlan {
            directory: store.path().to_owned(),
            bytes_max: 256 << 20,
            power_safe_purges: false,
            state_directory: None,
            runtime_directory: None,
        });
    });
    let mut client = secured.connect("a.test").unwrap();
    assert_eq!(client.get("/large", &[]).status, 200);
    eventually("the page is on the disk", || secured.metric("petasos_disk_written_total") == 1);
    for fields in [&[][..], &["Range: bytes=1000000-2999999"]] {
        let large = client.get("/large", fields);
        assert_eq!(support::reason(&large), "hit-fresh");
        let bytes = if fields.is_empty() { 3 << 20 } else { 2_000_000 };
        assert!(large.complete && large.body.len() == bytes, "{} bytes", large.body.len());
    }
    assert_eq!(secured.metric("petasos_disk_damaged_total"), 0, "it is not taken for damaged");
    assert_eq!(secured.metric("petasos_origin_fetches_total"), 1);
}

#[test]
fn upgraded_connection_is_a_tunnel_inside_tls() {
    let application = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", application.local_addr().unwrap());
    let secured = Secured::start(&["a.test"], |plan| plan.sites[0].origin = url.parse().unwrap());
    let answering = thread::spawn(move || {
        use std::io::{Read as _, Write as _};
        let (mut stream, _) = application.accept().unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            head.extend(byte);
        }
        let switch = "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n";
        stream.write_all(switch.as_bytes()).unwrap();
        // More than the buffers of the socket and of TLS hold.
        stream.write_all(&vec![b'd'; 8 << 20]).unwrap();
        let mut up = vec![0; 1 << 20];
        stream.read_exact(&mut up).unwrap();
        up
    });
    let mut client = secured.connect("a.test").unwrap();
    client.send("GET /ws HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n");
    assert_eq!(client.read_head().status, 101);
    assert_eq!(client.read_octets(8 << 20), vec![b'd'; 8 << 20]);
    client.send(vec![b'u'; 1 << 20]);
    assert_eq!(answering.join().unwrap(), vec![b'u'; 1 << 20]);
}

#[test]
fn drain_serves_clients_whose_handshake_is_under_way() {
    let secured = Secured::start(&["a.test"], |_| {});
    let mut idle = secured.connect("a.test").unwrap();
    assert_eq!(idle.get("/", &[]).status, 200);
    let mut late = secured.connect("a.test").unwrap();
    let mut silent = Client::connect(secured.address());
    eventually("all are accepted", || secured.metric("petasos_connections_open") == 3);
    secured.edge.stop();
    assert!(idle.read_to_end(), "TLS says that this is the end");
    let served = late.get("/", &[]);
    assert_eq!((served.status, served.field("Connection")), (200, Some("close")));
    assert!(silent.is_closed(), "it does not hold up the drain");
}

#[test]
fn truncated_response_is_no_end_of_tls() {
    let origin = Origin::start(|_| {
        let head = "HTTP/1.0 200 OK\r\nContent-Length: 100\r\n\r\nshort";
        vec![testkit::Action::Send(head.as_bytes().to_vec()), testkit::Action::Close]
    });
    let secured = Secured::start(&["a.test"], |plan| plan.sites[0].origin = origin.url().parse().unwrap());
    let mut client = secured.connect("a.test").unwrap();
    client.send("GET / HTTP/1.0\r\nHost: a.test\r\n\r\n");
    let mut answer = client.read_head();
    assert!(!client.read_body(&mut answer), "{} bytes", answer.body.len());
}

#[test]
fn tls_agrees_on_http2_for_the_hosts_of_its_certificate() {
    let secured = Secured::start(&["a.test", "b.test"], |plan| plan.listeners[1].http2 = true);
    let mut client = Http2Client::secured(secured.address(), "a.test", &secured.trust()).unwrap();
    let first = client.get("/", &[]);
    assert_eq!((first.text(), support::reason(&first)), ("https", "miss-absent"));
    client.call_host("b.test");
    let other = client.get("/", &[]);
    assert_eq!((other.status, support::reason(&other)), (421, "misdirected"));
    client.call_host("a.test");
    assert_eq!(support::reason(&client.get("/", &[])), "hit-fresh");
    let mut client = Http2Client::secured(secured.address(), "b.test", &secured.trust()).unwrap();
    assert_eq!(client.get("/large", &[]).body.len(), 3 << 20);
    // Clients without HTTP/2 are served as before.
    assert_eq!(secured.connect("a.test").unwrap().get("/", &[]).text(), "https");
    assert_eq!(secured.metric("petasos_http2_connections_total"), 2);
}

#[test]
fn encrypted_bytes_count_until_http2_clients_take_them() {
    let secured = Secured::start(&["a.test"], |plan| plan.listeners[1].http2 = true);
    // The responses below are hits, which no buffer holds.
    let mut first = Http2Client::secured(secured.address(), "a.test", &secured.trust()).unwrap();
    assert_eq!(first.get("/large", &[]).body.len(), 3 << 20);
    eventually("nothing is buffered", || secured.metric("petasos_buffered_bytes") == 0);
    let trust = secured.trust().offering(b"h2");
    let mut client = Client::secured(secured.address(), "a.test", &trust).unwrap();
    let get = [(":method", "GET"), (":scheme", "https"), (":authority", "a.test"), (":path", "/large")];
    // Settings and an update that open all windows.
    let windows = [Http2Frame::new(4, 0, [0, 4, 127, 255, 255, 255]), Http2Frame::new(8, 0, [127, 0, 0, 0])];
    let requests = (0..20).map(|number| Http2Frame::request(2 * number + 1, &get));
    let frames: Vec<u8> = windows.into_iter().chain(requests).flat_map(|frame| frame.octets()).collect();
    client.send([b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &frames[..]].concat());
    eventually("a client that reads nothing occupies the budget", || {
        secured.metric("petasos_buffered_bytes") > 64 * 1024
    });
    drop(client);
    eventually("its bytes are given back", || secured.metric("petasos_buffered_bytes") == 0);
}

#[test]
fn http2_is_not_offered_where_the_listener_has_none() {
    let secured = Secured::start(&["a.test"], |_| {});
    assert!(Http2Client::secured(secured.address(), "a.test", &secured.trust()).is_err());
}
