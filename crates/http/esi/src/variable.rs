//! Variables of ESI 1.0, `$(NAME{key}|default)`, and texts that contain them.

use crate::program::Span;
use crate::tags::span;

/// The variables of ESI 1.0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Name {
    AcceptLanguage,
    Cookie,
    Host,
    Referer,
    UserAgent,
    Query,
}

/// The names, and whether the variable must, may or cannot have a key.
const NAMES: [(&[u8], Name, Keys); 6] = [
    (b"HTTP_ACCEPT_LANGUAGE", Name::AcceptLanguage, Keys::Optional),
    (b"HTTP_COOKIE", Name::Cookie, Keys::Required),
    (b"HTTP_HOST", Name::Host, Keys::None),
    (b"HTTP_REFERER", Name::Referer, Keys::None),
    (b"HTTP_USER_AGENT", Name::UserAgent, Keys::Optional),
    (b"QUERY_STRING", Name::Query, Keys::Optional),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Keys {
    None,
    Optional,
    /// The whole Cookie field is never substituted.
    Required,
}

/// A variable of a template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Variable {
    pub(crate) name: Name,
    pub(crate) key: Option<Span>,
    pub(crate) default: Option<Span>,
}

/// A piece of a text with variables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    Literal(Span),
    Variable(Variable),
}

/// The beginning of a variable.
pub(crate) const OPEN: &[u8] = b"$(";

/// Reads the variable at the byte `at` of the template, no further than `end`. Returns it and the
/// byte behind it.
pub(crate) fn variable(template: &[u8], at: usize, end: usize) -> Option<(Variable, usize)> {
    let text = template.get(..end)?;
    let count = |from: usize, is_part: &dyn Fn(u8) -> bool| {
        text.get(from..).unwrap_or_default().iter().take_while(|byte| is_part(**byte)).count()
    };
    let begin = at + text.get(at..)?.strip_prefix(OPEN).map(|_| OPEN.len())?;
    let name_end = begin + count(begin, &|byte| byte.is_ascii_uppercase() || byte == b'_');
    let named = text.get(begin..name_end)?;
    let (_, name, keys) = *NAMES.iter().find(|(known, ..)| *known == named)?;
    let mut at = name_end;
    let key = match text.get(at) {
        Some(b'{') => {
            let key_end =
                at + 1 + count(at + 1, &|byte| !matches!(byte, b'}' | b'{' | b'(' | b')' | b'<' | b'>'));
            (text.get(key_end) == Some(&b'}') && key_end > at + 1).then_some(())?;
            let key = span(at + 1, key_end);
            at = key_end + 1;
            Some(key)
        }
        _ => None,
    };
    let is_permitted = match keys {
        Keys::None => key.is_none(),
        Keys::Optional => true,
        Keys::Required => key.is_some(),
    };
    is_permitted.then_some(())?;
    let default = match text.get(at..at + 2) {
        Some(b"|'") => {
            let default_end = at + 2 + count(at + 2, &|byte| byte != b'\'');
            let default = span(at + 2, default_end);
            at = default_end + 1;
            Some(default)
        }
        Some([b'|', _]) => {
            let default_end =
                at + 1 + count(at + 1, &|byte| !matches!(byte, b')' | b'(' | b'\'' | b'$' | b'<'));
            let default = span(at + 1, default_end);
            at = default_end;
            Some(default)
        }
        _ => None,
    };
    (text.get(at) == Some(&b')')).then_some((Variable { name, key, default }, at + 1))
}

/// The pieces of a part of the template. Calls `bad` with the place of each `$(` that begins no
/// variable; it stays in the text.
pub(crate) fn pieces(template: &[u8], place: Span, mut bad: impl FnMut(u32)) -> Vec<Piece> {
    let (mut pieces, end) = (Vec::new(), place.end as usize);
    let (mut begin, mut at) = (place.begin as usize, place.begin as usize);
    while let Some(offset) = template.get(at..end).and_then(|text| text.iter().position(|byte| *byte == b'$'))
    {
        at += offset;
        match variable(template, at, end) {
            Some((variable, behind)) => {
                if at > begin {
                    pieces.push(Piece::Literal(span(begin, at)));
                }
                pieces.push(Piece::Variable(variable));
                (begin, at) = (behind, behind);
            }
            None => {
                if template.get(at..end).is_some_and(|text| text.starts_with(OPEN)) {
                    bad(span(at, at).begin);
                }
                at += 1;
            }
        }
    }
    if end > begin {
        pieces.push(Piece::Literal(span(begin, end)));
    }
    pieces
}
