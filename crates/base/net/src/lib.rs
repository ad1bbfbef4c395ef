//! Network basics for the accelerator and the load tester: listeners, streams, TLS and time limits.
//!
//! Invariant: a listening socket is created once and lives longer than any acceptor that uses it. A
//! bind error names the address and says how to fix it. This crate transfers bytes and does not
//! know HTTP.

mod certificates;
mod datagrams;
mod inherited;
mod input;
mod listen;
mod memory_channel;
mod message_channel;
mod patience;
mod stamps;
mod stream;
mod tls;
mod tls_agreement;
mod tls_named;
mod tls_origin;
mod tls_provider;
mod tls_server;
mod tls_session;

pub use certificates::{
    ACME_TLS, Certificate, CertificateError, CertificateFiles, Certificates, ChallengeCertificates,
    ChallengeError, Refreshed,
};
pub use datagrams::Datagrams;
pub use inherited::InheritedSockets;
pub use input::{make_room, read_more};
pub use listen::{Acceptor, BindError, Listener, bind, resolve};
pub use message_channel::{MessageChannel, MessageListener, Passed, Received};
pub use patience::Patience;
pub use stamps::{Stamp, StampClock, ask_for_stamps, receive};
pub use stream::{Connecting, Connection, IdleStream, Network, Peer, Stream, SystemNetwork};
pub use tls::{TlsClient, TlsError, TlsStream};
pub use tls_agreement::agreed_terms;
pub use tls_origin::{OriginTlsError, OriginTlsTerms};
pub use tls_server::{HandshakeError, TlsServer, TlsServerError, TlsServerTerms};
pub use tls_session::IdleTls;
