//! Lists of weighted client preferences (RFC 9110 section 12.4.2): languages, codings, character
//! sets.
//!
//! Invariant: two lists have the same canonical form only if RFC 9110 gives both the same meaning.
//! Names ignore case, the order does not matter, and a missing weight is the weight 1. A list that
//! cannot be read has no canonical form.

use bytes::Bytes;
use message::{Fields, list_members};

/// One member: its name in lower case, and its weight in thousandths.
type Preference = (Vec<u8>, u16);

/// The canonical form of the list; `None` if the field is absent or cannot be read.
pub(crate) fn canonical(fields: &Fields, name: &str) -> Option<Bytes> {
    let mut preferences = parse(fields, name)?;
    preferences.sort_unstable_by(|(one, weight), (other, heavier)| heavier.cmp(weight).then(one.cmp(other)));
    preferences.dedup();
    let written: Vec<_> = preferences
        .iter()
        .map(|(name, weight)| [&name[..], format!(";{weight}").as_bytes()].concat())
        .collect();
    Some(Bytes::from(written.join(&b',')))
}

/// The one member preferred to all others, in lower case. `None` if there is not exactly one, and
/// if it is `*`.
pub(crate) fn favourite(fields: &Fields, name: &str) -> Option<Vec<u8>> {
    let preferences = parse(fields, name)?;
    let top = preferences.iter().map(|(_, weight)| *weight).max().filter(|weight| *weight > 0)?;
    let mut favourites = preferences.into_iter().filter(|(_, weight)| *weight == top).map(|(name, _)| name);
    match (favourites.next(), favourites.next()) {
        (Some(name), None) if name != b"*" => Some(name),
        _ => None,
    }
}

/// Whether `member`, in lower case, is listed with a weight above zero.
pub(crate) fn accepts(fields: &Fields, name: &str, member: &[u8]) -> bool {
    parse(fields, name)
        .is_some_and(|preferences| preferences.iter().any(|(listed, weight)| listed == member && *weight > 0))
}

fn parse(fields: &Fields, name: &str) -> Option<Vec<Preference>> {
    if !fields.has(name) {
        return None;
    }
    fields.all(name).flat_map(|value| list_members(value)).map(preference).collect()
}

/// Reads `name` or `name;q=0.5`, with space around the semicolon.
fn preference(member: &[u8]) -> Option<Preference> {
    let mut parts = member.splitn(2, |&byte| byte == b';');
    let name = parts.next()?.trim_ascii().to_ascii_lowercase();
    let weight = match parts.next() {
        Some(parameter) => thousandths(parameter.trim_ascii())?,
        None => 1_000,
    };
    (!name.is_empty()).then_some((name, weight))
}

/// The weight in thousandths of a parameter such as `q=0.25`.
fn thousandths(parameter: &[u8]) -> Option<u16> {
    let (name, value) = parameter.split_at_checked(2)?;
    if !name.eq_ignore_ascii_case(b"q=") {
        return None;
    }
    let (whole, fraction) = match value {
        [whole @ (b'0' | b'1')] => (*whole, &[][..]),
        [whole @ (b'0' | b'1'), b'.', fraction @ ..] if fraction.len() <= 3 => (*whole, fraction),
        _ => return None,
    };
    let mut places = fraction.iter().copied().chain(std::iter::repeat(b'0')).take(3);
    let thousandths = places
        .try_fold(0u16, |sum, digit| digit.is_ascii_digit().then(|| sum * 10 + u16::from(digit - b'0')))?;
    let weight = u16::from(whole - b'0') * 1_000 + thousandths;
    (weight <= 1_000).then_some(weight)
}

#[cfg(test)]
mod tests {
    use super::{accepts, canonical, favourite};
    use message::Fields;

    const NAME: &str = "Accept-Language";

    fn fields(values: &[&'static str]) -> Fields {
        let mut fields = Fields::new();
        values.iter().for_each(|value| fields.push(NAME, *value));
        fields
    }

    #[test]
    fn lists_of_one_meaning_have_one_canonical_form() {
        let written = |values: &[&'static str]| canonical(&fields(values), NAME).unwrap();
        let plain = written(&["en, de"]);
        for same in [&["de, en"][..], &["eN,De"], &["de", "en"], &["en;q=1, de ; q=1.000"], &["en, de, en"]] {
            assert_eq!(written(same), plain, "{same:?}");
        }
        for other in [&["en"][..], &["en, de;q=0.9"], &["en-us, de"], &["en, de, *"], &[""]] {
            assert_ne!(written(other), plain, "{other:?}");
        }
        assert_eq!(written(&["de;q=0.5, en"]), written(&["en, de;Q=0.50"]));
    }

    #[test]
    fn unreadable_list_has_no_canonical_form() {
        for value in ["en;q=2", "en;q=1.1", "en;q=0.1234", "en;x=1", ";q=1", "en;q=", "en;q=a", "en;q"] {
            assert_eq!(canonical(&fields(&[value]), NAME), None, "{value}");
        }
        assert_eq!(canonical(&Fields::new(), NAME), None);
    }

    #[test]
    fn favourite_must_be_unique() {
        let of = |value| favourite(&fields(&[value]), NAME);
        assert_eq!(of("fr;q=0.5, DE;q=1.0"), Some(b"de".to_vec()));
        for value in ["en, de", "*", "de;q=0", "", "fr;q=0.5, *"] {
            assert_eq!(of(value), None, "{value}");
        }
    }

    #[test]
    fn zero_weight_is_not_accepted() {
        let sent = fields(&["en, de;q=0.1, fr;q=0"]);
        assert!(accepts(&sent, NAME, b"en") && accepts(&sent, NAME, b"de"));
        assert!(!accepts(&sent, NAME, b"fr") && !accepts(&sent, NAME, b"it"));
    }
}
