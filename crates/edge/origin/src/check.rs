//! Health checks: Petasos's own requests, which test whether an origin works.
//!
//! Invariant: at most one check of an origin is under way, and it ends in time.

use crate::error::FetchError;
use crate::exchange::{NoUpload, OriginEvent};
use crate::introduction::FetchClient;
use crate::origin::{FetchRequest, Origin};
use crate::tally::{CheckResult, LastCheck};
use crate::urgency::Urgency;
use h1::BodyFraming;
use message::Method;
use std::sync::Arc;
use std::time::Duration;

/// A health check.
#[derive(Clone, Debug)]
pub struct HealthCheck {
    /// The serialised head of a GET request, including the empty line.
    pub head: bytes::Bytes,
    /// The shortest time between the beginnings of two checks of an origin.
    pub interval: Duration,
    /// The longest time of a check.
    pub timeout: Duration,
    /// Whether the operator has chosen the path, so that a status from 400 on is a failure of the
    /// origin. Otherwise the check only shows the breaker whether the origin answers.
    pub is_strict: bool,
    /// The client that a PROXY header names.
    pub client: FetchClient,
}

/// Ends a check that has no result, also if its task is dropped.
struct CheckTurn<'a>(&'a Origin);

impl Drop for CheckTurn<'_> {
    fn drop(&mut self) {
        self.0.service.give_up_check();
    }
}

impl Origin {
    /// Makes a check if one is due. Returns whether the origin is well if the verdict has changed.
    pub async fn check(self: &Arc<Self>, check: &HealthCheck) -> Option<bool> {
        if !self.service.begin_check(check.interval, self.clock.monotonic()) {
            return None;
        }
        let _turn = CheckTurn(self);
        let begun = self.clock.monotonic();
        let result = tokio::time::timeout(check.timeout, self.try_check(check)).await;
        let result = result.unwrap_or(Some(CheckResult::TimedOut))?;
        let now = self.clock.monotonic();
        // Without a path of the operator a status says nothing: the page may be broken for itself.
        // The breaker has learned from the exchange.
        let is_well = matches!(result, CheckResult::Status(status) if status < 400 || !check.is_strict);
        self.tally.checked(LastCheck { at: now, took: now.since(begun), result }, !is_well);
        if !check.is_strict {
            return None;
        }
        self.service.checked(is_well, now)
    }

    /// The result of a check; `None` if no request was sent, because the origin's next probe is not
    /// due.
    async fn try_check(self: &Arc<Self>, check: &HealthCheck) -> Option<CheckResult> {
        let request = FetchRequest {
            head: check.head.clone(),
            method: Method::Get,
            framing: BodyFraming::Empty,
            expect_continue: false,
            is_conditional: false,
            urgency: Urgency::default(),
            client: check.client,
            page: None,
            probe: self.claim_probe(),
        };
        let mut exchange = match self.fetch_aside(request).await {
            Ok(exchange) => exchange,
            Err(FetchError::BreakerOpen) => return None,
            Err(_) => return Some(CheckResult::Unreachable),
        };
        loop {
            match exchange.next(&mut NoUpload).await {
                Ok(OriginEvent::Informational(_)) => {}
                Ok(OriginEvent::Head { head, .. }) => {
                    return Some(CheckResult::Status(head.status.code()));
                }
                Ok(OriginEvent::Data(_) | OriginEvent::End(_)) | Err(_) => {
                    return Some(CheckResult::NoResponse);
                }
            }
        }
    }
}
