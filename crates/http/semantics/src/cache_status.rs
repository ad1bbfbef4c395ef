//! The `Cache-Status` field (RFC 9211): one member for this cache, whose `detail` is the reason's
//! name. The edge adds the field line; nothing is appended to the members of other caches.

use crate::{Reason, Verdict};
use bytes::Bytes;
use message::Status;
use std::fmt::Write as _;

/// The facts that `Cache-Status` shows in addition to the verdict and its reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStatusFacts {
    /// Remaining freshness of the response in seconds, negative when stale; `None` if it has no
    /// lifetime.
    pub ttl_secs: Option<i64>,
    /// The status of the origin's response, if the origin was asked and answered.
    pub forward_status: Option<Status>,
    /// Whether the response was stored.
    pub stored: bool,
    /// Whether the request shared the fetch of another request.
    pub collapsed: bool,
}

/// The field value, such as `Petasos; hit; ttl=123; detail=hit-fresh` or
/// `Petasos; fwd=uri-miss; fwd-status=200; stored; detail=miss-absent`.
pub fn cache_status_value(reason: Reason, facts: CacheStatusFacts) -> Bytes {
    let mut value = String::with_capacity(96);
    value.push_str("Petasos");
    match forward_cause(reason) {
        Some(cause) => {
            value.push_str("; fwd=");
            value.push_str(cause);
        }
        None if matches!(reason.verdict(), Verdict::Hit | Verdict::Stale) => value.push_str("; hit"),
        None => {}
    }
    // Writing to a String cannot fail.
    if let Some(status) = facts.forward_status {
        let _ = write!(value, "; fwd-status={status}");
    }
    if let Some(ttl_secs) = facts.ttl_secs {
        let _ = write!(value, "; ttl={ttl_secs}");
    }
    if facts.stored {
        value.push_str("; stored");
    }
    if facts.collapsed {
        value.push_str("; collapsed");
    }
    value.push_str("; detail=");
    value.push_str(reason.name());
    Bytes::from(value)
}

/// Why the request went to the origin, as one of the values in RFC 9211 section 2.2; `None` if it
/// did not go there.
const fn forward_cause(reason: Reason) -> Option<&'static str> {
    match reason {
        Reason::MissAbsent => Some("uri-miss"),
        Reason::MissVariant => Some("vary-miss"),
        // The last four were forwarded, but a stored response was sent in the end.
        Reason::MissExpired
        | Reason::MissNoCache
        | Reason::MissNoLifetime
        | Reason::MissInvalidated
        | Reason::HitRevalidated
        | Reason::StaleOnError
        | Reason::StaleOnErrorOverride
        | Reason::StaleOriginSlow => Some("stale"),
        Reason::MissPart => Some("partial"),
        Reason::MissReload | Reason::PassRequestNoStore => Some("request"),
        Reason::PassMethod => Some("method"),
        _ => match reason.verdict() {
            Verdict::Hit | Verdict::Stale | Verdict::Done | Verdict::Answered | Verdict::Refused => None,
            Verdict::Miss | Verdict::Failed => Some("miss"),
            Verdict::Pass => Some("bypass"),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::{CacheStatusFacts, cache_status_value};
    use crate::Reason;
    use message::Status;

    #[test]
    fn hit_shows_its_remaining_lifetime() {
        let facts = CacheStatusFacts { ttl_secs: Some(123), ..CacheStatusFacts::default() };
        assert_eq!(cache_status_value(Reason::HitFresh, facts), "Petasos; hit; ttl=123; detail=hit-fresh");
    }

    #[test]
    fn miss_shows_origin_status_and_storing() {
        let facts = CacheStatusFacts {
            ttl_secs: Some(60),
            forward_status: Some(Status::OK),
            stored: true,
            collapsed: false,
        };
        assert_eq!(
            cache_status_value(Reason::MissAbsent, facts),
            "Petasos; fwd=uri-miss; fwd-status=200; ttl=60; stored; detail=miss-absent"
        );
        let facts = CacheStatusFacts { collapsed: true, ..CacheStatusFacts::default() };
        assert_eq!(
            cache_status_value(Reason::MissCollapsed, facts),
            "Petasos; fwd=miss; collapsed; detail=miss-collapsed"
        );
    }

    #[test]
    fn forwarded_request_is_not_a_hit() {
        let facts = CacheStatusFacts {
            ttl_secs: Some(-5),
            forward_status: Some(Status::SERVICE_UNAVAILABLE),
            ..CacheStatusFacts::default()
        };
        assert_eq!(
            cache_status_value(Reason::StaleOnError, facts),
            "Petasos; fwd=stale; fwd-status=503; ttl=-5; detail=stale-on-error"
        );
        let facts = CacheStatusFacts { ttl_secs: Some(-5), ..CacheStatusFacts::default() };
        assert_eq!(
            cache_status_value(Reason::StaleWhileRevalidate, facts),
            "Petasos; hit; ttl=-5; detail=stale-while-revalidate"
        );
    }

    #[test]
    fn refusal_is_neither_hit_nor_forwarded() {
        assert_eq!(
            cache_status_value(Reason::BadRequest, CacheStatusFacts::default()),
            "Petasos; detail=bad-request"
        );
    }
}
