//! Reads TOML tables key by key, and collects all their problems with place.
//!
//! Invariants:
//!
//! * A key that no code asked for is a problem (see [`Keys::finish`]), so a misspelt key is never
//!   ignored.
//! * A problem does not stop the reading, so that one run reports all of them. The value returned
//!   for a faulty key is only a placeholder.

use config::quantity::parse_duration;
use config::{Diagnostic, Place};
use std::cell::RefCell;
use std::ops::{Range, RangeInclusive};
use std::sync::Arc;
use std::time::Duration;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A text and the problems found in it so far.
pub(crate) struct Reader {
    name: Arc<str>,
    text: Arc<str>,
    problems: RefCell<Vec<Diagnostic>>,
}

impl Reader {
    pub(crate) fn new(name: &str, text: &str) -> Self {
        Self { name: name.into(), text: text.into(), problems: RefCell::default() }
    }

    /// Reports a problem at a byte range of the text. An empty `help` adds no hint.
    pub(crate) fn problem(&self, span: Range<usize>, message: impl Into<String>, help: &str) {
        let place = Place::Text { name: self.name.clone(), text: self.text.clone(), span };
        let problem = Diagnostic::new(message, place);
        let problem = if help.is_empty() { problem } else { problem.with_help(help) };
        self.problems.borrow_mut().push(problem);
    }

    /// Whether no problem was found so far.
    pub(crate) fn is_clean(&self) -> bool {
        self.problems.borrow().is_empty()
    }

    /// Returns the problems, sorted by position.
    pub(crate) fn into_problems(self) -> Vec<Diagnostic> {
        let mut problems = self.problems.into_inner();
        problems.sort_by_key(|problem| match &problem.place {
            Place::Text { span, .. } => span.start,
            _ => 0,
        });
        problems
    }
}

/// The keys of one table. Each key that is read is remembered as known.
pub(crate) struct Keys<'r, 't> {
    pub(crate) reader: &'r Reader,
    table: &'r DeTable<'t>,
    /// Place of the table; missing keys are reported here.
    pub(crate) span: Range<usize>,
    known: Vec<&'static str>,
}

impl<'r, 't> Keys<'r, 't> {
    pub(crate) fn new(reader: &'r Reader, table: &'r DeTable<'t>, span: Range<usize>) -> Self {
        Self { reader, table, span, known: Vec::new() }
    }

    /// Returns the raw value of a key and marks the key as known.
    pub(crate) fn value(&mut self, key: &'static str) -> Option<&'r Spanned<DeValue<'t>>> {
        if !self.known.contains(&key) {
            self.known.push(key);
        }
        self.table.get(key)
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

    pub(crate) fn text(&mut self, key: &'static str) -> Option<Spanned<String>> {
        self.read(key, "a text in quotes", |value| value.as_str().map(str::to_owned))
    }

    /// Reads a text that must exist and must not be empty.
    pub(crate) fn required_text(&mut self, key: &'static str, example: &str) -> Spanned<String> {
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
    pub(crate) fn missing(&self, key: &str, example: &str) {
        self.reader.problem(self.span.clone(), format!("`{key}` is missing"), &format!("add {example}"));
    }

    pub(crate) fn flag(&mut self, key: &'static str) -> Option<bool> {
        self.read(key, "true or false", DeValue::as_bool).map(Spanned::into_inner)
    }

    pub(crate) fn count(&mut self, key: &'static str, range: RangeInclusive<u64>) -> Option<u64> {
        let value = self.value(key)?;
        count_of(self.reader, key, value, range)
    }

    pub(crate) fn counts(&mut self, key: &'static str, range: RangeInclusive<u64>) -> Option<Vec<u64>> {
        let items = self.items(key, "a list of whole numbers")?;
        Some(items.iter().filter_map(|item| count_of(self.reader, key, item, range.clone())).collect())
    }

    pub(crate) fn duration(&mut self, key: &'static str) -> Option<Duration> {
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

    /// Reads a text, a number or a boolean as a JSON value.
    pub(crate) fn json(&mut self, key: &'static str) -> Option<serde_json::Value> {
        let found = self.read(key, "a text, a number, true or false", |value| match value {
            DeValue::String(text) => Some(text.to_string().into()),
            DeValue::Boolean(flag) => Some((*flag).into()),
            DeValue::Integer(number) => number.as_str().replace('_', "").parse::<i64>().ok().map(Into::into),
            DeValue::Float(number) => number.as_str().replace('_', "").parse::<f64>().ok().map(Into::into),
            _ => None,
        });
        found.map(Spanned::into_inner)
    }

    pub(crate) fn number(&mut self, key: &'static str) -> Option<f64> {
        let found = self.read(key, "a number", |value| match value {
            DeValue::Integer(number) => number.as_str().replace('_', "").parse().ok(),
            DeValue::Float(number) => number.as_str().replace('_', "").parse().ok(),
            _ => None,
        });
        found.map(Spanned::into_inner)
    }

    /// Returns the elements of a list; `None` if the key is missing or not a list.
    pub(crate) fn items(&mut self, key: &'static str, expected: &str) -> Option<&'r [Spanned<DeValue<'t>>]> {
        let value = self.value(key)?;
        let items = value.get_ref().as_array();
        if items.is_none() {
            self.wrong_kind(key, expected, value);
        }
        items.map(|items| &**items)
    }

    pub(crate) fn texts(&mut self, key: &'static str) -> Option<Vec<Spanned<String>>> {
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

    /// Returns the texts of a table with free keys; `None` if there is no table.
    pub(crate) fn named_texts(&mut self, key: &'static str) -> Option<Vec<(String, Spanned<String>)>> {
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
    pub(crate) fn tables(&mut self, key: &'static str) -> Vec<Self> {
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
    pub(crate) fn table(&mut self, key: &'static str) -> Option<Self> {
        let value = self.value(key)?;
        let table = value.get_ref().as_table();
        if table.is_none() {
            self.wrong_kind(key, &format!("a table, begun by a line [{key}]"), value);
        }
        Some(Keys::new(self.reader, table?, value.span()))
    }

    /// Checks that exactly one of these keys is present, and reports a problem if not.
    pub(crate) fn exactly_one(&self, keys: &[&str], message: &str, help: &str) -> bool {
        let given = keys.iter().filter(|key| self.table.get(**key).is_some()).count();
        if given != 1 {
            self.reader.problem(self.span.clone(), message, help);
        }
        given == 1
    }

    /// Ends the reading of this table and reports every key that was never asked for.
    pub(crate) fn finish(self) {
        for (key, _) in self.table {
            let name: &str = key.get_ref();
            if !self.known.contains(&name) {
                let help = match config::nearest(name, self.known.iter().copied()) {
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
    let number =
        value.get_ref().as_integer().and_then(|number| number.as_str().replace('_', "").parse().ok());
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
