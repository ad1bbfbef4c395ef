//! Examines whether this machine can run a configuration of the edge: ports, permissions, file
//! descriptors, memory, clock, disk, and the origins' names and ports. The module `stack` examines
//! which layers the application behind the edge lacks.
//!
//! ```text
//!   EdgePlan -> examine -> probe (asks the system) -> facts
//!                       -> judge (facts -> Finding, pure) -> Report -> text, JSON
//! ```
//!
//! Invariants: nothing of the machine changes. A port is bound for a moment only if it is free, and
//! written files have no name. Every bad finding says how to mend it.

mod account;
mod examine;
mod facts;
mod finding;
mod judge;
mod probe;
mod stack;

pub use account::{Account, AccountError};
pub use examine::examine;
pub use finding::{Finding, Level, Report};
pub use stack::{StackTerms, examine_stack};
