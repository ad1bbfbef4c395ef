//! Ladders: a site's caching stack walked step by step, each step switched on, proven, loaded and measured,
//! in interleaved, seeded rounds.
//!
//! Invariants: a figure without proof that its layer was on and its page the same is never a figure; what was
//! measured is on the disk before the next cell is visited; no process outlives the lab.

mod fingerprint;
mod ladder;
mod plan;
mod read;
mod read_step;
mod reader;
mod template;

pub use ladder::{
    Action, Group, HeaderTest, JsonTest, Ladder, Load, Meter, MeterSource, Mode, Pattern, Proof, Role, Root,
    Service, Step, Version,
};
pub use plan::{Cell, Choice, Effort, Plan};
pub use read::{read_ladder, read_ladder_file};
pub use template::{Template, Variables};
