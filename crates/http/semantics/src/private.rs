//! Copies of pages for one session: which requests they may answer, the contents of their key, and
//! which responses they may hold.
//!
//! Invariants: a copy is never used for a request that differs in anything its response may depend
//! on. Its key contains every cookie except noise and the fields of [`keyed_fields`]; a response
//! whose `Vary` names another field is not kept. A response that says `no-store` or `no-cache`,
//! sets a cookie, or does not state that it may be kept, is not kept.

use crate::keyed_cookies::is_keyed;
use crate::lifetime::initial_age;
use crate::request::cause_but_cookies;
use crate::selecting::is_selecting;
use crate::set_cookie::{meaningful_cookies, set_cookie_name};
use crate::{
    DirectiveScope, Directives, Freshness, Moment, Reason, RequestClass, classify_request, declares_esi,
    stated_directives,
};
use message::{Fields, Method, RequestHead, ResponseHead, Status, names};
use profiles::{Pattern, Policy};
use std::time::Duration;

/// Request fields whose values select among the copies of a session, beside its cookies and the
/// fields that change pages whatever `Vary` says.
const KEYED_FIELDS: [&str; 4] = ["Accept", names::ACCEPT_ENCODING, "Accept-Language", names::USER_AGENT];

/// The cookies of a request as `name=value`, for the key of its copies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionCookies<'a> {
    /// The cookies that mark a session. They say whose copies they are.
    pub session: Vec<&'a [u8]>,
    /// All others that are not noise. They select among the copies of the session.
    pub others: Vec<&'a [u8]>,
}

/// Whether copies of the session may answer the request: it is a GET or HEAD without content that
/// passes only because of a session cookie. Returns the request's own directives.
pub fn private_request(request: &RequestHead, policy: &Policy) -> Option<Directives> {
    if !matches!(request.method, Method::Get | Method::Head) {
        return None;
    }
    let otherwise = match classify_request(request, false, policy) {
        RequestClass::Pass(reason) | RequestClass::LookupStatic { otherwise: reason, .. } => reason,
        RequestClass::Lookup(_) => return None,
    };
    let directives = Directives::of_request(&request.fields);
    let is_alone = || cause_but_cookies(request, false, &directives, policy).is_none();
    (otherwise == Reason::PassCookie && is_alone()).then_some(directives)
}

/// The cookies of a request that copies depend on. Cookies are split at every semicolon, even
/// inside quotes, because every application splits at least there.
pub fn session_cookies<'a>(fields: &'a Fields, policy: &Policy) -> SessionCookies<'a> {
    let mut found = SessionCookies::default();
    for pair in cookie_pairs(fields) {
        let name = pair.split(|&byte| byte == b'=').next().unwrap_or_default().trim_ascii();
        let is = |list: &[Pattern]| list.iter().any(|pattern| pattern.matches(name));
        let selects = is_keyed(name, policy);
        if !selects && is(&policy.noise_cookies) {
            continue;
        }
        if !selects && is(&policy.session_cookies) {
            found.session.push(pair);
        } else {
            found.others.push(pair);
        }
    }
    found
}

/// The fields of a request that its copies depend on, beside its cookies: their names in lower case
/// and their values, in the order of the names.
pub fn keyed_fields(fields: &Fields) -> Vec<(Vec<u8>, &[u8])> {
    let keyed = fields.iter().filter(|field| selects_copy(&field.name));
    let mut keyed: Vec<_> = keyed.map(|field| (field.name.to_ascii_lowercase(), &field.value[..])).collect();
    // Stable, because the order of lines with one name may have a meaning.
    keyed.sort_by(|(name, _), (other, _)| name.cmp(other));
    keyed
}

/// Whether the value of the field called `name` selects among the copies of a session.
pub(crate) fn selects_copy(name: &[u8]) -> bool {
    is_selecting(name) || KEYED_FIELDS.iter().any(|known| name.eq_ignore_ascii_case(known.as_bytes()))
}

/// All cookies of a request as `name=value`.
pub fn cookie_pairs(fields: &Fields) -> impl Iterator<Item = &[u8]> {
    let pairs = fields.all(names::COOKIE).flat_map(|line| line.split(|&byte| byte == b';'));
    pairs.map(<[u8]>::trim_ascii).filter(|pair| !pair.is_empty())
}

/// Whether the response sets, changes or deletes a cookie that marks a session. It then begins or
/// ends one, or may do so.
pub fn sets_session(response: &Fields, policy: &Policy) -> bool {
    meaningful_cookies(response, policy).any(|line| {
        let name = set_cookie_name(line);
        policy.session_cookies.iter().any(|pattern| pattern.matches(name))
    })
}

/// Judges whether the response to a request of a session may be kept for that session, and for how
/// long. `unstated` is the lifetime of a response that states none; `None`: it is not kept. A copy
/// is never used stale.
///
/// # Errors
/// The reason why the response is not kept.
pub fn judge_private(
    response: &ResponseHead,
    (request_time, response_time): (Moment, Moment),
    unstated: Option<Duration>,
    policy: &Policy,
) -> Result<Freshness, Reason> {
    let fields = &response.fields;
    let (own, targeted) = directives_of_copy(response, policy)?;
    let says_no_cache = |directives: &Directives| directives.no_cache != DirectiveScope::Nothing;
    if says_no_cache(&own) || says_no_cache(&targeted) || fields.has(names::PRAGMA) {
        return Err(Reason::StoreRefusedNoCache);
    }
    let is_keyed = |name: &[u8]| name.eq_ignore_ascii_case(names::COOKIE.as_bytes()) || selects_copy(name);
    // A template is assembled from fragments with separate lifetimes.
    let is_template = declares_esi(fields.all(names::SURROGATE_CONTROL).map(|value| &value[..]));
    if is_template || !fields.list(names::VARY).all(is_keyed) {
        return Err(Reason::StoreRefusedVaryStar);
    }
    let lifetime = match own.max_age_secs {
        Some(secs) => Duration::from_secs(secs.into()),
        // A date in the past, as PHP sends it, states that the response has no lifetime.
        None if fields.has(names::EXPIRES) => return Err(Reason::StoreRefusedNoFreshness),
        None => unstated.ok_or(Reason::StoreRefusedNoFreshness)?,
    };
    let initial_age = initial_age(fields, request_time, response_time);
    if initial_age >= lifetime {
        return Err(Reason::StoreRefusedExpired);
    }
    Ok(Freshness { initial_age, ..Freshness::lasting(lifetime, response_time) })
}

/// The directives of Cache-Control and of the targeted fields of a response to a request with a
/// session. Cache-Control speaks to browsers too, so it counts even if a targeted field says more.
///
/// # Errors
/// The reason why no copy of the response is kept, whatever else it says.
pub(crate) fn directives_of_copy(
    response: &ResponseHead,
    policy: &Policy,
) -> Result<(Directives, Directives), Reason> {
    let fields = &response.fields;
    if response.status != Status::OK {
        return Err(Reason::StoreRefusedStatus);
    }
    if meaningful_cookies(fields, policy).next().is_some() {
        return Err(Reason::StoreRefusedSetCookie);
    }
    let (own, (targeted, _)) = (Directives::of_response(fields), stated_directives(fields, policy));
    if own.no_store || targeted.no_store {
        return Err(Reason::StoreRefusedNoStore);
    }
    Ok((own, targeted))
}

#[cfg(test)]
mod tests {
    use super::{
        SessionCookies, judge_private, keyed_fields, private_request, session_cookies, sets_session,
    };
    use crate::tests::FieldLines;
    use crate::{Moment, Reason};
    use message::{Fields, Method, RequestHead, ResponseHead, Status, Version};
    use profiles::Policy;
    use std::time::Duration;

    fn fields(lines: &FieldLines) -> Fields {
        let mut fields = Fields::new();
        lines.iter().for_each(|(name, value)| fields.push(*name, *value));
        fields
    }

    fn request(method: Method, target: &'static str, lines: &FieldLines) -> RequestHead {
        RequestHead { method, target: target.into(), version: Version::Http11, fields: fields(lines) }
    }

    fn judge(status: u16, lines: &FieldLines, unstated: Option<u64>) -> Result<Duration, Reason> {
        let mut head = ResponseHead::new(Status::from_code(status).unwrap());
        head.fields = fields(lines);
        let now = (Moment::default(), Moment::default());
        let unstated = unstated.map(Duration::from_secs);
        judge_private(&head, now, unstated, &Policy::wordpress()).map(|freshness| freshness.lifetime)
    }

    const SESSION: (&str, &str) = ("Cookie", "wordpress_logged_in_1=a; _ga=2");

    #[test]
    fn only_a_session_cookie_may_make_the_request_pass() {
        let policy = Policy::wordpress();
        let may = |request: &RequestHead| private_request(request, &policy).is_some();
        assert!(may(&request(Method::Get, "/", &[SESSION])));
        assert!(may(&request(Method::Head, "/", &[SESSION])));
        assert!(!may(&request(Method::Post, "/", &[SESSION])));
        assert!(!may(&request(Method::Get, "/", &[])), "it is looked up");
        assert!(!may(&request(Method::Get, "/wp-admin/", &[SESSION])), "the profile never shares the path");
        assert!(!may(&request(Method::Get, "/", &[SESSION, ("Authorization", "Basic eA==")])));
        assert!(!may(&request(Method::Get, "/", &[SESSION, ("Cache-Control", "no-store")])));
        assert!(!may(&request(Method::Get, "/", &[SESSION, ("X-Unheard-Of", "1")])));
        assert!(!may(&request(Method::Get, "/", &[SESSION, ("X-HTTP-Method-Override", "DELETE")])));
    }

    #[test]
    fn cookies_are_of_the_session_or_others_but_not_noise() {
        let sent = fields(&[("Cookie", "_ga=1; theme=dark;wordpress_logged_in_1=\"a;PHPSESSID=2")]);
        let found = session_cookies(&sent, &Policy::wordpress());
        let session: Vec<&[u8]> = vec![b"wordpress_logged_in_1=\"a", b"PHPSESSID=2"];
        assert_eq!(found, SessionCookies { session, others: vec![b"theme=dark"] });
    }

    #[test]
    fn fields_of_a_copy_are_keyed_in_one_order() {
        let sent =
            [("X-Requested-With", "XMLHttpRequest"), ("Referer", "/"), ("Accept", "b"), ("accept", "a")];
        let found = keyed_fields(&fields(&sent))
            .into_iter()
            .map(|(name, value)| (String::from_utf8(name).unwrap(), value.to_vec()))
            .collect::<Vec<_>>();
        let field = |name: &str, value: &[u8]| (name.to_owned(), value.to_vec());
        let expected =
            [field("accept", b"b"), field("accept", b"a"), field("x-requested-with", b"XMLHttpRequest")];
        assert_eq!(found, expected);
        let vary = [("Vary", "HX-Request, Origin")];
        assert_eq!(judge(200, &vary, Some(9)), Ok(Duration::from_secs(9)));
    }

    #[test]
    fn only_permitted_responses_are_kept() {
        let minute = Ok(Duration::from_secs(60));
        let control = |value: &'static str| judge(200, &[("Cache-Control", value)], Some(9));
        for kept in ["private, max-age=60", "max-age=60", "public, max-age=60, must-revalidate"] {
            assert_eq!(control(kept), minute, "{kept}");
        }
        for (refused, reason) in [
            ("private, max-age=60, no-store", Reason::StoreRefusedNoStore),
            ("private, max-age=60, no-cache", Reason::StoreRefusedNoCache),
            ("private, max-age=60, no-cache=\"x\"", Reason::StoreRefusedNoCache),
            ("private, max-age=0", Reason::StoreRefusedExpired),
        ] {
            assert_eq!(control(refused), Err(reason), "{refused}");
        }
        assert_eq!(control("private"), Ok(Duration::from_secs(9)));
        assert_eq!(judge(200, &[], Some(9)), Ok(Duration::from_secs(9)));
        assert_eq!(judge(200, &[], None), Err(Reason::StoreRefusedNoFreshness));
        assert_eq!(
            judge(200, &[("Cache-Control", "s-maxage=60")], None),
            Err(Reason::StoreRefusedNoFreshness)
        );
        assert_eq!(judge(200, &[("Expires", "0")], Some(9)), Err(Reason::StoreRefusedNoFreshness));
        assert_eq!(judge(200, &[("Pragma", "no-cache")], Some(9)), Err(Reason::StoreRefusedNoCache));
        assert_eq!(judge(403, &[], Some(9)), Err(Reason::StoreRefusedStatus));
        assert_eq!(judge(206, &[], Some(9)), Err(Reason::StoreRefusedStatus));
        assert_eq!(judge(200, &[("Set-Cookie", "a=1")], Some(9)), Err(Reason::StoreRefusedSetCookie));
        assert_eq!(judge(200, &[("Vary", "Cookie, accept-encoding")], Some(9)), Ok(Duration::from_secs(9)));
        for vary in ["*", "X-Currency", "Referer"] {
            assert_eq!(judge(200, &[("Vary", vary)], Some(9)), Err(Reason::StoreRefusedVaryStar), "{vary}");
        }
        let template = [("Surrogate-Control", "content=\"ESI/1.0\"")];
        assert!(judge(200, &template, Some(9)).is_err());
    }

    #[test]
    fn session_is_set_by_its_cookies_only() {
        let policy = Policy::wordpress();
        let sets = |line| sets_session(&fields(&[("Set-Cookie", line)]), &policy);
        assert!(sets("wordpress_logged_in_1=; Max-Age=0") && sets("PHPSESSID=2; path=/"));
        assert!(!sets("_ga=1") && !sets("theme=dark"));
    }
}
