//! The common parts of request heads, response heads and trailer sections. This module runs the
//! tokenizer within the limits, names its faults and checks line ends. It turns borrowed field
//! lines into slices of the buffer.
//!
//! Invariant: the result for a head depends on its bytes alone, never on their division into reads.
//! The tokenizer therefore sees at most `head_bytes_max` bytes. A fault that it finds in an
//! incomplete head is named from the bytes up to that fault only.

use crate::error::HeadError;
use crate::limits::{Limits, Strictness};
use crate::octets;
use bytes::{Bytes, BytesMut};
use httparse::Header;
use message::Fields;
use std::mem::MaybeUninit;

/// Rows for the tokenizer's field lines. They are left uninitialised because most heads use ten of
/// them.
pub(crate) type HeaderSlots<'a> = [MaybeUninit<Header<'a>>; Limits::FIELDS_CEILING];

/// An empty table.
pub(crate) const fn table<'a>() -> HeaderSlots<'a> {
    [const { MaybeUninit::uninit() }; Limits::FIELDS_CEILING]
}

/// The rows of `table` that `limits` allow.
pub(crate) fn rows<'t, 'a>(
    table: &'t mut HeaderSlots<'a>,
    limits: &Limits,
) -> &'t mut [MaybeUninit<Header<'a>>] {
    let (rows, _) = table.split_at_mut(limits.fields_max.min(Limits::FIELDS_CEILING));
    rows
}

/// The part of `input` that a head may occupy, and whether it is as long as a head may be.
pub(crate) fn window<'a>(input: &'a [u8], limits: &Limits) -> (&'a [u8], bool) {
    let bytes_max = limits.head_bytes_max.min(Limits::HEAD_BYTES_CEILING);
    input.get(..bytes_max).map_or((input, false), |window| (window, true))
}

/// The number of bytes of `head` before its start line, which are empty lines.
pub(crate) fn empty_lines_bytes(head: &[u8]) -> usize {
    head.iter().position(|octet| !matches!(octet, b'\r' | b'\n')).unwrap_or(head.len())
}

/// Names the tokenizer's fault in the field lines or line ends of `head`. `None` for faults that
/// differ between requests and responses. `tolerant` is whether the tokenizer was configured to
/// accept blanks.
#[cold]
pub(crate) fn name_fault(fault: httparse::Error, head: &[u8], tolerant: bool) -> Option<HeadError> {
    match fault {
        httparse::Error::HeaderName => {
            let start_line_on = head.get(empty_lines_bytes(head)..).unwrap_or_default();
            let field_lines = memchr::memchr(b'\n', start_line_on).and_then(|at| start_line_on.get(at + 1..));
            Some(name_field_name_fault(field_lines.unwrap_or_default(), tolerant))
        }
        httparse::Error::HeaderValue => Some(HeadError::FieldValue),
        httparse::Error::NewLine => Some(HeadError::LineEnd),
        httparse::Error::TooManyHeaders => Some(HeadError::TooManyFields),
        httparse::Error::Version => Some(HeadError::Version),
        httparse::Error::Status | httparse::Error::Token => None,
    }
}

/// Names the fault of the first of `field_lines` whose name is not a token up to a colon. The
/// tokenizer stopped there, at the first byte that it does not accept, so later bytes must not
/// influence the result.
fn name_field_name_fault(field_lines: &[u8], tolerant: bool) -> HeadError {
    for (index, line) in field_lines.split(|&octet| octet == b'\n').enumerate() {
        let name_bytes = line.iter().position(|&octet| !octets::TOKEN.has(octet)).unwrap_or(line.len());
        let blanks_bytes = blanks_bytes(line.get(name_bytes..).unwrap_or_default());
        let next = line.get(name_bytes + blanks_bytes);
        match (name_bytes, blanks_bytes, next) {
            (0, 1.., _) if tolerant && index > 0 => {}
            (0, 1.., _) => return HeadError::Folded,
            (1.., 1.., Some(b':')) if tolerant => {}
            (1.., 1.., _) => return HeadError::BlankBeforeColon,
            (1.., 0, Some(b':')) => {}
            _ => return HeadError::FieldName,
        }
    }
    HeadError::FieldName
}

/// The number of spaces and tabs at the start of `octets`.
fn blanks_bytes(octets: &[u8]) -> usize {
    octets.iter().take_while(|octet| matches!(octet, b' ' | b'\t')).count()
}

/// Checks that all lines of `head` end with CR LF. Lines end before each of `headers` and at the
/// end of the head. There are no other line ends, because the tokenizer accepts no LF in a name or
/// value.
pub(crate) fn check_line_ends(head: &[u8], headers: &[Header<'_>]) -> Result<(), HeadError> {
    // At position 0 no line ends: the first line of a trailer section starts there.
    let good = |end: usize| end == 0 || head.get(..end).is_some_and(|lines| lines.ends_with(b"\r\n"));
    let before_fields = headers.iter().all(|header| good(offset(head, header.name.as_bytes())));
    let before_empty_line = good(head.len().saturating_sub(2));
    if before_fields && before_empty_line && good(head.len()) { Ok(()) } else { Err(HeadError::BareLf) }
}

/// The offset of `part`, which is a slice of `whole`.
pub(crate) fn offset(whole: &[u8], part: &[u8]) -> usize {
    let offset = (part.as_ptr() as usize).wrapping_sub(whole.as_ptr() as usize);
    debug_assert!(offset <= whole.len(), "the part is not inside the whole");
    offset
}

/// The position of a name and its value in a head.
#[derive(Clone, Copy, Default)]
struct Span {
    name_start: u32,
    name_bytes: u32,
    value_start: u32,
    value_bytes: u32,
}

/// The positions of a head's field lines. They outlive the tokenizer's borrow of the buffer, so
/// that the head can then be split off and sliced.
pub(crate) struct Spans {
    near: [Span; Self::NEAR],
    far: Vec<Span>,
    count: usize,
}

impl Spans {
    /// Field lines that need no heap allocation for their positions; browsers send about fifteen.
    const NEAR: usize = 32;

    /// The positions of `headers` in `head`.
    pub(crate) fn new(head: &[u8], headers: &[Header<'_>]) -> Self {
        let mut spans = headers.iter().map(|header| Span {
            name_start: offset(head, header.name.as_bytes()) as u32,
            name_bytes: header.name.len() as u32,
            value_start: offset(head, header.value) as u32,
            value_bytes: header.value.len() as u32,
        });
        let mut near = [Span::default(); Self::NEAR];
        for (place, span) in near.iter_mut().zip(&mut spans) {
            *place = span;
        }
        Self { near, far: spans.collect(), count: headers.len() }
    }

    /// The fields, as slices of `head`.
    pub(crate) fn fields(&self, head: &Bytes) -> Fields {
        let mut fields = Fields::with_capacity(self.count);
        for span in self.near.iter().take(self.count).chain(&self.far) {
            fields.push(
                slice(head, span.name_start, span.name_bytes),
                slice(head, span.value_start, span.value_bytes),
            );
        }
        fields
    }

    /// Replaces the line ends inside folded values with spaces (RFC 9112 section 5.2).
    pub(crate) fn unfold(&self, head: &mut BytesMut) {
        for span in self.near.iter().take(self.count).chain(&self.far) {
            let start = span.value_start as usize;
            for octet in head.get_mut(start..start + span.value_bytes as usize).unwrap_or_default() {
                if matches!(*octet, b'\r' | b'\n') {
                    *octet = b' ';
                }
            }
        }
    }
}

/// The `bytes` bytes of `head` from `start` on.
fn slice(head: &Bytes, start: u32, bytes: u32) -> Bytes {
    let start = start as usize;
    head.slice(start..start + bytes as usize)
}

/// The protocol version of httparse's minor version, which is 0 or 1.
pub(crate) fn version(minor: Option<u8>) -> message::Version {
    if minor == Some(1) { message::Version::Http11 } else { message::Version::Http10 }
}

/// Parses a complete trailer section, including its final empty line (RFC 9112 section 7.1.2).
pub(crate) fn parse_trailer(
    section: BytesMut,
    fields_max: usize,
    strictness: Strictness,
) -> Result<Fields, HeadError> {
    let mut table = [httparse::EMPTY_HEADER; Limits::FIELDS_CEILING];
    let (rows, _) = table.split_at_mut(fields_max.min(Limits::FIELDS_CEILING));
    let headers = match httparse::parse_headers(&section, rows) {
        Ok(httparse::Status::Complete((_, headers))) => headers,
        Ok(httparse::Status::Partial) => return Err(HeadError::LineEnd),
        Err(httparse::Error::HeaderName) => return Err(name_field_name_fault(&section, false)),
        Err(fault) => return Err(name_fault(fault, &section, false).unwrap_or(HeadError::FieldName)),
    };
    if strictness == Strictness::Strict {
        check_line_ends(&section, headers)?;
    }
    let spans = Spans::new(&section, headers);
    Ok(spans.fields(&section.freeze()))
}
