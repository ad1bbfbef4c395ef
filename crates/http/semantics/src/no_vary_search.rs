//! `No-Vary-Search`: the differences between query strings that do not matter
//! (draft-ietf-httpbis-no-vary-search).
//!
//! Invariant: two targets have the same canonical form exactly if the draft calls them equivalent.
//! The canonical form of a canonical form is itself. A rule that cannot be read changes nothing.
//!
//! Exceptions are spelled in two ways, and both are read. The first drafts, which browsers
//! implement, use `params, except=("a")`. Later drafts use `except=("a")`. A value that only one of
//! the two allows is invalid in the other, so no value has two meanings.

use crate::spelling::canonical_target;
use crate::structured::{MemberValue, combined_lines, parse_dictionary};
use bytes::{BufMut, Bytes, BytesMut};
use message::{Fields, names};

/// The parts of a query string that count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoVarySearch {
    params: Params,
    /// Whether the order of the parameters counts.
    ordered: bool,
}

/// The parameters that count. Names are decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Params {
    /// All parameters except these, which are sorted.
    AllBut(Vec<String>),
    /// Only these parameters, which are sorted.
    NoneBut(Vec<String>),
}

impl NoVarySearch {
    /// The rule that a response states; `None` if it states no rule, or one that makes no two
    /// targets equivalent.
    pub fn of(response: &Fields) -> Option<Self> {
        let members = parse_dictionary(&combined_lines(response, names::NO_VARY_SEARCH)?)?;
        let member = |name: &[u8]| members.iter().find(|(key, _)| key == name).map(|(_, value)| value);
        let ordered = match member(b"key-order") {
            None => true,
            Some(MemberValue::Boolean(ignored)) => !ignored,
            Some(_) => return None,
        };
        let params = match (member(b"params"), member(b"except")) {
            (None | Some(MemberValue::Boolean(false)), None) => Params::AllBut(Vec::new()),
            (Some(MemberValue::Boolean(true)), None) => Params::NoneBut(Vec::new()),
            (Some(MemberValue::InnerList(ignored)), None) => Params::AllBut(parameter_names(ignored)?),
            (None | Some(MemberValue::Boolean(true)), Some(MemberValue::InnerList(counted))) => {
                Params::NoneBut(parameter_names(counted)?)
            }
            _ => return None,
        };
        let rule = Self { params, ordered };
        (rule != Self { params: Params::AllBut(Vec::new()), ordered: true }).then_some(rule)
    }

    /// The canonical form that all equivalent targets share: the path, then the parameters that
    /// count, in one encoding. The path is compared unchanged. `target` is in origin-form or
    /// absolute-form.
    pub fn canonical(&self, target: &[u8]) -> Bytes {
        let (path, query) = split(target);
        self.join(path, query)
    }

    /// The canonical form, with the path in its canonical spelling too. Invalidations compare it,
    /// because they mean a page under every spelling of its target.
    pub fn canonical_spelling(&self, target: &[u8]) -> Bytes {
        let (path, query) = split(target);
        self.join(&canonical_target(path), query)
    }

    fn join(&self, path: &[u8], query: &[u8]) -> Bytes {
        let mut parameters: Vec<_> = parameters(query).filter(|(name, _)| self.counts(name)).collect();
        if !self.ordered {
            // The sort is stable, so values of one name keep their order. The order of the names is
            // arbitrary.
            parameters.sort_by(|(one, _), (other, _)| one.cmp(other));
        }
        let mut canonical = BytesMut::with_capacity(path.len() + query.len() + 1);
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
            Params::AllBut(ignored) => ignored.binary_search(name).is_err(),
            Params::NoneBut(counted) => counted.binary_search(name).is_ok(),
        }
    }
}

/// The path and the query of a target.
fn split(target: &[u8]) -> (&[u8], &[u8]) {
    match target.iter().position(|&byte| byte == b'?') {
        Some(mark) => (target.get(..mark).unwrap_or_default(), target.get(mark + 1..).unwrap_or_default()),
        None => (target, &[]),
    }
}

/// The names in an inner list, decoded and sorted; `None` if it contains anything but strings.
fn parameter_names(items: &[MemberValue]) -> Option<Vec<String>> {
    let names = items.iter().map(|item| match item {
        MemberValue::String(name) => Some(decoded(name)),
        _ => None,
    });
    let mut names: Vec<_> = names.collect::<Option<_>>()?;
    names.sort_unstable();
    Some(names)
}

/// The names and values of a query string, parsed as application/x-www-form-urlencoded (WHATWG URL
/// section 5.1).
fn parameters(query: &[u8]) -> impl Iterator<Item = (String, String)> {
    query.split(|&byte| byte == b'&').filter(|piece| !piece.is_empty()).map(|piece| {
        let mut halves = piece.splitn(2, |&byte| byte == b'=');
        let mut half = || decoded(halves.next().unwrap_or_default());
        (half(), half())
    })
}

/// Decodes a name or value. `+` is a space, and `%` with two hexadecimal digits is one byte.
/// Invalid UTF-8 in the result is replaced.
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

/// Writes a decoded name or value so that decoding restores it, whatever it contains.
fn put_encoded(canonical: &mut BytesMut, text: &str) {
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~*".contains(&byte) {
            canonical.put_u8(byte);
        } else {
            canonical.put_slice(format!("%{byte:02X}").as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::NoVarySearch;
    use message::Fields;

    fn of(value: &'static str) -> Option<NoVarySearch> {
        let mut fields = Fields::new();
        fields.push("No-Vary-Search", value);
        NoVarySearch::of(&fields)
    }

    fn equivalent(value: &'static str, one: &str, other: &str) -> bool {
        let rule = of(value).unwrap();
        rule.canonical(one.as_bytes()) == rule.canonical(other.as_bytes())
    }

    #[test]
    fn equivalences_listed_in_the_drafts() {
        for (one, other) in [
            ("/", "/?"),
            ("/?a=x", "/?%61=%78"),
            ("/?a=\u{e9}", "/?a=%C3%A9"),
            ("/?a=%f6", "/?a=%ef%bf%bd"),
            ("/?a=x&&&&", "/?a=x"),
            ("/?a=", "/?a"),
            ("/?a=%20", "/?a= &"),
            ("/?a=+", "/?a= &"),
        ] {
            assert!(equivalent("key-order", one, other), "{one} {other}");
        }
        for target in
            ["/?\u{e9} \u{6c17}=1", "/?\u{e9}+\u{6c17}=2", "/?%C3%A9%20\u{6c17}=3", "/?%C3%A9+%E6%B0%97=4"]
        {
            assert!(equivalent("params=(\"%C3%A9+%E6%B0%97\")", target, "/"), "{target}");
        }
    }

    #[test]
    fn differences_that_count_keep_targets_apart() {
        let ignoring = "params=(\"utm_source\" \"utm_medium\")";
        assert!(equivalent(ignoring, "/p?utm_source=x&id=1&utm_medium=y", "/p?id=1"));
        assert!(!equivalent(ignoring, "/p?a=1&b=2", "/p?b=2&a=1"));
        assert!(!equivalent(ignoring, "/p?Utm_source=x", "/p"));
        assert!(!equivalent(ignoring, "/p", "/q"));
        assert!(!equivalent(ignoring, "/%70", "/p"));
        for only_id in ["except=(\"id\")", "params, except=(\"id\")", "params=?1, except=(\"id\")"] {
            assert!(equivalent(only_id, "/p?x=1&id=7", "/p?id=7&y=2"), "{only_id}");
            assert!(!equivalent(only_id, "/p?id=7", "/p?id=8"), "{only_id}");
            assert!(!equivalent(only_id, "/p?id=7", "/p?id=7&id=7"), "{only_id}");
        }
        assert!(equivalent("params", "/p?a=1", "/p"));
        assert!(equivalent("except=()", "/p?a=1", "/p"));
        assert!(equivalent("key-order", "/p?a=1&b=2", "/p?b=2&a=1"));
        assert!(!equivalent("key-order", "/p?a=1&a=2", "/p?a=2&a=1"));
        assert!(equivalent("key-order, params=(\"c\")", "/p?c&b=2&a=1", "/p?a=1&b=2"));
        assert!(!equivalent("key-order", "/?a=1%26b=2", "/?a=1&b=2"));
        assert!(!equivalent("key-order", "/?a%3D=1", "/?a==1"));
        assert!(!equivalent("key-order", "/?a=%2B", "/?a=+"));
    }

    #[test]
    fn spellings_of_equivalent_targets_share_one_form() {
        let rule = of("params=(\"utm\")").unwrap();
        let form = rule.canonical_spelling(b"/caf%C3%A9?id=~&utm=1");
        for target in ["/caf%c3%a9?id=%7E&utm=2", "/c%61f%C3%A9?utm=%zz&id=%7e", "/caf\u{e9}?id=~"] {
            assert_eq!(rule.canonical_spelling(target.as_bytes()), form, "{target}");
            assert_ne!(
                rule.canonical(target.as_bytes()),
                rule.canonical(b"/caf%C3%A9?id=~&utm=1"),
                "{target}"
            );
        }
        assert_ne!(rule.canonical_spelling(b"/a%2Fb"), rule.canonical_spelling(b"/a/b"));
    }

    #[test]
    fn values_of_one_name_keep_their_order() {
        let rule = of("key-order").unwrap();
        let query: Vec<_> = (0..100).map(|n| format!("a={n}")).collect();
        let expected = format!("/?{}", query.join("&"));
        assert_eq!(rule.canonical(format!("/?{}&", query.join("&&")).as_bytes()), expected);
        let mixed: Vec<_> = query.iter().map(|parameter| format!("b&{parameter}")).collect();
        let expected = format!("{expected}{}", "&b=".repeat(query.len()));
        assert_eq!(rule.canonical(format!("/?{}", mixed.join("&")).as_bytes()), expected);
    }

    #[test]
    fn canonical_form_is_a_target() {
        let rule = of("key-order").unwrap();
        assert_eq!(rule.canonical(b"/p?b=2&a=%26+x&c"), "/p?a=%26%20x&b=2&c=");
        assert_eq!(rule.canonical(b"/p?"), "/p");
        assert_eq!(rule.canonical(b"/p?="), "/p?=");
        assert_eq!(rule.canonical(b"/p?a=%zz%4"), "/p?a=%25zz%254");
    }

    #[test]
    fn invalid_and_empty_rules_change_nothing() {
        for value in [
            "",
            "unknown-key",
            "key-order=\"not a boolean\"",
            "params=\"not a boolean or inner list\"",
            "params=(not-a-string)",
            "params=(\"a\"), except=(\"x\")",
            "params=(), except=()",
            "params=?0, except=(\"x\")",
            "params, except=(not-a-string)",
            "params, except=\"not an inner list\"",
            "params, except=?1",
            "except=(x)",
            "except",
            "params=?0",
            "params=()",
            "key-order=?0",
            "params=(\"a\"), key-order=1",
            "params=(\"a\"),",
        ] {
            assert_eq!(of(value), None, "{value}");
        }
        assert_eq!(NoVarySearch::of(&Fields::new()), None);
    }

    #[test]
    fn equivalent_rules_have_several_spellings() {
        for (one, other) in [
            ("key-order", "key-order=?1"),
            ("params", "params=?1"),
            ("params", "except=()"),
            ("params", "params, except=()"),
            ("key-order", "key-order, params=?0, unknown=7"),
            ("key-order, except=(\"x\")", "params, key-order, except=(\"x\")"),
            ("params=(\"a\" \"b\")", "params=(\"%62\" \"a\")"),
        ] {
            assert_eq!(of(one), of(other), "{one} {other}");
            assert!(of(one).is_some());
        }
    }
}
