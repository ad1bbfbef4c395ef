//! Why the sending of a response stopped before its end.
//!
//! Invariant: whatever the cause, the client can see that the response is incomplete.

use crate::request::client::SendError;
use crate::request::gunzip::Undecodable;
use origin::FetchError;

/// Why sending stopped before its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Interrupted {
    /// The client's connection failed.
    Visitor(SendError),
    /// The source of the content failed.
    Source(Option<FetchError>),
    /// The stored body was damaged, and the origin could not supply the missing bytes.
    Damage,
    /// The edge shut down during a response that has no end.
    Drain,
    /// The spool did not return the bytes that it had taken.
    Spool,
    /// The content could not be decoded for a client that refuses its coding.
    Undecodable,
}

impl From<Undecodable> for Interrupted {
    fn from(Undecodable: Undecodable) -> Self {
        Self::Undecodable
    }
}

impl From<SendError> for Interrupted {
    fn from(error: SendError) -> Self {
        Self::Visitor(error)
    }
}
