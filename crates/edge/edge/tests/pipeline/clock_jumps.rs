//! Jumps of the wall clock, forward and back, at every stage of a request.

use crate::support::{START, Stage, bare, behind, reason, tagged};
use clock::Timestamp;
use std::time::Duration;
use testkit::{Gate, Seen, eventually, response};

const YEAR_SECS: u64 = 365 * 24 * 3600;
const HOUR_SECS: u64 = 3600;
const DAY_SECS: u64 = 24 * HOUR_SECS;

const PAGE: &[&str] = &["Cache-Control: max-age=60, stale-while-revalidate=30"];

/// Moves the wall clock by this many seconds.
fn jump(stage: &Stage, seconds: i64) {
    let now = clock::Clock::now(&*stage.clock).as_secs();
    stage.clock.set_wall(Timestamp::from_secs(now.saturating_add_signed(seconds)));
}

fn year() -> i64 {
    i64::try_from(YEAR_SECS).unwrap()
}

fn hour() -> i64 {
    i64::try_from(HOUR_SECS).unwrap()
}

fn page(seen: &Seen) -> Vec<testkit::Action> {
    tagged(seen, "\"1\"", PAGE, "page")
}

#[test]
fn jump_forward_ends_freshness_and_staleness() {
    let stage = Stage::new(page);
    stage.get("/", &[]);
    jump(&stage, year());
    assert_eq!(reason(&stage.get("/", &[])), "hit-revalidated", "not fresh, and beyond the stale window");
    let stage = Stage::new(page);
    stage.get("/", &[]);
    stage.origin.kill();
    jump(&stage, year());
    assert_eq!(stage.get("/", &[]).status, 502, "no longer seen within the last day");
}

#[test]
fn jump_back_extends_no_lifetime() {
    let stage = Stage::new(page);
    stage.get("/", &[]);
    jump(&stage, -hour());
    stage.pass(59);
    let hit = stage.get("/", &[]);
    assert_eq!((reason(&hit), hit.field("Age")), ("hit-fresh", Some("59")));
    stage.pass(1);
    let gate = Gate::default();
    stage.becomes({
        let gate = gate.clone();
        move |seen| behind(&gate, page(seen))
    });
    assert_eq!(reason(&stage.get("/", &[])), "stale-while-revalidate");
    stage.await_seen(2);
    jump(&stage, -hour());
    stage.pass(30);
    let mut waits = stage.begin("GET", "/", &[]);
    eventually("the request waits", || stage.metric("petasos_flight_waits_total", "") == 1);
    gate.open();
    assert_eq!(reason(&waits.read()), "hit-revalidated");
    stage.await_quiet();
    stage.origin.kill();
    stage.pass(60);
    jump(&stage, -hour());
    // Its fetch took half a minute, which counts as age.
    stage.pass(DAY_SECS - 31);
    assert_eq!(reason(&stage.get("/", &[])), "stale-on-error");
    stage.pass(1);
    assert_eq!(stage.get("/", &[]).status, 502);
}

#[test]
fn page_stored_under_a_wrong_clock_is_not_kept_longer() {
    for seconds in [year(), -hour(), -year()] {
        let stage = Stage::new(page);
        jump(&stage, seconds);
        stage.get("/", &[]);
        jump(&stage, -seconds);
        stage.pass(60 + 30);
        assert_ne!(reason(&stage.get("/", &[])), "hit-fresh", "wrong by {seconds} s");
        stage.origin.kill();
        stage.pass(60 + DAY_SECS);
        assert_eq!(stage.get("/", &[]).status, 502, "wrong by {seconds} s");
    }
}

#[test]
fn wrong_clock_of_the_origin_gives_no_endless_freshness() {
    for date in
        ["Thu, 01 Jan 1970 00:00:00 GMT", "Fri, 31 Dec 9999 23:59:59 GMT", "Thu, 14 Nov 2024 22:13:20 GMT"]
    {
        let line = format!("Date: {date}");
        let expires = "Expires: Fri, 31 Dec 9999 23:59:59 GMT";
        for fields in [
            vec![&line[..], "Cache-Control: max-age=60"],
            vec![&line[..], "Cache-Control: max-age=60", expires],
        ] {
            let fields: Vec<String> = fields.into_iter().map(str::to_owned).collect();
            let stage = Stage::new(move |_| {
                let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
                response("200 OK", &fields, b"page")
            });
            stage.get("/", &[]);
            stage.pass(60);
            assert_ne!(reason(&stage.get("/", &[])), "hit-fresh", "{date}");
            jump(&stage, -hour());
            stage.pass(60);
            assert_ne!(reason(&stage.get("/", &[])), "hit-fresh", "{date}");
        }
    }
}

#[test]
fn jump_during_a_fetch_extends_no_lifetime() {
    for seconds in [year(), -hour(), -year()] {
        let gate = Gate::default();
        let stage = Stage::new({
            let gate = gate.clone();
            move |seen| behind(&gate, page(seen))
        });
        let mut first = stage.begin("GET", "/", &[]);
        stage.await_seen(1);
        jump(&stage, seconds);
        gate.open();
        assert_eq!(first.read().text(), "page");
        stage.await_quiet();
        stage.pass(60 + 30);
        let next = stage.get("/", &[]);
        assert_ne!(reason(&next), "hit-fresh", "{seconds} s during a fetch");
        assert_eq!(next.text(), "page");
    }
}

#[test]
fn jump_during_a_revalidation_extends_no_lifetime() {
    for seconds in [year(), -hour(), -year()] {
        let stage = Stage::new(page);
        stage.get("/", &[]);
        stage.pass(60 + 30);
        let gate = Gate::default();
        stage.becomes({
            let gate = gate.clone();
            move |_| behind(&gate, bare("304 Not Modified", &["ETag: \"1\"", "Cache-Control: max-age=60"]))
        });
        let mut asked = stage.begin("GET", "/", &[]);
        stage.await_seen(2);
        jump(&stage, seconds);
        gate.open();
        assert_eq!(asked.read().text(), "page");
        stage.await_quiet();
        stage.pass(60);
        assert_eq!(reason(&stage.get("/", &[])), "hit-revalidated", "{seconds} s during a revalidation");
        stage.await_seen(3);
    }
}

#[test]
fn waiting_is_limited_despite_clock_jumps() {
    let stage = Stage::with(|plan| plan.limits.flight_wait = Duration::from_millis(20), page);
    stage.get("/", &[]);
    stage.pass(60 + 30);
    let gate = Gate::default();
    stage.becomes({
        let gate = gate.clone();
        move |seen| behind(&gate, page(seen))
    });
    jump(&stage, -year());
    assert_eq!(reason(&stage.get("/", &[])), "stale-origin-slow");
    jump(&stage, 3 * year());
    let mut nothing_to_use = stage.begin("GET", "/", &[]);
    stage.await_seen(3);
    gate.open();
    assert_eq!(nothing_to_use.read().text(), "page");
}

#[test]
fn hit_for_miss_entry_expires_despite_clock_jumps() {
    for seconds in [year(), -year()] {
        let stage = Stage::new(|_| response("200 OK", &["Cache-Control: private"], b"own"));
        stage.get("/", &[]);
        jump(&stage, seconds);
        stage.becomes(page);
        stage.pass(120);
        stage.get("/", &[]);
        assert_eq!(reason(&stage.get("/", &[])), "hit-fresh", "{seconds} s");
    }
}

#[test]
fn stored_part_expires_despite_clock_jumps() {
    let stage = Stage::new(|_| {
        let fields =
            ["Cache-Control: max-age=60", "ETag: \"1\"", "Content-Range: bytes 0-0/3", "Cache-Groups: \"g\""];
        response("206 Partial Content", &fields, b"p")
    });
    stage.get("/", &["Range: bytes=0-0"]);
    jump(&stage, -hour());
    assert_eq!(reason(&stage.get("/", &["Range: bytes=0-0"])), "hit-fresh");
    stage.pass(60);
    assert_eq!(reason(&stage.get("/", &["Range: bytes=0-0"])), "miss-expired");
    jump(&stage, year());
    assert_eq!(reason(&stage.get("/", &["Range: bytes=0-0"])), "miss-expired");
}

#[test]
fn extreme_clock_values_cause_no_error() {
    for wall in [0, 1, 253_402_300_799, 253_402_300_800, u64::from(u32::MAX) * 1000, u64::MAX / 1_000_000] {
        let stage = Stage::new(page);
        stage.get("/", &[]);
        stage.clock.set_wall(Timestamp::from_secs(wall));
        for fields in
            [&[][..], &["Range: bytes=0-0"], &["Cache-Control: max-stale"], &["If-None-Match: \"1\""]]
        {
            assert!(stage.get("/", fields).status < 500, "{wall}");
        }
        assert_eq!(stage.get("/new", &[]).text(), "page");
        stage.clock.set_wall(START);
        assert!(stage.get("/", &[]).status < 500);
    }
}
