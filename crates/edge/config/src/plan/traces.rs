//! Where spans of requests go, and which requests have them.
//!
//! Invariant: a running edge cannot change the destination. It can change the sampling.

use crate::levels::SettingLevels;
use address::HttpUrl;
use document::{Diagnostic, Place};

/// The export of traces (`trace_export`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracePlan {
    /// The collector that receives OTLP over HTTP.
    pub collector: HttpUrl,
    /// The name of the service in the spans.
    pub service: String,
    /// One of this many requests without a trace begins one; at least 1.
    pub every: u64,
}

impl TracePlan {
    pub(super) fn resolve(top: &SettingLevels<'_>) -> Option<Self> {
        Some(Self {
            // `problems` refuses other texts.
            collector: HttpUrl::parse(top.text("trace_export")?).ok()?,
            service: top.text("trace_service").unwrap_or_default().to_owned(),
            every: top.count("trace_export_every").unwrap_or(1),
        })
    }

    /// Whether spans go to the same place under the same name.
    pub(super) fn is_same_destination(&self, other: &Self) -> bool {
        (&self.collector, &self.service) == (&other.collector, &other.service)
    }
}

/// Refuses a collector that cannot be reached.
pub(super) fn problems(top: &SettingLevels<'_>) -> Option<Diagnostic> {
    let url = top.text("trace_export")?;
    if HttpUrl::parse(url).is_ok_and(|url| !url.is_https() && !url.as_str().contains(['?', '#'])) {
        return None;
    }
    let place = top.place("trace_export").unwrap_or(Place::Default);
    let problem = Diagnostic::new(format!("`trace_export` is not the http URL of a collector: {url}"), place);
    Some(problem.with_help(
        "write for example trace_export = \"http://127.0.0.1:4318\"; for https, let a collector on this \
         machine forward the spans",
    ))
}
