//! One stored response.
//!
//! Invariant: an object keeps no other buffer alive but the chunks of its body. What it is made from are slices of
//! read buffers; it copies them into allocations of its own, so its weight is what it costs. Its head is kept as
//! octets (see `stored_head`) and read when somebody asks for it; a hit does not.

use crate::Body;
use crate::judged::Judged;
use crate::lingering::Lingering;
use crate::stored_head::{self, Layout};
use crate::weight::{SHARED_BYTES, allocated};
use bytes::Bytes;
use message::{ResponseHead, Status};
use semantics::{ContentRange, Freshness};
use std::sync::{Arc, OnceLock};

/// A body up to this size, in octets, stands in one allocation with its head.
pub(crate) const INLINE_BYTES_MAX: u64 = 32 * 1024;

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
    octets: Box<[u8]>,
    layout: Layout,
    status: Status,
    judged: Judged,
    /// What only few objects have.
    rare: Option<Box<Rare>>,
    /// Set when it leaves the store before its last reader.
    lingering: OnceLock<Lingering>,
}

#[derive(Debug, Default)]
struct Rare {
    /// A body that does not stand with the head.
    body: Body,
    part: Option<Part>,
}

impl Object {
    /// An object made of a response's head and body. `prebuilt` is the head's octets as the edge sends them on
    /// a hit, up to the point where it adds the lines that change from hit to hit.
    pub fn new(head: &ResponseHead, prebuilt: &[u8], body: Body, freshness: Freshness) -> Self {
        let mut written = Vec::with_capacity(prebuilt.len() + 64);
        let layout = stored_head::write(head, prebuilt, &mut written);
        let is_inline = body.len() <= INLINE_BYTES_MAX;
        let inline = if is_inline { body.chunks() } else { &[] };
        // Exactly as much as is needed: allocators leave a block that is made smaller as large as it was.
        let inline_bytes: usize = inline.iter().map(Bytes::len).sum();
        let mut octets = Vec::with_capacity(written.len() + inline_bytes);
        octets.extend_from_slice(&written);
        inline.iter().for_each(|chunk| octets.extend_from_slice(chunk));
        Self {
            octets: octets.into_boxed_slice(),
            layout,
            status: head.status,
            judged: freshness.into(),
            rare: (!is_inline).then(|| Box::new(Rare { body, ..Rare::default() })),
            lingering: OnceLock::new(),
        }
    }

    /// The same object, as a part of its content.
    #[must_use]
    pub fn as_part(mut self, part: Part) -> Self {
        let part = Part { asked: Bytes::copy_from_slice(&part.asked), ..part };
        self.rare.get_or_insert_default().part = Some(part);
        self
    }

    /// The status of the response.
    pub const fn status(&self) -> Status {
        self.status
    }

    /// The head as it was judged and stored, read from its octets; of fields of different names those that are sent
    /// on a hit come first.
    pub fn head(&self) -> ResponseHead {
        self.head_of(|_| true)
    }

    /// The head with those of its fields that `keep` wants by their names.
    pub fn head_of(&self, keep: impl Fn(&[u8]) -> bool) -> ResponseHead {
        self.layout.read(&self.octets, self.status, keep)
    }

    /// The fields of the head, name and value, without reading them into a head.
    pub fn fields(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.layout.fields(&self.octets)
    }

    /// The head's octets for a hit.
    pub fn prebuilt(&self) -> &[u8] {
        self.layout.prebuilt(&self.octets)
    }

    /// The head's octets for a hit, to be kept for longer than the object is borrowed.
    pub fn prebuilt_shared(self: &Arc<Self>) -> Bytes {
        Bytes::from_owner(Prebuilt(Arc::clone(self)))
    }

    /// The body's octets, in pieces that are not empty.
    pub fn content(&self) -> impl Iterator<Item = &[u8]> {
        let inline = self.inline();
        let chunks = self.rare.as_ref().map_or(&[][..], |rare| rare.body.chunks());
        (!inline.is_empty()).then_some(inline).into_iter().chain(chunks.iter().map(|chunk| &chunk[..]))
    }

    /// The octets that the body has.
    pub fn content_bytes(&self) -> u64 {
        self.inline().len() as u64 + self.rare.as_ref().map_or(0, |rare| rare.body.len())
    }

    /// The body, to be kept for longer than the object is borrowed.
    pub fn body(self: &Arc<Self>) -> Body {
        match &self.rare {
            Some(rare) if !rare.body.is_empty() => rare.body.clone(),
            _ if self.inline().is_empty() => Body::default(),
            _ => Body::of_chunks(vec![Bytes::from_owner(Inline(Arc::clone(self)))]),
        }
    }

    /// The freshness as it was judged.
    pub fn freshness(&self) -> Freshness {
        self.judged.into()
    }

    /// What part of the content this is; `None` if it is the whole.
    pub fn part(&self) -> Option<&Part> {
        self.rare.as_ref()?.part.as_ref()
    }

    /// Adds its weight to `lingering` for as long as the object lives.
    pub(crate) fn linger(&self, lingering: &Lingering) {
        // An object leaves the store once.
        if self.lingering.set(lingering.clone()).is_ok() {
            lingering.add(self.bytes());
        }
    }

    /// The octets of memory this object occupies, its own allocations and their tables included.
    pub(crate) fn bytes(&self) -> usize {
        let own = allocated(COUNTED_BYTES) + allocated(self.octets.len());
        own + self.rare.as_ref().map_or(0, |rare| allocated(size_of::<Rare>()) + rare.bytes())
    }

    fn inline(&self) -> &[u8] {
        self.layout.behind(&self.octets)
    }
}

/// An object behind its `Arc`, which has two counters.
const COUNTED_BYTES: usize = size_of::<Object>() + 2 * size_of::<usize>();

impl Drop for Object {
    fn drop(&mut self) {
        if let Some(lingering) = self.lingering.take() {
            lingering.subtract(self.bytes());
        }
    }
}

impl Rare {
    fn bytes(&self) -> usize {
        let chunk = |chunk: &Bytes| size_of::<Bytes>() + allocated(chunk.len()) + SHARED_BYTES;
        let chunks: usize = self.body.chunks().iter().map(chunk).sum();
        chunks + self.part.as_ref().map_or(0, |part| allocated(part.asked.len()))
    }
}

struct Prebuilt(Arc<Object>);

impl AsRef<[u8]> for Prebuilt {
    fn as_ref(&self) -> &[u8] {
        self.0.prebuilt()
    }
}

struct Inline(Arc<Object>);

impl AsRef<[u8]> for Inline {
    fn as_ref(&self) -> &[u8] {
        self.0.inline()
    }
}

#[cfg(test)]
mod tests {
    use super::{INLINE_BYTES_MAX, Object, Part};
    use crate::Body;
    use bytes::Bytes;
    use message::{ResponseHead, Status};
    use semantics::{ContentRange, Freshness, Moment};
    use std::sync::Arc;
    use std::time::Duration;

    fn object(head: &ResponseHead, prebuilt: &[u8], body: Body) -> Arc<Object> {
        Arc::new(Object::new(head, prebuilt, body, Freshness::lasting(Duration::ZERO, Moment::default())))
    }

    #[test]
    fn an_object_holds_no_other_buffer_alive_and_weighs_what_it_holds() {
        let buffer = Bytes::from(vec![b'x'; 16_384]);
        let mut head = ResponseHead::new(Status::OK);
        head.reason = buffer.slice(0..2);
        head.fields.push(buffer.slice(2..10), buffer.slice(10..110));
        let object = object(&head, &buffer[..40], Body::gathered([&buffer.slice(..1_000)]));
        assert_eq!(object.head(), head);
        drop(head);
        assert!(buffer.is_unique());
        let counted = 2 + 8 + 100 + 40 + 1_000;
        assert!(object.bytes() >= counted && object.bytes() < counted + 400, "{}", object.bytes());
    }

    #[test]
    fn a_body_is_the_same_with_the_head_and_apart_from_it() {
        let head = ResponseHead::new(Status::OK);
        for len in [0, 1, INLINE_BYTES_MAX, INLINE_BYTES_MAX + 1, 200_000] {
            let octets: Vec<u8> = (0..len).map(|n| (n % 251) as u8).collect();
            let object = object(&head, b"HTTP/1.1 200 OK\r\n", Body::copy_of(&octets));
            assert_eq!(object.content().collect::<Vec<_>>().concat(), octets);
            assert!(object.content().all(|piece| !piece.is_empty()));
            assert_eq!((object.content_bytes(), object.body().len()), (len, len));
            assert_eq!(object.body().chunks().concat(), octets);
            assert_eq!(object.prebuilt(), b"HTTP/1.1 200 OK\r\n");
            assert_eq!(object.prebuilt_shared(), object.prebuilt());
        }
    }

    #[test]
    fn what_is_shared_keeps_the_object() {
        let object = object(&ResponseHead::new(Status::OK), b"", Body::copy_of(b"abc"));
        let body = object.body();
        assert_eq!(Arc::strong_count(&object), 2);
        drop(object);
        assert_eq!(body.chunks(), ["abc"]);
    }

    #[test]
    fn a_part_and_a_large_body_go_together() {
        let extent = ContentRange { first: 5, last: 40_004, complete: None };
        let freshness = Freshness::lasting(Duration::ZERO, Moment::default());
        let head = ResponseHead::new(Status::OK);
        for len in [10, 40_000] {
            let part = Part { extent, asked: "bytes=5-".into() };
            let object =
                Object::new(&head, b"", Body::copy_of(&vec![7; len]), freshness).as_part(part.clone());
            assert_eq!((object.part(), object.content_bytes()), (Some(&part), len as u64));
        }
    }
}
