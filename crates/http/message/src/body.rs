//! The frames of a message body. A frame carries content bytes from which the transfer coding is
//! already removed. Content codings and framing are handled elsewhere.

use crate::Fields;
use bytes::Bytes;

/// One piece of a message's content, in order (RFC 9110 section 6.4).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// Bytes of the content; never empty.
    Data(Bytes),
    /// The end of the content, with the trailer fields if the message had any (RFC 9110 section
    /// 6.5).
    End(Option<Box<Fields>>),
}
