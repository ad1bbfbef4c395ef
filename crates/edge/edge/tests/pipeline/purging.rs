//! Purges in the whole pipeline: permissions, the purged pages, and the purge as a barrier.

use crate::support::{Stage, admin, behind, plan, reason, tagged};
use address::{Prefix, Prefixes};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;
use testkit::{Client, Gate, Origin, Response, eventually, response};

const FRESH: &str = "Cache-Control: max-age=600";

/// Pages with two tags: `all`, and a tag for the page.
fn tagged_pages() -> Stage {
    Stage::new(|seen| {
        let key = format!("Surrogate-Key: all page-{}", seen.target().trim_start_matches('/'));
        response("200 OK", &[FRESH, &key], seen.target().as_bytes())
    })
}

/// Requests each page twice and checks that it is stored.
fn fill(stage: &Stage, targets: &[&str]) {
    for target in targets {
        stage.get(target, &[]);
        assert_eq!(reason(&stage.get(target, &[])), "hit-fresh", "{target}");
    }
}

fn found(stage: &Stage, targets: &[&str]) -> Vec<bool> {
    targets
        .iter()
        .map(|target| reason(&stage.get(target, &["Cache-Control: only-if-cached"])) == "hit-fresh")
        .collect()
}

fn count(answer: &Response) -> &str {
    answer.field("X-Purged-Count").unwrap()
}

#[test]
fn purge_of_a_url_covers_all_its_variants_and_nothing_else() {
    let stage = Stage::new(|seen| {
        let language = seen.field("Accept-Language").unwrap_or("none").to_owned();
        response("200 OK", &[FRESH, "Vary: Accept-Language"], language.as_bytes())
    });
    for language in ["Accept-Language: fr", "Accept-Language: de"] {
        stage.get("/a?x=1", &[language]);
        assert_eq!(reason(&stage.get("/a?x=1", &[language])), "hit-fresh");
    }
    fill(&stage, &["/a"]);
    let answer = stage.ask("PURGE", "/a?x=1", &[]);
    assert_eq!((answer.status, reason(&answer)), (200, "purged"));
    assert!(count(&answer).parse::<u64>().unwrap() >= 2, "{}", count(&answer));
    assert_eq!(found(&stage, &["/a?x=1", "/a"]), [false, true]);
    let again = stage.ask("PURGE", "/a?x=1", &[]);
    assert_eq!((again.status, count(&again)), (200, "0"), "purging an absent page succeeds too");
    assert!(
        stage.origin.seen().iter().all(|seen| !seen.head.starts_with("PURGE")),
        "a PURGE request is never forwarded"
    );
}

#[test]
fn pages_are_purged_by_tags_and_tags_are_hidden() {
    let stage = tagged_pages();
    fill(&stage, &["/a", "/b"]);
    assert_eq!(stage.get("/a", &[]).field("Surrogate-Key"), None);
    let answer = stage.ask("PURGE", "/", &["Surrogate-Key: page-a other"]);
    assert_eq!((answer.status, count(&answer)), (200, "1"));
    assert_eq!(found(&stage, &["/a", "/b"]), [false, true]);
    fill(&stage, &["/a"]);
    assert_eq!(count(&stage.ask("PURGE", "/", &["xkey-purge: all"])), "2");
    assert_eq!(found(&stage, &["/a", "/b"]), [false, false]);
}

#[test]
fn softly_purged_page_is_revalidated_or_served_on_error() {
    let stage = Stage::new(|seen| {
        tagged(seen, "\"1\"", &[FRESH, "xkey: a", "Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT"], "page")
    });
    fill(&stage, &["/"]);
    assert_eq!(stage.ask("PURGE", "/", &["xkey-softpurge: a"]).status, 200);
    assert_eq!(reason(&stage.get("/", &[])), "hit-revalidated");
    assert_eq!(reason(&stage.get("/", &[])), "hit-fresh");
    assert_eq!(stage.ask("PURGE", "/", &["xkey-softpurge: a"]).status, 200);
    stage.origin.kill();
    assert_eq!(reason(&stage.get("/", &[])), "stale-on-error");
    assert_eq!(stage.ask("PURGE", "/", &["xkey-purge: a"]).status, 200);
    assert_eq!(stage.get("/", &[]).status, 503, "a hard purge removes the page");
}

#[test]
fn ban_and_prefix_purge_the_matching_pages() {
    let stage = tagged_pages();
    let targets = ["/news/1", "/news/2", "/shop/1"];
    fill(&stage, &targets);
    assert_eq!(stage.ask("BAN", "/", &["X-Url: ^/news/1$"]).status, 200);
    assert_eq!(found(&stage, &targets), [false, true, true]);
    let answer = stage.call_admin(
        "POST",
        "/purge",
        r#"{"type":"uri-prefix","selectors":["http://example.test/news/"]}"#,
    );
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(found(&stage, &targets), [false, false, true]);
}

#[test]
fn fetch_is_not_stored_if_its_page_or_tag_is_purged() {
    for (method, target, field) in [("PURGE", "/", ""), ("PURGE", "/x", "Surrogate-Key: a")] {
        let gate = Gate::default();
        let stage = Stage::new({
            let gate = gate.clone();
            move |_| behind(&gate, response("200 OK", &[FRESH, "Surrogate-Key: a"], b"old"))
        });
        let mut early = stage.begin("GET", "/", &[]);
        stage.await_seen(1);
        let fields: Vec<&str> = Some(field).filter(|field| !field.is_empty()).into_iter().collect();
        assert_eq!(stage.ask(method, target, &fields).status, 200);
        let mut late = stage.begin("GET", "/", &[]);
        gate.open();
        assert_eq!(early.read().text(), "old", "the request before the purge may get the old page");
        late.read();
        assert_eq!(stage.origin.count("/"), 2, "the request after the purge has its own fetch");
    }
}

#[test]
fn listed_peer_may_not_forward_purges() {
    let stage = tagged_pages();
    fill(&stage, &["/a"]);
    for forwarded in ["X-Forwarded-For: 203.0.113.9", "Forwarded: for=203.0.113.9", "Via: 1.1 nginx"] {
        let answer = stage.ask("PURGE", "/a", &[forwarded]);
        assert_eq!((answer.status, reason(&answer)), (403, "purge-forbidden"), "{forwarded}");
        assert!(answer.text().contains("a proxy has forwarded"), "{}", answer.text());
    }
    assert_eq!(found(&stage, &["/a"]), [true]);
    assert_eq!(stage.metric("petasos_purges_forbidden_total", ""), 3);
}

#[test]
fn loopback_clients_may_purge_only_at_the_admin_address() {
    for trusted in [&[][..], &["127.0.0.0/8"]] {
        let stage = Stage::with(
            |plan| {
                plan.purge_peers = Prefixes::default();
                plan.trusted_proxies = trusted.iter().map(|text| text.parse::<Prefix>().unwrap()).collect();
            },
            |_| response("200 OK", &[FRESH], b"page"),
        );
        fill(&stage, &["/a"]);
        let answer = stage.ask("PURGE", "/a", &[]);
        assert_eq!((answer.status, reason(&answer)), (403, "purge-forbidden"));
        assert!(answer.text().contains("set token_file") && answer.text().contains("purge_peers"));
        assert_eq!(reason(&stage.get("/a", &["X-Refresh: 1"])), "pass-unknown-field");
        assert_eq!(found(&stage, &["/a"]), [true]);
        assert_eq!(stage.metric("petasos_purges_forbidden_total", ""), 1);
        let forwarded =
            "POST /purge HTTP/1.1\r\nHost: localhost\r\nVia: 1.1 nginx\r\nContent-Length: 0\r\n\r\n";
        assert_eq!(admin(&stage.edge, forwarded).status, 403);
        assert_eq!(stage.call_admin("POST", "/purge", r#"{"type":"all"}"#).status, 200);
        assert_eq!(found(&stage, &["/a"]), [false]);
    }
}

#[test]
fn configured_token_is_required_at_both_addresses() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    writeln!(file, "secret").unwrap();
    let stage = Stage::with(
        |plan| {
            plan.purge_peers = Prefixes::default();
            plan.token_file = Some(file.path().to_owned());
        },
        |_| response("200 OK", &[FRESH], b"page"),
    );
    let purge = |fields: &[&str]| stage.ask("PURGE", "/a", fields);
    assert!(purge(&[]).text().contains("without the token in token_file"));
    assert!(purge(&["Authorization: Bearer wrong!"]).text().contains("not the right one"));
    assert_eq!(purge(&["Authorization: Bearer secret", "X-Forwarded-For: 203.0.113.9"]).status, 200);
    assert_eq!(purge(&["Fastly-Key: secret"]).status, 200);
    let call = |fields: &str| {
        let call = r#"{"type":"all"}"#;
        let length = call.len();
        let head =
            format!("POST /purge HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n{fields}\r\n");
        admin(&stage.edge, &format!("{head}{call}"))
    };
    assert!(call("").status == 403 && call("").text().contains("PETASOS_TOKEN"));
    assert_eq!(call("Authorization: Bearer secret\r\n").status, 200);
    assert_eq!(call("Authorization: Bearer secret\r\nOrigin: http://evil.test\r\n").status, 403);
}

#[test]
fn purge_on_a_unix_socket_for_visitors_needs_the_token() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("visitors.sock");
    let mut file = tempfile::NamedTempFile::new().unwrap();
    writeln!(file, "secret").unwrap();
    let origin = Origin::start(|_| response("200 OK", &[FRESH], b"page"));
    let mut own = plan(&origin.url());
    own.listeners[0].address = format!("unix:{}", path.display()).parse().unwrap();
    own.token_file = Some(file.path().to_owned());
    let _edge = crate::support::start(own);
    for (fields, status) in [("", "403"), ("Authorization: Bearer secret\r\n", "200")] {
        let mut socket = UnixStream::connect(&path).unwrap();
        let head = format!("PURGE / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n{fields}\r\n");
        socket.write_all(head.as_bytes()).unwrap();
        let mut answer = String::new();
        socket.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{fields}: {answer}");
    }
}

#[test]
fn malformed_purge_is_explained_and_purges_nothing() {
    let stage = tagged_pages();
    fill(&stage, &["/a"]);
    let answer = stage.ask("BAN", "/", &["X-Url: ("]);
    assert_eq!((answer.status, reason(&answer)), (400, "purge-malformed"));
    assert!(answer.text().contains("X-Url"), "{}", answer.text());
    let answer = stage.call_admin("POST", "/purge", "{");
    assert_eq!(answer.status, 400, "{}", answer.text());
    assert_eq!(found(&stage, &["/a"]), [true]);
}

#[test]
fn response_of_the_origin_can_purge() {
    let stage = Stage::new(|seen| match seen.head.split(' ').next() {
        Some("POST") => response("200 OK", &["X-LiteSpeed-Purge: tag=a"], b"saved"),
        _ => response("200 OK", &[FRESH, "X-LiteSpeed-Tag: a"], b"page"),
    });
    fill(&stage, &["/a"]);
    let mut client = stage.begin("POST", "/admin", &["Content-Length: 0"]);
    assert_eq!(client.read().field("X-LiteSpeed-Purge"), None);
    assert_eq!(found(&stage, &["/a"]), [false]);
}

#[test]
fn admin_address_refuses_before_it_reads_content() {
    let patient = |plan: &mut config::EdgePlan| plan.limits.request_body_timeout = Duration::from_secs(3600);
    let stage = Stage::with(patient, |_| response("200 OK", &[FRESH], b"page"));
    for path in ["/purge", "/service/any/purge_all", "/profile", "/why"] {
        for fields in ["Host: evil.test", "Host: localhost\r\nX-Forwarded-For: 203.0.113.9"] {
            let head = format!("POST {path} HTTP/1.1\r\n{fields}\r\nContent-Length: 1000\r\n\r\n");
            assert_eq!(admin(&stage.edge, &head).status, 403, "{path} {fields}");
        }
    }
}

#[test]
fn connection_beyond_the_limit_of_the_admin_address_gets_503() {
    const REQUEST: &str = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let limit = |plan: &mut config::EdgePlan| plan.limits.admin_connections_max = 2;
    let stage = Stage::with(limit, |_| response("200 OK", &[FRESH], b"page"));
    let address = stage.edge.bound().admin.to_string().parse().unwrap();
    let kept = [(); 2].map(|()| {
        let mut client = Client::connect(address);
        client.send(REQUEST);
        assert_eq!(client.read().status, 200);
        client
    });
    let refused = admin(&stage.edge, REQUEST);
    assert_eq!(refused.status, 503);
    assert!(refused.text().contains("limits.admin_connections_max"), "{}", refused.text());
    drop(kept);
    let counted = || stage.metric("petasos_admin_connections_refused_total", "") >= 1;
    eventually("a place is free, and the refusal was counted", counted);
}

#[test]
fn admin_address_accepts_the_purge_apis_of_cdns() {
    let stage = tagged_pages();
    fill(&stage, &["/a", "/b"]);
    let answer = stage.call_admin("POST", "/service/any/purge/page-a", "");
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(found(&stage, &["/a", "/b"]), [false, true]);
    let answer = stage.call_admin("POST", "/client/v4/zones/any/purge_cache", r#"{"purge_everything":true}"#);
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(found(&stage, &["/a", "/b"]), [false, false]);
    assert_eq!(stage.call_admin("GET", "/purge", "").status, 405);
    let foreign = admin(&stage.edge, "POST /purge HTTP/1.1\r\nHost: evil.test\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(foreign.status, 403);
}
