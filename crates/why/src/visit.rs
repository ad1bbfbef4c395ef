//! Puts the questions to a site, one after the other.
//!
//! Invariant: at most one request is under way, there is a pause between two of them, and there are never more than
//! [`Probe::ALL`]; only the host of the URL is contacted. What the answers mean is not decided here.

use crate::fetch::{Answer, FetchError, Fetcher};
use crate::probe::plain_request;
use crate::{HeaderLine, Probe, SiteUrl};
use std::time::Duration;

/// The pause between two questions unless another is asked for: a site under load should not notice.
pub const PAUSE_DEFAULT: Duration = Duration::from_millis(500);

/// What a site answered.
#[derive(Debug)]
pub struct Visit {
    /// The page.
    pub url: SiteUrl,
    /// Whether the server's certificate was verified.
    pub verified: bool,
    /// The plain answer.
    pub plain: Answer,
    /// What the other questions brought, in their order; those that were not put are missing.
    pub others: Vec<(Probe, Result<Answer, FetchError>)>,
}

/// Asks every question that the plain answer gives reason to.
///
/// # Errors
/// When the plain question gets no answer; what goes wrong later is part of the visit.
pub async fn visit(
    fetcher: &Fetcher,
    url: &SiteUrl,
    lines: &[HeaderLine],
    pause: Duration,
) -> Result<Visit, FetchError> {
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
    Ok(Visit { url: url.clone(), verified, plain, others })
}

impl Visit {
    /// The answer to a question, if there is one.
    pub fn answer(&self, probe: Probe) -> Option<&Answer> {
        if probe == Probe::Plain {
            return Some(&self.plain);
        }
        self.others.iter().find(|(asked, _)| *asked == probe).and_then(|(_, answer)| answer.as_ref().ok())
    }

    /// Every question that was put, with what came of it.
    pub fn asked(&self) -> impl Iterator<Item = (Probe, Result<&Answer, &FetchError>)> {
        let others = self.others.iter().map(|(probe, answer)| (*probe, answer.as_ref()));
        std::iter::once((Probe::Plain, Ok(&self.plain))).chain(others)
    }
}
