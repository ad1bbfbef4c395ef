//! Which responses the real binary shares: cache keys, cookies, credentials, variants, forwarding.

use testkit::{Client, Edge, Origin, get, response};

const SHARED: &str = "Cache-Control: max-age=60";

/// An origin that answers every request with a shareable body that names the request's target and
/// host.
fn mirror() -> Origin {
    Origin::start(|seen| {
        let host = seen.field("Host").unwrap_or("none");
        response("200 OK", &[SHARED], format!("{} at {host}", seen.target()).as_bytes())
    })
}

#[test]
fn second_request_is_a_hit_in_cache_status() {
    let origin = mirror();
    let edge = Edge::start(&origin.url(), &[]);
    let first = get(edge.address, "/page", &[]);
    let second = get(edge.address, "/page", &[]);
    assert_eq!(first.body, second.body);
    assert_eq!(origin.count("/page"), 1);
    assert!(first.field("Cache-Status").unwrap().contains("fwd="), "{}", first.head);
    assert!(second.field("Cache-Status").unwrap().contains("; hit"), "{}", second.head);
    assert!(second.field("Age").unwrap().parse::<u64>().is_ok());
    assert!(second.field("Via").is_some() && second.field("Date").is_some());
}

#[test]
fn two_hosts_never_share() {
    let origin = mirror();
    let edge = Edge::start(&origin.url(), &[]);
    for host in ["a.test", "b.test", "a.test", "b.test"] {
        let mut client = Client::connect(edge.address);
        client.send(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        assert_eq!(client.read().text(), format!("/ at {host}"));
    }
    assert_eq!(origin.seen().len(), 2);
}

#[test]
fn requests_with_cookies_or_credentials_are_not_shared() {
    let origin = Origin::start(|seen| {
        let who = seen.field("Cookie").or_else(|| seen.field("Authorization")).unwrap_or("anonymous");
        response("200 OK", &[SHARED], who.as_bytes())
    });
    let edge = Edge::start(&origin.url(), &[]);
    assert_eq!(get(edge.address, "/", &[]).text(), "anonymous");
    assert_eq!(get(edge.address, "/", &["Cookie: session=alice"]).text(), "session=alice");
    assert_eq!(get(edge.address, "/", &["Cookie: session=bob"]).text(), "session=bob");
    assert_eq!(get(edge.address, "/", &["Authorization: Basic YTpi"]).text(), "Basic YTpi");
    assert_eq!(get(edge.address, "/", &[]).text(), "anonymous");
    assert_eq!(origin.seen().len(), 4);
}

#[test]
fn response_that_sets_a_cookie_is_not_shared() {
    let origin = Origin::start(|_| response("200 OK", &[SHARED, "Set-Cookie: id=1"], b"x"));
    let edge = Edge::start(&origin.url(), &["--ttl", "1m"]);
    for _ in 0..2 {
        assert!(get(edge.address, "/", &[]).field("Set-Cookie").is_some());
    }
    assert_eq!(origin.count("/"), 2);
}

#[test]
fn variants_are_kept_apart() {
    let origin = Origin::start(|seen| {
        let language = seen.field("Accept-Language").unwrap_or("none").to_owned();
        response("200 OK", &[SHARED, "Vary: Accept-Language"], language.as_bytes())
    });
    let edge = Edge::start(&origin.url(), &[]);
    let ask = || {
        for language in ["de", "en"] {
            assert_eq!(get(edge.address, "/", &[&format!("Accept-Language: {language}")]).text(), language);
        }
        origin.count("/")
    };
    // The first fetch carries no language, because the edge does not know yet that the page varies
    // by it.
    assert_eq!(ask(), 3);
    assert_eq!(ask(), 3, "a stored variant was fetched again");
}

#[test]
fn forged_forwarding_fields_never_reach_the_origin() {
    let origin = Origin::start(|_| response("200 OK", &["Cache-Control: no-store"], b"x"));
    let edge = Edge::start(&origin.url(), &[]);
    let forged = [
        "X-Forwarded-For: 6.6.6.6",
        "X-Forwarded-Host: evil.test",
        "X-Forwarded-Proto: https",
        "X-Original-URL: /admin",
        "X-Rewrite-URL: /admin",
        "Forwarded: for=6.6.6.6",
    ];
    get(edge.address, "/shared", &forged);
    let mut alone = forged.to_vec();
    alone.push("Cookie: session=1");
    get(edge.address, "/alone", &alone);
    let seen = origin.seen();
    // The client's address is in no cache key, so a fetch whose response may be shared carries a
    // constant address instead.
    for (seen, address) in seen.iter().zip([Some("192.0.2.1"), Some("127.0.0.1")]) {
        assert_eq!(seen.field("Host"), Some("example.test"));
        assert_eq!(seen.field("X-Forwarded-For"), address);
        assert_eq!(seen.field("X-Forwarded-Host"), Some("example.test"));
        assert_eq!(seen.field("X-Forwarded-Proto"), Some("http"));
        for gone in ["X-Original-URL", "X-Rewrite-URL", "Forwarded"] {
            assert_eq!(seen.field(gone), None, "{gone}");
        }
    }
}

#[test]
fn configured_host_and_scheme_reach_the_origin() {
    let origin = Origin::start(|_| response("200 OK", &[SHARED], b"x"));
    let edge = Edge::start(&origin.url(), &["--host", "shop.test", "--proto", "https"]);
    get(edge.address, "/", &[]);
    let seen = &origin.seen()[0];
    assert_eq!((seen.field("Host"), seen.field("X-Forwarded-Proto")), (Some("shop.test"), Some("https")));
}

#[test]
fn default_ttl_applies_only_to_cacheable_plain_responses() {
    let origin = Origin::start(|seen| match seen.target() {
        "/teapot" => response("418 I'm a teapot", &[], b"tea"),
        "/private" => response("200 OK", &["Cache-Control: private"], b"p"),
        "/gone" => response("404 Not Found", &[], b"gone"),
        _ => response("200 OK", &[], b"plain"),
    });
    let edge = Edge::start(&origin.url(), &["--ttl", "1m"]);
    for target in ["/teapot", "/private", "/gone", "/plain"] {
        get(edge.address, target, &[]);
        get(edge.address, target, &[]);
    }
    let counts = ["/teapot", "/private", "/gone", "/plain"].map(|target| origin.count(target));
    assert_eq!(counts, [2, 2, 1, 1]);
}

#[test]
fn page_without_lifetime_is_not_stored_without_default_ttl() {
    let origin = Origin::start(|_| response("200 OK", &[], b"plain"));
    let edge = Edge::start(&origin.url(), &[]);
    get(edge.address, "/", &[]);
    get(edge.address, "/", &[]);
    assert_eq!(origin.count("/"), 2);
}

#[test]
fn stored_page_answers_head_and_conditional_requests() {
    let origin = Origin::start(|_| response("200 OK", &[SHARED, "ETag: \"v1\""], b"page"));
    let edge = Edge::start(&origin.url(), &[]);
    get(edge.address, "/", &[]);
    assert_eq!(get(edge.address, "/", &["If-None-Match: \"v1\""]).status, 304);
    assert_eq!(get(edge.address, "/", &["If-None-Match: \"v2\""]).status, 200);
    let mut client = Client::connect(edge.address);
    client.send("HEAD / HTTP/1.1\r\nHost: example.test\r\n\r\n");
    assert_eq!(client.read_head().field("Content-Length"), Some("4"));
    assert_eq!(client.get("/", &[]).text(), "page");
    assert_eq!(origin.seen().len(), 1);
}

#[test]
fn every_method_passes_with_its_content() {
    let origin = Origin::start(|seen| response("200 OK", &[SHARED], &seen.body));
    let edge = Edge::start(&origin.url(), &[]);
    let mut client = Client::connect(edge.address);
    for method in ["POST", "PUT", "PATCH", "DELETE", "PROPFIND"] {
        client.send(format!("{method} /x HTTP/1.1\r\nHost: example.test\r\nContent-Length: 4\r\n\r\nbody"));
        assert_eq!(client.read().text(), "body", "{method}");
    }
    client.send(
        "POST /x HTTP/1.1\r\nHost: example.test\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    );
    let response = client.read();
    assert_eq!(response.status, 200);
    assert_eq!(origin.seen().len(), 6, "an answer to an unsafe method was shared");
}

#[test]
fn ambiguous_requests_are_refused_and_the_connection_closed() {
    let origin = mirror();
    let edge = Edge::start(&origin.url(), &[]);
    let ambiguous = [
        (
            400,
            "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        ),
        (400, "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\nabcd"),
        (400, "POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n"),
        (400, "GET / HTTP/1.1\r\nHost: a.test\r\nHost: b.test\r\n\r\n"),
        (400, "GET / HTTP/1.1\r\n\r\n"),
        (400, "GET / HTTP/1.1\nHost: a.test\n\n"),
        (400, "GET / HTTP/1.1\r\nHost: a.test\r\nX : y\r\n\r\n"),
        // The text after the second space is not a version.
        (400, "GET /a b HTTP/1.1\r\nHost: a.test\r\n\r\n"),
    ];
    for (status, request) in ambiguous {
        let mut client = Client::connect(edge.address);
        client.send(request);
        assert_eq!(client.read().status, status, "{request:?}");
        assert!(client.is_closed(), "{request:?}");
    }
    assert!(origin.seen().is_empty());
}
