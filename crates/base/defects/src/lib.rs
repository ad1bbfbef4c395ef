//! Known defects that the simulation plants, to show that it finds them from seeds alone.
//!
//! Invariant: without the feature `planted`, [`is_planted`] is constantly false, so the compiler
//! leaves out the code of every defect. With it, a system thread has at most one defect, and none
//! until [`plant`] is called there.

/// A defect. The first six were in the program once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Defect {
    /// Purges are answered, but never written to the journal.
    UndurablePurge,
    /// Making room on the disk moves kept objects from segment to segment without end.
    DiskLivelock,
    /// A damaged body on the disk stays stored.
    DamagedBodyKept,
    /// A date of one second's resolution confirms content that changed within that second.
    OneSecondValidator,
    /// A request waits for a hung origin although a stale response is stored.
    HungOrigin,
    /// A body that goes to the disk is read from the origin faster than the disk takes it.
    SpillMemory,
    /// A purge does not reach fetches under way, and later requests join them.
    JoinAfterPurge,
    /// A request joins a fetch for another variant.
    JoinOtherVariant,
    /// A failed fetch stays in the table, and later requests join it.
    FailedFetchStays,
    /// A fetch publishes its response although a purge came meanwhile.
    PublishAfterPurge,
    /// A purge does not cover objects that are only on the disk.
    PurgeSkipsDisk,
    /// A 304 with new tags leaves the stored response under the old ones.
    TagsOfFirstResponse,
    /// The store exceeds its memory instead of evicting.
    NoEviction,
    /// A restart ignores the journaled purges.
    ForgottenJournal,
    /// Bodies read from the disk are not compared with their checksums.
    UncheckedBodies,
    /// A truncated response of the origin is stored as if it were complete.
    TruncatedIsWhole,
    /// A range of a stored response begins one byte too early, unless it begins the response.
    ShiftedRange,
    /// A fetch that ends while its client lags behind keeps its permit.
    LostPermit,
    /// A reload keeps the pages of a site although they depend on rules that have changed.
    PagesOutliveRules,
    /// Coded forms are added to the object that has replaced their original.
    FormsOfReplacedObject,
    /// The routes of a site share their pages although they have different ones.
    RoutesSharePages,
    /// A purge does not cover the pages of routes.
    PurgeSkipsRoutes,
}

impl Defect {
    /// All defects, in the order above.
    pub const ALL: [Self; 22] = [
        Self::UndurablePurge,
        Self::DiskLivelock,
        Self::DamagedBodyKept,
        Self::OneSecondValidator,
        Self::HungOrigin,
        Self::SpillMemory,
        Self::JoinAfterPurge,
        Self::JoinOtherVariant,
        Self::FailedFetchStays,
        Self::PublishAfterPurge,
        Self::PurgeSkipsDisk,
        Self::TagsOfFirstResponse,
        Self::NoEviction,
        Self::ForgottenJournal,
        Self::UncheckedBodies,
        Self::TruncatedIsWhole,
        Self::ShiftedRange,
        Self::LostPermit,
        Self::PagesOutliveRules,
        Self::FormsOfReplacedObject,
        Self::RoutesSharePages,
        Self::PurgeSkipsRoutes,
    ];

    /// The defect with this name, as `{:?}` writes it.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|defect| format!("{defect:?}") == name)
    }
}

/// Whether `defect` is planted on this system thread.
#[cfg(not(feature = "planted"))]
#[inline(always)]
pub const fn is_planted(_: Defect) -> bool {
    false
}

#[cfg(feature = "planted")]
pub use planted::{is_planted, plant};

#[cfg(feature = "planted")]
mod planted {
    use super::Defect;
    use std::cell::Cell;

    thread_local! {
        static PLANTED: Cell<Option<Defect>> = const { Cell::new(None) };
    }

    /// Whether `defect` is planted on this system thread.
    pub fn is_planted(defect: Defect) -> bool {
        PLANTED.get() == Some(defect)
    }

    /// Plants a defect on this system thread, in place of the one before; `None` removes it.
    pub fn plant(defect: Option<Defect>) {
        PLANTED.set(defect);
    }
}

#[cfg(test)]
mod tests {
    use super::{Defect, is_planted};
    use std::collections::BTreeSet;

    #[test]
    fn defects_are_listed_once_and_none_is_planted_at_first() {
        let listed: BTreeSet<_> = Defect::ALL.into_iter().collect();
        assert_eq!(listed.len(), Defect::ALL.len());
        for defect in Defect::ALL {
            assert_eq!(Defect::of_name(&format!("{defect:?}")), Some(defect));
            assert!(!is_planted(defect));
        }
    }
}
