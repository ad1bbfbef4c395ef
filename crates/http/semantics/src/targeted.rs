//! Fields that target this kind of cache and replace `Cache-Control` and `Expires` for it (RFC
//! 9213). They are `CDN-Cache-Control`, a structured dictionary, and `Surrogate-Control` of the
//! Edge Architecture Specification.
//!
//! Invariant: only the first valid field of the policy's list counts. An invalid or absent field
//! counts as not sent, so that the next one decides, and `Cache-Control` last.

use crate::Directives;
use crate::structured::{MemberValue, combined_lines, parse_dictionary};
use message::{Fields, list_members, names};
use profiles::{Policy, TargetedField};

/// The directives that count for this cache, and whether they come from a targeted field. In that
/// case `Expires` does not count either.
pub fn stated_directives(fields: &Fields, policy: &Policy) -> (Directives, bool) {
    match targeted(fields, policy) {
        Some((_, directives)) => (directives, true),
        None => (Directives::of_response(fields), false),
    }
}

/// The name of the field whose directives count for this cache.
pub(crate) fn deciding_field(fields: &Fields, policy: &Policy) -> &'static str {
    targeted(fields, policy).map_or(names::CACHE_CONTROL, |(name, _)| name)
}

/// The first valid targeted field: its name and its directives.
fn targeted(fields: &Fields, policy: &Policy) -> Option<(&'static str, Directives)> {
    policy.targeted_fields.iter().find_map(|targeted| match targeted {
        TargetedField::CdnCacheControl => {
            cdn_cache_control(fields).map(|directives| (names::CDN_CACHE_CONTROL, directives))
        }
        TargetedField::SurrogateControl => {
            surrogate_control(fields).map(|directives| (names::SURROGATE_CONTROL, directives))
        }
    })
}

/// The directives of `CDN-Cache-Control` (RFC 9213 section 2.1). The field must parse as a whole
/// and have a member. A member of the wrong type makes a lifetime zero and a permission void.
fn cdn_cache_control(fields: &Fields) -> Option<Directives> {
    let members = parse_dictionary(&combined_lines(fields, names::CDN_CACHE_CONTROL)?)?;
    if members.is_empty() {
        return None;
    }
    let mut directives = Directives::default();
    for (name, value) in &members {
        match value {
            MemberValue::Boolean(true) => directives.add(name, None),
            MemberValue::Boolean(false) => {}
            MemberValue::Integer(number) => {
                directives.add(name, Some((*number).max(0).to_string().as_bytes()));
            }
            MemberValue::String(list) | MemberValue::Token(list) => add_text(&mut directives, name, list),
            MemberValue::InnerList(_) | MemberValue::Other => directives.add(name, Some(b" ")),
        }
    }
    Some(directives)
}

/// Adds a member with a string or token value: field names for `private` and `no-cache`, and the
/// wrong type for every other directive.
fn add_text(directives: &mut Directives, name: &[u8], list: &[u8]) {
    let takes_fields = name == b"private" || name == b"no-cache";
    directives.add(name, Some(if takes_fields { list } else { b" " }));
}

/// The directives of `Surrogate-Control`: `max-age=N`, `max-age=N+M` with M seconds of staleness
/// after the lifetime, and `no-store`. A field with neither, such as one for content processing
/// only, replaces nothing.
fn surrogate_control(fields: &Fields) -> Option<Directives> {
    let mut directives = Directives::default();
    let mut speaks = false;
    for value in fields.all(names::SURROGATE_CONTROL) {
        for member in list_members(value) {
            // A parameter after `;` names the surrogate that the member is for. It is ignored.
            let member = member.split(|&byte| byte == b';').next().unwrap_or_default().trim_ascii();
            if member.eq_ignore_ascii_case(b"no-store") {
                directives.no_store = true;
                speaks = true;
            } else if let Some(lifetime) = strip_name(member, b"max-age=") {
                add_lifetime(&mut directives, lifetime);
                speaks = true;
            }
        }
    }
    speaks.then_some(directives)
}

/// Whether lines of `Surrogate-Control` declare that the content is an ESI template, by the member
/// `content="ESI/1.0"` (Edge Architecture Specification). The value is a list of names of
/// languages, and other names say nothing about ESI.
pub fn declares_esi<'v>(lines: impl IntoIterator<Item = &'v [u8]>) -> bool {
    lines.into_iter().flat_map(list_members).any(|member| {
        let Some(value) = strip_name(member.trim_ascii(), b"content=") else { return false };
        // A parameter behind the value names the surrogate that the member is for.
        let languages = match value.strip_prefix(b"\"") {
            Some(quoted) => quoted.split(|byte| *byte == b'"').next(),
            None => value.split(|byte| *byte == b';').next(),
        };
        languages.unwrap_or_default().split(u8::is_ascii_whitespace).any(|language| language == b"ESI/1.0")
    })
}

/// Adds a lifetime written as `N` or `N+M`.
fn add_lifetime(directives: &mut Directives, lifetime: &[u8]) {
    let mut parts = lifetime.splitn(2, |&byte| byte == b'+');
    directives.add(b"max-age", parts.next());
    if let Some(stale) = parts.next() {
        directives.add(b"stale-while-revalidate", Some(stale));
        directives.add(b"stale-if-error", Some(stale));
    }
}

/// The text after the prefix `name`, which is compared without regard to case.
fn strip_name<'a>(member: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let (start, rest) = member.split_at_checked(name.len())?;
    start.eq_ignore_ascii_case(name).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::{declares_esi, stated_directives};
    use crate::Directives;
    use message::Fields;
    use profiles::{Policy, TargetedField};

    fn stated(fields: &[(&'static str, &'static str)]) -> (Directives, bool) {
        let fields: Vec<_> = fields.to_vec();
        let mut section = Fields::new();
        fields.iter().for_each(|(name, value)| section.push(*name, *value));
        stated_directives(&section, &Policy::default_profile())
    }

    #[test]
    fn esi_is_declared_by_its_name_and_version() {
        let yes = [
            "content=\"ESI/1.0\"",
            "max-age=60+30, Content=\"Surrogate/1.0 ESI/1.0\";petasos",
            "no-store, content=ESI/1.0",
        ];
        let no =
            ["", "ESI/1.0", "content=\"ESI/1.1\"", "content=\"ESI/1.0-x\"", "max-age=\"content=ESI/1.0\""];
        assert!(yes.iter().all(|line| declares_esi([line.as_bytes()])));
        assert!(!no.iter().any(|line| declares_esi([line.as_bytes()])));
    }

    const PLAIN: (&str, &str) = ("Cache-Control", "max-age=5");

    #[test]
    fn valid_targeted_field_replaces_cache_control() {
        let (directives, targeted) =
            stated(&[("Cache-Control", "no-store"), ("CDN-Cache-Control", "max-age=60, foobar")]);
        assert!(targeted && !directives.no_store);
        assert_eq!(directives.max_age_secs, Some(60));
        assert!(stated(&[PLAIN, ("CDN-Cache-Control", "no-store")]).0.no_store);
        assert!(stated(&[PLAIN, ("CDN-Cache-Control", "private")]).0.private.is_present());
        assert!(stated(&[PLAIN, ("CDN-Cache-Control", "no-cache=\"x\"")]).0.no_cache.is_present());
    }

    #[test]
    fn invalid_or_empty_targeted_field_counts_as_not_sent() {
        for value in ["max-age=10000, &&&&&", "MaX-aGe=3600", "max-age= 100", ""] {
            let (directives, targeted) = stated(&[PLAIN, ("CDN-Cache-Control", value)]);
            assert!(!targeted, "{value}");
            assert_eq!(directives.max_age_secs, Some(5), "{value}");
        }
    }

    #[test]
    fn lifetime_of_the_wrong_type_is_zero() {
        for value in
            ["max-age=\"10000\"", "max-age=abc", "max-age=1.5", "max-age", "max-age=-3", "max-age=(1)"]
        {
            assert_eq!(stated(&[PLAIN, ("CDN-Cache-Control", value)]).0.max_age_secs, Some(0), "{value}");
        }
    }

    #[test]
    fn field_lines_are_joined_into_one_dictionary() {
        let (directives, _) =
            stated(&[("CDN-Cache-Control", "max-age=10"), ("CDN-Cache-Control", "must-revalidate")]);
        assert_eq!((directives.max_age_secs, directives.must_revalidate), (Some(10), true));
        assert!(!stated(&[("CDN-Cache-Control", "max-age=10"), ("CDN-Cache-Control", "&")]).1);
    }

    #[test]
    fn policy_order_decides_between_targeted_fields() {
        let fields = [
            ("CDN-Cache-Control", "max-age=60"),
            ("Surrogate-Control", "max-age=30+600, content=\"ESI/1.0\""),
        ];
        let (directives, _) = stated(&fields);
        assert_eq!((directives.max_age_secs, directives.stale_if_error_secs), (Some(30), Some(600)));
        let mut policy = Policy::default_profile();
        policy.targeted_fields = vec![TargetedField::CdnCacheControl];
        let mut section = Fields::new();
        fields.iter().for_each(|(name, value)| section.push(*name, *value));
        assert_eq!(stated_directives(&section, &policy).0.max_age_secs, Some(60));
    }

    #[test]
    fn surrogate_control_without_lifetime_replaces_nothing() {
        assert!(!stated(&[PLAIN, ("Surrogate-Control", "content=\"ESI/1.0, max-age=9\"")]).1);
        assert!(stated(&[PLAIN, ("Surrogate-Control", "No-Store, content=\"BigPipe/1.0\"")]).0.no_store);
        assert_eq!(stated(&[PLAIN, ("Surrogate-Control", "max-age=70;petasos")]).0.max_age_secs, Some(70));
        assert_eq!(stated(&[PLAIN, ("Surrogate-Control", "max-age=x")]).0.max_age_secs, Some(0));
    }
}
