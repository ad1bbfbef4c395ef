//! The WordPress integration against the WordPress lab (`cargo xtask lab wordpress up`), with real edges before it:
//! what its pages say, what a change purges and what it leaves, who gets whose page, what each cache inside WordPress
//! keeps, and what administrators see.
//!
//! Invariant: the layers of the lab are one test's at a time. The content that these tests change is made anew by the
//! next `up` after a `down`. `PETASOS_LAB` names the directory of another lab than the default one.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on panics"
)]

mod admin;
mod answer;
mod caches;
mod cast;
mod changes;
#[allow(dead_code, reason = "each set of tests uses its part")]
mod chromium;
mod editing;
mod headers;
mod leaks;
mod php;
mod site;
#[path = "../systems/visitor.rs"]
#[allow(dead_code, reason = "each set of tests uses its part")]
mod visitor;
mod visitors;
mod writes;
