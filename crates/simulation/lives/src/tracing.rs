//! The export of traces in a life: its settings, its collector, and what is expected of it.
//!
//! Invariant: the edge says of no more spans that they were exported than the collector has
//! accepted. A collector that hangs is no fault that would explain a late response.

use crate::life::{BACKLOG, Life, link};
use crate::society::Society;
use actors::{Collector, Timeline};
use edge::{EmbeddedEdge, Metric};
use std::sync::Arc;
use world::{Pipe, Random, World};

/// How often an edge exports traces.
const EXPORTS_PERCENT: u64 = 25;

/// The URL and the address of the collector.
const COLLECTOR: &str = "http://192.0.2.3:4318";
const COLLECTOR_ADDRESS: &str = "192.0.2.3:4318";

/// The export of traces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceSettings {
    /// One of this many requests begins a trace.
    pub every: u64,
    /// Whether shared fetches have traces of their own.
    pub has_fetches: bool,
}

impl TraceSettings {
    /// Settings by chance, in part of the cases.
    pub(crate) fn random(seed: u64) -> Option<Self> {
        let mut random = Random::fork(seed, "traces", 0);
        let is_wanted = random.percent(EXPORTS_PERCENT);
        let every = *random.choice(&[1, 1, 2, 7])?;
        is_wanted.then(|| Self { every, has_fetches: random.percent(50) })
    }

    /// The lines of the configuration.
    pub(crate) fn configuration(self) -> String {
        let Self { every, has_fetches } = self;
        format!(
            "trace_export = \"{COLLECTOR}\"\ntrace_export_every = {every}\ntrace_fetches = {has_fetches}\n"
        )
    }
}

/// Makes the collector of a life listen, if the edge exports traces.
pub(crate) fn collect(world: &World, society: &Society, timeline: Timeline) -> Option<Collector> {
    society.settings.traces?;
    let address = COLLECTOR_ADDRESS.parse().ok()?;
    let seed = world.random("collector", 0).number();
    let collector = Collector::new(Arc::clone(&society.ledger), timeline, seed);
    world.network().set_settings(&address, Some(link(world, 0)));
    let mut accepted = world.network().listen(&address, BACKLOG);
    let own = collector.clone();
    tokio::spawn(async move {
        while let Some(pipe) = accepted.recv().await {
            let collector = own.clone();
            tokio::spawn(async move { collector.serve::<Pipe>(pipe).await });
        }
    });
    Some(collector)
}

impl Life {
    /// Checks the count of spans that a process calls exported. Other processes of the life may have
    /// sent some to the same collector.
    pub(crate) fn check_exported(&self, edge: &EmbeddedEdge) {
        let Some(collector) = &self.collector else { return };
        let (exported, accepted) = (edge.metric(Metric::TraceSpansExported), collector.accepted());
        if exported > accepted {
            self.violate(format!("{exported} spans are called exported, but the collector has {accepted}"));
        }
    }
}
