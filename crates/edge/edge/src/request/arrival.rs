//! How a client reached the edge.
//!
//! Invariant: these are facts of the connection. Nothing that a request claims is part of them.

use net::Peer;
use tls_terms::TlsVersion;

/// How a client reached the edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arrival {
    /// The client's end of the connection.
    pub(crate) peer: Peer,
    /// The number of the listener in the plan.
    pub(crate) listener: usize,
    /// Whether TLS secures the client's connection, to this listener or to the proxy in front.
    pub(crate) is_secured: bool,
    /// The version of TLS between the client and this edge.
    pub(crate) tls: Option<TlsVersion>,
}

impl From<Peer> for Arrival {
    /// A plain connection to the first listener.
    fn from(peer: Peer) -> Self {
        Self { peer, listener: 0, is_secured: false, tls: None }
    }
}
