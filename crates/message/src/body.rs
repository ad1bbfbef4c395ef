//! The frames a message body is made of. Content coding and framing are not this file's business:
//! a frame carries content octets with the transfer coding already removed.

use crate::Fields;
use bytes::Bytes;

/// One piece of a message's content, in order (RFC 9110 section 6.4).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// Content octets; never empty.
    Data(Bytes),
    /// The end of the content, with the trailer fields if the message had any (RFC 9110 section 6.5).
    End(Option<Box<Fields>>),
}
