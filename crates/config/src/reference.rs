//! Renders docs/settings.md from the settings table. A test compares the file with this text.

use crate::setting::Scope;
use crate::table::SETTINGS;
use std::fmt::Write;

/// The reference of all settings as Markdown.
pub fn settings_reference() -> String {
    let mut page = String::from(
        "# Settings\n\n\
         `petasos serve FILE` reads a TOML file; `petasos check FILE` reads it, resolves it and explains what is\n\
         wrong, without binding anything. A dot in a key stands for a TOML table: `limits.queue_max` is `queue_max`\n\
         in `[limits]`. A setting of a *site* stands in a `[[site]]`, or at the top as the default of all sites;\n\
         without any `[[site]]` the top describes the only one. An unknown key is an error. A flag wins over the file.\n\n\
         This page is rendered from the settings table by `cargo xtask docs`.\n\n\
         | setting | of | accepts | default | flag | what it does |\n|---|---|---|---|---|---|\n",
    );
    for setting in SETTINGS {
        let scope = match setting.scope {
            Scope::Global => "edge",
            Scope::Site => "site",
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
