//! Protocol Buffers in their binary form, as far as OTLP needs them: numbers, bytes, and messages
//! within messages.
//!
//! Invariant: every decoder of version 3 can read the written messages, and reading hostile bytes
//! ends. The crate `opentelemetry-proto`, which is generated from the definitions, reads it in
//! tests.

/// A number whose bytes are as few as it needs.
const VARINT: u64 = 0;
/// Eight bytes, the lowest first.
const FIXED64: u64 = 1;
/// A length and that many bytes.
const DELIMITED: u64 = 2;
/// Four bytes, the lowest first.
const FIXED32: u64 = 5;

/// Bits of a number in one byte of its form.
const BITS: u32 = 7;

/// Appends a number.
fn push_varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 1 << BITS {
        // The mask leaves seven bits, and the highest says that more follow.
        out.push((number & 0x7f) as u8 | 0x80);
        number >>= BITS;
    }
    out.push(number as u8);
}

fn push_tag(out: &mut Vec<u8>, field: u64, form: u64) {
    push_varint(out, field << 3 | form);
}

/// Appends a field with a number or with a word of an enumeration.
pub(crate) fn push_number(out: &mut Vec<u8>, field: u64, number: u64) {
    push_tag(out, field, VARINT);
    push_varint(out, number);
}

/// Appends a field with a number of eight bytes.
pub(crate) fn push_fixed64(out: &mut Vec<u8>, field: u64, number: u64) {
    push_tag(out, field, FIXED64);
    out.extend_from_slice(&number.to_le_bytes());
}

/// Appends a field with a number of four bytes.
pub(crate) fn push_fixed32(out: &mut Vec<u8>, field: u64, number: u32) {
    push_tag(out, field, FIXED32);
    out.extend_from_slice(&number.to_le_bytes());
}

/// Appends a field with bytes. A text must be UTF-8.
pub(crate) fn push_bytes(out: &mut Vec<u8>, field: u64, bytes: &[u8]) {
    push_tag(out, field, DELIMITED);
    push_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Appends a field with the message that `content` writes.
pub(crate) fn push_message(out: &mut Vec<u8>, field: u64, content: impl FnOnce(&mut Vec<u8>)) {
    push_tag(out, field, DELIMITED);
    let begun = out.len();
    content(out);
    // The length precedes the content and is known only now. Messages are short, so moving them is
    // cheaper than writing them twice.
    let ended = out.len();
    push_varint(out, (ended - begun) as u64);
    let length_bytes = out.len() - ended;
    if let Some(message) = out.get_mut(begun..) {
        message.rotate_right(length_bytes);
    }
}

/// The fields of a message.
pub(crate) struct MessageFields<'a>(pub(crate) &'a [u8]);

/// The value of a field.
pub(crate) enum FieldValue<'a> {
    Number(u64),
    Bytes(&'a [u8]),
    /// Four or eight bytes, which nothing here needs.
    Fixed,
}

impl<'a> MessageFields<'a> {
    fn varint(&mut self) -> Option<u64> {
        let mut number = 0_u64;
        for place in 0..10_u32 {
            let (&byte, rest) = self.0.split_first()?;
            self.0 = rest;
            number |= u64::from(byte & 0x7f).checked_shl(place * BITS)?;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(bytes)
    }
}

/// Ends before the first incorrect field.
impl<'a> Iterator for MessageFields<'a> {
    /// The number of a field and its value.
    type Item = (u64, FieldValue<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let tag = self.varint()?;
        let value = match tag & 7 {
            VARINT => FieldValue::Number(self.varint()?),
            FIXED64 => self.bytes(8).map(|_| FieldValue::Fixed)?,
            FIXED32 => self.bytes(4).map(|_| FieldValue::Fixed)?,
            DELIMITED => {
                let count = usize::try_from(self.varint()?).ok()?;
                FieldValue::Bytes(self.bytes(count)?)
            }
            _ => return None,
        };
        Some((tag >> 3, value))
    }
}

#[cfg(test)]
mod tests {
    use super::{
        FieldValue, MessageFields, push_bytes, push_fixed32, push_fixed64, push_message, push_number,
    };
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn fields_are_read_back(
            number: u64, fixed: u64, bytes in prop::collection::vec(any::<u8>(), 0..300),
        ) {
            let mut out = Vec::new();
            push_fixed64(&mut out, 1, fixed);
            push_fixed32(&mut out, 16, 7);
            push_message(&mut out, 3, |out| {
                push_number(out, 1000, number);
                push_bytes(out, 2, &bytes);
            });
            let mut outer = MessageFields(&out);
            prop_assert!(matches!(outer.next(), Some((1, FieldValue::Fixed))));
            prop_assert!(matches!(outer.next(), Some((16, FieldValue::Fixed))));
            let Some((3, FieldValue::Bytes(inner))) = outer.next() else { panic!("no message") };
            prop_assert!(outer.next().is_none());
            let mut inner = MessageFields(inner);
            prop_assert!(matches!(inner.next(), Some((1000, FieldValue::Number(read))) if read == number));
            prop_assert!(matches!(inner.next(), Some((2, FieldValue::Bytes(read))) if read == bytes));
        }

        #[test]
        fn reading_any_bytes_ends(bytes: Vec<u8>) {
            prop_assert!(MessageFields(&bytes).count() <= bytes.len());
        }
    }
}
