//! Tags (surrogate keys) and how the values of their headers are split.
//!
//! A tag is a run of bytes without white space and commas. It is case-sensitive and belongs to a
//! site. All headers share one namespace: a tag that a response states in one header may be purged
//! through another. Values with a meaning of their own, such as TYPO3's page numbers, get a prefix.
//! Groups (RFC 9875) get a prefix that no header can contain.
//!
//! Invariant: the tags of a response are either known completely or an error. A response with
//! unknown tags must not be stored, because a purge would miss it.

use crate::malformed::MalformedFault;
use crate::tag_headers::{Syntax, TAG_BYTES_MAX, TAG_HEADERS, TAGS_MAX};
use bytes::Bytes;
use message::Fields;

/// Why the tags of a response are not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TagsError {
    /// More tags than [`TAGS_MAX`].
    #[error("the response has more than {TAGS_MAX} tags")]
    TooMany,
    /// A tag longer than [`TAG_BYTES_MAX`].
    #[error("a tag of the response is longer than {TAG_BYTES_MAX} octets")]
    TooLong,
}

/// The tags of a response, sorted and without duplicates.
///
/// They come from all headers of [`TAG_HEADERS`] and from the response's groups (RFC 9875). Groups
/// belong to the origin of `https` and `host`, which is in lower case and without a default port.
///
/// # Errors
/// [`TagsError`] if there are too many tags or one is too long. The response must then not be
/// stored.
pub fn tags_of(response: &Fields, https: bool, host: &[u8]) -> Result<Vec<Bytes>, TagsError> {
    let mut tags = Vec::new();
    for header in TAG_HEADERS.iter().filter(|header| header.is_stated()) {
        for value in response.all(header.name) {
            let words = if header.syntax == Syntax::Expression {
                unfolded(words(value, Syntax::Expression))
            } else {
                words(value, Syntax::Words).map(|word| value.slice_ref(public_tag(word))).collect()
            };
            tags.extend(words.into_iter().map(|word| prefixed(header.prefix, word)));
            if tags.len() > TAGS_MAX {
                return Err(TagsError::TooMany);
            }
        }
    }
    tags.extend(semantics::groups(response).iter().map(|group| group_tag(https, host, group)));
    if tags.iter().any(|tag| tag.len() > TAG_BYTES_MAX) {
        return Err(TagsError::TooLong);
    }
    tags.sort_unstable();
    tags.dedup();
    Ok(tags)
}

/// The tag for a group of an origin (RFC 9875). It begins with a byte that no header can carry, so
/// no tag of a header equals it.
pub fn group_tag(https: bool, host: &[u8], group: &[u8]) -> Bytes {
    let scheme: &[u8] = if https { b"\0group:https://" } else { b"\0group:http://" };
    Bytes::from([scheme, host, b"/", group].concat())
}

/// The words of a list, without empty ones.
pub(crate) fn words(list: &[u8], syntax: Syntax) -> impl Iterator<Item = &[u8]> {
    let separates = move |octet: &u8| {
        matches!(octet, b' ' | b'\t' | b',') || (*octet == b'|' && syntax == Syntax::Expression)
    };
    list.split(separates).filter(|word| !word.is_empty())
}

/// Reads a list in a request as tags.
pub(crate) fn listed(list: &[u8], syntax: Syntax, prefix: &str) -> Result<Vec<Bytes>, MalformedFault> {
    let tags = words(list, syntax).map(|word| prefixed(prefix, Bytes::copy_from_slice(word)));
    checked(tags.take(TAGS_MAX + 1).collect())
}

/// Returns the tags if there is at least one and none exceeds a limit.
pub(crate) fn checked(tags: Vec<Bytes>) -> Result<Vec<Bytes>, MalformedFault> {
    if tags.is_empty() {
        return Err(MalformedFault::Missing("at least one tag"));
    }
    if tags.len() > TAGS_MAX {
        return Err(MalformedFault::TooManyTags);
    }
    if tags.iter().any(|tag| tag.len() > TAG_BYTES_MAX) {
        return Err(MalformedFault::TagTooLong);
    }
    Ok(tags)
}

pub(crate) fn prefixed(prefix: &str, word: Bytes) -> Bytes {
    if prefix.is_empty() { word } else { Bytes::from([prefix.as_bytes(), &word].concat()) }
}

/// Removes the mark `public:`, which LiteSpeed puts before tags of shared parts in private
/// responses.
fn public_tag(word: &[u8]) -> &[u8] {
    word.strip_prefix(b"public:").unwrap_or(word)
}

/// Expands the short form of TYPO3's mkvarnish: `pages{,1,7,}` means `pages`, `pages_1` and
/// `pages_7`.
fn unfolded<'a>(words: impl Iterator<Item = &'a [u8]>) -> Vec<Bytes> {
    let mut table: Option<&[u8]> = None;
    let mut tags = Vec::new();
    for word in words {
        match (table, word) {
            (Some(_), b"}") => table = None,
            (Some(name), number) => tags.push(Bytes::from([name, b"_", number].concat())),
            (None, [name @ .., b'{']) if !name.is_empty() => {
                tags.push(Bytes::copy_from_slice(name));
                table = Some(name);
            }
            (None, word) => tags.push(Bytes::copy_from_slice(word)),
        }
    }
    tags
}

#[cfg(test)]
mod tests {
    use super::{TagsError, group_tag, tags_of};
    use crate::tag_headers::{TAG_BYTES_MAX, TAG_HEADERS, TAGS_MAX};
    use message::Fields;

    fn tags(fields: &[(&'static str, &str)]) -> Vec<String> {
        let mut response = Fields::new();
        for (name, value) in fields {
            response.push(*name, value.to_string());
        }
        let tags = tags_of(&response, false, b"a.test").unwrap();
        tags.iter().map(|tag| tag.escape_ascii().to_string()).collect()
    }

    #[test]
    fn tags_are_read_from_the_header_of_each_application() {
        for (name, value, expected) in [
            ("Cache-Tags", "node:1 node_list rendered", &["node:1", "node_list", "rendered"][..]),
            ("Purge-Cache-Tags", "http_response rendered", &["http_response", "rendered"]),
            ("X-Drupal-Cache-Tags", "config:user.role.anonymous", &["config:user.role.anonymous"]),
            ("X-Acquia-Purge-Tags", "ab12 0f3c", &["0f3c", "ab12"]),
            ("X-Cache-Tags", "p-123,t-9, home", &["home", "p-123", "t-9"]),
            (
                "X-Cache-Tags",
                "tt_content{,1,15,},pages",
                &["pages", "tt_content", "tt_content_1", "tt_content_15"],
            ),
            ("X-Magento-Tags", "cat_p_1,cms_b_2,FPC", &["FPC", "cat_p_1", "cms_b_2"]),
            ("Cache-Tag", "tag1,tag2,tag3", &["tag1", "tag2", "tag3"]),
            ("Edge-Cache-Tag", "a, b", &["a", "b"]),
            ("surrogate-key", "a b|c", &["a", "b|c"]),
            ("xkey", "8155054 166412,234323", &["166412", "234323", "8155054"]),
            ("X-LiteSpeed-Tag", "public:7d2_Po.12,7d2_", &["7d2_", "7d2_Po.12"]),
            ("TYPO3-Pid", "12", &["typo3-pid:12"]),
            ("TYPO3-Sitename", "0fe3", &["typo3-sitename:0fe3"]),
            ("X-TYPO3-Sitename", "0fe3", &["typo3-sitename:0fe3"]),
            (
                "Cache-Groups",
                r#""scripts", "a b""#,
                &[r"\x00group:http://a.test/a b", r"\x00group:http://a.test/scripts"],
            ),
            ("X-Cache-Tags-Pattern", "a", &[]),
        ] {
            assert_eq!(tags(&[(name, value)]), expected, "{name}: {value}");
        }
    }

    #[test]
    fn tags_of_all_headers_are_merged_without_duplicates() {
        let fields = [("xkey", "b a"), ("xkey", "c"), ("Surrogate-Key", "a"), ("X-Other", "z")];
        assert_eq!(tags(&fields), ["a", "b", "c"]);
        assert!(tags(&[("xkey", " ,\t")]).is_empty());
    }

    #[test]
    fn too_many_or_too_long_tags_are_an_error() {
        let of = |value: String| {
            let mut response = Fields::new();
            response.push("Cache-Tags", value);
            tags_of(&response, false, b"").map(|tags| tags.len())
        };
        let many = |count: usize| (0..count).map(|n| n.to_string()).collect::<Vec<_>>().join(" ");
        assert_eq!(of(many(TAGS_MAX)), Ok(TAGS_MAX));
        assert_eq!(of(many(TAGS_MAX + 1)), Err(TagsError::TooMany));
        assert_eq!(of("t".repeat(TAG_BYTES_MAX)), Ok(1));
        assert_eq!(of("t".repeat(TAG_BYTES_MAX + 1)), Err(TagsError::TooLong));
    }

    #[test]
    fn groups_belong_to_one_origin() {
        assert_ne!(group_tag(true, b"a.test", b"g"), group_tag(false, b"a.test", b"g"));
        assert_ne!(group_tag(true, b"a.test", b"g"), group_tag(true, b"b.test", b"g"));
    }

    #[test]
    fn names_are_unique() {
        for (index, header) in TAG_HEADERS.iter().enumerate() {
            assert!(
                TAG_HEADERS.iter().skip(index + 1).all(|other| !other.name.eq_ignore_ascii_case(header.name))
            );
        }
    }
}
