//! What the tasks of a life, and the lives of a run, share.

use crate::settings::Settings;
use actors::{SharedLedger, SharedSite};
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
    /// What this life has of the operator.
    pub(crate) upkeep: Upkeep,
}

/// What the tasks of an operator share in a life.
#[derive(Clone)]
pub(crate) struct Upkeep {
    /// The processes of the edge that have not ended.
    pub(crate) processes: Arc<AtomicU64>,
    pub(crate) origins: Arc<OriginCounts>,
    /// An operator does not change the configuration while a process takes over, because that one
    /// has read it already.
    pub(crate) turn: Arc<tokio::sync::Mutex<()>>,
}

impl Upkeep {
    /// For a life that begins with one process and this many origins.
    pub(crate) fn new(origins: usize) -> Self {
        let processes = Arc::new(AtomicU64::new(1));
        Self { processes, origins: Arc::new(OriginCounts::new(origins)), turn: Arc::default() }
    }
}

/// How many origins with limits of their own a life has had.
pub(crate) struct OriginCounts {
    /// The largest number in one configuration.
    largest: AtomicUsize,
    /// All of them. Fetches from replaced ones go on.
    all: AtomicUsize,
}

impl OriginCounts {
    fn new(origins: usize) -> Self {
        Self { largest: AtomicUsize::new(origins), all: AtomicUsize::new(origins) }
    }

    /// Counts the origins of a configuration that may replace all earlier ones.
    pub(crate) fn replace(&self, origins: usize) {
        self.largest.fetch_max(origins, Ordering::Relaxed);
        self.all.fetch_add(origins, Ordering::Relaxed);
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
    use super::OriginCounts;

    #[test]
    fn replaced_origins_count_beside_the_largest_number() {
        let counts = OriginCounts::new(2);
        counts.replace(3);
        counts.replace(1);
        assert_eq!((counts.largest(), counts.all()), (3, 6));
    }
}
