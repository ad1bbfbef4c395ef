//! The JSON of the edge's admin address as types. The edge writes it, and the commands read it.
//! The calls and replies of purges are in the crate `purge`, because their form belongs to their
//! dialects.
//!
//! Invariant: a member is added, never removed or renamed, because monitoring reads these
//! documents.

pub mod dashboard;
pub mod log;
pub mod profile;
pub mod status;
pub mod warm;
pub mod why;
