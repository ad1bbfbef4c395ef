//! Errors as plain comparable values: one variant for each rule that a peer broke.
//!
//! Every error here is the peer's fault and final for its connection, because the start of the next
//! message is unknown after it. Mistakes of our own code are assertions and do not appear here.
//! [`WriteError`] is an exception: text that the writer refuses may come from the peer on the other
//! side.

use bytes::Bytes;
use message::Status;
use thiserror::Error;

/// A fault in the parts that requests and responses share: line ends and field lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
pub enum HeadError {
    /// A line ended in LF alone (RFC 9112 section 2.2).
    #[error("a line ends in LF without CR")]
    BareLf,
    /// A CR without LF after it, or bytes between the version and the end of the start line.
    #[error("CR without LF, or octets where the line should end")]
    LineEnd,
    /// White space between field name and colon, or inside the name (RFC 9112 section 5.1).
    #[error("white space before the colon of a field line")]
    BlankBeforeColon,
    /// A line that starts with white space: obsolete line folding (RFC 9112 section 5.2).
    #[error("a field line starts with white space (obsolete folding)")]
    Folded,
    /// A field name outside the `token` syntax, or a field line without a colon.
    #[error("a field name is not a token")]
    FieldName,
    /// A control byte, such as NUL or a bare CR, in a field value (RFC 9110 section 5.5).
    #[error("a field value contains a control octet")]
    FieldValue,
    /// More than [`Limits::fields_max`](crate::Limits::fields_max) field lines.
    #[error("too many field lines")]
    TooManyFields,
    /// The head does not end within [`Limits::head_bytes_max`](crate::Limits::head_bytes_max)
    /// bytes.
    #[error("the head is too large")]
    TooLarge,
    /// The version is neither HTTP/1.0 nor HTTP/1.1.
    #[error("the version is neither HTTP/1.0 nor HTTP/1.1")]
    Version,
    /// The text in the place of the version is not `HTTP/DIGIT.DIGIT` (RFC 9112 section 2.3).
    #[error("the version is not HTTP/DIGIT.DIGIT")]
    VersionMalformed,
}

/// An ambiguous body length (RFC 9112 section 6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
pub enum FramingError {
    /// Content-Length is not a plain decimal number below 2^64.
    #[error("Content-Length is not a decimal number")]
    ContentLengthInvalid,
    /// The same Content-Length twice, on two lines or as a list.
    #[error("Content-Length is repeated")]
    ContentLengthRepeated,
    /// Content-Lengths that contradict each other.
    #[error("Content-Length values differ")]
    ContentLengthsDiffer,
    /// A transfer coding other than `chunked`. This crate decodes no other.
    #[error("a transfer coding other than chunked")]
    TransferCodingUnsupported,
    /// A Transfer-Encoding whose last coding is not `chunked`. A request with it has no defined
    /// end.
    #[error("the last transfer coding is not chunked")]
    ChunkedNotLast,
    /// `chunked` more than once, or Transfer-Encoding on more than one line.
    #[error("Transfer-Encoding or chunked is repeated")]
    TransferEncodingRepeated,
    /// Both Transfer-Encoding and Content-Length (RFC 9112 section 6.3, item 3).
    #[error("both Transfer-Encoding and Content-Length")]
    TransferEncodingWithContentLength,
    /// Transfer-Encoding in an HTTP/1.0 message (RFC 9112 section 6.1).
    #[error("Transfer-Encoding in an HTTP/1.0 message")]
    TransferEncodingInHttp10,
}

/// A malformed request target (RFC 9112 section 3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
pub enum TargetError {
    /// A byte that no target may contain: a control, a space, a quote, `<`, `>`, `#`, DEL or
    /// non-ASCII.
    #[error("the target contains an octet that is not allowed there")]
    Octet,
    /// None of the four forms, or a form that the method does not allow.
    #[error("the target has no form that goes with the method")]
    Form,
    /// An authority that is empty or has user information, an invalid host or an invalid port.
    #[error("the target's authority is invalid")]
    Authority,
}

/// Why a request head was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
pub enum RequestError {
    /// A fault in line ends, field lines, size or version.
    #[error(transparent)]
    Head(#[from] HeadError),
    /// A fault in the announcement of the body's length.
    #[error(transparent)]
    Framing(#[from] FramingError),
    /// The method is not a token followed by one space.
    #[error("the method is not a token")]
    Method,
    /// The target is malformed.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// The target is longer than [`Limits::target_bytes_max`](crate::Limits::target_bytes_max).
    #[error("the target is too long")]
    TargetTooLong,
    /// An HTTP/1.1 request without Host (RFC 9112 section 3.2).
    #[error("HTTP/1.1 request without Host")]
    HostMissing,
    /// More than one Host line.
    #[error("Host is repeated")]
    HostRepeated,
    /// A Host other than `host [":" port]`.
    #[error("Host is invalid")]
    HostInvalid,
}

impl RequestError {
    /// The status code of the response that refuses the request.
    pub fn status(self) -> Status {
        let code = match self {
            Self::Head(HeadError::TooManyFields | HeadError::TooLarge) => 431,
            Self::Head(HeadError::Version) => 505,
            Self::TargetTooLong => 414,
            Self::Framing(FramingError::TransferCodingUnsupported) => 501,
            _ => 400,
        };
        Status::from_code(code).unwrap_or(Status::BAD_REQUEST)
    }
}

/// Why a response head was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
pub enum ResponseError {
    /// A fault in line ends, field lines, size or version.
    #[error(transparent)]
    Head(#[from] HeadError),
    /// A fault in the announcement of the body's length.
    #[error(transparent)]
    Framing(#[from] FramingError),
    /// The status line has no three-digit status code of at least 100, or its reason has a control
    /// byte.
    #[error("the status line is malformed")]
    StatusLine,
    /// An empty line before the status line, which may be left over from the previous message.
    #[error("an empty line before the status line")]
    EmptyLine,
}

/// Why a body was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
pub enum BodyError {
    /// A chunk size line that does not start with hexadecimal digits, or in which something other
    /// than an extension follows them.
    #[error("a chunk size is not hexadecimal")]
    ChunkSize,
    /// A chunk size of more than 16 digits.
    #[error("a chunk size has more than 16 digits")]
    ChunkSizeTooLong,
    /// A chunk extension that violates its grammar or contains a control byte.
    #[error("a chunk extension is malformed")]
    ChunkExtension,
    /// More than [`Limits::chunk_extension_bytes_max`](crate::Limits::chunk_extension_bytes_max)
    /// bytes of chunk extensions.
    #[error("chunk extensions are too large")]
    ChunkExtensionsTooLarge,
    /// A chunk's data is not followed by a line end, so the chunk size was wrong.
    #[error("chunk data is not followed by a line end")]
    ChunkEnd,
    /// A line of the chunked coding ended in LF alone.
    #[error("a line of the chunked coding ends in LF without CR")]
    BareLf,
    /// CR without LF in a line of the chunked coding.
    #[error("CR without LF in the chunked coding")]
    LineEnd,
    /// An invalid list of field lines in the trailer section.
    #[error("trailer section: {0}")]
    Trailer(HeadError),
    /// A trailer section of more than
    /// [`Limits::trailer_bytes_max`](crate::Limits::trailer_bytes_max) bytes.
    #[error("the trailer section is too large")]
    TrailerTooLarge,
    /// The connection ended before the body.
    #[error("the connection ended before the body did")]
    Truncated {
        /// Missing content bytes; `None` if the framing does not tell.
        missing_bytes: Option<u64>,
    },
}

/// Why a client gets no complete response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
pub enum ExchangeError {
    /// The connection ended before the head of the final response was complete.
    #[error("the connection ended before the response")]
    Closed,
    /// A head was refused.
    #[error(transparent)]
    Head(#[from] ResponseError),
    /// More informational responses than
    /// [`Terms::informational_max`](crate::client::Terms::informational_max).
    #[error("too many informational responses")]
    TooManyInformational,
    /// The content violates its framing, or the connection ended before it.
    #[error(transparent)]
    Body(#[from] BodyError),
}

/// Why a head or trailer section was not written. No part of it is in the output.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Error)]
pub enum WriteError {
    /// The method is not a token.
    #[error("the method is not a token")]
    Method,
    /// The target is empty or contains a space, a control byte or DEL.
    #[error("the target is empty or contains white space or a control octet")]
    Target,
    /// The reason phrase contains a control byte.
    #[error("the reason phrase contains a control octet")]
    Reason,
    /// A field name is not a token.
    #[error("field name `{}` is not a token", .0.escape_ascii())]
    FieldName(Bytes),
    /// The value of the field with this name contains a control byte such as CR, LF or NUL.
    #[error("the value of field `{}` contains a control octet", .0.escape_ascii())]
    FieldValue(Bytes),
}

#[cfg(test)]
mod tests {
    use super::{FramingError, HeadError, RequestError, TargetError};

    #[test]
    fn refusals_have_the_most_specific_status() {
        for (error, code) in [
            (RequestError::Head(HeadError::TooLarge), 431),
            (RequestError::Head(HeadError::TooManyFields), 431),
            (RequestError::Head(HeadError::Version), 505),
            (RequestError::Head(HeadError::VersionMalformed), 400),
            (RequestError::Head(HeadError::BareLf), 400),
            (RequestError::TargetTooLong, 414),
            (RequestError::Target(TargetError::Octet), 400),
            (RequestError::Framing(FramingError::TransferCodingUnsupported), 501),
            (RequestError::Framing(FramingError::ChunkedNotLast), 400),
            (RequestError::HostMissing, 400),
        ] {
            assert_eq!(error.status().code(), code, "{error}");
        }
    }
}
