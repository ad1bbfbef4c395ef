//! The head of a stored response as bytes: first the lines that are sent on a hit, then the fields
//! that are stored but not sent.
//!
//! ```text
//!   | status line, field lines | edge's lines | fields that are not sent | body, if it is small |
//!   '--------- own -----------'               |                          |
//!   '--------------- prebuilt ----------------'                          |
//!   '------------------------------- head -------------------------------'
//! ```
//!
//! Invariant: reading returns every field that was written, with its name and value unchanged. The
//! order is kept among the fields that are sent and among those that are not. The caller decides
//! which fields are sent: those whose lines are in the prebuilt bytes.

use crate::octets::{length, put_counted, put_u32, take_counted, take_u32};
use bytes::{Bytes, BytesMut};
use memchr::memchr;
use message::{Field, Fields, ResponseHead, Status, Version};
use std::ops::Range;

/// The ends of the parts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeadLayout {
    /// Zero if the prebuilt bytes were not built from the head.
    own: u32,
    prebuilt: u32,
    head: u32,
}

/// Writes `head` to `octets`, which must be empty. `prebuilt` is the form sent on a hit.
pub(crate) fn write(head: &ResponseHead, prebuilt: &[u8], octets: &mut Vec<u8>) -> HeadLayout {
    octets.extend_from_slice(prebuilt);
    let start = start_line(head);
    let is_own = memchr(b'\r', &head.reason).is_none() && prebuilt.starts_with(&start);
    let mut own = if is_own { start.len() } else { 0 };
    if own == 0 {
        put_counted(octets, &start);
    }
    for Field { name, value } in &head.fields {
        let rest = part(prebuilt, own..prebuilt.len());
        match line_len(name, value) {
            Some(len) if own > 0 && is_line(rest, name, value) => own += len,
            _ => {
                put_counted(octets, name);
                put_counted(octets, value);
            }
        }
    }
    HeadLayout { own: length(own), prebuilt: length(prebuilt.len()), head: length(octets.len()) }
}

impl HeadLayout {
    /// The number of bytes that [`HeadLayout::put`] adds.
    pub(crate) const WRITTEN_BYTES: usize = 3 * size_of::<u32>();

    /// Encodes the layout at the end of `octets`, for [`HeadLayout::take`].
    pub(crate) fn put(self, octets: &mut Vec<u8>) {
        [self.own, self.prebuilt, self.head].into_iter().for_each(|end| put_u32(octets, end));
    }

    /// Decodes a layout that [`HeadLayout::put`] wrote for a head of `head_bytes` bytes. `None` if
    /// it is inconsistent.
    pub(crate) fn take(octets: &mut &[u8], head_bytes: usize) -> Option<Self> {
        let own = take_u32(octets)?;
        let prebuilt = take_u32(octets)?;
        let head = take_u32(octets)?;
        (own <= prebuilt && prebuilt <= head && head as usize == head_bytes).then_some(Self {
            own,
            prebuilt,
            head,
        })
    }

    /// The bytes of the whole head: the sent lines and the fields that are not sent.
    pub(crate) fn head(self, octets: &[u8]) -> &[u8] {
        part(octets, 0..self.head as usize)
    }

    /// The bytes that are sent on a hit.
    pub(crate) fn prebuilt(self, octets: &[u8]) -> &[u8] {
        part(octets, 0..self.prebuilt as usize)
    }

    /// The bytes that follow the head.
    pub(crate) fn behind(self, octets: &[u8]) -> &[u8] {
        part(octets, self.head as usize..octets.len())
    }

    /// The fields, name and value: first those that are sent, then the others.
    pub(crate) fn fields(self, octets: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
        let (start, mut lines) = self.split_start(octets);
        let mut kept = part(octets, self.prebuilt as usize..self.head as usize);
        if start.is_none() {
            take_counted(&mut kept);
        }
        std::iter::from_fn(move || {
            if let Some(line) = take_line(&mut lines) {
                let colon = memchr(b':', line)?;
                return Some((line.get(..colon)?, line.get(colon + 2..)?));
            }
            Some((take_counted(&mut kept)?, take_counted(&mut kept)?))
        })
    }

    /// The head with only those fields whose name `keep` accepts.
    pub(crate) fn read(self, octets: &[u8], status: Status, keep: impl Fn(&[u8]) -> bool) -> ResponseHead {
        let start = self.split_start(octets).0.or_else(|| {
            let mut kept = part(octets, self.prebuilt as usize..octets.len());
            take_counted(&mut kept)?.strip_suffix(b"\r\n")
        });
        let start = start.unwrap_or_default();
        let version = if start.starts_with(b"HTTP/1.0") { Version::Http10 } else { Version::Http11 };
        let wanted = |&(name, _): &(&[u8], &[u8])| keep(name);
        let text: usize =
            self.fields(octets).filter(wanted).map(|(name, value)| name.len() + value.len()).sum();
        let reason = start.get(REASON_AT..).unwrap_or_default();
        let mut buffer = BytesMut::with_capacity(reason.len() + text);
        let mut take = |octets: &[u8]| -> Bytes {
            buffer.extend_from_slice(octets);
            buffer.split().freeze()
        };
        let reason = take(reason);
        let fields: Fields = self
            .fields(octets)
            .filter(wanted)
            .map(|(name, value)| Field { name: take(name), value: take(value) })
            .collect();
        ResponseHead { version, status, reason, fields }
    }

    /// The status line, if it is in the prebuilt bytes, and the field lines that follow it.
    fn split_start(self, octets: &[u8]) -> (Option<&[u8]>, &[u8]) {
        let mut lines = part(octets, 0..self.own as usize);
        (take_line(&mut lines), lines)
    }
}

/// A part of a head whose ends are those of its layout.
#[expect(clippy::expect_used, reason = "a layout is written, or checked, together with its bytes")]
fn part(octets: &[u8], range: Range<usize>) -> &[u8] {
    octets.get(range).expect("a layout fits its bytes")
}

/// The position of the reason phrase in `HTTP/1.1 200 OK`.
const REASON_AT: usize = 13;

fn start_line(head: &ResponseHead) -> Vec<u8> {
    let version = if head.version == Version::Http10 { "HTTP/1.0" } else { "HTTP/1.1" };
    let mut line = format!("{version} {} ", head.status.code()).into_bytes();
    line.extend_from_slice(&head.reason);
    line.extend_from_slice(b"\r\n");
    line
}

/// The length of a field's line, or `None` if the line could not be parsed back into the same
/// field.
fn line_len(name: &[u8], value: &[u8]) -> Option<usize> {
    let is_plain =
        memchr(b':', name).is_none() && memchr(b'\r', name).is_none() && memchr(b'\r', value).is_none();
    is_plain.then_some(name.len() + value.len() + 4)
}

/// Whether `octets` begins with the line of this field.
fn is_line(octets: &[u8], name: &[u8], value: &[u8]) -> bool {
    let rest = octets.strip_prefix(name).and_then(|rest| rest.strip_prefix(b": "));
    rest.and_then(|rest| rest.strip_prefix(value)).is_some_and(|rest| rest.starts_with(b"\r\n"))
}

/// The next line without its CRLF, or `None` if there is none.
fn take_line<'a>(lines: &mut &'a [u8]) -> Option<&'a [u8]> {
    let end = memchr(b'\r', lines)?;
    let (line, rest) = lines.split_at_checked(end)?;
    *lines = rest.get(2..).unwrap_or_default();
    Some(line)
}

#[cfg(test)]
mod tests {
    use super::write;
    use message::{ResponseHead, Status, Version};
    use proptest::prelude::*;

    fn head(fields: &[(&'static str, &'static str)]) -> ResponseHead {
        let mut head = ResponseHead::new(Status::OK);
        fields.iter().for_each(|(name, value)| head.fields.push(*name, *value));
        head
    }

    #[test]
    fn sent_fields_are_stored_once() {
        let prebuilt = b"HTTP/1.1 200 OK\r\nA: 1\r\nEmpty: \r\nB: 2\r\nContent-Length: 7\r\n";
        let head = head(&[("A", "1"), ("Age", "9"), ("Empty", ""), ("B", "2"), ("Surrogate-Key", "x y")]);
        let mut octets = Vec::new();
        let layout = write(&head, prebuilt, &mut octets);
        octets.extend_from_slice(b"content");
        assert_eq!((layout.prebuilt(&octets), layout.behind(&octets)), (&prebuilt[..], &b"content"[..]));
        assert_eq!(octets.len(), prebuilt.len() + "Age9Surrogate-Keyx y".len() + 4 * 4 + 7);
        let names: Vec<_> = layout.fields(&octets).map(|(name, _)| name).collect();
        assert_eq!(names, [&b"A"[..], b"Empty", b"B", b"Age", b"Surrogate-Key"]);
        let some = layout.read(&octets, Status::OK, |name| name.len() == 1);
        assert_eq!(some.fields.iter().map(|field| &field.value[..]).collect::<Vec<_>>(), [b"1", b"2"]);
        assert_eq!((&some.reason[..], some.version), (&b"OK"[..], Version::Http11));
    }

    proptest! {
        /// Every field is read back, whichever lines the edge sends.
        #[test]
        fn every_field_is_read_back(
            fields in prop::collection::vec(("[a-z:\r]{0,3}", "[a-z: \r\n]{0,4}", any::<bool>()), 0..8),
            (same_start, added) in (any::<bool>(), any::<bool>()),
            reason in "[A-Z]{0,3}",
        ) {
            let mut head = ResponseHead { version: Version::Http10, ..ResponseHead::new(Status::OK) };
            head.reason = reason.clone().into();
            let mut prebuilt = format!("HTTP/1.{} 200 {reason}\r\n", u8::from(!same_start)).into_bytes();
            for (name, value, sent) in &fields {
                head.fields.push(name.clone(), value.clone());
                if *sent {
                    prebuilt.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
                }
            }
            if added {
                prebuilt.extend_from_slice(b"Content-Length: 1\r\n");
            }
            let mut octets = Vec::new();
            let layout = write(&head, &prebuilt, &mut octets);
            prop_assert!(layout.behind(&octets).is_empty());
            let read = layout.read(&octets, Status::OK, |_| true);
            prop_assert_eq!((&read.reason, read.version), (&head.reason, head.version));
            let sorted = |head: &ResponseHead| {
                let mut fields: Vec<_> = head.fields.iter().map(|f| (f.name.clone(), f.value.clone())).collect();
                fields.sort();
                fields
            };
            prop_assert_eq!(sorted(&read), sorted(&head));
        }
    }
}
