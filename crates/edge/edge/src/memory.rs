//! State without access to the rest of the edge.

pub(crate) mod address_limit;
pub(crate) mod budget;
pub(crate) mod buffer;
pub(crate) mod buffers;
pub(crate) mod client_rates;
pub(crate) mod closing_turns;
pub(crate) mod complaints;
pub(crate) mod detection;
pub(crate) mod disk_turns;
pub(crate) mod distrust;
pub(crate) mod encodings;
pub(crate) mod ending;
pub(crate) mod equivalents;
pub(crate) mod followers;
pub(crate) mod foreign_ports;
pub(crate) mod grant;
pub(crate) mod hit_for_miss;
pub(crate) mod hot_pages;
pub(crate) mod issuance;
pub(crate) mod leak_guard;
pub(crate) mod parameter_flood;
pub(crate) mod password_checks;
pub(crate) mod refiller;
pub(crate) mod refreshes;
pub(crate) mod served_directory;
pub(crate) mod spool;
pub(crate) mod spool_closer;
pub(crate) mod succession;
pub(crate) mod sweeper;
pub(crate) mod sync;
#[cfg_attr(not(feature = "otlp"), expect(dead_code, reason = "only the thread that exports uses it"))]
pub(crate) mod trace_export;
pub(crate) mod verifier;
pub(crate) mod windows;
pub(crate) mod writes;
