//! HTTP/2 (RFC 9113) to clients, over the `h2` crate. A stream runs through the same steps as a
//! request with HTTP/1.
//!
//! Invariant: no step of a request knows the protocol. Requests are translated to HTTP/1 and
//! checked by its strict parser, so that both protocols accept the same requests.

pub(crate) mod allowance;
pub(crate) mod connection;
pub(crate) mod metered;
pub(crate) mod outlet;
pub(crate) mod priority;
pub(crate) mod request;
pub(crate) mod response;
pub(crate) mod tunnel;
pub(crate) mod wire;
