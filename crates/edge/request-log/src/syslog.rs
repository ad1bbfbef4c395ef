//! The header of a syslog message, for a daemon on this machine and for one on the network.
//!
//! Invariant: the header is printable ASCII. The text of a log line follows it.

use crate::date::{push_rfc3339, push_syslog_date};
use clock::Timestamp;
use std::io::Write as _;

/// The facility *local7*, which web servers use, with the severity *informational*.
const PRIORITY: u8 = 23 * 8 + 6;

/// The longest name of a host in a header.
const HOST_BYTES_MAX: usize = 255;

/// Appends the header of a message for the socket of a daemon on this machine, with the space
/// before its text. It has the form that the C library's `syslog` sends: the daemons of this
/// machine take a header of RFC 5424 for a part of the text there.
pub fn push_local_syslog_header(message: &mut Vec<u8>, at: Timestamp, process: u32) {
    // Writing to a Vec cannot fail.
    let _ = write!(message, "<{PRIORITY}>");
    push_syslog_date(message, at);
    let _ = write!(message, " petasos[{process}]: ");
}

/// Appends the header of a message for the network (RFC 5424 section 6.2), with the space before
/// its text. `host` is the name of this machine; its spaces are left out.
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
    use super::{push_local_syslog_header, push_syslog_header};
    use clock::Timestamp;

    #[test]
    fn local_header_is_that_of_the_c_library() {
        let mut message = Vec::new();
        push_local_syslog_header(&mut message, Timestamp::from_secs(784_111_777), 42);
        assert_eq!(String::from_utf8(message).unwrap(), "<190>Nov  6 08:49:37 petasos[42]: ");
    }

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
