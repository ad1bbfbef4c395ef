//! Connections to origins.
//!
//! An [`Origin`] has a connection pool that all workers share, a limit on concurrent requests with
//! a queue, time limits, and a breaker. Each request is an [`OriginExchange`], whose content
//! streams both ways.
//!
//! Invariant: an origin never works on more requests at a time than its limit allows, except while
//! stalled fetches go on again (see [`FetchLimit`]). A response that did not end as its framing
//! said is an error, never a complete response. The edge chooses the requests and interprets the
//! responses.

mod adaptive;
mod balance;
mod breaker;
mod check;
mod error;
mod exchange;
mod group;
mod health;
mod introduction;
mod limit;
mod origin;
mod pool;
mod security;
mod service;
mod slowness;
mod tally;
mod urgency;
mod usual;

pub use balance::Standing;
pub use breaker::{BreakerChange, BreakerLimits, BreakerState};
pub use check::HealthCheck;
pub use error::{FetchError, UploadError};
pub use exchange::{NoUpload, OriginEvent, OriginExchange, Upload};
pub use group::{GroupMember, OriginGroup};
pub use health::ProbeTurn;
pub use introduction::FetchClient;
pub use limit::{Busy, FetchBounds, FetchLimit, FetchPermit};
pub use origin::{FetchRequest, FetchTiming, Gauges, Origin, Settings};
pub use security::OriginTls;
pub use tally::{CheckResult, LastCheck, OriginRecord};
pub use urgency::Urgency;
