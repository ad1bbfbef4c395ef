//! Entity tags of the coded forms that Petasos makes of a response.
//!
//! Invariants: the tag of each form differs from that of the response and from those of the other
//! forms (RFC 9110 section 8.8.3.3). The origin never receives a tag that Petasos has made.
//!
//! The tag of a form is that of the response with a mark before the last quote. The mark names
//! Petasos, because some web servers mark the tags of their forms with the coding alone.

use crate::accepted_codings::{AcceptedCodings, Coding};
use bytes::Bytes;
use message::{Fields, ResponseHead, list_members, names};

const MARK: &str = "~petasos-";

/// The tag of a response's form in `coding`. `None` if `tag` is no entity tag.
pub(crate) fn form_tag(tag: &[u8], coding: Coding) -> Option<Bytes> {
    let start = tag.strip_suffix(b"\"").filter(|start| start.contains(&b'"'))?;
    Some(Bytes::from([start, MARK.as_bytes(), coding.name().as_bytes(), b"\""].concat()))
}

/// The tag of the response that the form with this tag was made from, and the coding of the form.
/// `None` if the tag is not one of a form.
fn origin_of(tag: &[u8]) -> Option<(Bytes, Coding)> {
    let inside = tag.strip_suffix(b"\"")?;
    let (unmarked, coding) = Coding::ALL.into_iter().find_map(|coding| {
        let named = inside.strip_suffix(coding.name().as_bytes())?;
        Some((named.strip_suffix(MARK.as_bytes())?, coding))
    })?;
    unmarked.contains(&b'"').then(|| (Bytes::from([unmarked, b"\""].concat()), coding))
}

/// The tag of the response that the form with this tag was made from, or the tag itself if it is
/// not one of a form.
fn tag_of_response(tag: &[u8]) -> Bytes {
    origin_of(tag).map_or_else(|| Bytes::copy_from_slice(tag), |(response, _)| response)
}

/// Whether a client that accepts these codings can use the form with this tag. A cache in front
/// lists the tags of all forms that it has, also those that this client of it refuses, and sends
/// the confirmed one.
fn is_usable(tag: &[u8], accepted: AcceptedCodings) -> bool {
    origin_of(tag).is_none_or(|(_, coding)| accepted.has(coding))
}

/// Whether `tag` is the tag of a form that Petasos has made.
pub(crate) fn is_form_tag(tag: &[u8]) -> bool {
    origin_of(tag).is_some()
}

/// Whether a request has `If-Range` with the tag of a form. Parts of forms are never sent, so the
/// request gets the whole content.
pub fn wants_part_of_form(request: &Fields) -> bool {
    request.all(names::IF_RANGE).any(|validator| is_form_tag(validator))
}

/// The head with the entity tag that the client has for it, if it differs: the request's conditions
/// may name the response itself, or another of its forms. All of them have the same content. A form
/// with a coding that the client does not accept does not count.
///
/// If a condition then holds, the response to it names the client's own tag.
pub fn as_known_to(request: &Fields, head: &ResponseHead) -> Option<ResponseHead> {
    let tag = head.fields.only(names::ETAG)?;
    let response = tag_of_response(tag);
    let is_same = |listed: &&[u8]| weak(&tag_of_response(listed)) == weak(&response);
    let listed = || {
        let conditions = [names::IF_MATCH, names::IF_NONE_MATCH];
        conditions.into_iter().flat_map(|name| request.all(name)).flat_map(|line| list_members(line))
    };
    if listed().any(|listed| weak(listed) == weak(tag)) {
        return None;
    }
    let known = listed().find(|listed| is_same(listed) && is_usable(listed, AcceptedCodings::of(request)))?;
    let mut renamed = head.clone();
    renamed.fields.set(names::ETAG, Bytes::copy_from_slice(known));
    Some(renamed)
}

/// Replaces the tags of forms in a request's conditions by the tags that the origin knows. A part
/// of a form cannot be had from the origin, so `Range` is removed from a request for one. A form
/// that the client could not use must not be confirmed, so its tag is left out of `If-None-Match`.
pub(crate) fn restore_tags(fields: &mut Fields) {
    if wants_part_of_form(fields) {
        fields.remove(names::IF_RANGE);
        fields.remove(names::RANGE);
    }
    for name in [names::IF_MATCH, names::IF_NONE_MATCH] {
        if !fields.all(name).any(|line| list_members(line).any(is_form_tag)) {
            continue;
        }
        let accepted = AcceptedCodings::of(fields);
        let tags = fields.all(name).flat_map(|line| list_members(line));
        let tags = tags.filter(|tag| name == names::IF_MATCH || is_usable(tag, accepted));
        let restored: Vec<_> = tags.map(tag_of_response).collect();
        if restored.is_empty() {
            fields.remove(name);
            // It was without effect beside the tags (RFC 9110 section 13.2.2).
            fields.remove(names::IF_MODIFIED_SINCE);
        } else {
            fields.set(name, restored.join(&b", "[..]));
        }
    }
}

/// A tag without the mark of weakness.
fn weak(tag: &[u8]) -> &[u8] {
    tag.strip_prefix(b"W/").unwrap_or(tag)
}

#[cfg(test)]
mod tests {
    use super::{as_known_to, form_tag, origin_of, restore_tags, wants_part_of_form};
    use crate::accepted_codings::Coding;
    use crate::tests::FieldLines;
    use message::{Fields, ResponseHead, Status};

    fn fields(lines: &FieldLines) -> Fields {
        lines.iter().copied().collect()
    }

    #[test]
    fn tag_of_a_form_leads_back_to_that_of_its_response() {
        for tag in ["\"a\"", "W/\"a\"", "\"\"", "\"a-br\"", "\"a~petasos-gzip\""] {
            let forms = Coding::ALL.map(|coding| form_tag(tag.as_bytes(), coding).unwrap());
            for form in &forms {
                assert_eq!(origin_of(form).unwrap().0, tag);
                assert_eq!(forms.iter().filter(|other| *other == form).count(), 1, "{form:?}");
            }
        }
        assert_eq!(form_tag(b"W/\"a\"", Coding::Brotli).unwrap(), "W/\"a~petasos-br\"");
        for none in [&b""[..], b"a", b"\"", b"a\""] {
            assert_eq!((form_tag(none, Coding::Zstd), origin_of(none)), (None, None), "{none:?}");
        }
        for other in ["\"a-br\"", "\"~petasos-lzma\"", "a~petasos-br\"", "\"a\""] {
            assert_eq!(origin_of(other.as_bytes()), None, "{other}");
        }
    }

    #[test]
    fn client_is_told_the_tag_that_it_knows() {
        let known = |request: &FieldLines, tag: &'static str| {
            let mut head = ResponseHead::new(Status::OK);
            head.fields.push("ETag", tag);
            let mut request = fields(request);
            request.push("Accept-Encoding", "br, zstd");
            as_known_to(&request, &head).map(|head| head.fields.only("ETag").unwrap().clone())
        };
        let (plain, br, zstd) = ("\"a\"", "\"a~petasos-br\"", "\"a~petasos-zstd\"");
        for (listed, tag) in [(plain, br), (br, plain), (br, zstd), ("W/\"a\"", br), (br, "W/\"a\"")] {
            assert_eq!(known(&[("If-None-Match", listed)], tag).unwrap(), listed, "{listed} {tag}");
            assert_eq!(known(&[("If-Match", listed)], tag).unwrap(), listed, "{listed} {tag}");
        }
        assert_eq!(known(&[("If-None-Match", "\"x\", \"a~petasos-br\", \"a\"")], plain), None);
        assert_eq!(known(&[("If-None-Match", "\"x\", \"a~petasos-br\"")], plain).unwrap(), br);
        let gzip = "\"a~petasos-gzip\"";
        let others = [("\"b\"", br), ("\"b~petasos-br\"", plain), ("*", br), (gzip, plain), (gzip, br)];
        for (listed, tag) in [(br, br), (plain, plain), (gzip, gzip)].into_iter().chain(others) {
            assert_eq!(known(&[("If-None-Match", listed)], tag), None, "{listed} {tag}");
        }
        assert_eq!(known(&[("If-Range", br)], plain), None);
        assert_eq!(as_known_to(&fields(&[("If-None-Match", br)]), &ResponseHead::new(Status::OK)), None);
    }

    #[test]
    fn origin_gets_its_own_tags() {
        let mut request = fields(&[
            ("If-None-Match", "\"b\", W/\"a~petasos-br\""),
            ("If-None-Match", "\"c~petasos-gzip\""),
            ("If-Match", "\"d\""),
            ("Range", "bytes=1-"),
            ("If-Range", "\"a\""),
            ("Accept-Encoding", "gzip, br"),
        ]);
        assert!(!wants_part_of_form(&request));
        restore_tags(&mut request);
        assert_eq!(request.all("If-None-Match").collect::<Vec<_>>(), ["\"b\", W/\"a\", \"c\""]);
        assert_eq!(request.only("If-Match").unwrap(), "\"d\"");
        assert!(request.has("Range"));
        request.set("If-Range", "\"a~petasos-zstd\"");
        assert!(wants_part_of_form(&request));
        restore_tags(&mut request);
        assert!(!request.has("Range") && !request.has("If-Range"));
    }

    #[test]
    fn origin_cannot_confirm_a_form_that_the_client_refuses() {
        let restored = |tags: &'static str| {
            let mut request = fields(&[
                ("If-None-Match", tags),
                ("If-Modified-Since", "Sun, 06 Nov 1994 08:49:37 GMT"),
                ("If-Match", "\"a~petasos-br\""),
                ("Accept-Encoding", "gzip, br;q=0"),
            ]);
            restore_tags(&mut request);
            assert_eq!(request.only("If-Match").unwrap(), "\"a\"", "the condition of a write stays");
            let is_dated = request.has("If-Modified-Since");
            (request.only("If-None-Match").map(|tags| String::from_utf8(tags.to_vec()).unwrap()), is_dated)
        };
        let named = |tags: &str| (Some(tags.to_owned()), true);
        assert_eq!(restored("\"b\", \"a~petasos-br\", \"c~petasos-gzip\""), named("\"b\", \"c\""));
        assert_eq!(restored("\"a~petasos-br\""), (None, false));
        assert_eq!(restored("\"a\""), named("\"a\""));
    }
}
