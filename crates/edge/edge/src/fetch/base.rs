//! The stored object that a fetch starts from.

use semantics::Doubt;
use std::sync::Arc;
use store::Object;

/// The stored object that a fetch may confirm, complete or replace.
#[derive(Clone, Debug)]
pub(crate) struct Base {
    pub(crate) object: Arc<Object>,
    /// Why the object cannot be used without asking the origin. The reason decides which validators
    /// prove it current.
    pub(crate) doubt: Doubt,
}

impl Base {
    /// An object from the store. `invalidated` is true if it was softly purged, or if the request
    /// itself demands a fetch.
    pub(crate) fn new(object: Arc<Object>, invalidated: bool) -> Self {
        Self { object, doubt: if invalidated { Doubt::Invalidated } else { Doubt::Expired } }
    }
}
