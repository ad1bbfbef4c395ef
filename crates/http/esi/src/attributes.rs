//! The attributes of a tag: names and quoted values, as in XML.

use crate::program::{FaultKind, Span};
use crate::tags::span;

/// An attribute: its name, and the place of its value without quotes.
pub(crate) type Attribute<'t> = (&'t [u8], Span);

/// The attributes within `place`.
///
/// # Errors
/// [`FaultKind::BadAttributes`].
pub(crate) fn attributes(template: &[u8], place: Span) -> Result<Vec<Attribute<'_>>, FaultKind> {
    let mut read: Vec<Attribute<'_>> = Vec::new();
    let (mut at, text) = (0, place.of(template));
    let begin = place.begin as usize;
    loop {
        let spaces = white(text, at);
        at += spaces;
        if at >= text.len() {
            return Ok(read);
        }
        let name_bytes =
            count(text, at, |byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b':'));
        let name = text.get(at..at + name_bytes).unwrap_or_default();
        at += name_bytes;
        at += white(text, at);
        let is_assigned = text.get(at) == Some(&b'=');
        at += 1;
        at += white(text, at);
        let quote = text.get(at).copied().filter(|byte| matches!(byte, b'"' | b'\''));
        let Some(quote) = quote.filter(|_| is_assigned && spaces > 0 && !name.is_empty()) else {
            return Err(FaultKind::BadAttributes);
        };
        at += 1;
        let value_bytes = count(text, at, |byte| byte != quote);
        if at + value_bytes >= text.len() || read.iter().any(|(known, _)| *known == name) {
            return Err(FaultKind::BadAttributes);
        }
        read.push((name, span(begin + at, begin + at + value_bytes)));
        at += value_bytes + 1;
    }
}

fn count(text: &[u8], at: usize, is_part: impl Fn(u8) -> bool) -> usize {
    text.get(at..).unwrap_or_default().iter().take_while(|byte| is_part(**byte)).count()
}

fn white(text: &[u8], at: usize) -> usize {
    count(text, at, |byte| byte.is_ascii_whitespace())
}

/// The five entities of XML.
const ENTITIES: [(&[u8], u8); 5] =
    [(b"&amp;", b'&'), (b"&lt;", b'<'), (b"&gt;", b'>'), (b"&quot;", b'"'), (b"&apos;", b'\'')];

/// The byte at the beginning of an attribute's text, and the number of bytes that encode it.
pub(crate) fn decoded_byte(text: &[u8]) -> Option<(u8, usize)> {
    let first = *text.first()?;
    let entity = ENTITIES.iter().find(|(entity, _)| first == b'&' && text.starts_with(entity));
    Some(entity.map_or((first, 1), |(entity, byte)| (*byte, entity.len())))
}

/// An attribute's text with its entities decoded.
pub(crate) fn decoded(mut text: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(text.len());
    while let Some((byte, bytes)) = decoded_byte(text) {
        plain.push(byte);
        text = text.get(bytes..).unwrap_or_default();
    }
    plain
}
