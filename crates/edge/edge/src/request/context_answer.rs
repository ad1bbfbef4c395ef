//! Asks the origin for the context of a visitor, and checks contexts that cookies state.
//!
//! Invariants: the request for a context carries the cookies of one session, and its answer is used
//! for that session only. An answer that is late, incomplete or of another form is none.

use crate::control::counters::Metric;
use crate::memory::context_sessions::{AskTurn, ContextOutcome};
use crate::request::client_address::client_of;
use crate::request::foreign_ports::X_FORWARDED_PORT;
use crate::request::forward;
use crate::request::guard::{HTTPS_CLAIMS, RequestSubject, X_FORWARDED_PREFIX};
use crate::shared::Shared;
use crate::sites::Site;
use bytes::Bytes;
use clock::Timestamp;
use config::{ContextKey, ContextPlan, EdgeLimits};
use h1::{BodyFraming, Request, WriteError};
use hmac::{Hmac, KeyInit, Mac};
use message::{Fields, Method, RequestHead, Version, names};
use origin::{FetchError, FetchRequest, NoUpload, OriginEvent};
use profiles::Policy;
use semantics::{Moment, Reason, answered_context, signed_context};
use sha2::Sha256;
use std::sync::Arc;
use std::time::Duration;

/// Longest content of an answer about a context. The context is in its head.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// The fields of a visitor's request that the request for the context has too, beside those in
/// which trusted proxies state the visitor's scheme, port and prefix.
const COPIED: [&str; 6] = [
    names::USER_AGENT,
    "Accept-Language",
    names::COOKIE,
    names::X_FORWARDED_FOR,
    names::X_FORWARDED_HOST,
    names::X_FORWARDED_PROTO,
];

/// A request for the context of a session, ready to be sent.
pub(crate) struct ContextQuestion {
    shared: Arc<Shared>,
    worker: usize,
    site: Arc<Site>,
    plan: Arc<ContextPlan>,
    request: FetchRequest,
}

impl ContextQuestion {
    /// The request for the context of the visitor with these fields, at this path.
    ///
    /// # Errors
    /// As for [`forward::passed`].
    pub(crate) fn of(
        (shared, worker): (&Arc<Shared>, usize),
        subject: &RequestSubject<'_>,
        plan: &Arc<ContextPlan>,
        path: &str,
        visitor: &Fields,
    ) -> Result<Self, WriteError> {
        let of_proxies =
            HTTPS_CLAIMS.iter().map(|(name, _)| *name).chain([X_FORWARDED_PORT, X_FORWARDED_PREFIX]);
        let copied: Vec<&str> = COPIED.into_iter().chain(of_proxies).collect();
        let is_copied = |name: &str| copied.iter().any(|known| name.eq_ignore_ascii_case(known));
        let mut fields: Fields = visitor
            .iter()
            .filter(|field| std::str::from_utf8(&field.name).is_ok_and(is_copied))
            .cloned()
            .collect();
        fields.push("Accept", plan.names.media_type.clone());
        let target = Bytes::from(path.to_owned());
        let head =
            RequestHead { method: Method::Get, target: target.clone(), version: Version::Http11, fields };
        let asked = RequestSubject { target, ..subject.clone() };
        let request = Request {
            head,
            framing: BodyFraming::Empty,
            expect_continue: false,
            persistent: true,
            upgrade: false,
        };
        let request = forward::passed(&asked, &shared.loop_mark, &request, BodyFraming::Empty)?;
        request.urgency.is_wanted_by(client_of(shared, subject, visitor));
        request.urgency.rise();
        let (shared, site, plan) = (Arc::clone(shared), Arc::clone(subject.site), Arc::clone(plan));
        Ok(Self { shared, worker, site, plan, request })
    }

    /// Asks in a task of its own, so that the answer does not depend on the client that waits
    /// first. It ends with `limits.context_timeout`, so nothing needs to supervise it.
    pub(crate) fn ask_for(self, turn: AskTurn) {
        tokio::spawn(async move {
            let (outcome, lifetime) = self.ask().await;
            turn.finish(&outcome, lifetime);
        });
    }

    /// Asks, and returns the context and the time for which it may be believed. A failure counts
    /// for the time that was waited for it at most.
    pub(crate) async fn ask(self) -> (ContextOutcome, Duration) {
        let limits = Arc::clone(&self.shared.limits);
        let cells = self.shared.cells(self.worker);
        cells.count(Metric::ContextRequests);
        let failure = match tokio::time::timeout(limits.context_timeout, self.exchange()).await {
            Ok(Ok(Some((context, lifetime)))) => {
                return (Ok(context), lifetime.min(limits.context_lifetime_max));
            }
            Ok(Ok(None) | Err(_)) => Reason::PassContextFailed,
            Err(_) => Reason::PassContextLate,
        };
        cells.count(Metric::ContextFailures);
        (Err(failure), limits.context_timeout)
    }

    /// Sends the request and reads the whole answer; `None` if it has no context.
    async fn exchange(&self) -> Result<Option<(Bytes, Duration)>, FetchError> {
        let mut exchange = Box::new(self.site.origin.fetch(self.request.clone()).await?);
        self.shared.cells(self.worker).count(Metric::OriginFetches);
        let sent_at = Moment::read(&*self.shared.clock);
        let (mut answer, mut bytes) = (None, 0);
        loop {
            match exchange.next(&mut NoUpload).await? {
                OriginEvent::Informational(_) => {}
                OriginEvent::Head { head, .. } => {
                    let moments = (sent_at, Moment::read(&*self.shared.clock));
                    answer = answered_context(&head, &self.plan.names, moments);
                    if answer.is_none() {
                        return Ok(None);
                    }
                }
                OriginEvent::Data(octets) => {
                    bytes += octets.len();
                    if bytes > ANSWER_BYTES_MAX {
                        return Ok(None);
                    }
                }
                OriginEvent::End(_) => return Ok(answer),
            }
        }
    }
}

/// Waits for the answer that another request, or a task, is asking for.
pub(crate) async fn await_context(
    mut receiver: watch::Receiver<Option<ContextOutcome>>,
    limits: &EdgeLimits,
) -> ContextOutcome {
    let answered = receiver.wait_for(Clone::clone);
    match tokio::time::timeout(limits.context_timeout, answered).await {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(_)) => Err(Reason::PassContextFailed),
        Err(_) => Err(Reason::PassContextLate),
    }
}

/// The context that the signed cookie of a request states, if the signature is right and the cookie
/// has not expired. One that lasts longer than `limits.context_lifetime_max` is not believed.
pub(crate) fn checked_context(
    fields: &Fields,
    (cookie, key): (&str, &ContextKey),
    policy: &Policy,
    now: Timestamp,
    limits: &EdgeLimits,
) -> ContextOutcome {
    let signed = signed_context(fields, cookie, policy)?;
    let mut mac = Hmac::<Sha256>::new_from_slice(key.bytes()).map_err(|_| Reason::PassContextInvalid)?;
    mac.update(&signed.signed);
    // Compares in constant time.
    mac.verify_slice(&signed.mac).map_err(|_| Reason::PassContextInvalid)?;
    let now = now.as_secs();
    if signed.expires_secs <= now {
        return Err(Reason::PassContextExpired);
    }
    if signed.expires_secs - now > limits.context_lifetime_max.as_secs() {
        return Err(Reason::PassContextInvalid);
    }
    Ok(signed.context)
}
