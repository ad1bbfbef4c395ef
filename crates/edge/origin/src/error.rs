//! Why a fetch gave no complete response, as plain comparable values.

use crate::limit::Busy;
use h1::{BodyError, ExchangeError, ResponseError};
use net::TlsError;
use std::io;

/// Why a fetch failed. Its connection is closed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FetchError {
    /// The request did not get a permit.
    #[error(transparent)]
    Busy(#[from] Busy),
    /// The breaker is open because the origin cannot be reached, and the request is not a probe.
    #[error("the application does not answer; Petasos sends it one request at a time until it does")]
    BreakerOpen,
    /// No process listens at the origin's address.
    #[error("the application refuses connections")]
    Refused,
    /// No connection for another reason, such as a name without an address or a network without a
    /// route.
    #[error("the application cannot be reached: {0}")]
    Unreachable(io::ErrorKind),
    /// The connection was not accepted in time.
    #[error("the application did not accept the connection in time")]
    ConnectTimeout,
    /// The connection could not be secured, or TLS ended it before the first byte of a response.
    #[error("there is no secure connection to the application: {0}")]
    Tls(#[from] TlsError),
    /// The first byte of the response did not arrive in time.
    #[error("the application did not begin its response in time")]
    FirstByteTimeout,
    /// A pause was too long, inside the response or while the origin read the request.
    #[error("the application paused for too long in the middle of the exchange")]
    BetweenBytesTimeout,
    /// The connection ended before the head of the response was complete.
    #[error("the application closed the connection before its response")]
    Closed,
    /// The head of the response is not correct HTTP/1.
    #[error("the application's response is not correct HTTP/1: {0}")]
    BadHead(ResponseError),
    /// More 1xx responses than the limit, without a final response.
    #[error("the application sent too many informational responses")]
    TooManyInformational,
    /// A switch of protocols (101) that the request did not ask for.
    #[error("the application switched protocols although the request did not ask for it")]
    UnaskedSwitch,
    /// 304 (Not Modified) although the request had no condition (RFC 9110 section 15.4.5).
    #[error("the application answered 304 to a request without a condition")]
    UnaskedNotModified,
    /// The content of the response violates its framing or ended too early.
    #[error("the application's response is incomplete or violates its framing: {0}")]
    BadBody(BodyError),
    /// The content of the request did not arrive from the visitor. The origin is not at fault.
    #[error(transparent)]
    Upload(#[from] UploadError),
}

/// Why the content of a request ended too early.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UploadError {
    /// The visitor closed the connection.
    #[error("the client closed the connection in the middle of the request")]
    Gone,
    /// The content violates its framing.
    #[error("the request's content is not correct HTTP/1: {0}")]
    Malformed(BodyError),
    /// The visitor paused for too long.
    #[error("the client paused for too long in the middle of the request")]
    TimedOut,
    /// The visitor sent less than the minimum rate.
    #[error("the client sent the request too slowly")]
    TooSlow,
    /// Content that was received and buffered could not be read back.
    #[error("the stored content of the request cannot be read")]
    Lost,
    /// The content is larger than the limit.
    #[error("the request's content is larger than allowed")]
    TooLarge,
}

impl FetchError {
    /// The error for a connection attempt that failed with `error`.
    pub(crate) fn connecting(error: &io::Error) -> Self {
        match error.kind() {
            // A Unix socket that does not exist: the origin is not running.
            io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound => Self::Refused,
            kind => Self::Unreachable(kind),
        }
    }

    /// Whether the origin took too long.
    pub fn is_timeout(&self) -> bool {
        matches!(self, Self::ConnectTimeout | Self::FirstByteTimeout | Self::BetweenBytesTimeout)
    }
}

impl From<ExchangeError> for FetchError {
    fn from(error: ExchangeError) -> Self {
        match error {
            ExchangeError::Closed => Self::Closed,
            ExchangeError::Head(error) => Self::BadHead(error),
            ExchangeError::TooManyInformational => Self::TooManyInformational,
            ExchangeError::Body(error) => Self::BadBody(error),
        }
    }
}
