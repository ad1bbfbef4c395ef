//! Groups of stored responses that are invalidated together (RFC 9875).
//!
//! Invariant: a group is a string, compared octet by octet, within one origin; the caller keeps origins apart. A
//! field that is no list of strings names no group. Invalidating a group does not cascade to others.

use crate::structured::{Value, combined_lines, parse_list};
use bytes::Bytes;
use message::{Fields, Method, ResponseHead, names};

/// Groups beyond so many in one field are ignored. The RFC asks for 32 at least.
pub const GROUPS_MAX: usize = 32;
/// Longer names of groups are ignored. The RFC asks for 32 characters at least.
pub const GROUP_BYTES_MAX: usize = 128;

/// The groups a response belongs to, by `Cache-Groups`.
pub fn groups(response: &Fields) -> Vec<Bytes> {
    listed(response, names::CACHE_GROUPS)
}

/// The groups whose stored responses the answer to a request with `method` makes unusable, by
/// `Cache-Group-Invalidation`: none if the method is safe, whatever the field says, and none if the answer is an
/// error, which changed nothing (RFC 9111 section 4.4).
pub fn invalidated_groups(method: &Method, answer: &ResponseHead) -> Vec<Bytes> {
    if method.is_safe() || answer.status.code() >= 400 {
        return Vec::new();
    }
    listed(&answer.fields, names::CACHE_GROUP_INVALIDATION)
}

/// The strings listed by a field, each once.
fn listed(fields: &Fields, name: &str) -> Vec<Bytes> {
    let members = combined_lines(fields, name).and_then(|value| parse_list(&value)).unwrap_or_default();
    let strings = members.into_iter().map(|member| match member {
        Value::String(group) => Some(Bytes::from(group)),
        _ => None,
    });
    let mut groups: Vec<_> = strings.collect::<Option<_>>().unwrap_or_default();
    groups.retain(|group| group.len() <= GROUP_BYTES_MAX);
    groups.truncate(GROUPS_MAX);
    groups.sort_unstable();
    groups.dedup();
    groups
}
