//! Addresses, listeners, streams, TLS and time limits: what the accelerator and the load tester need of the
//! network.
//!
//! Invariant: a listening socket is made once and outlives whoever accepts from it; binding errors name the
//! address and say what to do. This crate moves octets and knows no HTTP.

mod address;
mod input;
mod listen;
mod origin_url;
mod patience;
mod prefixes;
mod stamps;
mod stream;
mod tls;
mod tls_agreement;
mod tls_named;
mod tls_suites;

pub use address::{Address, AddressError};
pub use input::make_room;
pub use listen::{Acceptor, BindError, Listener, bind};
pub use origin_url::{OriginUrl, OriginUrlError};
pub use patience::Patience;
pub use prefixes::{Prefix, PrefixError, Prefixes};
pub use stamps::{Stamp, StampClock, ask_for_stamps, receive};
pub use stream::{IdleStream, Peer, Stream};
pub use tls::{TlsClient, TlsError, TlsStream, TlsTerms};
pub use tls_agreement::TlsAgreement;
pub use tls_suites::{TlsSuites, TlsSuitesError, TlsVersion};
