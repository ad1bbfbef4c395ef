//! One stored response.
//!
//! Invariant: an object keeps no other buffer alive. What it is made from are slices of read buffers; it
//! copies them into allocations of its own, so its weight is what it costs.

use crate::Body;
use crate::lingering::Share;
use bytes::{Bytes, BytesMut};
use message::{Field, ResponseHead};
use semantics::{ContentRange, Freshness};
use std::sync::OnceLock;

/// Which part of the content an object holds that does not hold the whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The octets it has.
    pub extent: ContentRange,
    /// The `Range` that the origin answered with them; the same question has the same answer.
    pub asked: Bytes,
}

/// One stored response, immutable.
#[derive(Debug)]
pub struct Object {
    head: ResponseHead,
    prebuilt: Bytes,
    body: Body,
    freshness: Freshness,
    part: Option<Part>,
    groups: Box<[Bytes]>,
    begun: u64,
    /// Set when it leaves the store before its last reader.
    lingering: OnceLock<Share>,
}

impl Object {
    /// An object made of a response's head and body. `prebuilt` is the head's octets as the edge sends them on
    /// a hit, up to the point where it adds the lines that change from hit to hit.
    pub fn new(head: &ResponseHead, prebuilt: &[u8], body: Body, freshness: Freshness) -> Self {
        let (head, prebuilt) = (detached(head), Bytes::copy_from_slice(prebuilt));
        let lingering = OnceLock::new();
        Self { head, prebuilt, body, freshness, part: None, groups: Box::default(), begun: 0, lingering }
    }

    /// The same object, as a part of its content.
    #[must_use]
    pub fn as_part(mut self, part: Part) -> Self {
        self.part = Some(Part { asked: Bytes::copy_from_slice(&part.asked), ..part });
        self
    }

    /// The same object as a member of these groups (RFC 9875), fetched by a request that began at `begun` in the
    /// order of invalidations.
    #[must_use]
    pub fn in_groups(mut self, groups: &[Bytes], begun: u64) -> Self {
        self.groups = groups.iter().map(|group| Bytes::copy_from_slice(group)).collect();
        self.begun = begun;
        self
    }

    /// The head as it was judged and stored.
    pub const fn head(&self) -> &ResponseHead {
        &self.head
    }

    /// The head's octets for a hit.
    pub const fn prebuilt(&self) -> &Bytes {
        &self.prebuilt
    }

    /// The body.
    pub const fn body(&self) -> &Body {
        &self.body
    }

    /// The freshness as it was judged.
    pub const fn freshness(&self) -> &Freshness {
        &self.freshness
    }

    /// What part of the content this is; `None` if it is the whole.
    pub const fn part(&self) -> Option<&Part> {
        self.part.as_ref()
    }

    /// The groups it belongs to.
    pub const fn groups(&self) -> &[Bytes] {
        &self.groups
    }

    /// When its fetch began, in the order of invalidations; only told of members of groups.
    pub const fn begun(&self) -> u64 {
        self.begun
    }

    /// Keeps `share` for as long as the object lives.
    pub(crate) fn linger(&self, share: Share) {
        // An object leaves the store once; a second share would be given back at once.
        let _ = self.lingering.set(share);
    }

    /// The octets of memory this object occupies, its own allocations and their tables included.
    pub(crate) fn bytes(&self) -> usize {
        let fields = self.head.fields.len() * size_of::<Field>();
        let text: usize = self.head.fields.iter().map(|field| field.name.len() + field.value.len()).sum();
        let chunks = size_of_val(self.body.chunks());
        let body = usize::try_from(self.body.len()).unwrap_or(usize::MAX);
        let groups: usize = self.groups.iter().map(|group| size_of::<Bytes>() + group.len()).sum();
        let asked = self.part.as_ref().map_or(0, |part| part.asked.len());
        let head =
            size_of::<Self>() + fields + text + self.head.reason.len() + self.prebuilt.len() + groups + asked;
        head.saturating_add(chunks).saturating_add(body)
    }
}

/// The same head, all its text in one allocation of its own.
fn detached(head: &ResponseHead) -> ResponseHead {
    let text: usize = head.fields.iter().map(|field| field.name.len() + field.value.len()).sum();
    let mut buffer = BytesMut::with_capacity(text + head.reason.len());
    let mut take = |octets: &[u8]| {
        buffer.extend_from_slice(octets);
        buffer.split().freeze()
    };
    ResponseHead {
        version: head.version,
        status: head.status,
        reason: take(&head.reason),
        fields: head
            .fields
            .iter()
            .map(|field| Field { name: take(&field.name), value: take(&field.value) })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::Object;
    use crate::Body;
    use bytes::Bytes;
    use message::{ResponseHead, Status};
    use semantics::{Freshness, Moment};
    use std::time::Duration;

    #[test]
    fn an_object_holds_no_other_buffer_alive_and_weighs_what_it_holds() {
        let buffer = Bytes::from(vec![b'x'; 16_384]);
        let mut head = ResponseHead::new(Status::OK);
        head.reason = buffer.slice(0..2);
        head.fields.push(buffer.slice(2..10), buffer.slice(10..110));
        let freshness = Freshness::lasting(Duration::ZERO, Moment::default());
        let object = Object::new(&head, &buffer[..40], Body::copy_of(&buffer[..1_000]), freshness);
        assert_eq!(object.head(), &head);
        drop(head);
        assert!(buffer.is_unique());
        let counted = 2 + 8 + 100 + 40 + 1_000;
        assert!(object.bytes() >= counted && object.bytes() < counted + 512, "{}", object.bytes());
    }
}
