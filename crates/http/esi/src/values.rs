//! The values of variables for one request, and how they are escaped.
//!
//! Invariants: a value that follows from the request is substituted as text only. In a page it
//! contains no character of HTML markup, in a URL no delimiter that could add a parameter, a path
//! segment or a line. In the path of a URL it neither removes a segment nor has an encoded slash,
//! which some servers decode.

use crate::variable::{Name, Variable};
use std::borrow::Cow;
use std::ops::Range;

/// A longer value counts as missing.
const VALUE_BYTES_MAX: usize = 4096;

/// What variables refer to in a request.
#[derive(Clone, Copy, Debug, Default)]
pub struct Values<'r> {
    /// The host and port to which the request was sent.
    pub host: &'r [u8],
    /// The cookies that templates may use, in the form of the field `Cookie`.
    pub cookies: &'r [u8],
    /// The value of `Accept-Language`.
    pub accept_language: &'r [u8],
    /// The value of `User-Agent`.
    pub user_agent: &'r [u8],
    /// The value of `Referer`.
    pub referer: &'r [u8],
    /// The target's query without the question mark.
    pub query: &'r [u8],
}

impl<'r> Values<'r> {
    /// The value of a variable; `None` if it is missing, empty or too long.
    pub(crate) fn value(&self, template: &[u8], variable: Variable) -> Option<Cow<'r, [u8]>> {
        let key = variable.key.map(|key| key.of(template));
        let value = match (variable.name, key) {
            (Name::Host, _) => self.host.into(),
            (Name::Referer, _) => self.referer.into(),
            (Name::Cookie, key) => member(self.cookies, b';', key?)?.into(),
            (Name::Query, None) => self.query.into(),
            (Name::Query, Some(key)) => member(self.query, b'&', key)?.into(),
            (Name::AcceptLanguage, None) => self.accept_language.into(),
            (Name::AcceptLanguage, Some(key)) => truth(self.accepts(key)).into(),
            (Name::UserAgent, None) => self.user_agent.into(),
            (Name::UserAgent, Some(key)) => self.agent(key)?,
        };
        (!value.is_empty() && value.len() <= VALUE_BYTES_MAX).then_some(value)
    }

    fn accepts(&self, language: &[u8]) -> bool {
        let ranges = self.accept_language.split(|byte| *byte == b',');
        let mut names = ranges.filter_map(|range| range.split(|byte| *byte == b';').next());
        names.any(|name| name.trim_ascii().eq_ignore_ascii_case(language))
    }

    /// The three properties of a browser that ESI 1.0 defines.
    fn agent(&self, property: &[u8]) -> Option<Cow<'r, [u8]>> {
        let has = |mark: &str| contains(self.user_agent, mark.as_bytes());
        match property {
            b"browser" if has("MSIE") => Some(b"MSIE"[..].into()),
            b"browser" if self.user_agent.starts_with(b"Mozilla") => Some(b"MOZILLA"[..].into()),
            b"browser" | b"os" if self.user_agent.is_empty() => None,
            b"browser" => Some(b"OTHER"[..].into()),
            b"os" if has("Windows") => Some(b"WIN"[..].into()),
            b"os" if has("Mac") => Some(b"MAC"[..].into()),
            b"os" if has("Linux") || has("X11") => Some(b"UNIX"[..].into()),
            b"os" => Some(b"OTHER"[..].into()),
            b"version" => {
                let mark: &[u8] = if has("MSIE") { b"MSIE " } else { b"Mozilla/" };
                let at = position(self.user_agent, mark)? + mark.len();
                let rest = self.user_agent.get(at..)?;
                let bytes = rest.iter().take_while(|byte| byte.is_ascii_digit() || **byte == b'.').count();
                rest.get(..bytes).map(Cow::from)
            }
            _ => None,
        }
    }
}

fn truth(is_true: bool) -> &'static [u8] {
    if is_true { b"true" } else { b"false" }
}

fn position(text: &[u8], part: &[u8]) -> Option<usize> {
    text.windows(part.len()).position(|window| window == part)
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    position(text, part).is_some()
}

/// The value of the first member `name=value` of a list.
fn member<'r>(list: &'r [u8], separator: u8, name: &[u8]) -> Option<&'r [u8]> {
    list.split(|byte| *byte == separator).find_map(|member| {
        let at = member.iter().position(|byte| *byte == b'=')?;
        let (found, value) = member.split_at_checked(at)?;
        (found.trim_ascii() == name).then(|| value.get(1..).unwrap_or_default().trim_ascii())
    })
}

/// Appends a value to a page.
pub(crate) fn push_for_html(out: &mut Vec<u8>, value: &[u8]) {
    for byte in value {
        match byte {
            b'&' => out.extend_from_slice(b"&amp;"),
            b'<' => out.extend_from_slice(b"&lt;"),
            b'>' => out.extend_from_slice(b"&gt;"),
            b'"' => out.extend_from_slice(b"&quot;"),
            b'\'' => out.extend_from_slice(b"&#39;"),
            other => out.push(*other),
        }
    }
}

/// Appends a value of a variable to a URL. A part of a query keeps its percent-encoding, and a
/// whole query its delimiters.
pub(crate) fn push_for_url(out: &mut Vec<u8>, variable: Variable, value: &[u8]) {
    let is_query = variable.name == Name::Query;
    let is_whole_query = is_query && variable.key.is_none();
    for (at, byte) in value.iter().enumerate() {
        let is_encoded = || {
            let digits = value.get(at + 1..at + 3);
            digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
        };
        let is_kept = match byte {
            b'-' | b'.' | b'_' | b'~' => true,
            b'%' => is_query && is_encoded(),
            b'+' => is_query,
            b'&' | b'=' => is_whole_query,
            other => other.is_ascii_alphanumeric(),
        };
        if is_kept {
            out.push(*byte);
        } else {
            const DIGITS: [u8; 16] = *b"0123456789ABCDEF";
            let digit = |value: u8| DIGITS.get(usize::from(value)).copied().unwrap_or(b'0');
            out.extend_from_slice(&[b'%', digit(byte >> 4), digit(byte & 15)]);
        }
    }
}

/// Whether the value at this place of a URL would change the segments of its path.
pub(crate) fn changes_path(url: &[u8], value: Range<usize>) -> bool {
    let path_bytes = url.iter().position(|byte| matches!(byte, b'?' | b'#')).unwrap_or(url.len());
    let path = url.get(..path_bytes).unwrap_or_default();
    let Some(own) = path.get(value.clone()) else { return false };
    let has_delimiter = own
        .windows(3)
        .any(|code| [b"%2F", b"%5C"].into_iter().any(|delimiter| delimiter.eq_ignore_ascii_case(code)));
    let is_slash = |byte: &u8| *byte == b'/';
    let before = path.get(..value.start).unwrap_or_default();
    let begin = before.iter().rposition(is_slash).map_or(0, |at| at + 1);
    let rest = path.get(begin..).unwrap_or_default();
    let segment = rest.split(is_slash).next().unwrap_or_default();
    let mut dots = String::from_utf8_lossy(segment).into_owned();
    dots.make_ascii_lowercase();
    has_delimiter || matches!(&*dots.replace("%2e", "."), "." | "..")
}
