//! Connections to applications: a pool that all workers share, a limit on concurrent requests with a queue,
//! time limits, a breaker, and requests whose content streams both ways.
//!
//! Invariant: an application never works on more requests at a time than its limit, and a response that did
//! not end as its framing said is an error, never an end. What to ask and what an answer means is the edge's
//! business.

mod breaker;
mod error;
mod exchange;
mod health;
mod limit;
mod origin;
mod pool;
mod urgency;
mod usual;

pub use breaker::{BreakerChange, BreakerLimits, BreakerState};
pub use error::{FetchError, UploadError};
pub use exchange::{Event, Exchange, NoUpload, Upload};
pub use health::ProbeTurn;
pub use limit::{Bounds, Busy, FetchLimit, FetchPermit};
pub use origin::{FetchRequest, Gauges, Origin, Settings};
pub use urgency::Urgency;
