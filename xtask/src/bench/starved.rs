//! Checks the load tester's verdict on its own measurements, for
//! `cargo xtask bench accuracy --starved`.
//!
//! The generator runs on one core, together with busy loops, and the server on another. The server
//! records when its kernel received each request and when it answered. From that follows the share
//! of the users' time that was lost, because the server had no request to work on.
//!
//! Each run that lost more than the bound must be invalid and name the term with the largest loss.
//! A run may be tight instead in two cases:
//!
//! - It lost less than 100 us for each request.
//! - It read the beginnings of large responses late, and reports that it may have lost time. Then
//!   its figures are not compared.
//!
//! Without busy loops and without pinned threads, at least 19 of 20 runs must be clean.
//!
//! Invariant: the true loss does not come from the load tester. For an open loop the server records
//! how late requests arrived, but cannot see how long responses stayed unread, so the figure is a
//! lower bound.

use super::markdown;
use address::HttpUrl;
use anyhow::{Context, Result, ensure};
use clock::Monotonic;
use load::Control;
use platform::SystemClock;
use record::{
    Arrival, LOST_SHARE_INVALID, LOST_US_PER_REQUEST_MIN, Plan, Rate, RunOutcome, SelfCheck, Stop, Trust,
    spread,
};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use testkit::{Certificate, Delayed, ServedRequest, TlsFront};

/// If the true loss and the bound differ by less than this, either verdict is accepted.
const NEAR: f64 = 0.01;

/// The same for the loss of each request, as a share of its bound.
const NEAR_SMALL: f64 = 0.2;

/// Quiet runs that must be clean, of [`QUIET_RUNS`].
const CLEAN_MIN: usize = 19;

/// Number of quiet runs. They cycle through [`CASES`].
const QUIET_RUNS: usize = 20;

/// Content of an ordinary response and of a large one, in bytes.
const CONTENT_BYTES: usize = 2;
const LARGE_BYTES: usize = 500 * 1024;

/// Share of the users' time that the TLS front may take. The server's account counts this time as
/// lost.
const FRONT_SHARE_MAX: f64 = 0.02;

/// A load, and the server that answers it.
#[derive(Clone, Copy)]
struct StarvedLoad {
    name: &'static str,
    arrival: Arrival,
    users: usize,
    delay: Duration,
    content_bytes: usize,
    is_secured: bool,
    /// Longest duration. In a run with fewer responses for each user, its start and end weigh more.
    time_max: Duration,
}

const fn closed(name: &'static str, users: usize, delay_ms: u64, time_max: Duration) -> StarvedLoad {
    let delay = Duration::from_millis(delay_ms);
    let content_bytes = CONTENT_BYTES;
    let is_secured = false;
    StarvedLoad { name, arrival: Arrival::Closed, users, delay, content_bytes, is_secured, time_max }
}

const fn large(name: &'static str, users: usize, delay_ms: u64) -> StarvedLoad {
    StarvedLoad { content_bytes: LARGE_BYTES, ..closed(name, users, delay_ms, Duration::MAX) }
}

const fn secured(name: &'static str, users: usize, delay_ms: u64) -> StarvedLoad {
    StarvedLoad { is_secured: true, ..closed(name, users, delay_ms, Duration::MAX) }
}

const fn open(name: &'static str, rate: f64, delay_ms: u64) -> StarvedLoad {
    let arrival = Arrival::Open { rate: Rate::Constant(rate), in_flight_max: 10_000 };
    StarvedLoad { arrival, ..closed(name, 1, delay_ms, Duration::MAX) }
}

/// Loads for the quiet machine. They are also run starved.
const CASES: [StarvedLoad; 9] = [
    closed("10 users, 2 ms", 10, 2, Duration::MAX),
    closed("100 users, 20 ms", 100, 20, Duration::MAX),
    closed("500 users, 250 ms", 500, 250, Duration::MAX),
    closed("2,000 users, 1 s", 2_000, 1_000, Duration::MAX),
    // The first requests of all users are sent one after the other. The shorter a run is, the more
    // this weighs.
    closed("1,000 users, 800 ms, two responses each", 1_000, 800, Duration::from_secs(2)),
    open("500/s, 2 ms", 500.0, 2),
    open("1,000/s, 20 ms", 1_000.0, 20),
    large("10 users, 10 ms, 500 KiB", 10, 10),
    secured("10 users, 20 ms, https", 10, 20),
];

/// Loads that are only run starved. With a server without delay, even a generator on a quiet
/// machine is rightly tight.
const STARVED: [StarvedLoad; 7] = [
    closed("10 users, no delay", 10, 0, Duration::MAX),
    closed("100 users, no delay", 100, 0, Duration::MAX),
    closed("500 users, no delay", 500, 0, Duration::MAX),
    large("50 users, 100 ms, 500 KiB", 50, 100),
    large("200 users, 500 ms, 500 KiB", 200, 500),
    secured("100 users, 50 ms, https", 100, 50),
    secured("200 users, 250 ms, https", 200, 250),
];

/// Runs all cases, each for `time`.
///
/// # Errors
/// If a load cannot be run, or a verdict is wrong.
pub(super) fn run(time: Duration) -> Result<()> {
    testkit::allow_descriptors(10_000);
    let mut rows = Vec::new();
    let mut wrong = 0;
    let mut starved = 0;
    for case in CASES.into_iter().chain(STARVED) {
        for busy_loops in [1, 2] {
            let (outcome, lost) = pinned(case, time, busy_loops)?;
            let is_right = is_right(case, &outcome.check, lost, us_lost_each(case, &outcome, lost));
            wrong += usize::from(!is_right);
            starved += 1;
            rows.push(row(case, &format!("{busy_loops} busy"), &outcome, lost, is_right));
        }
    }
    let mut clean = 0;
    for case in CASES.iter().cycle().take(QUIET_RUNS) {
        let (server, front) = serve(*case);
        let outcome = load(*case, time, &url(&server, front.as_ref()))?;
        let lost = lost(*case, &outcome, &server.stop());
        let is_clean = outcome.check.trust == Trust::Clean;
        clean += usize::from(is_clean);
        rows.push(row(*case, "quiet", &outcome, lost, is_clean));
    }
    let head = ["load", "machine", "lost", "by its own account", "most of it", "generator", "verdict"];
    print!("{}", markdown(&head, &rows));
    println!(
        "\n{clean} of {QUIET_RUNS} quiet runs are clean, {wrong} of {starved} starved ones are misjudged"
    );
    ensure!(wrong == 0, "{wrong} starved runs have a wrong verdict");
    ensure!(clean >= CLEAN_MIN, "only {clean} of {QUIET_RUNS} quiet runs are clean");
    Ok(())
}

/// Whether the verdict on a run is right. A run that lost more than the bound must have the verdict
/// that the rules demand, and name the right term. `us_lost_each` is the loss of each request in
/// microseconds.
fn is_right(case: StarvedLoad, check: &SelfCheck, lost: f64, us_lost_each: f64) -> bool {
    let says = |text: &str| check.reasons.iter().any(|reason| reason.contains(text));
    let (largest, _) = check.account.lost_terms()[0];
    let of_front = if case.is_secured { FRONT_SHARE_MAX } else { 0.0 };
    if lost <= LOST_SHARE_INVALID + NEAR + of_front {
        return true;
    }
    let is_small = us_lost_each < LOST_US_PER_REQUEST_MIN * (1.0 + NEAR_SMALL);
    let is_held_back = case.content_bytes == LARGE_BYTES && says("beginnings of responses");
    let may_be_tight = is_small && says(&format!(": {largest}")) || is_held_back && check.may_have_lost;
    match check.trust {
        Trust::Invalid => says(&format!(": {largest}")) || may_be_tight,
        Trust::Tight => may_be_tight,
        Trust::Clean => false,
    }
}

/// The loss of each request in microseconds, by the server's account. An open loop always counts as
/// a large loss.
fn us_lost_each(case: StarvedLoad, outcome: &RunOutcome, lost: f64) -> f64 {
    if case.arrival != Arrival::Closed {
        return f64::INFINITY;
    }
    let users_s = case.users as f64 * outcome.elapsed.as_secs_f64();
    lost * users_s * 1e6 / outcome.requests().max(1) as f64
}

/// Runs a load on the first core, together with busy loops, and its server on the last core.
fn pinned(case: StarvedLoad, time: Duration, busy_loops: usize) -> Result<(RunOutcome, f64)> {
    let all = sched_getaffinity(None).context("sched_getaffinity")?;
    let cores: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&core| all.is_set(core)).collect();
    let (Some(&generator), Some(&server)) = (cores.first(), cores.last()) else {
        anyhow::bail!("the system names no core");
    };
    ensure!(generator != server, "a generator beside busy loops and its server need two cores");
    // Relaxed is enough: the flag guards no other data.
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let of_server = scope.spawn(|| on_core(server).map(|()| serve(case)));
        let (server, front) = joined(of_server)?;
        for _ in 0..busy_loops {
            scope.spawn(|| {
                let pinned = on_core(generator);
                while pinned.is_ok() && !is_over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let url = url(&server, front.as_ref());
        let of_load = scope.spawn(move || on_core(generator).and_then(|()| load(case, time, &url)));
        let outcome = joined(of_load);
        is_over.store(true, Ordering::Relaxed);
        let outcome = outcome?;
        let lost = lost(case, &outcome, &server.stop());
        Ok((outcome, lost))
    })
}

/// Starts the server of a case, and a TLS front if the case needs one.
fn serve(case: StarvedLoad) -> (Delayed, Option<TlsFront>) {
    let server = Delayed::start_with(case.delay, case.content_bytes);
    let front = case.is_secured.then(|| TlsFront::start(server.address(), Certificate::Good));
    (server, front)
}

/// The URL that the load requests.
fn url(server: &Delayed, front: Option<&TlsFront>) -> String {
    front.map_or_else(|| server.url(), |front| format!("https://{}/", front.address))
}

fn joined<T>(thread: std::thread::ScopedJoinHandle<'_, Result<T>>) -> Result<T> {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn on_core(core: usize) -> Result<()> {
    let mut set = CpuSet::new();
    set.set(core);
    sched_setaffinity(None, &set).context("sched_setaffinity")
}

fn load(case: StarvedLoad, time: Duration, url: &str) -> Result<RunOutcome> {
    let stop = Stop { time: Some(time.min(case.time_max)), ..Stop::default() };
    let plan = Plan::new(HttpUrl::parse(url)?);
    let mut plan = Plan { stop, arrival: case.arrival, users: case.users, threads: 1, ..plan };
    plan.spread = spread(plan.stop.time);
    // The front's certificate authority is new in each run, so it cannot be verified.
    plan.tls.is_verified = false;
    load::run(&plan, &SystemClock::new(), &Control::new()).context("the load could not run")
}

/// The share of the users' time in which the server had no request. For an open loop, the share of
/// the requests' time that they arrived late.
fn lost(case: StarvedLoad, outcome: &RunOutcome, served: &[ServedRequest]) -> f64 {
    // Requests in flight at the end wait until their connections are closed, which takes some time
    // and must not count.
    let end = served.iter().map(|of| of.came).min().unwrap_or_default().plus(outcome.elapsed);
    let is_cut_off = case.arrival == Arrival::Closed;
    let left = |of: &ServedRequest| if is_cut_off { of.left.min(end) } else { of.left };
    let at_server: f64 = served.iter().map(|of| left(of).since(of.came).as_secs_f64()).sum();
    match case.arrival {
        Arrival::Closed => 1.0 - at_server / (case.users as f64 * outcome.elapsed.as_secs_f64()),
        Arrival::Open { rate, .. } => {
            let late = late_s(served, rate.mean());
            late / (late + at_server).max(f64::MIN_POSITIVE)
        }
    }
}

/// Total lateness of requests with a constant rate, in seconds, if the most punctual request was on
/// time.
fn late_s(served: &[ServedRequest], rate: f64) -> f64 {
    let mut came: Vec<Monotonic> = served.iter().map(|of| of.came).collect();
    came.sort_unstable();
    let after_due: Vec<f64> = came
        .iter()
        .enumerate()
        .map(|(number, came)| came.as_nanos() as f64 / 1e9 - number as f64 / rate)
        .collect();
    let earliest = after_due.iter().copied().fold(f64::INFINITY, f64::min);
    after_due.iter().map(|after| after - earliest).sum()
}

fn row(case: StarvedLoad, machine: &str, outcome: &RunOutcome, lost: f64, is_right: bool) -> Vec<String> {
    let account = outcome.check.account;
    let (largest, _) = account.lost_terms()[0];
    let percent = |share: f64| format!("{:.1}%", share * 100.0);
    vec![
        case.name.to_owned(),
        machine.to_owned(),
        percent(lost),
        percent(account.lost_share().unwrap_or_default()),
        largest.to_owned(),
        outcome.check.trust.to_string(),
        if is_right { "right" } else { "WRONG" }.to_owned(),
    ]
}

#[cfg(test)]
mod tests {
    use super::{CASES, STARVED, StarvedLoad, is_right, late_s};
    use clock::Monotonic;
    use record::{Account, SelfCheck, Trust};
    use std::time::Duration;
    use testkit::ServedRequest;

    fn judged(case: StarvedLoad, trust: Trust, reason: &str, us_lost_each: f64) -> bool {
        judged_if(case, trust, reason, us_lost_each, true)
    }

    fn judged_if(
        case: StarvedLoad,
        trust: Trust,
        reason: &str,
        us_lost_each: f64,
        may_have_lost: bool,
    ) -> bool {
        let account = Account { unread: Duration::from_secs(1), ..Account::default() };
        let reasons = vec![reason.to_owned()];
        let check = SelfCheck { trust, account, reasons, may_have_lost, ..SelfCheck::default() };
        is_right(case, &check, 0.2, us_lost_each)
    }

    #[test]
    fn starved_run_is_invalid_unless_the_rules_make_it_tight() {
        let large = STARVED.into_iter().find(|case| case.name.contains("KiB")).unwrap();
        let taken = "the generator took 20%: unread 20%";
        let held_back = "beginnings of responses waited";
        assert!(judged(CASES[0], Trust::Invalid, taken, 400.0));
        assert!(!judged(CASES[0], Trust::Invalid, "a generator thread was busy", 400.0), "no term");
        assert!(!judged(CASES[0], Trust::Tight, taken, 400.0) && judged(CASES[0], Trust::Tight, taken, 90.0));
        assert!(!judged(CASES[0], Trust::Tight, held_back, 400.0));
        assert!(judged(large, Trust::Tight, held_back, 400.0));
        assert!(!judged_if(large, Trust::Tight, held_back, 400.0, false), "it would be compared");
        assert!(!judged(large, Trust::Clean, "", 90.0));
    }

    #[test]
    fn lateness_is_relative_to_the_most_punctual_request() {
        let at = |millis: u64| Monotonic::from_nanos(millis * 1_000_000);
        let served = |came: u64| ServedRequest { came: at(came), left: at(came + 5) };
        // Due every 10 ms. The second request is 4 ms late, and the third 1 ms.
        let requests = [1_000, 1_014, 1_021, 1_030].map(served);
        assert!((late_s(&requests, 100.0) - 0.005).abs() < 1e-9);
    }
}
