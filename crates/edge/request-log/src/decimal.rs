//! Numbers as text, without the machinery of formatting: a line of a log has about fifteen.

/// The most digits of a number of 64 bits.
const DIGITS_MAX: usize = 20;

/// Appends a number.
pub(crate) fn push_decimal(line: &mut Vec<u8>, number: u64) {
    push_padded(line, number, 1);
}

/// Appends a number with at least `width` digits, up to [`DIGITS_MAX`].
pub(crate) fn push_padded(line: &mut Vec<u8>, mut number: u64, width: usize) {
    let mut digits = [b'0'; DIGITS_MAX];
    let mut count = 0;
    for digit in digits.iter_mut().rev() {
        if number == 0 && count >= width {
            break;
        }
        // A digit is below ten.
        *digit = b'0' + (number % 10) as u8;
        (number, count) = (number / 10, count + 1);
    }
    line.extend_from_slice(digits.get(DIGITS_MAX - count..).unwrap_or_default());
}

#[cfg(test)]
mod tests {
    use super::push_padded;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers_are_written_as_by_the_standard_library(number: u64, bits in 0u32..64, width in 1usize..=20) {
            let number = number >> bits;
            let mut line = Vec::new();
            push_padded(&mut line, number, width);
            prop_assert_eq!(String::from_utf8(line).unwrap(), format!("{number:0width$}"));
        }
    }
}
