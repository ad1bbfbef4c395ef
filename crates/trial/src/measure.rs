//! Loads the pages from memory in rounds, directly and through the temporary edge.
//!
//! Invariants:
//!
//! - Only a site on this machine is loaded, by [`USERS`] users with GET requests. Its host is
//!   resolved directly before each run, and with http the run goes to the address that was found.
//! - All rounds together permit [`FAILURES_MAX`] failures; then, or when the site becomes slower,
//!   the load ends, and there is no factor.
//! - The sides take turns in the order of a round, so that a drift affects both alike.

use crate::latency_guard::LatencyGuard;
use crate::local::own_address;
use address::HttpUrl;
use clock::Clock;
use load::{Control, LoadError};
use probe::{CpuTimes, ProcFs};
use record::{Ended, Length, Plan, RunOutcome, Stop, Trust, WeightedTarget};
use serde::Serialize;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

/// Users of the load. Each has one request in progress.
pub const USERS: usize = 4;

/// Failed requests at which the load ends.
pub const FAILURES_MAX: u64 = 3;

/// Bounds of a request's timeout. In between it is [`TIMEOUT_FACTOR`] times the slowest page.
const TIMEOUT_MIN: Duration = Duration::from_secs(1);
const TIMEOUT_MAX: Duration = Duration::from_secs(10);
const TIMEOUT_FACTOR: u32 = 10;

/// Pause between two rounds, so that the connections one round closes do not disturb the next.
const REST: Duration = Duration::from_millis(100);

/// How often a watcher looks at a run.
const WATCH_EVERY: Duration = Duration::from_millis(20);

/// The pages, addresses and limits of a load.
#[derive(Clone, Debug)]
pub struct LoadTarget {
    /// The pages, at the site.
    pub pages: Vec<HttpUrl>,
    /// The URL of the temporary edge.
    pub edge: HttpUrl,
    /// The server's time for the slowest page.
    pub slowest: Duration,
    /// Whether the site's certificate must be valid.
    pub is_verified: bool,
}

impl LoadTarget {
    /// Whether connections are kept. Usually each page has its own, as the first page of a visitor,
    /// and because a server with one worker would wait for a kept one. With TLS they are kept:
    /// handshakes would count for the site alone, because the temporary edge speaks plain HTTP.
    pub(crate) fn keeps_connections(&self) -> bool {
        self.pages.iter().any(HttpUrl::is_https)
    }
}

/// How it is loaded.
#[derive(Clone, Copy, Debug)]
pub struct LoadTerms {
    /// Number of rounds.
    pub rounds: u16,
    /// How long each side of a round is loaded.
    pub time: Duration,
}

/// The figures of one side in one round.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SideFigures {
    /// Good responses a second.
    pub pages_per_s: f64,
    /// 95% of the good responses took at most this long, in milliseconds.
    pub p95_ms: f64,
    /// CPU time of the whole machine without the load generator for each page, in milliseconds.
    /// `None` if the system does not report it.
    pub cpu_ms_per_page: Option<f64>,
    /// Whether the generator may have been the limit.
    pub is_generator_limit: bool,
    /// Whether the generator's own check found the figures valid.
    pub is_valid: bool,
}

/// The figures of a round.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct RoundFigures {
    /// The site without Petasos.
    pub today: SideFigures,
    /// The site through the temporary edge.
    pub with_petasos: SideFigures,
}

/// How the load ended.
#[derive(Clone, Debug, PartialEq)]
pub enum LoadResult {
    /// All rounds were made.
    Rounds(Vec<RoundFigures>),
    /// The site failed or became slower. The text says how, as the rest of a sentence.
    GaveIn(String),
    /// The load could not be made, and the site is not the cause. The reason completes a sentence
    /// after "because".
    NotMade(String),
    /// The user interrupted the command.
    Interrupted,
}

/// Why a run is no measurement.
enum RunCut {
    GaveIn(String),
    NotMade(String),
    Interrupted,
}

/// A site whose pages all took less than this long has some response in each second of a load.
const QUICK: Duration = Duration::from_millis(500);

/// The sides of a round.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Direct,
    Edge,
}

/// Makes the rounds. `told` gets the number of the round. A round has two runs, in alternating
/// order.
pub fn measure(
    target: &LoadTarget,
    terms: LoadTerms,
    (clock, interrupt): (&dyn Clock, &AtomicBool),
    mut told: impl FnMut(u16),
) -> LoadResult {
    let guard = LatencyGuard::new(target.slowest, USERS as u32);
    let mut load = PageLoad { target, clock, interrupt, failures: 0, guard };
    let mut rounds = Vec::new();
    for number in 1..=terms.rounds {
        told(number);
        let order = if number % 2 == 1 { [Side::Direct, Side::Edge] } else { [Side::Edge, Side::Direct] };
        let (mut today, mut with_petasos) = (None, None);
        for side in order {
            let place = if side == Side::Direct { &mut today } else { &mut with_petasos };
            match load.run(side, terms.time) {
                Ok(figures) => *place = Some(figures),
                Err(RunCut::GaveIn(reason)) => return LoadResult::GaveIn(reason),
                Err(RunCut::NotMade(reason)) => return LoadResult::NotMade(reason),
                Err(RunCut::Interrupted) => return LoadResult::Interrupted,
            }
        }
        if let (Some(today), Some(with_petasos)) = (today, with_petasos) {
            rounds.push(RoundFigures { today, with_petasos });
        }
        std::thread::sleep(REST);
    }
    LoadResult::Rounds(rounds)
}

struct PageLoad<'a> {
    target: &'a LoadTarget,
    clock: &'a dyn Clock,
    interrupt: &'a AtomicBool,
    /// Failed requests so far.
    failures: u64,
    /// Watches the direct side. The edge's own times are not those of the site.
    guard: LatencyGuard,
}

impl PageLoad<'_> {
    fn run(&mut self, side: Side, time: Duration) -> Result<SideFigures, RunCut> {
        let plan = self.plan(side, time)?;
        let before = ProcFs::system().cpu_times();
        let (outcome, risen) = self.watched(&plan, side);
        let after = ProcFs::system().cpu_times();
        let outcome = outcome.map_err(|error| match error {
            LoadError::Unreachable { .. } => RunCut::GaveIn(error.to_string()),
            _ => RunCut::NotMade(format!("the load generator cannot run: {error}")),
        })?;
        if self.interrupt.load(Ordering::Relaxed) {
            return Err(RunCut::Interrupted);
        }
        self.failures += outcome.failures.total();
        if outcome.ended != Ended::Time && outcome.ended != Ended::Stopped || self.failures >= FAILURES_MAX {
            return Err(RunCut::GaveIn(failure_text(&outcome, side)));
        }
        let median = Duration::from_micros(outcome.good_times.total.median_us());
        let risen = risen.or_else(|| self.risen(side, median));
        if let Some(reason) = risen {
            return Err(RunCut::GaveIn(reason));
        }
        if outcome.good == 0 {
            return Err(RunCut::GaveIn("no page was answered in time".to_owned()));
        }
        Ok(figures(&outcome, before.zip(after)))
    }

    /// Runs the plan while a thread watches it. Also returns why the watcher stopped it.
    fn watched(&mut self, plan: &Plan, side: Side) -> (Result<RunOutcome, LoadError>, Option<String>) {
        let control = Control::new();
        let (over, is_over) = mpsc::channel::<()>();
        let (clock, interrupt) = (self.clock, self.interrupt);
        std::thread::scope(|scope| {
            let control = &control;
            let watcher = scope.spawn(move || {
                let mut seen = 0;
                while is_over.recv_timeout(WATCH_EVERY) == Err(RecvTimeoutError::Timeout) {
                    if interrupt.load(Ordering::Relaxed) {
                        control.stop();
                    }
                    for second in control.seconds_since(seen) {
                        seen += 1;
                        let median = Duration::from_micros(second.p50_us);
                        let is_silent = second.good == 0 && second.failures.total() == 0;
                        let risen = if is_silent {
                            self.silent(side)
                        } else {
                            (second.p50_us > 0).then(|| self.risen(side, median)).flatten()
                        };
                        if let Some(reason) = risen {
                            control.stop();
                            return Some(reason);
                        }
                    }
                }
                None
            });
            let outcome = load::run(plan, clock, control);
            // Disconnects the channel, which ends the loop of the watching thread.
            drop(over);
            (outcome, watcher.join().unwrap_or_default())
        })
    }

    /// The failure after a whole second without a response: a rise of the site's latency, if it was
    /// quick before.
    fn silent(&self, side: Side) -> Option<String> {
        let is_rise = side == Side::Direct && self.target.slowest < QUICK;
        is_rise.then(|| "the site became slower: it answered nothing for a second".to_owned())
    }

    fn risen(&mut self, side: Side, median: Duration) -> Option<String> {
        let rise = (side == Side::Direct).then(|| self.guard.observe(median)).flatten()?;
        Some(format!(
            "the site became slower: {} ms instead of {} ms",
            rise.now.as_millis(),
            rise.base.as_millis()
        ))
    }

    /// The plan of a run.
    ///
    /// # Errors
    /// If the site is not on this machine any more.
    fn plan(&self, side: Side, time: Duration) -> Result<Plan, RunCut> {
        let root = match side {
            Side::Edge => Some(self.target.edge.as_str().trim_end_matches('/').to_owned()),
            Side::Direct => self.direct_root()?,
        };
        let at = |page: &HttpUrl| match &root {
            None => Some(page.clone()),
            Some(root) => HttpUrl::parse(&format!("{root}{}", page.path_and_query())).ok(),
        };
        let pages: Vec<HttpUrl> = self.target.pages.iter().filter_map(at).collect();
        let mut plan = Plan::new(pages.first().unwrap_or(&self.target.edge).clone());
        if let Some(page) = self.target.pages.first().filter(|_| root.is_some()) {
            plan.headers.push(("Host".to_owned(), page.authority().to_owned()));
        }
        plan.targets = pages.into_iter().map(|page| WeightedTarget::new(page, 1)).collect();
        plan.users = USERS;
        plan.keep_alive = self.target.keeps_connections();
        // As in ladders: the generator shares the cores with the site, and must not wait for them.
        plan.real_time = true;
        plan.timeout = (self.target.slowest * TIMEOUT_FACTOR).clamp(TIMEOUT_MIN, TIMEOUT_MAX);
        plan.expect.length = Length::Variable;
        plan.spread = record::spread(Some(time));
        plan.tls.is_verified = self.target.is_verified;
        let failures_max = Some(FAILURES_MAX.saturating_sub(self.failures).max(1));
        plan.stop = Stop { time: Some(time), failures_max, ..Stop::default() };
        Ok(plan)
    }

    /// The URL of the address at which the site is loaded. `None` with https: the certificate is
    /// that of the name, so the load generator resolves it.
    fn direct_root(&self) -> Result<Option<String>, RunCut> {
        // All pages have the host of the first one.
        let Some(page) = self.target.pages.first() else { return Ok(None) };
        let address = own_address(page)
            .ok_or_else(|| RunCut::NotMade(format!("{} is not on this machine any more", page.host())))?;
        Ok((!page.is_https()).then(|| format!("http://{address}")))
    }
}

/// How requests failed, as the rest of a sentence.
fn failure_text(outcome: &RunOutcome, side: Side) -> String {
    let bad = outcome.statuses.iter().filter(|(code, _)| *code >= 400);
    let mut kinds: Vec<String> = bad.map(|(code, count)| format!("{count} with status {code}")).collect();
    let others = record::FailureKind::ALL.into_iter().filter(|kind| *kind != record::FailureKind::Status);
    kinds.extend(
        others
            .map(|kind| (kind.name(), outcome.failures.of(kind)))
            .filter(|(_, count)| *count > 0)
            .map(|(name, count)| format!("{count} by {name}")),
    );
    let whose = if side == Side::Direct { "sent directly" } else { "through Petasos" };
    format!(
        "{} of {} requests {whose} failed: {}",
        outcome.failures.total(),
        outcome.requests(),
        kinds.join(", ")
    )
}

fn figures(outcome: &RunOutcome, cpu: Option<(CpuTimes, CpuTimes)>) -> SideFigures {
    let ticks_per_s = rustix::param::clock_ticks_per_second() as f64;
    let generator: Duration = outcome.cpu.iter().sum::<Duration>() + outcome.busy_wait;
    let of_host = cpu.map(|(before, after)| after.busy.saturating_sub(before.busy) as f64 / ticks_per_s);
    let of_site = of_host.map(|busy_s| (busy_s - generator.as_secs_f64()).max(0.0));
    SideFigures {
        pages_per_s: outcome.good_per_second(),
        p95_ms: outcome.good_times.total.percentile_us(95.0) as f64 / 1000.0,
        cpu_ms_per_page: of_site.map(|busy_s| busy_s * 1000.0 / outcome.good as f64),
        is_generator_limit: outcome.check.trust != Trust::Clean,
        is_valid: outcome.check.trust != Trust::Invalid,
    }
}

#[cfg(test)]
mod tests {
    use super::{LoadTarget, PageLoad, RunCut, Side, USERS};
    use crate::latency_guard::LatencyGuard;
    use address::HttpUrl;
    use clock::ManualClock;
    use std::sync::atomic::AtomicBool;
    use std::time::Duration;

    fn with_load_of<T>(url: &str, slowest: Duration, look: impl FnOnce(&PageLoad<'_>) -> T) -> T {
        let edge = HttpUrl::parse("http://127.0.0.1:9/").unwrap();
        let pages = vec![HttpUrl::parse(url).unwrap()];
        let target = LoadTarget { pages, edge, slowest, is_verified: true };
        let (clock, interrupt) = (ManualClock::default(), AtomicBool::new(false));
        let guard = LatencyGuard::new(slowest, USERS as u32);
        look(&PageLoad { target: &target, clock: &clock, interrupt: &interrupt, failures: 0, guard })
    }

    #[test]
    fn load_goes_to_the_address_that_was_judged() {
        let plan =
            |url| with_load_of(url, Duration::ZERO, |load| load.plan(Side::Direct, Duration::from_secs(1)));
        let Ok(found) = plan("http://localhost:81/a?b") else { panic!("not local") };
        let target = found.targets[0].target.as_str();
        assert!(["http://127.0.0.1:81/a?b", "http://[::1]:81/a?b"].contains(&target), "{target}");
        assert_eq!(found.headers, [("Host".to_owned(), "localhost:81".to_owned())]);
        // A block for documentation (RFC 5737), which no interface has.
        assert!(matches!(plan("http://192.0.2.7/"), Err(RunCut::NotMade(_))));
    }

    #[test]
    fn silent_second_of_a_quick_site_is_a_rise() {
        let silent = |side, millis| {
            with_load_of("http://127.0.0.1:81/", Duration::from_millis(millis), |load| load.silent(side))
        };
        assert!(silent(Side::Direct, 499).is_some());
        assert!(silent(Side::Direct, 500).is_none() && silent(Side::Edge, 499).is_none());
    }
}
