//! Which profile a site is found to need, and what becomes of what was stored before.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on panics")]
#![allow(dead_code, reason = "each test file uses its part of the support")]

mod support;

use config::{Disk, Plan};
use support::{Stage, behind, reason};
use testkit::{Action, Gate, Seen, response};

const FRESH: &str = "Cache-Control: max-age=60";
const WORDPRESS: &str = "Link: <http://example.test/wp-json/>; rel=\"https://api.w.org/\"";

/// A page as WordPress sends it to anonymous visitors.
fn blog(_: &Seen) -> Vec<Action> {
    response("200 OK", &[WORDPRESS, "Content-Type: text/html"], b"post")
}

/// What the admin address says of the profile.
fn told(stage: &Stage) -> (String, String) {
    let why = stage.call_admin("POST", "/why", "{\"url\":\"http://example.test/\"}").text().to_owned();
    (why, stage.call_admin("GET", "/status", "").text().to_owned())
}

#[test]
fn a_site_is_recognised_and_shared_from_then_on() {
    let stage = Stage::new(blog);
    let (why, status) = told(&stage);
    for text in [&why, &status] {
        assert!(text.contains("\"profile\": \"auto\"") && text.contains("\"rules\": \"default\""), "{text}");
        assert!(text.contains("\"recognised_by\": null"), "{text}");
    }
    // By the rules that it began with the answer could not be shared; it may be by the new ones, though it came before.
    let first = stage.get("/", &[]);
    assert!(!reason(&first).starts_with("hit"), "{}", first.head);
    stage.get("/", &[]);
    assert_eq!(reason(&stage.get("/", &["Cookie: wordpress_test_cookie=1"])), "hit-fresh");
    assert_eq!(reason(&stage.get("/", &["Cookie: wordpress_logged_in_0a=1"])), "pass-cookie");
    assert_eq!(reason(&stage.get("/wp-admin/", &[])), "pass-path");
    let (why, status) = told(&stage);
    for text in [&why, &status] {
        assert!(text.contains("\"rules\": \"wordpress\"") && text.contains("api.w.org"), "{text}");
    }
    assert_eq!(stage.metric("petasos_sites_recognised_total", ""), 1);
}

#[test]
fn who_says_nothing_of_itself_is_treated_as_unknown() {
    let stage = Stage::new(|_| {
        response("200 OK", &["X-Powered-By: PHP/8.2", "Set-Cookie: SESSION=1"], b"a /wp-content/ b")
    });
    for _ in 0..3 {
        assert_eq!(reason(&stage.get("/", &[])), "store-refused-set-cookie");
    }
    stage.becomes(|_| response("200 OK", &["Content-Type: text/html"], b"<p>/wp-content/ /wp-includes/</p>"));
    for target in ["/a", "/b"] {
        assert_eq!(reason(&stage.get(target, &[])), "store-refused-no-freshness");
    }
    assert_eq!(stage.metric("petasos_sites_recognised_total", ""), 0);
}

#[test]
fn a_chosen_profile_stays() {
    for policy in [semantics::Policy::default_profile(), semantics::Policy::rfc()] {
        let chosen = |plan: &mut Plan| {
            plan.sites[0].policy = policy.clone();
            plan.sites[0].recognisable.clear();
        };
        let stage = Stage::with(chosen, blog);
        for _ in 0..3 {
            assert_eq!(reason(&stage.get("/", &[])), "store-refused-no-freshness", "{}", policy.name);
        }
    }
}

#[test]
fn any_answer_will_do() {
    // That of a visitor who passes, of a write, and the content of a page that is shared or not, packed or plain.
    let passes = Stage::new(blog);
    passes.get("/", &["Cookie: theme=1"]);
    let writes = Stage::new(blog);
    writes.ask("POST", "/", &["Content-Length: 0"]);
    let page = b"<html><head><meta name=\"generator\" content=\"WordPress 6.1.9\"></head>";
    let packed: &[u8] = include_bytes!("support/wordpress.html.gz");
    const HTML: &str = "Content-Type: text/html; charset=UTF-8";
    const GZIP: &str = "Content-Encoding: gzip";
    let mut stages = vec![passes, writes];
    stages.push(Stage::new(|_| response("200 OK", &[HTML], page)));
    stages.push(Stage::new(|_| response("200 OK", &[HTML, FRESH], page)));
    stages.push(Stage::new(|_| response("200 OK", &[HTML, GZIP], packed)));
    stages.push(Stage::new(|_| response("200 OK", &[HTML, GZIP, FRESH], packed)));
    for stage in stages {
        stage.get("/", &["Accept-Encoding: gzip"]);
        let recognised = || stage.metric("petasos_sites_recognised_total", "") == 1;
        testkit::eventually("it is recognised", recognised);
    }
}

#[test]
fn nothing_that_was_stored_by_the_rules_before_is_used_after() {
    let stage = Stage::new(|seen| response("200 OK", &[FRESH], seen.target().as_bytes()));
    for target in ["/", "/a"] {
        stage.get(target, &[]);
        assert_eq!(reason(&stage.get(target, &[])), "hit-fresh");
    }
    stage.becomes(|seen| {
        response("200 OK", &[FRESH, "X-Redirect-By: WordPress"], format!("new {}", seen.target()).as_bytes())
    });
    stage.get("/b", &[]);
    for target in ["/", "/a", "/b"] {
        assert_eq!(stage.get(target, &[]).text(), format!("new {target}"));
    }
    assert_eq!(reason(&stage.get("/", &[])), "hit-fresh");
}

#[test]
fn a_fetch_that_began_by_the_rules_before_is_not_stored_by_any() {
    let gate = Gate::default();
    let held = gate.clone();
    let stage = Stage::new(move |seen| match seen.target() {
        "/slow" => behind(&held, response("200 OK", &[FRESH], b"slow")),
        _ => blog(seen),
    });
    let mut slow = stage.begin("GET", "/slow", &[]);
    stage.await_seen(1);
    stage.get("/", &[]);
    assert_eq!(stage.metric("petasos_sites_recognised_total", ""), 1);
    gate.open();
    assert_eq!(slow.read().text(), "slow");
    stage.await_quiet();
    assert_eq!(reason(&stage.get("/slow", &[])), "miss-absent", "it was not stored");
    assert_eq!(reason(&stage.get("/slow", &[])), "hit-fresh");
}

#[test]
fn an_edge_with_a_disk_remembers_what_it_found_and_what_it_stored_since() {
    let directory = tempfile::tempdir().unwrap();
    let disk = Disk {
        directory: directory.path().to_owned(),
        bytes_max: 16 << 20,
        power_safe_purges: false,
        state_directory: None,
        runtime_directory: None,
    };
    let on_disk = |plan: &mut Plan| plan.disk = Some(disk.clone());
    let first = Stage::with(on_disk, |seen| response("200 OK", &[FRESH], seen.target().as_bytes()));
    first.get("/before", &[]);
    first.becomes(blog);
    first.get("/x", &[]);
    first.get("/after", &[]);
    assert_eq!(reason(&first.get("/after", &[])), "hit-fresh");
    testkit::eventually("it is written down", || directory.path().join("recognised").exists());
    let (origin, edge) = (first.origin, first.edge);
    drop(edge);
    let mut plan = support::plan(&origin.url());
    on_disk(&mut plan);
    let second = support::start_at(plan, first.clock);
    let get = |target| support::connect(&second).get(target, &[]);
    assert_eq!(reason(&get("/after")), "hit-fresh");
    assert_eq!(reason(&get("/before")), "miss-absent");
    assert_eq!(support::metric(&second, "petasos_sites_recognised_total", ""), 0, "it knew");
}

#[test]
fn what_could_not_be_shared_before_is_shared_at_once() {
    let stage = Stage::new(|seen| match seen.target() {
        "/feed" => response("200 OK", &["X-Redirect-By: WordPress"], b"feed"),
        _ => response("200 OK", &[], b"page"),
    });
    for _ in 0..2 {
        assert_eq!(reason(&stage.get("/", &[])), "store-refused-no-freshness");
    }
    stage.get("/feed", &[]);
    stage.get("/", &[]);
    assert_eq!(reason(&stage.get("/", &[])), "hit-fresh");
}
