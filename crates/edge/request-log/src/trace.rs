//! The trace of a request, as the field `traceparent` names it (W3C Trace Context, section 3.2).
//!
//! Invariant: a value that the specification calls invalid names no trace.

use std::fmt;

/// The identifier of a trace; never zero.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TraceId([u8; 32]);

/// The length of version 00: two digits, the trace, the parent and the flags, with three hyphens.
const LENGTH: usize = 55;

/// The trace that a value of `traceparent` names. Later versions may append more fields after
/// another hyphen.
pub fn trace_of(value: &[u8]) -> Option<TraceId> {
    let (known, further) = value.split_at_checked(LENGTH)?;
    let [v1, v2, b'-', rest @ ..] = known else { return None };
    let version = [*v1, *v2];
    let is_further_allowed = version != *b"00" && further.first() == Some(&b'-');
    if version == *b"ff" || !(further.is_empty() || is_further_allowed) {
        return None;
    }
    let (trace, rest) = rest.split_at_checked(32)?;
    let [b'-', rest @ ..] = rest else { return None };
    let (parent, rest) = rest.split_at_checked(16)?;
    let [b'-', f1, f2] = rest else { return None };
    let is_hex = |bytes: &[u8]| bytes.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let is_set = |bytes: &[u8]| is_hex(bytes) && bytes.iter().any(|&byte| byte != b'0');
    let is_valid = is_hex(&version) && is_set(trace) && is_set(parent) && is_hex(&[*f1, *f2]);
    if is_valid { trace.try_into().ok().map(TraceId) } else { None }
}

/// The trace that a value of `traceparent` names, if its flags say that the caller may have
/// recorded it (section 3.2.2.5.1).
pub fn sampled_trace_of(value: &[u8]) -> Option<TraceId> {
    // The last digit of the flags has the bit `sampled`.
    let flags = value.get(LENGTH - 1).and_then(|digit| char::from(*digit).to_digit(16))?;
    trace_of(value).filter(|_| flags & 1 == 1)
}

impl TraceId {
    /// The identifier with these bits. Zero, which is invalid, becomes one.
    pub fn from_bits(bits: u128) -> Self {
        let mut digits = [b'0'; 32];
        // Both have 32 digits.
        for (digit, text) in digits.iter_mut().zip(format!("{:032x}", bits.max(1)).bytes()) {
            *digit = text;
        }
        Self(digits)
    }

    /// The value of `traceparent` for a request of this trace that has no parent but `parent`, and
    /// that should be recorded.
    pub fn to_traceparent(&self, parent: u64) -> String {
        format!("00-{self}-{:016x}-01", parent.max(1))
    }

    /// The identifier as 32 hexadecimal digits.
    pub fn as_str(&self) -> &str {
        // The digits are ASCII.
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::{TraceId, sampled_trace_of, trace_of};

    const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";

    #[test]
    fn own_traces_are_valid() {
        for (bits, parent) in [(0, 0), (1, 2), (u128::MAX, u64::MAX), (0xabc << 64, 7)] {
            let trace = TraceId::from_bits(bits);
            assert_eq!(trace_of(trace.to_traceparent(parent).as_bytes()), Some(trace));
        }
    }

    #[test]
    fn only_the_last_bit_of_the_flags_says_that_a_trace_is_sampled() {
        let read = |flags: &str| {
            let value = format!("00-{TRACE}-b7ad6b7169203331-{flags}");
            sampled_trace_of(value.as_bytes()).map(|trace| trace.to_string())
        };
        for (flags, is_sampled) in [("01", true), ("00", false), ("02", false), ("ff", true), ("10", false)] {
            assert_eq!(read(flags).is_some(), is_sampled, "{flags}");
        }
        assert_eq!(read("0g"), None);
        assert_eq!(sampled_trace_of(b"00-1-1-01"), None);
    }

    #[test]
    fn trace_is_read_from_valid_values_only() {
        let read = |value: &str| trace_of(value.as_bytes()).map(|trace| trace.to_string());
        let parent = "b7ad6b7169203331";
        assert_eq!(read(&format!("00-{TRACE}-{parent}-01")).as_deref(), Some(TRACE));
        assert_eq!(read(&format!("cc-{TRACE}-{parent}-01-more")).as_deref(), Some(TRACE));
        for wrong in [
            String::new(),
            "00".to_owned(),
            format!("00-{TRACE}-{parent}-01-more"),
            format!("cc-{TRACE}-{parent}-01.more"),
            format!("ff-{TRACE}-{parent}-01"),
            format!("00-{}-{parent}-01", TRACE.to_uppercase()),
            format!("00-{}-{parent}-01", "0".repeat(32)),
            format!("00-{TRACE}-{}-01", "0".repeat(16)),
            format!("00-{TRACE}-{parent}-0g"),
            format!("00-{TRACE}_{parent}-01"),
        ] {
            assert_eq!(read(&wrong), None, "{wrong}");
        }
    }
}
