//! Groups of stored responses that are invalidated together (RFC 9875).
//!
//! Invariant: a group is a string, compared byte by byte, within one origin. The caller keeps
//! origins apart. A field with another syntax than a list of strings names no group. Invalidating a
//! group does not invalidate other groups.

use crate::structured::{MemberValue, combined_lines, parse_list};
use bytes::Bytes;
use message::{Fields, Method, ResponseHead, names};

/// The maximum number of groups in one field. More are ignored. RFC 9875 asks for at least 32.
pub const GROUPS_MAX: usize = 32;
/// The maximum length of a group's name. Longer names are ignored. RFC 9875 asks for at least 32
/// characters.
pub const GROUP_BYTES_MAX: usize = 128;

/// The groups that a response belongs to, from `Cache-Groups`.
pub fn groups(response: &Fields) -> Vec<Bytes> {
    listed(response, names::CACHE_GROUPS)
}

/// The groups whose stored responses are invalidated by the response to a request with `method`,
/// from `Cache-Group-Invalidation`.
///
/// None if the method is safe, whatever the field says. None if the response is an error, because
/// then nothing has changed (RFC 9111 section 4.4).
pub fn invalidated_groups(method: &Method, answer: &ResponseHead) -> Vec<Bytes> {
    if method.is_safe() || answer.status.code() >= 400 {
        return Vec::new();
    }
    listed(&answer.fields, names::CACHE_GROUP_INVALIDATION)
}

/// The strings listed by a field, sorted and without duplicates.
fn listed(fields: &Fields, name: &str) -> Vec<Bytes> {
    let members = combined_lines(fields, name).and_then(|value| parse_list(&value)).unwrap_or_default();
    let strings = members.into_iter().map(|member| match member {
        MemberValue::String(group) => Some(Bytes::from(group)),
        _ => None,
    });
    let mut groups: Vec<_> = strings.collect::<Option<_>>().unwrap_or_default();
    groups.retain(|group| group.len() <= GROUP_BYTES_MAX);
    groups.truncate(GROUPS_MAX);
    groups.sort_unstable();
    groups.dedup();
    groups
}

#[cfg(test)]
mod tests {
    use super::{GROUP_BYTES_MAX, GROUPS_MAX, groups, invalidated_groups};
    use message::{Fields, Method, ResponseHead, Status};

    fn of(value: impl Into<bytes::Bytes>) -> Vec<bytes::Bytes> {
        let mut fields = Fields::new();
        fields.push("Cache-Groups", value);
        groups(&fields)
    }

    #[test]
    fn examples_of_rfc_9875() {
        assert_eq!(of("\"scripts\""), ["scripts"]);
        let mut answer = ResponseHead::new(Status::OK);
        answer.fields.push("Cache-Group-Invalidation", "\"eurovision-results\", \"australia\"");
        assert_eq!(invalidated_groups(&Method::Post, &answer), ["australia", "eurovision-results"]);
        for safe in [Method::Get, Method::Head, Method::Options, Method::Trace] {
            assert!(invalidated_groups(&safe, &answer).is_empty(), "{safe}");
        }
        assert!(!invalidated_groups(&Method::from_token(b"PURGE"), &answer).is_empty());
        for (code, counts) in [(201, true), (303, true), (400, false), (404, false), (500, false)] {
            answer.status = Status::from_code(code).unwrap();
            assert_eq!(!invalidated_groups(&Method::Delete, &answer).is_empty(), counts, "{code}");
        }
    }

    #[test]
    fn order_repetition_and_parameters_do_not_matter() {
        assert_eq!(of("\"b\";x;y=1, \"a\", \"b\""), ["a", "b"]);
        assert_eq!(of("\"B\", \"b\", \"\""), ["", "B", "b"]);
        let mut lines = Fields::new();
        lines.push("Cache-Groups", "\"b\"");
        lines.push("cache-groups", "\"a\"");
        assert_eq!(groups(&lines), ["a", "b"]);
        assert!(groups(&Fields::new()).is_empty());
    }

    #[test]
    fn members_other_than_strings_name_no_group() {
        for value in ["a", "\"a\", b", "\"a\", (\"b\")", "\"a\",", "\"a", "1", "?1", "\u{fc}"] {
            assert!(of(value).is_empty(), "{value}");
        }
    }

    #[test]
    fn limits_on_groups_are_kept() {
        let list = |count: usize| (0..count).map(|n| format!("\"g{n:03}\"")).collect::<Vec<_>>().join(", ");
        assert_eq!(of(list(GROUPS_MAX)).len(), GROUPS_MAX);
        assert_eq!(of(list(GROUPS_MAX + 1)).len(), GROUPS_MAX);
        let named = |count: usize| of(format!("\"{}\", \"x\"", "n".repeat(count))).len();
        assert_eq!((named(GROUP_BYTES_MAX), named(GROUP_BYTES_MAX + 1)), (2, 1));
    }
}
