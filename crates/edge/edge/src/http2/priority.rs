//! The priority of a response (RFC 9218), as its client asks for it in the field Priority.
//!
//! Invariant: a field that cannot be understood counts as absent (RFC 9218 section 4). A field of
//! one client orders the responses on its own connection only.

use message::Fields;
use semantics::structured::{MemberValue, combined_lines, parse_dictionary};

/// The priority of a response. The smaller one is sent first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Priority {
    /// From 0, the most urgent, to 7.
    pub(crate) urgency: u8,
    /// Whether the client can use parts of the response, so that responses of the same urgency
    /// share the connection. Others are sent one after the other.
    pub(crate) is_incremental: bool,
}

/// The lowest urgency (RFC 9218 section 4.1).
const URGENCY_MAX: i64 = 7;

impl Default for Priority {
    fn default() -> Self {
        Self { urgency: 3, is_incremental: false }
    }
}

impl Priority {
    /// The priority that the fields of a request state.
    pub(crate) fn of_request(fields: &Fields) -> Self {
        let members = combined_lines(fields, "priority").and_then(|value| parse_dictionary(&value));
        let mut priority = Self::default();
        for (key, value) in members.unwrap_or_default() {
            match (key.as_slice(), value) {
                (b"u", MemberValue::Integer(urgency)) if (0..=URGENCY_MAX).contains(&urgency) => {
                    // Fits, because it is at most 7.
                    priority.urgency = urgency as u8;
                }
                (b"i", MemberValue::Boolean(is_incremental)) => priority.is_incremental = is_incremental,
                // Other parameters and values are ignored (RFC 9218 section 4).
                _ => {}
            }
        }
        priority
    }
}

#[cfg(test)]
mod tests {
    use super::Priority;
    use message::Fields;

    fn of(lines: &[&'static str]) -> (u8, bool) {
        let mut fields = Fields::new();
        lines.iter().for_each(|line| fields.push("priority", *line));
        let priority = Priority::of_request(&fields);
        (priority.urgency, priority.is_incremental)
    }

    #[test]
    fn priority_field_is_read_as_a_dictionary() {
        for (lines, expected) in [
            (&[][..], (3, false)),
            (&["u=0"], (0, false)),
            (&["u=7, i"], (7, true)),
            (&["i", "u=1"], (1, true)),
            (&["u=8, i=?0"], (3, false)),
            (&["u=-1"], (3, false)),
            (&["u=x, i=1"], (3, false)),
            (&["u=2, unknown=5"], (2, false)),
            (&["u=2, !"], (3, false)),
        ] {
            assert_eq!(of(lines), expected, "{lines:?}");
        }
    }

    #[test]
    fn urgent_and_whole_responses_are_smaller() {
        let priority = |urgency, is_incremental| Priority { urgency, is_incremental };
        assert!(priority(0, true) < priority(1, false));
        assert!(priority(1, false) < priority(1, true));
    }
}
