//! Builds the outcome of a run from the records of its threads.
//!
//! Invariant: an outcome consists of sums, merged distributions and judgements of them. Nothing is
//! measured here.

use crate::recorder::Recorder;
use crate::shared::LoadContext;
use crate::worker::Report;
use clock::{Monotonic, Timestamp};
use record::{
    CheckInput, Drift, Ended, FailureKind, LittlesLaw, OpenLoop, RunOutcome, SelfCheck, StageOutcome,
    UrlOutcome,
};
use std::time::Duration;

/// Facts about a run that are not in its records.
pub(crate) struct RunFacts {
    pub(crate) threads: usize,
    pub(crate) is_real_time: bool,
    /// When the measured part began.
    pub(crate) started: Timestamp,
    pub(crate) dns: Duration,
    /// When the last thread ended.
    pub(crate) now: Monotonic,
}

/// Merges the reports of the threads.
pub(crate) fn conclude(shared: &LoadContext<'_>, reports: Vec<Report>, facts: RunFacts) -> RunOutcome {
    let is_exhausted = reports.iter().any(|report| report.is_exhausted);
    let mut first_head = Vec::new();
    let mut reports = reports.into_iter().map(|report| {
        if first_head.is_empty() {
            first_head = report.first_head;
        }
        report.recorder
    });
    let mut recorder = reports.next().unwrap_or_default();
    reports.for_each(|other| recorder.merge(other));
    let ended = shared.ended().unwrap_or(if is_exhausted { Ended::Requests } else { Ended::Time });
    let end = match ended {
        Ended::Requests => recorder.last_end,
        Ended::Time => shared.course.end().unwrap_or(facts.now),
        Ended::Stopped | Ended::TargetGone | Ended::ReceiveError | Ended::Failing => facts.now,
    };
    let mut outcome = counted(shared, &mut recorder);
    outcome.tls = shared.tls.as_ref().and_then(|tls| tls.agreement()).cloned();
    outcome.dns = facts.dns;
    outcome.threads = facts.threads;
    outcome.is_real_time = facts.is_real_time;
    outcome.started = facts.started;
    outcome.ended = ended;
    outcome.elapsed = shared.course.elapsed(end);
    outcome.first_head = first_head;
    outcome.ab = shared.ab_account();
    outcome.rate_asked = shared.course.rate_asked(end);
    outcome.seconds = shared.control.series.finish();
    outcome.urls = urls(shared, &recorder);
    outcome.drift = drift(shared, &recorder);
    if !shared.plan.stages.is_empty() {
        outcome.stages = stages(shared, &recorder, end);
    }
    let mut records = std::mem::take(&mut recorder.stages).into_iter();
    if let Some(mut whole) = records.next() {
        records.for_each(|record| whole.merge(record));
        (outcome.good_times, outcome.wrong_times, outcome.verdicts) = whole.times();
    }
    outcome.check = check(shared, &outcome, &recorder, end);
    outcome
}

/// The counters of the outcome.
fn counted(shared: &LoadContext<'_>, recorder: &mut Recorder) -> RunOutcome {
    let mut samples = std::mem::take(&mut recorder.samples);
    samples.sort_unstable_by_key(|sample| sample.start_us);
    samples.truncate(shared.plan.samples_max as usize);
    RunOutcome {
        complete: recorder.counters.complete,
        good: recorder.counters.good,
        failures: recorder.counters.failures,
        length_differs: recorder.length_differs,
        statuses: std::mem::take(&mut recorder.statuses),
        received_bytes: recorder.counters.received_bytes,
        content_bytes: recorder.content_bytes,
        sent_bytes: recorder.sent_bytes,
        document_bytes: shared.contents.document_bytes(0),
        lengths_known: recorder.lengths_known,
        kept: recorder.kept,
        connections: recorder.connections,
        resumed: recorder.resumed,
        resent: recorder.resent,
        closed_by_us: recorder.closed_by_us,
        requests_per_connection: recorder.requests_per_connection(),
        unfinished: recorder.unfinished,
        not_started: recorder.counters.not_started,
        late: recorder.late,
        cpu: std::mem::take(&mut recorder.cpu),
        busy_wait: recorder.busy_wait,
        samples,
        ..RunOutcome::of(shared.plan.clone(), shared.address(0))
    }
}

fn urls(shared: &LoadContext<'_>, recorder: &Recorder) -> Vec<UrlOutcome> {
    let urls = shared.routes.urls.iter().zip(&recorder.urls).enumerate();
    let outcome =
        |(place, (target, record)): (usize, (&record::WeightedTarget, &crate::recorder::UrlRecord))| {
            UrlOutcome {
                target: target.clone(),
                complete: record.complete,
                good: record.good,
                failed: record.failed,
                document_bytes: shared.contents.document_bytes(place),
                total_us_sum: record.total_us_sum,
                total_us_max: record.total_us_max,
            }
        };
    urls.map(outcome).collect()
}

fn drift(shared: &LoadContext<'_>, recorder: &Recorder) -> Option<Drift> {
    let (url, first, other) = shared.contents.differing()?;
    let (compared, differing) = (recorder.contents_compared, recorder.contents_differing);
    Some(Drift { url, compared, differing, first, other })
}

fn stages(shared: &LoadContext<'_>, recorder: &Recorder, end: Monotonic) -> Vec<StageOutcome> {
    let stages = (0..).zip(&shared.plan.stages).zip(&recorder.stages);
    let outcome = |((place, stage), record): ((u16, &record::Stage), &crate::stage_record::StageRecord)| {
        let (good_times, wrong_times, _) = record.times();
        StageOutcome {
            stage: *stage,
            elapsed: shared.course.measured(place, end),
            complete: record.complete,
            good: record.good,
            failures: record.failures,
            not_started: record.not_started,
            late: record.late,
            good_times,
            wrong_times,
        }
    };
    stages.map(outcome).collect()
}

fn check(shared: &LoadContext<'_>, outcome: &RunOutcome, recorder: &Recorder, end: Monotonic) -> SelfCheck {
    let duration = |nanos: u128| Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
    // A user has up to this many requests in flight on its connection.
    let streams = u32::try_from(shared.plan.pipeline).unwrap_or(u32::MAX);
    let user_time = shared.course.user_time(end).map(|time| time.saturating_mul(streams));
    let open = outcome.rate_asked.map(|rate_asked| OpenLoop {
        rate_asked,
        time: shared.course.open_time(end),
        has_users: shared.course.has_users(),
        // Every request that fell due has a lag. Requests of users in other stages have none.
        started: recorder.schedule_lag.count() - outcome.not_started,
        not_started: outcome.not_started,
        schedule_lag_p99_us: recorder.schedule_lag.percentile_us(99.0),
    });
    let account = recorder.ledger.account();
    let little = match user_time {
        Some(user_time) => {
            let requests = duration(recorder.in_flight_ns + recorder.waited_ns);
            LittlesLaw::closed(requests, recorder.pauses.until(end), &account, user_time)
        }
        None => LittlesLaw::open(
            duration(recorder.in_flight_ns + recorder.unfinished_ns),
            duration(recorder.in_flight_area_ns),
        ),
    };
    let (total_us, connect_us) = (outcome.good_times.total.sum_us(), outcome.good_times.connect.sum_us());
    SelfCheck::judge(&CheckInput {
        users: user_time.map(|_| crate::connections_max(shared.plan).saturating_mul(shared.plan.pipeline)),
        elapsed: outcome.elapsed,
        cpu: &outcome.cpu,
        requests: outcome.requests(),
        little,
        latency_p50_us: outcome.complete_times().total.median_us(),
        lag_p99_us: recorder.lag.percentile_us(99.0),
        addresses_missing: outcome.failures.of(FailureKind::Address),
        open,
        account,
        good: outcome.good,
        published: duration(total_us.saturating_sub(connect_us).saturating_mul(1_000)),
        core_wait: recorder.core_wait,
        held_back: recorder.held_back,
        held_back_excess: recorder.held_back_excess,
        ends_with_close: recorder.ends_with_close,
    })
}
