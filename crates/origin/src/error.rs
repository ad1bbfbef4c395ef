//! Why a fetch gave no whole response: whose fault, in plain comparable data.

use crate::limit::Busy;
use h1::{BodyError, ResponseError};
use std::io;

/// Why a fetch failed. After it the connection is closed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FetchError {
    /// The request did not get its turn.
    #[error(transparent)]
    Busy(#[from] Busy),
    /// The breaker of the application is open, and the request is none that goes all the same.
    #[error("the application does not answer, and is asked by one request at a time until it does")]
    BreakerOpen,
    /// Nobody listens at the application's address.
    #[error("the application refuses connections")]
    Refused,
    /// No connection for another reason, such as a name without address or a network without route.
    #[error("the application cannot be reached: {0}")]
    Unreachable(io::ErrorKind),
    /// No connection in time.
    #[error("the application did not accept the connection in time")]
    ConnectTimeout,
    /// No octet of a response in time.
    #[error("the application did not begin its answer in time")]
    FirstByteTimeout,
    /// A pause inside the response, or inside the application's reading of the request, that was too long.
    #[error("the application stopped in the middle for too long")]
    BetweenBytesTimeout,
    /// The connection ended before the response's head was complete.
    #[error("the application closed the connection before its answer")]
    Closed,
    /// The response's head is no correct HTTP/1.
    #[error("the application's answer is no correct HTTP/1: {0}")]
    BadHead(ResponseError),
    /// One 1xx response after the other, and none that answers.
    #[error("the application sent more informational responses than anybody reads")]
    TooManyInformational,
    /// A switch of protocols that the request did not ask for.
    #[error("the application switched protocols without being asked to")]
    UnaskedSwitch,
    /// 304 (Not Modified) although the request had no condition (RFC 9110 section 15.4.5).
    #[error("the application answered 304 to a request without a condition")]
    UnaskedNotModified,
    /// The response's content breaks its framing or ended too early.
    #[error("the application's answer broke off or broke its framing: {0}")]
    BadBody(BodyError),
    /// The request's content did not arrive from the visitor; not the application's fault.
    #[error(transparent)]
    Upload(#[from] UploadError),
}

/// Why the content of a request ended before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UploadError {
    /// The visitor closed the connection.
    #[error("the visitor went away in the middle of the request")]
    Gone,
    /// The content breaks its framing.
    #[error("the request's content is no correct HTTP/1: {0}")]
    Malformed(BodyError),
    /// The visitor paused for too long.
    #[error("the visitor stopped in the middle of the request for too long")]
    TimedOut,
    /// The visitor sent less than the minimum rate.
    #[error("the visitor sent the request too slowly")]
    TooSlow,
    /// What had come of the content could not be read back.
    #[error("the request's content was lost on the way")]
    Lost,
    /// The content is larger than allowed.
    #[error("the request's content is larger than allowed")]
    TooLarge,
}

impl FetchError {
    /// What a failure to connect is called.
    pub(crate) fn connecting(error: &io::Error) -> Self {
        match error.kind() {
            // A Unix socket that does not exist is an application that does not run.
            io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound => Self::Refused,
            kind => Self::Unreachable(kind),
        }
    }

    /// Whether the application took too long.
    pub fn is_timeout(&self) -> bool {
        matches!(self, Self::ConnectTimeout | Self::FirstByteTimeout | Self::BetweenBytesTimeout)
    }
}
