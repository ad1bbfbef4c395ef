//! The server: connections, limits, the operator's pages, and the data directory.

use crate::browser::{LAYERS, Running, options, start};
use petasos_demo::{Options, Site};
use platform::{ManualClock, SystemClock, Timestamp};
use std::sync::Arc;
use std::time::Duration;
use testkit::Client;

#[test]
fn a_connection_serves_many_requests_or_one() {
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
fn idle_connections_hold_no_worker() {
    let site = Running::with_workers(1);
    let mut idle: Vec<Client> = (0..20).map(|_| Client::connect(site.address())).collect();
    for client in &mut idle {
        assert_eq!(client.get("/robots.txt", &[]).status, 200);
    }
    // Half a request holds none either.
    idle[0].send("GET /robots.txt HTT");
    assert_eq!(site.visitor().get("/robots.txt").status, 200);
    idle[0].send("P/1.1\r\nHost: x\r\n\r\n");
    assert_eq!(idle[0].read().status, 200);
}

#[test]
fn who_takes_too_long_is_told_so_and_who_says_nothing_is_dropped() {
    let data = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::at(Timestamp::from_secs(1_900_000_000)));
    let site = Site::start(&options(data.path(), 1), clock.clone()).unwrap();
    let (mut idle, mut slow) = (Client::connect(site.address()), Client::connect(site.address()));
    assert_eq!(idle.get("/robots.txt", &[]).status, 200);
    slow.send("GET /robots.txt HT");
    // Answered after the slow client's octets were read, so both are known to be waiting.
    assert_eq!(Client::connect(site.address()).get("/robots.txt", &[]).status, 200);
    clock.advance(Duration::from_secs(60));
    assert_eq!(slow.read().status, 408);
    assert!(idle.is_closed() && slow.is_closed());
    site.stop();
}

#[test]
fn requests_sent_in_one_go_are_answered_in_order() {
    let site = Running::start();
    let mut client = Client::connect(site.address());
    client.send("GET /robots.txt HTTP/1.1\r\nHost: x\r\n\r\nGET /glossary HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(client.read().text().starts_with("User-agent"));
    assert!(client.read().text().contains("<dl>"));
}

#[test]
fn what_is_no_request_is_refused() {
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
fn content_may_come_in_pieces_and_chunks() {
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
fn the_operators_pages_are_for_this_machine_and_this_site() {
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
fn a_flush_leaves_nothing_in_memory() {
    let site = Running::start();
    site.switch(LAYERS[4]);
    site.visitor().get("/");
    assert!(site.counter("entries") > 10);
    site.visitor().send("POST", "/_flush", &[], "");
    assert_eq!((site.counter("entries"), site.counter("bytes")), (0, 0));
}

#[test]
fn a_switched_off_layer_does_not_come_back_with_old_pages() {
    let site = Running::start();
    let target = site.visitor().get("/node/7").field("Location").unwrap().to_owned();
    site.switch(LAYERS[3]);
    site.visitor().get(&target);
    // While pages are kept in memory, a comment must also clear the page in the database.
    site.visitor().send("POST", &format!("/_switch?{}", LAYERS[4]), &[], "");
    site.visitor().submit(&target, "comment", &[("comment", "Between two layers")]);
    site.visitor().send("POST", &format!("/_switch?{}", LAYERS[3]), &[], "");
    assert!(site.visitor().get(&target).text().contains("Between two layers"));
}

#[test]
fn one_directory_serves_one_site_and_is_used_again() {
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
    // A database of another version is built anew.
    std::fs::write(data.path().join("site.db"), "not a database").unwrap();
    let third = again().unwrap();
    writer.address = third.address();
    assert!(!writer.get(&target).text().contains(comment));
    third.stop();
}

#[test]
fn workers_have_a_range() {
    let data = tempfile::tempdir().unwrap();
    for workers in [0, Options::WORKERS_MAX + 1] {
        assert!(
            Site::start(&options(data.path(), workers), Arc::new(SystemClock::new())).is_err(),
            "{workers}"
        );
    }
}
