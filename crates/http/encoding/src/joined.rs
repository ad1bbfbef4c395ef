//! Gzip content that is put together from parts which were encoded before (RFC 1951, RFC 1952).
//!
//! A coded part is deflate data that ends at a byte boundary and refers to no byte outside of it,
//! so that it may stand anywhere. Other parts follow as stored blocks, which are not compressed.
//! The checksum of the whole follows from those of its parts.
//!
//! Invariant: no part is compressed together with another one. The length of a part therefore says
//! nothing about the other parts.

use crate::encode::{GZIP_LEVEL, Unencodable};
use bytes::Bytes;
use flate2::write::DeflateEncoder;
use flate2::{Compression, Crc};
use std::io::{self, Write};
use std::ops::Range;

/// The beginning of a gzip stream without optional fields. The system on which it was made is
/// unknown.
pub const GZIP_HEAD: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];

/// The flag of a gzip stream with an extra field, and its place in the head.
const EXTRA: (usize, u8) = (3, 4);

/// The identifier of the extra field with the texts of a template.
const TEXTS_ID: [u8; 2] = *b"Pt";

/// Bytes of a text in the extra field: five numbers.
const TEXT_ENTRY_BYTES: usize = 20;

/// Bytes of the extra field before its texts: its length, its identifier, the length of the texts.
const EXTRA_HEAD_BYTES: usize = 6;

/// Largest number of texts in the extra field, whose length has 16 bits.
const TEXTS_MAX: usize = (u16::MAX as usize - 4) / TEXT_ENTRY_BYTES;

/// The last block of every stream: it is empty.
const LAST_BLOCK: [u8; 2] = [3, 0];

/// The end of a coded part: an empty stored block up to a byte boundary.
const FLUSHED: [u8; 4] = [0, 0, 0xff, 0xff];

/// The last block, the checksum and the length.
const TAIL_BYTES: usize = LAST_BLOCK.len() + 8;

/// The bytes of content in one stored block.
const STORED_BYTES_MAX: usize = u16::MAX as usize;

/// Bytes that a stored block adds to its content.
const STORED_HEAD_BYTES: usize = 5;

/// A coded part: where it is in its form, and what it decodes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodedPart {
    /// Its first byte in the content of the form.
    pub begin: u32,
    /// The number of bytes of content, modulo 2^32.
    pub bytes: u32,
    /// The CRC-32 of the content.
    pub crc: u32,
    /// Its place in the form.
    pub coded: Range<usize>,
}

/// Encodes one content as a part.
pub(crate) struct PartEncoder {
    deflate: DeflateEncoder<Vec<u8>>,
    crc: Crc,
}

impl PartEncoder {
    /// An encoder that has seen nothing.
    pub(crate) fn new() -> Self {
        let level = Compression::new(GZIP_LEVEL);
        Self { deflate: DeflateEncoder::new(Vec::new(), level), crc: Crc::new() }
    }

    /// Encodes the next bytes of the content.
    pub(crate) fn write(&mut self, octets: &[u8]) -> io::Result<()> {
        self.crc.update(octets);
        self.deflate.write_all(octets)
    }

    /// The deflate data of the part, and the checksum of its content.
    fn finish(mut self) -> io::Result<(Vec<u8>, Crc)> {
        self.deflate.flush()?;
        Ok((std::mem::take(self.deflate.get_mut()), self.crc))
    }

    /// The part as a whole gzip stream.
    pub(crate) fn into_form(self) -> io::Result<Vec<u8>> {
        let (coded, crc) = self.finish()?;
        Ok([&GZIP_HEAD[..], &coded, &tail(crc.sum(), crc.amount())].concat())
    }
}

/// Encodes a template with gzip so that each of its texts is a part, which [`coded_texts`] finds.
/// `texts` are their places in ascending order. A text that would not become shorter is none of the
/// parts.
///
/// # Errors
/// [`Unencodable`], also if the texts are not in order. `goes_on` is asked before each text.
pub fn encode_texts(
    template: &[u8],
    texts: impl Iterator<Item = Range<usize>>,
    goes_on: &dyn Fn() -> bool,
) -> Result<Vec<u8>, Unencodable> {
    let (mut coded, mut entries, mut at) = (Vec::new(), Vec::new(), 0);
    let mut crc = Crc::new();
    crc.update(template);
    let encode = |range: Range<usize>| -> Result<(Vec<u8>, Crc), Unencodable> {
        let mut encoder = PartEncoder::new();
        let text = template.get(range).ok_or(Unencodable::Ended)?;
        let encoded = encoder.write(text).and_then(|()| encoder.finish());
        encoded.map_err(|_| Unencodable::Ended)
    };
    for text in texts {
        if !goes_on() {
            return Err(Unencodable::Ended);
        }
        if text.start < at {
            return Err(Unencodable::Ended);
        }
        // The markup between two texts.
        if text.start > at {
            coded.extend_from_slice(&encode(at..text.start)?.0);
        }
        let (bytes, (part, sum)) = (text.len(), encode(text.clone())?);
        if part.len() < bytes + STORED_HEAD_BYTES {
            entries.push([text.start, bytes, sum.sum() as usize, coded.len(), coded.len() + part.len()]);
        }
        if entries.len() > TEXTS_MAX {
            return Err(Unencodable::TooLong);
        }
        coded.extend_from_slice(&part);
        at = text.end;
    }
    coded.extend_from_slice(&encode(at..template.len())?.0);
    let mut form = GZIP_HEAD.to_vec();
    if let Some(flags) = form.get_mut(EXTRA.0) {
        *flags = EXTRA.1;
    }
    // Both fit, because the number of texts is limited.
    let own_bytes = entries.len() * TEXT_ENTRY_BYTES;
    form.extend_from_slice(&((own_bytes + 4) as u16).to_le_bytes());
    form.extend_from_slice(&TEXTS_ID);
    form.extend_from_slice(&(own_bytes as u16).to_le_bytes());
    for number in entries.iter().flatten() {
        // A template has at most 4 GiB.
        form.extend_from_slice(&(*number as u32).to_le_bytes());
    }
    form.extend_from_slice(&coded);
    form.extend_from_slice(&tail(crc.sum(), crc.amount()));
    Ok(form)
}

/// The parts of a template's form, in ascending order of [`CodedPart::begin`]. `None` if the form
/// is not from [`encode_texts`].
pub fn coded_texts(form: &[Bytes]) -> Option<Vec<CodedPart>> {
    let head = octets(form, 0..GZIP_HEAD.len() + EXTRA_HEAD_BYTES);
    let (_, extra) = head.split_at_checked(GZIP_HEAD.len())?;
    let [_, _, id @ .., low, high] = extra else { return None };
    if head.get(EXTRA.0) != Some(&EXTRA.1) || *id != TEXTS_ID {
        return None;
    }
    let begin = GZIP_HEAD.len() + EXTRA_HEAD_BYTES;
    let coded = begin + usize::from(u16::from_le_bytes([*low, *high]));
    let entries = octets(form, begin..coded);
    let part = |entry: &[u8]| {
        let mut numbers =
            entry.chunks_exact(4).filter_map(|four| Some(u32::from_le_bytes(four.try_into().ok()?)));
        let mut next = || numbers.next();
        let (begin, bytes, crc) = (next()?, next()?, next()?);
        Some(CodedPart { begin, bytes, crc, coded: coded + next()? as usize..coded + next()? as usize })
    };
    entries.chunks_exact(TEXT_ENTRY_BYTES).map(part).collect()
}

/// The part that is the whole content of a gzip form. `None` if the form is no part: it was not
/// made by [`crate::encode`].
pub fn coded_content(form: &[Bytes]) -> Option<CodedPart> {
    let form_bytes: usize = form.iter().map(Bytes::len).sum();
    let end = form_bytes.checked_sub(TAIL_BYTES).filter(|end| *end >= GZIP_HEAD.len())?;
    let flushed = end.saturating_sub(FLUSHED.len()).max(GZIP_HEAD.len());
    let tail = octets(form, flushed..form_bytes);
    let (before, tail) = tail.split_at_checked(end - flushed)?;
    let [last @ .., a, b, c, d, e, f, g, h] = tail else { return None };
    let is_part = octets(form, 0..GZIP_HEAD.len()) == GZIP_HEAD
        && *last == LAST_BLOCK
        && (before.is_empty() || *before == FLUSHED);
    let (crc, bytes) = (u32::from_le_bytes([*a, *b, *c, *d]), u32::from_le_bytes([*e, *f, *g, *h]));
    is_part.then_some(CodedPart { begin: 0, bytes, crc, coded: GZIP_HEAD.len()..end })
}

/// A part of bytes in pieces, without a copy.
pub fn slices(pieces: &[Bytes], range: Range<usize>) -> impl Iterator<Item = Bytes> {
    let mut end = 0;
    pieces.iter().filter_map(move |piece| {
        let begin = end;
        end += piece.len();
        let (from, to) = (range.start.max(begin), range.end.min(end));
        (from < to).then(|| piece.slice(from - begin..to - begin))
    })
}

fn octets(pieces: &[Bytes], range: Range<usize>) -> Vec<u8> {
    slices(pieces, range).flatten().collect()
}

/// The rest of a gzip stream behind its last part.
fn tail(crc: u32, bytes: u32) -> [u8; TAIL_BYTES] {
    let mut tail = [0; TAIL_BYTES];
    let parts = [&LAST_BLOCK[..], &crc.to_le_bytes(), &bytes.to_le_bytes()];
    for (place, octet) in tail.iter_mut().zip(parts.into_iter().flatten()) {
        *place = *octet;
    }
    tail
}

/// A gzip stream of parts, which begins with [`GZIP_HEAD`].
#[derive(Clone, Copy, Debug, Default)]
pub struct JoinedGzip {
    crc: u32,
    bytes: u32,
}

impl JoinedGzip {
    /// Counts a coded part, whose deflate data comes next.
    pub fn coded(&mut self, part: &CodedPart) {
        self.add(part.crc, part.bytes);
    }

    /// The pieces of a part that is not compressed.
    pub fn plain(&mut self, content: &Bytes, mut push: impl FnMut(Bytes)) {
        let mut crc = Crc::new();
        crc.update(content);
        self.add(crc.sum(), crc.amount());
        for begin in (0..content.len()).step_by(STORED_BYTES_MAX) {
            let block = content.slice(begin..content.len().min(begin + STORED_BYTES_MAX));
            // At most 65,535, so it fits.
            let [low, high] = (block.len() as u16).to_le_bytes();
            push(Bytes::copy_from_slice(&[0, low, high, !low, !high]));
            push(block);
        }
    }

    /// The end of the stream.
    pub fn end(self) -> Bytes {
        Bytes::copy_from_slice(&tail(self.crc, self.bytes))
    }

    fn add(&mut self, crc: u32, bytes: u32) {
        self.crc = combined(self.crc, crc, bytes);
        self.bytes = self.bytes.wrapping_add(bytes);
    }
}

/// The polynomial of CRC-32 in reflected form, in which the highest bit is x^0.
const POLYNOMIAL: u32 = 0xedb8_8320;

/// x^0.
const ONE: u32 = 1 << 31;

/// x^(2^n) for n from 3, so that the first one moves a checksum by a byte.
const POWERS: [u32; 32] = powers();

#[expect(clippy::indexing_slicing, reason = "the number is below the length, and the compiler evaluates it")]
const fn powers() -> [u32; 32] {
    // x^1, x^2, x^4 and x^8.
    let (mut power, mut number) = (ONE >> 8, 0);
    let mut powers = [0; 32];
    while number < powers.len() {
        powers[number] = power;
        power = product(power, power);
        number += 1;
    }
    powers
}

/// The product of two polynomials modulo the polynomial of CRC-32.
const fn product(left: u32, right: u32) -> u32 {
    let (mut product, mut right, mut left) = (0, right, left);
    while left != 0 {
        if left & ONE != 0 {
            product ^= right;
        }
        left <<= 1;
        right = if right & 1 == 0 { right >> 1 } else { (right >> 1) ^ POLYNOMIAL };
    }
    product
}

/// The checksum of two contents in a row, from theirs and the length of the second one.
fn combined(first: u32, second: u32, second_bytes: u32) -> u32 {
    if first == 0 {
        // Nothing so far, or a content that leaves the checksum at zero: it stays zero when moved.
        return second;
    }
    let bits = (0..u32::BITS).zip(POWERS).filter(|(bit, _)| second_bytes >> bit & 1 == 1);
    bits.fold(first, |crc, (_, power)| product(power, crc)) ^ second
}

#[cfg(test)]
mod tests {
    use super::{
        GZIP_HEAD, JoinedGzip, PartEncoder, coded_content, coded_texts, combined, encode_texts, slices,
    };
    use crate::encode::tests::decoded;
    use bytes::Bytes;
    use flate2::Crc;
    use proptest::prelude::*;
    use semantics::Coding;

    /// A stream of these contents; those with true are coded. Forms are cut into pieces.
    fn joined(parts: &[(Vec<u8>, bool)], cut: usize) -> Vec<u8> {
        let (mut stream, mut out) = (JoinedGzip::default(), GZIP_HEAD.to_vec());
        for (content, is_coded) in parts {
            if *is_coded {
                let mut encoder = PartEncoder::new();
                encoder.write(content).unwrap();
                let form = Bytes::from(encoder.into_form().unwrap());
                let pieces: Vec<Bytes> = form.chunks(cut).map(Bytes::copy_from_slice).collect();
                assert_eq!(decoded(Coding::Gzip, &form), *content);
                let part = coded_content(&pieces).unwrap();
                stream.coded(&part);
                slices(&pieces, part.coded).for_each(|piece| out.extend_from_slice(&piece));
            } else {
                stream.plain(&Bytes::copy_from_slice(content), |piece| out.extend_from_slice(&piece));
            }
        }
        out.extend_from_slice(&stream.end());
        out
    }

    #[test]
    fn stream_without_parts_is_empty() {
        assert_eq!(decoded(Coding::Gzip, &joined(&[], 1)), b"");
        assert_eq!(decoded(Coding::Gzip, &joined(&[(vec![], true), (vec![], false)], 3)), b"");
    }

    #[test]
    fn long_plain_part_has_several_blocks() {
        let content: Vec<u8> = (0..200_000_u32).map(|number| (number % 251) as u8).collect();
        let parts = [(content.clone(), false), (content.clone(), true), (content.clone(), false)];
        assert!(decoded(Coding::Gzip, &joined(&parts, 4096)) == content.repeat(3));
    }

    #[test]
    fn part_does_not_refer_to_the_part_before_it() {
        let text = b"the same words in both parts".repeat(4);
        let [once, twice] = [1, 2].map(|count| joined(&vec![(text.clone(), true); count], 7).len());
        let form = joined(&[(Vec::new(), true)], 7).len();
        assert!(twice - once >= once - form, "the second part costs as much as the first");
    }

    #[test]
    fn other_gzip_is_no_part() {
        let form = joined(&[(b"text".to_vec(), false)], 1);
        assert_eq!(coded_content(&[Bytes::from(form)]), None);
        let stream = [crate::GzipStream::new().end()];
        assert_eq!((coded_content(&stream), coded_texts(&stream)), (None, None));
        assert_eq!((coded_content(&[]), coded_texts(&[])), (None, None));
    }

    #[test]
    fn work_on_texts_ends_when_it_is_not_needed() {
        let texts = [0..10, 10..20];
        assert!(encode_texts(&[b'x'; 20], texts.into_iter(), &|| false).is_err());
    }

    proptest! {
        #[test]
        fn any_parts_decode_to_their_contents(
            parts in prop::collection::vec((prop::collection::vec(0..4_u8, 0..3_000), any::<bool>()), 0..12),
            cut in 1..500_usize,
        ) {
            let content: Vec<u8> = parts.iter().flat_map(|(content, _)| content.clone()).collect();
            prop_assert!(decoded(Coding::Gzip, &joined(&parts, cut)) == content);
        }

        #[test]
        fn checksums_of_two_contents_combine(
            first in prop::collection::vec(any::<u8>(), 0..5_000),
            second in prop::collection::vec(any::<u8>(), 0..5_000),
        ) {
            let sum = |octets: &[u8]| {
                let mut crc = Crc::new();
                crc.update(octets);
                crc.sum()
            };
            let whole = sum(&[&first[..], &second].concat());
            prop_assert_eq!(combined(sum(&first), sum(&second), second.len() as u32), whole);
        }

        #[test]
        fn texts_of_a_template_are_parts_of_its_form(
            template in prop::collection::vec(0..3_u8, 0..4_000),
            cuts in prop::collection::vec(0..4_000_usize, 0..10),
            cut in 1..900_usize,
        ) {
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(template.len())).collect();
            cuts.sort_unstable();
            let texts: Vec<_> = cuts.chunks_exact(2).map(|pair| pair[0]..pair[1]).collect();
            let form = encode_texts(&template, texts.iter().cloned(), &|| true).unwrap();
            prop_assert!(decoded(Coding::Gzip, &form) == template);
            let pieces: Vec<Bytes> = form.chunks(cut).map(Bytes::copy_from_slice).collect();
            for part in coded_texts(&pieces).unwrap() {
                let begin = part.begin as usize;
                let text = begin..begin + part.bytes as usize;
                prop_assert!(texts.contains(&text));
                let mut out = GZIP_HEAD.to_vec();
                slices(&pieces, part.coded.clone()).for_each(|piece| out.extend_from_slice(&piece));
                let mut stream = JoinedGzip::default();
                stream.coded(&part);
                out.extend_from_slice(&stream.end());
                prop_assert!(decoded(Coding::Gzip, &out) == template[text]);
            }
        }
    }
}
