//! The client's own target, if the page of an equivalent target is looked up instead.
//!
//! Invariant: a client receives the response for another target only if that very response states a
//! `No-Vary-Search` rule that makes both equivalent. Rules of earlier responses or of other
//! variants only decide where to look.

use crate::shared::Shared;
use bytes::Bytes;
use message::{Fields, names};
use semantics::NoVarySearch;
use store::{Key, Lookup};

/// The target of the client's request; `None` if it is the one in the key.
#[derive(Debug)]
pub(crate) struct OwnTarget(Option<Bytes>);

impl OwnTarget {
    /// The key to look up for a request with these fields, and the client's target if it differs.
    pub(crate) fn looked_up(shared: &Shared, own: Key, fields: &Fields) -> (Key, Self) {
        let Some(key) = shared.equivalents.find(&own).filter(|key| *key != own) else {
            return (own, Self(None));
        };
        let asked = Self(Some(Bytes::copy_from_slice(own.target())));
        // If the stored variant does not state the rule, the request's own key is looked up.
        let is_answer = match shared.store.peek(&key, fields) {
            Lookup::Found { object, .. } => asked.is_answered(&key, &object.head_of(Self::concerns).fields),
            Lookup::Shelved(_) | Lookup::NoVariant | Lookup::Absent => true,
        };
        if is_answer { (key, asked) } else { (own, Self(None)) }
    }

    /// Whether another target is looked up.
    pub(crate) const fn is_another(&self) -> bool {
        self.0.is_some()
    }

    /// Whether the response stored for the key also answers the client's target.
    pub(crate) fn is_answered(&self, key: &Key, response: &Fields) -> bool {
        let Some(asked) = &self.0 else { return true };
        NoVarySearch::of(response).is_some_and(|rule| rule.canonical(asked) == rule.canonical(key.target()))
    }

    /// Whether [`OwnTarget::is_answered`] depends on the response field `name`.
    pub(crate) fn concerns(name: &[u8]) -> bool {
        name.eq_ignore_ascii_case(names::NO_VARY_SEARCH.as_bytes())
    }
}
