//! Fields aimed at caches of our kind, which replace `Cache-Control` and `Expires` for them (RFC 9213):
//! `CDN-Cache-Control`, a structured dictionary, and `Surrogate-Control` of the Edge Architecture Specification.
//!
//! Invariant: the first valid field of the policy's list counts alone; an invalid or absent one counts as not
//! sent, so that the next one, and at last `Cache-Control`, decides.

use crate::structured::{Value, parse_dictionary};
use crate::{Directives, Policy, TargetedField};
use message::{Fields, list_members, names};

/// The directives that count for this cache, and whether they come from a targeted field: then `Expires`
/// does not count either.
pub fn stated_directives(fields: &Fields, policy: &Policy) -> (Directives, bool) {
    let targeted = policy.targeted_fields.iter().find_map(|targeted| match targeted {
        TargetedField::CdnCacheControl => cdn_cache_control(fields),
        TargetedField::SurrogateControl => surrogate_control(fields),
    });
    match targeted {
        Some(directives) => (directives, true),
        None => (Directives::of_response(fields), false),
    }
}

/// RFC 9213 section 2.1: the field must parse as a whole and have a member; a member of the wrong type makes
/// a lifetime zero and a permission void.
fn cdn_cache_control(fields: &Fields) -> Option<Directives> {
    if !fields.has(names::CDN_CACHE_CONTROL) {
        return None;
    }
    let lines: Vec<_> = fields.all(names::CDN_CACHE_CONTROL).map(|value| &**value).collect();
    let members = parse_dictionary(&lines.join(&b", "[..]))?;
    if members.is_empty() {
        return None;
    }
    let mut directives = Directives::default();
    for (name, value) in &members {
        match value {
            Value::Boolean(true) => directives.add(name, None),
            Value::Boolean(false) => {}
            Value::Integer(number) => {
                directives.add(name, Some((*number).max(0).to_string().as_bytes()));
            }
            Value::Text(list) => add_text(&mut directives, name, list),
            Value::Other => directives.add(name, Some(b" ")),
        }
    }
    Some(directives)
}

/// A string argument: field names for `private` and `no-cache`, the wrong type for everything else.
fn add_text(directives: &mut Directives, name: &[u8], list: &[u8]) {
    let takes_fields = name == b"private" || name == b"no-cache";
    directives.add(name, Some(if takes_fields { list } else { b" " }));
}

/// `max-age=N` or `max-age=N+M` (M seconds of staleness after it), `no-store`, `content="..."`. A field that
/// speaks of neither storing nor time, as one that only announces a processing, does not replace anything.
fn surrogate_control(fields: &Fields) -> Option<Directives> {
    let mut directives = Directives::default();
    let mut speaks = false;
    for value in fields.all(names::SURROGATE_CONTROL) {
        for member in list_members(value) {
            // Parameters after `;` name the surrogate that is meant.
            let member = member.split(|&byte| byte == b';').next().unwrap_or_default().trim_ascii();
            if member.eq_ignore_ascii_case(b"no-store") {
                (directives.no_store, speaks) = (true, true);
            } else if let Some(lifetime) = strip_name(member, b"max-age=") {
                add_lifetime(&mut directives, lifetime);
                speaks = true;
            }
        }
    }
    speaks.then_some(directives)
}

/// `N` or `N+M`.
fn add_lifetime(directives: &mut Directives, lifetime: &[u8]) {
    let mut parts = lifetime.splitn(2, |&byte| byte == b'+');
    directives.add(b"max-age", parts.next());
    if let Some(stale) = parts.next() {
        directives.add(b"stale-while-revalidate", Some(stale));
        directives.add(b"stale-if-error", Some(stale));
    }
}

/// What follows `name`, compared without regard to case.
fn strip_name<'a>(member: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let (start, rest) = member.split_at_checked(name.len())?;
    start.eq_ignore_ascii_case(name).then_some(rest)
}
