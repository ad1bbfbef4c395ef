//! The words in which results describe the resources of a page: their classes, and the limits that
//! a page reached.
//!
//! Invariant: this crate names and counts. `page` finds the resources, so that a crate that only
//! reports them needs no HTML parser.

mod class;
mod limits;

pub use class::ResourceClass;
pub use limits::{LimitCounts, PageLimit, PageLimits};
