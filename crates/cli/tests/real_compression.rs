//! Bytes on the wire with and without Petasos in front of an nginx with Debian's default `gzip on`.
//! This nginx compresses text/html for HTTP/1.1 clients whose request has no Via.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::net::SocketAddr;
use testkit::web_server::Nginx;
use testkit::{Edge, Response, eventually, get};

const BROWSER: &str = "Accept-Encoding: gzip, deflate, br, zstd";

/// A page of the same size as a content system's start page.
fn page() -> String {
    let rows: String =
        (0..900).map(|row| format!("<p class=\"entry\">Entry {row} of the list</p>\n")).collect();
    format!("<!doctype html><title>start</title>\n{rows}")
}

/// Debian's nginx with the page, which caches may store for a minute.
fn nginx() -> Nginx {
    let nginx = Nginx::start("gzip on;\nexpires 1m;\ndefault_type text/html;\n");
    std::fs::write(nginx.root().join("start"), page()).unwrap();
    nginx
}

fn coding_and_bytes(response: &Response) -> (Option<&str>, usize) {
    (response.field("Content-Encoding"), response.body.len())
}

#[test]
fn browser_gets_the_same_compressed_bytes_through_petasos() {
    let nginx = nginx();
    let address = SocketAddr::from(([127, 0, 0, 1], nginx.http1_port));
    let direct = get(address, "/start", &[BROWSER]);
    assert_eq!(direct.field("Content-Encoding"), Some("gzip"));
    let edge = Edge::configured(&format!("http://{address}"), "via_to_origin = false\n", &[]);
    for reason in ["miss-absent", "hit-fresh", "hit-fresh"] {
        let answer = get(edge.address, "/start", &[BROWSER]);
        assert_eq!(coding_and_bytes(&answer), coding_and_bytes(&direct), "{}", answer.head);
        assert!(answer.head.contains(reason), "{}", answer.head);
    }
    for fields in [&[][..], &["Accept-Encoding: identity"]] {
        let plain = get(edge.address, "/start", fields);
        assert_eq!((plain.text(), plain.field("Content-Encoding")), (&page()[..], None));
        assert!(plain.head.contains("hit-fresh"), "{}", plain.head);
    }
    println!(
        "bytes: {} without Petasos, {} through it, {} for a client without gzip",
        direct.body.len(),
        get(edge.address, "/start", &[BROWSER]).body.len(),
        page().len()
    );
}

#[test]
fn page_left_uncompressed_because_of_via_is_reported_once() {
    let nginx = nginx();
    let origin = format!("http://127.0.0.1:{}", nginx.http1_port);
    let mut edge = Edge::configured(&origin, "", &[]);
    for field in [BROWSER, "Accept-Encoding: identity", BROWSER] {
        let answer = get(edge.address, "/start", &[field]);
        assert_eq!(
            coding_and_bytes(&answer),
            (None, page().len()),
            "Debian's nginx compresses in spite of Via"
        );
    }
    eventually("the page is counted", || edge.metric("petasos_uncompressed_sites", "") == 1.0);
    edge.signal("TERM");
    assert_eq!(edge.wait(), Some(0));
    let said = edge.stderr();
    let lines: Vec<&str> = said.lines().filter(|line| line.contains("without compression")).collect();
    assert_eq!(lines.len(), 1, "{said}");
    assert!(lines[0].contains("via_to_origin = false") && lines[0].contains("/start"), "{said}");
}
