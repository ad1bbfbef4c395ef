//! The combined log format, followed by fields of the edge.
//!
//! Invariant: a line is printable ASCII with exactly one line end. Quotes, backslashes and all
//! other bytes from clients are escaped.

use crate::date::push_log_date;
use crate::decimal::push_decimal;
use crate::record::{RequestRecord, micros};
use std::io::Write as _;

/// The fields of a line: the combined log format, followed by fields of the edge.
pub const COMBINED_FORMAT: &str = "PEER - - [DATE] \"REQUEST LINE\" STATUS BYTES \"REFERER\" \"USER-AGENT\" \
                                   HOST VERDICT REASON MICROSECONDS";

/// Appends the line of a record, with its line end.
pub fn push_combined(line: &mut Vec<u8>, record: &RequestRecord<'_>) {
    // Writing to a Vec cannot fail.
    let _ = write!(line, "{} - - [", record.peer);
    push_log_date(line, record.at);
    line.extend_from_slice(b"] \"");
    push_escaped(line, record.method.as_bytes());
    line.push(b' ');
    push_escaped(line, record.target);
    line.push(b' ');
    line.extend_from_slice(record.protocol.name().as_bytes());
    line.extend_from_slice(b"\" ");
    push_decimal(line, record.status.into());
    line.push(b' ');
    push_decimal(line, record.content_bytes);
    line.extend_from_slice(b" \"");
    push_value(line, record.referer);
    line.extend_from_slice(b"\" \"");
    push_value(line, record.agent);
    line.extend_from_slice(b"\" ");
    push_value(line, record.host);
    for word in [record.verdict().name(), record.reason.name(), ""] {
        line.push(b' ');
        line.extend_from_slice(word.as_bytes());
    }
    push_decimal(line, micros(record.time));
    line.push(b'\n');
}

fn push_value(line: &mut Vec<u8>, value: Option<&[u8]>) {
    match value {
        Some(value) => push_escaped(line, value),
        None => line.push(b'-'),
    }
}

/// Appends bytes so that they cannot end a quoted part or a line.
fn push_escaped(line: &mut Vec<u8>, bytes: &[u8]) {
    let is_plain = |byte: &u8| matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\');
    if bytes.iter().all(is_plain) {
        return line.extend_from_slice(bytes);
    }
    for &byte in bytes {
        match byte {
            b'"' | b'\\' | 0..=0x1f | 0x7f.. => {
                let _ = write!(line, "\\x{byte:02x}");
            }
            _ => line.push(byte),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::push_combined;
    use crate::record::examples::{bare, miss};
    use crate::record::{ClientName, RequestRecord};
    use message::Method;
    use proptest::prelude::*;

    fn line(record: &RequestRecord<'_>) -> String {
        let mut line = Vec::new();
        push_combined(&mut line, record);
        String::from_utf8(line).unwrap()
    }

    #[test]
    fn line_has_the_combined_format_and_the_fields_of_the_edge() {
        assert_eq!(
            line(&RequestRecord { agent: Some(b"a\"b\nc\\"), ..miss() }),
            "127.0.0.1 - - [06/Nov/1994:08:49:37 +0000] \"GET /shop/a?x=1 HTTP/1.1\" 200 12972 \
             \"https://example.test/\" \"a\\x22b\\x0ac\\x5c\" Example.test miss miss-absent 105000\n"
        );
        let bare = line(&RequestRecord { peer: ClientName::Unix, ..bare() });
        assert!(bare.starts_with("unix - - ["), "{bare}");
        assert!(bare.ends_with(" 12972 \"-\" \"-\" - hit hit-fresh 42\n"), "{bare}");
    }

    proptest! {
        #[test]
        fn any_bytes_of_clients_stay_in_their_place(
            target: Vec<u8>, host: Vec<u8>, referer: Vec<u8>, agent: Vec<u8>, method in "[!-~]{1,9}",
        ) {
            let method = Method::from_token(method.as_bytes());
            let record = RequestRecord {
                method: &method,
                target: &target,
                host: Some(&host),
                referer: Some(&referer),
                agent: Some(&agent),
                ..miss()
            };
            let line = line(&record);
            prop_assert!(line.bytes().rev().skip(1).all(|byte| (b' '..=b'~').contains(&byte)));
            prop_assert_eq!(line.matches('"').count(), 6);
            // Undoing the escapes gives the bytes back.
            let quoted: Vec<_> = line.split('"').collect();
            prop_assert_eq!(unescaped(quoted[3]), referer);
            prop_assert_eq!(unescaped(quoted[5]), agent);
        }
    }

    fn unescaped(text: &str) -> Vec<u8> {
        let mut parts = text.split("\\x");
        let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
        for part in parts {
            bytes.push(u8::from_str_radix(&part[..2], 16).unwrap());
            bytes.extend_from_slice(&part.as_bytes()[2..]);
        }
        bytes
    }
}
