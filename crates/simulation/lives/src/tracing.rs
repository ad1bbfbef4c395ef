//! The export of traces in a life: its settings and its collector.
//!
//! Invariant: no conduct of the collector makes the edge work less well. A collector that
//! hangs is no fault that would explain a late response, or a late end of the edge.

use crate::life::{BACKLOG, Life, link};
use crate::society::Society;
use actors::{Collector, Timeline, lock};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use world::{ConnectMode, Pipe, Random, World};

/// How often an edge exports traces.
const EXPORTS_PERCENT: u64 = 25;

/// How often the collector accepts everything, and how often it cannot be reached as it should be.
const SOUND_PERCENT: u64 = 40;
const DISTANT_PERCENT: u64 = 20;

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
    /// The largest number of requests a second for which clients ask; `None` for the default.
    pub clients_max: Option<u64>,
    /// Whether the collector accepts everything.
    pub is_sound: bool,
    /// The behaviour of the address of the collector.
    pub reach: ConnectMode,
}

impl TraceSettings {
    /// Settings by chance, in part of the cases.
    pub(crate) fn random(seed: u64) -> Option<Self> {
        let mut random = Random::fork(seed, "traces", 0);
        let is_wanted = random.percent(EXPORTS_PERCENT);
        let every = *random.choice(&[1, 1, 2, 7])?;
        let has_fetches = random.percent(50);
        let clients_max = *random.choice(&[None, None, Some(0), Some(1)])?;
        let is_sound = random.percent(SOUND_PERCENT);
        let is_distant = random.percent(DISTANT_PERCENT) && !is_sound;
        let modes = [ConnectMode::Refuse, ConnectMode::Hang, ConnectMode::Slow(random.between(100, 12_000))];
        let reach = *random.choice(&modes).filter(|_| is_distant).unwrap_or(&ConnectMode::Accept);
        is_wanted.then_some(Self { every, has_fetches, clients_max, is_sound, reach })
    }

    /// The lines of the configuration.
    pub(crate) fn configuration(self) -> String {
        let Self { every, has_fetches, .. } = self;
        format!(
            "trace_export = \"{COLLECTOR}\"\ntrace_export_every = {every}\ntrace_fetches = {has_fetches}\n"
        )
    }
}

/// Makes the collector of a life listen, if the edge exports traces.
pub(crate) fn collect(world: &World, society: &Society, timeline: Timeline) {
    let (Some(settings), Ok(address)) = (society.settings.traces, COLLECTOR_ADDRESS.parse()) else { return };
    let mut random = world.random("collector", 0);
    // A request beyond the limit of clients is counted as a lost span.
    let loses_none = settings.is_sound && settings.clients_max.is_none();
    let has_fragments = society.settings.assembles.0;
    lock(&society.ledger).watch_traces(random.number(), loses_none, has_fragments);
    let ledger = Arc::clone(&society.ledger);
    let collector = Collector::new(ledger, timeline, random.number(), settings.is_sound);
    world.network().set_settings(&address, Some(link(world, 0)));
    world.network().set_mode(&address, settings.reach);
    let mut accepted = world.network().listen(&address, BACKLOG);
    tokio::spawn(async move {
        while let Some(pipe) = accepted.recv().await {
            let collector = collector.clone();
            tokio::spawn(async move { collector.serve::<Pipe>(pipe).await });
        }
    });
}

impl Life {
    /// Gives the ledger the numbers of spans that an ended process calls exported and lost.
    pub(crate) fn check_spans(&self, counts: (u64, u64)) {
        let is_last = self.society.upkeep.processes.load(Ordering::Relaxed) <= 1;
        lock(&self.society.ledger).spans_counted(self.timeline.now(), counts, is_last);
    }
}

#[cfg(test)]
mod tests {
    use super::TraceSettings;
    use std::collections::BTreeSet;

    #[test]
    fn part_of_the_runs_export_to_all_kinds_of_collectors() {
        let all: Vec<_> = (0..400).filter_map(TraceSettings::random).collect();
        assert!((60..140).contains(&all.len()), "{}", all.len());
        let met: BTreeSet<_> = all.iter().map(|traces| format!("{:?}", traces.reach)).collect();
        assert!(met.len() > 3 && all.iter().any(|traces| traces.is_sound));
        assert!(all.iter().all(|traces| traces.configuration().lines().count() == 3));
    }
}
