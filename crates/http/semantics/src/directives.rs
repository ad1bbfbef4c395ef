//! `Cache-Control` parsed once into a fixed struct (RFC 9111 section 5.2, RFC 5861, RFC 8246).
//!
//! Invariant: if in doubt, the result is the stricter reading:
//!
//! - Names ignore case. A comma in a quoted string does not separate. Arguments may be tokens or
//!   quoted strings.
//! - A lifetime without a number counts as zero. The shorter of two lifetimes counts.
//! - A permission with an argument that it does not have is not granted. A restriction with an
//!   argument still restricts.
//! - A quoted string that never ends hides the rest of the field, so the field then means
//!   `no-store`.
//! - Unknown directives are ignored.
//!
//! The combined meaning of the directives is decided by `judge` and `freshness`.

use bytes::Bytes;
use message::{Fields, list_members, names};

/// The largest number of seconds that a directive states: 2^31 (RFC 9111 section 1.2.2).
pub const DELTA_SECS_MAX: u32 = 1 << 31;

/// The extent of `private` or `no-cache`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum DirectiveScope {
    /// The directive is absent.
    #[default]
    Nothing,
    /// Only the fields with these names, spelled as received.
    Fields(Vec<Bytes>),
    /// The whole response.
    Everything,
}

impl DirectiveScope {
    /// Whether the directive is present in any form.
    pub const fn is_present(&self) -> bool {
        !matches!(self, Self::Nothing)
    }

    /// The field names of the qualified form; empty for the other forms.
    pub fn names(&self) -> &[Bytes] {
        match self {
            Self::Fields(names) => names,
            Self::Nothing | Self::Everything => &[],
        }
    }

    /// Extends the scope so that it covers both.
    fn widen(&mut self, other: Self) {
        match (&mut *self, other) {
            (Self::Everything, _) | (_, Self::Nothing) => {}
            (Self::Fields(names), Self::Fields(more)) => names.extend(more),
            (_, other) => *self = other,
        }
    }
}

/// The directives of one message. All times are in seconds, at most [`DELTA_SECS_MAX`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Directives {
    /// `max-age`, of a request or a response.
    pub max_age_secs: Option<u32>,
    /// `s-maxage`.
    pub s_maxage_secs: Option<u32>,
    /// `min-fresh` of a request.
    pub min_fresh_secs: Option<u32>,
    /// `max-stale` of a request; without an argument it is [`DELTA_SECS_MAX`].
    pub max_stale_secs: Option<u32>,
    /// `stale-while-revalidate` (RFC 5861 section 3).
    pub stale_while_revalidate_secs: Option<u32>,
    /// `stale-if-error` (RFC 5861 section 4).
    pub stale_if_error_secs: Option<u32>,
    /// `no-cache`.
    pub no_cache: DirectiveScope,
    /// `private`.
    pub private: DirectiveScope,
    /// `no-store`, or a field with a quoted string that never ends.
    pub no_store: bool,
    /// `public`.
    pub public: bool,
    /// `must-revalidate`.
    pub must_revalidate: bool,
    /// `proxy-revalidate`.
    pub proxy_revalidate: bool,
    /// `must-understand`.
    pub must_understand: bool,
    /// `no-transform`.
    pub no_transform: bool,
    /// `only-if-cached` of a request.
    pub only_if_cached: bool,
    /// `immutable` (RFC 8246).
    pub immutable: bool,
}

impl Directives {
    /// The directives of a request. `Pragma: no-cache` counts as `no-cache` if there is no
    /// `Cache-Control` (RFC 9111 section 5.4).
    pub fn of_request(fields: &Fields) -> Self {
        let mut directives = Self::of_field(fields, names::CACHE_CONTROL);
        if fields.has(names::PRAGMA) && !fields.has(names::CACHE_CONTROL) {
            let says_no_cache = |member: &[u8]| member.eq_ignore_ascii_case(b"no-cache");
            if fields.list(names::PRAGMA).any(says_no_cache) {
                directives.no_cache = DirectiveScope::Everything;
            }
        }
        directives
    }

    /// The directives of a response's `Cache-Control`; see [`crate::stated_directives`] for
    /// targeted fields.
    pub fn of_response(fields: &Fields) -> Self {
        Self::of_field(fields, names::CACHE_CONTROL)
    }

    fn of_field(fields: &Fields, name: &str) -> Self {
        let mut directives = Self::default();
        for value in fields.all(name) {
            for member in list_members(value) {
                directives.add_member(member);
            }
        }
        directives
    }

    /// Reads one list member: a name, or a name with `=` and an argument.
    fn add_member(&mut self, member: &[u8]) {
        if has_open_quote(member) {
            self.no_store = true;
            return;
        }
        let (name, argument) = match member.iter().position(|&byte| byte == b'=') {
            Some(equals) => {
                let (name, rest) = member.split_at(equals);
                (name, Some(rest.get(1..).unwrap_or_default()))
            }
            None => (member, None),
        };
        // Space before `=` is not allowed. The name is recognised nevertheless, so that such a
        // lifetime counts as stated and invalid instead of absent.
        let spaced = name.trim_ascii_end().len() != name.len();
        let argument = if spaced { Some(&b" "[..]) } else { argument };
        self.add(name.trim_ascii_end(), argument);
    }

    /// Adds one directive. `argument` is the raw text after `=`, including quotes.
    pub(crate) fn add(&mut self, name: &[u8], argument: Option<&[u8]>) {
        let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
        if is("max-age") {
            shorten(&mut self.max_age_secs, argument.and_then(delta_secs).unwrap_or(0));
        } else if is("s-maxage") {
            shorten(&mut self.s_maxage_secs, argument.and_then(delta_secs).unwrap_or(0));
        } else if is("no-store") {
            self.no_store = true;
        } else if is("no-cache") {
            self.no_cache.widen(scope(argument));
        } else if is("private") {
            self.private.widen(scope(argument));
        } else if is("must-revalidate") {
            self.must_revalidate = true;
        } else if is("proxy-revalidate") {
            self.proxy_revalidate = true;
        } else if is("no-transform") {
            self.no_transform = true;
        } else if is("only-if-cached") {
            self.only_if_cached = true;
        } else if argument.is_none() && is("public") {
            self.public = true;
        } else if argument.is_none() && is("must-understand") {
            self.must_understand = true;
        } else if argument.is_none() && is("immutable") {
            self.immutable = true;
        } else {
            self.add_staleness(name, argument);
        }
    }

    /// Adds a directive about stale use. One that cannot be read permits nothing.
    fn add_staleness(&mut self, name: &[u8], argument: Option<&[u8]>) {
        let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
        if is("max-stale") {
            shorten(
                &mut self.max_stale_secs,
                argument.map_or(DELTA_SECS_MAX, |argument| delta_secs(argument).unwrap_or(0)),
            );
        } else if is("min-fresh") {
            let secs = argument.and_then(delta_secs).unwrap_or(0);
            self.min_fresh_secs = Some(self.min_fresh_secs.map_or(secs, |before| before.max(secs)));
        } else if is("stale-while-revalidate") {
            shorten(&mut self.stale_while_revalidate_secs, argument.and_then(delta_secs).unwrap_or(0));
        } else if is("stale-if-error") {
            shorten(&mut self.stale_if_error_secs, argument.and_then(delta_secs).unwrap_or(0));
        }
    }
}

/// Reads digits, as a token or a quoted string. The result saturates at [`DELTA_SECS_MAX`].
fn delta_secs(argument: &[u8]) -> Option<u32> {
    decimal_secs(unquote(argument).unwrap_or(argument))
}

/// Reads digits. The result saturates at [`DELTA_SECS_MAX`].
pub(crate) fn decimal_secs(digits: &[u8]) -> Option<u32> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u32, |secs, byte| {
        let digit = byte.is_ascii_digit().then(|| u32::from(byte - b'0'))?;
        Some(secs.saturating_mul(10).saturating_add(digit).min(DELTA_SECS_MAX))
    })
}

/// Keeps the smaller of the present value and `secs`.
fn shorten(value: &mut Option<u32>, secs: u32) {
    *value = Some(value.map_or(secs, |before| before.min(secs)));
}

/// The extent of `private` or `no-cache` with this argument. Only a well-formed, non-empty list of
/// field names limits it.
fn scope(argument: Option<&[u8]>) -> DirectiveScope {
    let Some(list) = argument.map(|argument| unquote(argument).unwrap_or(argument)) else {
        return DirectiveScope::Everything;
    };
    let names: Vec<_> = list_members(list).map(Bytes::copy_from_slice).collect();
    if names.is_empty() || !names.iter().all(|name| is_token(name)) {
        return DirectiveScope::Everything;
    }
    DirectiveScope::Fields(names)
}

/// The content of a quoted string; `None` if `argument` is none or contains escapes.
fn unquote(argument: &[u8]) -> Option<&[u8]> {
    let inside = argument.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    (!inside.contains(&b'"') && !inside.contains(&b'\\')).then_some(inside)
}

/// Whether a quoted string opens in `member` and does not close.
fn has_open_quote(member: &[u8]) -> bool {
    let mut quoted = false;
    let mut escaped = false;
    for &byte in member {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            _ => {}
        }
    }
    quoted
}

/// Whether `octets` is a token (RFC 9110 section 5.6.2).
pub(crate) fn is_token(octets: &[u8]) -> bool {
    !octets.is_empty()
        && octets.iter().all(|&byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::{DELTA_SECS_MAX, DirectiveScope, Directives};
    use message::Fields;

    fn parsed(lines: &[&'static str]) -> Directives {
        let mut fields = Fields::new();
        for line in lines {
            fields.push("Cache-Control", *line);
        }
        Directives::of_response(&fields)
    }

    #[test]
    fn names_ignore_case_and_unknown_directives_are_ignored() {
        let directives = parsed(&["MaX-aGe=60, No-Store,, foobar, ext=\"max-age=100\"", "S-MAXAGE=\"7\""]);
        let expected = Directives {
            max_age_secs: Some(60),
            s_maxage_secs: Some(7),
            no_store: true,
            ..Directives::default()
        };
        assert_eq!(directives, expected);
    }

    #[test]
    fn lifetime_that_is_not_a_number_is_zero() {
        for value in [
            "max-age=a100",
            "max-age=100a",
            "max-age=-100",
            "max-age=1.5",
            "max-age='100'",
            "max-age",
            "max-age=",
            "max-age =100",
            "max-age= 100",
            "max-age=\"\"",
            "max-age=\"1\\0\"",
            "max-age=\"100\"x",
        ] {
            assert_eq!(parsed(&[value]).max_age_secs, Some(0), "{value}");
        }
    }

    #[test]
    fn large_numbers_saturate() {
        for value in ["max-age=2147483648", "max-age=99999999999", "max-age=\"18446744073709551617\""] {
            assert_eq!(parsed(&[value]).max_age_secs, Some(DELTA_SECS_MAX), "{value}");
        }
        assert_eq!(parsed(&["max-age=0002147483647"]).max_age_secs, Some(2_147_483_647));
    }

    #[test]
    fn stricter_of_two_values_counts() {
        assert_eq!(parsed(&["max-age=60, max-age=10", "max-age=30"]).max_age_secs, Some(10));
        assert_eq!(parsed(&["max-age=60, max-age=x"]).max_age_secs, Some(0));
        assert_eq!(parsed(&["min-fresh=5, min-fresh=9, min-fresh=x"]).min_fresh_secs, Some(9));
        assert_eq!(parsed(&["max-stale, max-stale=3"]).max_stale_secs, Some(3));
    }

    #[test]
    fn arguments_void_permissions_but_not_restrictions() {
        let directives = parsed(&["no-store=x, must-revalidate=1, public=x, must-understand=x, immutable=x"]);
        assert!(directives.no_store && directives.must_revalidate);
        assert!(!directives.public && !directives.must_understand && !directives.immutable);
    }

    #[test]
    fn unclosed_quote_forbids_storing() {
        assert!(parsed(&["max-age=60, ext=\"x, private"]).no_store);
        assert!(parsed(&["ext=\"x\\\", no-store"]).no_store);
        assert!(!parsed(&["ext=\"x\\\"\", max-age=1"]).no_store);
    }

    #[test]
    fn private_and_no_cache_keep_their_field_names() {
        let directives = parsed(&["private=\"Set-Cookie, X-A\", no-cache=X-B", "private=\"X-C\""]);
        assert_eq!(
            directives.private,
            DirectiveScope::Fields(vec!["Set-Cookie".into(), "X-A".into(), "X-C".into()])
        );
        assert_eq!(directives.no_cache, DirectiveScope::Fields(vec!["X-B".into()]));
        assert_eq!(parsed(&["private=\"X-A\", private"]).private, DirectiveScope::Everything);
    }

    #[test]
    fn invalid_list_of_names_covers_everything() {
        for value in [
            "no-cache",
            "no-cache=",
            "no-cache=\"\"",
            "no-cache=\"a b\"",
            "no-cache=\"a\\\"\"",
            "no-cache =x",
        ] {
            assert_eq!(parsed(&[value]).no_cache, DirectiveScope::Everything, "{value}");
        }
    }

    #[test]
    fn pragma_counts_only_without_cache_control() {
        let mut fields = Fields::new();
        fields.push("Pragma", "x, No-Cache");
        assert!(Directives::of_request(&fields).no_cache.is_present());
        fields.push("Cache-Control", "nothing-to-see-here");
        assert!(!Directives::of_request(&fields).no_cache.is_present());
    }

    #[test]
    fn staleness_directives_are_read() {
        let directives =
            parsed(&["stale-while-revalidate=30, stale-if-error=60, stale-if-error=x, max-stale"]);
        assert_eq!(directives.stale_while_revalidate_secs, Some(30));
        assert_eq!(directives.stale_if_error_secs, Some(0));
        assert_eq!(directives.max_stale_secs, Some(DELTA_SECS_MAX));
    }
}
