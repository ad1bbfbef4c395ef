//! Clients that are denied, or that ask for more than their share (table `guard`).

use crate::support::{Stage, behind, connect, reason};
use config::{EdgePlan, RateLimit};
use std::time::Duration;
use testkit::{Gate, Response, Seen, eventually, response};

/// An edge that believes the proxy at 127.0.0.1, and an origin with pages that are stored unless
/// their path begins with `/own`.
fn stage(change: impl FnOnce(&mut EdgePlan)) -> Stage {
    let script = |seen: &Seen| {
        let control = if seen.target().starts_with("/own") { "private" } else { "max-age=1000" };
        response("200 OK", &[&format!("Cache-Control: {control}")], b"page")
    };
    let behind_proxy = |plan: &mut EdgePlan| {
        plan.trusted_proxies = ["127.0.0.1".parse::<address::Prefix>().unwrap()].into_iter().collect();
        change(plan);
    };
    Stage::with(behind_proxy, script)
}

fn limit(per_second: u32, burst: u32) -> Option<RateLimit> {
    Some(RateLimit { per_second, burst })
}

fn get(stage: &Stage, client: &str, target: &str) -> Response {
    stage.get(target, &[&format!("X-Forwarded-For: {client}")])
}

fn statuses(stage: &Stage, client: &str, count: usize, prefix: &str) -> Vec<u16> {
    (0..count).map(|number| get(stage, client, &format!("{prefix}{number}")).status).collect()
}

fn peers(list: &[&str]) -> address::Prefixes {
    list.iter().map(|text| text.parse::<address::Prefix>().unwrap()).collect()
}

#[test]
fn work_for_the_origin_is_limited_and_hits_are_free() {
    let stage = stage(|plan| plan.guard.origin_requests = limit(1, 3));
    assert_eq!(statuses(&stage, "192.0.2.1", 5, "/"), [200, 200, 200, 429, 429]);
    let refused = get(&stage, "192.0.2.1", "/own");
    assert_eq!((refused.status, reason(&refused)), (429, "client-origin-rate"));
    assert_eq!(refused.field("Retry-After"), Some("1"));
    assert!((0..50).all(|_| get(&stage, "192.0.2.1", "/0").status == 200));
    assert_eq!(statuses(&stage, "192.0.2.2", 2, "/own"), [200, 200], "another client");
    stage.pass(1);
    assert_eq!(get(&stage, "192.0.2.1", "/own").status, 200);
    assert_eq!(stage.origin.seen().len(), 6);
    assert_eq!(stage.metric("petasos_clients_too_costly_total", ""), 3);
}

#[test]
fn request_that_shares_a_fetch_is_free() {
    let gate = Gate::default();
    let stage = stage(|plan| plan.guard.origin_requests = limit(1, 1));
    let held = gate.clone();
    stage.becomes(move |_| behind(&held, response("200 OK", &["Cache-Control: max-age=9"], b"page")));
    let field = "X-Forwarded-For: 192.0.2.1";
    let mut clients = stage.crowd(5, &[field]);
    gate.open();
    assert!(clients.iter_mut().all(|client| client.read().status == 200));
    assert_eq!(stage.origin.seen().len(), 1);
}

#[test]
fn all_requests_can_be_limited_and_allowed_clients_are_not() {
    let stage = stage(|plan| {
        plan.guard.requests = limit(1, 2);
        plan.guard.allow = peers(&["198.51.100.0/24"]);
    });
    let ask = |client: &str| (0..4).map(|_| get(&stage, client, "/").status).collect::<Vec<_>>();
    assert_eq!(ask("192.0.2.1"), [200, 200, 429, 429]);
    assert_eq!(ask("198.51.100.7"), [200; 4]);
    assert_eq!(reason(&get(&stage, "192.0.2.1", "/")), "client-rate");
    assert_eq!(stage.metric("petasos_clients_too_fast_total", ""), 3);
}

#[test]
fn denied_client_is_refused_also_behind_a_proxy() {
    let stage = stage(|plan| plan.guard.deny = peers(&["203.0.113.0/24", "2001:db8::/32"]));
    for client in ["203.0.113.9", "2001:db8::1"] {
        let refused = get(&stage, client, "/");
        assert_eq!((refused.status, reason(&refused)), (403, "client-denied"));
    }
    assert_eq!(get(&stage, "192.0.2.1", "/").status, 200);
    let direct = Stage::with(|plan| plan.guard.deny = peers(&["127.0.0.0/8"]), |_| Vec::new());
    let mut client = direct.begin("GET", "/", &[]);
    assert!(client.is_closed(), "the connection is closed without a response");
    eventually("the refusal is counted", || direct.metric("petasos_clients_denied_total", "") == 1);
    assert!(direct.origin.seen().is_empty());
}

#[test]
fn client_that_goes_on_beyond_its_limits_is_banned_for_a_while() {
    let change = |plan: &mut EdgePlan| {
        plan.guard.requests = limit(1, 1);
        plan.guard.ban = Some(Duration::from_secs(10));
        plan.purge_peers = peers(&[]);
    };
    let direct = Stage::with(change, |_| response("200 OK", &["Cache-Control: max-age=1000"], b"page"));
    let mut client = connect(&direct.edge);
    let answers: Vec<_> = (0..101).map(|_| client.get("/", &[]).status).collect();
    assert_eq!((answers[0], answers[100]), (200, 429));
    let banned = client.get("/", &[]);
    assert_eq!((banned.status, banned.field("Retry-After")), (429, Some("10")));
    assert!(direct.begin("GET", "/", &[]).is_closed());
    assert_eq!(direct.metric("petasos_clients_banned_total", ""), 2);
    direct.pass(10);
    assert_eq!(direct.get("/", &[]).status, 200);
}

#[test]
fn ban_behind_a_proxy_concerns_one_client() {
    let stage = stage(|plan| {
        plan.guard.origin_requests = limit(1, 1);
        plan.guard.ban = Some(Duration::from_secs(10));
    });
    let answers = statuses(&stage, "192.0.2.1", 101, "/own");
    assert_eq!(answers.iter().filter(|status| **status == 429).count(), 100);
    assert_eq!(get(&stage, "192.0.2.1", "/own").status, 429);
    stage.pass(2);
    assert_eq!(get(&stage, "192.0.2.1", "/own").status, 429, "its rate permits it, its ban does not");
    assert_eq!(get(&stage, "192.0.2.2", "/own").status, 200);
}

#[test]
fn purges_of_a_banned_application_are_carried_out() {
    let change = |plan: &mut EdgePlan| {
        plan.guard.origin_requests = limit(1, 1);
        plan.guard.ban = Some(Duration::from_secs(10));
    };
    let direct = Stage::with(change, |_| response("200 OK", &["Cache-Control: private"], b"page"));
    (0..110).for_each(|number| drop(direct.get(&format!("/{number}"), &[])));
    assert_eq!(direct.get("/", &[]).status, 429);
    assert_eq!(direct.ask("PURGE", "/", &[]).status, 200);
    assert_eq!(direct.metric("petasos_clients_banned_total", ""), 0);
}

#[test]
fn stale_page_is_sent_at_once_while_the_queue_is_long() {
    let gate = Gate::default();
    let stage = Stage::with(
        |plan| {
            plan.limits.fetches_max = 1;
            plan.limits.client_fetches_max = 1;
        },
        |_| response("200 OK", &["Cache-Control: max-age=10, stale-if-error=1000"], b"page"),
    );
    assert_eq!(stage.get("/", &[]).status, 200);
    stage.pass(11);
    let held = gate.clone();
    stage.becomes(move |_| behind(&held, response("200 OK", &["Cache-Control: private"], b"own")));
    let mut first = stage.begin("GET", "/own/1", &[]);
    stage.await_seen(2);
    let mut second = stage.begin("GET", "/own/2", &[]);
    eventually("a request waits", || stage.metric("petasos_origin_fetches_waiting", "") == 1);
    // The wait of the queue is measured with the clock of the test.
    stage.pass(1);
    gate.open();
    assert_eq!((first.read().status, second.read().status), (200, 200));
    let stale = stage.get("/", &[]);
    assert_eq!((stale.status, reason(&stale)), (200, "stale-origin-busy"));
    stage.await_quiet();
}

#[test]
fn wait_for_a_fetch_is_no_excess() {
    let gate = Gate::default();
    let stage = stage(|plan| plan.guard.origin_requests = limit(1, 3));
    let held = gate.clone();
    stage.becomes(move |_| behind(&held, response("200 OK", &["Cache-Control: private"], b"own")));
    let mut clients = stage.crowd(2, &["X-Forwarded-For: 192.0.2.1"]);
    stage.pass(20);
    // It comes after the wait of the first two has begun, and is counted before their own requests.
    stage.becomes(|_| response("200 OK", &["Cache-Control: private"], b"own"));
    assert_eq!(get(&stage, "192.0.2.1", "/own").status, 200);
    gate.open();
    assert!(clients.iter_mut().all(|client| client.read().status == 200));
}
