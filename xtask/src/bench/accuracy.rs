//! Whether reported times are right: p50 and p99 against a server that writes down how long each answer really took.
//!
//! Invariant: what is compared is the same set of answers, and the truth is what was on the wire, not the delay that
//! the server was told: from when its kernel had a request to when it wrote the answer. A reported time includes the
//! way there and back, so it can only be longer. Beyond 5 ms the bound is 2 percent, below it 100 us. What was reported
//! since the request was sent stands beside what was reported since it fell due: the difference is how late the load
//! tester began, which an open loop counts as waiting.

use super::{markdown, starved};
use anyhow::{Context, Result};
use load::{Arrival, Control, Outcome, Plan, Rate, Stop, Target};
use platform::SystemClock;
use std::time::Duration;
use testkit::Paced;

/// The largest difference, as a share, of times above [`SHORT_US`].
const DIFFERENCE_MAX: f64 = 0.02;

/// Times below it, in microseconds, are compared by [`SHORT_DIFFERENCE_US_MAX`].
const SHORT_US: u64 = 5_000;

/// The largest difference of short times, in microseconds.
const SHORT_DIFFERENCE_US_MAX: u64 = 100;

/// What `cargo xtask bench accuracy` may be told.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Seconds for each row
    #[arg(long, value_name = "N", default_value_t = 5)]
    seconds: u64,
    /// Instead: whether a generator that does not get its core says so, and a quiet one is called clean
    #[arg(long)]
    starved: bool,
}

/// A server's delay by the number of the request, in microseconds.
type Delay = fn(u64) -> u64;

/// Name and delay of each server.
const SERVERS: [(&str, Delay); 5] = [
    ("1 ms", |_| 1_000),
    ("4 ms", |_| 4_000),
    ("10 ms", |_| 10_000),
    ("100 ms", |_| 100_000),
    ("10 ms, one in ten 100 ms", |number| if number % 10 == 9 { 100_000 } else { 10_000 }),
];

/// Name and arrival of each load; the closed one has four users.
const LOADS: [(&str, Arrival); 2] = [
    ("4 users", Arrival::Closed),
    ("100/s", Arrival::Open { rate: Rate::Poisson(100.0), in_flight_max: 1_000 }),
];

/// Runs `cargo xtask bench accuracy`.
///
/// # Errors
/// If a load cannot be run.
pub(crate) fn run(args: &Args) -> Result<()> {
    if args.starved {
        return starved::run(Duration::from_secs(args.seconds));
    }
    let mut rows = Vec::new();
    for (server_name, delay) in SERVERS {
        for (load_name, arrival) in LOADS {
            let server = Paced::start(move |number, _| Duration::from_micros(delay(number)));
            let outcome = measure(&server, arrival, Duration::from_secs(args.seconds))?;
            for percent in [50.0, 99.0] {
                rows.push(row(&format!("{server_name}, {load_name}"), percent, &server, &outcome));
            }
        }
    }
    rows.push(stalled(args)?);
    let head = [
        "server, load",
        "percentile",
        "on the wire us",
        "since sent us",
        "difference",
        "verdict",
        "since due us",
        "difference",
        "verdict",
        "generator",
    ];
    print!("{}", markdown(&head, &rows));
    Ok(())
}

fn measure(server: &Paced, arrival: Arrival, time: Duration) -> Result<Outcome> {
    let stop = Stop { time: Some(time), ..Stop::default() };
    let plan = Plan { stop, arrival, users: 4, ..Plan::new(Target::parse(&server.url())?) };
    load::run(&plan, &SystemClock::new(), &Control::new()).context("the load could not run")
}

/// One percentile, as it was and as reported, since the request was sent and since it fell due.
fn row(name: &str, percent: f64, server: &Paced, outcome: &Outcome) -> Vec<String> {
    let waits = server.waits_us();
    let place = ((percent / 100.0 * waits.len() as f64).ceil() as usize).saturating_sub(1);
    let truth = waits.get(place).copied().unwrap_or_default();
    let times = &outcome.good_times;
    let judged =
        [&times.total, times.latency()].map(|histogram| judge(histogram.percentile_us(percent), truth));
    let first = [name.to_owned(), format!("p{percent:.0}"), truth.to_string()];
    let last = [outcome.check.trust.to_string()];
    first.into_iter().chain(judged.into_iter().flatten()).chain(last).collect()
}

/// A reported time, how far it is from the truth, and whether that is near enough.
fn judge(reported_us: u64, truth_us: u64) -> [String; 3] {
    let difference_us = reported_us.abs_diff(truth_us);
    let is_right = match truth_us < SHORT_US {
        true => difference_us <= SHORT_DIFFERENCE_US_MAX,
        false => difference_us as f64 <= truth_us as f64 * DIFFERENCE_MAX,
    };
    let percent = difference_us as f64 * 100.0 / truth_us.max(1) as f64;
    let difference = format!("{difference_us} us, {percent:.2}%");
    [reported_us.to_string(), difference, if is_right { "right" } else { "off" }.to_owned()]
}

/// A server that answers nobody for one second, seen by an open loop: 99 of 100 of those who came then waited longer
/// than a hundredth of it.
fn stalled(args: &Args) -> Result<Vec<String>> {
    const BEGIN: Duration = Duration::from_secs(1);
    const END: Duration = Duration::from_secs(2);
    let server =
        Paced::start(|_, came| if came >= BEGIN { END.saturating_sub(came) } else { Duration::ZERO });
    let rate = Arrival::Open { rate: Rate::Constant(200.0), in_flight_max: 1_000 };
    let outcome = measure(&server, rate, Duration::from_secs(args.seconds.max(3)))?;
    Ok(row("a stall of 1 s, 200/s", 99.0, &server, &outcome))
}

#[cfg(test)]
mod tests {
    use super::judge;

    #[test]
    fn the_bound_is_a_share_of_long_times_and_microseconds_of_short_ones() {
        let verdict = |reported, truth| judge(reported, truth)[2].clone();
        assert_eq!([verdict(10_200, 10_000), verdict(9_800, 10_000)], ["right", "right"]);
        assert_eq!([verdict(10_201, 10_000), verdict(9_799, 10_000)], ["off", "off"]);
        assert_eq!([verdict(1_100, 1_000), verdict(1_101, 1_000)], ["right", "off"]);
        assert_eq!(judge(1_050, 1_000)[1], "50 us, 5.00%");
    }
}
