//! The part of a message that caused a reason, for explanations to operators.
//!
//! Invariant: a culprit is named only if one part of the message alone is the cause, and it is the
//! part that the decision itself read. This file decides nothing.

use crate::request::cause;
use crate::set_cookie::{meaningful_cookies, set_cookie_name};
use crate::targeted::deciding_field;
use crate::{Directives, Reason, stated_directives};
use bytes::Bytes;
use message::{Fields, RequestHead, names};
use profiles::Policy;

/// The part of a message that caused a reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Culprit {
    /// The kind of part.
    pub kind: CulpritKind,
    /// The name of the part, as received.
    pub name: Bytes,
}

/// The kind of a culprit.
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

impl CulpritKind {
    /// The stable name, as it appears in explanations.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cookie => "cookie",
            Self::Field => "field",
            Self::Parameter => "parameter",
            Self::Path => "path",
            Self::Method => "method",
            Self::Directive => "directive",
        }
    }
}

/// Why the request passes, and which part of it is the cause; `None` if the request is looked up.
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

/// The response field, or the cookie it sets, that caused a store-refused reason. `None` if the
/// reason has another cause, such as the status or a missing field.
pub fn explain_refusal(reason: Reason, response: &Fields, policy: &Policy) -> Option<Culprit> {
    let (kind, name) = match reason {
        Reason::StoreRefusedSetCookie => {
            let cookie = meaningful_cookies(response, policy).next()?;
            let name = set_cookie_name(cookie);
            return Some(Culprit { kind: CulpritKind::Cookie, name: cookie.slice_ref(name) });
        }
        Reason::StoreRefusedPrivate
        | Reason::StoreRefusedNoStore
        | Reason::StoreRefusedNoCache
        | Reason::MissNoCache => (CulpritKind::Field, deciding_field(response, policy)),
        Reason::StoreRefusedExpired | Reason::MissNoLifetime => {
            (CulpritKind::Field, expiring_field(response, policy))
        }
        Reason::StoreRefusedVaryStar | Reason::StoreRefusedVaryAddress => (CulpritKind::Field, names::VARY),
        Reason::StoreRefusedPartial => (CulpritKind::Field, names::CONTENT_RANGE),
        _ => return None,
    };
    // Named as the response spells it. An absent field is not the cause.
    let field = response.iter().find(|field| field.is(name))?;
    Some(Culprit { kind, name: field.name.clone() })
}

/// The field that made a response arrive stale.
fn expiring_field(response: &Fields, policy: &Policy) -> &'static str {
    let (directives, targeted) = stated_directives(response, policy);
    let lifetime_secs = directives.s_maxage_secs.or(directives.max_age_secs);
    match lifetime_secs {
        // The lifetime was above zero, so it was used up on the way.
        Some(1..) if response.has(names::AGE) => names::AGE,
        Some(1..) => names::DATE,
        None if !targeted => names::EXPIRES,
        _ => deciding_field(response, policy),
    }
}

#[cfg(test)]
mod tests {
    use super::{Culprit, CulpritKind, explain_refusal, explain_request};
    use crate::Reason;
    use crate::tests::FieldLines;
    use message::{Fields, Method, RequestHead, Version};
    use profiles::{Policy, UnknownCookie};

    fn fields(lines: &FieldLines) -> Fields {
        lines.iter().copied().collect()
    }

    fn request(target: &'static str, lines: &FieldLines) -> RequestHead {
        RequestHead {
            method: Method::Get,
            target: target.into(),
            version: Version::Http11,
            fields: fields(lines),
        }
    }

    fn culprit(kind: CulpritKind, name: &'static str) -> Option<Culprit> {
        Some(Culprit { kind, name: name.into() })
    }

    #[test]
    fn explains_why_a_request_passes() {
        let policy = Policy { unknown_cookie: UnknownCookie::Pass, ..Policy::wordpress() };
        let explain = |head: &RequestHead| explain_request(head, false, &policy);
        for (target, lines, reason, kind, name) in [
            (
                "/",
                &[("cookie", "_ga=1; theme=a; b=c; wordpress_x=1")][..],
                Reason::PassCookie,
                CulpritKind::Cookie,
                "wordpress_x",
            ),
            (
                "/",
                &[("cookie", "_ga=1; theme=a; b=c")],
                Reason::PassUnknownCookie,
                CulpritKind::Cookie,
                "theme",
            ),
            ("/", &[("X-Own", "1"), ("X-Other", "1")], Reason::PassUnknownField, CulpritKind::Field, "X-Own"),
            ("/", &[("authorization", "x")], Reason::PassAuthorization, CulpritKind::Field, "authorization"),
            ("/", &[("Accept", "text/event-stream")], Reason::PassAccept, CulpritKind::Field, "Accept"),
            ("/", &[("upgrade", "x")], Reason::PassUpgrade, CulpritKind::Field, "upgrade"),
            (
                "/",
                &[("Cache-Control", "no-store")],
                Reason::PassRequestNoStore,
                CulpritKind::Directive,
                "no-store",
            ),
            ("/?a=1&Pre%76iew=2", &[], Reason::PassParameter, CulpritKind::Parameter, "Pre%76iew"),
            ("/wp-admin/?a=1", &[], Reason::PassPath, CulpritKind::Path, "/wp-admin/"),
        ] {
            assert_eq!(
                explain(&request(target, lines)),
                Some((reason, culprit(kind, name))),
                "{target} {lines:?}"
            );
        }
        let plain = request("/", &[("Cookie", "_ga=1")]);
        assert_eq!(explain(&plain), None);
        assert_eq!(explain_request(&plain, true, &policy), Some((Reason::PassRequestBody, None)));
        let post = RequestHead { method: Method::Post, ..plain };
        assert_eq!(explain(&post), Some((Reason::PassMethod, culprit(CulpritKind::Method, "POST"))));
    }

    #[test]
    fn explains_why_a_response_is_not_stored() {
        let policy = Policy::default_profile();
        let field = |name| culprit(CulpritKind::Field, name);
        let explain = |reason, lines: &FieldLines| explain_refusal(reason, &fields(lines), &policy);
        let cookie = [("Set-Cookie", " PHPSESSID=1; path=/"), ("Set-Cookie", "b=c")];
        assert_eq!(
            explain(Reason::StoreRefusedSetCookie, &cookie),
            culprit(CulpritKind::Cookie, "PHPSESSID")
        );
        let targeted = [("Cache-Control", "max-age=1"), ("cdn-cache-control", "private")];
        assert_eq!(explain(Reason::StoreRefusedPrivate, &targeted), field("cdn-cache-control"));
        for reason in [Reason::StoreRefusedPrivate, Reason::StoreRefusedNoStore, Reason::StoreRefusedNoCache]
        {
            assert_eq!(
                explain(reason, &[("cache-control", "private, no-store, no-cache")]),
                field("cache-control")
            );
        }
        assert_eq!(explain(Reason::StoreRefusedVaryStar, &[("Vary", "*")]), field("Vary"));
        assert_eq!(explain(Reason::StoreRefusedPartial, &[("Content-Range", "x")]), field("Content-Range"));
        assert_eq!(explain(Reason::StoreRefusedPartial, &[]), None);
        assert_eq!(explain(Reason::StoreRefusedNoFreshness, &cookie), None);
    }

    #[test]
    fn explains_why_a_response_arrived_stale() {
        let explain = |lines: &FieldLines| {
            let culprit =
                explain_refusal(Reason::StoreRefusedExpired, &fields(lines), &Policy::default_profile());
            culprit.map(|culprit| culprit.name.escape_ascii().to_string())
        };
        let date = ("Date", "Sun, 06 Nov 1994 08:49:37 GMT");
        let age = ("Age", "9");
        assert_eq!(explain(&[("Cache-Control", "max-age=0"), date, age]).as_deref(), Some("Cache-Control"));
        assert_eq!(explain(&[("Cache-Control", "max-age=9"), date, age]).as_deref(), Some("Age"));
        assert_eq!(explain(&[("Cache-Control", "max-age=9"), date]).as_deref(), Some("Date"));
        assert_eq!(explain(&[("Expires", "0"), date]).as_deref(), Some("Expires"));
        assert_eq!(
            explain(&[("Surrogate-Control", "max-age=0"), ("Expires", "0")]).as_deref(),
            Some("Surrogate-Control")
        );
    }
}
