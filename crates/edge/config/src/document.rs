//! The configuration as the user wrote it: keys and values are checked against the settings table,
//! and each value keeps its place in the text. Contradictions between values are found later, when
//! the plan is resolved.

use crate::diagnostic::{Diagnostic, Place};
use crate::setting::{Scope, Setting, Value};
use crate::table::SETTINGS;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Settings given by flags, as `(key, value)` pairs in the table's spelling. They win over the
/// document.
pub type Overrides = Vec<(&'static str, String)>;

/// A value and its place.
#[derive(Clone, Debug)]
pub(crate) struct Located {
    pub(crate) value: Value,
    pub(crate) place: Place,
}

/// The settings of one level (flags, top of the file, or one site), by key.
pub(crate) type Level = BTreeMap<&'static str, Located>;

/// A configuration text in which every key is known and every value has the kind of its row.
#[derive(Clone, Debug)]
pub struct Document {
    /// The settings at the top of the file.
    pub(crate) top: Level,
    /// The `[[site]]` tables in order, each with the place of its header.
    pub(crate) sites: Vec<(Level, Place)>,
}

impl Document {
    /// Reads a configuration text. `name` is the text's name in messages. An empty text is a valid
    /// document.
    ///
    /// # Errors
    /// All unknown keys and all values that their rows refuse, in the order of the text. A syntax
    /// error is reported alone.
    pub fn parse(name: &str, text: &str) -> Result<Self, Vec<Diagnostic>> {
        let mut reader = Reader { name: name.into(), text: text.into(), problems: Vec::new() };
        let document = match DeTable::parse(text) {
            Ok(table) => reader.document(table.get_ref()),
            Err(error) => {
                let span = error.span().unwrap_or(0..0);
                reader.problem(error.message(), span);
                Self { top: Level::new(), sites: Vec::new() }
            }
        };
        if reader.problems.is_empty() {
            return Ok(document);
        }
        reader.problems.sort_by_key(Diagnostic::line);
        Err(reader.problems)
    }
}

/// Walks the parsed TOML and collects problems.
struct Reader {
    name: Arc<str>,
    text: Arc<str>,
    problems: Vec<Diagnostic>,
}

impl Reader {
    fn place(&self, span: Range<usize>) -> Place {
        Place::Text { name: self.name.clone(), text: self.text.clone(), span }
    }

    fn problem(&mut self, message: impl Into<String>, span: Range<usize>) -> &mut Diagnostic {
        let place = self.place(span);
        self.problems.push(Diagnostic::new(message, place));
        let last = self.problems.len() - 1;
        #[expect(clippy::indexing_slicing, reason = "an element was pushed just above")]
        &mut self.problems[last]
    }

    fn document(&mut self, table: &DeTable<'_>) -> Document {
        let mut top = Level::new();
        let mut sites = Vec::new();
        for (key, value) in table {
            if key.get_ref().as_ref() == "site" {
                sites = self.sites(value);
            } else {
                self.entry("", key, value, None, &mut top);
            }
        }
        Document { top, sites }
    }

    fn sites(&mut self, value: &Spanned<DeValue<'_>>) -> Vec<(Level, Place)> {
        let Some(items) = value.get_ref().as_array() else {
            self.problem("`site` must be a list of tables", value.span()).help =
                Some("start each site with a line [[site]]".to_owned());
            return Vec::new();
        };
        let mut sites = Vec::new();
        for item in items {
            let mut level = Level::new();
            match item.get_ref().as_table() {
                Some(table) => {
                    for (key, value) in table {
                        self.entry("", key, value, Some(Scope::Site), &mut level);
                    }
                }
                None => {
                    self.problem("a site must be a table", item.span());
                }
            }
            sites.push((level, self.place(item.span())));
        }
        sites
    }

    /// Reads one key and its value into `level`.
    ///
    /// `prefix` is empty at the top; inside a table it is the table's name with a dot. If `only` is
    /// given, settings of any other scope are a problem.
    fn entry(
        &mut self,
        prefix: &str,
        key: &Spanned<std::borrow::Cow<'_, str>>,
        value: &Spanned<DeValue<'_>>,
        only: Option<Scope>,
        level: &mut Level,
    ) {
        let full = format!("{prefix}{}", key.get_ref());
        if let Some(setting) = SETTINGS.iter().find(|setting| setting.key == full) {
            if only.is_some_and(|scope| scope != setting.scope) {
                self.problem(format!("`{full}` is not a setting of a [[site]]"), key.span()).help =
                    Some("write it at the top of the file; it applies to all sites".to_owned());
            } else if let Some(located) = self.value(setting, value) {
                level.insert(setting.key, located);
            }
            return;
        }
        let inner = format!("{full}.");
        match value.get_ref().as_table() {
            Some(table) if SETTINGS.iter().any(|setting| setting.key.starts_with(&inner)) => {
                for (key, value) in table {
                    self.entry(&inner, key, value, only, level);
                }
            }
            _ => {
                self.problem(format!("there is no setting `{full}`"), key.span()).help = Some(advice(&full));
            }
        }
    }

    fn value(&mut self, setting: &Setting, value: &Spanned<DeValue<'_>>) -> Option<Located> {
        let place = self.place(value.span());
        let parsed = match value.get_ref() {
            DeValue::Integer(number) if setting.kind.is_number() => setting.kind.parse(number.as_str()),
            DeValue::Boolean(on) if setting.kind.is_switch() => setting.kind.parse(&on.to_string()),
            DeValue::String(text) if !setting.kind.is_number() && !setting.kind.is_switch() => {
                setting.kind.parse(text)
            }
            DeValue::Array(items) if setting.kind.is_list() => return self.list(setting, items, place),
            other => Err(format!("expected {}, found {}", setting.kind.name(), other.type_str())),
        };
        match parsed {
            Ok(value) => Some(Located { value, place }),
            Err(message) => {
                let example = setting.default.map(|default| format!("the default is {default}"));
                self.problem(format!("`{}`: {message}", setting.key), value.span()).help = example;
                None
            }
        }
    }

    fn list(&mut self, setting: &Setting, items: &toml::de::DeArray<'_>, place: Place) -> Option<Located> {
        let mut joined: Option<Value> = None;
        for item in items {
            let parsed = match item.get_ref() {
                DeValue::Integer(number) if setting.kind.has_numbers() => setting.kind.parse(number.as_str()),
                DeValue::String(text) if !setting.kind.has_numbers() => setting.kind.parse(text),
                _ => Err(format!("expected {}, found {}", setting.kind.name(), item.get_ref().type_str())),
            };
            match parsed {
                Ok(value) => {
                    joined = Some(joined.map_or_else(|| value.clone(), |list| list.joined(value.clone())))
                }
                Err(message) => {
                    self.problem(format!("`{}`: {message}", setting.key), item.span());
                }
            }
        }
        joined.map(|value| Located { value, place })
    }
}

/// Advice for an unknown key.
fn advice(key: &str) -> String {
    match nearest(key, SETTINGS.iter().map(|setting| setting.key)) {
        Some(known) => format!("did you mean `{known}`?"),
        None => "docs/settings.md lists all settings".to_owned(),
    }
}

/// The name in `known` with the least edit distance from `key`. `None` if the distance is more than
/// a third of the name's length, rounded up: then it is hardly a typing error.
pub fn nearest<'a>(key: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    known
        .map(|known| (edit_distance(key, known), known))
        .min()
        .filter(|(distance, known)| *distance <= known.len().div_ceil(3))
        .map(|(_, known)| known)
}

/// The least number of insertions, deletions and replacements that turn one text into the other
/// (Levenshtein 1966). Counts bytes, and keeps one row of the table.
fn edit_distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, byte) in a.bytes().enumerate() {
        let mut above_left = i;
        let mut left = i + 1;
        for (cell, other) in row.iter_mut().skip(1).zip(b.bytes()) {
            let replaced = above_left + usize::from(byte != other);
            above_left = *cell;
            left = replaced.min(*cell + 1).min(left + 1);
            *cell = left;
        }
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::edit_distance;

    #[test]
    fn edit_distance_of_known_pairs() {
        assert_eq!(edit_distance("", "abc"), 3);
        assert_eq!(edit_distance("kitten", "sitting"), 3);
        assert_eq!(edit_distance("same", "same"), 0);
    }
}
