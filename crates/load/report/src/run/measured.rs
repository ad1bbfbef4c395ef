//! Conversion of the load tester's results into a [`Run`].

use super::{
    ConnectionCounts, ContentDrift, Distribution, GeneratorCheck, Phases, RequestedLoad, Run, RunSecond,
    SCHEMA, SOURCE_PETASOS, StageFigures, Url, UserTime,
};
use record::{Arrival, CacheVerdict, FailureKind, Failures, Length, Rate, RunOutcome, StageLoad, Times};
use stats::Histogram;
use std::collections::BTreeMap;

impl From<&RunOutcome> for Run {
    fn from(outcome: &RunOutcome) -> Self {
        let plan = &outcome.plan;
        Self {
            schema: SCHEMA.to_owned(),
            source: SOURCE_PETASOS.to_owned(),
            url: Some(plan.target.to_string()),
            address: Some(outcome.address.to_string()),
            started_s: Some(outcome.started.as_micros() as f64 / 1e6),
            elapsed_s: Some(outcome.elapsed.as_secs_f64()),
            ended: Some(outcome.ended.name().to_owned()),
            round: None,
            plan: RequestedLoad::from(plan),
            pages: None,
            requests: Some(outcome.requests()),
            complete: Some(outcome.complete),
            good: Some(outcome.good),
            failed: Some(outcome.failures.total()),
            failed_by_kind: by_kind(&outcome.failures),
            unfinished: Some(outcome.unfinished),
            not_started: Some(outcome.not_started),
            late: Some(outcome.late.complete),
            rate_asked_per_s: outcome.rate_asked,
            good_per_s: Some(outcome.good_per_second()),
            complete_per_s: Some(outcome.complete_per_second()),
            statuses: outcome.statuses.iter().map(|(code, count)| (code.to_string(), count)).collect(),
            document_bytes: outcome.document_bytes,
            length_differs: Some(outcome.length_differs),
            lengths_known: Some(outcome.lengths_known),
            received_bytes: Some(outcome.received_bytes),
            content_bytes: Some(outcome.content_bytes),
            sent_bytes: Some(outcome.sent_bytes),
            server_software: Some(outcome.server_software()),
            dns_s: Some(outcome.dns.as_secs_f64()),
            connections: ConnectionCounts::from(outcome),
            good_times: Phases::from(&outcome.good_times),
            wrong_times: Phases::from(&outcome.wrong_times),
            verdicts: outcome
                .verdicts
                .iter()
                .map(|of| (of.verdict.name().to_owned(), Distribution::from(&of.total)))
                .collect(),
            seconds: outcome.seconds.iter().map(RunSecond::from).collect(),
            stages: outcome.stages.iter().map(StageFigures::from).collect(),
            urls: outcome.urls.iter().map(Url::from).collect(),
            drift: ContentDrift::of(outcome),
            generator: GeneratorCheck::from(outcome),
            thresholds: Vec::new(),
            machine: None,
        }
    }
}

/// Word for the arrival process of a plan.
fn arrival(plan: &record::Plan) -> &'static str {
    match plan.arrival {
        _ if !plan.stages.is_empty() => "stages",
        Arrival::Closed => "closed",
        Arrival::Open { rate: Rate::Constant(_), .. } => "constant",
        Arrival::Open { rate: Rate::Poisson(_), .. } => "poisson",
        Arrival::Open { rate: Rate::Ramp { .. }, .. } => "ramp",
    }
}

fn by_kind(failures: &Failures) -> BTreeMap<String, u64> {
    FailureKind::ALL.into_iter().map(|kind| (kind.name().to_owned(), failures.of(kind))).collect()
}

impl From<&record::Plan> for RequestedLoad {
    fn from(plan: &record::Plan) -> Self {
        let is_closed = matches!(plan.arrival, Arrival::Closed) && plan.stages.is_empty();
        Self {
            users: is_closed.then_some(plan.users as u64),
            arrival: Some(arrival(plan).to_owned()),
            in_flight_max: match plan.arrival {
                Arrival::Open { in_flight_max, .. } => Some(in_flight_max as u64),
                Arrival::Closed => None,
            },
            ramp_up_s: Some(plan.ramp.as_secs_f64()),
            pipeline: Some(plan.pipeline as u64),
            seed: Some(plan.seed),
            requests: plan.stop.requests,
            time_s: plan.stop.time.map(|time| time.as_secs_f64()),
            warmup_s: Some(plan.warmup.as_secs_f64()),
            timeout_s: Some(plan.timeout.as_secs_f64()),
            keep_alive: Some(plan.keep_alive),
            close: Some(plan.close.name().to_owned()),
            protocol: Some(plan.http.name().to_owned()),
            method: Some(plan.method.to_string()),
            body_bytes: Some(plan.body.as_ref().map_or(0, |body| body.content.len() as u64)),
            expect_status: Some(plan.expect.status.to_string()),
            expect_constant_length: Some(plan.expect.length == Length::Constant),
        }
    }
}

impl From<&RunOutcome> for ConnectionCounts {
    fn from(outcome: &RunOutcome) -> Self {
        let each = outcome.requests_per_connection;
        Self {
            opened: Some(outcome.connections),
            resumed: Some(outcome.resumed),
            kept: Some(outcome.kept),
            resent: Some(outcome.resent),
            closed_by_us: Some(outcome.closed_by_us),
            requests_min: Some(each.min),
            requests_mean: Some(each.mean),
            requests_max: Some(each.max),
        }
    }
}

impl From<&Times> for Phases {
    fn from(times: &Times) -> Self {
        Self {
            connect: Distribution::from(&times.connect),
            tls: Distribution::from(&times.tls),
            processing: Distribution::from(&times.processing),
            waiting: Distribution::from(&times.waiting),
            transfer: Distribution::from(&times.transfer),
            total: Distribution::from(&times.total),
            latency: Distribution::from(times.latency()),
        }
    }
}

impl From<&Histogram> for Distribution {
    fn from(histogram: &Histogram) -> Self {
        let percentile = |percent| Some(histogram.percentile_us(percent));
        Self {
            count: Some(histogram.count()),
            min_us: Some(histogram.min_us()),
            mean_us: Some(histogram.mean_us()),
            sd_us: Some(histogram.standard_deviation_us()),
            p50_us: percentile(50.0),
            p75_us: percentile(75.0),
            p90_us: percentile(90.0),
            p95_us: percentile(95.0),
            p99_us: percentile(99.0),
            p999_us: percentile(99.9),
            max_us: Some(histogram.max_us()),
        }
    }
}

impl From<&record::Second> for RunSecond {
    fn from(second: &record::Second) -> Self {
        let named = |counts: &[u64], name: &dyn Fn(usize) -> String| {
            let counts = counts.iter().enumerate().filter(|(_, count)| **count > 0);
            counts.map(|(place, count)| (name(place), *count)).collect::<BTreeMap<String, u64>>()
        };
        let verdict = |place: usize| {
            CacheVerdict::ALL.get(place).map_or_else(String::new, |verdict| verdict.name().to_owned())
        };
        let class = |place: usize| if place == 0 { "other".to_owned() } else { format!("{place}xx") };
        let answered = second.statuses.iter().sum::<u64>() > 0;
        let known = |value: u64| answered.then_some(value);
        let mut failed_by_kind = by_kind(&second.failures);
        failed_by_kind.retain(|_, count| *count > 0);
        Self {
            second: u64::from(second.second),
            users: second.users,
            in_flight: second.in_flight,
            started: second.started,
            good: second.good,
            failed: second.failures.total(),
            not_started: second.not_started,
            failed_by_kind,
            statuses: named(&second.statuses, &class),
            verdicts: named(&second.verdicts, &verdict),
            received_bytes: second.received_bytes,
            host_busy: None,
            generator_busy: None,
            p50_us: known(second.p50_us),
            p95_us: known(second.p95_us),
            p99_us: known(second.p99_us),
            max_us: known(second.max_us),
        }
    }
}

impl From<&record::StageOutcome> for StageFigures {
    fn from(stage: &record::StageOutcome) -> Self {
        let (users, rate_per_s) = match stage.stage.load {
            StageLoad::Users(users) => (Some(users as u64), None),
            StageLoad::Rate(rate) => (None, Some(rate)),
        };
        Self {
            users,
            rate_per_s,
            elapsed_s: stage.elapsed.as_secs_f64(),
            complete: stage.complete,
            good: stage.good,
            good_per_s: stage.good_per_second(),
            failed_by_kind: by_kind(&stage.failures),
            not_started: stage.not_started,
            good_times: Phases::from(&stage.good_times),
        }
    }
}

impl From<&record::UrlOutcome> for Url {
    fn from(of: &record::UrlOutcome) -> Self {
        let answered = of.complete > 0;
        Self {
            url: of.target.target.to_string(),
            weight: u64::from(of.target.weight),
            complete: of.complete,
            good: of.good,
            failed: of.failed,
            document_bytes: of.document_bytes,
            mean_us: answered.then(|| of.total_us_sum as f64 / of.complete as f64),
            max_us: answered.then_some(of.total_us_max),
        }
    }
}

impl From<&RunOutcome> for GeneratorCheck {
    fn from(outcome: &RunOutcome) -> Self {
        Self {
            trust: Some(outcome.check.trust.to_string()),
            reasons: outcome.check.reasons.clone(),
            cpu_s: outcome.cpu.iter().map(std::time::Duration::as_secs_f64).collect(),
            cpu_share_max: Some(outcome.check.cpu_share_max),
            lag_p99_us: Some(outcome.check.lag_p99_us),
            little_residual: outcome.check.little_residual,
            may_have_lost: outcome.check.may_have_lost,
            account: Some(UserTime::from(outcome)),
        }
    }
}
