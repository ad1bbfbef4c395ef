//! Compares reported times with those that a server recorded. No reported time can be shorter than
//! the server took, however slow this machine is. It can be longer if other processes use the
//! machine, but not in every attempt: then the load tester would be the cause. `cargo xtask bench
//! accuracy` has the strict figures.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that cannot go on panics")]

use address::HttpUrl;
use petasos_load::Control;
use platform::SystemClock;
use record::{Arrival, Plan, Rate, RunOutcome, Stop, Think};
use std::sync::OnceLock;
use std::time::Duration;
use testkit::Paced;

/// How far apart two comparisons of the same two clocks may be, in microseconds.
const CLOCKS_US_MAX: u64 = 50;

/// The most that the network and a busy machine may add, in microseconds.
const ADDED_US_MAX: u64 = 40_000;

fn run(server: &Paced, requests: u64, arrival: Arrival, users: usize) -> RunOutcome {
    let stop = Stop { requests: Some(requests), ..Stop::default() };
    let plan = Plan { stop, arrival, users, ..Plan::new(HttpUrl::parse(&server.url()).unwrap()) };
    petasos_load::run(&plan, &SystemClock::new(), &Control::new()).unwrap()
}

fn at_rate(rate: f64) -> Arrival {
    Arrival::Open { rate: Rate::Constant(rate), in_flight_max: 1_000 }
}

/// The most attempts to find a run in which the machine adds at most [`ADDED_US_MAX`].
const TRIES_MAX: usize = 30;

/// Compares percentiles with those of the server's record. Returns whether they are close enough.
fn compare(server: &Paced, outcome: &RunOutcome, requests: u64) -> bool {
    let mut is_near = true;
    let waits = server.waits_us();
    assert_eq!((outcome.good, waits.len() as u64), (requests, requests));
    let times = &outcome.good_times;
    for (histogram, is_whole) in [(&times.total, true), (times.latency(), true), (&times.waiting, false)] {
        for percent in [10.0, 50.0, 90.0, 99.0] {
            let place = ((percent / 100.0 * requests as f64).ceil() as usize).max(1) - 1;
            let (truth, found) = (waits[place], histogram.percentile_us(percent));
            // Each reported time is at least the server's, so each percentile is too. Waiting
            // begins when the request is known to be sent, and the server may have received it
            // before that.
            assert!(
                !is_whole || found + CLOCKS_US_MAX >= truth,
                "p{percent}: {found} us reported, {truth} us taken"
            );
            is_near &= found <= truth + ADDED_US_MAX;
        }
    }
    is_near
}

/// Repeats until the times of a run are close to the server's.
fn is_near_once(mut is_near: impl FnMut() -> bool) {
    assert!((0..TRIES_MAX).any(|_| is_near()), "each of {TRIES_MAX} runs reports times that are too long");
}

#[test]
fn known_delays_are_reported() {
    for delay_ms in [10, 100] {
        for (arrival, users) in [(Arrival::Closed, 4), (at_rate(100.0), 1)] {
            is_near_once(|| {
                let server = Paced::start(move |_, _| Duration::from_millis(delay_ms));
                compare(&server, &run(&server, 40, arrival, users), 40)
            });
        }
    }
}

#[test]
fn two_kinds_of_responses_stay_distinguishable() {
    is_near_once(|| {
        let server = Paced::start(|number, _| Duration::from_millis(if number % 10 == 9 { 150 } else { 10 }));
        let outcome = run(&server, 100, Arrival::Closed, 5);
        let total = &outcome.good_times.total;
        assert!(total.percentile_us(95.0) + CLOCKS_US_MAX >= 150_000);
        compare(&server, &outcome, 100) && total.percentile_us(85.0) < 100_000
    });
}

/// From 0.4 s after the first request on, the server does not respond for one second.
fn stalling() -> Paced {
    const STALL: (Duration, Duration) = (Duration::from_millis(400), Duration::from_millis(1_400));
    let first = OnceLock::new();
    Paced::start(move |_, came| {
        let after = came.saturating_sub(*first.get_or_init(|| came));
        if after >= STALL.0 { STALL.1.saturating_sub(after) } else { Duration::ZERO }
    })
}

#[test]
fn stall_shows_in_the_latency_of_all_requests_due_meanwhile() {
    let server = stalling();
    let outcome = run(&server, 400, at_rate(200.0), 1);
    let latency = outcome.good_times.latency();
    // Half of the requests of two seconds arrive during the stall and wait for the rest of it.
    assert!(latency.max_us() >= 900_000, "max {} us", latency.max_us());
    for (percent, at_least_us) in [(70.0, 250_000), (80.0, 450_000), (95.0, 750_000)] {
        let found = latency.percentile_us(percent);
        assert!(found >= at_least_us, "p{percent} is {found} us");
    }
    assert_eq!((outcome.good, outcome.not_started), (400, 0));
    // One user of a closed loop meets the stall only once.
    let server = stalling();
    let outcome = run(&server, 400, Arrival::Closed, 1);
    assert!(outcome.good_times.total.percentile_us(99.0) < 400_000);
}

#[test]
fn littles_law_agrees_with_the_account_of_the_users_time() {
    const USERS: usize = 4;
    let server = Paced::start(|_, _| Duration::from_millis(1));
    // Two users wait for a connection while the others have one.
    let plan = Plan {
        stop: Stop { requests: Some(800), ..Stop::default() },
        users: USERS,
        threads: 1,
        connections_per_host_max: Some(2),
        think: Think::Constant(Duration::from_millis(2)),
        ..Plan::new(HttpUrl::parse(&server.url()).unwrap())
    };
    let outcome = petasos_load::run(&plan, &SystemClock::new(), &Control::new()).unwrap();
    let (check, of) = (&outcome.check, outcome.check.account);
    // Little's law adds up times of requests, and the account adds up states of users: two records
    // of the same time.
    let residual = check.little_residual.unwrap();
    let found_s = (1.0 - residual) * USERS as f64 * outcome.elapsed.as_secs_f64();
    let accounted = of.connecting + of.thinking + of.server + of.failed + of.unread + of.processing;
    assert!((found_s / accounted.as_secs_f64() - 1.0).abs() < 0.01, "{found_s} s found, {of:?}");
    assert!(of.connecting > of.server / 10, "users waited: {of:?}");
}
