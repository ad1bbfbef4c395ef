//! May this request be answered from the store, or share its answer with others?
//!
//! Invariant: a request is looked up only if it is known to carry nothing that could make its answer
//! different for this client: no credentials, no cookie but noise, no content, no field outside our table. In
//! doubt it passes, with the reason.

use crate::request_fields::is_doubtful;
use crate::vary::is_zero_weight;
use crate::{Directives, Policy, Reason, UnknownCookie};
use message::{Fields, Method, RequestHead, names};

/// What is to be done with a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestClass {
    /// Look it up; its answer may be shared. The request's own directives are for [`crate::reuse`]; with
    /// `only_if_cached` a miss is refused as [`Reason::OnlyIfCached`] instead of fetched (RFC 9111 section 5.2.1.7).
    Lookup(Directives),
    /// Forward it for this client alone.
    Pass(Reason),
}

/// Classifies a request. `has_content` says whether its framing announces content.
///
/// The request's `no-store` makes it pass, because its answer must not be kept; `no-cache`, `max-age`,
/// `min-fresh`, `max-stale` and `only-if-cached` leave it a look-up. Conditional fields do so too: they are
/// evaluated against what is stored or fetched.
pub fn classify_request(request: &RequestHead, has_content: bool, policy: &Policy) -> RequestClass {
    let directives = Directives::of_request(&request.fields);
    match pass_reason(request, has_content, &directives, policy) {
        Some(reason) => RequestClass::Pass(reason),
        None => RequestClass::Lookup(directives),
    }
}

fn pass_reason(
    request: &RequestHead,
    has_content: bool,
    directives: &Directives,
    policy: &Policy,
) -> Option<Reason> {
    if !matches!(request.method, Method::Get | Method::Head) {
        return Some(Reason::PassMethod);
    }
    if has_content {
        return Some(Reason::PassRequestBody);
    }
    if request.fields.has(names::UPGRADE) {
        return Some(Reason::PassUpgrade);
    }
    target_reason(&request.target, policy)
        .or_else(|| field_reason(&request.fields, policy))
        .or_else(|| directives.no_store.then_some(Reason::PassRequestNoStore))
}

fn field_reason(fields: &Fields, policy: &Policy) -> Option<Reason> {
    let mut unknown = None;
    let mut cookie = None;
    for field in fields {
        if field.is(names::AUTHORIZATION) {
            return Some(Reason::PassAuthorization);
        }
        if field.is(names::RANGE) {
            return Some(Reason::PassRange);
        }
        if field.is("Origin") && !is_own_origin(&field.value, fields) {
            return Some(Reason::PassForeignOrigin);
        }
        if field.is(names::COOKIE) {
            cookie = worse_cookie(cookie, cookie_reason(&field.value, policy));
        } else if is_doubtful(field, policy) {
            unknown = Some(Reason::PassUnknownField);
        }
    }
    cookie.or(unknown).or_else(|| (!accepts_anything(fields)).then_some(Reason::PassAccept))
}

/// A known session cookie is the better explanation than an unknown cookie.
fn worse_cookie(known: Option<Reason>, found: Option<Reason>) -> Option<Reason> {
    if known == Some(Reason::PassCookie) { known } else { found.or(known) }
}

/// What one `Cookie` line means. The names are split at every semicolon, quoted or not: so we see at least the
/// cookies that any application sees.
fn cookie_reason(line: &[u8], policy: &Policy) -> Option<Reason> {
    let mut reason = None;
    for pair in line.split(|&byte| byte == b';') {
        let name = pair.split(|&byte| byte == b'=').next().unwrap_or_default().trim_ascii();
        if pair.trim_ascii().is_empty() || policy.noise_cookies.iter().any(|noise| noise.matches(name)) {
            continue;
        }
        if policy.session_cookies.iter().any(|session| session.matches(name)) {
            return Some(Reason::PassCookie);
        }
        if policy.unknown_cookie == UnknownCookie::Pass {
            reason = Some(Reason::PassUnknownCookie);
        }
    }
    reason
}

/// Whether `Origin` names the host that the request goes to, in either scheme.
fn is_own_origin(origin: &[u8], fields: &Fields) -> bool {
    let Some(host) = fields.first(names::HOST) else { return false };
    let authority = origin.strip_prefix(b"https://").or_else(|| origin.strip_prefix(b"http://"));
    authority.is_some_and(|authority| authority.eq_ignore_ascii_case(host))
}

/// Whether the client takes any media type, as browsers do everywhere: `Accept` is missing or has `*/*`.
fn accepts_anything(fields: &Fields) -> bool {
    let takes_all = |member: &[u8]| {
        let mut parts = member.split(|&byte| byte == b';').map(<[u8]>::trim_ascii);
        parts.next() == Some(b"*/*") && !parts.any(is_zero_weight)
    };
    !fields.has("Accept") || fields.list("Accept").any(takes_all)
}

/// Whether the policy never shares this target: by its path, or by a query parameter.
fn target_reason(target: &[u8], policy: &Policy) -> Option<Reason> {
    if policy.bypass_paths.is_empty() && policy.bypass_parameters.is_empty() {
        return None;
    }
    let (path, query) = match target.iter().position(|&byte| byte == b'?') {
        Some(mark) => {
            let (path, query) = target.split_at(mark);
            (path, query.get(1..).unwrap_or_default())
        }
        None => (target, &[][..]),
    };
    let path = percent_decoded(path);
    if policy.bypass_paths.iter().any(|pattern| pattern.matches(&path)) {
        return Some(Reason::PassPath);
    }
    let names_bypassed = query.split(|&byte| byte == b'&' || byte == b';').any(|pair| {
        let name = percent_decoded(pair.split(|&byte| byte == b'=').next().unwrap_or_default());
        policy.bypass_parameters.iter().any(|pattern| pattern.matches(&name))
    });
    names_bypassed.then_some(Reason::PassParameter)
}

/// The octets with every valid percent-encoding resolved once, as an origin's router sees them.
fn percent_decoded(octets: &[u8]) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(octets.len());
    let mut rest = octets;
    while let Some((&byte, after)) = rest.split_first() {
        let hex = |digit: &u8| (*digit as char).to_digit(16);
        match after {
            [high, low, after @ ..] if byte == b'%' => match (hex(high), hex(low)) {
                (Some(high), Some(low)) => {
                    decoded.push((high * 16 + low) as u8);
                    rest = after;
                }
                _ => {
                    decoded.push(byte);
                    rest = rest.get(1..).unwrap_or_default();
                }
            },
            _ => {
                decoded.push(byte);
                rest = after;
            }
        }
    }
    decoded
}
