//! One stored response.
//!
//! Invariant: an object keeps no other buffer alive except the chunks of its body. Its sources are
//! slices of read buffers. It copies them into its own allocations, so its weight is its real cost
//! in memory. The head is stored as bytes (see `stored_head`) and parsed on demand; a hit does not
//! parse it.

use crate::body::{Body, OnDisk};
use crate::coded_forms::{CodedForm, CodedForms};
use crate::compact_freshness::CompactFreshness;
use crate::pieces::Pieces;
use crate::record::{HeadRecord, stale};
use crate::stored_head::{self, HeadLayout};
use crate::weight::{SHARED_BYTES, allocated};
use bytes::Bytes;
use esi::{Limits, Program, TemplateError};
use message::{ResponseHead, Status, names};
use semantics::{Coding, ContentRange, Freshness, declares_esi, is_html_type};
use std::hint::black_box;
use std::sync::Arc;

/// A body up to this size, in bytes, is stored in one allocation with its head.
pub(crate) const INLINE_BYTES_MAX: u64 = 32 * 1024;

/// The part of the content that an object holds if it does not hold the whole (206).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContentPart {
    /// The byte range that it holds.
    pub extent: ContentRange,
    /// The `Range` value that the origin answered with this part. The same `Range` gets the same
    /// answer.
    pub asked: Bytes,
}

/// The program of an ESI template, or the limit that the template exceeds.
pub type Template = Result<Program, TemplateError>;

/// What is known of a stored response that declares itself an ESI template.
#[derive(Clone, Debug)]
pub enum StoredTemplate {
    /// It was parsed when it was stored or read.
    Parsed(Arc<Template>),
    /// Its content is on the disk, so that it is parsed when it is delivered.
    OnDisk,
}

/// One stored response, immutable except for its coded forms.
#[derive(Debug)]
pub struct Object {
    /// The head, all of it in the first piece, followed by a small body.
    octets: Pieces,
    layout: HeadLayout,
    status: Status,
    /// Whether the head has `Content-Encoding`. It is kept here because each hit of a client
    /// without gzip needs it.
    is_coded: bool,
    judged: CompactFreshness,
    /// Data that few objects have.
    rare: Option<Box<RareParts>>,
}

#[derive(Debug, Default)]
struct RareParts {
    /// A body stored apart from the head.
    body: Body,
    part: Option<Box<ContentPart>>,
    /// Present if the object may have coded forms.
    coded: Option<CodedForms>,
    /// Present if the object was marked as an ESI template.
    template: Option<StoredTemplate>,
}

impl Object {
    /// An object from a response's head and body. `prebuilt` is the head as the edge sends it on a
    /// hit, up to the lines that differ from hit to hit.
    pub fn new(head: &ResponseHead, prebuilt: &[u8], body: Body, freshness: Freshness) -> Self {
        let mut written = Vec::with_capacity(prebuilt.len() + 64);
        let layout = stored_head::write(head, prebuilt, &mut written);
        let is_inline = body.len() <= INLINE_BYTES_MAX && body.on_disk().is_none();
        let inline = if is_inline { body.chunks() } else { &[] };
        Self {
            octets: with_head(&written, inline),
            layout,
            status: head.status,
            is_coded: head.fields.has(names::CONTENT_ENCODING),
            judged: freshness.into(),
            rare: (!is_inline).then(|| Box::new(RareParts { body, ..RareParts::default() })),
        }
    }

    /// Marks the object as an ESI template if its response declares that it is one, and parses its
    /// content if that is in memory. For objects of sites that assemble pages. `undeclared`: HTML
    /// is a template even if it does not declare it, unless its content is known to have no markup.
    #[must_use]
    pub fn as_template(mut self, undeclared: bool) -> Self {
        let values = |name: &'static str| {
            let is_meant = move |field: &[u8]| field.eq_ignore_ascii_case(name.as_bytes());
            self.fields().filter(move |(field, _)| is_meant(field)).map(|(_, value)| value)
        };
        let is_declared = declares_esi(values(names::SURROGATE_CONTROL));
        let is_html = || values(names::CONTENT_TYPE).next().is_some_and(is_html_type);
        let is_template = is_declared || undeclared && is_html();
        if !is_template {
            return self;
        }
        let limits = Limits::default();
        let parsed = |template| StoredTemplate::Parsed(Arc::new(template));
        // The content is not joined before its length is known, because it may be very long.
        let template = if self.content_bytes() > u64::from(limits.template_bytes_max) {
            parsed(Err(TemplateError::TooLong))
        } else if self.on_disk().is_some() {
            StoredTemplate::OnDisk
        } else {
            let program = Program::parse(&self.content().collect::<Vec<_>>().concat(), &limits);
            if !is_declared && program.as_ref().is_ok_and(Program::has_no_markup) {
                return self;
            }
            parsed(program)
        };
        self.rare.get_or_insert_default().template = Some(template);
        self
    }

    /// Marks the object as a part of its content.
    #[must_use]
    pub fn as_part(mut self, part: ContentPart) -> Self {
        let part = ContentPart { asked: Bytes::copy_from_slice(&part.asked), ..part };
        self.rare.get_or_insert_default().part = Some(Box::new(part));
        self
    }

    /// Marks the object as one that may have coded forms.
    #[must_use]
    pub fn as_encodable(self) -> Self {
        self.with_forms(Box::default())
    }

    /// Marks the object as one that may have coded forms, and gives it these. If there are any, no
    /// others are added.
    #[must_use]
    pub fn with_forms(mut self, forms: Box<[CodedForm]>) -> Self {
        self.rare.get_or_insert_default().coded = Some(CodedForms::of(forms));
        self
    }

    /// Restores an object from its stored form and its body.
    pub(crate) fn of_kept(kept: HeadRecord<'_>, body: &Body) -> Self {
        let HeadRecord { status, judged, part, layout, head } = kept;
        let is_inline = body.len() <= INLINE_BYTES_MAX && body.on_disk().is_none();
        let inline = if is_inline { body.chunks() } else { &[] };
        let rare = (!is_inline || part.is_some()).then(|| {
            let body = if is_inline { Body::default() } else { body.clone() };
            Box::new(RareParts { body, part: part.map(Box::new), ..RareParts::default() })
        });
        let coding = names::CONTENT_ENCODING.as_bytes();
        let is_coded = layout.fields(head).any(|(name, _)| name.eq_ignore_ascii_case(coding));
        Self { octets: with_head(head, inline), layout, status, is_coded, judged, rare }
    }

    /// The stored form of the object, without the body.
    pub(crate) fn kept(&self) -> HeadRecord<'_> {
        HeadRecord {
            status: self.status,
            judged: self.judged,
            part: self.part().cloned(),
            layout: self.layout,
            head: self.layout.head(self.octets.first()),
        }
    }

    /// The same response, but stale: it must be validated before each use. It has no coded forms
    /// yet.
    pub(crate) fn to_be_validated(&self) -> Self {
        let rare = self.rare.as_ref().map(|rare| {
            let RareParts { body, part, coded, template } = &**rare;
            let coded = coded.as_ref().map(|_| CodedForms::default());
            Box::new(RareParts { body: body.clone(), part: part.clone(), coded, template: template.clone() })
        });
        Self {
            octets: self.octets.clone(),
            layout: self.layout,
            status: self.status,
            is_coded: self.is_coded,
            judged: stale(self.freshness()).into(),
            rare,
        }
    }

    /// Starts loading the object into the processor's cache while keys are still being compared. A
    /// hit reads it next, and it lies on another memory page than its slot. Nothing waits for the
    /// value read here.
    pub(crate) fn approach(&self) {
        black_box(self.status);
    }

    /// Starts loading the beginning of each piece into the processor's cache, all at once, before
    /// they are copied one after the other.
    pub(crate) fn read_ahead(&self) {
        for piece in [self.octets.first(), self.octets.rest()] {
            black_box(piece.first().copied());
        }
    }

    /// The status of the response.
    pub const fn status(&self) -> Status {
        self.status
    }

    /// Whether the content has a content coding.
    pub const fn is_coded(&self) -> bool {
        self.is_coded
    }

    /// The head that was stored, parsed from its bytes. Fields that are sent on a hit come before
    /// the others; lines with the same name keep their order.
    pub fn head(&self) -> ResponseHead {
        self.head_of(|_| true)
    }

    /// The head with only those fields whose name `keep` accepts.
    pub fn head_of(&self, keep: impl Fn(&[u8]) -> bool) -> ResponseHead {
        self.layout.read(self.octets.first(), self.status, keep)
    }

    /// The fields of the head, name and value, without building a head.
    pub(crate) fn fields(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.layout.fields(self.octets.first())
    }

    /// Whether the response has `No-Vary-Search`, which names other targets with the same content.
    pub(crate) fn has_equivalents(&self) -> bool {
        self.no_vary_search_lines().next().is_some()
    }

    /// The value of `No-Vary-Search`, with several lines joined into one. `None` without the field.
    pub(crate) fn no_vary_search(&self) -> Option<Bytes> {
        let lines: Vec<&[u8]> = self.no_vary_search_lines().collect();
        (!lines.is_empty()).then(|| lines.join(&b", "[..]).into())
    }

    fn no_vary_search_lines(&self) -> impl Iterator<Item = &[u8]> {
        let is_meant = |name: &[u8]| name.eq_ignore_ascii_case(names::NO_VARY_SEARCH.as_bytes());
        self.fields().filter(move |(name, _)| is_meant(name)).map(|(_, value)| value)
    }

    /// The head in the form sent on a hit.
    pub fn prebuilt(&self) -> &[u8] {
        self.layout.prebuilt(self.octets.first())
    }

    /// The head in the form sent on a hit, as a handle that may outlive the borrow of the object.
    pub fn prebuilt_shared(self: &Arc<Self>) -> Bytes {
        Bytes::from_owner(Prebuilt(Arc::clone(self)))
    }

    /// The body, if it is on the disk and not in memory.
    pub fn on_disk(&self) -> Option<&Arc<OnDisk>> {
        self.rare.as_ref()?.body.on_disk()
    }

    /// The bytes of the body, in non-empty pieces. There are none if the body is on the disk.
    pub fn content(&self) -> impl Iterator<Item = &[u8]> {
        let chunks = self.rare.as_ref().map_or(&[][..], |rare| rare.body.chunks());
        self.inline().chain(chunks.iter().map(|chunk| &chunk[..]))
    }

    /// The length of the body in bytes.
    pub fn content_bytes(&self) -> u64 {
        let inline: usize = self.inline().map(<[u8]>::len).sum();
        inline as u64 + self.rare.as_ref().map_or(0, |rare| rare.body.len())
    }

    /// The body, as a handle that may outlive the borrow of the object.
    pub fn body(self: &Arc<Self>) -> Body {
        match &self.rare {
            Some(rare) if !rare.body.is_empty() => rare.body.clone(),
            _ => Body::of_chunks(PIECES.into_iter().filter_map(|piece| self.inline_shared(piece)).collect()),
        }
    }

    /// The freshness that was computed when the response was stored.
    pub fn freshness(&self) -> Freshness {
        self.judged.into()
    }

    /// The part of the content that the object holds, or `None` if it holds the whole.
    pub fn part(&self) -> Option<&ContentPart> {
        self.rare.as_ref()?.part.as_deref()
    }

    /// What is known of the template, if the object was marked as one.
    pub fn template(&self) -> Option<&StoredTemplate> {
        self.rare.as_ref()?.template.as_ref()
    }

    /// Whether the object may have coded forms.
    pub fn is_encodable(&self) -> bool {
        self.coded().is_some()
    }

    /// Counts a use for which a coded form would have been sent. Returns true for the second one:
    /// its caller orders the forms. Later ones return false, until [`Object::order_failed`].
    pub fn counts_for_forms(&self) -> bool {
        self.coded().is_some_and(CodedForms::count)
    }

    /// Lets the next use order the forms again.
    pub fn order_failed(&self) {
        self.coded().into_iter().for_each(CodedForms::reopen);
    }

    /// The form in a coding.
    #[inline]
    pub fn form(&self, coding: Coding) -> Option<&CodedForm> {
        self.forms().iter().find(|form| form.coding == coding)
    }

    /// The coded forms.
    pub fn forms(&self) -> &[CodedForm] {
        self.coded().map_or(&[], CodedForms::made)
    }

    /// Adds the coded forms. Returns false if the object has forms already or may not have any.
    /// Call it while the shard is locked, because it changes the weight of the object.
    pub(crate) fn add_forms(&self, forms: Box<[CodedForm]>) -> bool {
        self.coded().is_some_and(|coded| coded.add(forms))
    }

    fn coded(&self) -> Option<&CodedForms> {
        self.rare.as_ref()?.coded.as_ref()
    }

    /// The bytes of memory that the object occupies, including all its allocations.
    pub(crate) fn bytes(&self) -> usize {
        self.own_bytes() + self.form_bytes()
    }

    /// The bytes of memory that the object occupies, without its coded forms.
    pub(crate) fn own_bytes(&self) -> usize {
        let own = allocated(COUNTED_BYTES) + self.octets.bytes();
        own + self.rare.as_ref().map_or(0, |rare| allocated(size_of::<RareParts>()) + rare.bytes())
    }

    /// The bytes of memory that its coded forms occupy.
    pub(crate) fn form_bytes(&self) -> usize {
        self.coded().map_or(0, CodedForms::bytes)
    }

    /// The non-empty pieces of a body stored with the head.
    fn inline(&self) -> impl Iterator<Item = &[u8]> {
        PIECES.into_iter().map(|piece| self.inline_piece(piece)).filter(|octets| !octets.is_empty())
    }

    fn inline_piece(&self, piece: BodyPiece) -> &[u8] {
        match piece {
            BodyPiece::First => self.layout.behind(self.octets.first()),
            BodyPiece::Rest => self.octets.rest(),
        }
    }

    fn inline_shared(self: &Arc<Self>, piece: BodyPiece) -> Option<Bytes> {
        let is_there = !self.inline_piece(piece).is_empty();
        is_there.then(|| Bytes::from_owner(Inline(Arc::clone(self), piece)))
    }
}

/// One of the two pieces of a body stored with the head.
#[derive(Clone, Copy)]
enum BodyPiece {
    First,
    Rest,
}

const PIECES: [BodyPiece; 2] = [BodyPiece::First, BodyPiece::Rest];

fn with_head(head: &[u8], body: &[Bytes]) -> Pieces {
    let parts = std::iter::once(head).chain(body.iter().map(|chunk| &chunk[..]));
    Pieces::gathered(parts, head.len())
}

/// The bytes of an object behind its `Arc`, which has two counters.
const COUNTED_BYTES: usize = size_of::<Object>() + 2 * size_of::<usize>();

// This fills a size class exactly: one more byte would cost sixteen.
const _: () = assert!(COUNTED_BYTES == 112);

impl RareParts {
    fn bytes(&self) -> usize {
        let chunk = |chunk: &Bytes| size_of::<Bytes>() + allocated(chunk.len()) + SHARED_BYTES;
        let chunks: usize = self.body.chunks().iter().map(chunk).sum();
        let of_disk = |body: &Arc<OnDisk>| allocated(ON_DISK_BYTES) + allocated(body.sums_bytes());
        let on_disk = self.body.on_disk().map_or(0, of_disk);
        let of_part = |part: &ContentPart| allocated(size_of::<ContentPart>()) + allocated(part.asked.len());
        let of_template = |template: &StoredTemplate| match template {
            StoredTemplate::Parsed(template) => {
                let program = template.as_ref().as_ref().map_or(0, Program::bytes);
                allocated(size_of::<Template>() + SHARED_BYTES) + program
            }
            StoredTemplate::OnDisk => 0,
        };
        let template = self.template.as_ref().map_or(0, of_template);
        chunks + on_disk + self.part.as_deref().map_or(0, of_part) + template
    }
}

/// The bytes of an on-disk body behind its `Arc`, including its file's.
const ON_DISK_BYTES: usize = size_of::<OnDisk>() + 256;

struct Prebuilt(Arc<Object>);

impl AsRef<[u8]> for Prebuilt {
    fn as_ref(&self) -> &[u8] {
        self.0.prebuilt()
    }
}

struct Inline(Arc<Object>, BodyPiece);

impl AsRef<[u8]> for Inline {
    fn as_ref(&self) -> &[u8] {
        self.0.inline_piece(self.1)
    }
}

#[cfg(test)]
mod tests {
    use super::{ContentPart, INLINE_BYTES_MAX, Object, StoredTemplate};
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
    fn object_copies_its_buffers_and_weighs_its_memory() {
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
    fn declared_template_has_its_program_and_weighs_more() {
        let markup = b"<esi:include src='/a'/>";
        let mut head = ResponseHead::new(Status::OK);
        let freshness = Freshness::lasting(Duration::ZERO, Moment::default());
        let stored = |head: &ResponseHead, body| Object::new(head, b"", body, freshness);
        let page = stored(&head, Body::copy_of(markup)).as_template(false);
        assert!(page.template().is_none());
        head.fields.push("surrogate-control", "content=\"ESI/1.0\"");
        assert!(stored(&head, Body::copy_of(markup)).template().is_none(), "its site has no ESI");
        let template = stored(&head, Body::copy_of(markup)).as_template(false);
        let Some(StoredTemplate::Parsed(parsed)) = template.template() else { panic!("not parsed") };
        let program = parsed.as_ref().as_ref().unwrap();
        assert_eq!(program.include_count(), 1);
        assert!(template.own_bytes() >= page.own_bytes() + program.bytes());
        assert_eq!(template.content().collect::<Vec<_>>().concat(), markup);
        assert!(template.to_be_validated().template().is_some());
        let html = |text: &[u8]| {
            let mut head = ResponseHead::new(Status::OK);
            head.fields.push("Content-Type", "text/HTML; charset=utf-8");
            stored(&head, Body::copy_of(text)).as_template(true).template().is_some()
        };
        assert!(html(markup) && !html(b"<p>no markup"), "HTML that declares nothing");
        let long = stored(&head, Body::copy_of(&vec![b' '; (1 << 20) + 1])).as_template(false);
        let Some(StoredTemplate::Parsed(refused)) = long.template() else { panic!("not refused") };
        assert!(refused.is_err());
    }

    #[test]
    fn inline_and_separate_bodies_read_the_same() {
        let head = ResponseHead::new(Status::OK);
        for len in [0, 1, 1_270, 1_400, INLINE_BYTES_MAX, INLINE_BYTES_MAX + 1, 200_000] {
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
    fn shared_body_keeps_the_object_alive() {
        let object = object(&ResponseHead::new(Status::OK), b"", Body::copy_of(b"abc"));
        let body = object.body();
        assert_eq!(Arc::strong_count(&object), 2);
        drop(object);
        assert_eq!(body.chunks(), ["abc"]);
    }

    #[test]
    fn part_may_have_a_small_or_large_body() {
        let extent = ContentRange { first: 5, last: 40_004, complete: None };
        let freshness = Freshness::lasting(Duration::ZERO, Moment::default());
        let head = ResponseHead::new(Status::OK);
        for len in [10, 40_000] {
            let part = ContentPart { extent, asked: "bytes=5-".into() };
            let object =
                Object::new(&head, b"", Body::copy_of(&vec![7; len]), freshness).as_part(part.clone());
            assert_eq!((object.part(), object.content_bytes()), (Some(&part), len as u64));
        }
    }
}
