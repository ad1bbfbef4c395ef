//! The number of files that are open for responses.
//!
//! Invariant: it is at most the limit, also if responses under way hold files that have left the
//! tables.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The files that all directories of a process have open. Clones share the count.
#[derive(Clone, Debug)]
pub struct OpenFiles(Arc<OpenCount>);

#[derive(Debug)]
struct OpenCount {
    open: AtomicUsize,
    limit: usize,
}

/// An open file, which is counted until this is dropped.
#[derive(Debug)]
pub(crate) struct OpenSlot(Arc<OpenCount>);

impl OpenFiles {
    /// At most `limit` files.
    #[must_use]
    pub fn at_most(limit: usize) -> Self {
        Self(Arc::new(OpenCount { open: AtomicUsize::new(0), limit }))
    }

    /// The maximum number of open files.
    pub fn limit(&self) -> usize {
        self.0.limit
    }

    /// The number of open files.
    pub fn count(&self) -> usize {
        self.0.open.load(Ordering::Relaxed)
    }

    /// Counts one more file; `None` if the limit is reached.
    pub(crate) fn take(&self) -> Option<OpenSlot> {
        // Relaxed is enough: no other memory depends on the count.
        let more = |open| (open < self.0.limit).then_some(open + 1);
        self.0.open.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        Some(OpenSlot(Arc::clone(&self.0)))
    }
}

impl Drop for OpenSlot {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::OpenFiles;

    #[test]
    fn files_beyond_the_limit_are_refused() {
        let files = OpenFiles::at_most(2);
        let slots = [files.take(), files.take()];
        assert!(slots.iter().all(Option::is_some) && files.take().is_none());
        drop(slots);
        assert_eq!(files.count(), 0);
    }
}
