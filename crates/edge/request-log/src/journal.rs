//! Entries of systemd's journal in its native protocol.
//!
//! Invariant: a value with a line end is written with its length, so that no client can add a field
//! to an entry.

use crate::record::RequestRecord;
use std::io::Write as _;

/// The priority *informational*.
const PRIORITY: &str = "6";

/// Appends the entry of a record. `line` is the text that `journalctl` shows.
pub fn push_journal_entry(entry: &mut Vec<u8>, record: &RequestRecord<'_>, line: &[u8]) {
    push(entry, "MESSAGE", line.strip_suffix(b"\n").unwrap_or(line));
    push(entry, "PRIORITY", PRIORITY.as_bytes());
    push(entry, "SYSLOG_IDENTIFIER", b"petasos");
    push(entry, "PETASOS_VERDICT", record.verdict().name().as_bytes());
    push(entry, "PETASOS_REASON", record.reason.name().as_bytes());
    push(entry, "PETASOS_STATUS", record.status.to_string().as_bytes());
    if let Some(site) = record.site {
        push(entry, "PETASOS_SITE", site.as_bytes());
    }
    if let Some(trace) = &record.trace {
        push(entry, "PETASOS_TRACE", trace.as_str().as_bytes());
    }
}

/// Appends a field.
fn push(entry: &mut Vec<u8>, name: &str, value: &[u8]) {
    if value.contains(&b'\n') {
        // Writing to a Vec cannot fail.
        let _ = writeln!(entry, "{name}");
        entry.extend_from_slice(&(value.len() as u64).to_le_bytes());
    } else {
        let _ = write!(entry, "{name}=");
    }
    entry.extend_from_slice(value);
    entry.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::{push, push_journal_entry};
    use crate::record::examples::miss;

    #[test]
    fn entry_has_the_line_and_fields_to_search_for() {
        let mut entry = Vec::new();
        push_journal_entry(&mut entry, &miss(), b"the line\n");
        let expected = "MESSAGE=the line\nPRIORITY=6\nSYSLOG_IDENTIFIER=petasos\nPETASOS_VERDICT=miss\n\
                        PETASOS_REASON=miss-absent\nPETASOS_STATUS=200\nPETASOS_SITE=example.test\n\
                        PETASOS_TRACE=0af7651916cd43dd8448eb211c80319c\n";
        assert_eq!(String::from_utf8(entry).unwrap(), expected);
    }

    #[test]
    fn value_with_a_line_end_has_its_length() {
        let mut entry = Vec::new();
        push(&mut entry, "MESSAGE", b"a\nB=c");
        assert_eq!(entry, b"MESSAGE\n\x05\0\0\0\0\0\0\0a\nB=c\n");
    }
}
