//! Builds stored objects from responses: heads without private fields, objects, and objects joined
//! from parts.
//!
//! Invariant: parts are joined only if the same strong validator proves that they belong to one
//! content.

use crate::fetch::coalesced_fetch::SharedResponse;
use crate::request::respond;
use crate::sites::Site;
use bytes::Bytes;
use message::{Field, ResponseHead};
use profiles::Policy;
use semantics::{
    Coding, CompressionRules, ContentRange, Freshness, browser_lifetime, coded_head, combined_head,
    downstream_head, joined_extent, strip_noise_cookies,
};
use std::sync::Arc;
use store::{Body, CodedForm, ContentPart, Object};

/// The object for a tidy head and the content of the page with this target.
pub(crate) fn stored_object(
    head: &ResponseHead,
    target: &[u8],
    body: Body,
    freshness: Freshness,
    site: &Site,
) -> Object {
    let is_here = body.on_disk().is_none();
    let rules = site.compression().filter(|rules| is_here && rules.cover(head, body.len()));
    let prebuilt = prebuilt((head, target), body.len(), site.policy(), rules);
    let object = Object::new(head, &prebuilt, body, freshness);
    let object = if site.plan.esi { object.as_template(site.plan.esi_undeclared) } else { object };
    if rules.is_some() { object.as_encodable() } else { object }
}

/// The copy of a response for the session whose own request it answered. It gets no coded forms,
/// because the request's `Accept-Encoding` selected it.
pub(crate) fn private_object(
    head: &ResponseHead,
    target: &[u8],
    body: Body,
    freshness: Freshness,
    policy: &Policy,
) -> Object {
    let (head, _) = shareable(head.clone(), &[], policy);
    let prebuilt = prebuilt((&head, target), body.len(), policy, None);
    Object::new(&head, &prebuilt, body, freshness)
}

/// The object for the updated head of `base`, whose content is still valid. Its coded forms have
/// the same content and get new heads, unless the head makes it a template or none: the forms of a
/// template have parts.
pub(crate) fn renewed_object(
    head: &ResponseHead,
    target: &[u8],
    base: &Arc<Object>,
    freshness: Freshness,
    site: &Site,
) -> Object {
    let object = stored_object(head, target, base.body(), freshness, site);
    let is_alike = object.template().is_some() == base.template().is_some();
    let Some(rules) = site.compression().filter(|_| object.is_encodable() && is_alike) else { return object };
    let codings = rules.codings_for(&head.fields);
    let kept = base.forms().iter().filter(|form| codings.contains(&form.coding));
    let forms = kept.map(|form| {
        let body = form.object.body();
        coded_form((head, target), form.coding, body, freshness, site.policy())
    });
    object.with_forms(forms.collect())
}

/// The form in `coding` of the response with this head; `body` is its coded content.
pub(crate) fn coded_form(
    (head, target): (&ResponseHead, &[u8]),
    coding: Coding,
    body: Body,
    freshness: Freshness,
    policy: &Policy,
) -> CodedForm {
    let head = coded_head(head, coding);
    let prebuilt = prebuilt((&head, target), body.len(), policy, None);
    CodedForm { coding, object: Arc::new(Object::new(&head, &prebuilt, body, freshness)) }
}

/// The object for a tidy head whose content of `content_bytes` bytes is stored elsewhere.
pub(crate) fn without_content(
    (head, target): (&ResponseHead, &[u8]),
    content_bytes: u64,
    freshness: Freshness,
    policy: &Policy,
) -> Object {
    let prebuilt = prebuilt((head, target), content_bytes, policy, None);
    Object::new(head, &prebuilt, Body::default(), freshness)
}

/// The head as clients receive it. The object also keeps the origin's own head. `rules` are given
/// for a response that may get coded forms.
fn prebuilt(
    (head, target): (&ResponseHead, &[u8]),
    content_bytes: u64,
    policy: &Policy,
    rules: Option<&CompressionRules>,
) -> Bytes {
    let sent = downstream_head(head, browser_lifetime(target, head, policy), policy, rules);
    respond::prebuilt(sent.as_ref().unwrap_or(head), content_bytes)
}

/// Joins the stored part and a newer one, if they fit together.
pub(crate) fn joined_part(
    stored: &Arc<Object>,
    newer: &SharedResponse,
    target: &[u8],
    (body, extent): (&Body, ContentRange),
    site: &Site,
) -> Option<Object> {
    let part = stored.part()?;
    let joined = joined_extent((&stored.head(), part.extent), (&newer.head, extent))?;
    let head = combined_head(&stored.head(), &newer.head, joined);
    let body = joined_body((&stored.body(), part.extent), (body, extent));
    let object = stored_object(&head, target, body, newer.freshness, site);
    // A joined part is not the response to any single `Range`, so it must not be replayed for one.
    let part = ContentPart { extent: joined, asked: Bytes::new() };
    Some(if joined.is_whole() { object } else { object.as_part(part) })
}

/// The bytes of two parts that touch or overlap; the overlap is the same in both.
pub(crate) fn joined_body(one: (&Body, ContentRange), other: (&Body, ContentRange)) -> Body {
    let ((before, first), (after, second)) =
        if one.1.first <= other.1.first { (one, other) } else { (other, one) };
    let overlap = (first.last + 1).saturating_sub(second.first);
    let rest = if overlap < after.len() { after.slice(overlap, after.len() - 1) } else { Vec::new() };
    Body::gathered(before.chunks().iter().chain(&rest))
}

/// Splits a head into the one that may be stored and shared, and, if it has withheld fields, the
/// complete one for the leader. Cookies that the policy lists as noise are removed from both.
pub(crate) fn shareable(
    mut head: ResponseHead,
    withheld: &[Bytes],
    policy: &Policy,
) -> (ResponseHead, Option<ResponseHead>) {
    strip_noise_cookies(&mut head.fields, policy);
    let is_withheld = |field: &Field| withheld.iter().any(|name| field.name.eq_ignore_ascii_case(name));
    if !head.fields.iter().any(is_withheld) {
        return (head, None);
    }
    let mut shared = head.clone();
    shared.fields.retain(|field| !is_withheld(field));
    (shared, Some(head))
}
