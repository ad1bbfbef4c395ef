//! What in a message was the cause of a reason, for those who ask why.
//!
//! Invariant: a culprit is named only where one part of the message alone is the cause, and it is the part that the
//! decision itself looked at. This file decides nothing.

use crate::request::{RequestClass, classify_request};
use crate::{Policy, Reason};
use bytes::Bytes;
use message::{Fields, RequestHead};

/// The part of a message that caused a reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Culprit {
    /// What it is.
    pub kind: CulpritKind,
    /// Its name, as received.
    pub name: Bytes,
}

/// What a culprit is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CulpritKind {
    /// A cookie, of the request or set by the response.
    Cookie,
    /// A header field.
    Field,
    /// A query parameter.
    Parameter,
    /// The path.
    Path,
    /// The method.
    Method,
    /// A directive of the request's `Cache-Control`.
    Directive,
}

/// Why the request passes, and what in it is the cause; `None` if it is looked up.
pub fn explain_request(
    request: &RequestHead,
    has_content: bool,
    policy: &Policy,
) -> Option<(Reason, Option<Culprit>)> {
    match classify_request(request, has_content, policy) {
        RequestClass::Lookup(_) => None,
        RequestClass::Pass(reason) => Some((reason, None)),
    }
}

/// The field of a response, or the cookie it sets, that is the cause of a store-refused reason; `None` if the
/// reason has another cause.
pub fn explain_refusal(reason: Reason, response: &Fields, policy: &Policy) -> Option<Culprit> {
    let _ = (reason, response, policy);
    None
}
