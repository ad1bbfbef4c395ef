//! Content codings of shared responses (RFC 9110 section 8.4): which form a client is given that refuses gzip.
//!
//! Invariant: a client that refuses gzip gets a gzip response decoded or fetches for itself, and a strong entity tag
//! never stands for both forms. Where everything is forwarded as sent, nothing here changes a response.

use crate::vary::AcceptedCodings;
use crate::{Directives, Forwarding, Policy};
use message::{Fields, ResponseHead, names};

/// What a client that refuses gzip gets of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WithoutGzip {
    /// The response as it is: it has no coding, or one that no client asked for.
    AsIs,
    /// The decoded content under [`decoded_head`].
    Decoded,
    /// Nothing of this response: a part cannot be decoded, and `no-transform` forbids it. The client asks for itself.
    Unusable,
}

/// Whether the client of a request must not be sent gzip, although the shared fetch has offered it.
pub fn refuses_gzip(request: &Fields, policy: &Policy) -> bool {
    policy.forwarding != Forwarding::Everything && AcceptedCodings::of(request) == AcceptedCodings::Identity
}

/// What a client that refuses gzip gets of a response.
pub fn without_gzip(response: &Fields) -> WithoutGzip {
    if !is_gzip(response) || is_archive(response) {
        WithoutGzip::AsIs
    } else if response.has(names::CONTENT_RANGE) || Directives::of_response(response).no_transform {
        WithoutGzip::Unusable
    } else {
        WithoutGzip::Decoded
    }
}

/// The head of the decoded form of a response. Its length is not known before it was decoded, and a tag that was strong
/// is weak, because the same tag names the coded form (RFC 9110 section 8.8.3.3).
pub fn decoded_head(head: &ResponseHead) -> ResponseHead {
    let mut decoded = with_vary_field(head);
    decoded.fields.retain(|field| !OF_THE_CODED_FORM.iter().any(|name| field.is(name)));
    if let Some(tag) = head.fields.only(names::ETAG).filter(|tag| tag.starts_with(b"\"")) {
        decoded.fields.set(names::ETAG, [b"W/", &tag[..]].concat());
    }
    decoded
}

/// Whether a response of this type is text, which a web server usually compresses.
pub fn is_compressible(response: &Fields) -> bool {
    let media_type = media_type(response);
    media_type.starts_with("text/") && media_type != "text/event-stream"
        || COMPRESSIBLE.contains(&&media_type[..])
}

/// Fields of the coded form that do not hold for the decoded one.
const OF_THE_CODED_FORM: [&str; 7] = [
    names::ACCEPT_RANGES,
    names::CONTENT_ENCODING,
    names::CONTENT_LENGTH,
    "Content-Digest",
    "Content-MD5",
    "Digest",
    "Repr-Digest",
];

/// Types of files that are compressed themselves. Servers name their compression as a coding too, and clients that
/// accept no coding still want the file as it is.
const ARCHIVES: [&str; 6] = [
    "application/gzip",
    "application/x-compressed-tar",
    "application/x-gtar",
    "application/x-gzip",
    "application/x-tar",
    "application/x-tgz",
];

const COMPRESSIBLE: [&str; 7] = [
    "application/javascript",
    "application/json",
    "application/rss+xml",
    "application/x-javascript",
    "application/xhtml+xml",
    "application/xml",
    "image/svg+xml",
];

/// Whether the content has a coding.
pub(crate) fn is_coded(response: &Fields) -> bool {
    codings(response).next().is_some()
}

/// Whether gzip is the one coding of the content.
pub(crate) fn is_gzip(response: &Fields) -> bool {
    let mut codings = codings(response);
    let first = codings.next();
    let is_named =
        |coding: &[u8]| coding.eq_ignore_ascii_case(b"gzip") || coding.eq_ignore_ascii_case(b"x-gzip");
    first.is_some_and(is_named) && codings.next().is_none()
}

/// The head with `Accept-Encoding` in its `Vary`, where the response has two forms and does not say so; caches between
/// Petasos and the client must know it.
pub(crate) fn with_vary(head: &ResponseHead, policy: &Policy) -> Option<ResponseHead> {
    let has_two_forms = policy.forwarding != Forwarding::Everything && is_gzip(&head.fields);
    (has_two_forms && !names_coding(&head.fields)).then(|| with_vary_field(head))
}

fn with_vary_field(head: &ResponseHead) -> ResponseHead {
    let mut named = head.clone();
    if !names_coding(&head.fields) {
        named.fields.push(names::VARY, names::ACCEPT_ENCODING);
    }
    named
}

fn names_coding(response: &Fields) -> bool {
    response
        .list(names::VARY)
        .any(|name| name == b"*" || name.eq_ignore_ascii_case(names::ACCEPT_ENCODING.as_bytes()))
}

fn codings(response: &Fields) -> impl Iterator<Item = &[u8]> {
    response.list(names::CONTENT_ENCODING).filter(|coding| !coding.eq_ignore_ascii_case(b"identity"))
}

fn is_archive(response: &Fields) -> bool {
    ARCHIVES.contains(&&media_type(response)[..])
}

/// The media type without its parameters, in lower case.
fn media_type(response: &Fields) -> String {
    let value = response.first(names::CONTENT_TYPE).map(|value| &value[..]).unwrap_or_default();
    let name = value.split(|byte| *byte == b';').next().unwrap_or_default();
    String::from_utf8_lossy(name.trim_ascii()).to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::{WithoutGzip, decoded_head, is_compressible, refuses_gzip, with_vary, without_gzip};
    use crate::Policy;
    use message::{Fields, ResponseHead, Status};

    type Lines = [(&'static str, &'static str)];

    fn head(lines: &Lines) -> ResponseHead {
        ResponseHead { fields: lines.iter().copied().collect(), ..ResponseHead::new(Status::OK) }
    }

    fn form(lines: &Lines) -> WithoutGzip {
        without_gzip(&head(lines).fields)
    }

    fn lines(head: &ResponseHead) -> Vec<String> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        head.fields.iter().map(|field| format!("{}: {}", text(&field.name), text(&field.value))).collect()
    }

    #[test]
    fn gzip_is_decoded_unless_that_would_be_wrong() {
        let gzip = ("Content-Encoding", "gzip");
        for (lines, expected) in [
            (&[gzip][..], WithoutGzip::Decoded),
            (&[("content-encoding", "X-Gzip")], WithoutGzip::Decoded),
            (&[gzip, ("Content-Type", "text/html")], WithoutGzip::Decoded),
            (&[], WithoutGzip::AsIs),
            (&[("Content-Encoding", "identity")], WithoutGzip::AsIs),
            (&[("Content-Encoding", "br")], WithoutGzip::AsIs),
            (&[gzip, gzip], WithoutGzip::AsIs),
            (&[gzip, ("Content-Type", "application/X-Tar; a=b")], WithoutGzip::AsIs),
            (&[gzip, ("Content-Range", "bytes 0-1/2")], WithoutGzip::Unusable),
            (&[gzip, ("Cache-Control", "no-transform")], WithoutGzip::Unusable),
        ] {
            assert_eq!(form(lines), expected, "{lines:?}");
        }
    }

    #[test]
    fn only_clients_without_gzip_refuse_it() {
        let refuses =
            |policy: &Policy, lines: &Lines| refuses_gzip(&lines.iter().copied().collect::<Fields>(), policy);
        let policy = Policy::default_profile();
        for accepted in ["identity", "", "br", "gzip;q=0"] {
            assert!(refuses(&policy, &[("Accept-Encoding", accepted)]), "{accepted}");
        }
        assert!(refuses(&policy, &[]) && !refuses(&Policy::rfc(), &[]));
        assert!(!refuses(&policy, &[("Accept-Encoding", "br;q=1, x-gzip")]));
    }

    #[test]
    fn decoded_head_keeps_what_holds_for_both_forms() {
        let coded = head(&[
            ("ETag", "\"1\""),
            ("Content-Length", "9"),
            ("Content-Encoding", "gzip"),
            ("Accept-Ranges", "bytes"),
            ("Repr-Digest", "sha-256=:x:"),
            ("Vary", "Cookie"),
            ("Content-Type", "text/html"),
        ]);
        assert_eq!(
            lines(&decoded_head(&coded)),
            ["Vary: Cookie", "Content-Type: text/html", "Vary: Accept-Encoding", "ETag: W/\"1\""]
        );
        let weak = head(&[("ETag", "W/\"1\""), ("Vary", "accept-encoding")]);
        assert_eq!(decoded_head(&weak), weak);
    }

    #[test]
    fn vary_is_added_where_petasos_chooses_the_form() {
        let policy = Policy::default_profile();
        let gzip = head(&[("Content-Encoding", "gzip")]);
        assert_eq!(
            lines(&with_vary(&gzip, &policy).unwrap()),
            ["Content-Encoding: gzip", "Vary: Accept-Encoding"]
        );
        assert_eq!(with_vary(&gzip, &Policy::rfc()), None);
        for lines in [
            &[("Content-Encoding", "gzip"), ("Vary", "x, accept-encoding")][..],
            &[("Content-Encoding", "gzip"), ("Vary", "*")],
            &[("Content-Encoding", "br")],
            &[],
        ] {
            assert_eq!(with_vary(&head(lines), &policy), None, "{lines:?}");
        }
    }

    #[test]
    fn text_is_compressible() {
        let is = |media_type| is_compressible(&head(&[("Content-Type", media_type)]).fields);
        for media_type in ["text/html; charset=utf-8", "TEXT/css", "application/json", "image/svg+xml"] {
            assert!(is(media_type), "{media_type}");
        }
        for media_type in ["image/png", "text/event-stream", "application/zip", ""] {
            assert!(!is(media_type), "{media_type}");
        }
    }
}
