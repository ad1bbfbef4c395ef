//! Contexts: pages that visitors with the same rights share. Says what a visitor's context is, and
//! which responses may be kept for a context.
//!
//! Invariants: a context comes from the origin's answer to a request of the edge, or from a cookie
//! that the application has signed together with the visitor's session cookie. No client can name
//! one. A response is kept for a context only if it permits sharing and its origin, or the
//! operator, says that it depends on the context alone. In doubt it is not kept.

use crate::devices::{has_classes, shared_user_agent};
use crate::lifetime::initial_age;
use crate::private::{
    cookie_pairs, directives_of_copy, keyed_fields, selects_copy, session_cookies, sets_session,
};
use crate::set_cookie::set_cookie_name;
use crate::{DirectiveScope, Directives, Freshness, Moment, Reason, declares_esi};
use bytes::Bytes;
use message::{Fields, ResponseHead, Status, names};
use profiles::Policy;
use std::time::Duration;

/// Longest context in bytes. FOSHttpCache sends 64.
pub const CONTEXT_BYTES_MAX: usize = 256;

/// Longest expiry of a signed cookie in digits: enough for 30,000 years.
const EXPIRY_DIGITS_MAX: usize = 12;

/// Bytes of an HMAC-SHA-256.
const MAC_BYTES: usize = 32;

/// The names by which edge and origin speak of contexts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContextNames {
    /// The field that has the context, in answers of the origin and in requests to it.
    pub field: String,
    /// The media type of an answer about a context.
    pub media_type: String,
}

/// The context that a signed cookie states. It counts only if `mac` is the HMAC of `signed`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedContext {
    /// The text that was signed.
    pub signed: Vec<u8>,
    /// The HMAC-SHA-256 that the cookie has.
    pub mac: [u8; MAC_BYTES],
    /// The context.
    pub context: Bytes,
    /// When the cookie expires, in seconds since 1970.
    pub expires_secs: u64,
}

/// How a response may be kept for a context.
#[derive(Clone, Copy, Debug)]
pub struct ContextTerms<'a> {
    /// The names in use.
    pub names: &'a ContextNames,
    /// The context that the request was sent with.
    pub context: &'a [u8],
    /// Whether the operator says that the responses depend on the context alone.
    pub is_declared: bool,
    /// Whether the context comes from a signed cookie. Nobody can be asked then whether the rights
    /// of the visitor have changed since.
    pub is_signed: bool,
    /// Whether the site assembles pages from ESI templates. The fragments have rules of their own.
    pub assembles: bool,
}

/// A response that may be kept for a context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContextPage {
    /// Its lifetime. It is never used stale.
    pub freshness: Freshness,
    /// Whether the response itself names the context for which it was made.
    pub is_stated: bool,
}

/// What a response does to a cookie of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionChange {
    /// It sets this cookie again, or another one of the session.
    Renewed,
    /// It sets another value or deletes the cookie, so that the value should not come back.
    Replaced,
}

/// The session cookies of a request, each as `name=value`, with what the response does to them.
/// Empty if the response sets no session cookie.
pub fn changed_sessions<'a>(
    request: &'a Fields,
    response: &Fields,
    policy: &Policy,
) -> Vec<(&'a [u8], SessionChange)> {
    if !sets_session(response, policy) {
        return Vec::new();
    }
    let is_replaced = |pair: &[u8]| {
        let mut lines = response.all(names::SET_COOKIE);
        lines.any(|line| set_cookie_name(line) == set_cookie_name(pair) && set_pair(line) != pair)
    };
    let change = |pair| if is_replaced(pair) { SessionChange::Replaced } else { SessionChange::Renewed };
    let sessions = session_cookies(request, policy).session;
    sessions.into_iter().map(|pair| (pair, change(pair))).collect()
}

/// The `name=value` of a `Set-Cookie` line.
fn set_pair(line: &[u8]) -> &[u8] {
    line.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii()
}

/// Whether a client sends what only the edge may send: the field with a context, or a request for
/// one. An underscore counts as a hyphen, because CGI makes one name of both.
pub fn claims_context(request: &Fields, names: &ContextNames) -> bool {
    let plain = |byte: &u8| if *byte == b'_' { b'-' } else { byte.to_ascii_lowercase() };
    let is_field = |name: &[u8]| name.iter().map(plain).eq(names.field.as_bytes().iter().map(plain));
    let media_type = names.media_type.as_bytes();
    let asks =
        |value: &Bytes| value.windows(media_type.len()).any(|part| part.eq_ignore_ascii_case(media_type));
    request.iter().any(|field| is_field(&field.name)) || request.all("Accept").any(asks)
}

/// The context and its lifetime in an answer of the origin. `None` if the answer is no such one: it
/// has another status or type, sets a cookie, or has no single context of at most
/// [`CONTEXT_BYTES_MAX`] visible bytes.
pub fn answered_context(
    response: &ResponseHead,
    names: &ContextNames,
    (request_time, response_time): (Moment, Moment),
) -> Option<(Bytes, Duration)> {
    let fields = &response.fields;
    let media_type = fields.only(names::CONTENT_TYPE)?.split(|byte| *byte == b';').next()?;
    let is_typed = media_type.trim_ascii().eq_ignore_ascii_case(names.media_type.as_bytes());
    if response.status != Status::OK || !is_typed || fields.has(names::SET_COOKIE) {
        return None;
    }
    let context = fields.only(&names.field).filter(|value| is_context(value))?;
    let directives = Directives::of_response(fields);
    let is_kept = !directives.no_store && directives.no_cache == DirectiveScope::Nothing;
    let stated = directives.s_maxage_secs.or(directives.max_age_secs).filter(|_| is_kept);
    let lifetime = Duration::from_secs(stated.unwrap_or(0).into());
    let left = lifetime.saturating_sub(initial_age(fields, request_time, response_time));
    Some((Bytes::copy_from_slice(context), left))
}

fn is_context(value: &[u8]) -> bool {
    (1..=CONTEXT_BYTES_MAX).contains(&value.len()) && value.iter().all(u8::is_ascii_graphic)
}

/// Reads the signed cookie called `cookie`: `v1.EXPIRY.CONTEXT.NAME.MAC`. NAME is the session
/// cookie that it belongs to, and the signed text is `v1.EXPIRY.CONTEXT.NAME=VALUE` with the value
/// of that cookie.
///
/// # Errors
/// [`Reason::PassContextMissing`] without such a cookie, [`Reason::PassContextInvalid`] if it has
/// another form, or if its session cookie is none of the policy or not there once.
pub fn signed_context(request: &Fields, cookie: &str, policy: &Policy) -> Result<SignedContext, Reason> {
    let mut values = cookie_pairs(request).filter_map(|pair| value_of(pair, cookie.as_bytes()));
    let value = values.next().ok_or(Reason::PassContextMissing)?;
    let invalid = Reason::PassContextInvalid;
    if values.next().is_some() {
        return Err(invalid);
    }
    let mut parts = value.splitn(4, |byte| *byte == b'.');
    let (version, expiry) = (parts.next(), parts.next().ok_or(invalid)?);
    let (context, rest) = (parts.next().ok_or(invalid)?, parts.next().ok_or(invalid)?);
    let dot = rest.iter().rposition(|byte| *byte == b'.').ok_or(invalid)?;
    let (name, mac) = rest.split_at(dot);
    let mac = mac.get(1..).and_then(read_mac).ok_or(invalid)?;
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    if version != Some(&b"v1"[..]) || !is_context(context) || !context.iter().all(is_plain) {
        return Err(invalid);
    }
    let expires_secs = read_expiry(expiry).ok_or(invalid)?;
    let sessions = session_cookies(request, policy).session;
    let mut bound = sessions.iter().filter_map(|pair| value_of(pair, name));
    let (Some(session), None) = (bound.next(), bound.next()) else { return Err(invalid) };
    let signed_part = value.get(..value.len() - 2 * MAC_BYTES - 1).ok_or(invalid)?;
    let signed = [signed_part, b"=", session].concat();
    Ok(SignedContext { signed, mac, context: Bytes::copy_from_slice(context), expires_secs })
}

/// The value in `name=value`, if the pair has this name.
fn value_of<'a>(pair: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let equals = pair.iter().position(|byte| *byte == b'=')?;
    let (own, value) = pair.split_at(equals);
    (own.trim_ascii() == name).then(|| value.get(1..).unwrap_or_default().trim_ascii())
}

fn read_expiry(digits: &[u8]) -> Option<u64> {
    if digits.len() > EXPIRY_DIGITS_MAX || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// Reads the hexadecimal digits of a MAC, in either case.
fn read_mac(digits: &[u8]) -> Option<[u8; MAC_BYTES]> {
    if digits.len() != 2 * MAC_BYTES {
        return None;
    }
    let mut mac = [0; MAC_BYTES];
    for (byte, pair) in mac.iter_mut().zip(digits.chunks(2)) {
        let digit = |digit: &u8| char::from(*digit).to_digit(16);
        let value = (digit(pair.first()?)? << 4) | digit(pair.get(1)?)?;
        *byte = u8::try_from(value).ok()?;
    }
    Some(mac)
}

/// The fields of a request that a page of its context depends on: their names in lower case and
/// their values. The browser counts only by its class, if the policy has classes.
pub fn context_fields<'a>(fields: &'a Fields, policy: &Policy) -> Vec<(Vec<u8>, &'a [u8])> {
    let agent = names::USER_AGENT.as_bytes();
    let mut keyed = keyed_fields(fields);
    keyed.retain(|(name, _)| !name.eq_ignore_ascii_case(agent));
    if has_classes(policy) {
        keyed.push((agent.to_ascii_lowercase(), shared_user_agent(fields, policy).as_bytes()));
    }
    keyed
}

/// The cookies of a request that a page of its context depends on: all but those of the session,
/// noise, and the signed cookie called `signed`.
pub fn context_cookies<'a>(fields: &'a Fields, signed: Option<&str>, policy: &Policy) -> Vec<&'a [u8]> {
    let mut others = session_cookies(fields, policy).others;
    others.retain(|pair| signed.is_none_or(|name| value_of(pair, name.as_bytes()).is_none()));
    others
}

/// Judges whether the response to a request with a session may be kept for the visitor's context.
///
/// # Errors
/// The reason why the response is not kept. [`Reason::StoreRefusedContextChanged`] means that the
/// visitor has another context now.
pub fn judge_context(
    response: &ResponseHead,
    (request_time, response_time): (Moment, Moment),
    terms: ContextTerms<'_>,
    policy: &Policy,
) -> Result<ContextPage, Reason> {
    let fields = &response.fields;
    let field = terms.names.field.as_str();
    let is_stated = fields.has(field);
    if is_stated && fields.only(field).is_none_or(|value| &value[..] != terms.context) {
        return Err(Reason::StoreRefusedContextChanged);
    }
    let (own, targeted) = directives_of_copy(response, policy)?;
    let states = |scope: &DirectiveScope| *scope != DirectiveScope::Nothing;
    if states(&own.private) || states(&targeted.private) {
        return Err(Reason::StoreRefusedPrivate);
    }
    if states(&own.no_cache) || states(&targeted.no_cache) || fields.has(names::PRAGMA) {
        return Err(Reason::StoreRefusedNoCache);
    }
    check_vary(fields, terms, is_stated, policy)?;
    let lifetime = targeted.s_maxage_secs.or(targeted.max_age_secs);
    let lifetime = Duration::from_secs(lifetime.ok_or(Reason::StoreRefusedNoFreshness)?.into());
    let initial_age = initial_age(fields, request_time, response_time);
    if initial_age >= lifetime {
        return Err(Reason::StoreRefusedExpired);
    }
    let freshness = Freshness { initial_age, ..Freshness::lasting(lifetime, response_time) };
    Ok(ContextPage { freshness, is_stated })
}

/// Checks that the response says that it depends on the context, and on nothing that is not in the
/// key of its page.
fn check_vary(
    fields: &Fields,
    terms: ContextTerms<'_>,
    is_stated: bool,
    policy: &Policy,
) -> Result<(), Reason> {
    let is = |name: &[u8], known: &str| name.eq_ignore_ascii_case(known.as_bytes());
    let varies = fields.list(names::VARY).any(|name| is(name, &terms.names.field));
    let is_alone = terms.is_declared || is_stated;
    // Nobody would assemble it.
    let is_template = declares_esi(fields.all(names::SURROGATE_CONTROL).map(|value| &value[..]));
    if is_template && !terms.assembles || !(is_alone || varies && !terms.is_signed) {
        return Err(Reason::StoreRefusedContext);
    }
    let is_keyed = |name: &[u8]| {
        if is(name, names::USER_AGENT) {
            return has_classes(policy);
        }
        let is_cookie = is(name, names::COOKIE) && is_alone;
        is(name, &terms.names.field) || is_cookie || selects_copy(name)
    };
    if fields.list(names::VARY).all(is_keyed) { Ok(()) } else { Err(Reason::StoreRefusedVaryStar) }
}

#[cfg(test)]
mod tests {
    use super::{
        CONTEXT_BYTES_MAX, ContextNames, ContextTerms, SessionChange, answered_context, changed_sessions,
        claims_context, context_cookies, context_fields, judge_context, signed_context,
    };
    use crate::tests::FieldLines;
    use crate::{Moment, Reason};
    use message::{Fields, ResponseHead, Status};
    use profiles::Policy;
    use std::time::Duration;

    const MAC: &str = "00112233445566778899aabbccddeeffFF00000000000000000000000000000f";

    fn fields(lines: &FieldLines) -> Fields {
        let mut fields = Fields::new();
        lines.iter().for_each(|(name, value)| fields.push(*name, *value));
        fields
    }

    fn names() -> ContextNames {
        let media_type = "application/vnd.fos.user-context-hash".to_owned();
        ContextNames { field: "X-User-Context-Hash".to_owned(), media_type }
    }

    fn response(status: u16, lines: &FieldLines) -> ResponseHead {
        let mut head = ResponseHead::new(Status::from_code(status).unwrap());
        head.fields = fields(lines);
        head
    }

    fn now() -> (Moment, Moment) {
        (Moment::default(), Moment::default())
    }

    #[test]
    fn clients_claim_a_context_by_field_or_accept() {
        let claims = |line| claims_context(&fields(&[line]), &names());
        for line in [
            ("X-User-Context-Hash", "a"),
            ("x-user-context-hash", ""),
            ("X_User_Context_Hash", "a"),
            ("X-User_Context-Hash", "a"),
            ("Accept", "application/vnd.fos.user-context-hash"),
            ("Accept", "text/html, Application/VND.fos.user-context-hash;q=0.1"),
        ] {
            assert!(claims(line), "{line:?}");
        }
        for line in [("X-User-Context-Hashes", "a"), ("Accept", "*/*"), ("X-User-Context", "a")] {
            assert!(!claims(line), "{line:?}");
        }
    }

    #[test]
    fn answer_has_one_context_of_its_type() {
        const TYPE: (&str, &str) = ("Content-Type", "application/vnd.fos.user-context-hash; charset=utf-8");
        const HASH: (&str, &str) = ("X-User-Context-Hash", "abc");
        let answer = |status, lines: &FieldLines| answered_context(&response(status, lines), &names(), now());
        let lasting = |lines: &FieldLines| {
            answer(200, lines).map(|(context, lifetime)| {
                assert_eq!(context, "abc");
                lifetime.as_secs()
            })
        };
        assert_eq!(lasting(&[TYPE, HASH]), Some(0));
        for (control, secs) in [("max-age=60", 60), ("private, max-age=60", 60), ("max-age=60, no-cache", 0)]
        {
            assert_eq!(lasting(&[TYPE, HASH, ("Cache-Control", control)]), Some(secs), "{control}");
        }
        assert_eq!(lasting(&[TYPE, HASH, ("Cache-Control", "max-age=60"), ("Age", "20")]), Some(40));
        for wrong in [
            &[HASH][..],
            &[TYPE],
            &[("Content-Type", "text/html"), HASH],
            &[TYPE, HASH, HASH],
            &[TYPE, ("X-User-Context-Hash", "")],
            &[TYPE, ("X-User-Context-Hash", "a b")],
            &[TYPE, HASH, ("Set-Cookie", "a=1")],
        ] {
            assert_eq!(answer(200, wrong), None, "{wrong:?}");
        }
        assert_eq!(answer(403, &[TYPE, HASH]), None);
        let mut long = response(200, &[TYPE]);
        long.fields.push("X-User-Context-Hash", "a".repeat(CONTEXT_BYTES_MAX + 1));
        assert_eq!(answered_context(&long, &names(), now()), None);
    }

    #[test]
    fn signed_cookie_belongs_to_one_session_cookie() {
        let policy = Policy::wordpress();
        let read = |value: &str, session: &str| {
            let mut sent = Fields::new();
            sent.push("Cookie", format!("group={value}; {session}"));
            signed_context(&sent, "group", &policy)
        };
        let own = "wordpress_logged_in_1=ann|9";
        let good = format!("v1.1700000060.editor-2.wordpress_logged_in_1.{MAC}");
        let signed = read(&good, own).unwrap();
        assert_eq!(signed.signed, b"v1.1700000060.editor-2.wordpress_logged_in_1=ann|9");
        assert_eq!((&signed.context[..], signed.expires_secs), (&b"editor-2"[..], 1_700_000_060));
        assert_eq!((signed.mac[1], signed.mac[16], signed.mac[31]), (0x11, 0xff, 0x0f));
        let invalid = Err(Reason::PassContextInvalid);
        for wrong in [
            "",
            "v1",
            "v1.1.a.b",
            &good.replace("v1", "v2"),
            &good.replace("1700000060", "+1"),
            &good.replace("1700000060", "1234567890123"),
            &good.replace("editor-2", ""),
            &good.replace("editor-2", "a/b"),
            &good.replace("wordpress_logged_in_1", "theme"),
            &good.replace("00112233", "0011223g"),
            &good.replace("00112233", "001122"),
            &format!("{good}0"),
        ] {
            assert_eq!(read(wrong, &format!("{own}; theme=1")), invalid, "{wrong}");
        }
        assert_eq!(read(&good, "PHPSESSID=1"), invalid, "without its session cookie");
        assert_eq!(read(&good, &format!("{own}; {own}")), invalid, "two of them");
        assert_eq!(read(&good, &format!("{own}; group={good}")), invalid);
        let without = signed_context(&fields(&[("Cookie", "groups=1")]), "group", &policy);
        assert_eq!(without, Err(Reason::PassContextMissing));
    }

    #[test]
    fn page_depends_on_its_fields_and_other_cookies() {
        let policy = Policy::wordpress();
        let sent = fields(&[
            ("User-Agent", "me"),
            ("Accept", "a"),
            ("Cookie", "theme=dark; group=1; _ga=2; wordpress_logged_in_1=x"),
        ]);
        assert_eq!(context_fields(&sent, &policy), [(b"accept".to_vec(), &b"a"[..])]);
        assert_eq!(context_cookies(&sent, Some("group"), &policy), [b"theme=dark"]);
        assert_eq!(context_cookies(&sent, None, &policy), [&b"theme=dark"[..], b"group=1"]);
    }

    #[test]
    fn replaced_cookie_is_told_from_a_renewed_one() {
        let policy = Policy::wordpress();
        let sent = fields(&[("Cookie", "PHPSESSID=1; wordpress_logged_in_1=x; theme=dark")]);
        let changed = |lines: &[&'static str]| {
            let lines: Vec<_> = lines.iter().map(|line| ("Set-Cookie", *line)).collect();
            changed_sessions(&sent, &fields(&lines), &policy)
        };
        let (php, own) = (&b"PHPSESSID=1"[..], &b"wordpress_logged_in_1=x"[..]);
        let (renewed, replaced) = (SessionChange::Renewed, SessionChange::Replaced);
        assert_eq!(changed(&[]), []);
        assert_eq!(changed(&["theme=light", "_ga=1"]), []);
        assert_eq!(changed(&["PHPSESSID=1; Path=/"]), [(php, renewed), (own, renewed)]);
        assert_eq!(changed(&["PHPSESSID=2"]), [(php, replaced), (own, renewed)]);
        assert_eq!(changed(&["wordpress_logged_in_1=; Max-Age=0"]), [(php, renewed), (own, replaced)]);
        assert_eq!(changed(&["PHPSESSID=1", "PHPSESSID=; Max-Age=0"])[0], (php, replaced));
    }

    fn judge(status: u16, lines: &FieldLines, is_declared: bool, is_signed: bool) -> Result<bool, Reason> {
        let names = names();
        let (context, assembles) = (&b"editor"[..], is_signed);
        let terms = ContextTerms { names: &names, context, is_declared, is_signed, assembles };
        let judged = judge_context(&response(status, lines), now(), terms, &Policy::wordpress());
        judged.map(|page| {
            assert_eq!(page.freshness.lifetime, Duration::from_secs(60));
            page.is_stated
        })
    }

    const CONTROL: (&str, &str) = ("Cache-Control", "public, max-age=60");
    const VARY: (&str, &str) = ("Vary", "Accept-Encoding, x-user-context-hash");
    const TEMPLATE: (&str, &str) = ("Surrogate-Control", "content=\"ESI/1.0\"");
    const STATED: (&str, &str) = ("X-User-Context-Hash", "editor");

    #[test]
    fn response_must_say_that_it_depends_on_the_context() {
        let refused = Err(Reason::StoreRefusedContext);
        for (lines, declared, signed, expected) in [
            (&[CONTROL, VARY][..], false, false, Ok(false)),
            (&[CONTROL], false, false, refused),
            (&[CONTROL], true, false, Ok(false)),
            (&[CONTROL, STATED], false, false, Ok(true)),
            (&[CONTROL, VARY], false, true, refused),
            (&[CONTROL, STATED], false, true, Ok(true)),
            (&[CONTROL], true, true, Ok(false)),
            (&[CONTROL, STATED, ("Vary", "Cookie")], false, true, Ok(true)),
            (&[CONTROL, VARY, ("Vary", "Cookie")], false, false, Err(Reason::StoreRefusedVaryStar)),
            (&[CONTROL, VARY, ("Vary", "User-Agent")], false, false, Err(Reason::StoreRefusedVaryStar)),
            (&[CONTROL, VARY, ("Vary", "*")], true, false, Err(Reason::StoreRefusedVaryStar)),
            (&[CONTROL, STATED, TEMPLATE], true, false, refused),
            (&[CONTROL, STATED, TEMPLATE], false, true, Ok(true)),
        ] {
            assert_eq!(judge(200, lines, declared, signed), expected, "{lines:?} {declared} {signed}");
        }
        let other = ("X-User-Context-Hash", "admin");
        for lines in [&[CONTROL, VARY, other][..], &[CONTROL, STATED, other], &[CONTROL, STATED, STATED]] {
            assert_eq!(judge(200, lines, true, false), Err(Reason::StoreRefusedContextChanged), "{lines:?}");
        }
    }

    #[test]
    fn response_for_one_visitor_is_never_kept() {
        for (lines, reason) in [
            (&[VARY, ("Cache-Control", "private, max-age=60")][..], Reason::StoreRefusedPrivate),
            (&[VARY, ("Cache-Control", "private=\"x\", max-age=60")], Reason::StoreRefusedPrivate),
            (&[VARY, ("Cache-Control", "max-age=60, no-store")], Reason::StoreRefusedNoStore),
            (&[VARY, ("Cache-Control", "max-age=60, no-cache")], Reason::StoreRefusedNoCache),
            (&[VARY, CONTROL, ("Pragma", "no-cache")], Reason::StoreRefusedNoCache),
            (&[VARY, CONTROL, ("Set-Cookie", "a=1")], Reason::StoreRefusedSetCookie),
            (&[VARY], Reason::StoreRefusedNoFreshness),
            (&[VARY, ("Cache-Control", "max-age=0")], Reason::StoreRefusedExpired),
            (&[VARY, CONTROL, ("Age", "60")], Reason::StoreRefusedExpired),
        ] {
            assert_eq!(judge(200, lines, true, false), Err(reason), "{lines:?}");
        }
        assert_eq!(judge(404, &[VARY, CONTROL], true, false), Err(Reason::StoreRefusedStatus));
        let longer = [VARY, ("Cache-Control", "max-age=0, s-maxage=60")];
        assert_eq!(judge(200, &longer, false, false), Ok(false), "s-maxage counts");
    }
}
