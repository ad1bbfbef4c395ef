//! Tag expressions: clients that were written for bans send regular expressions where tags are
//! meant. Nearly all of them are lists of tags, written as an expression over the joined header
//! field.
//!
//! Invariant: a recognised tag is matched whole, so `node:1` never means `node:10`. A text in none
//! of the known forms is compiled as an expression, so that a purge misses nothing that was meant.

use crate::malformed::MalformedFault;
use crate::pattern::BanPattern;
use crate::tag_headers::Syntax;
use crate::tags::{checked, listed};
use bytes::Bytes;

/// The meaning of a tag expression.
#[derive(Clone, Debug, PartialEq)]
pub enum TagExpression {
    /// Responses with any of these tags.
    AnyOf(Vec<Bytes>),
    /// All responses: `.*`.
    Everything,
    /// Responses with a match in one tag, or in all tags in alphabetical order joined by commas.
    Pattern(BanPattern),
}

/// Bytes that make a text more than a plain list.
const SPECIAL: &[u8] = br"\^$()[]{}*";

impl TagExpression {
    /// Reads an expression.
    ///
    /// # Errors
    /// [`MalformedFault`] if the text is empty, exceeds a limit of tags, or is not a usable regular
    /// expression.
    pub fn parse(text: &[u8]) -> Result<Self, MalformedFault> {
        let text = text.trim_ascii();
        if matches!(text, b".*" | b"*" | b"^.*$") {
            return Ok(Self::Everything);
        }
        if !text.iter().any(|octet| SPECIAL.contains(octet)) {
            return listed(text, Syntax::Expression, "").map(Self::AnyOf);
        }
        if let Some(tags) = TagParser::whole(text) {
            return checked(tags).map(Self::AnyOf);
        }
        Ok(Self::Pattern(BanPattern::compile(text)?))
    }
}

/// Parses the known forms:
///
/// ```text
/// alternatives = alternative *( "|" alternative )
/// alternative  = boundary body boundary / body [ "(,.+)?$" ] / boundary tag "\{[^}]*," number ","
/// boundary     = "^" / "$" / "\b" / "(" edge *( "|" edge ) ")"
/// edge         = "^" / "$" / "," / " " / "\s" / "\{"
/// body         = tag / "(" alternatives ")"
/// ```
///
/// An alternative with a boundary on one side only is not one of them: it matches the beginnings or
/// ends of tags, not whole tags.
struct TagParser<'a> {
    rest: &'a [u8],
    groups_open: u32,
}

/// Follows the tags in a form of TYPO3's mkvarnish: more tags may come after them.
const OTHERS_FOLLOW: &[u8] = b"(,.+)?$";
/// Follows a table's name in another form of mkvarnish: numbers in a short form, as in
/// `pages{,1,7,}`.
const NUMBERS_FOLLOW: &[u8] = br"\{[^}]*,";

/// Deepest nesting of groups. The known forms need two.
const GROUPS_MAX: u32 = 8;

impl<'a> TagParser<'a> {
    /// The tags, if all of `text` has one of the known forms.
    fn whole(text: &'a [u8]) -> Option<Vec<Bytes>> {
        let mut reader = Self { rest: text, groups_open: 0 };
        let tags = reader.alternatives()?;
        reader.rest.is_empty().then_some(tags)
    }

    fn alternatives(&mut self) -> Option<Vec<Bytes>> {
        let mut tags = self.alternative()?;
        while self.take(b"|") {
            tags.append(&mut self.alternative()?);
        }
        Some(tags)
    }

    fn alternative(&mut self) -> Option<Vec<Bytes>> {
        let begins = self.boundary();
        if let Some(tags) = self.group() {
            return self.ends_like(begins).then_some(tags);
        }
        let tag = self.tag()?;
        if begins && self.take(NUMBERS_FOLLOW) {
            let number = self.tag()?;
            return self.take(b",").then(|| vec![Bytes::from([&tag[..], b"_", &number].concat())]);
        }
        self.ends_like(begins).then(|| vec![Bytes::from(tag)])
    }

    /// Whether the end of a body fits its beginning: a boundary on both sides, or on neither. A
    /// body without boundaries may end with [`OTHERS_FOLLOW`].
    fn ends_like(&mut self, begins: bool) -> bool {
        if begins { self.boundary() } else { self.take(OTHERS_FOLLOW) || !self.boundary() }
    }

    fn group(&mut self) -> Option<Vec<Bytes>> {
        if self.groups_open == GROUPS_MAX || !self.take(b"(") {
            return None;
        }
        self.take(b"?:");
        self.groups_open += 1;
        let tags = self.alternatives()?;
        self.groups_open -= 1;
        self.take(b")").then_some(tags)
    }

    /// Consumes a boundary if one is next.
    fn boundary(&mut self) -> bool {
        if self.take(b"^") || self.take(b"$") || self.take(br"\b") {
            return true;
        }
        let before = self.rest;
        let complete = self.take(b"(") && self.edges();
        if !complete {
            self.rest = before;
        }
        complete
    }

    /// Consumes the edges of a boundary, up to its end. One of them must be `^` or `$`, because
    /// without it the group could be a list of tags.
    fn edges(&mut self) -> bool {
        self.take(b"?:");
        let mut has_edge_of_text = false;
        loop {
            if self.take(b"^") || self.take(b"$") {
                has_edge_of_text = true;
            } else if ![&b","[..], b" ", br"\s", br"\{"].into_iter().any(|edge| self.take(edge)) {
                return false;
            }
            if !self.take(b"|") {
                return self.take(b")") && has_edge_of_text;
            }
        }
    }

    /// One tag with its escapes resolved. A dot is taken literally, even where the client did not
    /// escape it.
    fn tag(&mut self) -> Option<Vec<u8>> {
        let mut tag = Vec::new();
        loop {
            match *self.rest {
                [b'\\', escaped, ref rest @ ..]
                    if !escaped.is_ascii_alphanumeric() && !self.rest.starts_with(NUMBERS_FOLLOW) =>
                {
                    tag.push(escaped);
                    self.rest = rest;
                }
                [octet, ref rest @ ..] if !SPECIAL.contains(&octet) && !b"|, \t+?".contains(&octet) => {
                    tag.push(octet);
                    self.rest = rest;
                }
                _ => return (!tag.is_empty()).then_some(tag),
            }
        }
    }

    fn take(&mut self, text: &[u8]) -> bool {
        self.rest.strip_prefix(text).map(|rest| self.rest = rest).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::TagExpression;
    use crate::malformed::MalformedFault;
    use crate::tag_headers::{TAG_BYTES_MAX, TAGS_MAX};

    fn any_of(text: &str) -> Vec<String> {
        match TagExpression::parse(text.as_bytes()) {
            Ok(TagExpression::AnyOf(tags)) => tags.iter().map(|tag| tag.escape_ascii().to_string()).collect(),
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn lists_written_as_expressions_are_read_as_tags() {
        for (text, tags) in [
            // Drupal, as the bundled and the zero-configuration purger write them.
            ("node:1|node_list|rendered", &["node:1", "node_list", "rendered"][..]),
            ("node:1 node_list 4xx-response", &["node:1", "node_list", "4xx-response"]),
            ("config:system.menu.main", &["config:system.menu.main"]),
            // FOSHttpCache and Symfony.
            (r"(^|,)(tag\-1|tag2)(,|$)", &["tag-1", "tag2"]),
            (r"(^|,)(user\:1)(,|$)", &["user:1"]),
            ("a,b,c", &["a", "b", "c"]),
            // Magento.
            ("((^|,)cat_p_1(,|$))|((^|,)cms_b_2(,|$))", &["cat_p_1", "cms_b_2"]),
            ("cat_p_1|cat_p_2", &["cat_p_1", "cat_p_2"]),
            // Proxy Cache Purge.
            ("(^|,)p-123(,|$)", &["p-123"]),
            ("(^|,)p-123(,|$)|(^|,)home(,|$)", &["p-123", "home"]),
            (r"\bp-123\b", &["p-123"]),
            (r"\bp\-123\b|\bhome\b", &["p-123", "home"]),
            // TYPO3's mkvarnish, old and new.
            (r"(pages|tt_content_5)(,.+)?$", &["pages", "tt_content_5"]),
            (r"(^|,)pages(\{|,|$)", &["pages"]),
            (r"(^|,)tt_content\{[^}]*,5,", &["tt_content_5"]),
            // Written by hand.
            (r"^a\.b$", &["a.b"]),
            (r"(?:^|,)(?:a|b)(?:,|$)", &["a", "b"]),
            (r"(^|\s)a(\s|$)", &["a"]),
            (r"a\\b\|c", &[r"a\\b|c"]),
            ("c++?", &["c++?"]),
        ] {
            assert_eq!(any_of(text), tags, "{text}");
        }
    }

    #[test]
    fn everything_is_recognised() {
        for text in [".*", "*", " .* ", "^.*$"] {
            assert_eq!(TagExpression::parse(text.as_bytes()), Ok(TagExpression::Everything), "{text}");
        }
    }

    #[test]
    fn expressions_that_are_no_lists_are_compiled() {
        for text in [
            "^node:",
            "node:[0-9]+",
            "(^|,)node:.*(,|$)",
            "(a|b)$",
            r"(^|,)x\d(,|$)",
            "((((((((((a))))))))))",
        ] {
            match TagExpression::parse(text.as_bytes()) {
                Ok(TagExpression::Pattern(pattern)) => assert_eq!(pattern.as_str(), text),
                other => panic!("{text}: {other:?}"),
            }
        }
    }

    #[test]
    fn empty_broken_or_oversized_expressions_are_refused() {
        for text in ["", "  ", ",,", "||"] {
            assert_eq!(
                TagExpression::parse(text.as_bytes()),
                Err(MalformedFault::Missing("at least one tag")),
                "{text:?}"
            );
        }
        for text in ["(a", "a)", "[", r"a\", "(?=a)", "(^|,)a(,|$"] {
            assert!(
                matches!(TagExpression::parse(text.as_bytes()), Err(MalformedFault::Pattern(_))),
                "{text}"
            );
        }
        let many = |count: usize| vec!["(^|,)a(,|$)"; count].join("|");
        assert!(TagExpression::parse(many(TAGS_MAX).as_bytes()).is_ok());
        assert_eq!(TagExpression::parse(many(TAGS_MAX + 1).as_bytes()), Err(MalformedFault::TooManyTags));
        let long = format!("^{}$", "a".repeat(TAG_BYTES_MAX + 1));
        assert_eq!(TagExpression::parse(long.as_bytes()), Err(MalformedFault::TagTooLong));
    }
}
