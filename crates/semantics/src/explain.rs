//! What in a message was the cause of a reason, for those who ask why.
//!
//! Invariant: a culprit is named only where one part of the message alone is the cause, and it is the part that the
//! decision itself looked at. This file decides nothing.

use crate::request::cause;
use crate::targeted::deciding_field;
use crate::{Directives, Policy, Reason, stated_directives};
use bytes::Bytes;
use message::{Fields, RequestHead, names};

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
    let directives = Directives::of_request(&request.fields);
    let cause = cause(request, has_content, &directives, policy)?;
    let culprit = cause.part.map(|(kind, name)| Culprit { kind, name: Bytes::copy_from_slice(name) });
    Some((cause.reason, culprit))
}

/// The field of a response, or the cookie it sets, that is the cause of a store-refused reason; `None` if the
/// reason has another cause, such as the status, or that a field is missing.
pub fn explain_refusal(reason: Reason, response: &Fields, policy: &Policy) -> Option<Culprit> {
    let (kind, name) = match reason {
        Reason::StoreRefusedSetCookie => {
            let cookie = response.first(names::SET_COOKIE)?;
            let name = cookie.split(|byte| b"=;".contains(byte)).next().unwrap_or_default().trim_ascii();
            return Some(Culprit { kind: CulpritKind::Cookie, name: cookie.slice_ref(name) });
        }
        Reason::StoreRefusedPrivate | Reason::StoreRefusedNoStore | Reason::StoreRefusedNoCache => {
            (CulpritKind::Field, deciding_field(response, policy))
        }
        Reason::StoreRefusedExpired => (CulpritKind::Field, expiring_field(response, policy)),
        Reason::StoreRefusedVaryStar | Reason::StoreRefusedVaryAddress => (CulpritKind::Field, names::VARY),
        Reason::StoreRefusedPartial => (CulpritKind::Field, names::CONTENT_RANGE),
        _ => return None,
    };
    // As the response spells it; a field that is not there is not the cause.
    let field = response.iter().find(|field| field.is(name))?;
    Some(Culprit { kind, name: field.name.clone() })
}

/// The field by which a response that arrived stale was so.
fn expiring_field(response: &Fields, policy: &Policy) -> &'static str {
    let (directives, targeted) = stated_directives(response, policy);
    let lifetime_secs = directives.s_maxage_secs.or(directives.max_age_secs);
    match lifetime_secs {
        // The lifetime was above zero: it was used up on the way.
        Some(1..) if response.has(names::AGE) => names::AGE,
        Some(1..) => names::DATE,
        None if !targeted => names::EXPIRES,
        _ => deciding_field(response, policy),
    }
}
