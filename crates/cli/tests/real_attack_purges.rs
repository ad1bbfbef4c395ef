//! Visitors who try to purge through proxies on the same machine that add no fields to a request.
//! The proxies are nginx with a plain `proxy_pass` and with the block of docs/static-tree.md, and
//! HAProxy in both modes. To the edge, each visitor looks like a client on loopback. With the token
//! the same requests are obeyed, so the edge understands each of them as a purge.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]
#![allow(clippy::print_stdout, reason = "the figures of the attack are its result")]

use std::net::SocketAddr;
use testkit::web_server::{HaProxy, ServerKind, WebServer};
use testkit::{Client, Edge, Origin, Response, get, petasos, response};

/// Number of an anonymous visitor's purges that may be obeyed.
const OBEYED_MOST: f64 = 0.0;

/// A purge: method, target, and the header fields that identify its dialect.
type PurgeAttempt = (&'static str, &'static str, &'static [&'static str]);

const ATTEMPTS: &[PurgeAttempt] = &[
    ("PURGE", "/page", &[]),
    ("PURGE", "http://a.test/page", &[]),
    ("PURGE", "/purge/page", &[]),
    ("PURGE", "/*", &[]),
    ("PURGE", "/.*", &["X-Purge-Method: regex"]),
    ("PURGE", "/.*", &["X-VC-Purge-Method: regex"]),
    ("PURGE", "/page", &["Fastly-Soft-Purge: 1"]),
    ("PURGE", "/page", &["X-Purge: invalidate"]),
    ("PURGE", "/page", &["Petasos-Refill: 1"]),
    ("PURGE", "/", &["Clear-Cache: true"]),
    ("PURGE", "/", &["X-Varnish-Purge-All: 1"]),
    ("BAN", "/", &["Varnish-Ban-All: 1"]),
    ("BAN", "/site", &["X-Acquia-Purge: a"]),
    ("BAN", "/", &["X-Host: .*", "X-Url: .*", "X-Content-Type: .*"]),
    ("BAN", "/page", &[]),
    ("URIBAN", "/page", &[]),
    ("REFRESH", "/page", &[]),
    ("PURGE", "/", &["Cache-Tags: all"]),
    ("BAN", "/", &["Purge-Cache-Tags: all"]),
    ("BAN", "/", &["X-Acquia-Purge-Tags: all"]),
    ("BAN", "/", &["X-Cache-Tags: all"]),
    ("PURGE", "/", &["X-Cache-Tags-Pattern: all"]),
    ("PURGE", "/", &["X-Magento-Tags-Pattern: all"]),
    ("PURGE", "/", &["Cache-Tag: all"]),
    ("PURGE", "/", &["Edge-Cache-Tag: all"]),
    ("PURGE", "/", &["Surrogate-Key: all"]),
    ("PURGEKEYS", "/", &["xkey-purge: all"]),
    ("PURGEKEYS", "/", &["xkey-softpurge: all"]),
    ("PURGETAGS", "/", &["X-Cache-Tags: all"]),
    ("BAN", "/", &["Varnish-Ban-TYPO3-Tag: all"]),
    ("GET", "/page", &["X-Refresh: 1"]),
    ("HEAD", "/page", &["X-Refresh: 1"]),
];

/// Requests to paths of the admin address. At the address for visitors they have no meaning.
const CALLS: &[(&str, &str)] = &[
    ("/purge", r#"{"type": "all"}"#),
    ("/service/any/purge_all", ""),
    ("/service/any/purge/all", ""),
    ("/zones/any/purge_cache", r#"{"purge_everything": true}"#),
];

fn site() -> Origin {
    Origin::start(|_| response("200 OK", &["Cache-Control: s-maxage=600", "Surrogate-Key: all"], b"page"))
}

fn ask(address: SocketAddr, (method, target, fields): PurgeAttempt, more: &str) -> Response {
    let lines: String = fields.iter().map(|field| format!("{field}\r\n")).collect();
    let mut client = Client::connect(address);
    client.send(format!("{method} {target} HTTP/1.1\r\nHost: a.test\r\n{more}{lines}\r\n"));
    if method == "HEAD" { client.read_head() } else { client.read() }
}

fn is_stored(address: SocketAddr) -> bool {
    get(address, "/page", &[]).field("Cache-Status").is_some_and(|status| status.contains("hit-fresh"))
}

/// Tries every purge as a visitor at the address `front`, and checks that the edge obeys none.
fn attack(name: &str, edge: &Edge, front: SocketAddr) {
    let before = edge.metric("petasos_purges_total", "");
    let refused = edge.metric("petasos_purges_forbidden_total", "");
    get(front, "/page", &[]);
    assert!(is_stored(front), "{name}");
    for &attempt in ATTEMPTS {
        for more in ["", "Connection: X-Forwarded-For, Via\r\n", "Authorization: Bearer wrong\r\n"] {
            let answer = ask(front, attempt, more);
            let status = answer.status;
            let method = attempt.0;
            let expected = if matches!(method, "GET" | "HEAD") { 200 } else { 403 };
            assert_eq!(status, expected, "{name}: {attempt:?} {more:?}: {}", answer.text());
            assert!(is_stored(front), "{name}: {attempt:?} {more:?} has removed the page");
        }
    }
    for (target, content) in CALLS {
        let mut client = Client::connect(front);
        let length = content.len();
        client.send(format!(
            "POST {target} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n{content}"
        ));
        client.read();
        assert!(is_stored(front), "{name}: {target} has removed the page");
    }
    let obeyed = edge.metric("petasos_purges_total", "") - before;
    let tried = 3 * ATTEMPTS.len() + CALLS.len();
    println!("attack: purge through {name}: {obeyed} of {tried} obeyed, at most {OBEYED_MOST}");
    assert!(obeyed <= OBEYED_MOST, "{name}");
    let purges = ATTEMPTS.iter().filter(|(method, ..)| !matches!(*method, "GET" | "HEAD")).count();
    let counted = edge.metric("petasos_purges_forbidden_total", "") - refused;
    assert_eq!(counted, (3 * purges) as f64, "{name}: refusals are counted");
}

/// Sends the same purges with the token, and checks that the edge obeys each.
fn obeys_the_token(name: &str, edge: &Edge, front: SocketAddr) {
    // A HEAD with X-Refresh is an ordinary request for every client.
    for &attempt in ATTEMPTS.iter().filter(|(method, ..)| *method != "HEAD") {
        get(front, "/page", &[]);
        assert!(is_stored(front), "{name}: before {attempt:?}");
        let before = edge.metric("petasos_purges_total", "");
        let answer = ask(front, attempt, "Authorization: Bearer open-sesame\r\n");
        assert_eq!(answer.status, 200, "{name}: {attempt:?}: {}", answer.text());
        assert_eq!(edge.metric("petasos_purges_total", "") - before, 1.0, "{name}: {attempt:?}");
    }
}

/// Starts an edge for each configuration, with the proxy that `front` creates before it, and
/// attacks it.
fn behind<F>(name: &str, front: impl Fn(SocketAddr) -> (F, SocketAddr)) {
    let origin = site();
    let directory = tempfile::tempdir().unwrap();
    let token = directory.path().join("token");
    std::fs::write(&token, "open-sesame\n").unwrap();
    let with_token = format!("token_file = '{}'\n", token.display());
    for configuration in
        ["", "trusted_proxies = ['127.0.0.0/8']\n", "purge_peers = ['192.0.2.7']\n", &with_token]
    {
        let edge = Edge::as_shipped(&origin.url(), configuration);
        let (_proxy, address) = front(edge.address);
        attack(name, &edge, address);
        if configuration == with_token {
            obeys_the_token(name, &edge, address);
        } else {
            let admin = edge.admin.to_string();
            let output = petasos(["purge", "--all", "--admin", &admin]);
            assert_eq!(output.code, Some(0), "the command still may: {}", output.stderr);
        }
    }
}

fn nginx(location: &str) -> impl Fn(SocketAddr) -> (WebServer, SocketAddr) {
    move |edge| {
        let server =
            WebServer::start(ServerKind::Nginx, &location.replace("127.0.0.1:8080", &edge.to_string()));
        let address = server.address;
        (server, address)
    }
}

fn haproxy(mode: &str) -> impl Fn(SocketAddr) -> (HaProxy, SocketAddr) {
    move |edge| {
        let proxy = HaProxy::start(mode, edge);
        let address = proxy.address;
        (proxy, address)
    }
}

#[test]
fn nothing_is_purged_through_plain_nginx() {
    behind("nginx", nginx("location / { proxy_pass http://127.0.0.1:8080; }"));
}

#[test]
fn nothing_is_purged_through_the_documented_nginx_block() {
    let page = include_str!("../../../docs/static-tree.md");
    let block = page.lines().find(|line| line.contains("proxy_pass")).unwrap();
    behind("nginx of docs/static-tree.md", nginx(block));
}

#[test]
fn nothing_is_purged_through_haproxy_that_forwards_connections() {
    behind("haproxy (tcp)", haproxy("tcp"));
}

#[test]
fn nothing_is_purged_through_haproxy_that_forwards_requests() {
    behind("haproxy (http)", haproxy("http"));
}

/// An application that cannot send a token may be listed by address. This is safe with a proxy at
/// the same address if the proxy marks the requests it forwards.
#[test]
fn nothing_is_purged_through_a_listed_proxy_that_marks() {
    let origin = site();
    let edge = Edge::as_shipped(&origin.url(), "purge_peers = ['127.0.0.1']\n");
    let marks = "proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;";
    let (_nginx, address) =
        nginx(&format!("location / {{ proxy_pass http://127.0.0.1:8080; {marks} }}"))(edge.address);
    attack("nginx that adds X-Forwarded-For, listed", &edge, address);
    let (_haproxy, address) = haproxy("http\noption forwardfor")(edge.address);
    attack("haproxy with forwardfor, listed", &edge, address);
    assert_eq!(ask(edge.address, ("PURGE", "/page", &[]), "").status, 200, "the application itself may");
}

#[test]
fn nothing_is_purged_by_a_visitor_on_loopback() {
    behind("loopback alone", |edge| ((), edge));
}
