//! A stored response that may be written as a file, and the page made from it.
//!
//! Invariant: a page is the response that any anonymous visitor receives for its target without a
//! query. A web server that knows only the page's type and coding can send it.

use crate::coding::Coding;
use crate::layout::FilePath;
use crate::{Layout, TreeRefusal};
use bytes::Bytes;
use clock::{Monotonic, Timestamp};
use message::{Fields, ResponseHead, Status, names};
use semantics::{FreshnessState, Moment, VaryRule};
use std::sync::Arc;
use std::time::Duration;
use store::{Body, Key, Object};

/// Largest page, in bytes, without coding.
pub(crate) const PAGE_BYTES_MAX: u64 = 4 << 20;

/// Shortest remaining freshness lifetime (exclusive) for which a file is worth writing.
const FRESH_MIN: Duration = Duration::from_secs(5);

/// A stored response.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    /// The cache key.
    pub key: &'a Key,
    /// The request fields that the response varies on.
    pub rule: &'a VaryRule,
    /// The response.
    pub object: &'a Arc<Object>,
    /// The surrogate keys of the response.
    pub tags: &'a [Bytes],
    /// The store's sequence number before the request to the origin was sent.
    pub begun: u64,
}

/// A page in the write queue.
#[derive(Debug)]
pub(crate) struct QueuedPage {
    pub(crate) key: Key,
    pub(crate) layout: Layout,
    pub(crate) place: FilePath,
    pub(crate) head: ResponseHead,
    pub(crate) body: Body,
    pub(crate) coding: Coding,
    /// Whether the head declares UTF-8 (or US-ASCII). If not, the content itself is checked.
    pub(crate) is_declared: bool,
    pub(crate) tags: Vec<Bytes>,
    pub(crate) begun: u64,
    pub(crate) received: Timestamp,
    pub(crate) expires: Monotonic,
}

impl Candidate<'_> {
    /// Makes the page for this place, or returns why the response is not a page.
    pub(crate) fn page(
        &self,
        layout: Layout,
        place: FilePath,
        now: Moment,
    ) -> Result<QueuedPage, TreeRefusal> {
        let Self { key, rule, object, tags, begun } = *self;
        let is_whole = object.part().is_none() && object.on_disk().is_none();
        // A web server would send the markup of a template.
        let is_page = is_whole && object.template().is_none();
        if object.status() != Status::OK || !is_page || object.content_bytes() > PAGE_BYTES_MAX {
            return Err(TreeRefusal::NoPage);
        }
        let head = detached(&object.head());
        // A web server would send the file without this field, and a browser would show a download
        // as a page.
        if head.fields.has("Content-Disposition") {
            return Err(TreeRefusal::NoPage);
        }
        let is_declared = is_html(&head.fields).ok_or(TreeRefusal::NoPage)?;
        let coding = Coding::of(&head.fields).ok_or(TreeRefusal::NoPage)?;
        let varies = rule.names().iter().any(|name| !name.eq_ignore_ascii_case(b"accept-encoding"));
        if varies || head.fields.has(names::SET_COOKIE) {
            return Err(TreeRefusal::NotForAll);
        }
        let freshness = object.freshness();
        let left = match freshness.state(now) {
            FreshnessState::Fresh(left) if left > FRESH_MIN && !freshness.validate_always => left,
            _ => return Err(TreeRefusal::ShortLived),
        };
        Ok(QueuedPage {
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

/// Copies a head into one allocation, because the page outlives the object. A slice would keep the
/// object's whole buffer alive.
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

/// Whether the type is HTML in UTF-8. `Some(true)`: it declares UTF-8 or US-ASCII. `Some(false)`:
/// it declares no charset. `None`: another type or charset.
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
    fn detached_head_equals_the_original() {
        let mut head = ResponseHead::new(Status::OK);
        head.fields.push("A", "1");
        head.fields.push("Bcd", "");
        head.fields.push("A", "two");
        assert_eq!(detached(&head).fields, head.fields);
    }
}
