//! The client address that the origin receives: a placeholder on shared fetches, otherwise the
//! client's own.

use crate::support::{Stage, behind, reason};
use config::EdgePlan;
use profiles::ClientAddress;
use testkit::{Action, Client, Gate, Seen, eventually, response};

/// The placeholder address of a shared fetch (RFC 5737).
const NOBODY: &str = "192.0.2.1";

/// Two clients behind the trusted proxy on loopback.
const STAFF: &str = "X-Forwarded-For: 203.0.113.5";
const STRANGER: &str = "X-Forwarded-For: 198.51.100.9";

/// The client's address as determined by an origin with realip or remoteip. It is the last entry of
/// X-Forwarded-For that is no local proxy, or without the field the peer, which is loopback.
fn client_of(seen: &Seen) -> &str {
    let chain = seen.field("X-Forwarded-For").unwrap_or_default();
    let mut hops = chain.rsplit(',').map(str::trim).filter(|hop| !hop.is_empty() && *hop != "127.0.0.1");
    hops.next().unwrap_or("127.0.0.1")
}

/// A cacheable page that the origin serves only to these clients.
fn restricted_to(seen: &Seen, allowed: &[&str], refusal: &str) -> Vec<Action> {
    let fields = ["Cache-Control: max-age=60", "ETag: \"a\""];
    if !allowed.contains(&client_of(seen)) {
        return response(refusal, &["Cache-Control: max-age=60"], b"refused");
    }
    if seen.field("If-None-Match") == Some("\"a\"") {
        return crate::support::bare("304 Not Modified", &fields);
    }
    response("200 OK", &fields, b"secret")
}

fn behind_a_proxy(plan: &mut EdgePlan) {
    plan.trusted_proxies = ["127.0.0.1".parse::<address::Prefix>().unwrap()].into_iter().collect();
}

fn stage(script: impl Fn(&Seen) -> Vec<Action> + Send + Sync + 'static) -> Stage {
    Stage::with(behind_a_proxy, script)
}

/// A page for the staff and for local requests.
fn staff_page(seen: &Seen) -> Vec<Action> {
    restricted_to(seen, &["203.0.113.5", "127.0.0.1"], "403 Forbidden")
}

fn public(seen: &Seen) -> Vec<Action> {
    restricted_to(seen, &["203.0.113.5", "198.51.100.9", "127.0.0.1", NOBODY], "403 Forbidden")
}

#[test]
fn shared_fetch_carries_the_placeholder_and_a_pass_the_client() {
    let stage = stage(public);
    stage.get("/", &[STAFF]);
    assert_eq!(stage.last_seen().field("X-Forwarded-For"), Some(NOBODY), "{}", stage.last_seen().head);
    assert_eq!(stage.last_seen().field("X-Real-IP"), None);
    stage.get("/", &[STAFF, "Cookie: session=1"]);
    assert_eq!(stage.last_seen().field("X-Forwarded-For"), Some("203.0.113.5, 127.0.0.1"));
}

#[test]
fn denied_client_gets_nothing_after_an_allowed_leader() {
    let stage = stage(staff_page);
    let allowed = stage.get("/", &[STAFF]);
    assert_eq!((allowed.status, allowed.text()), (200, "secret"), "its own address is allowed");
    assert_eq!(reason(&allowed), "store-refused-denied");
    let denied = stage.get("/", &[STRANGER]);
    assert_eq!((denied.status, denied.text()), (403, "refused"), "{}", denied.head);
    assert_eq!(stage.metric("petasos_store_objects", ""), 0);
}

#[test]
fn allowed_client_gets_the_page_after_a_denied_leader() {
    let stage = stage(staff_page);
    assert_eq!(stage.get("/", &[STRANGER]).status, 403);
    assert_eq!(stage.get("/", &[STAFF]).text(), "secret");
    assert_eq!(stage.get("/", &[STRANGER]).status, 403);
    assert_eq!(stage.metric("petasos_store_objects", ""), 0);
}

#[test]
fn each_refusing_status_applies_only_to_its_own_client() {
    for refusal in
        ["401 Unauthorized", "403 Forbidden", "407 Proxy", "429 Too Many Requests", "451 Unavailable"]
    {
        let stage = stage(move |seen| restricted_to(seen, &["203.0.113.5"], refusal));
        let code: u16 = refusal[..3].parse().unwrap();
        assert_eq!(stage.get("/", &[STRANGER]).status, code, "{refusal}");
        assert_eq!(stage.get("/", &[STAFF]).text(), "secret", "{refusal}");
        assert_eq!(stage.get("/", &[STRANGER]).status, code, "{refusal}");
        assert_eq!(stage.metric("petasos_store_objects", ""), 0, "{refusal}");
    }
}

#[test]
fn followers_of_a_refused_fetch_send_their_own_requests() {
    let gate = Gate::default();
    let stage = stage({
        let gate = gate.clone();
        move |seen| {
            let answer = staff_page(seen);
            if client_of(seen) == NOBODY { behind(&gate, answer) } else { answer }
        }
    });
    let mut clients: Vec<(Client, u16)> = Vec::new();
    for number in 0..12 {
        let (field, status) = if number % 3 == 0 { (STAFF, 200) } else { (STRANGER, 403) };
        clients.push((stage.begin("GET", "/", &[field]), status));
    }
    eventually("all but one wait", || stage.metric("petasos_flight_waits_total", "") == 11);
    gate.open();
    for (client, status) in &mut clients {
        assert_eq!(client.read().status, *status);
    }
    stage.await_seen(13);
}

#[test]
fn refused_page_costs_one_fetch_per_request_from_then_on() {
    let stage = stage(staff_page);
    for number in 0..6 {
        let field = if number % 2 == 0 { STAFF } else { STRANGER };
        stage.get("/", &[field]);
        stage.ask("HEAD", "/", &[field]);
    }
    let constant = stage.origin.seen().iter().filter(|seen| client_of(seen) == NOBODY).count();
    assert_eq!((constant, stage.origin.seen().len()), (1, 13));
    // After the hit-for-miss entry has expired, a page that became public again is shared again.
    stage.pass(121);
    stage.becomes(public);
    stage.get("/", &[STRANGER]);
    assert_eq!(reason(&stage.get("/", &[STAFF])), "hit-fresh");
}

#[test]
fn head_of_a_restricted_page_is_judged_by_its_own_client() {
    let stage = stage(staff_page);
    assert_eq!(stage.ask("HEAD", "/", &[STAFF]).status, 200);
    assert_eq!(stage.ask("HEAD", "/", &[STRANGER]).status, 403);
    assert_eq!(stage.get("/", &[STAFF]).text(), "secret");
}

#[test]
fn page_that_becomes_restricted_is_not_served_stale() {
    let stage = stage(public);
    stage.get("/", &[STRANGER]);
    stage.becomes(staff_page);
    stage.pass(30);
    assert_eq!(reason(&stage.get("/", &[STRANGER])), "hit-fresh");
    stage.pass(31);
    for _ in 0..2 {
        assert_eq!(stage.get("/", &[STRANGER]).status, 403);
        assert_eq!(stage.get("/", &[STAFF]).text(), "secret");
    }
    stage.becomes(|_| response("500 Internal Server Error", &[], b"error"));
    assert_eq!(stage.get("/", &[STRANGER]).status, 500, "no stale copy replaces the error");
}

#[test]
fn refused_background_refresh_ends_the_stale_copy() {
    let fields = ["Cache-Control: max-age=60, stale-while-revalidate=600"];
    let stage = stage(move |_| response("200 OK", &fields, b"old"));
    stage.get("/", &[STRANGER]);
    stage.becomes(staff_page);
    stage.pass(61);
    assert_eq!(reason(&stage.get("/", &[STRANGER])), "stale-while-revalidate");
    stage.await_quiet();
    assert_eq!(client_of(&stage.last_seen()), NOBODY);
    assert_eq!(stage.get("/", &[STRANGER]).status, 403);
    assert_eq!(stage.get("/", &[STAFF]).text(), "secret");
}

#[test]
fn rate_limit_on_the_placeholder_keeps_the_stored_copy() {
    let fields = ["Cache-Control: max-age=60, stale-if-error=600"];
    let stage = stage(move |_| response("200 OK", &fields, b"old"));
    stage.get("/", &[STRANGER]);
    stage.becomes(|seen| restricted_to(seen, &["198.51.100.9"], "429 Too Many Requests"));
    stage.pass(61);
    assert_eq!(stage.get("/", &[STRANGER]).text(), "secret");
    stage.becomes(|_| response("503 Service Unavailable", &[], b"error"));
    assert_eq!(reason(&stage.get("/", &[STRANGER])), "stale-on-error");
}

#[test]
fn refill_of_a_restricted_page_stores_nothing() {
    let stage = Stage::with(|plan| plan.refill.rate = 1000, public);
    stage.get("/", &[]);
    stage.get("/", &[]);
    stage.becomes(staff_page);
    let purge = r#"{"type":"all","refill":true}"#;
    assert_eq!(stage.call_admin("POST", "/purge", purge).status, 200);
    eventually("the refill has begun", || stage.metric("petasos_refills_total", "") > 0);
    stage.await_quiet();
    assert_eq!(client_of(&stage.last_seen()), NOBODY);
    assert_eq!(stage.metric("petasos_store_objects", ""), 0);
    let own = stage.get("/", &[]);
    assert_eq!((own.text(), reason(&own)), ("secret", "store-refused-denied"));
}

#[test]
fn origin_that_bans_the_placeholder_serves_every_client() {
    for refusal in ["403 Forbidden", "429 Too Many Requests"] {
        let stage = stage(move |seen| {
            if client_of(seen) == NOBODY {
                return response(refusal, &[], b"banned");
            }
            response("200 OK", &["Cache-Control: max-age=60"], b"page")
        });
        for number in 0..20 {
            let field = format!("X-Forwarded-For: 203.0.113.{number}");
            assert_eq!(stage.get(&format!("/{}", number % 4), &[&field]).text(), "page", "{refusal}");
        }
        stage.await_seen(24);
    }
}

/// Like [`stage`], but a shared fetch carries the address of its leader.
fn leading(script: impl Fn(&Seen) -> Vec<Action> + Send + Sync + 'static) -> Stage {
    let change = |plan: &mut EdgePlan| {
        behind_a_proxy(plan);
        plan.sites[0].policy.client_address = ClientAddress::Leader;
    };
    Stage::with(change, script)
}

#[test]
fn in_leader_mode_only_the_leader_receives_a_refusal() {
    let gate = Gate::default();
    let stage = leading({
        let gate = gate.clone();
        move |seen| behind(&gate, staff_page(seen))
    });
    let mut leader = stage.begin("GET", "/", &[STRANGER]);
    eventually("the leader has reached the origin", || stage.origin.seen().len() == 1);
    let mut followers: Vec<Client> = (0..4).map(|_| stage.begin("GET", "/", &[STAFF])).collect();
    eventually("the followers wait", || stage.metric("petasos_flight_waits_total", "") == 4);
    gate.open();
    assert_eq!(leader.read().status, 403);
    assert!(followers.iter_mut().all(|follower| follower.read().text() == "secret"));
    let own = stage.origin.seen().iter().filter(|seen| client_of(seen) == "203.0.113.5").count();
    assert_eq!((own, stage.origin.seen().len()), (4, 5));
}

#[test]
fn refill_in_leader_mode_removes_nothing() {
    let lead = |plan: &mut EdgePlan| {
        plan.sites[0].policy.client_address = ClientAddress::Leader;
        plan.refill.rate = 1000;
    };
    let stage = Stage::with(lead, |seen| {
        let fields: &[&str] = match client_of(seen) {
            NOBODY => &["Cache-Control: private"],
            _ => &["Cache-Control: max-age=60"],
        };
        response("200 OK", fields, b"page")
    });
    stage.get("/", &[]);
    stage.await_quiet();
    assert_eq!(reason(&stage.get("/", &[])), "hit-fresh", "only pages that were hit are fetched again");
    let order = r#"{"type":"all","purge":false,"refill":true}"#;
    assert_eq!(stage.call_admin("POST", "/purge", order).status, 200);
    eventually("the refill has reached the origin", || client_of(&stage.last_seen()) == NOBODY);
    stage.await_quiet();
    stage.origin.kill();
    assert_eq!(stage.metric("petasos_store_objects", ""), 1);
    // If the end of the origin meets a further fetch of the refill, the breaker opens. A purged
    // page replaces an error only if the origin was asked.
    let answer = stage.get("/", &[]);
    assert!(matches!(reason(&answer), "stale-on-error" | "origin-breaker-open"), "{}", answer.head);
}
