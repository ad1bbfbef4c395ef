//! Converts readings to the records of `results.json`. Pure functions.

use crate::ladder::{Ladder, LadderStep, Role};
use crate::plan::{Cell, LadderPlan};
use crate::reference::References;
use crate::traffic::{ANONYMOUS, Audience};
use crate::visit::Readings;
use probe::WatchFigures;
use record::{FailureKind, RunOutcome, VerdictTimes};
use report::results::{
    CellRecord, CellRun, CountRecord, GeneratorRecord, GroupRecord, LoadRecord, MeterRecord, PlanRecord,
    ResponseTimes, StepRecord, VerdictRecord, VisitorRecord,
};
use report::run::ContentDrift;
use stats::Histogram;

/// Content codings that the measured load accepts: the same as browsers.
pub(crate) const ACCEPTED_CODINGS: &str = "gzip, deflate, br, zstd";

/// Size limit of a decoded page in bytes.
const CONTENT_BYTES_MAX: usize = 16 << 20;

/// Records of the watched groups. The processor time per page is the group's time divided by
/// `answers`, in milliseconds.
pub(crate) fn groups(ladder: &Ladder, watch: &WatchFigures, answers: u64) -> Vec<GroupRecord> {
    let pairs = ladder.groups.iter().zip(&watch.groups);
    let record = pairs.map(|(group, seen)| GroupRecord {
        name: group.name.clone(),
        role: group.role.name().to_owned(),
        load: seen.load(),
        cpu_s: seen.cpu_seconds,
        cpu_per_page_ms: (answers > 0).then(|| seen.cpu_seconds * 1000.0 / answers as f64),
        pss_bytes: seen.pss_bytes,
        processes: seen.processes,
    });
    record.collect()
}

/// Mean and samples of the runnable and blocked tasks of all groups with role site or database.
/// There is no mean if no such group exists. There is none either if one of these groups has no
/// process, because its load would wrongly count as 0.
pub(crate) fn observed_load(ladder: &Ladder, watch: &WatchFigures) -> (Option<f64>, Vec<u32>) {
    let pairs = ladder.groups.iter().zip(&watch.groups);
    let mine = pairs.filter(|(group, _)| matches!(group.role, Role::Site | Role::Database));
    let mine: Vec<_> = mine.map(|(_, seen)| seen).collect();
    let count = mine.iter().map(|seen| seen.load_samples.len()).max().unwrap_or(0);
    let at = |sample: usize| mine.iter().filter_map(|seen| seen.load_samples.get(sample)).sum();
    let samples: Vec<u32> = (0..count).map(at).collect();
    let is_known = !mine.is_empty() && mine.iter().all(|seen| seen.processes > 0);
    (is_known.then(|| mine.iter().map(|seen| seen.load()).sum()), samples)
}

/// Number of failures of each kind that occurred.
pub(crate) fn failures(outcome: &RunOutcome) -> Vec<CountRecord> {
    let kinds = FailureKind::ALL.into_iter().map(|kind| (kind.name(), outcome.failures.of(kind)));
    let occurred = kinds.filter(|(_, count)| *count > 0);
    occurred.map(|(name, count)| CountRecord { name: name.to_owned(), count }).collect()
}

/// Good responses by the verdict of the nearest cache. Responses without a verdict come last, under
/// the name `none`.
pub(crate) fn verdicts(outcome: &RunOutcome) -> Vec<VerdictRecord> {
    let seconds = outcome.elapsed.as_secs_f64();
    let record = |verdict: &VerdictTimes| VerdictRecord {
        name: verdict.verdict.name().to_owned(),
        answers: verdict.total.count(),
        per_s: verdict.total.count() as f64 / seconds,
        response: Some(times(&verdict.total)),
    };
    let mut verdicts: Vec<VerdictRecord> = outcome.verdicts.iter().map(record).collect();
    let said: u64 = verdicts.iter().map(|verdict| verdict.answers).sum();
    let silent = outcome.good.saturating_sub(said);
    if silent > 0 {
        let name = "none".to_owned();
        // Response times exist for this row only if no response had a verdict. Otherwise the times
        // of responses without a verdict are not recorded separately.
        let response = verdicts.is_empty().then(|| response_times(outcome));
        verdicts.push(VerdictRecord { name, answers: silent, per_s: silent as f64 / seconds, response });
    }
    verdicts
}

/// Responses by kind of visitor in a cell's load; empty for the anonymous load.
pub(crate) fn visitors(ladder: &Ladder, cell: &Cell, outcome: &RunOutcome) -> Vec<VisitorRecord> {
    let Some(traffic) = cell.traffic.and_then(|position| ladder.loads.get(position)) else {
        return Vec::new();
    };
    let mut urls = outcome.urls.iter();
    let record = |audience: &Audience| {
        let session = audience.session.and_then(|position| ladder.sessions.get(position));
        // The load's URLs are in the order of its audiences: one for anonymous visitors, one for
        // each visitor of a session.
        let mine: Vec<_> = urls.by_ref().take(session.map_or(1, |of| of.visitors as usize)).collect();
        let complete: u64 = mine.iter().map(|url| url.complete).sum();
        let total_us: u64 = mine.iter().map(|url| url.total_us_sum).sum();
        VisitorRecord {
            name: session.map_or(ANONYMOUS, |session| &session.name).to_owned(),
            answers: mine.iter().map(|url| url.good).sum(),
            failed: mine.iter().map(|url| url.failed).sum(),
            mean_ms: (complete > 0).then(|| total_us as f64 / 1000.0 / complete as f64),
        }
    };
    traffic.visitors.iter().map(record).collect()
}

/// Response times of good responses in milliseconds.
pub(crate) fn response_times(outcome: &RunOutcome) -> ResponseTimes {
    times(&outcome.good_times.total)
}

fn times(total: &Histogram) -> ResponseTimes {
    let at = |percent| total.percentile_us(percent) as f64 / 1000.0;
    ResponseTimes {
        mean_ms: total.mean_us().round() / 1000.0,
        sd_ms: total.standard_deviation_us().round() / 1000.0,
        min_ms: total.min_us() as f64 / 1000.0,
        p50_ms: at(50.0),
        p75_ms: at(75.0),
        p90_ms: at(90.0),
        p95_ms: at(95.0),
        p99_ms: at(99.0),
        p999_ms: at(99.9),
        max_ms: total.max_us() as f64 / 1000.0,
    }
}

/// Resources that the generator used, and the result of its self-check.
pub(crate) fn generator(outcome: &RunOutcome) -> GeneratorRecord {
    GeneratorRecord {
        cpu_s: outcome.cpu.iter().map(std::time::Duration::as_secs_f64).sum(),
        busy_wait_s: outcome.busy_wait.as_secs_f64(),
        busiest_thread: outcome.check.cpu_share_max,
        trust: outcome.check.trust.to_string(),
        reasons: outcome.check.reasons.clone(),
        account: Some(report::run::UserTime::from(outcome)),
        is_real_time: outcome.is_real_time,
    }
}

/// Changes of the counters during the load.
pub(crate) fn meters(ladder: &Ladder, readings: &Readings) -> Vec<MeterRecord> {
    let seconds = readings.outcome.elapsed.as_secs_f64();
    let answers = readings.outcome.good;
    let record = ladder.meters.iter().zip(&readings.meters).map(|(meter, (before, after))| MeterRecord {
        name: meter.name.clone(),
        unit: meter.unit.clone(),
        per_s: (after - before) / seconds,
        per_page: (answers > 0).then(|| (after - before) / answers as f64),
    });
    record.collect()
}

/// Record of the plan.
pub(crate) fn plan(plan: &LadderPlan) -> PlanRecord {
    let id = |cell: &usize| plan.cells.get(*cell).map(|cell| cell.id.clone());
    PlanRecord {
        hash: plan.hash.clone(),
        effort: plan.effort.name().to_owned(),
        seed: plan.seed,
        rounds: plan.rounds(),
        order: plan.order.iter().map(|round| round.iter().filter_map(id).collect()).collect(),
    }
}

/// Records of the steps.
pub(crate) fn steps(ladder: &Ladder, references: &References) -> Vec<StepRecord> {
    let record = ladder.steps.iter().enumerate().map(|(place, step)| StepRecord {
        reference: references.declared_at(place).filter(|_| step.reference),
        id: step.id.clone(),
        number: step.number.clone(),
        title: step.title.clone(),
        about: step.about.clone(),
        cell: step.id.clone(),
        version: step.version.clone(),
        against: step.against.clone(),
    });
    record.collect()
}

/// Records of the planned loads other than the anonymous one, with their cells.
pub(crate) fn loads(ladder: &Ladder, plan: &LadderPlan, runs: &[CellRun]) -> Vec<LoadRecord> {
    let record = (0..).zip(&ladder.loads).map(|(position, traffic)| LoadRecord {
        id: traffic.id.clone(),
        title: traffic.title.clone(),
        about: traffic.about.clone(),
        cells: cells(ladder, plan, Some(position), runs),
    });
    record.filter(|load| !load.cells.is_empty()).collect()
}

/// Records of a load's cells with their runs; `None` is the anonymous load.
pub(crate) fn cells(
    ladder: &Ladder,
    plan: &LadderPlan,
    traffic: Option<usize>,
    runs: &[CellRun],
) -> Vec<CellRecord> {
    let record = plan.cells.iter().filter(|cell| cell.traffic == traffic).filter_map(|cell| {
        let step = ladder.steps.get(cell.step)?;
        let mut mine: Vec<CellRun> = runs.iter().filter(|run| run.cell == cell.id).cloned().collect();
        mine.sort_by_key(|run| run.round);
        Some(CellRecord {
            id: cell.id.clone(),
            step: step.id.clone(),
            concurrency: cell.load.concurrency,
            keepalive: cell.load.keepalive,
            ab: if traffic.is_none() { ab(cell, step) } else { String::new() },
            runs: mine,
        })
    });
    record.collect()
}

/// The ApacheBench command that repeats the load of a cell. `-t` takes whole seconds and sets a
/// limit of 50,000 requests, which a later `-n` replaces. `-l` lets responses differ in length, as
/// the ladder does. The URL is the shell variable `URL` because ports change from walk to walk.
fn ab(cell: &Cell, step: &LadderStep) -> String {
    const REQUESTS_MANY: u64 = 10_000_000;
    let load = &cell.load;
    let keepalive = if load.keepalive { "-k " } else { "" };
    let seconds = load.duration.as_millis().div_ceil(1000).max(1);
    // ab refuses a number of requests below the number of users.
    let requests = load.requests_max.unwrap_or(REQUESTS_MANY).max(load.concurrency);
    let host = step.host.as_ref().map(|host| format!("-H 'Host: {host}' ")).unwrap_or_default();
    let codings = format!("-H 'Accept-Encoding: {ACCEPTED_CODINGS}' ");
    format!("ab -l {keepalive}-t {seconds} -n {requests} -c {} {host}{codings}\"$URL\"", load.concurrency)
}

/// Describes in a few words what changed between two responses of a load. Content with gzip coding
/// is decoded first. The result is `None` if nothing changed, and also for other content codings,
/// which cannot be decoded here.
pub(crate) fn what_changed(outcome: &RunOutcome) -> Option<String> {
    let Some(coding) = outcome.first_field(b"content-encoding") else {
        return ContentDrift::of(outcome).map(|drift| drift.said_with_place());
    };
    let drift = outcome.drift.as_ref()?;
    let mut fields = message::Fields::new();
    fields.push("Content-Encoding", coding.to_vec());
    let plain = |content| page::decoded(&fields, content, CONTENT_BYTES_MAX).ok();
    let (first, other) = (plain(&drift.first)?, plain(&drift.other)?);
    (first != other).then(|| report::run::what_changed(&first, &other))
}

#[cfg(test)]
mod tests {
    use super::{ab, cells, observed_load, plan};
    use crate::{Choice, LadderPlan, read_ladder};
    use probe::{GroupFigures, HostFigures, WatchFigures};
    use report::results::{CellRun, VisitOutcome};

    const TEXT: &str = r#"
        title = "t"
        page = "/a?b=c"
        duration = "1500ms"
        ports = ["site"]
        group = [
            { name = "php", role = "site", pid = "1" },
            { name = "edge", role = "accelerator", pid = "2" },
            { name = "sql", role = "database", pid = "3" },
        ]
        [[step]]
        id = "a"
        title = "none"
        about = "Nothing."
        concurrency = 2
        host = "shop.example"
        address = "{site}"
        proof = [{ header = "X", is = "off" }]
        also = [{ keepalive = true, requests_max = 500 }]
    "#;

    #[test]
    fn ab_commands_repeat_the_load() {
        let ladder = read_ladder("t", TEXT, None).unwrap();
        let plan = LadderPlan::new(&ladder, Choice::default(), "1");
        let command = |cell: usize| ab(&plan.cells[cell], &ladder.steps[0]);
        assert_eq!(
            command(0),
            "ab -l -t 2 -n 10000000 -c 2 -H 'Host: shop.example' -H 'Accept-Encoding: gzip, deflate, br, zstd' \"$URL\""
        );
        assert_eq!(
            command(1),
            "ab -l -k -t 2 -n 500 -c 2 -H 'Host: shop.example' -H 'Accept-Encoding: gzip, deflate, br, zstd' \"$URL\""
        );
    }

    #[test]
    fn observed_load_adds_site_and_database() {
        let ladder = read_ladder("t", TEXT, None).unwrap();
        let group = |load_samples: &[u32]| GroupFigures {
            name: String::new(),
            load_samples: load_samples.to_vec(),
            cpu_seconds: 0.0,
            pss_bytes: None,
            processes: 1,
            tasks: 1,
        };
        let groups = vec![group(&[2, 4]), group(&[9, 9]), group(&[1, 0])];
        let mut watch = WatchFigures { seconds: 1.0, groups, host: HostFigures::default() };
        assert_eq!(observed_load(&ladder, &watch), (Some(3.5), vec![3, 4]));
        watch.groups[1].processes = 0;
        assert_eq!(observed_load(&ladder, &watch).0, Some(3.5), "the accelerator's load is not observed");
        watch.groups[2].processes = 0;
        assert_eq!(observed_load(&ladder, &watch).0, None, "the database was not found");
    }

    #[test]
    fn runs_are_sorted_by_cell_and_round() {
        let ladder = read_ladder("t", TEXT, None).unwrap();
        let plan_made = LadderPlan::new(&ladder, Choice::default(), "1");
        let run = |cell: &str, round| CellRun {
            cell: cell.to_owned(),
            round,
            started_at_s: 0,
            visit_s: 1.0,
            outcome: VisitOutcome::Void { reason: String::new(), is_silent: false },
        };
        let runs = [run("a", 2), run("a-c2-keepalive", 1), run("a", 1)];
        let cells = cells(&ladder, &plan_made, None, &runs);
        assert_eq!(cells[0].runs, [run("a", 1), run("a", 2)]);
        assert_eq!(cells[1].runs, [run("a-c2-keepalive", 1)]);
        assert_eq!(plan(&plan_made).order.len(), 3);
    }
}
