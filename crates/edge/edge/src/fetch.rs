//! Coalesced fetches from the origin, and reads from the disk.

pub(crate) mod base;
pub(crate) mod breaker;
pub(crate) mod disk_reads;
pub(crate) mod flight;
pub(crate) mod flights;
pub(crate) mod fly;
pub(crate) mod loads;
pub(crate) mod mender;
pub(crate) mod publish;
pub(crate) mod refetch;
pub(crate) mod room;
pub(crate) mod selection;
pub(crate) mod stored;
pub(crate) mod table_entry;
pub(crate) mod witness;
