//! Time as a parameter. Wall time says when something happened, and may jump. Monotonic time
//! measures durations, and never goes back. They are two types, so that they cannot be mixed up.
//!
//! Invariant: nothing here reads the system's time. `platform` has the clock that does.

mod clock;
mod time;

pub use clock::{Clock, ManualClock};
pub use time::{Monotonic, Timestamp};
