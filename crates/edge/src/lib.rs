//! The caching reverse proxy. It answers requests from its store if the stored response is proven
//! shareable, and forwards the rest to the origins. It also protects the origins from more load
//! than they can take.
//!
//! Invariants: every request ends in one recorded verdict with one reason. A response is shared
//! only if `semantics` allowed it. A body that did not end as its framing declared is neither
//! stored nor passed on as complete.
//!
//! This crate connects the others: `semantics` decides which responses may be shared, `h1` reads
//! and writes HTTP/1.1 messages, `store` keeps the objects and `origin` fetches them.

mod access_log;
mod address_limit;
mod admin;
mod asked_target;
mod asking;
mod backlog;
mod breaker;
mod buffer;
mod buffers;
mod client;
mod client_address;
mod complaints;
mod conclude;
mod counters;
mod date;
mod decoded;
mod deliver;
mod delivery;
mod detection_call;
mod detections_file;
mod directories;
mod disk_threads;
mod distrust;
mod equivalents;
mod event_stream;
mod excerpt;
mod first_look;
mod flight;
mod flights;
mod fly;
mod footprint;
mod foreign_ports;
mod forward;
mod guard;
mod gunzip;
mod identity;
mod in_vain;
mod leak_check;
mod leak_guard;
mod leaving;
mod loads;
mod log_output;
mod lookup;
mod memory;
mod mender;
mod metrics;
mod operator;
mod pace;
mod parameter_flood;
mod pass;
mod persistence;
mod persisting;
mod pipeline;
mod popular;
mod purge_access;
mod purge_orders;
mod reach;
mod recognition;
mod reference;
mod refetch;
mod refill;
mod refusal;
mod respond;
mod room;
mod selection;
mod serve;
mod set_aside;
mod shared;
mod signals;
mod sites;
mod spool;
mod spool_closer;
mod stored;
mod sweeper;
mod sync;
mod token;
mod tree;
mod tunnel;
mod uncompressed;
mod verifier;
mod wait;
pub mod why;
mod witness;
mod worker;
mod writes;

pub use counters::{Kind, METRICS, Metric, Row};
pub use directories::check_directories;
pub use reference::observing_reference;
pub use serve::{Bound, Edge, Running, ServeError, serve};
