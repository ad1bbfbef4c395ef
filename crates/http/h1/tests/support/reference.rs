//! A second chunked decoder, slow and simple. It sees the whole input at once and splits it into
//! lines by the grammar of RFC 9112 section 7.1. It keeps no state and enforces no limits.

use super::Body;
use petasos_h1::{BodyError, HeadError, Strictness};

/// The result for a body, as far as the input goes.
#[derive(Debug, PartialEq)]
pub(super) enum Verdict {
    Complete {
        content: Vec<u8>,
        wire_bytes: usize,
        trailer: Vec<(Vec<u8>, Vec<u8>)>,
    },
    /// Correct so far. The last line or chunk is unfinished and was not checked.
    Unfinished {
        content: Vec<u8>,
    },
    Wrong,
}

/// Panics unless the decoder's result for `octets` equals the reference's or is an exceeded limit.
pub(crate) fn assert_agrees(octets: &[u8], strictness: Strictness, decoded: &Body) {
    if matches!(
        decoded.error,
        Some(
            BodyError::ChunkExtensionsTooLarge
                | BodyError::TrailerTooLarge
                | BodyError::Trailer(HeadError::TooManyFields)
        )
    ) {
        return;
    }
    match read(octets, strictness == Strictness::Tolerant) {
        Verdict::Complete { content, wire_bytes, trailer } => {
            assert_eq!(decoded.error, None);
            assert!(decoded.complete);
            assert_eq!((&decoded.content, decoded.wire_bytes), (&content, wire_bytes));
            let fields = decoded.trailer.iter().flat_map(|fields| fields.iter());
            let fields: Vec<_> = fields.map(|field| (field.name.to_vec(), field.value.to_vec())).collect();
            assert_eq!(fields, trailer);
        }
        // The decoder may already report a fault in the unfinished line; the reference does not.
        Verdict::Unfinished { content } => {
            assert!(!decoded.complete);
            assert_eq!(decoded.content, content);
        }
        Verdict::Wrong => assert!(decoded.error.is_some(), "accepted {:?}", octets.escape_ascii()),
    }
}

pub(super) fn read(input: &[u8], tolerant: bool) -> Verdict {
    let mut content = Vec::new();
    let mut at = 0;
    loop {
        let Some(line) = line_at(input, at) else { return Verdict::Unfinished { content } };
        at += line.len();
        let Some(size) = without_line_end(line, tolerant).and_then(|line| chunk_size(line, tolerant)) else {
            return Verdict::Wrong;
        };
        if size == 0 {
            return read_trailer(input, at, content, tolerant);
        }
        let rest = &input[at..];
        let data = &rest[..rest.len().min(usize::try_from(size).unwrap_or(usize::MAX))];
        content.extend_from_slice(data);
        at += data.len();
        match &input[at..] {
            [] | [b'\r'] => return Verdict::Unfinished { content },
            [b'\r', b'\n', ..] => at += 2,
            [b'\n', ..] if tolerant => at += 1,
            _ => return Verdict::Wrong,
        }
    }
}

fn read_trailer(input: &[u8], mut at: usize, content: Vec<u8>, tolerant: bool) -> Verdict {
    let mut lines = Vec::new();
    loop {
        let Some(line) = line_at(input, at) else { return Verdict::Unfinished { content } };
        at += line.len();
        lines.push(line);
        if line == b"\n" || line == b"\r\n" {
            break;
        }
    }
    let mut trailer = Vec::new();
    for line in lines {
        match without_line_end(line, tolerant) {
            Some(b"") => {}
            Some(line) => match field(line) {
                Some(field) => trailer.push(field),
                None => return Verdict::Wrong,
            },
            None => return Verdict::Wrong,
        }
    }
    Verdict::Complete { content, wire_bytes: at, trailer }
}

/// The line that starts at `at`, including its LF.
fn line_at(input: &[u8], at: usize) -> Option<&[u8]> {
    let end = input[at..].iter().position(|&octet| octet == b'\n')?;
    Some(&input[at..=at + end])
}

fn without_line_end(line: &[u8], tolerant: bool) -> Option<&[u8]> {
    match line {
        [line @ .., b'\r', b'\n'] => Some(line),
        [line @ .., b'\n'] if tolerant => Some(line),
        _ => None,
    }
}

fn chunk_size(line: &[u8], tolerant: bool) -> Option<u64> {
    let line = line.iter().map(|&octet| char::from(octet)).collect::<String>();
    let digits = line.find(|letter: char| !letter.is_ascii_hexdigit()).unwrap_or(line.len());
    let (digits, extension) = line.split_at(digits);
    if digits.is_empty() || digits.len() > 16 {
        return None;
    }
    let after_blanks = extension.trim_start_matches([' ', '\t']);
    let extension_good = match after_blanks.chars().next() {
        None => extension.is_empty() || tolerant,
        Some(';') if tolerant => extension.chars().all(|letter| letter == '\t' || !letter.is_ascii_control()),
        Some(';') => are_extensions(after_blanks.as_bytes()),
        Some(_) => false,
    };
    if extension_good { u64::from_str_radix(digits, 16).ok() } else { None }
}

fn field(line: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    let colon = line.iter().position(|&octet| octet == b':')?;
    let (name, value) = (&line[..colon], &line[colon + 1..]);
    let is_text = |octet: &u8| *octet == b'\t' || !octet.is_ascii_control();
    if name.is_empty() || !name.iter().all(is_tchar) || !value.iter().all(is_text) {
        return None;
    }
    Some((name.to_vec(), value.trim_ascii().to_vec()))
}

fn is_tchar(octet: &u8) -> bool {
    octet.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(octet)
}

/// Whether `text`, which begins with a semicolon, is a list of chunk extensions (RFC 9112 section
/// 7.1.1).
fn are_extensions(text: &[u8]) -> bool {
    let blanks = |text: &[u8]| text.iter().take_while(|octet| matches!(octet, b' ' | b'\t')).count();
    let token = |text: &[u8]| text.iter().take_while(|&octet| is_tchar(octet)).count();
    let mut rest = text;
    while !rest.is_empty() {
        rest = &rest[blanks(rest)..];
        let Some(after) = rest.strip_prefix(b";") else { return false };
        let after = &after[blanks(after)..];
        let name = token(after);
        if name == 0 {
            return false;
        }
        rest = &after[name..];
        let Some(value) = rest[blanks(rest)..].strip_prefix(b"=") else { continue };
        let value = &value[blanks(value)..];
        rest = match value.strip_prefix(b"\"") {
            Some(quoted) => match quoted_end(quoted) {
                Some(end) => &quoted[end..],
                None => return false,
            },
            None if token(value) == 0 => return false,
            None => &value[token(value)..],
        };
    }
    true
}

/// The position after the closing quote of a quoted string.
fn quoted_end(quoted: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        let octet = *quoted.get(at)?;
        let octet = if octet == b'\\' {
            at += 1;
            *quoted.get(at)?
        } else if octet == b'"' {
            return Some(at + 1);
        } else {
            octet
        };
        if octet != b'\t' && octet.is_ascii_control() {
            return None;
        }
        at += 1;
    }
}
