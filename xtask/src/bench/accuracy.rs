//! Checks the times that the load tester reports: p50 and p99, against a server that records how
//! long each response really took.
//!
//! Invariant: reported and true times belong to the same set of responses. The true time is
//! measured at the server, from the arrival of a request in its kernel to the write of the
//! response. It is not the configured delay. A reported time also contains the way there and back,
//! so it can only be longer. Above 5 ms the allowed difference is 2 percent, below it 100 us. Times
//! since the request was sent and since it was due are both compared. Their difference is how late
//! the load tester sent the request, which counts as waiting in an open loop.

use super::{markdown, starved};
use address::HttpUrl;
use anyhow::{Context, Result};
use load::Control;
use platform::SystemClock;
use record::{Arrival, Plan, Rate, RunOutcome, Stop};
use std::time::Duration;
use testkit::Paced;

/// Largest allowed difference of times above [`SHORT_US`], as a share.
const DIFFERENCE_MAX: f64 = 0.02;

/// Times below this, in microseconds, are compared with [`SHORT_DIFFERENCE_US_MAX`].
const SHORT_US: u64 = 5_000;

/// Largest allowed difference of short times, in microseconds.
const SHORT_DIFFERENCE_US_MAX: u64 = 100;

/// Arguments of `cargo xtask bench accuracy`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Seconds for each row
    #[arg(long, value_name = "N", default_value_t = 5)]
    seconds: u64,
    /// Check instead that a generator without enough processor time reports that, and that a quiet
    /// one is called clean
    #[arg(long)]
    starved: bool,
}

/// Delay in microseconds, by the number of the request.
type Delay = fn(u64) -> u64;

/// Name and delay of each server.
const SERVERS: [(&str, Delay); 5] = [
    ("1 ms", |_| 1_000),
    ("4 ms", |_| 4_000),
    ("10 ms", |_| 10_000),
    ("100 ms", |_| 100_000),
    ("10 ms, one in ten 100 ms", |number| if number % 10 == 9 { 100_000 } else { 10_000 }),
];

/// Name and arrival process of each load. The closed loop has four users.
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

fn measure(server: &Paced, arrival: Arrival, time: Duration) -> Result<RunOutcome> {
    let stop = Stop { time: Some(time), ..Stop::default() };
    let plan = Plan { stop, arrival, users: 4, ..Plan::new(HttpUrl::parse(&server.url())?) };
    load::run(&plan, &SystemClock::new(), &Control::new()).context("the load could not run")
}

/// A row for one percentile: true, and reported since the request was sent and since it was due.
fn row(name: &str, percent: f64, server: &Paced, outcome: &RunOutcome) -> Vec<String> {
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

/// A reported time, its difference from the true time, and the verdict.
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

/// An open loop against a server that does not answer for one second. Of the requests that arrive
/// in this second, 99 of 100 wait longer than 10 ms.
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
    fn bound_is_a_share_of_long_times_and_fixed_for_short_ones() {
        let verdict = |reported, truth| judge(reported, truth)[2].clone();
        assert_eq!([verdict(10_200, 10_000), verdict(9_800, 10_000)], ["right", "right"]);
        assert_eq!([verdict(10_201, 10_000), verdict(9_799, 10_000)], ["off", "off"]);
        assert_eq!([verdict(1_100, 1_000), verdict(1_101, 1_000)], ["right", "off"]);
        assert_eq!(judge(1_050, 1_000)[1], "50 us, 5.00%");
    }
}
