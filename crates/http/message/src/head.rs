//! Request and response heads: everything before the content.

use crate::{Fields, Method, Status};
use bytes::Bytes;

/// The protocol version in which a message was received or is to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// HTTP/1.0.
    Http10,
    /// HTTP/1.1.
    Http11,
}

/// A request's control data and header fields (RFC 9110 section 6.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestHead {
    /// The method.
    pub method: Method,
    /// The request target exactly as received: origin-form, absolute-form, authority-form or `*`
    /// (RFC 9112 section 3.2).
    pub target: Bytes,
    /// The version of the message.
    pub version: Version,
    /// Header fields in order.
    pub fields: Fields,
}

/// A response's control data and header fields (RFC 9110 section 6.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResponseHead {
    /// The version of the message.
    pub version: Version,
    /// The status code.
    pub status: Status,
    /// The reason phrase as received; may be empty.
    pub reason: Bytes,
    /// Header fields in order.
    pub fields: Fields,
}

impl ResponseHead {
    /// A head with the status' registered reason phrase and no fields.
    pub fn new(status: Status) -> Self {
        Self {
            version: Version::Http11,
            status,
            reason: Bytes::from_static(status.reason().as_bytes()),
            fields: Fields::new(),
        }
    }
}
