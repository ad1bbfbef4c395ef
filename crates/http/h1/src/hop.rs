//! Fields for one connection, which are not forwarded (RFC 9110 section 7.6.1).

use message::{Field, Fields, list_members, names};

/// Removes the fields for this connection only from `fields`: Connection, the fields that it names,
/// and the [hop-by-hop](names::HOP_BY_HOP) fields, named or not.
///
/// A field in [`PROTECTED`] stays even if Connection names it. RFC 9110 forbids senders to name
/// fields that are meant for every recipient. If we obeyed such a sender, a peer could remove
/// fields on which the next recipient's decisions depend. A client could remove the client address
/// or the host that we vouch for; an origin could remove the Cache-Control that makes its response
/// private.
///
/// Upgrade is removed too; a tunnel writes it anew. Content-Length stays; see
/// [`BodyFraming::announce`](crate::BodyFraming::announce) for framing.
pub fn strip_hop_by_hop(fields: &mut Fields) {
    let connection: Vec<_> = fields.all(names::CONNECTION).cloned().collect();
    fields.retain(|field| {
        let named =
            || connection.iter().flat_map(|value| list_members(value)).any(|option| is(field, option));
        !is_any_of(field, names::HOP_BY_HOP) && (!named() || is_any_of(field, PROTECTED))
    });
}

/// Fields that no connection option removes, because routing, framing, identity, caching or the
/// meaning of the content depend on them.
pub const PROTECTED: &[&str] = &[
    names::AGE,
    names::AUTHORIZATION,
    names::CACHE_CONTROL,
    names::CACHE_STATUS,
    names::CDN_CACHE_CONTROL,
    names::CONTENT_ENCODING,
    names::CONTENT_LENGTH,
    names::CONTENT_LOCATION,
    names::CONTENT_RANGE,
    names::CONTENT_TYPE,
    names::COOKIE,
    names::DATE,
    names::ETAG,
    names::EXPECT,
    names::EXPIRES,
    names::FORWARDED,
    names::HOST,
    names::IF_MATCH,
    names::IF_MODIFIED_SINCE,
    names::IF_NONE_MATCH,
    names::IF_RANGE,
    names::IF_UNMODIFIED_SINCE,
    names::LAST_MODIFIED,
    names::LOCATION,
    names::MAX_FORWARDS,
    names::PRAGMA,
    names::RANGE,
    names::SET_COOKIE,
    names::SURROGATE_CONTROL,
    names::SURROGATE_KEY,
    names::VARY,
    names::VIA,
    names::X_FORWARDED_FOR,
    names::X_FORWARDED_HOST,
    names::X_FORWARDED_PROTO,
];

fn is_any_of(field: &Field, names: &[&str]) -> bool {
    names.iter().any(|name| field.is(name))
}

fn is(field: &Field, option: &[u8]) -> bool {
    field.name.eq_ignore_ascii_case(option)
}

#[cfg(test)]
mod tests {
    use super::strip_hop_by_hop;
    use message::Fields;

    fn stripped(lines: &[(&'static str, &'static str)]) -> Vec<String> {
        let mut fields: Fields = lines.iter().copied().collect();
        strip_hop_by_hop(&mut fields);
        fields
            .iter()
            .map(|field| format!("{}: {}", field.name.escape_ascii(), field.value.escape_ascii()))
            .collect()
    }

    #[test]
    fn hop_by_hop_fields_are_removed() {
        let lines = [
            ("Connection", "keep-alive"),
            ("keep-alive", "timeout=5"),
            ("Proxy-Connection", "keep-alive"),
            ("TE", "trailers"),
            ("Trailer", "X"),
            ("Transfer-Encoding", "chunked"),
            ("Upgrade", "h2c"),
            ("HTTP2-Settings", "AAMAAABk"),
            ("Proxy-Authorization", "Basic x"),
            ("Proxy-Authenticate", "Basic"),
            ("Proxy-Authentication-Info", "x"),
            ("Accept", "*/*"),
        ];
        assert_eq!(stripped(&lines), ["Accept: */*"]);
    }

    #[test]
    fn fields_named_by_connection_are_removed() {
        let lines =
            [("X-A", "1"), ("Connection", "x-a, close"), ("Connection", "X-B"), ("x-b", "2"), ("X-C", "3")];
        assert_eq!(stripped(&lines), ["X-C: 3"]);
    }

    #[test]
    fn protected_fields_stay_even_if_connection_names_them() {
        let lines = [
            ("Connection", "host, content-length, authorization, cookie, cache-control, x-forwarded-for"),
            ("Connection", "set-cookie, vary, \"x\", close"),
            ("Host", "h"),
            ("Content-Length", "5"),
            ("Authorization", "Basic x"),
            ("Cookie", "a=b"),
            ("Cache-Control", "private"),
            ("X-Forwarded-For", "192.0.2.1"),
            ("Set-Cookie", "a=b"),
            ("Vary", "Cookie"),
        ];
        assert_eq!(stripped(&lines).len(), lines.len() - 2);
    }
}
