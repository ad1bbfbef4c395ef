//! The character classes of RFC 9110 and RFC 9112 as lookup tables. They classify single bytes and
//! runs of bytes and know no syntax.

/// A set of bytes.
pub(crate) struct Class([bool; 256]);

#[expect(clippy::indexing_slicing, reason = "evaluated at compile time, where a bad index fails the build")]
impl Class {
    /// Letters, digits and the bytes of `others`.
    const fn alphanumeric_and(others: &[u8]) -> Self {
        let mut members = [false; 256];
        let mut octet = 0;
        while octet < 256 {
            members[octet] = (octet as u8).is_ascii_alphanumeric();
            octet += 1;
        }
        let mut index = 0;
        while index < others.len() {
            members[others[index] as usize] = true;
            index += 1;
        }
        Self(members)
    }
}

impl Class {
    /// Whether `octet` belongs to the class.
    #[inline]
    pub(crate) fn has(&self, octet: u8) -> bool {
        self.0.get(usize::from(octet)).copied().unwrap_or(false)
    }

    /// Whether every byte of `octets` belongs to the class.
    #[inline]
    pub(crate) fn has_all(&self, octets: &[u8]) -> bool {
        octets.iter().all(|&octet| self.has(octet))
    }
}

/// `tchar` (RFC 9110 section 5.6.2).
pub(crate) static TOKEN: Class = Class::alphanumeric_and(b"!#$%&'*+-.^_`|~");

/// `reg-name` (RFC 3986 section 3.2.2).
pub(crate) static HOST: Class = Class::alphanumeric_and(b"-._~%!$&'()*+,;=");

/// The bytes inside the brackets of an `IP-literal` (RFC 3986 section 3.2.2).
pub(crate) static IP_LITERAL: Class = Class::alphanumeric_and(b"-._~!$&'()*+,;=:");

/// Path and query: the bytes of RFC 3986, and those that browsers send unencoded according to the
/// URL Standard (brackets, braces, bar, caret, backquote, backslash). Refusing these would break
/// ordinary sites, for example `?filter[]=x`. All readers split a request line with them alike.
pub(crate) static TARGET: Class = Class::alphanumeric_and(b"-._~%!$&'()*+,;=:@/?[]{}|^`\\");

/// Whether `octet` is allowed in a field value, a reason phrase or a chunk extension: visible
/// characters, `obs-text`, space and tab (RFC 9110 section 5.5).
#[inline]
pub(crate) const fn is_text_octet(octet: u8) -> bool {
    (octet >= b' ') & (octet != 0x7f) | (octet == b'\t')
}

/// Whether all of `octets` are text. Tests every byte without branching, which the compiler
/// vectorises: values are long, and bad ones are rare.
#[inline]
pub(crate) fn is_text(octets: &[u8]) -> bool {
    octets.iter().fold(true, |text, &octet| text & is_text_octet(octet))
}

/// Whether `octets` is a token: one or more `tchar`.
#[inline]
pub(crate) fn is_token(octets: &[u8]) -> bool {
    !octets.is_empty() && TOKEN.has_all(octets)
}

/// Whether `octets` is a non-empty run of decimal digits.
#[inline]
pub(crate) fn is_decimal(octets: &[u8]) -> bool {
    !octets.is_empty() && octets.iter().all(u8::is_ascii_digit)
}

/// The number that `octets` spell in decimal digits, without sign or space; `None` from 2^64 on.
pub(crate) fn decimal(octets: &[u8]) -> Option<u64> {
    if !is_decimal(octets) {
        return None;
    }
    octets
        .iter()
        .try_fold(0_u64, |number, digit| number.checked_mul(10)?.checked_add(u64::from(digit - b'0')))
}

#[cfg(test)]
mod tests {
    use super::{HOST, TARGET, TOKEN, decimal, is_text, is_text_octet, is_token};

    #[test]
    fn each_class_has_the_bytes_of_its_rfc() {
        for octet in 0..=u8::MAX {
            let visible = (0x21..=0x7e).contains(&octet);
            let delimiter = b"\"(),/:;<=>?@[\\]{}".contains(&octet);
            assert_eq!(TOKEN.has(octet), visible && !delimiter, "token {octet:#x}");
            assert_eq!(TARGET.has(octet), visible && !b"\"<>#".contains(&octet), "target {octet:#x}");
            assert_eq!(
                HOST.has(octet),
                visible && !b"\"<>#:@/?[]{}|^`\\".contains(&octet),
                "host {octet:#x}"
            );
            let control = octet.is_ascii_control() && octet != b'\t';
            assert_eq!(is_text_octet(octet), !control, "text {octet:#x}");
            assert_eq!(is_text(&[b'a', octet, b'b']), !control);
        }
        assert!(!is_token(b"") && is_token(b"a") && !is_token(b"a b"));
    }

    #[test]
    fn decimals() {
        assert_eq!(decimal(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(decimal(b"0012"), Some(12));
        for bad in ["18446744073709551616", "", "+1", "-1", "1 ", "1a", "99999999999999999999999"] {
            assert_eq!(decimal(bad.as_bytes()), None, "{bad}");
        }
    }
}
