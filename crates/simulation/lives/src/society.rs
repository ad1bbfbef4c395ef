//! What the tasks of a life, and the lives of a run, share.

use crate::settings::Settings;
use actors::{SharedLedger, SharedSite};
use edge::EmbeddedEdge;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

/// What the lives of a run share.
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
    /// An operator does not change the configuration while a process takes over, because that one
    /// has read it already.
    pub(crate) turn: Arc<tokio::sync::Mutex<()>>,
}

impl Upkeep {
    /// For a life that begins with one process.
    pub(crate) fn new() -> Self {
        Self { processes: Arc::new(AtomicU64::new(1)), turn: Arc::default() }
    }
}

/// The edge of a life. `None` before its start and after its end.
pub(crate) type SharedEdge = Arc<Mutex<Option<EmbeddedEdge>>>;
