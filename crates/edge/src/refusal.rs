//! Answers that the edge makes itself, because of the request or because the application gave none.
//!
//! Invariant: such an answer is never stored, says what failed and what to do, and tells nothing of the inside
//! but the application's address. One place maps causes to status codes; nobody else picks them.

use crate::purge_access::Denied;
use h1::{FramingError, HeadError, RequestError};
use message::{Method, Status};
use net::OriginUrl;
use origin::{Busy, FetchError, UploadError};
use semantics::Reason;

/// How long a visitor is asked to wait when the application is busy, in seconds.
const RETRY_AFTER_SECS: u32 = 5;

/// An answer made by the edge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) status: Status,
    pub(crate) reason: Reason,
    /// What failed and what to do, in plain text.
    pub(crate) text: String,
    /// For `Retry-After`.
    pub(crate) retry_after_secs: Option<u32>,
    /// Nothing that follows on the connection can be trusted.
    pub(crate) close: bool,
}

impl Refusal {
    fn new(code: u16, reason: Reason, text: impl Into<String>) -> Self {
        let status = Status::from_code(code).unwrap_or(Status::BAD_GATEWAY);
        Self { status, reason, text: text.into(), retry_after_secs: None, close: false }
    }

    fn closing(code: u16, reason: Reason, text: impl Into<String>) -> Self {
        Self { close: true, ..Self::new(code, reason, text) }
    }

    /// Octets that are no request head.
    pub(crate) fn malformed(error: RequestError) -> Self {
        let reason = match error {
            RequestError::Framing(FramingError::TransferCodingUnsupported) => Reason::BadRequest,
            RequestError::Framing(_) => Reason::AmbiguousFraming,
            RequestError::Head(HeadError::TooLarge | HeadError::TooManyFields)
            | RequestError::TargetTooLong => Reason::HeadTooLarge,
            _ => Reason::BadRequest,
        };
        Self::closing(error.status().code(), reason, format!("The request cannot be read: {error}."))
    }

    /// A request head that did not end in time.
    pub(crate) fn head_timed_out() -> Self {
        Self::closing(408, Reason::RequestTimeout, "The request's head did not arrive in time.")
    }

    /// CONNECT, which only forward proxies serve.
    pub(crate) fn connect() -> Self {
        Self::closing(501, Reason::ConnectRefused, "This server is no proxy for other hosts.")
    }

    /// A target with a scheme that is none of ours.
    pub(crate) fn foreign_scheme() -> Self {
        Self::new(400, Reason::BadRequest, "The request's target is neither an http nor an https URL.")
    }

    /// A request that this edge has sent itself.
    pub(crate) fn looping(origin: &OriginUrl) -> Self {
        Self::new(
            508,
            Reason::LoopDetected,
            format!(
                "The origin {origin} leads back to this server. Correct it to the application's own address."
            ),
        )
    }

    /// TRACE or OPTIONS that may go no further (RFC 9110 section 7.6.2). The edge says nothing of itself, and sends
    /// back nothing of the request: what it contains might be secret.
    pub(crate) fn last_hop(method: &Method) -> Self {
        let code = if *method == Method::Options { 200 } else { 501 };
        Self::new(
            code,
            Reason::LastHop,
            "Petasos answers this itself, because of the request's Max-Forwards.",
        )
    }

    /// A host that no site answers to.
    pub(crate) fn unknown_site() -> Self {
        Self::new(
            421,
            Reason::UnknownSite,
            "No site with this host name is served here. If it should be, add the name to a site's `names`.",
        )
    }

    /// Content larger than the limit.
    pub(crate) fn too_large() -> Self {
        Self::closing(
            413,
            Reason::BodyTooLarge,
            "The request's content is larger than allowed (limits.request_body_bytes_max).",
        )
    }

    /// only-if-cached, and nothing stored.
    pub(crate) fn only_if_cached() -> Self {
        Self::new(
            504,
            Reason::OnlyIfCached,
            "The request asked for a stored response only, and there is none it may have.",
        )
    }

    /// A fetch that gave no response.
    pub(crate) fn failed_fetch(error: &FetchError, origin: &OriginUrl) -> Self {
        match error {
            FetchError::Busy(busy) => Self::busy(*busy, origin),
            FetchError::Refused => Self::new(
                502,
                Reason::OriginRefusedConnection,
                format!("The application at {origin} refuses connections. Start it, or correct its address."),
            ),
            FetchError::Unreachable(kind) => Self::new(
                502,
                Reason::OriginUnreachable,
                format!(
                    "The application at {origin} cannot be reached: {kind}. Check its address and the network."
                ),
            ),
            FetchError::ConnectTimeout | FetchError::FirstByteTimeout | FetchError::BetweenBytesTimeout => {
                Self::new(
                    504,
                    Reason::OriginTimeout,
                    format!(
                        "The application at {origin} took too long: {error}. Look at what keeps it busy."
                    ),
                )
            }
            FetchError::Closed => Self::new(
                502,
                Reason::OriginTruncated,
                format!(
                    "The application at {origin} closed the connection without an answer. Look at its error log."
                ),
            ),
            FetchError::BadHead(_)
            | FetchError::BadBody(_)
            | FetchError::TooManyInformational
            | FetchError::UnaskedSwitch => Self::new(
                502,
                Reason::OriginBadResponse,
                format!("The application at {origin} gave an answer that cannot be used: {error}."),
            ),
            FetchError::Upload(error) => Self::failed_upload(*error),
        }
    }

    /// An application that fails on a page again and again.
    pub(crate) fn failing_origin(origin: &OriginUrl) -> Self {
        let text = format!(
            "The application at {origin} answers everybody who asks for this page with an error. Look at its error log."
        );
        Self { retry_after_secs: Some(RETRY_AFTER_SECS), ..Self::new(503, Reason::OriginFailing, text) }
    }

    /// A purge from a client that may not.
    pub(crate) fn purge_forbidden(denied: Denied) -> Self {
        Self::new(403, Reason::PurgeForbidden, denied.text())
    }

    /// A request that cannot be written as it was read.
    pub(crate) fn unwritable() -> Self {
        Self::closing(400, Reason::BadRequest, "The request cannot be forwarded as it is.")
    }

    fn busy(busy: Busy, origin: &OriginUrl) -> Self {
        let reason = match busy {
            Busy::QueueFull => Reason::QueueFull,
            Busy::QueueTimeout => Reason::QueueTimeout,
        };
        let text = format!("The application at {origin} has too much to do. Try again in a moment.");
        Self { retry_after_secs: Some(RETRY_AFTER_SECS), ..Self::new(503, reason, text) }
    }

    fn failed_upload(error: UploadError) -> Self {
        match error {
            UploadError::TooLarge => Self::too_large(),
            UploadError::TimedOut => {
                Self::closing(408, Reason::RequestTimeout, "The request's content did not arrive in time.")
            }
            UploadError::TooSlow => {
                Self::closing(408, Reason::RequestTimeout, "The request's content arrives too slowly.")
            }
            UploadError::Lost => Self::closing(
                503,
                Reason::RequestLost,
                "The request could not be kept until the application was free. Send it again.",
            ),
            UploadError::Gone => {
                Self::closing(400, Reason::VisitorGone, "The request's content ended before its end.")
            }
            UploadError::Malformed(error) => Self::closing(
                400,
                Reason::AmbiguousFraming,
                format!("The request's content cannot be read: {error}."),
            ),
        }
    }

    /// The page: status, text, and the reason's name to look up.
    pub(crate) fn page(&self) -> String {
        let (code, phrase) = (self.status.code(), self.status.reason());
        format!("{code} {phrase}\n\n{}\n\nPetasos, reason {}\n", self.text, self.reason)
    }
}

#[cfg(test)]
mod tests {
    use super::Refusal;
    use h1::{BodyError, FramingError, HeadError, RequestError};
    use origin::{Busy, FetchError, UploadError};
    use semantics::{Reason, Verdict};
    use std::io::ErrorKind;

    #[test]
    fn causes_have_the_status_codes_of_the_table() {
        let origin = "http://127.0.0.1:9".parse().unwrap();
        let truncated = BodyError::Truncated { missing_bytes: None };
        for (error, code, reason) in [
            (FetchError::Busy(Busy::QueueFull), 503, Reason::QueueFull),
            (FetchError::Busy(Busy::QueueTimeout), 503, Reason::QueueTimeout),
            (FetchError::Refused, 502, Reason::OriginRefusedConnection),
            (FetchError::Unreachable(ErrorKind::HostUnreachable), 502, Reason::OriginUnreachable),
            (FetchError::ConnectTimeout, 504, Reason::OriginTimeout),
            (FetchError::FirstByteTimeout, 504, Reason::OriginTimeout),
            (FetchError::BetweenBytesTimeout, 504, Reason::OriginTimeout),
            (FetchError::Closed, 502, Reason::OriginTruncated),
            (FetchError::BadBody(truncated), 502, Reason::OriginBadResponse),
            (FetchError::TooManyInformational, 502, Reason::OriginBadResponse),
            (FetchError::UnaskedSwitch, 502, Reason::OriginBadResponse),
            (FetchError::Upload(UploadError::TooLarge), 413, Reason::BodyTooLarge),
            (FetchError::Upload(UploadError::TimedOut), 408, Reason::RequestTimeout),
            (FetchError::Upload(UploadError::TooSlow), 408, Reason::RequestTimeout),
            (FetchError::Upload(UploadError::Malformed(truncated)), 400, Reason::AmbiguousFraming),
        ] {
            let refusal = Refusal::failed_fetch(&error, &origin);
            assert_eq!((refusal.status.code(), refusal.reason), (code, reason), "{error:?}");
            assert_eq!(refusal.retry_after_secs.is_some(), code == 503, "{error:?}");
            assert_eq!(refusal.page().contains("http://127.0.0.1:9"), reason.verdict() == Verdict::Failed);
        }
    }

    #[test]
    fn what_cannot_be_read_closes_the_connection() {
        for (error, code, reason) in [
            (RequestError::Framing(FramingError::ContentLengthsDiffer), 400, Reason::AmbiguousFraming),
            (RequestError::Head(HeadError::BareLf), 400, Reason::BadRequest),
            (RequestError::Head(HeadError::TooLarge), 431, Reason::HeadTooLarge),
            (RequestError::TargetTooLong, 414, Reason::HeadTooLarge),
            (RequestError::HostMissing, 400, Reason::BadRequest),
        ] {
            let refusal = Refusal::malformed(error);
            assert_eq!(
                (refusal.status.code(), refusal.reason, refusal.close),
                (code, reason, true),
                "{error:?}"
            );
        }
    }
}
