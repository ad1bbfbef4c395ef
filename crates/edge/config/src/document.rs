//! The configuration as the user wrote it: keys and values are checked against the settings table,
//! and each value keeps its place in the text. Contradictions between values are found later, when
//! the plan is resolved.

use crate::ReadFile;
use crate::setting::{Setting, SettingKind, SettingScope, SettingValue};
use crate::table::SETTINGS;
use document::{Diagnostic, Place, Reader, decimal, nearest};
use std::collections::BTreeMap;
use std::path::Path;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Settings given by flags, as `(key, value)` pairs in the table's spelling. They win over the
/// document.
pub type Overrides = Vec<(&'static str, String)>;

/// A value and its place.
#[derive(Clone, Debug)]
pub(crate) struct Located {
    pub(crate) value: SettingValue,
    pub(crate) place: Place,
}

/// The settings of one level (flags, top of the file, one site or one listener), by key.
pub(crate) type Level = BTreeMap<&'static str, Located>;

/// A configuration text in which every key is known and every value has the kind of its row.
#[derive(Clone, Debug)]
pub struct ConfigDocument {
    /// The settings at the top of the file.
    pub(crate) top: Level,
    /// The `[[site]]` tables in order.
    pub(crate) sites: Vec<SiteTable>,
    /// The `[[listener]]` tables in order, each with the place of its header.
    pub(crate) listeners: Vec<(Level, Place)>,
}

/// A `[[site]]` table.
#[derive(Clone, Debug)]
pub(crate) struct SiteTable {
    pub(crate) level: Level,
    /// The place of its header.
    pub(crate) place: Place,
    /// Its `[[site.route]]` tables in order, each with the place of its header.
    pub(crate) routes: Vec<(Level, Place)>,
}

impl ConfigDocument {
    /// Reads a configuration text. `name` is the text's name in messages. An empty text is a valid
    /// document.
    ///
    /// # Errors
    /// All unknown keys and all values that their rows refuse, in the order of the text. A syntax
    /// error is reported alone.
    pub fn parse(name: &str, text: &str) -> Result<Self, Vec<Diagnostic>> {
        Self::parse_as(name, text, false)
    }

    /// Reads the files that the document includes, and adds their tables.
    ///
    /// # Errors
    /// All problems of these files, and those that cannot be read.
    pub(crate) fn with_includes(mut self, name: &str, read: &ReadFile<'_>) -> Result<Self, Vec<Diagnostic>> {
        let Some(Located { value: SettingValue::Texts(paths), place }) = self.top.remove("include") else {
            return Ok(self);
        };
        let mut problems = Vec::new();
        for path in &paths {
            let path = Path::new(name).parent().unwrap_or_else(|| Path::new("")).join(path);
            let path = path.to_string_lossy();
            match read(&path) {
                Ok(text) => match Self::parse_as(&path, &text, true) {
                    Ok(included) => {
                        self.sites.extend(included.sites);
                        self.listeners.extend(included.listeners);
                    }
                    Err(more) => problems.extend(more),
                },
                Err(error) => {
                    let text = format!("cannot read the included file {path}: {error}");
                    problems.push(Diagnostic::new(text, place.clone()));
                }
            }
        }
        if problems.is_empty() { Ok(self) } else { Err(problems) }
    }

    /// Reads a text. `is_included`: it may have tables of sites and listeners only.
    fn parse_as(name: &str, text: &str, is_included: bool) -> Result<Self, Vec<Diagnostic>> {
        let walk = DocumentWalk { reader: Reader::new(name, text), is_included };
        let document = walk.reader.parse(text).map(|table| walk.document(table.get_ref()));
        let problems = walk.reader.into_problems();
        document.filter(|_| problems.is_empty()).ok_or(problems)
    }
}

/// Walks the parsed TOML by the table of settings.
struct DocumentWalk {
    reader: Reader,
    /// Whether another file includes this one.
    is_included: bool,
}

impl DocumentWalk {
    fn document(&self, table: &DeTable<'_>) -> ConfigDocument {
        let mut top = Level::new();
        let (mut sites, mut listeners) = (Vec::new(), Vec::new());
        for (key, value) in table {
            match key.get_ref().as_ref() {
                "site" => sites = self.sites(value),
                "listener" => listeners = self.tables("listener", SettingScope::Listener, value),
                _ if self.is_included => {
                    let text = format!("`{}` stands outside of a [[site]] or [[listener]]", key.get_ref());
                    let help = "write it into a table, or into the file that includes this one";
                    self.reader.problem(key.span(), text, help);
                }
                _ => self.entry("", key, value, SettingScope::Global, &mut top),
            }
        }
        ConfigDocument { top, sites, listeners }
    }

    fn sites(&self, value: &Spanned<DeValue<'_>>) -> Vec<SiteTable> {
        let mut sites = Vec::new();
        for (item, place) in self.items("site", value) {
            let mut site = SiteTable { level: Level::new(), place, routes: Vec::new() };
            for (key, value) in item {
                match key.get_ref().as_ref() {
                    "route" => site.routes = self.tables("site.route", SettingScope::Route, value),
                    _ => self.entry("", key, value, SettingScope::Host, &mut site.level),
                }
            }
            sites.push(site);
        }
        sites
    }

    /// Reads the tables of one name, which may have settings of this scope only.
    fn tables(&self, name: &str, scope: SettingScope, value: &Spanned<DeValue<'_>>) -> Vec<(Level, Place)> {
        let mut tables = Vec::new();
        for (item, place) in self.items(name, value) {
            let mut level = Level::new();
            item.iter().for_each(|(key, value)| self.entry("", key, value, scope, &mut level));
            tables.push((level, place));
        }
        tables
    }

    /// The tables of a list, each with the place of its header.
    fn items<'t, 'd>(&self, name: &str, value: &'t Spanned<DeValue<'d>>) -> Vec<(&'t DeTable<'d>, Place)> {
        let Some(items) = value.get_ref().as_array() else {
            let help = format!("start each {name} with a line [[{name}]]");
            self.reader.problem(value.span(), format!("`{name}` must be a list of tables"), &help);
            return Vec::new();
        };
        let mut tables = Vec::new();
        for item in items {
            match item.get_ref().as_table() {
                Some(table) => tables.push((table, self.reader.place(item.span()))),
                None => self.reader.problem(item.span(), format!("a {name} must be a table"), ""),
            }
        }
        tables
    }

    /// Reads one key and its value into `level`.
    ///
    /// `prefix` is empty at the top; inside a table it is the table's name with a dot. Settings
    /// that a table of the scope `table` does not admit are a problem.
    fn entry(
        &self,
        prefix: &str,
        key: &Spanned<std::borrow::Cow<'_, str>>,
        value: &Spanned<DeValue<'_>>,
        table: SettingScope,
        level: &mut Level,
    ) {
        let full = format!("{prefix}{}", key.get_ref());
        if let Some(setting) = SETTINGS.iter().find(|setting| setting.key == full) {
            if !table.admits(setting.scope) {
                let place = match table {
                    SettingScope::Global => "for the top of the file".to_owned(),
                    _ => format!("of a [[{}]]", table.table()),
                };
                let message = format!("`{full}` is not a setting {place}");
                self.reader.problem(key.span(), message, setting.scope.advice());
            } else if let Some(located) = self.value(setting, value) {
                level.insert(setting.key, located);
            }
            return;
        }
        let inner = format!("{full}.");
        match value.get_ref().as_table() {
            Some(entries) if SETTINGS.iter().any(|setting| setting.key.starts_with(&inner)) => {
                for (key, value) in entries {
                    self.entry(&inner, key, value, table, level);
                }
            }
            _ if full == "route" => {
                let help = "begin the site with [[site]], and each of its routes with [[site.route]]";
                self.reader.problem(key.span(), "a route belongs to a [[site]]", help);
            }
            _ => self.reader.problem(key.span(), format!("there is no setting `{full}`"), &advice(&full)),
        }
    }

    fn value(&self, setting: &Setting, value: &Spanned<DeValue<'_>>) -> Option<Located> {
        let place = self.reader.place(value.span());
        let parsed = match value.get_ref() {
            DeValue::Integer(number) if setting.kind.is_number() => setting.kind.parse(&decimal(number)),
            DeValue::Boolean(on) if setting.kind.is_switch() => setting.kind.parse(&on.to_string()),
            DeValue::String(text) if !setting.kind.is_number() && !setting.kind.is_switch() => {
                setting.kind.parse(text)
            }
            // Left out, it would mean a plain listener, but an empty list does not say so.
            DeValue::Array(items) if items.is_empty() && setting.kind == SettingKind::Certificates => {
                Err("the list is empty; name a certificate, or leave the setting out".to_owned())
            }
            DeValue::Array(items) if items.is_empty() && setting.kind == SettingKind::Origins => {
                Err("the list is empty; name an origin, or leave the setting out".to_owned())
            }
            DeValue::Array(items) if setting.kind.is_list() => return self.list(setting, items, place),
            other => Err(format!("expected {}, found {}", setting.kind.name(), other.type_str())),
        };
        match parsed {
            Ok(value) => Some(Located { value, place }),
            Err(message) => {
                let example = setting.default.map(|default| format!("the default is {default}"));
                let message = format!("`{}`: {message}", setting.key);
                self.reader.problem(value.span(), message, &example.unwrap_or_default());
                None
            }
        }
    }

    fn list(&self, setting: &Setting, items: &toml::de::DeArray<'_>, place: Place) -> Option<Located> {
        // An empty list is a statement: the entries of weaker levels do not apply.
        let mut joined = if items.is_empty() { setting.kind.empty_list() } else { None };
        for item in items {
            let parsed = match item.get_ref() {
                DeValue::Integer(number) if setting.kind.has_numbers() => {
                    setting.kind.parse(&decimal(number))
                }
                DeValue::String(text) if !setting.kind.has_numbers() => setting.kind.parse(text),
                _ => Err(format!("expected {}, found {}", setting.kind.name(), item.get_ref().type_str())),
            };
            match parsed {
                Ok(value) => {
                    joined = Some(joined.map_or_else(|| value.clone(), |list| list.joined(value.clone())))
                }
                Err(message) => {
                    self.reader.problem(item.span(), format!("`{}`: {message}", setting.key), "");
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
