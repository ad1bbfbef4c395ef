//! Whether the load tester's verdict on itself is right: `cargo xtask bench accuracy --starved`.
//!
//! The generator runs on one core, beside busy loops, and the server on another. The server writes down when its kernel
//! had each request and when it answered, which gives the share of the users' time that the server was not given. Each
//! run that lost more than the bound must be invalid and name the term that took the time. On a quiet machine, without
//! loops and wherever the system puts the threads, at least 19 of 20 runs must be clean.
//!
//! Invariant: the truth does not come from the load tester. Of an open loop the server knows how late requests came,
//! not how long responses lay unread, so there it is a lower bound.

use super::markdown;
use anyhow::{Context, Result, ensure};
use load::{Arrival, Control, LOST_SHARE_INVALID, Outcome, Plan, Rate, Stop, Target, Trust};
use platform::{Monotonic, SystemClock};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use testkit::{Delayed, Served};

/// The truth and the account may lie on different sides of the bound when they are this close to it.
const NEAR: f64 = 0.01;

/// Of twenty quiet runs, so many must be clean.
const CLEAN_MIN: usize = 19;

/// Rounds of all loads on the quiet machine, which make twenty runs and one.
const QUIET_RUNS: usize = 20;

/// A load and the delay of the server that answers it.
#[derive(Clone, Copy)]
struct Case {
    name: &'static str,
    arrival: Arrival,
    users: usize,
    delay: Duration,
    /// At most this long: the fewer responses a user gets, the more the ends of the run weigh.
    time_max: Duration,
}

const fn closed(name: &'static str, users: usize, delay_ms: u64, time_max: Duration) -> Case {
    Case { name, arrival: Arrival::Closed, users, delay: Duration::from_millis(delay_ms), time_max }
}

const fn open(name: &'static str, rate: f64, delay_ms: u64) -> Case {
    let arrival = Arrival::Open { rate: Rate::Constant(rate), in_flight_max: 10_000 };
    Case { name, arrival, users: 1, delay: Duration::from_millis(delay_ms), time_max: Duration::MAX }
}

const CASES: [Case; 7] = [
    closed("10 users, 2 ms", 10, 2, Duration::MAX),
    closed("100 users, 20 ms", 100, 20, Duration::MAX),
    closed("500 users, 250 ms", 500, 250, Duration::MAX),
    closed("2,000 users, 1 s", 2_000, 1_000, Duration::MAX),
    // The first requests of all users are sent one after the other, which weighs the more the shorter a run is.
    closed("1,000 users, 800 ms, two responses each", 1_000, 800, Duration::from_secs(2)),
    open("500/s, 2 ms", 500.0, 2),
    open("1,000/s, 20 ms", 1_000.0, 20),
];

/// Runs all cases for so long each.
///
/// # Errors
/// If a load cannot be run, or a verdict is wrong.
pub(super) fn run(time: Duration) -> Result<()> {
    testkit::allow_descriptors(10_000);
    let (mut rows, mut wrong) = (Vec::new(), 0);
    for case in CASES {
        for busy_loops in [1, 2] {
            let (outcome, lost) = pinned(case, time, busy_loops)?;
            let is_right = is_right(&outcome, lost);
            wrong += usize::from(!is_right);
            rows.push(row(case, &format!("{busy_loops} busy"), &outcome, lost, is_right));
        }
    }
    let mut clean = 0;
    for case in CASES.iter().cycle().take(QUIET_RUNS) {
        let server = Delayed::start(case.delay);
        let outcome = load(*case, time, &server.url())?;
        let lost = lost(*case, &outcome, &server.stop());
        let is_clean = outcome.check.trust == Trust::Clean;
        clean += usize::from(is_clean);
        rows.push(row(*case, "quiet", &outcome, lost, is_clean));
    }
    let head = ["load", "machine", "lost", "by its own account", "most of it", "generator", "verdict"];
    print!("{}", markdown(&head, &rows));
    println!(
        "\n{clean} of {QUIET_RUNS} quiet runs are clean, {wrong} of {} starved ones are misjudged",
        2 * CASES.len()
    );
    ensure!(wrong == 0, "{wrong} starved runs have a wrong verdict");
    ensure!(clean >= CLEAN_MIN, "only {clean} of {QUIET_RUNS} quiet runs are clean");
    Ok(())
}

/// Whether a run that lost more than the bound is invalid, and says by which term.
fn is_right(outcome: &Outcome, lost: f64) -> bool {
    let (largest, _) = outcome.check.account.lost_terms()[0];
    let says_why = outcome.check.reasons.iter().any(|reason| reason.contains(&format!(": {largest}")));
    lost <= LOST_SHARE_INVALID + NEAR || outcome.check.trust == Trust::Invalid && says_why
}

/// A load on the first core beside busy loops, and its server on the last.
fn pinned(case: Case, time: Duration, busy_loops: usize) -> Result<(Outcome, f64)> {
    let all = sched_getaffinity(None).context("sched_getaffinity")?;
    let cores: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&core| all.is_set(core)).collect();
    let (Some(&generator), Some(&server)) = (cores.first(), cores.last()) else {
        anyhow::bail!("the system names no core");
    };
    ensure!(generator != server, "a generator beside busy loops and its server need two cores");
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let of_server = scope.spawn(|| on_core(server).map(|()| Delayed::start(case.delay)));
        let server = joined(of_server)?;
        for _ in 0..busy_loops {
            scope.spawn(|| {
                let pinned = on_core(generator);
                while pinned.is_ok() && !is_over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let url = server.url();
        let of_load = scope.spawn(move || on_core(generator).and_then(|()| load(case, time, &url)));
        let outcome = joined(of_load);
        is_over.store(true, Ordering::Relaxed);
        let outcome = outcome?;
        let lost = lost(case, &outcome, &server.stop());
        Ok((outcome, lost))
    })
}

fn joined<T>(thread: std::thread::ScopedJoinHandle<'_, Result<T>>) -> Result<T> {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn on_core(core: usize) -> Result<()> {
    let mut set = CpuSet::new();
    set.set(core);
    sched_setaffinity(None, &set).context("sched_setaffinity")
}

fn load(case: Case, time: Duration, url: &str) -> Result<Outcome> {
    let stop = Stop { time: Some(time.min(case.time_max)), ..Stop::default() };
    let plan =
        Plan { stop, arrival: case.arrival, users: case.users, threads: 1, ..Plan::new(Target::parse(url)?) };
    load::run(&plan, &SystemClock::new(), &Control::new()).context("the load could not run")
}

/// The share of the users' time that the server was not given; of an open loop, the share of its requests' time by
/// which they came late.
fn lost(case: Case, outcome: &Outcome, served: &[Served]) -> f64 {
    // Requests that were in flight at the end wait until their connections are closed, which takes a while.
    let end = served.iter().map(|of| of.came).min().unwrap_or_default().plus(outcome.elapsed);
    let is_cut_off = case.arrival == Arrival::Closed;
    let left = |of: &Served| if is_cut_off { of.left.min(end) } else { of.left };
    let at_server: f64 = served.iter().map(|of| left(of).since(of.came).as_secs_f64()).sum();
    match case.arrival {
        Arrival::Closed => 1.0 - at_server / (case.users as f64 * outcome.elapsed.as_secs_f64()),
        Arrival::Open { rate, .. } => {
            let late = late_s(served, rate.mean());
            late / (late + at_server).max(f64::MIN_POSITIVE)
        }
    }
}

/// How late requests at a constant rate came, all together, if the most punctual of them was on time.
fn late_s(served: &[Served], rate: f64) -> f64 {
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

fn row(case: Case, machine: &str, outcome: &Outcome, lost: f64, is_right: bool) -> Vec<String> {
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
    use super::late_s;
    use platform::Monotonic;
    use testkit::Served;

    #[test]
    fn lateness_is_against_the_schedule_of_the_most_punctual() {
        let at = |millis: u64| Monotonic::from_nanos(millis * 1_000_000);
        let served = |came: u64| Served { came: at(came), left: at(came + 5) };
        // Due every 10 ms; the second comes 4 ms late, and the third 1 ms.
        let requests = [1_000, 1_014, 1_021, 1_030].map(served);
        assert!((late_s(&requests, 100.0) - 0.005).abs() < 1e-9);
    }
}
