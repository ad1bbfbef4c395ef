//! A generator that does not get its core reports that. The reference is the server's own record of
//! the time it had requests. A busy machine can only take more of the generator's time, never give
//! it some.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use address::HttpUrl;
use petasos_load::Control;
use platform::SystemClock;
use record::{Plan, RunOutcome, Stop, Trust};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use testkit::Delayed;

const USERS: usize = 20;
const TIME: Duration = Duration::from_millis(700);

/// Runs a load on one core, next to `busy_loops` busy loops with a higher priority.
fn run_beside(busy_loops: usize, url: &str) -> RunOutcome {
    let is_over = AtomicBool::new(false);
    let mut core = CpuSet::new();
    let all = sched_getaffinity(None).unwrap();
    core.set((0..CpuSet::MAX_CPU).find(|&core| all.is_set(core)).unwrap());
    let pin = || sched_setaffinity(None, &core).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..busy_loops {
            scope.spawn(|| {
                pin();
                while !is_over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let load = scope.spawn(|| {
            pin();
            // Worker threads inherit the lower priority, so that the busy loops take precedence.
            rustix::process::setpriority_process(None, 10).unwrap();
            let stop = Stop { time: Some(TIME), ..Stop::default() };
            let target = HttpUrl::parse(url).unwrap();
            let plan = Plan { stop, users: USERS, threads: 1, ..Plan::new(target) };
            petasos_load::run(&plan, &SystemClock::new(), &Control::new()).unwrap()
        });
        let outcome = load.join().unwrap();
        is_over.store(true, Ordering::Relaxed);
        outcome
    })
}

#[test]
fn starved_generator_makes_its_run_invalid() {
    for delay_ms in [2, 200] {
        let server = Delayed::start(Duration::from_millis(delay_ms));
        let outcome = run_beside(2, &server.url());
        let at_server: Duration = server.stop().iter().map(|of| of.left.since(of.came)).sum();
        let users_time = (TIME * USERS as u32).as_secs_f64();
        let lost = 1.0 - at_server.as_secs_f64() / users_time;
        let (check, account) = (&outcome.check, outcome.check.account);
        println!("{delay_ms} ms: {:.0}% lost, {check:?}", lost * 100.0);
        assert!((account.total().as_secs_f64() / users_time - 1.0).abs() < 0.01, "{account:?}");
        if lost > 0.1 {
            assert_eq!(check.trust, Trust::Invalid, "{:.0}% lost: {check:?}", lost * 100.0);
            let (largest, _) = account.lost_terms().into_iter().next().unwrap();
            assert!(check.reasons.iter().any(|reason| reason.contains(&format!(": {largest}"))), "{check:?}");
        }
    }
}
