//! Tests of the server: connections, limits, the operator's pages and the data directory.

use crate::browser::{LAYERS, Running, options, start};
use clock::{ManualClock, Timestamp};
use petasos_demo::{Options, Site};
use platform::SystemClock;
use std::sync::Arc;
use std::time::Duration;
use testkit::Client;

#[test]
fn connection_is_kept_or_closed_as_requested() {
    let site = Running::start();
    let mut client = Client::connect(site.address());
    for _ in 0..3 {
        assert_eq!(client.get("/robots.txt", &[]).status, 200);
    }
    let last = client.get("/robots.txt", &["Connection: close"]);
    assert_eq!(last.field("Connection"), Some("close"));
    assert!(client.is_closed());
    let mut old = Client::connect(site.address());
    old.send("GET /robots.txt HTTP/1.0\r\n\r\n");
    assert_eq!(old.read().field("Connection"), Some("close"));
    assert!(old.is_closed());
    let mut kept = Client::connect(site.address());
    kept.send("GET /robots.txt HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    assert_eq!(kept.read().field("Connection"), Some("keep-alive"));
    kept.send("GET /robots.txt HTTP/1.0\r\n\r\n");
    assert_eq!(kept.read().status, 200);
}

#[test]
fn idle_connections_occupy_no_worker() {
    let site = Running::with_workers(1);
    let mut idle: Vec<Client> = (0..20).map(|_| Client::connect(site.address())).collect();
    for client in &mut idle {
        assert_eq!(client.get("/robots.txt", &[]).status, 200);
    }
    // An incomplete request does not occupy a worker either.
    idle[0].send("GET /robots.txt HTT");
    assert_eq!(site.visitor().get("/robots.txt").status, 200);
    idle[0].send("P/1.1\r\nHost: x\r\n\r\n");
    assert_eq!(idle[0].read().status, 200);
}

#[test]
fn slow_request_gets_408_and_idle_connection_is_closed() {
    let data = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::at(Timestamp::from_secs(1_900_000_000)));
    let site = Site::start(&options(data.path(), 1), clock.clone()).unwrap();
    let (mut idle, mut slow) = (Client::connect(site.address()), Client::connect(site.address()));
    assert_eq!(idle.get("/robots.txt", &[]).status, 200);
    slow.send("GET /robots.txt HT");
    // Once this request is answered, the front has read the slow client's bytes, so both clients
    // are known.
    assert_eq!(Client::connect(site.address()).get("/robots.txt", &[]).status, 200);
    clock.advance(Duration::from_secs(60));
    assert_eq!(slow.read().status, 408);
    assert!(idle.is_closed() && slow.is_closed());
    site.stop();
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let site = Running::start();
    let mut client = Client::connect(site.address());
    client.send("GET /robots.txt HTTP/1.1\r\nHost: x\r\n\r\nGET /contact HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(client.read().text().starts_with("User-agent"));
    assert!(client.read().text().contains("name=\"message\""));
}

#[test]
fn invalid_requests_are_refused() {
    let site = Running::start();
    for (octets, status) in [
        ("GARBAGE\r\n\r\n".to_owned(), 400),
        ("GET / HTTP/1.1\r\n\r\n".to_owned(), 400),
        ("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n".to_owned(), 400),
        (format!("GET / HTTP/1.1\r\nHost: x\r\nX: {}\r\n\r\n", "y".repeat(40_000)), 431),
        (format!("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n{}", "y".repeat(100_000)), 413),
        ("DELETE / HTTP/1.1\r\nHost: x\r\n\r\n".to_owned(), 405),
    ] {
        let mut client = Client::connect(site.address());
        client.send(&octets);
        assert_eq!(client.read_head().status, status, "{}", octets.chars().take(30).collect::<String>());
    }
    assert_eq!(site.visitor().get("/robots.txt").status, 200);
}

#[test]
fn content_may_arrive_in_pieces_and_chunks() {
    let site = Running::start();
    let mut client = Client::connect(site.address());
    client.send("POST /search?q=bell HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\na=b\r\n");
    client.send("0\r\n\r\n");
    assert_eq!(client.read().status, 200);
    client.send("POST /search HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n");
    assert_eq!(client.read_head().status, 100);
    client.send("a=b");
    assert_eq!(client.read().status, 200);
}

#[test]
fn operator_pages_refuse_proxied_and_cross_site_requests() {
    let site = Running::start();
    let operator = site.visitor();
    for target in ["/_status", "/_switch", "/_flush"] {
        for field in [
            "X-Forwarded-For: 127.0.0.1",
            "Via: 1.1 edge",
            "Origin: http://evil.test",
            "Sec-Fetch-Site: cross-site",
        ] {
            let method = if target == "/_status" { "GET" } else { "POST" };
            assert_eq!(operator.send(method, target, &[field], "").status, 403, "{target} {field}");
        }
    }
    assert_eq!(operator.get("/_flush").status, 405);
    assert_eq!(operator.send("POST", "/_status", &[], "").status, 405);
    assert_eq!(operator.get("/_other").status, 404);
    for query in ["opcode=maybe", "nothing=on"] {
        assert_eq!(operator.send("POST", &format!("/_switch?{query}"), &[], "").status, 400);
    }
    let status = operator.send("POST", "/_switch?opcode=on&objects=on", &[], "");
    assert!(
        status
            .text()
            .contains(r#""switches":{"aggressive":false,"objects":true,"opcode":true,"page_cache":false}"#)
    );
}

#[test]
fn flush_empties_memory() {
    let site = Running::start();
    site.switch(LAYERS[4]);
    site.visitor().get("/");
    assert!(site.counter("entries") > 10);
    site.visitor().send("POST", "/_flush", &[], "");
    assert_eq!((site.counter("entries"), site.counter("bytes")), (0, 0));
}

#[test]
fn layer_switched_on_again_serves_no_old_pages() {
    let site = Running::start();
    let target = site.visitor().get("/node/7").field("Location").unwrap().to_owned();
    site.switch(LAYERS[3]);
    site.visitor().get(&target);
    // While pages are cached in memory, a comment must also remove the page from the database.
    site.visitor().send("POST", &format!("/_switch?{}", LAYERS[4]), &[], "");
    site.visitor().submit(&target, "comment", &[("comment", "Between two layers")]);
    site.visitor().send("POST", &format!("/_switch?{}", LAYERS[3]), &[], "");
    assert!(site.visitor().get(&target).text().contains("Between two layers"));
}

#[test]
fn directory_is_exclusive_and_reused() {
    let data = tempfile::tempdir().unwrap();
    let first = start(data.path(), 1);
    let options = options(data.path(), 1);
    let again = || Site::start(&options, Arc::new(SystemClock::new()));
    let refused = again().err().unwrap().to_string();
    assert!(refused.contains("another site uses this directory"), "{refused}");
    let comment = "Still here after a restart";
    let mut writer =
        crate::browser::Visitor { address: first.address(), cookies: std::collections::BTreeMap::new() };
    let target = writer.get("/node/9").field("Location").unwrap().to_owned();
    writer.submit(&target, "comment", &[("comment", comment)]);
    first.stop();
    let second = again().unwrap();
    writer.address = second.address();
    assert!(writer.get(&target).text().contains(comment));
    second.stop();
    // A database of another version is rebuilt.
    std::fs::write(data.path().join("site.db"), "not a database").unwrap();
    let third = again().unwrap();
    writer.address = third.address();
    assert!(!writer.get(&target).text().contains(comment));
    third.stop();
}

#[test]
fn number_of_workers_is_limited() {
    let data = tempfile::tempdir().unwrap();
    for workers in [0, Options::WORKERS_MAX + 1] {
        assert!(
            Site::start(&options(data.path(), workers), Arc::new(SystemClock::new())).is_err(),
            "{workers}"
        );
    }
}
