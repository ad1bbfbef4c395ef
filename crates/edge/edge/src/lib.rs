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

mod accepted;
mod control;
mod embedded;
mod fetch;
mod hosts;
mod http2;
#[cfg(test)]
mod imports;
mod listeners;
mod memory;
mod origins;
mod request;
mod serve;
mod shared;
mod sites;
mod system;
mod upkeep;
mod worker;

pub use control::counters::{METRICS, Metric, MetricKind, MetricRow};
pub use control::operator::OperatorLog;
pub use control::reference::observing_reference;
pub use control::token::TokenError;
pub use embedded::EmbeddedEdge;
pub use listeners::ListenerError;
pub use serve::{Bound, BoundEdge, RunningEdge, ServeError, SocketSource, serve};
pub use shared::{PlanSource, SuccessorStart};
pub use system::System;
pub use upkeep::certificate_check::check_certificates;
pub use upkeep::directories::check_directories;
pub use upkeep::predecessor::UpgradeError;
pub use upkeep::supervisor::count_panic;
