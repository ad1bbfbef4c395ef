//! The examples in `examples/`, each in front of the real system, visited in headless Chromium.
//!
//! A test takes the file of an example and replaces only addresses, paths, names and the
//! certificate. It checks that the system's pages work, that the second anonymous visit is a hit,
//! that a logged-in user gets pages from the system, that an edit is seen at the next visit, and
//! that each route answers as its comment says.
//!
//! Needs the labs (`cargo xtask lab NAME up` for wordpress, mediawiki, wagtail and node) and
//! Debian's packages chromium and nginx-core. No registry has Drupal and TYPO3, so a stub sends
//! their responses; `cargo xtask long examples --source drupal=DIR` takes a real Drupal instead.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on panics"
)]

#[path = "../wordpress/chromium.rs"]
#[allow(dead_code, reason = "each set of tests uses its part")]
mod chromium;
mod django;
mod drupal;
mod example_file;
mod mediawiki;
#[path = "../applications/network.rs"]
#[allow(dead_code, reason = "each set of tests uses its part")]
mod network;
mod node;
mod stand;
mod static_site;
mod stub;
mod typo3;
mod wordpress;
