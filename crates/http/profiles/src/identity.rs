//! The identity of a page: the number of the post that it shows, as a response field states it.
//!
//! Invariant: an identity is a run of ASCII digits between two texts, so that no other part of the
//! field is mistaken for one.

use crate::Pattern;

/// Longest identity in digits; a longer number is not an identity.
const DIGITS_MAX: usize = 20;

/// A rule for the one post that a page shows. After a write to one post the pages of other posts
/// stay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdentityRule {
    /// The field's name.
    pub name: String,
    /// The number in a line of the field.
    pub number: NumberPattern,
    /// Paths of files, which no write to a post changes.
    pub except: Vec<Pattern>,
}

/// A number between two texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NumberPattern {
    before: String,
    after: String,
}

impl IdentityRule {
    /// Reads `NAME: *TEXT{id}TEXT*`.
    pub(crate) fn parse(text: &str, except: Vec<Pattern>) -> Result<Self, String> {
        let fault =
            || format!("an [[identity]] has the field `{text}`; write it as `Name: *text{{id}}text*`");
        let (name, value) = text.split_once(": ").filter(|(name, _)| !name.is_empty()).ok_or_else(fault)?;
        let number = NumberPattern::parse(value).ok_or_else(fault)?;
        Ok(Self { name: name.to_owned(), number, except })
    }
}

impl NumberPattern {
    /// Reads `*TEXT{id}TEXT*`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (before, after) = text.split_once("{id}")?;
        let (before, after) = (before.strip_prefix('*')?, after.strip_suffix('*')?);
        let is_text = |text: &str| !text.is_empty() && !text.contains(['*', '{']);
        (is_text(before) && is_text(after))
            .then(|| Self { before: before.to_owned(), after: after.to_owned() })
    }

    /// The first number between the two texts.
    pub fn find<'a>(&self, text: &'a [u8]) -> Option<&'a [u8]> {
        let (before, after) = (self.before.as_bytes(), self.after.as_bytes());
        let starts =
            (0..text.len()).filter(|start| text.get(*start..).is_some_and(|rest| rest.starts_with(before)));
        starts.filter_map(|start| text.get(start + before.len()..)).find_map(|rest| {
            let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
            let (number, rest) = rest.split_at(digits);
            (is_identity(number) && rest.starts_with(after)).then_some(number)
        })
    }
}

/// Whether a text is a valid identity.
pub fn is_identity(text: &[u8]) -> bool {
    !text.is_empty() && text.len() <= DIGITS_MAX && text.iter().all(u8::is_ascii_digit)
}

#[cfg(test)]
mod tests {
    use super::IdentityRule;

    #[test]
    fn identity_is_the_number_between_two_texts() {
        let rule = IdentityRule::parse("Link: *?p={id}>; rel=shortlink*", Vec::new()).unwrap();
        for (line, expected) in [
            ("<http://a.test/?p=5>; rel=shortlink", Some("5")),
            ("<http://a.test/?p=x>, <http://a.test/blog/?p=17>; rel=shortlink, <y>", Some("17")),
            ("<http://a.test/?p=5>; rel=canonical", None),
            ("<http://a.test/?p=>; rel=shortlink", None),
            ("<http://a.test/?p=5&x>; rel=shortlink", None),
            ("<http://a.test/?p=123456789012345678901>; rel=shortlink", None),
            ("", None),
        ] {
            assert_eq!(rule.number.find(line.as_bytes()), expected.map(str::as_bytes), "{line}");
        }
    }

    #[test]
    fn identity_rule_needs_texts_around_the_number() {
        for text in [
            "Link",
            "Link: x",
            "Link: *{id}*",
            "Link: *a{id}*",
            "Link: a{id}b*",
            ": *a{id}b*",
            "L: *a*{id}b*",
        ] {
            assert!(IdentityRule::parse(text, Vec::new()).is_err(), "{text}");
        }
    }
}
