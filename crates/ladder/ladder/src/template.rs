//! Texts with `{variables}`.
//!
//! Invariants:
//!
//! * A variable's name consists of lower-case letters, digits and `_`, and begins with a letter.
//!   All other braces stay, so JSON and shell code need no escaping.
//! * A name in double braces, as in `{{name}}`, is the literal text `{name}`.
//! * The ladder's reader checks that each variable exists, so expanding cannot fail.

use std::collections::BTreeMap;

/// A text, parsed once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template(Vec<Piece>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Literal(String),
    Variable(String),
}

/// Values of variables by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Variables(BTreeMap<String, String>);

impl Template {
    /// Parses a text; every text is a valid template.
    pub fn parse(text: &str) -> Self {
        let mut pieces = Vec::new();
        let mut literal = String::new();
        let mut rest = text;
        while let Some(open) = rest.find('{') {
            let (before, from) = rest.split_at(open);
            literal.push_str(before);
            let doubled = from.strip_prefix("{{").and_then(name_before_brace);
            if let Some((name, after)) =
                doubled.and_then(|(name, after)| Some((name, after.strip_prefix('}')?)))
            {
                literal.push_str(&format!("{{{name}}}"));
                rest = after;
            } else if let Some((name, after)) = from.strip_prefix('{').and_then(name_before_brace) {
                pieces.push(Piece::Literal(std::mem::take(&mut literal)));
                pieces.push(Piece::Variable(name.to_owned()));
                rest = after;
            } else {
                literal.push('{');
                rest = from.strip_prefix('{').unwrap_or_default();
            }
        }
        literal.push_str(rest);
        pieces.push(Piece::Literal(literal));
        pieces.retain(|piece| !matches!(piece, Piece::Literal(text) if text.is_empty()));
        Self(pieces)
    }

    /// Names of the variables in the text, in order of occurrence.
    pub fn variables(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|piece| match piece {
            Piece::Variable(name) => Some(name.as_str()),
            Piece::Literal(_) => None,
        })
    }

    /// Replaces the variables by their values. A variable without a value stays as it was written.
    pub fn expand(&self, variables: &Variables) -> String {
        let piece = |piece: &Piece| match piece {
            Piece::Literal(text) => text.clone(),
            Piece::Variable(name) => {
                let value = variables.0.get(name);
                debug_assert!(value.is_some(), "`{name}` was checked when the ladder was read");
                value.cloned().unwrap_or_else(|| format!("{{{name}}}"))
            }
        };
        self.0.iter().map(piece).collect()
    }
}

impl Variables {
    /// Sets the value of a variable.
    pub fn set(&mut self, name: &str, value: impl Into<String>) {
        self.0.insert(name.to_owned(), value.into());
    }

    /// Returns a copy with one more variable.
    #[must_use]
    pub fn with(&self, name: &str, value: impl Into<String>) -> Self {
        let mut more = self.clone();
        more.set(name, value);
        more
    }

    /// Returns the value of a variable; `None` if it has none.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }
}

/// Whether a text can be the name of a variable.
pub(crate) fn is_name(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_lowercase())
        && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}

/// Splits `name}rest` into name and rest.
fn name_before_brace(text: &str) -> Option<(&str, &str)> {
    text.split_once('}').filter(|(name, _)| is_name(name))
}

#[cfg(test)]
mod tests {
    use super::{Template, Variables};
    use proptest::prelude::{prop_assert_eq, proptest};

    fn expand(text: &str) -> String {
        let mut variables = Variables::default();
        variables.set("site", "127.0.0.1:80");
        variables.set("page_2", "/x");
        Template::parse(text).expand(&variables)
    }

    #[test]
    fn variables_are_replaced_and_other_braces_stay() {
        assert_eq!(expand("http://{site}{page_2}?q"), "http://127.0.0.1:80/x?q");
        assert_eq!(
            expand(r#"{"a": {"b": 1}} {} { site } {Site} ${X} {"#),
            r#"{"a": {"b": 1}} {} { site } {Site} ${X} {"#
        );
        assert_eq!(expand("{{site}} {{site} {site}}"), "{site} {127.0.0.1:80 127.0.0.1:80}");
    }

    #[test]
    fn variable_names_are_listed_in_order() {
        assert_eq!(Template::parse("{a}{{b}}{c_1}{D}").variables().collect::<Vec<_>>(), ["a", "c_1"]);
    }

    proptest! {
        #[test]
        fn text_without_variables_is_unchanged(text in "[^{]*") {
            prop_assert_eq!(Template::parse(&text).expand(&Variables::default()), text);
        }
    }
}
