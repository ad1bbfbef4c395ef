//! A WordPress site's 404 responses, redirects and maintenance page: which of them are shared
//! briefly, and when they precede stored pages.

use crate::support::{Stage, behind, reason};
use config::EdgePlan;
use profiles::Policy;
use testkit::{Action, Gate, Seen, response};

const NO_CACHE: &str = "Cache-Control: no-cache, must-revalidate, max-age=0, no-store, private";
const EXPIRES: &str = "Expires: Wed, 11 Jan 1984 05:00:00 GMT";

fn wordpress(plan: &mut EdgePlan) {
    plan.sites.iter_mut().for_each(|site| site.policy = Policy::wordpress());
}

fn missing() -> Vec<Action> {
    response("404 Not Found", &[NO_CACHE, EXPIRES], b"nothing here")
}

fn page() -> Vec<Action> {
    response("200 OK", &[], b"page")
}

fn closed() -> Vec<Action> {
    response("503 Service Unavailable", &["Retry-After: 600", NO_CACHE, EXPIRES], b"maintenance")
}

/// Publishes a post as the editor's screen does.
fn publish(stage: &Stage) {
    let cookie = "Cookie: wordpress_logged_in_1=editor";
    let saved = stage.ask("POST", "/wp-admin/post.php", &["Content-Length: 0", cookie]);
    assert_eq!(saved.status, 302);
}

fn saves(seen: &Seen) -> bool {
    seen.head.starts_with("POST")
}

fn saved() -> Vec<Action> {
    response("302 Found", &["Location: /wp-admin/post.php?post=1&action=edit&message=6"], b"")
}

#[test]
fn wordpress_404_is_fetched_once_in_30_seconds() {
    let stage = Stage::with(wordpress, |_| missing());
    for _ in 0..3 {
        for path in ["/.env", "/wp-config.php.bak"] {
            let answer = stage.get(path, &[]);
            assert_eq!((answer.status, answer.text()), (404, "nothing here"));
            assert!(answer.field("Cache-Control").unwrap().contains("no-store"), "for browsers");
        }
    }
    assert_eq!(stage.origin.seen().len(), 2, "requests at the origin");
    stage.pass(31);
    stage.origin.kill();
    assert_eq!(stage.get("/.env", &[]).status, 502, "it is of no use after its time");
}

#[test]
fn favicon_redirect_of_wordpress_is_shared() {
    let stage = Stage::with(wordpress, |_| {
        response("302 Found", &["Location: /w-logo.png", "X-Redirect-By: WordPress"], b"")
    });
    for _ in 0..3 {
        assert_eq!(stage.get("/favicon.ico", &[]).status, 302);
    }
    assert_eq!(stage.origin.seen().len(), 1, "requests at the origin");
    stage.get("/", &[]);
    stage.get("/", &[]);
    assert_eq!(stage.origin.seen().len(), 3, "another redirect may depend on the client");
}

#[test]
fn post_published_at_a_stored_404_is_served_at_once() {
    let stage = Stage::with(wordpress, |_| missing());
    assert_eq!(stage.get("/hello/", &[]).status, 404);
    assert_eq!(reason(&stage.get("/hello/", &[])), "hit-fresh");
    stage.becomes(|seen| if saves(seen) { saved() } else { page() });
    publish(&stage);
    assert_eq!(stage.get("/hello/", &[]).text(), "page");
}

#[test]
fn maintenance_page_precedes_stale_pages() {
    let stage = Stage::with(wordpress, |_| page());
    stage.get("/", &[]);
    stage.pass(400);
    stage.becomes(|_| closed());
    for _ in 0..2 {
        let answer = stage.get("/", &[]);
        let told = (answer.status, answer.text(), reason(&answer), answer.field("Retry-After"));
        assert_eq!(told, (503, "maintenance", "store-refused-maintenance", Some("600")));
    }
    stage.becomes(|_| page());
    assert_eq!(stage.get("/", &[]).text(), "page");
    assert_eq!(reason(&stage.get("/", &[])), "hit-fresh");
}

#[test]
fn maintenance_page_ends_stale_while_revalidate() {
    let stage = Stage::with(wordpress, |_| page());
    stage.get("/", &[]);
    stage.pass(310);
    stage.becomes(|_| closed());
    assert_eq!(reason(&stage.get("/", &[])), "stale-while-revalidate");
    stage.await_quiet();
    assert_eq!(stage.get("/", &[]).status, 503);
    stage.origin.kill();
    assert_eq!(stage.get("/", &[]).text(), "page", "an origin that is down settles nothing");
}

#[test]
fn maintenance_page_is_shown_after_the_write_that_closed_site() {
    let stage = Stage::with(wordpress, |_| page());
    stage.get("/", &[]);
    stage.becomes(|seen| if saves(seen) { saved() } else { closed() });
    publish(&stage);
    assert_eq!(stage.get("/", &[]).text(), "maintenance");
}

#[test]
fn maintenance_page_reaches_all_waiting_requests() {
    let gate = Gate::default();
    let shut = gate.clone();
    let stage = Stage::with(wordpress, move |_| behind(&shut, closed()));
    let crowd = stage.crowd(4, &[]);
    gate.open();
    for mut client in crowd {
        assert_eq!(client.read().text(), "maintenance");
    }
    assert_eq!(stage.metric("petasos_failure_pauses_total", ""), 0);
}

#[test]
fn error_of_an_overloaded_server_is_hidden_by_stale_pages() {
    for fields in [&["Retry-After: 5"][..], &["Retry-After: 5", "Expires: 0"], &[]] {
        let stage = Stage::with(wordpress, |_| page());
        stage.get("/", &[]);
        stage.pass(400);
        stage.becomes(move |_| response("503 Service Unavailable", fields, b"busy"));
        let answer = stage.get("/", &[]);
        assert_eq!((answer.text(), reason(&answer)), ("page", "stale-on-error"), "{fields:?}");
    }
}
