//! The circuit breaker: the responses and fetches while an origin refuses connections or is silent.

use crate::support::{Stage, behind, reason};
use config::EdgePlan;
use std::time::Duration;
use testkit::{Action, Client, Gate, Response, Seen, eventually, response};

/// Fresh for ten seconds; the default policy serves it stale for a day if the origin fails.
const FRESH: &[&str] = &["Cache-Control: max-age=10"];
const STATE: &str = "petasos_origin_breaker_state";
const CHANGES: &str = "petasos_origin_breaker_changes_total";
/// Makes a purge soft.
const SOFT: &str = "Fastly-Soft-Purge: 1";
const SILENT: u64 = 1;
const UNREACHABLE: u64 = 2;

fn page(seen: &Seen) -> Vec<Action> {
    response("200 OK", FRESH, seen.target().as_bytes())
}

/// The test's clock decides when the origin is late; clients wait for a stale copy only briefly.
fn impatient(plan: &mut EdgePlan) {
    plan.limits.stale_wait = Duration::from_millis(20);
}

/// A stage with these pages stored and expired.
fn expired(change: impl FnOnce(&mut EdgePlan), targets: &[&str]) -> Stage {
    let stage = Stage::with(
        |plan| {
            impatient(plan);
            change(plan);
        },
        page,
    );
    targets.iter().for_each(|target| assert_eq!(stage.get(target, &[]).status, 200));
    stage.pass(100);
    stage
}

/// From now on the origin responds only once the gate is open.
fn hang(stage: &Stage) -> Gate {
    let gate = Gate::default();
    let closed = gate.clone();
    stage.becomes(move |seen| behind(&closed, page(seen)));
    gate
}

/// A stage whose origin has not answered requests for these pages, so that the breaker is open.
fn silent(change: impl FnOnce(&mut EdgePlan), targets: &[&str]) -> (Stage, Gate) {
    let stage = expired(change, targets);
    let gate = hang(&stage);
    let before = stage.origin.seen().len();
    for target in targets.iter().take(3) {
        assert_eq!(reason(&stage.get(target, &[])), "stale-origin-slow");
    }
    stage.await_seen(before + 3);
    stage.pass(1);
    assert_eq!(stage.metric(STATE, ""), SILENT);
    (stage, gate)
}

fn refusals(stage: &Stage) -> u64 {
    stage.metric("petasos_origin_refusals_total", "")
}

#[test]
fn refusing_origin_is_asked_once_and_then_by_probes() {
    let stage = expired(|_| {}, &["/a", "/b", "/c"]);
    stage.origin.kill();
    assert_eq!(reason(&stage.get("/a", &[])), "stale-on-error");
    for target in ["/a", "/b", "/c", "/a", "/b", "/c"] {
        assert_eq!(reason(&stage.get(target, &[])), "stale-breaker-open");
    }
    assert_eq!((refusals(&stage), stage.metric(STATE, "")), (1, UNREACHABLE));
    assert_eq!(stage.metric("petasos_breaker_stale_total", ""), 6);
    for probes in 1..=3 {
        stage.pass(1);
        for target in ["/a", "/b", "/c"] {
            assert_eq!(reason(&stage.get(target, &[])), "stale-breaker-open");
        }
        eventually("the probe was refused", || refusals(&stage) == 1 + probes);
        stage.await_quiet();
    }
    stage.origin.revive();
    stage.pass(1);
    assert_eq!(reason(&stage.get("/a", &[])), "stale-breaker-open");
    stage.await_quiet();
    assert_eq!((stage.metric(STATE, ""), stage.metric(CHANGES, "")), (0, 2));
    assert_eq!(reason(&stage.get("/a", &[])), "hit-fresh", "the probe has refreshed the page");
    assert_eq!(reason(&stage.get("/b", &[])), "miss-expired");
}

#[test]
fn misses_and_passes_at_a_refusing_origin_get_503_at_once() {
    let stage = expired(|_| {}, &["/a"]);
    stage.origin.kill();
    assert_eq!(stage.get("/unseen", &[]).status, 502, "the first request gets the origin's failure");
    for fields in [&[][..], &["Cookie: session=1"]] {
        let refused = stage.get("/unseen", fields);
        assert_eq!((refused.status, reason(&refused)), (503, "origin-breaker-open"));
        assert!(refused.field("Retry-After").is_some(), "{}", refused.head);
    }
    assert_eq!((refusals(&stage), stage.metric("petasos_breaker_refusals_total", "")), (1, 2));
    // Without a stored copy, any request can be the probe.
    stage.pass(1);
    assert_eq!(stage.get("/unseen", &["Cookie: session=1"]).status, 502);
    stage.origin.revive();
    stage.pass(1);
    assert_eq!(stage.get("/unseen", &["Cookie: session=1"]).status, 200);
    assert_eq!(stage.metric(STATE, ""), 0);
}

#[test]
fn silent_origin_is_asked_by_one_probe_at_a_time() {
    let (stage, gate) = silent(|_| {}, &["/a", "/b", "/c", "/d", "/e"]);
    let asked = stage.origin.seen().len();
    let ask_all = |why: &str| {
        for target in ["/a", "/b", "/c", "/d", "/e"] {
            assert_eq!(reason(&stage.get(target, &[])), why);
        }
    };
    ask_all("stale-breaker-open");
    assert_eq!(stage.origin.seen().len(), asked, "no request reaches the origin before the first pause ends");
    stage.pass(1);
    ask_all("stale-breaker-open");
    stage.await_seen(asked + 1);
    stage.pass(4);
    ask_all("stale-breaker-open");
    assert_eq!(stage.origin.seen().len(), asked + 1, "the first probe is in progress");
    stage.pass(1);
    ask_all("stale-breaker-open");
    stage.await_seen(asked + 2);
    gate.open();
    eventually("the breaker is closed", || stage.metric(STATE, "") == 0);
    stage.await_quiet();
    assert_eq!(reason(&stage.get("/a", &[])), "hit-fresh", "the probe's response was stored");
}

#[test]
fn fetches_without_waiting_clients_are_aborted() {
    let (stage, gate) = silent(|_| {}, &["/a", "/b", "/c"]);
    eventually("the permits are free", || stage.metric("petasos_origin_fetches_active", "") == 0);
    stage.await_quiet();
    // A fetch that a client waits for is not given up.
    let mut client = stage.begin("GET", "/unseen", &[]);
    let asked = stage.origin.seen().len();
    eventually("the miss reaches the origin", || stage.origin.count("/unseen") == 1 && asked > 0);
    assert_eq!(stage.metric("petasos_origin_fetches_active", ""), 1);
    gate.open();
    assert_eq!(client.read().text(), "/unseen");
}

#[test]
fn clients_that_wait_get_stale_copies_when_the_breaker_opens() {
    let stage = Stage::new(page);
    for target in ["/a", "/b", "/c"] {
        stage.get(target, &[]);
    }
    stage.pass(100);
    let gate = hang(&stage);
    let mut clients = ["/a", "/b", "/c"].map(|target| stage.begin("GET", target, &[]));
    let mut absent = stage.begin("GET", "/unseen", &[]);
    stage.await_seen(7);
    stage.pass(11);
    assert_eq!(stage.metric(STATE, ""), SILENT);
    for client in &mut clients {
        assert_eq!(reason(&client.read()), "stale-breaker-open");
    }
    gate.open();
    assert_eq!(absent.read().text(), "/unseen");
}

#[test]
fn misses_get_half_of_the_permits_of_a_silent_origin() {
    let (stage, gate) = silent(|plan| plan.limits.fetches_max = 8, &["/a", "/b", "/c"]);
    eventually("the permits are free", || stage.metric("petasos_origin_fetches_active", "") == 0);
    let mut clients: Vec<Client> =
        (0..6).map(|number| stage.begin("GET", &format!("/miss/{number}"), &["Cookie: session=1"])).collect();
    eventually("two wait", || stage.metric("petasos_origin_fetches_waiting", "") == 2);
    assert_eq!(stage.metric("petasos_origin_fetches_active", ""), 4);
    gate.open();
    assert!(clients.iter_mut().all(|client| client.read().status == 200));
}

#[test]
fn purged_and_must_revalidate_pages_are_fetched_when_open() {
    let stage = expired(|_| {}, &["/a", "/b", "/c", "/purged"]);
    stage.becomes(|_| response("200 OK", &["Cache-Control: max-age=10, must-revalidate"], b"strict"));
    stage.get("/strict", &[]);
    stage.pass(11);
    let purged = stage.ask("PURGE", "/purged", &[SOFT]);
    assert_eq!(purged.status, 200, "{}", purged.head);
    let gate = hang(&stage);
    for target in ["/a", "/b", "/c"] {
        assert_eq!(reason(&stage.get(target, &[])), "stale-origin-slow");
    }
    stage.pass(1);
    assert_eq!(reason(&stage.get("/a", &[])), "stale-breaker-open");
    let mut clients = ["/strict", "/purged"].map(|target| stage.begin("GET", target, &[]));
    for target in ["/strict", "/purged"] {
        eventually("the request reaches the origin", || stage.origin.count(target) == 2);
    }
    gate.open();
    let reasons = clients.each_mut().map(|client| reason(&client.read()).to_owned());
    assert_eq!(reasons, ["miss-expired", "miss-invalidated"]);
}

#[test]
fn error_responses_leave_the_breaker_closed() {
    let stage = expired(|_| {}, &["/a", "/b", "/c", "/d"]);
    stage.becomes(|_| response("503 Busy", &[], b"busy"));
    for target in ["/a", "/b", "/c", "/d"] {
        assert_eq!(reason(&stage.get(target, &[])), "stale-on-error");
    }
    assert_eq!((stage.metric(STATE, ""), stage.metric(CHANGES, "")), (0, 0));
}

#[test]
fn resets_without_a_response_open_the_breaker() {
    let stage = expired(|_| {}, &["/a"]);
    stage.becomes(|_| vec![Action::Reset]);
    for visit in 1..=3 {
        // After a failure the page is not fetched for a second.
        stage.pass(1);
        let answer = stage.get("/a", &[]);
        let reason = reason(&answer);
        // The third reset opens the breaker; its client sees either reason.
        let is_silent = visit == 3 && reason == "stale-breaker-open";
        assert!(is_silent || reason == "stale-on-error", "visit {visit}: {reason}");
    }
    let asked = stage.origin.seen().len();
    assert_eq!(reason(&stage.get("/a", &[])), "stale-breaker-open");
    assert_eq!((stage.metric(STATE, ""), stage.origin.seen().len()), (SILENT, asked));
}

#[test]
fn long_polls_leave_the_breaker_closed() {
    let stage = expired(|_| {}, &[]);
    let gate = hang(&stage);
    let mut polls: Vec<Client> =
        (0..5).map(|number| stage.begin("GET", &format!("/poll/{number}"), &["Cookie: session=1"])).collect();
    stage.await_seen(5);
    stage.pass(60);
    assert_eq!((stage.metric(STATE, ""), stage.metric(CHANGES, "")), (0, 0));
    gate.open();
    assert!(polls.iter_mut().all(|poll| poll.read().status == 200));
}

#[test]
fn background_refreshes_stop_while_the_breaker_is_open() {
    let revalidating = |seen: &Seen| {
        response(
            "200 OK",
            &["Cache-Control: max-age=10, stale-while-revalidate=600"],
            seen.target().as_bytes(),
        )
    };
    let stage = Stage::with(impatient, revalidating);
    for target in ["/a", "/b", "/c", "/d"] {
        stage.get(target, &[]);
    }
    stage.pass(20);
    hang(&stage);
    for target in ["/a", "/b", "/c"] {
        assert_eq!(reason(&stage.get(target, &[])), "stale-while-revalidate");
    }
    stage.await_seen(7);
    stage.pass(1);
    for target in ["/a", "/b", "/c", "/d"] {
        assert_eq!(reason(&stage.get(target, &[])), "stale-while-revalidate");
    }
    assert_eq!((stage.metric(STATE, ""), stage.metric("petasos_refreshes_paused_total", "")), (SILENT, 4));
    stage.await_seen(7);
}

#[test]
fn late_page_is_served_stale_unless_purged_or_reloaded() {
    let stage = expired(|_| {}, &["/late", "/later", "/last", "/purged"]);
    assert_eq!(stage.ask("PURGE", "/purged", &[SOFT]).status, 200);
    let gate = hang(&stage);
    assert_eq!(reason(&stage.get("/late", &[])), "stale-origin-slow");
    assert_eq!(reason(&stage.get("/late", &[])), "stale-origin-slow", "the second does not wait again");
    assert_eq!(stage.origin.count("/late"), 2, "and shares the fetch");
    let head = stage.ask("HEAD", "/late", &[]);
    assert_eq!((head.status, reason(&head)), (200, "stale-origin-slow"));
    let mut purged = stage.begin("GET", "/purged", &[]);
    eventually("the purged page is requested from the origin", || stage.origin.count("/purged") == 2);
    // The purged page was requested before this one, so it is late too.
    assert_eq!(reason(&stage.get("/later", &[])), "stale-origin-slow");
    gate.open();
    assert_eq!(reason(&purged.read()), "miss-invalidated");
    stage.await_quiet();
    stage.pass(6);
    let gate = hang(&stage);
    let mut reloaded = stage.begin("GET", "/purged", &["Cache-Control: no-cache"]);
    eventually("the reload reaches the origin", || stage.origin.count("/purged") == 3);
    assert_eq!(reason(&stage.get("/last", &[])), "stale-origin-slow");
    gate.open();
    assert_eq!(reason(&reloaded.read()), "miss-reload", "a reload waits for the newer response");
}

#[test]
fn head_of_a_purged_page_waits_no_longer_than_a_get() {
    let stage = expired(|plan| plan.limits.flight_wait = Duration::from_millis(20), &["/purged"]);
    assert_eq!(stage.ask("PURGE", "/purged", &[SOFT]).status, 200);
    let gate = hang(&stage);
    let head = stage.ask("HEAD", "/purged", &[]);
    assert_eq!((head.status, reason(&head)), (200, "stale-origin-slow"));
    gate.open();
}

#[test]
fn hits_are_not_compared_while_the_breaker_is_open() {
    let stage = expired(|plan| plan.limits.leak_guard_every = 1, &["/a", "/b", "/c"]);
    stage.becomes(|_| response("200 OK", &["Cache-Control: max-age=6000"], b"fresh"));
    stage.get("/hit", &[]);
    hang(&stage);
    for target in ["/a", "/b", "/c"] {
        assert_eq!(reason(&stage.get(target, &[])), "stale-origin-slow");
    }
    stage.pass(1);
    assert_eq!(stage.metric(STATE, ""), SILENT);
    // A comparison of the leak guard is no probe.
    stage.pass(2);
    assert_eq!(reason(&stage.get("/hit", &["Cookie: _ga=1"])), "hit-fresh");
    assert_eq!((stage.metric(STATE, ""), stage.origin.count("/hit")), (SILENT, 1));
}

#[test]
fn refill_waits_until_it_may_be_the_probe() {
    let stage = expired(|plan| (plan.refill.enabled, plan.refill.rate) = (true, 1000), &["/a"]);
    stage.get("/a", &[]);
    assert_eq!(reason(&stage.get("/a", &[])), "hit-fresh");
    stage.origin.kill();
    assert_eq!(stage.get("/unseen", &[]).status, 502);
    stage.origin.revive();
    assert_eq!(stage.ask("PURGE", "/", &["Clear-Cache: true"]).status, 200);
    eventually("the refill waits", || stage.metric("petasos_refills_postponed_total", "") == 1);
    assert_eq!((stage.metric("petasos_refills_total", ""), stage.metric(STATE, "")), (0, UNREACHABLE));
    stage.pass(1);
    eventually("the refill is the probe", || stage.metric(STATE, "") == 0);
    stage.await_quiet();
    assert_eq!(reason(&stage.get("/a", &[])), "hit-fresh");
}

/// From now on the responses of the origin come after a time that the test lets pass; each is sent
/// once `answer` opens its gate.
struct LateOrigin {
    stage: Stage,
    gate: Gate,
}

impl LateOrigin {
    fn of(stage: Stage) -> Self {
        let gate = hang(&stage);
        Self { stage, gate }
    }

    /// Requests the page, lets this many milliseconds pass, and returns the response.
    fn late(&mut self, target: &str, millis: u64) -> Response {
        let asked = self.stage.origin.seen().len();
        let mut client = self.stage.begin("GET", target, &[]);
        self.stage.await_seen(asked + 1);
        self.stage.clock.advance(Duration::from_millis(millis));
        self.gate.open();
        let answer = client.read();
        self.stage.await_quiet();
        self.gate = hang(&self.stage);
        answer
    }
}

/// A stage with expired pages, whose clients wait as long as the test likes.
fn patient(targets: &[&str]) -> Stage {
    let stage = Stage::new(page);
    targets.iter().for_each(|target| assert_eq!(stage.get(target, &[]).status, 200));
    stage.pass(100);
    stage
}

#[test]
fn page_that_was_late_is_served_stale_at_once() {
    let mut origin = LateOrigin::of(patient(&["/late", "/other", "/strict"]));
    assert_eq!(reason(&origin.late("/late", 10_000)), "miss-expired");
    origin.stage.pass(11);
    let asked = origin.stage.origin.seen().len();
    let stale = origin.stage.get("/late", &[]);
    assert_eq!((stale.text(), reason(&stale)), ("/late", "stale-origin-slow"));
    origin.stage.await_seen(asked + 1);
    // A reload wants the newer response. The refresh comes in time, which ends the expectation.
    let mut reload = origin.stage.begin("GET", "/late", &["Cache-Control: no-cache"]);
    origin.gate.open();
    assert_eq!(reload.read().status, 200);
    origin.stage.await_quiet();
    origin.stage.pass(11);
    origin.gate = hang(&origin.stage);
    assert_eq!(reason(&origin.late("/late", 0)), "miss-expired");
    // One late page says nothing of others.
    assert_eq!(reason(&origin.late("/other", 0)), "miss-expired");
}

#[test]
fn pages_of_a_slow_origin_are_served_stale_at_once() {
    let mut origin = LateOrigin::of(patient(&["/a", "/b", "/c", "/d", "/e", "/purged"]));
    assert_eq!(origin.stage.ask("PURGE", "/purged", &[SOFT]).status, 200);
    for target in ["/a", "/b", "/c"] {
        assert_eq!(reason(&origin.late(target, 10_000)), "miss-expired");
    }
    let asked = origin.stage.origin.seen().len();
    assert_eq!(reason(&origin.stage.get("/d", &[])), "stale-origin-slow");
    origin.stage.await_seen(asked + 1);
    // A purged page waits for the origin.
    assert_eq!(reason(&origin.late("/purged", 0)), "miss-invalidated");
    origin.gate.open();
    origin.stage.await_quiet();
    assert_eq!(reason(&origin.late("/e", 0)), "miss-expired", "a response in time clears the evidence");
}

#[test]
fn late_pages_of_the_rfc_profile_wait_for_the_origin() {
    let stage = Stage::rfc(|seen| {
        response("200 OK", &["Cache-Control: max-age=100, stale-if-error=3600"], seen.target().as_bytes())
    });
    for target in ["/a", "/b", "/c"] {
        assert_eq!(stage.get(target, &[]).status, 200);
    }
    let mut origin = LateOrigin::of(stage);
    for target in ["/a", "/b", "/c", "/a"] {
        origin.stage.pass(101);
        // The response took as long as its lifetime. To the letter it is then not stored.
        assert_eq!(reason(&origin.late(target, 10_000)), "store-refused-expired");
    }
}
