//! The static tree from end to end. `petasos serve` writes it, `petasos static-tree rules` prints
//! the rules, and real nginx, Apache and lighttpd serve it while Petasos and the application are
//! stopped.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on panics")]

use std::fs::Permissions;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use testkit::web_server::{ServerKind, WebServer};
use testkit::{Client, Edge, Origin, Response, eventually, petasos, response};

const HTML: &str = "Content-Type: text/html; charset=UTF-8";

/// Requests a page of the site `a.test`.
fn ask(address: SocketAddr, method: &str, target: &str, fields: &[&str]) -> Response {
    let mut client = Client::connect(address);
    let lines: String = fields.iter().map(|field| format!("{field}\r\n")).collect();
    client.send(format!("{method} {target} HTTP/1.1\r\nHost: a.test\r\n{lines}\r\n"));
    client.read()
}

fn page(target: &str) -> String {
    format!("<!doctype html><title>{target}</title>{}", "<p>made by the application</p>".repeat(40))
}

/// The tree that an edge has written in this layout before it and the application were stopped. It
/// has `/` and `/a/`, but not `/b/`, which was purged, nor `/own/`, which is private.
fn written(layout: &str) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    std::fs::set_permissions(directory.path(), Permissions::from_mode(0o755)).unwrap();
    let origin = Origin::start(|seen| {
        let control = if seen.target() == "/own/" { "private" } else { "max-age=600" };
        let control = format!("Cache-Control: {control}");
        response("200 OK", &[&control, HTML], page(seen.target()).as_bytes())
    });
    let configuration = format!(
        "names = ['a.test']\n[static_tree]\ndirectory = '{}'\nlayout = '{layout}'\n",
        directory.path().display()
    );
    let mut edge = Edge::configured(&origin.url(), &configuration, &[]);
    for target in ["/", "/a/", "/b/", "/own/"] {
        assert_eq!(ask(edge.address, "GET", target, &["Accept-Encoding: gzip"]).status, 200);
    }
    eventually("the pages are written", || edge.metric("petasos_static_tree_pages", "") == 3.0);
    assert_eq!(ask(edge.address, "PURGE", "/b/", &[]).status, 200);
    edge.signal("TERM");
    assert_eq!(edge.wait(), Some(0), "{}", edge.stderr());
    origin.kill();
    directory
}

fn serves(kind: ServerKind) {
    for layout in ["typo3", "wp-super-cache", "cache-enabler", "boost"] {
        let directory = written(layout);
        let path = directory.path().to_str().unwrap();
        let rules = petasos(["static-tree", "rules", kind.name(), "--layout", layout, "--directory", path]);
        assert_eq!((rules.code, &rules.stderr[..]), (Some(0), ""));
        let server = WebServer::start(kind, &rules.stdout);
        for target in ["/", "/a/"] {
            for (accepted, coding) in [("identity", None), ("gzip", Some("gzip")), ("gzip, br", Some("br"))] {
                let answer = ask(server.address, "GET", target, &[&format!("Accept-Encoding: {accepted}")]);
                let told = format!("{layout} {target} {accepted}: {}", answer.head);
                assert_eq!((answer.status, answer.field("Content-Encoding")), (200, coding), "{told}");
                assert_eq!(answer.field("Content-Type"), Some("text/html; charset=utf-8"), "{told}");
                if coding.is_none() {
                    assert_eq!(answer.text(), page(target), "{told}");
                }
            }
        }
        for (target, fields) in
            [("/b/", vec![]), ("/own/", vec![]), ("/a/", vec!["Authorization: Basic YTpi"])]
        {
            let answer = ask(server.address, "GET", target, &fields);
            assert!(matches!(answer.status, 403 | 404), "{layout} {target}: {}", answer.head);
        }
    }
}

#[test]
fn nginx_serves_the_static_tree() {
    serves(ServerKind::Nginx);
}

#[test]
fn apache_serves_the_static_tree() {
    serves(ServerKind::Apache);
}

#[test]
fn lighttpd_serves_the_static_tree() {
    serves(ServerKind::Lighttpd);
}

#[test]
fn rules_for_unknown_servers_and_relative_paths_are_refused() {
    let output = petasos(["static-tree", "rules", "iis"]);
    assert_eq!((output.code, &output.stdout[..]), (Some(2), ""));
    assert!(output.stderr.contains("nginx, apache, lighttpd"), "{}", output.stderr);
    let output = petasos(["static-tree", "rules", "nginx", "--directory", "my tree"]);
    assert_eq!(output.code, Some(2));
    assert!(
        output.stderr.contains("--directory my tree") && output.stderr.contains("absolute"),
        "{}",
        output.stderr
    );
}
