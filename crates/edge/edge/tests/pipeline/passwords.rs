//! Sites and routes that ask for a password (`basic_auth`).

use crate::routes::Routed;
use crate::support::{connect, reason};
use api::why::Question;
use testkit::{Response, eventually};

/// Of the user `ann` with the password `secret`.
const RIGHT: &str = "Authorization: Basic YW5uOnNlY3JldA==\r\n";
/// Of the user `ann` with the password `x`.
const WRONG: &str = "Authorization: Basic YW5uOng=\r\n";

const STAGING: &str = "origin = 'ORIGIN'\n[[site]]\nnames = ['a.test']\nbasic_auth = './passwords'\n\
    basic_auth_realm = 'Staging (ask Ann)'\nresponse.set = ['CDN-Cache-Control: max-age=9', 'X-Site: a']\n\
    [[site.route]]\npath = ['/hook']\nbasic_auth = 'none'\n\
    [[site.route]]\npath = ['/gone']\nanswer.status = 410\n\
    [[site.route]]\npath = ['/moved']\nredirect = 'https://b.test{uri}'\n\
    [[site]]\nnames = ['b.test']\n\
    [[site.route]]\npath = ['/intern/*']\nbasic_auth = './passwords'\n";

/// The fields of a response that speak to caches.
fn told_to_caches(response: &Response) -> Vec<&str> {
    let fields = response.head.lines().filter_map(|line| line.split_once(": "));
    fields
        .filter(|(name, _)| name.to_ascii_lowercase().ends_with("cache-control"))
        .map(|(_, value)| value)
        .collect()
}

#[test]
fn page_is_for_clients_with_the_password() {
    let routed = Routed::new(STAGING);
    // The order matters: a stored page must not change the answer.
    for (fields, status, expected) in [
        ("", 401, "password-required"),
        (WRONG, 401, "password-required"),
        (RIGHT, 200, "miss-absent"),
        (RIGHT, 200, "hit-fresh"),
        ("", 401, "password-required"),
        (WRONG, 401, "password-required"),
        ("Authorization: Bearer YW5uOnNlY3JldA==\r\n", 401, "password-required"),
        (&format!("{RIGHT}{RIGHT}"), 401, "password-required"),
        (&format!("{RIGHT}{WRONG}"), 401, "password-required"),
        (&format!("{WRONG}{RIGHT}"), 401, "password-required"),
        ("Cookie: Authorization=Basic YW5uOnNlY3JldA==\r\n", 401, "password-required"),
        ("X-Forwarded-Host: b.test\r\n", 401, "password-required"),
        ("Cache-Control: only-if-cached\r\n", 401, "password-required"),
        ("If-None-Match: \"1\"\r\n", 401, "password-required"),
        ("Range: bytes=0-1\r\n", 401, "password-required"),
    ] {
        for method in ["HEAD", "GET"] {
            let seen = routed.ask(method, "a.test", "/page", fields);
            let expected =
                if method == "GET" && expected.starts_with("miss") { "hit-fresh" } else { expected };
            assert_eq!((seen.status, reason(&seen)), (status, expected), "{method} {fields}");
            let challenge = seen.field("WWW-Authenticate");
            let asked =
                Some("Basic realm=\"Staging (ask Ann)\", charset=\"UTF-8\"").filter(|_| status == 401);
            assert_eq!(challenge, asked, "{method} {fields}");
            assert_eq!(seen.field("X-Site"), Some("a"));
            assert_eq!(seen.text().contains("main"), status == 200 && method == "GET", "{method} {fields}");
        }
    }
    let seen = routed.main.seen();
    assert!(!seen.is_empty() && seen.iter().all(|seen| seen.field("Authorization").is_none()));
}

#[test]
fn other_methods_need_the_password_too() {
    let routed = Routed::new(STAGING);
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "PATCH", "PROPFIND", "QUERY"] {
        let refused = routed.ask(method, "a.test", "/page", "Content-Length: 0\r\n");
        assert_eq!(refused.status, 401, "{method}");
        let let_through = routed.ask(method, "a.test", "/page", &format!("{RIGHT}Content-Length: 0\r\n"));
        assert_eq!(let_through.status, 200, "{method}");
    }
    let upgrade = "Connection: upgrade\r\nUpgrade: websocket\r\n";
    assert_eq!(routed.ask("GET", "a.test", "/socket", upgrade).status, 401);
    assert_eq!(routed.main.seen().len(), 7);
    // An order has its own permission.
    assert_eq!(reason(&routed.ask("PURGE", "a.test", "/page", "")), "purged");
}

#[test]
fn answers_of_routes_need_the_password_too() {
    let routed = Routed::new(STAGING);
    for (target, status) in [("/gone", 410), ("/moved", 308)] {
        assert_eq!(routed.get("a.test", target).status, 401, "{target}");
        let answer = routed.ask("GET", "a.test", target, RIGHT);
        assert_eq!(answer.status, status, "{target}");
        assert_eq!(told_to_caches(&answer), ["private, no-cache"], "{target}");
    }
    let open = routed.get("a.test", "/hook");
    assert_eq!((open.status, told_to_caches(&open)), (200, vec!["max-age=600", "max-age=600", "max-age=9"]));
}

#[test]
fn route_of_an_open_site_may_need_a_password() {
    let routed = Routed::new(STAGING);
    assert_eq!(routed.get("b.test", "/page").status, 200);
    for target in ["/intern/a", "/INTERN/a", "/%69ntern/a", "/intern/%2e/a", "/intern//a", "/intern/a?b"] {
        for _ in 0..2 {
            let refused = routed.get("b.test", target);
            assert!(matches!(refused.status, 400 | 401), "{target}: {}", refused.status);
            let let_through = routed.ask("GET", "b.test", target, RIGHT);
            assert_eq!(let_through.status == 200, refused.status == 401, "{target}");
        }
    }
    // What one client stored with an open site's permission is not the page of the route.
    for target in ["//intern/a", "/x/../intern/a", "/intern%2fa", "/intern\\a"] {
        assert!(!routed.get("b.test", target).text().contains("main /intern/"), "{target}");
    }
}

#[test]
fn other_caches_do_not_store_protected_responses() {
    let routed = Routed::new(STAGING);
    for (fields, expected) in
        [("", "miss-absent"), ("", "hit-fresh"), ("If-None-Match: \"1\"\r\n", "hit-fresh")]
    {
        let seen = routed.ask("GET", "a.test", "/page", &format!("{RIGHT}{fields}"));
        assert_eq!(reason(&seen), expected);
        assert_eq!(told_to_caches(&seen), ["private, no-cache"], "{expected}");
    }
    let passed = routed.ask("POST", "a.test", "/page", &format!("{RIGHT}Content-Length: 0\r\n"));
    assert_eq!(told_to_caches(&passed), ["private, no-cache"]);
    assert_eq!(told_to_caches(&routed.get("a.test", "/page")), ["private, no-store"]);
}

#[test]
fn visitors_of_a_protected_site_share_its_pages() {
    let routed = Routed::new(STAGING);
    let bob = "Authorization: Basic Ym9iOnNlY3JldA==\r\n";
    assert_eq!(reason(&routed.ask("GET", "a.test", "/page", RIGHT)), "miss-absent");
    assert_eq!(reason(&routed.ask("GET", "a.test", "/page", bob)), "hit-fresh");
    assert_eq!(routed.main.seen().len(), 1);
    // The connection says nothing: each request needs the password.
    let mut client = connect(&routed.edge);
    let request = |fields: &str| format!("GET /page HTTP/1.1\r\nHost: a.test\r\n{fields}\r\n");
    client.send(format!("{}{}{}", request(RIGHT), request(""), request(RIGHT)));
    assert_eq!([client.read(), client.read(), client.read()].map(|seen| seen.status), [200, 401, 200]);
}

#[test]
fn refresh_order_does_not_open_a_protected_page() {
    let routed = Routed::new(STAGING);
    routed.ask("GET", "a.test", "/page", RIGHT);
    let order = "X-Refresh: 1\r\n";
    let refused = routed.ask("GET", "a.test", "/page", order);
    assert!(!refused.text().contains("main"), "{}", refused.text());
    assert_eq!(routed.ask("GET", "a.test", "/page", &format!("{RIGHT}{order}")).status, 200);
    eventually("the page was fetched twice", || routed.main.seen().len() == 2);
}

#[test]
fn why_asks_for_the_password_too() {
    let routed = Routed::new(STAGING);
    routed.ask("GET", "a.test", "/page", RIGHT);
    for (value, expected) in
        [(None, "password-required"), (Some(WRONG), "password-required"), (Some(RIGHT), "hit-fresh")]
    {
        let field = value.and_then(|line| line.trim_end().split_once(": "));
        let headers = field.map(|(name, value)| (name.to_owned(), value.to_owned())).into_iter().collect();
        let question = Question { method: "GET".to_owned(), url: "http://a.test/page".to_owned(), headers };
        let reply = crate::why::asked(&routed.edge, &question);
        assert_eq!(reply.reason, expected, "{value:?}");
    }
    assert_eq!(routed.main.seen().len(), 1);
}
