//! A deterministic world for simulations: randomness, time, threads, connections and disks.
//!
//! Invariant: a world runs on one system thread, without sockets, files and real time. Everything
//! that happens in it follows from its seed.

mod direction;
mod pipe;
mod random;

pub use pipe::{OpenPipes, Pipe, PipeSettings, pipe};
pub use random::Random;
