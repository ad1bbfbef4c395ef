//! What was stored and may become a file; and the page it becomes if it is one.
//!
//! Invariant: a page is what any anonymous visitor gets who asks for its target without a query, as a server sends it
//! that knows nothing but type and coding.

use crate::coding::Coding;
use crate::layout::Place;
use crate::{Layout, Refusal};
use bytes::Bytes;
use message::{Fields, ResponseHead, Status, names};
use platform::{Monotonic, Timestamp};
use semantics::{FreshnessState, Moment, VaryRule};
use std::sync::Arc;
use std::time::Duration;
use store::{Body, Key, Object};

/// The largest page, in octets, without coding.
pub(crate) const PAGE_BYTES_MAX: u64 = 4 << 20;

/// What is fresh for no longer than this is not worth a file.
const FRESH_MIN: Duration = Duration::from_secs(5);

/// A response that was stored.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    /// The key of the page.
    pub key: &'a Key,
    /// What the response varies on.
    pub rule: &'a VaryRule,
    /// The response.
    pub object: &'a Arc<Object>,
    /// Its tags.
    pub tags: &'a [Bytes],
    /// What the store's sequence was before the request that got it was sent.
    pub begun: u64,
}

/// A page to be written.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) key: Key,
    pub(crate) layout: Layout,
    pub(crate) place: Place,
    pub(crate) head: ResponseHead,
    pub(crate) body: Body,
    pub(crate) coding: Coding,
    /// Whether the head says that it is UTF-8; if not, the content has to show it.
    pub(crate) is_declared: bool,
    pub(crate) tags: Vec<Bytes>,
    pub(crate) begun: u64,
    pub(crate) received: Timestamp,
    pub(crate) expires: Monotonic,
}

impl Candidate<'_> {
    /// The page at this place.
    pub(crate) fn page(&self, layout: Layout, place: Place, now: Moment) -> Result<Page, Refusal> {
        let Self { key, rule, object, tags, begun } = *self;
        let is_whole = object.part().is_none() && object.on_disk().is_none();
        if object.status() != Status::OK || !is_whole || object.content_bytes() > PAGE_BYTES_MAX {
            return Err(Refusal::NoPage);
        }
        let head = detached(&object.head());
        // What is to be saved, not shown, must not be shown because the field that says so is not in the tree.
        if head.fields.has("Content-Disposition") {
            return Err(Refusal::NoPage);
        }
        let is_declared = is_html(&head.fields).ok_or(Refusal::NoPage)?;
        let coding = Coding::of(&head.fields).ok_or(Refusal::NoPage)?;
        let varies = rule.names().iter().any(|name| !name.eq_ignore_ascii_case(b"accept-encoding"));
        if varies || head.fields.has(names::SET_COOKIE) {
            return Err(Refusal::NotForAll);
        }
        let freshness = object.freshness();
        let left = match freshness.state(now) {
            FreshnessState::Fresh(left) if left > FRESH_MIN && !freshness.validate_always => left,
            _ => return Err(Refusal::ShortLived),
        };
        Ok(Page {
            key: key.detached(),
            layout,
            place,
            head,
            body: object.body(),
            coding,
            is_declared,
            tags: tags.to_vec(),
            begun,
            received: freshness.received.wall,
            expires: now.monotonic.plus(left),
        })
    }
}

/// The head in one allocation of its own, for it outlives the object.
fn detached(head: &ResponseHead) -> ResponseHead {
    let fields = head.fields.iter();
    let octets: Vec<u8> =
        fields.clone().flat_map(|field| [&field.name[..], &field.value]).flatten().copied().collect();
    let mut rest = Bytes::from(octets);
    let mut own = ResponseHead::new(head.status);
    for field in fields {
        let name = rest.split_to(field.name.len());
        own.fields.push(name, rest.split_to(field.value.len()));
    }
    own
}

/// Whether a type is HTML in UTF-8: `Some(true)` if it says so, `Some(false)` if it names no charset.
fn is_html(fields: &Fields) -> Option<bool> {
    let value = std::str::from_utf8(fields.only(names::CONTENT_TYPE)?).ok()?.to_ascii_lowercase();
    let mut parts = value.split(';').map(str::trim);
    if parts.next() != Some("text/html") {
        return None;
    }
    let charset = parts.find_map(|parameter| parameter.strip_prefix("charset="));
    match charset.map(|charset| charset.trim_matches('"')) {
        None => Some(false),
        Some("utf-8" | "utf8" | "us-ascii") => Some(true),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{detached, is_html};
    use message::{Fields, ResponseHead, Status};

    fn with(name: &'static str, value: &'static str) -> Fields {
        let mut fields = Fields::new();
        fields.push(name, value);
        fields
    }

    #[test]
    fn only_html_in_utf8_is_a_page() {
        let is = |value| is_html(&with("Content-Type", value));
        for declared in ["text/html; charset=utf-8", "Text/HTML;Charset=\"UTF-8\""] {
            assert_eq!(is(declared), Some(true), "{declared}");
        }
        assert_eq!(is("text/html"), Some(false));
        for other in ["text/html; charset=iso-8859-1", "application/xhtml+xml", "text/htmlx", ""] {
            assert_eq!(is(other), None, "{other}");
        }
        assert_eq!(is_html(&Fields::new()), None);
    }

    #[test]
    fn a_detached_head_is_the_same() {
        let mut head = ResponseHead::new(Status::OK);
        head.fields.push("A", "1");
        head.fields.push("Bcd", "");
        head.fields.push("A", "two");
        assert_eq!(detached(&head).fields, head.fields);
    }
}
