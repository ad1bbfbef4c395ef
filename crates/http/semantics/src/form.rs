//! Request parameters as PHP and similar systems read them: the form overrides the query, and the
//! last parameter of a name counts.
//!
//! Invariant: memory is bounded whatever a client sends. A parameter that was not read completely
//! is unknown, never absent, because the client may have hidden another value there.

use crate::spelling::percent_decoded;

/// Maximum number of bytes that are kept of one name or value. Names and values in rules are
/// shorter.
const PART_BYTES_MAX: usize = 128;

/// Maximum number of parameters that are kept of one form.
const PAIRS_MAX: usize = 256;

/// The form in a request's content, parsed while the content passes through.
#[derive(Clone, Debug, Default)]
pub struct FormReader {
    kind: ContentParser,
    pairs: Vec<(Vec<u8>, FormText)>,
    name: FormText,
    value: FormText,
    in_value: bool,
    /// Whether parameters were dropped, because there were too many or a name was too long.
    overflowed: bool,
}

/// How the content of a request is parsed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ContentParser {
    /// The content is no form.
    #[default]
    None,
    /// A form encoded like the parameters of a query.
    UrlEncoded,
    /// A form in another encoding, which is not parsed.
    Opaque,
}

/// A name or a value, up to [`PART_BYTES_MAX`].
#[derive(Clone, Debug, Default)]
struct FormText {
    octets: Vec<u8>,
    cut: bool,
}

/// The knowledge about a parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ParameterValue {
    Absent,
    Is(Vec<u8>),
    /// The parameter may be present, with any value.
    Unknown,
}

impl FormReader {
    /// An empty form for content with this `Content-Type`.
    pub fn of_type(content_type: Option<&[u8]>) -> Self {
        let name = content_type.and_then(|value| value.split(|&octet| octet == b';').next());
        let name = name.unwrap_or_default().trim_ascii();
        let kind = if name.eq_ignore_ascii_case(b"application/x-www-form-urlencoded") {
            ContentParser::UrlEncoded
        } else if name.get(..10).is_some_and(|start| start.eq_ignore_ascii_case(b"multipart/")) {
            ContentParser::Opaque
        } else {
            ContentParser::None
        };
        Self { kind, ..Self::default() }
    }

    /// The form in the complete content `octets`.
    pub fn of_octets(octets: &[u8]) -> Self {
        let mut form = Self { kind: ContentParser::UrlEncoded, ..Self::default() };
        form.feed(octets);
        form
    }

    /// Parses the next piece of the content.
    pub fn feed(&mut self, octets: &[u8]) {
        if self.kind != ContentParser::UrlEncoded {
            return;
        }
        for &octet in octets {
            match octet {
                b'&' => self.end_pair(),
                b'=' if !self.in_value => self.in_value = true,
                _ if self.in_value => self.value.push(octet),
                // PHP ignores spaces before a name. They are not kept, or many of them could fill
                // the buffer.
                b'+' if self.name.octets.is_empty() => {}
                _ => self.name.push(octet),
            }
        }
    }

    fn end_pair(&mut self) {
        let name = std::mem::take(&mut self.name);
        let value = std::mem::take(&mut self.value);
        self.in_value = false;
        if name.octets.is_empty() && value.octets.is_empty() {
            return;
        }
        // A dropped name could be any name, so from now on no parameter counts as absent.
        if self.pairs.len() >= PAIRS_MAX || name.cut {
            self.overflowed = true;
            return;
        }
        self.pairs.push((variable_name(&name.octets), value));
    }

    /// The value of a parameter in the form. `whole` says that the content has ended.
    fn parameter(&self, name: &[u8], whole: bool) -> ParameterValue {
        match self.kind {
            ContentParser::None => return ParameterValue::Absent,
            ContentParser::Opaque => return ParameterValue::Unknown,
            ContentParser::UrlEncoded if !whole || self.overflowed || self.name.cut => {
                return ParameterValue::Unknown;
            }
            ContentParser::UrlEncoded => {}
        }
        let last = (variable_name(&self.name.octets) == name && !name.is_empty()).then_some(&self.value);
        let found = || self.pairs.iter().rev().find(|(known, _)| known == name).map(|(_, value)| value);
        last.or_else(found).map_or(ParameterValue::Absent, FormText::parameter)
    }
}

impl FormText {
    fn push(&mut self, octet: u8) {
        if self.octets.len() < PART_BYTES_MAX {
            self.octets.push(octet);
        } else {
            self.cut = true;
        }
    }

    fn parameter(&self) -> ParameterValue {
        if self.cut { ParameterValue::Unknown } else { ParameterValue::Is(decoded(&self.octets)) }
    }
}

/// The value of a parameter in the query and the form together. `whole` is as for the form alone.
pub(crate) fn parameter(query: &[u8], form: &FormReader, whole: bool, name: &str) -> ParameterValue {
    match form.parameter(name.as_bytes(), whole) {
        ParameterValue::Absent => query_parameter(query, name),
        known => known,
    }
}

/// The value of a parameter in a query.
pub(crate) fn query_parameter(query: &[u8], name: &str) -> ParameterValue {
    let pairs = query.split(|&octet| octet == b'&').map(|pair| {
        let at = pair.iter().position(|&octet| octet == b'=').unwrap_or(pair.len());
        (pair.get(..at).unwrap_or_default(), pair.get(at + 1..).unwrap_or_default())
    });
    let last = pairs.rev().find(|(known, _)| variable_name(known) == name.as_bytes());
    last.map_or(ParameterValue::Absent, |(_, value)| ParameterValue::Is(decoded(value)))
}

/// The name under which PHP registers a parameter: `action[]`, ` action` and `action%00x` all
/// become `action`.
fn variable_name(octets: &[u8]) -> Vec<u8> {
    let name = decoded(octets);
    let name = name.split(|&octet| matches!(octet, b'[' | 0)).next().unwrap_or_default();
    name.trim_ascii_start()
        .iter()
        .map(|&octet| if matches!(octet, b' ' | b'.') { b'_' } else { octet })
        .collect()
}

fn decoded(octets: &[u8]) -> Vec<u8> {
    let spaced: Vec<u8> = octets.iter().map(|&octet| if octet == b'+' { b' ' } else { octet }).collect();
    percent_decoded(&spaced)
}

#[cfg(test)]
mod tests {
    use super::{FormReader, ParameterValue, parameter};

    fn action(query: &str, form: &str) -> ParameterValue {
        parameter(query.as_bytes(), &FormReader::of_octets(form.as_bytes()), true, "action")
    }

    fn is(text: &str) -> ParameterValue {
        ParameterValue::Is(text.as_bytes().to_vec())
    }

    #[test]
    fn form_overrides_query_and_last_overrides_first() {
        assert_eq!(action("action=a", ""), is("a"));
        assert_eq!(action("action=a&action=b", "x=1"), is("b"));
        assert_eq!(action("action=a", "action=b&action=c"), is("c"));
        assert_eq!(action("x=1", "y=2"), ParameterValue::Absent);
        assert_eq!(action("", "x=1&action=inline%2Dsave"), is("inline-save"));
    }

    #[test]
    fn php_spellings_of_a_name_are_recognised() {
        for form in
            ["+action=b", "%20action=b", "action[]=b", "action%5B=b", "action%00x=b", "%20%20action[x]=b"]
        {
            assert_eq!(action("action=a", form), is("b"), "{form}");
        }
        assert_eq!(action("action=a", &format!("{}action=b", "+".repeat(500))), is("b"));
    }

    #[test]
    fn unread_parameter_is_unknown() {
        assert_eq!(action("action=a", &format!("action={}", "x".repeat(500))), ParameterValue::Unknown);
        assert_eq!(action("action=a", &format!("{}action=b", "%20".repeat(500))), ParameterValue::Unknown);
        assert_eq!(action("action=a", &"x=1&".repeat(500)), ParameterValue::Unknown);
        let multipart = FormReader::of_type(Some(b"multipart/form-data; boundary=x"));
        assert_eq!(parameter(b"action=a", &multipart, true, "action"), ParameterValue::Unknown);
        let begun = FormReader::of_octets(b"x=1&");
        assert_eq!(parameter(b"action=a", &begun, false, "action"), ParameterValue::Unknown);
        let json = FormReader::of_type(Some(b"application/json"));
        assert_eq!(parameter(b"action=a", &json, false, "action"), is("a"));
    }

    #[test]
    fn pieces_may_be_cut_anywhere() {
        let octets = b"post_title=x&action=inline%2Dsave&y=1";
        for cut in 0..octets.len() {
            let mut form = FormReader::of_type(Some(b"application/x-www-form-urlencoded; charset=UTF-8"));
            form.feed(&octets[..cut]);
            form.feed(&octets[cut..]);
            assert_eq!(parameter(b"", &form, true, "action"), is("inline-save"), "{cut}");
        }
    }
}
