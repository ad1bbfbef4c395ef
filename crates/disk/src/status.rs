//! Whether the tier works, and what went wrong with an operation.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::figures::{FigureCounters, add};
use crate::watch::Watch;
use crate::{DistrustPlace, OffReason};

/// What went wrong with an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// The disk is full.
    Full,
    /// The tier's own bounds leave no room.
    NoRoom,
    /// The system refused.
    Io { operation: &'static str, kind: io::ErrorKind },
}

impl Trouble {
    pub(crate) fn of(operation: &'static str, error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::Full,
            kind => Self::Io { operation, kind },
        }
    }

    pub(crate) const fn reason(self) -> OffReason {
        match self {
            Self::Full => OffReason::Full,
            Self::NoRoom => OffReason::TooLarge,
            Self::Io { operation, kind } => OffReason::Io { operation, kind },
        }
    }
}

/// Why the tier is off, if it is.
pub(crate) struct Status {
    off: Mutex<Option<OffReason>>,
    distrusted: OnceLock<DistrustPlace>,
    counters: Arc<FigureCounters>,
    watch: Arc<Watch>,
}

impl Status {
    pub(crate) const fn new(counters: Arc<FigureCounters>, watch: Arc<Watch>) -> Self {
        Self { off: Mutex::new(None), distrusted: OnceLock::new(), counters, watch }
    }

    fn state(&self) -> MutexGuard<'_, Option<OffReason>> {
        self.off.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn off(&self) -> Option<OffReason> {
        let off = *self.state();
        let is_final = matches!(off, Some(OffReason::Io { .. } | OffReason::Closed));
        if !is_final && self.watch.is_hung() { Some(OffReason::Hung) } else { off }
    }

    /// The contents will not be used by the next start, as is recorded at `place`.
    pub(crate) fn distrust(&self, place: DistrustPlace) {
        self.distrusted.get_or_init(|| place);
    }

    pub(crate) fn distrusted(&self) -> Option<DistrustPlace> {
        self.distrusted.get().copied()
    }

    /// Whether nothing will be written any more in this life.
    pub(crate) fn is_off_for_good(&self) -> bool {
        matches!(self.off(), Some(OffReason::Io { .. } | OffReason::Closed))
    }

    /// The system refused: off for good.
    pub(crate) fn fail(&self, operation: &'static str, kind: io::ErrorKind) {
        add(&self.counters.io_errors, 1);
        let mut off = self.state();
        if !matches!(*off, Some(OffReason::Io { .. } | OffReason::Closed)) {
            *off = Some(OffReason::Io { operation, kind });
        }
    }

    /// The disk is full: off until [`Status::resume`].
    pub(crate) fn pause(&self) {
        add(&self.counters.full, 1);
        self.state().get_or_insert(OffReason::Full);
    }

    pub(crate) fn resume(&self) {
        let mut off = self.state();
        if *off == Some(OffReason::Full) {
            *off = None;
        }
    }

    pub(crate) fn close(&self) {
        let mut off = self.state();
        if !matches!(*off, Some(OffReason::Io { .. })) {
            *off = Some(OffReason::Closed);
        }
    }
}
