//! Holds back the beginning of a response while a stale one could still replace it.
//!
//! Invariant: nothing is lost or changed by holding. A response without a stale one to replace it
//! is not held, so its first byte comes at once.

use super::{FetchTask, ResponseSource};
use crate::fetch::body_reservation::BodyReservation;
use defects::{Defect, is_planted};
use origin::{FetchError, OriginEvent};
use semantics::Moment;
use std::collections::VecDeque;
use tokio::time::Instant;

/// Content that is held back, in bytes; most pages are smaller. One more read of the exchange may
/// come on top.
const HELD_BYTES_MAX: u64 = 64 * 1024;

/// Content is held back for this part of `limits.stale_wait`: it is on its way, and a client sees
/// more of it than of a stale response soon.
const HELD_PART: u32 = 4;

/// A response whose first events were held back.
pub(super) struct HeldSource<S> {
    held: VecDeque<Result<OriginEvent, FetchError>>,
    source: Box<S>,
}

impl<S: ResponseSource> ResponseSource for HeldSource<S> {
    async fn next_event(&mut self) -> Result<OriginEvent, FetchError> {
        match self.held.pop_front() {
            Some(event) => event,
            None => self.source.next_event().await,
        }
    }

    fn waits_for_reader(&mut self) {
        self.source.waits_for_reader();
    }
}

impl FetchTask {
    /// The response, once it is complete, too large to be held back, or held for long enough.
    ///
    /// # Errors
    /// The failure of the response, if a stale one may replace it and nothing was sent yet.
    pub(super) async fn held<S: ResponseSource>(
        &self,
        source: Box<S>,
        received_at: Moment,
    ) -> Result<HeldSource<S>, FetchError> {
        let mut response = HeldSource { held: VecDeque::new(), source };
        let replaceable = self.base.as_ref().is_some_and(|base| self.has_reserve(base, received_at));
        if !replaceable {
            return Ok(response);
        }
        // Not beyond the time at which the waiting requests take the stale response.
        let (now, patience) = (Instant::now(), self.shared.limits.stale_wait);
        let waited = now.saturating_duration_since(self.fetch.started_at());
        let end = now + (patience / HELD_PART).min(patience.saturating_sub(waited));
        // Reserved until the content is handed on, where the body reserves it again.
        let (mut reservation, mut held_bytes) = (BodyReservation::new(&self.shared), 0);
        while held_bytes < HELD_BYTES_MAX {
            let Ok(event) = tokio::time::timeout_at(end, response.source.next_event()).await else { break };
            match event {
                Err(error) if !is_planted(Defect::TruncatedIsWhole) => return Err(error),
                Ok(OriginEvent::Data(octets)) => {
                    held_bytes += octets.len() as u64;
                    let is_reserved = reservation.take(octets.len() as u64);
                    response.held.push_back(Ok(OriginEvent::Data(octets)));
                    if !is_reserved {
                        break;
                    }
                }
                Ok(OriginEvent::Informational(_) | OriginEvent::Head { .. }) => {}
                end @ (Ok(OriginEvent::End(_)) | Err(_)) => {
                    response.held.push_back(end);
                    break;
                }
            }
        }
        Ok(response)
    }
}
