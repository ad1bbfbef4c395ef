//! Content systems behind the edge. Most modules test one system and need its lab (`cargo xtask lab
//! NAME up`).

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on panics"
)]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "the figures are a result of the test")]

mod crawl;
mod drupal;
mod mediawiki;
mod rates;
mod running_lab;
#[path = "../wordpress/site.rs"]
#[allow(dead_code, reason = "each set of tests uses its part")]
mod site;
mod traffic;
mod visitor;
mod wagtail;
