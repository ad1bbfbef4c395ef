//! Routes: requests of one site that get other pages, answers without an origin, and other fields.

use crate::support::{self, connect, reason, start};
use config::{EdgePlan, Machine};
use petasos_edge::RunningEdge;
use testkit::{Origin, Response, Seen, eventually, response};

/// An edge with this configuration, in which `ORIGIN` and `OTHER` are the URLs of two origins.
pub(crate) struct Routed {
    pub(crate) edge: RunningEdge,
    pub(crate) main: Origin,
    other: Origin,
}

/// A password file whose users have the password `secret`.
pub(crate) const PASSWORDS: &str = "ann:$5$abcdefgh$gruCpC7VkOTspMQTTSAR8mtlO9Upms.fwqE5y16JVM.\n\
                         bob:$5$abcdefgh$gruCpC7VkOTspMQTTSAR8mtlO9Upms.fwqE5y16JVM.\n";

pub(crate) fn plan(text: &str, main: &Origin, other: &Origin) -> EdgePlan {
    let text = text.replace("ORIGIN", &main.url()).replace("OTHER", &other.url());
    let read = |path: &str| Ok(if path == "./passwords" { PASSWORDS } else { "<p>Back soon" }.to_owned());
    let machine = Machine {
        cores: 2,
        memory_bytes: 1 << 30,
        state_directory: None,
        runtime_directory: None,
        spool_directory: std::env::temp_dir(),
    };
    let mut plan = config::load("petasos.toml", &text, &Vec::new(), &machine, &read).unwrap();
    let usual = support::plan(&main.url());
    plan.listeners = usual.listeners;
    plan.admin = usual.admin;
    plan.limits = usual.limits;
    plan.purge_peers = usual.purge_peers;
    plan
}

/// An origin whose pages name it, the target and the field `X-Asked` of the request.
fn origin(name: &'static str) -> Origin {
    Origin::start(move |seen: &Seen| {
        let said = format!("{name} {} {}", seen.target(), seen.field("X-Asked").unwrap_or("-"));
        let tag = format!("Surrogate-Key: {name}");
        let fields = [
            "Cache-Control: max-age=600",
            "Cloudflare-CDN-Cache-Control: max-age=600",
            "X-Powered-By: PHP",
            "ETag: \"1\"",
            &tag,
        ];
        response("200 OK", &fields, said.as_bytes())
    })
}

impl Routed {
    pub(crate) fn new(text: &str) -> Self {
        let (main, other) = (origin("main"), origin("other"));
        let edge = start(plan(text, &main, &other));
        Self { edge, main, other }
    }

    pub(crate) fn ask(&self, method: &str, host: &str, target: &str, fields: &str) -> Response {
        let mut client = connect(&self.edge);
        client.send(format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\n{fields}\r\n"));
        if method == "HEAD" { client.read_head() } else { client.read() }
    }

    pub(crate) fn get(&self, host: &str, target: &str) -> Response {
        self.ask("GET", host, target, "")
    }

    /// Stores a page.
    fn store(&self, host: &str, target: &str, fields: &str) {
        self.ask("GET", host, target, fields);
        assert!(self.is_stored(host, target, fields), "{host}{target} {fields}");
    }

    fn is_stored(&self, host: &str, target: &str, fields: &str) -> bool {
        let fields = format!("{fields}Cache-Control: only-if-cached\r\n");
        reason(&self.ask("GET", host, target, &fields)) == "hit-fresh"
    }
}

const TWO_ORIGINS: &str = "origin = 'ORIGIN'\n[[site]]\nnames = ['a.test', 'www.a.test']\n\
    [[site.route]]\npath = ['/shop/*']\norigin = 'OTHER'\n\
    [[site.route]]\nfields = ['X-Beta: 1']\norigin = 'OTHER'\nrequest.set = ['X-Asked: beta']\n";

#[test]
fn route_without_cache_passes_every_request() {
    let routed = Routed::new(
        "origin = 'ORIGIN'\n[[site]]\nnames = ['a.test']\n[[site.route]]\npath = ['/live/*']\ncache = false\n",
    );
    for target in ["/live/", "/live/style.css?ver=1", "/live/score"] {
        for _ in 0..3 {
            assert_eq!(reason(&routed.get("a.test", target)), "pass-cache-off", "{target}");
        }
    }
    let waiting = routed.ask("GET", "a.test", "/live/", "Cache-Control: only-if-cached\r\n");
    assert_eq!((waiting.status, reason(&waiting)), (200, "pass-cache-off"));
    assert_eq!(routed.main.seen().len(), 10);
    routed.store("a.test", "/page", "");
}

#[test]
fn path_with_readings_for_two_routes_is_refused() {
    let routed = Routed::new(TWO_ORIGINS);
    for target in [
        "/shop/a",
        "/Shop/a",
        "/%73hop/a",
        "/shop//a",
        "/shop/./a",
        "/shop/a;b=c/d",
        "/shop/a%2fb",
        "/shop/a?/../b",
        "http://a.test/shop/a",
    ] {
        assert!(routed.get("a.test", target).text().starts_with("other "), "{target}");
    }
    for target in ["/", "/shopping/a", "/shop", "/a?/shop/a", "/a//b", "/a%2fb", "/a/../b", "/a;b=c"] {
        assert!(routed.get("a.test", target).text().starts_with("main "), "{target}");
    }
    // Servers differ in how they read these.
    let asked = routed.main.seen().len() + routed.other.seen().len();
    for target in [
        "//shop/a",
        "/x/../shop/a",
        "/x/%2e%2e/shop/a",
        "/./shop/a",
        "/shop%2fa",
        "/shop/../a",
        "/shop/%2e%2e/a",
        "/shop//../a",
        "/shop/x%2f..%2f..%2fa",
        "/shop/..\\a",
        "/shop;a=b/c",
        "/;/shop/a",
        "/x/..;/shop/a",
    ] {
        let refused = routed.get("a.test", target);
        assert_eq!((refused.status, reason(&refused)), (400, "ambiguous-path"), "{target}");
    }
    assert_eq!(routed.main.seen().len() + routed.other.seen().len(), asked);
}

#[test]
fn routes_by_field_have_pages_of_their_own() {
    let routed = Routed::new(TWO_ORIGINS);
    routed.store("a.test", "/a", "");
    let beta = routed.ask("GET", "a.test", "/a", "X-Beta: 1\r\n");
    assert_eq!(beta.text(), "other /a beta");
    assert_eq!(routed.get("a.test", "/a").text(), "main /a -");
    assert_eq!(routed.ask("GET", "a.test", "/a", "X-Beta: 2\r\n").text(), "main /a -");
}

#[test]
fn responses_name_the_fields_that_choose_the_route() {
    let routed = Routed::new(
        "origin = 'ORIGIN'\n[[site]]\nnames = ['a.test']\n[[site.route]]\npath = ['/x', '/y']\n\
         cookies = ['vip']\norigin = 'OTHER'\n[[site.route]]\npath = ['/y']\nfields = ['X-Beta: 1', 'Accept']\n\
         answer.status = 204\n",
    );
    for (target, vary) in [("/", None), ("/x", Some("Cookie")), ("/y", Some("Accept, Cookie, X-Beta"))] {
        for _ in ["miss", "hit"] {
            let answer = routed.get("a.test", target);
            let lower = vary.map(str::to_ascii_lowercase);
            assert_eq!(answer.field("Vary").map(str::to_ascii_lowercase), lower, "{target}");
        }
    }
    let vip = routed.ask("GET", "a.test", "/x", "Cookie: vip=1\r\n");
    assert!(vip.text().starts_with("other ") && vip.field("Vary") == Some("cookie"));
    assert_eq!(routed.ask("GET", "a.test", "/y", "Accept: a/b\r\n").status, 204);
}

#[test]
fn metrics_count_an_origin_of_several_routes_once() {
    let routed = Routed::new(
        "origin = 'ORIGIN'\n[[site]]\nnames = ['a.test']\n[[site.route]]\ncookies = ['a=\"1\"']\nttl = '5s'\n\
         [[site.route]]\ncookies = ['b=\"1\"']\norigin = 'OTHER'\n",
    );
    let page = support::admin(&routed.edge, "GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
    let text = page.text();
    let lines: Vec<_> =
        text.lines().filter(|line| line.starts_with("petasos_origin_breaker_state{")).collect();
    assert_eq!(
        lines,
        [
            "petasos_origin_breaker_state{site=\"a.test cookie b='1'\"} 0",
            "petasos_origin_breaker_state{site=\"a.test\"} 0"
        ]
    );
}

#[test]
fn redirecting_site_tells_browsers_to_use_https() {
    let routed =
        Routed::new("redirect = 'https://a.test{uri}'\nhsts = '1h'\ntrusted_proxies = ['127.0.0.1']\n");
    let secured = routed.ask("GET", "b.test", "/", "X-Forwarded-Proto: https\r\n");
    assert_eq!(secured.field("Strict-Transport-Security"), Some("max-age=3600"));
    assert!(secured.field("Cache-Control").is_none(), "browsers may store a permanent redirection");
    assert!(routed.get("b.test", "/").field("Strict-Transport-Security").is_none());
}

#[test]
fn purge_covers_the_pages_of_all_routes() {
    let routed = Routed::new(TWO_ORIGINS);
    for (target, fields) in [("/shop/a", ""), ("/", "Surrogate-Key: other\r\n")] {
        routed.store("a.test", "/shop/a", "");
        assert_eq!(routed.ask("PURGE", "www.a.test", target, fields).status, 200);
        assert!(!routed.is_stored("a.test", "/shop/a", ""), "{target} {fields}");
    }
}

#[test]
fn purge_by_a_public_name_that_another_site_redirects() {
    let routed = Routed::new(
        "origin = 'ORIGIN'\n[[site]]\nnames = ['a.test']\nhost = 'www.a.test'\n\
         [[site]]\nnames = ['www.a.test']\nredirect = 'https://a.test{uri}'\n[[site]]\nnames = ['b.test']\n[[site]]\n",
    );
    routed.store("a.test", "/a", "");
    routed.store("b.test", "/a", "");
    routed.store("c.test", "/a", "");
    assert_eq!(routed.ask("PURGE", "www.a.test", "/a", "").status, 200);
    assert!(!routed.is_stored("a.test", "/a", ""));
    assert!(routed.is_stored("b.test", "/a", "") && routed.is_stored("c.test", "/a", ""));
}

#[test]
fn purge_of_a_site_without_pages_leaves_the_others() {
    let routed = Routed::new(
        "[[site]]\nnames = ['a.test']\norigin = 'ORIGIN'\n[[site]]\nnames = ['www.a.test']\n\
         redirect = 'https://a.test{uri}'\n",
    );
    routed.store("a.test", "/a", "");
    assert_eq!(routed.ask("PURGE", "www.a.test", "/a", "").status, 200);
    assert!(routed.is_stored("a.test", "/a", ""));
}

#[test]
fn refresh_of_a_page_asks_the_origin_of_its_route() {
    let routed = Routed::new(TWO_ORIGINS);
    for (target, origin) in [("/a", &routed.main), ("/shop/a", &routed.other)] {
        assert_eq!(routed.ask("REFRESH", "a.test", target, "").status, 200);
        eventually("the page is fetched", || origin.count(target) == 1);
    }
    // A fetch for another route would have been ordered before these.
    assert_eq!((routed.main.seen().len(), routed.other.seen().len()), (1, 1));
}

#[test]
fn purge_by_one_route_covers_a_page_of_another() {
    let main = origin("main");
    let other = Origin::start(|_| response("200 OK", &["X-LiteSpeed-Purge: /a, tag=main"], b"done"));
    let routed = Routed { edge: start(plan(TWO_ORIGINS, &main, &other)), main, other };
    routed.store("a.test", "/a", "");
    routed.ask("POST", "a.test", "/shop/change", "Content-Length: 0\r\n");
    assert!(!routed.is_stored("a.test", "/a", ""));
}

#[test]
fn routes_with_the_same_pages_share_them() {
    let routed = Routed::new(
        "origin = 'ORIGIN'\n[[site]]\nnames = ['a.test']\n[[site.route]]\nmethods = ['GET']\nfields = ['X-Frame']\n\
         response.set = ['X-Framed: yes']\n",
    );
    routed.store("a.test", "/a", "");
    let framed = routed.ask("GET", "a.test", "/a", "X-Frame: 1\r\n");
    assert_eq!(framed.field("X-Framed"), Some("yes"));
    assert!(routed.get("a.test", "/a").field("X-Framed").is_none());
    assert_eq!(
        routed.main.seen().len() + routed.other.seen().len(),
        1 + 1,
        "the field is unknown: it passes"
    );
}

#[test]
fn fields_of_responses_follow_the_rules() {
    let routed = Routed::new(
        "origin = 'ORIGIN'\n[[site]]\nnames = ['a.test']\nresponse.set = ['Cache-Control: private', 'X-Own: 1']\n\
         response.add = ['Link: </a>']\nresponse.remove = ['x-powered-by']\nrequest.set = ['X-Asked: me']\n\
         request.remove = ['X-Secret']\n[[site.route]]\npath = ['/gone']\nanswer.status = 410\n",
    );
    let check = |answer: &Response, why: &str| {
        assert_eq!(answer.field("Cache-Control"), Some("private"), "{why}");
        assert_eq!((answer.field("X-Own"), answer.field("Link")), (Some("1"), Some("</a>")), "{why}");
        assert!(answer.field("X-Powered-By").is_none(), "{why}");
    };
    let miss = routed.get("a.test", "/a");
    assert_eq!((miss.text(), reason(&miss)), ("main /a me", "miss-absent"));
    check(&miss, "miss");
    let hit = routed.get("a.test", "/a");
    assert_eq!((hit.text(), reason(&hit)), ("main /a me", "hit-fresh"));
    check(&hit, "hit");
    let mut client = connect(&routed.edge);
    client.send("HEAD /a HTTP/1.1\r\nHost: a.test\r\n\r\nGET /a HTTP/1.1\r\nHost: a.test\r\n\r\n");
    let head = client.read_head();
    assert_eq!((head.field("Content-Length"), reason(&head)), (Some("10"), "hit-fresh"));
    check(&head, "HEAD");
    assert_eq!(client.read().text(), "main /a me", "a response to HEAD has no content");
    let unchanged = routed.ask("GET", "a.test", "/a", "If-None-Match: \"1\"\r\n");
    assert_eq!(unchanged.status, 304);
    assert_eq!(unchanged.field("X-Own"), Some("1"));
    let part = routed.ask("GET", "a.test", "/a", "Range: bytes=0-3\r\n");
    assert_eq!((part.status, part.text()), (206, "main"));
    check(&part, "part");
    let pass =
        routed.ask("GET", "a.test", "/b", "Authorization: Basic eDp5\r\nX-Secret: s\r\nX-Asked: you\r\n");
    assert_eq!(pass.text(), "main /b me");
    check(&pass, "pass");
    assert!(routed.main.seen().iter().all(|seen| seen.field("X-Secret").is_none()));
    let gone = routed.get("a.test", "/gone");
    assert_eq!((gone.status, gone.text(), reason(&gone)), (410, "410 Gone\n", "fixed-answer"));
    assert_eq!((gone.field("X-Own"), gone.field("Cache-Control")), (Some("1"), None));
    routed.main.kill();
    let failed = routed.get("a.test", "/c");
    assert_eq!((failed.status, failed.field("X-Own")), (502, Some("1")));
    assert_eq!(failed.field("Cache-Control"), Some("no-store"), "no cache may keep an error");
}

#[test]
fn redirections_and_fixed_answers_need_no_origin() {
    let routed = Routed::new(
        "[[site]]\nnames = ['www.a.test']\nredirect = 'https://a.test{uri}'\nredirect_status = 301\n\
         [[site]]\nnames = ['a.test']\norigin = 'ORIGIN'\n[[site.route]]\npath = ['/robots.txt']\n\
         answer = { status = 200, content = 'User-agent: *', type = 'text/plain' }\n",
    );
    let moved = routed.get("www.a.test", "/a?b=c");
    assert_eq!((moved.status, moved.field("Location")), (301, Some("https://a.test/a?b=c")));
    assert_eq!(reason(&moved), "redirected");
    let robots = routed.ask("POST", "a.test", "/robots.txt", "Content-Length: 0\r\n");
    assert_eq!((robots.status, robots.text()), (200, "User-agent: *"));
    assert_eq!(robots.field("Content-Type"), Some("text/plain"));
    assert_eq!(routed.main.seen().len(), 0);
    let mut client = connect(&routed.edge);
    client.send("HEAD /robots.txt HTTP/1.1\r\nHost: a.test\r\n\r\n");
    assert_eq!(client.read_head().field("Content-Length"), Some("13"));
}

#[test]
fn edge_with_redirections_alone_serves() {
    let routed = Routed::new("redirect = 'https://a.test{uri}'\n");
    assert_eq!(routed.get("any.test", "/").status, 308);
    let status = support::admin(&routed.edge, "GET /status HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
    assert_eq!(status.status, 200, "{}", status.text());
    assert_eq!(routed.ask("PURGE", "any.test", "/", "").status, 200);
}

#[test]
fn maintenance_excepts_listed_clients() {
    let text = "origin = 'ORIGIN'\nmaintenance = './work.html'\n[[site]]\nnames = ['a.test']\n";
    let routed = Routed::new(text);
    let answer = routed.get("a.test", "/");
    assert_eq!((answer.status, answer.text(), reason(&answer)), (503, "<p>Back soon", "maintenance"));
    assert_eq!(answer.field("Content-Type"), Some("text/html; charset=utf-8"));
    assert!(answer.field("Retry-After").is_some());
    let excepted = Routed::new(&format!("maintenance_peers = ['127.0.0.1']\n{text}"));
    assert_eq!(excepted.get("a.test", "/").text(), "main / -");
    let behind = format!("maintenance_peers = ['192.0.2.7']\ntrusted_proxies = ['127.0.0.1']\n{text}");
    let behind = Routed::new(&behind);
    for (client, status) in [("192.0.2.7", 200), ("192.0.2.8", 503)] {
        let fields = format!("X-Forwarded-For: {client}\r\n");
        assert_eq!(behind.ask("GET", "a.test", "/", &fields).status, status, "{client}");
    }
}

#[test]
fn most_exact_name_counts() {
    let routed = Routed::new(
        "[[site]]\nnames = ['*.a.test']\nanswer = { status = 200, content = 'all' }\n\
         [[site]]\nnames = ['*.b.a.test']\nanswer = { status = 200, content = 'below b' }\n\
         [[site]]\nnames = ['x.c.a.test']\nanswer = { status = 200, content = 'x.c' }\n\
         [[site]]\nnames = ['b.a.test']\nanswer = { status = 200, content = 'b' }\n",
    );
    for (host, content) in [
        ("x.a.test", "all"),
        ("X.A.Test.:80", "all"),
        ("x.y.a.test", "all"),
        ("b.a.test", "b"),
        ("x.b.a.test", "below b"),
        ("x.c.a.test", "x.c"),
        ("c.a.test", "all"),
    ] {
        assert_eq!(routed.get(host, "/").text(), content, "{host}");
    }
    for host in ["a.test", "xa.test", ".a.test", "test", "a.test.evil"] {
        assert_eq!(routed.get(host, "/").status, 421, "{host}");
    }
}

#[test]
fn names_below_one_have_separate_pages() {
    let routed = Routed::new("origin = 'ORIGIN'\n[[site]]\nnames = ['*.a.test']\n");
    routed.store("x.a.test", "/a", "");
    assert!(!routed.is_stored("y.a.test", "/a", ""));
    routed.store("y.a.test", "/a", "");
    assert_eq!(routed.ask("PURGE", "x.a.test", "/a", "").status, 200);
    assert!(!routed.is_stored("x.a.test", "/a", "") && routed.is_stored("y.a.test", "/a", ""));
}

#[test]
fn unknown_host_may_get_no_response() {
    let routed = Routed::new("unknown_hosts = 'close'\norigin = 'ORIGIN'\n[[site]]\nnames = ['a.test']\n");
    assert_eq!(routed.get("a.test", "/").status, 200);
    for (method, target) in [("GET", "/"), ("CONNECT", "b.test:443"), ("TRACE", "/")] {
        let mut client = connect(&routed.edge);
        client.send(format!("{method} {target} HTTP/1.1\r\nHost: b.test\r\n\r\n"));
        assert!(client.is_closed(), "{method}");
    }
    let mut client = connect(&routed.edge);
    client.send("PURGE / HTTP/1.1\r\nHost: b.test\r\nX-Forwarded-For: 192.0.2.7\r\n\r\n");
    assert!(client.is_closed(), "a purge without the right to it");
}

#[test]
fn route_has_limits_of_its_own() {
    let routed = Routed::new(
        "origin = 'ORIGIN'\n[[site]]\nnames = ['a.test']\nlimits.request_body_bytes_max = '10B'\n\
         [[site.route]]\npath = ['/upload']\nlimits.request_body_bytes_max = '20B'\n",
    );
    let post = |target: &str, bytes: usize| {
        let fields = format!("Content-Length: {bytes}\r\n");
        let mut client = connect(&routed.edge);
        let content = "x".repeat(bytes);
        client.send(format!("POST {target} HTTP/1.1\r\nHost: a.test\r\n{fields}\r\n{content}"));
        client.read().status
    };
    let chunked = |target: &str, bytes: usize| {
        let mut client = connect(&routed.edge);
        let content = "x".repeat(bytes);
        client.send(format!(
            "POST {target} HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n\
             {bytes:x}\r\n{content}\r\n0\r\n\r\n"
        ));
        client.read().status
    };
    for (target, bytes_max) in [("/", 10), ("/upload", 20)] {
        assert_eq!((post(target, bytes_max), post(target, bytes_max + 1)), (200, 413), "{target}");
        assert_eq!((chunked(target, bytes_max), chunked(target, bytes_max + 1)), (200, 413), "{target}");
    }
}
