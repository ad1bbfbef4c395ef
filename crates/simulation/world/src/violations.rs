//! The violations of a simulated run.
//!
//! Invariant: the list is in the order of the findings and holds at most [`VIOLATIONS_MAX`].

use crate::pipe::locked;
use std::sync::{Arc, Mutex};

/// The largest number of violations that are kept. One defect may repeat at every step.
pub const VIOLATIONS_MAX: usize = 100;

/// The violations of a run. Clones are the same list.
#[derive(Clone, Debug, Default)]
pub struct Violations(Arc<Mutex<Vec<String>>>);

impl Violations {
    /// Adds a violation: a sentence about a broken promise.
    pub fn record(&self, text: impl Into<String>) {
        let mut list = locked(&self.0);
        if list.len() < VIOLATIONS_MAX {
            list.push(text.into());
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        locked(&self.0).is_empty()
    }

    /// The violations so far, in order.
    pub fn list(&self) -> Vec<String> {
        locked(&self.0).clone()
    }

    /// Removes the violations and returns them, in order.
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut *locked(&self.0))
    }
}
