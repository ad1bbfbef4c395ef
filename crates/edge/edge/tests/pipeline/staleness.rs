//! Responses while the origin is being asked, is slow, fails or is unreachable.

use crate::support::{Stage, behind, reason, tagged};
use config::EdgePlan;
use profiles::StaleOnError;
use std::time::Duration;
use testkit::{Action, Gate, Response, Seen, eventually, response};

const DAY_SECS: u64 = 24 * 3600;

/// A stage with a stored page that has been stale for this many seconds.
fn seen(change: impl FnOnce(&mut EdgePlan), fields: &'static [&'static str], stale_secs: u64) -> Stage {
    let stage = Stage::with(change, good(fields));
    assert_eq!(stage.get("/", &[]).text(), "page");
    stage.pass(60 + stale_secs);
    stage
}

fn good(fields: &'static [&'static str]) -> impl Fn(&Seen) -> Vec<Action> + Send + Sync + 'static {
    move |seen| tagged(seen, "\"1\"", fields, "page")
}

fn sends(octets: &str) -> Action {
    Action::Send(octets.as_bytes().to_vec())
}

const FRESH: &[&str] = &["Cache-Control: max-age=60"];

fn is_stale_page(answer: &Response, why: &str) {
    let told = (answer.status, answer.text(), reason(answer));
    assert_eq!(told, (200, "page", why), "{}", answer.head);
    let status = answer.field("Cache-Status").unwrap();
    assert!(status.contains("; ttl=-") || status.contains("; ttl=0"), "{status}");
}

#[test]
fn stored_page_is_served_stale_for_each_kind_of_failure() {
    let failures: &[&[Action]] = &[
        &[Action::Close],
        &[Action::Reset],
        &[sends("HTTP/1.1 200 OK\r\nCache-Con"), Action::Close],
        &[sends("SSH-2.0-OpenSSH_9.2\r\n\r\n")],
        &[sends("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n")],
    ];
    for failure in failures {
        let stage = seen(|_| {}, FRESH, 100);
        let failure = failure.to_vec();
        stage.becomes({
            let failure = failure.clone();
            move |_| failure.clone()
        });
        for _ in 0..2 {
            let answer = stage.get("/", &[]);
            is_stale_page(&answer, "stale-on-error");
            assert_eq!(answer.field("Age"), Some("160"), "{failure:?}");
            assert_eq!(
                answer.field("Cache-Status"),
                Some("Petasos; fwd=stale; ttl=-100; detail=stale-on-error")
            );
        }
        assert!(stage.get("/unseen", &[]).status >= 500, "{failure:?}");
        assert_eq!(stage.metric("petasos_store_published_total", ""), 1);
    }
}

#[test]
fn origin_error_does_not_replace_the_stored_page() {
    for status in ["500 Oops", "502 Bad", "503 Busy", "504 Late"] {
        for cached in ["Cache-Control: no-store", "Cache-Control: max-age=600", "ETag: \"1\""] {
            let stage = seen(|_| {}, FRESH, 100);
            stage.becomes(move |_| response(status, &[cached], b"error"));
            for _ in 0..2 {
                stage.pass(1);
                let answer = stage.get("/", &[]);
                is_stale_page(&answer, "stale-on-error");
                let told = format!("; fwd-status={}", &status[..3]);
                assert!(answer.field("Cache-Status").unwrap().contains(&told), "{}", answer.head);
            }
            stage.becomes(good(FRESH));
            stage.pass(1);
            assert_eq!(reason(&stage.get("/", &[])), "hit-revalidated");
            assert_eq!(reason(&stage.get("/", &[])), "hit-fresh");
        }
    }
}

#[test]
fn other_error_statuses_do_not_count_as_failures() {
    for status in ["404 Gone", "410 Gone", "403 No", "501 No", "505 No", "599 Odd"] {
        let stage = seen(|_| {}, FRESH, 100);
        stage.becomes(move |_| response(status, &[], b"answer"));
        let answer = stage.get("/", &[]);
        assert_eq!((&answer.status.to_string()[..], answer.text()), (&status[..3], "answer"));
    }
}

#[test]
fn stale_pages_are_served_for_a_day_and_refreshed_afterwards() {
    let targets = ["/a", "/b", "/c?d"];
    let stage = Stage::with(|_| {}, good(FRESH));
    for target in targets {
        stage.get(target, &[]);
    }
    stage.origin.kill();
    stage.pass(60 + DAY_SECS - 10);
    // The first request fails at the origin; for the others the breaker is already open.
    for (target, why) in targets.iter().zip(["stale-on-error", "stale-breaker-open", "stale-breaker-open"]) {
        is_stale_page(&stage.get(target, &[]), why);
    }
    assert_eq!(reason(&stage.get("/unseen", &[])), "origin-breaker-open");
    stage.origin.revive();
    stage.pass(1);
    assert_eq!(stage.get("/unseen", &[]).status, 200, "a miss is the probe");
    for target in targets {
        assert_eq!(reason(&stage.get(target, &[])), "hit-revalidated");
        assert_eq!(reason(&stage.get(target, &[])), "hit-fresh");
    }
    stage.origin.kill();
    stage.pass(60 + DAY_SECS);
    let refused =
        [(502, "origin-refused-connection"), (503, "origin-breaker-open"), (503, "origin-breaker-open")];
    for (target, expected) in targets.iter().zip(refused) {
        let refused = stage.get(target, &[]);
        assert_eq!((refused.status, reason(&refused)), expected);
    }
}

#[test]
fn response_can_forbid_staleness_and_the_policy_override_it() {
    let forbidding: &[&[&str]] = &[
        &["Cache-Control: max-age=60, must-revalidate"],
        &["Cache-Control: max-age=60, proxy-revalidate"],
        &["Cache-Control: s-maxage=60"],
        &["Cache-Control: max-age=60, stale-if-error=50"],
    ];
    let lifted = |plan: &mut EdgePlan| plan.sites[0].policy.stale_on_error = StaleOnError::Override;
    for fields in forbidding {
        for dead in [true, false] {
            let fail = |stage: &Stage| {
                stage.becomes(|_| response("503 Busy", &[], b"busy"));
                if dead {
                    stage.origin.kill();
                }
            };
            let stage = seen(|_| {}, fields, 100);
            fail(&stage);
            let answer = stage.get("/", &[]);
            assert!(answer.status >= 500 && answer.text() != "page", "{fields:?}: {}", answer.head);
            let states_less = fields[0].contains("stale-if-error");
            if !states_less {
                let stage = seen(lifted, fields, 100);
                fail(&stage);
                is_stale_page(&stage.get("/", &[]), "stale-on-error-override");
            }
        }
    }
    for fields in [&["Cache-Control: no-cache"][..], &["Cache-Control: no-cache, max-age=60"]] {
        let stage = seen(lifted, fields, 0);
        stage.origin.kill();
        assert_eq!(stage.get("/", &[]).status, 502, "{fields:?} is not lifted");
    }
}

#[test]
fn rfc_profile_never_overrides_a_ban_on_staleness() {
    for fields in [&["Cache-Control: max-age=60, must-revalidate"][..], &["Cache-Control: s-maxage=60"]] {
        let stage = Stage::rfc(good(fields));
        stage.get("/", &[]);
        stage.pass(61);
        stage.origin.kill();
        assert_eq!(stage.get("/", &[]).status, 502, "{fields:?}");
    }
    let stage = Stage::rfc(good(&["Cache-Control: max-age=60, stale-if-error=100"]));
    stage.get("/", &[]);
    stage.pass(61);
    stage.origin.kill();
    is_stale_page(&stage.get("/", &[]), "stale-on-error");
    stage.pass(100);
    assert_eq!(stage.get("/", &[]).status, 502);
}

#[test]
fn timeouts_and_a_full_queue_count_as_failures() {
    let gate = Gate::default();
    let hanging = |gate: &Gate| {
        let gate = gate.clone();
        move |seen: &Seen| behind(&gate, tagged(seen, "\"1\"", FRESH, "page"))
    };
    let stage = Stage::with(|plan| plan.limits.first_byte_timeout = Duration::from_millis(20), good(FRESH));
    // On a busy machine even the first page may be late.
    eventually("the page came in time", || stage.get("/", &[]).text() == "page");
    stage.pass(60 + 100);
    let before = stage.metric("petasos_origin_timeouts_total", "");
    stage.becomes(hanging(&gate));
    is_stale_page(&stage.get("/", &[]), "stale-on-error");
    assert_eq!(stage.metric("petasos_origin_timeouts_total", ""), before + 1);
    for (queue_max, busy) in [(0, "queue-full"), (9, "queue-timeout")] {
        let change = |plan: &mut EdgePlan| {
            (plan.limits.fetches_max, plan.limits.queue_max) = (1, queue_max);
            plan.limits.queue_timeout = Duration::from_millis(20);
        };
        let stage = seen(change, FRESH, 100);
        stage.becomes(hanging(&gate));
        let _occupies = stage.begin("GET", "/other", &[]);
        stage.await_seen(2);
        is_stale_page(&stage.get("/", &[]), "stale-on-error");
        let refused = stage.get("/unseen", &[]);
        assert_eq!((refused.status, reason(&refused)), (503, busy));
    }
}

#[test]
fn ranges_and_conditions_work_on_stale_pages() {
    let stage = seen(|_| {}, FRESH, 100);
    stage.origin.kill();
    let part = stage.get("/", &["Range: bytes=1-2"]);
    assert_eq!((part.status, part.text(), reason(&part)), (206, "ag", "stale-on-error"));
    let unchanged = stage.get("/", &["If-None-Match: \"1\""]);
    assert_eq!((unchanged.status, reason(&unchanged)), (304, "stale-breaker-open"));
    let head = stage.ask("HEAD", "/", &[]);
    assert_eq!(
        (head.status, head.field("Content-Length"), reason(&head)),
        (200, Some("4"), "stale-breaker-open")
    );
    let own = stage.get("/", &["Cookie: session=1"]);
    assert_eq!((own.status, reason(&own)), (503, "origin-breaker-open"), "nothing for a session");
    let written = stage.ask("POST", "/", &["Content-Length: 0"]);
    assert_eq!(written.status, 503);
    is_stale_page(&stage.get("/", &[]), "stale-breaker-open");
}

#[test]
fn reload_gets_a_stale_page_except_under_rfc_profile() {
    for reload in ["Cache-Control: no-cache", "Cache-Control: max-age=0"] {
        for age_secs in [10, 100] {
            let stage = Stage::with(|_| {}, good(FRESH));
            stage.get("/", &[]);
            stage.origin.kill();
            stage.pass(age_secs);
            let answer = stage.get("/", &[reload]);
            assert_eq!((answer.status, answer.text()), (200, "page"), "{reload} after {age_secs} s");
        }
    }
    let stage = Stage::rfc(good(FRESH));
    stage.get("/", &[]);
    stage.origin.kill();
    stage.pass(100);
    assert_eq!(stage.get("/", &["Cache-Control: no-cache"]).status, 502);
}

#[test]
fn truncated_response_does_not_replace_the_stored_page() {
    let stage = seen(|_| {}, FRESH, 0);
    stage.becomes(|_| {
        let head =
            "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nETag: \"2\"\r\nContent-Length: 10\r\n\r\nnew";
        vec![sends(head), Action::Close]
    });
    // The beginning was held back, because the stored page could replace it.
    is_stale_page(&stage.get("/", &[]), "stale-on-error");
    assert_eq!(stage.metric("petasos_responses_cut_total", ""), 0);
    stage.await_quiet();
    stage.origin.kill();
    is_stale_page(&stage.get("/", &[]), "stale-on-error");
}

#[test]
fn truncated_response_is_replaced_for_all_that_wait() {
    let forever = Duration::from_secs(3600);
    let stage = seen(|plan| (plan.limits.stale_wait, plan.limits.flight_wait) = (forever, forever), FRESH, 0);
    let gate = Gate::default();
    let closed = gate.clone();
    stage.becomes(move |_| {
        let head =
            "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nnew\r\n";
        [vec![sends(head)], behind(&closed, vec![Action::Close])].concat()
    });
    let mut clients: Vec<_> = (0..4).map(|_| stage.begin("GET", "/", &[])).collect();
    eventually("all wait", || stage.metric("petasos_flight_waits_total", "") == 3);
    gate.open();
    for client in &mut clients {
        is_stale_page(&client.read(), "stale-on-error");
    }
    stage.await_seen(2);
}

#[test]
fn response_without_a_stale_page_is_not_held_back() {
    let gate = Gate::default();
    let closed = gate.clone();
    let stage = Stage::new(move |_| {
        let head = "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 6\r\n\r\nnew";
        [vec![sends(head)], behind(&closed, vec![sends("est")])].concat()
    });
    let mut client = stage.begin("GET", "/", &[]);
    assert_eq!((client.read_head().status, client.read_octets(3)), (200, b"new".to_vec()));
    gate.open();
    assert_eq!(client.read_octets(3), b"est".to_vec());
}

#[test]
fn held_back_response_is_sent_when_large_or_held_long() {
    let large = "x".repeat(100_000);
    for body in ["new", &large] {
        // A quarter of it is the longest time for which a response is held back.
        let wait = if body == "new" { Duration::from_secs(2) } else { Duration::from_secs(3600) };
        let stage = seen(|plan| (plan.limits.stale_wait, plan.limits.flight_wait) = (wait, wait), FRESH, 0);
        let gate = Gate::default();
        let (closed, sent) = (gate.clone(), body.to_owned());
        stage.becomes(move |_| {
            let length = sent.len() + 3;
            let head = format!(
                "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nETag: \"2\"\r\nContent-Length: {length}\r\n\r\n{sent}"
            );
            [vec![sends(&head)], behind(&closed, vec![sends("end")])].concat()
        });
        let mut client = stage.begin("GET", "/", &[]);
        assert_eq!(client.read_head().status, 200);
        assert!(client.read_octets(body.len()) == body.as_bytes(), "the bytes are passed on");
        gate.open();
        assert_eq!(client.read_octets(3), b"end".to_vec());
    }
}

const REVALIDATING: &[&str] = &["Cache-Control: max-age=60, stale-while-revalidate=30, stale-if-error=0"];

#[test]
fn stale_page_is_served_at_once_and_refreshed_by_one_fetch() {
    let stage = seen(|_| {}, REVALIDATING, 10);
    let gate = Gate::default();
    stage.becomes({
        let gate = gate.clone();
        move |_| behind(&gate, response("200 OK", REVALIDATING, b"new"))
    });
    for _ in 0..5 {
        let answer = stage.get("/", &[]);
        is_stale_page(&answer, "stale-while-revalidate");
        assert_eq!(answer.field("Age"), Some("70"));
    }
    let unchanged = stage.get("/", &["If-None-Match: \"1\""]);
    assert_eq!((unchanged.status, reason(&unchanged)), (304, "stale-while-revalidate"));
    stage.await_seen(2);
    assert_eq!(stage.last_seen().field("If-None-Match"), Some("\"1\""));
    assert_eq!(stage.metric("petasos_background_refreshes_total", ""), 1);
    gate.open();
    stage.await_quiet();
    let hit = stage.get("/", &[]);
    assert_eq!((hit.text(), reason(&hit)), ("new", "hit-fresh"));
    stage.await_seen(2);
}

#[test]
fn failed_refresh_is_retried_until_the_stale_window_ends() {
    for dead in [true, false] {
        let stage = seen(|_| {}, REVALIDATING, 10);
        stage.becomes(|_| response("503 Busy", &["Cache-Control: max-age=60"], b"busy"));
        if dead {
            stage.origin.kill();
        }
        for _ in 0..3 {
            is_stale_page(&stage.get("/", &[]), "stale-while-revalidate");
            stage.await_quiet();
            // The length of the pause after a failure.
            stage.pass(1);
        }
        assert_eq!(stage.metric("petasos_background_refreshes_total", ""), 3);
        stage.pass(20);
        assert!(stage.get("/", &[]).status >= 500);
        assert_eq!(stage.metric("petasos_background_refreshes_total", ""), 3);
    }
}

#[test]
fn background_refresh_of_any_request_renews_the_page() {
    for (method, fields) in
        [("HEAD", &[][..]), ("GET", &["Range: bytes=1-2"]), ("GET", &["If-None-Match: \"1\""])]
    {
        let stage = seen(|_| {}, REVALIDATING, 10);
        stage.becomes(|seen| match seen.field("Range") {
            Some(_) => response("206 Partial Content", &[FRESH[0], "Content-Range: bytes 1-2/3"], b"ew"),
            None => tagged(seen, "\"2\"", REVALIDATING, "new"),
        });
        let answer = stage.ask(method, "/", fields);
        assert_eq!(reason(&answer), "stale-while-revalidate", "{method} {fields:?}");
        stage.await_quiet();
        let hit = stage.get("/", &[]);
        assert_eq!((hit.text(), reason(&hit)), ("new", "hit-fresh"), "{method} {fields:?}");
    }
}

#[test]
fn page_that_became_private_is_no_longer_served_stale() {
    for forbidding in ["Cache-Control: private", "Cache-Control: no-store"] {
        let stage = seen(|_| {}, REVALIDATING, 10);
        stage.becomes(move |_| response("200 OK", &[forbidding], b"own"));
        is_stale_page(&stage.get("/", &[]), "stale-while-revalidate");
        stage.await_quiet();
        assert_eq!(stage.get("/", &[]).text(), "own", "{forbidding}");
        let stage = seen(|_| {}, FRESH, 10);
        stage.becomes(move |_| response("200 OK", &[forbidding], b"own"));
        assert_eq!(stage.get("/", &[]).text(), "own", "{forbidding}");
        stage.origin.kill();
        assert_eq!(stage.get("/", &[]).status, 502, "{forbidding}");
    }
}

#[test]
fn response_to_a_session_keeps_the_page_of_other_visitors() {
    let stage = Stage::rfc(good(FRESH));
    stage.get("/", &[]);
    stage.pass(70);
    stage.becomes(|_| response("200 OK", &["Cache-Control: private"], b"own"));
    assert_eq!(stage.get("/", &["Cookie: session=1"]).text(), "own");
    stage.origin.kill();
    is_stale_page(&stage.get("/", &[]), "stale-on-error");
}

#[test]
fn uncacheable_response_keeps_the_page_unless_it_is_gone() {
    for unusable in ["Cache-Control: max-age=0", "X-Nothing: stated", "Expires: 0"] {
        let stage = seen(|_| {}, FRESH, 10);
        stage.becomes(move |_| response("200 OK", &[unusable], b"newer"));
        assert_eq!(stage.get("/", &[]).text(), "newer");
        stage.origin.kill();
        is_stale_page(&stage.get("/", &[]), "stale-on-error");
    }
    let stage = seen(|_| {}, FRESH, 10);
    stage.becomes(|_| response("410 Gone", &["Cache-Control: max-age=0"], b"gone"));
    assert_eq!(stage.get("/", &[]).status, 410);
    stage.origin.kill();
    assert_eq!(stage.get("/", &[]).status, 502, "a page replaced by 410 does not come back");
}

#[test]
fn personal_requests_share_one_background_refresh() {
    let stage = Stage::rfc(good(REVALIDATING));
    stage.get("/", &[]);
    stage.pass(70);
    let gate = Gate::default();
    stage.becomes({
        let gate = gate.clone();
        move |_| behind(&gate, response("200 OK", REVALIDATING, b"new"))
    });
    for _ in 0..5 {
        is_stale_page(&stage.get("/", &["Cookie: session=1"]), "stale-while-revalidate");
    }
    stage.await_seen(2);
    gate.open();
    stage.await_quiet();
    stage.await_seen(2);
}

#[test]
fn slow_origin_is_replaced_by_a_stale_page_after_the_limit() {
    let gate = Gate::default();
    let slow = |fields: &'static [&'static str]| {
        let stage = seen(|plan| plan.limits.flight_wait = Duration::from_millis(20), fields, 100);
        let gate = gate.clone();
        stage.becomes(move |seen| behind(&gate, tagged(seen, "\"1\"", fields, "page")));
        stage
    };
    let stage = slow(FRESH);
    let mut clients: Vec<_> = (0..5).map(|_| stage.begin("GET", "/", &[])).collect();
    for client in &mut clients {
        is_stale_page(&client.read(), "stale-origin-slow");
    }
    is_stale_page(&stage.get("/", &[]), "stale-origin-slow");
    stage.await_seen(2);
    let forbidden = slow(&["Cache-Control: max-age=60, must-revalidate"]);
    let mut leader = forbidden.begin("GET", "/", &[]);
    forbidden.await_seen(2);
    let mut absent = stage.begin("GET", "/unseen", &[]);
    stage.await_seen(3);
    gate.open();
    assert_eq!(reason(&leader.read()), "hit-revalidated");
    assert_eq!(reason(&absent.read()), "miss-absent");
    stage.await_quiet();
    assert_eq!(reason(&stage.get("/", &[])), "hit-fresh", "the slow response was stored");
}

#[test]
fn page_stale_for_a_day_does_not_replace_a_slow_origin() {
    let stage = seen(|plan| plan.limits.flight_wait = Duration::from_millis(20), FRESH, DAY_SECS);
    let gate = Gate::default();
    stage.becomes({
        let gate = gate.clone();
        move |seen| behind(&gate, tagged(seen, "\"1\"", FRESH, "page"))
    });
    let mut leader = stage.begin("GET", "/", &[]);
    stage.await_seen(2);
    let mut impatient = stage.begin("GET", "/", &[]);
    stage.await_seen(3);
    assert_eq!(stage.metric("petasos_flight_wait_timeouts_total", ""), 1);
    gate.open();
    assert_eq!((leader.read().text(), impatient.read().text()), ("page", "page"));
}
