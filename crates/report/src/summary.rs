//! From runs to the figures of tables and charts; pure.
//!
//! Invariant: the unit is the run. A figure is the median over the rounds; intervals come from `stats` and exist
//! for five rounds or more only. A cell with one void run is void: a layer that was off once may have been off
//! at other times. Percentiles are taken within each run and then over runs, never over pooled requests. The
//! bystander is the exception that has to be: it asks too seldom for a percentile of one run, so its few times
//! are put together, and their number is told.

use crate::difference::{Gain, Noise, gain};
use crate::results::{
    Bound, BystanderRecord, CellRecord, LoadRecord, Measured, Outcome, ResponseTimes, Results, StepRecord,
};
use crate::star::{Star, star};
use crate::{loads, processes};
use stats::{Factor, Interval};

/// A run with fewer good answers is marked: its percentiles are coarse.
pub const ANSWERS_FEW: u64 = 100;

/// What a cell came to.
#[derive(Clone, Debug, PartialEq)]
pub enum Standing {
    /// Figures.
    Measured(Box<Summary>),
    /// No run yet.
    Missing,
    /// At least one run proved nothing; the reason of the first.
    Void(String),
}

impl Standing {
    /// The figures, if there are any.
    pub fn summary(&self) -> Option<&Summary> {
        match self {
            Self::Measured(summary) => Some(summary),
            _ => None,
        }
    }
}

/// One number over the rounds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Figure {
    /// The median of the rounds.
    pub median: f64,
    /// The smallest round.
    pub low: f64,
    /// The largest round.
    pub high: f64,
    /// The 95% interval of the median.
    pub interval: Option<Interval>,
}

/// The uncached page that was asked meanwhile.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bystander {
    /// 95% of the requests took at most this, in milliseconds.
    pub p95_ms: f64,
    /// Whether that is only a lower bound, because requests were still waiting when the load ended.
    pub at_least: bool,
    /// How many requests it is taken from.
    pub requests: usize,
    /// Requests that failed.
    pub failed: u64,
}

/// A named figure of a cell.
#[derive(Clone, Debug, PartialEq)]
pub struct Named {
    /// The group's name, or the meter's unit.
    pub name: String,
    /// The median of the rounds.
    pub value: f64,
}

/// Good answers of which the nearest cache said the same: medians of the rounds that had any.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// The verdict, or `none`.
    pub name: String,
    /// How many a second.
    pub per_s: f64,
    /// Their share of all good answers, 0 to 1.
    pub share: f64,
    /// Their times, if they were kept apart.
    pub response: Option<ResponseTimes>,
}

/// What a kind of visitors got in all rounds.
#[derive(Clone, Debug, PartialEq)]
pub struct Visitors {
    /// The session's name, or `anonymous`.
    pub name: String,
    /// Good answers.
    pub answers: u64,
    /// Requests that failed, and pages that were not made for them.
    pub failed: u64,
    /// The median of the rounds' mean times.
    pub mean_ms: Option<f64>,
}

/// What was written in all rounds.
#[derive(Clone, Debug, PartialEq)]
pub struct Writes {
    /// What.
    pub name: String,
    /// How many succeeded.
    pub done: usize,
    /// How many failed.
    pub failed: u64,
    /// 95% of them took at most this, in milliseconds.
    pub p95_ms: Option<f64>,
}

/// The figures of a cell.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// How many rounds were measured.
    pub rounds: usize,
    /// Good answers in all rounds.
    pub answers: u64,
    /// Whether a round had fewer than [`ANSWERS_FEW`].
    pub few: bool,
    /// Good answers a second.
    pub throughput: Figure,
    /// Response times: each the median of the rounds' own.
    pub response: ResponseTimes,
    /// The rounds' 95th percentiles in milliseconds.
    pub p95: Figure,
    /// Bytes on the wire for each good answer, head included.
    pub bytes_per_page: Option<f64>,
    /// Failed requests in all rounds.
    pub failed: u64,
    /// Good answers of another length than the first, in all rounds.
    pub other_length: u64,
    /// What changed from one good answer to another, in the first round in which anything did.
    pub what_changed: Option<String>,
    /// Runnable and blocked tasks of the site.
    pub observed_load: Option<f64>,
    /// The system's load average over one minute.
    pub load_average: Option<f64>,
    /// The share of all cores' time that was used.
    pub host_busy: Option<f64>,
    /// Processor milliseconds of site, database and accelerator per good answer.
    pub cpu_per_page_ms: Option<f64>,
    /// Memory of site and database in bytes.
    pub site_pss_bytes: Option<f64>,
    /// The bystander during the load; `None` if it never asked.
    pub bystander: Option<Bystander>,
    /// The bystander on the idle site.
    pub idle: Option<Bystander>,
    /// The bystander who has logged in, during the load.
    pub twin: Option<Bystander>,
    /// The same on the idle site.
    pub idle_twin: Option<Bystander>,
    /// Good answers by what the nearest cache said.
    pub verdicts: Vec<Verdict>,
    /// Answers by kind of visitors, in all rounds.
    pub visitors: Vec<Visitors>,
    /// What was written, in all rounds.
    pub writes: Vec<Writes>,
    /// What bound most rounds.
    pub bound_by: Bound,
    /// The worst word of the generator's self-checks.
    pub trust: String,
    /// Why the cell is starred; `None` if it counts.
    pub star: Option<Star>,
    /// Cores used by each watched group, and last by the generator.
    pub cores: Vec<Named>,
    /// What each meter counted a second.
    pub meters: Vec<Named>,
    /// What each meter counted for a good answer.
    pub meters_per_page: Vec<Named>,
}

impl Summary {
    /// Failed requests as a share of all that ended, in all rounds.
    pub fn failed_share(&self) -> f64 {
        self.failed as f64 / (self.failed + self.answers).max(1) as f64
    }
}

/// The measured runs of a cell with their rounds.
fn measured(cell: &CellRecord) -> impl Iterator<Item = (u64, &Measured)> {
    cell.runs.iter().filter_map(|run| match &run.outcome {
        Outcome::Measured(measured) => Some((run.round, &**measured)),
        Outcome::Void { .. } => None,
    })
}

/// What a cell came to.
pub fn standing(cell: &CellRecord) -> Standing {
    let void = cell.runs.iter().find_map(|run| match &run.outcome {
        Outcome::Void { reason, .. } => Some(format!("round {}: {reason}", run.round)),
        Outcome::Measured(_) => None,
    });
    if let Some(reason) = void {
        return Standing::Void(reason);
    }
    let runs: Vec<&Measured> = measured(cell).map(|(_, measured)| measured).collect();
    if runs.is_empty() {
        Standing::Missing
    } else {
        Standing::Measured(Box::new(Summary { star: star(cell), ..summary(&runs) }))
    }
}

fn summary(runs: &[&Measured]) -> Summary {
    let of = |field: fn(&Measured) -> f64| -> Vec<f64> { runs.iter().map(|run| field(run)).collect() };
    let maybe = |field: fn(&Measured) -> Option<f64>| -> Option<f64> {
        stats::median(&runs.iter().filter_map(|run| field(run)).collect::<Vec<_>>())
    };
    let p95 = figure(&of(|run| run.response.p95_ms));
    let response = times(&runs.iter().map(|run| &run.response).collect::<Vec<_>>());
    Summary {
        rounds: runs.len(),
        answers: runs.iter().map(|run| run.answers).sum(),
        few: runs.iter().any(|run| run.answers < ANSWERS_FEW),
        throughput: figure(&of(|run| run.throughput_per_s)),
        response,
        p95,
        bytes_per_page: maybe(|run| {
            (run.answers > 0).then(|| run.received_bytes as f64 / run.answers as f64)
        }),
        failed: runs.iter().map(|run| run.failed()).sum(),
        other_length: runs.iter().map(|run| run.other_length).sum(),
        what_changed: runs.iter().find_map(|run| run.what_changed.clone()),
        observed_load: maybe(|run| run.observed_load),
        load_average: maybe(|run| run.host.load_average),
        host_busy: maybe(|run| run.host.busy),
        cpu_per_page_ms: maybe(cpu_per_page),
        site_pss_bytes: maybe(site_pss),
        bystander: bystander(&runs.iter().map(|run| &run.bystander).collect::<Vec<_>>()),
        idle: idle(&runs.iter().map(|run| &run.bystander).collect::<Vec<_>>()),
        twin: bystander(&runs.iter().filter_map(|run| run.twin.as_ref()).collect::<Vec<_>>()),
        idle_twin: idle(&runs.iter().filter_map(|run| run.twin.as_ref()).collect::<Vec<_>>()),
        verdicts: loads::verdicts(runs),
        visitors: loads::visitors(runs),
        writes: loads::writes(runs),
        bound_by: most_frequent(runs),
        trust: worst_trust(runs),
        star: None,
        cores: processes::cores(runs),
        meters: processes::meters(runs),
        meters_per_page: processes::meters_per_page(runs),
    }
}

/// Each time the median of the given ones.
pub(crate) fn times(of: &[&ResponseTimes]) -> ResponseTimes {
    let middle = |field: fn(&ResponseTimes) -> f64| {
        stats::median(&of.iter().map(|times| field(times)).collect::<Vec<_>>()).unwrap_or(0.0)
    };
    ResponseTimes {
        mean_ms: middle(|times| times.mean_ms),
        sd_ms: middle(|times| times.sd_ms),
        min_ms: middle(|times| times.min_ms),
        p50_ms: middle(|times| times.p50_ms),
        p75_ms: middle(|times| times.p75_ms),
        p90_ms: middle(|times| times.p90_ms),
        p95_ms: middle(|times| times.p95_ms),
        p99_ms: middle(|times| times.p99_ms),
        p999_ms: middle(|times| times.p999_ms),
        max_ms: middle(|times| times.max_ms),
    }
}

fn figure(values: &[f64]) -> Figure {
    Figure {
        median: stats::median(values).unwrap_or(0.0),
        low: values.iter().copied().fold(f64::INFINITY, f64::min),
        high: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        interval: stats::median_interval(values),
    }
}

/// What serving a page costs, whoever pays it. The bystander's pages are in it too.
fn cpu_per_page(run: &Measured) -> Option<f64> {
    let serving = run.groups.iter().filter(|group| group.role != "other");
    let costs: Vec<f64> = serving.filter_map(|group| group.cpu_per_page_ms).collect();
    (!costs.is_empty()).then(|| costs.iter().sum())
}

fn site_pss(run: &Measured) -> Option<f64> {
    let site = run.groups.iter().filter(|group| group.role == "site" || group.role == "database");
    let bytes: Option<Vec<u64>> = site.map(|group| group.pss_bytes).collect();
    bytes.filter(|bytes| !bytes.is_empty()).map(|bytes| bytes.iter().sum::<u64>() as f64)
}

fn bystander(runs: &[&BystanderRecord]) -> Option<Bystander> {
    let answered: Vec<f64> = runs.iter().flat_map(|run| run.loaded_ms.iter().copied()).collect();
    let unanswered: Vec<f64> = runs.iter().flat_map(|run| run.unanswered_ms.iter().copied()).collect();
    let failed = runs.iter().map(|run| run.failed).sum();
    let all: Vec<f64> = answered.iter().chain(&unanswered).copied().collect();
    if all.is_empty() && failed == 0 {
        return None;
    }
    let p95_ms = stats::quantile(&all, 0.95).unwrap_or(0.0);
    // A request still waiting would have ended at or above where it stood, so any that could reach the
    // percentile makes it a lower bound.
    let at_least = unanswered.len() as f64 > 0.05 * all.len() as f64;
    Some(Bystander { p95_ms, at_least, requests: all.len(), failed })
}

fn idle(runs: &[&BystanderRecord]) -> Option<Bystander> {
    let all: Vec<f64> = runs.iter().flat_map(|run| run.idle_ms.iter().copied()).collect();
    let p95_ms = stats::quantile(&all, 0.95)?;
    Some(Bystander { p95_ms, at_least: false, requests: all.len(), failed: 0 })
}

/// The bound of more than half of the runs; else it is unclear.
fn most_frequent(runs: &[&Measured]) -> Bound {
    let count = |bound: Bound| runs.iter().filter(|run| run.bound_by == bound).count();
    runs.iter().map(|run| run.bound_by).find(|bound| 2 * count(*bound) > runs.len()).unwrap_or(Bound::Unclear)
}

fn worst_trust(runs: &[&Measured]) -> String {
    let order = ["clean", "tight", "invalid"];
    let rank = |run: &&Measured| order.iter().position(|word| *word == run.generator.trust).unwrap_or(0);
    let worst = runs.iter().map(rank).max().unwrap_or(0);
    order.get(worst).copied().unwrap_or_default().to_owned()
}

/// How many times more a cell served than another, over the rounds that measured both; `None` if either is void,
/// missing or starred.
pub fn factor(before: &CellRecord, after: &CellRecord) -> Option<Factor> {
    standing(before).summary()?;
    standing(after).summary()?;
    if [before, after].into_iter().any(|cell| star(cell).is_some()) {
        return None;
    }
    let pairs: Vec<(f64, f64)> = measured(before)
        .filter_map(|(round, before)| {
            let (_, after) = measured(after).find(|(other, _)| *other == round)?;
            Some((before.throughput_per_s, after.throughput_per_s))
        })
        .collect();
    stats::factor(&pairs)
}

/// A row of the classic table.
#[derive(Clone, Debug)]
pub struct Row<'a> {
    /// The step.
    pub step: &'a StepRecord,
    /// Its own cell.
    pub cell: &'a CellRecord,
    /// What it came to.
    pub standing: Standing,
    /// Against the row that [`row_before`] names.
    pub factor_before: Option<Gain>,
    /// Against the first row.
    pub factor_first: Option<Gain>,
}

/// The classic table's rows, in order.
pub fn rows(results: &Results) -> Vec<Row<'_>> {
    let own = |step: &StepRecord| results.cells.iter().find(|cell| cell.id == step.cell);
    rows_of(results.steps.iter().filter_map(|step| Some((step, own(step)?))).collect(), &noise_of(results))
}

/// The rows of a load beside the anonymous one, in the order of the steps.
pub fn load_rows<'a>(results: &'a Results, load: &'a LoadRecord) -> Vec<Row<'a>> {
    let own = |step: &StepRecord| load.cells.iter().find(|cell| cell.step == step.id);
    rows_of(results.steps.iter().filter_map(|step| Some((step, own(step)?))).collect(), &noise_of(results))
}

fn rows_of<'a>(cells: Vec<(&'a StepRecord, &'a CellRecord)>, noise: &Noise) -> Vec<Row<'a>> {
    let first = cells.first().map(|(_, cell)| *cell);
    let steps: Vec<&StepRecord> = cells.iter().map(|(step, _)| *step).collect();
    let row = |(place, (step, cell)): (usize, &(&'a StepRecord, &'a CellRecord))| {
        let before = place_before(&steps, place).and_then(|before| cells.get(before));
        Row {
            step,
            cell,
            standing: standing(cell),
            factor_before: before.and_then(|(_, before)| gain(before, cell, noise)),
            factor_first: first.filter(|_| place > 0).and_then(|first| gain(first, cell, noise)),
        }
    };
    cells.iter().enumerate().map(row).collect()
}

/// The row that a row is compared with: that of the step which its own names, or the one above it.
pub fn row_before<'a>(rows: &'a [Row<'a>], place: usize) -> Option<&'a Row<'a>> {
    let steps: Vec<&StepRecord> = rows.iter().map(|row| row.step).collect();
    rows.get(place_before(&steps, place)?)
}

fn place_before(steps: &[&StepRecord], place: usize) -> Option<usize> {
    match &steps.get(place)?.against {
        Some(id) => steps.iter().position(|step| step.id == *id),
        None => place.checked_sub(1),
    }
}

/// The step that a cell belongs to.
pub fn step_of<'a>(results: &'a Results, cell: &CellRecord) -> Option<&'a StepRecord> {
    results.steps.iter().find(|step| step.id == cell.step)
}

/// The concurrencies, ascending, at which more than half of the steps were measured with or without keep-alive.
pub fn shared_concurrencies(results: &Results, keepalive: bool) -> Vec<u64> {
    let alike = || results.cells.iter().filter(|cell| cell.keepalive == keepalive);
    let mut shared: Vec<u64> = alike().map(|cell| cell.concurrency).collect();
    shared.sort_unstable();
    shared.dedup();
    shared.retain(|concurrency| {
        let count = alike().filter(|cell| cell.concurrency == *concurrency).count();
        count > 1 && 2 * count > results.steps.len()
    });
    shared
}

/// The steps at the one concurrency, without keep-alive, at which most of them were measured; of several such the
/// highest. `None` if no two steps share one.
pub fn one_concurrency(results: &Results) -> Option<(u64, Vec<Row<'_>>)> {
    let at = |users: u64| -> Vec<Row<'_>> {
        let cell = |step: &StepRecord| {
            let is_it =
                |cell: &&CellRecord| cell.step == step.id && cell.concurrency == users && !cell.keepalive;
            results.cells.iter().find(is_it)
        };
        rows_of(
            results.steps.iter().filter_map(|step| Some((step, cell(step)?))).collect(),
            &noise_of(results),
        )
    };
    let measured = |rows: &[Row<'_>]| rows.iter().filter(|row| row.standing.summary().is_some()).count();
    let mut all: Vec<u64> = results.cells.iter().map(|cell| cell.concurrency).collect();
    all.sort_unstable();
    all.dedup();
    let alike = all.into_iter().map(|users| (users, at(users)));
    alike.max_by_key(|(_, rows)| measured(rows)).filter(|(_, rows)| measured(rows) > 1)
}

/// Two cells that measured the same thing: what they differ by is noise.
#[derive(Clone, Copy, Debug)]
pub struct Twins<'a> {
    /// The earlier step.
    pub first: &'a StepRecord,
    /// The later step.
    pub second: &'a StepRecord,
    /// Their concurrency.
    pub concurrency: u64,
    /// Whether their connections were used again.
    pub keepalive: bool,
    /// The larger throughput over the smaller.
    pub ratio: f64,
}

/// The noise that cells show which measured the same thing.
fn noise_of(results: &Results) -> Noise {
    Noise::new(twins(results).iter().map(|twins| ((twins.concurrency, twins.keepalive), twins.ratio)))
}

/// Cells of different steps with the same caching, concurrency and keep-alive, unless one is starred.
pub fn twins(results: &Results) -> Vec<Twins<'_>> {
    let measured: Vec<(&StepRecord, &CellRecord, f64)> = results
        .cells
        .iter()
        .filter_map(|cell| Some((step_of(results, cell)?, cell, standing(cell).summary()?.throughput.median)))
        .filter(|(_, cell, throughput)| *throughput > 0.0 && star(cell).is_none())
        .collect();
    let same = |(step, a, _): &(&StepRecord, &CellRecord, f64),
                (other, b, _): &(&StepRecord, &CellRecord, f64)| {
        step.id != other.id
            && step.title == other.title
            && (a.concurrency, a.keepalive) == (b.concurrency, b.keepalive)
    };
    let mut twins = Vec::new();
    for (position, first) in measured.iter().enumerate() {
        for second in measured.iter().skip(position + 1).filter(|second| same(first, second)) {
            let ratio = (second.2 / first.2).max(first.2 / second.2);
            twins.push(Twins {
                first: first.0,
                second: second.0,
                concurrency: first.1.concurrency,
                keepalive: first.1.keepalive,
                ratio,
            });
        }
    }
    twins
}
