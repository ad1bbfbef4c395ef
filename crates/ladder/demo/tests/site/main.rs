//! Tests of the site over real HTTP: every kind of page, every layer, and the separation of
//! visitors.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on panics")]
#![allow(clippy::indexing_slicing, reason = "a test that cannot go on panics")]

mod browser;
mod layers;
mod pages;
mod server;
mod staff;
mod visitors;
