//! Settings by level: flags, tables and the top of the file, and below them the defaults.
//!
//! Invariant: the value of a setting is that of the strongest level that states it.

use crate::ReadFile;
use crate::document::{Level, Located, Overrides};
use crate::peers::{self, PeerEntry};
use crate::setting::{Setting, SettingValue};
use crate::table::SETTINGS;
use address::{Address, Prefixes};
use document::{Diagnostic, Place};
use profiles::Pattern;
use std::time::Duration;

/// Levels of settings, the strongest first. The table's defaults come below all levels.
pub(crate) struct SettingLevels<'a> {
    pub(crate) levels: Vec<&'a Level>,
}

impl SettingLevels<'_> {
    pub(crate) fn stated(&self, key: &'static str) -> Option<&SettingValue> {
        self.levels.iter().find_map(|level| level.get(key)).map(|located| &located.value)
    }

    pub(crate) fn value(&self, key: &'static str) -> Option<SettingValue> {
        self.stated(key).cloned().or_else(|| default(row(key)))
    }

    pub(crate) fn required(&self, key: &'static str) -> SettingValue {
        #[expect(
            clippy::expect_used,
            reason = "only called for keys whose row has a default; a test calls all"
        )]
        self.value(key).expect("the row has a default")
    }

    pub(crate) fn address(&self, key: &'static str) -> Address {
        match self.required(key) {
            SettingValue::Address(address) => address,
            other => unreachable!("the table gives {other:?} for `{key}`, which is no address"),
        }
    }

    pub(crate) fn count(&self, key: &'static str) -> Option<u64> {
        match self.value(key) {
            Some(SettingValue::Count(count)) => Some(count),
            _ => None,
        }
    }

    /// The place where a setting was written. `None` if it was left out.
    pub(crate) fn place(&self, key: &'static str) -> Option<Place> {
        self.levels.iter().find_map(|level| level.get(key)).map(|located| located.place.clone())
    }

    pub(crate) fn duration(&self, key: &'static str) -> Option<Duration> {
        match self.value(key) {
            Some(SettingValue::Duration(duration)) => Some(duration),
            _ => None,
        }
    }

    pub(crate) fn peers(
        &self,
        key: &'static str,
        read: &ReadFile<'_>,
        problems: &mut Vec<Diagnostic>,
    ) -> Option<Prefixes> {
        let Some(SettingValue::Peers(entries)) = self.stated(key) else { return None };
        let place = self.place(key).unwrap_or(Place::Default);
        if key == "purge_peers"
            && let Some(PeerEntry::Cdn(cdn)) = entries.iter().find(|entry| matches!(entry, PeerEntry::Cdn(_)))
        {
            let message = format!("every customer of {} could purge through `purge_peers`", cdn.name);
            let help = "let the application purge with a token: set `token_file`";
            problems.push(Diagnostic::new(message, place.clone()).with_help(help));
        }
        Some(peers::resolve(entries, &place, read, problems))
    }

    pub(crate) fn patterns(&self, key: &'static str) -> Vec<Pattern> {
        match self.value(key) {
            Some(SettingValue::Texts(texts)) => texts.iter().map(|text| Pattern::new(text)).collect(),
            _ => Vec::new(),
        }
    }

    pub(crate) fn size(&self, key: &'static str) -> Option<u64> {
        match self.value(key) {
            Some(SettingValue::Size(bytes)) => Some(bytes),
            _ => None,
        }
    }

    pub(crate) fn text(&self, key: &'static str) -> Option<&str> {
        match self.stated(key) {
            Some(SettingValue::Text(text)) => Some(text),
            _ => row(key).default,
        }
    }
}

/// The table's row for a key from the code.
fn row(key: &str) -> &'static Setting {
    #[expect(clippy::expect_used, reason = "keys named in code are in the table; a test resolves them all")]
    SETTINGS.iter().find(|setting| setting.key == key).expect("the key is in the table")
}

fn default(setting: &Setting) -> Option<SettingValue> {
    #[expect(clippy::expect_used, reason = "a test parses every default")]
    setting.default.map(|text| setting.kind.parse(text).expect("the default is legal"))
}

/// Parses the flags' values into a level. Returns the problems with them too.
pub(crate) fn read_flags(overrides: &Overrides) -> (Level, Vec<Diagnostic>) {
    let (mut level, mut problems) = (Level::new(), Vec::new());
    for (key, text) in overrides {
        let setting = row(key);
        let place = Place::Flag(setting.flag.unwrap_or(setting.key).to_owned());
        match setting.parse_flag(text) {
            Ok(value) => {
                level.insert(setting.key, Located { value, place });
            }
            Err(message) => problems.push(Diagnostic::new(message, place)),
        }
    }
    (level, problems)
}
