//! The request pipeline against a scripted origin.
//!
//! All tests are in one binary. A binary for each file would link the whole edge each time, which
//! takes longer and needs more disk space than the tests themselves.

#![allow(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test that cannot go on panics"
)]

mod admin_tls;
mod breaker;
mod browser_caching;
mod client_address;
mod client_guard;
mod clock_jumps;
mod closed_and_missing;
mod coded_forms;
mod coded_misses;
mod coded_settings;
mod contexts;
mod crowds;
mod dashboard;
mod devices;
mod early_hints;
mod encodings;
mod equivalents;
mod esi;
mod esi_disk;
mod esi_gzip;
mod esi_hosts;
mod esi_lifetime;
mod esi_undeclared;
mod failing_origin;
mod foreign_ports;
mod forwarding;
mod heads;
mod host_names;
mod http2;
mod leak_guard;
mod logged_in;
mod measures;
mod narrow_writes;
mod origin_addresses;
mod origin_proxy_protocol;
mod origin_tls;
mod parts;
mod passwords;
mod persistence;
mod pressure;
mod profiles;
mod proxy_protocol;
mod public_answers;
mod purge_reach;
mod purging;
mod ranges;
mod recognition;
mod refill;
mod reloads;
mod revalidation;
mod routes;
mod served_files;
mod several_origins;
mod sharing;
mod spellings;
mod staleness;
mod static_files;
mod static_tree;
mod support;
mod tls;
mod traffic;
mod why;
mod wire;
mod write_rates;
mod writes;
