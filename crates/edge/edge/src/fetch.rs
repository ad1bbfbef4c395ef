//! Coalesced fetches from the origin, and reads from the disk.

pub(crate) mod base;
pub(crate) mod body_repair;
pub(crate) mod body_reservation;
pub(crate) mod breaker;
pub(crate) mod coalesced_fetch;
pub(crate) mod disk_reads;
pub(crate) mod fetch_table;
pub(crate) mod publish;
pub(crate) mod read_queues;
pub(crate) mod refetch;
pub(crate) mod selection;
pub(crate) mod stored;
pub(crate) mod table_entry;
pub(crate) mod task;
