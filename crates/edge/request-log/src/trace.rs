//! The trace of a request, as the field `traceparent` names it (W3C Trace Context, section 3.2).
//!
//! Invariant: a value that the specification calls invalid names no trace.

use std::fmt;

/// The identifier of a trace; never zero.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TraceId([u8; 32]);

/// The length of version 00: two digits, the trace, the parent and the flags, with three hyphens.
const LENGTH: usize = 55;

/// The bit of the flags that says that the trace is recorded.
pub const SAMPLED: u8 = 1;

/// The flags that are passed on: that the trace is recorded, and that its identifier is random.
const FLAGS: u8 = 0b11;

/// A span of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpanContext {
    /// The trace.
    pub trace: TraceId,
    /// The identifier of the span in its trace; never zero.
    pub span: u64,
    /// The flags of the trace, such as [`SAMPLED`].
    pub flags: u8,
}

impl SpanContext {
    /// The span that a value of `traceparent` names. Later versions may append more fields after
    /// another hyphen. Flags without a meaning are left out.
    pub fn of(value: &[u8]) -> Option<Self> {
        let (trace, rest) = parts_of(value)?;
        let (span, flags) = rest.split_once('-')?;
        let (span, flags) = (u64::from_str_radix(span, 16).ok()?, u8::from_str_radix(flags, 16).ok()?);
        Some(Self { trace, span, flags: flags & FLAGS })
    }

    /// Whether the trace is recorded.
    pub const fn is_sampled(&self) -> bool {
        self.flags & SAMPLED != 0
    }

    /// The value of `traceparent` for a request whose parent is this span.
    pub fn to_traceparent(&self) -> String {
        format!("00-{}-{:016x}-{:02x}", self.trace, self.span, self.flags)
    }
}

/// The trace that a value of `traceparent` names.
pub fn trace_of(value: &[u8]) -> Option<TraceId> {
    parts_of(value).map(|(trace, _)| trace)
}

/// The trace that a value of `traceparent` names, and its parent and flags with the hyphen between
/// them.
fn parts_of(value: &[u8]) -> Option<(TraceId, &str)> {
    let (known, further) = value.split_at_checked(LENGTH)?;
    let [v1, v2, b'-', rest @ ..] = known else { return None };
    let version = [*v1, *v2];
    let is_further_allowed = version != *b"00" && further.first() == Some(&b'-');
    if version == *b"ff" || !(further.is_empty() || is_further_allowed) {
        return None;
    }
    let (trace, rest) = rest.split_at_checked(32)?;
    let [b'-', last @ ..] = rest else { return None };
    let (parent, rest) = last.split_at_checked(16)?;
    let [b'-', f1, f2] = rest else { return None };
    let is_hex = |bytes: &[u8]| bytes.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let is_set = |bytes: &[u8]| is_hex(bytes) && bytes.iter().any(|&byte| byte != b'0');
    let is_valid = is_hex(&version) && is_set(trace) && is_set(parent) && is_hex(&[*f1, *f2]);
    if is_valid { Some((TraceId(trace.try_into().ok()?), std::str::from_utf8(last).ok()?)) } else { None }
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

    /// The bytes of the identifier.
    pub(crate) fn to_bytes(self) -> [u8; 16] {
        // The digits are hexadecimal.
        u128::from_str_radix(self.as_str(), 16).unwrap_or_default().to_be_bytes()
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
    use super::{SpanContext, TraceId, trace_of};

    const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";

    #[test]
    fn own_traces_are_valid() {
        for (bits, span) in [(0, 1), (1, 2), (u128::MAX, u64::MAX), (0xabc << 64, 7)] {
            for flags in 0..4 {
                let context = SpanContext { trace: TraceId::from_bits(bits), span, flags };
                assert_eq!(SpanContext::of(context.to_traceparent().as_bytes()), Some(context));
                assert_eq!(context.trace.to_bytes(), bits.max(1).to_be_bytes());
                assert_eq!(context.is_sampled(), flags % 2 == 1);
            }
        }
    }

    #[test]
    fn flags_without_a_meaning_are_left_out() {
        let context = SpanContext::of(format!("00-{TRACE}-b7ad6b7169203331-fd").as_bytes()).unwrap();
        assert_eq!((context.span, context.flags), (0xb7ad_6b71_6920_3331, 1));
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
