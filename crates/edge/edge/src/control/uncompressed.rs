//! Detects origins that send large pages uncompressed, although every shared fetch offers gzip.
//!
//! Invariants: only the first uncompressed page of a site is reported, in one line on standard
//! error, and remembered until the process ends. The check sends no request to the origin.

use message::{RequestHead, ResponseHead, Status, names};
use semantics::{AcceptedCodings, Coding, is_compressible};
use std::sync::OnceLock;

/// Smaller pages gain little by compression, and some servers do not compress them.
const BYTES_MIN: u64 = 4096;

/// A page that was sent uncompressed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UncompressedPage {
    /// Host and target.
    pub(crate) page: String,
    pub(crate) content_bytes: u64,
    /// Whether the request had Via, because of which nginx does not compress by default.
    pub(crate) had_via: bool,
}

/// The result for a site.
#[derive(Debug, Default)]
pub(crate) struct CompressionWatch(OnceLock<UncompressedPage>);

impl CompressionWatch {
    /// The first uncompressed page, if there was one.
    pub(crate) fn found(&self) -> Option<&UncompressedPage> {
        self.0.get()
    }

    /// Checks the complete response of this length to a shared fetch for `site`.
    pub(crate) fn look(
        &self,
        site: &str,
        request: &RequestHead,
        response: &ResponseHead,
        content_bytes: u64,
    ) {
        let is_large_text = content_bytes >= BYTES_MIN
            && response.status == Status::OK
            && !response.fields.has(names::CONTENT_ENCODING)
            && is_compressible(&response.fields);
        if !is_large_text || self.0.get().is_some() {
            return;
        }
        // Under the `rfc` profile, the client itself may have refused all codings.
        if !AcceptedCodings::of(&request.fields).has(Coding::Gzip) {
            return;
        }
        let host = request.fields.first(names::HOST).map(|host| difference::text_of(host));
        let page = format!("{}{}", host.unwrap_or_default(), difference::text_of(&request.target));
        let had_via = request.fields.has(names::VIA);
        let found = UncompressedPage { page, content_bytes, had_via };
        let text = found.text();
        if self.0.set(found).is_ok() {
            tracing::warn!("warning: {}: {text}", site);
        }
    }
}

impl UncompressedPage {
    /// The message for the operator.
    pub(crate) fn text(&self) -> String {
        let advice = if self.had_via {
            "nginx does not compress for requests with Via: set `gzip_proxied any` there, or via_to_origin = false here; \
             else let the application's web server compress text"
        } else {
            "let the application's web server compress text"
        };
        format!(
            "the origin sent {} without compression ({} bytes), although gzip was offered; {advice}",
            self.page, self.content_bytes
        )
    }
}
