//! Tools for tests that treat the real binary badly:
//!
//! - a scripted origin that misbehaves,
//! - a client that sends raw bytes,
//! - a collector that reads spans,
//! - a TLS server with bad certificates,
//! - child processes that never outlive their test,
//! - faults of storage, each with a proof,
//! - crash tests and soak tests,
//! - floods, and their cost to an honest client,
//! - the seeds of the fuzz targets.
//!
//! All functions panic on failure, because a test that cannot go on should fail. The product does
//! not use this crate. Waiting is limited generously, so that a hang fails the test. No test's
//! outcome depends on speed.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on panics")]
#![allow(clippy::indexing_slicing, reason = "a test that cannot go on panics")]

pub mod attack;
mod authority;
mod client;
pub mod clients;
mod collector;
pub mod crash;
mod delayed;
mod file_system;
mod http2;
mod origin;
mod paced;
mod port;
mod process;
pub mod rates;
mod seeds;
pub mod soak;
mod storage_fault;
mod tls_front;
pub mod traffic;
pub mod web_server;
mod wire;

pub use authority::{Authority, KeyKind, PemFiles};
pub use client::{Client, Response, get};
pub use collector::{Collector, ReceivedSpan};
pub use delayed::{Delayed, ServedRequest};
pub use file_system::{FileSystem, Frozen, ServedFileSystem};
pub use http2::{Http2Client, Http2Frame, Http2Frames, Http2Stream, field_block};
pub use origin::{Action, Gate, Origin, Seen, response};
pub use paced::Paced;
pub use port::HeldPort;
pub use process::{CommandOutput, Edge, binary, petasos, petasos_with};
pub use seeds::Seeds;
pub use storage_fault::StorageFault;
pub use tls_front::{Certificate, TlsFront};
pub use wire::{Handshake, Trust};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::time::Duration;

/// Longest time that any step of a test may take before it counts as hung.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Raises this process's limit of open descriptors to at least `count`. The usual limit is 1024.
///
/// # Panics
/// If the system's hard limit is lower.
pub fn allow_descriptors(count: u64) {
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|current| current < count) {
        setrlimit(Resource::Nofile, Rlimit { current: Some(count), maximum: limit.maximum }).unwrap();
    }
}

/// Waits until `condition` holds, and tests it every 10 ms.
///
/// # Panics
/// If it does not hold within [`PATIENCE`]. The message contains `what`.
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
