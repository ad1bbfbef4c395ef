//! What the tasks of a life, and the lives of a run, share.

use crate::past::SharedPast;
use crate::settings::Settings;
use actors::{FloodCounts, SharedLedger, SharedSite};
use edge::EmbeddedEdge;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// The state that the lives of a run share.
#[derive(Clone)]
pub(crate) struct Society {
    /// The settings with which the life began.
    pub(crate) settings: Settings,
    /// The configuration, which reloads change. The next life begins with it.
    pub(crate) file: Arc<Mutex<Settings>>,
    pub(crate) site: SharedSite,
    pub(crate) ledger: SharedLedger,
    /// Bytes that the process has allocated, for the bound of the memory; 0 if unknown.
    pub(crate) allocated_bytes: fn() -> u64,
    /// What is known of the minutes and weeks that the edge keeps.
    pub(crate) past: SharedPast,
    /// What this life has of the operator.
    pub(crate) upkeep: Upkeep,
}

/// What the tasks of an operator share in a life.
#[derive(Clone)]
pub(crate) struct Upkeep {
    /// The processes of the edge that have not ended.
    pub(crate) processes: Arc<AtomicU64>,
    pub(crate) fetches: Arc<FetchBounds>,
    /// An operator does not change the configuration while a process takes over, because that one
    /// has read it already.
    pub(crate) turn: Arc<tokio::sync::Mutex<()>>,
    /// The refusals that clients of the guard have seen.
    pub(crate) refusals: Arc<Mutex<FloodCounts>>,
}

impl Upkeep {
    /// For a life that begins with one process and this largest number of fetches.
    pub(crate) fn new(fetches: usize) -> Self {
        let processes = Arc::new(AtomicU64::new(1));
        let fetches = Arc::new(FetchBounds::new(fetches));
        Self { processes, fetches, turn: Arc::default(), refusals: Arc::default() }
    }
}

/// The largest numbers of fetches of the configurations that a life has had.
pub(crate) struct FetchBounds {
    /// The largest number of one configuration.
    largest: AtomicUsize,
    /// Their sum. Fetches from replaced origins go on.
    all: AtomicUsize,
}

impl FetchBounds {
    fn new(fetches: usize) -> Self {
        Self { largest: AtomicUsize::new(fetches), all: AtomicUsize::new(fetches) }
    }

    /// Counts the fetches of a configuration that may replace all earlier origins.
    pub(crate) fn replace(&self, fetches: usize) {
        self.largest.fetch_max(fetches, Ordering::Relaxed);
        self.all.fetch_add(fetches, Ordering::Relaxed);
    }

    pub(crate) fn largest(&self) -> usize {
        self.largest.load(Ordering::Relaxed)
    }

    pub(crate) fn all(&self) -> usize {
        self.all.load(Ordering::Relaxed)
    }
}

/// The edge of a life. `None` before its start and after its end.
pub(crate) type SharedEdge = Arc<Mutex<Option<EmbeddedEdge>>>;

#[cfg(test)]
mod tests {
    use super::FetchBounds;

    #[test]
    fn replaced_fetches_count_beside_the_largest_number() {
        let counts = FetchBounds::new(2);
        counts.replace(3);
        counts.replace(1);
        assert_eq!((counts.largest(), counts.all()), (3, 6));
    }
}
