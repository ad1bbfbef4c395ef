//! Rows of the settings table.

use crate::setting::{Setting, SettingKind, SettingScope};

pub(crate) const fn row(
    key: &'static str,
    scope: SettingScope,
    kind: SettingKind,
    default: Option<&'static str>,
    doc: &'static str,
) -> Setting {
    Setting { key, scope, kind, default, flag: None, doc }
}

pub(crate) const fn global(
    key: &'static str,
    kind: SettingKind,
    default: &'static str,
    doc: &'static str,
) -> Setting {
    row(key, SettingScope::Global, kind, Some(default), doc)
}

pub(crate) const fn site(
    key: &'static str,
    kind: SettingKind,
    default: Option<&'static str>,
    doc: &'static str,
) -> Setting {
    row(key, SettingScope::Site, kind, default, doc)
}

impl Setting {
    pub(crate) const fn flag(mut self, flag: &'static str) -> Self {
        self.flag = Some(flag);
        self
    }
}
