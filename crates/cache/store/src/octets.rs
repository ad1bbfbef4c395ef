//! Encoding and decoding of numbers and length-prefixed bytes in records on the disk.
//!
//! Invariant: decoding never trusts a length. A part longer than the input gives `None`, and no
//! memory is allocated for it.

use bytes::Bytes;

/// Appends a 64-bit number, least significant byte first.
pub(crate) fn put_u64(octets: &mut Vec<u8>, number: u64) {
    octets.extend_from_slice(&number.to_le_bytes());
}

/// Appends a 32-bit number, least significant byte first.
pub(crate) fn put_u32(octets: &mut Vec<u8>, number: u32) {
    octets.extend_from_slice(&number.to_le_bytes());
}

/// Appends a usually small number: seven bits in each byte, the lowest first, with the high bit set
/// in all but the last.
pub(crate) fn put_short(octets: &mut Vec<u8>, mut number: u32) {
    while number >= 0x80 {
        octets.push(number as u8 | 0x80);
        number >>= 7;
    }
    octets.push(number as u8);
}

/// Appends the length of `part` and then `part`.
pub(crate) fn put_counted(octets: &mut Vec<u8>, part: &[u8]) {
    put_u32(octets, length(part.len()));
    octets.extend_from_slice(part);
}

/// Appends the length of `list` and then each of its parts with its length.
pub(crate) fn put_list(octets: &mut Vec<u8>, list: &[Bytes]) {
    put_u32(octets, length(list.len()));
    list.iter().for_each(|part| put_counted(octets, part));
}

/// Takes one byte from the front.
pub(crate) fn take_u8(octets: &mut &[u8]) -> Option<u8> {
    let (first, rest) = octets.split_first()?;
    *octets = rest;
    Some(*first)
}

/// Takes a number that [`put_u32`] wrote.
pub(crate) fn take_u32(octets: &mut &[u8]) -> Option<u32> {
    let (number, rest) = octets.split_first_chunk::<4>()?;
    *octets = rest;
    Some(u32::from_le_bytes(*number))
}

/// Takes a number that [`put_u64`] wrote.
pub(crate) fn take_u64(octets: &mut &[u8]) -> Option<u64> {
    let (number, rest) = octets.split_first_chunk::<8>()?;
    *octets = rest;
    Some(u64::from_le_bytes(*number))
}

/// Takes a number that [`put_short`] wrote.
#[inline]
pub(crate) fn take_short(octets: &mut &[u8]) -> Option<u32> {
    // Each look-up reads two numbers, and most have one byte.
    if let [number @ ..0x80, rest @ ..] = *octets {
        *octets = rest;
        return Some(u32::from(*number));
    }
    let mut number = 0_u32;
    for shift in [0, 7, 14, 21, 28] {
        let octet = take_u8(octets)?;
        number |= u32::from(octet & 0x7f).checked_shl(shift)?;
        if octet < 0x80 {
            return Some(number);
        }
    }
    None
}

/// Takes a part that [`put_counted`] wrote.
pub(crate) fn take_counted<'a>(octets: &mut &'a [u8]) -> Option<&'a [u8]> {
    let mut rest = *octets;
    let len = take_u32(&mut rest)?;
    let (part, rest) = rest.split_at_checked(len as usize)?;
    *octets = rest;
    Some(part)
}

/// Takes a copy of a part that [`put_counted`] wrote.
pub(crate) fn take_bytes(octets: &mut &[u8]) -> Option<Bytes> {
    take_counted(octets).map(Bytes::copy_from_slice)
}

/// Takes a list that [`put_list`] wrote.
pub(crate) fn take_list(octets: &mut &[u8]) -> Option<Vec<Bytes>> {
    let count = take_u32(octets)?;
    (0..count).map(|_| take_bytes(octets)).collect()
}

/// The length of a part of a head as 32 bits. All sources limit heads to far less.
pub(crate) fn length(octets: usize) -> u32 {
    assert!(u32::try_from(octets).is_ok(), "a part of {octets} octets");
    octets as u32
}

#[cfg(test)]
mod tests {
    use super::{put_short, take_short};

    #[test]
    fn short_number_round_trips() {
        for number in [0, 1, 127, 128, 300, 16_383, 16_384, 1 << 28, u32::MAX] {
            let mut octets = Vec::new();
            put_short(&mut octets, number);
            assert_eq!(octets.len(), (number.max(1).ilog2() / 7 + 1) as usize);
            assert_eq!(take_short(&mut &octets[..]), Some(number));
            octets.pop();
            assert_eq!(take_short(&mut &octets[..]), None);
        }
        assert_eq!(take_short(&mut &[0x80; 6][..]), None);
    }
}
