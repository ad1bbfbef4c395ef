//! The header of a syslog message (RFC 5424 section 6.2).
//!
//! Invariant: the header is printable ASCII, and its parts have no spaces. The text of a log line
//! follows it.

use crate::date::push_rfc3339;
use clock::Timestamp;
use std::io::Write as _;

/// The facility *local7*, which web servers use, with the severity *informational*.
const PRIORITY: u8 = 23 * 8 + 6;

/// The longest name of a host in a header.
const HOST_BYTES_MAX: usize = 255;

/// Appends the header of a message, with the space before its text. `host` is the name of this
/// machine.
pub fn push_syslog_header(message: &mut Vec<u8>, at: Timestamp, host: &str, process: u32) {
    // Writing to a Vec cannot fail.
    let _ = write!(message, "<{PRIORITY}>1 ");
    push_rfc3339(message, at);
    message.push(b' ');
    let begun = message.len();
    message.extend(host.bytes().filter(u8::is_ascii_graphic).take(HOST_BYTES_MAX));
    if message.len() == begun {
        message.push(b'-');
    }
    let _ = write!(message, " petasos {process} access - ");
}

#[cfg(test)]
mod tests {
    use super::push_syslog_header;
    use clock::Timestamp;

    #[test]
    fn header_has_the_parts_of_rfc_5424() {
        for (host, shown) in [("web1", "web1"), ("", "-"), ("a b\n", "ab")] {
            let mut message = Vec::new();
            push_syslog_header(&mut message, Timestamp::from_secs(784_111_777), host, 42);
            let expected = format!("<190>1 1994-11-06T08:49:37.000000Z {shown} petasos 42 access - ");
            assert_eq!(String::from_utf8(message).unwrap(), expected);
        }
    }
}
