//! `petasos ab` beside the real `ab`, against the same server: labels, columns, units and meanings,
//! line by line. The real `ab` must be installed; without it these tests fail with a message.
//!
//! docs/ab.md lists the intended differences. A test checks that both programs behave as it says.

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
