//! A site with several origins: how requests are spread, and what happens when one fails.

use crate::support::{START, admin, connect, metric, plan, reason, start_at};
use clock::ManualClock;
use config::{EdgePlan, OriginMember};
use petasos_edge::RunningEdge;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use testkit::{Action, Origin, Response, Seen, eventually, response};

/// An edge before several origins, with a clock that only the test moves.
struct Group {
    origins: Vec<Origin>,
    clock: Arc<ManualClock>,
    edge: RunningEdge,
}

impl Group {
    /// Origins that answer with pages that are not stored and name their origin.
    fn of(count: usize) -> Self {
        Self::with(count, |_, _| page("private"), |_| {})
    }

    /// Origins with a script that gets the number of its origin, and a modified plan.
    fn with(
        count: usize,
        script: impl Fn(usize, &Seen) -> Vec<Action> + Send + Sync + Clone + 'static,
        change: impl FnOnce(&mut EdgePlan),
    ) -> Self {
        let origin = |number: usize| {
            let script = script.clone();
            Origin::start(move |seen| script(number, seen))
        };
        let origins: Vec<_> = (0..count).map(origin).collect();
        let mut plan = plan(&origins[0].url());
        let members = origins.iter().skip(1).map(|origin| OriginMember::parse(&origin.url()).unwrap());
        plan.sites[0].balance.others = members.collect();
        change(&mut plan);
        let clock = Arc::new(ManualClock::at(START));
        let edge = start_at(plan, clock.clone());
        Self { origins, clock, edge }
    }

    fn get(&self, target: &str) -> Response {
        connect(&self.edge).get(target, &[])
    }

    /// The response to a request with content.
    fn post(&self, target: &str) -> Response {
        let mut client = connect(&self.edge);
        client.send(format!("POST {target} HTTP/1.1\r\nHost: example.test\r\nContent-Length: 2\r\n\r\nab"));
        client.read()
    }

    /// The numbers of requests that each origin has seen, without health checks.
    fn seen(&self) -> Vec<usize> {
        self.origins.iter().map(|origin| visits(origin).len()).collect()
    }

    fn metric(&self, name: &str, label: &str) -> u64 {
        metric(&self.edge, name, label)
    }

    /// Waits until this many origins are in this state.
    fn await_state(&self, state: &str, count: usize) {
        eventually("the origins have their states", || {
            let status = admin(&self.edge, "GET /status HTTP/1.1\r\nHost: localhost\r\n\r\n");
            status.text().matches(&format!("\"state\": \"{state}\"")).count() == count
        });
    }
}

fn visits(origin: &Origin) -> Vec<Seen> {
    let is_visit =
        |seen: &Seen| !seen.field("User-Agent").is_some_and(|agent| agent.contains("health check"));
    origin.seen().into_iter().filter(is_visit).collect()
}

fn page(control: &str) -> Vec<Action> {
    response("200 OK", &[&format!("Cache-Control: {control}"), "Content-Type: text/plain"], b"page")
}

#[test]
fn requests_are_spread_by_weight() {
    let group = Group::with(3, |_, _| page("private"), |plan| plan.sites[0].balance.weight = 2);
    for number in 0..40 {
        assert_eq!(group.get(&format!("/{number}")).status, 200);
    }
    assert_eq!(group.seen(), [20, 10, 10]);
}

#[test]
fn origin_that_refuses_connections_costs_no_request() {
    let group = Group::of(2);
    group.origins[1].kill();
    for number in 0..20 {
        assert_eq!(group.get(&format!("/{number}")).status, 200);
        assert_eq!(group.post(&format!("/{number}")).status, 200);
    }
    assert_eq!(group.seen(), [40, 0]);
    // The first connection that it refuses opens its breaker, and nothing else goes there.
    assert_eq!(group.metric("petasos_origin_retries_total", ""), 1);
    let dead = format!("origin=\"{}\"", group.origins[1].url());
    assert_eq!(group.metric("petasos_origin_breaker_state", &dead), 2);
    assert_eq!(group.metric("petasos_origin_breaker_state", ""), 2, "the other breaker is closed");
}

#[test]
fn revived_origin_is_found_by_checks_and_gets_its_share_slowly() {
    let group = Group::of(2);
    group.origins[1].kill();
    while group.metric("petasos_origin_breaker_state", "") == 0 {
        group.get("/");
    }
    group.origins[1].revive();
    eventually("a check has found the origin", || {
        group.clock.advance(Duration::from_secs(6));
        group.metric("petasos_origin_breaker_state", "") == 0
    });
    // It begins with a tenth of its share. The checks above took an unknown time of its ten
    // seconds, so only the end is certain.
    group.clock.advance(Duration::from_secs(10));
    let before = group.seen();
    (0..20).for_each(|number| assert_eq!(group.get(&format!("/{number}")).status, 200));
    let after = group.seen();
    assert_eq!((after[0] - before[0], after[1] - before[1]), (10, 10));
}

#[test]
fn unanswered_request_is_repeated_only_if_harmless() {
    let script = |number: usize, _: &Seen| if number == 0 { vec![Action::Close] } else { page("private") };
    let group = Group::with(2, script, |_| {});
    let statuses = |ask: &dyn Fn(usize) -> Response| (0..2).map(|n| ask(n).status).collect::<Vec<_>>();
    assert_eq!(statuses(&|number| group.get(&format!("/{number}"))), [200, 200]);
    assert_eq!(group.metric("petasos_origin_retries_total", ""), 1);
    let mut posted = statuses(&|number| group.post(&format!("/{number}")));
    posted.sort_unstable();
    assert_eq!(posted, [200, 502], "a request with content is never sent twice");
    assert_eq!(group.seen().iter().sum::<usize>(), 5);
}

#[test]
fn origin_that_closes_connections_gets_no_requests_for_a_while() {
    let script = |number: usize, _: &Seen| if number == 0 { vec![Action::Close] } else { page("private") };
    let group = Group::with(2, script, |_| {});
    let statuses: Vec<_> = (0..40).map(|number| group.post(&format!("/{number}")).status).collect();
    assert_eq!(statuses.iter().filter(|status| **status == 502).count(), 5);
}

#[test]
fn repeated_requests_are_a_tenth_of_all() {
    let group = Group::with(
        2,
        |_, _| vec![Action::Close],
        |plan| {
            // The breakers stay closed.
            plan.limits.stale_wait = Duration::from_secs(3600);
            plan.limits.flight_wait = Duration::from_secs(3600);
        },
    );
    for number in 0..100 {
        assert_eq!(group.post(&format!("/{number}")).status, 502);
    }
    assert_eq!(group.metric("petasos_origin_retries_total", ""), 0);
    for number in 0..50 {
        assert_eq!(group.get(&format!("/{number}")).status, 502);
    }
    let retries = group.metric("petasos_origin_retries_total", "");
    assert!((10..=15).contains(&retries), "{retries} of 50 requests were repeated");
}

#[test]
fn origin_with_server_errors_only_gets_no_requests_for_a_while() {
    let is_broken = Arc::new(AtomicBool::new(true));
    let broken = Arc::clone(&is_broken);
    let script = move |number: usize, _: &Seen| {
        if number == 0 && broken.load(Ordering::Relaxed) {
            return response("503 Service Unavailable", &[], b"broken");
        }
        page("private")
    };
    let group = Group::with(2, script, |_| {});
    let statuses: Vec<_> = (0..30).map(|number| group.get(&format!("/{number}")).status).collect();
    assert_eq!(statuses.iter().filter(|status| **status == 503).count(), 5);
    assert_eq!(group.metric("petasos_origin_failing", ""), 1);
    is_broken.store(false, Ordering::Relaxed);
    // At first it gets a tenth of its share.
    group.clock.advance(Duration::from_secs(10));
    let before = group.seen()[0];
    (0..22).for_each(|number| assert_eq!(group.get(&format!("/{number}")).status, 200));
    let share = group.seen()[0] - before;
    assert!((1..=3).contains(&share), "{share} of 22 requests");
}

#[test]
fn one_broken_page_takes_no_origin_out() {
    let script = |_: usize, seen: &Seen| match seen.target() {
        target if target.starts_with("/broken") => response("500 Oh", &[], b"broken"),
        _ => page("private"),
    };
    let group = Group::with(2, script, |_| {});
    for number in 0..40 {
        assert_eq!(group.get(&format!("/broken?{number}")).status, 500);
        assert_eq!(group.post("/broken/too").status, 500);
    }
    assert_eq!(group.metric("petasos_origin_failing", ""), 0);
}

#[test]
fn adaptive_limit_is_shown_and_begins_at_the_largest() {
    let group = Group::with(
        2,
        |_, _| page("private"),
        |plan| {
            plan.sites[0].balance.is_limit_adaptive = true;
            plan.limits.fetches_max = 24;
        },
    );
    (0..200).for_each(|number| assert_eq!(group.get(&format!("/{number}")).status, 200));
    assert_eq!(group.metric("petasos_origin_fetches_max", ""), 48, "one request at a time is no evidence");
    let status = admin(&group.edge, "GET /status HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(status.text().matches("\"fetches_max\": 24").count(), 2, "{}", status.text());
}

#[test]
fn errors_of_all_origins_take_none_out() {
    let group = Group::with(2, |_, _| response("500 Oh", &[], b"broken"), |_| {});
    let statuses: Vec<_> = (0..30).map(|number| group.get(&format!("/{number}")).status).collect();
    assert!(statuses.iter().all(|status| *status == 500));
    assert_eq!(group.seen().iter().sum::<usize>(), 30);
}

#[test]
fn health_checks_take_an_origin_out_and_bring_it_back() {
    let is_ill = Arc::new(AtomicBool::new(true));
    let ill = Arc::clone(&is_ill);
    let script = move |number: usize, seen: &Seen| {
        if seen.target() == "/up" && number == 1 && ill.load(Ordering::Relaxed) {
            return response("404 Not Found", &[], b"no");
        }
        page("private")
    };
    let group = Group::with(2, script, |plan| {
        plan.sites[0].balance.check_path = Some("/up".to_owned());
        plan.sites[0].names = vec!["example.test".to_owned()];
    });
    eventually("two checks have failed", || {
        group.clock.advance(Duration::from_secs(5));
        group.metric("petasos_origin_failing", "") == 1
    });
    let before = group.seen();
    (0..10).for_each(|number| assert_eq!(group.get(&format!("/{number}")).status, 200));
    assert_eq!(group.seen(), [before[0] + 10, before[1]]);
    let checks = group.origins[1].seen();
    let check = checks.iter().find(|seen| seen.target() == "/up").unwrap();
    assert_eq!(check.field("Host"), Some("example.test"));
    is_ill.store(false, Ordering::Relaxed);
    eventually("two checks have passed", || {
        group.clock.advance(Duration::from_secs(5));
        group.metric("petasos_origin_failing", "") == 0
    });
    group.await_state("well", 2);
}

#[test]
fn stale_page_replaces_the_error_if_all_origins_are_gone() {
    let group = Group::with(2, |_, _| page("max-age=10, stale-if-error=1000"), |_| {});
    assert_eq!(reason(&group.get("/")), "miss-absent");
    group.clock.advance(Duration::from_secs(11));
    group.origins.iter().for_each(Origin::kill);
    // The first answer may be the stale page with a background fetch, as of one origin.
    (0..3).for_each(|_| assert_eq!(group.get("/").status, 200));
    group.await_state("unreachable", 2);
    let other = group.get("/other");
    assert!([502, 503].contains(&other.status), "{}", other.status);
}
