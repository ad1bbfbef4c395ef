//! Walks a site's caching stack as a *ladder*. Each step switches one more cache layer on, proves
//! that the layer works, and measures the page under load. The visits are interleaved in seeded
//! rounds.
//!
//! Invariants:
//!
//! * A measurement without proof that its layer was on, and that the page was right, is discarded.
//! * Each result is on disk before the next cell is visited.
//! * No started process outlives the walk.
//!
//! ```text
//!   text ── read ──> Ladder ── Plan::new ──> cells and order ── walk ──> visits ──> Results
//!                                                  journal <──┘  (resume)
//! ```

mod bound;
mod bystander;
mod client;
mod command;
mod fingerprint;
mod interrupt;
mod journal;
mod ladder;
mod observer;
mod output;
mod plan;
mod ports;
mod proof;
mod read;
mod read_step;
mod read_traffic;
mod reference;
mod results;
mod service;
mod star;
mod template;
mod traffic;
mod unique;
mod visit;
mod visitor;
mod walk;
mod writer;

pub use bound::{CellFigures, GENERATOR_THREAD, HOST_BUSY, HOST_IDLE, LINK_FULL, bound_by};
pub use interrupt::StopFlag;
pub use journal::JOURNAL_FILE;
pub use ladder::{
    BytesPattern, Group, HeaderTest, JsonTest, Ladder, LadderStep, Load, Meter, MeterSource, ModeOverrides,
    Proof, Role, Root, Same, Service, StepAction, VersionCommand,
};
pub use observer::{Observer, Phase, WalkStatus};
pub use output::{REPORT_FILE, RESULTS_FILE};
pub use plan::{Cell, Choice, Effort, LadderPlan};
pub use read::{read_ladder, read_ladder_file};
pub use star::{FOREIGN_SHARE_MAX, STEAL_SHARE_MAX};
pub use template::{Template, Variables};
pub use traffic::{ANONYMOUS, Audience, LoadChange, PostContent, RequestTemplate, Session, Traffic, Write};
pub use walk::{LadderError, Options, Walk, World, walk};
