//! A failing origin is protected: followers share a retry, and stale pages are not refreshed again
//! at once.

use crate::support::{Stage, behind, reason};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use testkit::{Action, Gate, Seen, eventually, response};

const FRESH: &str = "Cache-Control: max-age=600";

fn failing() -> Vec<Action> {
    response("500 Internal Server Error", &[], b"dying")
}

/// An edge that pauses fetches after a failure, in front of an origin that fails once the gate is
/// open.
fn stage(gate: &Gate, pause: Duration) -> Stage {
    let closed = gate.clone();
    Stage::with(|plan| plan.limits.failure_pause = pause, move |_| behind(&closed, failing()))
}

#[test]
fn followers_of_a_failed_fetch_share_one_retry() {
    let gate = Gate::default();
    // Long enough for the origin to recover before the retry.
    let stage = stage(&gate, Duration::from_millis(500));
    let crowd = stage.crowd(8, &[]);
    stage.await_seen(1);
    stage.becomes(|_| response("200 OK", &[FRESH], b"well again"));
    gate.open();
    let answers: Vec<_> = crowd.into_iter().map(|mut client| client.read()).collect();
    let of = |status: u16| answers.iter().filter(|answer| answer.status == status).count();
    assert_eq!((of(500), of(200)), (1, 7));
    assert_eq!(stage.origin.seen().len(), 2, "one fetch served all the others");
    assert_eq!(stage.metric("petasos_failure_pauses_total", ""), 7);
}

#[test]
fn retries_of_a_failing_origin_are_limited() {
    let gates: [Gate; 3] = Default::default();
    let (closed, asked) = (gates.clone(), AtomicUsize::new(0));
    let stage = Stage::with(
        |plan| plan.limits.failure_pause = Duration::from_millis(50),
        move |_| match closed.get(asked.fetch_add(1, Ordering::SeqCst)) {
            Some(gate) => behind(gate, failing()),
            None => failing(),
        },
    );
    let crowd = stage.crowd(12, &[]);
    // The origin fails each time after all remaining requests have joined the next leader.
    for (gate, waits) in gates.iter().zip([11, 11 + 10, 11 + 10 + 9]) {
        eventually("all but one wait", || stage.metric("petasos_flight_waits_total", "") == waits);
        gate.open();
    }
    let answers: Vec<_> = crowd.into_iter().map(|mut client| client.read()).collect();
    let refused: Vec<_> = answers.iter().filter(|answer| answer.status == 503).collect();
    assert_eq!((stage.origin.seen().len(), refused.len()), (3, 9));
    for answer in refused {
        assert_eq!(reason(answer), "origin-failing");
        assert!(answer.field("Retry-After").is_some());
        let page = answer.text();
        assert!(page.contains("<p>The site cannot answer") && !page.contains("127.0.0.1"), "{page}");
    }
    let again = stage.get("/", &[]);
    assert_eq!((again.status, again.text()), (500, "dying"), "a later request has its own fetch");
}

#[test]
fn followers_of_a_failed_fetch_retry_alone_under_rfc_profile() {
    let gate = Gate::default();
    let closed = gate.clone();
    let stage = Stage::rfc(move |seen: &Seen| {
        let actions =
            if seen.field("X-Poison").is_some() { failing() } else { response("200 OK", &[], b"page") };
        behind(&closed, actions)
    });
    let mut poisoned = stage.begin("GET", "/", &["X-Poison: 1"]);
    stage.await_seen(1);
    let mut other = stage.begin("GET", "/", &[]);
    gate.open();
    assert_eq!(poisoned.read().status, 500);
    assert_eq!(other.read().text(), "page", "the first request's fields may have caused the error");
}

#[test]
fn background_refresh_pauses_after_a_failure() {
    let stage = Stage::with(
        |plan| plan.limits.failure_pause = Duration::from_secs(5),
        |_| response("200 OK", &["Cache-Control: max-age=10, stale-while-revalidate=600"], b"page"),
    );
    stage.get("/", &[]);
    stage.becomes(|_| failing());
    stage.pass(11);
    let refreshes = || stage.metric("petasos_background_refreshes_total", "");
    for _ in 0..5 {
        assert_eq!(reason(&stage.get("/", &[])), "stale-while-revalidate");
        stage.await_quiet();
    }
    assert_eq!((stage.origin.seen().len(), refreshes()), (2, 1));
    assert_eq!(stage.metric("petasos_refreshes_paused_total", ""), 4);
    stage.pass(5);
    stage.get("/", &[]);
    stage.await_quiet();
    assert_eq!((stage.origin.seen().len(), refreshes()), (3, 2), "the origin is tried again after the pause");
    stage.pass(5);
    stage.origin.kill();
    for _ in 0..3 {
        assert_eq!(reason(&stage.get("/", &[])), "stale-while-revalidate");
        stage.await_quiet();
    }
    assert_eq!(refreshes(), 3, "a missing response is a failure too");
}

/// A stage with an expired page at `/`, whose origin fails from now on.
fn expired(lifetime: &'static str) -> Stage {
    expired_with(lifetime, Duration::from_secs(1))
}

fn expired_with(lifetime: &'static str, pause: Duration) -> Stage {
    let stage = Stage::with(
        |plan| plan.limits.failure_pause = pause,
        move |_| response("200 OK", &[lifetime], b"page"),
    );
    stage.get("/", &[]);
    stage.pass(100);
    stage.becomes(|_| failing());
    stage
}

#[test]
fn expired_page_is_fetched_once_a_pause_while_the_origin_fails() {
    let stage = expired("Cache-Control: max-age=10");
    for pauses in 1..=3 {
        for method in ["GET", "GET", "HEAD", "GET"] {
            let answer = stage.ask(method, "/", &[]);
            assert_eq!((answer.status, reason(&answer)), (200, "stale-on-error"));
        }
        assert_eq!(stage.origin.seen().len(), 1 + pauses, "one fetch in each pause");
        stage.pass(1);
    }
    assert_eq!(stage.metric("petasos_refreshes_paused_total", ""), 9);
    assert_eq!(stage.metric("petasos_breaker_stale_total", ""), 0);
    stage.becomes(|_| response("200 OK", &[FRESH], b"new"));
    assert_eq!(stage.get("/", &[]).text(), "new", "a page that works again is shown after the pause");
}

#[test]
fn pages_that_may_not_be_stale_are_fetched_for_each_request() {
    let strict = expired("Cache-Control: max-age=10, must-revalidate");
    let purged = expired("Cache-Control: max-age=10");
    assert_eq!(purged.get("/", &[]).text(), "page");
    assert_eq!(purged.ask("PURGE", "/", &["Fastly-Soft-Purge: 1"]).status, 200);
    let fetches = |stage: &Stage| stage.origin.seen().len();
    let before = (fetches(&strict), fetches(&purged));
    for visits in 1..=3 {
        assert_eq!(strict.get("/", &[]).text(), "dying");
        purged.get("/", &[]);
        assert_eq!((fetches(&strict), fetches(&purged)), (before.0 + visits, before.1 + visits));
    }
}

#[test]
fn good_response_ends_the_pause_of_its_page() {
    let lifetime = "Cache-Control: max-age=10";
    let stage = expired_with(lifetime, Duration::from_secs(60));
    assert_eq!(reason(&stage.get("/", &[])), "stale-on-error");
    assert_eq!(stage.ask("PURGE", "/", &[]).status, 200);
    for body in ["well", "newer"] {
        stage.becomes(move |_| response("200 OK", &[lifetime], body.as_bytes()));
        assert_eq!(stage.get("/", &[]).text(), body);
        stage.pass(20);
    }
}

#[test]
fn error_possibly_caused_by_a_client_keeps_the_page_for_others() {
    let stage = Stage::with(
        |plan| {
            let policy = &profiles::Profile::shipped("rfc").unwrap().policy;
            plan.sites.iter_mut().for_each(|site| site.policy = policy.clone());
        },
        |seen| match seen.field("Accept-Language") {
            Some("broken") => failing(),
            _ => response("200 OK", &["Cache-Control: max-age=10"], b"page"),
        },
    );
    stage.get("/", &[]);
    stage.pass(100);
    assert_eq!(reason(&stage.get("/", &["Accept-Language: broken"])), "stale-on-error");
    let next = stage.get("/", &["Accept-Language: en"]);
    assert_ne!(reason(&next), "stale-on-error", "{}", next.head);
}
