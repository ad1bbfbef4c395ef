//! `No-Vary-Search`: which differences between query strings do not matter (draft-ietf-httpbis-no-vary-search).
//!
//! Invariant: two targets have the same canonical form exactly if the draft calls them equivalent, and the canonical
//! form of a canonical form is itself. A rule that cannot be read changes nothing.
//!
//! Two spellings of the exceptions are in use and both are read: `params, except=("a")` of the first drafts, which
//! browsers implement, and `except=("a")` of the later ones. Where one of them knows a value the other refuses it, so
//! none has two meanings.

use crate::structured::{Value, combined_lines, parse_dictionary};
use bytes::{BufMut, Bytes, BytesMut};
use message::{Fields, names};

/// What of a query string counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoVarySearch {
    params: Params,
    /// Whether the order of the parameters counts.
    ordered: bool,
}

/// Which parameters count. Names are decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Params {
    /// All but these.
    AllBut(Vec<String>),
    /// None but these.
    NoneBut(Vec<String>),
}

impl NoVarySearch {
    /// The rule a response states; `None` if it states none, or none that makes any two targets equivalent.
    pub fn of(response: &Fields) -> Option<Self> {
        let members = parse_dictionary(&combined_lines(response, names::NO_VARY_SEARCH)?)?;
        let member = |name: &[u8]| members.iter().find(|(key, _)| key == name).map(|(_, value)| value);
        let ordered = match member(b"key-order") {
            None => true,
            Some(Value::Boolean(ignored)) => !ignored,
            Some(_) => return None,
        };
        let params = match (member(b"params"), member(b"except")) {
            (None | Some(Value::Boolean(false)), None) => Params::AllBut(Vec::new()),
            (Some(Value::Boolean(true)), None) => Params::NoneBut(Vec::new()),
            (Some(Value::InnerList(ignored)), None) => Params::AllBut(parameter_names(ignored)?),
            (None | Some(Value::Boolean(true)), Some(Value::InnerList(counted))) => {
                Params::NoneBut(parameter_names(counted)?)
            }
            _ => return None,
        };
        let rule = Self { params, ordered };
        (rule != Self { params: Params::AllBut(Vec::new()), ordered: true }).then_some(rule)
    }

    /// The target all equivalent ones share: the path, then the parameters that count, written in one way. The path
    /// is compared as it is. `target` is in origin-form or absolute-form.
    pub fn canonical(&self, target: &[u8]) -> Bytes {
        let (path, query) = match target.iter().position(|&byte| byte == b'?') {
            Some(mark) => {
                (target.get(..mark).unwrap_or_default(), target.get(mark + 1..).unwrap_or_default())
            }
            None => (target, &b""[..]),
        };
        let mut parameters: Vec<_> = parameters(query).filter(|(name, _)| self.counts(name)).collect();
        if !self.ordered {
            // Stable: values of one name keep their order. Any order of the names will do.
            parameters.sort_by(|(one, _), (other, _)| one.cmp(other));
        }
        let mut canonical = BytesMut::with_capacity(target.len());
        canonical.put_slice(path);
        for (index, (name, value)) in parameters.iter().enumerate() {
            canonical.put_u8(if index == 0 { b'?' } else { b'&' });
            put_encoded(&mut canonical, name);
            canonical.put_u8(b'=');
            put_encoded(&mut canonical, value);
        }
        canonical.freeze()
    }

    fn counts(&self, name: &String) -> bool {
        match &self.params {
            Params::AllBut(ignored) => !ignored.contains(name),
            Params::NoneBut(counted) => counted.contains(name),
        }
    }
}

/// The names in an inner list, decoded; `None` if it holds anything but strings.
fn parameter_names(items: &[Value]) -> Option<Vec<String>> {
    items
        .iter()
        .map(|item| match item {
            Value::String(name) => Some(decoded(name)),
            _ => None,
        })
        .collect()
}

/// The names and values of a query string, as the parser of application/x-www-form-urlencoded sees them (WHATWG URL
/// section 5.1).
fn parameters(query: &[u8]) -> impl Iterator<Item = (String, String)> {
    query.split(|&byte| byte == b'&').filter(|piece| !piece.is_empty()).map(|piece| {
        let mut halves = piece.splitn(2, |&byte| byte == b'=');
        let mut half = || decoded(halves.next().unwrap_or_default());
        (half(), half())
    })
}

/// `+` is a space, `%` and two hexadecimal digits are an octet, anything else is itself; what is then not UTF-8 is
/// replaced.
fn decoded(text: &[u8]) -> String {
    let mut octets = Vec::with_capacity(text.len());
    let mut rest = text;
    loop {
        rest = match rest {
            [] => break,
            [b'%', high, low, after @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                octets.push(hex_value(*high) << 4 | hex_value(*low));
                after
            }
            [byte, after @ ..] => {
                octets.push(if *byte == b'+' { b' ' } else { *byte });
                after
            }
        };
    }
    String::from_utf8_lossy(&octets).into_owned()
}

/// The value of a hexadecimal digit.
const fn hex_value(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        _ => digit.to_ascii_lowercase() - b'a' + 10,
    }
}

/// Writes a decoded name or value so that it decodes to itself again, whatever is in it.
fn put_encoded(canonical: &mut BytesMut, text: &str) {
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~*".contains(&byte) {
            canonical.put_u8(byte);
        } else {
            canonical.put_slice(format!("%{byte:02X}").as_bytes());
        }
    }
}
