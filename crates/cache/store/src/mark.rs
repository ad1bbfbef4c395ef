//! The numbers of the last invalidations of one page, host, tag or site.

use invalidation::Mode;

/// The numbers of the last hard and the last soft invalidation; zero if there was none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct InvalidationMark {
    hard: u64,
    soft: u64,
}

impl InvalidationMark {
    /// A mark with a single invalidation.
    pub(crate) fn of(mode: Mode, sequence: u64) -> Self {
        let mut mark = Self::default();
        mark.set(mode, sequence);
        mark
    }

    pub(crate) const fn set(&mut self, mode: Mode, sequence: u64) {
        match mode {
            Mode::Hard => self.hard = sequence,
            Mode::Soft => self.soft = sequence,
        }
    }

    /// The mode of the strongest invalidation after `since`.
    pub(crate) const fn since(self, since: u64) -> Option<Mode> {
        if self.hard > since {
            Some(Mode::Hard)
        } else if self.soft > since {
            Some(Mode::Soft)
        } else {
            None
        }
    }

    /// Merges another mark into this one.
    pub(crate) fn absorb(&mut self, other: Self) {
        self.hard = self.hard.max(other.hard);
        self.soft = self.soft.max(other.soft);
    }

    /// The number of the last hard invalidation.
    pub(crate) const fn hard(self) -> u64 {
        self.hard
    }

    pub(crate) const fn latest(self) -> u64 {
        if self.hard > self.soft { self.hard } else { self.soft }
    }
}
