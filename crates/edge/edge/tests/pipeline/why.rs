//! `why` predicts the outcome of the next request, and asking changes nothing.

use crate::support::{connect, metric, plan, reason, start_at};
use api::why::{OriginDemand, Question, WhyReply};
use clock::{ManualClock, Timestamp};
use config::EdgePlan;
use petasos_edge::RunningEdge;
use profiles::{Policy, StaleOnError};
use proptest::prelude::*;
use semantics::{Reason, Verdict};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use testkit::{Action, Client, Origin, Response, Seen, eventually, response};

/// An edge in front of an origin with pages of every kind, which can be made to fail.
struct Site {
    origin: Origin,
    edge: RunningEdge,
    clock: Arc<ManualClock>,
    dead: Arc<AtomicBool>,
    sent: AtomicU64,
}

/// Asks `why` at the admin address.
pub(crate) fn asked(edge: &RunningEdge, question: &Question) -> WhyReply {
    let question = serde_json::to_string(question).unwrap();
    let admin = edge.bound().admin.to_string();
    let mut client = Client::connect(admin.parse().unwrap());
    client.send(format!(
        "POST /why HTTP/1.1\r\nHost: {admin}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{question}",
        question.len()
    ));
    let answer = client.read();
    assert_eq!(answer.status, 200, "{}", answer.text());
    serde_json::from_str(answer.text()).unwrap()
}

/// A request, or an event between two requests.
#[derive(Clone, Debug)]
enum Step {
    Ask(Asking),
    Pass(u64),
    Dead(bool),
}

#[derive(Clone, Debug)]
struct Asking {
    method: &'static str,
    target: &'static str,
    fields: Vec<&'static str>,
}

const PATHS: &[&str] = &[
    "/fresh",
    "/private",
    "/cookie",
    "/silent",
    "/silent-tagged",
    "/no-cache-tagged",
    "/short-tagged",
    "/short-strict",
    "/swr",
    "/swr?utm_source=x",
    "/language",
    "/star",
    "/missing",
    "/error",
    "/public",
    "/wp-admin/",
    "/any?b=2&a=1",
    "/any?a=1&b=2",
];

const FIELDS: &[&str] = &[
    "Cookie: _ga=1",
    "Cookie: PHPSESSID=1",
    "Cookie: theme=dark",
    "Cookie: wordpress_test_cookie=1",
    "Authorization: Basic eDp5",
    "Accept-Language: de",
    "Accept-Language: en",
    "Accept-Encoding: gzip, br",
    "Accept: application/json",
    "Cache-Control: no-cache",
    "Cache-Control: no-store",
    "Cache-Control: only-if-cached",
    "Cache-Control: max-stale=100",
    "Cache-Control: max-age=3",
    "Range: bytes=0-3",
    "If-None-Match: \"1\"",
    "X-Own: 1",
    "Origin: http://other.test",
    "Referer: http://example.test/",
    "Max-Forwards: 0",
    "Host: other.test",
];

fn page(seen: &Seen) -> Vec<Action> {
    let tagged = |fields: &[&str]| {
        let fields = [fields, &["ETag: \"1\""]].concat();
        if seen.field("If-None-Match") == Some("\"1\"") {
            let lines: String = fields.iter().map(|field| format!("{field}\r\n")).collect();
            return vec![Action::Send(format!("HTTP/1.1 304 Not Modified\r\n{lines}\r\n").into_bytes())];
        }
        whole(seen, "200 OK", &fields)
    };
    match seen.target() {
        "/fresh" => whole(seen, "200 OK", &["Cache-Control: max-age=60"]),
        "/private" => whole(seen, "200 OK", &["Cache-Control: private"]),
        "/cookie" => whole(seen, "200 OK", &["Cache-Control: max-age=60", "Set-Cookie: PHPSESSID=1"]),
        "/silent-tagged" => tagged(&[]),
        "/no-cache-tagged" => tagged(&["Cache-Control: no-cache"]),
        "/short-tagged" => tagged(&["Cache-Control: max-age=5"]),
        "/short-strict" => whole(seen, "200 OK", &["Cache-Control: max-age=5, must-revalidate"]),
        "/language" => {
            let language = seen.field("Accept-Language").unwrap_or("none");
            let stated = format!("Content-Language: {language}");
            whole(seen, "200 OK", &["Cache-Control: max-age=60", "Vary: Accept-Language", &stated])
        }
        "/star" => whole(seen, "200 OK", &["Cache-Control: max-age=60", "Vary: *"]),
        "/missing" => whole(seen, "404 Not Found", &[]),
        "/error" => whole(seen, "500 Internal Server Error", &[]),
        "/public" => whole(seen, "200 OK", &["Cache-Control: public, max-age=60"]),
        target if target.starts_with("/large") => {
            response("200 OK", &["Cache-Control: max-age=60"], &[b'x'; 20_000])
        }
        target if target.starts_with("/swr") => {
            whole(seen, "200 OK", &["Cache-Control: max-age=5, stale-while-revalidate=30"])
        }
        target if target.starts_with("/any") => {
            whole(seen, "200 OK", &["Cache-Control: max-age=60", "No-Vary-Search: key-order"])
        }
        _ => whole(seen, "200 OK", &[]),
    }
}

/// A response with content, or without content for HEAD.
fn whole(seen: &Seen, status: &str, fields: &[&str]) -> Vec<Action> {
    let mut actions = response(status, fields, b"some content");
    if seen.head.starts_with("HEAD ")
        && let Some(Action::Send(octets)) = actions.first_mut()
    {
        octets.truncate(octets.len() - b"some content".len());
    }
    actions
}

impl Site {
    fn new(policy: Policy) -> Self {
        Self::with(policy, |_| {})
    }

    fn with(policy: Policy, change: impl FnOnce(&mut EdgePlan)) -> Self {
        let dead = Arc::new(AtomicBool::new(false));
        let fails = dead.clone();
        let origin =
            Origin::start(
                move |seen| {
                    if fails.load(Ordering::SeqCst) { vec![Action::Close] } else { page(seen) }
                },
            );
        let mut plan = plan(&origin.url());
        plan.sites.iter_mut().for_each(|site| site.policy = policy.clone());
        change(&mut plan);
        let clock = Arc::new(ManualClock::at(Timestamp::from_secs(1_700_000_000)));
        let edge = start_at(plan, clock.clone());
        Self { origin, edge, clock, dead, sent: AtomicU64::new(0) }
    }

    /// Sends the request itself.
    fn send(&self, asking: &Asking) -> Response {
        let mut client = connect(&self.edge);
        let host = if asking.fields.iter().any(|field| field.starts_with("Host:")) {
            ""
        } else {
            "Host: example.test\r\n"
        };
        let lines: String = asking.fields.iter().map(|field| format!("{field}\r\n")).collect();
        client.send(format!("{} {} HTTP/1.1\r\n{host}{lines}\r\n", asking.method, asking.target));
        let answer = if asking.method == "HEAD" { client.read_head() } else { client.read() };
        let sent = self.sent.fetch_add(1, Ordering::SeqCst) + 1;
        eventually("the request is recorded", || metric(&self.edge, "petasos_requests_total", "") == sent);
        eventually("every fetch has ended", || metric(&self.edge, "petasos_flights_open", "") == 0);
        answer
    }

    /// Asks `why` about the request.
    fn why(&self, asking: &Asking) -> WhyReply {
        let split = |field: &&str| {
            let (name, value) = field.split_once(": ").unwrap();
            (name.to_owned(), value.to_owned())
        };
        let question = Question {
            url: format!("http://example.test{}", asking.target),
            method: asking.method.to_owned(),
            headers: asking.fields.iter().map(split).collect(),
        };
        asked(&self.edge, &question)
    }

    /// Everything that a question must not change.
    fn state(&self) -> (usize, Vec<u64>) {
        let names = [
            "petasos_requests_total",
            "petasos_origin_fetches_total",
            "petasos_flights_started_total",
            "petasos_store_bytes",
            "petasos_store_objects",
        ];
        (self.origin.seen().len(), names.iter().map(|name| metric(&self.edge, name, "")).collect())
    }

    /// Asks `why` twice and then sends the request; its outcome must match the prediction.
    fn check(&self, asking: &Asking) {
        let before = self.state();
        let predicted = self.why(asking);
        assert_eq!(self.why(asking), predicted, "asking changes the answer");
        assert_eq!(self.state(), before, "asking changes something");
        let answer = self.send(asking);
        let met = Reason::ALL.iter().find(|known| known.name() == reason(&answer)).copied().unwrap();
        let context = format!("{asking:?} met {met}, predicted {predicted:?}");
        let exact = predicted.reason == met.name() && predicted.verdict == met.verdict().name();
        let dead = self.dead.load(Ordering::SeqCst);
        match predicted.asks {
            OriginDemand::Nothing | OriginDemand::Renewal => assert!(exact, "{context}"),
            OriginDemand::Confirmation | OriginDemand::Page | OriginDemand::OwnAnswer if dead => {
                match &predicted.if_origin_fails {
                    Some(substitute) => {
                        assert_eq!(substitute.reason, met.name(), "{context}");
                        assert_eq!(substitute.verdict, met.verdict().name(), "{context}");
                    }
                    None => assert_eq!(met.verdict(), Verdict::Failed, "{context}"),
                }
            }
            OriginDemand::OwnAnswer if predicted.verdict == Verdict::Pass.name() => {
                assert!(exact, "{context}")
            }
            // A shared fetch leaves out the client's `Accept`, so its response may have a type that
            // the client does not accept.
            OriginDemand::Confirmation | OriginDemand::Page if met == Reason::PassAccept => {
                assert!(asking.fields.iter().any(|field| field.starts_with("Accept: ")), "{context}");
            }
            OriginDemand::Confirmation => {
                let confirmed = met == Reason::HitRevalidated;
                assert!(confirmed || met.verdict() == Verdict::Miss, "{context}");
            }
            OriginDemand::Page | OriginDemand::OwnAnswer => {
                assert_eq!(met.verdict(), Verdict::Miss, "{context}")
            }
        }
    }

    fn run(&self, steps: &[Step]) {
        for step in steps {
            match step {
                Step::Ask(asking) => self.check(asking),
                Step::Pass(seconds) => self.clock.advance(Duration::from_secs(*seconds)),
                Step::Dead(dead) => self.dead.store(*dead, Ordering::SeqCst),
            }
        }
    }
}

fn asking() -> impl Strategy<Value = Asking> {
    let method = prop_oneof![
        12 => Just("GET"),
        3 => Just("HEAD"),
        1 => Just("POST"),
        1 => Just("OPTIONS"),
        1 => Just("PURGE"),
    ];
    let fields = proptest::sample::subsequence(FIELDS, 0..3);
    // Only a few pages, so that requests meet the results of earlier ones.
    (method, proptest::sample::select(PATHS), prop_oneof![3 => Just(Vec::new()), 2 => fields])
        .prop_map(|(method, target, fields)| Asking { method, target, fields })
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        10 => asking().prop_map(Step::Ask),
        2 => (1_u64..90).prop_map(Step::Pass),
        1 => any::<bool>().prop_map(Step::Dead),
    ]
}

fn policies() -> impl Strategy<Value = Policy> {
    let overriding = Policy { stale_on_error: StaleOnError::Override, ..Policy::default_profile() };
    proptest::sample::select(vec![Policy::default_profile(), Policy::wordpress(), Policy::rfc(), overriding])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn prediction_of_why_matches_the_next_request(
        policy in policies(),
        steps in proptest::collection::vec(step(), 1..24),
    ) {
        Site::new(policy).run(&steps);
    }
}

fn get(target: &'static str, fields: &[&'static str]) -> Asking {
    Asking { method: "GET", target, fields: fields.to_vec() }
}

/// Whether a page is still stored after `use_it` was called on it and the store was filled twice
/// over.
fn survives(mut use_it: impl FnMut(&Site, &Asking)) -> bool {
    let site = Site::with(Policy::default_profile(), |plan| plan.memory_bytes = 2 << 20);
    let first = get("/large", &[]);
    site.send(&first);
    (0..4).for_each(|_| use_it(&site, &first));
    let mut client = connect(&site.edge);
    for number in 0..200 {
        assert_eq!(client.get(&format!("/large/{number}"), &[]).status, 200);
    }
    site.why(&first).stored.is_some()
}

#[test]
fn questions_to_why_do_not_count_as_uses_of_a_page() {
    assert!(survives(|site, asking| drop(site.send(asking))), "requesting the page counts as a use");
    assert!(!survives(|site, asking| drop(site.why(asking))));
}

#[test]
fn stored_page_is_described() {
    let site = Site::new(Policy::default_profile());
    let asking = get("/language", &["Accept-Language: de"]);
    assert_eq!(site.why(&asking).stored, None);
    site.send(&asking);
    site.clock.advance(Duration::from_secs(10));
    let answer = site.why(&asking);
    assert_eq!((answer.reason.as_str(), answer.asks), ("hit-fresh", OriginDemand::Nothing));
    let stored = answer.stored.unwrap();
    assert_eq!((stored.status, stored.content_bytes, stored.is_part), (200, 12, false));
    assert_eq!((stored.age_secs, stored.ttl_secs, stored.lifetime_secs), (10, 50, 60));
    let key = answer.key.unwrap();
    assert_eq!((key.host.as_str(), key.target.as_str()), ("example.test", "/language"));
    assert_eq!(key.variant_fields, ["accept-language"]);
    let passing = site.why(&get("/language", &["Accept-Language: de", "Cookie: theme=dark"]));
    assert_eq!(passing.reason, "pass-unknown-cookie");
    assert!(passing.stored.is_some(), "the page is stored for other requests");
    let other = site.why(&get("/language", &["Accept-Language: en"]));
    assert!(other.other_variants_only && other.stored.is_none());
    assert_eq!(other.reason, "miss-variant");
}

#[test]
fn reason_for_not_storing_a_page_names_its_cause() {
    let site = Site::new(Policy::default_profile());
    let asking = get("/cookie", &[]);
    assert_eq!(site.why(&asking).remembered, None);
    site.send(&asking);
    let answer = site.why(&asking);
    assert_eq!((answer.verdict.as_str(), answer.reason.as_str()), ("miss", "store-refused-set-cookie"));
    let culprit = answer.culprit.unwrap();
    assert_eq!((culprit.kind.as_str(), culprit.name.as_str()), ("cookie", "PHPSESSID"));
    assert_eq!(answer.remembered.unwrap().reason, "store-refused-set-cookie");
    site.clock.advance(Duration::from_secs(121));
    assert_eq!(site.why(&asking).reason, "miss-absent", "the hit-for-miss entry has expired");
}

#[test]
fn stale_response_for_a_failing_origin_is_predicted() {
    let strict = get("/short-strict", &[]);
    for (policy, expected) in [
        (Policy::default_profile(), None),
        (
            Policy { stale_on_error: StaleOnError::Override, ..Policy::default_profile() },
            Some("stale-on-error-override"),
        ),
    ] {
        let site = Site::new(policy);
        site.send(&strict);
        site.clock.advance(Duration::from_secs(60));
        let answer = site.why(&strict);
        assert_eq!(answer.reason, "miss-expired");
        let substitute = answer.if_origin_fails.map(|substitute| substitute.reason);
        assert_eq!(substitute.as_deref(), expected);
        assert_eq!(answer.stored.unwrap().stale_if_error_overrides, expected.is_some());
    }
}

#[test]
fn confirmation_renewal_and_fetch_are_distinguished() {
    let site = Site::new(Policy::default_profile());
    for (target, age, expected) in [
        ("/short-tagged", 10, OriginDemand::Confirmation),
        ("/swr", 10, OriginDemand::Renewal),
        ("/fresh", 61, OriginDemand::Page),
    ] {
        let asking = get(target, &[]);
        assert_eq!(site.why(&asking).asks, OriginDemand::Page, "{target}");
        site.send(&asking);
        assert_eq!(site.why(&asking).asks, OriginDemand::Nothing, "{target}");
        site.clock.advance(Duration::from_secs(age));
        assert_eq!(site.why(&asking).asks, expected, "{target}");
    }
}
