//! Content codings of shared responses (RFC 9110 section 8.4): the form of a response that a client
//! receives if it refuses gzip.
//!
//! Invariant: a client that refuses gzip receives a gzip response decoded, or makes its own fetch.
//! A strong entity tag never names both forms. Under a policy that forwards everything as sent,
//! this module changes no response.

use crate::Directives;
use crate::accepted_codings::{AcceptedCodings, Coding};
use crate::coded_tags::form_tag;
use crate::compression::CompressionRules;
use message::{Fields, ResponseHead, names};
use profiles::{Forwarding, Policy};

/// The form of a response that a client receives if it refuses gzip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WithoutGzip {
    /// The response unchanged: it has no coding, or is an archive, or has a coding that cannot be
    /// removed.
    AsIs,
    /// The decoded content, with the head from [`decoded_head`].
    Decoded,
    /// None of this response: a part cannot be decoded, or `no-transform` forbids it. The client's
    /// request needs its own fetch.
    Unusable,
}

/// Whether a client that accepts these codings must not be sent gzip, although the shared fetch
/// offers gzip to the origin.
pub fn refuses_gzip(accepted: AcceptedCodings, policy: &Policy) -> bool {
    policy.forwarding != Forwarding::Everything && !accepted.has(Coding::Gzip)
}

/// Decides the form of a response for a client that refuses gzip.
pub fn without_gzip(response: &Fields) -> WithoutGzip {
    if !is_gzip(response) || is_archive(response) {
        WithoutGzip::AsIs
    } else if response.has(names::CONTENT_RANGE) || Directives::of_response(response).no_transform {
        WithoutGzip::Unusable
    } else {
        WithoutGzip::Decoded
    }
}

/// The head of the decoded form of a response. It has no `Content-Length`, because the length is
/// unknown before decoding. A strong entity tag becomes weak, because the same tag names the coded
/// form (RFC 9110 section 8.8.3.3).
pub fn decoded_head(head: &ResponseHead) -> ResponseHead {
    let mut decoded = with_vary_field(head);
    decoded.fields.retain(|field| !OF_THE_CODED_FORM.iter().any(|name| field.is(name)));
    if let Some(tag) = head.fields.only(names::ETAG).filter(|tag| tag.starts_with(b"\"")) {
        decoded.fields.set(names::ETAG, [b"W/", &tag[..]].concat());
    }
    decoded
}

/// The head of the form in `coding` that Petasos makes of a response. It has no `Content-Length`.
/// The entity tag is another one, because the same tag names the response itself.
pub fn coded_head(head: &ResponseHead, coding: Coding) -> ResponseHead {
    let mut coded = with_vary_field(head);
    coded.fields.retain(|field| !OF_THE_CODED_FORM.iter().any(|name| field.is(name)));
    let tag = head.fields.only(names::ETAG).and_then(|tag| form_tag(tag, coding));
    coded.fields.remove(names::ETAG);
    coded.fields.push(names::CONTENT_ENCODING, coding.name());
    if let Some(tag) = tag {
        coded.fields.push(names::ETAG, tag);
    }
    coded
}

/// The head of a form that Petasos makes while it sends a response. Its bytes are not those of the
/// stored form in the same coding, so its entity tag is weak.
pub fn streamed_head(head: &ResponseHead, coding: Coding) -> ResponseHead {
    let mut streamed = coded_head(head, coding);
    if let Some(tag) = streamed.fields.only(names::ETAG).filter(|tag| tag.starts_with(b"\"")) {
        let weak = [b"W/", &tag[..]].concat();
        streamed.fields.set(names::ETAG, weak);
    }
    streamed
}

/// Whether the response has a text type that web servers usually compress.
pub fn is_compressible(response: &Fields) -> bool {
    let media_type = media_type(response);
    media_type.starts_with("text/") && media_type != "text/event-stream"
        || COMPRESSIBLE.contains(&&media_type[..])
}

/// Fields that describe the coded form and do not hold for the decoded one.
const OF_THE_CODED_FORM: [&str; 7] = [
    names::ACCEPT_RANGES,
    names::CONTENT_ENCODING,
    names::CONTENT_LENGTH,
    "Content-Digest",
    "Content-MD5",
    "Digest",
    "Repr-Digest",
];

/// Media types of compressed files. Some servers send their compression as a content coding too. A
/// client that accepts no coding still wants the file unchanged.
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
pub fn is_gzip(response: &Fields) -> bool {
    let mut codings = codings(response);
    let first = codings.next();
    let is_named =
        |coding: &[u8]| coding.eq_ignore_ascii_case(b"gzip") || coding.eq_ignore_ascii_case(b"x-gzip");
    first.is_some_and(is_named) && codings.next().is_none()
}

/// The head with `Accept-Encoding` added to its `Vary`, if the response has several forms, or may
/// get them by `rules`, and its `Vary` does not say so. Caches between Petasos and the client must
/// know about all forms.
pub(crate) fn with_vary(
    head: &ResponseHead,
    policy: &Policy,
    rules: Option<&CompressionRules>,
) -> Option<ResponseHead> {
    let has_forms = policy.forwarding != Forwarding::Everything && is_gzip(&head.fields)
        || rules.is_some_and(|rules| rules.concern(&head.fields));
    (has_forms && !names_coding(&head.fields)).then(|| with_vary_field(head))
}

fn with_vary_field(head: &ResponseHead) -> ResponseHead {
    let mut named = head.clone();
    if !names_coding(&head.fields) {
        named.fields.push(names::VARY, names::ACCEPT_ENCODING);
    }
    named
}

/// Whether the `Vary` of a response names the codings that clients accept.
pub fn names_coding(response: &Fields) -> bool {
    response
        .list(names::VARY)
        .any(|name| name == b"*" || name.eq_ignore_ascii_case(names::ACCEPT_ENCODING.as_bytes()))
}

fn codings(response: &Fields) -> impl Iterator<Item = &[u8]> {
    response.list(names::CONTENT_ENCODING).filter(|coding| !coding.eq_ignore_ascii_case(b"identity"))
}

pub(crate) fn is_archive(response: &Fields) -> bool {
    ARCHIVES.contains(&&media_type(response)[..])
}

/// Whether a value of `Content-Type` is that of HTML.
pub fn is_html_type(value: &[u8]) -> bool {
    let name = value.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    [&b"text/html"[..], b"application/xhtml+xml"].into_iter().any(|html| name.eq_ignore_ascii_case(html))
}

/// The media type without its parameters, in lower case.
pub(crate) fn media_type(response: &Fields) -> String {
    let value = response.first(names::CONTENT_TYPE).map(|value| &value[..]).unwrap_or_default();
    let name = value.split(|byte| *byte == b';').next().unwrap_or_default();
    String::from_utf8_lossy(name.trim_ascii()).to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::{
        WithoutGzip, coded_head, decoded_head, is_compressible, refuses_gzip, streamed_head, with_vary,
        without_gzip,
    };
    use crate::accepted_codings::{AcceptedCodings, Coding};
    use crate::compression::CompressionRules;
    use crate::tests::FieldLines;
    use message::{Fields, ResponseHead, Status};
    use profiles::Policy;

    fn head(lines: &FieldLines) -> ResponseHead {
        ResponseHead { fields: lines.iter().copied().collect(), ..ResponseHead::new(Status::OK) }
    }

    fn form(lines: &FieldLines) -> WithoutGzip {
        without_gzip(&head(lines).fields)
    }

    fn lines(head: &ResponseHead) -> Vec<String> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        head.fields.iter().map(|field| format!("{}: {}", text(&field.name), text(&field.value))).collect()
    }

    #[test]
    fn gzip_is_decoded_unless_decoding_is_wrong() {
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
    fn client_without_gzip_in_its_request_refuses_gzip() {
        let refuses = |policy: &Policy, lines: &FieldLines| {
            refuses_gzip(AcceptedCodings::of(&lines.iter().copied().collect::<Fields>()), policy)
        };
        let policy = Policy::default_profile();
        for accepted in ["identity", "", "br", "gzip;q=0"] {
            assert!(refuses(&policy, &[("Accept-Encoding", accepted)]), "{accepted}");
        }
        assert!(refuses(&policy, &[]) && !refuses(&Policy::rfc(), &[]));
        assert!(!refuses(&policy, &[("Accept-Encoding", "br;q=1, x-gzip")]));
    }

    #[test]
    fn decoded_head_keeps_fields_that_hold_for_both_forms() {
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
    fn coded_form_describes_itself() {
        let stored = head(&[
            ("ETag", "\"1\""),
            ("Content-Length", "9"),
            ("Content-Encoding", "gzip"),
            ("Accept-Ranges", "bytes"),
            ("Content-Type", "text/html"),
            ("Last-Modified", "Sun, 06 Nov 1994 08:49:37 GMT"),
        ]);
        let expected = |tag: &str, coding: &str| {
            [
                "Content-Type: text/html".to_owned(),
                "Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT".to_owned(),
                "Vary: Accept-Encoding".to_owned(),
                format!("Content-Encoding: {coding}"),
                format!("ETag: {tag}"),
            ]
        };
        let coded = lines(&coded_head(&stored, Coding::Brotli));
        assert_eq!(coded, expected("\"1~petasos-br\"", "br"));
        let streamed = lines(&streamed_head(&stored, Coding::Gzip));
        assert_eq!(streamed, expected("W/\"1~petasos-gzip\"", "gzip"));
        // A tag that names nothing is no tag of the form either.
        let tags = head(&[("ETag", "\"1\""), ("ETag", "\"2\""), ("Vary", "Accept-Encoding, Cookie")]);
        assert_eq!(
            lines(&coded_head(&tags, Coding::Zstd)),
            ["Vary: Accept-Encoding, Cookie", "Content-Encoding: zstd"]
        );
    }

    #[test]
    fn vary_is_added_where_petasos_chooses_the_form() {
        let policy = Policy::default_profile();
        let gzip = head(&[("Content-Encoding", "gzip")]);
        assert_eq!(
            lines(&with_vary(&gzip, &policy, None).unwrap()),
            ["Content-Encoding: gzip", "Vary: Accept-Encoding"]
        );
        assert_eq!(with_vary(&gzip, &Policy::rfc(), None), None);
        let rules = CompressionRules::default();
        let page = head(&[("Content-Type", "text/html")]);
        assert_eq!(
            lines(&with_vary(&page, &policy, Some(&rules)).unwrap()),
            ["Content-Type: text/html", "Vary: Accept-Encoding"]
        );
        let picture = head(&[("Content-Type", "image/png")]);
        assert_eq!(with_vary(&picture, &policy, Some(&rules)), None);
        for lines in [
            &[("Content-Encoding", "gzip"), ("Vary", "x, accept-encoding")][..],
            &[("Content-Encoding", "gzip"), ("Vary", "*")],
            &[("Content-Encoding", "br")],
            &[],
        ] {
            assert_eq!(with_vary(&head(lines), &policy, None), None, "{lines:?}");
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
