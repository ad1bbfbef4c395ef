//! `Vary` (RFC 9110 section 12.5.5, RFC 9111 section 4.1): which request fields select among the
//! variants of one key, and which variant a request selects.
//!
//! Invariant for policies that forward only keyed fields: a value enters the variant key in exactly
//! the normalised form in which it is forwarded. Two requests with one variant key are therefore
//! the same request to the origin.
//!
//! Invariant for policies that forward everything: two values give one variant key only if the RFCs
//! give them the same meaning.
//!
//! Values are length-prefixed, so different lists of values never make the same key.

use crate::Reason;
use crate::accepted_codings::AcceptedCodings;
use crate::coding::{is_coded, is_gzip};
use crate::devices::has_classes;
use crate::directives::is_token;
use crate::forward::is_sent_on;
use crate::preferences::{accepts, canonical, favourite};
use crate::request_fields::{FieldRole, role};
use crate::selecting::{is_beyond, is_selecting};
use bytes::Bytes;
use message::{Fields, names};
use profiles::{Forwarding, Policy};
use std::sync::Arc;

/// The maximum number of fields on which a stored response varies. A response that varies on more
/// of them is not stored.
pub const VARY_NAMES_MAX: usize = 16;

/// The request fields that select a variant: lower-case names, sorted, without duplicates. Cheap to
/// clone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct VaryRule {
    names: Option<Arc<[Bytes]>>,
    /// Whether the origin receives the fields as the client sent them, instead of normalised.
    as_sent: bool,
}

/// The normalised values of a request for the fields of a rule.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct VariantKey(Bytes);

impl VariantKey {
    /// The length of this key in bytes.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether the key is empty, because the rule names no field.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The bytes of this key, for [`VaryRule::matches_octets`] and [`VariantKey::of_octets`].
    pub fn octets(&self) -> &[u8] {
        &self.0
    }

    /// The key with these bytes, which [`VariantKey::octets`] returned.
    pub const fn of_octets(octets: Bytes) -> Self {
        Self(octets)
    }
}

impl VaryRule {
    /// The rule that a response states.
    ///
    /// Fields that are constant on every shared fetch select nothing and are left out. With the
    /// default profile `Cookie` and `Authorization` are among them, because requests with
    /// meaningful ones pass.
    ///
    /// Keyed cookies and device classes select whether or not `Vary` names them. `Accept-Encoding`
    /// selects if the response has a content coding that not every client can be given. With a
    /// keyed policy its mention in `Vary` is ignored.
    ///
    /// # Errors
    /// [`Reason::StoreRefusedVaryStar`] for `*`, for a member that is no field name, and for more
    /// than [`VARY_NAMES_MAX`] names. [`Reason::StoreRefusedVaryAddress`] for a field that reveals
    /// the client's address and is not forwarded.
    pub fn from_response(response: &Fields, policy: &Policy) -> Result<Self, Reason> {
        let as_sent = policy.forwarding == Forwarding::Everything;
        let mut selecting = Vec::new();
        if !policy.keyed_cookies.is_empty() {
            selecting.push(Bytes::from_static(b"cookie"));
        }
        if has_classes(policy) {
            selecting.push(Bytes::from_static(b"user-agent"));
        }
        for name in response.list(names::VARY) {
            if name == b"*" || !is_token(name) {
                return Err(Reason::StoreRefusedVaryStar);
            }
            if !as_sent && name.eq_ignore_ascii_case(names::ACCEPT_ENCODING.as_bytes()) {
                continue;
            }
            let role = role(name, policy);
            let selects = match role {
                _ if as_sent && is_sent_on(name, policy) => role != FieldRole::Keyed,
                FieldRole::Address => return Err(Reason::StoreRefusedVaryAddress),
                FieldRole::Variable | FieldRole::Selecting | FieldRole::Unknown => true,
                FieldRole::Keyed
                | FieldRole::Constant
                | FieldRole::MethodOverride
                | FieldRole::ProxyClaim
                | FieldRole::Override => false,
            };
            if selects {
                selecting.push(Bytes::from(name.to_ascii_lowercase()));
            }
        }
        // With a keyed policy every shared fetch offers gzip, and Petasos decodes gzip for clients
        // that refuse it. Any other coding fits only the clients of one class.
        let for_one_class =
            if as_sent { is_coded(response) } else { is_coded(response) && !is_gzip(response) };
        if for_one_class {
            selecting.push(Bytes::from_static(b"accept-encoding"));
        }
        let rule = Self::sorted(selecting, as_sent);
        if rule.names().len() <= VARY_NAMES_MAX { Ok(rule) } else { Err(Reason::StoreRefusedVaryStar) }
    }

    /// The rule that selects on the fields of both rules.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let names = self.names().iter().chain(other.names()).cloned().collect();
        // The union may exceed VARY_NAMES_MAX. This is harmless: it only widens the set of
        // forwarded fields.
        Self::sorted(names, self.as_sent || other.as_sent)
    }

    /// The rule with these [`VaryRule::names`]. `as_sent` is the value of [`VaryRule::is_as_sent`].
    pub fn of_names(names: Vec<Bytes>, as_sent: bool) -> Self {
        Self::sorted(names, as_sent)
    }

    /// Whether the origin receives the fields as the client sent them, instead of normalised.
    pub const fn is_as_sent(&self) -> bool {
        self.as_sent
    }

    /// The names, in lower case and sorted.
    pub fn names(&self) -> &[Bytes] {
        self.names.as_deref().unwrap_or_default()
    }

    /// Whether the rule selects on the field called `name`, in any case.
    pub fn selects_on(&self, name: &[u8]) -> bool {
        self.names().iter().any(|known| known.eq_ignore_ascii_case(name))
    }

    /// The variant that a request with these fields selects.
    ///
    /// The fields may be the client's or those of [`crate::shared_fields`]. For the fields that
    /// were forwarded, both give the same key.
    pub fn key(&self, fields: &Fields) -> VariantKey {
        let mut key = Vec::new();
        for name in self.names() {
            push_part(&mut key, self.value(fields, name).as_deref());
        }
        VariantKey(Bytes::from(key))
    }

    /// The key under which `response`, fetched with these fields, is stored.
    ///
    /// Requests with the same [`VaryRule::key`] match it. If fields are forwarded as sent, requests
    /// whose favourite language is the language of the response match it too. The fetching request
    /// listed that language, so the origin chose it because of the request.
    pub fn stored_key(&self, fields: &Fields, response: &Fields) -> VariantKey {
        let key = self.key(fields);
        let mut languages = response.list("Content-Language").map(<[u8]>::to_ascii_lowercase);
        let (Some(language), None) = (languages.next(), languages.next()) else { return key };
        let was_chosen = self.as_sent
            && self.selects_on(ACCEPT_LANGUAGE.as_bytes())
            && accepts(fields, ACCEPT_LANGUAGE, &language);
        if !was_chosen {
            return key;
        }
        let mut key = key.0.to_vec();
        push_part(&mut key, Some(&language));
        VariantKey(Bytes::from(key))
    }

    /// Whether a request with these fields selects the variant `key` of this rule. Every lookup
    /// calls this, so it builds no key.
    pub fn matches(&self, fields: &Fields, key: &VariantKey) -> bool {
        self.matches_octets(fields, &key.0)
    }

    /// The same as [`VaryRule::matches`], for the bytes of a key.
    pub fn matches_octets(&self, fields: &Fields, key: &[u8]) -> bool {
        // A selecting field is always in the key of its variant. A rule that does not name it
        // therefore belongs to requests without it.
        if !self.as_sent && is_beyond(fields, self.names()) {
            return false;
        }
        let mut rest = key;
        let mut other_languages = false;
        for name in self.names() {
            let Some((stored, after)) = split_part(rest) else { return false };
            rest = after;
            if self.value(fields, name).as_deref() != stored {
                if !name.eq_ignore_ascii_case(ACCEPT_LANGUAGE.as_bytes()) {
                    return false;
                }
                other_languages = true;
            }
        }
        if rest.is_empty() {
            return !other_languages;
        }
        // The language of the response follows the values of the rule's fields.
        match split_part(rest) {
            Some((Some(language), [])) if self.as_sent && self.selects_on(ACCEPT_LANGUAGE.as_bytes()) => {
                !other_languages || favourite(fields, ACCEPT_LANGUAGE).as_deref() == Some(language)
            }
            _ => false,
        }
    }

    /// The value of `name` in the form in which it is compared.
    fn value(&self, fields: &Fields, name: &[u8]) -> Option<Bytes> {
        if self.as_sent { meaning(fields, name) } else { normalised_value(fields, name) }
    }

    fn sorted(mut names: Vec<Bytes>, as_sent: bool) -> Self {
        names.sort_unstable();
        names.dedup();
        Self { names: (!names.is_empty()).then(|| names.into()), as_sent }
    }
}

const ACCEPT_LANGUAGE: &str = "Accept-Language";

/// Appends a value with its length. An absent field has the length `u32::MAX`, which no value in a
/// limited head reaches, so it differs from an empty value.
fn push_part(key: &mut Vec<u8>, value: Option<&[u8]>) {
    let length = value.map_or(u32::MAX, |value| u32::try_from(value.len()).unwrap_or(u32::MAX - 1));
    key.extend_from_slice(&length.to_be_bytes());
    key.extend_from_slice(value.unwrap_or_default());
}

/// The first value of a key, and the rest of the key. A value of `None` is an absent field.
fn split_part(key: &[u8]) -> Option<(Option<&[u8]>, &[u8])> {
    let (length, rest) = key.split_first_chunk::<4>()?;
    match u32::from_be_bytes(*length) {
        u32::MAX => Some((None, rest)),
        length => rest.split_at_checked(length as usize).map(|(value, rest)| (Some(value), rest)),
    }
}

/// The meaning of a field forwarded as sent, for comparison (RFC 9111 section 4.1); `None` if the
/// request does not have the field.
///
/// Lines are joined. Space around commas is dropped if the field may be a list. Lists of
/// preferences have one canonical form.
fn meaning(fields: &Fields, name: &[u8]) -> Option<Bytes> {
    let name = std::str::from_utf8(name).ok()?;
    let is = |known: &&str| name.eq_ignore_ascii_case(known);
    if PREFERENCES.iter().any(is)
        && let Some(canonical) = canonical(fields, name)
    {
        return Some(canonical);
    }
    let mut lines = fields.all(name);
    let first = lines.next()?;
    let joined = lines.fold(first.to_vec(), |joined, line| [&joined[..], b",", line].concat());
    Some(Bytes::from(if NO_LISTS.iter().any(is) { joined } else { without_space_around_commas(&joined) }))
}

/// Fields that list the client's preferences.
const PREFERENCES: &[&str] = &["Accept-Charset", names::ACCEPT_ENCODING, ACCEPT_LANGUAGE];

/// Fields in which a comma does not separate list members.
const NO_LISTS: &[&str] =
    &[names::AUTHORIZATION, names::COOKIE, names::DATE, "From", "Referer", names::USER_AGENT];

/// The value without spaces and tabs beside commas, except inside quoted strings.
fn without_space_around_commas(value: &[u8]) -> Vec<u8> {
    let mut evened = Vec::with_capacity(value.len());
    let mut quoted = false;
    let mut escaped = false;
    let mut rest = value;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b',' if !quoted => {
                evened.truncate(evened.trim_ascii_end().len());
                rest = rest.trim_ascii_start();
            }
            _ => {}
        }
        evened.push(byte);
    }
    evened
}

/// The value of `name` for comparing and forwarding; `None` if the request does not have the field.
///
/// Lines are joined and space around commas is made uniform. `Accept-Encoding` is reduced to one of
/// two values.
pub(crate) fn normalised_value(fields: &Fields, name: &[u8]) -> Option<Bytes> {
    if name.eq_ignore_ascii_case(names::ACCEPT_ENCODING.as_bytes()) {
        return Some(Bytes::from_static(AcceptedCodings::of(fields).offer().as_bytes()));
    }
    let name = std::str::from_utf8(name).ok()?;
    if !fields.has(name) {
        return None;
    }
    if name.eq_ignore_ascii_case(names::COOKIE) {
        // Cookie is not a list. In a request for a look-up it is one line with the keyed cookies.
        return fields.first(name).cloned();
    }
    if is_selecting(name.as_bytes()) {
        // URLs and text that visitors type may contain commas.
        let lines: Vec<_> = fields.all(name).map(|line| &line[..]).collect();
        return Some(Bytes::from(lines.join(&b", "[..])));
    }
    let members: Vec<_> = fields.list(name).collect();
    Some(Bytes::from(members.join(&b", "[..])))
}

#[cfg(test)]
mod tests {
    use super::{VARY_NAMES_MAX, VaryRule};
    use crate::Reason;
    use message::Fields;
    use profiles::Policy;

    fn fields(lines: &[(&'static str, &'static str)]) -> Fields {
        lines.iter().copied().collect()
    }

    fn rule(lines: &[(&'static str, &'static str)]) -> Result<VaryRule, Reason> {
        VaryRule::from_response(&fields(lines), &Policy::default_profile())
    }

    #[test]
    fn star_and_invalid_names_are_refused() {
        for value in ["*", "*, *", ", *", "Foo, *", "*, Foo", "a b", "\"Foo\""] {
            assert_eq!(rule(&[("Vary", value)]), Err(Reason::StoreRefusedVaryStar), "{value}");
        }
        assert_eq!(rule(&[("Vary", ""), ("Vary", "*")]), Err(Reason::StoreRefusedVaryStar));
        assert_eq!(rule(&[("Vary", "x-forwarded-for")]), Err(Reason::StoreRefusedVaryAddress));
    }

    #[test]
    fn names_are_a_set_without_constant_fields() {
        let rule = rule(&[
            ("Vary", "User-Agent, Cookie"),
            ("vary", "accept-encoding,user-agent, Host, Authorization"),
            ("Content-Encoding", "br"),
        ]);
        assert_eq!(rule.unwrap().names(), ["accept-encoding", "user-agent"]);
    }

    #[test]
    fn too_many_names_are_refused() {
        let value: String = (0..=VARY_NAMES_MAX).map(|n| format!("f{n},")).collect();
        let mut section = Fields::new();
        section.push("Vary", value);
        assert_eq!(
            VaryRule::from_response(&section, &Policy::default_profile()),
            Err(Reason::StoreRefusedVaryStar)
        );
    }

    #[test]
    fn coded_response_varies_on_accept_encoding() {
        for coding in ["br", "zstd", "deflate", "gzip, gzip", "br, gzip"] {
            assert_eq!(
                rule(&[("Content-Encoding", coding)]).unwrap().names(),
                ["accept-encoding"],
                "{coding}"
            );
        }
        for coding in ["identity", "gzip", "X-GZIP", "identity, gzip"] {
            let rule = rule(&[("Content-Encoding", coding), ("Vary", "Accept-Encoding")]);
            assert!(rule.unwrap().names().is_empty(), "{coding}");
        }
        assert!(rule(&[("Vary", "Accept-Encoding")]).unwrap().names().is_empty());
    }

    #[test]
    fn values_are_normalised_and_absent_differs_from_empty() {
        let rule = rule(&[("Vary", "Foo, Bar")]).unwrap();
        let key = |lines: &[(&'static str, &'static str)]| rule.key(&fields(lines));
        assert_eq!(key(&[("Foo", "1,2")]), key(&[("FOO", "1"), ("foo", " 2 ")]));
        assert_ne!(key(&[("Foo", "")]), key(&[]));
        assert_ne!(key(&[("Foo", "1")]), key(&[("Bar", "1")]));
        assert_ne!(key(&[("Foo", "1")]), key(&[("Foo", "2")]));
        assert!(rule.matches(&fields(&[("Foo", "1, 2")]), &key(&[("Foo", "1,2")])));
        assert!(!rule.matches(&fields(&[("Foo", "1")]), &key(&[("Foo", "1,2")])));
        assert!(!rule.matches(&fields(&[("Foo", "1")]), &VaryRule::default().key(&Fields::new())));
        assert!(!VaryRule::default().matches(&Fields::new(), &key(&[("Foo", "1")])));
    }

    #[test]
    fn union_selects_on_both_rules() {
        let union = rule(&[("Vary", "b, c")]).unwrap().union(&rule(&[("Vary", "a, b")]).unwrap());
        assert_eq!(union.names(), ["a", "b", "c"]);
        assert!(union.selects_on(b"A") && !union.selects_on(b"d"));
    }

    fn letter(vary: &'static str) -> VaryRule {
        VaryRule::from_response(&fields(&[("Vary", vary)]), &Policy::rfc()).unwrap()
    }

    /// Whether a response fetched with the value `one` answers a request with the value `other`.
    fn answers(rule: &VaryRule, name: &'static str, one: &'static str, other: &'static str) -> bool {
        rule.matches(&fields(&[(name, other)]), &rule.key(&fields(&[(name, one)])))
    }

    #[test]
    fn rfc_profile_selects_on_every_forwarded_field() {
        let rule = letter(
            "Cookie, Authorization, Host, Range, Via, X-Forwarded-Host, X-Rewrite-URL, True-Client-IP, Foo",
        );
        assert_eq!(rule.names(), ["authorization", "cookie", "foo", "true-client-ip"]);
        for address in ["X-Forwarded-For", "Forwarded", "X-Real-IP"] {
            let refused = VaryRule::from_response(&fields(&[("Vary", address)]), &Policy::rfc());
            assert_eq!(refused, Err(Reason::StoreRefusedVaryAddress), "{address}");
        }
        for (name, one, other) in [
            ("Cookie", "a=b", "a=c"),
            ("Authorization", "x", "y"),
            ("Cookie", "a=1,2", "a=1, 2"),
            ("Foo", "1,2", "2,1"),
            ("Foo", "a", "A"),
            ("Foo", "\"1, 2\"", "\"1,2\""),
            ("Foo", "1,,2", "1,2"),
        ] {
            assert!(!answers(&rule, name, one, other), "{name}: {one} and {other}");
            assert!(answers(&rule, name, one, one), "{name}: {one}");
        }
        let two = fields(&[("foo", "1"), ("Foo", "2")]);
        assert!(rule.matches(&two, &rule.key(&fields(&[("Foo", "1 ,2")]))));
        assert!(!rule.matches(&Fields::new(), &rule.key(&fields(&[("Foo", "")]))));
    }

    #[test]
    fn rfc_profile_compares_preferences_by_meaning() {
        let rule = letter("Accept-Language, Accept-Encoding");
        for other in ["de, en", "eN, De", " en ,   de", "en;q=1.0,de"] {
            assert!(answers(&rule, "Accept-Language", "en, de", other), "{other}");
        }
        for other in ["en", "en, de;q=0.9", "en, de, *"] {
            assert!(!answers(&rule, "Accept-Language", "en, de", other), "{other}");
        }
        assert!(answers(&rule, "Accept-Encoding", "gzip, br", "BR, gzip"));
        assert!(!answers(&rule, "Accept-Encoding", "gzip, br", "gzip, br, zstd"));
        // A list that cannot be read is compared byte by byte, except for space around commas.
        assert!(!answers(&rule, "Accept-Language", "en;x, de", "de, en;x"));
        assert!(answers(&rule, "Accept-Language", "en;x, de", "en;x,de"));
    }

    #[test]
    fn response_in_the_favourite_language_answers() {
        let rule = letter("Accept-Language, Foo");
        let german = fields(&[("Content-Language", "DE")]);
        let key = rule.stored_key(&fields(&[("Accept-Language", "en, de")]), &german);
        let matches = |language| rule.matches(&fields(&[("Accept-Language", language)]), &key);
        assert!(matches("de, en") && matches("fr;q=0.5, de;q=1.0") && matches("de"));
        assert!(!matches("de;q=0.5, fr") && !matches("de, fr") && !matches("en") && !matches("*"));
        let other = fields(&[("Accept-Language", "de"), ("Foo", "1")]);
        assert!(!rule.matches(&other, &key), "the other fields must be the same");
        // The language was not negotiated if the request did not accept it, or the response has
        // several.
        for (asked, content) in [("fr", "de"), ("en, de", "de, en"), ("en, de;q=0", "de")] {
            let asked = fields(&[("Accept-Language", asked)]);
            let stored = rule.stored_key(&asked, &fields(&[("Content-Language", content)]));
            assert_eq!(stored, rule.key(&asked));
        }
        // With a keyed policy the key consists of the forwarded values only.
        let strict = self::rule(&[("Vary", "Accept-Language")]).unwrap();
        let asked = fields(&[("Accept-Language", "en, de")]);
        assert_eq!(strict.stored_key(&asked, &german), strict.key(&asked));
    }

    #[test]
    fn key_of_another_rule_never_matches() {
        let short = letter("Accept-Language");
        let long = letter("Accept-Language, Foo");
        let asked = fields(&[("Accept-Language", "de"), ("Foo", "1")]);
        assert!(!VaryRule::default().matches(&asked, &short.key(&asked)));
        assert!(!long.matches(&asked, &short.key(&asked)));
    }
}
