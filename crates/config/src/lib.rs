//! Settings of the accelerator: one table of them, the document a user writes (with the place of every
//! value), and the resolved, immutable [`Plan`] that the edge runs on.
//!
//! Invariant: a value reaches the plan only through its row in [`SETTINGS`]; an unknown key, a value of the
//! wrong kind or out of range is a [`Diagnostic`] with the place and the fix, never ignored. Nothing here
//! binds an address, or opens a file by itself: checking a configuration is the same code as loading it.

mod diagnostic;
mod document;
mod peers;
mod plan;
pub mod quantity;
mod reference;
mod rules;
mod sense;
mod setting;
mod site_table;
mod table;
mod void;

pub use diagnostic::{Diagnostic, Place, Severity};
pub use document::{Document, Overrides, nearest};
pub use peers::PeerEntry;
pub use plan::{AccessLog, Disk, Limits, Plan, Site, StaticTree};
pub use reference::settings_reference;
pub use setting::{Kind, Scope, Setting, Value};
pub use table::SETTINGS;

use platform::Machine;

/// Reads the text of a file.
pub type ReadFile<'a> = dyn Fn(&str) -> std::io::Result<String> + 'a;

/// Reads a configuration text and the command line's overrides into a plan.
///
/// `name` is what messages call the text, usually its path. `overrides` are `(key, value)` pairs from flags
/// and win over the text. `machine` is what defaults are derived from. `read` reads a file that the text names and that
/// is part of the configuration: a profile, or a list of peers.
///
/// # Errors
/// Every problem found, in the order of the text.
pub fn load(
    name: &str,
    text: &str,
    overrides: &Overrides,
    machine: Machine,
    read: &ReadFile<'_>,
) -> Result<Plan, Vec<Diagnostic>> {
    plan::resolve(&Document::parse(name, text)?, overrides, machine, read)
}
