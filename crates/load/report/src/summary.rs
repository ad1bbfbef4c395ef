//! Computes the figures of tables and charts from runs. Pure functions.
//!
//! Invariants:
//!
//! * The unit is the run. A figure is the median over the rounds, and its interval exists only for
//!   five rounds or more.
//! * A cell with one void run is void, because a layer that was off once may have been off at other
//!   times.
//! * Percentiles are computed within each run and then combined over the runs. Requests of several
//!   runs are never pooled.
//! * The bystander and the writes are the exception, because one run has too few of their requests
//!   for a percentile. Their times are pooled, and reports show their number.

use crate::difference::{CellNoise, Gain, gain, may_be_as_fast};
use crate::results::{
    BystanderRecord, CellRecord, LimitingResource, LoadRecord, Measured, ResponseTimes, Results, StepRecord,
    VisitOutcome,
};
use crate::star::{Star, star};
use crate::{loads, processes};
use stats::{Factor, Interval};

/// A run with fewer good responses is marked, because its percentiles are coarse.
pub const ANSWERS_FEW: u64 = 100;

/// Result of a cell.
#[derive(Clone, Debug, PartialEq)]
pub enum CellResult {
    /// The figures of the cell.
    Measured(Box<CellSummary>),
    /// The cell has no run yet.
    Missing,
    /// At least one run is void; this is the reason of the first.
    Void(String),
}

impl CellResult {
    /// Returns the figures, if there are any.
    pub fn summary(&self) -> Option<&CellSummary> {
        match self {
            Self::Measured(summary) => Some(summary),
            _ => None,
        }
    }
}

/// A number over the rounds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RoundsFigure {
    /// Median of the rounds.
    pub median: f64,
    /// Smallest value of a round.
    pub low: f64,
    /// Largest value of a round.
    pub high: f64,
    /// 95% confidence interval of the median; `None` for fewer than five rounds.
    pub interval: Option<Interval>,
}

/// Figures of the bystander: an uncached page requested beside the load.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BystanderFigures {
    /// 95th percentile of the response times in milliseconds.
    pub p95_ms: f64,
    /// Whether `p95_ms` is only a lower bound, because requests had no response when the load
    /// ended.
    pub at_least: bool,
    /// Number of requests behind the percentile.
    pub requests: usize,
    /// Number of failed requests.
    pub failed: u64,
}

/// A named figure of a cell.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedFigure {
    /// Name of the group; or unit of the meter, with its name if another meter has this unit.
    pub name: String,
    /// Median of the rounds.
    pub value: f64,
}

/// Good responses with the same verdict of the nearest cache. Figures are medians over the rounds
/// with that verdict.
#[derive(Clone, Debug, PartialEq)]
pub struct VerdictFigures {
    /// The verdict, or `none`.
    pub name: String,
    /// Responses per second.
    pub per_s: f64,
    /// Share of all good responses, 0 to 1.
    pub share: f64,
    /// Response times, if they were recorded by verdict.
    pub response: Option<ResponseTimes>,
}

/// Responses to one kind of visitor, over all rounds.
#[derive(Clone, Debug, PartialEq)]
pub struct VisitorFigures {
    /// Name of the session, or `anonymous`.
    pub name: String,
    /// Number of good responses.
    pub answers: u64,
    /// Failed requests, and pages that were not made for these visitors.
    pub failed: u64,
    /// Median of the rounds' mean times, in milliseconds.
    pub mean_ms: Option<f64>,
}

/// Writes of one kind, over all rounds.
#[derive(Clone, Debug, PartialEq)]
pub struct WriteFigures {
    /// Name of the write.
    pub name: String,
    /// Number of successful writes.
    pub done: usize,
    /// Number of failed writes.
    pub failed: u64,
    /// 95th percentile of the successful writes' times, in milliseconds; `None` without any.
    pub p95_ms: Option<f64>,
}

/// Figures of a cell.
#[derive(Clone, Debug, PartialEq)]
pub struct CellSummary {
    /// Number of measured rounds.
    pub rounds: usize,
    /// Good responses in all rounds.
    pub answers: u64,
    /// Whether a round had fewer good responses than [`ANSWERS_FEW`].
    pub few: bool,
    /// Good responses per second.
    pub throughput: RoundsFigure,
    /// Response times: each is the median of the rounds' values.
    pub response: ResponseTimes,
    /// 95th percentile of the response times in milliseconds, over the rounds.
    pub p95: RoundsFigure,
    /// Received bytes per good response, heads included.
    pub bytes_per_page: Option<f64>,
    /// Failed requests in all rounds.
    pub failed: u64,
    /// Good responses in all rounds whose length differs from the first one's.
    pub other_length: u64,
    /// Change between good responses, in the first round that had one.
    pub what_changed: Option<String>,
    /// Number of runnable and blocked tasks of the site and its database.
    pub observed_load: Option<f64>,
    /// Load average of the system over one minute.
    pub load_average: Option<f64>,
    /// Used share of all cores' time, 0 to 1.
    pub host_busy: Option<f64>,
    /// Processor time of site, database and accelerator per good response, in milliseconds.
    pub cpu_per_page_ms: Option<f64>,
    /// Memory (proportional set size) of site and database in bytes.
    pub site_pss_bytes: Option<f64>,
    /// Bystander during the load; `None` if it sent no request.
    pub bystander: Option<BystanderFigures>,
    /// Bystander on the idle site.
    pub idle: Option<BystanderFigures>,
    /// Logged-in bystander during the load.
    pub twin: Option<BystanderFigures>,
    /// Logged-in bystander on the idle site.
    pub idle_twin: Option<BystanderFigures>,
    /// Good responses by verdict of the nearest cache.
    pub verdicts: Vec<VerdictFigures>,
    /// Responses by kind of visitor, in all rounds.
    pub visitors: Vec<VisitorFigures>,
    /// Writes in all rounds.
    pub writes: Vec<WriteFigures>,
    /// Limit of more than half of the rounds; else [`LimitingResource::Unclear`].
    pub bound_by: LimitingResource,
    /// Worst result of the generator's self-checks.
    pub trust: String,
    /// Reason to star the cell; `None` if it counts.
    pub star: Option<Star>,
    /// Cores used by each watched group; the last one is the generator.
    pub cores: Vec<NamedFigure>,
    /// Counted units per second, for each meter.
    pub meters: Vec<NamedFigure>,
    /// Counted units per good response, for each meter.
    pub meters_per_page: Vec<NamedFigure>,
}

impl CellSummary {
    /// Whether the load generator instead of the site may have been the limit. The throughput is
    /// then a lower bound of the site's capacity.
    pub fn is_limited(&self) -> bool {
        self.bound_by == LimitingResource::Generator || self.trust == "invalid"
    }

    /// Share of failed requests among all ended requests, in all rounds.
    pub fn failed_share(&self) -> f64 {
        self.failed as f64 / (self.failed + self.answers).max(1) as f64
    }
}

/// The measured runs of a cell with their rounds.
fn measured(cell: &CellRecord) -> impl Iterator<Item = (u64, &Measured)> {
    cell.runs.iter().filter_map(|run| match &run.outcome {
        VisitOutcome::Measured(measured) => Some((run.round, &**measured)),
        VisitOutcome::Void { .. } => None,
    })
}

/// Computes the result of a cell.
pub fn cell_result(cell: &CellRecord) -> CellResult {
    let void = cell.runs.iter().find_map(|run| match &run.outcome {
        VisitOutcome::Void { reason, .. } => Some(format!("round {}: {reason}", run.round)),
        VisitOutcome::Measured(_) => None,
    });
    if let Some(reason) = void {
        return CellResult::Void(reason);
    }
    let runs: Vec<&Measured> = measured(cell).map(|(_, measured)| measured).collect();
    if runs.is_empty() {
        CellResult::Missing
    } else {
        CellResult::Measured(Box::new(CellSummary { star: star(cell), ..summary(&runs) }))
    }
}

fn summary(runs: &[&Measured]) -> CellSummary {
    let of = |field: fn(&Measured) -> f64| -> Vec<f64> { runs.iter().map(|run| field(run)).collect() };
    let maybe = |field: fn(&Measured) -> Option<f64>| -> Option<f64> {
        stats::median(&runs.iter().filter_map(|run| field(run)).collect::<Vec<_>>())
    };
    let p95 = figure(&of(|run| run.response.p95_ms));
    let response = times(&runs.iter().map(|run| &run.response).collect::<Vec<_>>());
    CellSummary {
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

/// Combines response times: each figure is the median of the given ones.
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

fn figure(values: &[f64]) -> RoundsFigure {
    RoundsFigure {
        median: stats::median(values).unwrap_or(0.0),
        low: values.iter().copied().fold(f64::INFINITY, f64::min),
        high: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        interval: stats::median_interval(values),
    }
}

/// Processor time per page of all groups that serve it. The bystander's requests are included.
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

fn bystander(runs: &[&BystanderRecord]) -> Option<BystanderFigures> {
    // The few times of each run are pooled; one run has too few for a percentile.
    let answered: Vec<f64> = runs.iter().flat_map(|run| run.loaded_ms.iter().copied()).collect();
    let unanswered: Vec<f64> = runs.iter().flat_map(|run| run.unanswered_ms.iter().copied()).collect();
    let failed = runs.iter().map(|run| run.failed).sum();
    let all: Vec<f64> = answered.iter().chain(&unanswered).copied().collect();
    if all.is_empty() && failed == 0 {
        return None;
    }
    let p95_ms = stats::quantile(&all, 0.95).unwrap_or(0.0);
    // A waiting request would have taken at least as long as it waited. If more than 5% of the
    // requests were waiting, the percentile is only a lower bound.
    let at_least = unanswered.len() as f64 > 0.05 * all.len() as f64;
    Some(BystanderFigures { p95_ms, at_least, requests: all.len(), failed })
}

fn idle(runs: &[&BystanderRecord]) -> Option<BystanderFigures> {
    let all: Vec<f64> = runs.iter().flat_map(|run| run.idle_ms.iter().copied()).collect();
    let p95_ms = stats::quantile(&all, 0.95)?;
    Some(BystanderFigures { p95_ms, at_least: false, requests: all.len(), failed: 0 })
}

/// Returns the limit of more than half of the runs, or `Unclear`.
fn most_frequent(runs: &[&Measured]) -> LimitingResource {
    let count = |bound: LimitingResource| runs.iter().filter(|run| run.bound_by == bound).count();
    runs.iter()
        .map(|run| run.bound_by)
        .find(|bound| 2 * count(*bound) > runs.len())
        .unwrap_or(LimitingResource::Unclear)
}

fn worst_trust(runs: &[&Measured]) -> String {
    let order = ["clean", "tight", "invalid"];
    let rank = |run: &&Measured| order.iter().position(|word| *word == run.generator.trust).unwrap_or(0);
    let worst = runs.iter().map(rank).max().unwrap_or(0);
    order.get(worst).copied().unwrap_or_default().to_owned()
}

/// Throughput of `after` relative to `before`, over the rounds that measured both cells. `None` if
/// either is void, missing or starred.
pub fn factor(before: &CellRecord, after: &CellRecord) -> Option<Factor> {
    cell_result(before).summary()?;
    cell_result(after).summary()?;
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

/// A row of the classic table, which has one row per step.
#[derive(Clone, Debug)]
pub struct ClassicRow<'a> {
    /// The step.
    pub step: &'a StepRecord,
    /// The step's own cell.
    pub cell: &'a CellRecord,
    /// Result of the cell.
    pub result: CellResult,
    /// Factor relative to the row that [`row_before`] returns.
    pub factor_before: Option<Gain>,
    /// Factor relative to the first row.
    pub factor_first: Option<Gain>,
    /// Whether the load generator was its limit, within the noise of the fastest row before it.
    /// False if the first row is the fastest, because every factor is relative to that one.
    pub may_be_fastest: bool,
}

impl<'a> ClassicRow<'a> {
    /// A row compared with no other.
    pub(crate) fn alone(step: &'a StepRecord, cell: &'a CellRecord) -> Self {
        Self {
            step,
            cell,
            result: cell_result(cell),
            factor_before: None,
            factor_first: None,
            may_be_fastest: false,
        }
    }
}

/// Returns the rows of the classic table, in order.
pub fn rows(results: &Results) -> Vec<ClassicRow<'_>> {
    let own = |step: &StepRecord| results.cells.iter().find(|cell| cell.id == step.cell);
    rows_of(results.steps.iter().filter_map(|step| Some((step, own(step)?))).collect(), &noise_of(results))
}

/// Returns the rows of a load other than the anonymous one, in the order of the steps.
pub fn load_rows<'a>(results: &'a Results, load: &'a LoadRecord) -> Vec<ClassicRow<'a>> {
    let own = |step: &StepRecord| load.cells.iter().find(|cell| cell.step == step.id);
    rows_of(results.steps.iter().filter_map(|step| Some((step, own(step)?))).collect(), &noise_of(results))
}

fn rows_of<'a>(cells: Vec<(&'a StepRecord, &'a CellRecord)>, noise: &CellNoise) -> Vec<ClassicRow<'a>> {
    let first = cells.first().map(|(_, cell)| *cell);
    let steps: Vec<&StepRecord> = cells.iter().map(|(step, _)| *step).collect();
    let median = |cell: &CellRecord| cell_result(cell).summary().map_or(0.0, |of| of.throughput.median);
    let fastest = cells.iter().enumerate().max_by(|(_, (_, a)), (_, (_, b))| median(a).total_cmp(&median(b)));
    let row = |(place, (step, cell)): (usize, &(&'a StepRecord, &'a CellRecord))| {
        let before = place_before(&steps, place).and_then(|before| cells.get(before));
        ClassicRow {
            step,
            cell,
            result: cell_result(cell),
            factor_before: before.and_then(|(_, before)| gain(before, cell, noise)),
            factor_first: if place > 0 { first.and_then(|first| gain(first, cell, noise)) } else { None },
            may_be_fastest: fastest.is_some_and(|(earlier, (_, fastest))| {
                (1..place).contains(&earlier) && may_be_as_fast(cell, fastest, noise)
            }),
        }
    };
    cells.iter().enumerate().map(row).collect()
}

/// Number of the first row's step, which the factors of `factor_first` are relative to. A load may
/// begin with a later step than the first of the ladder.
pub(crate) fn first_number<'a>(rows: &'a [ClassicRow<'_>]) -> &'a str {
    rows.first().map_or("1", |row| &row.step.number)
}

/// Returns the row that a row is compared with: the one that its step names in `against`, or else
/// the preceding one.
pub fn row_before<'a>(rows: &'a [ClassicRow<'a>], place: usize) -> Option<&'a ClassicRow<'a>> {
    let steps: Vec<&StepRecord> = rows.iter().map(|row| row.step).collect();
    rows.get(place_before(&steps, place)?)
}

fn place_before(steps: &[&StepRecord], place: usize) -> Option<usize> {
    match &steps.get(place)?.against {
        Some(id) => steps.iter().position(|step| step.id == *id),
        None => place.checked_sub(1),
    }
}

/// Returns the step that a cell belongs to.
pub fn step_of<'a>(results: &'a Results, cell: &CellRecord) -> Option<&'a StepRecord> {
    results.steps.iter().find(|step| step.id == cell.step)
}

/// Returns the concurrencies, ascending, at which more than half of the steps were measured with
/// this keep-alive setting.
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

/// Returns the concurrency without keep-alive at which most steps were measured, with its rows. Of
/// several, the highest is chosen. `None` if no two steps share a concurrency.
pub fn one_concurrency(results: &Results) -> Option<(u64, Vec<ClassicRow<'_>>)> {
    let at = |users: u64| -> Vec<ClassicRow<'_>> {
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
    let measured = |rows: &[ClassicRow<'_>]| rows.iter().filter(|row| row.result.summary().is_some()).count();
    let mut all: Vec<u64> = results.cells.iter().map(|cell| cell.concurrency).collect();
    all.sort_unstable();
    all.dedup();
    let alike = all.into_iter().map(|users| (users, at(users)));
    alike.max_by_key(|(_, rows)| measured(rows)).filter(|(_, rows)| measured(rows) > 1)
}

/// Two cells that measured the same thing. Their difference is noise.
#[derive(Clone, Copy, Debug)]
pub struct EqualCells<'a> {
    /// The earlier step.
    pub first: &'a StepRecord,
    /// The later step.
    pub second: &'a StepRecord,
    /// Number of users of both cells.
    pub concurrency: u64,
    /// Whether their connections were kept alive between requests.
    pub keepalive: bool,
    /// Larger throughput divided by the smaller one.
    pub ratio: f64,
}

/// Noise between cells that measured the same thing.
fn noise_of(results: &Results) -> CellNoise {
    CellNoise::new(twins(results).iter().map(|twins| ((twins.concurrency, twins.keepalive), twins.ratio)))
}

/// Finds pairs of cells of different steps with the same title, concurrency and keep-alive. Starred
/// cells are left out.
pub fn twins(results: &Results) -> Vec<EqualCells<'_>> {
    let measured: Vec<(&StepRecord, &CellRecord, f64)> = results
        .cells
        .iter()
        .filter_map(|cell| {
            Some((step_of(results, cell)?, cell, cell_result(cell).summary()?.throughput.median))
        })
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
            twins.push(EqualCells {
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
