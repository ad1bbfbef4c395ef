//! Which parts of a connection have something to do: its streams by their places, and the connection itself.
//!
//! Invariant: a part that is woken is in the list until somebody takes it; that it is there twice does no harm.

use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Wake, Waker};

/// The connection itself, which is no stream.
pub(super) const CONNECTION: usize = usize::MAX;

/// The parts of one connection that were woken.
#[derive(Debug, Default)]
pub(super) struct Wakes {
    woken: Mutex<Vec<usize>>,
}

/// Wakes one part.
struct Part {
    place: usize,
    wakes: Arc<Wakes>,
}

impl Wakes {
    /// What wakes the part at a place.
    pub(super) fn waker(self: &Arc<Self>, place: usize) -> Waker {
        Waker::from(Arc::new(Part { place, wakes: Arc::clone(self) }))
    }

    /// Takes note that the part at a place has something to do.
    pub(super) fn wake(&self, place: usize) {
        // Nothing can panic while it is locked.
        self.woken.lock().unwrap_or_else(PoisonError::into_inner).push(place);
    }

    /// Moves what was woken into `woken`, which must be empty; says whether there was anything.
    pub(super) fn take(&self, woken: &mut Vec<usize>) -> bool {
        std::mem::swap(&mut *self.woken.lock().unwrap_or_else(PoisonError::into_inner), woken);
        !woken.is_empty()
    }
}

impl Wake for Part {
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
    fn what_was_woken_is_taken_once() {
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
