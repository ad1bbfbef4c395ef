//! The copyright notices and licences of the crates in the program. Most licences demand that a
//! copy of the program comes with them.
//!
//! Invariant: each text appears once, with the names of all crates that it is for.

use super::components::Component;
use anyhow::Result;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;

/// Beginnings of the names of files with notices, in lower case.
const NAMES: [&str; 5] = ["license", "licence", "copying", "copyright", "notice"];

/// All notices in one text.
pub(super) fn text(components: &[Component]) -> Result<String> {
    let mut text = "Petasos contains these crates:\n\n".to_owned();
    let mut notices: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for component in components.iter().filter(|component| !component.is_own()) {
        let name = format!("{} {}", component.name, component.version);
        writeln!(text, "{name}: {}", component.licence)?;
        let mut files: Vec<_> = fs::read_dir(&component.directory)?.collect::<Result<_, _>>()?;
        files.sort_by_key(fs::DirEntry::file_name);
        for file in files.iter().filter(|file| is_notice(&file.file_name().to_string_lossy())) {
            // A directory of licences, or a text in another encoding, is left out.
            if let Ok(notice) = fs::read_to_string(file.path()) {
                let users = notices.entry(notice.trim().to_owned()).or_default();
                if !users.contains(&name) {
                    users.push(name.clone());
                }
            }
        }
    }
    for (notice, users) in notices {
        write!(text, "\n\n{}\n{}\n\n{notice}\n", "=".repeat(80), users.join(", "))?;
    }
    Ok(text)
}

fn is_notice(file: &str) -> bool {
    let file = file.to_lowercase();
    NAMES.iter().any(|name| file.starts_with(name)) && !file.ends_with(".rs")
}
