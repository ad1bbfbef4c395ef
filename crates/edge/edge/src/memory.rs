//! State without access to the rest of the edge.

pub(crate) mod address_limit;
pub(crate) mod budget;
pub(crate) mod buffer;
pub(crate) mod buffers;
pub(crate) mod complaints;
pub(crate) mod distrust;
pub(crate) mod equivalents;
pub(crate) mod hit_for_miss;
pub(crate) mod leak_guard;
pub(crate) mod popular;
pub(crate) mod refreshes;
pub(crate) mod spool;
pub(crate) mod spool_closer;
pub(crate) mod sync;
