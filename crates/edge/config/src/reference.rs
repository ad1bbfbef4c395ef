//! Renders docs/settings.md from the settings table. A test compares the file with this text.

use crate::setting::SettingScope;
use crate::table::SETTINGS;
use std::fmt::Write;

/// The reference of all settings as Markdown.
pub fn settings_reference() -> String {
    let mut page = String::from(
        "# Settings\n\n\
         You configure Petasos with a TOML file or with flags. `petasos serve FILE` runs the edge with the\n\
         settings of FILE. `petasos check FILE` reads and resolves the file and explains every mistake; it\n\
         opens no port.\n\n\
         A dot in a key means a TOML table: `limits.queue_max` is `queue_max` in `[limits]`. Write a setting\n\
         of a *site* in a `[[site]]` table, or at the top of the file as the default for all sites. Without\n\
         any `[[site]]`, the top describes the only site. A `[[site.route]]` table below a `[[site]]` has\n\
         settings of a *route*, which say which requests it is for, and settings of a site that replace\n\
         those of the site; settings of a *host* belong to the site alone. Write the settings of several\n\
         *listeners* in `[[listener]]` tables; without any, the top describes the only one. An unknown key\n\
         is an error. A flag takes precedence over the file.\n\n\
         This page is rendered from the settings table by `cargo xtask docs`.\n\n\
         | setting | of | accepts | default | flag | meaning |\n|---|---|---|---|---|---|\n",
    );
    for setting in SETTINGS {
        let scope = match setting.scope {
            SettingScope::Global => "edge",
            SettingScope::Listener => "listener",
            SettingScope::Host => "host",
            SettingScope::Site => "site",
            SettingScope::Route => "route",
        };
        let code = |text: Option<&str>| text.map_or_else(String::new, |text| format!("`{text}`"));
        // Writing into a String cannot fail.
        let _ = writeln!(
            page,
            "| `{}` | {scope} | {} | {} | {} | {} |",
            setting.key,
            setting.kind.name(),
            code(setting.default),
            code(setting.flag),
            setting.doc,
        );
    }
    page
}
