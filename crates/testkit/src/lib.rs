//! What tests need to treat the real binary badly: an origin that misbehaves on order, a client that speaks
//! raw octets, a server that shows bad certificates, child processes that never outlive their test, and the seeds of
//! the fuzz targets.
//!
//! Everything here panics on trouble, as tests want it; nothing here is used by the product. Waiting has a
//! generous limit so that a hang fails instead of hanging, and no test's outcome depends on speed.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on panics")]
#![allow(clippy::indexing_slicing, reason = "a test that cannot go on panics")]

mod client;
pub mod clients;
pub mod crash;
mod delayed;
mod file_system;
mod origin;
mod paced;
mod port;
mod process;
pub mod rates;
mod seeds;
pub mod soak;
mod tls;
pub mod traffic;
pub mod web_server;

pub use client::{Client, Response, get};
pub use delayed::{Delayed, Served};
pub use file_system::{FileSystem, Frozen, ServedFileSystem};
pub use origin::{Action, Gate, Origin, Seen, response};
pub use paced::Paced;
pub use port::HeldPort;
pub use process::{Edge, Output, binary, petasos, petasos_with};
pub use seeds::Seeds;
pub use tls::{Certificate, PemFiles, TlsFront};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::time::Duration;

/// How long anything in a test may take before it counts as hung.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Sees to it that this process may open as many descriptors; the usual limit is 1024.
///
/// # Panics
/// If the system's hard limit is lower.
pub fn allow_descriptors(count: u64) {
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|current| current < count) {
        setrlimit(Resource::Nofile, Rlimit { current: Some(count), maximum: limit.maximum }).unwrap();
    }
}

/// Waits until `condition` holds.
///
/// # Panics
/// If it does not within [`PATIENCE`]; `what` is said then.
pub fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let pause = Duration::from_millis(10);
    for _ in 0..PATIENCE.as_millis() / pause.as_millis() {
        if condition() {
            return;
        }
        std::thread::sleep(pause);
    }
    panic!("never happened: {what}");
}
