//! Listeners behind a proxy that speaks the PROXY protocol.

use crate::support::{self, plan};
use address::Prefix;
use config::EdgePlan;
use petasos_edge::RunningEdge;
use testkit::{Client, Origin, response};

/// An edge that expects a header from the proxy 127.0.0.2.
fn edge(alter: impl FnOnce(&mut EdgePlan)) -> (RunningEdge, Origin) {
    let origin = Origin::start(|seen| {
        let client = seen.field("X-Forwarded-For").unwrap_or("none").to_owned();
        let proto = seen.field("X-Forwarded-Proto").unwrap_or("none").to_owned();
        response("200 OK", &["Cache-Control: private"], format!("{client} {proto}").as_bytes())
    });
    let mut plan = plan(&origin.url());
    plan.listeners[0].proxy_protocol = prefixes("127.0.0.2");
    plan.purge_peers = prefixes("192.0.2.9");
    alter(&mut plan);
    (support::start(plan), origin)
}

fn prefixes(text: &str) -> address::Prefixes {
    std::iter::once(text.parse::<Prefix>().unwrap()).collect()
}

/// A connection of the proxy.
fn proxy(edge: &RunningEdge) -> Client {
    Client::connect_from([127, 0, 0, 2], support::address(edge), 1 << 16)
}

const PASSED: &str = "GET / HTTP/1.1\r\nHost: a.test\r\nCookie: session=1\r\n\r\n";

/// A binary header for 192.0.2.9:5, secured or not.
fn binary(is_secured: bool) -> Vec<u8> {
    let tls = [0x20, 0, 5, u8::from(is_secured), 0, 0, 0, 0];
    let addresses = [192, 0, 2, 9, 10, 0, 0, 1, 0, 5, 1, 187];
    [&b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x14"[..], &addresses, &tls].concat()
}

#[test]
fn client_of_the_header_is_the_peer() {
    let (edge, _origin) = edge(|_| {});
    for (header, expected) in [
        (b"PROXY TCP4 192.0.2.7 10.0.0.1 5 80\r\n".to_vec(), "192.0.2.7 http"),
        (b"PROXY TCP6 2001:db8::7 ::1 5 80\r\n".to_vec(), "2001:db8::7 http"),
        (b"PROXY TCP6 ::ffff:192.0.2.8 ::1 5 80\r\n".to_vec(), "192.0.2.8 http"),
        (b"PROXY UNKNOWN\r\n".to_vec(), "192.0.2.1 http"),
        (binary(false), "192.0.2.9 http"),
        (binary(true), "192.0.2.9 https"),
    ] {
        let mut client = proxy(&edge);
        client.send([&header[..], PASSED.as_bytes(), PASSED.as_bytes()].concat());
        assert_eq!((client.read().text(), client.read().text()), (expected, expected), "{header:?}");
    }
}

#[test]
fn proxy_without_a_header_is_closed_and_others_need_none() {
    let (edge, origin) =
        edge(|plan| plan.limits.request_head_timeout = std::time::Duration::from_millis(100));
    let mut silent = proxy(&edge);
    let mut wrong = proxy(&edge);
    wrong.send(PASSED);
    assert!(wrong.is_closed() && silent.is_closed());
    assert_eq!(origin.seen().len(), 0);
    assert_eq!(support::metric(&edge, "petasos_proxy_headers_failed_total", ""), 1);
    assert_eq!(support::metric(&edge, "petasos_visitor_timeouts_total", ""), 1);

    let mut other = support::connect(&edge);
    other.send(PASSED);
    assert_eq!(other.read().text(), "127.0.0.1 http");
    let mut forger = support::connect(&edge);
    forger.send(format!("PROXY TCP4 192.0.2.9 10.0.0.1 5 80\r\n{PASSED}"));
    assert_eq!(forger.read().status, 400, "its header is a malformed request");
}

#[test]
fn purges_follow_the_address_in_the_header() {
    let (edge, _origin) = edge(|_| {});
    let purge = "PURGE / HTTP/1.1\r\nHost: a.test\r\n\r\n";
    for (header, status) in [
        ("PROXY TCP4 192.0.2.9 10.0.0.1 5 80\r\n", 200),
        ("PROXY TCP4 127.0.0.1 10.0.0.1 5 80\r\n", 403),
        ("PROXY UNKNOWN\r\n", 403),
    ] {
        let mut client = proxy(&edge);
        client.send(format!("{header}{purge}"));
        assert_eq!(client.read().status, status, "{header}");
    }
}

#[test]
fn connections_count_for_the_client_and_not_for_the_proxy() {
    let (edge, _origin) = edge(|plan| plan.limits.connections_per_address_max = 2);
    let open = |client: &str| {
        let mut connection = proxy(&edge);
        connection.send(format!("PROXY TCP4 {client} 10.0.0.1 5 80\r\n{PASSED}"));
        connection
    };
    let mut kept: Vec<_> = ["192.0.2.1", "192.0.2.1", "192.0.2.2", "192.0.2.3"].map(open).into();
    assert!(kept.iter_mut().all(|client| client.read().status == 200));
    assert!(open("192.0.2.1").is_closed());
    kept.remove(0);
    testkit::eventually("the place is free again", || {
        open("192.0.2.1").try_read_head().is_some_and(|answer| answer.status == 200)
    });
}

#[test]
fn header_comes_before_the_handshake() {
    let directory = tempfile::tempdir().unwrap();
    let pem = testkit::PemFiles::make();
    let (chain, key) = pem.write(directory.path(), "a");
    let (edge, _origin) = edge(|plan| {
        plan.listeners[0].tls =
            Some(config::TlsPlan::of_files(vec![config::CertificatePaths { chain, key }]));
    });
    let trust = testkit::Trust::of(&pem.authority);
    let header = b"PROXY TCP4 192.0.2.7 10.0.0.1 5 443\r\n";
    let mut client = proxy(&edge).secure_after(header, "localhost", &trust).unwrap();
    client.send(PASSED);
    assert_eq!(client.read().text(), "192.0.2.7 https");
    assert!(proxy(&edge).secure_after(b"", "localhost", &trust).is_err());
}
