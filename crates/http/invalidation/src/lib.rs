//! The terms shared by purge requests and the store: the effect of an invalidation, and bans with
//! the attributes of stored responses that they test.
//!
//! Invariant: everything here is a value or a trait. This crate neither reads requests nor searches
//! a store.

mod ban;

pub use ban::{Ban, Haystack, Need, ResponseView};

/// The effect of an invalidation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mode {
    /// The response stays stored and becomes stale at once.
    Soft,
    /// The response is removed.
    Hard,
}
