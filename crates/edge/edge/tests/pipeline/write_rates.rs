//! The rate limit on invalidation by unsafe methods (RFC 9111 section 4.4), and the pages it
//! covers.

use crate::support::{Stage, behind, connect, reason};
use std::sync::atomic::{AtomicUsize, Ordering};
use testkit::{Action, Gate, Seen, response};

const FRESH: &str = "Cache-Control: max-age=60";

/// A page, fresh for a minute and then stale for a long time, and responses to writes.
fn page(seen: &Seen, text: &str) -> Vec<Action> {
    if seen.head.starts_with("POST") {
        return response("200 OK", &[], b"");
    }
    response("200 OK", &["Cache-Control: max-age=60, stale-while-revalidate=600"], text.as_bytes())
}

/// A stage that removes no page because of a write, with the stored page `old`.
fn unhurried() -> Stage {
    let limits = |plan: &mut config::EdgePlan| plan.limits.page_writes_per_minute = 0;
    let stage = Stage::with(limits, |seen| page(seen, "old"));
    assert_eq!(stage.get("/", &[]).text(), "old");
    stage
}

fn write(stage: &Stage) {
    let before = stage.metric("petasos_page_writes_postponed_total", "");
    stage.ask("POST", "/", &["Content-Length: 0"]);
    assert_eq!(stage.metric("petasos_page_writes_postponed_total", ""), before + 1);
}

/// Asserts that the next request gets the old page and starts the fetch of the new one.
fn assert_replaced(stage: &Stage) {
    let answer = stage.get("/", &[]);
    assert_eq!((answer.text(), reason(&answer)), ("old", "stale-while-revalidate"));
    stage.await_quiet();
    let answer = stage.get("/", &[]);
    assert_eq!((answer.text(), reason(&answer)), ("new", "hit-fresh"));
}

#[test]
fn unsafe_methods_beyond_the_rate_keep_their_pages() {
    let writes = AtomicUsize::new(0);
    let limit = |plan: &mut config::EdgePlan| plan.limits.page_writes_per_minute = 2;
    let stage = Stage::with(limit, move |seen| {
        if seen.head.starts_with("GET") {
            return response("200 OK", &[FRESH], writes.load(Ordering::SeqCst).to_string().as_bytes());
        }
        writes.fetch_add(usize::from(seen.target() == "/"), Ordering::SeqCst);
        response("200 OK", &[], b"")
    });
    let write = |target| stage.ask("POST", target, &["Content-Length: 0"]);
    for round in 0..2 {
        assert_eq!(stage.get("/", &[]).text(), round.to_string());
        write("/");
        write("/not-stored");
    }
    assert_eq!(stage.get("/", &[]).text(), "2");
    write("/");
    assert_eq!(stage.metric("petasos_page_writes_postponed_total", ""), 1);
    assert_eq!(reason(&stage.get("/", &[])), "hit-fresh");
    stage.pass(10);
    let answer = stage.get("/", &[]);
    assert_eq!((answer.text(), reason(&answer)), ("2", "stale-while-revalidate"));
    stage.await_quiet();
    let answer = stage.get("/", &[]);
    assert_eq!((answer.text(), reason(&answer)), ("3", "hit-fresh"));
    assert_eq!(stage.origin.count("/not-stored"), 2, "an absent page is not fetched");
}

#[test]
fn fetch_from_before_a_postponed_write_is_not_its_refresh() {
    for seconds in [0, 20] {
        let (stage, gate) = (unhurried(), Gate::default());
        stage.pass(60);
        let closed = gate.clone();
        stage.becomes(move |seen| {
            let answer = page(seen, "old");
            if seen.head.starts_with("GET") { behind(&closed, answer) } else { answer }
        });
        assert_eq!(reason(&stage.get("/", &[])), "stale-while-revalidate");
        stage.await_seen(2);
        write(&stage);
        stage.becomes(|seen| page(seen, "new"));
        stage.pass(seconds);
        gate.open();
        stage.await_quiet();
        let answer = stage.get("/", &[]);
        assert_eq!((answer.text(), reason(&answer)), ("old", "hit-fresh"), "after {seconds} s");
        stage.pass(10);
        assert_replaced(&stage);
    }
}

#[test]
fn refresh_of_a_postponed_write_is_repeated_if_it_fails() {
    let stage = unhurried();
    stage.becomes(|seen| {
        let is_write = seen.head.starts_with("POST");
        if is_write { page(seen, "") } else { response("500 Internal Server Error", &[], b"dying") }
    });
    write(&stage);
    stage.pass(10);
    assert_eq!(stage.get("/", &[]).text(), "old");
    stage.await_quiet();
    assert_eq!(stage.origin.seen().len(), 3, "the refresh has failed");
    stage.becomes(|seen| page(seen, "new"));
    stage.pass(10);
    assert_replaced(&stage);
}

#[test]
fn postponed_write_refreshes_every_variant() {
    let limits = |plan: &mut config::EdgePlan| plan.limits.page_writes_per_minute = 0;
    let script = |text: &'static str| {
        move |_: &Seen| response("200 OK", &[FRESH, "Vary: Accept-Language"], text.as_bytes())
    };
    let stage = Stage::with(limits, script("old"));
    let languages = ["Accept-Language: fr", "Accept-Language: de"];
    for language in languages {
        assert_eq!(stage.get("/", &[language]).text(), "old");
    }
    write(&stage);
    stage.becomes(script("new"));
    stage.pass(10);
    for language in languages {
        assert_eq!(stage.get("/", &[language]).text(), "old");
        stage.await_quiet();
        assert_eq!(stage.get("/", &[language]).text(), "new", "{language}");
    }
}

#[test]
fn write_rate_counts_a_page_under_more_hosts_than_are_listed() {
    let limits = |plan: &mut config::EdgePlan| {
        plan.limits.page_writes_per_minute = 0;
        plan.limits.foreign_ports_max = 100;
    };
    let stage = Stage::with(limits, |seen| page(seen, "old"));
    let get = |port: usize| {
        let mut client = connect(&stage.edge);
        client.send(format!("GET / HTTP/1.1\r\nHost: example.test:{port}\r\n\r\n"));
        client.read()
    };
    (1..=65).for_each(|port| assert_eq!(get(port).text(), "old"));
    write(&stage);
    assert_eq!(reason(&get(65)), "hit-fresh");
    stage.becomes(|seen| page(seen, "new"));
    stage.pass(10);
    assert_eq!(reason(&get(65)), "stale-while-revalidate");
    stage.await_quiet();
    assert_eq!(get(65).text(), "new");
}

#[test]
fn unsafe_method_beyond_the_rate_keeps_the_https_page() {
    let limits = |plan: &mut config::EdgePlan| {
        plan.limits.page_writes_per_minute = 0;
        plan.trusted_proxies = ["127.0.0.1".parse::<address::Prefix>().unwrap()].into_iter().collect();
    };
    let stage = Stage::with(limits, |_| response("200 OK", &[FRESH], b"page"));
    let secure = ["X-Forwarded-Proto: https"];
    stage.get("/", &secure);
    stage.ask("POST", "/", &["Content-Length: 0"]);
    assert_eq!(stage.metric("petasos_page_writes_postponed_total", ""), 1);
    let answer = stage.get("/", &secure);
    assert!(reason(&answer).starts_with("hit") || reason(&answer).starts_with("stale"), "{}", answer.head);
}
