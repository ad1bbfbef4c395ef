//! When requests start: open loops, stages, think times, lingering, several URLs, limits on
//! connections. Servers control their own pace. The tests compare counts, orders and lower bounds
//! of times, never the speed of this machine.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on panics")]

use address::HttpUrl;
use petasos_load::Control;
use platform::SystemClock;
use record::{
    Arrival, Ended, Expect, FailureKind, Length, Plan, Rate, RunOutcome, Stage, StageLoad, Stop, Think,
    WeightedTarget,
};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use testkit::{Action, Gate, Origin, response};

fn plan(origin: &Origin) -> Plan {
    Plan::new(HttpUrl::parse(&format!("{}/page", origin.url())).unwrap())
}

fn run(plan: &Plan) -> RunOutcome {
    let outcome = petasos_load::run(plan, &SystemClock::new(), &Control::new()).unwrap();
    let seconds = |count: fn(&record::Second) -> u64| outcome.seconds.iter().map(count).sum::<u64>();
    assert_eq!(seconds(|second| second.good), outcome.good);
    assert_eq!(seconds(|second| second.failures.total()), outcome.failures.total());
    assert_eq!(seconds(|second| second.not_started), outcome.not_started);
    assert_eq!(seconds(|second| second.started), outcome.requests() + outcome.unfinished);
    assert_eq!(outcome.urls.iter().map(|url| url.good).sum::<u64>(), outcome.good);
    if !outcome.stages.is_empty() {
        assert_eq!(outcome.stages.iter().map(|stage| stage.good).sum::<u64>(), outcome.good);
    }
    outcome
}

fn open(rate: Rate) -> Arrival {
    Arrival::Open { rate, in_flight_max: 1_000 }
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn origin() -> Origin {
    Origin::start(|_| response("200 OK", &[], b"hello"))
}

#[test]
fn open_loop_starts_exactly_the_requests_of_its_schedule() {
    let origin = origin();
    for threads in [1, 2] {
        let stop = Stop { time: Some(ms(500)), ..Stop::default() };
        let outcome = run(&Plan { arrival: open(Rate::Constant(400.0)), stop, threads, ..plan(&origin) });
        assert_eq!((outcome.good, outcome.ended, outcome.elapsed), (200, Ended::Time, ms(500)));
        assert_eq!((outcome.rate_asked, outcome.not_started), (Some(400.0), 0));
        assert_eq!(outcome.good_times.latency().count(), 200);
        assert!(outcome.connections < 200, "no connection was reused");
    }
}

#[test]
fn number_of_requests_ends_an_open_loop() {
    let origin = origin();
    let stop = Stop { requests: Some(75), ..Stop::default() };
    let arrival = open(Rate::Poisson(1_000.0));
    let outcome = run(&Plan { arrival, stop, threads: 2, ..plan(&origin) });
    assert_eq!((outcome.good, outcome.ended), (75, Ended::Requests));
}

#[test]
fn number_of_requests_bounds_rates_and_users_together() {
    let origin = origin();
    let stage = |load, millis| Stage { load, time: ms(millis) };
    let (rate, users) = (stage(StageLoad::Rate(400.0), 250), stage(StageLoad::Users(5), 100));
    let stop = Stop { requests: Some(150), ..Stop::default() };
    for stages in [vec![rate, Stage { time: ms(60_000), ..users }], vec![users, rate, rate]] {
        let before = origin.count("/page");
        let outcome = run(&Plan { stages, stop, threads: 2, ..plan(&origin) });
        assert_eq!((outcome.good, outcome.unfinished, outcome.ended), (150, 0, Ended::Requests));
        assert_eq!(origin.count("/page") - before, 150);
    }
}

#[test]
fn run_does_not_wait_for_users_without_a_request() {
    let origin = origin();
    let stop = Stop { requests: Some(4), ..Stop::default() };
    let long = Duration::from_secs(3_600);
    let thinking = Plan { users: 4, threads: 2, think: Think::Constant(long), stop, ..plan(&origin) };
    let growing = Plan { users: 100, threads: 2, ramp: long, stop, ..plan(&origin) };
    for plan in [thinking, growing] {
        let outcome = run(&plan);
        assert_eq!((outcome.good, outcome.ended), (4, Ended::Requests));
        assert!(outcome.elapsed < ms(30_000) && outcome.seconds.len() < 31, "{:?}", outcome.elapsed);
    }
}

#[test]
fn schedule_does_not_wait_for_a_stalled_server() {
    let held = Gate::default();
    let number = AtomicUsize::new(0);
    let origin = Origin::start(move |_| {
        if number.fetch_add(1, Ordering::SeqCst) == 49 {
            held.open();
        }
        let mut actions = vec![Action::Await(held.clone())];
        actions.extend(response("200 OK", &[], b"hello"));
        actions
    });
    // The first response comes when all fifty requests have arrived. A closed loop with fewer than
    // fifty users would wait forever.
    let stop = Stop { requests: Some(50), ..Stop::default() };
    let outcome = run(&Plan { arrival: open(Rate::Constant(500.0)), stop, ..plan(&origin) });
    assert_eq!((outcome.good, outcome.connections), (50, 50));
    // The first request waited 98 ms for the last one, and the others for a part of that.
    let latency = outcome.good_times.latency();
    assert!(latency.max_us() >= 98_000 && latency.median_us() >= 48_000, "{latency:?}");
}

#[test]
fn requests_beyond_in_flight_max_are_counted_not_delayed() {
    let gate = Gate::default();
    let held = gate.clone();
    let origin = Origin::start(move |_| vec![Action::Await(held.clone())]);
    let arrival = Arrival::Open { rate: Rate::Constant(500.0), in_flight_max: 10 };
    let stop = Stop { time: Some(ms(200)), ..Stop::default() };
    let outcome = run(&Plan { arrival, stop, timeout: ms(3_000), threads: 1, ..plan(&origin) });
    gate.open();
    assert_eq!((outcome.not_started, outcome.failures.of(FailureKind::Timeout)), (90, 10));
    assert_eq!(outcome.check.trust, record::Trust::Invalid);
}

#[test]
fn responses_after_the_end_of_an_open_loop_are_in_no_rate() {
    let origin = Origin::start(|_| {
        let mut actions = vec![Action::Pause(ms(150))];
        actions.extend(response("200 OK", &[], b"hello"));
        actions
    });
    let stop = Stop { time: Some(ms(100)), ..Stop::default() };
    let outcome = run(&Plan { arrival: open(Rate::Constant(100.0)), stop, ..plan(&origin) });
    assert_eq!((outcome.good, outcome.late.good, outcome.unfinished), (10, 10, 0));
    assert!(outcome.good_per_second() == 0.0);
    assert_eq!(outcome.good_times.total.count(), 10);
}

#[test]
fn stages_have_their_own_users_and_nothing_starts_between_them() {
    let origin = origin();
    let stage = |load, time| Stage { load, time };
    let stages = vec![
        stage(StageLoad::Users(1), ms(150)),
        stage(StageLoad::Users(6), ms(150)),
        stage(StageLoad::Rate(100.0), ms(200)),
    ];
    let outcome = run(&Plan { stages, cooldown: ms(50), threads: 2, ..plan(&origin) });
    assert_eq!((outcome.elapsed, outcome.ended, outcome.stages.len()), (ms(500), Ended::Time, 3));
    assert!(
        outcome.stages.iter().all(|stage| stage.good > 0 && stage.good_times.total.count() == stage.good)
    );
    assert_eq!((outcome.stages[2].good, outcome.stages[1].elapsed), (20, ms(150)));
    assert_eq!(outcome.good_times.total.count(), outcome.good);
}

#[test]
fn rate_of_a_stage_is_compared_with_its_own_requests() {
    let origin = origin();
    let stage = |load, millis| Stage { load, time: ms(millis) };
    let stages = vec![stage(StageLoad::Users(2), 600), stage(StageLoad::Rate(1_000.0), 500)];
    let outcome = run(&Plan { stages, threads: 2, ..plan(&origin) });
    let check = &outcome.check;
    assert_eq!((check.rate_asked, check.rate_started), (Some(1_000.0), Some(1_000.0)), "{check:?}");
    assert!(!check.reasons.iter().any(|reason| reason.contains("demanded")), "{check:?}");
}

#[test]
fn users_that_think_send_less_and_keep_their_connections() {
    let origin = origin();
    let think = Think::Range { from: ms(20), to: ms(40) };
    let stop = Stop { requests: Some(12), ..Stop::default() };
    let outcome = run(&Plan { users: 3, threads: 1, think, stop, ..plan(&origin) });
    assert_eq!((outcome.good, outcome.connections), (12, 3));
    // Four requests of a user have at least three think times between them.
    assert!(outcome.elapsed >= ms(60), "{:?}", outcome.elapsed);
}

#[test]
fn connection_closed_during_think_time_is_replaced() {
    let origin = Origin::start(|_| {
        let mut actions = response("200 OK", &[], b"hello");
        actions.extend([Action::Pause(ms(5)), Action::Close]);
        actions
    });
    let stop = Stop { requests: Some(4), ..Stop::default() };
    // Long enough for the server to close the connection, however busy the machine is.
    let outcome = run(&Plan { think: Think::Constant(ms(700)), stop, ..plan(&origin) });
    assert_eq!((outcome.good, outcome.connections, outcome.resent), (4, 4, 0));
}

#[test]
fn connections_linger_while_users_open_new_ones() {
    let open_max = Arc::new(AtomicUsize::new(0));
    let (now, max) = (AtomicUsize::new(0), open_max.clone());
    let origin = Origin::start(move |seen| {
        assert_eq!(seen.field("Connection"), None, "a lingering connection must be left open");
        max.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        response("200 OK", &[], b"hello")
    });
    let stop = Stop { requests: Some(20), ..Stop::default() };
    let plan = Plan { keep_alive: false, linger: Duration::from_secs(30), stop, ..plan(&origin) };
    let outcome = run(&plan);
    assert_eq!((outcome.good, outcome.connections, outcome.closed_by_us), (20, 20, 0));
    assert_eq!(open_max.load(Ordering::SeqCst), 20);
}

#[test]
fn urls_are_chosen_by_weight_and_use_their_hosts_connections() {
    let (left, right) = (origin(), origin());
    let target = |origin: &Origin, path: &str, weight| {
        WeightedTarget::new(HttpUrl::parse(&format!("{}{path}", origin.url())).unwrap(), weight)
    };
    let targets = vec![target(&left, "/a", 1), target(&left, "/b", 2), target(&right, "/c", 5)];
    let stop = Stop { requests: Some(800), ..Stop::default() };
    let plan = Plan { targets, users: 4, threads: 2, stop, seed: 7, ..plan(&left) };
    let outcome = run(&plan);
    let counts: Vec<u64> = outcome.urls.iter().map(|url| url.good).collect();
    assert_eq!(counts.iter().sum::<u64>(), 800);
    assert!((60..140).contains(&counts[0]) && (440..560).contains(&counts[2]), "{counts:?}");
    let seen = [left.count("/a"), left.count("/b"), right.count("/c")].map(|count| count as u64);
    assert_eq!(seen.to_vec(), counts);
    assert!(outcome.connections <= 16, "{}", outcome.connections);
}

#[test]
fn open_connections_stay_within_the_limits() {
    let ports = Arc::new(Mutex::new((0_usize, 0_usize)));
    let shared = ports.clone();
    let origin = Origin::start(move |_| {
        {
            let mut counts = shared.lock().unwrap();
            counts.0 += 1;
            counts.1 = counts.1.max(counts.0);
        }
        std::thread::sleep(ms(2));
        shared.lock().unwrap().0 -= 1;
        response("200 OK", &[], b"hello")
    });
    let stop = Stop { requests: Some(60), ..Stop::default() };
    for by_address in [false, true] {
        let mut plan = Plan { users: 12, stop, ..plan(&origin) };
        let bound = if by_address {
            &mut plan.connections_per_address_max
        } else {
            &mut plan.connections_per_host_max
        };
        *bound = Some(3);
        let outcome = run(&plan);
        assert_eq!((outcome.good, outcome.connections), (60, 3));
        // A wait for a connection is part of the user's latency, but not of the time the server
        // took.
        assert!(outcome.good_times.latency().mean_us() > outcome.good_times.total.mean_us() * 2.0);
    }
    assert!(ports.lock().unwrap().1 <= 3);
}

#[test]
fn user_who_thought_gives_its_connection_to_a_waiting_request() {
    // If the first user kept the only connection, the second one's request would wait for 1.6 s.
    let stop = Stop { requests: Some(16), ..Stop::default() };
    let origin = origin();
    let plan = Plan { users: 2, threads: 1, think: Think::Constant(ms(100)), stop, ..plan(&origin) };
    let outcome = run(&Plan { connections_per_host_max: Some(1), timeout: ms(1_000), ..plan });
    assert_eq!((outcome.good, outcome.failures.total(), outcome.connections), (16, 0, 1));
}

#[test]
fn waits_for_a_connection_do_not_break_littles_law() {
    let gate = Gate::default();
    let held = gate.clone();
    let origin = Origin::start(move |_| vec![Action::Await(held.clone())]);
    let stop = Stop { time: Some(ms(1_500)), ..Stop::default() };
    let arrival = open(Rate::Constant(200.0));
    let plan = Plan { arrival, stop, timeout: ms(200), threads: 1, ..plan(&origin) };
    let outcome = petasos_load::run(
        &Plan { connections_per_host_max: Some(1), ..plan },
        &SystemClock::new(),
        &Control::new(),
    );
    gate.open();
    let outcome = outcome.unwrap();
    assert_eq!((outcome.good, outcome.failures.of(FailureKind::Timeout)), (0, 300));
    let reasons = &outcome.check.reasons;
    assert!(!reasons.iter().any(|reason| reason.contains("Little")), "{reasons:?}");
}

#[test]
fn mostly_failing_run_ends_early() {
    let origin = Origin::start(|_| response("503 Service Unavailable", &[], b""));
    let stop = Stop { time: Some(Duration::from_secs(60)), when_failing: true, ..Stop::default() };
    let outcome = run(&Plan { stop, ..plan(&origin) });
    assert_eq!((outcome.good, outcome.ended), (0, Ended::Failing));
}

#[test]
fn run_ends_after_as_many_failures_as_permitted() {
    let origin = Origin::start(|_| response("503 Service Unavailable", &[], b""));
    let stop = Stop { time: Some(Duration::from_secs(60)), failures_max: Some(5), ..Stop::default() };
    let outcome = run(&Plan { stop, users: 2, ..plan(&origin) });
    assert_eq!(outcome.ended, Ended::Failing);
    // One more for the other user, whose request may end in the same moment.
    assert!((5..=6).contains(&outcome.failures.total()), "{:?}", outcome.failures);
}

#[test]
fn seconds_count_the_users_started_by_the_ramp_up() {
    let origin = origin();
    let stop = Stop { time: Some(ms(1_100)), ..Stop::default() };
    let think = Think::Constant(ms(20));
    let outcome = run(&Plan { users: 10, ramp: ms(2_000), think, stop, ..plan(&origin) });
    // At 1 s the first six users have begun, 200 ms apart.
    assert_eq!(outcome.seconds.first().unwrap().users, 6);
}

#[test]
fn ramp_up_of_users_goes_on_in_the_next_stage() {
    let origin = origin();
    let stage = |users, millis| Stage { load: StageLoad::Users(users), time: ms(millis) };
    let stages = vec![stage(40, 500), stage(10, 700)];
    let think = Think::Constant(ms(20));
    let outcome = run(&Plan { stages, ramp: ms(2_000), think, threads: 2, ..plan(&origin) });
    // At 1 s half of the ten users of the second stage have begun, and the one whose turn it is.
    assert_eq!(outcome.seconds.first().unwrap().users, 6);
    assert!(!outcome.check.reasons.iter().any(|reason| reason.contains("Little")), "{:?}", outcome.check);
}

#[test]
fn ramp_up_starts_users_one_after_the_other() {
    let origin = origin();
    let plan = Plan {
        users: 10,
        threads: 2,
        ramp: ms(300),
        think: Think::Constant(Duration::from_secs(60)),
        stop: Stop { time: Some(ms(2_000)), ..Stop::default() },
        samples_max: 100,
        ..plan(&origin)
    };
    let outcome = run(&plan);
    let begins: Vec<u64> = outcome.samples.iter().map(|sample| sample.start_us / 1_000).collect();
    assert_eq!(begins.len(), 10, "{begins:?}");
    assert!(begins.iter().zip(0..).all(|(&begin, index)| begin >= index * 30), "{begins:?}");
}

#[test]
fn contents_are_compared_and_checked_by_pattern() {
    let number = AtomicUsize::new(0);
    let origin = Origin::start(move |_| {
        let nonce = if number.fetch_add(1, Ordering::SeqCst) % 10 == 9 { "b2" } else { "a1" };
        response("200 OK", &[], format!("<p>welcome {nonce}</p>").as_bytes())
    });
    let mut plan = plan(&origin);
    plan.stop.requests = Some(50);
    let drift = run(&plan).drift.unwrap();
    assert_eq!((drift.compared, drift.differing, drift.url), (49, 5, 0));
    assert_eq!((&drift.first[..], &drift.other[..]), (&b"<p>welcome a1</p>"[..], &b"<p>welcome b2</p>"[..]));
    plan.expect.body = Some("welcome a[0-9]".parse().unwrap());
    let outcome = run(&plan);
    assert_eq!((outcome.good, outcome.failures.of(FailureKind::Body), outcome.complete), (45, 5, 50));
    assert_eq!(outcome.wrong_times.total.count(), 5);
}

#[test]
fn seconds_can_be_watched_during_the_run() {
    let origin = origin();
    let stop = Stop { time: Some(ms(2_500)), ..Stop::default() };
    let plan = Plan { arrival: open(Rate::Constant(100.0)), stop, threads: 2, ..plan(&origin) };
    let (clock, control) = (SystemClock::new(), Control::new());
    let (outcome, watched) = std::thread::scope(|scope| {
        let handle = scope.spawn(|| petasos_load::run(&plan, &clock, &control).unwrap());
        let mut watched = BTreeSet::new();
        while !handle.is_finished() {
            watched.extend(control.seconds_since(0).iter().map(|second| (second.second, second.started)));
            std::thread::sleep(ms(20));
        }
        (handle.join().unwrap(), watched)
    });
    let numbers: Vec<u32> = outcome.seconds.iter().map(|second| second.second).collect();
    assert_eq!((numbers, outcome.good), (vec![0, 1, 2], 250));
    assert!(watched.iter().any(|&(second, started)| second == 0 && started >= 99), "{watched:?}");
}

#[test]
fn connections_use_the_given_local_addresses() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let peers = std::thread::spawn(move || {
        let mut peers = BTreeSet::new();
        for _ in 0..6 {
            use std::io::{Read as _, Write as _};
            let (mut stream, peer) = listener.accept().unwrap();
            assert!(stream.read(&mut [0; 4096]).unwrap() > 0);
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").unwrap();
            peers.insert(peer.ip().to_string());
            // The load tester closes the connection. If the server closed it, its socket would be
            // reused with its old address.
            std::thread::spawn(move || stream.read(&mut [0; 16]));
        }
        peers
    });
    let mut plan = Plan::new(HttpUrl::parse(&format!("http://{address}/")).unwrap());
    plan.stop.requests = Some(6);
    plan.source = Some("127.0.0.0/29".parse().unwrap());
    let plan = Plan { keep_alive: false, linger: Duration::from_secs(9), threads: 1, ..plan };
    assert_eq!(run(&plan).good, 6);
    let expected: BTreeSet<String> = (1..=6).map(|host| format!("127.0.0.{host}")).collect();
    assert_eq!(peers.join().unwrap(), expected);
}

/// The site greets clients with a cookie, and by mistake every tenth client without one.
#[test]
fn each_cookie_has_its_own_expected_page() {
    let asked = AtomicUsize::new(0);
    let origin = Origin::start(move |seen| match seen.field("Cookie") {
        Some(cookie) => response("200 OK", &[], format!("Hello, {cookie}").as_bytes()),
        None if asked.fetch_add(1, Ordering::SeqCst) % 10 == 9 => response("200 OK", &[], b"Hello, name=ada"),
        None => response("200 OK", &[], b"Log in"),
    });
    let of = |cookies: &[&str], expect: Expect| WeightedTarget {
        cookies: cookies.iter().map(|cookie| (*cookie).to_owned()).collect(),
        expect: Some(Expect { length: Length::Variable, ..expect }),
        ..WeightedTarget::new(HttpUrl::parse(&format!("{}/page", origin.url())).unwrap(), 1)
    };
    let greeted = |name: &str| {
        let body = Some(format!("^Hello, name={name}$").parse().unwrap());
        Expect { body, ..Expect::default() }
    };
    let anonymous = Expect { never: Some("Hello".parse().unwrap()), ..Expect::default() };
    let targets =
        vec![of(&[], anonymous), of(&["name=ada"], greeted("ada")), of(&["name=bob"], greeted("bob"))];
    let stop = Stop { requests: Some(300), ..Stop::default() };
    let outcome = run(&Plan { targets, users: 3, threads: 1, stop, seed: 3, ..plan(&origin) });
    let [anonymous, ada, bob] = &outcome.urls[..] else { panic!("{:?}", outcome.urls) };
    assert_eq!((ada.failed, bob.failed), (0, 0));
    assert!(ada.good > 0 && bob.good > 0);
    assert_eq!(outcome.failures.of(FailureKind::Body), anonymous.failed);
    assert_eq!(anonymous.failed, (anonymous.good + anonymous.failed) / 10);
}
