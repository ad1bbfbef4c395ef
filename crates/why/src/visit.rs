//! Sends the probes to a site, one after the other.
//!
//! Invariant: at most one request is in progress, and there is a pause between two requests. There
//! are never more requests than [`Probe::ALL`] has entries. Only the host of the URL is contacted.
//! The module `inspect` interprets the responses.

use crate::fetch::{FetchedResponse, Fetcher, ProbeError};
use crate::probe::plain_request;
use crate::{HeaderLine, Probe};
use address::HttpUrl;
use std::time::Duration;

/// The default pause between two probes. It keeps the load on the site negligible.
pub const PAUSE_DEFAULT: Duration = Duration::from_millis(500);

/// The responses of a site to the probes.
#[derive(Debug)]
pub struct ProbeResponses {
    /// The URL of the page.
    pub url: HttpUrl,
    /// Whether the server's certificate was verified. True also if the fetcher has no TLS.
    pub verified: bool,
    /// The response to the plain probe.
    pub plain: FetchedResponse,
    /// The results of the other probes, in the order of sending. Probes that were not sent are
    /// missing.
    pub others: Vec<(Probe, Result<FetchedResponse, ProbeError>)>,
}

/// Sends all probes that make sense after the plain response. `lines` are added to every request;
/// `pause` separates two requests.
///
/// # Errors
/// If the plain probe has no response. Errors of later probes are part of the visit.
pub async fn visit(
    fetcher: &Fetcher,
    url: &HttpUrl,
    lines: &[HeaderLine],
    pause: Duration,
) -> Result<ProbeResponses, ProbeError> {
    let plain = fetcher.fetch(url, plain_request(url, lines), &[]).await?;
    let is_page = plain.head.status.is_success();
    let mut others = Vec::new();
    for probe in Probe::ALL {
        if probe == Probe::Plain || !(is_page || probe.asks_about_any_answer()) {
            continue;
        }
        let Some(request) = probe.request(url, lines, &plain.head) else { continue };
        tokio::time::sleep(pause).await;
        others.push((probe, fetcher.fetch(url, request, &[]).await));
    }
    let verified = fetcher.tls.as_ref().is_none_or(net::TlsClient::verifies);
    Ok(ProbeResponses { url: url.clone(), verified, plain, others })
}

impl ProbeResponses {
    /// The response to a probe. `None` if it was not sent or failed.
    pub fn answer(&self, probe: Probe) -> Option<&FetchedResponse> {
        if probe == Probe::Plain {
            return Some(&self.plain);
        }
        self.others.iter().find(|(asked, _)| *asked == probe).and_then(|(_, answer)| answer.as_ref().ok())
    }

    /// All probes that were sent, with their results.
    pub fn asked(&self) -> impl Iterator<Item = (Probe, Result<&FetchedResponse, &ProbeError>)> {
        let others = self.others.iter().map(|(probe, answer)| (*probe, answer.as_ref()));
        std::iter::once((Probe::Plain, Ok(&self.plain))).chain(others)
    }
}
