//! The keys of one TOML table, read one after the other.
//!
//! Invariant: [`Keys`] marks a key as known when it is read, even if the table lacks the key.
//! [`Keys::finish`] reports all other keys.

use crate::nearest::nearest;
use crate::quantity::parse_duration;
use crate::reader::{Reader, decimal};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::{Range, RangeInclusive};
use std::time::Duration;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A value except a list or a table.
#[derive(Clone, Debug, PartialEq)]
pub enum Scalar {
    /// A text.
    Text(String),
    /// `true` or `false`.
    Flag(bool),
    /// A whole number.
    Integer(i64),
    /// Any other finite number.
    Float(f64),
}

/// The keys of one table. Reading a key marks it as known.
#[derive(Debug)]
pub struct Keys<'r, 't> {
    /// The file's text and the problems found in it.
    pub reader: &'r Reader,
    table: &'r DeTable<'t>,
    /// Place of the table; missing keys are reported here.
    pub span: Range<usize>,
    known: Vec<&'static str>,
}

/// The places of a table and of its values.
#[derive(Clone, Debug, Default)]
pub struct Places {
    table: Range<usize>,
    /// The place of each value and, for a list, the places of its elements.
    values: BTreeMap<String, (Range<usize>, Vec<Range<usize>>)>,
}

impl Places {
    /// The place of a value or, with `item`, of one element. If the table lacks the key, the place
    /// of the table.
    pub fn of(&self, key: &str, item: Option<usize>) -> Range<usize> {
        let Some((value, items)) = self.values.get(key) else { return self.table.clone() };
        item.and_then(|item| items.get(item)).unwrap_or(value).clone()
    }
}

impl<'r, 't> Keys<'r, 't> {
    /// The keys of `table`; none is known yet.
    pub fn new(reader: &'r Reader, table: &'r DeTable<'t>, span: Range<usize>) -> Self {
        Self { reader, table, span, known: Vec::new() }
    }

    /// Whether the table has the key.
    pub fn has(&self, key: &str) -> bool {
        self.table.get(key).is_some()
    }

    /// Returns the raw value of a key and marks the key as known.
    pub fn value(&mut self, key: &'static str) -> Option<&'r Spanned<DeValue<'t>>> {
        if !self.known.contains(&key) {
            self.known.push(key);
        }
        self.table.get(key)
    }

    /// The places of the table's values, for problems that are found after the table was read.
    pub fn places(&self) -> Places {
        let items = |value: &Spanned<DeValue<'_>>| {
            value
                .get_ref()
                .as_array()
                .map_or_else(Vec::new, |items| items.iter().map(Spanned::span).collect())
        };
        let value = |(key, value): (&Spanned<_>, &Spanned<DeValue<'_>>)| {
            let key: &Cow<'_, str> = key.get_ref();
            (key.to_string(), (value.span(), items(value)))
        };
        Places { table: self.span.clone(), values: self.table.iter().map(value).collect() }
    }

    /// Reads a key's value with `read`. If `read` returns `None`, the value is reported as being of
    /// the wrong kind.
    fn read<T>(
        &mut self,
        key: &'static str,
        expected: &str,
        read: impl FnOnce(&DeValue<'t>) -> Option<T>,
    ) -> Option<Spanned<T>> {
        let value = self.value(key)?;
        match read(value.get_ref()) {
            Some(found) => Some(Spanned::new(value.span(), found)),
            None => {
                self.wrong_kind(key, expected, value);
                None
            }
        }
    }

    fn wrong_kind(&self, key: &str, expected: &str, value: &Spanned<DeValue<'_>>) {
        let found = value.get_ref().type_str();
        self.reader.problem(
            value.span(),
            format!("`{key}` must be {expected}, but this is a TOML {found}"),
            "",
        );
    }

    /// Reads a text.
    pub fn text(&mut self, key: &'static str) -> Option<Spanned<String>> {
        self.read(key, "a text in quotes", |value| value.as_str().map(str::to_owned))
    }

    /// Reads a text that must exist and must not be empty.
    pub fn required_text(&mut self, key: &'static str, example: &str) -> Spanned<String> {
        let missing = self.table.get(key).is_none();
        if missing {
            self.missing(key, example);
        }
        let text = self.text(key).unwrap_or_else(|| Spanned::new(self.span.clone(), String::new()));
        if !missing && text.get_ref().is_empty() && self.table.get(key).is_some_and(|v| v.get_ref().is_str())
        {
            self.reader.problem(
                text.span(),
                format!("`{key}` is empty"),
                &format!("write for example {example}"),
            );
        }
        text
    }

    /// Reports that a key is missing from this table.
    pub fn missing(&self, key: &str, example: &str) {
        self.reader.problem(self.span.clone(), format!("`{key}` is missing"), &format!("add {example}"));
    }

    /// Reads `true` or `false`.
    pub fn flag(&mut self, key: &'static str) -> Option<bool> {
        self.read(key, "true or false", DeValue::as_bool).map(Spanned::into_inner)
    }

    /// Reads a whole number within `range`.
    pub fn count(&mut self, key: &'static str, range: RangeInclusive<u64>) -> Option<u64> {
        let value = self.value(key)?;
        count_of(self.reader, key, value, range)
    }

    /// Reads a list of whole numbers within `range`.
    pub fn counts(&mut self, key: &'static str, range: RangeInclusive<u64>) -> Option<Vec<u64>> {
        let items = self.items(key, "a list of whole numbers")?;
        Some(items.iter().filter_map(|item| count_of(self.reader, key, item, range.clone())).collect())
    }

    /// Reads a duration with its unit.
    pub fn duration(&mut self, key: &'static str) -> Option<Duration> {
        let text = self
            .read(key, "a duration in quotes, such as \"4s\"", |value| value.as_str().map(str::to_owned))?;
        match parse_duration(text.get_ref()) {
            Ok(duration) => Some(duration),
            Err(message) => {
                self.reader.problem(text.span(), message, "");
                None
            }
        }
    }

    /// Reads a text, a number or a boolean.
    pub fn scalar(&mut self, key: &'static str) -> Option<Scalar> {
        let found = self.read(key, "a text, a number, true or false", |value| match value {
            DeValue::String(text) => Some(Scalar::Text(text.to_string())),
            DeValue::Boolean(flag) => Some(Scalar::Flag(*flag)),
            DeValue::Integer(number) => decimal(number).parse().ok().map(Scalar::Integer),
            DeValue::Float(number) => finite(number.as_str()).map(Scalar::Float),
            _ => None,
        });
        found.map(Spanned::into_inner)
    }

    /// Reads a finite number.
    pub fn number(&mut self, key: &'static str) -> Option<f64> {
        let value = self.value(key)?;
        let found = match value.get_ref() {
            DeValue::Integer(number) => finite(&decimal(number)),
            DeValue::Float(number) => finite(number.as_str()),
            _ => {
                self.wrong_kind(key, "a number", value);
                return None;
            }
        };
        if found.is_none() {
            self.reader.problem(value.span(), format!("`{key}` must be a finite number"), "");
        }
        found
    }

    /// Reads one of several words. Any other word is reported as a problem, and the message
    /// suggests the nearest of `words`.
    pub fn word<T: Copy>(&mut self, key: &'static str, words: &[(&'static str, T)]) -> Option<T> {
        let text = self.text(key)?;
        let found = words.iter().find(|(word, _)| word == text.get_ref());
        if found.is_none() {
            let names = || words.iter().map(|(word, _)| *word);
            let help = match nearest(text.get_ref(), names()) {
                Some(known) => format!("did you mean `{known}`?"),
                None => format!("write {}", names().collect::<Vec<_>>().join(" or ")),
            };
            self.reader.problem(text.span(), format!("`{key}` cannot be `{}`", text.get_ref()), &help);
        }
        found.map(|(_, value)| *value)
    }

    /// Returns the elements of a list; `None` if the key is missing or not a list.
    pub fn items(&mut self, key: &'static str, expected: &str) -> Option<&'r [Spanned<DeValue<'t>>]> {
        let value = self.value(key)?;
        let items = value.get_ref().as_array();
        if items.is_none() {
            self.wrong_kind(key, expected, value);
        }
        items.map(|items| &**items)
    }

    /// Reads a list of texts.
    pub fn texts(&mut self, key: &'static str) -> Option<Vec<Spanned<String>>> {
        let items = self.items(key, "a list of texts")?;
        let text = |item: &Spanned<DeValue<'_>>| match item.get_ref().as_str() {
            Some(text) => Some(Spanned::new(item.span(), text.to_owned())),
            None => {
                self.wrong_kind(key, "a list of texts", item);
                None
            }
        };
        Some(items.iter().filter_map(text).collect())
    }

    /// Returns the texts of a table whose keys may have any name. `None` if the key is missing or
    /// not a table.
    pub fn named_texts(&mut self, key: &'static str) -> Option<Vec<(String, Spanned<String>)>> {
        let value = self.value(key)?;
        let Some(table) = value.get_ref().as_table() else {
            self.wrong_kind(key, "a table of texts, such as { name = \"text\" }", value);
            return None;
        };
        let mut texts = Vec::new();
        for (name, item) in table {
            match item.get_ref().as_str() {
                Some(text) => {
                    texts.push((name.get_ref().to_string(), Spanned::new(item.span(), text.to_owned())))
                }
                None => self.wrong_kind(key, "a table of texts", item),
            }
        }
        Some(texts)
    }

    /// Returns the tables of a list of tables.
    pub fn tables(&mut self, key: &'static str) -> Vec<Self> {
        let expected = format!("a list of tables, each begun by a line [[{key}]]");
        let items = self.items(key, &expected).unwrap_or_default();
        let keys = |item: &'r Spanned<DeValue<'t>>| match item.get_ref().as_table() {
            Some(table) => Some(Keys::new(self.reader, table, item.span())),
            None => {
                self.wrong_kind(key, &expected, item);
                None
            }
        };
        items.iter().filter_map(keys).collect()
    }

    /// Returns the keys of a nested table.
    pub fn table(&mut self, key: &'static str) -> Option<Self> {
        let value = self.value(key)?;
        let table = value.get_ref().as_table();
        if table.is_none() {
            self.wrong_kind(key, &format!("a table, begun by a line [{key}]"), value);
        }
        Some(Keys::new(self.reader, table?, value.span()))
    }

    /// Checks that exactly one of these keys is present, and reports a problem if not.
    pub fn exactly_one(&self, keys: &[&str], message: &str, help: &str) -> bool {
        let given = keys.iter().filter(|key| self.table.get(**key).is_some()).count();
        if given != 1 {
            self.reader.problem(self.span.clone(), message, help);
        }
        given == 1
    }

    /// Ends the reading of this table and reports every key that was never read.
    pub fn finish(self) {
        for (key, _) in self.table {
            let name: &str = key.get_ref();
            if !self.known.contains(&name) {
                let help = match nearest(name, self.known.iter().copied()) {
                    Some(known) => format!("did you mean `{known}`?"),
                    None => format!("the keys here are {}", self.known.join(", ")),
                };
                self.reader.problem(key.span(), format!("there is no key `{name}` here"), &help);
            }
        }
    }
}

fn count_of(
    reader: &Reader,
    key: &str,
    value: &Spanned<DeValue<'_>>,
    range: RangeInclusive<u64>,
) -> Option<u64> {
    let number = value.get_ref().as_integer().and_then(|number| decimal(number).parse().ok());
    let found = number.filter(|number| range.contains(number));
    if found.is_none() {
        let (low, high) = (range.start(), range.end());
        let expected = if *high == u64::MAX {
            format!("`{key}` must be a whole number, {low} or more")
        } else {
            format!("`{key}` must be a whole number from {low} to {high}")
        };
        reader.problem(value.span(), expected, "");
    }
    found
}

/// Parses a number in TOML's notation. `None` if it is infinite, not a number, or too large.
fn finite(text: &str) -> Option<f64> {
    text.replace('_', "").parse().ok().filter(|number: &f64| number.is_finite())
}
