//! The static tree in the whole pipeline. Pages that are stored for everyone are written as files,
//! and a purge removes files before it is answered.

use crate::support::{Stage, behind, reason};
use config::{EdgePlan, StaticTreePlan};
use std::path::Path;
use tempfile::TempDir;
use testkit::{Action, Gate, Seen, eventually, response};

const FRESH: &str = "Cache-Control: max-age=600";
const HTML: &str = "Content-Type: text/html; charset=utf-8";

/// A stage for the site `example.test` with a static tree.
fn stage(script: impl Fn(&Seen) -> Vec<Action> + Send + Sync + 'static) -> (Stage, TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let stage = Stage::with(|plan| with_tree(plan, directory.path()), script);
    (stage, directory)
}

fn with_tree(plan: &mut EdgePlan, directory: &Path) {
    plan.static_tree =
        Some(StaticTreePlan { directory: directory.to_owned(), pages_max: 1_000, bytes_max: 1 << 30 });
    plan.sites.iter_mut().for_each(|site| {
        site.names = vec!["example.test".to_owned()];
        site.static_tree_layout = Some("typo3".to_owned());
    });
}

/// Pages with a tag each and a common one.
fn pages(seen: &Seen) -> Vec<Action> {
    let key = format!("Surrogate-Key: all page-{}", seen.target().trim_start_matches('/').replace('/', "-"));
    response("200 OK", &[FRESH, HTML, &key], format!("<p>{}</p>", seen.target()).as_bytes())
}

fn is_there(directory: &TempDir, target: &str) -> bool {
    directory.path().join(format!("http_example.test_80{target}/index")).exists()
}

/// Requests pages and waits until their files are written.
fn fill(stage: &Stage, directory: &TempDir, targets: &[&str]) {
    for target in targets {
        stage.get(target, &[]);
        eventually("the page is written", || is_there(directory, target));
    }
}

#[test]
fn stored_page_becomes_a_file_that_outlives_the_edge() {
    let (stage, directory) = stage(pages);
    fill(&stage, &directory, &["/a"]);
    let metric = |name: &str| stage.metric(&format!("petasos_static_tree_{name}"), "");
    assert_eq!((metric("pages"), metric("written_total"), metric("off")), (1, 1, 0));
    stage.get("/a?b", &[]);
    eventually("the query is counted", || metric("paths_total") == 1);
    stage.get("/own", &["Cookie: session=1"]);
    let path = directory.path().join("http_example.test_80/a/index");
    drop(stage);
    assert_eq!(std::fs::read_to_string(path).unwrap(), "<p>/a</p>");
    assert!(!is_there(&directory, "/own"));
}

#[test]
fn each_kind_of_purge_removes_the_file_before_its_answer() {
    let by_admin = |json: &'static str| -> Box<dyn Fn(&Stage) -> u16> {
        Box::new(move |stage| stage.call_admin("POST", "/purge", json).status)
    };
    let ask = |method: &'static str,
               target: &'static str,
               fields: &'static [&'static str]|
     -> Box<dyn Fn(&Stage) -> u16> {
        Box::new(move |stage| stage.ask(method, target, fields).status)
    };
    let purges = [
        ask("PURGE", "/news/1", &[]),
        ask("PURGE", "/", &["Surrogate-Key: page-news-1"]),
        ask("PURGE", "/", &["xkey-softpurge: page-news-1"]),
        ask("BAN", "/", &["X-Url: ^/news/1$"]),
        ask("POST", "/news/1", &["Content-Length: 0"]),
        by_admin(r#"{"type":"uri-prefix","selectors":["http://example.test/news/"]}"#),
    ];
    for (number, purge) in purges.iter().enumerate() {
        let (stage, directory) = stage(pages);
        fill(&stage, &directory, &["/news/1", "/shop"]);
        assert_eq!(purge(&stage), 200, "{number}");
        assert!(!is_there(&directory, "/news/1"), "{number}");
        assert!(is_there(&directory, "/shop"), "{number}");
        // A refetched page is written again.
        fill(&stage, &directory, &["/news/1"]);
    }
    for purge in [
        ask("PURGE", "/", &["xkey-purge: all"]),
        by_admin(r#"{"type":"uri-prefix","selectors":["http://example.test/"]}"#),
    ] {
        let (stage, directory) = stage(pages);
        fill(&stage, &directory, &["/news/1", "/shop"]);
        assert_eq!(purge(&stage), 200);
        assert!(!is_there(&directory, "/news/1") && !is_there(&directory, "/shop"));
        assert_eq!(stage.metric("petasos_static_tree_pages", ""), 0);
    }
}

#[test]
fn fetch_of_a_page_purged_meanwhile_writes_no_file() {
    let gate = Gate::default();
    let (stage, directory) = stage({
        let gate = gate.clone();
        move |seen| if seen.target() == "/a" { behind(&gate, pages(seen)) } else { pages(seen) }
    });
    let mut early = stage.begin("GET", "/a", &[]);
    stage.await_seen(1);
    assert_eq!(stage.ask("PURGE", "/", &["Surrogate-Key: page-a"]).status, 200);
    gate.open();
    assert_eq!(early.read().status, 200);
    stage.await_quiet();
    // Files are written in the order in which pages are stored, so `/a` would be written by now.
    fill(&stage, &directory, &["/b"]);
    assert!(!is_there(&directory, "/a"));
}

#[test]
fn expired_and_withdrawn_pages_have_no_file() {
    let (stage, directory) = stage(pages);
    fill(&stage, &directory, &["/a", "/b", "/c"]);
    stage.pass(700);
    eventually("the pages are removed", || stage.metric("petasos_static_tree_pages", "") == 0);
    assert!(!is_there(&directory, "/a"));
    fill(&stage, &directory, &["/a", "/b", "/c"]);
    // Each page is fetched again, and the origin has another response now.
    for (target, answer) in [
        ("/a", response("404 Not Found", &[FRESH, HTML], b"gone")),
        ("/b", response("200 OK", &["Cache-Control: private", HTML], b"yours")),
        ("/c", response("200 OK", &[FRESH, "Content-Type: text/plain"], b"text")),
    ] {
        stage.becomes(move |_| answer.clone());
        stage.get(target, &["Cache-Control: no-cache"]);
        stage.pass(60);
        stage.get(target, &["Cache-Control: no-cache"]);
        eventually("the page is removed", || !is_there(&directory, target));
    }
}

#[test]
fn purge_removes_the_file_of_an_evicted_page() {
    let directory = tempfile::tempdir().unwrap();
    let change = |plan: &mut EdgePlan| {
        with_tree(plan, directory.path());
        plan.sites[0].names.push("www.example.test".to_owned());
        (plan.memory_bytes, plan.limits.object_bytes_max) = (2 << 20, 64 << 10);
    };
    let stage = Stage::with(change, |seen| {
        let body = if seen.target() == "/" { 100 } else { 32_000 };
        response("200 OK", &[FRESH, HTML], &vec![b'x'; body])
    });
    let mut www = testkit::Client::connect(stage.edge.bound().listen[0].to_string().parse().unwrap());
    www.send("GET / HTTP/1.1\r\nHost: www.example.test\r\n\r\n");
    assert_eq!(www.read().status, 200);
    let path = directory.path().join("http_www.example.test_80/index");
    eventually("the page is written", || path.exists());
    for number in 0..200 {
        stage.get(&format!("/{number}"), &[]);
        stage.get(&format!("/{number}"), &[]);
    }
    www.send("GET / HTTP/1.1\r\nHost: www.example.test\r\nCache-Control: only-if-cached\r\n\r\n");
    assert_eq!(www.read().status, 504, "it has left the store");
    assert!(path.exists());
    assert_eq!(stage.ask("PURGE", "/", &[]).status, 200);
    assert!(!path.exists());
}

#[test]
fn unusable_tree_directory_disables_only_the_tree() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("mine"), "mine").unwrap();
    let stage = Stage::with(|plan| with_tree(plan, directory.path()), pages);
    stage.get("/a", &[]);
    assert_eq!(reason(&stage.get("/a", &[])), "hit-fresh");
    assert_eq!(stage.metric("petasos_static_tree_off", ""), 1);
    assert_eq!(stage.ask("PURGE", "/a", &[]).status, 200);
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
}

#[test]
fn page_found_by_the_leak_guard_has_no_file() {
    let directory = tempfile::tempdir().unwrap();
    let change = |plan: &mut EdgePlan| {
        with_tree(plan, directory.path());
        plan.limits.leak_guard_every = 1;
    };
    let stage = Stage::with(change, |seen| {
        let own = if seen.field("Cookie").is_some() { "Hello Ann" } else { "Hello stranger" };
        let text = format!(
            "<html><body><h1>A page that everybody may read</h1><p>{own}</p><p>And so it ends.</p></body></html>"
        );
        response("200 OK", &[FRESH, HTML], text.as_bytes())
    });
    fill(&stage, &directory, &["/a", "/b"]);
    assert_eq!(reason(&stage.get("/a", &["Cookie: _ga=1"])), "pass-leak-guard");
    eventually("the page is removed", || !is_there(&directory, "/a"));
    stage.pass(700);
    eventually("the pages have expired", || stage.metric("petasos_static_tree_pages", "") == 0);
    for target in ["/a", "/b"] {
        stage.get(target, &[]);
    }
    // Files are written in the order in which pages are stored, so `/a` would be written by now.
    eventually("the other page is written", || is_there(&directory, "/b"));
    assert!(!is_there(&directory, "/a"));
}

#[test]
fn made_up_ports_write_no_files() {
    let (stage, directory) = stage(pages);
    let ask = |host: &str| {
        let mut client = crate::support::connect(&stage.edge);
        client.send(format!("GET /a HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        assert_eq!(client.read().status, 200, "{host}");
    };
    (1..=20).for_each(|port| ask(&format!("example.test:{port}")));
    fill(&stage, &directory, &["/b"]);
    assert_eq!(stage.metric("petasos_static_tree_pages", ""), 1);
    // The other requests pass, so they are not offered to the tree.
    eventually("they are counted", || stage.metric("petasos_static_tree_paths_total", "") == 4);
}
