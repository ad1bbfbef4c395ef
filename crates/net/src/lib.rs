//! Addresses, listeners and streams: what the accelerator and the load tester need of the network.
//!
//! Invariant: a listening socket is made once and outlives whoever accepts from it; binding errors name the
//! address and say what to do. This crate moves octets; it knows no HTTP and takes no time limits (callers
//! wrap the futures).

mod address;
mod listen;
mod origin_url;
mod stream;

pub use address::{Address, AddressError};
pub use listen::{Acceptor, BindError, Listener, bind};
pub use origin_url::{OriginUrl, OriginUrlError};
pub use stream::{IdleStream, Peer, Stream};
