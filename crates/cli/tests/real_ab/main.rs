//! `petasos ab` beside the real `ab`, against the same server: labels, columns, units and meanings, line by line.
//! The real one must be installed; without it these tests fail and say so.
//!
//! Where the two differ on purpose, which docs/ab.md lists, a test holds both to what is said there.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on panics")]
#![allow(clippy::indexing_slicing, reason = "a test that cannot go on panics")]

mod beside;
mod differences;
mod files;
mod html;
mod lines;
mod log;
mod options;
mod plain;
mod plain_options;
mod reports;
mod requests;
mod tls;
