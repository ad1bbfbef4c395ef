//! Responses that the edge makes itself, because of the request or because the origin gave none.
//!
//! Invariants: they are never stored. They tell the client nothing about the inside: which origin
//! failed and what to do about it is logged for the operator. This module alone maps causes to
//! status codes.

use crate::control::purge_access::Denied;
use crate::request::fragment_url::text_of_path;
use crate::request::origin_names::OriginNames;
use config::FixedAnswer;
use h1::{FramingError, HeadError, RequestError};
use message::Status;
use origin::{Busy, FetchError, UploadError};
use semantics::Reason;
use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// `Retry-After` in seconds when the origin is busy.
const RETRY_AFTER_SECS: u32 = 5;

/// `Retry-After` in seconds while a site is being maintained.
const MAINTENANCE_RETRY_AFTER_SECS: u32 = 300;

/// The media type of HTML pages.
const HTML: &str = "text/html; charset=utf-8";

/// A response made by the edge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) status: Status,
    pub(crate) reason: Reason,
    /// The explanation for the client, in plain text.
    pub(crate) text: String,
    /// Which origin failed and what to do about it, for the operator. If set, the client receives
    /// an HTML page.
    pub(crate) detail: Option<String>,
    /// The site's own HTML page, with the placeholders of [`PAGE`].
    pub(crate) template: Option<Arc<str>>,
    /// The value of `Retry-After`.
    pub(crate) retry_after_secs: Option<u32>,
    /// The value of `WWW-Authenticate`.
    pub(crate) challenge: Option<Box<str>>,
    /// The value of `Location`.
    pub(crate) location: Option<Box<str>>,
    /// Whether the connection is closed, because its further bytes cannot be trusted.
    pub(crate) close: bool,
    /// The content, if the configuration states it.
    pub(crate) content: Option<Box<StatedContent>>,
    /// Whether the connection is closed without the response.
    pub(crate) is_silent: bool,
}

/// Content that the configuration states.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StatedContent {
    media_type: String,
    text: Arc<str>,
}

impl StatedContent {
    /// The content.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }
}

impl Refusal {
    fn new(code: u16, reason: Reason, text: impl Into<String>) -> Self {
        let status = Status::from_code(code).unwrap_or(Status::BAD_GATEWAY);
        Self {
            status,
            reason,
            text: text.into(),
            detail: None,
            template: None,
            retry_after_secs: None,
            challenge: None,
            location: None,
            close: false,
            content: None,
            is_silent: false,
        }
    }

    /// A failure of the origin. The client learns only that there is one.
    fn failure(code: u16, reason: Reason, detail: String) -> Self {
        let text = "The site cannot answer at the moment. Please try again in a few minutes.";
        Self { detail: Some(detail), ..Self::new(code, reason, text) }
    }

    /// Uses the site's own HTML page.
    pub(crate) fn of_site(self, template: Option<&Arc<str>>) -> Self {
        Self { template: template.cloned(), ..self }
    }

    fn closing(code: u16, reason: Reason, text: impl Into<String>) -> Self {
        Self { close: true, ..Self::new(code, reason, text) }
    }

    /// Bytes that are not a valid request head.
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

    /// A plain request to a listener with TLS.
    pub(crate) fn plain_http() -> Self {
        Self::closing(
            400,
            Reason::BadRequest,
            "This port speaks TLS: write https:// in place of http:// in the URL.",
        )
    }

    /// CONNECT, which only forward proxies serve.
    pub(crate) fn connect() -> Self {
        Self::closing(501, Reason::ConnectRefused, "This server is not a proxy for other hosts.")
    }

    /// A target whose scheme is neither http nor https.
    pub(crate) fn foreign_scheme() -> Self {
        Self::new(400, Reason::BadRequest, "The request's target is neither an http nor an https URL.")
    }

    /// A request that this edge has sent itself.
    pub(crate) fn looping(origin: OriginNames<'_>) -> Self {
        Self::failure(
            508,
            Reason::LoopDetected,
            format!("{origin} leads back to this server; correct it to the application's own address"),
        )
    }

    /// OPTIONS that may not be forwarded further (RFC 9110 section 7.6.2). The edge reveals nothing
    /// about itself.
    pub(crate) fn last_hop() -> Self {
        Self::new(200, Reason::LastHop, "Petasos does not forward the request because of its Max-Forwards.")
    }

    /// TRACE, whose response would repeat the request with the possibly secret fields that proxies
    /// have added.
    pub(crate) fn trace() -> Self {
        Self::new(501, Reason::TraceRefused, "This server neither answers nor forwards TRACE.")
    }

    /// A path whose readings belong to different routes.
    pub(crate) fn ambiguous_path() -> Self {
        Self::new(400, Reason::AmbiguousPath, "The path of the request has several meanings.")
    }

    /// A request that names the context of a visitor.
    pub(crate) fn claimed_context() -> Self {
        Self::new(400, Reason::ContextClaimed, "The request has a field that only this server may set.")
    }

    /// A host that belongs to no site. `is_silent`: the connection is closed without a response.
    pub(crate) fn unknown_site(is_silent: bool) -> Self {
        let text = "No site with this host name is served here.";
        Self { is_silent, ..Self::new(421, Reason::UnknownSite, text) }
    }

    /// A request to a site that is being maintained. `page` is its HTML page.
    pub(crate) fn maintenance(page: &Arc<str>) -> Self {
        let content = Some(StatedContent { media_type: HTML.to_owned(), text: Arc::clone(page) }.into());
        let refusal = Self::new(503, Reason::Maintenance, "The site is being maintained.");
        Self { content, retry_after_secs: Some(MAINTENANCE_RETRY_AFTER_SECS), ..refusal }
    }

    /// A request without the password of its site or route (RFC 7617 section 2). `realm` has no
    /// quotation marks.
    pub(crate) fn unauthorised(realm: &str) -> Self {
        let challenge = format!("Basic realm=\"{realm}\", charset=\"UTF-8\"");
        let refusal = Self::new(401, Reason::PasswordRequired, "This page needs a password.");
        Self { challenge: Some(challenge.into()), ..refusal }
    }

    /// A request with a password that cannot be checked at the moment.
    pub(crate) fn password_queue_full() -> Self {
        let text = "Too many passwords are being checked. Try again later.";
        let refusal = Self::new(503, Reason::PasswordQueueFull, text);
        Self { retry_after_secs: Some(RETRY_AFTER_SECS), ..refusal }
    }

    /// A redirection to `url` by a route.
    pub(crate) fn moved(code: u16, url: String) -> Self {
        let text = format!("This page is at {url}");
        Self { location: Some(url.into()), ..Self::new(code, Reason::Redirected, text) }
    }

    /// The response that a route states.
    pub(crate) fn fixed(answer: &FixedAnswer) -> Self {
        let refusal = Self::new(answer.status, Reason::Fixed, "");
        let content = answer.content.as_ref().map(|text| {
            Box::new(StatedContent { media_type: answer.media_type.clone(), text: Arc::clone(text) })
        });
        Self { content, ..refusal }
    }

    /// No file answers the request. The client learns no more.
    pub(crate) fn file_missing() -> Self {
        Self::new(404, Reason::FileMissing, "There is nothing at this address.")
    }

    /// A method other than GET and HEAD for a file.
    pub(crate) fn file_method() -> Self {
        Self::new(405, Reason::FileMethod, "Files are for GET and HEAD only.")
    }

    /// A directory that was named without its final slash.
    pub(crate) fn file_directory(location: &[u8]) -> Self {
        let url = String::from_utf8_lossy(location).into_owned();
        let text = format!("This page is at {url}");
        Self { location: Some(url.into()), ..Self::new(301, Reason::StaticFile, text) }
    }

    /// A directory whose files cannot be read.
    pub(crate) fn files_failed(directory: &Path, error: &str) -> Self {
        let detail = format!("files of {} cannot be read: {error}", directory.display());
        Self { retry_after_secs: Some(RETRY_AFTER_SECS), ..Self::failure(503, Reason::FilesFailed, detail) }
    }

    /// A host that the certificate of the connection is not for (RFC 9110 section 15.5.20).
    pub(crate) fn misdirected() -> Self {
        Self::new(421, Reason::Misdirected, "This connection is for another host: open one for this host.")
    }

    /// Content larger than the limit.
    pub(crate) fn too_large() -> Self {
        Self::closing(413, Reason::BodyTooLarge, "The request's content is larger than allowed.")
    }

    /// `only-if-cached` without a usable stored response.
    pub(crate) fn only_if_cached() -> Self {
        Self::new(
            504,
            Reason::OnlyIfCached,
            "The request accepts only a stored response, and none may be used for it.",
        )
    }

    /// A request beyond the limit of different URLs with unknown parameters. `wait` is the time
    /// until the next one is allowed.
    pub(crate) fn parameter_flood(wait: Duration) -> Self {
        let text = "Too many different addresses with unknown parameters were requested. Try again later.";
        Self { retry_after_secs: Some(whole_secs(wait)), ..Self::new(429, Reason::ParameterFlood, text) }
    }

    /// A client that the operator denies.
    pub(crate) fn denied_client() -> Self {
        Self::closing(403, Reason::ClientDenied, "This address may not use this site.")
    }

    /// A client that sends requests faster than it may. `wait` is the time until the next one is
    /// allowed.
    pub(crate) fn client_rate(wait: Duration) -> Self {
        let text = "Too many requests came from this address. Try again later.";
        Self { retry_after_secs: Some(whole_secs(wait)), ..Self::new(429, Reason::ClientRate, text) }
    }

    /// A client that needs the origin more often than it may. `wait` as in
    /// [`Refusal::client_rate`].
    pub(crate) fn client_origin_rate(wait: Duration) -> Self {
        let text = "Too many requests for new pages came from this address. Try again later.";
        Self { retry_after_secs: Some(whole_secs(wait)), ..Self::new(429, Reason::ClientOriginRate, text) }
    }

    /// A fetch that gave no response.
    pub(crate) fn failed_fetch(error: &FetchError, origin: OriginNames<'_>) -> Self {
        match error {
            FetchError::Busy(busy) => Self::busy(*busy, origin),
            FetchError::BreakerOpen => Self::breaker_open(origin),
            FetchError::Refused => Self::failure(
                502,
                Reason::OriginRefusedConnection,
                format!("{origin} refuses connections; start it, or correct its address"),
            ),
            FetchError::Unreachable(kind) => Self::failure(
                502,
                Reason::OriginUnreachable,
                format!("{origin} cannot be reached: {kind}; check its address and the network"),
            ),
            FetchError::Tls(error) => Self::failure(
                502,
                Reason::OriginTlsFailed,
                format!(
                    "there is no secure connection to {origin}: {error}; check its certificate, \
                     origin_ca, origin_name and origin_certificate"
                ),
            ),
            FetchError::ConnectTimeout | FetchError::FirstByteTimeout | FetchError::BetweenBytesTimeout => {
                Self::failure(
                    504,
                    Reason::OriginTimeout,
                    format!("{origin} took too long: {error}; look for its slow requests"),
                )
            }
            FetchError::Closed => Self::failure(
                502,
                Reason::OriginTruncated,
                format!("{origin} closed the connection without a response; look at its error log"),
            ),
            FetchError::BadHead(_)
            | FetchError::BadBody(_)
            | FetchError::TooManyInformational
            | FetchError::UnaskedSwitch
            | FetchError::UnaskedNotModified => Self::failure(
                502,
                Reason::OriginBadResponse,
                format!("{origin} sent a response that cannot be used: {error}"),
            ),
            FetchError::Upload(error) => Self::failed_upload(*error),
        }
    }

    /// An origin that fails on a page repeatedly.
    pub(crate) fn failing_origin(origin: OriginNames<'_>) -> Self {
        let detail =
            format!("{origin} answers every request for a page with an error; look at its error log");
        Self { retry_after_secs: Some(RETRY_AFTER_SECS), ..Self::failure(503, Reason::OriginFailing, detail) }
    }

    fn breaker_open(origin: OriginNames<'_>) -> Self {
        let detail = format!("the breaker of {origin} is open; find out why the origin fails");
        Self {
            retry_after_secs: Some(RETRY_AFTER_SECS),
            ..Self::failure(503, Reason::OriginBreakerOpen, detail)
        }
    }

    /// A plain request that must use https at this URL. 308 keeps method and content.
    pub(crate) fn redirect(url: String) -> Self {
        let text = format!("This page is at {url}");
        Self { location: Some(url.into()), ..Self::new(308, Reason::RedirectedToHttps, text) }
    }

    /// A plain request of HTTP/1.0 that names no host to be redirected to.
    pub(crate) fn nameless() -> Self {
        Self::closing(400, Reason::BadRequest, "This site needs https, and the request names no host.")
    }

    /// A purge from a client without permission.
    pub(crate) fn purge_forbidden(denied: Denied) -> Self {
        Self::new(403, Reason::PurgeForbidden, denied.text())
    }

    /// A page that cannot be assembled because of its template.
    pub(crate) fn template(target: &[u8], why: &str) -> Self {
        let target = text_of_path(target);
        Self::failure(502, Reason::EsiRefused, format!("the ESI template of {target} is refused: {why}"))
    }

    /// A page whose template finds no memory at the moment.
    pub(crate) fn template_without_memory(target: &[u8], why: &str) -> Self {
        let refusal = Self { status: Status::SERVICE_UNAVAILABLE, ..Self::template(target, why) };
        Self { retry_after_secs: Some(RETRY_AFTER_SECS), ..refusal }
    }

    /// A request that cannot be serialised as it was read.
    pub(crate) fn unwritable() -> Self {
        Self::closing(400, Reason::BadRequest, "The request cannot be forwarded as it is.")
    }

    fn busy(busy: Busy, origin: OriginNames<'_>) -> Self {
        let reason = match busy {
            Busy::QueueFull => Reason::QueueFull,
            Busy::QueueTimeout => Reason::QueueTimeout,
        };
        let detail = format!("{origin} is overloaded; make it faster, or raise limits.fetches_max");
        Self { retry_after_secs: Some(RETRY_AFTER_SECS), ..Self::failure(503, reason, detail) }
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
                "The server could not keep the request until the application was free. Send it again.",
            ),
            UploadError::Gone => {
                Self::closing(400, Reason::VisitorGone, "The request's content is incomplete.")
            }
            UploadError::Malformed(error) => Self::closing(
                400,
                Reason::AmbiguousFraming,
                format!("The request's content cannot be read: {error}."),
            ),
        }
    }

    /// The content and its type: that of the configuration, an HTML page if the origin failed,
    /// otherwise plain text.
    pub(crate) fn page(&self) -> (Cow<'static, str>, String) {
        if let Some(content) = &self.content {
            return (content.media_type.clone().into(), content.text.to_string());
        }
        let (code, phrase) = (self.status.code(), self.status.reason());
        if self.detail.is_none() {
            let text = format!("{code} {phrase}\n\n{}\n", self.text);
            return ("text/plain; charset=utf-8".into(), text.trim_end().to_owned() + "\n");
        }
        let page = self.template.as_deref().unwrap_or(PAGE);
        let page = page.replace("{status}", &code.to_string()).replace("{phrase}", phrase);
        (HTML.into(), page.replace("{message}", &self.text))
    }
}

/// The default HTML page. A site's own page (`error_page`) uses the same placeholders.
const PAGE: &str = r#"<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex">
<title>{status} {phrase}</title>
<style>
body { font: 1.1rem/1.5 system-ui, sans-serif; max-width: 34rem; margin: 15vh auto; padding: 0 1rem }
@media (prefers-color-scheme: dark) { body { background: #1b1b1b; color: #ddd } }
</style>
</head>
<body>
<h1>{phrase}</h1>
<p>{message}</p>
</body>
</html>
"#;

/// A wait in whole seconds. Rounded up: a client that returned within the last second of its wait
/// would be refused again.
fn whole_secs(wait: Duration) -> u32 {
    let secs = wait.as_secs().saturating_add(u64::from(wait.subsec_nanos() > 0));
    u32::try_from(secs).unwrap_or(u32::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::Refusal;
    use crate::request::origin_names::OriginNames;
    use config::EdgePlan;
    use h1::{BodyError, FramingError, HeadError, RequestError};
    use net::TlsError;
    use origin::{Busy, FetchError, UploadError};
    use semantics::{Reason, Verdict};
    use std::io::ErrorKind;
    use std::time::Duration;

    #[test]
    fn each_failure_has_its_status_code_and_reason() {
        let plan = EdgePlan::for_origin("http://127.0.0.1:9".parse().unwrap());
        let origin = OriginNames(&plan.sites[0]);
        let truncated = BodyError::Truncated { missing_bytes: None };
        for (error, code, reason) in [
            (FetchError::Busy(Busy::QueueFull), 503, Reason::QueueFull),
            (FetchError::Busy(Busy::QueueTimeout), 503, Reason::QueueTimeout),
            (FetchError::BreakerOpen, 503, Reason::OriginBreakerOpen),
            (FetchError::Refused, 502, Reason::OriginRefusedConnection),
            (FetchError::Unreachable(ErrorKind::HostUnreachable), 502, Reason::OriginUnreachable),
            (FetchError::Tls(TlsError::Expired), 502, Reason::OriginTlsFailed),
            (FetchError::ConnectTimeout, 504, Reason::OriginTimeout),
            (FetchError::FirstByteTimeout, 504, Reason::OriginTimeout),
            (FetchError::BetweenBytesTimeout, 504, Reason::OriginTimeout),
            (FetchError::Closed, 502, Reason::OriginTruncated),
            (FetchError::BadBody(truncated), 502, Reason::OriginBadResponse),
            (FetchError::TooManyInformational, 502, Reason::OriginBadResponse),
            (FetchError::UnaskedSwitch, 502, Reason::OriginBadResponse),
            (FetchError::UnaskedNotModified, 502, Reason::OriginBadResponse),
            (FetchError::Upload(UploadError::TooLarge), 413, Reason::BodyTooLarge),
            (FetchError::Upload(UploadError::TimedOut), 408, Reason::RequestTimeout),
            (FetchError::Upload(UploadError::TooSlow), 408, Reason::RequestTimeout),
            (FetchError::Upload(UploadError::Malformed(truncated)), 400, Reason::AmbiguousFraming),
        ] {
            let refusal = Refusal::failed_fetch(&error, origin);
            assert_eq!((refusal.status.code(), refusal.reason), (code, reason), "{error:?}");
            assert_eq!(refusal.retry_after_secs.is_some(), code == 503, "{error:?}");
            let told = refusal.detail.as_ref().is_some_and(|detail| detail.contains("http://127.0.0.1:9"));
            assert_eq!(told, reason.verdict() == Verdict::Failed, "{error:?}");
            let (kind, page) = refusal.page();
            assert_eq!(kind.starts_with("text/html"), told, "{error:?}");
            assert!(!page.contains("127.0.0.1") && !page.contains(reason.name()), "{page}");
        }
    }

    #[test]
    fn error_page_of_the_site_replaces_the_default_one() {
        let plan = EdgePlan::for_origin("http://127.0.0.1:9".parse().unwrap());
        let origin = OriginNames(&plan.sites[0]);
        let template = "<h1>Sorry ({status}, {phrase})</h1>{message}".into();
        let refusal = Refusal::failing_origin(origin).of_site(Some(&template));
        let (_, page) = refusal.page();
        assert!(page.starts_with("<h1>Sorry (503, Service Unavailable)</h1>The site cannot"), "{page}");
        let (kind, page) = Refusal::unknown_site(false).of_site(Some(&template)).page();
        assert!(kind.starts_with("text/plain") && page.starts_with("421 Misdirected Request\n"), "{page}");
    }

    #[test]
    fn wait_of_a_parameter_flood_is_rounded_up() {
        for (millis, secs) in [(0, 1), (1, 1), (49_001, 50), (50_000, 50)] {
            let refusal = Refusal::parameter_flood(Duration::from_millis(millis));
            assert_eq!(refusal.retry_after_secs, Some(secs), "{millis} ms");
        }
    }

    #[test]
    fn malformed_request_closes_the_connection() {
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
