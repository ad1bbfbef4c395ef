//! Runs of the load tester without and with an attack, and the judgement of them.
//!
//! Invariant: the judged figure is the ratio of two medians of runs that took turns. Runs that the
//! load tester itself calls invalid count as none.

#![allow(clippy::print_stdout, reason = "the figures of the attack are its result")]

use super::{AttackKind, AttackOutcome, PAGE};
use crate::{Edge, binary};
use probe::ProcFs;
use serde_json::Value;
use std::ffi::OsStr;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Hits that the honest load requests each second.
const RATE: &str = "2000";
/// Measured time of a run, and the load before it that does not count.
const TIME: Duration = Duration::from_secs(3);
const WARMUP: Duration = Duration::from_millis(500);
/// Clock ticks in a second: USER_HZ, which the kernel's interface fixes (proc(5)).
const TICKS_PER_S: f64 = 100.0;
/// Runs of each kind that a judgement needs.
const RUNS_MIN: usize = 3;

/// The honest load.
pub(super) struct Load<'a> {
    pub(super) edge: &'a Edge,
    /// Words before the command of the load tester.
    pub(super) prefix: String,
    /// Version of HTTP.
    pub(super) http: &'static str,
}

/// One run of the load tester.
#[derive(Clone, Debug)]
pub(super) struct Run {
    p50_us: f64,
    p99_us: f64,
    trust: String,
    /// CPU time of the edge, of this process with the attackers, and the time of the run.
    edge_s: f64,
    attackers_s: f64,
    took_s: f64,
}

/// The runs without and with an attack.
#[derive(Debug, Default)]
pub(super) struct Figures {
    pub(super) base: Vec<Run>,
    attacked: Vec<Run>,
    /// Units each second that the attackers sent.
    rates: Vec<f64>,
}

impl Load<'_> {
    /// Measures hits.
    pub(super) fn run(&self) -> Run {
        let url = format!("https://{}{PAGE}", self.edge.address);
        let program = binary();
        let mut words = self.prefix.split_whitespace().map(OsStr::new).chain([program.as_os_str()]);
        let mut command = Command::new(words.next().unwrap_or_default());
        command.args(words);
        let (time, warmup) = (format!("{}ms", TIME.as_millis()), format!("{}ms", WARMUP.as_millis()));
        command.args(["bench", &url, "--insecure", "--accept-invalid", "--threads", "1", "--json", "-"]);
        command.args(["--http", self.http, "--rate", RATE, "--time", &time, "--warmup", &warmup]);
        let before = self.cpu_ticks();
        let output = command.stdin(Stdio::null()).stderr(Stdio::null()).output().unwrap();
        let after = self.cpu_ticks();
        let run: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(run["failed"].as_u64(), Some(0), "{}", run["failed_by_kind"]);
        let hits = &run["verdicts"]["hit"]["count"];
        assert_eq!(hits, &run["good"], "every response is a hit: {}", run["verdicts"]);
        let latency = &run["good_times"]["latency"];
        Run {
            p50_us: latency["p50_us"].as_f64().unwrap(),
            p99_us: latency["p99_us"].as_f64().unwrap(),
            trust: run["generator"]["trust"].as_str().unwrap().to_owned(),
            edge_s: (after.0 - before.0) as f64 / TICKS_PER_S,
            attackers_s: (after.1 - before.1) as f64 / TICKS_PER_S,
            took_s: (TIME + WARMUP).as_secs_f64(),
        }
    }

    /// CPU time of the edge and of this process, in clock ticks.
    fn cpu_ticks(&self) -> (u64, u64) {
        let system = ProcFs::system();
        let ticks = |pid| system.process(pid).unwrap().own_ticks;
        (ticks(self.edge.pid()), ticks(std::process::id()))
    }
}

impl Figures {
    /// Adds a run during which the attackers sent this many units.
    pub(super) fn add_attacked(&mut self, run: Run, sent: u64) {
        self.rates.push(sent as f64 / run.took_s);
        self.attacked.push(run);
    }

    /// Prints the figures, and compares the ratio of p99 with its limit.
    pub(super) fn judge(&self, kind: &AttackKind, total: AttackOutcome, factor_max: f64) {
        let AttackKind { name, unit, .. } = kind;
        let (base, attacked) = (trusted(&self.base), trusted(&self.attacked));
        println!("attack: {name}: {} {unit}, {} connections closed", total.sent, total.closed);
        println!(
            "attack: {name}: p99 of each run, us: {:?}, during the attack {:?}",
            p99s(&base),
            p99s(&attacked)
        );
        assert!(base.len() >= RUNS_MIN && attacked.len() >= RUNS_MIN, "the load tester trusts too few runs");
        let rate = stats::median(&self.rates).unwrap();
        let share = |runs: &[Run], of: fn(&Run) -> f64| median(runs, |run| of(run) / run.took_s);
        println!(
            "attack: {name}: {rate:.0} {unit} a second; shares of a core: attackers {:.2}, edge {:.2}, edge without {:.2}",
            share(&attacked, |run| run.attackers_s),
            share(&attacked, |run| run.edge_s),
            share(&base, |run| run.edge_s),
        );
        let [p50, p50_attacked] = [&base, &attacked].map(|runs| median(runs, |run| run.p50_us));
        println!("attack: {name}: p50 of hits, us: {p50}, during the attack {p50_attacked}");
        let factor = median(&attacked, |run| run.p99_us) / median(&base, |run| run.p99_us);
        println!(
            "attack: {name}: p99 of hits with HTTP/{}: {factor:.2} times, at most {factor_max}",
            kind.http
        );
        // Without optimisation, the times are not those of the released program.
        if !cfg!(debug_assertions) {
            assert!(rate >= kind.rate_min as f64, "{name}: only {rate:.0} {unit} a second");
            assert!(factor <= factor_max, "{name}: p99 of hits is {factor:.2} times as long");
        }
    }
}

/// The runs that the load tester does not call invalid.
fn trusted(runs: &[Run]) -> Vec<Run> {
    runs.iter().filter(|run| run.trust != "invalid").cloned().collect()
}

fn p99s(runs: &[Run]) -> Vec<f64> {
    runs.iter().map(|run| run.p99_us).collect()
}

fn median(runs: &[Run], of: impl Fn(&Run) -> f64) -> f64 {
    stats::median(&runs.iter().map(of).collect::<Vec<_>>()).unwrap()
}
