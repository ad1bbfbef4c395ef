//! What the tasks of a life, and the lives of a run, share.

use crate::settings::Settings;
use actors::{SharedLedger, SharedSite};
use edge::EmbeddedEdge;
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
}

/// The edge of a life. `None` before its start and after its end.
pub(crate) type SharedEdge = Arc<Mutex<Option<EmbeddedEdge>>>;
