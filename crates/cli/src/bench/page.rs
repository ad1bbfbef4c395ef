//! `petasos bench URL --page`: virtual users load the page with all resources that a browser loads
//! for it.
//!
//! Invariant: a flag that page mode does not support is refused by name and never ignored.
//!
//! The exit codes are those of `bench`:
//!
//! - 0: every page was good.
//! - 1: pages failed or were incomplete, or the run was stopped.
//! - 2: the run could not start.

use super::interrupt::Interrupt;
use super::measure;
use super::outputs::OutputArgs;
use anyhow::{bail, ensure};
use browse::{PagePlan, VISITORS_MAX, Watch};
use clock::Clock;
use platform::SystemClock;
use record::{Arrival, Expect, PageEnd, PageOutcome, Plan, Protocol, Rate, TlsOptions};
use report::page::{PageRun, text};
use report::run::FailCondition;
use report::thresholds;
use std::io::{self, IsTerminal as _, Write as _};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

/// Interval between two updates of the progress on a terminal.
const WATCH_EVERY: Duration = Duration::from_millis(200);

/// What page mode adds to the arguments of a load.
#[derive(Debug, clap::Args)]
pub(crate) struct PageArgs {
    /// Load whole pages as a browser does; -c is the number of visitors at a time, -n the number of
    /// pages
    #[arg(long)]
    pub(crate) page: bool,
    /// Share of returning visitors, who still have cookies and a cache, such as 30%
    #[arg(long, value_name = "SHARE", value_parser = share, default_value = "0%", requires = "page")]
    returning: f64,
    /// Send requests to this host too, HOST or HOST:PORT; repeatable. Other foreign hosts get no
    /// request, and the report lists them
    #[arg(long, value_name = "HOST", requires = "page")]
    allow_host: Vec<String>,
}

/// Loads pages, prints the report and writes the requested files.
///
/// # Errors
/// If the run could not start, or a result could not be written.
pub(crate) fn run(url: &str, args: &PageArgs, load: &Plan, outputs: &OutputArgs) -> anyhow::Result<ExitCode> {
    outputs.check()?;
    outputs.check_pages()?;
    let plan = page_plan(url, args, load)?;
    let outcome = load_pages(&plan, &Interrupt::on_signals()?)?;
    let mut run = PageRun::from(&outcome);
    let judged = outputs.judge_pages(&run);
    run.thresholds = judged.iter().map(FailCondition::from).collect();
    outputs.write_pages(&format!("{}{}", text(&outcome), thresholds::text(&judged)), &run)?;
    let mut reasons: Vec<String> = why_failed(&outcome, outputs.allows_errors()).into_iter().collect();
    if judged.iter().any(|judged| judged.is_missed) {
        reasons.push("a condition of --fail-if holds".to_owned());
    }
    Ok(measure::explained(&reasons))
}

/// The reason for a run that was cut short or had bad pages; `None` if all went well.
/// `allows_errors` is set if a condition of `--fail-if` bounds the number of failures instead.
fn why_failed(outcome: &PageOutcome, allows_errors: bool) -> Option<String> {
    match outcome.ended {
        PageEnd::Stopped => return Some("the run was interrupted".to_owned()),
        PageEnd::Failing => return Some("the run ended because most pages failed".to_owned()),
        PageEnd::Pages | PageEnd::Time => {}
    }
    let pages = &outcome.figures.pages;
    if pages.good == 0 {
        return Some("no page was good".to_owned());
    }
    let bad = pages.failed + pages.incomplete;
    (bad > 0 && !allows_errors)
        .then(|| format!("{} pages failed and {} were incomplete", pages.failed, pages.incomplete))
}

/// Translates the plan of a load into the plan for pages.
///
/// # Errors
/// If the load has a setting that page mode does not support.
pub(crate) fn page_plan(url: &str, args: &PageArgs, load: &Plan) -> anyhow::Result<PagePlan> {
    refuse_others(load)?;
    let mut plan = PagePlan::new(url)?;
    plan.users = visitors(load)?;
    plan.threads = load.threads;
    plan.pages = load.stop.requests;
    plan.time = load.stop.time;
    plan.warmup = load.warmup;
    plan.timeout = load.timeout;
    plan.expect_status = load.expect.status.clone();
    plan.is_verified = load.tls.is_verified;
    plan.ca_file.clone_from(&load.tls.ca_file);
    plan.returning = args.returning;
    plan.allowed_hosts.clone_from(&args.allow_host);
    plan.seed = load.seed;
    plan.ramp = load.ramp;
    plan.stops_when_failing = load.stop.when_failing;
    plan.think = load.think;
    plan.linger = load.linger;
    if let Some(connections) = load.connections_per_host_max {
        plan.connections_per_host_max = connections;
    }
    plan.is_http2 = load.http == Protocol::H2;
    plan.rate = match load.arrival {
        Arrival::Closed => None,
        Arrival::Open { rate: Rate::Constant(rate), .. } => Some(rate),
        Arrival::Open { .. } => bail!("--page needs a constant --rate; leave --ramp-to and --poisson out"),
    };
    for (name, value) in &load.headers {
        if name.eq_ignore_ascii_case("host") {
            plan.name_host(value)?;
        } else {
            plan.headers.push((name.clone(), value.clone()));
        }
    }
    plan.check()?;
    Ok(plan)
}

/// Number of concurrent visitors: the users of a closed loop, or the most that an open loop may
/// have in flight.
fn visitors(load: &Plan) -> anyhow::Result<usize> {
    match load.arrival {
        Arrival::Closed => Ok(load.users),
        Arrival::Open { in_flight_max, .. } => {
            ensure!(
                in_flight_max <= VISITORS_MAX,
                "--in-flight-max {in_flight_max}: page mode has 1 to {VISITORS_MAX} concurrent visitors"
            );
            Ok(in_flight_max)
        }
    }
}

/// Refuses settings that page mode does not support.
fn refuse_others(load: &Plan) -> anyhow::Result<()> {
    // A plan with only the settings that page mode supports. If it differs from the given plan,
    // that plan has others.
    let defaults = Plan::new(load.target.clone());
    let taken = Plan {
        users: load.users,
        threads: load.threads,
        stop: load.stop,
        warmup: load.warmup,
        headers: load.headers.clone(),
        timeout: load.timeout,
        expect: Expect { status: load.expect.status.clone(), ..defaults.expect.clone() },
        tls: TlsOptions {
            is_verified: load.tls.is_verified,
            ca_file: load.tls.ca_file.clone(),
            ..defaults.tls.clone()
        },
        arrival: load.arrival,
        seed: load.seed,
        ramp: load.ramp,
        http: load.http,
        think: load.think,
        linger: load.linger,
        connections_per_host_max: load.connections_per_host_max,
        ..defaults
    };
    ensure!(
        load.keep_alive,
        "--no-keepalive does not go with --page, because browsers keep connections; leave it out"
    );
    ensure!(
        load.body.is_none() && load.method == taken.method,
        "--body and --method do not go with --page, because browsers load a page with GET; leave them out"
    );
    ensure!(
        load.http != Protocol::H2 || load.connections_per_host_max.is_none(),
        "--connections-per-host does not go with --http 2, which has one connection a host; leave one out"
    );
    ensure!(
        load.connections_per_address_max.is_none(),
        "--connections-per-address does not go with --page, because browsers count by host; use \
         --connections-per-host"
    );
    ensure!(load.http != Protocol::Http10, "--http 1.0 does not go with --page; use 1.1 or 2");
    ensure!(
        *load == taken,
        "--page supports only -n, -c, -t, --warmup, --threads, -H, --timeout, --expect-status, --insecure, --ca, --http, \
         --rate, --in-flight-max, --ramp-up, --keep-going, --think, --linger, --connections-per-host, --seed, --fail-if, \
         --json, --html and --csv; leave all other flags of the load out"
    );
    Ok(())
}

/// Runs the plan and shows the progress on a terminal. A signal ends the run and keeps the
/// measurements so far.
///
/// # Errors
/// If nothing could be measured.
pub(crate) fn load_pages(plan: &PagePlan, interrupt: &Interrupt) -> anyhow::Result<PageOutcome> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let watch = Arc::new(Watch::stopped_by(interrupt.flag()));
    let (over, is_over) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        let watched = Arc::clone(&watch);
        scope.spawn(move || {
            let shown = io::stderr().is_terminal();
            while is_over.recv_timeout(WATCH_EVERY) == Err(RecvTimeoutError::Timeout) {
                let (done, failed) = watched.pages();
                if shown {
                    // A failed write to the terminal must not stop the measurement.
                    let _ = write!(io::stderr(), "\r\x1b[K{done} pages  {failed} failed\r");
                }
            }
        });
        let outcome = browse::run(plan, &clock, &watch);
        // Disconnects the channel, which ends the loop of the watching thread.
        drop(over);
        Ok(outcome?)
    })
}

/// Parses a share, such as `30%` or `0.3`.
fn share(text: &str) -> Result<f64, String> {
    let number = |text: &str| {
        text.trim().parse::<f64>().map_err(|_| format!("{text:?} is not a share; write for example 30%"))
    };
    let share = match text.strip_suffix('%') {
        Some(percent) => number(percent)? / 100.0,
        None => number(text)?,
    };
    if (0.0..=1.0).contains(&share) {
        Ok(share)
    } else {
        Err(format!("{text:?} is not a share from 0% to 100%"))
    }
}

#[cfg(test)]
mod tests {
    use super::{PageArgs, page_plan, share};
    use crate::bench::load_args::LoadArgs;
    use browse::PagePlan;
    use clap::{Args as _, Command, FromArgMatches as _};
    use record::Think;
    use std::time::Duration;

    fn parse(line: &str) -> anyhow::Result<PagePlan> {
        let command =
            PageArgs::augment_args(LoadArgs::augment_args(Command::new("bench").no_binary_name(true)));
        let (url, arguments) = line.split_once(' ').unwrap_or((line, ""));
        let matches = command.try_get_matches_from(arguments.split_whitespace())?;
        let load = LoadArgs::from_arg_matches(&matches)?.plan_of_pages(url)?;
        page_plan(url, &PageArgs::from_arg_matches(&matches)?, &load)
    }

    #[test]
    fn flags_of_a_load_apply_to_pages() {
        let plan = parse("http://h:81/a --page -n 5 -c 2 -H X:1 --returning 30% --allow-host cdn.h").unwrap();
        assert_eq!(
            (plan.pages, plan.time, plan.users, plan.url.as_str()),
            (Some(5), None, 2, "http://h:81/a")
        );
        assert_eq!((plan.returning, plan.allowed_hosts.as_slice()), (0.3, ["cdn.h".to_owned()].as_slice()));
        assert_eq!(plan.headers, [("X".to_owned(), "1".to_owned())]);
        assert_eq!(parse("http://h/ --page").unwrap().time, Some(Duration::from_secs(10)));
        let bound = parse("http://h/ --page --connections-per-host 2 --think 1s-3s --linger 5s").unwrap();
        let from = Duration::from_secs(1);
        let to = Duration::from_secs(3);
        assert_eq!((bound.connections_per_host_max, bound.think), (2, Think::Range { from, to }));
        assert_eq!((bound.linger, plan.linger), (Duration::from_secs(5), Duration::ZERO));
        assert_eq!((plan.connections_per_host_max, plan.think), (6, Think::None));
        let arrivals = |flags: &str| parse(&format!("http://h/ --page --rate 5{flags}")).unwrap().users;
        assert_eq!((arrivals(""), arrivals(" --in-flight-max 7")), (5_000, 7));
        assert!(parse("https://h/ --page --http 2").unwrap().is_http2);
        let named = parse("http://127.0.0.1:81/a --page -H Host:wordpress.test").unwrap();
        assert_eq!((named.url.as_str(), named.headers.len()), ("http://wordpress.test/a", 0));
    }

    #[test]
    fn flags_that_page_mode_does_not_support_are_refused() {
        for line in [
            "http://h/ --page --no-keepalive",
            "http://h/ --page --method POST",
            "http://h/ --page --http 1.0",
            "http://h/ --page --variable-length",
            "http://h/ --page --returning 130%",
            "http://h/ --page --allow-host http://x/",
            "http://h/ --returning 30%",
            "http://h/ --allow-host x",
            "http://h/ --page -c 6000",
            "http://h/ --page --connections-per-host 0",
            "http://h/ --page --connections-per-host 257",
            "http://h/ --page --connections-per-host 2 --http 2",
            "http://h/ --page --connections-per-address 2",
            "http://h/ --page --rate 0.000001",
            "http://h/ --page --rate 5 --think 1s",
            "http://h/ --page --rate 5 --in-flight-max 10000",
            "http://h/ --page --in-flight-max 7",
        ] {
            assert!(parse(line).is_err(), "{line:?} was accepted");
        }
        assert_eq!((share("30%"), share("0.3"), share("100%")), (Ok(0.3), Ok(0.3), Ok(1.0)));
        assert!(share("x%").is_err() && share("-1%").is_err());
        let error = parse("http://h/ --page --variable-length").unwrap_err().to_string();
        assert!(error.contains("--seed") && parse("http://h/ --page --seed 7").is_ok(), "{error}");
    }
}
