//! The forwarded fields of a request: method overrides, and fields added by a trusted proxy.

use crate::support::{Stage, reason};
use address::Prefix;
use testkit::{Response, Seen, response};

const FRESH: &str = "Cache-Control: max-age=60";

/// The fields that name another method, for clients limited to GET and POST.
const OVERRIDES: [&str; 3] = ["X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override"];

/// Fields in which a proxy describes the client's connection.
const CONNECTION: [&str; 5] = [
    "X-Forwarded-Port: 8443",
    "X-Forwarded-Prefix: /app",
    "X-Forwarded-Ssl: on",
    "X-Scheme: https",
    "Front-End-Https: on",
];

fn page(_: &Seen) -> Vec<testkit::Action> {
    response("200 OK", &[FRESH], b"page")
}

/// The response to a POST without content that carries these fields.
fn post(stage: &Stage, fields: &[&str]) -> Response {
    let fields: Vec<&str> = fields.iter().copied().chain(["Content-Length: 0"]).collect();
    stage.ask("POST", "/wp-json/wp/v2/posts/1", &fields)
}

#[test]
fn method_override_of_a_post_reaches_the_origin() {
    let stage = Stage::new(page);
    for name in OVERRIDES {
        assert_eq!(post(&stage, &[&format!("{name}: DELETE")]).status, 200);
        assert_eq!(stage.last_seen().field(name), Some("DELETE"), "{}", stage.last_seen().head);
    }
}

#[test]
fn method_override_spelled_with_underscores_is_dropped() {
    let stage = Stage::new(page);
    post(&stage, &["X_HTTP_Method_Override: DELETE", "X_METHOD_OVERRIDE: DELETE"]);
    let head = stage.last_seen().head.to_lowercase();
    assert!(!head.contains("override"), "{head}");
}

#[test]
fn get_with_a_method_override_passes_and_is_never_shared() {
    for stage in [Stage::new(page), Stage::rfc(page)] {
        for (number, name) in OVERRIDES.into_iter().enumerate() {
            let target = format!("/{number}");
            let field = format!("{name}: DELETE");
            for method in ["GET", "HEAD"] {
                let own = stage.ask(method, &target, &[&field]);
                assert_eq!(reason(&own), "pass-method-override");
                assert_eq!(stage.last_seen().field(name), Some("DELETE"));
            }
            assert_eq!(reason(&stage.get(&target, &[])), "miss-absent", "nothing was stored");
            assert_eq!(stage.last_seen().field(name), None);
        }
    }
}

#[test]
fn only_a_trusted_proxy_describes_the_connection() {
    for trusted in [true, false] {
        let stage = Stage::with(
            |plan| {
                let proxy: Prefix = "127.0.0.1".parse().unwrap();
                plan.trusted_proxies = trusted.then_some(proxy).into_iter().collect();
            },
            page,
        );
        post(&stage, &CONNECTION);
        let seen = stage.last_seen();
        for (name, value) in CONNECTION.iter().filter_map(|line| line.split_once(": ")) {
            assert_eq!(seen.field(name), Some(value).filter(|_| trusted), "{name} in\n{}", seen.head);
        }
        let twin = "X_Forwarded_Port: 1";
        post(&stage, &[twin]);
        assert!(!stage.last_seen().head.contains("X_Forwarded"), "{}", stage.last_seen().head);
    }
}

#[test]
fn page_below_a_prefix_of_a_trusted_proxy_is_not_shared() {
    for (trusted, why) in [(true, "pass-forwarded-prefix"), (false, "miss-absent")] {
        let stage = Stage::with(
            |plan| {
                let proxy: Prefix = "127.0.0.1".parse().unwrap();
                plan.trusted_proxies = trusted.then_some(proxy).into_iter().collect();
            },
            |seen| response("200 OK", &[FRESH], seen.field("X-Forwarded-Prefix").unwrap_or("-").as_bytes()),
        );
        let below = stage.get("/", &["X-Forwarded-Prefix: /app"]);
        assert_eq!((below.text(), reason(&below)), (if trusted { "/app" } else { "-" }, why));
        assert_eq!(stage.get("/", &[]).text(), "-");
        assert_eq!(reason(&stage.get("/", &["X-Forwarded-Prefix: /"])), "hit-fresh");
    }
}

/// WordPress uses a GET like this to find out whether browsers receive compressed scripts.
#[test]
fn only_a_request_that_may_write_loses_its_accept_encoding() {
    let wordpress = |plan: &mut config::EdgePlan| {
        plan.sites.iter_mut().for_each(|site| site.policy = profiles::Policy::wordpress());
    };
    let stage = Stage::with(wordpress, |seen| {
        response("200 OK", &[], seen.field("Accept-Encoding").unwrap_or("none").as_bytes())
    });
    let editor = "Cookie: wordpress_logged_in_0a=1";
    for (method, cookie, seen) in
        [("GET", editor, "br"), ("POST", "Cookie: theme=1", "br"), ("POST", editor, "identity")]
    {
        let fields = ["Content-Length: 0", "Accept-Encoding: br", cookie];
        let answer = stage.ask(method, "/wp-admin/admin-ajax.php", &fields);
        assert_eq!(answer.text(), seen, "{method} {cookie}");
    }
}
