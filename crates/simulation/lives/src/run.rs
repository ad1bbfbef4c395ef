//! Runs a plan: its lives one after the other, each in a world that continues the one before.
//!
//! Invariant: the outcome follows from the plan and the options alone.

use crate::life::live;
use crate::past::SharedPast;
use crate::plan::RunPlan;
use crate::report::{DIALECTS, FAULTS, REASONS, Report};
use crate::society::{Society, Upkeep};
use actors::{Ledger, Moment, Site, Timeline, lock};
use defects::{Defect, plant};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use world::{Ended, Random, START_SECONDS, World, WorldSettings};

/// The time for which the machine is off between two lives.
const OFF: Duration = Duration::from_secs(1);

/// Lines of the world's trace that are kept if it is wanted.
const TRACE_LINES_MAX: usize = 2_000_000;

/// How a plan is run.
#[derive(Clone, Copy, Debug)]
pub struct RunOptions {
    /// Whether the events are kept as lines.
    pub trace: bool,
    /// The defect that is planted in the edge.
    pub defect: Option<Defect>,
    /// The bytes that this process has allocated; 0 if unknown.
    pub allocated_bytes: fn() -> u64,
}

impl Default for RunOptions {
    fn default() -> Self {
        Self { trace: false, defect: None, allocated_bytes: || 0 }
    }
}

/// The result of a run.
#[derive(Clone, Debug, Default)]
pub struct RunOutcome {
    /// The violations, with the rule at the beginning of each.
    pub failures: Vec<String>,
    /// The events of the ledger, if they are wanted.
    pub log: Vec<String>,
    /// The events of the worlds, if they are wanted.
    pub trace: Vec<String>,
    /// A hash of all events of the worlds.
    pub hash: u64,
    /// Counts and coverage.
    pub report: Report,
}

/// Runs a plan.
pub fn run(plan: &RunPlan, options: &RunOptions) -> RunOutcome {
    plant(options.defect);
    let ledger =
        Arc::new(Mutex::new(Ledger::new(Arc::clone(&plan.site), plan.settings.rules(options.trace))));
    let mut society = Society {
        settings: plan.settings.clone(),
        file: Arc::new(Mutex::new(plan.settings.clone())),
        site: Arc::new(Mutex::new(Site::new(Arc::clone(&plan.site)))),
        ledger: Arc::clone(&ledger),
        allocated_bytes: options.allocated_bytes,
        past: SharedPast::default(),
        upkeep: Upkeep::new(plan.settings.all_fetches_max()),
    };
    let mut outcome = RunOutcome::default();
    let mut begins = Moment::default();
    let mut before: Option<Ended> = None;
    for life in &plan.lives {
        let seed = Random::fork(plan.seed, "world", life.number).number();
        let mut settings = WorldSettings::by_chance(&mut Random::fork(plan.seed, "threads", life.number));
        settings.trace_lines_max = if options.trace { TRACE_LINES_MAX } else { 0 };
        if let Some(altered) = &life.alteration {
            *lock(&society.file) = altered.clone();
            outcome.report.count("alterations", "settings", 1);
        }
        let file = lock(&society.file).clone();
        if file != society.settings {
            society.settings = file;
            lock(&ledger).restarts(society.settings.rules(options.trace));
        }
        lock(&ledger).starts();
        society.upkeep = Upkeep::new(society.settings.all_fetches_max());
        let (society, life_plan) = (society.clone(), life.clone());
        let lived = catch_unwind(AssertUnwindSafe(|| {
            World::resume(seed, settings, before.as_ref(), |world| {
                live(world, society, life_plan, Timeline::resume(START_SECONDS, begins))
            })
        }));
        let (origin, mut ended) = match lived {
            Ok(lived) => lived,
            Err(panic) => {
                outcome.failures.push(format!("panic in life {}: {}", life.number, text_of(&*panic)));
                break;
            }
        };
        begins = begins.plus(ended.elapsed).plus(OFF);
        ended.ahead_micros = ended.ahead_micros.saturating_add(OFF.as_micros() as i64);
        outcome.add(life.number, &ended);
        outcome.report.count("ends", life.end.name(), 1);
        for (fault, count) in origin.faults().counts() {
            outcome.report.count(FAULTS, format!("origin: {fault}"), count);
        }
        let is_failed = !ended.violations.is_empty();
        before = Some(ended);
        if is_failed {
            break;
        }
    }
    plant(None);
    for (what, count) in lock(&society.past).counts() {
        outcome.report.count("past", *what, *count);
    }
    outcome.conclude(&mut lock(&ledger), begins);
    outcome
}

impl RunOutcome {
    fn add(&mut self, life: u64, ended: &Ended) {
        self.hash = Random::fork(self.hash ^ ended.trace_hash, "life", ended.trace_count).number();
        let told = ended.violations.iter().map(|text| format!("world in life {life}: {text}"));
        self.failures.extend(told);
        self.trace.extend(ended.trace_lines.iter().cloned());
        self.report.lives += 1;
        self.report.simulated_s += ended.elapsed.as_secs_f64();
        for (fault, count) in &ended.faults {
            self.report.count(FAULTS, fault.to_string(), *count);
        }
    }

    /// Adds what the ledger has.
    fn conclude(&mut self, ledger: &mut Ledger, at: Moment) {
        ledger.finish(at);
        self.failures.extend(ledger.violations().iter().map(ToString::to_string));
        self.log = ledger.log().to_vec();
        let tally = ledger.tally();
        self.report.runs = 1;
        for (reason, count) in &tally.reasons {
            self.report.count(REASONS, reason.clone(), *count);
        }
        for (status, count) in &tally.statuses {
            self.report.count("statuses", status.to_string(), *count);
        }
        for (ending, count) in &tally.endings {
            self.report.count("endings", ending.clone(), *count);
        }
        for (dialect, count) in &tally.dialects {
            self.report.count(DIALECTS, dialect.clone(), *count);
        }
        for (change, count) in &tally.reloads {
            self.report.count("reloads", change.clone(), *count);
        }
        for (conduct, count) in &tally.handovers {
            self.report.count("hand-overs", conduct.clone(), *count);
        }
        for (call, count) in &tally.calls {
            self.report.count("calls of the admin address", call.clone(), *count);
        }
        for (found, count) in &tally.fragments {
            self.report.count("places of fragments", found.clone(), *count);
        }
        for (answer, count) in &tally.purges {
            self.report.count("purges", answer.clone(), *count);
        }
    }
}

fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no text").to_owned()
}
