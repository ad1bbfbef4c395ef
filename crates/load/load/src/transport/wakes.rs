//! Collects which parts of a connection were woken: its streams by index, and the connection
//! itself.
//!
//! Invariant: a woken part stays in the list until the list is taken. Duplicates are harmless.

use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Wake, Waker};

/// Index of the connection itself, which is no stream.
pub(super) const CONNECTION: usize = usize::MAX;

/// The woken parts of one connection.
#[derive(Debug, Default)]
pub(super) struct Wakes {
    woken: Mutex<Vec<usize>>,
}

/// Wakes one part.
struct PartWaker {
    place: usize,
    wakes: Arc<Wakes>,
}

impl Wakes {
    /// A waker for the part with this index.
    pub(super) fn waker(self: &Arc<Self>, place: usize) -> Waker {
        Waker::from(Arc::new(PartWaker { place, wakes: Arc::clone(self) }))
    }

    /// Records that the part with this index was woken.
    pub(super) fn wake(&self, place: usize) {
        // A poisoned lock is harmless: nothing can panic while it is held.
        self.woken.lock().unwrap_or_else(PoisonError::into_inner).push(place);
    }

    /// Moves the woken parts into `woken`, which must be empty. Returns whether there were any.
    pub(super) fn take(&self, woken: &mut Vec<usize>) -> bool {
        std::mem::swap(&mut *self.woken.lock().unwrap_or_else(PoisonError::into_inner), woken);
        !woken.is_empty()
    }
}

impl Wake for PartWaker {
    fn wake(self: Arc<Self>) {
        self.wakes.wake(self.place);
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.wakes.wake(self.place);
    }
}

#[cfg(test)]
mod tests {
    use super::Wakes;
    use std::sync::Arc;

    #[test]
    fn woken_parts_are_taken_once() {
        let wakes = Arc::new(Wakes::default());
        let (third, mut woken) = (wakes.waker(3), Vec::new());
        assert!(!wakes.take(&mut woken));
        third.wake_by_ref();
        wakes.wake(1);
        assert!(wakes.take(&mut woken));
        assert_eq!(woken, [3, 1]);
        woken.clear();
        assert!(!wakes.take(&mut woken));
    }
}
