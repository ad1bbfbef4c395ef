//! Conversion of a run in page mode into a [`Run`] in which each page is one request. Conditions
//! and comparisons thus handle a single type.
//!
//! Invariant: no figure is invented. Members that page mode does not count stay unknown.

use super::{Distribution, GeneratorCheck, Phases, RequestedLoad, Run, SCHEMA, SOURCE_PETASOS};
use crate::page::PageRun;
use serde::Serialize;

/// Requested settings of page mode, in addition to those of every run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct RequestedPages {
    /// Share of returning visitors, 0 to 1.
    pub returning: f64,
    /// Largest number of connections of a visitor to one host.
    pub connections_per_host_max: u64,
    /// Shortest think time after a page, in seconds.
    pub think_min_s: f64,
    /// Longest think time after a page, in seconds.
    pub think_max_s: f64,
    /// Time for which connections stayed open after their page, in seconds.
    pub linger_s: f64,
}

impl From<&PageRun> for Run {
    fn from(run: &PageRun) -> Self {
        let counts = &run.pages;
        let failed = counts.incomplete + counts.failed;
        let is_closed = run.rate_asked_per_s.is_none();
        let times: Distribution = run.page_times;
        Self {
            schema: SCHEMA.to_owned(),
            source: SOURCE_PETASOS.to_owned(),
            url: Some(run.url.clone()),
            started_s: Some(run.started_s),
            elapsed_s: Some(run.elapsed_s),
            ended: Some(run.ended.clone()),
            round: run.round.clone(),
            plan: RequestedLoad {
                users: is_closed.then_some(run.users),
                in_flight_max: (!is_closed).then_some(run.users),
                arrival: Some(if is_closed { "closed" } else { "constant" }.to_owned()),
                protocol: Some(run.protocol.clone()),
                ..RequestedLoad::default()
            },
            pages: Some(RequestedPages {
                returning: run.returning_asked,
                connections_per_host_max: run.connections_per_host_max,
                think_min_s: run.think_min_s,
                think_max_s: run.think_max_s,
                linger_s: run.linger_s,
            }),
            requests: Some(counts.good + failed),
            good: Some(counts.good),
            failed: Some(failed),
            failed_by_kind: run.failed_by_kind.clone(),
            unfinished: Some(counts.unfinished),
            not_started: Some(counts.not_started),
            rate_asked_per_s: run.rate_asked_per_s,
            good_per_s: Some(run.pages_per_s),
            good_times: Phases { latency: times, total: times, ..Phases::default() },
            generator: GeneratorCheck {
                trust: Some(run.generator.trust.clone()),
                reasons: run.generator.reasons.clone(),
                cpu_s: run.generator.cpu_s.clone(),
                cpu_share_max: Some(run.generator.cpu_share_max),
                ..GeneratorCheck::default()
            },
            thresholds: run.thresholds.clone(),
            ..Self::default()
        }
    }
}
