//! Simulated lives of the edge: a plan from a seed, the lives that it describes, and what they
//! violate.
//!
//! Invariant: a run follows from its plan alone, and a plan from its seed. Running a plan twice
//! gives the same trace.

mod admin_crowd;
mod balancer;
mod download;
mod fault;
mod filling;
mod guarding;
mod handover;
mod life;
mod limits;
mod logging;
mod past;
mod plan;
mod reload;
mod renewal;
mod report;
mod run;
mod settings;
mod shrink;
mod society;
mod survey;
mod tracing;

pub use fault::{FaultAction, PlannedFault};
pub use handover::{Conduct, PlannedHandover};
pub use plan::{Element, LifeEnd, LifePlan, RunPlan};
pub use report::Report;
pub use run::{RunOptions, RunOutcome, run};
pub use settings::Settings;
pub use shrink::shrink;
