//! The status of a tier: whether it is off, and why operations fail.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use platform::sound;

use crate::figures::{FigureCounters, add};
use crate::operation_watch::OperationWatch;
use crate::{DistrustPlace, OffReason};

/// A failure of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TierFailure {
    /// The disk is full.
    Full,
    /// The tier's own limits leave no room.
    NoRoom,
    /// The system refused an operation.
    Io { operation: &'static str, kind: io::ErrorKind },
}

impl TierFailure {
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

/// Whether the tier is off, and the reason.
pub(crate) struct TierStatus {
    off: Mutex<Option<OffReason>>,
    distrusted: OnceLock<DistrustPlace>,
    counters: Arc<FigureCounters>,
    watch: Arc<OperationWatch>,
}

impl TierStatus {
    pub(crate) const fn new(counters: Arc<FigureCounters>, watch: Arc<OperationWatch>) -> Self {
        Self { off: Mutex::new(None), distrusted: OnceLock::new(), counters, watch }
    }

    fn state(&self) -> MutexGuard<'_, Option<OffReason>> {
        sound(self.off.lock())
    }

    pub(crate) fn off(&self) -> Option<OffReason> {
        let off = *self.state();
        let is_final = matches!(off, Some(OffReason::Io { .. } | OffReason::Closed));
        if !is_final && self.watch.is_hung() { Some(OffReason::Hung) } else { off }
    }

    /// Notes that a record at `place` prevents the next start from using the contents.
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

    /// Turns the tier off for good, because the system refused an operation.
    pub(crate) fn fail(&self, operation: &'static str, kind: io::ErrorKind) {
        add(&self.counters.io_errors, 1);
        let mut off = self.state();
        if !matches!(*off, Some(OffReason::Io { .. } | OffReason::Closed)) {
            *off = Some(OffReason::Io { operation, kind });
        }
    }

    /// Turns the tier off until [`TierStatus::resume`], because the disk is full.
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
