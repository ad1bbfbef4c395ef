//! The figures of the dashboard, read from the running edge.
//!
//! Invariant: reading changes nothing and waits for nothing.

use crate::control::admin::status;
use crate::shared::Shared;
use api::dashboard::{
    DashboardData, History, MachineFigures, ROWS_MAX, ReasonFigures, SiteFigures, VerdictFigures,
};
use dashboard::{FileCertificate, Range};
use semantics::{Reason, Verdict};

/// The figures of now.
pub(crate) fn data(shared: &Shared) -> DashboardData {
    DashboardData {
        at_secs: shared.clock.now().as_secs(),
        status: status(shared),
        machine: MachineFigures {
            resident_bytes: platform::resident_bytes(),
            memory_bytes_max: shared.plan.memory_bytes,
            ..MachineFigures::default()
        },
        sites: vec![SiteFigures {
            site: "all".to_owned(),
            verdicts: verdicts(shared),
            path_groups: Vec::new(),
        }],
        reasons: reasons(shared),
        hottest: Vec::new(),
        misses: Vec::new(),
        costs: Vec::new(),
    }
}

/// The values of the last minutes.
pub(crate) const fn history(_shared: &Shared, _range: Range) -> History {
    History { first_minute: 0, series: Vec::new() }
}

/// The summary of the last week.
pub(crate) const fn summary(_shared: &Shared) -> Option<String> {
    None
}

/// The certificates that serve.
pub(crate) fn certificates(shared: &Shared) -> Vec<FileCertificate> {
    let expiries = shared.listeners.expiries().into_iter();
    expiries.map(|(names, at)| FileCertificate { names, expires_secs: at.as_secs() }).collect()
}

fn verdicts(shared: &Shared) -> Vec<VerdictFigures> {
    let count = |verdict: Verdict| {
        let own = Reason::ALL.iter().filter(|reason| reason.verdict() == verdict);
        own.map(|&reason| shared.counters.requests(reason)).sum::<u64>()
    };
    let figures = Verdict::ALL.map(|verdict| VerdictFigures {
        verdict: verdict.name().to_owned(),
        requests: count(verdict),
        p50_micros: None,
        p95_micros: None,
        p99_micros: None,
    });
    figures.into_iter().filter(|figures| figures.requests > 0).collect()
}

fn reasons(shared: &Shared) -> Vec<ReasonFigures> {
    let figures = |&reason: &Reason| {
        let advice = reason.advice();
        let (meaning, fix) = advice.split_once("; ").unwrap_or((advice, ""));
        ReasonFigures {
            reason: reason.name().to_owned(),
            verdict: reason.verdict().name().to_owned(),
            requests: shared.counters.requests(reason),
            meaning: meaning.to_owned(),
            fix: fix.to_owned(),
        }
    };
    let mut reasons: Vec<_> =
        Reason::ALL.iter().map(figures).filter(|figures| figures.requests > 0).collect();
    reasons.sort_by_key(|figures| std::cmp::Reverse(figures.requests));
    reasons.truncate(ROWS_MAX);
    reasons
}
