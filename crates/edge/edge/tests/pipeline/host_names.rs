//! Host names with a final dot, which name the same host (RFC 3986 section 3.2.2).

use crate::support::{Stage, connect, reason};
use testkit::{Response, Seen, response};

/// An origin whose pages contain the `Host` of the request in a link.
fn stage(names: &[&str]) -> Stage {
    let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
    let page = |seen: &Seen| {
        let link = format!("http://{}{}", seen.field("Host").unwrap_or_default(), seen.target());
        let location = seen.head.starts_with("POST").then_some("Location: http://a.test/changed");
        let fields: Vec<_> = ["Cache-Control: max-age=600"].into_iter().chain(location).collect();
        response("200 OK", &fields, link.as_bytes())
    };
    Stage::with(move |plan| plan.sites.iter_mut().for_each(|site| site.names.clone_from(&names)), page)
}

fn ask(stage: &Stage, method: &str, host: &str, target: &str, fields: &str) -> Response {
    let mut client = connect(&stage.edge);
    client.send(format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\n{fields}\r\n"));
    client.read()
}

fn is_stored(stage: &Stage, host: &str, target: &str) -> bool {
    reason(&ask(stage, "GET", host, target, "Cache-Control: only-if-cached\r\n")) == "hit-fresh"
}

#[test]
fn host_with_a_final_dot_shares_the_stored_copy() {
    for names in [&["a.test"][..], &[]] {
        let stage = stage(names);
        let port = stage.edge.bound().listen[0].port().unwrap();
        for (dotted, plain) in [("a.test.", "a.test"), ("A.Test.:80", "a.test")] {
            let target = format!("/{}", dotted.len());
            assert_eq!(ask(&stage, "GET", dotted, &target, "").text(), format!("http://{plain}{target}"));
            assert!(is_stored(&stage, plain, &target) && is_stored(&stage, dotted, &target), "{dotted}");
        }
        let own = format!("http://a.test:{port}/port");
        assert_eq!(ask(&stage, "GET", &format!("a.test.:{port}"), "/port", "").text(), own);
        assert!(is_stored(&stage, &format!("a.test:{port}"), "/port"));
        assert_eq!(stage.metric("petasos_store_objects", ""), 3);
    }
}

#[test]
fn purge_covers_a_page_with_and_without_the_final_dot() {
    for names in [&["a.test"][..], &[]] {
        let stage = stage(names);
        for (stored, purged) in [("a.test.", "a.test"), ("a.test", "a.test."), ("a.test.", "a.test.")] {
            ask(&stage, "GET", stored, "/a", "");
            assert!(is_stored(&stage, purged, "/a"));
            assert_eq!(ask(&stage, "PURGE", purged, "/a", "").status, 200);
            assert!(!is_stored(&stage, stored, "/a") && !is_stored(&stage, purged, "/a"), "{stored}");
        }
    }
}

#[test]
fn location_without_the_final_dot_is_invalidated() {
    let stage = stage(&["a.test"]);
    ask(&stage, "GET", "a.test", "/changed", "");
    assert!(is_stored(&stage, "a.test", "/changed"));
    assert_eq!(ask(&stage, "POST", "a.test.", "/form", "Content-Length: 0\r\n").status, 200);
    assert!(!is_stored(&stage, "a.test", "/changed") && !is_stored(&stage, "a.test.", "/changed"));
}

#[test]
fn passing_request_keeps_the_final_dot() {
    let stage = stage(&["a.test"]);
    let own = ask(&stage, "GET", "a.test.", "/own", "Authorization: Basic eDp5\r\n");
    assert_eq!(own.text(), "http://a.test./own", "the origin compares the Origin field with Host");
    assert!(!is_stored(&stage, "a.test", "/own"));
}

#[test]
fn name_with_two_final_dots_belongs_to_no_site() {
    let named = stage(&["a.test"]);
    assert_eq!(ask(&named, "GET", "a.test..", "/", "").status, 421);
    let stage = stage(&[]);
    for host in ["a.test..", "a.test.", "."] {
        ask(&stage, "GET", host, "/", "");
    }
    assert!(is_stored(&stage, "a.test", "/") && !is_stored(&stage, "", "/"));
}
