//! The WordPress integration against the WordPress lab (`cargo xtask lab wordpress up`), with real
//! edges in front. The tests cover response headers, the purges of a change, personal pages, each
//! cache inside WordPress, the administrators' screens, and the plugin's zip in a browser.
//!
//! Invariant: one test at a time sets the lab's layers. Content changed by these tests is restored
//! by the next `up` after a `down`. `PETASOS_LAB` names the directory of a lab other than the
//! default one.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on panics"
)]

mod admin;
mod caches;
mod cast;
mod changes;
#[allow(dead_code, reason = "each set of tests uses its part")]
mod chromium;
mod editing;
mod headers;
mod leaks;
mod personal_parts;
mod php;
mod site;
#[path = "../systems/visitor.rs"]
#[allow(dead_code, reason = "each set of tests uses its part")]
mod visitor;
mod visitors;
mod writes;
mod zip;
