//! Which octets may stand where: the character classes of RFC 9110 and RFC 9112 as lookup tables. Knows
//! single octets and runs of them, no syntax.

/// A set of octets.
pub(crate) struct Class([bool; 256]);

#[expect(clippy::indexing_slicing, reason = "evaluated at compile time, where a bad index fails the build")]
impl Class {
    /// Letters, digits and the octets of `others`.
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
    /// Whether `octet` belongs to this class.
    #[inline]
    pub(crate) fn has(&self, octet: u8) -> bool {
        self.0.get(usize::from(octet)).copied().unwrap_or(false)
    }

    /// Whether every octet of `octets` belongs to this class.
    #[inline]
    pub(crate) fn has_all(&self, octets: &[u8]) -> bool {
        octets.iter().all(|&octet| self.has(octet))
    }
}

/// `tchar` (RFC 9110 section 5.6.2).
pub(crate) static TOKEN: Class = Class::alphanumeric_and(b"!#$%&'*+-.^_`|~");

/// `reg-name` (RFC 3986 section 3.2.2).
pub(crate) static HOST: Class = Class::alphanumeric_and(b"-._~%!$&'()*+,;=");

/// Inside the brackets of an `IP-literal` (RFC 3986 section 3.2.2).
pub(crate) static IP_LITERAL: Class = Class::alphanumeric_and(b"-._~!$&'()*+,;=:");

/// Path and query: the octets of RFC 3986, and those which browsers send there unencoded by the URL
/// Standard (brackets, braces, bar, caret, backquote, backslash). Refusing these would break ordinary
/// sites, `?filter[]=x` for one, and no two readers split a request line differently because of them.
pub(crate) static TARGET: Class = Class::alphanumeric_and(b"-._~%!$&'()*+,;=:@/?[]{}|^`\\");

/// Whether `octet` may stand in a field value, a reason phrase or a chunk extension: visible octets,
/// `obs-text`, space and tab (RFC 9110 section 5.5).
#[inline]
pub(crate) const fn is_text_octet(octet: u8) -> bool {
    (octet >= b' ') & (octet != 0x7f) | (octet == b'\t')
}

/// Whether all of `octets` are text octets. Looks at all of them without a branch, which the compiler turns
/// into vector code; values are long, and bad ones are rare.
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

/// The number that `octets` spell: digits only, no sign, no space, below 2^64.
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
    fn classes_octet_by_octet() {
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
