//! Bans: conditions on stored responses, and the attributes of a response that they test.
//!
//! Invariant: a ban depends on nothing but a [`ResponseView`]. It can therefore be tested against
//! each response at any later time.

use bytes::Bytes;
use message::Status;
use std::fmt;

/// Conditions on stored responses.
///
/// The store evaluates each ban once for every object while it holds a lock. So a ban must be fast
/// and must not call the store.
pub trait Ban: fmt::Debug + Send + Sync {
    /// Whether all conditions hold for the response.
    fn matches(&self, stored: &dyn ResponseView) -> bool;

    /// A condition that every matching response fulfils, if the ban has one. The store searches for
    /// the needs of many bans at once, and evaluates only the bans whose need was found.
    fn need(&self) -> Option<Need> {
        None
    }

    /// The text of the ban. Bans with equal texts are treated as one.
    fn text(&self) -> &str;
}

/// The view that a ban has of a response, already stored or about to be.
pub trait ResponseView {
    /// The host, in lower case, with its port unless it has the default port.
    fn host(&self) -> &[u8];

    /// Path and query.
    fn target(&self) -> &[u8];

    /// The status of the response.
    fn status(&self) -> Status;

    /// The values of the response's fields with this name.
    fn values(&self, name: &[u8]) -> Vec<&[u8]>;

    /// The tags of the response, without the edge's internal tags.
    fn tags(&self) -> Vec<&[u8]>;
}

/// A necessary condition of a ban. It holds for responses without `No-Vary-Search` only: with that
/// field, a ban may match a response because of another target.
#[derive(Clone, Debug)]
pub struct Need {
    /// The part of the response to search.
    pub haystack: Haystack,
    /// A regular expression over bytes, without Unicode, that finds a match there.
    pub pattern: String,
}

/// A part of a response that bans search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Haystack {
    /// Path and query.
    Target,
    /// Each tag by itself, and all tags in alphabetical order joined by commas.
    Tags,
    /// Each value of the field with this name.
    Field(Bytes),
}
