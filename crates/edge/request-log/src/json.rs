//! A record as one line of JSON.
//!
//! Invariant: the line is valid UTF-8 and valid JSON, whatever a client sent. Bytes that are no
//! UTF-8 become U+FFFD. Control characters are escaped, so the line has one line end and changes no
//! terminal.
//!
//! Members that a request does not have are left out. A member is added, never renamed.

use crate::date::push_rfc3339;
use crate::decimal::push_decimal;
use crate::record::{ClientName, PageKey, RequestRecord, micros};
use std::io::Write as _;
use std::time::Duration;

/// Appends the line of a record, with its line end. Times are microseconds.
pub fn push_json(line: &mut Vec<u8>, record: &RequestRecord<'_>) {
    line.extend_from_slice(b"{\"at\":\"");
    push_rfc3339(line, record.at);
    line.push(b'"');
    push_client(line, "client", record.client);
    if record.peer != record.client {
        push_client(line, "peer", record.peer);
    }
    push_text(line, "method", &[record.method.as_bytes()]);
    push_optional(line, "host", record.host);
    push_text(line, "target", &[record.target]);
    push_word(line, "protocol", record.protocol.name());
    push_optional(line, "tls", record.tls.map(str::as_bytes));
    push_number(line, "status", record.status.into());
    push_number(line, "bytes", record.content_bytes);
    push_number(line, "received", record.received_bytes);
    push_number(line, "sent", record.sent_bytes);
    push_optional(line, "site", record.site.map(str::as_bytes));
    push_word(line, "verdict", record.verdict().name());
    push_word(line, "reason", record.reason.name());
    if let Some(key) = &record.key {
        push_text(line, "key", &PageKey::parts(key));
    }
    push_optional(line, "referer", record.referer);
    push_optional(line, "agent", record.agent);
    if let Some(trace) = &record.trace {
        push_word(line, "trace", trace.as_str());
    }
    push_number(line, "time", micros(record.time));
    push_phases(line, record);
    line.extend_from_slice(b"}\n");
}

fn push_phases(line: &mut Vec<u8>, record: &RequestRecord<'_>) {
    push_name(line, "phases");
    let begun = line.len();
    let phases = record.phases;
    for (name, time) in [("disk", phases.disk), ("wait", phases.wait), ("pass", phases.pass)] {
        if time != Duration::ZERO {
            push_number(line, name, micros(time));
        }
    }
    push_number(line, "send", micros(record.send_time()));
    close_object(line, begun);
    if let Some(fetch) = record.fetch {
        push_name(line, "fetch");
        let begun = line.len();
        push_number(line, "number", fetch.number);
        push_number(line, "queue", micros(fetch.queue));
        push_number(line, "connect", micros(fetch.connect));
        push_number(line, "first_byte", micros(fetch.first_byte));
        if let Some(span) = &fetch.trace {
            push_word(line, "trace", span.trace.as_str());
        }
        close_object(line, begun);
    }
}

/// Ends an object whose first member begins at `begun`, with the comma that precedes members.
fn close_object(line: &mut Vec<u8>, begun: usize) {
    if let Some(comma) = line.get_mut(begun) {
        *comma = b'{';
    }
    line.push(b'}');
}

/// Appends the name of a member.
fn push_name(line: &mut Vec<u8>, name: &str) {
    line.extend_from_slice(b",\"");
    line.extend_from_slice(name.as_bytes());
    line.extend_from_slice(b"\":");
}

/// Appends a member whose text needs no escapes.
fn push_word(line: &mut Vec<u8>, name: &str, word: &str) {
    push_name(line, name);
    line.push(b'"');
    line.extend_from_slice(word.as_bytes());
    line.push(b'"');
}

fn push_client(line: &mut Vec<u8>, name: &str, client: ClientName) {
    push_name(line, name);
    // Writing to a Vec cannot fail.
    let _ = write!(line, "\"{client}\"");
}

fn push_number(line: &mut Vec<u8>, name: &str, number: u64) {
    push_name(line, name);
    push_decimal(line, number);
}

fn push_optional(line: &mut Vec<u8>, name: &str, text: Option<&[u8]>) {
    if let Some(text) = text {
        push_text(line, name, &[text]);
    }
}

/// Appends a member with the text of these parts.
fn push_text(line: &mut Vec<u8>, name: &str, parts: &[&[u8]]) {
    push_name(line, name);
    line.push(b'"');
    parts.iter().for_each(|part| push_escaped(line, part));
    line.push(b'"');
}

/// Appends bytes as the inside of a JSON string.
fn push_escaped(line: &mut Vec<u8>, bytes: &[u8]) {
    let is_plain = |byte: &u8| matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\');
    if bytes.iter().all(is_plain) {
        return line.extend_from_slice(bytes);
    }
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '"' | '\\' => line.extend_from_slice(&[b'\\', character as u8]),
                // The control characters of C0 and C1, and the line ends of Unicode.
                '\0'..='\x1f' | '\x7f'..='\u{9f}' | '\u{2028}' | '\u{2029}' => {
                    let _ = write!(line, "\\u{:04x}", u32::from(character));
                }
                _ => line.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
        if !chunk.invalid().is_empty() {
            line.extend_from_slice("\u{fffd}".as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::push_json;
    use crate::record::examples::{bare, miss};
    use crate::record::{FetchPhases, PageKey, RequestRecord};
    use crate::trace::{SpanContext, TraceId};
    use message::Method;
    use proptest::prelude::*;

    fn line(record: &RequestRecord<'_>) -> String {
        let mut line = Vec::new();
        push_json(&mut line, record);
        String::from_utf8(line).unwrap()
    }

    #[test]
    fn line_has_every_member_that_the_request_has() {
        assert_eq!(
            line(&miss()),
            concat!(
                r#"{"at":"1994-11-06T08:49:37.000042Z","client":"192.0.2.77","peer":"127.0.0.1","method":"GET","#,
                r#""host":"Example.test","target":"/shop/a?x=1","protocol":"HTTP/1.1","tls":"1.3","status":200,"#,
                r#""bytes":12972,"received":80,"sent":13200,"site":"example.test","verdict":"miss","#,
                r#""reason":"miss-absent","key":"https://example.test/shop/a?x=1","#,
                r#""referer":"https://example.test/","agent":"probe/1","trace":"0af7651916cd43dd8448eb211c80319c","#,
                r#""time":105000,"phases":{"wait":104000,"send":1000},"#,
                r#""fetch":{"number":17,"queue":1000,"connect":200,"first_byte":102800}}"#,
                "\n"
            )
        );
        let trace = SpanContext { trace: TraceId::from_bits(10), span: 1, flags: 1 };
        let fetch = miss().fetch.map(|fetch| FetchPhases { trace: Some(trace), ..fetch });
        let traced = line(&RequestRecord { fetch, ..miss() });
        assert!(traced.ends_with(",\"trace\":\"0000000000000000000000000000000a\"}}\n"), "{traced}");
        assert_eq!(
            line(&bare()),
            concat!(
                r#"{"at":"1994-11-06T08:49:37.000042Z","client":"-","peer":"unix","method":"GET","#,
                r#""target":"/shop/a?x=1","protocol":"HTTP/1.1","status":200,"bytes":12972,"received":80,"#,
                r#""sent":13200,"verdict":"hit","reason":"hit-fresh","time":42,"phases":{"send":42}}"#,
                "\n"
            )
        );
    }

    proptest! {
        #[test]
        fn any_bytes_of_clients_are_read_back(
            target: Vec<u8>, host: Vec<u8>, referer: Vec<u8>, agent: String, method in "[!-~]{1,9}",
        ) {
            let method = Method::from_token(method.as_bytes());
            let record = RequestRecord {
                method: &method,
                target: &target,
                host: Some(&host),
                referer: Some(&referer),
                agent: Some(agent.as_bytes()),
                key: Some(PageKey { is_https: false, host: b"a", target: &target }),
                ..miss()
            };
            let line = line(&record);
            prop_assert!(line.ends_with('\n') && !line.trim_end_matches('\n').contains(char::is_control));
            let read: serde_json::Value = serde_json::from_str(&line).unwrap();
            let lossy = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            prop_assert_eq!(read["target"].as_str(), Some(&*lossy(&target)));
            prop_assert_eq!(read["host"].as_str(), Some(&*lossy(&host)));
            prop_assert_eq!(read["referer"].as_str(), Some(&*lossy(&referer)));
            prop_assert_eq!(read["agent"].as_str(), Some(&*agent));
            prop_assert_eq!(read["key"].as_str(), Some(&*format!("http://a{}", lossy(&target))));
        }
    }
}
