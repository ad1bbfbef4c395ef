//! Runs real nginx, Apache and lighttpd with the printed rules over trees in all layouts. A server
//! must send the file of a page with its type and in an accepted coding. It must send no file for
//! any other request.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on panics"
)]

use bytes::Bytes;
use flate2::read::GzDecoder;
use message::{ResponseHead, Status};
use petasos_static_tree::rules::{RuleInputs, ServerProgram};
use petasos_static_tree::{Candidate, Layout, Tree, TreeLimits};
use platform::SystemClock;
use profiles::Profile;
use semantics::{Freshness, Moment, VaryRule};
use std::io::Read;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::time::Duration;
use store::{Body, Key, Object, SiteId, Store, StoreLimits};
use tempfile::TempDir;
use testkit::web_server::{ServerKind, WebServer};
use testkit::{Client, Response};

const LIMITS: TreeLimits = TreeLimits { pages_max: 100, bytes_max: 1 << 20 };

/// A tree with these pages of the host `a.test`. Its writer has ended.
fn tree(layout: Layout, targets: &[&str]) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let tree = Tree::open(directory.path(), LIMITS).unwrap();
    let (store, clock, rule) =
        (Store::new(StoreLimits::default(), 1), SystemClock::new(), VaryRule::default());
    let now = Moment::read(&clock);
    let mut head = ResponseHead::new(Status::OK);
    head.fields.push("Content-Type", "text/html; charset=utf-8");
    for target in targets {
        let freshness = Freshness::lasting(Duration::from_secs(600), now);
        let object = Arc::new(Object::new(&head, b"", Body::copy_of(page(target).as_bytes()), freshness));
        let key = &Key::new(SiteId(0), false, b"a.test", Bytes::copy_from_slice(target.as_bytes()));
        tree.offer(layout, &Candidate { key, rule: &rule, object: &object, tags: &[], begun: 0 }, now);
    }
    tree.end();
    tree.run(&store, &clock, &|state| panic!("{state:?}"));
    assert_eq!(tree.figures().written, targets.len() as u64, "{:?}", tree.figures());
    directory
}

fn page(target: &str) -> String {
    format!("<!doctype html><title>{target}</title>{}", "<p>é, and so on</p>".repeat(40))
}

fn rules(layout: Layout, directory: &TempDir, kind: ServerKind) -> String {
    let server = ServerProgram::ALL.into_iter().find(|server| server.name() == kind.name()).unwrap();
    let policy = &Profile::shipped(layout.profile()).unwrap().policy;
    RuleInputs::new(layout, directory.path(), policy).unwrap().text(server)
}

fn ask(address: SocketAddr, method: &str, target: &str, fields: &[&str]) -> Response {
    let mut client = Client::connect(address);
    let lines: String = fields.iter().map(|field| format!("{field}\r\n")).collect();
    let host = if lines.starts_with("Host:") { "" } else { "Host: a.test\r\n" };
    client.send(format!("{method} {target} HTTP/1.1\r\n{host}{lines}\r\n"));
    if method == "HEAD" { client.read_head() } else { client.read() }
}

/// The decoded content of a response, and its coding.
fn decoded(answer: &Response) -> (String, String) {
    let coding = answer.field("Content-Encoding").unwrap_or_default().to_owned();
    let mut text = String::new();
    match &coding[..] {
        "gzip" => GzDecoder::new(&answer.body[..]).read_to_string(&mut text).unwrap(),
        "br" => brotli::Decompressor::new(&answer.body[..], 4096).read_to_string(&mut text).unwrap(),
        _ => (&answer.body[..]).read_to_string(&mut text).unwrap(),
    };
    (text, coding)
}

fn serves_the_tree(kind: ServerKind) {
    for layout in Layout::ALL {
        let targets = match layout {
            Layout::Typo3 => &["/", "/a", "/a/b-c_1.html", "/d/", "/caf%C3%A9"][..],
            Layout::WpSuperCache | Layout::CacheEnabler => &["/", "/a/", "/a/b-c_1.html/", "/caf%c3%a9/"],
            Layout::Boost => &["/", "/a", "/a/b-c_1.html", "/d/"],
        };
        let directory = tree(layout, targets);
        let server = WebServer::start(kind, &rules(layout, &directory, kind));
        let told = format!("{} {}", kind.name(), layout.name());
        for target in targets {
            for (accepted, coding) in ACCEPTED {
                let answer = ask(server.address, "GET", target, &[&format!("Accept-Encoding: {accepted}")]);
                let told = format!("{told} {target} {accepted}: {}", answer.head);
                assert_eq!(answer.status, 200, "{told}");
                assert_eq!(decoded(&answer), (page(target), coding.to_owned()), "{told}");
                assert_eq!(answer.field("Content-Type"), Some("text/html; charset=utf-8"), "{told}");
                assert_eq!(answer.field("Vary"), Some("Accept-Encoding"), "{told}");
                assert_eq!(answer.field("Cache-Control"), Some("no-cache"), "{told}");
            }
            let head = ask(server.address, "HEAD", target, &[]);
            assert_eq!((head.status, head.field("Content-Encoding")), (200, None), "{told} {target}");
        }
        let page = targets[1];
        for (method, target, fields) in refused(layout, page) {
            let answer = ask(server.address, method, target, &fields);
            let is_page = answer.body.windows(9).any(|octets| octets == b"and so on");
            assert!(!is_page && answer.status >= 400, "{told} {method} {target} {fields:?}: {}", answer.head);
            assert_eq!(answer.field("Content-Encoding"), None, "{told} {target}");
        }
        for cookie in ["", "_ga=1; _gid=2", "_pk_id.1=x"] {
            let answer = ask(server.address, "GET", page, &[&format!("Cookie: {cookie}")]);
            assert_eq!(answer.status, 200, "{told} {cookie}");
        }
    }
}

const ACCEPTED: [(&str, &str); 9] = [
    ("", ""),
    ("identity", ""),
    ("gzip", "gzip"),
    ("GZIP;q=0.5", "gzip"),
    ("br", "br"),
    ("gzip, deflate, br", "br"),
    ("gzip, br;q=0", "gzip"),
    ("gzip;q=0.0", ""),
    ("xgzip, brx", ""),
];

/// Requests that resemble a request for a page of the tree but must not receive a file.
fn refused(layout: Layout, page: &str) -> Vec<(&str, &str, Vec<&str>)> {
    let session = match layout {
        Layout::Typo3 => "Cookie: _ga=1; fe_typo_user=1",
        Layout::WpSuperCache | Layout::CacheEnabler => "Cookie: wordpress_logged_in_1=a",
        Layout::Boost => "Cookie: _ga=1;SESSabc=1",
    };
    let mut refused = vec![
        ("POST", page, vec!["Content-Length: 0"]),
        ("GET", page, vec![session]),
        ("GET", page, vec!["Authorization: Basic YTpi"]),
        ("GET", page, vec!["Host: b.test"]),
        ("GET", page, vec!["Host: a.test..", "Accept-Encoding: gzip"]),
        ("GET", "/none", vec![]),
        ("GET", "/.petasos/manifest", vec![]),
        ("GET", "/../.petasos/manifest", vec![]),
        ("GET", "/petasos-static-tree/plain/.petasos/manifest", vec![]),
        ("GET", "/a/%2e%2e/", vec![]),
        ("GET", "//", vec![]),
    ];
    match layout {
        Layout::Typo3 => {
            refused.extend([
                ("GET", "/a?b", vec![]),
                ("GET", "/a/index", vec![]),
                ("GET", "/a", vec!["Host: a.test:81"]),
            ]);
        }
        Layout::WpSuperCache => refused.extend([("GET", "/a", vec![]), ("GET", "/a/index.html", vec![])]),
        Layout::CacheEnabler => {
            refused.extend([("GET", "/a", vec![]), ("GET", "/a/http-index.html", vec![])])
        }
        Layout::Boost => refused.extend([("GET", "/a/", vec![]), ("GET", "/a_.html", vec![])]),
    }
    if layout != Layout::Boost {
        refused.push(("GET", "/a/?", vec![]));
    }
    if layout == Layout::Typo3 {
        refused.push(("GET", page, vec!["Cookie: unknown=1"]));
    }
    refused
}

#[test]
fn nginx_serves_the_tree() {
    serves_the_tree(ServerKind::Nginx);
}

#[test]
fn apache_serves_the_tree() {
    serves_the_tree(ServerKind::Apache);
}

#[test]
fn lighttpd_serves_the_tree() {
    serves_the_tree(ServerKind::Lighttpd);
}
