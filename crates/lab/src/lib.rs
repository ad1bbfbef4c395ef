//! Ladders: a site's caching stack walked step by step, each step switched on, proven, loaded and measured,
//! in interleaved, seeded rounds.
//!
//! Invariants: a figure without proof that its layer was on and its page the same is never a figure; what was
//! measured is on the disk before the next cell is visited; no process outlives the lab.
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
mod reader;
mod record;
mod reference;
mod service;
mod star;
mod template;
mod traffic;
mod visit;
mod visitor;
mod walk;
mod writer;

pub use bound::{Figures, GENERATOR_THREAD, HOST_BUSY, HOST_IDLE, LINK_FULL, bound_by};
pub use interrupt::Stop;
pub use journal::JOURNAL_FILE;
pub use ladder::{
    Action, Group, HeaderTest, JsonTest, Ladder, Load, Meter, MeterSource, Mode, Pattern, Proof, Role, Root,
    Same, Service, Step, Version,
};
pub use observer::{Observer, Phase, Status};
pub use output::{REPORT_FILE, RESULTS_FILE};
pub use plan::{Cell, Choice, Effort, Plan};
pub use read::{read_ladder, read_ladder_file};
pub use star::{FOREIGN_SHARE_MAX, STEAL_SHARE_MAX};
pub use template::{Template, Variables};
pub use traffic::{ANONYMOUS, Audience, Content, Exchange, LoadChange, Session, Traffic, Write};
pub use walk::{LabError, Options, Walk, World, walk};
